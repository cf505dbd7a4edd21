//! Which tests changes affect: selected, run and left out the same way at all entrances, against real runners.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{AffectedTestsRequest, Outcome, Report, RunAffectedTestsRequest, RunTestsRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::process::search_path_with_newest_node;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree, copy, link_node_packages, write_before_run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tonic::{Code, Status};
use tonic_types::StatusExt;

const A: &str = "package a\n\nconst N = 1\n\nfunc F() int {\n\treturn N\n}\n";

/// Three packages: b calls a, and c stands alone.
const GO: [(&str, &str); 8] = [
    ("go.mod", "module example.com/m\n\ngo 1.21\n"),
    ("README.md", "A module.\n"),
    ("a/a.go", A),
    (
        "a/a_test.go",
        "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif F() < 0 {\n\t\tt.Fatal(F())\n\t}\n}\n",
    ),
    ("b/b.go", "package b\n\nimport \"example.com/m/a\"\n\nfunc G() int {\n\treturn a.F()\n}\n"),
    (
        "b/b_test.go",
        "package b\n\nimport \"testing\"\n\nfunc TestB(t *testing.T) {\n\tif G() > 5 {\n\t\tt.Fatalf(\"got %d\", G())\n\t}\n}\n",
    ),
    ("c/c.go", "package c\n\nfunc H() int {\n\treturn 3\n}\n"),
    ("c/c_test.go", "package c\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) {\n\tH()\n}\n"),
];

fn write_all(workspace: &Path, files: &[(&str, &str)]) {
    files.iter().for_each(|(file, content)| write_before_run(workspace, file, content));
}

fn go_workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    write_all(&workspace.path, &GO);
    workspace
}

