//! Questions about the history of one workspace: its latest runs, how tests fared, which are flaky, which became slow.
//! Blocks on the disk, so it is not for a tokio thread.

use super::database::Database;
use super::run_record::Conditions;
use super::{HistoryError, HistoryLocation, WorkspaceKey};
use proctor_core::bounds::{HISTORY_STATISTICS_RUNS_MAX, NEVER_FAILING_RESULTS_MIN};
use proctor_core::history::TestResult;
use proctor_core::history::flakiness::{Flaky, FlakyDetector};
use proctor_core::history::result_encoding::{decode, decode_order};
use proctor_core::history::slowness::{Slowdown, slowdown};
use proctor_core::outcome::Outcome;
use proctor_core::report::Summary;
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use rusqlite::{OptionalExtension, Row, params};
use std::collections::{BTreeMap, BTreeSet};

/// Tests that a name may match. A caller that means one test sees that it matched several.
const MATCHES_MAX: usize = 8;

/// Bytes of stored results that one question reads at most, newest first: 500 runs of 2,000 tests take 3 MiB. A result has
/// at least two bytes, and takes at most 24 more while it is counted: 50 MiB together.
const RESULTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Frameworks whose state is answered, those used last: more than any project has.
const FRAMEWORKS_MAX: u64 = 16;

/// Latest runs whose times show which tests became slow: what was usual before them says little about today.
const SLOW_RUNS_MAX: usize = 100;

/// What to look up.
#[derive(Debug, Clone, Default)]
pub struct HistoryQuery {
    /// Most runs, and most tests of each list.
    pub limit: usize,
    /// The tests with this name, or whose names contain it; empty for none.
    pub test: String,
    /// Whether to look for flaky tests.
    pub flaky: bool,
    /// Whether to look for tests that became slow.
    pub slow: bool,
    /// Whether to look for tests that never failed.
    pub never_failing: bool,
}

/// The history of a workspace.
#[derive(Debug, Clone, Default)]
pub struct HistoryAnswer {
    /// The latest runs, newest first.
    pub runs: Vec<PastRun>,
    /// Number of all recorded runs.
    pub total_runs: u64,
    /// When all tests of each framework passed last, the framework used last first.
    pub frameworks: Vec<FrameworkState>,
    /// The results of the tests that match the wanted name.
    pub trends: Vec<TestTrend>,
    /// Number of tests that match it.
    pub matches: u64,
    /// Flaky tests, those that surely fail most often first.
    pub flaky: Vec<Flaky<TestId>>,
    /// Tests that became slow, those with the largest factor first.
    pub slow: Vec<(TestId, Slowdown)>,
    /// Tests that passed in every one of at least [`NEVER_FAILING_RESULTS_MIN`] results, those that take longest first.
    pub never_failing: Vec<NeverFailing>,
    /// Number of all such tests.
    pub never_failing_total: u64,
}

/// A test that passed in all of its stored results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeverFailing {
    /// The test.
    pub test: TestId,
    /// Number of its results.
    pub results: u64,
    /// Its latest time in microseconds, where the runner measured it.
    pub duration_us: Option<u64>,
}

/// A recorded run.
#[derive(Debug, Clone, PartialEq)]
pub struct PastRun {
    /// Id of the run.
    pub run_id: String,
    /// When its runner started.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Its outcome.
    pub outcome: Outcome,
    /// Name of its framework.
    pub framework: String,
    /// What selected its tests, as in the field of `RunRecord`.
    pub selection: String,
    /// Whether it was cut off.
    pub partial: bool,
    /// Counts of tests.
    pub summary: Summary,
    /// Wall time in microseconds.
    pub duration_us: u64,
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// Highest use of memory in bytes, where it was measured.
    pub memory_peak_bytes: Option<u64>,
    /// Numbers of new, fixed and still failing tests; `None` for the first run.
    pub changes: Option<[u64; 3]>,
}

/// When all tests of a framework passed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkState {
    /// Name of the framework.
    pub framework: String,
    /// Its last run of all tests that passed.
    pub last_green: Option<LastGreen>,
    /// Its runs of all tests since then that did not pass. A run that was cut off, or that the host failed, tells nothing of
    /// the tests and does not count.
    pub red_streak: u64,
}

