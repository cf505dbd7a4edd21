//! The store as its callers use it: comparison, bounds, and databases that cannot be used.

use super::DirectoryKey;
use super::query::{FailingRun, HistoryAnswer, HistoryQuery, NeverFailing, failing_run, look_up};
use super::run_record::{Conditions, RunRecord};
use super::{Comparison, History, HistoryError, HistoryLocation, WorkspaceKey};
use proctor_core::bounds::NEVER_FAILING_RESULTS_MIN;
use proctor_core::history::TestResult;
use proctor_core::id::RunId;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::{Repetitions, ResultCounts};
use proctor_core::report::Summary;
use proctor_core::request::{Fingerprint, RunRequest};
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const WORKSPACE: WorkspaceKey = WorkspaceKey([1; 16]);

struct Store {
    dir: tempfile::TempDir,
    history: History,
}

impl Store {
    fn new() -> Store {
        Store { dir: tempfile::tempdir().unwrap(), history: History::start() }
    }

    fn location(&self) -> HistoryLocation {
        HistoryLocation::new(self.dir.path().join("history"), 64 << 20)
    }

    fn file(&self) -> PathBuf {
        self.location().dir.join("history.sqlite")
    }

    // Locks the database, as another process that writes to it.
    fn lock(&self) -> Connection {
        let other = Connection::open(self.file()).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        other
    }

    // Waits for the writer, however busy the machine is.
    fn try_record(&self, run: RunRecord) -> Result<Comparison, HistoryError> {
        self.history.record_within(Duration::from_secs(60), self.location(), run)
    }

    fn record(&self, run: RunRecord) -> Comparison {
        self.try_record(run).unwrap()
    }

    fn look_up(&self, query: &HistoryQuery) -> HistoryAnswer {
        look_up(&self.location(), WORKSPACE, query).unwrap()
    }

    fn run_ids(&self) -> Vec<String> {
        let answer = self.look_up(&HistoryQuery { limit: 100, ..HistoryQuery::default() });
        answer.runs.into_iter().map(|run| run.run_id).collect()
    }
}

fn id(name: &str) -> TestId {
    TestId { package: "p".to_owned(), name: name.to_owned() }
}

/// A run of all tests: names in `failed` fail, in `passed` pass.
fn run(run_id: &str, passed: &[&str], failed: &[&str]) -> RunRecord {
    let with = |names: &[&str], outcome| -> Vec<(TestId, TestResult)> {
        let result = TestResult { outcome, duration_us: Some(1_000) };
        names.iter().map(|name| (id(name), result)).collect()
    };
    let tests = [with(passed, TestOutcome::Passed), with(failed, TestOutcome::Failed)].concat();
    let mut summary = Summary::default();
    tests.iter().for_each(|(_, result)| summary.count(result.outcome));
    RunRecord {
        workspace: WORKSPACE,
        directory: DirectoryKey([1; 16]),
        run_id: run_id.to_owned(),
        started_at: Timestamp(1_000),
        ended_at: Timestamp(2_000),
        outcome: if failed.is_empty() { Outcome::Passed } else { Outcome::Failed },
        framework: "go".to_owned(),
        selection: "all",
        is_complete: true,
        partial: false,
        summary,
        duration_us: 1_000_000,
        cpu_us: 900_000,
        memory_peak_bytes: Some(1 << 20),
        conditions: None,
        tests: tests.into_iter().collect(),
        repeated: Vec::new(),
        failing_order: Vec::new(),
        echoes: Vec::new(),
    }
}

fn filtered(run: RunRecord) -> RunRecord {
    RunRecord { selection: "filter", is_complete: false, ..run }
}

fn groups(comparison: &Comparison) -> [Vec<&str>; 3] {
    let since = comparison.since_last_run.as_ref().unwrap();
    [&since.new, &since.fixed, &since.still_failing]
        .map(|group| group.tests.iter().map(|test| test.name.as_str()).collect())
}

