//! The routes of the page, and the headers of all of its answers.

use super::event_stream::stream;
use super::request_check::{Refusal, Transport};
use super::view::ViewQuery;
use super::viewer::{Identification, Scope, Viewer, cookie, cookie_name, identification};
use super::{PageService, assets};
use crate::ops::audit::{AuditEvent, AuditRecord};
use crate::reports;
use crate::telemetry::listener::{ConnectionLife, bearer_token, text};
use crate::tenants::allowance::Reservation;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Form, FromRequest, Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use proctor_core::bounds::{LOGIN_TOKEN_BYTES_MAX, PAGE_REPORT_BYTES_MAX, UNREAD_BYTES_MAX};
use proctor_core::id::RunId;
use proctor_proto::report_format::ReportFormat;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Code;

/// Largest body of a request: a login with a long JSON web token.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Longest time until the form of a login has arrived. Its sender has no credential so far.
const FORM_MAX: Duration = Duration::from_secs(1);

/// Longest time to send a report: [`PAGE_REPORT_BYTES_MAX`] at some 2 Mbit/s.
const REPORT_MAX: Duration = Duration::from_secs(60);

/// The policy of everything but reports. Names reach the document as text alone; the policy holds if one should not.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// The routes, without `/metrics`.
pub(super) fn routes(service: PageService) -> Router {
    Router::new()
        .route("/", get(shell))
        .route("/login", post(log_in))
        .route("/logout", post(log_out))
        .route("/assets/{name}", get(asset))
        .route("/events", get(events))
        .route("/runs/{run}/report.html", get(report))
        .route("/drain", post(drain))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(service.clone(), check))
        .with_state(service)
}

// Refuses what other origins send, and adds the headers of every answer.
async fn check(State(service): State<PageService>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let has_bearer = bearer_token(headers).is_some();
    let checked = service.hosts.check(request.method(), request.uri().path(), headers, has_bearer);
    let mut answer = match checked {
        Ok(transport) if service.take_request_place(&request) => {
            request.extensions_mut().insert(transport);
            next.run(request).await
        }
        Ok(_) => text(StatusCode::SERVICE_UNAVAILABLE, "too many requests of the page: try again\n"),
        Err(Refusal::ForeignHost) => text(
            StatusCode::MISDIRECTED_REQUEST,
            "the page has no such name: use localhost, or add the name to telemetry.page_hosts\n",
        ),
        Err(Refusal::ForeignOrigin) => {
            text(StatusCode::FORBIDDEN, "the request comes from another origin, or does not say from which\n")
        }
    };
    let fixed = [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // Not `no-referrer`: with it, browsers send forms without their origin.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in [(CONTENT_SECURITY_POLICY, POLICY), (CACHE_CONTROL, "no-store")] {
        answer.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    answer
}

impl PageService {
    // Gives the connection a place of the page instead of one of the scrapers', if any is free.
    fn take_request_place(&self, request: &Request) -> bool {
        let Ok(place) = Arc::clone(&self.requests).try_acquire_owned() else { return false };
        if let Some(life) = request.extensions().get::<ConnectionLife>() {
            life.hold(place);
        }
        true
    }
}

fn html(status: StatusCode, content: impl IntoResponse) -> Response {
    (status, [(CONTENT_TYPE, "text/html; charset=utf-8")], content).into_response()
}

fn see_page() -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, "/")]).into_response()
}

async fn shell(
    State(service): State<PageService>,
    Extension(transport): Extension<Transport>,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let viewer = match identification(&headers, transport) {
        Some(identification) => Viewer::admit(&service, identification, "page").await?.ok(),
        None => None,
    };
    Ok(match viewer {
        Some(_) => html(StatusCode::OK, assets::PAGE),
        None => html(StatusCode::UNAUTHORIZED, assets::login(None)),
    })
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
}

async fn log_in(
    State(service): State<PageService>,
    Extension(transport): Extension<Transport>,
    request: Request,
) -> Result<Response, Response> {
    let form = timeout(FORM_MAX, Form::<LoginForm>::from_request(request, &()));
    let Ok(form) = form.await else {
        return Err(text(StatusCode::REQUEST_TIMEOUT, "the form has not arrived within a second\n"));
    };
    let Form(form) = form.map_err(IntoResponse::into_response)?;
    let refused = |status, problem| html(status, assets::login(Some(problem)));
    let token: Arc<str> = form.token.trim().into();
    if token.len() > LOGIN_TOKEN_BYTES_MAX {
        return Ok(refused(StatusCode::PAYLOAD_TOO_LARGE, "This token is too long: at most 8 KiB."));
    }
    let identification = Identification::Bearer(Arc::clone(&token));
    let Ok(viewer) = Viewer::admit(&service, identification, "page/login").await? else {
        return Ok(refused(StatusCode::UNAUTHORIZED, "This token is not known."));
    };
    let Some(cookie) = service.logins.add(viewer.place_key(), token).await else {
        return Ok(refused(StatusCode::SERVICE_UNAVAILABLE, "The host cannot make a login now."));
    };
    tracing::info!(tenant = viewer.tenant_name(), "a browser has logged in to the page");
    let mut answer = see_page();
    set_cookie(&mut answer, transport, &cookie, "");
    Ok(answer)
}

