//! Repeated executions of the tests of one run, and the tests that had both results in them.
//!
//! An execution is one start of the runner to its end. A repetition is an execution of the whole selection, a retry one of
//! the tests that only failed so far.
//!
//! A repeated execution never makes a failure green: a test that failed once has failed, and one with both results is
//! flaky besides.

use crate::bounds::{
    FLAKY_NOTES_MAX, HISTORY_CHANGES_BYTES_MAX, HISTORY_CHANGES_LISTED_MAX, HISTORY_RUN_NAMES_BYTES_MAX,
};
use crate::history::flakiness::Rate;
use crate::test_case::{TestCase, TestId, TestOutcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a run executes its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repetition {
    /// Executions of the whole selection, at least 1.
    pub repeat: u32,
    /// Whether the executions end when one differs from those before it.
    pub until_different: bool,
    /// Most further executions of the tests that have only failed.
    pub retry_failed: u32,
}

impl Repetition {
    /// One execution.
    pub const ONCE: Repetition = Repetition { repeat: 1, until_different: false, retry_failed: 0 };

    /// Whether the tests are executed once, whatever their results.
    #[must_use]
    pub fn is_once(self) -> bool {
        self.repeat <= 1 && self.retry_failed == 0
    }
}

impl Default for Repetition {
    fn default() -> Repetition {
        Repetition::ONCE
    }
}

/// What the executions of a run showed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Executions of the whole selection that were requested.
    pub requested: u32,
    /// Those that took place, also one that was cut off.
    pub executions: u32,
    /// Those among them that did not pass.
    pub failed: u32,
    /// Further executions, of failed tests only.
    pub retries: u32,
    /// Tests that passed and failed, those that surely fail most often first, at most [`HISTORY_CHANGES_LISTED_MAX`] and
    /// [`HISTORY_CHANGES_BYTES_MAX`] of names.
    pub flaky: Vec<FlakyInRun>,
    /// Results of each counted test, for the history and for commands in this process: messages do not carry them.
    #[serde(skip)]
    pub counts: Arc<BTreeMap<TestId, ResultCounts>>,
    /// By test, the tests that finished before its first own failure in that execution, in their order, for the history and
    /// for commands in this process. At most [`HISTORY_RUN_NAMES_BYTES_MAX`] of names.
    #[serde(skip)]
    pub failing_orders: Arc<FailingOrders>,
    /// Whether files of the workspace changed between two executions: the history then takes no test for flaky.
    #[serde(skip)]
    pub files_changed: bool,
}

impl Repetitions {
    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let flaky: usize = self.flaky.iter().map(|flaky| size_of::<FlakyInRun>() + flaky.name_bytes()).sum();
        let counts = self.counts.keys().map(|test| size_of::<(TestId, ResultCounts)>() + test.text_bytes());
        let orders = self.failing_orders.names_bytes * 2;
        flaky + counts.sum::<usize>() + orders
    }
}

/// The order of the tests in the executions in which tests failed first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FailingOrders {
    /// The distinct orders.
    orders: Vec<Vec<TestId>>,
    /// By failed test, the place of its order.
    of_test: BTreeMap<TestId, usize>,
    names_bytes: usize,
}

impl FailingOrders {
    /// Keeps the order of an execution for tests that failed in it for the first time.
    fn add(&mut self, order: &[TestId], failed: Vec<TestId>) {
        let known = self.orders.iter().position(|known| known == order);
        let place = match known {
            Some(place) => place,
            None => {
                let bytes: usize = order.iter().map(TestId::text_bytes).sum();
                if self.names_bytes + bytes > HISTORY_RUN_NAMES_BYTES_MAX {
                    return;
                }
                self.names_bytes += bytes;
                self.orders.push(order.to_vec());
                self.orders.len() - 1
            }
        };
        self.of_test.extend(failed.into_iter().map(|test| (test, place)));
    }

    /// The order of the execution in which this test failed first, if it is kept.
    #[must_use]
    pub fn of(&self, test: &TestId) -> Option<&[TestId]> {
        self.of_test.get(test).and_then(|place| self.orders.get(*place)).map(Vec::as_slice)
    }

