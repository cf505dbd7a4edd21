//! Keeps a tenant's history within its bounds: the oldest runs are removed first, then the names that no run has.

use super::database::Database;
use proctor_core::bounds::HISTORY_RUNS_MAX;
use rusqlite::params;

/// Runs by which the recorded last run of a test may lag behind: one write for so many runs of it.
pub(super) const LAST_RUN_LAG: i64 = 256;

/// Parts of a hundred of the quota at which runs are removed: there is room for one run beyond.
const FULL_PERCENT: u64 = 90;

/// Rounds of removal, each of a tenth of the runs: 64 leave one run in a thousand.
const ROUNDS: usize = 64;

/// Removes runs of a workspace beyond the bound by number, and runs of all workspaces beyond `bytes_max`.
pub(super) fn enforce(database: &Database, workspace: i64, bytes_max: u64) -> rusqlite::Result<()> {
    let connection = &database.connection;
    let mut removed = connection
        .prepare_cached(
            "DELETE FROM run WHERE workspace = ?1 AND id <=
             (SELECT id FROM run WHERE workspace = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![workspace, HISTORY_RUNS_MAX])?;
    let full = bytes_max / 100 * FULL_PERCENT;
    if removed > 0 {
        remove_unused(database)?;
    }
    for _ in 0..ROUNDS {
        if database.bytes()?.0 <= full {
            break;
        }
        let tenth = connection
            .execute("DELETE FROM run WHERE id <= (SELECT min(id) + (max(id) - min(id)) / 10 FROM run)", [])?;
        removed += tenth;
        remove_unused(database)?;
        if tenth == 0 {
            break;
        }
    }
    if removed > 0 {
        // Returns the freed pages to the file system.
        connection.execute_batch("PRAGMA incremental_vacuum;")?;
    }
    Ok(())
}

fn remove_unused(database: &Database) -> rusqlite::Result<()> {
    let connection = &database.connection;
    connection.execute("DELETE FROM result WHERE run NOT IN (SELECT id FROM run)", [])?;
    connection.execute(
        "DELETE FROM test WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.workspace = test.workspace)
             OR last_run < (SELECT min(id) FROM run WHERE run.workspace = test.workspace) - ?1",
        [LAST_RUN_LAG],
    )?;
    connection
        .execute("DELETE FROM workspace WHERE NOT EXISTS (SELECT 1 FROM run WHERE run.workspace = workspace.id)", [])?;
    Ok(())
}
