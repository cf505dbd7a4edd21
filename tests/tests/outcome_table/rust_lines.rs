//! The lines that each test of Rust executes: `cargo test` and cargo-nextest.

use crate::covering_tests::{Expected, check_covering};
use proctor_core::coverage::{Attribution, CoverageIndex};
use proctor_tests::process::{ProcessOutput, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::{Value, json};

const UNIT: &str = "lines";
const PROGRAM: &str = "lines::program";

/// What both runners measure.
const LINES: &[Expected<'_>] = &[
    // The beginning of a function, the branch of one test, and what follows it.
    ("src/lib.rs:4", &[(UNIT, &["tests::refunds", "tests::taxes"]), (PROGRAM, &["prints_a_price", "starts_nothing"])]),
    ("src/lib.rs:6", &[(UNIT, &["tests::refunds"])]),
    ("src/lib.rs:8", &[(UNIT, &["tests::taxes"]), (PROGRAM, &["prints_a_price", "starts_nothing"])]),
    ("src/lib.rs:12", &[(UNIT, &["tests::refunds"])]),
    // A generic function, of two types.
    ("src/lib.rs:20", &[(UNIT, &["tests::first_is_largest", "tests::last_is_largest"])]),
    ("src/lib.rs:21", &[(UNIT, &["tests::last_is_largest"])]),
    // Executed by an ignored test and by a documentation test only, and no statement.
    ("src/lib.rs:29", &[]),
    ("src/lib.rs:36", &[]),
    ("src/lib.rs:10", &[]),
    // The program that a test starts, by itself and through a shell.
    ("src/main.rs:4", &[(PROGRAM, &["asks_for_a_price", "prints_a_price"])]),
    ("src/main.rs:6", &[(PROGRAM, &["prints_a_price"])]),
    ("src/main.rs:7", &[(PROGRAM, &["asks_for_a_price"])]),
    ("tests/program.rs:7", &[(PROGRAM, &["prints_a_price"])]),
];

fn proctor(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    wait_for_exit(workspace.command("proctor").args(arguments).spawn().unwrap())
}

fn check(workspace: &TestWorkspace, table: &[Expected<'_>]) {
    check_covering(table, |place| proctor(workspace, &["covering", place]));
}

fn run(workspace: &TestWorkspace, arguments: &[&str]) -> Value {
    let output = proctor(workspace, &[&["run", "--output", "json"], arguments].concat());
    let report = output.json();
    assert_eq!((output.status, &report["outcome"]), (0, &json!("passed")), "{output:?}");
    report
}

fn index(workspace: &TestWorkspace) -> CoverageIndex {
    let entries = std::fs::read_dir(workspace.root().join("state/proctor")).unwrap();
    let mut stored = entries.map(|entry| entry.unwrap().path().join("memory.json"));
    let memory = std::fs::read(stored.find(|file| file.exists()).unwrap()).unwrap();
    let memory: Value = serde_json::from_slice(&memory).unwrap();
    serde_json::from_value(memory["coverage"].clone()).unwrap()
}

/// The outcome of each test by its node id.
fn outcomes(report: &Value) -> Vec<(String, String)> {
    let text = |test: &Value, key: &str| test[key].as_str().unwrap().to_owned();
    let tests = report["tests"].as_array().unwrap().iter();
    let mut outcomes: Vec<(String, String)> = tests.map(|test| (text(test, "nodeid"), text(test, "outcome"))).collect();
    outcomes.sort();
    outcomes
}

fn files(workspace: &TestWorkspace) -> Vec<String> {
    let mut directories = vec![workspace.path.clone()];
    let mut files = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { files.push(path.display().to_string()) }
        }
    }
    files.sort();
    files
}

#[test]
fn measures_each_test_of_cargo_and_changes_no_outcome() {
    let workspace = TestWorkspace::with_fixture("cargo/lines");
    let before = files(&workspace);
    let plain = run(&workspace, &["--coverage", "off"]);
    let report = run(&workspace, &[]);
    assert_eq!((outcomes(&report), report["coverage"]["measured"].clone()), (outcomes(&plain), json!(true)));
    assert_eq!(outcomes(&report).len(), 10, "{report}");
    let notes = [
        "2 test(s) started processes, of which only lines of the workspace's own programs are measured: asks_for_a_price \
         of lines::program, prints_a_price of lines::program",
        "coverage of documentation tests is not measured",
    ];
    assert_eq!(report["coverage"]["notes"], json!(notes));
    check(&workspace, LINES);
    // A program with a harness of its own.
    check(&workspace, &[("tests/whole.rs:4", &[("lines::whole", &["whole"])])]);
    let index = index(&workspace);
    let attribution = |file, line| index.covering(file, Some(line)).attribution;
    assert_eq!(attribution("src/lib.rs", 8), Some(Attribution::Test));
    assert_eq!(attribution("tests/whole.rs", 4), Some(Attribution::Package));
    assert_eq!(files(&workspace), before, "no profile in the workspace");
}

