//! Who calls, by what the transport says and nothing else, and for how long that is so. It is asked once for each call, before
//! anything of it is read but its headers. Must not know any message.

use super::revocation::{Lease, lend};
use super::status;
use crate::net::{Peer, Visitor};
use crate::tenants::access::{Access, AuthError, CurrentAccess, PresentedCredential, now};
use crate::tenants::{Caller, Tenant};
use rustls::pki_types::UnixTime;
use std::error::Error;
use std::sync::{Arc, Weak};
use tonic::codegen::http::{self, header};
use tonic::{Request, Status};

/// What a request shows: over a unix socket the peer's user id, otherwise a bearer token, or without one the certificate
/// of its connection. One of them counts, and when that is not known none of the others is tried.
fn shown<T>(request: &http::Request<T>) -> Result<PresentedCredential, Status> {
    // Over a unix socket a token is no use: the kernel has said already who is at the other end.
    let peer = request.extensions().get::<Visitor>().map(|visitor| &visitor.peer);
    if let Some(Peer::Local(uid)) = peer {
        return uid.map(PresentedCredential::Uid).ok_or_else(|| unknown(None));
    }
    let mut shown = request.headers().get_all(header::AUTHORIZATION).iter();
    if let Some(value) = shown.next() {
        // A proxy in front may have judged by another one than we would.
        if shown.next().is_some() {
            return Err(status::unauthenticated("metadata `authorization` is there more than once"));
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
    let Some(Peer::Secured { certificates: Some(certificates), .. }) = peer else { return Err(missing()) };
    Ok(PresentedCredential::Certificates(Arc::clone(certificates)))
}

fn missing() -> Status {
    status::unauthenticated("metadata `authorization: Bearer TOKEN` is missing")
}

// One text for each way to be known, whatever the reason.
fn unknown(shown: Option<&PresentedCredential>) -> Status {
    status::unauthenticated(match shown {
        Some(PresentedCredential::Token(_)) => "the bearer token is not known",
        Some(PresentedCredential::Certificates(_)) => "the client certificate is not known",
        Some(PresentedCredential::Uid(_)) | None => {
            "this user id belongs to no tenant of this host; the operator adds it to a tenant's `uids`"
        }
    })
}

fn look(access: &Access, shown: &PresentedCredential, at: UnixTime) -> Result<Caller, Status> {
    access.caller(shown, at).map_err(|why: AuthError| {
        let cause = why.source().map(ToString::to_string);
        tracing::info!(%why, cause, "a caller is nobody");
        unknown(Some(shown))
    })
}

/// Who has called, as every call is told that got in.
#[derive(Clone)]
pub(super) struct Identified {
    pub(super) caller: Caller,
    shown: PresentedCredential,
    /// When it called. That a token or certificate expires afterwards does not end what it has begun.
    at: UnixTime,
    access: CurrentAccess,
}

impl Identified {
    /// Who calls, by the headers of a request and its connection.
    pub(super) fn by<T>(current: &CurrentAccess, request: &http::Request<T>) -> Result<Identified, Status> {
        let (shown, at) = (shown(request)?, now());
        let mut access = current.clone();
        let caller = look(&access.borrow_and_update(), &shown, at)?;
        Ok(Identified { caller, shown, at, access })
    }

    /// Who has called with a request that got in.
    pub(super) fn of<T>(request: &Request<T>) -> Result<&Identified, Status> {
        request.extensions().get::<Identified>().ok_or_else(missing)
    }
}

/// A tenant who has called, for as long as it is known as that.
pub(super) struct AuthenticatedTenant {
    pub(super) tenant: Arc<Tenant>,
    identified: Identified,
}

impl AuthenticatedTenant {
    /// The tenant who has called.
    pub(super) fn of<T>(request: &Request<T>) -> Result<AuthenticatedTenant, Status> {
        let identified = Identified::of(request)?.clone();
        let tenant = identified.caller.tenant.clone().ok_or_else(status::not_a_tenant)?;
        Ok(AuthenticatedTenant { tenant, identified })
    }

    /// What it is told when it is not known any more.
    pub(super) fn unknown(&self) -> Status {
        unknown(Some(&self.identified.shown))
    }

    /// Returns when what the caller showed is not this tenant's any more.
    pub(super) async fn lost(&mut self) -> Status {
        let Identified { shown, at, access, .. } = &mut self.identified;
        loop {
            if access.changed().await.is_err() {
                // AuthError can change it any more.
                std::future::pending::<()>().await;
            }
            let caller = access.borrow_and_update().caller(shown, *at).ok();
            let tenant = caller.and_then(|caller| caller.tenant);
            if tenant.is_none_or(|tenant| tenant.id != self.tenant.id) {
                return unknown(Some(shown));
            }
        }
    }

    /// Lends `held` to the caller for as long as it is known.
    pub(super) fn lend<T: Send + Sync + 'static>(mut self, held: T) -> (Weak<T>, Lease) {
        lend(held, async move { self.lost().await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_credential_counts_and_with_two_nobody_is_known() {
        for (values, told) in [
            (&[][..], Err("metadata `authorization: Bearer TOKEN` is missing")),
            (&["Bearer a"], Ok(())),
            (&["Bearer a", "Bearer b"], Err("metadata `authorization` is there more than once")),
            (&["Bearer a", "Bearer a"], Err("metadata `authorization` is there more than once")),
            (&["Basic a", "Bearer a"], Err("metadata `authorization` is there more than once")),
        ] {
            let mut request = http::Request::new(());
            values
                .iter()
                .for_each(|value| _ = request.headers_mut().append(header::AUTHORIZATION, value.parse().unwrap()));
            let found = shown(&request)
                .map(|found| assert!(matches!(found, PresentedCredential::Token(token) if *token == *"a")));
            assert_eq!(found.as_ref().map_err(Status::message).copied(), told, "{values:?}");
        }
    }
}
