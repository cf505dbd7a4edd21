//! What is going on in each package: tests that run, what they printed, and how they ended. Must not know JSON or how
//! lines are cut.

use super::buffer::{OutputBuffer, OutputLine};
use super::event::OutputKind;
use super::failure::{self, Circumstances, Failure};
use super::undecided::Undecided;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::clip;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use std::collections::HashMap;

/// Most bytes of names and outputs held at a time over all packages. Suites that pause 20,000 parallel subtests need
/// some MB; ten times that is a flood, from which later tests are counted but their output is not kept.
const RETAINED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a tracked test or package costs beside its name, roughly: map slot, record, buffer.
const RECORD_BYTES: usize = 256;

/// Buffers kept for the next tests. Tests that run at the same time are about as many as processors.
const SPARE_BUFFERS_MAX: usize = 64;

/// What is told of the test that ended the process, in bytes: it is repeated for each test that ended with it.
const REPEATED_BYTES_MAX: usize = 1024;

/// Most failed tests held back at a time. Nobody nests subtests deeper.
const HELD_MAX: usize = 64;

/// What a test process prints, as a JSON literal, when `m.Run` is done and no test failed.
const PASS: &str = r#""PASS\n""#;

/// A test that began.
#[derive(Debug)]
struct Running {
    /// Order in which tests began.
    sequence: u64,
    /// Whether it waits in `t.Parallel`.
    paused: bool,
    has_failed_subtest: bool,
    /// Sequence of the outermost test that runs it, its own if that is itself.
    outermost: u64,
    output: OutputBuffer,
}

/// A package that runs.
#[derive(Debug, Default)]
struct Package {
    tests: HashMap<String, Running>,
    output: OutputBuffer,
    began: u64,
    failed: u64,
    /// Failed subtests that are not told yet. When a subtest panics, the go tool reports it and its parents as failed one
    /// after the other and prints the panic as output of the outermost, so only what follows tells why the first failed.
    held: Vec<Held>,
    /// The outermost test that runs alone: what begins beside it is run by it.
    alone: Option<u64>,
    /// Tests that failed within a test that passed.
    inner_failures: u64,
    /// Whether the process said since its last test began that its tests are done and none failed.
    said_pass: bool,
    /// The test that ended the process, and what it said.
    crashed: Option<(String, String)>,
}

/// A failed test that is not told yet.
#[derive(Debug)]
struct Held {
    case: TestCase,
    /// Sequence of the outermost test that runs it.
    outermost: u64,
}

/// What is left of a package when it ends.
#[derive(Debug, Default)]
pub(super) struct PackageEnd {
    /// Tests that began.
    pub(super) began: u64,
    /// Tests that failed or did not end.
    pub(super) failed: u64,
    /// Tests that failed within a test that passed, which are no failures.
    pub(super) inner_failures: u64,
    /// Whether its process said that its tests are done and none failed.
    pub(super) said_pass: bool,
    /// Whether its process ended in the middle of a test.
    pub(super) broke: bool,
    /// What the package printed outside of tests.
    pub(super) output: Vec<OutputLine>,
}

/// How a test's end event names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Pass,
    Fail,
    Skip,
}

/// All packages that run.
#[derive(Debug)]
pub(super) struct Tracker {
    packages: HashMap<String, Package>,
    paths: WorkspacePaths,
    retained_bytes: usize,
    sequence: u64,
    spare: Vec<OutputBuffer>,
    undecided: Undecided,
    /// Whether something was not tracked for want of room.
    overflowed: bool,
}

impl Tracker {
    pub(super) fn new(paths: WorkspacePaths) -> Tracker {
        let (packages, spare) = (HashMap::new(), Vec::new());
        let undecided = Undecided::default();
        Tracker { packages, paths, retained_bytes: 0, sequence: 0, spare, undecided, overflowed: false }
    }

    /// Whether tests were passed over because too many ran at a time.
    pub(super) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// A package begins, or shows for the first time.
    pub(super) fn package_started(&mut self, package: &str) {
        if !self.packages.contains_key(package) && self.reserve(package.len() + RECORD_BYTES) {
            self.packages.insert(package.to_owned(), Package::default());
        }
    }

