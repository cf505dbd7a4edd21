//! `RunTests` of a real supervisor on a row, and the calls that query its results. The row runs as one tenant over TCP with
//! a token, while the session of the other tenant must stay unchanged.

use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{
    self, GetReportRequest, HungTest, Limits, ReadOutputRequest, RunTestsRequest, TestsCoveringRequest,
};
use proctor_proto::{reason, v1::Stream};
use proctor_tests::expectation::{Row, RunOptions};
use proctor_tests::expected::{MISSING_COMMAND, MISSING_RUNNER, row};
use proctor_tests::grpc_client::{Client, CompletedRun};
use proctor_tests::run_result::{RunResult, TestRecord, expected_failures};
use proctor_tests::supervisor_process::SupervisorProcess;
use std::collections::BTreeSet;
use tonic::Code;
use tonic_types::StatusExt;

fn request(session_id: &str, options: &RunOptions) -> RunTestsRequest {
    let limits = Limits {
        memory_bytes: options.memory_mib.unwrap_or(0) << 20,
        pids: options.pids.unwrap_or(0),
        wall_ms: options.timeout_s.unwrap_or(0) * 1_000,
        ..Limits::default()
    };
    RunTestsRequest {
        session_id: session_id.to_owned(),
        filter: options.filter.to_owned(),
        command: options.command.iter().map(|word| (*word).to_owned()).collect(),
        limits: Some(limits),
        ..RunTestsRequest::default()
    }
}

/// Checks one row.
pub(crate) async fn check(name: &str) {
    let row = row(name);
    let supervisor = SupervisorProcess::start();
    let workspace = supervisor.workspace("beta", "shop", row.fixture);
    let other = supervisor.local_client().await;
    let others_session = other.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let client = supervisor.client("beta").await;
    let session = client.open_session(&workspace).await;

    let mut followed = client.start(request(&session, &row.options)).await.unwrap().read_to_end().await;
    // What asks a process for its stack has four seconds, which may be too few on a loaded host.
    for _ in 0..5 {
        if hung_places(&followed.report().evidence.clone().unwrap_or_default().hung) == wanted_places(row) {
            break;
        }
        followed = client.start(request(&session, &row.options)).await.unwrap().read_to_end().await;
    }
    followed.assert_numbered_from(0);
    RunResult::from_report(followed.report()).assert_matches(row);
    check_document(row, &client, &session, &followed).await;
    check_failures(row, &client, &session, &followed).await;
    check_covering(row, &client, &session).await;
    check_progress(row, &followed);
    check_output(&client, &followed).await;
    check_artifacts(row, &client, &other, &followed).await;
    assert!(!other.failures(&others_session).await.has_run, "the other tenant's session has no run");
}

async fn check_document(row: &Row, client: &Client, session: &str, followed: &CompletedRun) {
    let request = GetReportRequest { session_id: session.to_owned(), ..GetReportRequest::default() };
    let answer = client.results.clone().get_report(request).await.unwrap().into_inner();
    assert_eq!(answer.run_id, followed.run_id);
    RunResult::from_json(&serde_json::from_slice(&answer.document).unwrap()).assert_matches(row);
}

async fn check_failures(row: &Row, client: &Client, session: &str, followed: &CompletedRun) {
    let answer = client.failures(session).await;
    let found: BTreeSet<TestRecord> = answer.failures.iter().map(TestRecord::from_failure).collect();
    let wanted = expected_failures(row);
    assert_eq!(found, wanted);
    assert_eq!((answer.total, answer.failures.len()), (wanted.len() as u64, wanted.len()));
    assert_eq!((answer.has_run, answer.structured, &answer.run_id), (true, row.structured, &followed.run_id));
    let running: Vec<String> = answer.running.iter().map(|test| format!("{}/{}", test.package, test.name)).collect();
    assert_eq!(running, row.running);
    check_hung(row, &answer.hung);
    let evidence = followed.report().evidence.clone().unwrap_or_default();
    assert_eq!(evidence.hung, answer.hung);
}

/// The progress of a run that lasts until its deadline has the total that its runner announces, and no other.
fn check_progress(row: &Row, followed: &CompletedRun) {
    if row.options.timeout_s.is_none() {
        return;
    }
    let totals = followed.events.iter().filter_map(|event| match &event.event {
        Some(Event::Progress(progress)) => Some(progress.tests_total),
        _ => None,
    });
    let totals: Vec<Option<u64>> = totals.collect();
    assert_eq!(totals.last().copied(), Some(row.announced), "{totals:?}");
    assert!(totals.iter().all(|total| total.is_none() || *total == row.announced), "{totals:?}");
}

/// The stack of a hung test has the line at which it hangs, as its first place in the project.
fn check_hung(row: &Row, hung: &[HungTest]) {
    for HungTest { file, line, stack, .. } in hung {
        assert!(
            stack.contains(&format!("{}:{} in ", file.as_deref().unwrap_or_default(), line.unwrap_or(0))),
            "{stack}"
        );
    }
    assert_eq!(hung_places(hung), wanted_places(row), "{hung:?}");
}

/// Test, file and line.
type HungPlace = (String, String, u32);

fn hung_places(hung: &[HungTest]) -> Vec<HungPlace> {
    let place = |HungTest { test, file, line, .. }: &HungTest| {
        let test = test.clone().unwrap();
        (format!("{}/{}", test.package, test.name), file.clone().unwrap_or_default(), line.unwrap_or(0))
    };
    hung.iter().map(place).collect()
}

