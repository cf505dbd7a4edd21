//! Expected results of Vitest's fixtures. `lines` is tested in `outcome_table/javascript_lines.rs`.
//!
//! Most fixtures use the threads pool. With forks, the default of Vitest 4, one of some hundred workers on a busy host does not
//! receive its start message, and its tests get no result (vitest-dev/vitest#8968).

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "vitest", ..Row::PASSED };
const FAILED: Row = Row { framework: "vitest", ..Row::FAILED };
const COLLECTION_FAILED: Row =
    Row { outcome: "collection_failed", exit_status: 3, held: &["collection_failed"], ..FAILED };

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "vitest/pass",
        tests: &[
            Case::passed("src/sum.test.ts > sum > of two"),
            Case::passed("src/sum.test.ts > sum > of nothing > is zero"),
            Case::passed("greet.spec.js > greets world"),
            Case::passed("greet.spec.js > greets you"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "vitest/fail",
        tests: &[
            Case::failed("price.test.ts > price > is 119")
                .at("price.test.ts", 13)
                .with_message("expected 100 to be 119 // Object.is equality")
                .with_values("119", "100"),
            Case::failed("price.test.ts > price > of a basket")
                .at("price.test.ts", 17)
                .with_message(
                    "expected { items: [ 'tea', 'milk' ], total: 4 } to deeply equal { items: [ 'tea' ], total: 4 }",
                )
                .with_values(
                    "Object {\n  \"items\": Array [\n    \"tea\",\n  ],\n  \"total\": 4,\n}",
                    "Object {\n  \"items\": Array [\n    \"tea\",\n    \"milk\",\n  ],\n  \"total\": 4,\n}",
                ),
            Case::failed("price.test.ts > price > of nothing (at all)")
                .at("price.ts", 6)
                .with_message("TypeError: no item"),
            Case::failed("price.test.ts > price > is named")
                .at("price.test.ts", 25)
                .with_message("expected 'tea' to be 'coffee' // Object.is equality")
                .with_values("coffee", "tea"),
            Case::passed("price.test.ts > price > holds"),
            Case::passed("price.test.ts > is named"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "vitest/error",
        held: &["collection_failed", "failed"],
        tests: &[
            Case::error("database.test.js > with a database > reads")
                .at("database.test.js", 5)
                .with_message("no database"),
            Case::passed("database.test.js > without > holds"),
        ],
        collectors: &[Collector::collection("database.test.js", "failed outside of its tests: cannot clear up")
            .at("database.test.js", 13)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "skip",
        fixture: "vitest/skip",
        tests: &[
            Case::passed("later.test.js > holds"),
            Case::skipped("later.test.js > is skipped").at("later.test.js", 0),
            Case::skipped("later.test.js > is still to do").at("later.test.js", 0).with_message("todo"),
            Case::skipped("later.test.js > finds out").at("later.test.js", 0).with_message("needs a moon phase"),
            Case::xfailed("later.test.js > is known to fail"),
            Case::skipped("later.test.js > all of it > is skipped too").at("later.test.js", 0),
        ],
        ..PASSED
    },
    Row {
        name: "collection",
        fixture: "vitest/collection",
        tests: &[Case::passed("good.test.js > holds")],
        collectors: &[
            Collector::collection("broken.test.js", "Parse failure: Expression expected").at("broken.test.js", 4),
            Collector::collection("lost.test.js", "Cannot find module './nowhere' imported from 'lost.test.js'")
                .at("lost.test.js", 2),
            Collector::collection("throws.test.js", "not today").at("throws.test.js", 3),
        ],
        ..COLLECTION_FAILED
    },
    Row {
        name: "unhandled",
        fixture: "vitest/unhandled",
        tests: &[Case::passed("unhandled.test.js > leaves a promise behind")],
        collectors: &[Collector::collection("unhandled.test.js", "failed outside of its tests: nobody waits")
            .at("unhandled.test.js", 4)],
        ..COLLECTION_FAILED
    },
    // The test script excludes a directory and redirects its output.
    Row { name: "excluded", fixture: "vitest/excluded", tests: &[Case::passed("src/price.test.js > holds")], ..PASSED },
    // A test that fails at first and passes when retried.
    Row {
        name: "flaky",
        fixture: "vitest/flaky",
        flaky: 1,
        tests: &[Case::passed("weather.test.js > settles"), Case::passed("weather.test.js > holds")],
        ..PASSED
    },
    // A failing global teardown. Vitest reports the line in the file as transformed by Vite.
    Row {
        name: "teardown",
        fixture: "vitest/teardown",
        tests: &[Case::passed("shop.test.js > opens")],
        collectors: &[Collector::collection(".", "the server does not stop").at("server.js", 3)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "hang",
        fixture: "vitest/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        // Vitest handles SIGTERM and exits with 143.
        raw_exit_code: Some(143),
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("hang.test.js > ends")],
        running: &["hang.test.js/hangs"],
        hung: &[("hang.test.js/hangs", "hang.test.js", 11)],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "vitest/crash",
        partial: true,
        tests: &[
            Case::error("crash.test.js > takes its process with it")
                .with_message("did not finish: the runner exited with 1"),
            Case::passed("crash.test.js > ends"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "vitest/unicode",
        tests: &[
            Case::failed("unicode.test.js > Ünïcödé > 日本語 テスト")
                .at("unicode.test.js", 5)
                .with_message("expected 'ありがとう' to be 'さようなら' // Object.is equality")
                .with_values("さようなら", "ありがとう"),
            Case::failed("unicode.test.js > Ünïcödé > red").at("unicode.test.js", 9).with_message("red is not a name"),
            Case::passed("unicode.test.js > Ünïcödé > emoji 🦀"),
            Case::passed("unicode.test.js > Ünïcödé > half a crab \u{fffd}"),
            Case::passed("unicode.test.js > Ünïcödé > a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "vitest/many",
        tests: &[Case::failed("many.test.js > number 9999").at("many.test.js", 6).with_message("the last one")],
        numbered_passed: ("many.test.js > number {}", 9_999),
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "vitest/fail",
        options: RunOptions { filter: "^price holds$|^is named", ..RunOptions::ALL },
        tests: &[Case::passed("price.test.ts > price > holds"), Case::passed("price.test.ts > is named")],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "vitest/fail",
        options: RunOptions { filter: "no such test", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
