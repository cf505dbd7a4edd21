//! The store as its callers use it: comparison, bounds, and databases that cannot be used.

use super::query::{HistoryAnswer, HistoryQuery, NeverFailing, look_up};
use super::run_record::{Conditions, RunRecord};
use super::{Comparison, History, HistoryError, HistoryLocation, WorkspaceKey};
use proctor_core::bounds::NEVER_FAILING_RESULTS_MIN;
use proctor_core::history::TestResult;
use proctor_core::outcome::Outcome;
use proctor_core::report::Summary;
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
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
        HistoryLocation { dir: self.dir.path().join("history"), bytes_max: 64 << 20 }
    }

    fn file(&self) -> PathBuf {
        self.location().dir.join("history.sqlite")
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
}

#[test]
fn answers_trend_streak_and_last_green() {
    let store = Store::new();
    store.record(run("1", &["a", "ab"], &[]));
    for number in 2..5 {
        store.record(run(&number.to_string(), &["ab"], &["a"]));
    }
    let answer = store.look_up(&HistoryQuery { limit: 2, test: "p/a".to_owned(), ..HistoryQuery::default() });
    assert_eq!((answer.total_runs, answer.red_streak, answer.matches), (4, 3, 1));
    let green = answer.last_green.unwrap();
    assert_eq!((green.run_id.as_str(), green.runs_after), ("1", 3));
    assert_eq!(answer.runs[0].changes, Some([0, 0, 1]));
    let trend = &answer.trends[0];
    assert_eq!((trend.failure_streak, trend.results.len(), trend.results[0].run_id.as_str()), (3, 2, "4"));
    let both = store.look_up(&HistoryQuery { limit: 2, test: "p/".to_owned(), ..HistoryQuery::default() });
    assert_eq!((both.matches, both.trends.len()), (2, 2), "part of a name");
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
    let other = Connection::open(store.file()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
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
    let left = store.run_ids();
    assert!(!left.is_empty() && left.len() < 60, "{} runs are left", left.len());
    let newest: Vec<String> = (0..60).rev().take(left.len()).map(|number| number.to_string()).collect();
    assert_eq!(left, newest);
    let check: String =
        Connection::open(store.file()).unwrap().query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}
