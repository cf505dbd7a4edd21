//! Follows a run through its rounds, project by project, and says which command comes next. Must not know what the lines
//! of ctest or a compiler look like.

use super::verbose::Verbose;
use super::{build, command, listing::Listing};
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::parsing::line_splitter::{LINE_BYTES_MAX, LineSplitter};
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::{OutputTail, describe_exit};
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::TestId;
use std::collections::HashSet;

/// What ctest says when it has nothing to run.
const NO_TESTS: &str = "No tests were found";

/// What the third round does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Configure,
    Build,
    /// What ctest has to know of the tests.
    Properties,
    Tests,
}

/// What the rounds of a project still need.
#[derive(Debug)]
struct Job {
    dir: String,
    build: Step,
    properties: Option<Step>,
    tests: Vec<Step>,
    /// Names of the tests that are to fail.
    to_fail: HashSet<String>,
}

/// The parser of a run or a listing.
#[derive(Debug)]
pub(super) struct Rounds {
    mode: Mode,
    paths: WorkspacePaths,
    jobs: Vec<Job>,
    /// What each step is, in the order in which they run.
    steps: Vec<(Round, usize)>,
    now: usize,
    next: Vec<Step>,
    lines: LineSplitter,
    said: OutputTail,
    verbose: Verbose,
    listing: Listing,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
    /// Whether ctest said that there was nothing to run.
    nothing_selected: bool,
}

impl Rounds {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>, mode: Mode) -> Rounds {
        let paths = WorkspacePaths::new(request.workspace);
        let job = |dir: &str| Job {
            dir: dir.to_owned(),
            build: command::build(dir, request),
            properties: (plan.report && mode == Mode::Running).then(|| command::properties(dir, request)),
            tests: if mode == Mode::Running { command::test(dir, request) } else { command::list(dir, request) },
            to_fail: HashSet::new(),
        };
        let jobs: Vec<Job> = plan.steps.iter().map(|step| job(&step.dir)).collect();
        Rounds {
            mode,
            steps: (0..jobs.len()).map(|job| (Round::Configure, job)).collect(),
            jobs,
            now: 0,
            next: Vec::new(),
            lines: LineSplitter::default(),
            said: OutputTail::default(),
            verbose: Verbose::new("", "", &paths, HashSet::new()),
            listing: Listing::default(),
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
            nothing_selected: false,
            paths,
        }
    }

    fn step(&self) -> (Round, &str) {
        let (round, job) = self.steps.get(self.now).copied().unwrap_or((Round::Tests, 0));
        (round, self.jobs.get(job).map_or("", |job| job.dir.as_str()))
    }

    /// A project got through a round: the next one's commands.
    fn go_on(&mut self) {
        let Some((round, job)) = self.steps.get(self.now).copied() else { return };
        let Some(steps) = self.jobs.get(job) else { return };
        let next: Vec<(Round, &Step)> = match round {
            Round::Configure => vec![(Round::Build, &steps.build)],
            Round::Build => {
                let properties = steps.properties.iter().map(|step| (Round::Properties, step));
                properties.chain(steps.tests.iter().map(|step| (Round::Tests, step))).collect()
            }
            Round::Properties | Round::Tests => return,
        };
        self.steps.extend(next.iter().map(|(round, _)| (*round, job)));
        self.next.extend(next.into_iter().map(|(_, step)| step.clone()));
    }

    /// Without the list a test that was to fail is told as any that failed.
    fn properties_ended(&mut self) {
        let job = self.steps.get(self.now).and_then(|(_, job)| self.jobs.get_mut(*job));
        if let (Some(job), Ok(names)) = (job, std::mem::take(&mut self.listing).to_fail()) {
            job.to_fail = names.into_iter().take(TEST_CASES_MAX).collect();
        }
    }

    fn tests_ended(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let why = format!("ctest {}", describe_exit(exit));
        self.verbose.close(&why, events);
        self.nothing_selected = self.said.text().contains(NO_TESTS) && self.verbose.told() == 0;
        if self.nothing_selected {
            return self.proofs.waive();
        }
        if self.verbose.doubled {
            self.notes.add("several tests have the same name: all but the first are told with their number".to_owned());
        }
        let place = command_directory(self.jobs.iter().flat_map(|job| &job.tests), self.verbose.project.as_deref());
        if !place {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self
                .notes
                .add("ctest looked elsewhere than where it was told to: CMake 3.20 or later is needed".to_owned());
        }
        if self.verbose.is_whole() {
            self.proofs.record(self.verbose.told());
        } else {
            self.notes.add(format!("{why} before it was done"));
        }
    }

    fn listing_ended(&mut self, events: &mut Vec<RunnerEvent>) {
        let dir = self.step().1.to_owned();
        match std::mem::take(&mut self.listing).names() {
            Ok(names) => {
                self.proofs.record(0);
                let id = |name| TestId { package: command::package(&dir).to_owned(), name };
                events.extend(
                    names.into_iter().take(TEST_CASES_MAX).map(|name| RunnerEvent::TestStarted(id(name).bounded())),
                );
            }
            Err(why) => self.notes.add(why),
        }
    }
}

