//! The caller of a request: a bearer token, or the cookie of a login.

use super::PageService;
use super::logins::Cookie;
use super::request_check::Transport;
use crate::ops::audit::{AuditEvent, AuditRecord};
use crate::telemetry::listener::{bearer_token, text};
use crate::tenants::Caller;
use crate::tenants::access::{PresentedCredential, now};
use axum::extract::FromRequestParts;
use axum::http::header::{COOKIE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use proctor_core::id::TenantId;
use std::error::Error;
use std::sync::Arc;

/// What a caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything, and the drain.
    Operator,
    /// What belongs to this tenant. All else is answered as if it did not exist.
    Tenant(TenantId),
}

/// How a caller has identified itself.
#[derive(Clone)]
pub(super) enum Identification {
    Bearer(Arc<str>),
    Login(Cookie),
}

/// The credential is not known, or no longer.
#[derive(Debug)]
pub(super) struct Refused;

/// An authenticated caller.
pub(super) struct Viewer {
    pub(super) scope: Scope,
    pub(super) caller: Caller,
    pub(super) identification: Identification,
}

impl Viewer {
    /// The caller with this identification, if its credential is valid now.
    pub(super) async fn identify(service: &PageService, identification: Identification) -> Result<Viewer, Refused> {
        let token = match &identification {
            Identification::Bearer(token) => Arc::clone(token),
            Identification::Login(cookie) => service.logins.find(cookie.clone()).await.ok_or(Refused)?,
        };
        let caller = service.api.access.borrow().caller(&PresentedCredential::Token(token), now());
        let caller = caller.map_err(|why| {
            let cause = why.source().map(ToString::to_string);
            tracing::info!(%why, cause, "a credential was refused");
            Refused
        })?;
        let scope = match &caller.tenant {
            _ if caller.operator => Scope::Operator,
            Some(tenant) => Scope::Tenant(tenant.id.clone()),
            None => return Err(Refused),
        };
        Ok(Viewer { scope, caller, identification })
    }

    /// As [`Viewer::identify`] for a request, named `call` in the audit log: a refused credential is a line there, and a
    /// request of a tenant counts in its rate.
    pub(super) async fn admit(
        service: &PageService,
        identification: Identification,
        call: &'static str,
    ) -> Result<Result<Viewer, Refused>, Response> {
        let Ok(viewer) = Viewer::identify(service, identification).await else {
            service.api.context.audit.record(AuditRecord {
                rpc: Some(call.into()),
                outcome: Some("error".to_owned()),
                ..AuditRecord::new(AuditEvent::AuthenticationRefused)
            });
            return Ok(Err(Refused));
        };
        let tenant = viewer.caller.tenant.as_ref().filter(|_| !viewer.caller.operator);
        if let Some(Err(wait)) = tenant.map(|tenant| tenant.allowance.take_request()) {
            let mut answer = text(StatusCode::TOO_MANY_REQUESTS, "too many requests of this tenant: try again\n");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
            return Err(answer);
        }
        Ok(Ok(viewer))
    }

    /// The name under which the viewer's places are counted. No tenant's name has a slash in it.
    pub(super) fn place_key(&self) -> String {
        match &self.scope {
            Scope::Operator => "/".to_owned(),
            Scope::Tenant(tenant) => tenant.to_string(),
        }
    }

    /// The tenant's name; `None` for an operator.
    pub(super) fn tenant_name(&self) -> Option<&str> {
        self.caller.tenant.as_ref().map(|tenant| tenant.id.as_str())
    }

    /// An audit record of this caller.
    pub(super) fn audit_record(&self, event: AuditEvent, call: &str) -> AuditRecord {
        let outcome = if matches!(event, AuditEvent::Denied) { "error" } else { "ok" };
        AuditRecord {
            tenant: self.caller.tenant.as_ref().map(|tenant| tenant.id.to_string()),
            auth: Some(self.caller.auth.clone()),
            rpc: Some(call.into()),
            outcome: Some(outcome.to_owned()),
            ..AuditRecord::new(event)
        }
    }
}

impl FromRequestParts<PageService> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, service: &PageService) -> Result<Viewer, Response> {
        let transport = parts.extensions.get::<Transport>().copied().unwrap_or(Transport::Proxy);
        let identification = identification(&parts.headers, transport).ok_or_else(unauthenticated)?;
        let admitted = Viewer::admit(service, identification, call_name(parts.uri.path())).await?;
        admitted.map_err(|Refused| unauthenticated())
    }
}

// The name of a request in the audit log.
fn call_name(path: &str) -> &'static str {
    match path {
        "/events" => "page/events",
        "/drain" => "page/drain",
        _ => "page/report",
    }
}

fn unauthenticated() -> Response {
    let mut answer = text(StatusCode::UNAUTHORIZED, "log in at /, or send `Authorization: Bearer TOKEN`\n");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

/// What a request presents: a bearer token counts before a cookie.
pub(super) fn identification(headers: &HeaderMap, transport: Transport) -> Option<Identification> {
    if let Some(token) = bearer_token(headers) {
        return Some(Identification::Bearer(token.into()));
    }
    cookie(headers, transport).map(Identification::Login)
}

/// The name of the cookie. Behind a TLS proxy it has the prefix that keeps other hosts and plain HTTP from setting it.
pub(super) fn cookie_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Loopback => "proctor_login",
        Transport::Proxy => "__Host-proctor_login",
    }
}

/// The cookie of a login.
pub(super) fn cookie(headers: &HeaderMap, transport: Transport) -> Option<Cookie> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == cookie_name(transport)).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_cookie_among_those_of_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; xproctor_login=2; proctor_login=3".parse().unwrap());
        headers.append(COOKIE, "__Host-proctor_login=4".parse().unwrap());
        assert_eq!(cookie(&headers, Transport::Loopback).as_deref(), Some("3"));
        assert_eq!(cookie(&headers, Transport::Proxy).as_deref(), Some("4"));
        headers.insert(COOKIE, "proctor_login".parse().unwrap());
        assert_eq!(cookie(&headers, Transport::Loopback), None);
    }
}
