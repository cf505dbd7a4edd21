//! The course of a run: takes in what the sandbox tells, in order, and says what subscribers see. No waiting, no files.
//! Must not know channels or threads.

use super::tally::Tally;
use proctor_core::bounds::RUNNING_NAMES_MAX;
use proctor_core::event::{Progress, RunEvent, RunnerEvent, Stream};
use proctor_core::isolation::Isolation;
use proctor_core::limits::Limits;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::{Awaited, Parser, Step};
use proctor_sandbox::{Ending, SandboxEvent};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Duration, Instant};

/// How often progress is told while a run goes on: as often as a person can see.
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// What ended a command of which nothing else is known: only the kill of everything leaves no word.
const SIGKILL: i32 = 9;

/// What is known of a run while it goes on.
pub(super) struct Course {
    pub(super) parser: Box<dyn Parser>,
    pub(super) tally: Tally,
    /// What was to run and has told nothing yet.
    pub(super) awaited: Awaited,
    pub(super) isolation: Arc<Isolation>,
    pub(super) launched_at: Timestamp,
    /// Tests that were running when proctor decided to kill, or when the run was cut off.
    pub(super) running: Vec<TestId>,
    /// Steps that had no test to run.
    pub(super) nothing_selected: BTreeSet<usize>,
    /// Names and sizes of the files that are kept, in the order of their contents.
    pub(super) kept: Vec<(String, u64)>,
    /// Whether there may be tests that the run knew nothing of.
    pub(super) missed: bool,
    killed: bool,
    in_step: bool,
    /// The step that runs or ran last, counted over all rounds.
    step: usize,
    /// Steps of the rounds before this one.
    steps_before: usize,
    follow_up: Vec<Step>,
    /// Rounds before this one.
    rounds_before: usize,
    limits: Limits,
    memory_bytes: Option<u64>,
    started: Instant,
    told: Instant,
}

impl Course {
    pub(super) fn new(launched_at: Timestamp, limits: Limits, parser: Box<dyn Parser>, awaited: Awaited) -> Course {
        let now = Instant::now();
        Course {
            parser,
            tally: Tally::default(),
            awaited,
            isolation: Arc::default(),
            launched_at,
            running: Vec::new(),
            nothing_selected: BTreeSet::new(),
            kept: Vec::new(),
            missed: false,
            killed: false,
            in_step: false,
            step: 0,
            steps_before: 0,
            follow_up: Vec::new(),
            rounds_before: 0,
            limits,
            memory_bytes: None,
            started: now,
            told: now,
        }
    }