    /// The order of the first execution in which a test failed.
    #[must_use]
    pub fn first(&self) -> &[TestId] {
        self.orders.first().map_or(&[], Vec::as_slice)
    }
}

/// The tests of one execution in the order in which they finished.
#[must_use]
pub fn finish_order(tests: &[TestCase]) -> Vec<TestId> {
    let mut tests: Vec<&TestCase> = tests.iter().collect();
    tests.sort_by_key(|test| test.position);
    tests.into_iter().map(TestCase::id).collect()
}

/// How often one test had each result in the executions of a run. Skips do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResultCounts {
    /// Executions that it passed.
    pub passed: u64,
    /// Executions that it failed by itself.
    pub failed: u64,
    /// Executions that it failed only because its subtest did.
    pub echoed: u64,
}

impl ResultCounts {
    /// Whether it passed, and failed by itself.
    #[must_use]
    pub fn is_flaky(self) -> bool {
        self.passed > 0 && self.failed > 0
    }

    /// Executions that passed or failed it.
    #[must_use]
    pub fn executions(self) -> u64 {
        self.passed + self.failed + self.echoed
    }

    /// The failures among them.
    #[must_use]
    pub fn failures(self) -> u64 {
        self.failed + self.echoed
    }
}

/// The result of a test in one execution, the one that counts last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ExecutionResult {
    Passed,
    Echoed,
    Failed,
}

/// A test that passed and failed in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlakyInRun {
    /// The test.
    pub test: TestId,
    /// Executions that passed or failed it. Skips, and executions that proctor ended early, do not count.
    pub executions: u64,
    /// The failures among them.
    pub failures: u64,
    /// The rate of failures. Of a retried test it is too high, as only failures are retried.
    #[serde(flatten)]
    pub rate: Rate,
    /// Number of the first execution in which it failed, from 1; retries are counted on.
    pub first_failure: u64,
    /// Shortest and longest time in seconds, where the runner measures it.
    pub fastest_s: Option<f64>,
    /// See `fastest_s`.
    pub slowest_s: Option<f64>,
    /// The test that finished last before it in its first failed execution: a cause, if the order matters.
    pub failed_after: Option<TestId>,
    /// Seed that the runner printed in that execution: a rerun with it has the same order or the same random values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
}

impl FlakyInRun {
    fn name_bytes(&self) -> usize {
        self.test.text_bytes() + self.failed_after.as_ref().map_or(0, TestId::text_bytes)
    }

    /// One sentence with the evidence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let times = match (self.fastest_s, self.slowest_s) {
            (Some(fastest), Some(slowest)) => format!("; it took {fastest:.3} s to {slowest:.3} s"),
            _ => String::new(),
        };
        let seed = self.seed.as_ref().map_or_else(String::new, |seed| format!(", with seed {seed}"));
        let after = self.failed_after.as_ref().map_or_else(String::new, |test| format!(", after {}", test.full_name()));
        format!(
            "{} is flaky: it failed {} of {} executions ({}), first in execution {}{after}{seed}{times}",
            self.test.full_name(),
            self.failures,
            self.executions,
            self.rate,
            self.first_failure,
        )
    }
}

/// Counts the results of each test over the executions of a run.
///
/// Tests beyond [`HISTORY_RUN_NAMES_BYTES_MAX`] of names are not counted.
#[derive(Debug, Clone, Default)]
pub struct ExecutionTally {
    tests: BTreeMap<TestId, Counts>,
    failing_orders: FailingOrders,
    names_bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    results: ResultCounts,
    first_failure: u64,
    fastest_s: Option<f64>,
    slowest_s: Option<f64>,
    failed_after: Option<TestId>,
    seed: Option<String>,
}