    /// A test begins.
    pub(super) fn test_started(&mut self, package: &str, test: &str, events: &mut Vec<RunnerEvent>) {
        let id = TestId { package: package.to_owned(), name: test.to_owned() };
        events.push(RunnerEvent::TestStarted(id.bounded()));
        self.package_started(package);
        let has_room = self.reserve(test.len() + RECORD_BYTES);
        let Some(state) = self.packages.get_mut(package) else { return };
        state.began += 1;
        state.said_pass = false;
        release_held(state, &mut self.undecided, events);
        if has_room {
            self.sequence += 1;
            let output = self.spare.pop().unwrap_or_default();
            let outermost = outermost(state, test).unwrap_or(self.sequence);
            if outermost == self.sequence {
                state.alone = Some(outermost);
                self.undecided.outermost_began(outermost);
            }
            let (sequence, paused, has_failed_subtest) = (self.sequence, false, false);
            let running = Running { sequence, paused, has_failed_subtest, outermost, output };
            if let Some(replaced) = state.tests.insert(test.to_owned(), running) {
                events.extend(self.undecided.outermost_ended(replaced.sequence).into_iter().map(finished));
                self.retained_bytes =
                    self.retained_bytes.saturating_sub(test.len() + RECORD_BYTES + replaced.output.bytes());
            }
        }
    }

    /// A test waits for its turn, or goes on.
    pub(super) fn test_paused(&mut self, package: &str, test: &str, paused: bool) {
        let Some(state) = self.packages.get_mut(package) else { return };
        let Some(running) = state.tests.get_mut(test) else { return };
        running.paused = paused;
        // Parallel tests go on when no other begins.
        if paused && state.alone == Some(running.sequence) {
            state.alone = None;
        }
    }

    /// A test, or a package outside of its tests (empty `test`), printed something.
    pub(super) fn output(
        &mut self,
        package: &str,
        test: &str,
        kind: OutputKind,
        literal: &str,
        events: &mut Vec<RunnerEvent>,
    ) {
        let Some(state) = self.packages.get_mut(package) else { return };
        if !state.held.last().is_none_or(|held| is_ancestor(test, &held.case.name)) {
            release_held(state, &mut self.undecided, events);
        }
        if test.is_empty() {
            state.said_pass |= literal == PASS;
        }
        if self.retained_bytes > RETAINED_BYTES_MAX {
            self.overflowed = true;
            return;
        }
        let buffer = if test.is_empty() {
            &mut state.output
        } else if let Some(running) = state.tests.get_mut(test) {
            &mut running.output
        } else {
            return;
        };
        self.retained_bytes += buffer.push(kind, literal);
    }

    /// A test ended.
    pub(super) fn test_ended(
        &mut self,
        package: &str,
        test: &str,
        ending: Ending,
        elapsed: Option<f64>,
        events: &mut Vec<RunnerEvent>,
    ) {
        let running = self.take_test(package, test);
        let place = running.as_ref().map(|running| (running.sequence, running.outermost));
        let (sequence, outermost) = place.unwrap_or_default();
        let outcome = match ending {
            Ending::Pass => TestOutcome::Passed,
            Ending::Fail => TestOutcome::Failed,
            Ending::Skip => TestOutcome::Skipped,
        };
        let mut case = new_case(package, test, outcome);
        case.duration_s = elapsed.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        if ending == Ending::Pass {
            self.spare_buffer(running);
            self.pass_over(package, sequence, events);
            events.push(finished(case));
            return;
        }
        let lines = running.as_ref().map(|running| running.output.lines()).unwrap_or_default();
        let has_failed_subtest = running.as_ref().is_some_and(|running| running.has_failed_subtest);
        let about = Circumstances { name: test, ended: true, has_failed_subtest };
        self.spare_buffer(running);
        let failure = if ending == Ending::Skip {
            failure::of_skip(test, &lines, &self.paths)
        } else {
            failure::of_test(about, &lines, &self.paths)
        };
        match self.packages.get_mut(package) {
            Some(state) if ending == Ending::Fail => {
                state.failed += 1;
                mark_parent(state, test);
                state.alone = state.alone.filter(|alone| *alone != sequence);
                events.extend(self.undecided.outermost_ended(sequence).into_iter().map(finished));
                hold(state, Held { case, outermost }, failure, &mut self.undecided, events);
            }
            _ => {
                failure.put_into(&mut case);
                self.pass_over(package, sequence, events);
                events.push(finished(case));
            }
        }
    }

