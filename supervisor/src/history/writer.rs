//! The thread that writes the histories of all tenants: opens a database when a run of its tenant ends, compares the run
//! with the earlier ones, and inserts it, in one transaction.

use super::database::{Database, move_aside};
use super::retention::{self, LAST_RUN_LAG};
use super::run_record::RunRecord;
use super::{Comparison, HistoryError, HistoryLocation, Job};
use proctor_core::history::result_encoding::{decode, encode};
use proctor_core::history::{Changes, SinceLastGreen, SinceLastRun, TestGroup, TestResult, compare};
use proctor_core::outcome::Outcome;
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;

/// Databases that stay open: the tenants that are active at a time, each with three descriptors and 2 MiB of memory.
const OPEN_MAX: usize = 16;

/// Earlier runs in which the last result of a test is looked for. A run of all tests ends the search.
const EARLIER_RUNS_MAX: u32 = 50;

/// Writes until the last handle is gone and the queue is empty.
pub(super) fn write_all(queue: &Receiver<Job>) {
    let mut writer = Writer { open: Vec::new() };
    while let Ok(job) = queue.recv() {
        match job {
            // The run may have stopped waiting.
            Job::Record { location, run, reply } => _ = reply.try_send(writer.record(&location, &run)),
            Job::Flush { reply } => _ = reply.try_send(()),
        }
    }
}

struct Writer {
    /// The one used last is the last.
    open: Vec<(HistoryLocation, Database)>,
}

impl Writer {
    fn record(&mut self, location: &HistoryLocation, run: &RunRecord) -> Result<Comparison, HistoryError> {
        let result = self.try_record(location, run);
        if result != Err(HistoryError::Damaged) {
            return result;
        }
        self.open.retain(|(open, _)| open != location);
        move_aside(location).map_err(|error| {
            tracing::error!(dir = %location.dir.display(), %error, "a damaged history cannot be moved aside");
            HistoryError::Damaged
        })?;
        tracing::error!(dir = %location.dir.display(), "a damaged history of runs was moved aside; a new one begins");
        Ok(Comparison { began_anew: true, ..self.try_record(location, run)? })
    }

    fn try_record(&mut self, location: &HistoryLocation, run: &RunRecord) -> Result<Comparison, HistoryError> {
        let (_, database) = self.database(location)?;
        let inserted = match insert(database, run) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
                // Full by its quota, unless the disk is.
                retention::enforce(database, 0, location.bytes_max / 2).and_then(|()| insert(database, run))
            }
            inserted => inserted,
        };
        let (workspace, comparison) = inserted.map_err(|error| database.error(error))?;
        retention::enforce(database, workspace, location.bytes_max).map_err(|error| database.error(error))?;
        Ok(comparison)
    }

    fn database(&mut self, location: &HistoryLocation) -> Result<&(HistoryLocation, Database), HistoryError> {
        let open = self.open.iter().position(|(open, _)| open == location).map(|at| self.open.remove(at));
        let database = match open {
            Some((_, database)) if database.is_current() => database,
            _ => Database::open(location)?,
        };
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((location.clone(), database));
        self.open.last().ok_or(HistoryError::Host)
    }
}

fn insert(database: &Database, run: &RunRecord) -> rusqlite::Result<(i64, Comparison)> {
    let transaction = Transaction::new_unchecked(&database.connection, TransactionBehavior::Immediate)?;
    let inserted = insert_in(&transaction, run)?;
    transaction.commit()?;
    Ok(inserted)
}

fn insert_in(transaction: &Transaction<'_>, run: &RunRecord) -> rusqlite::Result<(i64, Comparison)> {
    transaction.prepare_cached("INSERT OR IGNORE INTO workspace (key) VALUES (?1)")?.execute([run.workspace.0])?;
    let workspace: i64 = transaction
        .prepare_cached("SELECT id FROM workspace WHERE key = ?1")?
        .query_one([run.workspace.0], |row| row.get(0))?;
    let last: i64 = transaction
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'run'")?
        .query_one([], |row| row.get(0))?;
    let tests = test_numbers(transaction, workspace, last + 1, run)?;
    let comparison = compare_with_earlier(transaction, workspace, run, &tests)?;
    insert_run(transaction, workspace, run, comparison.since_last_run.as_ref())?;
    let id = transaction.last_insert_rowid();
    let results: Vec<(u32, TestResult)> = tests.iter().map(|(number, (_, result))| (*number, *result)).collect();
    transaction
        .prepare_cached("INSERT INTO result (run, tests) VALUES (?1, ?2)")?
        .execute(params![id, encode(&results)])?;
    Ok((workspace, comparison))
}

type NumberedTests<'a> = BTreeMap<u32, (&'a TestId, TestResult)>;

