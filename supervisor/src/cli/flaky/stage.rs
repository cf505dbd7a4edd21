//! One stage of the hunt: the condition under which the test was executed, and the results that were counted.

use crate::cli::CommandError;
use proctor_core::history::flakiness::Rate;
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use proctor_frameworks::FixedChance;
use proctor_proto::printable::line;

/// Processor time of the stage with little of it, in thousandths of a processor: a tenth of what a run has by default.
pub(super) const LITTLE_CPU_MILLIS: u32 = 200;

/// A condition under which the test is executed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// The test and no other.
    Alone,
    /// The test alone, with a source of chance that is fixed.
    AloneFixed(FixedChance),
    /// The test alone, with the seed of an execution in which it failed.
    AloneSeeded(u32),
    /// The test alone, with [`LITTLE_CPU_MILLIS`].
    AloneLittleCpu,
    /// All tests, in the project's order. A project file may leave out tests of it.
    AmongAll,
    /// The tests that finished before it in an earlier run in which it failed.
    AfterEarlier {
        /// Id of that run.
        run_id: String,
        /// Number of these tests.
        tests: usize,
    },
    /// All tests, in the reverse order.
    Reversed,
    /// All tests, in a new random order each time.
    Shuffled,
    /// All tests, in the order of a seed.
    ShuffledBy(u32),
    /// Some of the tests that finished before it.
    AfterSome(Vec<TestId>),
    /// One other test before it.
    After(String),
}

impl Condition {
    /// What was executed.
    pub(super) fn name(&self) -> String {
        match self {
            Condition::Alone => "alone".to_owned(),
            Condition::AloneFixed(FixedChance { variable, value, .. }) => format!("alone with {variable}={value}"),
            Condition::AloneSeeded(seed) => format!("alone with seed {seed}"),
            Condition::AloneLittleCpu => "alone under cpu pressure".to_owned(),
            Condition::AmongAll => "among all tests".to_owned(),
            Condition::AfterEarlier { run_id, tests } => format!("after the {tests} test(s) before it in run {run_id}"),
            Condition::Reversed => "among all tests in the reverse order".to_owned(),
            Condition::Shuffled => "among all tests in random orders".to_owned(),
            Condition::ShuffledBy(seed) => format!("among all tests in the order of seed {seed}"),
            Condition::AfterSome(tests) => {
                let ends = [tests.first(), tests.last()].into_iter().flatten().map(TestId::full_name);
                let mut ends: Vec<String> = ends.map(|name| line(&name).into_owned()).collect();
                ends.dedup();
                format!("after {} of the tests before it ({})", tests.len(), ends.join(" to "))
            }
            Condition::After(name) => format!("after {}", line(name)),
        }
    }

    /// The one test that was executed before it.
    pub(super) fn culprit(&self) -> Option<&str> {
        if let Condition::After(name) = self { Some(name) } else { None }
    }
}

/// Results of the test in the executions of one run.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) condition: Condition,
    /// Other tests that had a result, without its parents and subtests: a runner may be unable to select one test.
    pub(super) others: usize,
    pub(super) executions: u64,
    pub(super) failures: u64,
    /// The tests that finished before it in its first failed execution, in their order, without its parents and subtests.
    pub(super) before: Vec<TestId>,
    /// Seed that the runner printed in that execution.
    pub(super) seed: Option<String>,
    pub(super) outcome: Outcome,
    /// Exit status of the outcome.
    pub(super) exit_code: u8,
}

/// What the report of a stage shows of the test.
pub(super) struct Found {
    pub(super) stage: Stage,
    /// The test, if the stage had it.
    pub(super) test: Option<TestId>,
    /// Name of the framework that executed it.
    pub(super) framework: String,
}

