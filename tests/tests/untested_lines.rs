//! Changed lines that no test executed, named the same way at all entrances, against real runners; and which tests cover a range
//! or a function.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_proto::v1::{LineRange, TestsCoveringRequest, UntestedLines, UntestedSpan};
use proctor_tests::mcp_client::Mcp;
use proctor_tests::process::{ProcessOutput, search_path_with_lines, wait_for_exit, with_newest_node};
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree, copy, write_before_run};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tonic::Code;

const A: &str = "package a\n\nfunc F(n int) int {\n\treturn n\n}\n";

/// The same with a branch that no test reaches, in lines 4 to 7, of which 6 has its only statement.
const A_WITH_BRANCH: &str =
    "package a\n\nfunc F(n int) int {\n\tif n > 5 {\n\t\t// Large.\n\t\treturn 5\n\t}\n\treturn n\n}\n";

const GO: [(&str, &str); 5] = [
    ("go.mod", "module example.com/m\n\ngo 1.21\n"),
    ("a/a.go", A),
    (
        "a/a_test.go",
        "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif F(1) != 1 {\n\t\tt.Fatal(F(1))\n\t}\n}\n",
    ),
    ("c/c.go", "package c\n\nfunc H() int {\n\treturn 3\n}\n"),
    ("c/c_test.go", "package c\n\nimport \"testing\"\n\nfunc TestC(t *testing.T) {\n\tH()\n}\n"),
];

fn write_all(workspace: &Path, files: &[(&str, &str)]) {
    files.iter().for_each(|(file, content)| write_before_run(workspace, file, content));
}

/// A command with a Python on PATH that reports lines, and a Node that has hooks for ES modules.
fn proctor(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    let path = with_newest_node(&search_path_with_lines());
    wait_for_exit(workspace.command("proctor").args(arguments).env("PATH", path).spawn().unwrap())
}

/// What a run with these arguments says: `executed/changed places, not loaded, not known`; empty if its report says nothing.
fn untested(workspace: &TestWorkspace, arguments: &[&str]) -> String {
    let output = proctor(workspace, &[&["run", "--output", "json"], arguments].concat());
    let report = output.json();
    assert_eq!((output.status, &report["outcome"]), (0, &json!("passed")), "{output:?}");
    let Some(found) = report.get("untested") else { return String::new() };
    let place = |span: &Value| format!("{}:{}-{}", span["file"].as_str().unwrap(), span["first"], span["last"]);
    let spans: Vec<String> = found["spans"].as_array().unwrap().iter().map(place).collect();
    let files = |name: &str| {
        let files = found[name]["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap());
        files.collect::<Vec<_>>().join(" ")
    };
    let (executed, changed) = (&found["executed_lines"], &found["changed_lines"]);
    format!("{executed}/{changed} [{}] [{}] [{}]", spans.join(" "), files("not_loaded"), files("not_known"))
}

#[test]
fn go_is_compared_with_the_last_green_run_where_no_repository_is() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    write_all(path, &GO);
    assert_eq!(untested(&workspace, &[]), "", "nothing to compare with");
    assert_eq!(untested(&workspace, &[]), "", "nothing changed");
    write_before_run(path, "a/a.go", A_WITH_BRANCH);
    let human = proctor(&workspace, &["run", "--affected"]);
    let line = "1 of 2 changed lines were executed by no test: a/a.go:6\n";
    assert!(human.status == 0 && (human.stderr.clone() + &human.stdout).contains(line), "{human:?}");
    // Compared with that run, which was green.
    write_before_run(path, "a/a.go", &A_WITH_BRANCH.replace("Large.", "Too large."));
    assert_eq!(untested(&workspace, &[]), "0/0 [] [] []", "a comment");
    write_before_run(path, "a/a.go", &A_WITH_BRANCH.replace('\n', "\r\n"));
    assert_eq!(untested(&workspace, &[]), "0/0 [] [] []", "line endings and the comment");
    write_before_run(path, "a/a.go", &A_WITH_BRANCH.replace("return n\n", "return n + 0\n"));
    assert_eq!(untested(&workspace, &["--filter", "TestC"]), "0/0 [] [] [a/a.go]", "no test of the file ran");
    assert_eq!(untested(&workspace, &["--filter", "TestA"]), "1/1 [] [] []", "what ran is known");
    fs::rename(path.join("a/a.go"), path.join("a/renamed.go")).unwrap();
    write_before_run(path, "a/types.go", "package a\n\n// T has no code.\ntype T struct{ A int }\n");
    assert_eq!(untested(&workspace, &[]), "1/1 [] [] []", "a renamed file has its earlier text");
    assert_eq!(untested(&workspace, &["--coverage", "off"]), "", "nothing was measured");
}

