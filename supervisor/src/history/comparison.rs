//! Compares a run with the earlier ones of its workspace: each test with its own last result, so that a run of some tests
//! hides nothing from the next.
//!
//! Runs in the same directory come first. Those of clones, which may have another branch checked out, only count for a
//! directory in which no run of all tests is recorded. Runs of a caller's own command are compared with nothing, as each
//! may run other tests.

use super::Comparison;
use super::run_record::{COMMAND_SELECTION, RunRecord};
use proctor_core::history::result_encoding::decode;
use proctor_core::history::{Changes, SinceLastGreen, SinceLastRun, TestGroup, TestResult, compare};
use proctor_core::outcome::Outcome;
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::{BTreeMap, BTreeSet};

/// Earlier runs of some tests in which results are looked for, before the last run of all tests: a day of work on one test.
const EARLIER_RUNS_MAX: u32 = 1_000;

/// Bytes of stored results that are read for one comparison: 1,300 runs of 2,000 tests, some 50 ms.
const EARLIER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A test of a run that is being recorded.
pub(super) struct NumberedTest<'a> {
    pub(super) id: &'a TestId,
    pub(super) result: TestResult,
    /// Whether no earlier run of the workspace has it.
    pub(super) is_new: bool,
}

/// The tests of a run by the numbers that the store gave them.
pub(super) type NumberedTests<'a> = BTreeMap<u32, NumberedTest<'a>>;

/// Compares a run that is not inserted yet.
pub(super) fn compare_with_earlier(
    transaction: &Transaction<'_>,
    workspace: i64,
    run: &RunRecord,
    tests: &NumberedTests<'_>,
) -> rusqlite::Result<Comparison> {
    if run.is_of_command() {
        return Ok(Comparison::default());
    }
    let mut search = Search {
        transaction,
        workspace,
        run,
        // A test that is skipped now is compared with nothing, so a suite with such tests ends the search as early as others.
        wanted: tests
            .iter()
            .filter(|(_, test)| !test.is_new && test.result.outcome != TestOutcome::Skipped)
            .map(|(number, _)| *number)
            .collect(),
        before: BTreeMap::new(),
        last_run: None,
        bytes: 0,
    };
    if !search.search(Scope::Directory)? {
        search.search(Scope::Clones)?;
    }
    let Search { before, last_run, .. } = search;
    let echoes: BTreeSet<&TestId> = run.echoes.iter().collect();
    let own = tests.iter().filter(|(_, test)| !echoes.contains(test.id));
    let now: BTreeMap<u32, TestOutcome> = own.map(|(number, test)| (*number, test.result.outcome)).collect();
    let Changes { new, fixed, still_failing } = compare(&now, &before);
    let named = |numbers: &[u32]| -> Vec<TestId> {
        numbers.iter().filter_map(|number| tests.get(number)).map(|test| test.id.clone()).collect()
    };
    let failing = [new.as_slice(), &still_failing].concat();
    Ok(Comparison {
        since_last_run: last_run.map(|(run_id, ended_at)| SinceLastRun {
            run_id,
            ended_at,
            new: TestGroup::new(named(&new)),
            fixed: TestGroup::new(without_parents(named(&fixed))),
            still_failing: TestGroup::new(named(&still_failing)),
        }),
        since_last_green: last_green(transaction, workspace, run)?.map(|(run_id, ended_at, runs)| SinceLastGreen {
            run_id,
            ended_at,
            runs,
            failing: TestGroup::new(named(&failing)),
        }),
        began_anew: false,
    })
}

/// Which runs of a workspace are searched.
#[derive(Debug, Clone, Copy)]
enum Scope {
    /// Those in the directory of the run.
    Directory,
    /// Those in other directories, and of a version that did not record them.
    Clones,
}

impl Scope {
    /// The condition on runs that are comparable; its parameters are workspace, framework and directory.
    fn condition(self) -> String {
        let is = match self {
            Scope::Directory => "IS",
            Scope::Clones => "IS NOT",
        };
        format!("workspace = ?1 AND framework = ?2 AND directory {is} ?3 AND selection <> '{COMMAND_SELECTION}'")
    }
}

/// Looks for the last result of each test, from the newest run to the oldest.
struct Search<'a> {
    transaction: &'a Transaction<'a>,
    workspace: i64,
    run: &'a RunRecord,
    /// Tests without an earlier result yet.
    wanted: BTreeSet<u32>,
    before: BTreeMap<u32, TestOutcome>,
    last_run: Option<(String, Timestamp)>,
    bytes: usize,
}

