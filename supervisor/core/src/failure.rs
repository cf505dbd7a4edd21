//! The failure slot: the failures of a session's last run, and the selection that reruns them.

use crate::bounds::FAILURES_MAX;
use crate::history::{SinceLastGreen, SinceLastRun};
use crate::hung_test::HungTest;
use crate::id::RunId;
use crate::outcome::Outcome;
use crate::report::{Report, Summary};
use crate::request::RerunTarget;
use crate::test_case::{Collector, CollectorKind, TestCase, TestId};
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// One failure: a test, or a package that could not be built or collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The runner's own name for the test, package or file.
    pub nodeid: String,
    /// The test; `None` for a build or collection error.
    pub test: Option<TestId>,
    /// Set for a build or collection error.
    pub collector: Option<CollectorKind>,
    /// File, relative to the workspace.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Message of the assertion or the compiler.
    pub message: String,
    /// The expected value.
    pub expected: Option<String>,
    /// The actual value.
    pub actual: Option<String>,
    /// Stack trace.
    pub stack: Option<String>,
    /// Captured output.
    pub output: Option<String>,
}

/// What a session remembers of its last run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// Id of the run.
    pub run: RunId,
    /// Framework of the run.
    pub framework: String,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Whether the runner gives results test by test.
    pub structured: bool,
    /// Counts.
    pub summary: Summary,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Failures in the order in which they finished, at most [`FAILURES_MAX`].
    pub failures: Vec<Failure>,
    /// Number of failures, including those beyond [`FAILURES_MAX`].
    pub total: u64,
    /// Tests that were running when the run was cut off.
    pub running: Vec<TestId>,
    /// Where those of them hang whose runner printed a stack at the deadline.
    #[serde(default)]
    pub hung: Vec<HungTest>,
    /// Tests that were selected by name and did not run. The package is empty where the request named none.
    #[serde(default)]
    pub not_run: Vec<TestId>,
    /// Number of further tests that were selected by name and did not run.
    #[serde(default)]
    pub not_run_left_out: u64,
    /// Whether unknown tests may not have run.
    #[serde(default)]
    pub unreached: bool,
    /// Packages whose tests did not run because a dependency of theirs was not built.
    #[serde(default)]
    pub not_built: Vec<String>,
    /// Earlier failures that a rerun with a limit, or a run of some tests, left out.
    #[serde(default)]
    pub deferred: DeferredFailures,
    /// As in its report, without the names of the tests.
    #[serde(default)]
    pub since_last_run: Option<SinceLastRun>,
    /// As in its report, without the names of the tests.
    #[serde(default)]
    pub since_last_green: Option<SinceLastGreen>,
}

/// Earlier failures that have not been run again since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeferredFailures {
    /// The first of them, at most [`FAILURES_MAX`].
    pub targets: Vec<RerunTarget>,
    /// Number of further ones.
    pub more: u64,
    /// Whether unknown tests may not have run in addition.
    #[serde(default)]
    pub unreached: bool,
}

impl DeferredFailures {
    /// Number of known deferred failures.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.targets.len() as u64 + self.more
    }

    /// Whether everything that failed has been run again since.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count() == 0 && !self.unreached
    }

    /// Notes for the report of a run that leaves these out.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let beyond = format!("{} more that failed before are not part of this run and stay to be run", self.count());
        let unreached = "an earlier run ended before all of its tests had run: only a run of all tests covers them";
        let beyond = (self.count() > 0).then_some(beyond);
        beyond.into_iter().chain(self.unreached.then(|| unreached.to_owned())).collect()
    }
}

/// The failure slot of one session. Every run of tests replaces its content.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureSlot {
    /// Boxed: a last run is large, and many sessions have had none.
    last: Option<Box<LastRun>>,
}