/// What `proctor affected` answers: `full: …`, or the names with their reasons in order.
fn affected(workspace: &TestWorkspace, since: &str) -> String {
    let answer = workspace.proctor(&["affected", since, "--output", "json"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    let document = answer.json();
    if let Some(reason) = document["affected"]["full_reason"].as_str() {
        return format!("full: {reason}");
    }
    let test = |test: &Value| format!("{} {}", test["name"].as_str().unwrap(), test["reason"].as_str().unwrap());
    let tests: Vec<String> = document["tests"].as_array().unwrap().iter().map(test).collect();
    let new = document["new_units"].as_array().unwrap().iter().map(|unit| format!("new {}", unit.as_str().unwrap()));
    tests.into_iter().chain(new).collect::<Vec<_>>().join(", ")
}

/// The JSON report of a run of affected tests.
fn run_affected(workspace: &TestWorkspace, status: i32) -> Value {
    let ran = workspace.proctor(&["run", "--affected", "--output", "json"]);
    assert_eq!(ran.status, status, "{ran:?}");
    ran.json()
}

fn names(report: &Value) -> Vec<String> {
    let mut names: Vec<String> =
        report["tests"].as_array().unwrap().iter().map(|test| test["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn go_tests_follow_lines_imports_and_settings() {
    let workspace = go_workspace();
    let path = &workspace.path;
    assert!(affected(&workspace, "last_run").starts_with("full: no run of all tests has ended here"));
    let first = run_affected(&workspace, 0);
    assert_eq!(names(&first), ["TestA", "TestB", "TestC"], "nothing is known yet, so all run: {first}");
    assert!(first["affected"]["full_reason"].as_str().unwrap().starts_with("no run of all tests"), "{first}");
    assert_eq!(affected(&workspace, "last_run"), "", "the full run is the new state");

    write_before_run(path, "a/a.go", &A.replace("return N", "return N + 1"));
    let executed = "TestA executed a changed line: a/a.go, TestB executed a changed line: a/a.go";
    assert_eq!(affected(&workspace, "last_run"), executed);
    let some = run_affected(&workspace, 0);
    assert_eq!(names(&some), ["TestA", "TestB"]);
    assert_eq!(
        (&some["outcome"], &some["affected"]["selected"], &some["affected"]["left_out"]),
        (&json!("passed"), &json!(2), &json!(1))
    );
    assert!(some["affected"]["safe_because"].as_str().unwrap().contains("1 test(s) left out"), "{some}");
    let nothing = run_affected(&workspace, 0);
    assert_eq!((&nothing["nothing_ran"], &nothing["outcome"]), (&json!("NOTHING_AFFECTED"), &json!(null)));
    let human = workspace.proctor(&["run", "--affected"]);
    assert!(human.status == 0 && human.stdout.starts_with("no test is affected by what changed since"), "{human:?}");

    write_before_run(path, "a/a.go", &A.replace("N = 1", "N = 2"));
    let imported = "TestA own file or package changed: a/a.go, TestB imports a changed file: a/a.go";
    assert_eq!(affected(&workspace, "last_run"), imported, "a constant has no line that is measured");
    let human = workspace.proctor(&["run", "--affected"]);
    assert!(human.status == 0 && human.stdout.contains("2 passed, 2 affected of 3 (go"), "{human:?}");
    assert!(human.stdout.contains("\n1 left out: ") && human.stdout.contains("next: proctor run\n"), "{human:?}");

    write_before_run(path, "c/more_test.go", "package c\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {}\n");
    assert_eq!(affected(&workspace, "last_run"), "TestC own file or package changed: c/more_test.go");
    assert_eq!(names(&run_affected(&workspace, 0)), ["TestC", "TestMore"]);
    fs::remove_file(path.join("c/more_test.go")).unwrap();
    assert_eq!(names(&run_affected(&workspace, 0)), ["TestC"]);
    assert_eq!(affected(&workspace, "last_run"), "", "the removed test is forgotten");

    write_before_run(path, "README.md", "Another text.\n");
    assert_eq!(affected(&workspace, "last_run"), "", "no source names it");
    write_before_run(path, "b/testdata/in.txt", "1");
    assert_eq!(affected(&workspace, "last_run"), "full: b/testdata/in.txt was added, and any test may read it");
    fs::remove_dir_all(path.join("b/testdata")).unwrap();
    write_before_run(path, "go.mod", "module example.com/m\n\ngo 1.22\n");
    assert_eq!(affected(&workspace, "last_run"), "full: go.mod, a build file, was changed");
    let all = run_affected(&workspace, 0);
    assert_eq!(
        (names(&all), &all["affected"]["left_out"]),
        (vec!["TestA".into(), "TestB".into(), "TestC".into()], &json!(0))
    );
    fs::remove_dir_all(path.join("c")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), "", "nobody imports what is gone");
}

#[test]
fn tests_that_changed_in_a_run_without_coverage_run_with_any_change() {
    let workspace = go_workspace();
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    // What its test executes may have changed with this edit, and nothing measured it. What other tests execute has not.
    write_before_run(&workspace.path, "c/c.go", "package c\n\nfunc H() int {\n\treturn 4\n}\n");
    assert_eq!(workspace.proctor(&["run", "--coverage", "off"]).status, 0);
    let unknown = "TestC what it executes is not known";
    assert_eq!(affected(&workspace, "last_run"), unknown);
    // A run of affected tests has the settings of the last request.
    assert_eq!(names(&run_affected(&workspace, 0)), ["TestC"]);
    write_before_run(&workspace.path, "a/a.go", &A.replace("return N", "return N + 1"));
    let executed = ["TestA", "TestB"].map(|test| format!("{test} executed a changed line: a/a.go"));
    assert_eq!(affected(&workspace, "last_run"), [&executed[..], &[unknown.to_owned()]].concat().join(", "));
    assert_eq!(workspace.proctor(&["run", "--coverage", "on"]).status, 0);
    assert_eq!(affected(&workspace, "last_run"), "", "measured again");
}

#[test]
fn a_run_of_some_tests_at_other_files_hides_nothing() {
    let workspace = go_workspace();
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    let calling = GO[4].1;
    // Here the test does not execute what it executes at the files of the run of all tests.
    write_before_run(&workspace.path, "b/b.go", "package b\n\nfunc G() int {\n\treturn 1\n}\n");
    assert_eq!(workspace.proctor(&["run", "--file", "b/b_test.go"]).status, 0);
    write_before_run(&workspace.path, "b/b.go", calling);
    assert_eq!(affected(&workspace, "last_run"), "", "undone");
    write_before_run(&workspace.path, "a/a.go", &A.replace("return N", "return N + 9"));
    let executed = ["TestA", "TestB"].map(|test| format!("{test} executed a changed line: a/a.go"));
    assert_eq!(affected(&workspace, "last_run"), executed.join(", "));
    let ran = run_affected(&workspace, 1);
    assert_eq!((names(&ran), &ran["summary"]["failed"]), (vec!["TestA".into(), "TestB".into()], &json!(1)));
}

/// Tests of `a` that call a function of `f` or of `g`, and no product code in `a`.
fn test_of_go(name: &str, call: &str) -> String {
    let of = call.split('.').next().unwrap();
    format!(
        "package a\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/{of}\"\n)\n\nfunc {name}(t *testing.T) {{\n\tif {call}() != 1 {{\n\t\tt.Fatal({call}())\n\t}}\n}}\n"
    )
}

/// A source and a test for each of two packages, and a test that calls the first one's function.
fn two_functions() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    write_before_run(&workspace.path, "go.mod", "module example.com/m\n\ngo 1.21\n");
    for (package, name) in [("f", "F"), ("g", "G")] {
        let source = format!("package {package}\n\nfunc {name}() int {{\n\treturn 1\n}}\n");
        let test = format!(
            "package {package}\n\nimport \"testing\"\n\nfunc Test{name}(t *testing.T) {{\n\tif {name}() < 0 {{\n\t\tt.Fatal()\n\t}}\n}}\n"
        );
        write_before_run(&workspace.path, &format!("{package}/{package}.go"), &source);
        write_before_run(&workspace.path, &format!("{package}/{package}_test.go"), &test);
    }
    write_before_run(&workspace.path, "a/a_test.go", &test_of_go("TestOne", "f.F"));
    workspace
}

/// Runs all tests, without coverage if `plain`.
fn run_all(workspace: &TestWorkspace, plain: bool, status: i32) {
    let ran = workspace.proctor(if plain { &["run", "--coverage", "off"] } else { &["run"] });
    assert_eq!(ran.status, status, "{ran:?}");
}

const BROKEN_G: &str = "package g\n\nfunc G() int {\n\treturn 2\n}\n";

#[test]
fn a_test_that_missed_a_run_without_coverage_is_not_known_any_more() {
    let workspace = two_functions();
    let path = &workspace.path;
    for [between, at_last] in [
        // It has another name meanwhile, or is gone, or is skipped.
        [Some(test_of_go("TestTwo", "f.F")), Some(test_of_go("TestOne", "g.G"))],
        [None, Some(test_of_go("TestOne", "g.G"))],
        [Some(test_of_go("TestOne", "f.F").replace("\tif", "\tt.Skip()\n\tif")), Some(test_of_go("TestOne", "g.G"))],
        // It is new.
        [Some(test_of_go("TestTwo", "g.G")), None],
    ] {
        write_before_run(path, "a/a_test.go", &test_of_go("TestOne", "f.F"));
        run_all(&workspace, false, 0);
        for test in [&between, &at_last] {
            match test {
                Some(test) => write_before_run(path, "a/a_test.go", test),
                None if at_last.is_none() => continue,
                None => fs::remove_file(path.join("a/a_test.go")).unwrap(),
            }
            run_all(&workspace, true, 0);
        }
        let (unbroken, name) =
            (fs::read_to_string(path.join("g/g.go")).unwrap(), if at_last.is_none() { "TestTwo" } else { "TestOne" });
        write_before_run(path, "g/g.go", BROKEN_G);
        let selected = affected(&workspace, "last_run");
        assert!(
            selected.contains(&format!("{name} what it executes is not known")),
            "{between:?} {at_last:?}: {selected}"
        );
        write_before_run(path, "g/g.go", &unbroken);
    }
}

#[test]
fn a_pass_at_other_files_is_none_at_those_of_the_last_run_of_all_tests() {
    let workspace = two_functions();
    let path = &workspace.path;
    let source = fs::read_to_string(path.join("f/f.go")).unwrap();
    write_before_run(path, "f/f.go", &source.replace("return 1", "return 3"));
    run_all(&workspace, false, 1);
    write_before_run(path, "f/f.go", &source);
    assert_eq!(workspace.proctor(&["run", "--failed"]).status, 0);
    write_before_run(path, "f/f.go", &source.replace("return 1", "return 3"));
    assert_eq!(affected(&workspace, "last_run"), "TestOne failed last time");
    write_before_run(path, "g/g.go", BROKEN_G);
    assert_eq!(run_affected(&workspace, 1)["outcome"], "failed");
}

#[test]
fn a_skip_in_a_run_of_some_tests_hides_no_failure() {
    let workspace = two_functions();
    let path = &workspace.path;
    let failing = "\n\nfunc TestFails(t *testing.T) {\n\tt.Fatal()\n}\n";
    let tests = fs::read_to_string(path.join("f/f_test.go")).unwrap();
    write_before_run(path, "f/f_test.go", &format!("{tests}{failing}"));
    run_all(&workspace, false, 1);
    write_before_run(path, "f/f_test.go", &format!("{tests}{}", failing.replace("t.Fatal()", "t.Skip()")));
    assert_eq!(workspace.proctor(&["run", "--file", "f/f_test.go"]).status, 0);
    write_before_run(path, "f/f_test.go", &format!("{tests}{failing}"));
    assert_eq!(affected(&workspace, "last_run"), "TestFails failed last time");
}

#[test]
fn a_command_of_its_own_leaves_what_is_known_of_tests() {
    let workspace = two_functions();
    run_all(&workspace, false, 0);
    assert_eq!(workspace.proctor(&["run", "--", "true"]).status, 0);
    assert_eq!(workspace.proctor(&["run", "--file", "f/f_test.go"]).status, 0);
    write_before_run(&workspace.path, "g/g.go", BROKEN_G);
    assert_eq!(affected(&workspace, "last_run"), "TestG executed a changed line: g/g.go");
}

#[test]
fn a_run_with_another_environment_hides_nothing() {
    let workspace = two_functions();
    let path = &workspace.path;
    let by_mode = "package f\n\nimport (\n\t\"os\"\n\n\t\"example.com/m/g\"\n)\n\nfunc F() int {\n\tif os.Getenv(\"MODE\") == \"x\" {\n\t\treturn 1\n\t}\n\treturn g.G()\n}\n";
    write_before_run(path, "f/f.go", by_mode);
    run_all(&workspace, false, 0);
    assert_eq!(workspace.proctor(&["run", "--env", "MODE=x", "--file", "a/a_test.go"]).status, 0);
    assert_eq!(workspace.proctor(&["run", "--file", "g/g_test.go"]).status, 0);
    write_before_run(path, "g/g.go", BROKEN_G);
    let selected = affected(&workspace, "last_run");
    assert!(selected.contains("TestOne executed a changed line: g/g.go"), "{selected}");
}

#[test]
fn an_edit_undone_since_the_last_run_counts_for_earlier_states() {
    let workspace = two_functions();
    let path = &workspace.path;
    let calling = "package f\n\nimport \"example.com/m/g\"\n\nfunc F() int {\n\treturn g.G()\n}\n";
    write_before_run(path, "f/f.go", calling);
    run_all(&workspace, false, 0);
    // The lines are those of this state.
    write_before_run(path, "f/f.go", "package f\n\nfunc F() int {\n\treturn 2\n}\n");
    run_all(&workspace, false, 1);
    write_before_run(path, "f/f.go", calling);
    write_before_run(path, "g/g.go", BROKEN_G);
    let selected = affected(&workspace, "last_green");
    for test in ["TestOne", "TestF", "TestG"] {
        assert!(selected.contains(test), "{test}: {selected}");
    }
}

const PRICE: &str = "pub const RATE: u32 = 5;

pub fn tax(price: u32) -> u32 {
    price / RATE
}

pub fn refund(price: u32) -> u32 {
    price
}

#[cfg(test)]
mod tests {
    #[test]
    fn taxes() {
        assert_eq!(super::tax(50), 10);
    }

    #[test]
    fn refunds() {
        assert_eq!(super::refund(3), 3);
    }
}
";

/// Three packages: cart calls price, and shop stands alone.
const RUST: [(&str, &str); 9] = [
    ("Cargo.toml", "[workspace]\nmembers = [\"price\", \"cart\", \"shop\"]\nresolver = \"2\"\n"),
    (
        "Cargo.lock",
        "# This file is automatically @generated by Cargo.\n# It is not intended for manual editing.\nversion = 3\n\n[[package]]\nname = \"cart\"\nversion = \"0.1.0\"\ndependencies = [\n \"price\",\n]\n\n[[package]]\nname = \"price\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"shop\"\nversion = \"0.1.0\"\n",
    ),
    ("price/Cargo.toml", "[package]\nname = \"price\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    ("price/src/lib.rs", PRICE),
    (
        "cart/Cargo.toml",
        "[package]\nname = \"cart\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[dependencies]\nprice = { path = \"../price\" }\n",
    ),
    ("cart/src/lib.rs", "pub fn total(price: u32) -> u32 {\n    price + price::tax(price)\n}\n"),
    ("cart/tests/it.rs", "#[test]\nfn pays() {\n    assert_eq!(cart::total(10), 12);\n}\n"),
    ("shop/Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
    (
        "shop/src/lib.rs",
        "pub fn is_open() -> bool {\n    true\n}\n\n#[test]\nfn opens() {\n    assert!(is_open());\n}\n",
    ),
];

fn rust_targets_follow_functions_and_manifests(framework: &str) {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(path, &RUST);
    write_before_run(path, ".proctor.yaml", &format!("framework: {framework}\n"));
    assert_eq!(names(&run_affected(&workspace, 0)), ["opens", "pays", "tests::refunds", "tests::taxes"]);
    assert_eq!(affected(&workspace, "last_run"), "");

    // What executed the function, and the other test of the same target.
    write_before_run(path, "price/src/lib.rs", &PRICE.replace("    price\n", "    price + 1\n"));
    let function = "its file, package or target executed a changed function: price/src/lib.rs";
    let refunds = "tests::refunds executed a changed line: price/src/lib.rs";
    assert_eq!(affected(&workspace, "last_run"), format!("{refunds}, tests::taxes {function}"));
    let some = run_affected(&workspace, 1);
    assert_eq!(names(&some), ["tests::refunds", "tests::taxes"]);
    assert_eq!((&some["affected"]["selected"], &some["affected"]["left_out"]), (&json!(2), &json!(2)));

    write_before_run(path, "price/src/lib.rs", PRICE);
    assert_eq!(names(&run_affected(&workspace, 0)), ["tests::refunds", "tests::taxes"]);
    write_before_run(path, "price/src/lib.rs", &PRICE.replace("    price / RATE\n", "    price / RATE + 1\n"));
    let taxes = ["pays", "tests::taxes"].map(|test| format!("{test} executed a changed line: price/src/lib.rs"));
    assert_eq!(affected(&workspace, "last_run"), format!("{}, tests::refunds {function}", taxes.join(", ")));
    assert_eq!(names(&run_affected(&workspace, 1)), ["pays", "tests::refunds", "tests::taxes"]);

    // A constant has no line that is measured.
    write_before_run(path, "price/src/lib.rs", PRICE);
    assert_eq!(names(&run_affected(&workspace, 0)), ["pays", "tests::refunds", "tests::taxes"]);
    write_before_run(path, "price/src/lib.rs", &PRICE.replace("RATE: u32 = 5", "RATE: u32 = 1 + 4"));
    let own =
        ["tests::refunds", "tests::taxes"].map(|test| format!("{test} own file or package changed: price/src/lib.rs"));
    // The library of cart has no test so far, and may have one now.
    let imports = "pays imports a changed file: price/src/lib.rs, new cart";
    assert_eq!(affected(&workspace, "last_run"), format!("{}, {imports}", own.join(", ")));
    assert_eq!(names(&run_affected(&workspace, 0)), ["pays", "tests::refunds", "tests::taxes"]);

    write_before_run(path, "cart/tests/more.rs", "#[test]\nfn more() {}\n");
    assert!(
        affected(&workspace, "last_run").starts_with("full: cart/tests/more.rs was added, and it may be a test file")
    );
    assert!(names(&run_affected(&workspace, 0)).contains(&"more".to_owned()));
    write_before_run(path, "shop/data.json", "{}");
    assert_eq!(affected(&workspace, "last_run"), "full: shop/data.json was added, and any test may read it");
}

#[test]
fn targets_of_cargo_follow_functions_and_manifests() {
    rust_targets_follow_functions_and_manifests("cargo");
}

#[test]
fn targets_of_nextest_follow_functions_and_manifests() {
    rust_targets_follow_functions_and_manifests("nextest");
}

#[test]
fn what_failed_runs_again_and_a_filtered_run_leaves_the_rest_to_run() {
    let workspace = go_workspace();
    let path = &workspace.path;
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "a/a.go", &A.replace("return N", "return N + 7"));
    assert_eq!(workspace.proctor(&["run", "--filter", "TestA"]).status, 0);
    assert!(
        affected(&workspace, "last_run").contains("TestB executed a changed line"),
        "it has not run since the edit"
    );
    let failed = run_affected(&workspace, 1);
    assert_eq!((&failed["outcome"], names(&failed)), (&json!("failed"), vec!["TestA".into(), "TestB".into()]));
    assert_eq!(affected(&workspace, "last_run"), "TestB failed last time");
    let since_green = affected(&workspace, "last_green");
    assert!(since_green.starts_with("TestB failed last time, TestA executed a changed line"), "{since_green}");
    write_before_run(path, "a/a.go", A);
    let repaired = run_affected(&workspace, 0);
    assert_eq!((&repaired["outcome"], names(&repaired)), (&json!("passed"), vec!["TestA".into(), "TestB".into()]));
    assert_eq!(affected(&workspace, "last_green"), "", "every test has passed for these files");

    assert_eq!(workspace.proctor(&["run", "--filter", "TestC", "--env", "MODE=other"]).status, 0);
    let other = affected(&workspace, "last_run");
    assert!(other.starts_with("full: the environment variables of the last run differ"), "{other}");
    let broken = "package a\n\nfunc F() int {\n";
    write_before_run(path, "a/a.go", broken);
    let built = workspace.proctor(&["run", "--affected", "--output", "json"]);
    assert_eq!((built.status, built.json()["outcome"].as_str()), (3, Some("build_failed")), "{built:?}");
}

#[test]
fn lines_of_a_measurement_move_along_later_edits() {
    let workspace = go_workspace();
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(&workspace.path, "a/a.go", &A.replace("const N", "// One,\n// two lines.\nconst N"));
    let covering = |line: &str| workspace.proctor(&["covering", line]).stdout;
    let moved = covering("a/a.go:8");
    assert!(moved.contains("TestA") && moved.contains("TestB"), "{moved}");
    assert!(
        moved.ends_with("a/a.go has changed since it was measured: the line was looked up where it was then\n"),
        "{moved}"
    );
    assert!(covering("a/a.go:3").starts_with("no coverage found for a/a.go:3"), "the line is new");
}

#[test]
fn python_tests_follow_imports_conftest_and_settings() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(
        path,
        &[
            ("requirements.txt", "pytest\n"),
            ("shop/__init__.py", ""),
            ("shop/price.py", "def total():\n    return 1\n"),
            ("shop/cart.py", "from shop import price\n\ndef add():\n    return price.total()\n"),
            ("tests/test_cart.py", "from shop.cart import add\n\ndef test_cart():\n    assert add()\n"),
            ("tests/test_alone.py", "def test_alone():\n    pass\n"),
            ("tests/sub/conftest.py", ""),
            ("tests/sub/test_sub.py", "def test_sub():\n    pass\n"),
            ("conftest.py", ""),
        ],
    );
    // Where nothing is measured, imports decide.
    run_all(&workspace, true, 0);
    assert_eq!(affected(&workspace, "last_run"), "");
    write_before_run(path, "shop/price.py", "def total():\n    return 2\n");
    assert_eq!(affected(&workspace, "last_run"), "test_cart imports a changed file: shop/price.py");
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["test_cart".into()], &json!(2)));
    write_before_run(path, "tests/sub/conftest.py", "import json\n");
    assert_eq!(affected(&workspace, "last_run"), "test_sub set up by a changed file: tests/sub/conftest.py");
    write_before_run(path, "tests/test_new.py", "def test_new():\n    pass\n");
    assert_eq!(names(&run_affected(&workspace, 0)), ["test_new", "test_sub"]);
    write_before_run(path, "shop/price.py", "def total():\n    return 0\n");
    assert_eq!(names(&run_affected(&workspace, 1)), ["test_cart"]);
    assert_eq!(affected(&workspace, "last_run"), "test_cart failed last time");
    fs::remove_file(path.join("shop/price.py")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), "test_cart failed last time");
    write_before_run(path, "conftest.py", "import json\n");
    assert_eq!(affected(&workspace, "last_run"), "full: conftest.py, the set-up of all tests, was changed");
}

