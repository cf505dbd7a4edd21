//! The spans of a call: the request, from its headers to the end of its answer, and its admission.

use super::{TARGET, context};
use crate::telemetry::counters::{CODES, METHODS, OTHER};
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Response};
use tonic::{Code, Status};
use tracing::{Span, field};

/// Length of the longest name of a method or tool of MCP that is taken over, in bytes.
const MCP_NAME_BYTES: usize = 64;

/// The spans of a call that has not been admitted. Dropped, it leaves no trace: callers that are unknown, or call too
/// often, must not fill the queue of spans.
#[derive(Debug)]
pub struct PendingRequest {
    spans: Option<(Span, Span)>,
}

impl PendingRequest {
    /// Begins the spans of a call to the path of a method, as `/proctor.v1.Runs/RunTests`.
    #[must_use]
    pub fn new(path: &str) -> PendingRequest {
        let request = tracing::info_span!(
            target: TARGET,
            parent: None,
            "request",
            otel.name = field::Empty,
            otel.kind = "server",
            otel.status_code = field::Empty,
            rpc.system.name = "grpc",
            rpc.method = field::Empty,
            rpc.response.status_code = field::Empty,
            error.type = field::Empty,
            mcp.method.name = field::Empty,
            gen_ai.tool.name = field::Empty,
            proctor.tenant = field::Empty,
            proctor.run.id = field::Empty,
            proctor.run.attached = field::Empty,
        );
        if request.is_disabled() {
            return PendingRequest { spans: None };
        }
        // A caller may write anything into the path.
        let method = path.strip_prefix("/proctor.v1.").filter(|method| METHODS.contains(method));
        let name = method.map_or_else(|| OTHER.to_owned(), |method| format!("proctor.v1.{method}"));
        request.record("otel.name", name.as_str()).record("rpc.method", name.as_str());
        let admission = tracing::info_span!(target: TARGET, parent: None, "admission");
        PendingRequest { spans: Some((request, admission)) }
    }

    /// The span of the call, which has been admitted: a child of the context that its headers name, if they name one.
    #[must_use]
    pub fn admit(mut self, headers: &HeaderMap, tenant: Option<&str>) -> Span {
        let Some((request, admission)) = self.spans.take() else { return Span::none() };
        if let Some(parent) = context::from_headers(headers) {
            context::set_parent(&request, parent);
        }
        if let Some(tenant) = tenant {
            request.record("proctor.tenant", tenant);
        }
        for (header, attribute) in [("proctor-mcp-method", "mcp.method.name"), ("proctor-mcp-tool", "gen_ai.tool.name")]
        {
            if let Some(name) =
                headers.get(header).and_then(|value| value.to_str().ok()).filter(|name| is_mcp_name(name))
            {
                request.record(attribute, name);
            }
        }
        if let Some(own) = context::of_span(&request) {
            context::set_parent(&admission, own);
        }
        request
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if let Some((request, admission)) = self.spans.take() {
            context::set_parent(&request, context::unrecorded());
            context::set_parent(&admission, context::unrecorded());
        }
    }
}

/// Whether a caller's word can be the name of a method or tool of MCP.
fn is_mcp_name(name: &str) -> bool {
    name.len() <= MCP_NAME_BYTES && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'_' | b'/'))
}

/// Records in the span of the current call which run it started or attached to.
pub fn record_run(run: &str, is_attached: bool) {
    let request = Span::current();
    if !request.is_disabled() {
        request.record("proctor.run.id", run);
        if is_attached {
            request.record("proctor.run.attached", true);
        }
    }
}

/// An answer that ends the span of its call when its last byte is handed over, or when it is dropped.
pub fn end_with_answer(request: Span, answer: Response<Body>) -> Response<Body> {
    if request.is_disabled() {
        return answer;
    }
    // An error is complete in the headers; other answers end with trailers.
    let code = Status::from_header_map(answer.headers()).map(|status| status.code());
    let mut end = RequestEnd(Some(request));
    if let Some(code) = code {
        end.record(code);
    }
    answer.map(|body| Body::new(TracedBody { body, end }))
}

/// Ends the span of a call once.
struct RequestEnd(Option<Span>);

impl RequestEnd {
    fn record(&mut self, code: Code) {
        let Some(request) = self.0.take() else { return };
        let name = usize::try_from(i32::from(code)).ok().and_then(|code| CODES.get(code)).copied().unwrap_or(OTHER);
        request.record("rpc.response.status_code", name);
        // For a server the other codes are answers to wrong calls, and no errors of its own.
        let is_error = matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        );
        if is_error {
            request.record("otel.status_code", "ERROR").record("error.type", name);
        }
        // The layer takes the time of the last exit for the end.
        request.in_scope(|| ());
    }
}

impl Drop for RequestEnd {
    fn drop(&mut self) {
        self.record(Code::Cancelled);
    }
}

struct TracedBody {
    body: Body,
    end: RequestEnd,
}

impl HttpBody for TracedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    self.end.record(status.code());
                }
            }
            Some(Err(status)) => self.end.record(status.code()),
            None => self.end.record(Code::Ok),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