/// What a rerun of failures has to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RerunPlan {
    /// No run has ended in this session.
    NoRunYet,
    /// The last run passed.
    NothingFailed {
        /// Its framework.
        framework: String,
    },
    /// These tests failed, or were running when the run was cut off.
    Targets {
        /// Targets to run now.
        now: Vec<RerunTarget>,
        /// Targets left for later.
        deferred: DeferredFailures,
    },
    /// The last run did not pass and names none or not all of its failures: only the whole of it can be run again.
    Everything,
}

impl FailureSlot {
    /// Replaces the slot with the failures in `report` and the earlier failures that its run left out.
    pub fn fill(&mut self, run: RunId, report: &Report, deferred: DeferredFailures) {
        let listed: Vec<Failure> = report
            .collectors
            .iter()
            .map(Failure::from_collector)
            .chain(report.own_failures().map(Failure::from_test))
            .collect();
        // Failures that the report left out are known only by their number.
        let left_out = report.own_failures_left_out() + report.truncated.collectors;
        self.last = Some(Box::new(LastRun {
            run,
            framework: report.framework.clone(),
            outcome: report.outcome,
            structured: report.structured,
            summary: report.summary,
            ended_at: report.ended_at,
            total: listed.len() as u64 + left_out,
            failures: listed.into_iter().take(FAILURES_MAX).collect(),
            running: report.evidence.running.clone(),
            hung: report.evidence.hung.clone(),
            not_run: report.evidence.not_run.clone(),
            not_run_left_out: report.truncated.not_run,
            unreached: report.evidence.unreached,
            not_built: report.evidence.not_built.clone(),
            deferred,
            since_last_run: report.since_last_run.as_ref().map(SinceLastRun::without_names),
            since_last_green: report.since_last_green.as_ref().map(SinceLastGreen::without_names),
        }));
    }

    /// The last run, if there was one.
    #[must_use]
    pub fn last(&self) -> Option<&LastRun> {
        self.last.as_deref()
    }

    /// The failures of earlier runs that the run of `report`, which was to run some of the tests, has not run again. A
    /// pass of a few tests must not hide that others failed.
    #[must_use]
    pub fn not_run_again_by(&self, report: &Report) -> DeferredFailures {
        // Another framework cannot run these, and a command of the caller names no tests.
        let Some(last) = self.last.as_deref().filter(|last| last.framework == report.framework) else {
            return DeferredFailures::default();
        };
        let tests: HashSet<(&str, &str)> =
            report.tests.iter().map(|test| (test.package.as_str(), test.name.as_str())).collect();
        let units: HashSet<&str> = report
            .tests
            .iter()
            .map(|test| test.package.as_str())
            .chain(report.collectors.iter().map(|collector| collector.nodeid.as_str()))
            .collect();
        // What the new report names itself is not left over from an earlier run.
        let named: HashSet<RerunTarget> = report
            .evidence
            .running
            .iter()
            .chain(&report.evidence.not_run)
            .cloned()
            .map(RerunTarget::from_test)
            .chain(report.evidence.not_built.iter().cloned().map(RerunTarget::Package))
            .collect();
        let mut seen = HashSet::new();
        let mut targets: Vec<RerunTarget> = last.targets().chain(last.deferred.targets.iter().cloned()).collect();
        targets.retain(|target| {
            let was_left_out = match target {
                RerunTarget::Test(test) => !tests.contains(&(test.package.as_str(), test.name.as_str())),
                RerunTarget::Package(package) => !units.contains(package.as_str()),
                // Nothing shows that a test of this name exists.
                RerunTarget::Name(_) => false,
            };
            was_left_out && !named.contains(target) && seen.insert(target.clone())
        });
        let more = targets.len().saturating_sub(FAILURES_MAX) as u64 + last.deferred.more;
        targets.truncate(FAILURES_MAX);
        DeferredFailures { targets, more, unreached: last.unreached || last.deferred.unreached }
    }