async fn log_out(
    State(service): State<PageService>,
    Extension(transport): Extension<Transport>,
    headers: HeaderMap,
) -> Response {
    if let Some(cookie) = cookie(&headers, transport) {
        service.logins.remove(cookie).await;
    }
    let mut answer = see_page();
    set_cookie(&mut answer, transport, "", "; Max-Age=0");
    answer
}

fn set_cookie(answer: &mut Response, transport: Transport, value: &str, more: &str) {
    let secure = if transport == Transport::Proxy { "; Secure" } else { "" };
    let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", cookie_name(transport));
    // The value is hex.
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
}

async fn asset(Path(name): Path<String>) -> Response {
    match assets::find(&name) {
        // The browser asks each time: a new version of the supervisor has new files.
        Some(asset) => ([(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, "no-cache")], asset.content).into_response(),
        None => text(StatusCode::NOT_FOUND, "the page has no such file\n"),
    }
}

async fn events(
    State(service): State<PageService>,
    Extension(life): Extension<ConnectionLife>,
    viewer: Viewer,
    Query(query): Query<ViewQuery>,
) -> Result<Response, Response> {
    let places = service.take_places(&viewer).await?;
    Ok(stream(service, viewer, query, &life, places))
}

async fn report(
    State(service): State<PageService>,
    Extension(life): Extension<ConnectionLife>,
    viewer: Viewer,
    Path(run): Path<String>,
) -> Result<Response, Response> {
    let not_found = || text(StatusCode::NOT_FOUND, "this run does not exist, or its session has forgotten it\n");
    let run = RunId::new(run);
    let record = |event| {
        let record = AuditRecord { run: Some(run.as_str().into()), ..viewer.audit_record(event, "page/report") };
        service.api.context.audit.record(record);
    };
    // As over gRPC: reports are for their tenants, and operators see outcomes alone.
    let Some(tenant) = viewer.caller.tenant.clone() else {
        record(AuditEvent::Denied);
        return Err(text(StatusCode::FORBIDDEN, "this caller is an operator, not a tenant\n"));
    };
    let places = service.take_places(&viewer).await?;
    let Some(session) = service.api.registry.find_by_run(tenant.id.clone(), &run).await else {
        record(AuditEvent::Denied);
        return Err(not_found());
    };
    let unread = Arc::clone(&tenant.allowance.in_flight().unread);
    let too_much = || text(StatusCode::TOO_MANY_REQUESTS, "this tenant has not read its answers so far: try again\n");
    // Checked before the work of a report that could not be sent.
    if unread.now() >= UNREAD_BYTES_MAX {
        return Err(too_much());
    }
    life.extend(REPORT_MAX, places);
    let rendered = service
        .api
        .report_document(&tenant, &session, run.to_string(), ReportFormat::Html, PAGE_REPORT_BYTES_MAX)
        .await;
    let document = match rendered {
        Ok((_, document)) => document,
        Err(status) if status.code() == Code::PermissionDenied || status.code() == Code::NotFound => {
            return Err(not_found());
        }
        Err(status) if status.code() == Code::FailedPrecondition => {
            return Err(text(StatusCode::CONFLICT, "the run has no report: it has not ended, or did not start\n"));
        }
        Err(_) => return Err(text(StatusCode::SERVICE_UNAVAILABLE, "the report cannot be made now: try again\n")),
    };
    let reservation = unread.try_add(document.len() as u64, UNREAD_BYTES_MAX).ok_or_else(too_much)?;
    record(AuditEvent::ReportRead);
    let document = Bytes::from_owner(UnreadDocument { document, _reservation: reservation });
    // A document without an origin: whatever its script did, nothing of the page would be within its reach.
    let policy = format!("{}; frame-ancestors 'none'; sandbox allow-scripts", reports::html_policy());
    let mut answer = html(StatusCode::OK, document);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

/// A report with its reservation, which lasts until the transport has passed on the last of it.
struct UnreadDocument {
    document: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for UnreadDocument {
    fn as_ref(&self) -> &[u8] {
        &self.document
    }
}

async fn drain(State(service): State<PageService>, viewer: Viewer) -> Response {
    if viewer.scope != Scope::Operator {
        service.api.context.audit.record(viewer.audit_record(AuditEvent::Denied, "page/drain"));
        return text(StatusCode::FORBIDDEN, "only operators may drain the supervisor\n");
    }
    service.api.context.audit.record(viewer.audit_record(AuditEvent::OperatorCall, "page/drain"));
    tracing::info!("an operator drains the supervisor from the page");
    service.api.drain.begin(None);
    text(StatusCode::ACCEPTED, "the supervisor drains\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenants::allowance::Gauge;

    #[test]
    fn a_report_counts_as_unread_while_any_of_it_is_left() {
        let unread = Arc::<Gauge>::default();
        let document = vec![b'x'; 1_000];
        let reservation = unread.try_add(1_000, UNREAD_BYTES_MAX).unwrap();
        let mut bytes = Bytes::from_owner(UnreadDocument { document, _reservation: reservation });
        let rest = bytes.split_off(900);
        drop(bytes);
        assert_eq!((unread.now(), rest.len()), (1_000, 100));
        drop(rest);
        assert_eq!(unread.now(), 0);
    }
}
