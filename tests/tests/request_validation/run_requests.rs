//! Invalid requests that start or read runs: code, field and message; the last failures are kept.

use crate::{FILTERS, NO_GO, NO_PROJECT, add_links_out, path_without_go};
use proctor_proto::reason;
use proctor_proto::v1::{self, Limits, RunTestsRequest};
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{descendants, prepared_worker, wait_until};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::collections::HashMap;
use std::io::{Read, Write};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A request with one mistake, the name of the wrong field, and the message.
type Mistake = (RunTestsRequest, &'static str, String);

fn mistakes() -> Vec<Mistake> {
    let good = RunTestsRequest::default;
    let files = |file: &str| RunTestsRequest { files: vec![file.to_owned()], ..good() };
    let limits = |limits: Limits| RunTestsRequest { limits: Some(limits), ..good() };
    let env = |name: &str, value: &str| RunTestsRequest {
        env: HashMap::from([(name.to_owned(), value.to_owned())]),
        ..good()
    };
    let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let many: HashMap<String, String> = (0..65).map(|number| (format!("V{number}"), String::new())).collect();
    let mut mistakes: Vec<(RunTestsRequest, &'static str, &str)> = vec![
        (
            RunTestsRequest { framework: "cobol".into(), ..good() },
            "framework",
            "unknown framework `cobol`: known are go, pytest, unittest, jest, mocha, node, vitest, playwright, script, cargo, nextest, ctest, maven, gradle, maestro, cypress, rspec, phpunit",
        ),
        (RunTestsRequest { network: 99, ..good() }, "network", "network has no value 99"),
        (RunTestsRequest { coverage: -1, ..good() }, "coverage", "coverage has no value -1"),
        (RunTestsRequest { if_busy: 3, ..good() }, "if_busy", "if_busy has no value 3"),
        (RunTestsRequest { priority: 4, ..good() }, "priority", "priority has no value 4"),
        (files("../greet.go"), "files", "files: \"../greet.go\" is outside the workspace"),
        (files("/etc/passwd"), "files", "files: \"/etc/passwd\" is outside the workspace"),
        (files("out/passwd"), "files", "files: \"out/passwd\" is outside the workspace"),
        (files("passwd.txt"), "files", "files: \"passwd.txt\" is outside the workspace"),
        (files("gone.go"), "files", "files: \"gone.go\" not found in the workspace"),
        (RunTestsRequest { files: vec!["greet.go".into(); 1_001], ..good() }, "files", "files: at most 1000, got 1001"),
        (limits(Limits { memory_bytes: 1, ..Limits::default() }), "limits", "memory must be at least 4 MiB, got 1 B"),
        (
            limits(Limits { cpu_millis: 9, ..Limits::default() }),
            "limits",
            "cpus must be at least 0.01 processors, got 0.009 processors",
        ),
        (
            limits(Limits { pids: 3, ..Limits::default() }),
            "limits",
            "pids must be at least 4 processes, got 3 processes",
        ),
        (env("LD_PRELOAD", "/x.so"), "env", "env: LD_PRELOAD decides what runs and cannot be set"),
        (env("PROCTOR_WORKER", "/x"), "env", "env: PROCTOR_WORKER decides what runs and cannot be set"),
        (env("A-B", ""), "env", "env: \"A-B\" is not a variable's name ([A-Za-z_][A-Za-z0-9_]*)"),
        (env("A", "\0"), "env", "env: A contains a NUL byte"),
        (env("A", &"x".repeat(32 * 1024)), "env", "env: at most 32768 bytes together, got 32769"),
        (RunTestsRequest { env: many, ..good() }, "env", "env: at most 64 variables, got 65"),
        (RunTestsRequest { command: command(&[""]), ..good() }, "command", "command: needs a program"),
        (RunTestsRequest { command: command(&["a\0b"]), ..good() }, "command", "command: needs a program"),
        (
            RunTestsRequest { command: command(&["make"]), filter: "x".into(), ..good() },
            "command",
            "command excludes filter and files",
        ),
        (
            RunTestsRequest { tests: command(&["TestA"]), filter: "x".into(), ..good() },
            "tests",
            "tests excludes filter: pass one of them",
        ),
        (
            RunTestsRequest { tests: command(&["TestA"]), files: command(&["greet.go"]), ..good() },
            "tests",
            "tests excludes files: pass one of them",
        ),
        (
            RunTestsRequest { tests: command(&["TestA"]), command: command(&["make"]), ..good() },
            "tests",
            "tests excludes command: pass one of them",
        ),
        (RunTestsRequest { tests: command(&["TestA", " "]), ..good() }, "tests", "tests: a name is empty"),
        (RunTestsRequest { tests: command(&["a\nb"]), ..good() }, "tests", "tests: a name contains control characters"),
        (
            RunTestsRequest { tests: command(&["TestA"; 1_001]), ..good() },
            "tests",
            "tests: 1001 names, at most 1000 are accepted",
        ),
        (
            RunTestsRequest { tests: command(&[&"x".repeat(8_193)]), ..good() },
            "tests",
            "tests: a name has 8193 bytes, at most 8192 are accepted",
        ),
        (RunTestsRequest { command: command(&["x"; 257]), ..good() }, "command", "command: at most 256 words"),
        (
            RunTestsRequest { command: command(&["x", &"y".repeat(128 << 10)]), ..good() },
            "command",
            "command: at most 131072 bytes together",
        ),
        (RunTestsRequest { repeat: 1_001, ..good() }, "repeat", "repeat must be at most 1000"),
        (RunTestsRequest { retry_failed: 11, ..good() }, "retry_failed", "retry_failed must be at most 10"),
        (
            RunTestsRequest { until_different: true, ..good() },
            "until_different",
            "until_different needs a repeat of at least 2",
        ),
        (RunTestsRequest { repeat: 2, fresh: true, ..good() }, "fresh", "fresh excludes repeat and retry_failed"),
        (RunTestsRequest { parallel: 257, ..good() }, "parallel", "parallel must be at most 256"),
        (RunTestsRequest { headed: true, ..good() }, "headed", "headed has no meaning for go"),
        (RunTestsRequest { browser: "firefox".into(), ..good() }, "browser", "browser has no meaning for go"),
        (
            RunTestsRequest { browser: "mosaic".into(), ..good() },
            "browser",
            "browser: unknown browser `mosaic`: known are chromium, firefox, webkit",
        ),
    ];
    mistakes
        .extend(FILTERS.map(|(filter, text)| (RunTestsRequest { filter: filter.into(), ..good() }, "filter", text)));
    mistakes.into_iter().map(|(request, field, text)| (request, field, text.to_owned())).collect()
}

fn assert_names(status: &Status, field: &str, text: &str, context: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{context}: {status:?}");
    assert!(status.message().contains(text), "{context}: {text:?} in {:?}", status.message());
    let violations = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), [field], "{context}");
}