#[test]
fn measures_each_test_of_nextest() {
    let workspace = TestWorkspace::with_fixture("cargo/lines");
    let report = run(&workspace, &["--framework", "nextest", "--parallel", "1"]);
    assert_eq!(report["coverage"]["measured"], true, "{report}");
    check(&workspace, LINES);
}

#[test]
fn tests_that_run_at_the_same_time_share_their_lines() {
    let workspace = TestWorkspace::with_fixture("cargo/lines");
    let report = run(&workspace, &["--parallel", "2", "--file", "src/lib.rs"]);
    let note = "coverage of lines, lines::program is known by package, not by test: its tests ran at the same time";
    let notes = report["coverage"]["notes"].as_array().unwrap();
    assert!(notes.contains(&json!(note)), "{notes:?}");
    let covering = index(&workspace).covering("src/lib.rs", Some(21));
    let names: Vec<&str> = covering.tests.iter().map(|test| test.name.as_str()).collect();
    assert_eq!(covering.attribution, Some(Attribution::Package));
    assert!(names.contains(&"tests::last_is_largest") && names.contains(&"tests::refunds"), "{names:?}");
}

#[test]
fn a_process_with_a_small_limit_on_files_ends_as_it_would_and_prints_nothing_more() {
    let workspace = TestWorkspace::with_fixture("cargo/lines");
    let test = r#"
#[test]
fn prints_within_its_limit() {
    let program = env!("CARGO_BIN_EXE_lines");
    let output = std::process::Command::new("sh").args(["-c", "ulimit -f 1; exec \"$0\" 100", program]).output();
    let output = output.unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..], output.status.code()), (&b"120\n"[..], &b""[..], Some(0)));
}
"#;
    std::fs::write(workspace.path.join("tests/limited.rs"), test).unwrap();
    let report = run(&workspace, &["--file", "tests/limited.rs"]);
    assert_eq!((&report["coverage"]["measured"], outcomes(&report).len()), (&json!(true), 1), "{report}");
}

#[test]
fn a_program_of_the_projects_own_before_rustc_stays_and_nothing_is_measured() {
    let workspace = TestWorkspace::with_fixture("cargo/lines");
    std::fs::create_dir(workspace.path.join(".cargo")).unwrap();
    let settings = "[build]\nrustc-workspace-wrapper = \"/usr/bin/env\"\n";
    std::fs::write(workspace.path.join(".cargo/config.toml"), settings).unwrap();
    let report = run(&workspace, &[]);
    let note = "coverage is not measured: the project sets a `rustc-workspace-wrapper` of its own";
    assert_eq!((&report["coverage"]["measured"], outcomes(&report).len()), (&json!(false), 10), "{report}");
    assert!(report["evidence"]["notes"].as_array().unwrap().contains(&json!(note)), "{report}");
}

/// Ten tests that wait for three seconds each: one at a time where lines are measured, side by side where they are not.
fn waiting_tests() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    let manifest = "[package]\nname = \"waits\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ndoctest = false\n";
    write_before_run(&workspace.path, "Cargo.toml", manifest);
    let head = "pub fn waits() {\n    std::thread::sleep(std::time::Duration::from_secs(3));\n}\n\n#[cfg(test)]\nmod tests {\n";
    let test = |number| format!("    #[test]\n    fn waits_{number}() {{\n        super::waits();\n    }}\n");
    let tests: String = (0..10).map(test).collect();
    write_before_run(&workspace.path, "src/lib.rs", &format!("{head}{tests}}}\n"));
    workspace
}

#[test]
fn measures_not_every_run_of_tests_that_it_makes_much_slower() {
    let workspace = waiting_tests();
    let measured = |arguments: &[&str]| {
        let report = run(&workspace, arguments);
        let notes = report["evidence"]["notes"].to_string();
        (report["coverage"]["measured"] == true, notes)
    };
    assert!(measured(&[]).0);
    let (is_measured, notes) = measured(&[]);
    // Not the figure: it counts from when the output of the first test was read, which is late on a busy machine.
    assert!(!is_measured && notes.contains("to learn what measuring costs: with it, the tests took "), "{notes}");
    let (is_measured, notes) = measured(&[]);
    assert!(!is_measured && notes.contains("so that one run of all tests in 5 measures them"), "{notes}");
    assert!(measured(&["--test", "tests::waits_1"]).0, "a run of some tests measures");
    // What the run of all tests measured still holds.
    let tests: Vec<String> = (0..10).map(|number| format!("tests::waits_{number}")).collect();
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    check(&workspace, &[("src/lib.rs:2", &[("waits", &tests)])]);
}
