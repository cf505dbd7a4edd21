//! Tracks the state of each package: running tests, their output, and how they ended.

use super::deferred_failures::DeferredFailures;
use super::event::OutputKind;
use super::failure::{self, FailureDetails, TestFacts};
use super::output_buffer::{OutputBuffer, OutputLine};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::clip;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use std::collections::HashMap;

/// Most bytes of names and outputs held at a time over all packages. Suites that pause 20,000 parallel subtests need
/// some MB; ten times that is a flood, of which later tests are counted but their output is not kept.
const RETAINED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Approximate cost in bytes of a tracked test or package beside its name: map slot, record, buffer.
const RECORD_BYTES: usize = 256;

/// Buffers kept for the next tests. About as many tests run at the same time as the host has processors.
const SPARE_BUFFERS_MAX: usize = 64;

/// Most bytes of the message about the test that ended the process: it is repeated for each test that ended with it.
const REPEATED_BYTES_MAX: usize = 1024;

/// Most failed tests held back at a time per package: a bound on the depth of nested subtests.
const HELD_MAX: usize = 64;

/// The line that a test process prints, as a JSON literal, when `m.Run` is done and no test failed.
const PASS: &str = r#""PASS\n""#;

/// A test that began.
#[derive(Debug)]
struct TrackedTest {
    /// Order in which tests began.
    sequence: u64,
    /// Whether it waits in `t.Parallel`.
    paused: bool,
    has_failed_subtest: bool,
    /// Sequence of the outermost test that runs it; its own for an outermost test.
    outermost: u64,
    output: OutputBuffer,
}

/// State of a package that runs.
#[derive(Debug, Default)]
struct PackageState {
    tests: HashMap<String, TrackedTest>,
    output: OutputBuffer,
    began: u64,
    failed: u64,
    /// Failed subtests that are not reported yet. When a subtest panics, the go tool reports it and its parents as failed
    /// one after the other and prints the panic as output of the outermost, so only later output says why the first failed.
    held: Vec<HeldFailure>,
    /// The outermost test that runs alone: tests that begin meanwhile are run by it.
    alone: Option<u64>,
    /// Tests that failed within a test that passed.
    inner_failures: u64,
    /// Whether the process printed `PASS` after its last test began.
    printed_pass: bool,
    /// The test that ended the process, and its message.
    crashed: Option<(String, String)>,
}

/// A failed test that is not reported yet.
#[derive(Debug)]
struct HeldFailure {
    case: TestCase,
    /// Sequence of the outermost test that runs it.
    outermost: u64,
}

/// Final state of a package.
#[derive(Debug, Default)]
pub(super) struct PackageEnd {
    /// Tests that began.
    pub(super) began: u64,
    /// Tests that failed or did not end.
    pub(super) failed: u64,
    /// Tests that failed within a test that passed; these are no failures.
    pub(super) inner_failures: u64,
    /// Whether its process printed `PASS`.
    pub(super) printed_pass: bool,
    /// Whether its process ended in the middle of a test.
    pub(super) ended_early: bool,
    /// Output outside of tests.
    pub(super) output: Vec<OutputLine>,
}

/// Result that a test's end event carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndAction {
    Pass,
    Fail,
    Skip,
}

/// State of all running packages.
#[derive(Debug)]
pub(super) struct Tracker {
    packages: HashMap<String, PackageState>,
    paths: WorkspacePaths,
    retained_bytes: usize,
    sequence: u64,
    spare: Vec<OutputBuffer>,
    deferred: DeferredFailures,
    /// Whether something was not tracked because a bound was reached.
    overflowed: bool,
}

impl Tracker {
    pub(super) fn new(paths: WorkspacePaths) -> Tracker {
        let (packages, spare) = (HashMap::new(), Vec::new());
        let deferred = DeferredFailures::default();
        Tracker { packages, paths, retained_bytes: 0, sequence: 0, spare, deferred, overflowed: false }
    }

