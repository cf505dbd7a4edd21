//! The failure slot: what went wrong in a session's last run, and what to run again. Must not know how tests are run.

use crate::bound::{FAILURES_MAX, NAME_BYTES_MAX};
use crate::id::RunId;
use crate::outcome::Outcome;
use crate::report::{Report, Summary};
use crate::request::RerunTarget;
use crate::test_case::{Collector, CollectorKind, TestCase, TestId};
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// One failure: a test, or a package that could not be built or collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The runner's own name for it.
    pub nodeid: String,
    /// The test; `None` for a build or collection error.
    pub test: Option<TestId>,
    /// Set for a build or collection error.
    pub collector: Option<CollectorKind>,
    /// Where, relative to the workspace.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// What the assertion or the compiler said.
    pub message: String,
    /// The wanted value.
    pub expected: Option<String>,
    /// The value that came instead.
    pub actual: Option<String>,
    /// Stack trace.
    pub stack: Option<String>,
    /// What was printed.
    pub output: Option<String>,
}

/// What is remembered of the last run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    /// Its name.
    pub run: RunId,
    /// Its framework.
    pub framework: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the runner gives results test by test.
    pub structured: bool,
    /// Counts.
    pub summary: Summary,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What failed, in the order it finished, at most [`FAILURES_MAX`].
    pub failures: Vec<Failure>,
    /// How many failed, also those beyond the bound.
    pub total: u64,
    /// What was running when it was cut off.
    pub running: Vec<TestId>,
    /// What was to run again and did not.
    #[serde(default)]
    pub not_run: Vec<TestId>,
    /// How many more did not.
    #[serde(default)]
    pub not_run_left_out: u64,
    /// Whether tests may have been kept from running that nobody can name.
    #[serde(default)]
    pub unreached: bool,
    /// Packages whose tests did not run because what they need was not built.
    #[serde(default)]
    pub not_built: Vec<String>,
    /// What a rerun left alone that was asked for no more than some of what had failed.
    #[serde(default)]
    pub deferred: Deferred,
}

/// What failed before, and was not run again since.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    /// The first of it, at most [`FAILURES_MAX`].
    pub targets: Vec<RerunTarget>,
    /// How much more there is.
    pub more: u64,
    /// Whether beside all that something was kept from running that nobody can name.
    #[serde(default)]
    pub unreached: bool,
}

impl Deferred {
    /// How much of it is known.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.targets.len() as u64 + self.more
    }

    /// Whether everything that failed has been run again since.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.count() == 0 && !self.unreached
    }

    /// What the report of a run says that leaves this alone.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let beyond = format!("{} more that failed before were beyond the limit and stay to be run", self.count());
        let unreached = "an earlier run ended before all of its tests had run: only a run of everything tells of those";
        let beyond = (self.count() > 0).then_some(beyond);
        beyond.into_iter().chain(self.unreached.then(|| unreached.to_owned())).collect()
    }
}

/// The slot of one session. Every run replaces it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureSlot {
    last: Option<LastRun>,
}

/// What a rerun of failures comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerun {
    /// No run has ended in this session.
    NoRunYet,
    /// The last run passed.
    NothingFailed {
        /// Its framework.
        framework: String,
    },
    /// These failed, or were running when the run was cut off.
    Targets {
        /// Those to run now.
        now: Vec<RerunTarget>,
        /// Those that stay to be run.
        deferred: Deferred,
    },
    /// The last run did not pass, and names no test or not all of them: only the whole of it can be run again.
    Everything,
}

impl FailureSlot {
    /// Replaces the slot with what `report` says, and with what its run left alone of what had failed before.
    pub fn fill(&mut self, run: RunId, report: &Report, deferred: Deferred) {
        let listed: Vec<Failure> = report
            .collectors
            .iter()
            .map(Failure::from_collector)
            .chain(without_echoing_parents(&report.tests).map(Failure::from_test))
            .collect();
        // Only the summary knows the failures that the report had no room for, and among those no echo can be told.
        let failing = report.tests.iter().filter(|test| test.outcome.is_failure()).count() as u64;
        let left_out = report.summary.failures().saturating_sub(failing) + report.truncated.collectors;
        self.last = Some(LastRun {
            run,
            framework: report.framework.clone(),
            outcome: report.outcome,
            structured: report.structured,
            summary: report.summary,
            ended_at: report.ended_at,
            total: listed.len() as u64 + left_out,
            failures: listed.into_iter().take(FAILURES_MAX).collect(),
            running: report.evidence.running.clone(),
            not_run: report.evidence.not_run.clone(),
            not_run_left_out: report.truncated.not_run,
            unreached: report.evidence.unreached,
            not_built: report.evidence.not_built.clone(),
            deferred,
        });
    }

