//! Authentication: identifies the caller of each call by its transport alone, before anything but the headers is read,
//! and tracks whether the credential stays valid.

use super::revocation::{Revocation, hold_until_revoked};
use super::status;
use crate::net::{ConnectionInfo, Peer};
use crate::tenants::access::{Access, AuthError, CurrentAccess, PresentedCredential, now};
use crate::tenants::{Caller, Tenant};
use rustls::pki_types::UnixTime;
use std::error::Error;
use std::sync::{Arc, Weak};
use tonic::codegen::http::{self, header};
use tonic::{Request, Status};

/// The credential that a request presents: over a unix socket the peer's user id, otherwise a bearer token, or without
/// one the client certificate of its connection. Only one counts; when it is unknown, the others are not tried.
fn presented_credential<T>(request: &http::Request<T>) -> Result<PresentedCredential, Status> {
    // Over a unix socket the kernel has identified the peer, so tokens are ignored.
    let peer = request.extensions().get::<ConnectionInfo>().map(|info| &info.peer);
    if let Some(Peer::Unix(uid)) = peer {
        return uid.map(PresentedCredential::Uid).ok_or_else(|| unknown(None));
    }
    let mut headers = request.headers().get_all(header::AUTHORIZATION).iter();
    if let Some(value) = headers.next() {
        // A proxy in front may have checked a different one of several.
        if headers.next().is_some() {
            return Err(status::unauthenticated("metadata `authorization` is given more than once"));
        }
        let token = value
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty());
        return token.map(|token| PresentedCredential::Token(token.into())).ok_or_else(missing);
    }
    let Some(Peer::Tls { certificates: Some(certificates), .. }) = peer else { return Err(missing()) };
    Ok(PresentedCredential::Certificates(Arc::clone(certificates)))
}

fn missing() -> Status {
    status::unauthenticated("metadata `authorization: Bearer TOKEN` is missing")
}

// One text per kind of credential, whatever the reason.
fn unknown(presented: Option<&PresentedCredential>) -> Status {
    status::unauthenticated(match presented {
        Some(PresentedCredential::Token(_)) => "the bearer token is not known",
        Some(PresentedCredential::Certificates(_)) => "the client certificate is not known",
        Some(PresentedCredential::Uid(_)) | None => {
            "this user id belongs to no tenant of this host; the operator adds it to a tenant's `uids`"
        }
    })
}

fn authenticate(access: &Access, presented: &PresentedCredential, at: UnixTime) -> Result<Caller, Status> {
    access.caller(presented, at).map_err(|why: AuthError| {
        let cause = why.source().map(ToString::to_string);
        tracing::info!(%why, cause, "a credential was refused");
        unknown(Some(presented))
    })
}

/// The authenticated caller, attached to every admitted request.
#[derive(Clone)]
pub(super) struct AuthenticatedCaller {
    pub(super) caller: Caller,
    presented: PresentedCredential,
    /// Time of the call. A token or certificate that expires later does not end what the call has started.
    at: UnixTime,
    access: CurrentAccess,
}

impl AuthenticatedCaller {
    /// Authenticates a request by its headers and its connection.
    pub(super) fn authenticate<T>(
        current: &CurrentAccess,
        request: &http::Request<T>,
    ) -> Result<AuthenticatedCaller, Status> {
        let (presented, at) = (presented_credential(request)?, now());
        let mut access = current.clone();
        let caller = authenticate(&access.borrow_and_update(), &presented, at)?;
        Ok(AuthenticatedCaller { caller, presented, at, access })
    }

    /// The caller of an admitted request.
    pub(super) fn from_request<T>(request: &Request<T>) -> Result<&AuthenticatedCaller, Status> {
        request.extensions().get::<AuthenticatedCaller>().ok_or_else(missing)
    }
}

/// A tenant that has called, with a watch on its credential.
pub(super) struct AuthenticatedTenant {
    pub(super) tenant: Arc<Tenant>,
    caller: AuthenticatedCaller,
}

impl AuthenticatedTenant {
    /// The tenant of an admitted request.
    pub(super) fn from_request<T>(request: &Request<T>) -> Result<AuthenticatedTenant, Status> {
        let caller = AuthenticatedCaller::from_request(request)?.clone();
        let tenant = caller.caller.tenant.clone().ok_or_else(status::not_a_tenant)?;
        Ok(AuthenticatedTenant { tenant, caller })
    }

    /// The status for a credential that is no longer valid.
    pub(super) fn revoked_status(&self) -> Status {
        unknown(Some(&self.caller.presented))
    }

    /// Resolves when the presented credential no longer belongs to this tenant.
    pub(super) async fn revoked(&mut self) -> Status {
        let AuthenticatedCaller { presented, at, access, .. } = &mut self.caller;
        loop {
            if access.changed().await.is_err() {
                // The sender is gone, so the access can no longer change.
                std::future::pending::<()>().await;
            }
            let caller = access.borrow_and_update().caller(presented, *at).ok();
            let tenant = caller.and_then(|caller| caller.tenant);
            if tenant.is_none_or(|tenant| tenant.id != self.tenant.id) {
                return unknown(Some(presented));
            }
        }
    }

    /// Holds `resource` for the caller until its credential is revoked.
    pub(super) fn hold_until_revoked<T: Send + Sync + 'static>(mut self, resource: T) -> (Weak<T>, Revocation) {
        hold_until_revoked(resource, async move { self.revoked().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_one_credential_and_rejects_two() {
        for (values, expected) in [
            (&[][..], Err("metadata `authorization: Bearer TOKEN` is missing")),
            (&["Bearer a"], Ok(())),
            (&["Bearer a", "Bearer b"], Err("metadata `authorization` is given more than once")),
            (&["Bearer a", "Bearer a"], Err("metadata `authorization` is given more than once")),
            (&["Basic a", "Bearer a"], Err("metadata `authorization` is given more than once")),
        ] {
            let mut request = http::Request::new(());
            values
                .iter()
                .for_each(|value| _ = request.headers_mut().append(header::AUTHORIZATION, value.parse().unwrap()));
            let found = presented_credential(&request)
                .map(|found| assert!(matches!(found, PresentedCredential::Token(token) if *token == *"a")));
            assert_eq!(found.as_ref().map_err(Status::message).copied(), expected, "{values:?}");
        }
    }
}