    /// Whether tests were not tracked because too many ran at a time.
    pub(super) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Records that a package began, or was mentioned for the first time.
    pub(super) fn package_started(&mut self, package: &str) {
        if !self.packages.contains_key(package) && self.reserve(package.len() + RECORD_BYTES) {
            self.packages.insert(package.to_owned(), PackageState::default());
        }
    }

    /// Records that a test began.
    pub(super) fn test_started(&mut self, package: &str, test: &str, events: &mut Vec<RunnerEvent>) {
        let id = TestId { package: package.to_owned(), name: test.to_owned() };
        events.push(RunnerEvent::TestStarted(id.bounded()));
        self.package_started(package);
        let has_room = self.reserve(test.len() + RECORD_BYTES);
        let Some(state) = self.packages.get_mut(package) else { return };
        state.began += 1;
        state.printed_pass = false;
        release_held(state, &mut self.deferred, events);
        if has_room {
            self.sequence += 1;
            let output = self.spare.pop().unwrap_or_default();
            let outermost = outermost(state, test).unwrap_or(self.sequence);
            if outermost == self.sequence {
                state.alone = Some(outermost);
                self.deferred.start_outermost(outermost);
            }
            let (sequence, paused, has_failed_subtest) = (self.sequence, false, false);
            let running = TrackedTest { sequence, paused, has_failed_subtest, outermost, output };
            if let Some(replaced) = state.tests.insert(test.to_owned(), running) {
                events.extend(self.deferred.finish_outermost(replaced.sequence).into_iter().map(finished));
                self.retained_bytes =
                    self.retained_bytes.saturating_sub(test.len() + RECORD_BYTES + replaced.output.bytes());
            }
        }
    }

    /// Records that a test paused or continued.
    pub(super) fn test_paused(&mut self, package: &str, test: &str, paused: bool) {
        let Some(state) = self.packages.get_mut(package) else { return };
        let Some(running) = state.tests.get_mut(test) else { return };
        running.paused = paused;
        // Paused parallel tests continue when no serial test runs any more.
        if paused && state.alone == Some(running.sequence) {
            state.alone = None;
        }
    }