/// A workspace whose last commit has none of the files that the test writes.
fn repository() -> TestWorkspace {
    let workspace = TestWorkspace::empty();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../supervisor/src/workspace/changed_files/repository");
    copy(&repository, &workspace.path);
    fs::rename(workspace.path.join("dot-git"), workspace.path.join(".git")).unwrap();
    workspace
}

const CART: &str = "def total(prices, discount=0):\n    \"\"\"Sum.\"\"\"\n    if discount:\n        # Rare.\n        if discount > 1:\n            \
                    raise ValueError(discount)\n        return sum(prices) * (1 - discount)\n    return sum(prices)\n";

#[test]
fn pytest_is_compared_with_the_last_commit() {
    let workspace = repository();
    let path = &workspace.path;
    write_all(
        path,
        &[
            ("requirements.txt", "pytest\n"),
            ("basket/total.py", CART),
            ("basket/alone.py", "def alone():\n    return 1\n"),
            ("basket/notes.py", "# Nothing yet.\n"),
            ("test_total.py", "from basket.total import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"),
            ("test_other.py", "def test_other():\n    pass\n"),
        ],
    );
    assert_eq!(untested(&workspace, &[]), "3/6 [basket/total.py:5-7] [basket/alone.py] []");
    write_before_run(
        path,
        "test_total.py",
        "from basket.total import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n    assert total([2], 0.5) == 1\n",
    );
    assert_eq!(untested(&workspace, &["--affected"]), "5/6 [basket/total.py:6-6] [basket/alone.py] []");
    // The run of another file leaves what is known of this text.
    assert_eq!(untested(&workspace, &["--file", "test_other.py"]), "5/6 [basket/total.py:6-6] [] [basket/alone.py]");
    write_before_run(
        path,
        "basket/total.py",
        &CART.replace("raise ValueError(discount)", "raise ValueError(str(discount))"),
    );
    assert_eq!(
        untested(&workspace, &["--file", "test_other.py"]),
        "0/0 [] [] [basket/alone.py basket/total.py]",
        "no test ran with this text"
    );
    let excluded = CART.replace("if discount > 1:", "if discount > 1:  # pragma: no cover");
    write_before_run(path, "basket/total.py", &excluded);
    assert_eq!(untested(&workspace, &[]), "4/4 [] [basket/alone.py] []", "what the project excludes");
    let covering = |place: &str| proctor(&workspace, &["covering", place]).stdout;
    let range = covering("basket/total.py:3-8");
    assert!(range.starts_with("1 test(s) cover basket/total.py:3-8:\n\ntest_total.py:\n  test_total\n"), "{range}");
    assert!(range.ends_with("3 of these lines can be executed, each by a test\n"), "{range}");
    let named = covering("basket/total.py:total");
    assert!(named.starts_with("1 test(s) cover basket/total.py:2-8:\n"), "{named}");
    let document = proctor(&workspace, &["covering", "basket/total.py:3-8", "--output", "json"]).json();
    assert_eq!(
        document,
        json!({
            "path": "basket/total.py",
            "range": {"first": 3, "last": 8},
            "has_coverage": true,
            "tests": [{"package": "test_total.py", "name": "test_total"}],
            "attribution": "test",
            "file_changed": false,
            "line_moved": false,
            "executable_lines": 3,
            "not_executed": [],
        })
    );
    let missing = proctor(&workspace, &["covering", "basket/total.py", "--function", "missing"]);
    assert_eq!(
        (missing.status, missing.stderr.contains("no function missing in basket/total.py")),
        (2, true),
        "{missing:?}"
    );
    let reversed = proctor(&workspace, &["covering", "basket/total.py:8-3"]);
    assert_eq!((reversed.status, reversed.stderr.as_str()), (2, "proctor: line 3 is before line 8\n"));
}

