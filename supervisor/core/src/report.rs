//! The report of a run: one record for every language, entry point and outcome. Its serde form is the JSON document of
//! `--output json` and `GetReport`.

use crate::artifact::Artifact;
use crate::check::CheckReport;
use crate::history::{SinceLastGreen, SinceLastRun, TestGroup};
use crate::hung_test::HungTest;
use crate::isolation::Isolation;
use crate::limits::Limits;
use crate::outcome::{Evidence, Outcome};
use crate::repetition::Repetitions;
use crate::request::Selection;
use crate::selection::AffectedSummary;
use crate::test_case::{Collector, TestCase, TestId, TestOutcome};
use crate::timestamp::Timestamp;
use crate::untested::{RunExtent, UntestedLines};
use crate::usage_samples::UsageSample;
use serde::{Deserialize, Serialize};

/// Everything known about a finished run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Outcome of the run.
    pub outcome: Outcome,
    /// The runner's own status when it exited by itself and not with 0, else the outcome's number.
    pub exit_code: i32,
    /// The runner's own status, when it exited by itself.
    pub raw_exit_code: Option<i32>,
    /// The framework's name: `go`.
    pub framework: String,
    /// Counts over all tests, including those that `tests` has no room for.
    pub summary: Summary,
    /// Failed tests of `summary` that failed only because a subtest of theirs did. They are no failures of their own: a
    /// headline that stands beside a list of failures leaves them out.
    #[serde(default)]
    pub failed_parents: u64,
    /// Tests that both failed and passed in this run; the evidence names them.
    #[serde(default)]
    pub flaky_in_run: u64,
    /// Wall time of the runner in seconds.
    pub duration_s: f64,
    /// When the runner started.
    pub started_at: Timestamp,
    /// When the run ended.
    pub ended_at: Timestamp,
    /// Whether the run was cut off, so that `tests` holds the results until then.
    pub partial: bool,
    /// Whether the project file's patterns and exclude left out tests, so that a run of all tests did not run them all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_scoped: bool,
    /// Whether the runner gives results test by test. Otherwise only its exit status counts.
    pub structured: bool,
    /// The tests, failures first in the order in which they finished, at most [`crate::bounds::TEST_CASES_MAX`].
    pub tests: Vec<TestCase>,
    /// Build and collection errors, at most [`crate::bounds::COLLECTORS_MAX`].
    pub collectors: Vec<Collector>,
    /// Facts behind the outcome.
    pub evidence: Evidence,
    /// Resource usage.
    pub resources: Resources,
    /// What the run used over its time, oldest first, at most [`crate::bounds::USAGE_SAMPLES_MAX`]; empty for a run of less than
    /// a second.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<UsageSample>,
    /// The limits of the run. What enforced each is in `isolation`.
    pub limits: Limits,
    /// The layers and limits that were in force.
    pub isolation: Isolation,
    /// Coverage measured by the run.
    pub coverage: CoverageSummary,
    /// The end of stdout, as text.
    pub stdout_tail: String,
    /// The end of stderr, as text.
    pub stderr_tail: String,
    /// Files that the run left for its caller, in storage order.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// How the results differ from earlier ones of this workspace; `None` for its first run and without a history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_last_run: Option<SinceLastRun>,
    /// How they differ from those of the last run of all tests that passed; `None` if none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_last_green: Option<SinceLastGreen>,
    /// What repeated executions showed; `None` if the tests were executed once. Each test is listed and counted once then,
    /// with its first failure if it had one, and figures are those of all executions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<Repetitions>,
    /// Failed tests that the project has in quarantine; `None` if there is none. They are failures like others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantined: Option<TestGroup>,
    /// What a run of affected tests selected; `None` for every other run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affected: Option<AffectedSummary>,
    /// Changed lines that no test executed; `None` if the run measured no lines, or nothing is known to have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<UntestedLines>,
    /// What linters and type checkers found; `None` for a run of tests, and for a check that ended before it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckReport>,
    /// The state since which files had to change for a check to look at them, in words; `None` if it looked at all of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_since: Option<String>,
    /// Counts of what the report left out.
    pub truncated: Truncated,
}

impl Report {
    /// Whether the run of this report, which was asked for `selection`, was one of all tests.
    #[must_use]
    pub fn ran_all(&self, selection: &Selection) -> bool {
        match selection {
            Selection::Affected { .. } => self.affected.as_ref().is_some_and(|affected| affected.full_reason.is_some()),
            selection => selection.is_whole(),
        }
    }