const TAX: &str = "def tax(a):\n    return a\n";

const UNITTEST: [(&str, &str); 5] = [
    ("shop/__init__.py", ""),
    ("shop/tax.py", TAX),
    (
        "tests/test_tax.py",
        "import unittest\nfrom shop.tax import tax\n\nclass Tax(unittest.TestCase):\n    def test_tax(self):\n        \
         self.assertEqual(tax(1), 1)\n",
    ),
    (
        "tests/test_alone.py",
        "import unittest\n\nclass Alone(unittest.TestCase):\n    def test_alone(self):\n        pass\n",
    ),
    ("tests/__init__.py", ""),
];

#[test]
fn tests_of_unittest_follow_imports_and_packages() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(path, &UNITTEST);
    run_all(&workspace, true, 0);
    assert_eq!(affected(&workspace, "last_run"), "");
    write_before_run(path, "shop/tax.py", &format!("RATE = 1\n{TAX}"));
    assert_eq!(affected(&workspace, "last_run"), "Tax.test_tax imports a changed file: shop/tax.py");
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["Tax.test_tax".into()], &json!(1)), "{some}");
    // unittest finds tests in every file of this name, and below every package.
    write_before_run(path, "tests/tests.py", &UNITTEST[2].1.replace("tax(1)", "tax(2)"));
    assert_eq!(names(&run_affected(&workspace, 1)), ["Tax.test_tax"]);
    fs::remove_file(path.join("tests/tests.py")).unwrap();
    assert_eq!(run_affected(&workspace, 0)["nothing_ran"], "NOTHING_AFFECTED", "its failure is gone with it");
    fs::remove_file(path.join("tests/__init__.py")).unwrap();
    let gone = "full: tests/__init__.py, which makes a directory of tests a package, was removed";
    assert_eq!(affected(&workspace, "last_run"), gone);
}