    /// The last run, if there was one.
    #[must_use]
    pub fn last(&self) -> Option<&LastRun> {
        self.last.as_ref()
    }

    /// What to run again, at most `limit` entries.
    #[must_use]
    pub fn rerun(&self, limit: Option<u32>) -> Rerun {
        let Some(last) = &self.last else { return Rerun::NoRunYet };
        if last.outcome == Outcome::Passed && last.deferred.is_nothing() {
            return Rerun::NothingFailed { framework: last.framework.clone() };
        }
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mut targets: Vec<RerunTarget> = last
            .failures
            .iter()
            .map(|failure| match &failure.test {
                Some(test) => RerunTarget::Test(test.clone()),
                None => RerunTarget::Package(failure.nodeid.clone()),
            })
            .chain(last.not_built.iter().cloned().map(RerunTarget::Package))
            .chain(last.running.iter().chain(&last.not_run).cloned().map(RerunTarget::Test))
            .collect();
        if targets.is_empty() && last.outcome != Outcome::Passed {
            return Rerun::Everything;
        }
        targets.extend(last.deferred.targets.iter().cloned());
        // Whoever runs again only what is known here, and sees it pass, would not hear of the rest again.
        let unknown =
            last.total.saturating_sub(last.failures.len() as u64) + last.not_run_left_out + last.deferred.more;
        // What was to be built or loaded first kept everything else from running.
        let blocked = last.unreached && last.failures.iter().any(|failure| failure.collector.is_some());
        match targets.len() {
            0 => Rerun::Everything,
            known if limit >= known && (unknown > 0 || blocked) => Rerun::Everything,
            known => {
                let mut left = targets.split_off(limit.min(known));
                let more = unknown + left.len().saturating_sub(FAILURES_MAX) as u64;
                left.truncate(FAILURES_MAX);
                let unreached = last.unreached || last.deferred.unreached;
                Rerun::Targets { now: targets, deferred: Deferred { targets: left, more, unreached } }
            }
        }
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

// A parent that failed only because of its subtests says nothing of its own, so it is an echo of a failure that is
// listed anyway. Sorting the ids brings each parent directly before its first subtest.
fn without_echoing_parents(tests: &[TestCase]) -> impl Iterator<Item = &TestCase> {
    let mut failing: Vec<&str> =
        tests.iter().filter(|test| test.outcome.is_failure()).map(|test| test.nodeid.as_str()).collect();
    failing.sort_unstable();
    tests
        .iter()
        .filter(|test| test.outcome.is_failure())
        .filter(move |test| test.message.is_some() || test.file.is_some() || !has_child(&failing, &test.nodeid))
}

fn has_child(sorted: &[&str], parent: &str) -> bool {
    debug_assert!(parent.len() <= 2 * NAME_BYTES_MAX);
    let prefix = format!("{parent}/");
    let at = sorted.partition_point(|id| *id < prefix.as_str());
    sorted.get(at).is_some_and(|id| id.starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::test_case::TestOutcome;

    fn all_of(now: Vec<RerunTarget>) -> Rerun {
        Rerun::Targets { now, deferred: Deferred::default() }
    }

    fn failing(name: &str, message: Option<&str>) -> TestCase {
        let id = TestId { package: "p".into(), name: name.into() };
        let mut test = TestCase::new(id, format!("p/{name}"), TestOutcome::Failed);
        test.message = message.map(Into::into);
        test
    }

    #[test]
    fn a_parent_without_words_of_its_own_is_not_listed_beside_its_subtest() {
        let mut slot = FailureSlot::default();
        let tests = vec![
            failing("T/a", Some("boom")),
            failing("T", None),
            failing("T2", None),
            failing("U/x", Some("no")),
            failing("U", Some("and I failed too")),
        ];
        slot.fill(RunId::new("r"), &report(Outcome::Failed, tests), Deferred::default());
        let names: Vec<_> = slot.last().unwrap().failures.iter().map(|failure| failure.nodeid.as_str()).collect();
        assert_eq!(names, ["p/T/a", "p/T2", "p/U/x", "p/U"]);
    }

    #[test]
    fn the_total_counts_what_the_report_and_the_slot_had_no_room_for() {
        // 150,000 tests, of which 12,000 fail, the first as an echo of the second; the report keeps some of them.
        let total = |failing_kept: usize, collectors_left_out: u64| {
            let mut tests: Vec<TestCase> =
                (1..12_000).map(|number| failing(&format!("T/{number}"), Some("no"))).collect();
            tests.insert(0, failing("T", None));
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
            slot.fill(RunId::new("r"), &cut, Deferred::default());
            let last = slot.last().unwrap();
            (last.failures.len(), last.total)
        };
        assert_eq!(total(12_000, 0), (FAILURES_MAX, 11_999));
        assert_eq!(total(12_000, 7), (FAILURES_MAX, 12_006));
        assert_eq!(total(9_000, 0), (8_999, 11_999));
    }

    #[test]
    fn a_rerun_names_exactly_what_failed() {
        let mut slot = FailureSlot::default();
        assert_eq!(slot.rerun(None), Rerun::NoRunYet);
        slot.fill(RunId::new("r"), &report(Outcome::Passed, Vec::new()), Deferred::default());
        assert_eq!(slot.rerun(None), Rerun::NothingFailed { framework: "go".into() });
        slot.fill(RunId::new("r"), &report(Outcome::Crashed, Vec::new()), Deferred::default());
        assert_eq!(slot.rerun(None), Rerun::Everything);
        let failed = report(Outcome::Failed, vec![failing("A", Some("x")), failing("B", Some("y"))]);
        slot.fill(RunId::new("r"), &failed, Deferred::default());
        let target = |name: &str| RerunTarget::Test(TestId { package: "p".into(), name: name.into() });
        assert_eq!(slot.rerun(None), all_of(vec![target("A"), target("B")]));
        let deferred = Deferred { targets: vec![target("B")], ..Deferred::default() };
        assert_eq!(slot.rerun(Some(1)), Rerun::Targets { now: vec![target("A")], deferred });
    }

    #[test]
    fn what_a_limit_left_alone_stays_to_be_run() {
        let mut slot = FailureSlot::default();
        let target = |name: &str| RerunTarget::Test(TestId { package: "p".into(), name: name.into() });
        let failed =
            |names: &[&str]| report(Outcome::Failed, names.iter().map(|name| failing(name, Some("x"))).collect());
        let rerun = |slot: &mut FailureSlot, limit, report: &Report| {
            let Rerun::Targets { now, deferred } = slot.rerun(limit) else { panic!("{:?}", slot.rerun(limit)) };
            slot.fill(RunId::new("r"), report, deferred);
            now
        };
        slot.fill(RunId::new("r"), &failed(&["A", "B", "C"]), Deferred::default());
        let passed = report(Outcome::Passed, Vec::new());
        assert_eq!(rerun(&mut slot, Some(1), &passed), [target("A")]);
        assert_eq!(rerun(&mut slot, Some(1), &failed(&["B"])), [target("B")]);
        assert_eq!(rerun(&mut slot, Some(1), &passed), [target("B")]);
        // Of a run that was ended before it told anything, nothing but the whole can be run again.
        let deferred = slot.last().unwrap().deferred.clone();
        slot.fill(RunId::new("r"), &report(Outcome::Cancelled, Vec::new()), deferred.clone());
        assert_eq!(slot.rerun(None), Rerun::Everything);
        slot.fill(RunId::new("r"), &passed, deferred);
        assert_eq!(rerun(&mut slot, None, &passed), [target("C")]);
        assert_eq!(slot.rerun(None), Rerun::NothingFailed { framework: "go".into() });
        slot.fill(RunId::new("r"), &passed, Deferred { more: 1, ..Deferred::default() });
        assert_eq!(slot.rerun(Some(1)), Rerun::Everything);
    }

    #[test]
    fn what_was_kept_from_running_is_not_forgotten_when_what_failed_has_passed() {
        let passed = report(Outcome::Passed, Vec::new());
        let mut cut = report(Outcome::TimedOut, vec![failing("A", Some("x"))]);
        cut.evidence.unreached = true;
        let mut slot = FailureSlot::default();
        slot.fill(RunId::new("r"), &cut, Deferred::default());
        let Rerun::Targets { now, deferred } = slot.rerun(None) else { panic!("A is known") };
        assert_eq!((now.len(), deferred.count(), deferred.unreached), (1, 0, true));
        assert_eq!(deferred.notes().len(), 1);
        slot.fill(RunId::new("r"), &passed, deferred);
        assert_eq!(slot.rerun(None), Rerun::Everything);
        slot.fill(RunId::new("r"), &passed, Deferred::default());
        assert_eq!(slot.rerun(None), Rerun::NothingFailed { framework: "go".into() });
        // What did not build kept the rest from running: the same is to be run, and not what failed alone.
        let broken = Collector {
            nodeid: "b".into(),
            kind: CollectorKind::Build,
            file: None,
            line: None,
            message: String::new(),
            output: String::new(),
        };
        for (unreached, rerun) in [(true, Rerun::Everything), (false, all_of(vec![RerunTarget::Package("b".into())]))] {
            let mut unbuilt = report(Outcome::BuildFailed, Vec::new());
            unbuilt.collectors = vec![broken.clone()];
            unbuilt.evidence.unreached = unreached;
            slot.fill(RunId::new("r"), &unbuilt, Deferred::default());
            assert_eq!(slot.rerun(None), rerun);
        }
    }

    #[test]
    fn what_was_to_run_again_and_did_not_stays() {
        let mut slot = FailureSlot::default();
        let mut again = report(Outcome::Failed, vec![failing("A", Some("x"))]);
        let test = |name: &str| TestId { package: "p".into(), name: name.into() };
        (again.evidence.running, again.evidence.not_run) = (vec![test("B")], vec![test("C")]);
        slot.fill(RunId::new("r"), &again, Deferred::default());
        let targets = ["A", "B", "C"].map(|name| RerunTarget::Test(test(name)));
        assert_eq!(slot.rerun(None), all_of(targets.into()));
    }

    #[test]
    fn a_rerun_of_more_than_is_known_is_one_of_everything() {
        let mut slot = FailureSlot::default();
        let mut crowded = report(Outcome::Failed, vec![failing("A", Some("x"))]);
        crowded.truncated.not_run = 1;
        slot.fill(RunId::new("r"), &crowded, Deferred::default());
        assert_eq!(slot.rerun(None), Rerun::Everything);
        let many = (0..=FAILURES_MAX).map(|number| failing(&number.to_string(), Some("x"))).collect();
        slot.fill(RunId::new("r"), &report(Outcome::Failed, many), Deferred::default());
        assert_eq!(slot.rerun(None), Rerun::Everything);
        let Rerun::Targets { now, deferred } = slot.rerun(Some(7)) else {
            panic!("as many as were asked for are known")
        };
        assert_eq!((now.len(), deferred.targets.len(), deferred.more), (7, FAILURES_MAX - 7, 1));
        // The one that nobody knows is not forgotten with those.
        slot.fill(RunId::new("r"), &report(Outcome::Passed, Vec::new()), deferred);
        assert_eq!(slot.rerun(None), Rerun::Everything);
    }

    #[test]
    fn a_timed_out_run_reruns_what_was_running() {
        let mut slot = FailureSlot::default();
        let mut timed_out = report(Outcome::TimedOut, Vec::new());
        let hung = TestId { package: "p".into(), name: "Hang".into() };
        timed_out.evidence.running = vec![hung.clone()];
        slot.fill(RunId::new("r"), &timed_out, Deferred::default());
        assert_eq!(slot.rerun(None), all_of(vec![RerunTarget::Test(hung)]));
    }
}
