//! Expected results of Gradle's fixtures with Debian's Gradle 4.4.1 and JUnit 4. A row takes seconds, so each covers much:
//! `fail` also has skips, unicode and colours. Golden runs cover the messages of other versions
//! (`supervisor/frameworks/goldens/gradle`).

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "gradle", ..Row::PASSED };
const FAILED: Row = Row { framework: "gradle", ..Row::FAILED };
const BUILD_FAILED: Row = Row { framework: "gradle", ..Row::BUILD_FAILED };

const GREET: &str = "src/test/java/com/example/GreetTest.java";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "gradle/pass",
        tests: &[
            Case::passed("com.example.CalcTest#adds"),
            Case::passed("com.example.CalcTest#talks"),
            Case::passed("com.example.ZeroTest#changesNothing[1]"),
            Case::passed("com.example.ZeroTest#changesNothing[-7]"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "gradle/fail",
        tests: &[
            Case::failed("com.example.GreetTest#greets")
                .at(GREET, 16)
                .with_message("expected:<Hello, world[!]> but was:<Hello, world[]>")
                .with_values("Hello, world!", "Hello, world"),
            Case::failed("com.example.GreetTest#isTheSum")
                .at(GREET, 29)
                .with_message("the sum expected:<5> but was:<4>")
                .with_values("5", "4"),
            Case::failed("com.example.GreetTest#grüßtRot").at(GREET, 35).with_message("日本 ist zu lang ?"),
            Case::failed("com.example.LengthTest#isThree[1: de]")
                .at("src/test/java/com/example/LengthTest.java", 23)
                .with_message("expected:<3> but was:<2>")
                .with_values("3", "2"),
            Case::error("com.example.GreetTest#throwsOne")
                .at(GREET, 40)
                .with_message("java.lang.IllegalStateException: no name"),
            Case::error("com.example.SetUpTest")
                .at("src/test/java/com/example/SetUpTest.java", 9)
                .with_message("java.lang.IllegalStateException: no database"),
            Case::skipped("com.example.GreetTest#ignored"),
            Case::skipped("com.example.GreetTest#assumes"),
            Case::passed("com.example.GreetTest#holds"),
            Case::passed("com.example.GreetTest$Inner#holdsToo"),
            Case::passed("com.example.LengthTest#isThree[0: abc]"),
        ],
        ..FAILED
    },
    // Gradle exits with 0, since the project sets `ignoreFailures`.
    Row {
        name: "modules",
        fixture: "gradle/modules",
        raw_exit_code: Some(0),
        tests: &[
            Case::error("com.example.PriceTest#empty")
                .at("core/src/main/java/com/example/Price.java", 10)
                .with_message("java.lang.IllegalArgumentException: no price"),
            Case::passed("com.example.PriceTest#three"),
            Case::passed("com.example.PriceTest#three"),
            Case::passed("com.example.WebTest#asksForThePrice"),
        ],
        ..FAILED
    },
    Row {
        name: "builderror",
        fixture: "gradle/builderror",
        collectors: &[
            Collector::build(
                "src/test/java/com/example/CalcTest.java",
                "incompatible types: String cannot be converted to int",
            )
            .at("src/test/java/com/example/CalcTest.java", 8),
            Collector::build("src/test/java/com/example/OtherTest.java", "cannot find symbol")
                .at("src/test/java/com/example/OtherTest.java", 8),
        ],
        ..BUILD_FAILED
    },
    Row {
        name: "configerror",
        fixture: "gradle/configerror",
        collectors: &[Collector::build(
            "build.gradle",
            "A problem occurred evaluating root project 'configerror': Could not find method nosuch() for arguments \
             [org.example:thing:1] on object of type \
             org.gradle.api.internal.artifacts.dsl.dependencies.DefaultDependencyHandler",
        )
        .at("build.gradle", 15)],
        ..BUILD_FAILED
    },
    // Gradle accepts a test JVM that exits with 0.
    Row {
        name: "crash",
        fixture: "gradle/crash",
        raw_exit_code: Some(0),
        tests: &[
            Case::error("com.example.ExitTest#dies").with_message(
                "did not finish: its JVM ended without a word (System.exit or a crash, here or in what followed)",
            ),
            Case::passed("com.example.AliveTest#holds"),
        ],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "gradle/hang",
        options: RunOptions { timeout_s: Some(30), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: Some(143),
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("com.example.AliveTest#holds")],
        running: &["src/test/java/com/example/HangTest.java/com.example.HangTest#hangs"],
        hung: &[(
            "src/test/java/com/example/HangTest.java/com.example.HangTest#hangs",
            "src/test/java/com/example/HangTest.java",
            8,
        )],
        ..PASSED
    },
    Row {
        name: "many",
        fixture: "gradle/many",
        numbered_passed: ("com.example.ManyTest#isSmall[{}]", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "gradle/fail",
        options: RunOptions { filter: "*Test.is*", ..RunOptions::ALL },
        tests: &[
            Case::failed("com.example.GreetTest#isTheSum")
                .at(GREET, 29)
                .with_message("the sum expected:<5> but was:<4>")
                .with_values("5", "4"),
            Case::failed("com.example.LengthTest#isThree[1: de]")
                .at("src/test/java/com/example/LengthTest.java", 23)
                .with_message("expected:<3> but was:<2>")
                .with_values("3", "2"),
            Case::passed("com.example.LengthTest#isThree[0: abc]"),
        ],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "gradle/fail",
        options: RunOptions { filter: "NoSuchTest", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
