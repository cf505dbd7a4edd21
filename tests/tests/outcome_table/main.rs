//! Runs every row of the outcome table over gRPC, and selections that show every form of a report from the command line and
//! over MCP with two independent clients (rmcp and the Python SDK).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests, which clippy treats as ordinary code"
)]

mod command_line;
mod covering_tests;
mod django;
mod go_lines;
mod grpc;
mod hung_stacks;
mod javascript_lines;
mod long_output;
mod mcp;
mod mcp_texts;
mod oldest_javascript_runners;
mod pytest_playwright;
mod python_keeping;
mod python_lines;
mod python_mcp_sdk;
mod python_mcp_transports;
mod rust_lines;
mod wrapped_test_scripts;

use proctor_tests::expectation::Row;
use proctor_tests::expected::TABLES;
use proctor_tests::process::source_root;
use std::collections::BTreeSet;

// One test per row, so that rows run in parallel and a failure names its row. Every row runs over gRPC, once. The command line and
// MCP present the same report in their own forms, so they run only rows that show these. The supervisor of a command line or an
// agent is a private one, in which each framework must run too: it does for the command line.
macro_rules! rows {
    ($($framework:ident: $($name:ident)*;)*) => {
        const NAMES: &[(&str, &[&str])] = &[$((stringify!($framework), &[$(stringify!($name)),*])),*];

        mod by_grpc {
            $(mod $framework {
                $(#[tokio::test] async fn $name() {
                    crate::grpc::check(concat!(stringify!($framework), "/", stringify!($name))).await;
                })*
            })*
        }
    };
}

macro_rules! by_command_line {
    ($($framework:ident: $($name:ident)*;)*) => {
        /// Rows that together show every form a report can have, and each framework.
        const BY_COMMAND_LINE: &[&str] = &[$($(concat!(stringify!($framework), "/", stringify!($name))),*),*];

        mod by_command_line {
            $(mod $framework {
                $(#[test] fn $name() {
                    crate::command_line::check(concat!(stringify!($framework), "/", stringify!($name)));
                })*
            })*
        }
    };
}

macro_rules! by_mcp {
    ($($framework:ident: $($name:ident)*;)*) => {
        /// Rows that together show every form a report can have.
        const BY_MCP: &[&str] = &[$($(concat!(stringify!($framework), "/", stringify!($name))),*),*];

        mod by_mcp {
            $(mod $framework {
                $(#[tokio::test] async fn $name() {
                    crate::mcp::check(concat!(stringify!($framework), "/", stringify!($name))).await;
                })*
            })*
        }
    };
}

rows! {
    go: pass fail table panic crash exits_early builderror vet hang notests oom forkbomb orphan flood twomodules unicode
        shapes many filtered filtered_out command_passes command_fails command_crashes;
    pytest: pass hidden_failure fail error skip collection broken_conftest missing_plugin invalid_settings hang crash exits_early
        stopped_worker broken_hook setup_only workers differing_workers unicode many two_projects flaky doctest filtered
        filtered_out invalid_filter;
    unittest: pass fail error skip collection hang crash interrupt stops_early unicode removed_directory
        foreign_test_cases load_tests pytest_tests plain_functions many filtered filtered_out;
    jest: pass fail error skip collection typescript flaky spies bail hang late crash unicode many filtered
        filtered_out;
    mocha: pass fail error skip collection teardown two_commands flaky spies bail hang crash delayed_abort unicode many
        filtered filtered_out;
    node: pass fail error skip collection late hang crash exits_early exits_while_loading exits_past_listeners unicode
        many filtered helper_file helper_file_filtered_out filtered_out;
    vitest: pass fail error skip collection unhandled excluded flaky teardown hang crash unicode many filtered
        filtered_out;
    playwright: pass fail error skip flaky collection failing_global_setup hang crash unicode many filtered
        filtered_out;
    script: pass fail;
    cargo: pass fail skip builderror buildscript hang crash unicode harness many filtered filtered_out;
    nextest: pass fail error skip builderror hang crash unicode many filtered filtered_out;
    ctest: pass fail error skip suite_setup builderror linkerror configerror hang crash undiscovered_program notests
        flood unicode many duplicate_names two_projects filtered filtered_out;
    custom: junit junit_cut_off tap tap_plan_last result_words result_words_exit_0 junit_broken tap_empty
        tap_all_skipped hang crash unicode many many_one_fails no_report project_file;
    maven: pass fail flaky modules builderror crash forged_report replaced_report exits_in_process attached_agent hang
        many filtered filtered_out;
    gradle: pass fail modules builderror configerror crash hang many filtered filtered_out;
    maestro: pass fail collection flaky hang crash unicode many filtered filtered_out;
    cypress: pass fail error skip collection flaky hang crash unicode many filtered filtered_out;
    rspec: pass bundled fail error teardown suite skip collection stops dryrun hang crash unicode many filters filtered filtered_out;
    phpunit: pass composer fail error teardown bootstrap skip collection stops risky hang crash unicode many filters filtered filtered_out;
}

