//! Admission of every call: authenticates the caller before the request body is read, bounds the time and the bytes of
//! the request, and counts the bytes of the response.

use super::authentication::AuthenticatedCaller;
use super::metered_request_body::{MeteredRequestBody, RequestBound};
use super::metered_response_body::MeteredResponseBody;
use super::{call_record, status};
use crate::net::ConnectionInfo;
use crate::telemetry::traces::request::{PendingRequest, end_with_answer};
use crate::tenants::Tenant;
use crate::tenants::access::CurrentAccess;
use crate::tenants::allowance::{Gauge, InFlightBytes, Reservation};
use proctor_core::bounds::UNREAD_BYTES_MAX;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tracing::{Instrument, Span};

/// Callers that a service admits.
#[derive(Clone)]
enum AccessRule {
    Authenticated { access: CurrentAccess, operators: Arc<InFlightBytes> },
    Open { unread: Arc<Gauge> },
}

/// A call that was admitted.
struct AdmittedCall {
    /// Span of the call; of none that is open to all.
    trace: Span,
    /// Bytes of unanswered requests, including this one.
    unanswered: Arc<Gauge>,
    bound: RequestBound,
    unread: Arc<Gauge>,
    /// Reservation of an open call until its response is read.
    open: Option<Reservation>,
}

/// A service behind admission.
#[derive(Clone)]
pub(super) struct Admission<S> {
    service: S,
    rule: AccessRule,
}

impl<S> Admission<S> {
    /// Admits authenticated callers. `operators` counts the bytes in flight of callers that are no tenant.
    pub(super) fn authenticated(service: S, access: CurrentAccess, operators: Arc<InFlightBytes>) -> Admission<S> {
        Admission { service, rule: AccessRule::Authenticated { access, operators } }
    }

    /// Admits every caller: for a service without secrets and with small answers.
    pub(super) fn open(service: S) -> Admission<S> {
        Admission { service, rule: AccessRule::Open { unread: Arc::default() } }
    }
}

impl AccessRule {
    fn admit(&self, request: &mut Request<Body>) -> Result<AdmittedCall, Status> {
        let connection = request.extensions().get::<ConnectionInfo>().map(|info| Arc::clone(&info.state));
        let admitted = match self {
            AccessRule::Authenticated { access, operators } => {
                let trace = PendingRequest::new(request.uri().path());
                let authenticated = AuthenticatedCaller::authenticate(access, request)?;
                call_record::set_caller(&authenticated.caller);
                connection.inspect(|connection| connection.mark_authenticated());
                let tenant = authenticated.caller.tenant.as_ref();
                tenant.map_or(Ok(()), |tenant| check_rate(tenant))?;
                let in_flight = tenant.map_or(operators, |tenant| tenant.allowance.in_flight());
                let (unanswered, unread) = (Arc::clone(&in_flight.unanswered), Arc::clone(&in_flight.unread));
                let trace = trace.admit(request.headers(), tenant.map(|tenant| tenant.id.as_str()));
                request.extensions_mut().insert(authenticated);
                AdmittedCall { trace, unanswered, bound: RequestBound::PER_CALLER, unread, open: None }
            }
            AccessRule::Open { unread } => {
                let open = connection
                    .map(|connection| connection.reserve_open_call())
                    .transpose()
                    .map_err(status::too_many_open_calls)?;
                AdmittedCall {
                    trace: Span::none(),
                    unanswered: Arc::default(),
                    bound: RequestBound::PER_REQUEST,
                    unread: Arc::clone(unread),
                    open,
                }
            }
        };
        // Checked before the service computes an answer that could not be sent.
        if admitted.unread.now() >= UNREAD_BYTES_MAX { Err(status::too_much_unread()) } else { Ok(admitted) }
    }
}

// Counts a request against the tenant's rate limit.
fn check_rate(tenant: &Tenant) -> Result<(), Status> {
    tenant.allowance.take_request().map_err(|wait| status::too_many_requests(&tenant.allowance, wait))
}

/// Margin by which a call ends before the caller's deadline, at most a tenth of it. The transport enforces the same
/// deadline, reports it as CANCELLED, and has no option to leave it to the service.
const DEADLINE_MARGIN: Duration = Duration::from_millis(5);

// The caller's deadline in the form of gRPC: at most eight digits and a unit.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    let within = match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Some(within - DEADLINE_MARGIN.min(within / 10))
}