// The numbers of the run's tests, new ones for new tests.
fn test_numbers<'a>(
    transaction: &Transaction<'_>,
    workspace: i64,
    run_number: i64,
    run: &'a RunRecord,
) -> rusqlite::Result<NumberedTests<'a>> {
    let mut find = transaction
        .prepare_cached("SELECT id, last_run FROM test WHERE workspace = ?1 AND package = ?2 AND name = ?3")?;
    let mut add = transaction
        .prepare_cached("INSERT INTO test (workspace, package, name, last_run) VALUES (?1, ?2, ?3, ?4) RETURNING id")?;
    let mut touch = transaction.prepare_cached("UPDATE test SET last_run = ?2 WHERE id = ?1")?;
    let mut tests = BTreeMap::new();
    for (test, result) in &run.tests {
        let found = find
            .query_one(params![workspace, test.package, test.name], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))
            .optional()?;
        let number: u32 = match found {
            Some((number, last_run)) => {
                if last_run < run_number - LAST_RUN_LAG {
                    touch.execute(params![number, run_number])?;
                }
                number
            }
            None => add.query_one(params![workspace, test.package, test.name, run_number], |row| row.get(0))?,
        };
        tests.insert(number, (test, *result));
    }
    Ok(tests)
}

fn insert_run(
    transaction: &Transaction<'_>,
    workspace: i64,
    run: &RunRecord,
    since: Option<&SinceLastRun>,
) -> rusqlite::Result<usize> {
    let summary = &run.summary;
    transaction
        .prepare_cached(
            "INSERT INTO run (workspace, run_id, started_ms, ended_ms, outcome, framework, selection, is_complete, partial,
                total, passed, failed, skipped, xfailed, xpassed, error, duration_us, cpu_us, memory_peak_bytes, conditions,
                new, fixed, still_failing)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)",
        )?
        .execute(params![
            workspace,
            run.run_id,
            run.started_at.0,
            run.ended_at.0,
            run.outcome.name(),
            run.framework,
            run.selection,
            run.is_complete,
            run.partial,
            summary.total,
            summary.passed,
            summary.failed,
            summary.skipped,
            summary.xfailed,
            summary.xpassed,
            summary.error,
            run.duration_us,
            run.cpu_us,
            run.memory_peak_bytes,
            run.conditions.map(|conditions| conditions.0),
            since.map(|since| since.new.total),
            since.map(|since| since.fixed.total),
            since.map(|since| since.still_failing.total),
        ])
}

// Compares each test with its last result, so that a run of some tests hides nothing from the next.
fn compare_with_earlier(
    transaction: &Transaction<'_>,
    workspace: i64,
    run: &RunRecord,
    tests: &NumberedTests<'_>,
) -> rusqlite::Result<Comparison> {
    let mut earlier = transaction.prepare_cached(
        "SELECT run_id, ended_ms, is_complete, tests FROM run JOIN result ON result.run = run.id
         WHERE workspace = ?1 AND framework = ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let mut rows = earlier.query(params![workspace, run.framework, EARLIER_RUNS_MAX])?;
    let (mut last_run, mut before) = (None, BTreeMap::new());
    while let Some(row) = rows.next()? {
        if last_run.is_none() {
            last_run = Some((row.get(0)?, Timestamp(row.get(1)?)));
        }
        for (number, result) in decode(row.get_ref(3)?.as_blob()?) {
            if result.outcome != TestOutcome::Skipped && tests.contains_key(&number) {
                before.entry(number).or_insert(result.outcome);
            }
        }
        if row.get(2)? {
            break;
        }
    }
    let echoes: BTreeSet<&TestId> = run.echoes.iter().collect();
    let own = tests.iter().filter(|(_, (test, _))| !echoes.contains(test));
    let now: BTreeMap<u32, TestOutcome> = own.map(|(number, (_, result))| (*number, result.outcome)).collect();
    let Changes { new, fixed, still_failing } = compare(&now, &before);
    let named = |numbers: &[u32]| -> Vec<TestId> {
        numbers.iter().filter_map(|number| tests.get(number)).map(|(test, _)| (*test).clone()).collect()
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

// The last green run, and the number of runs after it with this one.
fn last_green(
    transaction: &Transaction<'_>,
    workspace: i64,
    run: &RunRecord,
) -> rusqlite::Result<Option<(String, Timestamp, u64)>> {
    let found: Option<(i64, String, u64)> = transaction
        .prepare_cached(
            "SELECT id, run_id, ended_ms FROM run
             WHERE workspace = ?1 AND is_complete AND outcome = 'passed' AND framework = ?2 ORDER BY id DESC LIMIT 1",
        )?
        .query_one(params![workspace, run.framework], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    debug_assert_eq!(Outcome::Passed.name(), "passed");
    let Some((id, run_id, ended_ms)) = found else { return Ok(None) };
    let after: u64 = transaction
        .prepare_cached("SELECT count(*) FROM run WHERE workspace = ?1 AND id > ?2 AND framework = ?3")?
        .query_one(params![workspace, id, run.framework], |row| row.get(0))?;
    Ok(Some((run_id, Timestamp(ended_ms), after + 1)))
}
