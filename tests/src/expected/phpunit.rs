//! Expected results of PHPUnit's fixtures.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "phpunit", ..Row::PASSED };
const FAILED: Row = Row { framework: "phpunit", ..Row::FAILED };

const STRINGS: &str = "Failed asserting that two strings are identical.";

/// The rows. PHPUnit exits with 2 when there are errors, with 1 when there are only failures.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "phpunit/pass",
        tests: &[
            Case::passed("tests/CalcTest.php::App\\Tests\\CalcTest::testAddsTwoNumbers"),
            Case::passed("tests/CalcTest.php::App\\Tests\\CalcTest::testAddsCents with data set #0"),
            Case::passed("tests/CalcTest.php::App\\Tests\\CalcTest::testAddsCents with data set \"nearly a unit\""),
            Case::passed("tests/CalcTest.php::App\\Tests\\CalcTest::testRunsAlone"),
            Case::passed("tests/Text/ShoutTest.php::App\\Tests\\Text\\ShoutTest::testIsLoud"),
        ],
        ..PASSED
    },
    // A project without settings: its composer.json requires PHPUnit, and its tests are in `tests`.
    Row {
        name: "composer",
        fixture: "phpunit/composer",
        tests: &[Case::passed("tests/PlainTest.php::PlainTest::testHasNoSettings")],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "phpunit/fail",
        exit_code: 2,
        raw_exit_code: Some(2),
        tests: &[
            Case::passed("tests/ShoutTest.php::ShoutTest::testHolds"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testDiffers")
                .at("tests/ShoutTest.php", 17)
                .with_message(STRINGS)
                .with_values("'a'", "'A'"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testCounts")
                .at("tests/ShoutTest.php", 22)
                .with_message("a letter more\nFailed asserting that 1 matches expected 2.")
                .with_values("2", "1"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testListsOthers")
                .at("tests/ShoutTest.php", 27)
                .with_message("Failed asserting that two arrays are equal.")
                .with_values("Array (\n    0 => 1\n    1 => 3\n)", "Array (\n    0 => 1\n    1 => 2\n)"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testIsNotTrue")
                .at("tests/ShoutTest.php", 32)
                .with_message("Failed asserting that false is true."),
            Case::error("tests/ShoutTest.php::ShoutTest::testThrowsInTheSource")
                .at("src/shout.php", 6)
                .with_message("InvalidArgumentException: nothing to shout"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testThrowsNothing")
                .at("tests/ShoutTest.php", 40)
                .with_message("Failed asserting that exception of type \"InvalidArgumentException\" is thrown."),
            Case::passed("tests/ShoutTest.php::ShoutTest::testLetters with data set #0"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testLetters with data set \"the \"last\" one\"")
                .at("tests/ShoutTest.php", 50)
                .with_message(STRINGS)
                .with_values("'B'", "'Z'"),
            Case::passed("tests/ShoutTest.php::ShoutTest::testMakes"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testUses")
                .at("tests/ShoutTest.php", 69)
                .with_message(STRINGS)
                .with_values("'B'", "'A'"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "phpunit/error",
        exit_code: 2,
        raw_exit_code: Some(2),
        tests: &[
            Case::error("tests/ClassTest.php::ClassTest::testHasNoClass")
                .at("tests/ClassTest.php", 9)
                .with_message("RuntimeException: no class"),
            Case::error("tests/ClassTest.php::ClassTest::testHasNoneEither")
                .at("tests/ClassTest.php", 9)
                .with_message("RuntimeException: no class"),
            Case::passed("tests/ErrorTest.php::ErrorTest::testHolds"),
            Case::error("tests/ErrorTest.php::ErrorTest::testNeverBegins")
                .at("tests/ErrorTest.php", 10)
                .with_message("RuntimeException: no database"),
            Case::error("tests/ErrorTest.php::ErrorTest::testCannotBeUndone")
                .at("tests/ErrorTest.php", 17)
                .with_message("RuntimeException: cannot be removed"),
            Case::error("tests/ErrorTest.php::ErrorTest::testDivides")
                .at("tests/ErrorTest.php", 38)
                .with_message("DivisionByZeroError: Division by zero"),
        ],
        ..FAILED
    },
    // A hook after all tests of a class belongs to no test.
    Row {
        name: "teardown",
        fixture: "phpunit/teardown",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        tests: &[Case::passed("tests/TeardownTest.php::TeardownTest::testHolds")],
        collectors: &[Collector::collection(
            "tests/TeardownTest.php",
            "Exception in TeardownTest::tearDownAfterClass\ncannot be removed",
        )
        .at("tests/TeardownTest.php", 9)],
        ..FAILED
    },
    // A bootstrap script that throws: PHPUnit says so and exits.
    Row {
        name: "bootstrap",
        fixture: "phpunit/bootstrap",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        partial: true,
        collectors: &[Collector::collection(".", "Error in bootstrap script: RuntimeException: no server")],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "phpunit/skip",
        tests: &[
            Case::passed("tests/SkipTest.php::SkipTest::testHolds"),
            Case::skipped("tests/SkipTest.php::SkipTest::testSkipsInside")
                .at("tests/SkipTest.php", 14)
                .with_message("no moon today"),
            Case::skipped("tests/SkipTest.php::SkipTest::testIsNotWrittenYet")
                .at("tests/SkipTest.php", 19)
                .with_message("bug 7"),
            Case::skipped("tests/SkipTest.php::SkipTest::testNeedsAnother")
                .at("tests/SkipTest.php", 26)
                .with_message("This test depends on \"SkipTest::testSkipsInside\" to pass."),
            Case::skipped("tests/SkipTest.php::SkipTest::testNeedsANewerPhp")
                .at("tests/SkipTest.php", 33)
                .with_message("PHP >= 99.0.0 is required."),
            Case::skipped("tests/WholeClassTest.php::WholeClassTest::testIsLeftOut")
                .at("tests/WholeClassTest.php", 12)
                .with_message("no stars"),
        ],
        ..PASSED
    },
    // PHPUnit loads all files and runs nothing when one fails.
    Row {
        name: "collection",
        fixture: "phpunit/collection",
        outcome: "collection_failed",
        exit_status: 3,
        exit_code: 2,
        raw_exit_code: Some(2),
        held: &["collection_failed"],
        unreached: true,
        collectors: &[
            Collector::collection("src/broken.php", "LogicException: cannot be loaded").at("src/broken.php", 3)
        ],
        ..FAILED
    },
    // `stopOnFailure` in the project's settings.
    Row {
        name: "stops",
        fixture: "phpunit/stops",
        unreached: true,
        tests: &[Case::failed("tests/StopsTest.php::StopsTest::testFails")
            .at("tests/StopsTest.php", 9)
            .with_message("enough")],
        ..FAILED
    },
    // `failOnRisky` in the project's settings: no test fails, and the run does.
    Row {
        name: "risky",
        fixture: "phpunit/risky",
        tests: &[Case::passed("tests/RiskyTest.php::RiskyTest::testAssertsNothing")],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "phpunit/hang",
        options: RunOptions { timeout_s: Some(10), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("tests/HangTest.php::HangTest::testEnds")],
        running: &["tests/HangTest.php/HangTest::testHangs"],
        hung: &[("tests/HangTest.php/HangTest::testHangs", "tests/HangTest.php", 14)],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "phpunit/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("tests/CrashTest.php::CrashTest::testHoldsBefore"),
            Case::error("tests/CrashTest.php::CrashTest::testLeaves")
                .with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "phpunit/unicode",
        exit_code: 2,
        raw_exit_code: Some(2),
        tests: &[
            Case::failed("tests/GrößeTest.php::GrößeTest::testMisst with data set \"füße\"")
                .at("tests/GrößeTest.php", 12)
                .with_message(STRINGS)
                .with_values("'日本'", "'füße'"),
            Case::passed("tests/GrößeTest.php::GrößeTest::testMisst with data set \"a\u{fffd}tab\""),
            Case::error("tests/GrößeTest.php::GrößeTest::testHasNoHalfCharacters")
                .at("tests/GrößeTest.php", 22)
                .with_message("RuntimeException: größer \u{fffd}"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "phpunit/many",
        numbered_passed: ("tests/ManyTest.php::ManyTest::testIsSmall with data set #{}", 10_000),
        ..PASSED
    },
    // A group that the project's settings exclude.
    Row {
        name: "filters",
        fixture: "phpunit/filters",
        tests: &[Case::passed("tests/FiltersTest.php::FiltersTest::testIsQuick")],
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "phpunit/fail",
        options: RunOptions { filter: "test(Holds|Differs)$", ..RunOptions::ALL },
        tests: &[
            Case::passed("tests/ShoutTest.php::ShoutTest::testHolds"),
            Case::failed("tests/ShoutTest.php::ShoutTest::testDiffers")
                .at("tests/ShoutTest.php", 17)
                .with_message(STRINGS)
                .with_values("'a'", "'A'"),
        ],
        ..FAILED
    },
    Row {
        name: "filtered_out",
        fixture: "phpunit/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
