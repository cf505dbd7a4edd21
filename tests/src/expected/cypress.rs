//! Expected results of Cypress's fixtures, run with the stand-in `tests/stand-ins/cypress.cjs`: Cypress's binary is not
//! available from package registries.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "cypress", ..Row::PASSED };
const FAILED: Row = Row { framework: "cypress", ..Row::FAILED };

/// The rows. Cypress exits with the number of failures.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "cypress/pass",
        tests: &[
            Case::passed("cypress/e2e/shop.cy.js > shop > greets"),
            Case::passed("cypress/e2e/shop.cy.js > shop > cart > is empty"),
            Case::passed("cypress/e2e/sum.cy.js > stands alone"),
        ],
        ..PASSED
    },
    Row {
        name: "fail",
        fixture: "cypress/fail",
        exit_code: 3,
        raw_exit_code: Some(3),
        tests: &[
            Case::failed("cypress/e2e/fail.cy.js > cart > shows a total")
                .at("cypress/e2e/fail.cy.js", 7)
                .with_message("Timed out retrying after 4000ms: Expected to find content: 'Total: 3' but never did."),
            Case::failed("cypress/e2e/fail.cy.js > cart > compares")
                .at("cypress/e2e/fail.cy.js", 10)
                .with_message("Expected values to be strictly equal: 2 !== 3")
                .with_values("3", "2"),
            Case::failed("cypress/e2e/fail.cy.js > cart > throws")
                .at("cypress/e2e/fail.cy.js", 13)
                .with_message("TypeError: no such cart"),
            Case::passed("cypress/e2e/fail.cy.js > cart > holds"),
            Case::passed("cypress/e2e/holds.cy.js > holds too"),
        ],
        ..FAILED
    },
    Row {
        name: "error",
        fixture: "cypress/error",
        exit_code: 3,
        raw_exit_code: Some(3),
        tests: &[
            Case::error("cypress/e2e/hooks.cy.js > before all > \"before all\" hook for \"is not reached\"")
                .at("cypress/e2e/hooks.cy.js", 3)
                .with_message("no database"),
            Case::skipped("cypress/e2e/hooks.cy.js > before all > is not reached either")
                .with_message("not run: a hook failed before it"),
            Case::error("cypress/e2e/hooks.cy.js > before each > has no page")
                .at("cypress/e2e/hooks.cy.js", 11)
                .with_message(
                    "\"before each\" hook: Timed out retrying after 4000ms: Expected to find content: 'a page' but \
                     never did.",
                ),
            Case::error("cypress/e2e/hooks.cy.js > after each > \"after each\" hook for \"holds\"")
                .at("cypress/e2e/hooks.cy.js", 18)
                .with_message("still open"),
            Case::passed("cypress/e2e/hooks.cy.js > after each > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "skip",
        fixture: "cypress/skip",
        tests: &[
            Case::skipped("cypress/e2e/skip.cy.js > skips > has no body yet"),
            Case::skipped("cypress/e2e/skip.cy.js > skips > is left out"),
        ],
        ..PASSED
    },
    // Each spec is loaded separately.
    Row {
        name: "collection",
        fixture: "cypress/collection",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        tests: &[Case::passed("cypress/e2e/a.cy.js > holds")],
        collectors: &[
            Collector::collection("cypress/e2e/b.cy.js", "Cannot find module './missing'").at("cypress/e2e/b.cy.js", 1)
        ],
        ..FAILED
    },
    // The project configures three attempts per test.
    Row {
        name: "flaky",
        fixture: "cypress/flaky",
        flaky: 1,
        tests: &[
            Case::failed("cypress/e2e/flaky.cy.js > a slow shop > never sells")
                .at("cypress/e2e/flaky.cy.js", 9)
                .with_message("sold out"),
            Case::passed("cypress/e2e/flaky.cy.js > a slow shop > opens at last"),
        ],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "cypress/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed("cypress/e2e/hang.cy.js > ends")],
        running: &["cypress/e2e/hang.cy.js/hangs"],
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "cypress/crash",
        raw_exit_code: Some(0),
        partial: true,
        tests: &[
            Case::passed("cypress/e2e/crash.cy.js > holds"),
            Case::error("cypress/e2e/crash.cy.js > takes Cypress with it")
                .with_message("did not finish: the runner exited with 0"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "cypress/unicode",
        exit_code: 2,
        raw_exit_code: Some(2),
        tests: &[
            Case::failed("cypress/e2e/größe.cy.js > größe \"ä\" (1+1) > 赤")
                .at("cypress/e2e/größe.cy.js", 3)
                .with_message("Timed out retrying after 4000ms: Expected to find content: 'naïve 日本' but never did."),
            Case::failed("cypress/e2e/größe.cy.js > größe \"ä\" (1+1) > is coloured")
                .at("cypress/e2e/größe.cy.js", 6)
                .with_message("rot"),
            Case::passed("cypress/e2e/größe.cy.js > größe \"ä\" (1+1) > 🦀 a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "cypress/many",
        numbered_passed: ("cypress/e2e/many.cy.js > many > case {}", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "cypress/fail",
        options: RunOptions { filter: "holds", ..RunOptions::ALL },
        tests: &[Case::passed("cypress/e2e/holds.cy.js > holds too")],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "cypress/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 1,
        raw_exit_code: Some(1),
        held: &["no_tests"],
        ..PASSED
    },
];
