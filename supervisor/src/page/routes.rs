//! The routes of the page, and the headers of all of its answers.

use super::event_stream::stream;
use super::request_check::{Refusal, Transport};
use super::view::ViewQuery;
use super::viewer::{Scope, Viewer, cookie, cookie_name, identification};
use super::{PageService, assets};
use crate::ops::audit::{AuditEvent, AuditRecord};
use crate::reports;
use crate::sessions::SessionHandle;
use crate::telemetry::listener::{ConnectionLife, bearer_token, text};
use crate::tenants::Tenant;
use axum::extract::{DefaultBodyLimit, Form, Path, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use proctor_core::bounds::PAGE_REPORT_BYTES_MAX;
use proctor_core::id::RunId;
use proctor_proto::report_format::ReportFormat;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Largest body of a request: a login with a long JSON web token.
const BODY_BYTES_MAX: usize = 16 * 1024;

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
        Ok(transport) => {
            request.extensions_mut().insert(transport);
            next.run(request).await
        }
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
) -> Response {
    let viewer = match identification(&headers, transport) {
        Some(identification) => Viewer::identify(&service, identification).await,
        None => None,
    };
    match viewer {
        Some(_) => html(StatusCode::OK, assets::PAGE),
        None => html(StatusCode::UNAUTHORIZED, assets::login(None)),
    }
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
}

async fn log_in(
    State(service): State<PageService>,
    Extension(transport): Extension<Transport>,
    Form(form): Form<LoginForm>,
) -> Response {
    let token = form.token.trim();
    let Some(caller) = service.caller(token) else {
        service.api.context.audit.record(AuditRecord {
            rpc: Some("page/login".into()),
            outcome: Some("error".to_owned()),
            ..AuditRecord::new(AuditEvent::AuthenticationRefused)
        });
        return html(StatusCode::UNAUTHORIZED, assets::login(Some("This token is not known.")));
    };
    let Some(cookie) = service.logins.add(token.into()).await else {
        return html(StatusCode::SERVICE_UNAVAILABLE, assets::login(Some("The host cannot make a login now.")));
    };
    tracing::info!(tenant = caller.tenant.map(|tenant| tenant.id.to_string()), "a browser has logged in to the page");
    let mut answer = see_page();
    set_cookie(&mut answer, transport, &cookie, "");
    answer
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
    let places = service.take_places(&viewer).await?;
    let found = service.find_run(&viewer, &run).await;
    let mut record = viewer.audit_record(AuditEvent::ReportRead, "page/report");
    record.run = Some(run.as_str().into());
    let Some((tenant, session)) = found else {
        let denied = AuditRecord { outcome: Some("error".to_owned()), event: AuditEvent::Denied, ..record };
        service.api.context.audit.record(denied);
        return Err(not_found());
    };
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
    service.api.context.audit.record(record);
    // A document without an origin: whatever its script did, nothing of the page would be within its reach.
    let policy = format!("{}; frame-ancestors 'none'; sandbox allow-scripts", reports::html_policy());
    let mut answer = html(StatusCode::OK, document);
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

impl PageService {
    // The session of a run that the viewer may see, and its tenant.
    async fn find_run(&self, viewer: &Viewer, run: &RunId) -> Option<(Arc<Tenant>, SessionHandle)> {
        let tenants = match &viewer.scope {
            Scope::Operator => self.api.access.borrow().tenants.all().to_vec(),
            Scope::Tenant(_) => viewer.caller.tenant.iter().cloned().collect(),
        };
        for tenant in tenants {
            if let Some(session) = self.api.registry.find_by_run(tenant.id.clone(), run).await {
                return Some((tenant, session));
            }
        }
        None
    }
}

async fn drain(State(service): State<PageService>, viewer: Viewer) -> Response {
    if viewer.scope != Scope::Operator {
        let denied =
            AuditRecord { outcome: Some("error".to_owned()), ..viewer.audit_record(AuditEvent::Denied, "page/drain") };
        service.api.context.audit.record(denied);
        return text(StatusCode::FORBIDDEN, "only operators may drain the supervisor\n");
    }
    service.api.context.audit.record(viewer.audit_record(AuditEvent::OperatorCall, "page/drain"));
    tracing::info!("an operator drains the supervisor from the page");
    service.api.drain.begin(None);
    text(StatusCode::ACCEPTED, "the supervisor drains\n")
}
