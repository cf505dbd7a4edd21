//! The project file takes effect at the three entrances: the command line, gRPC and MCP. `proctor init` writes a file that loads.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_proto::{reason, v1};
use proctor_tests::grpc_client::Client;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree, copy_fixture};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tonic::Code;
use tonic_types::StatusExt;

/// A workspace with a project file, and the names of the tests that a run of it passes.
struct Scope {
    name: &'static str,
    /// A fixture to begin with; empty for none.
    fixture: &'static str,
    files: &'static [(&'static str, &'static str)],
    project_file: &'static str,
    ran: &'static [&'static str],
}

const GO_TESTS: &[(&str, &str)] = &[
    ("go.mod", "module example.com/scope\n\ngo 1.21\n"),
    (
        "unit_test.go",
        "package scope\n\nimport \"testing\"\n\nfunc TestUnit(t *testing.T) {}\n\nfunc TestIntegrationDisk(t *testing.T) { t.Fatal() }\n\nfunc Example() {\n\t// Output:\n}\n",
    ),
    ("slow/slow_test.go", "package slow\n\nimport \"testing\"\n\nfunc TestSlow(t *testing.T) { t.Fatal() }\n"),
];

const PYTHON_TESTS: &[(&str, &str)] = &[
    ("requirements.txt", "pytest\n"),
    (
        "tests/test_shop.py",
        "import pytest\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_unit(n):\n    pass\n\nclass TestSlow:\n    def test_in_class(self):\n        assert False\n\ndef test_slow_one():\n    assert False\n",
    ),
    ("tests/e2e/test_browser.py", "import module_of_nobody\n"),
    ("tools/test_tool.py", "def test_tool():\n    assert False\n"),
];

const SCOPES: &[Scope] = &[
    Scope {
        name: "go",
        fixture: "",
        files: GO_TESTS,
        project_file: "patterns: ['Test*']\nexclude: ['TestIntegration*', 'slow/**']\n",
        ran: &["TestUnit"],
    },
    Scope {
        name: "pytest",
        fixture: "",
        files: PYTHON_TESTS,
        project_file: "patterns: ['tests/**']\nexclude: ['test_slow*', TestSlow, 'tests/e2e/']\n",
        ran: &["test_unit[1]", "test_unit[2]"],
    },
    Scope {
        name: "unittest",
        fixture: "",
        files: &[
            (
                "test_a.py",
                "import unittest\n\nclass TestUnit(unittest.TestCase):\n    def test_a(self):\n        pass\n\n    def test_slow(self):\n        self.fail()\n",
            ),
            (
                "test_b.py",
                "import unittest\n\nclass TestOther(unittest.TestCase):\n    def test_b(self):\n        self.fail()\n",
            ),
        ],
        project_file: "patterns: ['Test*']\nexclude: [test_slow, test_b.py]\n",
        ran: &["TestUnit.test_a"],
    },
    Scope {
        name: "jest",
        fixture: "jest/pass",
        files: &[("e2e/shop.test.js", "test('sum of all', () => { throw new Error('excluded'); });\n")],
        project_file: "patterns: [sum]\nexclude: ['sum of nothing', 'e2e/**']\n",
        ran: &["sum > of two"],
    },
    Scope {
        name: "vitest",
        fixture: "vitest/pass",
        files: &[],
        project_file: "exclude: ['greets *']\n",
        ran: &["sum > of nothing > is zero", "sum > of two"],
    },
    Scope {
        name: "nextest",
        fixture: "nextest/pass",
        files: &[],
        project_file: "patterns: ['adds*']\nexclude: [adds_outside]\n",
        ran: &["tests::adds"],
    },
    Scope {
        name: "mocha",
        fixture: "mocha/pass",
        files: &[],
        project_file: "patterns: [sum, 'stands*']\nexclude: ['sum with*']\n",
        ran: &["stands alone", "sum > adds"],
    },
];