    /// Takes in one event; `offset` is where its output went in the run's log.
    pub(super) fn take_in(&mut self, event: SandboxEvent<'_>, offset: u64) -> Vec<RunEvent> {
        let mut read = Vec::new();
        let mut out = Vec::new();
        match event {
            SandboxEvent::Started { isolation } => {
                if !self.isolation.layers.is_empty() {
                    return Vec::new(); // a further round of the same run
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
                match stream {
                    Stream::Stdout => self.parser.stdout(bytes, &mut read),
                    Stream::Stderr => self.parser.stderr(bytes, &mut read),
                }
                let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                out.push(RunEvent::Output { stream, offset, len });
            }
            SandboxEvent::Report { bytes } => self.parser.report(bytes, &mut read),
            SandboxEvent::CommandExited { exit, .. } => {
                self.in_step = false;
                if self.killed {
                    self.add_running(self.parser.running());
                }
                self.parser.step_ended(exit, self.killed, &mut read);
                if self.parser.nothing_selected() {
                    self.nothing_selected.insert(self.step);
                }
                if !self.killed {
                    self.follow_up.extend(self.parser.follow_up());
                }
            }
            SandboxEvent::Kept { path, begins, bytes } => self.keep(path, begins, bytes.len()),
            SandboxEvent::Usage { memory_bytes } => self.memory_bytes = memory_bytes,
            SandboxEvent::Killing { reason } => {
                // What runs now is what was running at the deadline; the signal that follows changes it.
                self.killed = true;
                self.add_running(self.parser.running());
                tracing::debug!(?reason, "killing a run");
            }
        }
        out.extend(self.count(read));
        out.extend(self.progress());
        out
    }

    /// Counts what the parser told. A runner may live long enough to see its test process die, of our signal or of the
    /// kernel's for want of memory, and say that the test did not get to its end: it was running then.
    fn count(&mut self, read: Vec<RunnerEvent>) -> Vec<RunEvent> {
        let mut out = Vec::with_capacity(read.len());
        for event in read {
            if let RunnerEvent::TestFinished(case) = &event
                && self.killed
            {
                match case.outcome {
                    TestOutcome::Error => {
                        self.add_running(vec![case.id()]);
                        continue;
                    }
                    TestOutcome::Failed => {}
                    _ => self.running.retain(|test| *test != case.id()),
                }
            }
            if let RunnerEvent::TestFinished(case) = &event {
                self.awaited.told(&case.package, &case.name);
            }
            out.push(self.tally.count(event));
        }
        out
    }

    /// Takes in the ending: what was cut off is told to the parser, so that nothing stays open.
    pub(super) fn end(&mut self, ending: &Ending) -> Vec<RunEvent> {
        let mut read: Vec<RunnerEvent> = Vec::new();
        if self.in_step {
            self.add_running(self.parser.running());
            // A run whose worker was lost was cut off like one that was killed: nobody knows what its tests came to.
            let killed = ending.killed.is_some() || ending.worker_lost;
            // The step that is still open has no exit of its own: it went with everything else.
            self.parser.step_ended(Exit::Signal(SIGKILL), killed, &mut read);
        }
        self.count(read)
    }

    fn keep(&mut self, path: &str, begins: bool, len: usize) {
        if begins {
            // Each round has a scratch directory of its own, in which names begin anew.
            let round = self.rounds_before + 1;
            let name = if round == 1 { path.to_owned() } else { format!("round-{round}/{path}") };
            self.kept.push((name, 0));
        }
        if let Some((_, bytes)) = self.kept.last_mut() {
            *bytes += len as u64;
        }
    }

    /// Takes in where tests may be that the run knew nothing of.
    pub(super) fn miss(&mut self, missed: Vec<Collector>) -> Vec<RunEvent> {
        self.missed |= !missed.is_empty();
        self.count(missed.into_iter().map(|collector| RunnerEvent::Collector(Box::new(collector))).collect())
    }

    /// Takes in the files that the run left.
    pub(super) fn files(&mut self, files: &[(String, Vec<u8>)]) -> Vec<RunEvent> {
        let mut read = Vec::new();
        self.parser.files(files, &mut read);
        self.count(read)
    }

    /// Steps for another round.
    pub(super) fn follow_up(&mut self) -> Vec<Step> {
        self.steps_before = self.step + 1;
        self.rounds_before += 1;
        std::mem::take(&mut self.follow_up)
    }

    /// Milliseconds since the runner started.
    pub(super) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    // What was written before the kill may be read after it.
    fn add_running(&mut self, tests: Vec<TestId>) {
        for test in tests.into_iter().map(TestId::bounded) {
            if self.running.len() < RUNNING_NAMES_MAX && !self.running.contains(&test) {
                self.running.push(test);
            }
        }
    }

    fn progress(&mut self) -> Option<RunEvent> {
        if self.told.elapsed() < PROGRESS_EVERY {
            return None;
        }
        self.told = Instant::now();
        Some(RunEvent::Progress(Progress {
            tests_finished: self.tally.summary.total,
            tests_failed: self.tally.summary.failures(),
            elapsed_ms: self.elapsed_ms(),
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
    use proctor_core::request::{CoverageMode, Selection};
    use proctor_frameworks::go::Go;
    use proctor_frameworks::{FileTree, Framework, Want};

    const KILLED_TEST: &[u8] = include_bytes!("../../frameworks/goldens/go/oom-killed-test.jsonl");

    fn course() -> Course {
        let mut tree = FileTree::default();
        tree.add_with_content("go.mod", "module example.com/oom\n");
        let want = Want {
            selection: &Selection::All,
            coverage: CoverageMode::Off,
            parallel: None,
            network: Network::None,
            workspace: "/workspace",
            scratch: "/scratch",
            cache: "/cache",
            nonce: "n",
        };
        let plan = Go.plan(&Go.detect(&tree), &tree, &want).unwrap();
        Course::new(Timestamp::default(), Limits::DEFAULT, Go.parser(&plan, &want), Awaited::default())
    }

    fn finished(events: &[RunEvent]) -> Vec<&str> {
        let tests = events.iter().filter_map(|event| match event {
            RunEvent::TestFinished(case) => Some(case.name.as_str()),
            _ => None,
        });
        tests.collect()
    }

    // The runner outlives its test process by a moment, in which it says what it has seen. What it says may be read before
    // or after everything is killed, in one piece or in two.
    #[test]
    fn a_test_whose_process_the_kill_took_was_running_however_the_output_came() {
        let begun = KILLED_TEST.windows(8).position(|bytes| bytes == b"\"output\"").unwrap();
        for cut in [0, begun, KILLED_TEST.len()] {
            let (before, after) = KILLED_TEST.split_at(cut);
            let mut course = course();
            let output = |bytes| SandboxEvent::Output { stream: Stream::Stdout, bytes };
            let mut events = course.take_in(SandboxEvent::CommandStarted { index: 0 }, 0);
            events.extend(course.take_in(output(before), 0));
            events.extend(course.take_in(SandboxEvent::Killing { reason: KillReason::OutOfMemory }, 0));
            events.extend(course.take_in(output(after), 0));
            let ending = Ending { killed: Some(KillReason::OutOfMemory), ..Ending::default() };
            events.extend(course.end(&ending));
            let running: Vec<&str> = course.running.iter().map(|test| test.name.as_str()).collect();
            let before_the_kill = cut == KILLED_TEST.len();
            assert_eq!(running, if before_the_kill { vec![] } else { vec!["TestEatsMemory"] }, "{cut}");
            let told: &[&str] = if before_the_kill { &["TestBefore", "TestEatsMemory"] } else { &["TestBefore"] };
            assert_eq!(finished(&events), told, "{cut}");
        }
    }
}
