//! The table of expected outcomes: every row over gRPC, and rows of every form by the command line and over MCP, with two
//! clients that we did not write.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod command_line;
mod django;
mod grpc;
mod mcp;
mod mcp_client;
mod mcp_texts;
mod oldest_javascript_runners;
mod pytest_playwright;
mod python_mcp_sdk;
mod wrapped_test_scripts;

use proctor_tests::expectation::Row;
use proctor_tests::expected::TABLES;
use proctor_tests::process::source_root;
use std::collections::BTreeSet;

// One test for each row, so that they run beside each other and a failure names its row. Each row is driven over gRPC; the
// other entrances show the same report in forms of their own, so they drive the rows of `FORMS`.
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

macro_rules! forms {
    ($($framework:ident: $($name:ident)*;)*) => {
        /// Rows that show each form that a report can have.
        const FORMS: &[&str] = &[$($(concat!(stringify!($framework), "/", stringify!($name))),*),*];

        mod by_command_line {
            $(mod $framework {
                $(#[test] fn $name() {
                    crate::command_line::check(concat!(stringify!($framework), "/", stringify!($name)));
                })*
            })*
        }

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
}

forms! {
    go: pass fail crash oom forkbomb flood command_passes command_crashes;
    pytest: fail skip crash hang many unicode filter_is_wrong;
    unittest: fail interrupt;
    jest: fail many unicode filtered_out;
    mocha: fail;
    node: fail filtered;
    vitest: fail flaky;
    playwright: fail;
    script: fail;
    cargo: fail;
    nextest: fail;
    ctest: fail;
    custom: junit junit_broken tap tap_of_nothing hang unicode;
    maven: fail;
    gradle: fail;
    maestro: fail filtered;
    cypress: fail flaky;
}

/// What a report of this row has that another may lack, and that an entrance may show in a form of its own.
fn features(framework: &str, row: &Row) -> BTreeSet<String> {
    let with = [
        ("covering", !row.covering.is_empty()),
        ("a command", !row.options.command.is_empty()),
        ("a filter", !row.options.filter.is_empty()),
        ("flaky tests", row.flaky > 0),
        ("hidden failures", row.tests.iter().any(|test| test.hidden)),
        ("many tests", row.many.1 > 0),
        ("partial results", row.partial),
        ("running tests", !row.running.is_empty()),
        ("much output", row.output_bytes_min > 1_000_000),
    ];
    let with = with.iter().filter(|(_, shown)| *shown).map(|(what, _)| format!("{} with {what}", row.outcome));
    let plain = [format!("framework {framework}"), format!("outcome {}", row.outcome)];
    let collectors = row.collectors.iter().map(|collector| format!("collector {}", collector.kind));
    let artifacts = row.artifacts.iter().map(|(kind, ..)| format!("artifact {kind}"));
    let tests = row.tests.iter().map(|test| format!("test {}", test.outcome));
    let hits = row.hits.iter().map(|limit| format!("limit {limit}"));
    plain.into_iter().chain(with).chain(collectors).chain(artifacts).chain(tests).chain(hits).collect()
}

#[test]
fn every_form_of_a_report_is_shown_at_every_entrance() {
    let features_of = |is_wanted: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
        let rows = TABLES.iter().flat_map(|(framework, rows)| rows.iter().map(move |row| (framework, row)));
        let wanted = rows.filter(|(framework, row)| is_wanted(&format!("{framework}/{}", row.name)));
        wanted.flat_map(|(framework, row)| features(framework, row)).collect()
    };
    let (all, shown) = (features_of(&|_| true), features_of(&|name| FORMS.contains(&name)));
    let missing: Vec<_> = all.difference(&shown).collect();
    assert!(missing.is_empty(), "add a row to `forms!` that shows {missing:?}");
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