    /// How much the run of this report tells about the tests that it did not execute. `is_whole`: whether it was asked for all tests.
    #[must_use]
    pub fn extent(&self, is_whole: bool) -> RunExtent {
        if self.partial || self.is_scoped || !self.collectors.is_empty() {
            return RunExtent::SomeTests;
        }
        match &self.affected {
            Some(affected) if affected.full_reason.is_some() => RunExtent::AllTests,
            Some(_) => RunExtent::AffectedTests,
            None if is_whole => RunExtent::AllTests,
            None => RunExtent::SomeTests,
        }
    }

    /// The failed tests, without those that failed only because a subtest of theirs did.
    pub fn own_failures(&self) -> impl Iterator<Item = &TestCase> {
        self.tests.iter().filter(|test| test.is_own_failure())
    }

    /// Number of such tests, including those that `tests` has no room for.
    #[must_use]
    pub fn own_failure_count(&self) -> u64 {
        self.summary.failures().saturating_sub(self.failed_parents)
    }

    /// Number of such tests that `tests` has no room for.
    #[must_use]
    pub fn own_failures_left_out(&self) -> u64 {
        self.own_failure_count().saturating_sub(self.own_failures().count() as u64)
    }

    /// Whether the report has the result of every test of its suite: the runner came to its end, and nothing was left out.
    #[must_use]
    pub fn has_all_results(&self) -> bool {
        self.structured
            && !self.is_scoped
            && !self.partial
            && !self.evidence.unreached
            && self.truncated.tests == 0
            && matches!(self.outcome, Outcome::Passed | Outcome::Failed)
    }

    /// Memory use in bytes, without the parts that are small in every report.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let tests: usize = self.tests.iter().map(TestCase::memory_bytes).sum();
        let collectors: usize = self.collectors.iter().map(Collector::memory_bytes).sum();
        let artifact = |artifact: &Artifact| {
            size_of::<Artifact>() + artifact.name.len() + artifact.test.as_ref().map_or(0, TestId::text_bytes)
        };
        let artifacts: usize = self.artifacts.iter().map(artifact).sum();
        let notes: usize = self.evidence.notes.iter().chain(&self.coverage.notes).map(String::len).sum();
        let tails = self.stdout_tail.len() + self.stderr_tail.len();
        let test_bytes = |test: &TestId| size_of::<TestId>() + test.text_bytes();
        let named_tests: usize = self.evidence.running.iter().chain(&self.evidence.not_run).map(test_bytes).sum();
        let not_built: usize = self.evidence.not_built.iter().map(|name| size_of::<String>() + name.len()).sum();
        let hung: usize = self.evidence.hung.iter().map(HungTest::memory_bytes).sum();
        let groups = self.since_last_run.iter().flat_map(|since| [&since.new, &since.fixed, &since.still_failing]);
        let groups = groups.chain(self.since_last_green.iter().map(|since| &since.failing)).chain(&self.quarantined);
        let compared: usize = groups.map(TestGroup::memory_bytes).sum();
        let flaky = self.repetitions.as_ref().map_or(0, Repetitions::memory_bytes);
        size_of::<Report>()
            + self.affected.as_ref().map_or(0, AffectedSummary::memory_bytes)
            + self.untested.as_ref().map_or(0, UntestedLines::memory_bytes)
            + self.check.as_ref().map_or(0, CheckReport::memory_bytes)
            + flaky
            + tests
            + collectors
            + artifacts
            + notes
            + tails
            + named_tests
            + not_built
            + hung
            + compared
            + size_of_val(self.usage.as_slice())
    }
}

/// Counts of tests by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// All tests that finished or were cut off.
    pub total: u64,
    /// [`TestOutcome::Passed`]
    pub passed: u64,
    /// [`TestOutcome::Failed`]
    pub failed: u64,
    /// [`TestOutcome::Skipped`]
    pub skipped: u64,
    /// [`TestOutcome::Xfailed`]
    pub xfailed: u64,
    /// [`TestOutcome::Xpassed`]
    pub xpassed: u64,
    /// [`TestOutcome::Error`]
    pub error: u64,
}

impl Summary {
    /// Counts one test.
    pub fn count(&mut self, outcome: TestOutcome) {
        self.total += 1;
        *self.count_of(outcome) += 1;
    }

    /// Counts a test, already counted as `from`, as `to` instead.
    pub fn move_count(&mut self, from: TestOutcome, to: TestOutcome) {
        let count = self.count_of(from);
        if *count > 0 {
            *count -= 1;
            self.total -= 1;
        }
        self.count(to);
    }