/// Scopes beside settings of the runner's own, and beside files that do not load.
const SPECIAL_SCOPES: &[Scope] = &[
    Scope {
        name: "mocha, filter of the script",
        fixture: "mocha/pass",
        files: &[("package.json", "{\"scripts\": {\"test\": \"mocha --grep sum\"}}")],
        project_file: "exclude: ['sum > with zero']\n",
        ran: &["sum > adds"],
    },
    Scope {
        name: "mocha, inverted filter of the configuration, in parallel",
        fixture: "mocha/pass",
        files: &[(
            ".mocharc.json",
            "{\"spec\": [\"test/**/*.spec.*js\"], \"grep\": \"with zero\", \"invert\": true, \"parallel\": true}",
        )],
        project_file: "exclude: ['stands alone']\n",
        ran: &["a module > is loaded", "sum > adds"],
    },
    Scope {
        name: "vitest, filter of the configuration",
        fixture: "vitest/pass",
        files: &[("vitest.config.mjs", "export default { test: { testNamePattern: 'sum' } };\n")],
        project_file: "exclude: ['sum > of nothing']\n",
        ran: &["sum > of two"],
    },
    Scope {
        name: "vitest, a glob across two titles",
        fixture: "vitest/pass",
        files: &[],
        project_file: "exclude: ['sum of*']\n",
        ran: &["greets world", "greets you"],
    },
    Scope {
        name: "pytest, a conftest that changes the directory",
        fixture: "",
        files: &[
            ("requirements.txt", "pytest\n"),
            ("conftest.py", "import os\n\nos.chdir('/')\n"),
            ("unit/test_a.py", "def test_a():\n    pass\n"),
            ("slow/test_b.py", "def test_b():\n    assert False\n"),
        ],
        project_file: "patterns: ['unit/**', 'slow/**']\nexclude: ['slow/test_b.py']\n",
        ran: &["test_a"],
    },
    Scope {
        name: "unittest, excluded modules that do not load, change the directory, or are pytest's",
        fixture: "",
        files: &[
            (
                "test_a.py",
                "import os\nimport unittest\n\nos.chdir('/')\n\nclass TestUnit(unittest.TestCase):\n    def test_a(self):\n        pass\n",
            ),
            ("test_broken.py", "import module_of_nobody\n"),
            ("test_other.py", "import sys\n\nsys.modules['pytest'] = sys\n\ndef test_of_pytest():\n    pass\n"),
        ],
        project_file: "exclude: [test_broken.py, ./test_other.py]\n",
        ran: &["TestUnit.test_a"],
    },
    Scope {
        name: "go, packages without a file for this build",
        fixture: "",
        files: &[
            GO_TESTS[0],
            ("unit/unit_test.go", "package unit\n\nimport \"testing\"\n\nfunc TestUnit(t *testing.T) {}\n"),
            ("slow/slow_test.go", "package slow\n\nimport \"testing\"\n\nfunc TestSlow(t *testing.T) { t.Fatal() }\n"),
            ("it/it_test.go", "//go:build integration\n\npackage it\n"),
            ("tools.go", "//go:build tools\n\npackage tools\n"),
        ],
        project_file: "exclude: ['slow/**']\n",
        ran: &["TestUnit"],
    },
];

fn write(workspace: &Path, scope: &Scope) {
    if !scope.fixture.is_empty() {
        copy_fixture(scope.fixture, workspace);
    }
    for (file, content) in scope.files.iter().chain(&[(".proctor.yaml", scope.project_file)]) {
        let path = workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    names.map(str::to_owned).collect()
}

fn passed(report: &Value) -> BTreeSet<String> {
    let tests = report["tests"].as_array().unwrap_or_else(|| panic!("{report}")).iter();
    names(tests.filter(|test| test["outcome"] == "passed").filter_map(|test| test["name"].as_str()))
}

#[test]
fn patterns_and_exclude_select_the_tests_of_a_run() {
    for scope in SCOPES.iter().chain(SPECIAL_SCOPES) {
        let workspace = TestWorkspace::empty();
        write(&workspace.path, scope);
        let run = workspace.proctor(&["run", "--output", "json"]);
        let report = run.json();
        assert_eq!((run.status, passed(&report)), (0, names(scope.ran.iter().copied())), "{}: {report}", scope.name);
        assert_eq!(report["summary"]["skipped"], 0, "{}: {report}", scope.name);
        assert_eq!(report["is_scoped"], true, "{}: {report}", scope.name);
        let notes = report["evidence"]["notes"].to_string();
        assert!(notes.contains("the project file selects the tests: "), "{}: {notes}", scope.name);
        let listed = workspace.proctor(&["list", "--output", "json"]).json();
        let listed = names(listed["tests"].as_array().unwrap().iter().filter_map(|test| test["name"].as_str()));
        assert_eq!(listed, names(scope.ran.iter().copied()), "{}", scope.name);
    }
}

#[test]
fn a_framework_without_a_test_in_the_scope_is_not_green() {
    let workspace = TestWorkspace::empty();
    for (file, content) in GO_TESTS[..2].iter().chain(&PYTHON_TESTS[..2]) {
        workspace.write(file, content);
    }
    workspace.write(".proctor.yaml", "framework: all\npatterns: [TestUnit]\nexclude: ['TestUnit/disk']\n");
    let run = workspace.proctor(&["run", "--output", "json"]);
    let report = run.json();
    let notes = report["evidence"]["notes"].to_string();
    assert_eq!(report["outcome"], "no_tests", "{report}");
    assert!(notes.contains("of pytest no test was executed"), "{notes}");
    assert!(notes.contains("exclude has `TestUnit/disk`, which matches no file"), "{notes}");
}

#[tokio::test]
async fn patterns_and_exclude_select_the_tests_over_grpc_and_mcp() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for scope in SCOPES {
        let workspace = supervisor.empty_workspace("alpha", scope.name);
        write(&workspace, scope);
        chown_tree(&workspace, first_uid("alpha"));
        let session = client.open_session(&workspace).await;
        let run = client.run(&session).await;
        let report = run.report();
        let tests = report.tests.iter().filter(|test| test.outcome() == v1::TestOutcome::Passed);
        let ran = names(tests.map(|test| test.name.as_str()));
        assert_eq!(
            (report.outcome(), ran),
            (v1::Outcome::Passed, names(scope.ran.iter().copied())),
            "{}: {report:?}",
            scope.name
        );
    }
    let workspace = TestWorkspace::empty();
    write(&workspace.path, &SCOPES[1]);
    let mcp = Mcp::start(&workspace).await;
    let answer = mcp.call("run_tests", json!({})).await;
    assert!(answer.text.starts_with("passed: 2"), "{answer:?}");
    let listed = mcp.call("list_tests", json!({})).await;
    assert!(listed.text.contains("test_unit[1]") && !listed.text.contains("slow"), "{listed:?}");
    mcp.close().await;
}