#[test]
fn compares_a_run_with_the_last_result_of_each_of_its_tests() {
    let store = Store::new();
    assert_eq!(store.record(run("1", &["a", "b", "c"], &[])), Comparison::default());
    let second = store.record(run("2", &["a"], &["b", "c"]));
    assert_eq!(groups(&second), [vec!["b", "c"], vec![], vec![]]);
    let green = second.since_last_green.unwrap();
    assert_eq!((green.run_id.as_str(), green.runs, green.failing.total), ("1", 1, 2));
    let rerun = store.record(filtered(run("3", &["b"], &[])));
    assert_eq!(groups(&rerun), [vec![], vec!["b"], vec![]], "c did not run, so nothing is said of it");
    let fourth = store.record(run("4", &["b"], &["a", "c"]));
    assert_eq!(groups(&fourth), [vec!["a"], vec![], vec!["c"]], "b was fixed in the run before");
    assert_eq!(fourth.since_last_run.unwrap().run_id, "3");
    assert_eq!(fourth.since_last_green.unwrap().runs, 3);
    let other_framework = RunRecord { framework: "pytest".to_owned(), ..run("5", &[], &["a"]) };
    assert_eq!(store.record(other_framework).since_last_run, None);
    assert_eq!(store.run_ids(), ["5", "4", "3", "2", "1"]);
}

#[test]
fn a_parent_that_only_echoes_its_subtest_is_in_no_group() {
    let store = Store::new();
    store.record(run("1", &["T", "T/a"], &[]));
    let broken = store.record(RunRecord { echoes: vec![id("T")], ..run("2", &[], &["T", "T/a"]) });
    assert_eq!(groups(&broken), [vec!["T/a"], vec![], vec![]]);
    let fixed = store.record(run("3", &["T", "T/a"], &[]));
    assert_eq!(groups(&fixed), [vec![], vec!["T/a"], vec![]]);
}

#[test]
fn a_skipped_test_keeps_its_last_real_result() {
    let store = Store::new();
    store.record(run("1", &["b"], &["a"]));
    let mut skipped = run("2", &["b"], &["a"]);
    skipped.tests.values_mut().for_each(|result| result.outcome = TestOutcome::Skipped);
    skipped.is_complete = false;
    assert_eq!(groups(&store.record(skipped)), [vec![""; 0], vec![], vec![]]);
    assert_eq!(groups(&store.record(run("3", &["a", "b"], &[]))), [vec![], vec!["a"], vec![]]);
    // A run of all tests that skips one does not hide its result.
    store.record(run("4", &["b"], &["a"]));
    let mut skips = run("5", &["a", "b"], &[]);
    skips.tests.get_mut(&id("a")).unwrap().outcome = TestOutcome::Skipped;
    store.record(skips);
    assert_eq!(groups(&store.record(run("6", &["b"], &["a"]))), [vec![], vec![], vec!["a"]]);
}

#[test]
fn many_runs_of_some_tests_hide_no_result_of_the_others() {
    let store = Store::new();
    store.record(run("1", &["b"], &["a"]));
    for number in 2..70 {
        store.record(filtered(run(&number.to_string(), &["b"], &[])));
    }
    assert_eq!(groups(&store.record(run("all", &["b"], &["a"]))), [vec![""; 0], vec![], vec!["a"]]);
}

#[test]
fn compares_with_the_same_directory_before_clones() {
    let store = Store::new();
    let here = |run: RunRecord| RunRecord { directory: DirectoryKey([2; 16]), ..run };
    store.record(run("main", &["a"], &["b"]));
    let first = store.record(here(run("branch", &[], &["a", "b"])));
    assert_eq!(groups(&first), [vec!["a"], vec![], vec!["b"]], "a directory without runs is compared with its clone");
    store.record(run("main again", &["a", "b"], &[]));
    let second = store.record(here(run("branch again", &[], &["a", "b"])));
    assert_eq!(
        groups(&second),
        [vec![""; 0], vec![], vec!["a", "b"]],
        "the clone's results are those of another branch"
    );
    assert_eq!(second.since_last_run.unwrap().run_id, "branch");
    let green = second.since_last_green.unwrap();
    assert_eq!((green.run_id.as_str(), green.runs), ("main again", 1), "no run has passed here");
    let third = store.record(here(run("branch once more", &["a"], &["b"]))).since_last_green.unwrap();
    assert_eq!((third.run_id.as_str(), third.runs), ("main again", 2), "the runs here are counted too");
}