/// The last run of all tests of a framework that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastGreen {
    /// Id of the run.
    pub run_id: String,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Number of runs of the framework after it.
    pub runs_after: u64,
}

/// How one test fared in the latest runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TestTrend {
    /// The test.
    pub test: TestId,
    /// Its results, newest first.
    pub results: Vec<PastResult>,
    /// Failures in a row, up to the latest result; skips do not count.
    pub failure_streak: u64,
}

/// A result of a test in a recorded run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastResult {
    /// Id of the run.
    pub run_id: String,
    /// When the run ended.
    pub ended_at: Timestamp,
    /// The result.
    pub result: TestResult,
}

/// Whether any run of the workspace is recorded.
pub fn has_runs(location: &HistoryLocation, workspace: WorkspaceKey) -> Result<bool, HistoryError> {
    let Some(database) = Database::open_existing(location)? else { return Ok(false) };
    let number = workspace_number(&database, workspace).map_err(|error| database.error(error))?;
    Ok(number.is_some())
}

/// Looks up the history of a workspace. Empty if nothing is recorded.
pub fn look_up(
    location: &HistoryLocation,
    workspace: WorkspaceKey,
    query: &HistoryQuery,
) -> Result<HistoryAnswer, HistoryError> {
    let Some(database) = Database::open_existing(location)? else { return Ok(HistoryAnswer::default()) };
    let look_up = || -> rusqlite::Result<HistoryAnswer> {
        // One state of the database for all questions.
        let _transaction = database.connection.unchecked_transaction()?;
        match workspace_number(&database, workspace)? {
            Some(workspace) => WorkspaceHistory { database: &database, workspace }.look_up(query),
            None => Ok(HistoryAnswer::default()),
        }
    };
    look_up().map_err(|error| database.error(error))
}

/// A run in which a test failed after others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingRun {
    /// Id of the run.
    pub run_id: String,
    /// The test.
    pub test: TestId,
    /// The tests that finished before it, in their order.
    pub before: Vec<TestId>,
}

/// The latest run in which the test of this name failed after others; `None` if none is recorded, or if several tests have the
/// name.
pub fn failing_run(
    location: &HistoryLocation,
    workspace: WorkspaceKey,
    name: &str,
) -> Result<Option<FailingRun>, HistoryError> {
    let Some(database) = Database::open_existing(location)? else { return Ok(None) };
    let look_up = || -> rusqlite::Result<Option<FailingRun>> {
        // A database of an earlier version has no orders until the next run.
        let has_orders = "SELECT count(*) FROM sqlite_master WHERE name = 'test_order'";
        if database.connection.query_one(has_orders, [], |row| row.get::<_, u64>(0))? == 0 {
            return Ok(None);
        }
        let _transaction = database.connection.unchecked_transaction()?;
        match workspace_number(&database, workspace)? {
            Some(workspace) => WorkspaceHistory { database: &database, workspace }.failing_run(name),
            None => Ok(None),
        }
    };
    look_up().map_err(|error| database.error(error))
}

fn workspace_number(database: &Database, workspace: WorkspaceKey) -> rusqlite::Result<Option<i64>> {
    let found = "SELECT id FROM workspace WHERE key = ?1";
    database.connection.query_one(found, [workspace.0], |row| row.get(0)).optional()
}

/// By run, the tests that it executed with both results: executions, and failures among them.
type RepeatedResults = BTreeMap<i64, BTreeMap<u32, (u64, u64)>>;

/// The history of one workspace in an open database.
struct WorkspaceHistory<'a> {
    database: &'a Database,
    workspace: i64,
}

/// The stored results of one run.
struct StoredResults {
    number: i64,
    run_id: String,
    ended_at: Timestamp,
    framework: String,
    conditions: Option<Conditions>,
    bytes: Vec<u8>,
}

