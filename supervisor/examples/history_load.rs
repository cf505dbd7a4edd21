//! Fills a history with runs and measures it: `history_load DIR RUNS TESTS [write|measure]`.
//!
//! With `write`, prints the number of each run when it is recorded, for a test that kills this process. With `measure`,
//! prints how long a record and each question take, and the size of the database. Checks its integrity at the end.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example prints its figures, and may end at an error")]

use proctor::history::query::{HistoryQuery, look_up};
use proctor::history::run_record::{Conditions, RunRecord};
use proctor::history::{DirectoryKey, History, HistoryLocation, WorkspaceKey};
use proctor_core::history::TestResult;
use proctor_core::outcome::Outcome;
use proctor_core::report::Summary;
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const WORKSPACE: WorkspaceKey = WorkspaceKey([7; 16]);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, runs, tests, mode] = arguments.as_slice() else {
        println!("usage: history_load DIR RUNS TESTS write|measure");
        return;
    };
    let (runs, tests): (u64, u64) = (runs.parse().unwrap(), tests.parse().unwrap());
    let location = HistoryLocation::new(PathBuf::from(dir).join("history"), 1 << 30);
    let history = History::start();
    let mut slowest = Duration::ZERO;
    let begun = Instant::now();
    for number in 1..=runs {
        let run = run(number, tests);
        let before = Instant::now();
        let recorded = history.record(location.clone(), run);
        slowest = slowest.max(before.elapsed());
        if mode == "write" && recorded.is_ok() {
            println!("{number}");
        }
    }
    if mode == "measure" {
        println!(
            "record: {:.2} ms on average, {} ms at most",
            begun.elapsed().as_secs_f64() * 1e3 / runs as f64,
            slowest.as_millis()
        );
        measure(&location);
    }
    assert!(history.flush(Duration::from_secs(60)), "the history is written");
    check(&location);
}

/// Prints the integrity of the database and the number of its runs, all of which must have results.
fn check(location: &HistoryLocation) {
    let database = rusqlite::Connection::open(location.dir.join("history.sqlite")).unwrap();
    let text: String = database.query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    let count = |sql: &str| -> u64 { database.query_one(sql, [], |row| row.get(0)).unwrap() };
    let without = count("SELECT count(*) FROM run WHERE id NOT IN (SELECT run FROM result WHERE length(tests) > 1)");
    println!("integrity: {text}, {} runs, {without} without results", count("SELECT count(*) FROM run"));
}

fn run(number: u64, tests: u64) -> RunRecord {
    let mut summary = Summary::default();
    let result = |test: u64| {
        // One test in a hundred fails now and then, under conditions that hold for four runs.
        let fails = test % 100 == 3 && number * 31 % 17 == test % 17;
        let outcome = if fails { TestOutcome::Failed } else { TestOutcome::Passed };
        (outcome, 1_000 + (test * 7_919 + number * 104_729) % 40_000)
    };
    let tests: BTreeMap<TestId, TestResult> = (0..tests)
        .map(|test| {
            let (outcome, us) = result(test);
            summary.count(outcome);
            let id = TestId {
                package: format!("example.com/project/internal/package{}", test / 40),
                name: format!("TestSomethingOfAUsualLength/case_{test}"),
            };
            (id, TestResult { outcome, duration_us: Some(us) })
        })
        .collect();
    let failing_order = if summary.failed > 0 { tests.keys().cloned().collect() } else { Vec::new() };
    let mut conditions = [0; 16];
    conditions[..8].copy_from_slice(&(number / 4).to_le_bytes());
    RunRecord {
        workspace: WORKSPACE,
        directory: DirectoryKey([7; 16]),
        run_id: format!("session-{number}"),
        started_at: Timestamp(number * 60_000),
        ended_at: Timestamp(number * 60_000 + 3_000),
        outcome: if summary.failed > 0 { Outcome::Failed } else { Outcome::Passed },
        framework: "go".to_owned(),
        selection: "all",
        is_complete: true,
        partial: false,
        summary,
        duration_us: 3_000_000,
        cpu_us: 4_000_000,
        memory_peak_bytes: Some(1 << 27),
        conditions: Some(Conditions(conditions)),
        tests,
        repeated: Vec::new(),
        failing_order,
        echoes: Vec::new(),
    }
}

fn measure(location: &HistoryLocation) {
    let limit = 20;
    for (what, query) in [
        ("latest 20 runs", HistoryQuery { limit, ..HistoryQuery::default() }),
        (
            "one test",
            HistoryQuery { limit, test: "TestSomethingOfAUsualLength/case_3".to_owned(), ..HistoryQuery::default() },
        ),
        ("flaky tests", HistoryQuery { limit, flaky: true, ..HistoryQuery::default() }),
        ("slow tests", HistoryQuery { limit, slow: true, ..HistoryQuery::default() }),
    ] {
        let mut times: Vec<Duration> = (0..11)
            .map(|_| {
                let before = Instant::now();
                let answer = look_up(location, WORKSPACE, &query).unwrap();
                assert_eq!(answer.runs.len(), limit);
                before.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{what}: {:.1} ms (median of 11)", times[5].as_secs_f64() * 1e3);
    }
    let files = std::fs::read_dir(&location.dir).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    println!("size: {:.1} MiB", bytes as f64 / f64::from(1 << 20));
}