#[test]
fn a_command_of_the_request_is_compared_with_nothing() {
    let store = Store::new();
    let command =
        |run: RunRecord| RunRecord { selection: "command", is_complete: false, framework: "custom".to_owned(), ..run };
    let of_project = |run: RunRecord| RunRecord { framework: "custom".to_owned(), ..run };
    store.record(of_project(run("1", &["a"], &[])));
    assert_eq!(store.record(command(run("2", &[], &["a"]))), Comparison::default());
    let third = store.record(of_project(run("3", &[], &["a"])));
    assert_eq!(groups(&third), [vec!["a"], vec![], vec![]], "a command of the project is its suite");
}

#[test]
fn a_database_of_version_1_is_brought_to_this_version() {
    let store = Store::new();
    store.record(run("1", &[], &["a"]));
    let edit = Connection::open(store.file()).unwrap();
    edit.execute_batch(
        "ALTER TABLE run DROP COLUMN directory; DROP TABLE repeated; DROP TABLE test_order; PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(edit);
    let fresh = Store { history: History::start(), ..store };
    let second = fresh.record(run("2", &[], &["a"]));
    assert_eq!(
        groups(&second),
        [vec![""; 0], vec![], vec!["a"]],
        "a run whose directory is not known counts as a clone's"
    );
    assert_eq!(fresh.run_ids(), ["2", "1"]);
}

#[test]
fn one_tenant_leaves_room_in_the_queue_for_others() {
    let busy = Store::new();
    busy.record(run("0", &["a"], &[]));
    let other = busy.lock();
    let location = busy.location();
    let results: Vec<_> = (0..20)
        .map(|number| {
            busy.history.record_within(Duration::ZERO, location.clone(), run(&number.to_string(), &["a"], &[]))
        })
        .collect();
    let refused = results.iter().filter(|result| **result == Err(HistoryError::Busy)).count();
    assert!(refused >= 11, "eight runs of a tenant wait at most: {results:?}");
    let elsewhere = HistoryLocation::new(busy.dir.path().join("other"), 64 << 20);
    let recorded = busy.history.record_within(Duration::ZERO, elsewhere.clone(), run("1", &["a"], &[]));
    assert!(matches!(recorded, Ok(_) | Err(HistoryError::Slow)), "another tenant's run has a place: {recorded:?}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(busy.history.flush(Duration::from_secs(60)));
    assert_eq!(look_up(&elsewhere, WORKSPACE, &HistoryQuery::default()).unwrap().total_runs, 1);
}

#[test]
fn a_command_of_the_request_waits_only_behind_another_run_of_its_tenant() {
    let store = Store::new();
    store.record(run("0", &["a"], &[]));
    let other = store.lock();
    let location = store.location();
    let record = |id: &str| {
        let command = RunRecord { selection: "command", is_complete: false, ..run(id, &["a"], &[]) };
        store.history.record_within(Duration::ZERO, location.clone(), command)
    };
    assert_eq!(record("1"), Ok(Comparison::default()));
    assert_eq!(record("2"), Err(HistoryError::Slow), "more do not pile up");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(store.history.flush(Duration::from_secs(60)));
    location.wait_until_written();
    assert_eq!(look_up(&location, WORKSPACE, &HistoryQuery::default()).unwrap().total_runs, 3);
}

#[test]
fn a_flush_waits_for_room_in_a_full_queue() {
    let store = Store::new();
    store.record(run("0", &["a"], &[]));
    let other = store.lock();
    // Each with a share of its own, until the queue is full.
    let mut queued = 0;
    while store.history.record_within(Duration::ZERO, store.location(), run("1", &["a"], &[]))
        != Err(HistoryError::Busy)
    {
        queued += 1;
    }
    assert!(queued >= 32);
    assert!(!store.history.flush(Duration::ZERO), "the deadline ends it");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(store.history.flush(Duration::from_secs(120)));
    assert!(store.run_ids().len() > 30);
}

#[test]
fn answers_trend_streak_and_last_green() {
    let store = Store::new();
    store.record(run("1", &["a", "ab"], &[]));
    for number in 2..5 {
        store.record(run(&number.to_string(), &["ab"], &["a"]));
    }
    let answer = store.look_up(&HistoryQuery { limit: 2, test: "p/a".to_owned(), ..HistoryQuery::default() });
    assert_eq!((answer.total_runs, answer.frameworks[0].red_streak, answer.matches), (4, 3, 1));
    let green = answer.frameworks[0].last_green.clone().unwrap();
    assert_eq!((green.run_id.as_str(), green.runs_after), ("1", 3));
    assert_eq!(answer.runs[0].changes, Some([0, 0, 1]));
    let trend = &answer.trends[0];
    assert_eq!((trend.failure_streak, trend.results.len(), trend.results[0].run_id.as_str()), (3, 2, "4"));
    let both = store.look_up(&HistoryQuery { limit: 2, test: "p/".to_owned(), ..HistoryQuery::default() });
    assert_eq!((both.matches, both.trends.len()), (2, 2), "part of a name");
}

#[test]
fn last_green_and_red_streak_are_those_of_each_framework_and_of_whole_runs() {
    let store = Store::new();
    let of = |framework: &str, run: RunRecord| RunRecord { framework: framework.to_owned(), ..run };
    store.record(of("go", run("1", &["a"], &[])));
    store.record(of("pytest", run("2", &[], &["b"])));
    store.record(of("pytest", run("3", &[], &["b"])));
    let cut_off = RunRecord { partial: true, is_complete: false, outcome: Outcome::Cancelled, ..run("4", &[], &["b"]) };
    store.record(of("pytest", cut_off));
    let command = RunRecord { selection: "command", is_complete: false, ..run("5", &[], &["b"]) };
    store.record(of("custom", command));
    assert!(store.history.flush(Duration::from_secs(60)));
    let states = store.look_up(&HistoryQuery { limit: 9, ..HistoryQuery::default() }).frameworks;
    let shown: Vec<_> = states
        .iter()
        .map(|state| {
            let green = state.last_green.as_ref().map(|green| (green.run_id.as_str(), green.runs_after));
            (state.framework.as_str(), green, state.red_streak)
        })
        .collect();
    assert_eq!(shown, [("pytest", None, 2), ("go", Some(("1", 0)), 0)]);
}

#[test]
fn a_name_that_every_test_contains_is_counted_and_not_collected() {
    let store = Store::new();
    let names: Vec<String> = (0..40).map(|number| format!("t{number:02}")).collect();
    store.record(run("1", &names.iter().map(String::as_str).collect::<Vec<_>>(), &[]));
    let answer = store.look_up(&HistoryQuery { limit: 1, test: "/".to_owned(), ..HistoryQuery::default() });
    assert_eq!((answer.matches, answer.trends.len(), answer.trends[0].test.name.as_str()), (40, 8, "t00"));
}

#[test]
fn finds_flaky_and_slow_tests() {
    let store = Store::new();
    let conditions = |byte| Some(Conditions([byte; 16]));
    for number in 0..9_u8 {
        let (passed, failed): (&[&str], &[&str]) =
            if number % 3 == 1 { (&["sound", "slow"], &["flaky"]) } else { (&["sound", "slow", "flaky"], &[]) };
        let mut run = RunRecord { conditions: conditions(7), ..run(&number.to_string(), passed, failed) };
        run.tests.get_mut(&id("slow")).unwrap().duration_us = Some(if number < 6 { 200_000 } else { 400_000 });
        store.record(run);
    }
    // An edit, of which nothing is known.
    store.record(RunRecord { conditions: conditions(8), ..run("broken", &["slow", "flaky"], &["sound"]) });
    store.record(RunRecord { conditions: None, ..run("unknown", &["slow", "flaky"], &["sound"]) });
    let answer = store.look_up(&HistoryQuery { limit: 9, flaky: true, ..HistoryQuery::default() });
    let flaky: Vec<_> =
        answer.flaky.iter().map(|found| (found.test.name.as_str(), found.runs, found.failures)).collect();
    assert_eq!(flaky, [("flaky", 9, 3)]);
    assert!(answer.slow.is_empty(), "not asked for");
    let store = Store::new();
    for number in 0..9_u8 {
        let mut run = run(&number.to_string(), &["sound", "slow"], &[]);
        run.tests.get_mut(&id("slow")).unwrap().duration_us = Some(if number < 6 { 200_000 } else { 400_000 });
        store.record(run);
    }
    let slow = store.look_up(&HistoryQuery { limit: 9, slow: true, ..HistoryQuery::default() }).slow;
    assert_eq!((slow.len(), slow[0].0.name.as_str(), slow[0].1.factor()), (1, "slow", 2.0));
}

#[test]
fn finds_tests_that_never_failed_in_enough_results() {
    let store = Store::new();
    for number in 0..NEVER_FAILING_RESULTS_MIN {
        let (passed, failed): (&[&str], &[&str]) = if number == 3 {
            (&["sound", "slower"], &["failed-once"])
        } else {
            (&["sound", "slower", "failed-once"], &[])
        };
        let mut run = run(&number.to_string(), passed, failed);
        run.tests.get_mut(&id("slower")).unwrap().duration_us = Some(5_000);
        if number > 0 {
            let new = TestResult { outcome: TestOutcome::Passed, duration_us: None };
            run.tests.insert(id("one-result-too-few"), new);
        }
        store.record(run);
    }
    let answer = store.look_up(&HistoryQuery { limit: 1, never_failing: true, ..HistoryQuery::default() });
    let slower = NeverFailing { test: id("slower"), results: NEVER_FAILING_RESULTS_MIN, duration_us: Some(5_000) };
    assert_eq!((answer.never_failing, answer.never_failing_total), (vec![slower], 2));
}

#[test]
fn runs_are_in_the_order_of_their_recording_whatever_the_clock_says() {
    let store = Store::new();
    for (number, ended) in [(1, 9_000), (2, 50), (3, 4_000)] {
        store.record(RunRecord { ended_at: Timestamp(ended), ..run(&number.to_string(), &["a"], &[]) });
    }
    assert_eq!(store.run_ids(), ["3", "2", "1"]);
}

#[test]
fn two_tenants_share_no_file_and_two_workspaces_no_result() {
    let store = Store::new();
    let other = Store::new();
    store.record(run("1", &[], &["a"]));
    assert_eq!(other.record(run("2", &[], &["a"])), Comparison::default(), "another tenant");
    let elsewhere = RunRecord { workspace: WorkspaceKey([2; 16]), ..run("3", &[], &["a"]) };
    assert_eq!(store.record(elsewhere), Comparison::default(), "another workspace");
    assert_eq!((store.run_ids(), other.run_ids()), (vec!["1".to_owned()], vec!["2".to_owned()]));
}

#[test]
fn a_run_does_not_wait_longer_than_it_may() {
    let store = Store::new();
    let recorded = store.history.record_within(Duration::ZERO, store.location(), run("1", &["a"], &[]));
    assert!(matches!(recorded, Ok(_) | Err(HistoryError::Slow)), "{recorded:?}");
    assert!(store.history.flush(Duration::from_secs(60)));
    assert_eq!(store.run_ids(), ["1"], "it is recorded all the same");
}

#[test]
fn only_the_owner_can_read_it() {
    let store = Store::new();
    store.record(run("1", &["a"], &[]));
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.location().dir), 0o700);
    let files: Vec<_> = fs::read_dir(store.location().dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        assert_eq!(mode(file.clone()), 0o600, "{}", file.display());
    }
}