#[test]
fn vitest_knows_a_module_of_which_no_function_is_called() {
    let workspace = TestWorkspace::with_fixture("vitest/lines");
    let repository = repository();
    fs::rename(repository.path.join(".git"), workspace.path.join(".git")).unwrap();
    let extra = "export function more(n) {\n  if (n > 1) {\n    return 2;\n  }\n  return 1;\n}\n";
    write_all(
        &workspace.path,
        &[
            ("src/extra.ts", &extra.replace("(n)", "(n: number)")),
            ("src/alone.ts", extra),
            ("src/types.ts", "export interface A {\n  a: number;\n}\n"),
            (
                "test/extra.test.ts",
                "import { expect, test } from 'vitest';\nimport { more } from '../src/extra';\ntest('m', () => expect(more).toBeDefined());\n",
            ),
        ],
    );
    let found = untested(&workspace, &[]);
    assert!(found.contains("src/extra.ts:2-5") && found.contains("[src/alone.ts web.ts] []"), "{found}");
    write_before_run(
        &workspace.path,
        "test/extra.test.ts",
        "import { expect, test } from 'vitest';\nimport { more } from '../src/extra';\ntest('m', () => expect(more(1)).toBe(1));\n",
    );
    let found = untested(&workspace, &[]);
    assert!(found.contains("src/extra.ts:3-3"), "{found}");
    let named = proctor(&workspace, &["covering", "src/extra.ts:more"]).stdout;
    assert!(named.starts_with("1 test(s) cover src/extra.ts:1-6:\n"), "{named}");
    assert!(named.ends_with("3 of these lines can be executed, 1 by no test: 3\n"), "{named}");
}

#[tokio::test]
async fn grpc_reports_spans_with_their_source_and_looks_up_ranges_and_functions() {
    let supervisor = SupervisorProcess::start();
    let alpha = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write_all(&workspace, &GO);
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = alpha.open_session(&workspace).await;
    assert_eq!(alpha.run(&session).await.report().untested, None);
    write_before_run(&workspace, "a/a.go", A_WITH_BRANCH);
    let run = alpha.run(&session).await;
    let span = UntestedSpan { file: "a/a.go".into(), first_line: 6, last_line: 6, source: "\t\treturn 5".into() };
    let expected = UntestedLines {
        since: "the last state at which every test passed".into(),
        changed_lines: 2,
        executed_lines: 1,
        spans: vec![span],
        ..UntestedLines::default()
    };
    assert_eq!(run.report().untested.as_ref(), Some(&expected));
    let ask = |line, last_line, function: &str| {
        let (session_id, file, function) = (session.clone(), "a/a.go".to_owned(), function.to_owned());
        let request = TestsCoveringRequest { session_id, file, line, last_line, function, limit: 0 };
        let mut results = alpha.results.clone();
        async move { results.tests_covering(request).await.map(tonic::Response::into_inner) }
    };
    let range = |first_line, last_line| LineRange { first_line, last_line };
    for answer in [ask(Some(3), Some(9), "").await.unwrap(), ask(None, None, "F").await.unwrap()] {
        assert_eq!((answer.tests.len(), answer.tests[0].name.as_str(), answer.range), (1, "TestA", Some(range(3, 9))));
        let (executable, not_executed) = (answer.executable_lines, answer.not_executed_lines);
        assert_eq!((executable, not_executed, answer.not_executed), (Some(4), 1, vec![range(6, 6)]));
    }
    let file = ask(None, None, "").await.unwrap();
    assert_eq!((file.tests.len(), file.range, file.executable_lines), (1, None, None));
    for (line, last_line, function) in
        [(Some(3), Some(2), ""), (None, Some(2), ""), (Some(3), None, "F"), (None, None, "G")]
    {
        let error = ask(line, last_line, function).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{line:?} {last_line:?} {function}");
    }
}

#[tokio::test]
async fn mcp_says_it_in_one_line_and_only_if_a_line_is_untested() {
    let workspace = TestWorkspace::empty();
    write_all(&workspace.path, &GO);
    let mcp = Mcp::start(&workspace).await;
    let clean = mcp.call("run_tests", json!({})).await;
    assert!(clean.structured.get("untested").is_none() && !clean.text.contains("changed line"), "{clean:?}");
    write_before_run(&workspace.path, "a/a.go", A_WITH_BRANCH);
    let answer = mcp.call("run_affected_tests", json!({})).await;
    let line = "1 of 2 changed lines were executed by no test: a/a.go:6";
    assert_eq!(answer.text.lines().filter(|text| *text == line).count(), 1, "{answer:?}");
    let untested = json!({"changed_lines": 2, "executed_lines": 1, "lines": ["a/a.go:6"]});
    assert_eq!(answer.structured["untested"], untested, "{answer:?}");
    let covering = mcp.call("tests_covering", json!({"file": "a/a.go", "function": "F"})).await;
    assert!(covering.text.starts_with("1 test(s) cover a/a.go:3-9:"), "{covering:?}");
    assert!(covering.text.contains("4 of these lines can be executed, 1 by no test: 6"), "{covering:?}");
    assert_eq!(covering.structured["not_executed"], "6");
    let error = mcp.expect_error("tests_covering", json!({"file": "a/a.go", "function": "None"})).await;
    assert!(error.contains("no function None in a/a.go"), "{error}");
    mcp.close().await;
}