fn wanted_places(row: &Row) -> Vec<HungPlace> {
    row.hung.iter().map(|(test, file, line)| ((*test).to_owned(), (*file).to_owned(), *line)).collect()
}

async fn check_covering(row: &Row, client: &Client, session: &str) {
    for covering in row.covering {
        let request = TestsCoveringRequest {
            session_id: session.to_owned(),
            file: covering.file.to_owned(),
            line: Some(covering.line),
            ..TestsCoveringRequest::default()
        };
        let answer = client.results.clone().tests_covering(request).await.unwrap().into_inner();
        let mut packages: Vec<&str> = answer.tests.iter().map(|test| test.package.as_str()).collect();
        packages.dedup();
        assert!(answer.has_coverage && !answer.file_changed, "{answer:?}");
        assert_eq!(packages, covering.packages, "{covering:?}");
    }
}

// ReadOutput returns the same bytes as the events.
async fn check_output(client: &Client, followed: &CompletedRun) {
    let mut bytes = 0;
    for stream in [Stream::Stdout, Stream::Stderr] {
        let wanted = followed.output(stream);
        let mut read = Vec::new();
        loop {
            let request = ReadOutputRequest {
                run_id: followed.run_id.clone(),
                stream: stream.into(),
                cursor: read.len() as u64,
                max_bytes: 1 << 20,
            };
            let answer = client.runs.clone().read_output(request).await.unwrap().into_inner();
            read.extend_from_slice(&answer.bytes);
            assert_eq!((answer.next_cursor, answer.total_bytes), (read.len() as u64, wanted.len() as u64));
            if answer.end {
                break;
            }
        }
        assert!(read == wanted, "{stream:?}: {} bytes read, {} in events", read.len(), wanted.len());
        bytes += wanted.len() as u64;
    }
    // `output_bytes` also counts reporter data beside the streams, if a reporter ran, and the test list that proctor
    // requests from ctest when tests fail.
    let written = followed.report().resources.as_ref().unwrap().output_bytes;
    let has_reporter = !matches!(followed.report().framework.as_str(), "cargo" | "custom" | "go" | "nextest");
    assert!(if has_reporter { written >= bytes } else { written == bytes }, "{written} bytes written, {bytes} read");
}

async fn check_artifacts(row: &Row, client: &Client, other: &Client, followed: &CompletedRun) {
    let request = |name: &str, cursor| v1::ReadArtifactRequest {
        run_id: followed.run_id.clone(),
        name: name.to_owned(),
        cursor,
        max_bytes: 4_000,
    };
    let unknown = client.runs.clone().read_artifact(request("/etc/passwd", 0)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument, "{unknown:?}");
    for (artifact, (_, name, begin)) in followed.report().artifacts.iter().zip(row.artifacts) {
        let mut read = Vec::new();
        loop {
            let request = request(name, read.len() as u64);
            let answer = client.runs.clone().read_artifact(request).await.unwrap().into_inner();
            read.extend(answer.bytes);
            if answer.end {
                break;
            }
        }
        assert_eq!((artifact.name.as_str(), artifact.size), (*name, read.len() as u64));
        assert!(read.starts_with(begin), "{name}");
        let denied = other.runs.clone().read_artifact(request(name, 0)).await.unwrap_err();
        assert_eq!(denied.code(), Code::PermissionDenied);
    }
}

#[tokio::test]
async fn names_a_missing_runner() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let session = client.open_session(&supervisor.workspace("beta", "shop", "go/pass")).await;
    let options = RunOptions { command: MISSING_COMMAND, ..RunOptions::ALL };
    let Err(status) = client.start(request(&session, &options)).await else { panic!("the run started") };
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, MISSING_RUNNER));
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.domain.as_str(), info.reason.as_str()), (reason::DOMAIN, reason::RUNNER_MISSING));
    assert!(!client.failures(&session).await.has_run);
}

#[tokio::test]
async fn lists_tests_without_running_them() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.workspace("alpha", "shop", "go/builderror")).await;
    let request = v1::ListTestsRequest { session_id: session.clone(), ..v1::ListTestsRequest::default() };
    let answer = client.results.clone().list_tests(request).await.unwrap().into_inner();
    let tests: Vec<String> = answer.tests.iter().map(|test| format!("{}/{}", test.package, test.name)).collect();
    assert_eq!(tests, ["example.com/builderror/good/TestOne"]);
    assert_eq!(answer.collectors[0].nodeid, "example.com/builderror/broken");
    assert_eq!(answer.framework, "go");
    assert!(!client.failures(&session).await.has_run, "listing does not count as a run");
}

/// Prints what an earlier run left in the cache, then leaves a file there.
const CACHE_COMMAND: [&str; 3] =
    ["sh", "-c", r#"mkdir -p "$GOCACHE"; cat "$GOCACHE/left" || true; echo kept > "$GOCACHE/left""#];

#[tokio::test]
async fn fresh_run_gets_empty_caches_and_keeps_the_workspace_caches() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("beta").await;
    let session = client.open_session(&supervisor.workspace("beta", "shop", "go/pass")).await;
    for (fresh, found) in [(false, ""), (false, "kept\n"), (true, ""), (false, "kept\n"), (true, "")] {
        let options = RunOptions { command: &CACHE_COMMAND, ..RunOptions::ALL };
        let followed =
            client.start(RunTestsRequest { fresh, ..request(&session, &options) }).await.unwrap().read_to_end().await;
        assert_eq!(followed.report().stdout_tail, found, "fresh: {fresh}");
    }
}