#[test]
fn what_a_measured_python_test_reads_or_a_plugin_loads_runs_all_tests() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    let reading = "import pathlib, pytest\nfrom pkg import names\n\nDATA = pathlib.Path(__file__).parent / \"data\"\n\n\
                   @pytest.mark.parametrize(\"case\", names.NAMES)\ndef test_case(case):\n    assert \"TODO\" not in (DATA / f\"{case}.py\").read_text()\n";
    write_all(
        path,
        &[
            ("pytest.toml", "[pytest]\naddopts = [\"-p\", \"plug\"]\npythonpath = [\".\"]\n"),
            ("rate.py", "def rate():\n    return 1\n"),
            (
                "plug.py",
                "import pytest\nimport rate as of_plugin\n\n@pytest.fixture\ndef rate():\n    return of_plugin.rate()\n",
            ),
            ("pkg/__init__.py", ""),
            ("pkg/names.py", "NAMES = ['simple']\n\ndef count():\n    return 1\n"),
            ("data/simple.py", "x = 1\n"),
            ("test_read.py", reading),
            ("test_rate.py", "def test_rate(rate):\n    assert rate == 1\n"),
            ("test_count.py", "from pkg.names import count\n\ndef test_count():\n    assert count() == 1\n"),
        ],
    );
    assert_eq!(workspace.proctor(&["run", "--coverage", "on"]).status, 0);
    let check = |file: &str, text: &str, expected: &str| {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected, "{file}");
        write_before_run(path, file, &before);
    };
    check("data/simple.py", "x = 1  # TODO\n", "full: data/simple.py was changed, and any test may read it");
    check("rate.py", "def rate():\n    return 2\n", "full: plug.py, a module that settings name, was changed");
    let changed = "NAMES = ['simple']\n\ndef count():\n    return 2\n";
    check("pkg/names.py", changed, "test_count executed a changed line: pkg/names.py");
    // An empty file has no lines, but was loaded.
    let importing =
        "test_count imports a changed file: pkg/__init__.py, test_case[simple] imports a changed file: pkg/__init__.py";
    check("pkg/__init__.py", "X = 1\n", importing);
}

#[test]
fn a_run_of_another_framework_leaves_the_tests_that_are_selected() {
    let workspace = go_workspace();
    let path = &workspace.path;
    write_all(path, &[("pytest.ini", "[pytest]\n"), ("test_p.py", "def test_p():\n    assert 1\n")]);
    assert_eq!(workspace.proctor(&["run", "--framework", "go"]).status, 0);
    for (text, status) in [("def test_p():\n    assert 0\n", 1), ("def test_p():\n    assert 1\n", 0)] {
        write_before_run(path, "test_p.py", text);
        assert_eq!(workspace.proctor(&["run", "--framework", "pytest", "--file", "test_p.py"]).status, status);
        write_before_run(path, "test_p.py", "def test_p():\n    assert 1\n");
        assert_eq!(affected(&workspace, "last_run"), "", "after {text}");
    }
    assert_eq!(workspace.proctor(&["run", "--", "true"]).status, 0);
    write_before_run(path, "a/a.go", &A.replace("return N", "return N + 7"));
    let failed = run_affected(&workspace, 1);
    assert_eq!(names(&failed), ["TestA", "TestB"]);
}

