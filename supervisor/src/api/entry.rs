//! The way in and out of every call: who calls is known before anything of the request is read, the request comes in time and
//! within what its caller may have on the way, and its answer goes the same way. Must not know any message.

use super::answer::Answer;
use super::arriving::Arriving;
use super::identity::Identified;
use super::{record, status};
use crate::access::Current;
use crate::allowance::{Counted, OnTheWire, UNTAKEN_BYTES_MAX};
use crate::serve::Visitor;
use crate::tenant::Tenant;
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
    Known { access: Current, operators: Arc<OnTheWire> },
    Anybody { wire: Arc<OnTheWire> },
}

/// A service behind its way in.
#[derive(Clone)]
pub(super) struct Entry<S> {
    service: S,
    admits: Admits,
}

impl<S> Entry<S> {
    /// For those who are known; what those have on the wire who are no tenant is counted in `operators`.
    pub(super) fn known(service: S, access: Current, operators: Arc<OnTheWire>) -> Entry<S> {
        Entry { service, admits: Admits::Known { access, operators } }
    }

    /// For anybody: a service that gives nothing away and answers with little.
    pub(super) fn anybody(service: S) -> Entry<S> {
        Entry { service, admits: Admits::Anybody { wire: Arc::default() } }
    }
}

impl Admits {
    // What the call has on the wire, and what it counts as until its answer is taken.
    fn admit(&self, request: &mut Request<Body>) -> Result<(Arc<OnTheWire>, Option<Counted>), Status> {
        let visit = request.extensions().get::<Visitor>().map(|visitor| Arc::clone(&visitor.visit));
        let (wire, open) = match self {
            Admits::Known { access, operators } => {
                let identified = Identified::by(access, request)?;
                record::caller(&identified.caller);
                visit.inspect(|visit| visit.known());
                let tenant = identified.caller.tenant.as_ref();
                tenant.map_or(Ok(()), |tenant| within(tenant))?;
                let wire = Arc::clone(tenant.map_or(operators, |tenant| tenant.allowance.wire()));
                request.extensions_mut().insert(identified);
                (wire, None)
            }
            Admits::Anybody { wire } => {
                let open = visit.map(|visit| visit.open_call()).transpose().map_err(status::too_many_open_calls)?;
                (Arc::clone(wire), open)
            }
        };
        // Before an answer is made of which nothing would be sent.
        if wire.untaken.now() >= UNTAKEN_BYTES_MAX { Err(status::too_much_untaken()) } else { Ok((wire, open)) }
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
            let (wire, open) = match admits.admit(&mut request) {
                Ok(admitted) => admitted,
                Err(status) => return Ok(status.into_http()),
            };
            let within = deadline(request.headers());
            // As long as its caller has no answer, what it has sent is in use.
            let arrived = Arc::new(wire.arriving.add(0));
            let request = request.map(|body| Body::new(Arriving::new(body, Arc::clone(&arrived))));
            // As if its caller had left, but that it is told why, and the audit log too.
            let answer = match within {
                Some(within) => match timeout(within, service.call(request)).await {
                    Ok(answer) => answer?,
                    Err(_) => return Ok(status::too_late().into_http()),
                },
                None => service.call(request).await?,
            };
            drop(arrived);
            Ok(answer.map(|body| Body::new(Answer::new(body, Arc::clone(&wire.untaken), open))))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use tonic::Code;
    use tower::service_fn;

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
