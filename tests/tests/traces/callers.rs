//! What callers write into a trace is bounded, and stays with their own tenant.

use crate::collector::Collector;
use crate::{CALLER, TRACE, settings, shell, traceparent, with_context};
use proctor_proto::v1;
use proctor_tests::supervisor_process::SupervisorProcess;
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callers_context_is_a_parent_link_and_nothing_else() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    let long = format!("a={}", "x".repeat(600));
    for (parent, state) in [
        (traceparent("01"), long.as_str()),
        (traceparent("01"), "NOT WELL FORMED"),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".to_owned(), "a=1"),
        ("x".repeat(1_000), "a=1"),
    ] {
        let mut runs = client.runs.clone();
        let request = with_context(shell(&session, "env"), &parent, state);
        let mut stream = runs.run_tests(request).await.unwrap().into_inner();
        let (mut run, mut output) = (String::new(), Vec::new());
        while let Some(event) = stream.message().await.unwrap() {
            run = event.run_id;
            if let Some(v1::run_event::Event::Output(bytes)) = event.event {
                output.extend(bytes.bytes);
            }
        }
        let trace = collector.trace_of_run(&run);
        let request = trace.iter().find(|span| span.name == "proctor.v1.Runs/RunTests").unwrap();
        let is_linked = parent == traceparent("01");
        assert_eq!((request.trace == TRACE, request.parent == CALLER), (is_linked, is_linked), "{parent:.60}");
        assert!(trace.iter().all(|span| span.state.is_empty()), "{trace:?}");
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("TRACEPARENT=00-") && !output.contains("of-the-caller"), "{output}");
        assert!(!output.contains("OTEL_"), "{output}");
        assert!(!format!("{trace:?}").contains("of-the-caller"), "baggage is not taken over");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flag_of_a_caller_does_not_defeat_the_operators_bound() {
    let collector = Collector::grpc().await;
    let mut supervisor = SupervisorProcess::with_settings(&settings(&collector, "sample_ratio = 0.0"));
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    for flags in ["01", "00", "ff"] {
        let mut runs = client.runs.clone();
        let request = with_context(shell(&session, "printf %s \"$TRACEPARENT\""), &traceparent(flags), "");
        let mut stream = runs.run_tests(request).await.unwrap().into_inner();
        let mut output = Vec::new();
        while let Some(event) = stream.message().await.unwrap() {
            if let Some(v1::run_event::Event::Output(bytes)) = event.event {
                output.extend(bytes.bytes);
            }
        }
        let output = String::from_utf8(output).unwrap();
        assert!(output.starts_with(&format!("00-{TRACE}-")) && output.ends_with("-00"), "{output}");
    }
    assert_eq!(supervisor.stop(nix::sys::signal::Signal::SIGTERM).status, 0);
    assert_eq!(collector.spans(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_are_unknown_or_write_anything_leave_no_trace_of_it() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let stranger = proctor_tests::grpc_client::Client::tcp(supervisor.address, Some("unknown")).await;
    for _ in 0..5 {
        let message = v1::ListSessionsRequest::default();
        let refused = stranger.sessions.clone().list_sessions(with_context(message, &traceparent("01"), "")).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
    }
    let client = supervisor.client("alpha").await;
    let mut request = with_context(v1::GetSessionRequest::default(), &traceparent("01"), "");
    request.metadata_mut().insert("proctor-mcp-method", "tools/call".parse().unwrap());
    request.metadata_mut().insert("proctor-mcp-tool", "Not A Tool".parse().unwrap());
    assert_eq!(client.sessions.clone().get_session(request).await.unwrap_err().code(), Code::PermissionDenied);
    let spans = collector.wait_for("the request of a tenant", |spans| spans.len() >= 2);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert!(names.iter().all(|name| ["admission", "proctor.v1.Sessions/GetSession"].contains(name)), "{names:?}");
    let request = spans.iter().find(|span| span.name != "admission").unwrap();
    assert_eq!(request.get("rpc.response.status_code"), "PERMISSION_DENIED");
    assert!(!request.is_error, "an answer to a wrong call is no error of the server");
    assert_eq!((request.get("mcp.method.name"), request.get("gen_ai.tool.name")), ("tools/call", ""));
    assert_eq!(request.get("proctor.tenant"), "alpha");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_tests_are_bounded_in_number_and_length() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let client = supervisor.client("alpha").await;
    let session = client.open_session(&supervisor.empty_workspace("alpha", "empty")).await;
    // Tests of TAP: two hundred that pass, then two hundred that fail, with names that steer a terminal or are long.
    let script = "echo 1..400; for n in $(seq 200); do printf 'ok %s - passes \\033[2J %s\\n' $n $n; done; \
                  for n in $(seq 201 400); do printf 'not ok %s - fails %0600d\\n' $n $n; done; exit 1";
    let run = client.start(shell(&session, script)).await.unwrap().read_to_end().await;
    let summary = run.report().summary.unwrap();
    assert_eq!((summary.total, summary.failed), (400, 200), "{:?}", run.report());
    let trace = collector.trace_of_run(&run.run_id);
    let tests: Vec<_> = trace.iter().flat_map(|span| &span.events).filter(|(name, _)| name == "test").collect();
    let failed = tests.iter().filter(|(_, test)| test["proctor.outcome"] == "failed").count();
    assert_eq!((tests.len(), failed), (128, 64));
    let longest = tests.iter().map(|(_, test)| test["test.case.name"].len()).max().unwrap();
    assert_eq!(longest, 256);
    assert!(tests.iter().all(|(_, test)| !test["test.case.name"].contains('\x1b')));
    let span = trace.iter().find(|span| span.name == "run").unwrap();
    assert_eq!(span.get("proctor.tests.left_out"), "272");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_one_trace_id_see_nothing_of_each_other() {
    let collector = Collector::grpc().await;
    let supervisor = SupervisorProcess::with_settings(&settings(&collector, ""));
    let mut runs = Vec::new();
    for tenant in ["alpha", "beta"] {
        let client = supervisor.client(tenant).await;
        let session = client.open_session(&supervisor.empty_workspace(tenant, "empty")).await;
        let request = with_context(shell(&session, "true"), &traceparent("01"), &format!("t={tenant}"));
        let mut stream = client.runs.clone().run_tests(request).await.unwrap().into_inner();
        let run = stream.message().await.unwrap().unwrap().run_id;
        while stream.message().await.unwrap().is_some() {}
        runs.push((tenant, run));
    }
    for (tenant, run) in runs {
        let trace = collector.trace_of_run(&run);
        let span = trace.iter().find(|span| span.name == "run" && span.get("proctor.run.id") == run).unwrap();
        assert_eq!((span.get("proctor.tenant"), span.state.as_str()), (tenant, format!("t={tenant}").as_str()));
        let request = trace.iter().find(|other| other.id == span.parent).unwrap();
        assert_eq!((request.get("proctor.tenant"), request.parent.as_str()), (tenant, CALLER));
    }
}