impl<S: NamedService> NamedService for Admission<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Admission<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let fresh = self.service.clone();
        // Calls the instance that reported itself ready, not its clone.
        let mut service = std::mem::replace(&mut self.service, fresh);
        let rule = self.rule.clone();
        Box::pin(async move {
            let AdmittedCall { trace, unanswered, bound, unread, open } = match rule.admit(&mut request) {
                Ok(admitted) => admitted,
                Err(status) => return Ok(status.into_http()),
            };
            let within = deadline(request.headers());
            // The request bytes count as in use until the caller has its answer.
            let arrived = Arc::new(unanswered.add(0));
            let request = request.map(|body| Body::new(MeteredRequestBody::new(body, bound, Arc::clone(&arrived))));
            // Dropping the call has the effect of a caller that leaves, except that the caller and the audit log get
            // the reason.
            let answering = service.call(request).instrument(trace.clone());
            let mut answer = match within {
                Some(within) => match timeout(within, answering).await {
                    Ok(answer) => answer?,
                    Err(_) => return Ok(end_with_answer(trace, status::deadline_exceeded().into_http())),
                },
                None => answering.await?,
            };
            drop(arrived);
            status::add_missing_reason(answer.headers_mut());
            let answer = answer.map(|body| Body::new(MeteredResponseBody::new(body, unread, open)));
            Ok(end_with_answer(trace, answer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use http_body::{Body as HttpBody, Frame};
    use proctor_core::bounds::{OPEN_REQUEST_BYTES_MAX, UNANSWERED_BYTES_MAX};
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::Pin;
    use tonic::Code;
    use tonic::codegen::Bytes;
    use tower::service_fn;

    /// A request body of `pieces` frames, each as large as a whole request may be, which then ends or hangs.
    struct PiecesBody {
        pieces: usize,
        ends: bool,
    }

    impl HttpBody for PiecesBody {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.pieces.checked_sub(1) {
                Some(rest) => {
                    self.pieces = rest;
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; OPEN_REQUEST_BYTES_MAX])))))
                }
                None if self.ends => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    // A service that answers when its request is complete.
    async fn wait_for(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let mut body = request.into_body();
        loop {
            match poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                Some(Ok(_)) => {}
                Some(Err(status)) => return Ok(status.into_http()),
                None => return Ok(Response::default()),
            }
        }
    }

    #[tokio::test]
    async fn bounds_open_requests_one_by_one_without_a_shared_bound() {
        let mut admission = Admission::open(service_fn(wait_for));
        let mut send = |pieces, ends| admission.call(Request::new(Body::new(PiecesBody { pieces, ends })));
        let mut unfinished = Vec::new();
        // As many as exhaust the bound of one tenant.
        for _ in 0..UNANSWERED_BYTES_MAX / OPEN_REQUEST_BYTES_MAX as u64 {
            let mut call = send(1, false);
            assert!((&mut call).now_or_never().is_none(), "the request is not complete");
            unfinished.push(call);
        }
        for (pieces, refusal) in [(1, None), (2, Some(Code::OutOfRange))] {
            let answer = send(pieces, true).await.unwrap();
            assert_eq!(Status::from_header_map(answer.headers()).map(|status| status.code()), refusal);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reports_the_callers_deadline_before_the_transport_ends_the_call() {
        for (text, ms) in [("200m", 200), ("2S", 2_000), ("1n", 0), ("1M", 60_000), ("99999999H", 359_999_996_400_000)]
        {
            let request = Request::builder().header("grpc-timeout", text).body(Body::empty()).unwrap();
            let within = deadline(request.headers()).unwrap();
            assert!(within <= Duration::from_millis(ms).max(Duration::from_nanos(1)), "{text}: {within:?}");
            if ms > 60_000 {
                continue;
            }
            let silent = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
            let answer = timeout(Duration::from_millis(ms + 1), Admission::open(silent).call(request)).await;
            let status = Status::from_header_map(answer.unwrap().unwrap().headers()).unwrap();
            assert_eq!(status.code(), Code::DeadlineExceeded, "{text}");
        }
        for text in ["junk", "5", "S", "", "999999999S", "+1S", "-1S", "1s", "1\u{e4}"] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            assert_eq!(deadline(&headers), None, "{text}");
        }
    }
}