    fn count_of(&mut self, outcome: TestOutcome) -> &mut u64 {
        match outcome {
            TestOutcome::Passed => &mut self.passed,
            TestOutcome::Failed => &mut self.failed,
            TestOutcome::Skipped => &mut self.skipped,
            TestOutcome::Xfailed => &mut self.xfailed,
            TestOutcome::Xpassed => &mut self.xpassed,
            TestOutcome::Error => &mut self.error,
        }
    }

    /// Number of tests that need attention.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failed + self.error
    }
}

/// Resource usage of a run, read from its cgroup leaf and from the worker.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Wall time of the runner, seconds.
    pub wall_s: f64,
    /// Processor time in user mode, seconds.
    pub cpu_user_s: f64,
    /// Processor time in the kernel, seconds.
    pub cpu_system_s: f64,
    /// Highest memory use of the leaf, bytes; `None` without a memory controller.
    pub memory_peak_bytes: Option<u64>,
    /// Wall time during which the cpu limit held the run back, seconds; `None` without a cpu controller.
    pub throttled_s: Option<f64>,
    /// Most processes and threads at the same time; `None` where the kernel does not record it.
    pub pids_peak: Option<u64>,
    /// Bytes read from block devices; `None` without an io controller.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices; `None` without an io controller.
    pub written_bytes: Option<u64>,
    /// Time in which at least one process of the run waited for a processor, seconds; `None` where the kernel does not
    /// record pressure. The same for the next two.
    pub cpu_pressure_s: Option<f64>,
    /// The same for memory: reclaim, refaults, swap.
    pub memory_pressure_s: Option<f64>,
    /// The same for block devices.
    pub io_pressure_s: Option<f64>,
    /// Time in the queue, seconds.
    pub queue_wait_s: f64,
    /// Time from the launch to the runner's start, seconds.
    pub setup_s: f64,
    /// Bytes of stdout and stderr, and of the output of proctor's own reporters.
    pub output_bytes: u64,
}

/// Coverage measured by a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CoverageSummary {
    /// Whether anything was measured.
    pub measured: bool,
    /// What a covering entry names: one test, or all tests of a file or package.
    pub attribution: Option<crate::coverage::Attribution>,
    /// Source files with at least one executed line.
    pub files: u64,
    /// Why nothing or not everything was measured.
    pub notes: Vec<String>,
}

/// Counts of what a report left out; all zero when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Truncated {
    /// Tests counted in the summary and not listed.
    pub tests: u64,
    /// Build and collection errors not listed.
    pub collectors: u64,
    /// Tests that were selected by name, gave no result, and are not listed.
    #[serde(default)]
    pub not_run: u64,
    /// Bytes of stdout before the tail.
    pub stdout_bytes: u64,
    /// Bytes of stderr before the tail.
    pub stderr_bytes: u64,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with this outcome and these tests.
    pub(crate) fn report(outcome: Outcome, tests: Vec<TestCase>) -> Report {
        let mut summary = Summary::default();
        tests.iter().for_each(|test| summary.count(test.outcome));
        Report {
            outcome,
            exit_code: i32::from(outcome.exit_code(None)),
            raw_exit_code: None,
            framework: "go".into(),
            summary,
            failed_parents: tests.iter().filter(|test| test.failed_by_subtest).count() as u64,
            flaky_in_run: 0,
            duration_s: 0.0,
            started_at: Timestamp(0),
            ended_at: Timestamp(0),
            partial: false,
            is_scoped: false,
            structured: true,
            tests,
            collectors: Vec::new(),
            evidence: Evidence::default(),
            resources: Resources::default(),
            usage: Vec::new(),
            limits: Limits::DEFAULT,
            isolation: Isolation::default(),
            coverage: CoverageSummary::default(),
            stdout_tail: String::new(),
            stderr_tail: String::new(),
            artifacts: Vec::new(),
            since_last_run: None,
            since_last_green: None,
            repetitions: None,
            quarantined: None,
            affected: None,
            untested: None,
            check: None,
            checked_since: None,
            truncated: Truncated::default(),
        }
    }

    #[test]
    fn the_json_document_has_its_documented_fields() {
        let document = serde_json::to_value(report(Outcome::Passed, Vec::new())).unwrap();
        for field in [
            "outcome",
            "exit_code",
            "raw_exit_code",
            "framework",
            "summary",
            "failed_parents",
            "flaky_in_run",
            "duration_s",
            "partial",
            "tests",
            "collectors",
            "evidence",
            "resources",
            "limits",
            "isolation",
            "coverage",
            "stdout_tail",
            "stderr_tail",
            "truncated",
        ] {
            assert!(document.get(field).is_some(), "{field}");
        }
        for field in ["total", "passed", "failed", "skipped", "xfailed", "xpassed", "error"] {
            assert_eq!(document["summary"][field], 0, "{field}");
        }
    }
}
