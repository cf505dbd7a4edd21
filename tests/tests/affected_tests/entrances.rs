//! A revision of Git, and the answers over gRPC and over MCP.

use crate::go::{A, GO, go_workspace};
use crate::{affected, write_all};
use proctor_proto::reason;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{AffectedTestsRequest, Outcome, Report, RunAffectedTestsRequest, RunTestsRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree, copy, write_before_run};
use serde_json::json;
use std::fs;
use std::path::Path;
use tonic::{Code, Status};
use tonic_types::StatusExt;

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
