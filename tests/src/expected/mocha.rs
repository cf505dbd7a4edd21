//! Expected results of Mocha's fixtures. `lines` is tested in `outcome_table/javascript_lines.rs`.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "mocha", ..Row::PASSED };
const FAILED: Row = Row { framework: "mocha", ..Row::FAILED };

const TIMEOUT: &str = "Timeout of 20ms exceeded. For async tests and hooks, ensure \"done()\" is called; if returning a \
                       Promise, ensure it resolves.";

/// The rows. Mocha exits with the number of failures.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "mocha/pass",
        tests: &[
            Case::passed("test/module.spec.mjs > a module > is loaded"),
            Case::passed("test/sum.spec.js > stands alone"),
            Case::passed("test/sum.spec.js > sum > adds"),
            Case::passed("test/sum.spec.js > sum > with zero > changes nothing"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "mocha/fail",
        exit_code: 6,
        raw_exit_code: Some(6),
        tests: &[
            Case::failed("test/fail.spec.js > cart > compares")
                .at("test/fail.spec.js", 8)
                .with_message("Expected values to be strictly deep-equal")
                .with_values("{ total: 2 }", "{ total: 1 }"),
            Case::failed("test/fail.spec.js > cart > compares texts")
                .at("test/fail.spec.js", 10)
                .with_message("Expected values to be strictly equal")
                .with_values("a\nc", "a\nb"),
            Case::failed("test/fail.spec.js > cart > fails in a helper")
                .at("test/fail.spec.js", 4)
                .with_message("Expected values to be strictly equal")
                .with_values("3", "2"),
            Case::failed("test/fail.spec.js > cart > throws")
                .at("test/fail.spec.js", 14)
                .with_message("TypeError: no such cart"),
            Case::failed("test/fail.spec.js > cart > says what is wrong")
                .at("test/fail.spec.js", 16)
                .with_message("the cart is empty")
                .with_values("true", "false"),
            Case::failed("test/fail.spec.js > time > runs out").with_message(TIMEOUT),
            Case::passed("test/fail.spec.js > cart > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "mocha/error",
        exit_code: 3,
        raw_exit_code: Some(3),
        tests: &[
            Case::error("test/hooks.spec.js > before all > \"before all\" hook for \"is not reached\"")
                .at("test/hooks.spec.js", 3)
                .with_message("no database"),
            Case::error("test/hooks.spec.js > before each > has no page")
                .at("test/hooks.spec.js", 10)
                .with_message("\"before each\" hook: opens a page: no page"),
            Case::error("test/hooks.spec.js > after each > \"after each\" hook for \"holds\"")
                .at("test/hooks.spec.js", 18)
                .with_message("still open"),
            Case::passed("test/hooks.spec.js > after each > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "mocha/skip",
        tests: &[
            Case::skipped("test/skip.spec.js > skips > has no body yet"),
            Case::skipped("test/skip.spec.js > skips > is left out"),
            Case::skipped("test/skip.spec.js > skips > decides as it runs"),
        ],
        ..PASSED
    },
    // Mocha loads all files before it runs a test and stops at the first load error.
    Row {
        name: "collection",
        fixture: "mocha/collection",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        partial: true,
        collectors: &[Collector::collection(".", "Cannot find module './missing'").at("test/b.spec.js", 2)],
        ..FAILED
    },
    // Mocha 11 exits with 0 when the global teardown fails.
    Row {
        name: "teardown",
        fixture: "mocha/teardown",
        outcome: "collection_failed",
        exit_status: 3,
        exit_code: 3,
        raw_exit_code: Some(0),
        held: &["collection_failed"],
        tests: &[Case::passed("test/shop.spec.js > opens")],
        collectors: &[
            Collector::collection(".", "the global teardown failed: the server does not stop").at("server.js", 3)
        ],
        ..FAILED
    },
    // The test script starts Mocha twice, once through another script, for which it sets environment variables.
    Row {
        name: "two_commands",
        fixture: "mocha/two_commands",
        tests: &[
            Case::failed("test/it/shop.spec.js > sells").at("test/it/shop.spec.js", 6).with_message("sold out"),
            Case::passed("test/it/shop.spec.js > is open"),
            Case::passed("test/unit/price.spec.js > has tax"),
        ],
        ..FAILED
    },
    // A test that fails at first and passes when retried.
    Row {
        name: "flaky",
        fixture: "mocha/flaky",
        flaky: 1,
        tests: &[Case::passed("test/weather.spec.js > settles"), Case::passed("test/weather.spec.js > holds")],
        ..PASSED
    },
    // Tests that replace a stream's function find their replacement in place.
    Row {
        name: "spies",
        fixture: "mocha/spies",
        tests: &[
            Case::passed("test/stream.spec.js > a stream that is watched > is heard once"),
            Case::passed("test/stream.spec.js > a stream that is watched > is heard again"),
        ],
        ..PASSED
    },
    // With `bail` Mocha runs no test after the first failed one.
    Row {
        name: "bail",
        fixture: "mocha/bail",
        unreached: true,
        tests: &[Case::failed("test/a.spec.js > shop > opens").at("test/a.spec.js", 4).with_message("closed")],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "mocha/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("test/hang.spec.js > ends")],
        running: &["test/hang.spec.js/hangs"],
        // The test awaits nothing: its promise is only returned.
        hung: &[("test/hang.spec.js/hangs", "test/hang.spec.js", 2)],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "mocha/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("test/crash.spec.js > holds"),
            Case::error("test/crash.spec.js > leaves").with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "delayed_abort",
        fixture: "mocha/delayed_abort",
        outcome: "crashed",
        exit_status: 134,
        exit_code: 134,
        raw_exit_code: None,
        partial: true,
        held: &["crashed", "failed"],
        tests: &[
            Case::passed("test/leaves.spec.js > holds"),
            Case::failed("test/leaves.spec.js > fails and leaves an end behind")
                .at("test/leaves.spec.js", 8)
                .with_message("Expected values to be strictly equal")
                .with_values("2", "1"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "mocha/unicode",
        exit_code: 2,
        raw_exit_code: Some(2),
        tests: &[
            Case::failed("test/unicode.spec.js > größe \"ä\" (1+1) > 赤")
                .at("test/unicode.spec.js", 4)
                .with_message("Expected values to be strictly equal")
                .with_values("\"日本\"", "\"naïve\""),
            Case::failed("test/unicode.spec.js > größe \"ä\" (1+1) > is coloured")
                .at("test/unicode.spec.js", 6)
                .with_message("rot"),
            Case::passed("test/unicode.spec.js > größe \"ä\" (1+1) > half a crab \u{fffd}"),
            Case::passed("test/unicode.spec.js > größe \"ä\" (1+1) > 🦀 a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "mocha/many",
        numbered_passed: ("test/many.spec.js > many > case {}", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "mocha/fail",
        options: RunOptions { filter: "cart (holds|throws)$", ..RunOptions::ALL },
        tests: &[
            Case::failed("test/fail.spec.js > cart > throws")
                .at("test/fail.spec.js", 14)
                .with_message("TypeError: no such cart"),
            Case::passed("test/fail.spec.js > cart > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "mocha/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
