//! Expected results of Maestro's fixtures, run with the stand-in `tests/stand-ins/maestro`: Maestro needs a device.

use crate::expectation::{Case, Collector, Row, RunOptions};

const PASSED: Row = Row { framework: "maestro", ..Row::PASSED };
const FAILED: Row = Row { framework: "maestro", ..Row::FAILED };

/// The rows. No flow is skipped: flows that are excluded by tags are not reported.
pub(super) const TABLE: &[Row] = &[
    Row {
        name: "pass",
        fixture: "maestro/pass",
        tests: &[Case::passed(".maestro/login.yaml > Log in"), Case::passed(".maestro/search.yaml > search")],
        ..PASSED
    },
    // Failed flows run twice and are reported once.
    Row {
        name: "fail",
        fixture: "maestro/fail",
        tests: &[
            Case::failed(".maestro/checkout.yaml > Check out")
                .at(".maestro/checkout.yaml", 0)
                .with_message("Element not found: Text matching regex: Pay"),
            Case::failed(".maestro/greeting.yml > Greeting (in English)")
                .at(".maestro/greeting.yml", 0)
                .with_message("Assertion is false: \"Hello\" is visible"),
            Case::passed(".maestro/login.yaml > login"),
        ],
        ..FAILED
    },
    // Maestro reads all flows before it runs any.
    Row {
        name: "collection",
        fixture: "maestro/collection",
        outcome: "collection_failed",
        exit_status: 3,
        held: &["collection_failed"],
        partial: true,
        collectors: &[Collector::collection(
            ".maestro/typo.yaml",
            "Unrecognized field \"tapOnn\" (class maestro.orchestra.yaml.YamlFluentCommand), not marked as ignorable",
        )
        .at(".maestro/typo.yaml", 5)],
        ..FAILED
    },
    Row {
        name: "flaky",
        fixture: "maestro/flaky",
        flaky: 1,
        tests: &[
            Case::failed(".maestro/empty.yaml > Begins with an empty cart")
                .at(".maestro/empty.yaml", 0)
                .with_message("Assertion is false: \"The cart is empty\" is visible"),
            Case::passed(".maestro/add.yaml > Add to the cart"),
        ],
        ..FAILED
    },
    Row {
        name: "hang",
        fixture: "maestro/hang",
        options: RunOptions { timeout_s: Some(20), ..RunOptions::ALL },
        outcome: "timed_out",
        exit_status: 124,
        exit_code: 124,
        raw_exit_code: None,
        partial: true,
        held: &["timed_out"],
        killed: Some("deadline"),
        tests: &[Case::passed(".maestro/a_ends.yaml > ends")],
        running: &[".maestro/b_hangs.yaml/hangs"],
        ..PASSED
    },
    Row {
        name: "crash",
        fixture: "maestro/crash",
        exit_code: 134,
        raw_exit_code: Some(134),
        partial: true,
        tests: &[
            Case::error(".maestro/b_crashes.yaml > takes Maestro with it")
                .at(".maestro/b_crashes.yaml", 0)
                .with_message("did not finish: the runner exited with 134"),
            Case::passed(".maestro/a_holds.yaml > holds"),
        ],
        ..FAILED
    },
    Row {
        name: "unicode",
        fixture: "maestro/unicode",
        tests: &[
            Case::failed(".maestro/größe.yaml > größe \"ä\" (1+1) > 赤")
                .at(".maestro/größe.yaml", 0)
                .with_message("Assertion is false: \"naïve 日本\" is visible"),
            Case::passed(".maestro/krabbe.yaml > 🦀 a > b"),
        ],
        ..FAILED
    },
    Row {
        name: "many",
        fixture: "maestro/many",
        numbered_passed: (".maestro/flow-{}.yaml > flow-{}", 10_000),
        ..PASSED
    },
    Row {
        name: "filtered",
        fixture: "maestro/fail",
        options: RunOptions { filter: "login", ..RunOptions::ALL },
        tests: &[Case::passed(".maestro/login.yaml > login")],
        ..PASSED
    },
    Row {
        name: "filtered_out",
        fixture: "maestro/fail",
        options: RunOptions { filter: "nobody wrote this", ..RunOptions::ALL },
        outcome: "no_tests",
        exit_status: 4,
        exit_code: 4,
        held: &["no_tests"],
        ..PASSED
    },
];