impl ExecutionTally {
    /// Counts the tests of one execution that proctor did not end early. `number` is its number, from 1; `predecessors` has
    /// the test that finished before each failed one, and `output` is the end of what the runner printed. A parent that only
    /// echoes its failed subtest has not failed by itself.
    pub fn add(&mut self, number: u64, tests: &[TestCase], predecessors: &BTreeMap<TestId, TestId>, output: &str) {
        let seed = printed_seed(output);
        let mut results: BTreeMap<TestId, (ExecutionResult, Option<f64>)> = BTreeMap::new();
        for test in tests {
            let id = test.id();
            let found = match test.outcome {
                TestOutcome::Passed => ExecutionResult::Passed,
                TestOutcome::Failed | TestOutcome::Error if test.failed_by_subtest => ExecutionResult::Echoed,
                TestOutcome::Failed | TestOutcome::Error => ExecutionResult::Failed,
                TestOutcome::Skipped | TestOutcome::Xfailed | TestOutcome::Xpassed => continue,
            };
            // A runner may report a test more than once: a failure counts.
            let result = results.entry(id).or_insert((found, test.duration_s));
            result.0 = result.0.max(found);
        }
        let mut failed_first = Vec::new();
        for (id, (result, duration_s)) in results {
            let names = id.text_bytes();
            if !self.tests.contains_key(&id) {
                if self.names_bytes + names > HISTORY_RUN_NAMES_BYTES_MAX {
                    continue;
                }
                self.names_bytes += names;
            }
            let predecessor = predecessors.get(&id);
            let counts = self.tests.entry(id.clone()).or_default();
            match result {
                ExecutionResult::Passed => counts.results.passed += 1,
                ExecutionResult::Echoed => counts.results.echoed += 1,
                ExecutionResult::Failed => {
                    counts.results.failed += 1;
                    if counts.first_failure == 0 {
                        counts.first_failure = number;
                        counts.failed_after = predecessor.cloned();
                        counts.seed = seed.map(str::to_owned);
                        failed_first.push(id);
                    }
                }
            }
            if let Some(time) = duration_s {
                counts.fastest_s = Some(counts.fastest_s.map_or(time, |fastest| fastest.min(time)));
                counts.slowest_s = Some(counts.slowest_s.map_or(time, |slowest| slowest.max(time)));
            }
        }
        if !failed_first.is_empty() {
            self.failing_orders.add(&finish_order(tests), failed_first);
        }
    }

    /// The orders in which tests failed first.
    #[must_use]
    pub fn failing_orders(&self) -> FailingOrders {
        self.failing_orders.clone()
    }

    /// Whether any test had both results.
    #[must_use]
    pub fn has_difference(&self) -> bool {
        self.tests.values().any(|counts| counts.results.is_flaky())
    }

    /// The tests that failed and never passed.
    #[must_use]
    pub fn only_failed(&self) -> Vec<TestId> {
        let only = self.tests.iter().filter(|(_, counts)| counts.results.failed > 0 && counts.results.passed == 0);
        only.map(|(test, _)| test.clone()).collect()
    }

    /// The results of each counted test.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<TestId, ResultCounts> {
        self.tests.iter().map(|(test, counts)| (test.clone(), counts.results)).collect()
    }

    /// The number of flaky tests, and the first of them, those that surely fail most often first.
    #[must_use]
    pub fn flaky(self) -> (u64, Vec<FlakyInRun>) {
        let flaky = self.tests.into_iter().filter(|(_, counts)| counts.results.is_flaky());
        let mut flaky: Vec<FlakyInRun> = flaky.map(|(test, counts)| evidence(test, counts)).collect();
        flaky.sort_by(|a, b| b.rate.low.total_cmp(&a.rate.low).then_with(|| a.test.cmp(&b.test)));
        let total = flaky.len() as u64;
        let mut bytes = 0;
        flaky.truncate(HISTORY_CHANGES_LISTED_MAX);
        flaky.retain(|flaky| {
            bytes += flaky.name_bytes();
            bytes <= HISTORY_CHANGES_BYTES_MAX
        });
        (total, flaky)
    }
}