    /// What to run again, at most `limit` entries.
    #[must_use]
    pub fn rerun(&self, limit: Option<u32>) -> RerunPlan {
        let Some(last) = &self.last else { return RerunPlan::NoRunYet };
        if last.outcome == Outcome::Passed && last.deferred.is_empty() {
            return RerunPlan::NothingFailed { framework: last.framework.clone() };
        }
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut targets: Vec<RerunTarget> = last.targets().collect();
        if targets.is_empty() && last.outcome != Outcome::Passed {
            return RerunPlan::Everything;
        }
        targets.extend(last.deferred.targets.iter().cloned());
        // If only the known targets ran and passed, the unknown ones would be forgotten.
        let unknown =
            last.total.saturating_sub(last.failures.len() as u64) + last.not_run_left_out + last.deferred.more;
        // A package that failed to build or load kept the rest of its run from starting.
        let blocked = last.unreached && last.failures.iter().any(|failure| failure.collector.is_some());
        match targets.len() {
            0 => RerunPlan::Everything,
            count if limit >= count && (unknown > 0 || blocked) => RerunPlan::Everything,
            count => {
                let mut left = targets.split_off(limit.min(count));
                let more = unknown + left.len().saturating_sub(FAILURES_MAX) as u64;
                left.truncate(FAILURES_MAX);
                let unreached = last.unreached || last.deferred.unreached;
                RerunPlan::Targets { now: targets, deferred: DeferredFailures { targets: left, more, unreached } }
            }
        }
    }
}

impl LastRun {
    // What it failed, and what it had to leave out.
    fn targets(&self) -> impl Iterator<Item = RerunTarget> {
        let failed = self.failures.iter().map(|failure| match &failure.test {
            Some(test) => RerunTarget::Test(test.clone()),
            None => RerunTarget::Package(failure.nodeid.clone()),
        });
        failed
            .chain(self.not_built.iter().cloned().map(RerunTarget::Package))
            .chain(self.running.iter().chain(&self.not_run).cloned().map(RerunTarget::from_test))
    }
}

impl Failure {
    fn from_test(test: &TestCase) -> Failure {
        Failure {
            nodeid: test.nodeid.clone(),
            test: Some(test.id()),
            collector: None,
            file: test.file.clone(),
            line: test.line,
            message: test.message.clone().unwrap_or_default(),
            expected: test.expected.clone(),
            actual: test.actual.clone(),
            stack: test.stack.clone(),
            output: test.output.clone(),
        }
    }

