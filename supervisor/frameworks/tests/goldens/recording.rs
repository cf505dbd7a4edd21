//! The recordings of a framework as data, and their replay by the framework's adapter.

use crate::proof::REPORTERS;
use crate::render;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::{TestCase, TestId};
use proctor_frameworks::{FileTree, Framework, Parser, Plan, PlanRequest, Step, StreamSummary};
use std::path::PathBuf;

/// Where a runner wrote bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Channel {
    Stdout,
    Stderr,
    Report,
    /// A file that a step left; the function gives its path by the number of the step.
    File(fn(usize) -> String),
}

use Channel::{File, Report, Stderr, Stdout};

/// A run that proctor killed while one test was running and after another had passed.
pub(crate) struct Killed {
    pub(crate) name: &'static str,
    /// Node id of the test that had passed.
    pub(crate) passed: &'static str,
    /// Package and name of the running test.
    pub(crate) running: (&'static str, &'static str),
}

/// The recordings of one framework, and how they are replayed. A recording `NAME` is the files `goldens/FRAMEWORK/NAME.*`, one for
/// each channel, and `NAME-again.*` for its second step.
pub(crate) struct Recordings {
    pub(crate) framework: &'static dyn Framework,
    /// The channel of a file by its extension. Channels are read in this order.
    pub(crate) channels: &'static [(&'static str, Channel)],
    /// Number of steps before the first recorded one. They print nothing and exit with 0.
    pub(crate) silent_steps: usize,
    /// The project's files.
    pub(crate) workspace: fn(&dyn Framework) -> FileTree,
    /// Requested number of tests at the same time.
    pub(crate) parallel: Option<u32>,
    /// Completes what a step wrote with what depends on the plan.
    pub(crate) complete: fn(&Plan, &mut Output),
    /// Renders a replayed run for its snapshot.
    pub(crate) render: fn(&Replay) -> String,
    /// Of the last channel of a run: the largest number of bytes that do not yet prove that the run was complete.
    pub(crate) unproven_bytes: fn(&[u8]) -> usize,
    /// Replacements that remove the proof of the run `pass`: a text that it wrote, and the text in its place.
    pub(crate) proof: &'static [(&'static str, &'static str)],
    /// Runs that ended by themselves: exit status, and names between spaces. A negative number is a signal.
    pub(crate) runs: &'static [(i32, &'static str)],
    pub(crate) killed: &'static [Killed],
    /// Listings of tests, which exited with 0.
    pub(crate) listings: &'static [&'static str],
}

impl Recordings {
    /// The defaults of a framework whose runner writes a report that ends with a line of its own.
    pub(crate) const fn of(framework: &'static dyn Framework) -> Recordings {
        Recordings {
            framework,
            channels: &[("jsonl", Report)],
            silent_steps: 0,
            workspace: sample,
            parallel: None,
            complete: |_, _| {},
            render: render::whole,
            unproven_bytes: |report| report.len() - 2,
            proof: REPORTERS,
            runs: &[],
            killed: &[],
            listings: &[],
        }
    }