fn evidence(test: TestId, counts: Counts) -> FlakyInRun {
    let ResultCounts { passed, failed, .. } = counts.results;
    let executions = passed + failed;
    FlakyInRun {
        test,
        executions,
        failures: failed,
        rate: Rate::new(failed, executions),
        first_failure: counts.first_failure,
        fastest_s: counts.fastest_s,
        slowest_s: counts.slowest_s,
        failed_after: counts.failed_after,
        seed: counts.seed,
    }
}

/// What runners and their plugins print before the seed of a shuffled order or of random values: pytest-randomly, Go,
/// RSpec, PHPUnit, Jest, Vitest, libtest.
const SEED_WORDS: [&str; 7] = [
    "--randomly-seed=",
    "-test.shuffle ",
    "Randomized with seed ",
    "Random Seed:",
    "Seed:",
    "tests with seed ",
    "shuffle seed: ",
];

/// Digits of the longest seed, of 64 bits.
const SEED_DIGITS_MAX: usize = 20;

/// The seed that was printed last.
fn printed_seed(output: &str) -> Option<&str> {
    let begin = |words: &&str| output.rfind(words).map(|at| at + words.len());
    let rest = output[SEED_WORDS.iter().filter_map(begin).max()?..].trim_start_matches([' ', '"']);
    let digits = rest.strip_prefix('-').unwrap_or(rest);
    let digits = digits.find(|c: char| !c.is_ascii_digit()).map_or(digits, |end| &digits[..end]);
    let sign = usize::from(rest.starts_with('-'));
    (1..=SEED_DIGITS_MAX).contains(&digits.len()).then(|| &rest[..sign + digits.len()])
}

