//! The whole table through every entrance: the command line, gRPC, and MCP with two clients that we did not write. Must not
//! know what is expected; that is the table's.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

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

// One test for each row, so that they run beside each other and a failure names its row. `make test` gives them more threads than
// there are processors, for those that wait (see `turn`), and knows them by their modules' names, `by_`.
macro_rules! rows {
    ($($framework:ident: $($name:ident)*;)*) => {
        const NAMES: &[(&str, &[&str])] = &[$((stringify!($framework), &[$(stringify!($name)),*])),*];

        $(mod $framework {
            macro_rules! path { ($row:ident) => { concat!(stringify!($framework), "/", stringify!($row)) } }

            /// Rows of the table through the command line.
            mod by_command_line {
                $(#[test] fn $name() {
                    let _slot = crate::cpu_slots::acquire_for(path!($name));
                    crate::command_line::check(path!($name));
                })*
            }

            /// The same through gRPC.
            mod by_grpc {
                $(#[tokio::test] async fn $name() {
                    let _slot = crate::cpu_slots::acquire_for(path!($name));
                    crate::grpc::check(path!($name)).await;
                })*
            }

            /// The same through MCP.
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
    go: pass fail table panic crash undone builderror vet hang notests oom forkbomb orphan flood twomodules unicode shapes many
        filtered filtered_out command_passes command_fails command_crashes;
    pytest: pass swallows fail error skip collection conftest settings hang crash stops halts breaks setuponly workers unlike unicode many twoprojects
        flaky doctest filtered filtered_out filter_is_wrong;
    unittest: pass fail error skip collection hang crash interrupt stops unicode moves brought loads others functions many
        filtered filtered_out;
    jest: pass fail error skip collection typescript flaky spies bail hang late crash unicode many filtered filtered_out;
    mocha: pass fail error skip collection teardown twice flaky spies bail hang crash leaves unicode many filtered filtered_out;
    node: pass fail error skip collection late hang crash leaves loading vanishes unicode many filtered helper helper_filtered_out filtered_out;
    vitest: pass fail error skip collection unhandled excluded flaky teardown hang crash unicode many filtered filtered_out;
    playwright: pass fail error skip flaky collection setup hang crash unicode many filtered filtered_out;
    script: pass fail;
    cargo: pass fail skip builderror buildscript hang crash unicode harness many filtered filtered_out;
    nextest: pass fail error skip builderror hang crash unicode many filtered filtered_out;
    ctest: pass fail error skip suites builderror linkerror configerror hang crash whole notests flood unicode many twins twoprojects
        filtered filtered_out;
    custom: junit junit_cut_off tap tap_whose_plan_comes_last words words_of_a_command_that_exits_with_0
        junit_broken tap_of_nothing tap_of_skips hang crash unicode many no_report projectfile;
    maven: pass fail flaky modules builderror crash forges replaces ends attaches hang many filtered filtered_out;
    gradle: pass fail modules builderror configerror crash hang many filtered filtered_out;
    maestro: pass fail collection flaky hang crash unicode many filtered filtered_out;
    cypress: pass fail error skip collection flaky hang crash unicode many filtered filtered_out;
    rspec: pass bundled fail error teardown suite skip collection stops dryrun hang crash unicode many filters filtered filtered_out;
    phpunit: pass composer fail error teardown bootstrap skip collection stops risky hang crash unicode many filters filtered filtered_out;
}

/// Fixtures that are in no row, for a reason that their framework's table gives.
const ASIDE: &[&str] = &["go/race", "pytest/browser", "unittest/django"];

#[test]
fn every_row_and_every_fixture_is_driven() {
    for ((framework, rows), (named, names)) in TABLES.iter().zip(NAMES) {
        assert_eq!(framework, named);
        assert_eq!(rows.iter().map(|row| row.name).collect::<Vec<_>>(), *names);
        for fixture in std::fs::read_dir(source_root().join("fixtures").join(framework)).unwrap() {
            let fixture = format!("{framework}/{}", fixture.unwrap().file_name().to_str().unwrap());
            let known = rows.iter().any(|row| row.fixture == fixture);
            assert!(known || ASIDE.contains(&fixture.as_str()), "{fixture} is in no row");
        }
    }
    assert_eq!(TABLES.len(), NAMES.len());
}
