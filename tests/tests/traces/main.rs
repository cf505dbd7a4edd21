//! Traces of a real supervisor in a collector: from the client of MCP or gRPC to the worker and back, with collectors
//! and callers that misbehave.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod bad_collectors;
mod callers;
mod collector;
mod one_trace;

use collector::Collector;
use proctor_proto::v1;
use proctor_tests::supervisor_process::SupervisorSettings;
use std::ffi::OsString;

/// A caller's context.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

/// Settings of a supervisor that sends to `collector`, every few milliseconds, with more keys of `[telemetry.traces]`.
fn settings(collector: &Collector, keys: &str) -> SupervisorSettings {
    let url = collector.url();
    SupervisorSettings {
        listen: format!("[telemetry]\nlisten = \"127.0.0.1:0\"\n[telemetry.traces]\nendpoint = {url:?}\n{keys}"),
        host: "cpus = 4".to_owned(),
        env: vec![("OTEL_BSP_SCHEDULE_DELAY".to_owned(), OsString::from("20"))],
        ..SupervisorSettings::default()
    }
}

fn shell(session: &str, script: &str) -> v1::RunTestsRequest {
    let command = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    v1::RunTestsRequest { session_id: session.to_owned(), command, ..Default::default() }
}

/// A request with a trace context.
fn with_context<T>(message: T, parent: &str, state: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    if !state.is_empty() {
        request.metadata_mut().insert("tracestate", state.parse().unwrap());
    }
    request.metadata_mut().insert("baggage", "secret=of-the-caller".parse().unwrap());
    request
}