#[test]
fn a_scoped_run_is_no_run_of_all_tests_for_the_history() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_a.py", "def test_a():\n    pass\n\ndef test_slow():\n    pass\n");
    workspace.write(".proctor.yaml", "exclude: [test_slow]\n");
    assert_eq!(workspace.proctor(&["run"]).status, 0);
    workspace.write("test_a.py", "def test_a():\n    assert False\n\ndef test_slow():\n    pass\n");
    let report = workspace.proctor(&["run", "--output", "json"]).json();
    assert_eq!(report["since_last_run"]["new"]["total"], 1, "{report}");
    assert!(report.get("since_last_green").is_none(), "{report}");
}

#[test]
fn a_request_that_selects_tests_overrides_the_project_file() {
    let workspace = TestWorkspace::empty();
    write(&workspace.path, &SCOPES[0]);
    let named = workspace.proctor(&["run", "--test", "TestSlow"]);
    assert_eq!(named.status, 1, "{named:?}");
    let filtered = workspace.proctor(&["run", "--filter", "TestIntegrationDisk"]);
    assert!(filtered.status == 1 && filtered.stdout.contains("the request selects tests itself"), "{filtered:?}");
    // A rerun of these failures is no run of everything either.
    assert_eq!(workspace.proctor(&["run", "--failed"]).status, 1);
}

#[tokio::test]
async fn a_runner_that_cannot_select_refuses_the_run() {
    const MESSAGE: &str = "the project file's exclude has `slow*`, and cargo cannot select names of tests: leave the entry out, or select in the runner's own configuration";
    let manifest = "[package]\nname = \"scope\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let files = [("Cargo.toml", manifest), ("src/lib.rs", ""), (".proctor.yaml", "exclude: ['slow*']\n")];
    let workspace = TestWorkspace::empty();
    files.iter().for_each(|(file, content)| workspace.write(file, content));
    let run = workspace.proctor(&["run"]);
    assert_eq!((run.status, run.stderr), (2, format!("proctor: {MESSAGE}\n")));
    let mcp = Mcp::start(&workspace).await;
    assert!(mcp.expect_error("run_tests", json!({})).await.contains(MESSAGE));
    mcp.close().await;

    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "refused");
    for (file, content) in files {
        fs::create_dir_all(workspace.join("src")).unwrap();
        fs::write(workspace.join(file), content).unwrap();
    }
    chown_tree(&workspace, first_uid("alpha"));
    let session_id = client.open_session(&workspace).await;
    let request = v1::RunTestsRequest { session_id, ..Default::default() };
    let status = match client.start(request).await {
        Err(status) => status,
        Ok(stream) => stream.try_read_to_end().await.unwrap_err(),
    };
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, MESSAGE));
    assert_eq!(status.get_details_error_info().unwrap().reason, reason::PROJECT_FILE);
}

/// A test that passes only with the variable of the project file.
const SETTINGS_TEST: &str = "import os\n\ndef test_environment():\n    assert os.environ['SHOP'] == 'open'\n";

const SETTINGS: &str = "timeout: 100s\ntimeouts:\n  pytest: 50s\nenvironment:\n  SHOP: open\nsandbox:\n  max_memory: 300MiB\n  max_cpu: 0.5\n  allow_network: true\n";

