//! Why a run failed, from the command line, over gRPC and over MCP: the same root cause in each, none before a run, and
//! nothing for another tenant.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

use proctor_proto::v1::{AnalyzeFailuresRequest, AnalyzeFailuresResponse, Confidence};
use proctor_proto::{analysis_text, reason};
use proctor_tests::grpc_client::Client;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree, copy};
use serde_json::json;
use std::fs;
use std::path::Path;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A package that imports what is not installed, and three test files that import the package.
const CASCADE: [(&str, &str); 6] = [
    ("requirements.txt", "pytest\n"),
    ("shop/__init__.py", "from shop.client import get\n"),
    ("shop/client.py", "import library_of_nobody\n\ndef get():\n    return library_of_nobody.get()\n"),
    ("test_a.py", "import shop\n\ndef test_a():\n    assert shop\n"),
    ("test_b.py", "from shop import get\n\ndef test_b():\n    assert get\n"),
    ("test_c.py", "from shop.client import get\n\ndef test_c():\n    assert get\n"),
];

/// The beginning of what the analysis says about it; the runner's message follows.
const STATEMENT: &str =
    "all 3 failures agree: a missing dependency at shop/client.py:1, where each of them is loaded: ModuleNotFoundError";

const SUGGESTION: &str =
    "`uv add library_of_nobody`, or put its directory on the path if library_of_nobody is a module of the project";

/// A client of a host that the sandbox does not let it reach, and two tests that use the client.
const OFFLINE: [(&str, &str); 3] = [
    ("requirements.txt", "pytest\n"),
    (
        "shop_client.py",
        "import socket\n\ndef get():\n    return socket.create_connection((\"shop.invalid\", 80), timeout=5)\n",
    ),
    (
        "test_client.py",
        "import shop_client\n\ndef test_one():\n    assert shop_client.get()\n\ndef test_two():\n    assert shop_client.get()\n",
    ),
];

const OFFLINE_STATEMENT: &str = "the sandbox gives the run no network, and 2 of 2 failures could not reach a host";

const OFFLINE_SUGGESTION: &str = "replace the host by a local stand-in, or run with the network of the host (`proctor run \
     --network host`), if the tenant may";

fn write_cascade(workspace: &Path) {
    write(workspace, CASCADE.into_iter().chain([("uv.lock", "version = 1\n")]));
}

