//! The thread that writes the histories of all tenants: opens a database when a run of its tenant ends, compares the run
//! with the earlier ones, inserts it, in one transaction, answers the run, and then removes what is beyond the bounds.

use super::comparison::{NumberedTest, NumberedTests, compare_with_earlier};
use super::database::{Database, PAGE_BYTES, move_aside};
use super::retention::{self, LAST_RUN_LAG};
use super::run_record::RunRecord;
use super::{Comparison, HistoryError, HistoryLocation, Job};
use proctor_core::history::result_encoding::{encode, encode_order};
use proctor_core::history::{SinceLastRun, TestResult};
use proctor_core::test_case::TestId;
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

/// Databases that stay open: the tenants that are active at a time, each with three descriptors and 2 MiB of memory.
const OPEN_MAX: usize = 16;

/// Writes until the last handle is gone and the queue is empty.
pub(super) fn write_all(queue: &Receiver<Job>) {
    let mut writer = Writer { open: Vec::new() };
    while let Ok(job) = queue.recv() {
        match job {
            Job::Record { location, run, reply, place } => {
                let (workspace, recorded) = match writer.record(&location, &run) {
                    Ok((workspace, comparison)) => (Some(workspace), Ok(comparison)),
                    Err(error) => (None, Err(error)),
                };
                match (reply, &recorded) {
                    // The run may have stopped waiting.
                    (Some(reply), _) => _ = reply.try_send(recorded),
                    (None, Err(error)) => {
                        tracing::warn!(dir = %location.dir.display(), %error, "the run of a command is not in the history");
                    }
                    (None, Ok(_)) => {}
                }
                drop(place);
                if let Some(workspace) = workspace {
                    writer.enforce_bounds(&location, workspace);
                }
            }
            Job::Flush { reply } => _ = reply.try_send(()),
        }
    }
}

struct Writer {
    /// The one used last is the last.
    open: Vec<(HistoryLocation, Database)>,
}

impl Writer {
    /// Records a run; returns the number of its workspace and the comparison.
    fn record(&mut self, location: &HistoryLocation, run: &RunRecord) -> Result<(i64, Comparison), HistoryError> {
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
        let (workspace, comparison) = self.try_record(location, run)?;
        Ok((workspace, Comparison { began_anew: true, ..comparison }))
    }

    fn try_record(&mut self, location: &HistoryLocation, run: &RunRecord) -> Result<(i64, Comparison), HistoryError> {
        let (_, database) = self.database(location)?;
        insert_or_make_room(database, run, location.bytes_max)
    }

    /// Brings the history within its bounds after a run. The run is recorded, whatever becomes of this.
    fn enforce_bounds(&mut self, location: &HistoryLocation, workspace: i64) {
        let Some((_, database)) = self.open.last().filter(|(open, _)| open == location) else { return };
        if let Err(error) = retention::enforce(database, workspace, location.bytes_max) {
            tracing::warn!(dir = %location.dir.display(), %error, "the oldest runs of a history could not be removed");
        }
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

/// Inserts a run. If there is no room, removes old runs and tries again, unless the disk is full.
pub(super) fn insert_or_make_room(
    database: &Database,
    run: &RunRecord,
    bytes_max: u64,
) -> Result<(i64, Comparison), HistoryError> {
    let inserted = match insert(database, run) {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
            make_room(database, run, bytes_max)
                .and_then(|has_room| if has_room { insert(database, run) } else { Err(error) })
        }
        inserted => inserted,
    };
    inserted.map_err(|error| database.error(error))
}

/// Removes old runs if the quota left no room for this one. Returns false if the disk is full instead: runs that are
/// removed then are lost for nothing.
fn make_room(database: &Database, run: &RunRecord, bytes_max: u64) -> rusqlite::Result<bool> {
    let needed = bytes_needed(run);
    let (used, _) = database.bytes()?;
    if used.saturating_add(needed) < bytes_max {
        return Ok(false);
    }
    retention::remove_by_bytes(database, bytes_max.saturating_sub(needed).max(bytes_max / 4))
}

/// More than the bytes that a record takes: each new name is in a table and in an index.
fn bytes_needed(run: &RunRecord) -> u64 {
    let names: usize = run.tests.keys().map(|test| 3 * test.text_bytes() + 96).sum();
    names as u64 + 64 * PAGE_BYTES
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
    let results: Vec<(u32, TestResult)> = tests.iter().map(|(number, test)| (*number, test.result)).collect();
    transaction
        .prepare_cached("INSERT INTO result (run, tests) VALUES (?1, ?2)")?
        .execute(params![id, encode(&results)])?;
    let mut add_repeated = transaction
        .prepare_cached("INSERT OR IGNORE INTO repeated (run, test, executions, failures) VALUES (?1, ?2, ?3, ?4)")?;
    let numbers: BTreeMap<&TestId, u32> = if run.repeated.is_empty() && run.failing_order.is_empty() {
        BTreeMap::new()
    } else {
        tests.iter().map(|(number, test)| (test.id, *number)).collect()
    };
    for (test, executions, failures) in &run.repeated {
        if let Some(number) = numbers.get(test) {
            add_repeated.execute(params![id, number, executions, failures])?;
        }
    }
    let order: Vec<u32> = run.failing_order.iter().filter_map(|test| numbers.get(test).copied()).collect();
    if !order.is_empty() {
        transaction
            .prepare_cached("INSERT INTO test_order (run, tests) VALUES (?1, ?2)")?
            .execute(params![id, encode_order(&order)])?;
    }
    Ok((workspace, comparison))
}

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
        let (number, is_new): (u32, bool) = match found {
            Some((number, last_run)) => {
                if last_run < run_number - LAST_RUN_LAG {
                    touch.execute(params![number, run_number])?;
                }
                (number, false)
            }
            None => {
                let added = params![workspace, test.package, test.name, run_number];
                (add.query_one(added, |row| row.get(0))?, true)
            }
        };
        tests.insert(number, NumberedTest { id: test, result: *result, is_new });
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
                new, fixed, still_failing, directory)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
                ?24)",
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
            run.directory.0,
        ])
}
