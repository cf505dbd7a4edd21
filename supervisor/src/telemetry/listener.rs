//! The HTTP listener of `/metrics`. It has a socket of its own, so that neither a scrape nor a flood of them takes a
//! connection from the callers of gRPC.

use super::collector::MetricsCollector;
use crate::tenants::access::{CurrentAccess, PresentedCredential, now};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use proctor_core::bounds::SCRAPES_MAX;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Longest life of a connection, which serves one request.
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

/// Serves scrapes until the task is dropped.
pub async fn serve(listener: TcpListener, service: MetricsService) {
    let permits = Arc::new(Semaphore::new(SCRAPES_MAX));
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let service = service.clone();
                tokio::spawn(async move {
                    _ = timeout(CONNECTION_MAX, serve_connection(stream, service)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection for metrics was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, service: MetricsService) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request.method(), request.uri().path(), request.headers()).await) }
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX).max_buf_size(HEADER_BYTES_MAX);
    // A caller that leaves or sends no HTTP is its own problem.
    _ = server.serve_connection(TokioIo::new(stream), answer).await;
}

impl MetricsService {
    async fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
        if path != "/metrics" {
            return text(StatusCode::NOT_FOUND, "the metrics are at /metrics\n");
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if !self.admits(headers) {
            let mut answer = text(StatusCode::UNAUTHORIZED, "a bearer token of an operator is needed\n");
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
        let Some(exposition) = self.collector.collect().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "too many scrapes, or the supervisor ends: try again\n");
        };
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (kind, body) = exposition.for_accept(accept);
        let mut answer = text(StatusCode::OK, "");
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        answer.map(|_| Full::new(Bytes::copy_from_slice(body.as_bytes())))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(access) = &self.operators else { return true };
        let mut presented = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (presented.next(), presented.next()) else { return false };
        let token = value.to_str().ok().and_then(|value| value.split_once(' '));
        let Some((_, token)) = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) else { return false };
        let caller = access.borrow().caller(&PresentedCredential::Token(token.trim().into()), now());
        caller.is_ok_and(|caller| caller.operator)
    }
}

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
