//! Keeps a tenant's history within its bounds: the oldest runs are removed first, then the names that no run has.
//!
//! Each batch is a transaction of its own, so that other writers of the file wait for one batch at most.

use super::database::Database;
use proctor_core::bounds::HISTORY_RUNS_MAX;
use proctor_core::history::result_encoding::decode;
use rusqlite::{Transaction, TransactionBehavior, params};
use std::collections::BTreeSet;

/// Runs by which the recorded last run of a test may lag behind: one write for so many runs of it. To find the names that
/// no run has, the results of as many runs are read.
pub(super) const LAST_RUN_LAG: i64 = 16;

/// Parts of a hundred of the quota at which runs are removed: there is room for one run beyond.
const FULL_PERCENT: u64 = 90;

/// Most runs removed in one transaction: some 600 KiB of results of 2,000 tests.
const BATCH_RUNS: u64 = 100;

/// Most batches after one run, so that the runs of other tenants are recorded in between. The next run continues.
const BATCHES: usize = 100;

/// Removes runs of a workspace beyond the bound by number, then runs of all workspaces beyond `bytes_max`.
pub(super) fn enforce(database: &Database, workspace: i64, bytes_max: u64) -> rusqlite::Result<()> {
    let mut removed = remove_by_number(database, workspace)?;
    removed |= remove_by_bytes(database, bytes_max / 100 * FULL_PERCENT)?;
    if removed {
        // Returns the freed pages to the file system.
        database.connection.execute_batch("PRAGMA incremental_vacuum;")?;
    }
    Ok(())
}

/// Removes the oldest runs until the history has at most this many bytes in use. Returns whether any was removed.
///
/// The latest run of each workspace goes last: without it, a workspace that is rarely used has no history at all. The
/// latest run of all stays.
pub(super) fn remove_by_bytes(database: &Database, bytes_max: u64) -> rusqlite::Result<bool> {
    let mut removed = false;
    for _ in 0..BATCHES {
        if database.bytes()?.0 <= bytes_max {
            break;
        }
        let total: u64 = database.connection.query_one("SELECT count(*) FROM run", [], |row| row.get(0))?;
        // A tenth at most, as a batch is not taken back when less would have been enough.
        let batch = (total / 10).clamp(1, BATCH_RUNS);
        let with_successor = "SELECT id FROM run WHERE id NOT IN (SELECT max(id) FROM run GROUP BY workspace)
             ORDER BY id LIMIT ?1";
        let any = "SELECT id FROM run WHERE id < (SELECT max(id) FROM run) ORDER BY id LIMIT ?1";
        if remove(database, with_successor, &[batch])? == 0 && remove(database, any, &[1])? == 0 {
            break;
        }
        removed = true;
    }
    Ok(removed)
}

fn remove_by_number(database: &Database, workspace: i64) -> rusqlite::Result<bool> {
    let beyond = "SELECT id FROM run WHERE workspace = ?1 AND id <=
             (SELECT id FROM run WHERE workspace = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2) ORDER BY id LIMIT ?3";
    let workspace = u64::try_from(workspace).unwrap_or(0);
    let mut removed = false;
    for _ in 0..BATCHES {
        if remove(database, beyond, &[workspace, HISTORY_RUNS_MAX, BATCH_RUNS])? == 0 {
            break;
        }
        removed = true;
    }
    Ok(removed)
}

/// Removes the runs that a query selects, with their results, and the names that no run has then. Returns their number.
fn remove(database: &Database, selected: &str, parameters: &[u64]) -> rusqlite::Result<usize> {
    let transaction = Transaction::new_unchecked(&database.connection, TransactionBehavior::Immediate)?;
    let mut select = transaction.prepare_cached(selected)?;
    let runs: Vec<i64> =
        select.query_map(rusqlite::params_from_iter(parameters), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    drop(select);
    let mut workspaces = BTreeSet::new();
    {
        let mut delete = transaction.prepare_cached("DELETE FROM run WHERE id = ?1 RETURNING workspace")?;
        let mut delete_results = transaction.prepare_cached("DELETE FROM result WHERE run = ?1")?;
        let mut delete_order = transaction.prepare_cached("DELETE FROM test_order WHERE run = ?1")?;
        let mut delete_repeated = transaction.prepare_cached("DELETE FROM repeated WHERE run = ?1")?;
        for run in &runs {
            workspaces.insert(delete.query_one([run], |row| row.get::<_, i64>(0))?);
            delete_results.execute([run])?;
            delete_repeated.execute([run])?;
            delete_order.execute([run])?;
        }
    }
    for workspace in workspaces {
        remove_unused_tests(&transaction, workspace)?;
    }
    transaction.commit()?;
    Ok(runs.len())
}

/// Removes the names of tests that no run of the workspace has, and the workspace if it has no run.
fn remove_unused_tests(transaction: &Transaction<'_>, workspace: i64) -> rusqlite::Result<()> {
    let oldest: Option<i64> = transaction
        .prepare_cached("SELECT min(id) FROM run WHERE workspace = ?1")?
        .query_one([workspace], |row| row.get(0))?;
    let Some(oldest) = oldest else {
        transaction.execute("DELETE FROM test WHERE workspace = ?1", [workspace])?;
        transaction.execute("DELETE FROM workspace WHERE id = ?1", [workspace])?;
        return Ok(());
    };
    let certain = oldest - LAST_RUN_LAG;
    transaction.execute("DELETE FROM test WHERE workspace = ?1 AND last_run < ?2", params![workspace, certain])?;
    // The last run of these may be up to so many runs later than recorded: the runs themselves tell.
    let mut used = BTreeSet::new();
    let mut results = transaction
        .prepare_cached("SELECT tests FROM result JOIN run ON run.id = result.run WHERE workspace = ?1 AND id <= ?2")?;
    let mut rows = results.query(params![workspace, oldest + LAST_RUN_LAG])?;
    while let Some(row) = rows.next()? {
        used.extend(decode(row.get_ref(0)?.as_blob()?).map(|(test, _)| test));
    }
    let mut doubtful = transaction.prepare_cached("SELECT id FROM test WHERE workspace = ?1 AND last_run < ?2")?;
    let doubtful: Vec<u32> =
        doubtful.query_map(params![workspace, oldest], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut delete = transaction.prepare_cached("DELETE FROM test WHERE id = ?1")?;
    for test in doubtful.iter().filter(|test| !used.contains(test)) {
        delete.execute([test])?;
    }
    Ok(())
}
