//! A run from its client to the worker is one trace, with the right parents.

use crate::collector::{Behaviour, Collector, Span};
use crate::{CALLER, TRACE, settings, shell, traceparent, with_context};
use proctor_proto::v1;
use proctor_tests::process::WAIT_MAX;
use proctor_tests::supervisor_process::SupervisorProcess;
use proctor_tests::test_workspace::TestWorkspace;
use rmcp::model::{CallToolRequestParams, RequestMetaObject};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use tokio::process::Child;

/// The spans in the order of their starts, each below its parent.
fn ordered(spans: &[Span], parent: &str) -> Vec<Span> {
    let mut children: Vec<&Span> = spans.iter().filter(|span| span.parent == parent).collect();
    children.sort_by_key(|span| (span.start_ns, span.end_ns, span.name.clone()));
    children.into_iter().flat_map(|span| [vec![span.clone()], ordered(spans, &span.id)].concat()).collect()
}

/// The trace as Jaeger's interface exports it: ids are numbered, times and what differs between hosts is left out.
fn jaeger(spans: &[Span]) -> Value {
    let spans = ordered(spans, CALLER);
    let ids: BTreeMap<&str, String> = [(CALLER, "caller".to_owned())]
        .into_iter()
        .chain(spans.iter().enumerate().map(|(index, span)| (span.id.as_str(), format!("span-{}", index + 1))))
        .collect();
    let is_masked = |key: &str| key.ends_with(".id") || key == "proctor.test.duration_s";
    let tags = |attributes: &BTreeMap<String, String>| {
        let tag = |(key, value): (&String, &String)| {
            let value = if is_masked(key) { "MASKED" } else { value };
            json!({"key": key, "value": value})
        };
        attributes.iter().map(tag).collect::<Vec<_>>()
    };
    let documents: Vec<Value> = spans
        .iter()
        .map(|span| {
            let mut tags = tags(&span.attributes);
            if span.is_error {
                tags.push(json!({"key": "error", "value": true}));
            }
            // The layers of a sandbox depend on the host; tests may run side by side.
            let mut logs: Vec<_> = span.events.iter().filter(|(name, _)| name == "test").collect();
            logs.sort_by_key(|(_, test)| &test["test.case.name"]);
            let logs = logs.into_iter().map(|(name, fields)| {
                let fields = fields.iter().filter(|(key, _)| !is_masked(key));
                let fields = fields.map(|(key, value)| json!({"key": key, "value": value}));
                let mut all = vec![json!({"key": "event", "value": name})];
                all.extend(fields);
                json!({"fields": all})
            });
            json!({
                "traceID": "trace",
                "spanID": ids[span.id.as_str()],
                "operationName": span.name,
                "references": [{"refType": "CHILD_OF", "traceID": "trace", "spanID": ids[span.parent.as_str()]}],
                "tags": tags,
                "logs": logs.collect::<Vec<_>>(),
                "processID": "p1",
            })
        })
        .collect();
    let resource = &spans[0].resource;
    let process = json!({"serviceName": resource["service.name"], "tags": [
        {"key": "service.version", "value": resource["service.version"]},
    ]});
    json!({"data": [{"traceID": "trace", "spans": documents, "processes": {"p1": process}}]})
}

fn assert_nested(spans: &[Span]) {
    for span in spans {
        assert!(span.start_ns <= span.end_ns, "{span:?}");
        if let Some(parent) = spans.iter().find(|other| other.id == span.parent) {
            assert!(parent.start_ns <= span.start_ns, "{} begins before {}", span.name, parent.name);
        }
    }
}

fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} in {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

/// A run of a shim's session. The session, and the run with it, ends when this is dropped.
struct McpRun {
    id: String,
    _client: RunningService<RoleClient, ()>,
    _shim: Child,
    _home: TestWorkspace,
}

/// Calls run_tests through a shim of the supervisor, with a trace context.
async fn run_through_mcp(supervisor: &SupervisorProcess, workspace: &std::path::Path) -> McpRun {
    let home = TestWorkspace::empty();
    let mut command = home.command("proctor-mcp");
    command.arg("--supervisor").arg(format!("unix:{}", supervisor.socket().display()));
    command.arg("--workspace").arg(workspace).stdin(Stdio::piped()).stderr(Stdio::inherit());
    let mut shim = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    let transport = (shim.stdout.take().unwrap(), shim.stdin.take().unwrap());
    let client = ().serve(transport).await.unwrap();
    let mut meta = RequestMetaObject::default();
    meta.0.0.insert("traceparent".to_owned(), json!(traceparent("01")));
    meta.0.0.insert("tracestate".to_owned(), json!("vendor=1"));
    let mut call = CallToolRequestParams::new("run_tests");
    call.meta = Some(meta);
    let answer = tokio::time::timeout(WAIT_MAX, client.call_tool(call)).await.unwrap().unwrap();
    let id = answer.structured_content.unwrap()["run_id"].as_str().unwrap().to_owned();
    McpRun { id, _client: client, _shim: shim, _home: home }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_from_an_mcp_client_to_a_worker_is_one_trace() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let workspace = supervisor.workspace("alpha", "shop", "go/twomodules");
    let run = run_through_mcp(&supervisor, &workspace).await;
    let spans: Vec<Span> = collector.trace_of_run(&run.id);
    assert!(spans.iter().all(|span| span.trace == TRACE && span.state == "vendor=1"), "{spans:?}");
    assert_nested(&spans);
    // Only what belongs to the run: the shim also opens a session, asks for coverage and the like.
    let request = spans.iter().find(|span| span.id == one(&spans, "run").parent).unwrap();
    assert_eq!((request.name.as_str(), request.parent.as_str()), ("proctor.v1.Runs/RunTests", CALLER));
    assert!(spans.iter().all(|span| span.parent == CALLER || spans.iter().any(|other| other.id == span.parent)));
    let of_run: Vec<Span> = [vec![request.clone()], ordered(&spans, &request.id)].concat();
    insta::assert_snapshot!("one_run", serde_json::to_string_pretty(&jaeger(&of_run)).unwrap());

    let layers = one(&of_run, "worker set-up").events.len();
    let client = supervisor.client("alpha").await;
    let report = client.get_run(&run.id, 0).await.report.unwrap();
    let isolation = report.isolation.unwrap();
    assert_eq!(layers, isolation.layers.len() + isolation.missing.len());
    assert_eq!(one(&of_run, "run").resource["service.name"], "proctor");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_a_trace_begins_here_if_the_client_has_none() {
    let collector = Collector::with_behaviour(Behaviour::Takes);
    let mut settings = settings(&collector, "protocol = \"http/protobuf\"");
    settings.env.push(("OTEL_EXPORTER_OTLP_HEADERS".to_owned(), "x-key=of-the-operator".into()));
    settings.env.push(("OTEL_RESOURCE_ATTRIBUTES".to_owned(), "deployment.environment.name=test".into()));
    let mut supervisor = SupervisorProcess::with_settings(&settings);
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    let run = client.start(shell(&session, "printf %s \"$TRACEPARENT\"")).await.unwrap().read_to_end().await;
    let spans = collector.trace_of_run(&run.run_id);
    let (span, request) = (one(&spans, "run"), one(&spans, "proctor.v1.Runs/RunTests"));
    assert_eq!((request.parent.as_str(), &span.parent), ("", &request.id));
    assert_eq!(request.get("rpc.response.status_code"), "OK");
    assert_eq!(
        (span.get("proctor.outcome"), span.get("cicd.pipeline.result"), span.is_error),
        ("passed", "success", false)
    );
    assert_eq!(span.get("proctor.tenant"), "alpha");
    assert_eq!(span.resource["deployment.environment.name"], "test");
    let given = String::from_utf8(run.output(v1::Stream::Stdout)).unwrap();
    assert_eq!(given, format!("00-{}-{}-01", span.trace, span.id), "the run continues its trace");
    let headers = collector.headers();
    assert!(headers.iter().any(|line| line == "x-key: of-the-operator"), "{headers:?}");
    assert!(headers.iter().any(|line| line.starts_with("POST /v1/traces ")), "{headers:?}");

    // What was not sent yet is sent at the end.
    let last = client.start(shell(&session, "exit 3")).await.unwrap().read_to_end().await;
    assert_eq!(supervisor.stop(nix::sys::signal::Signal::SIGTERM).status, 0);
    let spans = collector.spans();
    let failed = spans.iter().find(|span| span.name == "run" && span.get("proctor.run.id") == last.run_id).unwrap();
    assert_eq!((failed.get("proctor.outcome"), failed.get("error.type"), failed.is_error), ("failed", "failed", true));
    assert!(spans.iter().all(|span| !format!("{span:?}").contains("printf")), "no command line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_outlives_its_request_and_a_second_one_attaches() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let paused = supervisor.paused_test("alpha", "paused");
    let client = supervisor.client("alpha").await;
    let session_id = client.open_session(&paused.workspace).await;
    let request = v1::RunTestsRequest { session_id, ..Default::default() };
    let mut first = client.start(request.clone()).await.unwrap();
    let run = first.wait_for_test("TestWaits").await;
    let second = client.start(request.clone()).await.unwrap();
    drop(first);
    let spans = collector.wait_for("the request of the client that left", |spans| {
        spans.iter().any(|span| span.name == "proctor.v1.Runs/RunTests")
    });
    assert!(spans.iter().all(|span| span.name != "run"), "the run goes on");
    paused.resume();
    assert_eq!(second.read_to_end().await.run_id, run);
    let trace = collector.trace_of_run(&run);
    let (span, request) = (one(&trace, "run"), one(&trace, "proctor.v1.Runs/RunTests"));
    assert!(span.parent == request.id && span.end_ns > request.end_ns, "{span:?} {request:?}");
    assert_eq!(request.get("rpc.response.status_code"), "CANCELLED");
    let spans = collector.wait_for("the request that attached", |spans| {
        spans.iter().any(|span| span.get("proctor.run.attached") == "true")
    });
    let attached = spans.iter().find(|span| span.get("proctor.run.attached") == "true").unwrap();
    assert_eq!((attached.get("proctor.run.id"), attached.trace == span.trace), (run.as_str(), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_in_its_session_is_scanned_below_its_own_span() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let paused = supervisor.paused_test("alpha", "paused");
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&paused.workspace).await;
    let mut first =
        client.start(v1::RunTestsRequest { session_id: session.clone(), ..Default::default() }).await.unwrap();
    first.wait_for_test("TestWaits").await;
    let mut runs = client.runs.clone();
    let request = with_context(shell(&session, "true"), &traceparent("01"), "");
    let mut second = runs.run_tests(request).await.unwrap().into_inner();
    let run = second.message().await.unwrap().unwrap().run_id;
    paused.resume();
    first.read_to_end().await;
    while second.message().await.unwrap().is_some() {}
    let trace = collector.trace_of_run(&run);
    let span = one(&trace, "run");
    let below: Vec<String> = ordered(&trace, &span.id).into_iter().map(|span| span.name).collect();
    for name in ["queue wait", "scan", "prepare", "worker set-up", "runner", "parse", "conclude"] {
        assert!(below.iter().any(|found| found == name), "{name} is not below the run: {below:?}");
    }
    let wait = one(&trace, "queue wait");
    assert!(wait.end_ns >= ordered(&trace, &span.id).iter().find(|span| span.name == "prepare").unwrap().start_ns);
}

#[test]
fn a_command_continues_the_trace_of_its_pipeline() {
    let collector = Collector::with_behaviour(Behaviour::Takes);
    let workspace = TestWorkspace::with_fixture("go/pass");
    let mut command = workspace.command("proctor");
    command.args(["run"]).arg(&workspace.path).env("TRACEPARENT", traceparent("01"));
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(proctor_tests::process::wait_for_exit(child).status, 0);
    let spans = collector.spans();
    let (command, run) = (one(&spans, "proctor run"), one(&spans, "run"));
    assert_eq!((command.trace.as_str(), command.parent.as_str(), &run.parent), (TRACE, CALLER, &command.id));
    assert_eq!(run.get("proctor.outcome"), "passed");
    assert!(one(&spans, "runner").events.iter().any(|(_, test)| test["test.case.name"] == "TestAdd"));
}