impl Search<'_> {
    /// Searches the runs of a scope; returns whether one of them ran all tests.
    fn search(&mut self, scope: Scope) -> rusqlite::Result<bool> {
        let condition = scope.condition();
        let columns = "SELECT id, run_id, ended_ms, is_complete, tests FROM run JOIN result ON result.run = run.id";
        let mut oldest = i64::MAX;
        let latest = format!("{columns} WHERE {condition} ORDER BY id DESC LIMIT {EARLIER_RUNS_MAX}");
        if self.read(&latest, &mut oldest)? {
            return Ok(true);
        }
        if oldest == i64::MAX {
            return Ok(false);
        }
        let complete =
            format!("{columns} WHERE {condition} AND is_complete AND id < {oldest} ORDER BY id DESC LIMIT 1");
        self.read(&complete, &mut oldest)
    }

    /// Reads the runs of a query until one ran all tests, and then only for those tests that it skipped. Returns whether
    /// one did.
    fn read(&mut self, sql: &str, oldest: &mut i64) -> rusqlite::Result<bool> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.workspace, self.run.framework, self.run.directory.0])?;
        let mut has_complete = false;
        while let Some(row) = rows.next()? {
            *oldest = row.get(0)?;
            if self.last_run.is_none() {
                self.last_run = Some((row.get(1)?, Timestamp(row.get(2)?)));
            }
            let results = row.get_ref(4)?.as_blob()?;
            let mut skipped = BTreeSet::new();
            for (number, result) in decode(results).filter(|(number, _)| self.wanted.contains(number)) {
                if result.outcome == TestOutcome::Skipped {
                    skipped.insert(number);
                } else {
                    self.before.entry(number).or_insert(result.outcome);
                }
            }
            self.wanted.retain(|number| !self.before.contains_key(number));
            if row.get(3)? && !has_complete {
                has_complete = true;
                self.wanted.retain(|number| skipped.contains(number));
            }
            self.bytes += results.len();
            if self.bytes > EARLIER_BYTES_MAX || has_complete && self.wanted.is_empty() {
                break;
            }
        }
        Ok(has_complete)
    }
}

// A fixed test that failed only because of its subtest is no repair of its own.
fn without_parents(mut tests: Vec<TestId>) -> Vec<TestId> {
    tests.sort_unstable();
    let is_parent = |test: &TestId| {
        let prefix = format!("{}/", test.name);
        let child = tests.partition_point(|other| (&other.package, &other.name) < (&test.package, &prefix));
        tests.get(child).is_some_and(|other| other.package == test.package && other.name.starts_with(&prefix))
    };
    let keep: Vec<bool> = tests.iter().map(|test| !is_parent(test)).collect();
    tests.into_iter().zip(keep).filter_map(|(test, keep)| keep.then_some(test)).collect()
}

// The last green run, and the number of runs after it with this one: in the directory of the run, else of its clones.
fn last_green(
    transaction: &Transaction<'_>,
    workspace: i64,
    run: &RunRecord,
) -> rusqlite::Result<Option<(String, Timestamp, u64)>> {
    debug_assert_eq!(Outcome::Passed.name(), "passed");
    for scope in [Scope::Directory, Scope::Clones] {
        let condition = scope.condition();
        let found: Option<(i64, String, u64)> = transaction
            .prepare_cached(&format!(
                "SELECT id, run_id, ended_ms FROM run
                 WHERE {condition} AND is_complete AND outcome = 'passed' ORDER BY id DESC LIMIT 1"
            ))?
            .query_one(params![workspace, run.framework, run.directory.0], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        if let Some((id, run_id, ended_ms)) = found {
            // Since a clone passed, the runs in this directory count too.
            let counted = match scope {
                Scope::Directory => condition,
                Scope::Clones => format!("({condition} OR {})", Scope::Directory.condition()),
            };
            let after: u64 = transaction
                .prepare_cached(&format!("SELECT count(*) FROM run WHERE {counted} AND id > ?4"))?
                .query_one(params![workspace, run.framework, run.directory.0, id], |row| row.get(0))?;
            return Ok(Some((run_id, Timestamp(ended_ms), after + 1)));
        }
    }
    Ok(None)
}
