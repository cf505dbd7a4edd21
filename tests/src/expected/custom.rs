//! Expected results of custom commands that report in a common format (JUnit, TAP, lines of result words).

use crate::expectation::{Case, Collector, Row, RunOptions};

const FIXTURE: &str = "custom/scripts";

const PASSED: Row = Row { framework: "custom", fixture: FIXTURE, ..Row::PASSED };
const FAILED: Row = Row { framework: "custom", fixture: FIXTURE, ..Row::FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "junit",
        options: RunOptions { command: &["sh", "junit.sh"], ..RunOptions::ALL },
        tests: &[
            Case::passed("calc::adds"),
            Case::failed("calc::divides")
                .at("calc.sh", 7)
                .with_message("expected: <2> but was: <3>")
                .with_values("2", "3"),
            Case::skipped("calc::later").with_message("not today"),
        ],
        ..FAILED
    },
    Row {
        name: "junit_cut_off",
        options: RunOptions { command: &["sh", "truncated.sh"], ..RunOptions::ALL },
        raw_exit_code: Some(0),
        partial: true,
        tests: &[Case::passed("calc::adds")],
        ..FAILED
    },
    Row {
        name: "tap",
        options: RunOptions { command: &["sh", "tap.sh"], ..RunOptions::ALL },
        tests: &[
            Case::passed("adds"),
            Case::passed("texts/same"),
            Case::failed("texts/other").at("text.sh", 3).with_message("texts differ").with_values("one", "two"),
            Case::parent("texts"),
            Case::skipped("moon").with_message("too cloudy"),
            Case { outcome: "xfailed", ..Case::failed("later") }.with_message("not written yet"),
        ],
        ..FAILED
    },
    // The program exits with 0 regardless of its tests and prints the plan last.
    Row {
        name: "tap_plan_last",
        options: RunOptions { command: &["sh", "plan_last.sh"], ..RunOptions::ALL },
        raw_exit_code: Some(0),
        tests: &[Case::passed("adds"), Case::failed("divides").with_message("not by zero")],
        ..FAILED
    },
    Row {
        name: "result_words",
        options: RunOptions { command: &["sh", "result_words.sh"], ..RunOptions::ALL },
        structured: false,
        tests: &[Case::passed("adds"), Case::failed("divides"), Case::skipped("moon")],
        ..FAILED
    },
    Row {
        name: "result_words_exit_0",
        options: RunOptions { command: &["sh", "result_words.sh", "0"], ..RunOptions::ALL },
        structured: false,
        tests: &[Case::passed("adds"), Case::skipped("moon")],
        ..PASSED
    },
    // A test with an error, and a suite that could not be loaded.
    Row {
        name: "junit_broken",
        options: RunOptions { command: &["sh", "broken.sh"], ..RunOptions::ALL },
        outcome: "collection_failed",
        exit_status: 3,
        exit_code: 2,
        raw_exit_code: Some(2),
        held: &["collection_failed", "failed"],
        tests: &[
            Case::passed("stock::holds"),
            Case::error("stock::counts").at("stock.sh", 4).with_message("no database"),
        ],
        collectors: &[Collector::collection("prices", "prices.sh: line 3: unexpected end of file")],
        ..FAILED
    },
    Row {
        name: "tap_empty",
        options: RunOptions { command: &["sh", "empty.sh"], ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
    Row {
        name: "tap_all_skipped",
        options: RunOptions { command: &["sh", "all_skipped.sh"], ..RunOptions::ALL },
        tests: &[Case::skipped("all tests").with_message("nothing matches")],
        ..PASSED
    },
    // TAP reports a test after its end, so the running test is unknown.
    Row {
        name: "hang",
        options: RunOptions { command: &["sh", "hang.sh"], timeout_s: Some(8), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("ends")],
        ..PASSED
    },
    Row {
        name: "crash",
        options: RunOptions { command: &["sh", "crash.sh"], ..RunOptions::ALL },
        outcome: "crashed",
        exit_status: 139,
        exit_code: 139,
        raw_exit_code: None,
        partial: true,
        held: &["crashed"],
        tests: &[Case::passed("adds")],
        ..PASSED
    },
    Row {
        name: "unicode",
        options: RunOptions { command: &["sh", "unicode.sh"], ..RunOptions::ALL },
        tests: &[
            Case::passed("größe 🦀"),
            Case::failed("日本 テスト").with_message("naïve \u{fffd} text").with_values("さようなら", "ありがとう"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        options: RunOptions { command: &["sh", "many.sh"], ..RunOptions::ALL },
        numbered_passed: ("case {}", 10_000),
        ..PASSED
    },
    Row {
        name: "many_one_fails",
        options: RunOptions { command: &["sh", "many.sh", "the last one fails"], ..RunOptions::ALL },
        tests: &[Case::failed("the last one fails")],
        numbered_passed: ("case {}", 10_000),
        ..FAILED
    },
    // The report file in the workspace is from an earlier run.
    Row {
        name: "no_report",
        fixture: "custom/noreport",
        raw_exit_code: Some(0),
        structured: false,
        partial: true,
        ..FAILED
    },
    Row {
        name: "project_file",
        fixture: "custom/projectfile",
        tests: &[
            Case::passed("calc::adds"),
            Case::failed("calc::divides")
                .at("calc.sh", 7)
                .with_message("expected: <2> but was: <3>")
                .with_values("2", "3"),
        ],
        ..FAILED
    },
];
