//! The state of a run in progress: ingests sandbox events in order and emits what subscribers see. It does no I/O and
//! never waits.

use super::stack_capture::StackCapture;
use super::tally::Tally;
use proctor_core::bounds::{PREDECESSORS_MAX, RUNNING_NAMES_MAX};
use proctor_core::event::{Progress, RunEvent, RunnerEvent, Stream};
use proctor_core::isolation::Isolation;
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_core::report::Summary;
use proctor_core::test_case::{Collector, TestCase, TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use proctor_core::usage_samples::{UsageSample, UsageSamples};
use proctor_frameworks::{ExpectedTests, Parser, Step};
use proctor_sandbox::{Ending, SandboxEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::{Duration, Instant};

/// Interval between progress events: as often as a person can follow.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// Signal assumed for a command that left no exit status: only the kill of the whole cgroup does that.
const SIGKILL: i32 = 9;

/// What earlier executions of the tests of one run had. An execution without any is the first.
#[derive(Debug, Clone, Default)]
pub(super) struct EarlierExecutions {
    /// Whether the run executes its tests more than once.
    pub(super) is_repeated: bool,
    /// Whether this execution is a retry, whose tests are counted already.
    pub(super) is_retry: bool,
    /// Whether this execution has tests that no other one counts, so that its total is that of the run.
    pub(super) has_total: bool,
    /// Layers and limits in force; subscribers are told once.
    pub(super) isolation: Arc<Isolation>,
    pub(super) tests_finished: u64,
    pub(super) tests_failed: u64,
    pub(super) elapsed_ms: u64,
    /// Bytes of output.
    pub(super) output_bytes: u64,
    /// Whether one left files: those of the first that did are kept, so that the bounds of a run hold.
    pub(super) has_artifacts: bool,
}

/// The state of a run in progress.
pub(super) struct RunState {
    pub(super) parser: Box<dyn Parser>,
    pub(super) tally: Tally,
    /// Selected tests that have not reported yet.
    pub(super) expected: ExpectedTests,
    pub(super) isolation: Arc<Isolation>,
    pub(super) launched_at: Timestamp,
    /// Tests that were running when proctor decided to kill, or when the run was cut off.
    pub(super) running: Vec<TestId>,
    /// Indexes of the steps that had no test to run.
    pub(super) nothing_selected: BTreeSet<usize>,
    /// Names and sizes of the retained files, in the order of their contents in the spool.
    pub(super) artifacts: Vec<(String, u64)>,
    /// Whether the project may have tests outside the scanned part.
    pub(super) missed: bool,
    /// What earlier executions of the same run had.
    earlier: EarlierExecutions,
    /// The test that finished before each failed one, if the run is repeated.
    pub(super) predecessors: BTreeMap<TestId, TestId>,
    last_finished: Option<TestId>,
    /// What was written after the processes were asked for their stacks; `None` before.
    pub(super) stacks: Option<StackCapture>,
    /// Whether the processes were asked by a signal, of which a process may end.
    pub(super) asked_by_signal: bool,
    killed: bool,
    in_step: bool,
    /// Index of the current or latest step, counted over all rounds.
    step: usize,
    /// Steps of earlier rounds.
    steps_before: usize,
    follow_up: Vec<Step>,
    /// Earlier rounds.
    rounds_before: usize,
    limits: Limits,
    memory_bytes: Option<u64>,
    /// What the run used over its time.
    pub(super) usage: UsageSamples,
    started: Instant,
    progress_sent_at: Instant,
}

impl RunState {
    pub(super) fn new(
        launched_at: Timestamp,
        limits: Limits,
        parser: Box<dyn Parser>,
        expected: ExpectedTests,
    ) -> RunState {
        let now = Instant::now();
        RunState {
            parser,
            tally: Tally::default(),
            expected,
            isolation: Arc::default(),
            launched_at,
            running: Vec::new(),
            nothing_selected: BTreeSet::new(),
            artifacts: Vec::new(),
            missed: false,
            earlier: EarlierExecutions::default(),
            predecessors: BTreeMap::new(),
            last_finished: None,
            stacks: None,
            asked_by_signal: false,
            killed: false,
            in_step: false,
            step: 0,
            steps_before: 0,
            follow_up: Vec::new(),
            rounds_before: 0,
            limits,
            memory_bytes: None,
            usage: UsageSamples::default(),
            started: now,
            progress_sent_at: now,
        }
    }

    /// Continues a run that executes its tests several times.
    pub(super) fn continuing(mut self, earlier: &EarlierExecutions) -> RunState {
        self.isolation = Arc::clone(&earlier.isolation);
        self.earlier = earlier.clone();
        self
    }

    /// Ingests one sandbox event; `offset` is where its bytes begin in the spool.
    pub(super) fn ingest(&mut self, event: SandboxEvent<'_>, offset: u64) -> Vec<RunEvent> {
        let mut parsed = Vec::new();
        let mut out = Vec::new();
        match event {
            SandboxEvent::Started { isolation } => {
                if !self.isolation.layers.is_empty() {
                    return Vec::new(); // a further round or execution of the same run
                }
                self.started = Instant::now();
                self.isolation = Arc::new(isolation);
                out.push(RunEvent::Started { limits: self.limits, isolation: Arc::clone(&self.isolation) });
            }
            SandboxEvent::CommandStarted { index } => {
                self.in_step = true;
                self.step = self.steps_before + index;
                self.parser.step_started(self.step);
            }
            SandboxEvent::Output { stream, bytes } => {
                if let Some(stacks) = &mut self.stacks {
                    stacks.record(stream, bytes);
                }
                match stream {
                    Stream::Stdout => self.parser.stdout(bytes, &mut parsed),
                    Stream::Stderr => self.parser.stderr(bytes, &mut parsed),
                }
                let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                out.push(RunEvent::Output { stream, offset, len });
            }
            SandboxEvent::Report { bytes } => self.parser.report(bytes, &mut parsed),
            SandboxEvent::CommandExited { exit, .. } => {
                self.in_step = false;
                if self.killed {
                    self.add_running(self.parser.running());
                }
                self.parser.step_ended(exit, self.killed, &mut parsed);
                if self.parser.nothing_selected() {
                    self.nothing_selected.insert(self.step);
                }
                if !self.killed {
                    self.follow_up.extend(self.parser.follow_up());
                }
            }
            SandboxEvent::ArtifactChunk { path, is_first, bytes } => self.add_artifact(path, is_first, bytes.len()),
            SandboxEvent::Usage { memory_bytes, cpu_ms, processes } => {
                self.memory_bytes = memory_bytes;
                let at_ms = self.earlier.elapsed_ms + self.elapsed_ms();
                if memory_bytes.is_some() || cpu_ms.is_some() || processes.is_some() {
                    self.usage.add(UsageSample { at_ms, memory_bytes, cpu_ms, processes });
                }
            }
            SandboxEvent::Killing { reason } => {
                // These tests were running at the deadline; the signal that follows changes the parser's answer.
                self.killed = true;
                self.add_running(self.parser.running());
                tracing::debug!(?reason, "killing a run");
            }
            SandboxEvent::StacksRequested { by_signal } => {
                self.stacks = Some(StackCapture::default());
                self.asked_by_signal = by_signal;
                if by_signal {
                    self.parser.stacks_requested();
                }
            }
            SandboxEvent::Stacks { bytes } => {
                if let Some(stacks) = &mut self.stacks {
                    stacks.record_printed(bytes);
                }
            }
        }
        // What a parser holds back until the runner's end says nothing about when each test ended.
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run are far below 2^52")]
        let finished_s = self.in_step.then(|| (self.earlier.elapsed_ms + self.elapsed_ms()) as f64 / 1_000.0);
        out.extend(self.record(parsed, finished_s));
        out.extend(self.progress());
        out
    }

    /// Records parsed events. A runner may outlive its test process by a moment, killed by proctor or by the OOM
    /// killer, and report that the test did not finish: that test counts as running.
    fn record(&mut self, parsed: Vec<RunnerEvent>, finished_s: Option<f64>) -> Vec<RunEvent> {
        let mut out = Vec::with_capacity(parsed.len());
        for mut event in parsed {
            // A process that printed its stacks may end, which its runner reports as an error of the file or package.
            if matches!(event, RunnerEvent::Collector(_)) && self.asked_by_signal {
                continue;
            }
            if let RunnerEvent::TestFinished(case) = &event
                && self.killed
            {
                match case.outcome {
                    TestOutcome::Error => {
                        self.add_running(vec![case.id()]);
                        continue;
                    }
                    TestOutcome::Failed => {}
                    // What asks the processes for their stacks may end the wait of a test, which then passes.
                    TestOutcome::Passed if self.stacks.is_some() && self.running.contains(&case.id()) => continue,
                    _ => self.running.retain(|test| *test != case.id()),
                }
            }
            if let RunnerEvent::TestFinished(case) = &mut event {
                case.finished_s = finished_s;
                self.expected.record(case);
                self.record_predecessor(case);
            }
            out.push(self.tally.record(event));
        }
        out
    }

    fn record_predecessor(&mut self, case: &TestCase) {
        if !self.earlier.is_repeated {
            return;
        }
        if let Some(last) = self.last_finished.take().filter(|_| case.outcome.is_failure())
            && self.predecessors.len() < PREDECESSORS_MAX
        {
            self.predecessors.entry(case.id().bounded()).or_insert(last);
        }
        self.last_finished = Some(case.id().bounded());
    }

    /// Whether files that tests leave are kept.
    pub(super) fn keeps_artifacts(&self) -> bool {
        !self.earlier.has_artifacts
    }

    /// Records the ending. The parser learns what was cut off, so that no test stays open.
    pub(super) fn end(&mut self, ending: &Ending) -> Vec<RunEvent> {
        let mut parsed: Vec<RunnerEvent> = Vec::new();
        if self.in_step {
            self.add_running(self.parser.running());
            // A lost worker cuts the run off like a kill: the results of its tests are unknown.
            let killed = ending.killed.is_some() || ending.worker_lost;
            // The open step has no exit status of its own: it was killed with everything else.
            self.parser.step_ended(Exit::Signal(SIGKILL), killed, &mut parsed);
        }
        self.record(parsed, None)
    }

    fn add_artifact(&mut self, path: &str, is_first: bool, len: usize) {
        if is_first {
            // Each round has its own scratch directory, so names can repeat between rounds.
            let round = self.rounds_before + 1;
            let name = if round == 1 { path.to_owned() } else { format!("round-{round}/{path}") };
            self.artifacts.push((name, 0));
        }
        if let Some((_, bytes)) = self.artifacts.last_mut() {
            *bytes += len as u64;
        }
    }

    /// Records parts of the project that may hold tests outside this run.
    pub(super) fn record_missed(&mut self, missed: Vec<Collector>) -> Vec<RunEvent> {
        self.missed |= !missed.is_empty();
        self.record(missed.into_iter().map(|collector| RunnerEvent::Collector(Box::new(collector))).collect(), None)
    }

    /// Parses the files that the run left.
    pub(super) fn parse_files(&mut self, files: &[(String, Vec<u8>)]) -> Vec<RunEvent> {
        let mut parsed = Vec::new();
        self.parser.files(files, &mut parsed);
        self.record(parsed, None)
    }

    /// Takes the steps for another round.
    pub(super) fn follow_up(&mut self) -> Vec<Step> {
        self.steps_before = self.step + 1;
        self.rounds_before += 1;
        std::mem::take(&mut self.follow_up)
    }

    /// Milliseconds since the runner started.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    // Output written before the kill may be read after it.
    fn add_running(&mut self, tests: Vec<TestId>) {
        for test in tests.into_iter().map(TestId::bounded) {
            if self.running.len() < RUNNING_NAMES_MAX && !self.running.contains(&test) {
                self.running.push(test);
            }
        }
    }

    fn progress(&mut self) -> Option<RunEvent> {
        if self.progress_sent_at.elapsed() < PROGRESS_EVERY {
            return None;
        }
        self.progress_sent_at = Instant::now();
        let tests_finished = self.tally.summary.total;
        let (counted, failed_parents) = match self.earlier.is_retry {
            true => (Summary::default(), 0),
            false => (self.tally.summary, self.tally.failed_parents),
        };
        Some(RunEvent::Progress(Progress {
            tests_finished: self.earlier.tests_finished + counted.total,
            // A runner that reports more than it announced has not announced all. Of a repeated run it announces one execution.
            tests_total: self
                .parser
                .total()
                .filter(|total| *total >= tests_finished && (!self.earlier.is_repeated || self.earlier.has_total)),
            tests_failed: self.earlier.tests_failed + counted.failures() - failed_parents,
            elapsed_ms: self.earlier.elapsed_ms + self.elapsed_ms(),
            memory_bytes: self.memory_bytes,
            running: self.parser.running().into_iter().next(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::isolation::Network;
    use proctor_core::outcome::KillReason;
    use proctor_core::request::Selection;
    use proctor_core::test_order::TestOrder;
    use proctor_frameworks::runners::go::Go;
    use proctor_frameworks::{FileTree, Framework, PlanRequest};

    const KILLED_TEST: &[u8] = include_bytes!("../../frameworks/goldens/go/oom-killed-test.jsonl");

    fn run_state() -> RunState {
        let mut tree = FileTree::default();
        tree.add_with_content("go.mod", "module example.com/oom\n");
        let want = PlanRequest {
            selection: &Selection::All,
            scope: &proctor_frameworks::EVERYTHING,
            is_measured: false,
            may_trace: false,
            parallel: None,
            order: TestOrder::Project,
            stop_at_first_failure: false,
            network: Network::None,
            workspace: "/workspace",
            scratch: "/scratch",
            cache: "/cache",
            nonce: "n",
            toolchain_sources: None,
        };
        let plan = Go.plan(&Go.detect(&tree), &tree, &want).unwrap();
        RunState::new(Timestamp::default(), Limits::DEFAULT, Go.parser(&plan, &want), ExpectedTests::default())
    }

    fn finished(events: &[RunEvent]) -> Vec<&str> {
        let tests = events.iter().filter_map(|event| match event {
            RunEvent::TestFinished(case) => Some(case.name.as_str()),
            _ => None,
        });
        tests.collect()
    }

    #[test]
    fn a_test_that_passes_only_once_it_is_asked_for_its_stack_counts_as_running() {
        let line = |action: &str, test: &str| {
            format!("{{\"Action\":\"{action}\",\"Package\":\"example.com/oom\",\"Test\":\"{test}\"}}\n").into_bytes()
        };
        let [hangs, passes] = ["run", "pass"].map(|action| line(action, "TestHangs"));
        let [after, after_passes] = ["run", "pass"].map(|action| line(action, "TestAfter"));
        for asked in [false, true] {
            let mut state = run_state();
            let output = |bytes| SandboxEvent::Output { stream: Stream::Stdout, bytes };
            state.ingest(SandboxEvent::CommandStarted { index: 0 }, 0);
            state.ingest(output(&hangs), 0);
            state.ingest(SandboxEvent::Killing { reason: KillReason::Deadline }, 0);
            if asked {
                state.ingest(SandboxEvent::StacksRequested { by_signal: false }, 0);
            }
            let mut events = state.ingest(output(&passes), 0);
            events.extend(state.ingest(output(&after), 0));
            events.extend(state.ingest(output(&after_passes), 0));
            let running: Vec<&str> = state.running.iter().map(|test| test.name.as_str()).collect();
            assert_eq!(running, if asked { vec!["TestHangs"] } else { vec![] });
            assert_eq!(finished(&events), if asked { vec!["TestAfter"] } else { vec!["TestHangs", "TestAfter"] });
        }
    }

    // The runner outlives its test process by a moment and reports what it saw. That report may be read before or after
    // the kill, in one piece or in two.
    #[test]
    fn a_test_whose_process_was_killed_counts_as_running_in_any_order_of_output() {
        let begun = KILLED_TEST.windows(8).position(|bytes| bytes == b"\"output\"").unwrap();
        for cut in [0, begun, KILLED_TEST.len()] {
            let (before, after) = KILLED_TEST.split_at(cut);
            let mut state = run_state();
            let output = |bytes| SandboxEvent::Output { stream: Stream::Stdout, bytes };
            let mut events = state.ingest(SandboxEvent::CommandStarted { index: 0 }, 0);
            events.extend(state.ingest(output(before), 0));
            events.extend(state.ingest(SandboxEvent::Killing { reason: KillReason::OutOfMemory }, 0));
            events.extend(state.ingest(output(after), 0));
            let ending = Ending { killed: Some(KillReason::OutOfMemory), ..Ending::default() };
            events.extend(state.end(&ending));
            let running: Vec<&str> = state.running.iter().map(|test| test.name.as_str()).collect();
            let before_the_kill = cut == KILLED_TEST.len();
            assert_eq!(running, if before_the_kill { vec![] } else { vec!["TestEatsMemory"] }, "{cut}");
            let expected: &[&str] = if before_the_kill { &["TestBefore", "TestEatsMemory"] } else { &["TestBefore"] };
            assert_eq!(finished(&events), expected, "{cut}");
        }
    }
}
