//! Expected results of unittest's fixtures. `django` needs a Python with Django and is tested in `outcome_table/django.rs`,
//! `lines` one that reports lines, in `outcome_table/python_lines.rs`.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "unittest", ..Row::PASSED };
const FAILED: Row = Row { framework: "unittest", ..Row::FAILED };

const UNBEGUN: &str = "did not run: unittest was stopped before it, or its suite passed it over";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "unittest/pass",
        tests: &[
            Case::passed("tests.test_money.TestMoney.test_with_tax"),
            Case::passed("tests.test_money.TestMoney.test_without_tax/(cents=0)"),
            Case::passed("tests.test_money.TestMoney.test_without_tax/(cents=99)"),
            Case::passed("tests.test_money.TestMoney.test_without_tax"),
            Case::passed("test_apart.TestApart.test_alone"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "unittest/fail",
        tests: &[
            Case::failed("test_fail.TestLater.test_later")
                .at("test_fail.py", 34)
                .with_message("'C' is not None")
                .with_values("None", "'C'"),
            Case::failed("test_fail.TestShout.test_equal")
                .at("test_fail.py", 11)
                .with_message("'A' != 'a' : as it was")
                .with_values("'a'", "'A'"),
            Case::failed("test_fail.TestShout.test_in").at("test_fail.py", 17).with_message("'b' not found in ['B']"),
            Case::failed("test_fail.TestShout.test_lists")
                .at("test_fail.py", 14)
                .with_message("Lists differ: [1, 2, 3] != [1, 2, 4]")
                .with_values("[1, 2, 4]", "[1, 2, 3]"),
            Case::failed("test_fail.TestShout.test_parts/[part] (number=0)")
                .at("test_fail.py", 25)
                .with_message("0 != 1")
                .with_values("1", "0"),
            Case::failed("test_fail.TestShout.test_parts/[part] (number=2)")
                .at("test_fail.py", 25)
                .with_message("2 != 1")
                .with_values("1", "2"),
            Case::parent("test_fail.TestShout.test_parts"),
            Case::failed("test_fail.TestShout.test_raises_in_source")
                .at("shout.py", 2)
                .with_message("AttributeError: 'NoneType' object has no attribute 'upper'"),
            Case::failed("test_fail.TestShout.test_unexpected")
                .at("test_fail.py", 27)
                .with_message("Unexpected success"),
            Case::passed("test_fail.TestShout.test_holds"),
            Case::passed("test_fail.TestShout.test_parts/[part] (number=1)"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "unittest/error",
        tests: &[
            Case::error("test_error.TestSetUp.test_setup").at("test_error.py", 6).with_message("OSError: no database"),
            Case::error("test_error.TestTearDown.test_teardown")
                .at("test_error.py", 14)
                .with_message("OSError: cannot be removed"),
            Case::error("test_error.TestLater.test_later")
                .at("test_error.py", 36)
                .with_message("OSError: no connection"),
            Case::error("setUpClass (test_error.TestWhole)").at("test_error.py", 23).with_message("OSError: no class"),
            Case::error("setUpModule (test_module)").at("test_module.py", 5).with_message("OSError: no module"),
            Case::passed("test_error.TestHolds.test_holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "unittest/skip",
        tests: &[
            Case::xfailed("test_skip.TestSkips.test_expected").at("test_skip.py", 14).with_message("bug 7"),
            Case::skipped("test_skip.TestSkips.test_inside").at("test_skip.py", 9).with_message("no moon today"),
            Case::skipped("test_skip.TestSkips.test_marked").at("test_skip.py", 5).with_message("needs a moon phase"),
            Case::passed("test_skip.TestSkips.test_parts/(part=0)"),
            Case::skipped("test_skip.TestSkips.test_parts/(part=1)")
                .at("test_skip.py", 16)
                .with_message("no moon in this part"),
            Case::passed("test_skip.TestSkips.test_parts"),
            Case::skipped("test_skip.TestWhole.test_never").at("test_skip.py", 25).with_message("all of it"),
        ],
        ..PASSED
    },
    Row {
        name: "collection",
        fixture: "unittest/collection",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        tests: &[Case::passed("test_fine.TestFine.test_fine")],
        collectors: &[
            Collector::collection("test_import.py", "ModuleNotFoundError: No module named 'nowhere'")
                .at("test_import.py", 1),
            Collector::collection("test_raises.py", "ValueError: cannot be loaded").at("helper.py", 2),
            Collector::collection("test_syntax.py", "SyntaxError: invalid syntax").at("test_syntax.py", 2),
        ],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "unittest/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("test_hang.TestHang.test_a_ends")],
        running: &["test_hang.py/TestHang.test_b_hangs"],
        hung: &[("test_hang.py/TestHang.test_b_hangs", "test_hang.py", 11)],
        announced: Some(3),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "unittest/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("test_crash.TestCrash.test_a_before"),
            Case::error("test_crash.py::TestCrash.test_b_leaves")
                .with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "interrupt",
        fixture: "unittest/interrupt",
        outcome: "crashed",
        exit_status: 130,
        exit_code: 130,
        raw_exit_code: None,
        partial: true,
        held: &["crashed", "failed"],
        tests: &[
            Case::passed("test_interrupt.TestInterrupt.test_a_before"),
            Case::failed("test_interrupt.TestInterrupt.test_b_interrupts")
                .at("test_interrupt.py", 9)
                .with_message("KeyboardInterrupt: enough"),
        ],
        ..FAILED
    },
    // A test stops the run, and unittest reports success.
    Row {
        name: "stops_early",
        fixture: "unittest/stops_early",
        raw_exit_code: Some(0),
        tests: &[
            Case::skipped("setUpClass (test_stops.TestAside)").with_message("not on this host"),
            Case::passed("test_stops.TestEarly.test_a_stops"),
            Case::error("test_stops.py::TestEarly.test_b_never_begins").at("test_stops.py", 21).with_message(UNBEGUN),
            Case::error("test_stops.py::TestLater.test_never_begins").at("test_stops.py", 26).with_message(UNBEGUN),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "unittest/unicode",
        tests: &[
            Case::failed("test_unicode.TestUnicode.test_größe")
                .at("test_unicode.py", 6)
                .with_message("'\\x1b[31mfüße\\x1b[0m' != '日本'")
                .with_values("'日本'", "'\\x1b[31mfüße\\x1b[0m'"),
            Case::failed("test_unicode.TestUnicode.test_half")
                .at("test_unicode.py", 9)
                .with_message("ValueError: größer ?"),
        ],
        ..FAILED
    },
    Row {
        name: "removed_directory",
        fixture: "unittest/removed_directory",
        tests: &[
            Case::failed("test_moves.TestElsewhere.test_fails")
                .at("test_moves.py", 17)
                .with_message("1 != 2")
                .with_values("2", "1"),
            Case::passed("test_moves.TestNowhere.test_a_removes_where_it_is"),
            Case::failed("test_moves.TestNowhere.test_b_fails").at("test_moves.py", 27).with_message("in no directory"),
        ],
        ..FAILED
    },
    Row {
        name: "foreign_test_cases",
        fixture: "unittest/foreign_test_cases",
        tests: &[
            Case::failed("prices.doubled")
                .at("prices.py", 5)
                .with_message("Failed example:\n    doubled(3)\nExpected:\n    7\nGot:\n    6"),
            Case::passed("prices.halved"),
            Case::passed("holds"),
            Case::failed("fails").at("test_brought.py", 12).with_message("ValueError: in a function"),
            Case::skipped("test_skipped").with_message("not on this host"),
        ],
        ..FAILED
    },
    Row {
        name: "load_tests",
        fixture: "unittest/load_tests",
        tests: &[
            Case::failed("pkg.tests.check_parts.TestParts.test_fails")
                .at("pkg/tests/check_parts.py", 6)
                .with_message("a part"),
            Case::passed("test_apart.TestApart.test_alone"),
        ],
        ..FAILED
    },
    Row {
        name: "pytest_tests",
        fixture: "unittest/pytest_tests",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        tests: &[Case::passed("test_mine.TestMine.test_shared")],
        collectors: &[Collector::collection(
            "test_others.py",
            "test_others.py has tests for pytest, which unittest does not run: pass framework pytest",
        )
        .at("test_others.py", 4)],
        ..FAILED
    },
    Row {
        name: "plain_functions",
        fixture: "unittest/plain_functions",
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 5,
        raw_exit_code: Some(5),
        held: &["no_tests"],
        ..PASSED
    },
    Row { name: "many", fixture: "unittest/many", numbered_passed: ("test_many.TestMany.test_{}", 10_000), ..PASSED },
    Row {
        name: "filtered",
        fixture: "unittest/pass",
        options: RunOptions { filter: "without_tax", ..RunOptions::ALL },
        tests: &[
            Case::passed("tests.test_money.TestMoney.test_without_tax/(cents=0)"),
            Case::passed("tests.test_money.TestMoney.test_without_tax/(cents=99)"),
            Case::passed("tests.test_money.TestMoney.test_without_tax"),
        ],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "unittest/fail",
        options: RunOptions { filter: "nobody_wrote_it", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 5,
        raw_exit_code: Some(5),
        held: &["no_tests"],
        ..PASSED
    },
];