by_command_line! {
    go: pass fail crash oom forkbomb flood command_passes command_crashes;
    pytest: fail skip crash hang unicode invalid_filter;
    unittest: fail interrupt;
    jest: fail unicode filtered_out;
    mocha: fail;
    node: fail filtered;
    vitest: fail flaky;
    playwright: fail;
    script: fail;
    cargo: fail;
    nextest: fail;
    ctest: fail;
    custom: junit junit_broken tap tap_empty hang unicode many many_one_fails;
    maven: fail;
    gradle: fail;
    maestro: fail filtered;
    cypress: fail flaky;
    rspec: fail;
    phpunit: fail;
}

by_mcp! {
    go: pass fail crash oom forkbomb flood command_passes command_crashes;
    pytest: fail skip crash hang unicode invalid_filter;
    unittest: interrupt;
    jest: unicode filtered_out;
    node: filtered;
    vitest: flaky;
    playwright: fail;
    custom: junit junit_broken tap tap_empty hang unicode many many_one_fails;
    maestro: filtered;
    cypress: flaky;
}

/// Features of the row's report that other reports may lack and that an interface may present in its own form.
fn features(framework: &str, row: &Row) -> BTreeSet<String> {
    let optional = [
        ("covering", !row.covering.is_empty()),
        ("a command", !row.options.command.is_empty()),
        ("a filter", !row.options.filter.is_empty()),
        ("flaky tests", row.flaky > 0),
        ("hidden failures", row.tests.iter().any(|test| test.hidden)),
        ("many tests", row.numbered_passed.1 > 0),
        ("partial results", row.partial),
        ("running tests", !row.running.is_empty()),
        ("much output", row.output_bytes_min > 1_000_000),
    ];
    let present = optional.iter().filter(|(_, is_present)| *is_present);
    let present = present.map(|(feature, _)| format!("{} with {feature}", row.outcome));
    let common = [format!("framework {framework}"), format!("outcome {}", row.outcome)];
    let collectors = row.collectors.iter().map(|collector| format!("collector {}", collector.kind));
    let artifacts = row.artifacts.iter().map(|(kind, ..)| format!("artifact {kind}"));
    let tests = row.tests.iter().map(|test| format!("test {}", test.outcome));
    let limits = row.limit_hits.iter().map(|limit| format!("limit {limit}"));
    common.into_iter().chain(present).chain(collectors).chain(artifacts).chain(tests).chain(limits).collect()
}

#[test]
fn command_line_and_mcp_show_every_feature_of_a_report() {
    let features_of = |is_selected: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        let rows = TABLES.iter().flat_map(|(framework, rows)| rows.iter().map(move |row| (framework, row)));
        let selected = rows.filter(|(framework, row)| is_selected(&format!("{framework}/{}", row.name)));
        selected.flat_map(|(framework, row)| features(framework, row)).collect()
    };
    let all = features_of(&|_| true);
    let by_command_line = features_of(&|path| BY_COMMAND_LINE.contains(&path));
    let by_mcp = features_of(&|path| BY_MCP.contains(&path));
    let missing: Vec<_> = all.difference(&by_command_line).collect();
    assert!(missing.is_empty(), "add a row to `by_command_line!` that shows {missing:?}");
    // An agent's private supervisor runs each framework as that of the command line does.
    let missing: Vec<_> = all.difference(&by_mcp).filter(|feature| !feature.starts_with("framework ")).collect();
    assert!(missing.is_empty(), "add a row to `by_mcp!` that shows {missing:?}");
}

/// Fixtures without a row, for a reason given in their framework's table.
const FIXTURES_WITHOUT_ROW: &[&str] = &[
    "cargo/lines",
    "go/lines",
    "go/sample",
    "go/race",
    "jest/lines",
    "mocha/lines",
    "node/lines",
    "pytest/browser",
    "pytest/lines",
    "unittest/django",
    "unittest/lines",
    "vitest/lines",
];

#[test]
fn every_row_and_fixture_has_a_test() {
    for ((framework, rows), (named, names)) in TABLES.iter().zip(NAMES) {
        assert_eq!(framework, named);
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), *names);
        for fixture in std::fs::read_dir(source_root().join("fixtures").join(framework)).unwrap() {
            let fixture = format!("{framework}/{}", fixture.unwrap().file_name().to_str().unwrap());
            let has_row = rows.iter().any(|row| row.fixture == fixture);
            assert!(has_row || FIXTURES_WITHOUT_ROW.contains(&fixture.as_str()), "{fixture} has no row");
        }
    }
    assert_eq!(TABLES.len(), NAMES.len());
}

/// `.config/nextest.toml` gives a row that waits for its deadline one slot, and knows it by its name.
#[test]
fn rows_that_wait_for_their_deadline_are_named_hang() {
    for row in TABLES.iter().flat_map(|(_, rows)| rows.iter()) {
        assert_eq!(row.options.timeout_s.is_some(), row.name == "hang", "{}", row.fixture);
    }
}
