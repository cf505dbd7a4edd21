//! Drives a run through its rounds, project by project: feeds each round's output to its reader and plans the next command.

use super::verbose_output::VerboseOutputParser;
use super::{build_errors, command, test_list::TestList};
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

/// ctest prints this when no test is selected.
const NO_TESTS: &str = "No tests were found";

/// Whether the third round runs or lists tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    Listing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Configure,
    Build,
    /// Reads the properties of the tests.
    Properties,
    Tests,
}

/// The commands of a project that have not run yet.
#[derive(Debug)]
struct ProjectJob {
    dir: String,
    build: Step,
    properties: Option<Step>,
    tests: Vec<Step>,
    /// Names of the tests with `WILL_FAIL`.
    will_fail: HashSet<String>,
}

/// Parser of a run or a listing.
#[derive(Debug)]
pub(super) struct RoundsParser {
    mode: Mode,
    paths: WorkspacePaths,
    jobs: Vec<ProjectJob>,
    /// Round and job index of each step, in the order in which they run.
    steps: Vec<(Round, usize)>,
    current_step: usize,
    next_steps: Vec<Step>,
    lines: LineSplitter,
    output: OutputTail,
    verbose: VerboseOutputParser,
    test_list: TestList,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
    /// Whether ctest reported that no test was selected.
    nothing_selected: bool,
}

impl RoundsParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>, mode: Mode) -> RoundsParser {
        let paths = WorkspacePaths::new(request.workspace);
        let job = |dir: &str| ProjectJob {
            dir: dir.to_owned(),
            build: command::build(dir, request),
            properties: (plan.report && mode == Mode::Running).then(|| command::properties(dir, request)),
            tests: if mode == Mode::Running { command::test(dir, request) } else { command::list(dir, request) },
            will_fail: HashSet::new(),
        };
        let jobs: Vec<ProjectJob> = plan.steps.iter().map(|step| job(&step.dir)).collect();
        RoundsParser {
            mode,
            steps: (0..jobs.len()).map(|job| (Round::Configure, job)).collect(),
            jobs,
            current_step: 0,
            next_steps: Vec::new(),
            lines: LineSplitter::default(),
            output: OutputTail::default(),
            verbose: VerboseOutputParser::new("", "", &paths, HashSet::new()),
            test_list: TestList::default(),
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
            nothing_selected: false,
            paths,
        }
    }

    fn step(&self) -> (Round, &str) {
        let (round, job) = self.steps.get(self.current_step).copied().unwrap_or((Round::Tests, 0));
        (round, self.jobs.get(job).map_or("", |job| job.dir.as_str()))
    }

    /// Plans the commands of the project's next round.
    fn plan_next_round(&mut self) {
        let Some((round, job)) = self.steps.get(self.current_step).copied() else { return };
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
        self.next_steps.extend(next.into_iter().map(|(_, step)| step.clone()));
    }

    /// Stores the names of tests with `WILL_FAIL`. Without the list such tests are reported as ordinary failures.
    fn properties_ended(&mut self) {
        let job = self.steps.get(self.current_step).and_then(|(_, job)| self.jobs.get_mut(*job));
        if let (Some(job), Ok(names)) = (job, std::mem::take(&mut self.test_list).will_fail_names()) {
            job.will_fail = names.into_iter().take(TEST_CASES_MAX).collect();
        }
    }

    fn tests_ended(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let why = format!("ctest {}", describe_exit(exit));
        self.verbose.close(&why, events);
        self.nothing_selected = self.output.text().contains(NO_TESTS) && self.verbose.result_count() == 0;
        if self.nothing_selected {
            return self.proofs.waive();
        }
        if self.verbose.has_duplicate_names {
            self.notes
                .add("several tests have the same name: all but the first are reported with their number".to_owned());
        }
        let is_planned =
            used_a_planned_build_dir(self.jobs.iter().flat_map(|job| &job.tests), self.verbose.build_dir.as_deref());
        if !is_planned {
            self.summary.runner_missing = true;
            self.proofs.waive();
            return self
                .notes
                .add("ctest tested another directory than --test-dir names: CMake 3.20 or later is needed".to_owned());
        }
        if self.verbose.is_complete() {
            self.proofs.record(self.verbose.result_count());
        } else {
            self.notes.add(format!("{why} before it was done"));
        }
    }

    fn listing_ended(&mut self, events: &mut Vec<RunnerEvent>) {
        let dir = self.step().1.to_owned();
        match std::mem::take(&mut self.test_list).names() {
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

/// Whether ctest used one of the build directories that the commands name. CMake before 3.20 ignores `--test-dir`.
fn used_a_planned_build_dir<'a>(mut steps: impl Iterator<Item = &'a Step>, build_dir: Option<&str>) -> bool {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    build_dir.is_none_or(|build_dir| steps.any(|step| step.args.get(1).is_some_and(|dir| name(dir) == name(build_dir))))
}

impl Parser for RoundsParser {
    fn step_started(&mut self, step: usize) {
        self.current_step = step;
        self.proofs.start_step();
        self.nothing_selected = false;
        self.output = OutputTail::default();
        self.test_list = TestList::default();
        let (_, job) = self.steps.get(step).copied().unwrap_or((Round::Tests, 0));
        let (dir, will_fail) =
            self.jobs.get(job).map(|job| (job.dir.clone(), job.will_fail.clone())).unwrap_or_default();
        self.verbose = VerboseOutputParser::new(command::package(&dir), &dir, &self.paths, will_fail);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        match (self.step().0, self.mode) {
            (Round::Tests, Mode::Running) => {
                let (lines, verbose) = (&mut self.lines, &mut self.verbose);
                lines.feed(bytes, |line| verbose.parse_line(line, events));
            }
            (Round::Tests, Mode::Listing) => self.test_list.add(bytes),
            // Some compilers print errors to stdout.
            _ => self.output.add(bytes),
        }
    }

    fn report(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        if self.step().0 == Round::Properties {
            self.test_list.add(bytes);
        }
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.output.add(bytes);
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let (lines, verbose) = (&mut self.lines, &mut self.verbose);
        lines.finish(|line| verbose.parse_line(line, events));
        let (round, dir) = self.step();
        let dir = dir.to_owned();
        if killed {
            return;
        }
        // A failure before the tests is reported as a collector, and the exit status counts.
        if round != Round::Tests {
            self.proofs.waive();
        }
        match (round, self.mode) {
            (Round::Properties, _) => self.properties_ended(),
            (Round::Tests, Mode::Running) => self.tests_ended(exit, events),
            (Round::Tests, Mode::Listing) => self.listing_ended(events),
            (Round::Configure | Round::Build, _) if exit == Exit::Code(0) => self.plan_next_round(),
            (Round::Configure | Round::Build, _) => {
                build_errors::emit_collectors(&self.output.text(), exit, &dir, &self.paths, events);
            }
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        std::mem::take(&mut self.next_steps)
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    // Of several projects, and of several commands in one, ctest counts one after the other.
    fn total(&self) -> Option<u64> {
        match self.jobs.as_slice() {
            [only] if only.tests.len() == 1 => self.verbose.announced(),
            _ => None,
        }
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