const PRICE_JS: &str = "function total(a) {\n  return a * 2;\n}\n\nfunction tax(a) {\n  return a;\n}\n\nmodule.exports = { total, tax };\n";

/// Test files that load the price through a barrel, something while they run, a module in place of the price, and nothing.
const JEST: [(&str, &str); 14] = [
    ("package.json", r#"{"scripts":{"test":"jest"},"jest":{"setupFiles":["./setup.js"],"globalSetup":"./global.js"}}"#),
    ("setup.js", "global.mode = 1;\n"),
    ("global.js", "const { rate } = require('./src/rate');\nmodule.exports = async () => rate;\n"),
    ("src/rate.js", "exports.rate = 3;\n"),
    ("src/data.json", "{}\n"),
    ("src/price.js", PRICE_JS),
    ("src/barrel.js", "module.exports = { ...require('./price') };\n"),
    ("src/late.js", "exports.late = 4;\n"),
    ("src/cart.js", "exports.lazy = () => require('./late').late;\n"),
    ("src/unused.js", "exports.unused = 1;\n"),
    ("src/price.test.js", "const { total } = require('./barrel');\ntest('total', () => expect(total(1)).toBe(2));\n"),
    ("src/cart.test.js", "const { lazy } = require('./cart');\ntest('lazy', () => expect(lazy()).toBe(4));\n"),
    (
        "src/mocked.test.js",
        "jest.mock('./price', () => ({ total: () => 3 }));\ntest('mocked', () => expect(require('./price').total()).toBe(3));\n",
    ),
    ("src/alone.test.js", "test('alone', () => expect('a').toMatchSnapshot());\n"),
];

const SNAPSHOT: &str =
    "// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing\n\nexports[`alone 1`] = `\"a\"`;\n";

fn javascript_workspace(files: &[(&str, &str)]) -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    link_node_packages(&workspace.path);
    write_all(&workspace.path, files);
    workspace
}

#[test]
fn jest_tests_follow_what_their_files_loaded() {
    let workspace = javascript_workspace(&JEST);
    let path = &workspace.path;
    write_before_run(path, "src/__snapshots__/alone.test.js.snap", SNAPSHOT);
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(affected(&workspace, "last_run"), "");

    write_before_run(path, "src/price.js", &PRICE_JS.replace("a * 2", "a + 1"));
    assert_eq!(affected(&workspace, "last_run"), "total executed a changed line: src/price.js");
    let some = run_affected(&workspace, 0);
    assert_eq!(names(&some), ["total"]);
    assert_eq!(
        (&some["outcome"], &some["affected"]["selected"], &some["affected"]["left_out"]),
        (&json!("passed"), &json!(1), &json!(3))
    );
    assert!(some["affected"]["safe_because"].as_str().unwrap().contains("3 test(s) left out"), "{some}");
    assert_eq!(affected(&workspace, "last_run"), "");
    let executed = |name: &str, file: &str| format!("{name} executed a changed line: {file}");
    let loads = |name: &str, file: &str| format!("{name} loads a changed file: {file}");
    let own = |name: &str, file: &str| format!("{name} own file or package changed: {file}");
    let alone = "src/alone.test.js";
    for (file, text, expected) in [
        ("src/price.js", "exports.total = (a) => a + 1;\n", executed("total", "src/price.js")),
        ("src/barrel.js", "module.exports = { ...require('./price'), more: 1 };\n", executed("total", "src/barrel.js")),
        ("src/late.js", "exports.late = 2 + 2;\n", executed("lazy", "src/late.js")),
        (alone, "test('alone', () => expect('a').toMatchSnapshot());\n// More.\n", executed("alone", alone)),
    ] {
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        assert_eq!(names(&run_affected(&workspace, 0)).len(), 1);
    }
    let snapshot = "src/__snapshots__/alone.test.js.snap";
    write_before_run(path, snapshot, &SNAPSHOT.replace("\"a\"", "\"b\""));
    assert_eq!(affected(&workspace, "last_run"), own("alone", snapshot));
    assert_eq!(names(&run_affected(&workspace, 1)), ["alone"]);
    write_before_run(path, snapshot, SNAPSHOT);
    assert_eq!(names(&run_affected(&workspace, 0)), ["alone"]);

    write_before_run(path, "src/new.test.js", "test('new', () => {});\n");
    assert_eq!(names(&run_affected(&workspace, 0)), ["new"]);
    fs::rename(path.join("src/new.test.js"), path.join("src/named.test.js")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), "new src/named.test.js");
    assert_eq!(names(&run_affected(&workspace, 0)), ["new"]);
    write_before_run(path, "src/other.js", "exports.other = 1;\n");
    assert_eq!(affected(&workspace, "last_run"), "", "no source names it, and it stands in for no other");
    fs::remove_file(path.join("src/other.js")).unwrap();
    // A run without coverage forgets what it may have changed, and nothing else.
    write_before_run(path, "src/late.js", "exports.late = 5 - 1;\n");
    assert_eq!(workspace.proctor(&["run", "--coverage", "off"]).status, 0);
    write_before_run(path, "src/price.js", "exports.total = (a) => 1 + a;\n");
    let unknown = "lazy what it executes is not known";
    assert_eq!(affected(&workspace, "last_run"), format!("{}, {unknown}", executed("total", "src/price.js")));
    assert_eq!(workspace.proctor(&["run", "--coverage", "on"]).status, 0);
    fs::remove_file(path.join("src/late.js")).unwrap();
    assert_eq!(affected(&workspace, "last_run"), loads("lazy", "src/late.js"));
    fs::remove_file(path.join("src/price.js")).unwrap();
    let replaced = affected(&workspace, "last_run");
    assert!(replaced.contains(&loads("mocked", "src/price.js")), "it names what is gone: {replaced}");
}

#[test]
fn one_measured_test_does_not_make_its_file_known() {
    let source = |body: &str| format!("const {{ b }} = require('./b');\nexports.a = (n) => {{\n  {body}\n}};\n");
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"jest"}}"#),
        ("a.js", &source("return n + 1;")),
        ("b.js", "exports.b = (n) => {\n  return n + 1;\n};\n"),
        (
            "a.test.js",
            "const { a } = require('./a');\ntest('t1', () => expect(a(1)).toBe(2));\ntest('t2', () => expect(a(2)).toBe(3));\n",
        ),
        ("b.test.js", "const { b } = require('./b');\ntest('b', () => expect(b(1)).toBeGreaterThan(0));\n"),
    ]);
    let path = &workspace.path;
    run_all(&workspace, false, 0);
    write_before_run(path, "a.js", &source("return n === 2 ? b(n) : n + 1;"));
    run_all(&workspace, true, 0);
    assert_eq!(workspace.proctor(&["run", "--test", "t1"]).status, 0);
    write_before_run(path, "b.js", "exports.b = (n) => {\n  return n + 2;\n};\n");
    let selected = affected(&workspace, "last_run");
    assert!(selected.contains("t2 what it executes is not known"), "{selected}");
}