fn write(workspace: &Path, files: impl IntoIterator<Item = (&'static str, &'static str)>) {
    for (file, content) in files {
        let path = workspace.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

async fn analyze(client: &Client, session: &str, run: &str) -> Result<AnalyzeFailuresResponse, Status> {
    let request = AnalyzeFailuresRequest {
        session_id: session.to_owned(),
        limit: 0,
        run_id: run.to_owned(),
        since: String::new(),
    };
    Ok(client.results.clone().analyze_failures(request).await?.into_inner())
}

#[test]
fn the_command_line_names_the_root_of_a_cascade() {
    let workspace = TestWorkspace::empty();
    let before = workspace.proctor(&["analyze"]);
    assert!(before.status == 2 && before.stderr.contains("no run here yet: `proctor run` first"), "{before:?}");
    write_cascade(&workspace.path);
    let run = workspace.proctor(&["run", "--framework", "pytest"]);
    assert_eq!(run.status, 3, "{run:?}");

    let document = workspace.proctor(&["analyze", "--output", "json"]).json();
    let cause = &document["root_cause"];
    assert!(cause["statement"].as_str().unwrap().starts_with(STATEMENT), "{document}");
    assert_eq!((&cause["confidence"], &cause["failures"]), (&json!("certain"), &json!(3)), "{document}");
    assert_eq!((&cause["evidence"]["file"], &cause["evidence"]["line"]), (&json!("shop/client.py"), &json!(1)));
    assert_eq!(document["suggestions"][0]["text"], SUGGESTION, "{document}");
    assert_eq!(document["affected_files"][0]["path"], "shop/client.py");
    assert_eq!(document["affected_files"][0]["is_edited"], false);
    assert_eq!(document["failed_tests"].as_array().unwrap().len(), 3);

    // The file was edited since: the place may be another one by now.
    workspace.write("shop/client.py", "def get():\n    return 1\n");
    let human = workspace.proctor(&["analyze", "."]);
    assert!(human.stdout.contains(&format!("\nlook first (certain): {STATEMENT}")), "{human:?}");
    assert!(human.stdout.contains("\n- shop/client.py (3 failure(s), edited since the run began)\n"), "{human:?}");
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest"]).status, 0);
    let passed = workspace.proctor(&["analyze"]);
    assert_eq!(
        (passed.status, passed.stdout.as_str()),
        (0, "passed: 0 failure(s), 0 pattern(s) (pytest)\nnote: the run passed: there is nothing to analyse\n")
    );
}

#[test]
fn a_limit_of_the_sandbox_comes_first_with_the_setting_that_changes_it() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    let hang = "import time\n\ndef test_fails():\n    assert 1 == 2\n\ndef test_hangs():\n    time.sleep(3600)\n";
    workspace.write("test_hang.py", hang);
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest", "--timeout", "15s"]).status, 124);
    let cause = workspace.proctor(&["analyze", "--output", "json"]).json()["root_cause"].clone();
    let statement =
        "the sandbox stopped the run at its time limit of 15 s while test_hangs ran, which was at test_hang.py:7";
    assert_eq!((&cause["statement"], &cause["is_sandbox"]), (&json!(statement), &json!(true)), "{cause}");
    assert!(cause["suggestion"].as_str().unwrap().contains("`timeout`"), "{cause}");
}

/// Most failures are counted and no longer listed.
#[test]
fn two_hundred_thousand_failures_are_counted_in_every_answer() {
    let workspace = TestWorkspace::empty();
    workspace.write("run.sh", "echo 1..200000\nseq 200000 | sed 's/^/not ok /'\nexit 1\n");
    let run = workspace.proctor(&["run", "--output", "json", "--", "sh", "run.sh"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    let report = run.json();
    assert_eq!((&report["summary"]["failed"], &report["summary"]["total"]), (&json!(200_000), &json!(200_000)));
    let listed = report["tests"].as_array().unwrap().len();
    assert_eq!(report["truncated"]["tests"], 200_000 - listed, "no failure is lost");
    let failures = workspace.proctor(&["failures", "--limit", "1"]).stdout;
    assert!(failures.starts_with("200000 test failure(s) from last run (custom, "), "{failures}");
    assert!(failures.contains("(199999 more entries truncated; "), "{failures}");
    let analysis = workspace.proctor(&["analyze"]).stdout;
    assert!(analysis.starts_with("failed: 200000 failure(s), "), "{analysis}");
    assert!(analysis.len() < 64 << 10, "{} bytes", analysis.len());
    let history = workspace.proctor(&["history"]).stdout;
    assert!(history.contains(" failed       0 200000 "), "{history}");
}

#[tokio::test]
async fn a_missing_network_is_the_same_cause_at_all_three_entrances() {
    let workspace = TestWorkspace::empty();
    write(&workspace.path, OFFLINE);
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest"]).status, 1);
    let document = workspace.proctor(&["analyze", "--output", "json"]).json();
    let cause = &document["root_cause"];
    assert_eq!((&cause["statement"], &cause["is_sandbox"]), (&json!(OFFLINE_STATEMENT), &json!(true)), "{document}");
    assert_eq!((&cause["suggestion"], &cause["confidence"]), (&json!(OFFLINE_SUGGESTION), &json!("likely")));
    assert_eq!((&cause["evidence"]["file"], &cause["evidence"]["line"]), (&json!("shop_client.py"), &json!(4)));
    assert_eq!(document["affected_files"][0]["path"], "shop_client.py");

    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({"framework": "pytest"})).await;
    let answer = mcp.call("analyze_failures", json!({})).await;
    let cause = &answer.structured["root_cause"];
    assert_eq!((&cause["statement"], &cause["sandbox"]), (&json!(OFFLINE_STATEMENT), &json!(true)), "{answer:?}");
    assert_eq!((&cause["at"], &cause["type"]), (&json!("shop_client.py:4"), &json!("network_refused")), "{answer:?}");
    assert_eq!(answer.structured["suggestions"][0]["text"], OFFLINE_SUGGESTION, "{answer:?}");
    mcp.close().await;

    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write(&workspace, OFFLINE);
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    let answer = analyze(&client, &session, "").await.unwrap();
    let cause = answer.root_cause.as_ref().unwrap();
    assert_eq!((cause.statement.as_str(), cause.suggestion.as_str()), (OFFLINE_STATEMENT, OFFLINE_SUGGESTION));
    let place = cause.evidence.as_ref().unwrap();
    assert_eq!((place.file.as_deref(), place.line, cause.is_sandbox), (Some("shop_client.py"), Some(4), true));
}

/// A repository of three commits, which git wrote, and a test of a file that differs from the last commit.
fn write_repository(workspace: &Path) {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../supervisor/src/workspace/changed_files/repository");
    copy(&repository, workspace);
    fs::rename(workspace.join("dot-git"), workspace.join(".git")).unwrap();
    let test = "from shop.cart import total\n\ndef test_total():\n    assert total()\n";
    write(workspace, [("requirements.txt", "pytest\n"), ("shop/cart.py", GREEN), ("test_cart.py", test)]);
}

const GREEN: &str = "def total():\n    return 1\n";

const RED: &str = "def total():\n    return None.price\n";

#[tokio::test]
async fn changed_files_are_the_same_at_all_three_entrances_those_in_stacks_first() {
    let workspace = TestWorkspace::empty();
    write_repository(&workspace.path);
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest"]).status, 0);
    workspace.write("shop/cart.py", RED);
    assert_eq!(workspace.proctor(&["run", "--framework", "pytest"]).status, 1);
    let changed = |since: &str| {
        let document = workspace.proctor(&["analyze", "--since", since, "--output", "json"]).json();
        document["changed_files"].clone()
    };
    let first =
        json!({"path": "shop/cart.py", "change": "changed", "in_stacks": 1, "is_covered": false, "is_imported": true});
    let of_head = changed("HEAD");
    assert_eq!(of_head["files"][0], first, "{of_head}");
    assert!(of_head["since"].as_str().unwrap().starts_with("commit "), "{of_head}");
    assert!(!of_head.to_string().contains("new.py"), "{of_head}");
    assert!(changed("v1")["files"].to_string().contains("shop/prices.py"));
    for since in ["last_green", "last_run"] {
        let of_run = changed(since);
        assert_eq!(of_run["files"][0], first, "{of_run}");
        assert!(!of_run["files"].to_string().contains("shop/item_1.py"), "written before that run: {of_run}");
    }
    let missing = changed("no-such-branch");
    assert_eq!(missing["notes"], json!(["no commit no-such-branch in this repository"]), "{missing}");
    let human = workspace.proctor(&["analyze", "--since", "HEAD"]);
    let line = "\n- shop/cart.py (changed: in 1 stack(s), named in an import of a failing test's file)\n";
    assert!(human.stdout.contains("\nchanged since commit ") && human.stdout.contains(line), "{human:?}");

    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({"framework": "pytest"})).await;
    let answer = mcp.call("analyze_failures", json!({"since": "HEAD"})).await;
    let file = &answer.structured["changed_files"]["files"][0];
    assert_eq!(
        (&file["path"], &file["in_stacks"], &file["imported"]),
        (&json!("shop/cart.py"), &json!(1), &json!(true))
    );
    assert!(answer.text.contains(line), "{answer:?}");
    mcp.close().await;

    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write_repository(&workspace);
    fs::write(workspace.join("shop/cart.py"), RED).unwrap();
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    let request =
        |since: &str| AnalyzeFailuresRequest { session_id: session.clone(), since: since.into(), ..Default::default() };
    let answer = client.results.clone().analyze_failures(request("HEAD")).await.unwrap().into_inner();
    let file = &answer.changed_files.as_ref().unwrap().files[0];
    assert_eq!((file.path.as_str(), file.in_stacks, file.is_imported), ("shop/cart.py", 1, true), "{answer:?}");
    let control = client.results.clone().analyze_failures(request("HEAD\n")).await.unwrap_err();
    assert_eq!(control.code(), Code::InvalidArgument, "{control:?}");
}

/// A product in which members pay more instead of less. Only the failing test executes that branch.
const MEMBERS: [(&str, &str); 3] = [
    ("go.mod", "module example.com/shop\n\ngo 1.21\n"),
    (
        "shop.go",
        "package shop\n\nfunc Price(amount int, isMember bool) int {\n\tif isMember {\n\t\treturn amount + 10\n\t}\n\treturn amount\n}\n",
    ),
    (
        "shop_test.go",
        "package shop\n\nimport \"testing\"\n\nfunc check(t *testing.T, got, want int) {\n\tif got != want {\n\t\tt.Errorf(\"got %d, want %d\", got, want)\n\t}\n}\n\nfunc TestGuest(t *testing.T) { check(t, Price(20, false), 20) }\n\nfunc TestMember(t *testing.T) { check(t, Price(20, true), 10) }\n",
    ),
];

#[tokio::test]
async fn the_lines_of_the_failed_test_alone_are_suspect_at_all_three_entrances() {
    let workspace = TestWorkspace::empty();
    write(&workspace.path, MEMBERS);
    let run = workspace.proctor(&["run", "--html", "report.html"]);
    assert_eq!(run.status, 1, "{run:?}");
    let document = workspace.proctor(&["analyze", "--output", "json"]).json();
    let suspects = &document["suspects"];
    assert_eq!((&suspects["failed_tests"], &suspects["passed_tests"]), (&json!(1), &json!(1)), "{document}");
    let first = &suspects["lines"][0];
    assert_eq!((&first["path"], &first["first_line"]), (&json!("shop.go"), &json!(5)), "{document}");
    assert_eq!((&first["function"], &first["failed"], &first["passed"]), (&json!("Price"), &json!(1), &json!(0)));
    assert_eq!(first["failed_tests"], json!([{"package": "example.com/shop", "name": "TestMember"}]));
    let page = fs::read_to_string(workspace.path.join("report.html")).unwrap();
    assert!(page.contains("\"suspects\":{\"failed\":1,") && page.contains("\"function\":\"Price\""), "{page}");
    workspace.write("shop.go", MEMBERS[1].1.replace("+ 10", "- 10").as_str());
    let edited = workspace.proctor(&["analyze"]);
    assert!(edited.stdout.contains("(executed by 1 failed and 0 passed, edited since the run began)"), "{edited:?}");

    workspace.write("shop.go", MEMBERS[1].1);
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({})).await;
    let answer = mcp.call("analyze_failures", json!({})).await;
    let line = "Price (executed by 1 failed and 0 passed)";
    assert!(answer.text.contains(line), "{answer:?}");
    let of_mcp = &answer.structured["suspects"]["lines"][0];
    assert_eq!((&of_mcp["function"], &of_mcp["failed"], &of_mcp["passed"]), (&json!("Price"), &json!(1), &json!(0)));
    mcp.close().await;

    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write(&workspace, MEMBERS);
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = client.open_session(&workspace).await;
    client.run(&session).await;
    let answer = analyze(&client, &session, "").await.unwrap();
    let suspects = answer.suspects.as_ref().unwrap();
    let first = &suspects.lines[0];
    assert_eq!(
        (suspects.measure.as_str(), first.function.as_str(), first.first_line),
        ("op2", "Price", 5),
        "{answer:?}"
    );
    assert_eq!(first.failed_tests, ["example.com/shop/TestMember"]);
}