    fn from_collector(collector: &Collector) -> Failure {
        Failure {
            nodeid: collector.nodeid.clone(),
            test: None,
            collector: Some(collector.kind),
            file: collector.file.clone(),
            line: collector.line,
            message: collector.message.clone(),
            expected: None,
            actual: None,
            stack: None,
            output: Some(collector.output.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::test_case::TestOutcome;

    fn all_of(now: Vec<RerunTarget>) -> RerunPlan {
        RerunPlan::Targets { now, deferred: DeferredFailures::default() }
    }

    fn failing(name: &str, message: Option<&str>) -> TestCase {
        let id = TestId { package: "p".into(), name: name.into() };
        let test = TestCase::new(id, format!("p/{name}"), TestOutcome::Failed);
        TestCase { message: message.map(Into::into), ..test }
    }

    #[test]
    fn omits_a_parent_that_failed_only_by_its_subtest() {
        let mut slot = FailureSlot::default();
        let parent = TestCase { failed_by_subtest: true, ..failing("T", None) };
        let tests = vec![failing("T/a", Some("boom")), parent, failing("T2", None)];
        slot.fill(RunId::new("r"), &report(Outcome::Failed, tests), DeferredFailures::default());
        let last = slot.last().unwrap();
        let names: Vec<_> = last.failures.iter().map(|failure| failure.nodeid.as_str()).collect();
        assert_eq!((names, last.total), (vec!["p/T/a", "p/T2"], 2));
    }

    #[test]
    fn the_total_counts_failures_beyond_the_bounds_of_report_and_slot() {
        // 150,000 tests, of which 12,000 fail, the first as an echo of the second; the report keeps some of them.
        let total = |failing_kept: usize, collectors_left_out: u64| {
            let mut tests: Vec<TestCase> =
                (1..12_000).map(|number| failing(&format!("T/{number}"), Some("no"))).collect();
            tests.insert(0, TestCase { failed_by_subtest: true, ..failing("T", None) });
            tests.extend((0..138_000).map(|number| {
                let name = format!("P{number}");
                TestCase::new(TestId { package: "p".into(), name: name.clone() }, name, TestOutcome::Passed)
            }));
            let mut cut = report(Outcome::Failed, tests);
            assert_eq!((cut.summary.total, cut.summary.failures()), (150_000, 12_000));
            cut.tests.drain(failing_kept..12_000);
            cut.tests.truncate(100_000);
            cut.truncated.tests = 150_000 - cut.tests.len() as u64;
            cut.truncated.collectors = collectors_left_out;
            let mut slot = FailureSlot::default();
            slot.fill(RunId::new("r"), &cut, DeferredFailures::default());
            let last = slot.last().unwrap();
            (last.failures.len(), last.total)
        };
        assert_eq!(total(12_000, 0), (FAILURES_MAX, 11_999));
        assert_eq!(total(12_000, 7), (FAILURES_MAX, 12_006));
        assert_eq!(total(9_000, 0), (8_999, 11_999));
    }

    #[test]
    fn a_rerun_names_exactly_the_failed_tests() {
        let mut slot = FailureSlot::default();
        assert_eq!(slot.rerun(None), RerunPlan::NoRunYet);
        slot.fill(RunId::new("r"), &report(Outcome::Passed, Vec::new()), DeferredFailures::default());
        assert_eq!(slot.rerun(None), RerunPlan::NothingFailed { framework: "go".into() });
        slot.fill(RunId::new("r"), &report(Outcome::Crashed, Vec::new()), DeferredFailures::default());
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
        let failed = report(Outcome::Failed, vec![failing("A", Some("x")), failing("B", Some("y"))]);
        slot.fill(RunId::new("r"), &failed, DeferredFailures::default());
        let target = |name: &str| RerunTarget::Test(TestId { package: "p".into(), name: name.into() });
        assert_eq!(slot.rerun(None), all_of(vec![target("A"), target("B")]));
        let deferred = DeferredFailures { targets: vec![target("B")], ..DeferredFailures::default() };
        assert_eq!(slot.rerun(Some(1)), RerunPlan::Targets { now: vec![target("A")], deferred });
    }

    #[test]
    fn failures_beyond_the_limit_stay_deferred() {
        let mut slot = FailureSlot::default();
        let target = |name: &str| RerunTarget::Test(TestId { package: "p".into(), name: name.into() });
        let failed =
            |names: &[&str]| report(Outcome::Failed, names.iter().map(|name| failing(name, Some("x"))).collect());
        let rerun = |slot: &mut FailureSlot, limit, report: &Report| {
            let RerunPlan::Targets { now, deferred } = slot.rerun(limit) else { panic!("{:?}", slot.rerun(limit)) };
            slot.fill(RunId::new("r"), report, deferred);
            now
        };
        slot.fill(RunId::new("r"), &failed(&["A", "B", "C"]), DeferredFailures::default());
        let passed = report(Outcome::Passed, Vec::new());
        assert_eq!(rerun(&mut slot, Some(1), &passed), [target("A")]);
        assert_eq!(rerun(&mut slot, Some(1), &failed(&["B"])), [target("B")]);
        assert_eq!(rerun(&mut slot, Some(1), &passed), [target("B")]);
        // A run that was cancelled before its first result can only be run again as a whole.
        let deferred = slot.last().unwrap().deferred.clone();
        slot.fill(RunId::new("r"), &report(Outcome::Cancelled, Vec::new()), deferred.clone());
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
        slot.fill(RunId::new("r"), &passed, deferred);
        assert_eq!(rerun(&mut slot, None, &passed), [target("C")]);
        assert_eq!(slot.rerun(None), RerunPlan::NothingFailed { framework: "go".into() });
        slot.fill(RunId::new("r"), &passed, DeferredFailures { more: 1, ..DeferredFailures::default() });
        assert_eq!(slot.rerun(Some(1)), RerunPlan::Everything);
    }

    #[test]
    fn unreached_tests_are_remembered_after_the_failed_ones_pass() {
        let passed = report(Outcome::Passed, Vec::new());
        let mut cut = report(Outcome::TimedOut, vec![failing("A", Some("x"))]);
        cut.evidence.unreached = true;
        let mut slot = FailureSlot::default();
        slot.fill(RunId::new("r"), &cut, DeferredFailures::default());
        let RerunPlan::Targets { now, deferred } = slot.rerun(None) else { panic!("A is known") };
        assert_eq!((now.len(), deferred.count(), deferred.unreached), (1, 0, true));
        assert_eq!(deferred.notes().len(), 1);
        slot.fill(RunId::new("r"), &passed, deferred);
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
        slot.fill(RunId::new("r"), &passed, DeferredFailures::default());
        assert_eq!(slot.rerun(None), RerunPlan::NothingFailed { framework: "go".into() });
        // A build failure kept the rest from running: everything is to be run, not only the failures.
        let broken = Collector {
            nodeid: "b".into(),
            kind: CollectorKind::Build,
            file: None,
            line: None,
            message: String::new(),
            output: String::new(),
        };
        for (unreached, rerun) in
            [(true, RerunPlan::Everything), (false, all_of(vec![RerunTarget::Package("b".into())]))]
        {
            let mut unbuilt = report(Outcome::BuildFailed, Vec::new());
            unbuilt.collectors = vec![broken.clone()];
            unbuilt.evidence.unreached = unreached;
            slot.fill(RunId::new("r"), &unbuilt, DeferredFailures::default());
            assert_eq!(slot.rerun(None), rerun);
        }
    }

    #[test]
    fn a_rerun_includes_tests_of_the_last_rerun_that_did_not_run() {
        let mut slot = FailureSlot::default();
        let mut again = report(Outcome::Failed, vec![failing("A", Some("x"))]);
        let test = |name: &str| TestId { package: "p".into(), name: name.into() };
        (again.evidence.running, again.evidence.not_run) = (vec![test("B")], vec![test("C")]);
        slot.fill(RunId::new("r"), &again, DeferredFailures::default());
        let targets = ["A", "B", "C"].map(|name| RerunTarget::Test(test(name)));
        assert_eq!(slot.rerun(None), all_of(targets.into()));
    }

    #[test]
    fn a_rerun_with_unknown_failures_runs_everything() {
        let mut slot = FailureSlot::default();
        let mut crowded = report(Outcome::Failed, vec![failing("A", Some("x"))]);
        crowded.truncated.not_run = 1;
        slot.fill(RunId::new("r"), &crowded, DeferredFailures::default());
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
        let many = (0..=FAILURES_MAX).map(|number| failing(&number.to_string(), Some("x"))).collect();
        slot.fill(RunId::new("r"), &report(Outcome::Failed, many), DeferredFailures::default());
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
        let RerunPlan::Targets { now, deferred } = slot.rerun(Some(7)) else { panic!("7 targets are known") };
        assert_eq!((now.len(), deferred.targets.len(), deferred.more), (7, FAILURES_MAX - 7, 1));
        // The one failure without a name is remembered.
        slot.fill(RunId::new("r"), &report(Outcome::Passed, Vec::new()), deferred);
        assert_eq!(slot.rerun(None), RerunPlan::Everything);
    }

    #[test]
    fn a_rerun_after_a_timeout_includes_the_running_tests() {
        let mut slot = FailureSlot::default();
        let mut timed_out = report(Outcome::TimedOut, Vec::new());
        let hung = TestId { package: "p".into(), name: "Hang".into() };
        timed_out.evidence.running = vec![hung.clone()];
        slot.fill(RunId::new("r"), &timed_out, DeferredFailures::default());
        assert_eq!(slot.rerun(None), all_of(vec![RerunTarget::Test(hung)]));
    }
}