#[test]
fn what_a_test_file_loads_at_other_files_does_not_make_it_known() {
    let helper = |k: u32| format!("exports.k = {k};\nexports.h = () => {{\n  return 1;\n}};\n");
    let alone = "test('t1', () => {});\ntest('t2', () => {});\n";
    let using = "const { k, h } = require('./helper');\ntest('t1', () => expect(k).toBe(1));\ntest('t2', () => expect(h()).toBe(1));\n";
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"jest"}}"#),
        ("helper.js", &helper(1)),
        ("a.test.js", alone),
        ("b.test.js", "test('b', () => {});\n"),
        ("c.test.js", "const { h } = require('./helper');\ntest('c', () => expect(h()).toBeLessThan(9));\n"),
    ]);
    let path = &workspace.path;
    run_all(&workspace, false, 0);
    write_before_run(path, "a.test.js", using);
    run_all(&workspace, true, 0);
    write_before_run(path, "a.test.js", alone);
    assert_eq!(workspace.proctor(&["run", "--file", "a.test.js"]).status, 0);
    write_before_run(path, "a.test.js", using);
    write_before_run(path, "helper.js", &helper(2));
    let selected = affected(&workspace, "last_run");
    for test in ["t1", "t2", "c"] {
        assert!(selected.contains(&format!("{test} ")), "{test}: {selected}");
    }
}

#[test]
fn jest_tests_all_run_after_a_change_that_no_test_was_seen_to_load() {
    let workspace = javascript_workspace(&JEST[..13]);
    let path = &workspace.path;
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    for (file, text, expected) in [
        ("setup.js", "global.mode = 2;\n", "full: setup.js, which the runner loads for itself, was changed"),
        ("src/rate.js", "exports.rate = 4;\n", "full: src/rate.js, which the runner loads for itself, was changed"),
        ("src/data.json", "{ }\n", "full: src/data.json was changed, and any test may read it"),
        (
            "src/unused.js",
            "exports.unused = 2;\n",
            "full: src/unused.js was changed, and no test was seen to load it: a setting, a transformer or a type check may",
        ),
        ("src/price.ts", "", "full: src/price.ts was added, and it may be loaded in place of src/price.js"),
        (
            "src/__mocks__/x.js",
            "",
            "full: src/__mocks__/x.js was added, and it may be loaded in place of a module that tests replace",
        ),
        ("jest.config.js", "", "full: jest.config.js, a test runner's settings, was added"),
        (".env", "A=1\n", "full: .env, environment variables, was added"),
    ] {
        let before = fs::read_to_string(path.join(file)).ok();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        match before {
            Some(before) => write_before_run(path, file, &before),
            None => fs::remove_file(path.join(file)).unwrap(),
        }
    }
    assert_eq!(affected(&workspace, "last_run"), "");
    // Without a measurement it is not known what the changed test loads now, and it was the only one to load the file.
    write_before_run(path, "src/late.js", "exports.late = 4;\n\n");
    run_all(&workspace, true, 0);
    write_before_run(path, "src/late.js", "exports.late = 4;\n");
    let full =
        "full: src/late.js was changed, and no test was seen to load it: a setting, a transformer or a type check may";
    assert_eq!(affected(&workspace, "last_run"), full);
}

const PRICE_TS: &str = "export function total(a: number): number {\n  return a * 2;\n}\n";

const VITEST: [(&str, &str); 12] = [
    ("package.json", r#"{"type":"module","scripts":{"test":"vitest run"}}"#),
    (
        "vitest.config.ts",
        "import { mode } from './mode';\nexport default { test: { setupFiles: './setup.ts', name: mode } };\n",
    ),
    ("mode.ts", "export const mode = 'unit';\n"),
    ("setup.ts", "globalThis.mode = 1;\n"),
    ("src/price.ts", PRICE_TS),
    ("src/index.ts", "export * from './price';\n"),
    ("src/late.ts", "export const late = 4;\n"),
    ("src/types.ts", "export type Late = number;\n"),
    (
        "src/price.test.ts",
        "import { expect, test } from 'vitest';\nimport { total } from './index';\ntest('total', () => expect(total(1)).toBe(2));\n",
    ),
    (
        "src/late.test.ts",
        "import { expect, test } from 'vitest';\nimport type { Late } from './types';\ntest('late', async () => {\n  const late: Late = (await import('./late')).late;\n  expect(late).toBe(4);\n});\n",
    ),
    (
        "src/mocked.test.ts",
        "import { expect, test, vi } from 'vitest';\nimport { total } from './price';\nvi.mock('./price', () => ({ total: () => 3 }));\ntest('mocked', () => expect(total(1)).toBe(3));\n",
    ),
    (
        "src/reader.test.ts",
        "import { readFileSync } from 'node:fs';\nimport { expect, test } from 'vitest';\ntest('reads', () => expect(readFileSync('package.json')).toBeDefined());\n",
    ),
];

#[test]
fn vitest_tests_follow_what_their_files_loaded() {
    let workspace = javascript_workspace(&VITEST);
    let path = &workspace.path;
    let ran = workspace.proctor(&["run"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(affected(&workspace, "last_run"), "");
    let reads = |file: &str| format!("reads may run or read any source: {file}");
    write_before_run(path, "src/price.ts", &PRICE_TS.replace("a * 2", "a + 1"));
    let executed = format!("total executed a changed line: src/price.ts, {}", reads("src/price.ts"));
    assert_eq!(affected(&workspace, "last_run"), executed);
    let some = run_affected(&workspace, 0);
    assert_eq!((names(&some), &some["affected"]["left_out"]), (vec!["reads".into(), "total".into()], &json!(2)));
    for (file, text, expected) in [
        ("src/index.ts", "export { total } from './price';\n", "total loads a changed file"),
        ("src/late.ts", "export const late = 2 + 2;\n", "late executed a changed line"),
    ] {
        write_before_run(path, file, text);
        let expected = format!("{expected}: {file}, {}", reads(file));
        assert_eq!(affected(&workspace, "last_run"), expected);
        assert_eq!(names(&run_affected(&workspace, 0)).len(), 2);
    }
    for (file, text, expected) in [
        ("src/types.ts", "export type Late = 4;\n", "full: src/types.ts was changed, and no test was seen to load it"),
        ("mode.ts", "export const mode = 'all';\n", "full: mode.ts, which the runner loads for itself, was changed"),
        ("vitest.config.ts", "export default {};\n", "full: vitest.config.ts, a test runner's settings, was changed"),
    ] {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        let found = affected(&workspace, "last_run");
        assert!(found.starts_with(expected), "{found}");
        write_before_run(path, file, &before);
    }
    write_before_run(path, "setup.ts", "globalThis.mode = 2;\n");
    assert_eq!(names(&run_affected(&workspace, 0)).len(), 4, "each test file loads it");
    fs::remove_file(path.join("src/late.ts")).unwrap();
    assert!(affected(&workspace, "last_run").starts_with("late loads a changed file: src/late.ts"));
}

#[test]
fn vitest_tests_follow_what_their_last_hooks_load() {
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"type":"module","scripts":{"test":"vitest run"}}"#),
        ("vitest.config.ts", "export default { test: {} };\n"),
        ("src/after.ts", "export const after = 1;\n"),
        ("src/last.ts", "export const last = 2;\n"),
        (
            "src/hooks.test.ts",
            "import { afterAll, beforeAll, expect, test } from 'vitest';\nbeforeAll(() => async () => void (await import('./last')));\nafterAll(async () => void (await import('./after')));\ntest('hooks', () => expect(1).toBe(1));\n",
        ),
        ("src/other.test.ts", "import { expect, test } from 'vitest';\ntest('other', () => expect(1).toBe(1));\n"),
    ]);
    let path = &workspace.path;
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    for (file, text) in [("src/after.ts", "export const after = 3;\n"), ("src/last.ts", "export const last = 4;\n")] {
        let before = fs::read_to_string(path.join(file)).unwrap();
        write_before_run(path, file, text);
        assert_eq!(affected(&workspace, "last_run"), format!("hooks executed a changed line: {file}"));
        write_before_run(path, file, &before);
    }
    write_before_run(path, "vitest.config.ts", "export default { test: { sequence: { hooks: 'parallel' } } };\n");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    write_before_run(path, "src/last.ts", "export const last = 5;\n");
    let found = affected(&workspace, "last_run");
    assert!(found.starts_with("full: which files the tests load has not been measured"), "{found}");
}