impl WorkspaceHistory<'_> {
    fn look_up(&self, query: &HistoryQuery) -> rusqlite::Result<HistoryAnswer> {
        let (trends, matches) = if query.test.is_empty() { (Vec::new(), 0) } else { self.trends(query)? };
        let needs_results = query.flaky || query.slow || query.never_failing;
        let stored = if needs_results { self.stored_results()? } else { Vec::new() };
        let (never_failing, never_failing_total) =
            if query.never_failing { self.never_failing(&stored, query.limit)? } else { (Vec::new(), 0) };
        Ok(HistoryAnswer {
            runs: self.runs(query.limit)?,
            total_runs: self.count("SELECT count(*) FROM run WHERE workspace = ?1")?,
            frameworks: self.frameworks()?,
            trends,
            matches,
            flaky: if query.flaky { self.flaky(&stored, query.limit)? } else { Vec::new() },
            slow: if query.slow { self.slow(&stored, query.limit)? } else { Vec::new() },
            never_failing,
            never_failing_total,
        })
    }

    fn count(&self, sql: &str) -> rusqlite::Result<u64> {
        self.database.connection.query_one(sql, [self.workspace], |row| row.get(0))
    }

    fn runs(&self, limit: usize) -> rusqlite::Result<Vec<PastRun>> {
        let mut statement = self.database.connection.prepare(
            "SELECT run_id, started_ms, ended_ms, outcome, framework, selection, partial, total, passed, failed, skipped,
                 xfailed, xpassed, error, duration_us, cpu_us, memory_peak_bytes, new, fixed, still_failing
             FROM run WHERE workspace = ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        statement.query_map(params![self.workspace, limit], past_run)?.collect()
    }

    fn frameworks(&self) -> rusqlite::Result<Vec<FrameworkState>> {
        let mut statement = self.database.connection.prepare(
            "SELECT framework FROM run WHERE workspace = ?1 AND selection <> 'command'
             GROUP BY framework ORDER BY max(id) DESC LIMIT ?2",
        )?;
        let names = statement.query_map(params![self.workspace, FRAMEWORKS_MAX], |row| row.get::<_, String>(0))?;
        names
            .map(|name| {
                let framework = name?;
                let last_green = self.last_green(&framework)?;
                let green_id = last_green.as_ref().map_or(0, |(id, _)| *id);
                let red =
                    "SELECT count(*) FROM run WHERE workspace = ?1 AND framework = ?2 AND id > ?3 AND selection = 'all'
                     AND NOT partial AND outcome NOT IN ('passed', 'cancelled', 'worker_lost', 'runner_missing')";
                let red_streak = self.count_of(red, &framework, green_id)?;
                Ok(FrameworkState { framework, last_green: last_green.map(|(_, green)| green), red_streak })
            })
            .collect()
    }

    fn count_of(&self, sql: &str, framework: &str, after: i64) -> rusqlite::Result<u64> {
        self.database.connection.query_one(sql, params![self.workspace, framework, after], |row| row.get(0))
    }

    // The last green run of a framework, with its number.
    fn last_green(&self, framework: &str) -> rusqlite::Result<Option<(i64, LastGreen)>> {
        let found: Option<(i64, String, u64)> = self
            .database
            .connection
            .query_one(
                "SELECT id, run_id, ended_ms FROM run
                 WHERE workspace = ?1 AND framework = ?2 AND is_complete AND outcome = 'passed' ORDER BY id DESC LIMIT 1",
                params![self.workspace, framework],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((id, run_id, ended_ms)) = found else { return Ok(None) };
        let after = "SELECT count(*) FROM run WHERE workspace = ?1 AND framework = ?2 AND id > ?3
             AND selection <> 'command'";
        let runs_after = self.count_of(after, framework, id)?;
        Ok(Some((id, LastGreen { run_id, ended_at: Timestamp(ended_ms), runs_after })))
    }

    /// The results of the latest runs, newest first.
    fn stored_results(&self) -> rusqlite::Result<Vec<StoredResults>> {
        let mut statement = self.database.connection.prepare(
            "SELECT run_id, ended_ms, framework, conditions, tests, id FROM run JOIN result ON result.run = run.id
             WHERE workspace = ?1 ORDER BY id DESC LIMIT ?2",
        )?;
        let rows = statement.query_map(params![self.workspace, HISTORY_STATISTICS_RUNS_MAX], |row| {
            Ok(StoredResults {
                run_id: row.get(0)?,
                ended_at: Timestamp(row.get(1)?),
                framework: row.get(2)?,
                conditions: row.get::<_, Option<[u8; 16]>>(3)?.map(Conditions),
                bytes: row.get(4)?,
                number: row.get(5)?,
            })
        })?;
        let mut bytes = 0;
        let mut stored = Vec::new();
        for row in rows {
            let row: StoredResults = row?;
            bytes += row.bytes.len();
            if bytes > RESULTS_BYTES_MAX && !stored.is_empty() {
                break;
            }
            stored.push(row);
        }
        Ok(stored)
    }

    fn trends(&self, query: &HistoryQuery) -> rusqlite::Result<(Vec<TestTrend>, u64)> {
        let (matching, matches) = self.matching(&query.test)?;
        let mut trends: BTreeMap<u32, TestTrend> = BTreeMap::new();
        for (number, test) in matching {
            trends.insert(number, TestTrend { test, results: Vec::new(), failure_streak: 0 });
        }
        let mut ended = BTreeSet::new();
        for StoredResults { run_id, ended_at, bytes, .. } in
            if trends.is_empty() { Vec::new() } else { self.stored_results()? }
        {
            for (number, result) in decode(&bytes) {
                let Some(trend) = trends.get_mut(&number) else { continue };
                if result.outcome.is_failure() && !ended.contains(&number) {
                    trend.failure_streak += 1;
                } else if result.outcome != TestOutcome::Skipped {
                    ended.insert(number);
                }
                if trend.results.len() < query.limit {
                    trend.results.push(PastResult { run_id: run_id.clone(), ended_at, result });
                }
            }
        }
        Ok((trends.into_values().collect(), matches))
    }

    // The first tests with this name, else of those whose names contain it, and the number of all. A name is also written
    // behind its package.
    fn matching(&self, name: &str) -> rusqlite::Result<(Vec<(u32, TestId)>, u64)> {
        let exact = self.matching_exactly(name)?;
        if exact.1 > 0 { Ok(exact) } else { self.matching_by("instr(package || '/' || name, ?2) > 0", name) }
    }

    fn matching_exactly(&self, name: &str) -> rusqlite::Result<(Vec<(u32, TestId)>, u64)> {
        let condition =
            "name = ?2 OR package || '/' || name = ?2 OR package || '::' || name = ?2 OR package || '.' || name = ?2";
        self.matching_by(condition, name)
    }

    // A part of a name may match all tests: these are counted, not collected.
    fn matching_by(&self, condition: &str, name: &str) -> rusqlite::Result<(Vec<(u32, TestId)>, u64)> {
        let connection = &self.database.connection;
        let count = format!("SELECT count(*) FROM test WHERE workspace = ?1 AND ({condition})");
        let matches = connection.query_one(&count, params![self.workspace, name], |row| row.get(0))?;
        let first = format!(
            "SELECT id, package, name FROM test WHERE workspace = ?1 AND ({condition})
             ORDER BY package, name LIMIT {MATCHES_MAX}"
        );
        let mut statement = connection.prepare(&first)?;
        let tests = statement.query_map(params![self.workspace, name], |row| {
            Ok((row.get(0)?, TestId { package: row.get(1)?, name: row.get(2)? }))
        })?;
        Ok((tests.collect::<rusqlite::Result<_>>()?, matches))
    }

    fn failing_run(&self, name: &str) -> rusqlite::Result<Option<FailingRun>> {
        let (matching, _) = self.matching_exactly(name)?;
        let [(number, test)] = matching.as_slice() else { return Ok(None) };
        let mut select = self.database.connection.prepare(
            "SELECT run_id, test_order.tests, result.tests FROM test_order JOIN run ON run.id = test_order.run
             JOIN result ON result.run = run.id WHERE workspace = ?1 ORDER BY run.id DESC LIMIT ?2",
        )?;
        let mut rows = select.query(params![self.workspace, HISTORY_STATISTICS_RUNS_MAX])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            let (order, results) = (row.get_ref(1)?.as_blob()?, row.get_ref(2)?.as_blob()?);
            bytes += order.len() + results.len();
            let has_failed = decode(results).any(|(test, result)| test == *number && result.outcome.is_failure());
            let is_ordered = has_failed && decode_order(order).any(|test| test == *number);
            let before = decode_order(order).take_while(|test| is_ordered && test != number);
            let before = before.map(|test| self.name(test)).collect::<rusqlite::Result<Vec<_>>>()?;
            if !before.is_empty() {
                return Ok(Some(FailingRun { run_id: row.get(0)?, test: test.clone(), before }));
            }
            if bytes > RESULTS_BYTES_MAX {
                break;
            }
        }
        Ok(None)
    }

    fn flaky(&self, stored: &[StoredResults], limit: usize) -> rusqlite::Result<Vec<Flaky<TestId>>> {
        // Conditions and framework by a small number: there may be a million results.
        let mut groups: BTreeMap<(&str, Conditions), (u32, u64)> = BTreeMap::new();
        let both_in_one_run = self.repeated(stored)?;
        let known =
            || stored.iter().filter_map(|stored| Some(((stored.framework.as_str(), stored.conditions?), stored)));
        for (conditions, _) in known() {
            let number = u32::try_from(groups.len()).unwrap_or(u32::MAX);
            groups.entry(conditions).or_insert((number, 0)).1 += 1;
        }
        let grouped = |conditions: &(&str, Conditions)| groups.get(conditions).copied().unwrap_or_default();
        // Fewer runs cannot show that a result came back.
        let mut repeated: Vec<(u32, &StoredResults)> = known()
            .map(|(conditions, stored)| (grouped(&conditions), stored))
            .filter(|((_, runs), stored)| *runs >= 3 || both_in_one_run.contains_key(&stored.number))
            .map(|((group, _), stored)| (group, stored))
            .collect();
        // Files may have changed while a run waited for its turn, so its conditions are not known. What it showed in itself
        // counts: such a run is a group of its own.
        let without_conditions =
            stored.iter().filter(|stored| stored.conditions.is_none() && both_in_one_run.contains_key(&stored.number));
        let first_free = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        repeated.extend((first_free..).zip(without_conditions));
        // Most tests never fail: only those that did are counted.
        let failed: BTreeSet<u32> = repeated
            .iter()
            .flat_map(|(_, stored)| decode(&stored.bytes))
            .filter(|(_, result)| result.outcome.is_failure())
            .map(|(test, _)| test)
            .collect();
        let mut detector = FlakyDetector::default();
        for (group, stored) in repeated.iter().filter(|_| !failed.is_empty()) {
            let both = both_in_one_run.get(&stored.number);
            for (test, result) in decode(&stored.bytes).filter(|(test, _)| failed.contains(test)) {
                match both.and_then(|both| both.get(&test)) {
                    Some((executions, failures)) => detector.add_repeated(test, *group, *executions, *failures),
                    None => detector.add(test, *group, result),
                }
            }
        }
        let named = |found: Flaky<u32>| -> rusqlite::Result<Flaky<TestId>> {
            let Flaky { test, runs, failures, rate } = found;
            Ok(Flaky { test: self.name(test)?, runs, failures, rate })
        };
        detector.flaky().into_iter().take(limit).map(named).collect()
    }

    /// Tests with both results in one run: executions and failures, by the number of the run.
    fn repeated(&self, stored: &[StoredResults]) -> rusqlite::Result<RepeatedResults> {
        let mut repeated = RepeatedResults::new();
        // They are the newest ones, without a gap.
        let Some(oldest) = stored.last() else { return Ok(repeated) };
        let mut select = self.database.connection.prepare(
            "SELECT run, test, executions, failures FROM repeated JOIN run ON run.id = repeated.run
             WHERE workspace = ?1 AND run >= ?2",
        )?;
        let mut rows = select.query([self.workspace, oldest.number])?;
        while let Some(row) = rows.next()? {
            repeated.entry(row.get(0)?).or_default().insert(row.get(1)?, (row.get(2)?, row.get(3)?));
        }
        Ok(repeated)
    }

    fn slow(&self, stored: &[StoredResults], limit: usize) -> rusqlite::Result<Vec<(TestId, Slowdown)>> {
        let mut times: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (test, result) in stored.iter().take(SLOW_RUNS_MAX).rev().flat_map(|stored| decode(&stored.bytes)) {
            // A failed test may have ended early.
            if let (TestOutcome::Passed, Some(time)) = (result.outcome, result.duration_us) {
                times.entry(test).or_default().push(time);
            }
        }
        let mut slow: Vec<(u32, Slowdown)> =
            times.into_iter().filter_map(|(test, times)| Some((test, slowdown(&times)?))).collect();
        slow.sort_by(|a, b| b.1.factor().total_cmp(&a.1.factor()));
        slow.into_iter().take(limit).map(|(test, slowdown)| Ok((self.name(test)?, slowdown))).collect()
    }

    fn never_failing(&self, stored: &[StoredResults], limit: usize) -> rusqlite::Result<(Vec<NeverFailing>, u64)> {
        // Passes and the latest time of each test; a test that ever did anything else but being skipped is out.
        let mut passes: BTreeMap<u32, (u64, Option<u64>)> = BTreeMap::new();
        let mut others: BTreeSet<u32> = BTreeSet::new();
        for (test, result) in stored.iter().flat_map(|stored| decode(&stored.bytes)) {
            match result.outcome {
                TestOutcome::Passed => {
                    let (count, latest) = passes.entry(test).or_default();
                    *count += 1;
                    *latest = latest.or(result.duration_us);
                }
                TestOutcome::Skipped => {}
                _ => _ = others.insert(test),
            }
        }
        passes.retain(|test, (count, _)| *count >= NEVER_FAILING_RESULTS_MIN && !others.contains(test));
        let mut found: Vec<(u32, (u64, Option<u64>))> = passes.into_iter().collect();
        found.sort_by_key(|(_, (_, latest))| std::cmp::Reverse(latest.unwrap_or_default()));
        let total = found.len() as u64;
        let named = |(test, (results, duration_us))| -> rusqlite::Result<NeverFailing> {
            Ok(NeverFailing { test: self.name(test)?, results, duration_us })
        };
        Ok((found.into_iter().take(limit).map(named).collect::<rusqlite::Result<_>>()?, total))
    }

    fn name(&self, number: u32) -> rusqlite::Result<TestId> {
        self.database.connection.query_one("SELECT package, name FROM test WHERE id = ?1", [number], |row| {
            Ok(TestId { package: row.get(0)?, name: row.get(1)? })
        })
    }
}

