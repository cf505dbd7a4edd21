//! `proctor mutate`: which changes of a line no test notices, in four languages, without a change of the workspace.
//!
//! The same program in each language: a bound that no test is at (a survivor), a product (killed), a step of a loop (with
//! another sign the loop does not end).

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use nix::sys::signal::Signal;
use proctor_tests::process::{
    Process, ProcessOutput, descendants, processes_matching, proctor_mounts, search_path_with_lines, signal,
    supervisor_cgroups, wait_for_exit, wait_until,
};
use proctor_tests::test_workspace::{TestWorkspace, copy, tree};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const PYTHON: &str = "\
def price(n):
    if n < 10:
        return n * 2
    return n + 1


def count(n):
    total = 0
    while total < n:
        total += 1
    return total


def unused(n):
    return n < 3
";

const PYTHON_TESTS: &str = "\
from shop import count, price


def test_price():
    assert price(2) == 4
    assert price(20) == 21


def test_count():
    assert count(3) == 3
";

const GO: &str = "\
package shop

func Price(n int) int {
\tif n < 10 {
\t\treturn n * 2
\t}
\treturn n + 1
}

func Count(n int) int {
\ttotal := 0
\tfor total < n {
\t\ttotal += 1
\t}
\treturn total
}

func Unused(n int) bool {
\treturn n < 3
}
";

const GO_TESTS: &str = "\
package shop

import \"testing\"

func TestPrice(t *testing.T) {
\tif Price(2) != 4 || Price(20) != 21 {
\t\tt.Fatal()
\t}
}

func TestCount(t *testing.T) {
\tif Count(3) != 3 {
\t\tt.Fatal()
\t}
}
";

/// The first function in JavaScript; with types in TypeScript.
fn price(number: &str, export: &str) -> String {
    format!(
        "{export}function price(n{number}) {{
  if (n < 10) {{
    return n * 2;
  }}
  return n + 1;
}}
"
    )
}

const COUNT: &str = "
function count(n) {
  let total = 0;
  while (total < n) {
    total += 1;
  }
  return total;
}

function unused(n) {
  return n < 3;
}

module.exports = { price, count };
";

const PRICE_TEST: &str = "
test('price', () => {
  expect(price(2)).toBe(4);
  expect(price(20)).toBe(21);
});
";

const COUNT_TEST: &str = "
test('count', () => {
  expect(count(3)).toBe(3);
});
";

/// A command of proctor with a Python on PATH that reports lines.
fn command(workspace: &TestWorkspace, arguments: &[&str]) -> Command {
    let mut command = workspace.command("proctor");
    command.args(arguments).env("PATH", search_path_with_lines());
    command
}

fn proctor(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    wait_for_exit(command(workspace, arguments).spawn().unwrap())
}

/// What `proctor mutate` reported.
struct Mutation {
    status: i32,
    document: Value,
}

impl Mutation {
    fn new(workspace: &TestWorkspace, arguments: &[&str]) -> Mutation {
        let output = proctor(workspace, &[&["mutate", "--output", "json"], arguments].concat());
        assert!(output.stdout.starts_with('{'), "{output:?}");
        Mutation { status: output.status, document: output.json() }
    }

    fn mutants(&self) -> impl Iterator<Item = &Value> {
        self.document["mutants"].as_array().unwrap().iter()
    }

    /// The verdict of each changed line.
    fn verdicts(&self) -> BTreeMap<&str, &str> {
        self.mutants().map(|mutant| (mutant["after"].as_str().unwrap(), mutant["verdict"].as_str().unwrap())).collect()
    }

    fn survivors(&self) -> Vec<&str> {
        let survivors = self.document["survivors"].as_array().unwrap().iter();
        survivors.map(|mutant| mutant["after"].as_str().unwrap()).collect()
    }

    fn killed_by(&self, after: &str) -> Vec<&str> {
        let mutant = self.mutants().find(|mutant| mutant["after"] == after).unwrap();
        mutant["killed_by"].as_array().unwrap().iter().map(|test| test.as_str().unwrap()).collect()
    }
}

