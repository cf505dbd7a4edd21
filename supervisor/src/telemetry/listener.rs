//! The HTTP listener of `/metrics`, and of the page for people where the host file has it. It has a socket of its own, so
//! that neither a scrape nor a flood of them takes a connection from the callers of gRPC.

use super::collector::MetricsCollector;
use crate::tenants::access::{CurrentAccess, PresentedCredential, now};
use axum::extract::State;
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use proctor_core::bounds::SCRAPES_MAX;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Longest life of a connection, which serves one request, unless its answer extends it.
const CONNECTION_MAX: Duration = Duration::from_secs(10);

/// Longest time until a connection has sent its headers: those that say nothing do not keep scrapers out for longer.
const HEADERS_MAX: Duration = Duration::from_secs(1);

/// Pause after a connection could not be accepted, for instance for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Most bytes of a request's headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// What a scrape is answered from.
#[derive(Clone)]
pub struct MetricsService {
    /// Reads the metrics.
    pub collector: MetricsCollector,
    /// Credentials of operators, if a scrape needs one.
    pub operators: Option<CurrentAccess>,
}

/// The end of a connection, as an extension of its request. An answer that takes long moves it.
#[derive(Clone)]
pub struct ConnectionLife(watch::Sender<Life>);

struct Life {
    until: Instant,
    /// What counts the connection among others of its kind: at first one of the places of scrapers.
    place: Box<dyn Send + Sync>,
}

impl ConnectionLife {
    fn new(place: impl Send + Sync + 'static) -> ConnectionLife {
        ConnectionLife(watch::Sender::new(Life { until: Instant::now() + CONNECTION_MAX, place: Box::new(place) }))
    }

    /// Lets the connection hold `place` instead of one of the places of scrapers.
    pub fn hold(&self, place: impl Send + Sync + 'static) {
        self.0.send_modify(|life| life.place = Box::new(place));
    }

    /// Lets the connection live for `within` from now. It holds `place` until then instead of one of the places of
    /// scrapers.
    pub fn extend(&self, within: Duration, place: impl Send + Sync + 'static) {
        self.0.send_replace(Life { until: Instant::now() + within, place: Box::new(place) });
    }

    /// Ends the connection at the latest after `within`, whatever its peer has not read.
    pub fn end_within(&self, within: Duration) {
        self.0.send_modify(|life| life.until = life.until.min(Instant::now() + within));
    }

    async fn ended(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let until = changes.borrow_and_update().until;
            // `self` holds a sender, so the channel cannot close meanwhile.
            tokio::select! {
                () = sleep_until(until) => return,
                _ = changes.changed() => {}
            }
        }
    }
}

/// Serves `routes` until the task is dropped.
pub async fn serve(listener: TcpListener, routes: Router) {
    let routes = routes.fallback(|| async { text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n") });
    let places = Arc::new(Semaphore::new(SCRAPES_MAX));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let life = ConnectionLife::new(place);
                let routes = routes.clone().layer(Extension(life.clone()));
                tokio::spawn(async move {
                    let serving = pin!(serve_connection(stream, routes));
                    tokio::select! {
                        () = serving => {}
                        () = life.ended() => {}
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, routes: Router) {
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    // A caller that leaves or sends no HTTP is its own problem.
    _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await;
}

impl MetricsService {
    /// The route of `/metrics`.
    pub fn routes(self) -> Router {
        Router::new().route("/metrics", get(metrics)).with_state(self)
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(access) = &self.operators else { return true };
        let Some(token) = bearer_token(headers) else { return false };
        let caller = access.borrow().caller(&PresentedCredential::Token(token.into()), now());
        caller.is_ok_and(|caller| caller.operator)
    }
}

async fn metrics(State(service): State<MetricsService>, headers: HeaderMap) -> Response {
    if !service.admits(&headers) {
        let mut answer = text(StatusCode::UNAUTHORIZED, "a bearer token of an operator is needed\n");
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return answer;
    }
    let Some(exposition) = service.collector.collect().await else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "too many scrapes, or the supervisor ends: try again\n");
    };
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (kind, body) = exposition.for_accept(accept);
    let mut answer = text(StatusCode::OK, "");
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    *answer.body_mut() = body.to_string().into();
    answer
}

/// The one bearer token of a request; `None` also for several, of which a proxy in front may have checked another.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut presented = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (presented.next(), presented.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// An answer of one sentence, which no cache keeps.
pub(crate) fn text(status: StatusCode, body: &'static str) -> Response {
    let headers =
        [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (status, headers, body).into_response()
}
