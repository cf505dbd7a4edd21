//! Expected results of Jest's fixtures. `lines` is tested in `outcome_table/javascript_lines.rs`.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "jest", ..Row::PASSED };
const FAILED: Row = Row { framework: "jest", ..Row::FAILED };
const COLLECTION_FAILED: Row =
    Row { outcome: "collection_failed", exit_status: 3, held: &["collection_failed"], ..FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "jest/pass",
        tests: &[
            Case::passed("src/sum.test.js > sum > of two"),
            Case::passed("src/sum.test.js > sum > of nothing > is zero"),
            Case::passed("greet.spec.js > greets world"),
            Case::passed("greet.spec.js > greets you"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "jest/fail",
        tests: &[
            Case::failed("price.test.js > price > has tax")
                .at("price.test.js", 5)
                .with_message("expect(received).toBe(expected) // Object.is equality")
                .with_values("119", "100"),
            Case::failed("price.test.js > price > of a basket")
                .at("price.test.js", 9)
                .with_message("expect(received).toEqual(expected) // deep equality")
                .with_values("{ items: [ 'tea' ], total: 4 }", "{ items: [ 'tea', 'milk' ], total: 4 }"),
            Case::failed("price.test.js > price > of nothing (at all)").at("price.js", 2).with_message("TypeError: no item"),
            Case::failed("price.test.js > price > is awaited").at("price.test.js", 17).with_message(
                "expect(received).rejects.toThrow()\n\nReceived promise resolved instead of rejected\nResolved to value: 1",
            ),
            Case::passed("price.test.js > price > holds"),
            Case::passed("price.test.js > has tax"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "jest/error",
        held: &["collection_failed", "failed"],
        tests: &[
            Case::error("database.test.js > with a database > reads").at("database.test.js", 3).with_message("no database"),
            Case::passed("database.test.js > without > holds"),
        ],
        collectors: &[Collector::collection("database.test.js", "failed outside of its tests: cannot clear up")
            .at("database.test.js", 11)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "skip",
        fixture: "jest/skip",
        tests: &[
            Case::passed("later.test.js > holds"),
            Case::skipped("later.test.js > is skipped").at("later.test.js", 2),
            Case::skipped("later.test.js > is still to do").at("later.test.js", 3).with_message("todo"),
            Case::xfailed("later.test.js > is known to fail"),
            Case::skipped("later.test.js > all of it > is skipped too").at("later.test.js", 9),
        ],
        ..PASSED
    },
    Row {
        name: "collection",
        fixture: "jest/collection",
        tests: &[Case::passed("good.test.js > holds")],
        collectors: &[
            Collector::collection("lost.test.js", "Cannot find module './nowhere' from 'lost.test.js'")
                .at("lost.test.js", 1),
            Collector::collection("broken.test.js", "Unexpected token").at("broken.test.js", 2),
        ],
        ..COLLECTION_FAILED
    },
    Row {
        name: "typescript",
        fixture: "jest/typescript",
        held: &["collection_failed", "failed"],
        tests: &[
            Case::failed("cart.test.ts > cart > adds up to 3")
                .at("cart.test.ts", 13)
                .with_message("expect(received).toBe(expected) // Object.is equality")
                .with_values("3", "-3"),
            Case::passed("cart.test.ts > cart > may be empty"),
        ],
        collectors: &[Collector::collection(
            "types.test.ts",
            "TS2322: Type 'string' is not assignable to type 'number'.",
        )
        .at("types.test.ts", 2)],
        ..COLLECTION_FAILED
    },
    // A test that fails at first and passes when retried.
    Row {
        name: "flaky",
        fixture: "jest/flaky",
        flaky: 1,
        tests: &[Case::passed("weather.test.js > settles"), Case::passed("weather.test.js > holds")],
        ..PASSED
    },
    // Tests that replace a stream's function find their replacement in place.
    Row {
        name: "spies",
        fixture: "jest/spies",
        tests: &[
            Case::failed("stream.test.js > says why it fails").at("stream.test.js", 21).with_message("no reason"),
            Case::passed("stream.test.js > a stream that is watched > is heard"),
            Case::passed("stream.test.js > a stream that is watched > is heard again"),
        ],
        ..FAILED
    },
    // With `bail` Jest runs no file after the first failed one.
    Row {
        name: "bail",
        fixture: "jest/bail",
        unreached: true,
        tests: &[Case::failed("one.test.js > opens").at("one.test.js", 3).with_message("closed")],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "jest/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("hang.test.js > ends")],
        running: &["hang.test.js/hangs"],
        hung: &[("hang.test.js/hangs", "hang.test.js", 4)],
        ..PASSED
    },
    // A timer of a test throws after the test's result was reported.
    Row {
        name: "late",
        fixture: "jest/late",
        tests: &[Case::passed("late.test.js > leaves something behind"), Case::passed("late.test.js > goes on")],
        collectors: &[Collector::collection(
            "late.test.js",
            "leaves something behind failed after its end: too late",
        )
        .at("late.test.js", 3)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "crash",
        fixture: "jest/crash",
        outcome: "crashed",
        exit_status: 134,
        exit_code: 134,
        raw_exit_code: None,
        partial: true,
        held: &["crashed", "failed"],
        tests: &[
            Case::error("crash.test.js > takes the runner with it")
                .with_message("did not finish: the runner was ended by signal 6"),
            Case::passed("crash.test.js > ends"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "jest/unicode",
        tests: &[
            Case::failed("unicode.test.js > Ünïcödé > 日本語 テスト")
                .at("unicode.test.js", 3)
                .with_message("expect(received).toBe(expected) // Object.is equality")
                .with_values("\"さようなら\"", "\"ありがとう\""),
            Case::failed("unicode.test.js > Ünïcödé > red")
                .at("unicode.test.js", 7)
                .with_message("red is not a name"),
            Case::passed("unicode.test.js > Ünïcödé > emoji 🦀"),
            Case::passed("unicode.test.js > Ünïcödé > half a crab \u{fffd}"),
            Case::passed("unicode.test.js > Ünïcödé > a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "jest/many",
        tests: &[Case::failed("many.test.js > number 9999").at("many.test.js", 4).with_message("the last one")],
        numbered_passed: ("many.test.js > number {}", 9_999),
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "jest/fail",
        options: RunOptions { filter: "^price holds$|^has", ..RunOptions::ALL },
        tests: &[Case::passed("price.test.js > price > holds"), Case::passed("price.test.js > has tax")],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "jest/fail",
        options: RunOptions { filter: "no such test", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