#[test]
fn a_database_from_a_newer_version_is_left_as_it_is() {
    let store = Store::new();
    store.record(run("1", &["a"], &[]));
    let edit = Connection::open(store.file()).unwrap();
    edit.pragma_update(None, "user_version", 99).unwrap();
    drop(edit);
    let fresh = Store { history: History::start(), ..store };
    assert_eq!(fresh.try_record(run("2", &["a"], &[])), Err(HistoryError::Newer));
    assert_eq!(look_up(&fresh.location(), WORKSPACE, &HistoryQuery::default()).err(), Some(HistoryError::Newer));
    let runs: u64 =
        Connection::open(fresh.file()).unwrap().query_one("SELECT count(*) FROM run", [], |row| row.get(0)).unwrap();
    assert_eq!(runs, 1);
}

#[test]
fn a_locked_database_costs_one_run_its_record() {
    let store = Store::new();
    store.record(run("1", &["a"], &[]));
    let other = store.lock();
    assert_eq!(store.try_record(run("2", &["a"], &[])), Err(HistoryError::Locked));
    assert_eq!(store.run_ids(), ["1"], "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    store.record(run("3", &["a"], &[]));
    assert_eq!(store.run_ids(), ["3", "1"]);
}

#[test]
fn a_damaged_file_is_moved_aside() {
    for damage in [&b"no database at all, but rather long text"[..], &[0xff; 8_192]] {
        let store = Store::new();
        fs::create_dir(store.location().dir).unwrap();
        fs::write(store.file(), damage).unwrap();
        assert_eq!(look_up(&store.location(), WORKSPACE, &HistoryQuery::default()).err(), Some(HistoryError::Damaged));
        assert!(store.record(run("1", &["a"], &[])).began_anew);
        assert!(!store.record(run("2", &["a"], &[])).began_anew);
        assert_eq!(store.run_ids(), ["2", "1"]);
        assert_eq!(fs::read(store.location().dir.join("history.sqlite.damaged")).unwrap(), damage);
    }
}

#[test]
fn a_table_that_was_dropped_is_damage_too() {
    let store = Store::new();
    store.record(run("1", &["a"], &[]));
    Connection::open(store.file()).unwrap().execute_batch("DROP TABLE result").unwrap();
    assert!(store.record(run("2", &["a"], &[])).began_anew);
    assert_eq!(store.run_ids(), ["2"]);
}

#[test]
fn a_history_that_was_deleted_begins_anew() {
    let store = Store::new();
    store.record(run("1", &["a"], &[]));
    fs::remove_dir_all(store.location().dir).unwrap();
    assert_eq!(store.run_ids(), [""; 0]);
    assert_eq!(store.record(run("2", &["a"], &[])), Comparison::default());
    assert_eq!(store.run_ids(), ["2"]);
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error_without_a_path() {
    let store = Store::new();
    fs::write(store.location().dir, "a file").unwrap();
    assert_eq!(store.try_record(run("1", &["a"], &[])), Err(HistoryError::Host));
    for error in [HistoryError::Host, HistoryError::Full, HistoryError::Slow, HistoryError::Busy, HistoryError::Damaged]
    {
        assert!(!error.to_string().contains('/'), "{error}");
    }
}

#[test]
fn the_oldest_runs_make_room_for_new_ones() {
    let store = Store::new();
    let location = HistoryLocation { bytes_max: 1 << 20, ..store.location() };
    // Each run has names of its own, as parametrised tests may: some 60 KiB.
    for number in 0..60 {
        let names: Vec<String> = (0..200).map(|test| format!("{number}-{test}-{}", "x".repeat(80))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let run = run(&number.to_string(), &names, &[]);
        store.history.record_within(Duration::from_secs(60), location.clone(), run).unwrap();
        let bytes = fs::metadata(store.file()).unwrap().len();
        assert!(bytes <= location.bytes_max, "{number}: {bytes} bytes");
    }
    assert!(store.history.flush(Duration::from_secs(60)));
    let left = store.run_ids();
    assert!(left.len() >= 8 && left.len() < 60, "{} runs are left", left.len());
    let names: u64 =
        Connection::open(store.file()).unwrap().query_one("SELECT count(*) FROM test", [], |row| row.get(0)).unwrap();
    assert_eq!(names, left.len() as u64 * 200, "only names that a run has");
    let newest: Vec<String> = (0..60).rev().take(left.len()).map(|number| number.to_string()).collect();
    assert_eq!(left, newest);
    let check: String =
        Connection::open(store.file()).unwrap().query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[test]
fn the_latest_run_of_a_workspace_outlives_many_runs_of_others() {
    let store = Store::new();
    let location = HistoryLocation { bytes_max: 1 << 20, ..store.location() };
    let rare = RunRecord { workspace: WorkspaceKey([9; 16]), ..run("rare", &[], &["a"]) };
    store.history.record_within(Duration::from_secs(60), location.clone(), rare.clone()).unwrap();
    for number in 0..60 {
        let names: Vec<String> = (0..200).map(|test| format!("{number}-{test}-{}", "x".repeat(80))).collect();
        let run = run(&number.to_string(), &names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        store.history.record_within(Duration::from_secs(60), location.clone(), run).unwrap();
    }
    let again = store.history.record_within(
        Duration::from_secs(60),
        location,
        RunRecord { run_id: "again".to_owned(), ..rare },
    );
    assert_eq!(groups(&again.unwrap()), [vec![""; 0], vec![], vec!["a"]]);
}

#[test]
fn a_full_disk_costs_no_earlier_run() {
    let store = Store::new();
    for number in 0..5 {
        store.record(run(&number.to_string(), &["a"], &[]));
    }
    // SQLite's own bound stands for the disk: the file may not grow, and the quota is far away.
    let location = store.location();
    let full = HistoryLocation { bytes_max: fs::metadata(store.file()).unwrap().len(), ..location.clone() };
    let database = super::database::Database::open(&full).unwrap();
    let names: Vec<String> = (0..2_000).map(|test| format!("{test}-{}", "x".repeat(80))).collect();
    let large = run("large", &names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    assert_eq!(
        super::writer::insert_or_make_room(&database, &large, location.bytes_max).err(),
        Some(HistoryError::Full)
    );
    drop(database);
    assert_eq!(store.run_ids().len(), 5);
}

/// Numbers that look random and are the same each time (xorshift).
struct Random(u64);

impl Random {
    fn percent(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % 100
    }
}

#[test]
fn a_hundred_runs_show_five_flaky_tests_one_slow_test_and_no_other() {
    let store = Store::new();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for number in 0..100_u64 {
        // An order by chance, two hours of a day, a rare race, one in ten, and a file that every third run leaves behind.
        let fails = [
            ("order", random.percent() < 50),
            ("time", number % 24 >= 22),
            ("race", random.percent() < 6),
            ("random", random.percent() < 10),
            ("shared file", number % 3 == 2),
            ("always broken", true),
            ("broken by the edit", number >= 50),
            ("repaired by the edit", number < 50),
            ("broken by an upgrade", number >= 30),
            ("repaired by an upgrade", number < 70),
        ];
        let sound: Vec<String> = (0..100).map(|test| format!("sound {test:02}")).collect();
        let passed =
            sound.iter().map(String::as_str).chain(fails.iter().filter(|(_, fails)| !fails).map(|(name, _)| *name));
        let passed: Vec<&str> = passed.chain(["becomes slow"]).collect();
        let failed: Vec<&str> = fails.iter().filter(|(_, fails)| *fails).map(|(name, _)| *name).collect();
        // The files change once.
        let conditions = Some(Conditions([u8::from(number >= 50); 16]));
        let mut run = RunRecord { conditions, ..run(&number.to_string(), &passed, &failed) };
        for (test, result) in &mut run.tests {
            // A fifth more or less, and ten times as much now and then.
            let noise = if random.percent() < 2 { 1_000 } else { 80 + random.percent() * 2 / 5 };
            let usual = if test.name == "becomes slow" && number >= 95 { 600_000 } else { 400_000 };
            let noise = if test.name == "becomes slow" { 95 + noise % 10 } else { noise };
            result.duration_us = Some(usual * noise / 100);
        }
        store.record(run);
    }
    let answer = store.look_up(&HistoryQuery { limit: 50, flaky: true, slow: true, ..HistoryQuery::default() });
    let mut flaky: Vec<&str> = answer.flaky.iter().map(|flaky| flaky.test.name.as_str()).collect();
    flaky.sort_unstable();
    assert_eq!(flaky, ["order", "race", "random", "shared file", "time"]);
    let slow: Vec<&str> = answer.slow.iter().map(|(test, _)| test.name.as_str()).collect();
    assert_eq!(slow, ["becomes slow"]);
}

#[test]
fn a_test_with_both_results_in_one_run_is_flaky_at_once() {
    let store = Store::new();
    let conditions = Some(Conditions([1; 16]));
    let repeated = vec![(id("a"), 20, 3)];
    store.record(RunRecord { conditions, repeated, ..run("1", &["b"], &["a"]) });
    let flaky = store.look_up(&HistoryQuery { limit: 9, flaky: true, ..HistoryQuery::default() }).flaky;
    let counts: Vec<_> = flaky.iter().map(|flaky| (flaky.test.name.as_str(), flaky.runs, flaky.failures)).collect();
    assert_eq!(counts, [("a", 20, 3)]);
}

#[test]
fn a_repeated_run_that_waited_for_its_turn_shows_its_flaky_tests_too() {
    let store = Store::new();
    let repeated = vec![(id("a"), 20, 3)];
    store.record(RunRecord { conditions: None, repeated, ..run("1", &["b"], &["a"]) });
    let repeated = vec![(id("a"), 10, 1)];
    store.record(RunRecord { conditions: None, repeated, ..run("2", &["b"], &["a"]) });
    // Runs of which nothing is known show nothing.
    store.record(RunRecord { conditions: None, ..run("3", &["b"], &["a"]) });
    let flaky = store.look_up(&HistoryQuery { limit: 9, flaky: true, ..HistoryQuery::default() }).flaky;
    let counts: Vec<_> = flaky.iter().map(|flaky| (flaky.test.name.as_str(), flaky.runs, flaky.failures)).collect();
    assert_eq!(counts, [("a", 30, 4)]);
}

#[test]
fn a_run_whose_files_changed_meanwhile_makes_no_test_flaky() {
    let both = ResultCounts { passed: 1, failed: 1, echoed: 0 };
    let record = |files_changed| {
        let now = Timestamp(0);
        let limits = proctor_core::limits::Limits::DEFAULT;
        let reason = proctor_core::outcome::KillReason::Cancelled;
        let mut report = crate::runs::without_running(now, limits, "go", reason, "");
        report.repetitions = Some(Repetitions {
            requested: 2,
            executions: 2,
            failed: 1,
            retries: 0,
            flaky: Vec::new(),
            counts: Arc::new(BTreeMap::from([(id("a"), both)])),
            failing_orders: Arc::default(),
            files_changed,
        });
        let keys = (WorkspaceKey([1; 16]), DirectoryKey([1; 16]));
        let run = RunId::new("a");
        RunRecord::new(keys, &run, &RunRequest::default(), Some(&Fingerprint([7; 32])), &report)
    };
    assert_eq!(record(false).repeated, [(id("a"), 2, 1)]);
    assert!(record(false).conditions.is_some());
    let changed = record(true);
    assert!(changed.repeated.is_empty() && changed.conditions.is_none());
}

#[test]
fn the_order_of_the_latest_run_in_which_a_test_failed_after_others_is_kept() {
    let store = Store::new();
    let order = |names: &[&str]| -> Vec<TestId> { names.iter().map(|name| id(name)).collect() };
    let failing = |name: &str| failing_run(&store.location(), WORKSPACE, name).unwrap();
    store.record(run("0", &["a"], &[]));
    assert_eq!(failing("a"), None);
    store.record(RunRecord { failing_order: order(&["c", "a", "b"]), ..run("1", &["c", "a"], &["b"]) });
    store.record(RunRecord { failing_order: order(&["a", "c", "b"]), ..run("2", &["b", "c"], &["a"]) });
    store.record(RunRecord { failing_order: order(&["b"]), ..filtered(run("3", &[], &["b"])) });
    let expected = FailingRun { run_id: "1".to_owned(), test: id("b"), before: order(&["c", "a"]) };
    assert_eq!(failing("p/b"), Some(expected), "run 3 had no test before it");
    assert_eq!(failing("a"), None, "it was the first");
    assert_eq!(failing("no such test"), None);
}