impl Stage {
    /// Counts the results of the wanted test.
    ///
    /// # Errors
    /// If several tests have its name.
    pub(super) fn from_report(condition: Condition, report: &Report, wanted: &str) -> Result<Found, CommandError> {
        let mut named = report.tests.iter().filter(|test| test.spellings().any(|name| name == wanted));
        let (test, other) = (named.next(), named.next());
        if let (Some(one), Some(other)) = (test, other) {
            let (one, other) = (line(&one.nodeid), line(&other.nodeid));
            return Err(CommandError::usage(format!(
                "several tests have this name: {one}, {other}; give the whole name"
            )));
        }
        let id = test.map(TestCase::id);
        let (executions, failures) = test.map_or((0, 0), |test| counts_of(report, test));
        let is_other = |test: &TestId| id.as_ref().is_none_or(|id| !are_related(id, test));
        let others = report.tests.iter().filter(|test| is_other(&test.id())).count();
        let (before, seed) = id.as_ref().map(|id| first_failure(report, id)).unwrap_or_default();
        let exit_code = report.outcome.exit_code(report.evidence.signal);
        let stage = Stage { condition, others, executions, failures, before, seed, outcome: report.outcome, exit_code };
        Ok(Found { stage, test: id, framework: report.framework.clone() })
    }

    /// One line with the counts.
    pub(super) fn shown(&self) -> String {
        let name = self.condition.name();
        if self.executions == 0 {
            return format!("{name}: the test gave no result ({})", self.outcome.name());
        }
        let cut = if self.is_conclusive() { String::new() } else { format!(", then {}", self.outcome.name()) };
        format!("{name}: failed {} of {} executions ({}){cut}", self.failures, self.executions, self.rate())
    }

    /// Its rate of failures.
    pub(super) fn rate(&self) -> Rate {
        Rate::new(self.failures, self.executions)
    }

    /// `3 of 20`.
    pub(super) fn counts(&self) -> String {
        format!("{} of {}", self.failures, self.executions)
    }

    /// Whether the test passed and failed.
    pub(super) fn is_mixed(&self) -> bool {
        self.failures > 0 && self.failures < self.executions
    }

    /// Whether the tests ran to their end, passed or failed: only then does a lack of failures show something.
    pub(super) fn is_conclusive(&self) -> bool {
        matches!(self.outcome, Outcome::Passed | Outcome::Failed)
    }

    /// Whether the test was executed and passed each time.
    pub(super) fn shows_passes(&self) -> bool {
        self.is_conclusive() && self.executions > 0 && self.failures == 0
    }

    /// Whether its rate of failures is above that of `other` for certain: the 95 % intervals have nothing in common.
    pub(super) fn fails_more_than(&self, other: &Stage) -> bool {
        self.executions > 0 && other.executions > 0 && self.rate().low > other.rate().high
    }
}

/// Whether one of the tests is the other, or a subtest of it.
pub(super) fn are_related(one: &TestId, other: &TestId) -> bool {
    let is_below = |part: &str, whole: &str| part.strip_prefix(whole).is_some_and(|rest| rest.starts_with('/'));
    one.package == other.package
        && (one.name == other.name || is_below(&one.name, &other.name) || is_below(&other.name, &one.name))
}

/// Executions that passed or failed the test, and the failures among them. Those of its subtests count.
fn counts_of(report: &Report, test: &TestCase) -> (u64, u64) {
    match &report.repetitions {
        Some(repetitions) => {
            let counts = repetitions.counts.get(&test.id()).copied().unwrap_or_default();
            (counts.executions(), counts.failures())
        }
        None if report.partial && report.outcome != Outcome::Crashed => (0, 0),
        None => match test.outcome {
            TestOutcome::Passed => (1, 0),
            TestOutcome::Failed | TestOutcome::Error => (1, 1),
            TestOutcome::Skipped | TestOutcome::Xfailed | TestOutcome::Xpassed => (0, 0),
        },
    }
}

/// What finished before the first failure of the test, or of a subtest of it, and the seed of that execution.
fn first_failure(report: &Report, test: &TestId) -> (Vec<TestId>, Option<String>) {
    let Some(repetitions) = &report.repetitions else { return Default::default() };
    let part = |id: &&TestId| are_related(id, test);
    let failed = repetitions.counts.keys().filter(part);
    let order = failed.filter_map(|id| Some((id, repetitions.failing_orders.of(id)?))).next();
    let before = order.map_or_else(Vec::new, |(failed, order)| {
        let before = order.iter().take_while(|id| *id != failed);
        before.filter(|id| !are_related(id, test)).cloned().collect()
    });
    let seed =
        repetitions.flaky.iter().find(|flaky| are_related(&flaky.test, test)).and_then(|flaky| flaky.seed.clone());
    (before, seed)
}