/// Whether ctest's tests are in one of the directories that the commands name.
fn command_directory<'a>(mut steps: impl Iterator<Item = &'a Step>, project: Option<&str>) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    project.is_none_or(|project| steps.any(|step| step.args.get(1).is_some_and(|dir| name(dir) == name(project))))
}

impl Parser for Rounds {
    fn step_started(&mut self, step: usize) {
        self.now = step;
        self.proofs.start_step();
        self.nothing_selected = false;
        self.said = OutputTail::default();
        self.listing = Listing::default();
        let (_, job) = self.steps.get(step).copied().unwrap_or((Round::Tests, 0));
        let (dir, to_fail) = self.jobs.get(job).map(|job| (job.dir.clone(), job.to_fail.clone())).unwrap_or_default();
        self.verbose = Verbose::new(command::package(&dir), &dir, &self.paths, to_fail);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        match (self.step().0, self.mode) {
            (Round::Tests, Mode::Running) => {
                let (lines, verbose) = (&mut self.lines, &mut self.verbose);
                lines.feed(bytes, |line| verbose.line(line, events));
            }
            (Round::Tests, Mode::Listing) => self.listing.add(bytes),
            // Compilers of generators write to stdout what others write to stderr.
            _ => self.said.add(bytes),
        }
    }

    fn report(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        if self.step().0 == Round::Properties {
            self.listing.add(bytes);
        }
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.said.add(bytes);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let (lines, verbose) = (&mut self.lines, &mut self.verbose);
        lines.finish(|line| verbose.line(line, events));
        let (round, dir) = self.step();
        let dir = dir.to_owned();
        if killed {
            return;
        }
        // Of what comes before the tests a failure is told, and its status counts.
        if round != Round::Tests {
            self.proofs.waive();
        }
        match (round, self.mode) {
            (Round::Properties, _) => self.properties_ended(),
            (Round::Tests, Mode::Running) => self.tests_ended(exit, events),
            (Round::Tests, Mode::Listing) => self.listing_ended(events),
            (Round::Configure | Round::Build, _) if exit == Exit::Code(0) => self.go_on(),
            (Round::Configure | Round::Build, _) => {
                build::collectors(&self.said.text(), exit, &dir, &self.paths, events);
            }
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.next)
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    fn running(&self) -> Vec<TestId> {
        self.verbose.running()
    }

    fn summary(&self) -> StreamSummary {
        let proof = self.proofs.proof();
        let mut summary = StreamSummary { proof, notes: self.notes.to_vec(), ..self.summary.clone() };
        if self.lines.skipped_lines() > 0 {
            summary.proof = Proof::Missing;
            summary
                .notes
                .push(format!("{} line(s) of ctest had more than {LINE_BYTES_MAX} bytes", self.lines.skipped_lines()));
        }
        summary
    }
}