/// Runs the mutants of `file` one by one, so that each could find what the one before it left in a cache, then the tests as
/// they are. Returns the verdicts.
fn mutate(workspace: &TestWorkspace, file: &str) -> Mutation {
    let before = tree(&workspace.path);
    let mutation = Mutation::new(workspace, &[file, "--jobs", "1"]);
    assert!(tree(&workspace.path) == before, "the workspace was changed");
    assert_eq!(mutation.status, 1, "{:#}", mutation.document);
    let after = proctor(workspace, &["run", "--output", "json"]);
    assert_eq!(after.status, 0, "a run after a mutant sees the original: {after:?}");
    let history = proctor(workspace, &["history", "--output", "json"]).json();
    assert_eq!(history["runs"].as_array().unwrap().len(), 1, "a run with a mutant is in no history: {history:#}");
    mutation
}

#[test]
fn lists_the_survivors_of_python() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("shop.py", PYTHON);
    workspace.write("test_shop.py", PYTHON_TESTS);
    let mutation = mutate(&workspace, "shop.py");
    assert_eq!(mutation.survivors(), ["if n <= 10:", "if n < 11:", "total = 1"], "{:#}", mutation.document);
    assert_eq!(mutation.verdicts()["total -= 1"], "timed_out");
    assert_eq!(mutation.killed_by("return n / 2"), ["test_shop.py/test_price"]);
    assert_eq!(mutation.killed_by("return None"), ["test_shop.py/test_price"]);
    assert!(!mutation.verdicts().contains_key("return n <= 3"), "no test executes that line");
    // The workspace is the same without bytecode of a mutant for the next Python, too.
    let confirmed = Mutation::new(&workspace, &["shop.py", "--confirm", "--max", "4"]);
    assert!(confirmed.mutants().all(|mutant| mutant["noticed_by_suite_only"] == false), "{:#}", confirmed.document);
    assert_eq!((confirmed.mutants().count(), confirmed.document["left_out"].as_u64() > Some(0)), (4, true));
}

#[test]
fn lists_the_survivors_of_go() {
    let workspace = TestWorkspace::empty();
    workspace.write("go.mod", "module example.com/shop\n\ngo 1.21\n");
    workspace.write("shop.go", GO);
    workspace.write("shop_test.go", GO_TESTS);
    let mutation = mutate(&workspace, "shop.go");
    assert_eq!(mutation.survivors(), ["if n <= 10 {", "if n < 11 {", "total := 1"], "{:#}", mutation.document);
    assert_eq!(mutation.verdicts()["total -= 1"], "timed_out");
    assert_eq!(mutation.killed_by("return n / 2"), ["example.com/shop/TestPrice"]);
}

