//! Runs every row of the outcome table through every interface: the command line, gRPC, and MCP with two independent
//! clients (rmcp and the Python SDK).

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests, which clippy treats as ordinary code"
)]

mod command_line;
mod cpu_slots;
mod django;
mod grpc;
mod mcp;
mod mcp_client;
mod mcp_texts;
mod oldest_javascript_runners;
mod pytest_playwright;
mod python_mcp_sdk;
mod wrapped_test_scripts;

use proctor_tests::expected::TABLES;
use proctor_tests::process::source_root;

// One test per row, so that rows run in parallel and a failure names its row. `make test` gives them more threads than
// processors, for rows that wait idly (see `cpu_slots`), and selects them by the prefix `by_` of their modules.
macro_rules! rows {
    ($($framework:ident: $($name:ident)*;)*) => {
        const NAMES: &[(&str, &[&str])] = &[$((stringify!($framework), &[$(stringify!($name)),*])),*];

        $(mod $framework {
            macro_rules! path { ($row:ident) => { concat!(stringify!($framework), "/", stringify!($row)) } }

            /// Rows through the command line.
            mod by_command_line {
                $(#[test] fn $name() {
                    let _slot = crate::cpu_slots::acquire_for(path!($name));
                    crate::command_line::check(path!($name));
                })*
            }

            /// Rows through gRPC.
            mod by_grpc {
                $(#[tokio::test] async fn $name() {
                    let _slot = crate::cpu_slots::acquire_for(path!($name));
                    crate::grpc::check(path!($name)).await;
                })*
            }

            /// Rows through MCP.
            mod by_mcp {
                $(#[tokio::test] async fn $name() {
                    let _slot = crate::cpu_slots::acquire_for(path!($name));
                    crate::mcp::check(path!($name)).await;
                })*
            }
        })*
    };
}

rows! {
    go: pass fail table panic crash exits_early builderror vet hang notests oom forkbomb orphan flood twomodules unicode
        shapes many filtered filtered_out command_passes command_fails command_crashes;
    pytest: pass hidden_failure fail error skip collection broken_conftest invalid_settings hang crash exits_early
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
        tap_all_skipped hang crash unicode many no_report project_file;
    maven: pass fail flaky modules builderror crash forged_report replaced_report exits_in_process attached_agent hang
        many filtered filtered_out;
    gradle: pass fail modules builderror configerror crash hang many filtered filtered_out;
    maestro: pass fail collection flaky hang crash unicode many filtered filtered_out;
    cypress: pass fail error skip collection flaky hang crash unicode many filtered filtered_out;
}

/// Fixtures without a row, for a reason given in their framework's table.
const FIXTURES_WITHOUT_ROW: &[&str] = &["go/race", "pytest/browser", "unittest/django"];

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
