//! The way in and out of every call: who calls is known before anything of the request is read, the request comes in time and
//! within what its caller may have on the way, and its answer goes the same way. Must not know any message.

use super::authentication::Identified;
use super::request_body::{Arriving, Bound};
use super::response_body::Answer;
use super::{call_record, status};
use crate::net::Visitor;
use crate::tenants::Tenant;
use crate::tenants::access::CurrentAccess;
use crate::tenants::allowance::{Gauge, InFlightBytes, Reservation, UNTAKEN_BYTES_MAX};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;

/// Who may come in.
#[derive(Clone)]
enum Admits {
    Known { access: CurrentAccess, operators: Arc<InFlightBytes> },
    Anybody { untaken: Arc<Gauge> },
}

/// A call that may come in.
struct Admitted {
    /// What has come of requests and is not answered, with this one's.
    arriving: Arc<Gauge>,
    bound: Bound,
    untaken: Arc<Gauge>,
    /// What the call counts as until its answer is taken.
    open: Option<Reservation>,
}

/// A service behind its way in.
#[derive(Clone)]
pub(super) struct Entry<S> {
    service: S,
    admits: Admits,
}

impl<S> Entry<S> {
    /// For those who are known; what those have on the wire who are no tenant is counted in `operators`.
    pub(super) fn known(service: S, access: CurrentAccess, operators: Arc<InFlightBytes>) -> Entry<S> {
        Entry { service, admits: Admits::Known { access, operators } }
    }

    /// For anybody: a service that gives nothing away and answers with little.
    pub(super) fn anybody(service: S) -> Entry<S> {
        Entry { service, admits: Admits::Anybody { untaken: Arc::default() } }
    }
}

impl Admits {
    fn admit(&self, request: &mut Request<Body>) -> Result<Admitted, Status> {
        let visit = request.extensions().get::<Visitor>().map(|visitor| Arc::clone(&visitor.visit));
        let admitted = match self {
            Admits::Known { access, operators } => {
                let identified = Identified::by(access, request)?;
                call_record::caller(&identified.caller);
                visit.inspect(|visit| visit.known());
                let tenant = identified.caller.tenant.as_ref();
                tenant.map_or(Ok(()), |tenant| within(tenant))?;
                let wire = tenant.map_or(operators, |tenant| tenant.allowance.wire());
                let (arriving, untaken) = (Arc::clone(&wire.arriving), Arc::clone(&wire.untaken));
                request.extensions_mut().insert(identified);
                Admitted { arriving, bound: Bound::OF_CALLER, untaken, open: None }
            }
            Admits::Anybody { untaken } => {
                let open = visit.map(|visit| visit.open_call()).transpose().map_err(status::too_many_open_calls)?;
                Admitted { arriving: Arc::default(), bound: Bound::OF_REQUEST, untaken: Arc::clone(untaken), open }
            }
        };
        // Before an answer is made of which nothing would be sent.
        if admitted.untaken.now() >= UNTAKEN_BYTES_MAX { Err(status::too_much_untaken()) } else { Ok(admitted) }
    }
}

// Takes a request out of what the tenant may have.
fn within(tenant: &Tenant) -> Result<(), Status> {
    tenant.allowance.request().map_err(|wait| status::too_many_requests(&tenant.allowance, wait))
}

/// The transport has the same deadline, calls its end CANCELLED, and cannot be told to leave it to us: ours is sooner by this,
/// or by a tenth of it.
const SOONER: Duration = Duration::from_millis(5);

// How long the caller waits, if it says so in the form of gRPC: at most eight digits and a unit.
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
    Some(within - SOONER.min(within / 10))
}

impl<S: NamedService> NamedService for Entry<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Entry<S>
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
        let another = self.service.clone();
        // The one that was asked whether it is ready.
        let mut service = std::mem::replace(&mut self.service, another);
        let admits = self.admits.clone();
        Box::pin(async move {
            let Admitted { arriving, bound, untaken, open } = match admits.admit(&mut request) {
                Ok(admitted) => admitted,
                Err(status) => return Ok(status.into_http()),
            };
            let within = deadline(request.headers());
            // As long as its caller has no answer, what it has sent is in use.
            let arrived = Arc::new(arriving.add(0));
            let request = request.map(|body| Body::new(Arriving::new(body, bound, Arc::clone(&arrived))));
            // As if its caller had left, but that it is told why, and the audit log too.
            let mut answer = match within {
                Some(within) => match timeout(within, service.call(request)).await {
                    Ok(answer) => answer?,
                    Err(_) => return Ok(status::too_late().into_http()),
                },
                None => service.call(request).await?,
            };
            drop(arrived);
            status::give_reason(answer.headers_mut());
            Ok(answer.map(|body| Body::new(Answer::new(body, untaken, open))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::OPEN_REQUEST_BYTES_MAX;
    use super::*;
    use crate::tenants::allowance::ARRIVING_BYTES_MAX;
    use futures_util::FutureExt;
    use http_body::{Body as HttpBody, Frame};
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::Pin;
    use tonic::Code;
    use tonic::codegen::Bytes;
    use tower::service_fn;

    /// A request of so many pieces, each as large as a whole one may be, which then ends or does not.
    struct Sends {
        pieces: usize,
        ends: bool,
    }

    impl HttpBody for Sends {
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

    // A service that answers when its request is there.
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
    async fn requests_that_anybody_may_send_are_small_and_in_nobodys_way() {
        let mut entry = Entry::anybody(service_fn(wait_for));
        let mut send = |pieces, ends| entry.call(Request::new(Body::new(Sends { pieces, ends })));
        let mut unfinished = Vec::new();
        // As many as use up what a tenant may have on the way.
        for _ in 0..ARRIVING_BYTES_MAX / OPEN_REQUEST_BYTES_MAX as u64 {
            let mut call = send(1, false);
            assert!((&mut call).now_or_never().is_none(), "it has not come to its end");
            unfinished.push(call);
        }
        for (pieces, refusal) in [(1, None), (2, Some(Code::OutOfRange))] {
            let answer = send(pieces, true).await.unwrap();
            assert_eq!(Status::from_header_map(answer.headers()).map(|status| status.code()), refusal);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_of_the_callers_own_is_told_before_the_transport_ends_the_call() {
        for (text, ms) in [("200m", 200), ("2S", 2_000), ("1n", 0), ("1M", 60_000), ("99999999H", 359_999_996_400_000)]
        {
            let request = Request::builder().header("grpc-timeout", text).body(Body::empty()).unwrap();
            let within = deadline(request.headers()).unwrap();
            assert!(within <= Duration::from_millis(ms).max(Duration::from_nanos(1)), "{text}: {within:?}");
            if ms > 60_000 {
                continue;
            }
            let silent = service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>());
            let answer = timeout(Duration::from_millis(ms + 1), Entry::anybody(silent).call(request)).await;
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
