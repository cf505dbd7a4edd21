//! Who calls, by what the transport says and nothing else, and for how long that is so. Must not know any message.

use super::follow::EventStream;
use super::{record, status};
use crate::access::{Access, Current, Nobody, Shown, now};
use crate::serve::Peer;
use crate::tenant::{Caller, Tenant};
use futures_util::stream::unfold;
use rustls::pki_types::UnixTime;
use std::error::Error;
use std::sync::Arc;
use tokio_stream::StreamExt;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// What a request shows: over a unix socket the peer's user id, otherwise a bearer token, or without one the certificate
/// of its connection. One of them counts, and when that is not known none of the others is tried.
fn shown<T>(request: &Request<T>) -> Result<Shown, Status> {
    // Over a unix socket a token is no use: the kernel has said already who is at the other end.
    if let Some(peer) = request.extensions().get::<UdsConnectInfo>() {
        let uid = peer.peer_cred.as_ref().map(tokio::net::unix::UCred::uid);
        return uid.map(Shown::Uid).ok_or_else(|| unknown(None));
    }
    if let Some(value) = request.metadata().get("authorization") {
        let token = value
            .to_str()
            .ok()
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .filter(|token| !token.is_empty());
        return token.map(|token| Shown::Token(token.into())).ok_or_else(missing);
    }
    let certificates = request.extensions().get::<Peer>().and_then(|peer| peer.certificates.clone());
    certificates.map(Shown::Certificates).ok_or_else(missing)
}

fn missing() -> Status {
    status::unauthenticated("metadata `authorization: Bearer TOKEN` is missing")
}

// One text for each way to be known, whatever the reason.
fn unknown(shown: Option<&Shown>) -> Status {
    status::unauthenticated(match shown {
        Some(Shown::Token(_)) => "the bearer token is not known",
        Some(Shown::Certificates(_)) => "the client certificate is not known",
        Some(Shown::Uid(_)) | None => "this user id is no tenant of this host",
    })
}

fn look(access: &Access, shown: &Shown, at: UnixTime) -> Result<Caller, Status> {
    access.caller(shown, at).map_err(|why: Nobody| {
        let cause = why.source().map(ToString::to_string);
        tracing::info!(%why, cause, "a caller is nobody");
        unknown(Some(shown))
    })
}

/// The caller of a request.
pub(super) fn caller<T>(access: &Access, request: &Request<T>) -> Result<Caller, Status> {
    look(access, &shown(request)?, now())
}

/// A tenant who has called, for as long as it is known as that.
pub(super) struct Known {
    pub(super) tenant: Arc<Tenant>,
    shown: Shown,
    /// When it called. That a token or certificate expires afterwards does not end what it has begun.
    at: UnixTime,
    access: Current,
}

impl Known {
    /// The tenant who calls.
    pub(super) fn of<T>(current: &Current, request: &Request<T>) -> Result<Known, Status> {
        let (shown, at) = (shown(request)?, now());
        let mut access = current.clone();
        let caller = look(&access.borrow_and_update(), &shown, at)?;
        record::caller(&caller);
        let tenant = caller.tenant.ok_or_else(status::not_a_tenant)?;
        Ok(Known { tenant, shown, at, access })
    }

    /// What it is told when it is not known any more.
    pub(super) fn unknown(&self) -> Status {
        unknown(Some(&self.shown))
    }

    /// Returns when what the caller showed is not this tenant's any more.
    pub(super) async fn lost(&mut self) -> Status {
        loop {
            if self.access.changed().await.is_err() {
                // Nobody can change it any more.
                std::future::pending::<()>().await;
            }
            let caller = self.access.borrow_and_update().caller(&self.shown, self.at).ok();
            let tenant = caller.and_then(|caller| caller.tenant);
            if tenant.is_none_or(|tenant| tenant.id != self.tenant.id) {
                return self.unknown();
            }
        }
    }

    /// `stream` as long as its caller is known.
    pub(super) fn guard(self, stream: EventStream) -> EventStream {
        Box::pin(unfold(Some((self, stream)), |state| async move {
            let (mut known, mut stream) = state?;
            tokio::select! {
                biased;
                status = known.lost() => Some((Err(status), None)),
                event = stream.next() => event.map(|event| (event, Some((known, stream)))),
            }
        }))
    }
}
