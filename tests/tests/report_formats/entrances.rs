//! The same documents over gRPC and over MCP, for the tenant alone whose run it was.

use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::GetReportRequest;
use proctor_tests::mcp_client::Mcp;
use proctor_tests::supervisor_process::{SupervisorProcess, TENANTS, first_uid};
use proctor_tests::test_workspace::{TestWorkspace, chown_tree};
use serde_json::json;
use std::fs;
use tonic::Code;

const TESTS: &str = "def test_a():\n    total = 1\n    assert total == 2\n\n\ndef test_b():\n    pass\n";

#[tokio::test]
async fn a_tenant_gets_each_format_of_its_own_runs_over_grpc() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "shop");
    fs::write(workspace.join("requirements.txt"), "pytest\n").unwrap();
    fs::write(workspace.join("test_shop.py"), TESTS).unwrap();
    chown_tree(&workspace, first_uid(TENANTS[0]));
    let session_id = client.open_session(&workspace).await;
    let followed = client.run(&session_id).await;
    let other = supervisor.client("beta").await;
    for format in ReportFormat::ALL {
        let request = GetReportRequest {
            session_id: session_id.clone(),
            format: format.to_wire().into(),
            run_id: followed.run_id.clone(),
            max_bytes: 200_000,
        };
        let answer = client.results.clone().get_report(request.clone()).await.unwrap().into_inner();
        let text = String::from_utf8(answer.document).unwrap();
        assert_eq!((answer.content_type.as_str(), &answer.run_id), (format.media_type(), &followed.run_id));
        assert!(text.len() <= 200_000 && text.contains("test_a"), "{}: {text}", format.name());
        let host_path = workspace.to_str().unwrap();
        // The end of the output is in JSON, where pytest itself prints its directory.
        assert!(
            format == ReportFormat::Json || !text.contains(host_path),
            "{} names a path of the host: {text}",
            format.name()
        );
        if format == ReportFormat::Html {
            assert!(text.contains("    assert total == 2"), "the source is read on the host: {text}");
        }
        let denied = other.results.clone().get_report(request).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied, "{}", format.name());
    }
}

#[tokio::test]
async fn an_agent_gets_documents_and_resources() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write("test_shop.py", TESTS);
    let mcp = Mcp::start(&workspace).await;
    mcp.call("run_tests", json!({"framework": "pytest"})).await;
    let plan = mcp.call("get_test_report", json!({"format": "optimization"})).await;
    assert!(plan.text.starts_with("# Optimization plan\n"), "{plan:?}");
    assert_eq!(plan.structured["document"].as_str(), Some(plan.text.as_str()));
    let junit = mcp.call("get_test_report", json!({"format": "junit", "max_tokens": 20_000})).await;
    assert!(junit.text.starts_with("<?xml ") && junit.text.contains("name=\"test_a\""), "{junit:?}");
    let html = mcp.call("get_test_report", json!({"format": "html"})).await;
    assert!(html.text.contains("bytes of html, more than max_tokens allows"), "{html:?}");
    mcp.close().await;
}

#[tokio::test]
async fn an_agent_reads_the_history_the_slowest_and_the_flaky_tests() {
    let workspace = TestWorkspace::empty();
    workspace.write("requirements.txt", "pytest\n");
    workspace.write(
        "test_shop.py",
        "import pathlib\nimport time\n\ndef test_slow():\n    time.sleep(0.2)\n\ndef test_quick():\n    pass\n\n\
         def test_turns():\n    file = pathlib.Path('__pycache__') / 'turns'\n    file.parent.mkdir(exist_ok=True)\n    \
         turns = len(file.read_text()) if file.exists() else 0\n    file.write_text('x' * (turns + 1))\n    assert turns % 2\n",
    );
    let mcp = Mcp::start(&workspace).await;
    let not_yet = mcp.call("get_test_report", json!({})).await.text;
    assert_eq!(mcp.call("get_test_report", json!({"format": "slowest"})).await.text, not_yet);
    for format in ["history", "flaky"] {
        let answer = mcp.call("get_test_report", json!({"format": format})).await;
        assert_eq!(answer.text, "no run of this workspace is recorded yet\n", "{format}");
    }
    mcp.call("run_tests", json!({"repeat": 4})).await;
    let history = mcp.call("get_test_report", json!({"format": "history"})).await;
    assert!(
        history.text.starts_with("1 recorded run(s), newest first; no run of all pytest tests passed\n"),
        "{history:?}"
    );
    assert!(history.text.contains("failed: 2 passed, 1 failed (pytest, all), "), "{history:?}");
    assert_eq!(history.structured["runs"][0]["failed"], 1);
    let slowest = mcp.call("get_test_report", json!({"format": "slowest"})).await;
    assert!(slowest.text.starts_with("3 of 3 listed tests have a time; they took 0.2"), "{slowest:?}");
    assert_eq!(slowest.structured["slowest"][0]["name"], "test_shop.py::test_slow");
    let flaky = mcp.call("get_test_report", json!({"format": "flaky"})).await;
    assert!(flaky.text.contains("test_shop.py/test_turns failed 2 of 4 (95 % interval 15 to 85 %)"), "{flaky:?}");
    assert_eq!(flaky.structured["flaky"].as_array().map(Vec::len), Some(1), "{flaky:?}");
    mcp.close().await;
}