    /// Every recording of the table with its name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, Run)> {
        let killed = self.killed.iter().map(|killed| (killed.name, self.load(killed.name, -9).killed()));
        let listings = self.listings.iter().map(|name| (*name, self.load(name, 0).listing()));
        self.runs().map(|(name, status)| (name, self.load(name, status))).chain(killed).chain(listings)
    }

    /// Name and exit status of the runs that ended by themselves.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&'static str, i32)> {
        self.runs.iter().flat_map(|(status, names)| names.split(' ').map(|name| (name, *status)))
    }

    /// The run of this name in the table.
    pub(crate) fn run(&self, name: &str) -> Run {
        let (_, status) = self.runs().find(|(known, _)| *known == name).unwrap();
        self.load(name, status)
    }

    /// The run of this name, complete as it will be replayed.
    pub(crate) fn completed_run(&self, name: &str) -> Run {
        let (plan, _) = self.plan(&(self.workspace)(self.framework), false);
        let mut run = self.run(name);
        run.steps.iter_mut().for_each(|output| (self.complete)(&plan, output));
        run
    }

    /// The killed run or the listing of this name in the table, as if it had exited by itself with `status`.
    #[expect(clippy::disallowed_methods, reason = "recordings are files")]
    pub(crate) fn load(&self, name: &str, status: i32) -> Run {
        let step = |name: &str| -> Vec<(Channel, Vec<u8>)> {
            let read = |extension| std::fs::read(directory(self.framework).join(format!("{name}.{extension}"))).ok();
            self.channels.iter().filter_map(|(extension, channel)| Some((*channel, read(extension)?))).collect()
        };
        let (first, again) = (step(name), step(&format!("{name}-again")));
        assert!(!first.is_empty(), "{} has no recording {name}", self.framework.name());
        let exit = if status < 0 { Exit::Signal(-status) } else { Exit::Code(status) };
        let steps = [first, again].into_iter().filter(|channels| !channels.is_empty());
        Run { steps: steps.map(|channels| Output { channels, exit }).collect(), is_killed: false, is_listing: false }
    }

    /// The plan of a run in the workspace `tree`, and a parser of it.
    fn plan(&self, tree: &FileTree, is_listing: bool) -> (Plan, Box<dyn Parser>) {
        let (framework, projects) = (self.framework, self.framework.detect(tree));
        let request = PlanRequest { parallel: self.parallel, ..crate::want::want(&Selection::All) };
        if is_listing {
            let plan = framework.plan_listing(&projects, tree, &request).unwrap();
            let parser = framework.listing_parser(&plan, &request);
            return (plan, parser);
        }
        let plan = framework.plan(&projects, tree, &request).unwrap();
        let parser = framework.parser(&plan, &request);
        (plan, parser)
    }

    /// A parser at the start of the first recorded step of a run.
    pub(crate) fn parser(&self) -> Box<dyn Parser> {
        let ((_, mut parser), mut events) = (self.plan(&(self.workspace)(self.framework), false), Vec::new());
        for step in 0..self.silent_steps {
            parser.step_started(step);
            parser.step_ended(Exit::Code(0), false, &mut events);
            assert!(!parser.follow_up().is_empty() && events.is_empty());
        }
        parser.step_started(self.silent_steps);
        parser
    }

    /// Replays a run, each channel in one piece.
    pub(crate) fn replay(&self, run: &Run) -> Replay {
        self.replay_in(&(self.workspace)(self.framework), run)
    }

    /// Replays a run of another workspace.
    pub(crate) fn replay_in(&self, tree: &FileTree, run: &Run) -> Replay {
        self.replay_in_pieces(tree, run, &|_| Vec::new())
    }

    /// Replays a run with its channels cut at the sorted positions that `cuts` returns for a number of bytes.
    pub(crate) fn replay_in_pieces(&self, tree: &FileTree, run: &Run, cuts: &dyn Fn(usize) -> Vec<usize>) -> Replay {
        let (plan, mut parser) = self.plan(tree, run.is_listing);
        let (mut events, mut files, mut follow_ups) = (Vec::new(), Vec::new(), Vec::new());
        let silent = Output { channels: Vec::new(), exit: Exit::Code(0) };
        let steps = std::iter::repeat_n(&silent, self.silent_steps).chain(&run.steps);
        let mut done = 0;
        for (step, output) in steps.enumerate() {
            assert!(step < plan.steps.len() + follow_ups.len(), "the run has no step {step}");
            let mut output = output.clone();
            if step >= self.silent_steps {
                (self.complete)(&plan, &mut output);
            }
            parser.step_started(step);
            for (channel, bytes) in &output.channels {
                let at = [vec![0], cuts(bytes.len()), vec![bytes.len()]].concat();
                for piece in at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]) {
                    match channel {
                        Stdout => parser.stdout(piece, &mut events),
                        Stderr => parser.stderr(piece, &mut events),
                        Report => parser.report(piece, &mut events),
                        File(_) => {}
                    }
                }
                if let File(path) = channel {
                    files.push((path(step), bytes.clone()));
                }
            }
            done = step + 1;
            let is_killed = run.is_killed && done == self.silent_steps + run.steps.len();
            parser.step_ended(output.exit, is_killed, &mut events);
            follow_ups.extend(parser.follow_up());
        }
        parser.files(&files, &mut events);
        Replay {
            steps_left: plan.steps.len() + follow_ups.len() - done,
            plans_report: plan.report,
            follow_ups,
            events,
            nothing_selected: parser.nothing_selected(),
            flaky: parser.flaky(),
            running: parser.running(),
            summary: parser.summary(),
        }
    }
}

