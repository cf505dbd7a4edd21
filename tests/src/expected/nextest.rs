//! Expected results of the fixtures of cargo-nextest. A crash is a failed test, since each test has its own process.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "nextest", ..Row::PASSED };
const FAILED: Row = Row { framework: "nextest", exit_code: 100, raw_exit_code: Some(100), ..Row::FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "nextest/pass",
        flaky: 1,
        tests: &[
            Case::passed("pass$tests::adds"),
            Case::passed("pass$tests::holds_at_the_second_attempt"),
            Case::passed("pass::bin/pass$is_of_the_program"),
            Case::passed("pass::it$adds_outside"),
            Case::skipped("pass$tests::skipped"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "nextest/fail",
        tests: &[
            Case::failed("fail$tests::aborts").with_message("the test's process ended without a panic"),
            Case::failed("fail$tests::differs")
                .at("src/lib.rs", 6)
                .with_message("assertion `left == right` failed: sum of 1")
                .with_values("3", "2"),
            Case::failed("fail$tests::returns_an_error").with_message("Error: \"no\""),
            Case::failed("fail$tests::should_have_panicked")
                .at("src/lib.rs", 11)
                .with_message("test did not panic as expected"),
            Case::passed("fail$tests::holds"),
            Case::skipped("fail$tests::skipped"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "nextest/error",
        outcome: "crashed",
        exit_status: 137,
        exit_code: 137,
        raw_exit_code: None,
        partial: true,
        held: &["crashed", "failed"],
        tests: &[
            Case::error("error$tests::b_kills_nextest").with_message("did not finish: the runner ended before it"),
            Case::passed("error$tests::a_holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "nextest/skip",
        tests: &[
            Case::passed("skip$tests::holds"),
            Case::skipped("skip$tests::with_a_reason"),
            Case::skipped("skip$tests::without"),
        ],
        ..PASSED
    },
    Row {
        name: "builderror",
        fixture: "nextest/builderror",
        outcome: "build_failed",
        exit_status: 3,
        exit_code: 101,
        raw_exit_code: Some(101),
        held: &["build_failed"],
        collectors: &[Collector::build("builderror::broken", "mismatched types: expected `String`, found `u32`")
            .at("tests/broken.rs", 3)],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "nextest/hang",
        options: RunOptions { timeout_s: Some(25), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: Some(100),
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("hang$tests::a_quick")],
        running: &["hang/tests::hangs"],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "nextest/crash",
        tests: &[
            Case::failed("crash$tests::aborts").with_message("the test's process ended without a panic"),
            Case::failed("crash$tests::overflows").with_message("the test's process ended without a panic"),
            Case::passed("crash$tests::holds"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "nextest/unicode",
        tests: &[
            Case::failed("unicode$größe::ansi").at("src/lib.rs", 10).with_message("red and \u{202e}backwards"),
            Case::failed("unicode$größe::名前")
                .at("src/lib.rs", 5)
                .with_message("assertion `left == right` failed")
                .with_values("\"naïve ✗\"", "\"naïve ✓\""),
        ],
        ..FAILED
    },
    // nextest runs a process per test: 10,000 tests took 65 s of processor time.
    Row {
        name: "many",
        fixture: "nextest/many",
        numbered_passed: ("many$runs::t{}", 200),
        numbered_skipped: (Case::skipped("many$ignored::t{}"), 9_800),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "nextest/fail",
        options: RunOptions { filter: "holds", ..RunOptions::ALL },
        tests: &[Case::passed("fail$tests::holds")],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "nextest/fail",
        options: RunOptions { filter: "nobody_wrote_this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        raw_exit_code: Some(4),
        held: &["no_tests"],
        ..PASSED
    },
];
