//! Expected results of Go's fixtures and of simple custom commands.
//!
//! `fixtures/go/race` has no row: only `go test -race` detects its race, which needs cgo and a C compiler and which proctor
//! does not use. Without it the fixture passes or fails at random. `lines` is tested in `outcome_table/go_lines.rs`.

use crate::expectation::{Case, Collector, Covering, Row, RunOptions};

const UNFINISHED: &str = "did not finish: TestPanics/empty ended the test process (panic: runtime error: index out of \
                          range [0] with length 0)";

const NO_PASS_PRINTED: &str = "no test of the package ran: its process exited with 0 without the PASS that m.Run prints. TestMain or \
                          an init ended the process, or standard output was closed or replaced; call os.Exit(m.Run()) and skip \
                          tests with t.Skip";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "go/pass",
        tests: &[
            Case::passed("example.com/pass/calc/TestAdd"),
            Case::passed("example.com/pass/calc/TestAddNegative"),
            Case::passed("example.com/pass/invoice/TestTotal"),
            Case::passed("example.com/pass/invoice/TestTotal/with_tax"),
            Case::passed("example.com/pass/invoice/TestTotalRounds"),
        ],
        covering: &[
            Covering {
                file: "calc/calc.go",
                line: 6,
                packages: &["example.com/pass/calc", "example.com/pass/invoice"],
            },
            Covering { file: "calc/calc.go", line: 10, packages: &["example.com/pass/invoice"] },
            Covering { file: "calc/calc.go", line: 14, packages: &["example.com/pass/invoice"] },
            Covering { file: "calc/calc.go", line: 12, packages: &[] },
            Covering { file: "calc/calc.go", line: 19, packages: &[] },
            Covering { file: "invoice/invoice.go", line: 8, packages: &["example.com/pass/invoice"] },
        ],
        ..Row::PASSED
    },
    Row {
        name: "fail",
        fixture: "go/fail",
        tests: &[
            Case::failed("example.com/fail/TestGreet/name_world")
                .at("greet_test.go", 21)
                .with_message("got \"Hello, world\", want \"Hello, world!\"")
                .with_values("\"Hello, world!\"", "\"Hello, world\""),
            Case::parent("example.com/fail/TestGreet"),
            Case::failed("example.com/fail/TestLines")
                .at("greet_test.go", 31)
                .with_message("mismatch")
                .with_values("a b c", "a b"),
            Case::failed("example.com/fail/TestPlain")
                .at("greet_test.go", 37)
                .with_message("unexpected error: disk is on fire"),
            Case::failed("example.com/fail/TestSilent"),
            Case::passed("example.com/fail/TestHolds"),
            Case::passed("example.com/fail/TestGreet/name_"),
            Case::skipped("example.com/fail/TestSkipped").at("greet_test.go", 42).with_message("needs a moon phase"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "table",
        fixture: "go/table",
        tests: &[
            Case::failed("example.com/table/TestAbs/dup#01")
                .at("table_test.go", 23)
                .with_message("Abs(-1) = -1; want 1")
                .with_values("1", "-1"),
            Case::failed("example.com/table/TestAbs/a/b/c+")
                .at("table_test.go", 23)
                .with_message("Abs(-1) = -1; want 1")
                .with_values("1", "-1"),
            Case::failed("example.com/table/TestAbs/minus_one_(edge)")
                .at("table_test.go", 23)
                .with_message("Abs(-1) = -1; want 1")
                .with_values("1", "-1"),
            Case::parent("example.com/table/TestAbs"),
            Case::passed("example.com/table/TestAbs/zero"),
            Case::passed("example.com/table/TestAbs/dup"),
            Case::passed("example.com/table/TestAbs/a/b"),
            Case::passed("example.com/table/TestAbsLarge"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "panic",
        fixture: "go/panic",
        tests: &[
            Case::failed("example.com/panic/TestPanics/empty")
                .at("panic.go", 6)
                .with_message("panic: runtime error: index out of range [0] with length 0"),
            Case::parent("example.com/panic/TestPanics"),
            Case::error("example.com/panic/TestParallelSibling").with_message(UNFINISHED),
            Case::passed("example.com/panic/TestBefore"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "crash",
        fixture: "go/crash",
        held: &["build_failed", "collection_failed", "failed"],
        tests: &[
            Case::failed("example.com/crash/deadlock/TestWaits")
                .at("deadlock/deadlock_test.go", 6)
                .with_message("fatal error: all goroutines are asleep - deadlock!"),
            Case::failed("example.com/crash/exitzero/TestExits")
                .at("exitzero/exitzero_test.go", 9)
                .with_message("panic: unexpected call to os.Exit(0) during test"),
            Case::failed("example.com/crash/gopanic/TestBackground")
                .at("gopanic/gopanic_test.go", 11)
                .with_message("panic: boom\nsecond line"),
            Case::error("example.com/crash/logfatal/TestFatal")
                .with_message("the test process ended before the test did; its last output: cannot go on"),
            Case::error("example.com/crash/osexit/TestExits")
                .with_message("the test process ended before the test did; its last output: leaving without a newline"),
            Case::error("example.com/crash/mainexitszero/TestMain").with_message(NO_PASS_PRINTED),
            Case::passed("example.com/crash/teardown/TestHolds"),
        ],
        collectors: &[
            Collector::build(
                "example.com/crash/setup",
                "no required module provides package example.invalid/nowhere; to add it: go get example.invalid/nowhere",
            ),
            Collector::build("example.com/crash/syntax", "expected '}', found 'EOF'").at("syntax/syntax_test.go", 6),
            Collector::build("example.com/crash/exttest", "undefined: undefinedFunction")
                .at("exttest/exttest_test.go", 6),
            Collector::collection("example.com/crash/mainfails", "no test ran: no database"),
            Collector::collection("example.com/crash/mainpanics", "no test ran: panic: no database")
                .at("mainpanics/mainpanics_test.go", 6),
            Collector::collection("example.com/crash/teardown", "failed outside of its tests: teardown failed"),
        ],
        ..Row::BUILD_FAILED
    },
    // Without coverage `go test` exits with 0 here. With coverage `closes` exits with 2, since Go fails to print the covered
    // share to the closed standard output; hence the status 1 in this row.
    Row {
        name: "exits_early",
        fixture: "go/exits_early",
        tests: &[
            Case::error("example.com/exits_early/closes/TestMain").with_message(NO_PASS_PRINTED),
            Case::error("example.com/exits_early/initexits/TestMain").with_message(NO_PASS_PRINTED),
            Case::passed("example.com/exits_early/good/TestRunsOthers"),
            Case::xfailed("example.com/exits_early/good/TestRunsOthers/inner"),
            Case::xfailed("example.com/exits_early/good/TestRunsOthers/inner/sub")
                .at("good/good_test.go", 9)
                .with_message("as it should"),
            Case::xfailed("example.com/exits_early/good/TestBeside"),
            Case::xfailed("example.com/exits_early/good/TestBeside/sub")
                .at("good/good_test.go", 9)
                .with_message("as it should"),
            Case::passed("example.com/exits_early/good/TestSubtests"),
            Case::passed("example.com/exits_early/good/TestSubtests/a"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "builderror",
        fixture: "go/builderror",
        tests: &[Case::passed("example.com/builderror/good/TestOne")],
        collectors: &[Collector::build(
            "example.com/builderror/broken",
            "cannot use names (variable of type []string) as int value in return statement",
        )
        .at("broken/broken.go", 6)],
        ..Row::BUILD_FAILED
    },
    Row {
        name: "vet",
        fixture: "go/vet",
        collectors: &[Collector::build(
            "example.com/vet",
            "(*testing.common).Errorf format %d has arg Name() of wrong type string",
        )
        .at("vet_test.go", 7)],
        ..Row::BUILD_FAILED
    },
    Row {
        name: "hang",
        fixture: "go/hang",
        options: RunOptions { timeout_s: Some(25), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("example.com/hang/TestEnds")],
        running: &["example.com/hang/TestHangs"],
        hung: &[("example.com/hang/TestHangs", "hang_test.go", 16)],
        ..Row::PASSED
    },
    Row {
        name: "notests",
        fixture: "go/notests",
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..Row::PASSED
    },
    Row {
        name: "oom",
        fixture: "go/oom",
        options: RunOptions { memory_mib: Some(256), ..RunOptions::ALL },
        outcome: "out_of_memory",
        exit_status: 137,
        exit_code: 137,
        raw_exit_code: None,
        partial: true,
        held: &["out_of_memory"],
        killed: Some("out_of_memory"),
        tests: &[Case::passed("example.com/oom/TestBefore")],
        running: &["example.com/oom/TestEatsMemory"],
        limit_hits: &["memory"],
        ..Row::PASSED
    },
    Row {
        name: "forkbomb",
        fixture: "go/forkbomb",
        options: RunOptions { pids: Some(64), ..RunOptions::ALL },
        outcome: "pids_exhausted",
        exit_status: 137,
        held: &["pids_exhausted", "failed"],
        tests: &[
            Case::failed("example.com/forkbomb/TestForksUntilRefused")
                .at("forkbomb_test.go", 29)
                .with_message("child refused: fork/exec /bin/sleep: resource temporarily unavailable"),
            Case::passed("example.com/forkbomb/TestBefore"),
        ],
        limit_hits: &["pids"],
        ..Row::FAILED
    },
    Row {
        name: "orphan",
        fixture: "go/orphan",
        tests: &[Case::passed("example.com/orphan/TestLeavesOrphan")],
        ..Row::PASSED
    },
    Row {
        name: "flood",
        fixture: "go/flood",
        tests: &[Case::passed("example.com/flood/TestFloods"), Case::passed("example.com/flood/TestQuiet")],
        output_bytes_min: 20_000_000,
        ..Row::PASSED
    },
    Row {
        name: "twomodules",
        fixture: "go/twomodules",
        tests: &[
            Case::failed("example.com/twomodules/beta/TestName")
                .at("beta/beta_test.go", 7)
                .with_message("Name() = \"betta\", want \"beta\"")
                .with_values("\"beta\"", "\"betta\""),
            Case::passed("example.com/twomodules/beta/TestHolds"),
            Case::passed("example.com/twomodules/alpha/TestName"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "unicode",
        fixture: "go/unicode",
        tests: &[
            Case::failed("example.com/unicode/TestÜnïcödé/日本語_テスト")
                .at("unicode_test.go", 8)
                .with_message("got \"ありがとう\", want \"さようなら\"")
                .with_values("\"さようなら\"", "\"ありがとう\""),
            Case::failed("example.com/unicode/TestÜnïcödé/\\x1b[31mred\\x1b[0m")
                .at("unicode_test.go", 11)
                .with_message("\u{1b}[31mred\u{1b}[0m is not a name"),
            Case::parent("example.com/unicode/TestÜnïcödé"),
            Case::failed("example.com/unicode/TestInvalidUTF8")
                .at("unicode_test.go", 18)
                .with_message("bytes \u{fffd}\u{fffd} here"),
            Case::passed("example.com/unicode/TestÜnïcödé/emoji_🦀"),
            Case::passed("example.com/unicode/TestÜnïcödé/tab_and_newline"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "shapes",
        fixture: "go/shapes",
        tests: &[
            Case::failed("example.com/shapes/TestLogAfterError")
                .at("shapes_test.go", 13)
                .with_message("want 3, got 4")
                .with_values("3", "4"),
            Case::failed("example.com/shapes/TestTwoErrors").at("shapes_test.go", 20).with_message("second is wrong"),
            Case::failed("example.com/shapes/TestPrintThenFail")
                .at("shapes_test.go", 25)
                .with_message("broken pipe dream"),
            Case::failed("example.com/shapes/TestCleanup").at("shapes_test.go", 29).with_message("clean-up failed"),
            Case::failed("example.com/shapes/TestHelper").at("shapes_test.go", 40).with_message("does not hold"),
            Case::failed("example.com/shapes/deep/TestOuter/middle/inner")
                .at("deep/deep_test.go", 11)
                .with_message("panic: assignment to entry in nil map"),
            Case::parent("example.com/shapes/deep/TestOuter/middle"),
            Case::parent("example.com/shapes/deep/TestOuter"),
            Case::failed("example.com/shapes/TestParallel/part_1")
                .at("shapes_test.go", 57)
                .with_message("expected 0, got 1")
                .with_values("0", "1"),
            Case::parent("example.com/shapes/TestParallel"),
            Case::failed("example.com/shapes/TestParentToo/child")
                .at("shapes_test.go", 64)
                .with_message("child is wrong"),
            Case::failed("example.com/shapes/TestParentToo")
                .at("shapes_test.go", 65)
                .with_message("parent: got 1, want 2")
                .with_values("2", "1"),
            Case::failed("example.com/shapes/FuzzSeeds/seed#1")
                .at("shapes_test.go", 86)
                .with_message("seed \"bad\" is bad"),
            Case::parent("example.com/shapes/FuzzSeeds"),
            Case::failed("example.com/shapes/Example_bad")
                .with_message("the example's output differs")
                .with_values("1\n3", "1\n2"),
            Case::passed("example.com/shapes/TestForged"),
            Case::passed("example.com/shapes/TestParallel/part_0"),
            Case::passed("example.com/shapes/TestParallel/part_2"),
            Case::passed("example.com/shapes/FuzzSeeds/seed#0"),
            Case::passed("example.com/shapes/Example_good"),
        ],
        ..Row::FAILED
    },
    Row {
        name: "many",
        fixture: "go/many",
        tests: &[Case::passed("example.com/many/TestMany")],
        numbered_passed: ("example.com/many/TestMany/{}", 10_000),
        ..Row::PASSED
    },
    Row {
        name: "filtered",
        fixture: "go/pass",
        options: RunOptions { filter: "TestTotal$", ..RunOptions::ALL },
        tests: &[
            Case::passed("example.com/pass/invoice/TestTotal"),
            Case::passed("example.com/pass/invoice/TestTotal/with_tax"),
        ],
        ..Row::PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "go/fail",
        options: RunOptions { filter: "TestNobodyWrote", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..Row::PASSED
    },
    Row {
        name: "command_passes",
        fixture: "go/fail",
        options: RunOptions { command: &["/bin/sh", "-c", "test -f greet.go && echo fine"], ..RunOptions::ALL },
        framework: "custom",
        structured: false,
        output_bytes_min: 5,
        ..Row::PASSED
    },
    Row {
        name: "command_fails",
        fixture: "go/pass",
        options: RunOptions { command: &["sh", "-c", "echo broken >&2; exit 7"], ..RunOptions::ALL },
        framework: "custom",
        structured: false,
        exit_code: 7,
        raw_exit_code: Some(7),
        output_bytes_min: 7,
        ..Row::FAILED
    },
    Row {
        name: "command_crashes",
        fixture: "go/pass",
        options: RunOptions { command: &["sh", "-c", "kill -SEGV $$"], ..RunOptions::ALL },
        framework: "custom",
        structured: false,
        outcome: "crashed",
        exit_status: 139,
        exit_code: 139,
        raw_exit_code: None,
        held: &["crashed"],
        ..Row::PASSED
    },
];