#[test]
fn lists_the_survivors_of_javascript() {
    let workspace = TestWorkspace::with_fixture("jest/pass");
    for file in std::fs::read_dir(&workspace.path).unwrap().map(|entry| entry.unwrap()) {
        let name = file.file_name();
        if file.file_type().unwrap().is_file() && name != "package.json" {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    workspace.write("shop.js", &(price("", "") + COUNT));
    workspace
        .write("shop.test.js", &format!("const {{ price, count }} = require('./shop');\n{PRICE_TEST}{COUNT_TEST}"));
    let mutation = mutate(&workspace, "shop.js");
    assert_eq!(mutation.survivors(), ["if (n <= 10) {", "if (n < 11) {", "let total = 1;"], "{:#}", mutation.document);
    assert_eq!(mutation.verdicts()["total -= 1;"], "timed_out");
    assert_price(&mutation);
}

#[test]
fn lists_the_survivors_of_typescript() {
    let workspace = TestWorkspace::with_fixture("vitest/pass");
    std::fs::remove_dir_all(workspace.path.join("src")).unwrap();
    std::fs::remove_file(workspace.path.join("greet.spec.js")).unwrap();
    // One function: each mutant takes a second of a processor, and the loop is no other than in JavaScript.
    workspace.write("shop.ts", &price(": number", "export "));
    workspace.write(
        "shop.test.ts",
        &format!("import {{ expect, test }} from 'vitest';\nimport {{ price }} from './shop';\n{PRICE_TEST}"),
    );
    let mutation = mutate(&workspace, "shop.ts");
    assert_eq!(mutation.survivors(), ["if (n <= 10) {", "if (n < 11) {"], "{:#}", mutation.document);
    assert_price(&mutation);
}

fn assert_price(mutation: &Mutation) {
    assert_eq!(mutation.verdicts()["return n / 2;"], "killed");
    assert_eq!(mutation.verdicts()["return undefined;"], "killed");
}

#[test]
fn a_test_that_fails_without_a_mutant_shows_nothing() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("shop.py", "def price(n):\n    return n + 1\n\n\ndef half(n):\n    return n // 2\n");
    workspace.write(
        "test_shop.py",
        "from shop import half, price\n\n\ndef test_price():\n    assert price(1) == 2\n\n\n\
         def test_half():\n    assert half(4) == 3\n",
    );
    let mutation = Mutation::new(&workspace, &[]);
    assert_eq!(mutation.status, 0, "{:#}", mutation.document);
    assert!(mutation.mutants().all(|mutant| mutant["line"] == 2 && mutant["verdict"] == "killed"));
    assert!(mutation.document["without_sound_tests"].as_u64().unwrap() > 0);
    let human = proctor(&workspace, &["mutate"]);
    assert!(human.stdout.contains("1 test(s) fail without a mutant and are left out"), "{human:?}");
    assert!(human.stdout.contains("score 100 %"), "{human:?}");
}

#[test]
fn a_revision_leaves_only_what_changed_since() {
    let workspace = TestWorkspace::empty();
    let path = &workspace.path;
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../supervisor/src/workspace/changed_files/repository"), path);
    std::fs::rename(path.join("dot-git"), path.join(".git")).unwrap();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("shop/extra.py", "def more(n):\n    return n > 1\n");
    workspace.write(
        "test_shop.py",
        "from shop.extra import more\nimport shop.cart\n\n\ndef test_more():\n    assert more(5) and not more(0)\n",
    );
    let mutation = Mutation::new(&workspace, &["--framework", "pytest", "--since", "HEAD"]);
    let files: Vec<&str> = mutation.mutants().map(|mutant| mutant["file"].as_str().unwrap()).collect();
    assert!(!files.is_empty() && files.iter().all(|file| *file == "shop/extra.py"), "{files:?}");
    let unknown = proctor(&workspace, &["mutate", "--framework", "pytest", "--since", "no-such-branch"]);
    assert_eq!((unknown.status, unknown.stderr.contains("since: no commit no-such-branch")), (2, true), "{unknown:?}");
}

#[test]
fn what_cannot_be_mutated_is_refused_with_the_remedy() {
    let workspace = TestWorkspace::with_fixture("pytest/pass");
    let refused = proctor(&workspace, &["mutate", "no-such-file.py"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    let tests = proctor(&workspace, &["mutate", "--since", "HEAD"]);
    assert_eq!((tests.status, tests.stderr.contains("since: ")), (2, true), "{tests:?}");
    // A command whose tests are known, and no line that they execute.
    let workspace = TestWorkspace::empty();
    workspace.write(".proctor.yaml", "command: sh check.sh\nreport: report.xml\n");
    workspace.write("check.sh", "echo '<testsuite><testcase name=\"a\" classname=\"b\"/></testsuite>' > report.xml\n");
    let refused = proctor(&workspace, &["mutate"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.stderr.starts_with("proctor: no executed lines were measured for custom"), "{refused:?}");
    assert!(refused.stderr.contains("proctor measures them for go,"), "{refused:?}");
}

#[test]
fn an_interrupt_ends_every_mutant_and_leaves_nothing_behind() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("shop.py", "def price(n):\n    return n + 1\n");
    workspace.write(
        "test_shop.py",
        "import time\nfrom shop import price\n\n\ndef test_price():\n    if price(1) != 2:\n        \
         open('reached', 'w').close()\n        time.sleep(600)\n",
    );
    let child = command(&workspace, &["mutate", "--output", "json", "--jobs", "1"]).spawn().unwrap();
    let pid = child.id();
    wait_until("a mutant runs", || workspace.path.join("reached").exists());
    let family = descendants(pid);
    signal(pid, Signal::SIGINT);
    let ended = wait_for_exit(child);
    assert_eq!(ended.status, 130, "{ended:?}");
    assert!(ended.json()["unfinished"].as_u64().unwrap() > 0, "{ended:?}");
    wait_until("all processes are dead", || !family.iter().any(Process::is_alive));
    assert_eq!(processes_matching(workspace.root().to_str().unwrap()), []);
    assert_eq!(supervisor_cgroups(pid), [""; 0].map(std::path::PathBuf::from));
    assert!(proctor_mounts(workspace.root().to_str().unwrap()).is_empty());
    std::fs::remove_file(workspace.path.join("reached")).unwrap();
    let files: Vec<_> = tree(&workspace.path).into_keys().collect();
    assert_eq!(files.len(), 3, "{files:?}");
}