fn past_run(row: &Row<'_>) -> rusqlite::Result<PastRun> {
    let outcome: String = row.get(3)?;
    let outcome = Outcome::ALL.into_iter().find(|known| known.name() == outcome);
    let changes = |row: &Row<'_>| -> rusqlite::Result<Option<[u64; 3]>> {
        let Some(new) = row.get(17)? else { return Ok(None) };
        Ok(Some([new, row.get(18)?, row.get(19)?]))
    };
    Ok(PastRun {
        run_id: row.get(0)?,
        started_at: Timestamp(row.get(1)?),
        ended_at: Timestamp(row.get(2)?),
        outcome: outcome.ok_or_else(|| rusqlite::Error::InvalidColumnName("outcome".to_owned()))?,
        framework: row.get(4)?,
        selection: row.get(5)?,
        partial: row.get(6)?,
        summary: Summary {
            total: row.get(7)?,
            passed: row.get(8)?,
            failed: row.get(9)?,
            skipped: row.get(10)?,
            xfailed: row.get(11)?,
            xpassed: row.get(12)?,
            error: row.get(13)?,
        },
        duration_us: row.get(14)?,
        cpu_us: row.get(15)?,
        memory_peak_bytes: row.get(16)?,
        changes: changes(row)?,
    })
}
