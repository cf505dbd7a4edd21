//! Tests of Go, by lines, imports and settings, and over sequences of runs and edits, which count alike for every framework whose lines
//! are measured.

use crate::{affected, names, run_affected, run_all, write_all};
use proctor_tests::test_workspace::{TestWorkspace, write_before_run};
use serde_json::json;
use std::fs;

pub(crate) const A: &str = "package a\n\nconst N = 1\n\nfunc F() int {\n\treturn N\n}\n";

/// Three packages: b calls a, and c stands alone.
pub(crate) const GO: [(&str, &str); 8] = [
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

pub(crate) fn go_workspace() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    write_all(&workspace.path, &GO);
    workspace
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
fn an_edited_statement_selects_the_tests_that_executed_it_also_beside_one_that_failed() {
    let price = "package a\n\nfunc Price(n int) int {\n\tif n > 9 {\n\t\tn = 9\n\t}\n\treturn n\n}\n";
    let test = |name: &str, does: &str| format!("\nfunc Test{name}(t *testing.T) {{\n\t{does}\n}}\n");
    let tests = [test("Broken", "t.Fatal()"), test("High", "Price(12)"), test("Low", "Price(1)")].concat();
    let workspace = TestWorkspace::empty();
    let files = [
        ("go.mod", "module example.com/m\n\ngo 1.21\n"),
        ("a/a.go", price),
        ("a/a_test.go", &format!("package a\n\nimport \"testing\"\n{tests}")),
    ];
    write_all(&workspace.path, &files);
    let selected = |new: &str| {
        write_before_run(&workspace.path, "a/a.go", &price.replace("\t\tn = 9\n", new));
        let answer = affected(&workspace, "last_run");
        write_before_run(&workspace.path, "a/a.go", price);
        answer
    };
    let executing = "TestBroken failed last time, TestHigh executed a changed line: a/a.go";
    // On a busy machine a test may have no time to run alone.
    let knows_both = || {
        assert_eq!(workspace.proctor(&["run"]).status, 1);
        selected("\t\tn = 8\n") == executing
    };
    assert!((0..20).any(|_| knows_both()), "a test never ran alone: {}", selected("\t\tn = 8\n"));
    assert_eq!(selected(""), executing);
    assert_eq!(selected("\t\tn = 9\n\t\tn--\n"), executing);
    assert_eq!(selected("\t\tn = 9\n\t\tif n > 2 {\n\t\t\tn--\n\t\t}\n"), executing);
    let function = format!("{executing}, TestLow executed lines of a changed file: a/a.go");
    assert_eq!(selected("\t} else {\n"), function, "it is not executed when the block is left out that it ends");
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
