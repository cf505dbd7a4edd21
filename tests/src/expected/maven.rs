//! Expected results of Maven's fixtures. A row takes seconds, so each covers much: `fail` also has skips, unicode and colours.
//! Golden runs cover JUnit 4, TestNG and a project that does not build without a network
//! (`supervisor/frameworks/goldens/maven`).
//!
//! `many` makes Maven quiet (`.mvn/maven.config`). The fixtures' `.mvn/jvm.config` halves Maven's run time.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "maven", ..Row::PASSED };
const FAILED: Row = Row { framework: "maven", ..Row::FAILED };
const BUILD_FAILED: Row = Row { framework: "maven", ..Row::BUILD_FAILED };

/// Maven exits with 0 and no known test failed, but the results are not proven to be complete.
const UNPROVEN: Row = Row { raw_exit_code: Some(0), partial: true, ..FAILED };

const GREET: &str = "src/test/java/com/example/GreetTest.java";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "maven/pass",
        tests: &[
            Case::passed("com.example.CalcTest#adds"),
            Case::passed("com.example.CalcTest#zeroChangesNothing(int)[1]"),
            Case::passed("com.example.CalcTest#zeroChangesNothing(int)[2]"),
            Case::passed("com.example.CalcTest$Negative#adds"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "maven/fail",
        tests: &[
            Case::failed("com.example.GreetTest#greets")
                .at(GREET, 19)
                .with_message("expected: <Hello, world!> but was: <Hello, world>")
                .with_values("Hello, world!", "Hello, world"),
            Case::failed("com.example.GreetTest#isShort(String)[2]")
                .at(GREET, 34)
                .with_message("日本 ==> expected: <true> but was: <false>")
                .with_values("true", "false"),
            Case::failed("com.example.GreetTest$Inner#fails")
                .at(GREET, 59)
                .with_message("the sum ==> expected: <5> but was: <4>")
                .with_values("5", "4"),
            Case::error("com.example.GreetTest#throwsOne").at(GREET, 40).with_message(
                "java.lang.NullPointerException: Cannot invoke \"Object.toString()\" because \"nothing\" is null",
            ),
            Case::error("com.example.SetUpTest")
                .at("src/test/java/com/example/SetUpTest.java", 9)
                .with_message("java.lang.IllegalStateException: no database"),
            Case::skipped("com.example.GreetTest#disabled").with_message("needs a moon phase"),
            Case::skipped("com.example.GreetTest#assumes").with_message("Assumption failed: no moon"),
            Case::passed("com.example.GreetTest#isShort(String)[1]"),
            Case::passed("com.example.GreetTest#holds"),
        ],
        ..FAILED
    },
    // Surefire counts each attempt of a test among its tests and failures.
    Row {
        name: "flaky",
        fixture: "maven/flaky",
        tests: &[
            Case::passed("com.example.TideTest#comes"),
            Case::passed("com.example.TideTest#turns"),
            Case::passed("com.example.TideTest#goes"),
        ],
        flaky: 2,
        ..PASSED
    },
    Row {
        name: "modules",
        fixture: "maven/modules",
        tests: &[
            Case::error("com.example.PriceTest#empty")
                .at("core/src/main/java/com/example/Price.java", 10)
                .with_message("java.lang.IllegalArgumentException: no price"),
            Case::passed("com.example.PriceTest#three"),
            Case::passed("com.example.PriceTest#three"),
        ],
        ..FAILED
    },
    Row {
        name: "builderror",
        fixture: "maven/builderror",
        collectors: &[Collector::build(
            "src/test/java/com/example/CalcTest.java",
            "incompatible types: java.lang.String cannot be converted to int",
        )
        .at("src/test/java/com/example/CalcTest.java", 8)],
        ..BUILD_FAILED
    },
    Row {
        name: "crash",
        fixture: "maven/crash",
        tests: &[
            Case::error("com.example.ExitTest")
                .with_message("did not finish: its JVM ended without a word (System.exit, or a crash)"),
            Case::passed("com.example.AliveTest#holds"),
        ],
        ..FAILED
    },
    // A test writes a result for another test into the report.
    Row {
        name: "forged_report",
        fixture: "maven/forged_report",
        tests: &[Case::passed("com.example.ForgeTest#tellsOfAnotherTest")],
        ..UNPROVEN
    },
    // A test replaces the report file of the next, failing class, in a project that ignores failures.
    Row {
        name: "replaced_report",
        fixture: "maven/replaced_report",
        tests: &[
            Case::passed("com.example.AliveTest#holds"),
            Case::passed("com.example.FailTest#fails"),
            Case::passed("com.example.LastTest#holds"),
        ],
        ..UNPROVEN
    },
    // Tests run in Maven's own process, and one exits it after printing Maven's success message.
    Row {
        name: "exits_in_process",
        fixture: "maven/exits_in_process",
        tests: &[Case::passed("com.example.AliveTest#holds")],
        ..UNPROVEN
    },
    // A test tries to attach an agent to Maven's JVM, which would do the same.
    Row {
        name: "attached_agent",
        fixture: "maven/attached_agent",
        tests: &[
            Case::error("com.example.EndTest#hasMavenLoadAnAgent")
                .at("src/test/java/com/example/EndTest.java", 32)
                .with_message(
                    "com.sun.tools.attach.AttachNotSupportedException: The VM does not support the attach mechanism",
                ),
            Case::passed("com.example.AliveTest#holds"),
        ],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "maven/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: Some(143),
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("com.example.AliveTest#holds")],
        running: &["src/test/java/com/example/HangTest.java/com.example.HangTest"],
        hung: &[(
            "src/test/java/com/example/HangTest.java/com.example.HangTest",
            "src/test/java/com/example/HangTest.java",
            8,
        )],
        ..PASSED
    },
    Row {
        name: "many",
        fixture: "maven/many",
        numbered_passed: ("com.example.ManyTest#isSmall(int) case {}", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "maven/fail",
        options: RunOptions { filter: "GreetTest#holds+isShort*", ..RunOptions::ALL },
        tests: &[
            Case::failed("com.example.GreetTest#isShort(String)[2]")
                .at(GREET, 34)
                .with_message("日本 ==> expected: <true> but was: <false>")
                .with_values("true", "false"),
            Case::passed("com.example.GreetTest#isShort(String)[1]"),
            Case::passed("com.example.GreetTest#holds"),
        ],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "maven/fail",
        options: RunOptions { filter: "NoSuchTest", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
