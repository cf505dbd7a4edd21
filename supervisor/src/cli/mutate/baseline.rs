//! The tests as they are: one run that measures which test executes which line, and one without measuring, which shows how
//! long the suite takes. A test that fails in one of them cannot show anything about a mutant.

use super::verdict::Unmutated;
use crate::cli::arguments::Output;
use crate::cli::mutate_arguments::MutateArgs;
use crate::cli::signals::Signals;
use crate::cli::{CANCELLED, CommandError, run};
use crate::sessions::SessionHandle;
use proctor_core::coverage::CoverageIndex;
use proctor_core::limits::LimitRequest;
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::request::{CoverageMode, RunKind, RunRequest};
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use proctor_frameworks::FRAMEWORKS;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time of a mutant's run beyond what its tests need: a loaded host, and a runner that starts slowly.
const TIME_CONSTANT: Duration = Duration::from_secs(10);

/// How much longer the tests of a mutant may take than without it.
const TIME_FACTOR: f64 = 10.0;

/// What the unmutated tests showed.
pub(super) struct Baseline {
    pub(super) framework: String,
    pub(super) index: CoverageIndex,
    /// How the suite ended.
    pub(super) unmutated: Unmutated,
    /// Tests that passed in the run that measured.
    pub(super) passed: usize,
    /// Tests that started processes, of which no line is known.
    pub(super) with_processes: Vec<TestId>,
    /// Seconds of each test.
    durations: BTreeMap<TestId, f64>,
    /// Seconds of the whole suite without measuring.
    pub(super) suite_s: f64,
    /// Sentences about what is not known.
    pub(super) notes: Vec<String>,
}

impl Baseline {
    /// Runs the suite twice.
    ///
    /// # Errors
    /// If no test passes, or no lines by test are measured.
    pub(super) async fn measure(
        session: &SessionHandle,
        arguments: &MutateArgs,
        signals: &mut Signals,
    ) -> Result<Baseline, CommandError> {
        let is_human = arguments.output == Output::Human;
        let request = |coverage| RunRequest {
            framework: arguments.framework.clone(),
            coverage,
            limits: LimitRequest { wall_ms: arguments.timeout.map(|timeout| timeout.ms), ..LimitRequest::default() },
            ..RunRequest::default()
        };
        let (_, measured) = run::execute(session, request(CoverageMode::On), RunKind::Tests, is_human, signals).await?;
        check_ended(&measured)?;
        let memory = session.memory().await.map_err(|error| CommandError::host(error.to_string()))?;
        check_lines(&measured, &memory.index)?;
        let (_, timed) = run::execute(session, request(CoverageMode::Off), RunKind::Tests, is_human, signals).await?;
        check_ended(&timed)?;
        let reports = [&measured, &timed];
        let tests = || reports.iter().flat_map(|report| &report.tests);
        let failing: BTreeSet<TestId> = tests().filter(|test| test.outcome.is_failure()).map(TestCase::id).collect();
        let seconds = |test: &TestCase| Some((test.id(), test.duration_s?));
        let passed = measured.tests.iter().filter(|test| test.outcome == TestOutcome::Passed).count();
        let mut notes: Vec<String> = Vec::new();
        if let Some(collector) = measured.collectors.first() {
            notes.push(format!("not everything could be built or loaded without a mutant: {}", collector.nodeid));
        }
        if !failing.is_empty() {
            let first = failing.first().map(TestId::full_name).unwrap_or_default();
            notes.push(format!("{} test(s) fail without a mutant and are left out: {first}, ...", failing.len()));
        }
        Ok(Baseline {
            framework: measured.framework.clone(),
            with_processes: memory.index.tests_with_processes(),
            index: memory.index,
            unmutated: Unmutated { failing, outcome: timed.outcome, collectors: timed.collectors.len() },
            passed,
            durations: tests().filter_map(seconds).collect(),
            suite_s: timed.duration_s,
            notes,
        })
    }

    /// Time limit of a run of these tests with a mutant, in milliseconds: many times what they took, and what the runner needs
    /// to build and start.
    pub(super) fn wall_ms(&self, tests: &[TestId]) -> u64 {
        let tests_s: f64 = tests.iter().filter_map(|test| self.durations.get(test)).sum();
        let all_s: f64 = self.durations.values().sum();
        // What is left of the suite's time is the start of its runner and its builds. A runner with several processes has
        // more seconds of tests than of time.
        let start_s = (self.suite_s - all_s).max(self.suite_s / 4.0).max(0.0);
        limit_ms(tests_s.min(self.suite_s * 4.0), start_s)
    }

    /// The same of the whole suite.
    pub(super) fn suite_wall_ms(&self) -> u64 {
        limit_ms(self.suite_s, 0.0)
    }

    /// Whether a test shows something: it passes without a mutant.
    pub(super) fn is_sound(&self, test: &TestId) -> bool {
        !self.unmutated.failing.contains(test)
    }

    /// The tests among these that show something.
    pub(super) fn sound(&self, tests: Vec<TestId>) -> Vec<TestId> {
        tests.into_iter().filter(|test| self.is_sound(test)).collect()
    }
}

fn limit_ms(tests_s: f64, start_s: f64) -> u64 {
    let limit = TIME_CONSTANT + Duration::try_from_secs_f64(TIME_FACTOR * tests_s + 3.0 * start_s).unwrap_or_default();
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

/// Refuses a suite that did not run, so that nothing can be said about a mutant.
fn check_ended(report: &Report) -> Result<(), CommandError> {
    if report.outcome == Outcome::Cancelled {
        return Err(CommandError { code: CANCELLED, text: "cancelled: no mutant was run".to_owned() });
    }
    let has_passed = report.tests.iter().any(|test| test.outcome == TestOutcome::Passed);
    let can_be_used = matches!(report.outcome, Outcome::Passed | Outcome::Failed)
        || matches!(report.outcome, Outcome::BuildFailed | Outcome::CollectionFailed) && !report.partial;
    if can_be_used && has_passed {
        return Ok(());
    }
    let outcome = report.outcome;
    let text = format!(
        "the tests do not pass without a mutant ({}): `proctor run` shows why; a mutant can only be noticed by a test that \
         passes",
        outcome.name()
    );
    Err(CommandError { code: outcome.exit_code(report.evidence.signal).max(1), text })
}

/// Refuses a framework without lines by test.
fn check_lines(report: &Report, index: &CoverageIndex) -> Result<(), CommandError> {
    if index.has_measured() && index.files() > 0 {
        return Ok(());
    }
    let measured: Vec<&str> = FRAMEWORKS
        .iter()
        .map(|framework| framework.manifest())
        .filter(|manifest| manifest.options.coverage)
        .map(|manifest| manifest.name)
        .collect();
    let why = report.coverage.notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
    Err(CommandError::usage(format!(
        "no executed lines were measured for {}{why}: mutants are made of lines that a test executes; proctor measures them \
         for {}",
        report.framework,
        measured.join(", ")
    )))
}
