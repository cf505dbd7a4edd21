//! What has to come of ctest's fixtures.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "ctest", ..Row::PASSED };

/// ctest exits with 8 when a test failed.
const FAILED: Row = Row { framework: "ctest", exit_code: 8, raw_exit_code: Some(8), ..Row::FAILED };

/// make exits with 2 when something did not compile.
const BUILD_FAILED: Row = Row { framework: "ctest", exit_code: 2, raw_exit_code: Some(2), ..Row::BUILD_FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "ctest/pass",
        tests: &[
            Case::passed("Calc.Adds"),
            Case::passed("Calc.AddsNegatives"),
            Case::passed("Guard.Refuses"),
            Case::passed("Few/Doubles.AreEven/1"),
            Case::passed("Few/Doubles.AreEven/2"),
            Case::passed("smoke"),
            Case::passed("refuses"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "ctest/fail",
        tests: &[
            Case::passed("Sum.Holds"),
            Case::failed("Sum.IsWrong")
                .at("fail_test.cpp", 8)
                .says("Expected equality of these values:\n  2 + 2\n    Which is: 4\n  5\nthe sum is off\n(1 more did not hold: fail_test.cpp:9)")
                .wants("5", "4"),
            Case::failed("Text.Differs")
                .at("fail_test.cpp", 14)
                .says("Expected equality of these values:\n  text\n    Which is: \"a\\nb\\n\"\n  \"a\\nc\\n\"")
                .wants("\"a\\nc\\n\"", "\"a\\nb\\n\""),
            Case::failed("Text.IsTrue")
                .at("fail_test.cpp", 19)
                .says("Value of: x == 4\n  Actual: false\nExpected: true")
                .wants("true", "false"),
            Case::failed("Text.IsLess")
                .at("fail_test.cpp", 25)
                .says("Expected: (5) < (x), actual: 5 vs 3")
                .wants("(5) < (x)", "5 vs 3"),
            Case::failed("Text.Throws").says("C++ exception with description \"boom\" thrown in the test body."),
            Case::failed("Text.Gives_Up").at("fail_test.cpp", 30).says("Failed\nno good"),
            Case::failed("Some/Even.Holds/1")
                .at("fail_test.cpp", 34)
                .says("Expected equality of these values:\n  GetParam() % 2\n    Which is: 1\n  0")
                .wants("0", "1"),
            Case::passed("Some/Even.Holds/2"),
            Case::failed("asserts").at("asserts.cpp", 5).says("Assertion `argc == 2' failed."),
            Case::failed("says.why").says("disk is on fire"),
            Case::failed("is_silent").says("it printed nothing"),
            Case::failed("must_fail").says("the test passed, but WILL_FAIL expects it to fail"),
            Case::failed("prints").says("Required regular expression not found. Regex=[bye ]"),
            Case::failed("slow").says("timed out: the project sets a TIMEOUT for this test"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "ctest/error",
        tests: &[
            Case::passed("fine"),
            Case::error("gone").says("not run: Could not find executable /no/such/program"),
            Case::failed("database").says("it printed nothing"),
            Case::error("query").says("not run: Failed test dependencies: database"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "ctest/skip",
        tests: &[
            Case::passed("Moon.Rises"),
            Case::skipped("Moon.IsFull").at("skip_test.cpp", 5).says("not tonight"),
            Case::skipped("Moon.IsBlue").says("disabled"),
            Case::skipped("by_status").says("needs a moon"),
            Case::skipped("switched_off").says("disabled"),
        ],
        ..PASSED
    },
    // GoogleTest skips the tests of a suite whose set-up failed, and ctest takes its word for it.
    Row {
        name: "suites",
        fixture: "ctest/suites",
        exit_code: 1,
        raw_exit_code: Some(0),
        tests: &[
            Case::failed("Shop.Opens").at("suites_test.cpp", 5).says("Failed\nno stock"),
            Case::skipped("Street.IsLit").at("suites_test.cpp", 10).says("by day"),
            Case::passed("Street.IsWide"),
        ],
        ..FAILED
    },
    Row {
        name: "builderror",
        fixture: "ctest/builderror",
        collectors: &[
            Collector::build("broken.c", "‘undefined_name’ undeclared (first use in this function)").at("broken.c", 2)
        ],
        ..BUILD_FAILED
    },
    Row {
        name: "linkerror",
        fixture: "ctest/linkerror",
        collectors: &[Collector::build("open.c", "undefined reference to `nowhere'").at("open.c", 0)],
        ..BUILD_FAILED
    },
    Row {
        name: "configerror",
        fixture: "ctest/configerror",
        exit_code: 1,
        raw_exit_code: Some(1),
        collectors: &[Collector::build("CMakeLists.txt", "no-such-tool is needed").at("CMakeLists.txt", 6)],
        ..BUILD_FAILED
    },
    Row {
        name: "hang",
        fixture: "ctest/hang",
        options: RunOptions { timeout_s: Some(25), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("ends")],
        running: &["./hangs"],
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "ctest/crash",
        tests: &[
            Case::passed("Crash.Baseline"),
            Case::error("Crash.Segfault").says("the test crashed: SegFault"),
            Case::error("Crash.Abort").says("the test crashed: Subprocess aborted"),
            Case::error("Crash.Leaves").says("the test process ended before the test did"),
            Case::error("Crash.LeavesWell").says("the test process ended before the test did"),
        ],
        ..FAILED
    },
    // A whole program is one test: its assertions are told together, and one that ends it well before its end has not passed.
    Row {
        name: "whole",
        fixture: "ctest/whole",
        tests: &[
            Case::failed("whole")
                .at("whole_test.cpp", 8)
                .says("Expected equality of these values:\n  1\n  2\n(2 more did not hold: whole_test.cpp:9, whole_test.cpp:14)")
                .wants("2", "1"),
            Case::error("leaves").says("the test process ended before the test did"),
        ],
        ..FAILED
    },
    Row {
        name: "notests",
        fixture: "ctest/notests",
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
    Row {
        name: "flood",
        fixture: "ctest/flood",
        tests: &[Case::passed("floods"), Case::passed("quiet")],
        output_bytes_min: 60_000_000,
        ..PASSED
    },
    Row {
        name: "unicode",
        fixture: "ctest/unicode",
        tests: &[
            Case::failed("größe (ß) [x] \\d+ 日本").says("rot 🚀"),
            Case::passed("a  b"),
            Case::failed("forges").says("100% tests passed, 0 tests failed out of 1"),
        ],
        ..FAILED
    },
    // A process for each test that runs: ten thousand of `true` took a minute of processor time, and the cases of one
    // GoogleTest program, each of which it looks up among all, eight.
    Row {
        name: "many",
        fixture: "ctest/many",
        many: ("run.{}", 200),
        many_skipped: (Case::skipped("off.{}").says("disabled"), 9_800),
        ..PASSED
    },
    Row {
        name: "twins",
        fixture: "ctest/twins",
        tests: &[Case::passed("same"), Case::failed("same#2").says("it printed nothing")],
        ..FAILED
    },
    Row {
        name: "twoprojects",
        fixture: "ctest/twoprojects",
        tests: &[Case::failed("client::asks").says("no answer"), Case::passed("server::answers")],
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "ctest/error",
        options: RunOptions { filter: "^fi|base$", ..RunOptions::ALL },
        tests: &[Case::passed("fine"), Case::failed("database").says("it printed nothing")],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "ctest/error",
        options: RunOptions { filter: "NobodyWroteThis", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