    /// Records output of a test, or of a package outside of its tests (empty `test`).
    pub(super) fn record_output(
        &mut self,
        package: &str,
        test: &str,
        kind: OutputKind,
        literal: &str,
        events: &mut Vec<RunnerEvent>,
    ) {
        let Some(state) = self.packages.get_mut(package) else { return };
        if !state.held.last().is_none_or(|held| is_ancestor(test, &held.case.name)) {
            release_held(state, &mut self.deferred, events);
        }
        if test.is_empty() {
            state.printed_pass |= literal == PASS;
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

    /// Records that a test ended.
    pub(super) fn test_ended(
        &mut self,
        package: &str,
        test: &str,
        action: EndAction,
        elapsed: Option<f64>,
        events: &mut Vec<RunnerEvent>,
    ) {
        let running = self.take_test(package, test);
        let sequences = running.as_ref().map(|running| (running.sequence, running.outermost));
        let (sequence, outermost) = sequences.unwrap_or_default();
        let outcome = match action {
            EndAction::Pass => TestOutcome::Passed,
            EndAction::Fail => TestOutcome::Failed,
            EndAction::Skip => TestOutcome::Skipped,
        };
        let mut case = new_case(package, test, outcome);
        case.duration_s = elapsed.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
        if action == EndAction::Pass {
            self.recycle_buffer(running);
            self.finish_without_failure(package, sequence, events);
            events.push(finished(case));
            return;
        }
        let lines = running.as_ref().map(|running| running.output.lines()).unwrap_or_default();
        let has_failed_subtest = running.as_ref().is_some_and(|running| running.has_failed_subtest);
        let facts = TestFacts { name: test, ended: true, has_failed_subtest };
        self.recycle_buffer(running);
        let failure = if action == EndAction::Skip {
            failure::from_skip(test, &lines, &self.paths)
        } else {
            failure::from_test(facts, &lines, &self.paths)
        };
        match self.packages.get_mut(package) {
            Some(state) if action == EndAction::Fail => {
                state.failed += 1;
                mark_parent(state, test);
                state.alone = state.alone.filter(|alone| *alone != sequence);
                events.extend(self.deferred.finish_outermost(sequence).into_iter().map(finished));
                hold(state, HeldFailure { case, outermost }, failure, &mut self.deferred, events);
            }
            _ => {
                failure.fill(&mut case);
                self.finish_without_failure(package, sequence, events);
                events.push(finished(case));
            }
        }
    }

    /// Handles a test that ended without a failure. If it is an outermost one, the failures below it were expected ones.
    fn finish_without_failure(&mut self, package: &str, sequence: u64, events: &mut Vec<RunnerEvent>) {
        let Some(state) = self.packages.get_mut(package) else { return };
        release_held(state, &mut self.deferred, events);
        state.alone = state.alone.filter(|alone| *alone != sequence);
        for mut case in self.deferred.finish_outermost(sequence) {
            state.failed = state.failed.saturating_sub(1);
            state.inner_failures += 1;
            case.outcome = TestOutcome::Xfailed;
            events.push(finished(case));
        }
    }

    /// Finishes a package; tests that began and did not end are reported as errors.
    pub(super) fn package_ended(&mut self, package: &str, events: &mut Vec<RunnerEvent>) -> PackageEnd {
        // A package that was not built may end without a start.
        let Some(mut state) = self.packages.remove(package) else { return PackageEnd::default() };
        self.release_bytes(package.len() + RECORD_BYTES + state.output.bytes());
        release_held(&mut state, &mut self.deferred, events);
        let mut unfinished: Vec<(String, TrackedTest)> = state.tests.drain().collect();
        unfinished.sort_by_key(|(_, running)| running.sequence);
        let deferred = unfinished.iter().flat_map(|(_, running)| self.deferred.finish_outermost(running.sequence));
        events.extend(deferred.map(finished));
        let failures: Vec<FailureDetails> =
            unfinished.iter().map(|(name, running)| failure_of_unfinished(name, running, &self.paths)).collect();
        for ((name, _), failure) in unfinished.iter().zip(&failures) {
            if failure.is_crash && state.crashed.is_none() {
                state.crashed = Some((name.clone(), failure.headline().to_owned()));
            }
        }
        let ended_early = state.crashed.is_some() || !unfinished.is_empty();
        for ((name, running), failure) in unfinished.into_iter().zip(failures) {
            self.release_bytes(name.len() + RECORD_BYTES + running.output.bytes());
            state.failed += 1;
            events.push(finished(unfinished_case(package, &name, failure, state.crashed.as_ref())));
        }
        let PackageState { began, failed, inner_failures, printed_pass, .. } = state;
        PackageEnd { began, failed, inner_failures, printed_pass, ended_early, output: state.output.lines() }
    }

    /// Reports all held-back tests at the end of the stream, package by package in the order of their names.
    pub(super) fn release_all(&mut self, events: &mut Vec<RunnerEvent>) {
        let mut holding: Vec<_> = self.packages.iter_mut().filter(|(_, state)| !state.held.is_empty()).collect();
        holding.sort_by_key(|(name, _)| name.as_str());
        holding.into_iter().for_each(|(_, state)| release_held(state, &mut self.deferred, events));
        events.extend(self.deferred.take_all().into_iter().map(finished));
    }

    /// Packages that have begun and not ended, sorted.
    pub(super) fn open_packages(&self) -> Vec<String> {
        let mut names: Vec<String> = self.packages.keys().cloned().collect();
        names.sort();
        names
    }

    /// Tests that have begun and not ended: running ones before paused ones, the oldest first.
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

    fn take_test(&mut self, package: &str, test: &str) -> Option<TrackedTest> {
        let running = self.packages.get_mut(package)?.tests.remove(test)?;
        self.release_bytes(test.len() + RECORD_BYTES + running.output.bytes());
        Some(running)
    }

    fn recycle_buffer(&mut self, running: Option<TrackedTest>) {
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

    fn release_bytes(&mut self, bytes: usize) {
        self.retained_bytes = self.retained_bytes.saturating_sub(bytes);
    }
}

/// Holds back a failed test until it is clear whether the panic that may follow was its own.
fn hold(
    state: &mut PackageState,
    mut last: HeldFailure,
    failure: FailureDetails,
    deferred: &mut DeferredFailures,
    events: &mut Vec<RunnerEvent>,
) {
    let is_parent = state.held.last().is_some_and(|held| is_ancestor(&last.case.name, &held.case.name));
    if !is_parent || state.held.len() >= HELD_MAX {
        release_held(state, deferred, events);
    }
    if failure.is_crash {
        // The chain of failures began with the subtest that panicked; the panic is printed as its parents' output.
        let culprit = &mut state.held.first_mut().unwrap_or(&mut last).case;
        state.crashed = Some((culprit.name.clone(), failure.headline().to_owned()));
        failure.fill(culprit);
    } else {
        failure.fill(&mut last.case);
    }
    let has_no_parent = !last.case.name.contains('/');
    state.held.push(last);
    if has_no_parent {
        release_held(state, deferred, events);
    }
}

/// Marks the nearest running parent of a failed test: it needs no reason of its own to fail, and marks its own parent in turn.
fn mark_parent(state: &mut PackageState, test: &str) {
    // A subtest named `a/b` has no parent `a`, so the next name that runs is the parent.
    for (end, _) in test.rmatch_indices('/').take(HELD_MAX) {
        if let Some(parent) = state.tests.get_mut(&test[..end]) {
            parent.has_failed_subtest = true;
            return;
        }
    }
}

/// Sequence of the outermost running test above `test`, which begins: that of its parent, or the test that runs alone.
fn outermost(state: &PackageState, test: &str) -> Option<u64> {
    let above = test.rmatch_indices('/').take(HELD_MAX).find_map(|(end, _)| state.tests.get(&test[..end]));
    above.map(|parent| parent.outermost).or(state.alone)
}

fn failure_of_unfinished(name: &str, running: &TrackedTest, paths: &WorkspacePaths) -> FailureDetails {
    let facts = TestFacts { name, ended: false, has_failed_subtest: running.has_failed_subtest };
    failure::from_test(facts, &running.output.lines(), paths)
}

/// Reports held-back tests, or hands them to `deferred` while their outermost test still runs.
fn release_held(state: &mut PackageState, deferred: &mut DeferredFailures, events: &mut Vec<RunnerEvent>) {
    events.extend(state.held.drain(..).filter_map(|held| deferred.add(held.outermost, held.case)).map(finished));
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

/// The record of a test that began and did not end: failed if it crashed the process, else an error.
fn unfinished_case(package: &str, name: &str, failure: FailureDetails, crashed: Option<&(String, String)>) -> TestCase {
    let mut case = new_case(package, name, TestOutcome::Error);
    let is_culprit = crashed.is_some_and(|(culprit, _)| culprit == name);
    if is_culprit {
        case.outcome = TestOutcome::Failed;
        failure.fill(&mut case);
        return case;
    }
    let message = match crashed {
        Some((culprit, message)) => {
            clip(format!("did not finish: {culprit} ended the test process ({message})"), REPEATED_BYTES_MAX)
        }
        None => match failure.last_line() {
            Some(line) => format!("the test process ended before the test did; its last output: {line}"),
            None => "the test process ended before the test did".to_owned(),
        },
    };
    failure.fill(&mut case);
    case.message = Some(message);
    (case.expected, case.actual) = (None, None);
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_held_tests_in_the_order_of_packages() {
        let mut tracker = Tracker::new(WorkspacePaths::new("/ws"));
        let packages: Vec<String> = (0..20).map(|number| format!("example.com/p{number:02}")).collect();
        let mut events = Vec::new();
        for package in packages.iter().rev() {
            for test in ["TestA", "TestA/b"] {
                tracker.test_started(package, test, &mut events);
            }
            tracker.test_ended(package, "TestA/b", EndAction::Fail, None, &mut events);
        }
        events.clear();
        tracker.release_all(&mut events);
        let packages_in_order: Vec<&str> = events
            .iter()
            .map(|event| match event {
                RunnerEvent::TestFinished(case) => case.package.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(packages_in_order, packages);
    }
}