#[tokio::test]
async fn grpc_analyses_runs_of_the_callers_own_session_only() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let workspace = supervisor.empty_workspace("alpha", "shop");
    write_cascade(&workspace);
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session = alpha.open_session(&workspace).await;
    let early = analyze(&alpha, &session, "").await.unwrap_err();
    let why = early.get_details_error_info().unwrap().reason;
    assert_eq!((early.code(), why.as_str()), (Code::FailedPrecondition, reason::NO_RUN_YET));

    let run = alpha.run(&session).await;
    let answer = analyze(&alpha, &session, "").await.unwrap();
    let cause = answer.root_cause.as_ref().unwrap();
    assert!(cause.statement.starts_with(STATEMENT) && cause.r#type == "missing_dependency", "{answer:?}");
    assert_eq!((cause.confidence(), cause.failures), (Confidence::Certain, 3));
    assert_eq!((answer.total, answer.run_id.as_str()), (3, run.run_id.as_str()));
    assert_eq!(analyze(&alpha, &session, &run.run_id).await.unwrap(), answer, "the run by its name");

    let own = beta.open_session(&supervisor.workspace("beta", "shop", "go/pass")).await;
    for (session, run) in [(session.as_str(), ""), (&*session, run.run_id.as_str()), (&*own, &*run.run_id)] {
        let denied = analyze(&beta, session, run).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied, "{denied:?}");
        assert!(!format!("{denied:?}").contains("client.py"), "{denied:?}");
    }
}