/// The workspace of the framework's manifest.
fn sample(framework: &dyn Framework) -> FileTree {
    let mut tree = FileTree::default();
    framework.manifest().sample.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    tree
}

/// Directory of the framework's recordings.
pub(crate) fn directory(framework: &dyn Framework) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens").join(framework.name())
}

/// What one step wrote, and how it ended.
#[derive(Clone)]
pub(crate) struct Output {
    pub(crate) channels: Vec<(Channel, Vec<u8>)>,
    pub(crate) exit: Exit,
}

/// What the steps of a run wrote, from the first recorded one on.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) steps: Vec<Output>,
    /// Whether proctor killed the last step.
    pub(crate) is_killed: bool,
    pub(crate) is_listing: bool,
}

impl Run {
    /// A run of one step.
    pub(crate) fn new(channels: &[(Channel, &[u8])], exit: Exit) -> Run {
        let channels = channels.iter().map(|(channel, bytes)| (*channel, bytes.to_vec())).collect();
        Run { steps: vec![Output { channels, exit }], is_killed: false, is_listing: false }
    }

    /// The run with its last step killed by proctor.
    pub(crate) fn killed(mut self) -> Run {
        self.steps.last_mut().unwrap().exit = Exit::Signal(9);
        Run { is_killed: true, ..self }
    }

    /// The run as a listing of tests.
    pub(crate) fn listing(self) -> Run {
        Run { is_listing: true, ..self }
    }

    /// The bytes of a channel of the last step, by its number in the step.
    pub(crate) fn bytes(&self, channel: usize) -> &[u8] {
        &self.steps.last().unwrap().channels[channel].1
    }

    /// The run with other bytes in the last channel of its last step.
    pub(crate) fn with_last(&self, bytes: &[u8]) -> Run {
        let mut run = self.clone();
        run.steps.last_mut().unwrap().channels.last_mut().unwrap().1 = bytes.to_vec();
        run
    }

    /// The last channel of the last step.
    pub(crate) fn last(&self) -> &[u8] {
        &self.steps.last().unwrap().channels.last().unwrap().1
    }
}

/// Everything that a parser concluded from a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Replay {
    pub(crate) events: Vec<RunnerEvent>,
    /// The steps that the parser asked for.
    pub(crate) follow_ups: Vec<Step>,
    /// Number of steps that the run still had.
    pub(crate) steps_left: usize,
    /// Whether the plan has a report.
    pub(crate) plans_report: bool,
    pub(crate) nothing_selected: bool,
    pub(crate) flaky: u64,
    pub(crate) running: Vec<TestId>,
    pub(crate) summary: StreamSummary,
}

impl Replay {
    /// Whether nothing proves that the run was complete.
    pub(crate) fn is_unproven(&self) -> bool {
        self.summary.proof.is_missing()
    }

    /// The finished tests in their order.
    pub(crate) fn finished(&self) -> impl Iterator<Item = &TestCase> {
        self.events.iter().filter_map(|event| match event {
            RunnerEvent::TestFinished(test) => Some(test.as_ref()),
            RunnerEvent::TestStarted(_) | RunnerEvent::Collector(_) => None,
        })
    }

    /// Whether a test failed.
    pub(crate) fn has_failure(&self) -> bool {
        self.finished().any(|test| test.outcome.is_failure())
    }

    /// The started tests in their order.
    pub(crate) fn started(&self) -> impl Iterator<Item = &TestId> {
        self.events.iter().filter_map(|event| match event {
            RunnerEvent::TestStarted(id) => Some(id),
            RunnerEvent::TestFinished(_) | RunnerEvent::Collector(_) => None,
        })
    }
}
