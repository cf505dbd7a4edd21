//! Expected results of the fixtures of Node's own test runner.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "node", ..Row::PASSED };
const FAILED: Row = Row { framework: "node", ..Row::FAILED };
const COLLECTION_FAILED: Row =
    Row { outcome: "collection_failed", exit_status: 3, held: &["collection_failed"], ..FAILED };

const LEFT: &str = "its process left by itself (process.exit) before all of its tests were reported";

const UNFINISHED: &str = "did not finish: the file's process left by itself";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "node/pass",
        tests: &[
            Case::passed("test/module.test.mjs > a module is loaded"),
            Case::passed("test/sum.test.js > sum > adds"),
            Case::passed("test/sum.test.js > sum > with zero > changes nothing"),
            Case::passed("test/sum.test.js > stands alone"),
            Case::passed("test/sum.test.js > has subtests"),
            Case::passed("test/sum.test.js > has subtests/the first"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "node/fail",
        tests: &[
            Case::failed("test/fail.test.js > cart > compares")
                .at("test/fail.test.js", 9)
                .with_message("Expected values to be strictly deep-equal")
                .with_values("{ total: 2 }", "{ total: 1 }"),
            Case::failed("test/fail.test.js > cart > fails in a helper")
                .at("test/fail.test.js", 5)
                .with_message("Expected values to be strictly equal")
                .with_values("3", "2"),
            Case::failed("test/fail.test.js > cart > throws")
                .at("test/fail.test.js", 12)
                .with_message("TypeError: no such cart"),
            Case::failed("test/fail.test.js > cart > says what is wrong")
                .at("test/fail.test.js", 14)
                .with_message("the cart is empty")
                .with_values("true", "false"),
            Case::failed("test/fail.test.js > a table/two")
                .at("test/fail.test.js", 5)
                .with_message("Expected values to be strictly equal")
                .with_values("3", "4"),
            Case::parent("test/fail.test.js > a table"),
            Case::failed("test/fail.test.js > runs out of time")
                .at("test/fail.test.js", 23)
                .with_message("test timed out after 20ms"),
            Case::passed("test/fail.test.js > a table/one"),
            Case::passed("test/fail.test.js > cart > holds"),
        ],
        ..FAILED
    },
    // A suite is reported as a test only when one of its hooks fails.
    Row {
        name: "error",
        fixture: "node/error",
        tests: &[
            Case::error("test/hooks.test.js > before > is not reached")
                .at("test/hooks.test.js", 7)
                .with_message("test did not finish before its parent and was cancelled"),
            Case::error("test/hooks.test.js > before").at("test/hooks.test.js", 5).with_message("no database"),
            Case::error("test/hooks.test.js > before each > has no page")
                .at("test/hooks.test.js", 12)
                .with_message("no page"),
            Case::error("test/hooks.test.js > after").at("test/hooks.test.js", 19).with_message("still open"),
            Case::passed("test/hooks.test.js > after > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "node/skip",
        tests: &[
            Case::skipped("test/skip.test.js > is left out").at("test/skip.test.js", 3),
            Case::skipped("test/skip.test.js > has a reason")
                .at("test/skip.test.js", 4)
                .with_message("needs a moon phase"),
            Case::skipped("test/skip.test.js > decides as it runs").at("test/skip.test.js", 5).with_message("no moon"),
            Case::skipped("test/skip.test.js > has no body yet").at("test/skip.test.js", 6).with_message("todo"),
            Case::xfailed("test/skip.test.js > is known to fail").at("test/skip.test.js", 8).with_message("not yet"),
        ],
        ..PASSED
    },
    Row {
        name: "collection",
        fixture: "node/collection",
        tests: &[Case::passed("test/good.test.js > holds")],
        collectors: &[
            Collector::collection("test/missing.test.js", "Cannot find module './missing'")
                .at("test/missing.test.js", 2),
            Collector::collection("test/syntax.test.js", "SyntaxError: Unexpected token ';'")
                .at("test/syntax.test.js", 2),
        ],
        ..COLLECTION_FAILED
    },
    // An unawaited error arrives after its test has passed: Node names the test and fails the file.
    Row {
        name: "late",
        fixture: "node/late",
        tests: &[Case::passed("test/late.test.js > forgets a timer"), Case::passed("test/late.test.js > holds")],
        collectors: &[Collector::collection(
            "test/late.test.js",
            "\"forgets a timer\" went on after its end: Error: nobody waits",
        )
        .at("test/late.test.js", 3)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "hang",
        fixture: "node/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        // Node handles SIGTERM and exits with 1.
        raw_exit_code: Some(1),
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("test/hang.test.js > ends")],
        running: &["test/hang.test.js/hangs"],
        // The test awaits nothing: its promise is only returned.
        hung: &[("test/hang.test.js/hangs", "test/hang.test.js", 4)],
        ..PASSED
    },
    // Results of a file are lost when its process exits.
    Row {
        name: "crash",
        fixture: "node/crash",
        tests: &[Case::passed("test/good.test.js > holds")],
        collectors: &[Collector::collection("test/crash.test.js", "its process exited with 3 outside of its tests")],
        ..COLLECTION_FAILED
    },
    // The same with exit status 0.
    Row {
        name: "exits_early",
        fixture: "node/exits_early",
        exit_code: 3,
        raw_exit_code: Some(0),
        collectors: &[Collector::collection("test/leaves.test.js", LEFT)],
        ..COLLECTION_FAILED
    },
    // The same while the file loads: before or after its tests are defined, by the file itself and by an imported module.
    Row {
        name: "exits_while_loading",
        fixture: "node/exits_while_loading",
        exit_code: 3,
        raw_exit_code: Some(0),
        tests: &[Case::passed("test/plain.test.js > plain.test.js"), Case::passed("test/stays.test.js > holds")],
        collectors: &[
            Collector::collection("test/after.test.js", LEFT),
            Collector::collection("test/helped.test.mjs", LEFT),
            Collector::collection("test/imported.test.mjs", LEFT),
        ],
        ..COLLECTION_FAILED
    },
    // The same without running exit listeners, and with tests that a helper defines.
    Row {
        name: "exits_past_listeners",
        fixture: "node/exits_past_listeners",
        exit_code: 3,
        raw_exit_code: Some(0),
        held: &["collection_failed", "failed"],
        tests: &[
            Case::passed("test/helped.test.mjs > holds"),
            Case::error("test/helped.test.mjs > leaves where nobody sees tests").with_message(UNFINISHED),
            Case::passed("test/really.test.js > holds"),
            Case::error("test/really.test.js > leaves past every listener").with_message(UNFINISHED),
            Case::passed("test/unheard.test.js > holds"),
            Case::error("test/unheard.test.js > leaves with nobody told").with_message(UNFINISHED),
        ],
        collectors: &[
            Collector::collection("test/helped.test.mjs", LEFT),
            Collector::collection("test/really.test.js", LEFT),
            Collector::collection("test/unheard.test.js", LEFT),
        ],
        ..COLLECTION_FAILED
    },
    Row {
        name: "unicode",
        fixture: "node/unicode",
        tests: &[
            Case::failed("test/unicode.test.js > größe \"ä\" (1+1) > 赤")
                .at("test/unicode.test.js", 5)
                .with_message("Expected values to be strictly equal")
                .with_values("\"日本\"", "\"naïve\""),
            Case::failed("test/unicode.test.js > größe \"ä\" (1+1) > is coloured")
                .at("test/unicode.test.js", 7)
                .with_message("rot"),
            Case::passed("test/unicode.test.js > größe \"ä\" (1+1) > half a crab \u{fffd}"),
            Case::passed("test/unicode.test.js > größe \"ä\" (1+1) > 🦀 a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "node/many",
        numbered_passed: ("test/many.test.js > many > case {}", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "node/fail",
        options: RunOptions { filter: "cart (holds|throws)$", ..RunOptions::ALL },
        tests: &[
            Case::failed("test/fail.test.js > cart > throws")
                .at("test/fail.test.js", 12)
                .with_message("TypeError: no such cart"),
            Case::passed("test/fail.test.js > cart > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "helper_file",
        fixture: "node/helper_file",
        tests: &[
            Case::passed("test/sum.test.js > adds"),
            // Without a filter Node runs each file below `test` as a test.
            Case::passed("test/support/sum.js > sum.js"),
        ],
        ..PASSED
    },
    // With a filter, a file without tests does not count as a test.
    Row {
        name: "helper_file_filtered_out",
        fixture: "node/helper_file",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "node/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