#[test]
fn nodes_tests_follow_what_their_files_loaded() {
    let body = |name: &str, call: &str| {
        format!(
            "import assert from 'node:assert';\nimport {{ test }} from 'node:test';\nimport {{ {name} }} from '../src/price.mjs';\ntest('{name}', () => {{\n  assert.equal({call}, 4);\n}});\n"
        )
    };
    let mut workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"node --test"}}"#),
        (
            "src/price.mjs",
            "export function total(a) {\n  return a * 2;\n}\n\nexport function tax(a) {\n  return a;\n}\n",
        ),
        ("src/rates.json", "{}\n"),
        ("src/unused.mjs", "export const unused = 1;\n"),
        ("test/total.test.mjs", &body("total", "total(2)")),
        ("test/tax.test.mjs", &body("tax", "tax(4)")),
        ("src/later.mjs", "export const later = 1;\n"),
        (
            "test/later.test.mjs",
            "import { describe } from 'node:test';\nimport { later } from '../src/later.mjs';\ndescribe('later', { skip: true }, () => {});\n",
        ),
        ("test/rates.test.cjs", "require('node:test').test('rates', () => require('../src/rates.json'));\n"),
    ]);
    workspace.search_path = search_path_with_newest_node();
    let path = &workspace.path;
    assert_eq!(names(&run_affected(&workspace, 0)), ["rates", "tax", "total"]);
    let price = fs::read_to_string(path.join("src/price.mjs")).unwrap();
    let with_rate = format!("export const rate = 2;\n{price}");
    let is_full = |why: &str| format!("full: {why}");
    for (file, text, expected) in [
        ("src/price.mjs", price.replace("a * 2", "a * 3"), "total executed a changed line: src/price.mjs".to_owned()),
        (
            "src/price.mjs",
            with_rate,
            "tax loads a changed file: src/price.mjs, total loads a changed file: src/price.mjs".to_owned(),
        ),
        ("src/rates.json", "{ }\n".to_owned(), is_full("src/rates.json was changed, and any test may read it")),
        ("test/new.test.mjs", body("tax", "tax(5)"), "new test/new.test.mjs".to_owned()),
        // Nothing of this test file runs, but it fails to load.
        ("src/later.mjs", "export const never = 1;\n".to_owned(), "new test/later.test.mjs".to_owned()),
        (
            "test/helper.mjs",
            String::new(),
            is_full(
                "test/helper.mjs was added, and it may be a test file: Node runs all that is below a directory `test`",
            ),
        ),
        (
            "src/unused.mjs",
            String::new(),
            is_full(
                "src/unused.mjs was changed, and no test was seen to load it: a setting, a transformer or a type check may",
            ),
        ),
    ] {
        let before = fs::read_to_string(path.join(file)).ok();
        write_before_run(path, file, &text);
        assert_eq!(affected(&workspace, "last_run"), expected);
        match before {
            Some(before) => write_before_run(path, file, &before),
            None => fs::remove_file(path.join(file)).unwrap(),
        }
    }
    write_before_run(path, "src/later.mjs", "export const later = 2;\n");
    assert_eq!(run_affected(&workspace, 4)["outcome"], "no_tests", "the suite is skipped");
    write_before_run(path, "src/later.mjs", "export const never = 1;\n");
    assert_eq!(run_affected(&workspace, 3)["outcome"], "collection_failed");
    write_before_run(path, "src/later.mjs", "export const later = 1;\n");
    write_before_run(path, "src/price.mjs", &price.replace("a * 2", "a * 3"));
    let report = run_affected(&workspace, 1);
    assert_eq!((names(&report), &report["affected"]["left_out"]), (vec!["total".to_owned()], &json!(2)), "{report}");
}

/// A test that starts a process, one that calls a function itself, and one that does neither, each behind `imports`. No text says that it
/// starts one, as where a package does.
fn with_a_process(script: &str, imports: &str) -> TestWorkspace {
    let start = "test('starts', async () => {\n  const { ['exec' + 'FileSync']: run } = await import(['node:child', 'process'].join('_'));\n  run(process.execPath, ['bin/cli.mjs']);\n});\n";
    let total = "import { total } from '../src/price.mjs';\ntest('total', () => void total(2));\n";
    let mut workspace = javascript_workspace(&[
        ("package.json", &format!(r#"{{"scripts":{{"test":"{script}"}}}}"#)),
        ("bin/cli.mjs", "import { total } from '../src/price.mjs';\nif (total(2) !== 4) process.exitCode = 1;\n"),
        ("src/price.mjs", "export function total(a) {\n  return a * 2;\n}\n"),
        ("test/starts.test.mjs", &format!("{imports}{start}")),
        ("test/total.test.mjs", &format!("{imports}{total}")),
        ("test/alone.test.mjs", &format!("{imports}test('alone', () => {{}});\n")),
    ]);
    workspace.search_path = search_path_with_newest_node();
    workspace
}

fn check_a_test_with_a_process(workspace: &TestWorkspace, price: &str) {
    assert_eq!(names(&run_affected(workspace, 0)), ["alone", "starts", "total"]);
    let text = fs::read_to_string(workspace.path.join(price)).unwrap();
    write_before_run(&workspace.path, price, &text.replace("a * 2", "a * 3"));
    assert_eq!(names(&run_affected(workspace, 1)), ["starts", "total"]);
}

#[test]
fn a_test_of_node_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process("node --test", "import { test } from 'node:test';\n"), "src/price.mjs");
}

#[test]
fn a_test_of_vitest_that_starts_a_process_runs_with_any_change() {
    check_a_test_with_a_process(&with_a_process("vitest run", "import { test } from 'vitest';\n"), "src/price.mjs");
}

#[test]
fn a_test_of_jest_that_starts_a_process_runs_with_any_change() {
    let start = "test('starts', () => {\n  const { ['exec' + 'FileSync']: run } = require(['node:child', 'process'].join('_'));\n  run(process.execPath, ['bin/cli.js']);\n});\n";
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"jest"}}"#),
        ("bin/cli.js", "const { total } = require('../src/price');\nif (total(2) !== 4) process.exitCode = 1;\n"),
        ("src/price.js", "exports.total = (a) => {\n  return a * 2;\n};\n"),
        ("test/starts.test.js", start),
        ("test/total.test.js", "const { total } = require('../src/price');\ntest('total', () => void total(2));\n"),
        ("test/alone.test.js", "test('alone', () => {});\n"),
    ]);
    check_a_test_with_a_process(&workspace, "src/price.js");
}