fn write_settings(workspace: &Path, project_file: &str, content: &str) {
    fs::create_dir_all(workspace.join(project_file).parent().unwrap()).unwrap();
    fs::write(workspace.join(project_file), content).unwrap();
    fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
    fs::write(workspace.join("test_settings.py"), SETTINGS_TEST).unwrap();
}

#[tokio::test]
async fn limits_and_environment_apply_at_every_entrance() {
    let nested: String = SETTINGS.lines().map(|line| format!("  {line}\n")).collect();
    let workspace = TestWorkspace::empty();
    write_settings(&workspace.path, ".agenticorp/testing.yaml", &format!("testing:\n{nested}"));
    let run = workspace.proctor(&["run", "--output", "json"]);
    let report = run.json();
    assert_eq!(run.status, 0, "{report}");
    assert_eq!(report["limits"]["wall_ms_max"], 50_000, "{report}");
    assert_eq!(report["limits"]["memory_bytes_max"], 300 << 20);
    assert_eq!(report["limits"]["cpu_millis_max"], 500);
    let notes = report["evidence"]["notes"].to_string();
    assert!(notes.contains("which this run did not request (--network host)"), "{notes}");
    // A request is within the project's own limits, and has precedence for the time.
    let asked = workspace.proctor(&["run", "--memory", "1GiB", "--timeout", "70s", "--output", "json"]).json();
    assert_eq!(
        (&asked["limits"]["memory_bytes_max"], &asked["limits"]["wall_ms_max"]),
        (&json!(300 << 20), &json!(70_000))
    );

    let supervisor = SupervisorProcess::start();
    let client: Client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "settings");
    write_settings(&workspace, ".proctor.yaml", SETTINGS);
    chown_tree(&workspace, first_uid("alpha"));
    let session = client.open_session(&workspace).await;
    let run = client.run(&session).await;
    let (report, limits) = (run.report(), run.report().limits.unwrap_or_default());
    assert_eq!(report.outcome(), v1::Outcome::Passed, "{report:?}");
    assert_eq!((limits.wall_ms, limits.memory_bytes, limits.cpu_millis), (50_000, 300 << 20, 500));

    let workspace = TestWorkspace::empty();
    write_settings(&workspace.path, ".proctor.yaml", SETTINGS);
    let mcp = Mcp::start(&workspace).await;
    let answer = mcp.call("run_tests", json!({"verbose": true})).await;
    assert!(answer.text.starts_with("passed: 1"), "{answer:?}");
    let report = mcp.call("get_test_report", json!({"format": "json", "max_tokens": 100_000})).await;
    assert_eq!(report.structured["limits"]["wall_ms_max"], 50_000, "{report:?}");
    mcp.close().await;
}

#[test]
fn init_writes_a_file_for_the_frameworks_that_are_here() {
    let workspace = TestWorkspace::with_fixture("go/pass");
    let before = workspace.proctor(&["run", "--output", "json"]).json();
    let init = workspace.proctor(&["init"]);
    assert_eq!(
        (init.status, init.stdout.as_str()),
        (0, "wrote .proctor.yaml (go): every key is a comment, so runs are as before\n"),
        "{init:?}"
    );
    let written = fs::read_to_string(workspace.path.join(".proctor.yaml")).unwrap();
    assert!(
        written.contains("# Detected here: go.\n") && written.contains("#   - \"TestIntegration*\"\n"),
        "{written}"
    );
    let after = workspace.proctor(&["run", "--output", "json"]).json();
    assert_eq!((&after["outcome"], &after["summary"]), (&before["outcome"], &before["summary"]));

    workspace.write(".proctor.yaml", "timeout: 9s\n");
    let again = workspace.proctor(&["init"]);
    assert_eq!((again.status, again.stderr.as_str()), (2, "proctor: .proctor.yaml exists: --force replaces it\n"));
    assert_eq!(fs::read_to_string(workspace.path.join(".proctor.yaml")).unwrap(), "timeout: 9s\n");
    // A link is replaced; its target stays.
    fs::remove_file(workspace.path.join(".proctor.yaml")).unwrap();
    fs::write(workspace.root().join("target"), "mine").unwrap();
    std::os::unix::fs::symlink(workspace.root().join("target"), workspace.path.join(".proctor.yaml")).unwrap();
    assert_eq!(workspace.proctor(&["init"]).status, 2);
    assert_eq!(workspace.proctor(&["init", ".", "--force"]).status, 0);
    assert_eq!(fs::read_to_string(workspace.path.join(".proctor.yaml")).unwrap(), written);
    assert_eq!(fs::read_to_string(workspace.root().join("target")).unwrap(), "mine");

    let schema = workspace.proctor(&["init", "--schema"]);
    let committed = fs::read_to_string(proctor_tests::process::source_root().join("deploy/project-file.schema.json"));
    assert_eq!((schema.status, schema.stdout), (0, committed.unwrap()));
}
