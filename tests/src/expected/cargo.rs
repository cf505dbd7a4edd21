//! Expected results of the fixtures of `cargo test`. `lines` is tested in `outcome_table/rust_lines.rs`.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "cargo", ..Row::PASSED };
const FAILED: Row = Row { framework: "cargo", exit_code: 101, raw_exit_code: Some(101), ..Row::FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "cargo/pass",
        tests: &[
            Case::passed("pass$tests::adds"),
            Case::passed("pass$tests::prints_half_a_line"),
            Case::passed("pass$tests::refuses_what_is_too_large"),
            Case::passed("pass::bin/calc$tests::adds"),
            Case::passed("pass::doc/lib$src/lib.rs - add (line 5)"),
            Case::passed("pass::doc/lib$src/lib.rs - add (line 9)"),
            Case::passed("pass::program$says_three"),
            Case::passed("pass::program$sees_no_runner_of_anybody"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "cargo/fail",
        tests: &[
            Case::failed("fail$tests::differs_from_itself")
                .at("src/lib.rs", 34)
                .with_message("assertion `left != right` failed\n  left: \"Hello, a\"\n right: \"Hello, a\""),
            Case::failed("fail$tests::greets_the_world")
                .at("src/lib.rs", 24)
                .with_message("assertion `left == right` failed: greeting world")
                .with_values("\"Hello, world!\"", "\"Hello, world\""),
            Case::failed("fail$tests::is_out_of_bounds")
                .at("src/lib.rs", 40)
                .with_message("index out of bounds: the len is 0 but the index is 0"),
            Case::failed("fail$tests::joins_a_thread_that_panics")
                .at("src/lib.rs", 62)
                .with_message("the thread's own reason"),
            Case::failed("fail$tests::panics_for_another_reason")
                .at("src/lib.rs", 57)
                .with_message("panic did not contain expected string")
                .with_values("\"on fire\"", "\"under water\""),
            Case::failed("fail$tests::returns_an_error").with_message("Error: ParseIntError { kind: InvalidDigit }"),
            Case::failed("fail$tests::should_have_panicked")
                .at("src/lib.rs", 50)
                .with_message("test did not panic as expected"),
            Case::failed("fail::doc/lib$src/lib.rs - greet (line 5)")
                .at("src/lib.rs", 5)
                .with_message("assertion `left == right` failed: of you")
                .with_values("\"Hello, you!\"", "\"Hello, you\""),
            Case::failed("fail::doc/lib$src/lib.rs - greet (line 10)")
                .at("src/lib.rs", 12)
                .with_message("mismatched types"),
            Case::failed("fail::outside$fails_outside").at("tests/outside.rs", 3).with_message("no exclamation mark"),
            Case::passed("fail$tests::greets_nobody"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "cargo/skip",
        tests: &[
            Case::skipped("skip$tests::with_a_reason").with_message("needs a moon phase"),
            Case::skipped("skip$tests::without"),
            Case::skipped("skip::doc/lib$src/lib.rs - nothing (line 1)"),
        ],
        ..PASSED
    },
    Row {
        name: "builderror",
        fixture: "cargo/builderror",
        outcome: "build_failed",
        exit_status: 3,
        held: &["build_failed"],
        collectors: &[Collector::build("builderror::broken", "mismatched types: expected `String`, found `u32`")
            .at("tests/broken.rs", 3)],
        ..FAILED
    },
    Row {
        name: "buildscript",
        fixture: "cargo/buildscript",
        outcome: "build_failed",
        exit_status: 3,
        held: &["build_failed"],
        collectors: &[Collector::build("buildscript", "no compiler for tides").at("build.rs", 2)],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "cargo/hang",
        options: RunOptions { timeout_s: Some(25), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("hang$tests::a_quick")],
        running: &["hang/tests::hangs"],
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "cargo/crash",
        tests: &[
            Case::error("crash::abort$aborts")
                .with_message("did not finish: the test program was ended by signal SIGABRT"),
            Case::error("crash::exit$exits_as_if_all_was_well")
                .with_message("did not finish: the test program exited with 0"),
            Case::error("crash::overflow$overflows").with_message("the test overflowed its stack"),
            Case::passed("crash::holds$holds"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "cargo/unicode",
        tests: &[
            Case::failed("unicode$größe::ansi").at("src/lib.rs", 10).with_message("red and \u{202e}backwards"),
            Case::failed("unicode$größe::名前")
                .at("src/lib.rs", 5)
                .with_message("assertion `left == right` failed")
                .with_values("\"naïve ✗\"", "\"naïve ✓\""),
        ],
        ..FAILED
    },
    Row {
        name: "harness",
        fixture: "cargo/harness",
        tests: &[
            Case::failed("harness::fails-plainly$fails-plainly")
                .at("tests/fails-plainly.rs", 3)
                .with_message("assertion `left == right` failed: sums differ")
                .with_values("3", "2"),
            Case::failed("harness::speaks$two").with_message("said on the way"),
            Case::passed("harness::holds-plainly$holds-plainly"),
            Case::passed("harness::speaks$one"),
        ],
        ..FAILED
    },
    Row { name: "many", fixture: "cargo/many", numbered_passed: ("many$t{}", 10_000), ..PASSED },
    Row {
        name: "filtered",
        fixture: "cargo/fail",
        options: RunOptions { filter: "greets_the", ..RunOptions::ALL },
        tests: &[Case::failed("fail$tests::greets_the_world")
            .at("src/lib.rs", 24)
            .with_message("assertion `left == right` failed: greeting world")
            .with_values("\"Hello, world!\"", "\"Hello, world\"")],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "cargo/fail",
        options: RunOptions { filter: "nobody_wrote_this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
