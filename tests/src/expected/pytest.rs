//! Expected results of pytest's fixtures. `browser` and `lines` need other Pythons and are tested in
//! `outcome_table/pytest_playwright.rs` and `outcome_table/python_lines.rs`.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "pytest", ..Row::PASSED };
const FAILED: Row = Row { framework: "pytest", ..Row::FAILED };
const NOT_COLLECTED: Row = Row { outcome: "collection_failed", exit_status: 3, held: &["collection_failed"], ..FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "pytest/pass",
        tests: &[
            Case::passed("tests/test_money.py::test_with_tax"),
            Case::passed("tests/test_money.py::test_without_tax[0]"),
            Case::passed("tests/test_money.py::test_without_tax[99]"),
            Case::passed("tests/test_money.py::TestRounding::test_down"),
            Case::passed("tests/test_money.py::OldStyle::test_whole"),
        ],
        ..PASSED
    },
    // Settings and hooks of the project suppress the report of a failing test.
    Row {
        name: "hidden_failure",
        fixture: "pytest/hidden_failure",
        raw_exit_code: Some(0),
        tests: &[
            Case::passed("test_one.py::test_holds"),
            Case::error("test_one.py::test_swallowed")
                .at("test_one.py", 8)
                .with_message("nothing came of this test: a hook of the project or a plugin passed it over"),
        ],
        ..FAILED
    },
    Row {
        name: "fail",
        fixture: "pytest/fail",
        tests: &[
            Case::failed("test_greet.py::test_helper")
                .at("test_greet.py", 9)
                .with_message("politely\nassert 'Hello, world' == 'Hello, world!'")
                .with_values("'Hello, world!'", "'Hello, world'"),
            Case::failed("test_greet.py::test_lines")
                .at("test_greet.py", 22)
                .with_message("assert ['a', 'b'] == ['a', 'c']")
                .with_values("['a', 'c']", "['a', 'b']"),
            Case::failed("test_greet.py::test_swallowed")
                .at("test_greet.py", 33)
                .with_message("assert not 'Hello, x'\n +  where 'Hello, x' = greet('x')"),
            Case::failed("test_greet.py::test_raises_in_source")
                .at("greet.py", 6)
                .with_message("IndexError: list index out of range"),
            Case::failed("test_greet.py::test_names[a/b]")
                .at("test_greet.py", 42)
                .with_message("assert 'a/b' == 'ok'")
                .with_values("'ok'", "'a/b'"),
            Case::failed("test_greet.py::test_names[c::d]")
                .at("test_greet.py", 42)
                .with_message("assert 'c::d' == 'ok'")
                .with_values("'ok'", "'c::d'"),
            Case::failed("test_greet.py::test_names[[e]]")
                .at("test_greet.py", 42)
                .with_message("assert '[e]' == 'ok'")
                .with_values("'ok'", "'[e]'"),
            Case::failed("test_greet.py::TestOld::test_equal")
                .at("test_greet.py", 47)
                .with_message("Lists differ: [1, 2] != [1, 3] : in order")
                .with_values("[1, 3]", "[1, 2]"),
            Case::failed("test_greet.py::test_subtests/[digit] (number=0)")
                .at("test_greet.py", 53)
                .with_message("assert 0 == 1")
                .with_values("1", "0"),
            Case::failed("test_greet.py::test_subtests/[digit] (number=2)")
                .at("test_greet.py", 53)
                .with_message("assert 2 == 1")
                .with_values("1", "2"),
            Case::parent("test_greet.py::test_subtests"),
            Case::failed("test_greet.py::test_refuses").at("test_greet.py", 57).with_message("on purpose"),
            Case::passed("test_greet.py::test_holds"),
            Case::passed("test_greet.py::test_names[ok]"),
            Case::passed("test_greet.py::test_subtests/[digit] (number=1)"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "pytest/error",
        tests: &[
            Case::error("test_fixtures.py::test_setup")
                .at("test_fixtures.py", 6)
                .with_message("RuntimeError: no database"),
            Case::error("test_fixtures.py::test_teardown")
                .at("test_fixtures.py", 12)
                .with_message("RuntimeError: cannot be removed"),
            Case::failed("test_fixtures.py::test_both")
                .at("test_fixtures.py", 24)
                .with_message("assert (1 + 1) == 3")
                .with_values("3", "2"),
            Case::error("test_fixtures.py::test_unknown_fixture")
                .at("test_fixtures.py", 27)
                .with_message("fixture 'nowhere' not found"),
            Case::passed("test_fixtures.py::test_holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "pytest/skip",
        tests: &[
            Case::skipped("test_skip.py::test_marked").at("test_skip.py", 6).with_message("needs a moon phase"),
            Case::skipped("test_skip.py::test_inside").at("test_skip.py", 12).with_message("no moon today"),
            Case::xfailed("test_skip.py::test_expected")
                .at("test_skip.py", 17)
                .with_message("bug 7")
                .with_values("2", "1"),
            Case::xpassed("test_skip.py::test_unexpected").at("test_skip.py", 20),
            Case::failed("test_skip.py::test_strict").at("test_skip.py", 25).with_message("[XPASS(strict)] bug 8"),
            Case::skipped("test_skip.py::TestOld::test_skipped").at("test_skip.py", 31).with_message("old"),
        ],
        ..FAILED
    },
    Row {
        name: "collection",
        fixture: "pytest/collection",
        exit_code: 2,
        raw_exit_code: Some(2),
        collectors: &[
            Collector::collection("test_import.py", "ModuleNotFoundError: No module named 'nowhere'")
                .at("test_import.py", 1),
            Collector::collection("test_raises.py", "ValueError: cannot be loaded").at("helper.py", 2),
            Collector::collection("test_syntax.py", "SyntaxError: invalid syntax").at("test_syntax.py", 2),
        ],
        ..NOT_COLLECTED
    },
    Row {
        name: "broken_conftest",
        fixture: "pytest/broken_conftest",
        exit_code: 4,
        raw_exit_code: Some(4),
        collectors: &[Collector::collection("conftest.py", "ModuleNotFoundError: No module named 'nowhere_either'")
            .at("conftest.py", 1)],
        ..NOT_COLLECTED
    },
    Row {
        name: "missing_plugin",
        fixture: "pytest/missing_plugin",
        exit_code: 4,
        raw_exit_code: Some(4),
        collectors: &[Collector::collection(
            "conftest.py",
            "Error importing plugin \"nowhere_plugin\": No module named 'nowhere_plugin'",
        )
        .at("conftest.py", 2)],
        ..NOT_COLLECTED
    },
    Row {
        name: "invalid_settings",
        fixture: "pytest/invalid_settings",
        exit_code: 4,
        raw_exit_code: Some(4),
        partial: true,
        collectors: &[Collector::collection(".", "unrecognized arguments: --no-such-option")],
        ..NOT_COLLECTED
    },
    Row {
        name: "hang",
        fixture: "pytest/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("test_hang.py::test_ends")],
        running: &["test_hang.py/test_hangs"],
        hung: &[("test_hang.py/test_hangs", "test_hang.py", 10)],
        announced: Some(3),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "pytest/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("test_crash.py::test_before"),
            Case::error("test_crash.py::test_leaves").with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "exits_early",
        fixture: "pytest/exits_early",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("test_stops.py::test_before"),
            Case::error("test_stops.py::test_stops").with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    // A test stops its pytest-xdist worker, and the project sets the exit status to 0.
    Row {
        name: "stopped_worker",
        fixture: "pytest/stopped_worker",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[Case::passed("test_halts.py::test_before"), Case::passed("test_halts.py::test_halts")],
        ..FAILED
    },
    Row {
        name: "broken_hook",
        fixture: "pytest/broken_hook",
        exit_code: 3,
        raw_exit_code: Some(3),
        partial: true,
        tests: &[Case::passed("test_breaks.py::test_before")],
        collectors: &[Collector::collection(".", "pytest broke: OSError: a hook broke").at("conftest.py", 3)],
        ..NOT_COLLECTED
    },
    Row {
        name: "setup_only",
        fixture: "pytest/setup_only",
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
    Row {
        name: "workers",
        fixture: "pytest/workers",
        tests: &[
            Case::passed("test_workers.py::test_number[0]"),
            Case::passed("test_workers.py::test_number[1]"),
            Case::passed("test_workers.py::test_number[2]"),
            Case::failed("test_workers.py::test_number[3]").at("test_workers.py", 8).with_message("assert 3 != 3"),
            Case::error("test_workers.py::test_leaves")
                .with_message("worker 'gw0' crashed while running 'test_workers.py::test_leaves'"),
        ],
        ..FAILED
    },
    Row {
        name: "differing_workers",
        fixture: "pytest/differing_workers",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        collectors: &[Collector::collection(
            "gw1",
            "Different tests were collected between gw0 and gw1. The difference is:",
        )],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "pytest/unicode",
        tests: &[
            Case::failed("test_unicode.py::test_word[f\\xfc\\xdfe]")
                .at("test_unicode.py", 7)
                .with_message("assert 'füße' == '日本'")
                .with_values("'日本'", "'füße'"),
            Case::failed("test_unicode.py::test_word[\\x1b[31mred\\x1b[0m]")
                .at("test_unicode.py", 7)
                .with_message("assert '\\x1b[31mred\\x1b[0m' == '日本'")
                .with_values("'日本'", "'\\x1b[31mred\\x1b[0m'"),
            Case::failed("test_unicode.py::test_größe").at("test_unicode.py", 11).with_message("ValueError:  größer ?"),
            Case::passed("test_unicode.py::test_word[\\u65e5\\u672c]"),
        ],
        ..FAILED
    },
    Row { name: "many", fixture: "pytest/many", numbered_passed: ("test_many.py::test_number[{}]", 10_000), ..PASSED },
    Row {
        name: "two_projects",
        fixture: "pytest/two_projects",
        tests: &[
            Case::failed("one/tests/test_same.py::test_same")
                .at("one/tests/test_same.py", 2)
                .with_message("assert 'one' == 'two'")
                .with_values("'two'", "'one'"),
            Case::passed("two/tests/test_same.py::test_same"),
        ],
        ..FAILED
    },
    Row {
        name: "flaky",
        fixture: "pytest/flaky",
        flaky: 2,
        tests: &[
            Case::passed("test_flaky.py::test_holds_at_last"),
            Case::passed("test_flaky.py::test_parts_hold_at_last/[part]"),
            Case::passed("test_flaky.py::test_parts_hold_at_last"),
            Case::failed("test_flaky.py::test_never_holds")
                .at("test_flaky.py", 19)
                .with_message("assert [1, 1, 1] == []")
                .with_values("[]", "[1, 1, 1]"),
            Case::failed("test_flaky.py::test_never_holds_in_older")
                .at("test_flaky.py", 23)
                .with_message("assert [1, 1, 1] == [1]")
                .with_values("[1]", "[1, 1, 1]"),
            Case::passed("test_flaky.py::test_holds"),
        ],
        ..FAILED
    },
    Row {
        name: "doctest",
        fixture: "pytest/doctest",
        tests: &[
            Case::failed("guide.md::guide.md")
                .at("guide.md", 4)
                .with_message("Failed example: doubled(3)")
                .with_values("7", "6"),
            Case::failed("prices.py::prices.doubled")
                .at("prices.py", 5)
                .with_message("Failed example: for price in [3]:\n    doubled(price)")
                .with_values("7", "6"),
            Case::failed("prices.py::prices.share")
                .at("prices.py", 19)
                .with_message("ZeroDivisionError: integer division or modulo by zero"),
            Case::failed("prices.py::prices.halved")
                .at("prices.py", 26)
                .with_message("NameError: name 'unknown' is not defined"),
            Case::passed("prices.py::prices.same"),
        ],
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "pytest/pass",
        options: RunOptions { filter: "TestRounding or 99", ..RunOptions::ALL },
        tests: &[
            Case::passed("tests/test_money.py::test_without_tax[99]"),
            Case::passed("tests/test_money.py::TestRounding::test_down"),
        ],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "pytest/fail",
        options: RunOptions { filter: "nobody_wrote_it", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 5,
        raw_exit_code: Some(5),
        held: &["no_tests"],
        ..PASSED
    },
    Row {
        name: "invalid_filter",
        fixture: "pytest/pass",
        options: RunOptions { filter: "a b c", ..RunOptions::ALL },
        exit_code: 4,
        raw_exit_code: Some(4),
        partial: true,
        collectors: &[Collector::collection(
            ".",
            "Wrong expression passed to '-k': a b c: at column 3: expected end of input; got identifier",
        )],
        ..NOT_COLLECTED
    },
];