#[tokio::test]
async fn mcp_gives_the_same_root_in_text_and_structure_within_its_budget() {
    let workspace = TestWorkspace::empty();
    write_cascade(&workspace.path);
    let mcp = Mcp::start(&workspace).await;
    assert_eq!(mcp.call("analyze_failures", json!({})).await.structured["nothing_ran"], reason::NO_RUN_YET);
    mcp.call("run_tests", json!({"framework": "pytest"})).await;
    let answer = mcp.call("analyze_failures", json!({})).await;
    assert!(answer.text.starts_with("collection_failed: 3 failure(s), "), "{answer:?}");
    assert!(answer.text.contains(&format!("\nlook first (certain): {STATEMENT}")), "{answer:?}");
    assert!(answer.structured["root_cause"]["statement"].as_str().unwrap().starts_with(STATEMENT), "{answer:?}");
    assert_eq!(answer.structured["root_cause"]["at"], "shop/client.py:1");
    assert_eq!(answer.structured["suggestions"][0]["text"], SUGGESTION);
    assert_eq!(answer.structured["affected_files"][0]["path"], "shop/client.py");

    let short = mcp.call("analyze_failures", json!({"max_tokens": 450})).await;
    let bytes = short.text.len() + short.hint.len() + short.structured.to_string().len();
    assert!(
        bytes <= 4 * 450 + 1 && bytes < answer.text.len() + answer.structured.to_string().len(),
        "{bytes}: {short:?}"
    );
    assert!(short.text.contains(STATEMENT), "{short:?}");
    let confidence = analysis_text::confidence_name(Confidence::Certain);
    assert_eq!(short.structured["root_cause"]["confidence"], confidence);
    mcp.close().await;
}