    /// A test ended well. If it is an outermost one, nothing that it ran has failed it: what failed was to fail.
    fn pass_over(&mut self, package: &str, sequence: u64, events: &mut Vec<RunnerEvent>) {
        let Some(state) = self.packages.get_mut(package) else { return };
        release_held(state, &mut self.undecided, events);
        state.alone = state.alone.filter(|alone| *alone != sequence);
        for mut case in self.undecided.outermost_ended(sequence) {
            state.failed = state.failed.saturating_sub(1);
            state.inner_failures += 1;
            case.outcome = TestOutcome::Xfailed;
            events.push(finished(case));
        }
    }

    /// A package ended; tests that began and did not end are told as errors.
    pub(super) fn package_ended(&mut self, package: &str, events: &mut Vec<RunnerEvent>) -> PackageEnd {
        // One that was not built may end without a start.
        let Some(mut state) = self.packages.remove(package) else { return PackageEnd::default() };
        self.give_back(package.len() + RECORD_BYTES + state.output.bytes());
        release_held(&mut state, &mut self.undecided, events);
        let mut left: Vec<(String, Running)> = state.tests.drain().collect();
        left.sort_by_key(|(_, running)| running.sequence);
        let undecided = left.iter().flat_map(|(_, running)| self.undecided.outermost_ended(running.sequence));
        events.extend(undecided.map(finished));
        let failures: Vec<Failure> =
            left.iter().map(|(name, running)| of_unfinished(name, running, &self.paths)).collect();
        for ((name, _), failure) in left.iter().zip(&failures) {
            if failure.is_crash && state.crashed.is_none() {
                state.crashed = Some((name.clone(), failure.headline().to_owned()));
            }
        }
        let broke = state.crashed.is_some() || !left.is_empty();
        for ((name, running), failure) in left.into_iter().zip(failures) {
            self.give_back(name.len() + RECORD_BYTES + running.output.bytes());
            state.failed += 1;
            events.push(finished(unfinished_case(package, &name, failure, state.crashed.as_ref())));
        }
        let Package { began, failed, inner_failures, said_pass, .. } = state;
        PackageEnd { began, failed, inner_failures, said_pass, broke, output: state.output.lines() }
    }

    /// Tells what was held back, because nothing follows, package by package in the order of their names.
    pub(super) fn release_all(&mut self, events: &mut Vec<RunnerEvent>) {
        let mut holding: Vec<_> = self.packages.iter_mut().filter(|(_, state)| !state.held.is_empty()).collect();
        holding.sort_by_key(|(name, _)| name.as_str());
        holding.into_iter().for_each(|(_, state)| release_held(state, &mut self.undecided, events));
        events.extend(self.undecided.take_all().into_iter().map(finished));
    }

    /// Packages that have begun and not ended, sorted.
    pub(super) fn open_packages(&self) -> Vec<String> {
        let mut names: Vec<String> = self.packages.keys().cloned().collect();
        names.sort();
        names
    }

    /// Tests that have begun and not ended: those that run before those that wait for their turn, the oldest first.
    pub(super) fn running(&self) -> Vec<TestId> {
        let mut running: Vec<(bool, u64, TestId)> = self
            .packages
            .iter()
            .flat_map(|(package, state)| {
                state.tests.iter().map(move |(name, running)| {
                    let id = TestId { package: package.clone(), name: name.clone() };
                    (running.paused, running.sequence, id)
                })
            })
            .collect();
        running.sort();
        running.into_iter().map(|(_, _, id)| id).collect()
    }

    fn take_test(&mut self, package: &str, test: &str) -> Option<Running> {
        let running = self.packages.get_mut(package)?.tests.remove(test)?;
        self.give_back(test.len() + RECORD_BYTES + running.output.bytes());
        Some(running)
    }

    fn spare_buffer(&mut self, running: Option<Running>) {
        if let Some(mut running) = running
            && self.spare.len() < SPARE_BUFFERS_MAX
        {
            running.output.clear();
            self.spare.push(running.output);
        }
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        let has_room = self.retained_bytes + bytes <= RETAINED_BYTES_MAX;
        if has_room {
            self.retained_bytes += bytes;
        } else {
            self.overflowed = true;
        }
        has_room
    }

    fn give_back(&mut self, bytes: usize) {
        self.retained_bytes = self.retained_bytes.saturating_sub(bytes);
    }
}