/// The sentences about flaky tests for the notes of a report: the first ones, and the number of the others.
#[must_use]
pub fn flaky_notes(total: u64, flaky: &[FlakyInRun]) -> Vec<String> {
    let mut notes: Vec<String> = flaky.iter().take(FLAKY_NOTES_MAX).map(FlakyInRun::sentence).collect();
    let more = total.saturating_sub(notes.len() as u64);
    if more > 0 {
        notes.push(format!("{more} further tests passed and failed in this run"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn case(name: &str, outcome: TestOutcome) -> TestCase {
        TestCase { duration_s: Some(0.25), ..TestCase::new(id(name), format!("p/{name}"), outcome) }
    }

    fn id(name: &str) -> TestId {
        TestId { package: "p".to_owned(), name: name.to_owned() }
    }

    fn tally(executions: &[&[(&str, TestOutcome)]]) -> ExecutionTally {
        let mut tally = ExecutionTally::default();
        for (number, execution) in (1..).zip(executions) {
            let tests: Vec<TestCase> = execution.iter().map(|(name, outcome)| case(name, *outcome)).collect();
            tally.add(number, &tests, &BTreeMap::from([(id("flaky"), id("polluter"))]), "Using --randomly-seed=7\n");
        }
        tally
    }

    #[test]
    fn a_test_with_both_results_is_flaky_with_its_evidence() {
        use TestOutcome::{Error, Failed, Passed, Skipped};
        let tally = tally(&[
            &[("flaky", Passed), ("broken", Failed), ("sound", Passed), ("skipped", Skipped)],
            &[("flaky", Error), ("broken", Failed), ("sound", Passed), ("skipped", Failed)],
            &[("flaky", Passed), ("broken", Failed), ("sound", Passed), ("skipped", Skipped)],
        ]);
        assert!(tally.has_difference());
        assert_eq!(tally.only_failed(), [id("broken"), id("skipped")]);
        let (total, flaky) = tally.flaky();
        assert_eq!((total, flaky.len(), &flaky[0].test), (1, 1, &id("flaky")));
        assert_eq!(
            flaky[0].sentence(),
            "p/flaky is flaky: it failed 1 of 3 executions (33 %, 95 % interval 6 % to 79 %), first in execution 2, after \
             p/polluter, with seed 7; it took 0.250 s to 0.250 s"
        );
    }

    #[test]
    fn finds_the_seed_that_was_printed_last() {
        for (output, seed) in [
            ("Using --randomly-seed=3411\nUsing --randomly-seed=42\n..", Some("42")),
            (
                "{\"Action\":\"output\",\"Output\":\"-test.shuffle 1700000000000000000\\n\"}",
                Some("1700000000000000000"),
            ),
            ("Randomized with seed 45433\n", Some("45433")),
            ("Random Seed:   1621515023\n", Some("1621515023")),
            ("Seed:      -1155866834\n", Some("-1155866834")),
            ("Running tests with seed \"99\"", Some("99")),
            ("Seed: none", None),
            ("Seed: 123456789012345678901234567890", None),
            ("no seed here", None),
            ("", None),
        ] {
            assert_eq!(printed_seed(output), seed, "{output}");
        }
    }

    #[test]
    fn a_parent_that_echoes_its_flaky_subtest_is_not_flaky_itself() {
        use TestOutcome::{Failed, Passed};
        let mut tally = ExecutionTally::default();
        let parent = TestCase { failed_by_subtest: true, ..case("T", Failed) };
        for (number, tests) in [(1, [case("T/a", Passed), case("T", Passed)]), (2, [case("T/a", Failed), parent])] {
            tally.add(number, &tests, &BTreeMap::new(), "");
        }
        let parent = tally.counts()[&id("T")];
        assert_eq!((parent.executions(), parent.failures(), parent.is_flaky()), (2, 1, false));
        let (_, flaky) = tally.flaky();
        assert_eq!(flaky.iter().map(|flaky| flaky.test.name.as_str()).collect::<Vec<_>>(), ["T/a"]);
    }

    #[test]
    fn an_execution_that_does_not_count_keeps_its_number() {
        let mut tally = ExecutionTally::default();
        for (number, outcome) in [(1, TestOutcome::Passed), (3, TestOutcome::Failed)] {
            tally.add(number, &[case("a", outcome)], &BTreeMap::new(), "");
        }
        let (_, flaky) = tally.flaky();
        assert_eq!((flaky[0].first_failure, flaky[0].executions), (3, 2));
    }

    #[test]
    fn two_results_in_one_execution_count_as_one_failure() {
        use TestOutcome::{Failed, Passed};
        let tally = tally(&[&[("a", Passed), ("a", Failed)], &[("a", Passed)]]);
        let (_, flaky) = tally.flaky();
        assert_eq!((flaky[0].executions, flaky[0].failures), (2, 1));
    }

    #[test]
    fn notes_name_the_first_and_count_the_others() {
        use TestOutcome::{Failed, Passed};
        let names: Vec<String> = (0..40).map(|number| format!("t{number:02}")).collect();
        let all = |outcome| -> Vec<(&str, TestOutcome)> { names.iter().map(|name| (name.as_str(), outcome)).collect() };
        let (total, flaky) = tally(&[&all(Passed), &all(Failed)]).flaky();
        let notes = flaky_notes(total, &flaky);
        assert_eq!((total, notes.len()), (40, FLAKY_NOTES_MAX + 1));
        assert_eq!(notes.last().unwrap(), "30 further tests passed and failed in this run");
    }

    proptest! {
        #[test]
        fn exactly_the_tests_with_both_results_are_flaky(
            executions in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 6), 1..12),
        ) {
            let names = ["a", "b", "c", "d", "e", "f"];
            let outcome = |failed: bool| if failed { TestOutcome::Failed } else { TestOutcome::Passed };
            let rows: Vec<Vec<(&str, TestOutcome)>> = executions
                .iter()
                .map(|row| names.into_iter().zip(row).map(|(name, failed)| (name, outcome(*failed))).collect())
                .collect();
            let rows: Vec<&[(&str, TestOutcome)]> = rows.iter().map(Vec::as_slice).collect();
            let (_, flaky) = tally(&rows).flaky();
            let mut found: Vec<&str> = flaky.iter().map(|flaky| flaky.test.name.as_str()).collect();
            found.sort_unstable();
            let both = |column: usize| {
                executions.iter().any(|row| row[column]) && executions.iter().any(|row| !row[column])
            };
            let expected: Vec<&str> = (0..6).filter(|column| both(*column)).map(|column| names[column]).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
