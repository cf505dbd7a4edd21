//! Who calls, by what the transport says and nothing else. Must not know any message.

use super::status;
use crate::tenant::{Caller, Credential, Tenants};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Status};

/// The caller of a request: the peer of a unix socket by its user id, any other by its bearer token.
pub(super) fn caller<T>(tenants: &Tenants, request: &Request<T>) -> Result<Caller, Status> {
    // Over a unix socket a token is no use: the kernel has said already who is at the other end.
    if let Some(peer) = request.extensions().get::<UdsConnectInfo>() {
        let uid = peer.peer_cred.as_ref().map(tokio::net::unix::UCred::uid);
        return uid
            .and_then(|uid| tenants.identify(Credential::Uid(uid)))
            .ok_or_else(|| status::unauthenticated("this user id is no tenant of this host"));
    }
    let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    let token = header
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| status::unauthenticated("metadata `authorization: Bearer TOKEN` is missing"))?;
    tenants.identify(Credential::Token(token)).ok_or_else(|| status::unauthenticated("the bearer token is not known"))
}