/// Keeps a failed test until it is clear whether the panic that may follow was its own.
fn hold(
    state: &mut Package,
    mut last: Held,
    failure: Failure,
    undecided: &mut Undecided,
    events: &mut Vec<RunnerEvent>,
) {
    let is_parent = state.held.last().is_some_and(|held| is_ancestor(&last.case.name, &held.case.name));
    if !is_parent || state.held.len() >= HELD_MAX {
        release_held(state, undecided, events);
    }
    if failure.is_crash {
        // The chain of failures began with the subtest that panicked; its parents only carry its last words.
        let culprit = &mut state.held.first_mut().unwrap_or(&mut last).case;
        state.crashed = Some((culprit.name.clone(), failure.headline().to_owned()));
        failure.put_into(culprit);
    } else {
        failure.put_into(&mut last.case);
    }
    let has_no_parent = !last.case.name.contains('/');
    state.held.push(last);
    if has_no_parent {
        release_held(state, undecided, events);
    }
}

/// Tells the test above a failed one that it needs no reason of its own to fail; that one will fail and tell the next.
fn mark_parent(state: &mut Package, test: &str) {
    // A subtest named `a/b` has no parent `a`, so the next name that runs is the parent.
    for (end, _) in test.rmatch_indices('/').take(HELD_MAX) {
        if let Some(parent) = state.tests.get_mut(&test[..end]) {
            parent.has_failed_subtest = true;
            return;
        }
    }
}

/// Sequence of the outermost running test that runs `test`, which begins: that of its parent, or of the test that runs alone.
fn outermost(state: &Package, test: &str) -> Option<u64> {
    let above = test.rmatch_indices('/').take(HELD_MAX).find_map(|(end, _)| state.tests.get(&test[..end]));
    above.map(|parent| parent.outermost).or(state.alone)
}

fn of_unfinished(name: &str, running: &Running, paths: &WorkspacePaths) -> Failure {
    let about = Circumstances { name, ended: false, has_failed_subtest: running.has_failed_subtest };
    failure::of_test(about, &running.output.lines(), paths)
}

/// Tells failed tests, or leaves them to the outermost test that still runs.
fn release_held(state: &mut Package, undecided: &mut Undecided, events: &mut Vec<RunnerEvent>) {
    events.extend(state.held.drain(..).filter_map(|held| undecided.add(held.outermost, held.case)).map(finished));
}

fn is_ancestor(name: &str, of: &str) -> bool {
    of.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
}

fn new_case(package: &str, test: &str, outcome: TestOutcome) -> TestCase {
    let id = TestId { package: package.to_owned(), name: test.to_owned() };
    TestCase::new(id, format!("{package}/{test}"), outcome)
}

fn finished(case: TestCase) -> RunnerEvent {
    RunnerEvent::TestFinished(Box::new(case.bounded()))
}

/// A test that began and did not end. The one that brought the process down failed; of the others nobody knows.
fn unfinished_case(package: &str, name: &str, failure: Failure, crashed: Option<&(String, String)>) -> TestCase {
    let mut case = new_case(package, name, TestOutcome::Error);
    let is_culprit = crashed.is_some_and(|(culprit, _)| culprit == name);
    if is_culprit {
        case.outcome = TestOutcome::Failed;
        failure.put_into(&mut case);
        return case;
    }
    let message = match crashed {
        Some((culprit, said)) => {
            clip(format!("did not finish: {culprit} ended the test process ({said})"), REPEATED_BYTES_MAX)
        }
        None => match failure.last_line() {
            Some(line) => format!("the test process ended before the test did; its last output: {line}"),
            None => "the test process ended before the test did".to_owned(),
        },
    };
    failure.put_into(&mut case);
    case.message = Some(message);
    (case.expected, case.actual) = (None, None);
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_back_is_told_in_the_order_of_packages() {
        let mut tracker = Tracker::new(WorkspacePaths::new("/ws"));
        let packages: Vec<String> = (0..20).map(|number| format!("example.com/p{number:02}")).collect();
        let mut events = Vec::new();
        for package in packages.iter().rev() {
            for test in ["TestA", "TestA/b"] {
                tracker.test_started(package, test, &mut events);
            }
            tracker.test_ended(package, "TestA/b", Ending::Fail, None, &mut events);
        }
        events.clear();
        tracker.release_all(&mut events);
        let told: Vec<&str> = events
            .iter()
            .map(|event| match event {
                RunnerEvent::TestFinished(case) => case.package.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(told, packages);
    }
}