async fn expect_refusal(client: &Client, request: RunTestsRequest) -> Status {
    match client.start(request.clone()).await {
        Ok(_) => panic!("the run started: {request:?}"),
        Err(status) => status,
    }
}

#[tokio::test]
async fn names_the_field_of_each_mistake_and_keeps_failures() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    add_links_out(&workspace);
    let session = client.open_session(&workspace).await;
    let run = client.run(&session).await;
    let before = client.failures(&session).await;
    let mut idle_worker = None;
    wait_until("a worker is idle", || {
        idle_worker = prepared_worker(supervisor.pid());
        idle_worker.is_some()
    });
    let host = supervisor.dir().to_str().unwrap().to_owned();
    for (request, field, text) in mistakes() {
        let request = RunTestsRequest { session_id: session.clone(), ..request };
        let status = expect_refusal(&client, request).await;
        assert_names(&status, field, &text, field);
        assert!(!status.message().contains(&host), "the message contains no path of the host: {status:?}");
    }
    let network = v1::Network::Host.into();
    let denied =
        expect_refusal(&client, RunTestsRequest { session_id: session.clone(), network, ..Default::default() }).await;
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert_eq!(
        denied.message(),
        "network: the host's network is not allowed for this tenant: ask for none, or have the operator allow it"
    );

    assert_eq!(Some(descendants(supervisor.pid())), idle_worker, "no process was started");
    let after = client.failures(&session).await;
    assert_eq!((&after.run_id, &after.failures), (&before.run_id, &before.failures));
    assert_eq!(after.run_id, run.run_id);
}