#[test]
fn mocha_tests_all_run() {
    let workspace = javascript_workspace(&[
        ("package.json", r#"{"scripts":{"test":"mocha"}}"#),
        ("test/a.js", "it('a', () => {});\n"),
    ]);
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    let found = affected(&workspace, "last_run");
    assert!(found.starts_with("full: tests of mocha are not selected by changes"), "{found}");
    assert_eq!(run_affected(&workspace, 0)["outcome"], "passed");
}

#[test]
fn a_git_revision_is_compared_without_git() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../supervisor/src/workspace/changed_files/repository");
    copy(&repository, path);
    fs::rename(path.join("dot-git"), path.join(".git")).unwrap();
    let early = workspace.proctor(&["affected", "no-such-branch"]);
    assert_eq!(
        (early.status, early.stderr.as_str()),
        (2, "proctor: since: no commit no-such-branch in this repository\n")
    );
    write_all(
        path,
        &[
            ("requirements.txt", "pytest\n"),
            ("test_cart.py", "from shop.cart import cart\n\ndef test_cart():\n    assert cart\n"),
            ("test_prices.py", "from shop.prices import prices\n\ndef test_prices():\n    assert prices\n"),
            ("test_alone.py", "def test_alone():\n    pass\n"),
        ],
    );
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest"]).status, 0);
    // The tests themselves are newer than the commit.
    let own =
        ["alone", "cart", "prices"].map(|name| format!("test_{name} own file or package changed: test_{name}.py"));
    assert_eq!(affected(&workspace, "HEAD"), own.join(", "));
    fs::write(path.join("test_alone.py"), "def test_alone():\n    pass\n").unwrap();
    write_before_run(path, "shop/cart.py", "cart = 2\n");
    let document = workspace.proctor(&["affected", "v1", "--output", "json"]).json();
    assert!(document["affected"]["since"].as_str().unwrap().starts_with("commit "), "{document}");
    assert_eq!(document["affected"]["selected"], 3);
    let unknown = workspace.proctor(&["run", "--affected", "no-such-branch"]);
    assert_eq!((unknown.status, unknown.stderr.contains("since: no commit no-such-branch")), (2, true), "{unknown:?}");
    fs::remove_dir_all(path.join(".git")).unwrap();
    let none = workspace.proctor(&["affected", "HEAD"]);
    assert_eq!((none.status, none.stderr.contains("not the root of a git repository")), (2, true), "{none:?}");
}

async fn run(client: &Client, session_id: &str, since: &str) -> Result<Report, Status> {
    let request = RunAffectedTestsRequest { session_id: session_id.into(), since: since.into(), ..Default::default() };
    let mut events = client.runs.clone().run_affected_tests(request).await?.into_inner();
    loop {
        if let Some(Event::Finished(report)) = events.message().await?.unwrap().event {
            return Ok(report);
        }
    }
}

#[tokio::test]
async fn grpc_selects_and_runs_for_the_callers_own_session_only() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write_all(&workspace, &GO);
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = alpha.open_session(&workspace).await;
    alpha.run(&session).await;
    let nothing = run(&alpha, &session, "").await.unwrap_err();
    let info = nothing.get_details_error_info().unwrap();
    assert_eq!((nothing.code(), info.reason.as_str()), (Code::FailedPrecondition, reason::NOTHING_AFFECTED));
    assert_eq!(
        (info.metadata["left_out"].as_str(), info.metadata["since"].as_str()),
        ("3", "the last run of all tests")
    );

    write_before_run(
        &workspace,
        "b/b.go",
        "package b\n\nimport \"example.com/m/a\"\n\nfunc G() int {\n\treturn a.F() + 9\n}\n",
    );
    let request = |since: &str| AffectedTestsRequest { session_id: session.clone(), since: since.into(), limit: 0 };
    let answer = alpha.results.clone().affected_tests(request("last_run")).await.unwrap().into_inner();
    assert_eq!((answer.tests.len(), answer.tests[0].name.as_str()), (1, "TestB"), "{answer:?}");
    assert_eq!(answer.reasons, ["executed a changed line: b/b.go"]);
    let dry = RunAffectedTestsRequest { session_id: session.clone(), dry_run: true, ..Default::default() };
    let mut events = alpha.runs.clone().run_affected_tests(dry).await.unwrap().into_inner();
    assert_eq!(events.message().await.unwrap().unwrap().event, Some(Event::Affected(answer.clone())));
    assert_eq!(events.message().await.unwrap(), None, "the stream starts no run");
    let report = run(&alpha, &session, "last_run").await.unwrap();
    assert_eq!((report.outcome(), report.tests.len()), (Outcome::Failed, 1), "{report:?}");
    let affected = report.affected.unwrap();
    assert_eq!((affected.selected, affected.left_out, affected.full_reason), (1, 2, None));
    assert_eq!(alpha.failures(&session).await.total, 1, "it fills the failure slot");
    let files = alpha.start(RunTestsRequest {
        session_id: session.clone(),
        files: vec!["c/c.go".into()],
        ..Default::default()
    });
    files.await.unwrap().read_to_end().await;
    let again = alpha.results.clone().affected_tests(request("")).await.unwrap().into_inner();
    assert_eq!(again.reasons, ["failed last time"], "a run of other tests does not hide the failure");

    let invalid = alpha.results.clone().affected_tests(request("-x")).await.unwrap_err();
    assert_eq!(invalid.code(), Code::InvalidArgument, "{invalid:?}");
    let denied = beta.results.clone().affected_tests(request("")).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied:?}");
    let denied = run(&beta, &session, "").await.unwrap_err();
    assert!(denied.code() == Code::PermissionDenied && !format!("{denied:?}").contains("b.go"), "{denied:?}");
    // The other tenant's own session knows nothing of this one's runs.
    let own = supervisor.empty_workspace("beta", "shop");
    write_all(&own, &GO);
    chown_tree(&own, first_uid(TENANTS[1]));
    let own = beta.open_session(&own).await;
    let report = run(&beta, &own, "last_green").await.unwrap();
    assert_eq!((report.outcome(), report.tests.len()), (Outcome::Passed, 3));
    assert!(report.affected.unwrap().full_reason.unwrap().starts_with("no run of all tests"));
}

#[tokio::test]
async fn mcp_runs_what_is_affected_and_counts_what_it_leaves_out() {
    let workspace = go_workspace();
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({})).await;
    let nothing = mcp.call("run_affected_tests", json!({})).await;
    assert_eq!(nothing.structured["nothing_ran"], reason::NOTHING_AFFECTED, "{nothing:?}");
    assert!(nothing.text.starts_with("no test is affected by what changed since"), "{nothing:?}");
    write_before_run(&workspace.path, "a/a.go", &A.replace("return N", "return N + 1"));
    let dry = mcp.call("run_affected_tests", json!({"dry_run": true})).await;
    assert_eq!(
        (&dry.structured["affected"]["selected"], &dry.structured["affected"]["left_out"]),
        (&json!(2), &json!(1))
    );
    assert!(
        dry.text.starts_with("2 of 3 test(s) are affected") && dry.text.contains("TestA: executed a changed line"),
        "{dry:?}"
    );
    let ran = mcp.call("run_affected_tests", json!({"since": "last_run"})).await;
    assert!(ran.text.starts_with("passed: 2 affected of 3 (go"), "{ran:?}");
    assert_eq!(ran.structured["affected"]["reasons"], json!({"executed a changed line": 2}), "{ran:?}");
    assert!(ran.structured["notes"].to_string().contains("1 left out: no measured line"), "{ran:?}");
    write_before_run(&workspace.path, "go.sum", "");
    let all = mcp.call("run_affected_tests", json!({"since": "last_green"})).await;
    assert!(all.text.starts_with("passed: 3 tests (go"), "{all:?}");
    assert_eq!(all.structured["affected"]["full_reason"], "go.sum, a lock file, was added", "{all:?}");
    mcp.close().await;
}
