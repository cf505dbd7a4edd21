//! Expected results of the fixtures of ctest.

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
                .with_message("Expected equality of these values:\n  2 + 2\n    Which is: 4\n  5\nthe sum is off\n(1 more did not hold: fail_test.cpp:9)")
                .with_values("5", "4"),
            Case::failed("Text.Differs")
                .at("fail_test.cpp", 14)
                .with_message("Expected equality of these values:\n  text\n    Which is: \"a\\nb\\n\"\n  \"a\\nc\\n\"")
                .with_values("\"a\\nc\\n\"", "\"a\\nb\\n\""),
            Case::failed("Text.IsTrue")
                .at("fail_test.cpp", 19)
                .with_message("Value of: x == 4\n  Actual: false\nExpected: true")
                .with_values("true", "false"),
            Case::failed("Text.IsLess")
                .at("fail_test.cpp", 25)
                .with_message("Expected: (5) < (x), actual: 5 vs 3")
                .with_values("(5) < (x)", "5 vs 3"),
            Case::failed("Text.Throws").with_message("C++ exception with description \"boom\" thrown in the test body."),
            Case::failed("Text.Gives_Up").at("fail_test.cpp", 30).with_message("Failed\nno good"),
            Case::failed("Some/Even.Holds/1")
                .at("fail_test.cpp", 34)
                .with_message("Expected equality of these values:\n  GetParam() % 2\n    Which is: 1\n  0")
                .with_values("0", "1"),
            Case::passed("Some/Even.Holds/2"),
            Case::failed("asserts").at("asserts.cpp", 5).with_message("Assertion `argc == 2' failed."),
            Case::failed("says.why").with_message("disk is on fire"),
            Case::failed("is_silent").with_message("it printed nothing"),
            Case::failed("must_fail").with_message("the test passed, but WILL_FAIL expects it to fail"),
            Case::failed("prints").with_message("Required regular expression not found. Regex=[bye ]"),
            Case::failed("slow").with_message("timed out: the project sets a TIMEOUT for this test"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "ctest/error",
        tests: &[
            Case::passed("fine"),
            Case::error("gone").with_message("not run: Could not find executable /no/such/program"),
            Case::failed("database").with_message("it printed nothing"),
            Case::error("query").with_message("not run: Failed test dependencies: database"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "ctest/skip",
        tests: &[
            Case::passed("Moon.Rises"),
            Case::skipped("Moon.IsFull").at("skip_test.cpp", 5).with_message("not tonight"),
            Case::skipped("Moon.IsBlue").with_message("disabled"),
            Case::skipped("by_status").with_message("needs a moon"),
            Case::skipped("switched_off").with_message("disabled"),
        ],
        ..PASSED
    },
    // GoogleTest reports the tests of a suite with a failed set-up as skipped, and ctest passes that on.
    Row {
        name: "suite_setup",
        fixture: "ctest/suite_setup",
        exit_code: 1,
        raw_exit_code: Some(0),
        tests: &[
            Case::failed("Shop.Opens").at("suites_test.cpp", 5).with_message("Failed\nno stock"),
            Case::skipped("Street.IsLit").at("suites_test.cpp", 10).with_message("by day"),
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
        announced: Some(3),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "ctest/crash",
        tests: &[
            Case::passed("Crash.Before"),
            Case::error("Crash.Segfault").with_message("the test crashed: SegFault"),
            Case::error("Crash.Abort").with_message("the test crashed: Subprocess aborted"),
            Case::error("Crash.Leaves").with_message("the test process ended before the test did"),
            Case::error("Crash.LeavesWell").with_message("the test process ended before the test did"),
        ],
        ..FAILED
    },
    // A program registered as one test: its failed assertions are reported together, and an early exit with 0 does not pass.
    Row {
        name: "undiscovered_program",
        fixture: "ctest/undiscovered_program",
        tests: &[
            Case::failed("whole")
                .at("whole_test.cpp", 8)
                .with_message("Expected equality of these values:\n  1\n  2\n(2 more did not hold: whole_test.cpp:9, whole_test.cpp:14)")
                .with_values("2", "1"),
            Case::error("leaves").with_message("the test process ended before the test did"),
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
            Case::failed("größe (ß) [x] \\d+ 日本").with_message("rot 🚀"),
            Case::passed("a  b"),
            Case::failed("forges").with_message("100% tests passed, 0 tests failed out of 1"),
        ],
        ..FAILED
    },
    // ctest runs a process per test: 10,000 runs of `true` took one minute of processor time. 10,000 cases of one GoogleTest
    // program took eight, since the program searches all cases for the selected one.
    Row {
        name: "many",
        fixture: "ctest/many",
        numbered_passed: ("run.{}", 200),
        numbered_skipped: (Case::skipped("off.{}").with_message("disabled"), 9_800),
        ..PASSED
    },
    Row {
        name: "duplicate_names",
        fixture: "ctest/duplicate_names",
        tests: &[Case::passed("same"), Case::failed("same#2").with_message("it printed nothing")],
        ..FAILED
    },
    Row {
        name: "two_projects",
        fixture: "ctest/two_projects",
        tests: &[Case::failed("client::asks").with_message("no answer"), Case::passed("server::answers")],
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "ctest/error",
        options: RunOptions { filter: "^fi|base$", ..RunOptions::ALL },
        tests: &[Case::passed("fine"), Case::failed("database").with_message("it printed nothing")],
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