#[tokio::test]
async fn names_the_field_of_each_query_mistake() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/pass");
    add_links_out(&workspace);
    let session_id = client.open_session(&workspace).await;
    let run_id = client.run(&session_id).await.run_id;
    for (file, text) in [
        ("", "file is required"),
        ("../x.go", "\"../x.go\" is outside the workspace"),
        ("out/passwd", "\"out/passwd\" is outside the workspace"),
        ("passwd.txt", "\"passwd.txt\" is outside the workspace"),
    ] {
        let request =
            v1::TestsCoveringRequest { session_id: session_id.clone(), file: file.into(), ..Default::default() };
        let status = client.results.clone().tests_covering(request).await.unwrap_err();
        assert_names(&status, "file", text, file);
    }
    for stream in [0, 9] {
        let request = v1::ReadOutputRequest { run_id: run_id.clone(), stream, cursor: 0, max_bytes: 0 };
        let status = client.runs.clone().read_output(request).await.unwrap_err();
        assert_names(&status, "stream", "stream", "ReadOutput");
    }
    for format in [-1, 17] {
        let request = v1::GetReportRequest { session_id: session_id.clone(), format, ..Default::default() };
        let status = client.results.clone().get_report(request).await.unwrap_err();
        assert_names(&status, "format", "format", "GetReport");
    }
    for (filter, text) in FILTERS {
        let request =
            v1::ListTestsRequest { session_id: session_id.clone(), filter: filter.into(), ..Default::default() };
        let status = client.results.clone().list_tests(request).await.unwrap_err();
        assert_names(&status, "filter", text, "ListTests");
    }
    // Reading beyond the end is valid and returns nothing.
    let request = v1::ReadOutputRequest { run_id, stream: 1, cursor: u64::MAX, max_bytes: u32::MAX };
    let answer = client.runs.clone().read_output(request).await.unwrap().into_inner();
    assert!(answer.end && answer.bytes.is_empty() && answer.next_cursor == answer.total_bytes);
}

#[tokio::test]
async fn refusals_carry_a_machine_readable_reason() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let empty = supervisor.empty_workspace("beta", "empty");
    let session_id = client.open_session(&empty).await;
    let report = v1::GetReportRequest { session_id: session_id.clone(), ..Default::default() };
    let rerun = v1::RunFailingTestsRequest { session_id: session_id.clone(), ..Default::default() };
    let go = RunTestsRequest { session_id: session_id.clone(), framework: "go".into(), ..Default::default() };
    let bad_project_file = supervisor.empty_workspace("beta", "bad-project-file");
    std::fs::write(bad_project_file.join(".proctor.yaml"), "framework: go\ntimeuot: 3s\n").unwrap();
    let bad_project_file =
        RunTestsRequest { session_id: client.open_session(&bad_project_file).await, ..Default::default() };
    let any = RunTestsRequest { session_id, ..Default::default() };
    for (status, reason) in [
        (expect_refusal(&client, any).await, reason::NO_PROJECT),
        (expect_refusal(&client, bad_project_file).await, reason::PROJECT_FILE),
        (expect_refusal(&client, go).await, reason::FRAMEWORK_NOT_HERE),
        (client.runs.clone().run_failing_tests(rerun).await.unwrap_err(), reason::NO_RUN_YET),
        (client.results.clone().get_report(report).await.unwrap_err(), reason::NO_RUN_YET),
    ] {
        let info = status.get_details_error_info().unwrap();
        assert_eq!(
            (status.code(), info.domain.as_str(), info.reason.as_str()),
            (Code::FailedPrecondition, reason::DOMAIN, reason)
        );
        if reason == reason::NO_PROJECT {
            assert_eq!(status.message(), NO_PROJECT);
        }
        if reason == reason::PROJECT_FILE {
            assert!(status.message().starts_with(".proctor.yaml: line 2, timeuot: unknown field"), "{status:?}");
        }
    }
}

#[tokio::test]
async fn names_a_runner_missing_on_path() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        path: path_without_go(dir.path()),
        ..SupervisorSettings::default()
    });
    let client = supervisor.client("alpha").await;
    let session_id = client.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let status =
        expect_refusal(&client, RunTestsRequest { session_id: session_id.clone(), ..Default::default() }).await;
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, NO_GO));
    assert_eq!(status.get_details_error_info().unwrap().reason, reason::RUNNER_MISSING);
    assert!(!client.failures(&session_id).await.has_run);
}

#[tokio::test]
async fn survives_garbage_and_oversized_messages() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense", &[0xff; 4096]] {
        let mut peer = std::net::TcpStream::connect(supervisor.address).unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        peer.write_all(garbage).unwrap();
        _ = peer.shutdown(std::net::Shutdown::Write);
        _ = peer.read_to_end(&mut Vec::new());
    }
    let session_id = client.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let huge = RunTestsRequest { session_id: session_id.clone(), filter: "x".repeat(9 << 20), ..Default::default() };
    let status = expect_refusal(&client, huge).await;
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status:?}");
    assert_eq!(client.run(&session_id).await.report().exit_code, 0);
}
