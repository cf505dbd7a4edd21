//! Expected results of Playwright's fixtures. Only `fail` starts a browser.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "playwright", ..Row::PASSED };
const FAILED: Row = Row { framework: "playwright", ..Row::FAILED };
const COLLECTION_FAILED: Row =
    Row { outcome: "collection_failed", exit_status: 3, held: &["collection_failed"], ..FAILED };

/// Message for a test that Playwright did not run.
const DID_NOT_RUN: &str = "did not run: a hook or an earlier test of its group failed";

/// Message for two different values.
const DIFFER: &str = "expect(received).toBe(expected) // Object.is equality";

/// The rows.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "playwright/pass",
        tests: &[
            Case::passed("e2e/cart.spec.ts > [desktop] > cart > adds (1)"),
            Case::passed("e2e/cart.spec.ts > [desktop] > cart > is seen"),
            Case::passed("e2e/home.test.ts > [desktop] > has a title"),
            Case::passed("e2e/cart.spec.ts > [phone] > cart > adds (1)"),
            Case::passed("e2e/cart.spec.ts > [phone] > cart > is seen"),
            Case::passed("e2e/home.test.ts > [phone] > has a title"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "playwright/fail",
        tests: &[
            Case::failed("shop.spec.ts > price > is 119")
                .at("shop.spec.ts", 6)
                .with_message(DIFFER)
                .with_values("119", "100"),
            Case::failed("shop.spec.ts > price > of a basket")
                .at("shop.spec.ts", 10)
                .with_message("expect(received).toEqual(expected) // deep equality")
                .with_values(
                    "Object {\n  \"items\": Array [\n    \"tea\",\n  ],\n  \"total\": 4,\n}",
                    "Object {\n  \"items\": Array [\n    \"tea\",\n    \"milk\",\n  ],\n  \"total\": 4,\n}",
                ),
            Case::failed("shop.spec.ts > price > of nothing (at all)")
                .at("price.ts", 6)
                .with_message("TypeError: no item"),
            Case::failed("shop.spec.ts > the shop greets")
                .at("shop.spec.ts", 25)
                .with_message("expect(locator).toHaveText(expected) failed of locator('h1')")
                .with_values("\"Goodbye\"", "\"Welcome\""),
            Case::passed("shop.spec.ts > price > holds"),
            Case::passed("shop.spec.ts > the shop opens"),
        ],
        artifacts: &[
            ("other", "playwright-0/shop-price-is-119/error-context.md", b"# "),
            ("trace", "playwright-0/shop-price-is-119/trace.zip", b"PK"),
            ("other", "playwright-0/shop-price-of-a-basket/error-context.md", b"# "),
            ("trace", "playwright-0/shop-price-of-a-basket/trace.zip", b"PK"),
            ("other", "playwright-0/shop-price-of-nothing-at-all-/error-context.md", b"# "),
            ("trace", "playwright-0/shop-price-of-nothing-at-all-/trace.zip", b"PK"),
            ("other", "playwright-0/shop-the-shop-greets/error-context.md", b"# "),
            ("screenshot", "playwright-0/shop-the-shop-greets/test-failed-1.png", b"\x89PNG"),
            ("trace", "playwright-0/shop-the-shop-greets/trace.zip", b"PK"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "playwright/error",
        tests: &[
            Case::failed("database.spec.js > with a database > reads")
                .at("database.spec.js", 5)
                .with_message("no database"),
            Case::error("database.spec.js > with a database > writes")
                .at("database.spec.js", 10)
                .with_message(DID_NOT_RUN),
            Case::failed("database.spec.js > without > holds")
                .at("database.spec.js", 15)
                .with_message("cannot clear up"),
            Case::failed("database.spec.js > in order > first")
                .at("database.spec.js", 25)
                .with_message(DIFFER)
                .with_values("\"coffee\"", "\"tea\""),
            Case::error("database.spec.js > in order > second").at("database.spec.js", 28).with_message(DID_NOT_RUN),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "playwright/skip",
        tests: &[
            Case::passed("later.spec.js > holds"),
            Case::skipped("later.spec.js > is skipped").at("later.spec.js", 4),
            Case::skipped("later.spec.js > is still to do").at("later.spec.js", 5).with_message("fixme"),
            Case::skipped("later.spec.js > finds out").at("later.spec.js", 6).with_message("needs a moon phase"),
            Case::xfailed("later.spec.js > is known to fail"),
        ],
        ..PASSED
    },
    Row {
        name: "flaky",
        fixture: "playwright/flaky",
        flaky: 1,
        tests: &[
            Case::passed("weather.spec.js > settles"),
            Case::failed("weather.spec.js > never settles").at("weather.spec.js", 9).with_message("still rain"),
            Case::failed("weather.spec.js > gets better by itself")
                .at("weather.spec.js", 12)
                .with_message("passed, and was expected to fail"),
        ],
        ..FAILED
    },
    Row {
        name: "collection",
        fixture: "playwright/collection",
        collectors: &[
            Collector::collection("broken.spec.ts", "SyntaxError: Unexpected token").at("broken.spec.ts", 4),
            Collector::collection("lost.spec.ts", "Cannot find module './nowhere'").at("lost.spec.ts", 2),
        ],
        ..COLLECTION_FAILED
    },
    Row {
        name: "failing_global_setup",
        fixture: "playwright/failing_global_setup",
        collectors: &[Collector::collection("prepare.js", "no server to test").at("prepare.js", 2)],
        ..COLLECTION_FAILED
    },
    Row {
        name: "hang",
        fixture: "playwright/hang",
        options: RunOptions { timeout_s: Some(25), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("hang.spec.js > ends")],
        running: &["hang.spec.js/hangs"],
        // The test awaits nothing: its promise is only returned.
        hung: &[("hang.spec.js/hangs", "hang.spec.js", 5)],
        announced: Some(2),
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "playwright/crash",
        tests: &[
            Case::failed("crash.spec.js > takes its process with it")
                .at("crash.spec.js", 5)
                .with_message("worker process exited unexpectedly (code=7, signal=null)"),
            Case::passed("crash.spec.js > ends"),
            Case::passed("crash.spec.js > comes after"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "playwright/unicode",
        tests: &[
            Case::failed("unicode.spec.js > Ünïcödé > 日本語 テスト")
                .at("unicode.spec.js", 5)
                .with_message(DIFFER)
                .with_values("\"さようなら\"", "\"ありがとう\""),
            Case::failed("unicode.spec.js > Ünïcödé > red").at("unicode.spec.js", 9).with_message("red is not a name"),
            Case::passed("unicode.spec.js > Ünïcödé > emoji 🦀"),
            Case::passed("unicode.spec.js > Ünïcödé > half a crab \u{fffd}"),
            Case::passed("unicode.spec.js > Ünïcödé > a > b › c"),
        ],
        ..FAILED
    },
    // An empty test takes Playwright 11 ms of processor time: two minutes for 10,000.
    Row {
        name: "many",
        fixture: "playwright/many",
        tests: &[Case::failed("many.spec.js > number 299").at("many.spec.js", 5).with_message("the last one")],
        numbered_passed: ("many.spec.js > number {}", 299),
        numbered_skipped: (Case::skipped("many.spec.js > later {}").at("many.spec.js", 9), 9_700),
        ..FAILED
    },
    Row {
        name: "filtered",
        fixture: "playwright/pass",
        options: RunOptions { filter: "phone.*cart .*@smoke|desktop home", ..RunOptions::ALL },
        tests: &[
            Case::passed("e2e/cart.spec.ts > [phone] > cart > adds (1)"),
            Case::passed("e2e/home.test.ts > [desktop] > has a title"),
        ],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "playwright/pass",
        options: RunOptions { filter: "no such test", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 1,
        raw_exit_code: Some(1),
        held: &["no_tests"],
        ..PASSED
    },
];
