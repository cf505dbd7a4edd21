//! A tenant's connection and its errors.

use proctor_proto::MESSAGE_BYTES_MAX;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

/// Longest wait for an answer or event; anything still missing then is stuck, even on a busy host.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Adds the tenant's bearer token.
#[derive(Clone)]
pub(super) struct BearerToken(Option<AsciiMetadataValue>);

impl Interceptor for BearerToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type AuthenticatedChannel = InterceptedService<Channel, BearerToken>;

/// Clients over one connection, shared by clones; it closes when the last clone and its streams are dropped.
#[derive(Clone)]
pub(super) struct TenantClient {
    pub(super) sessions: SessionsClient<AuthenticatedChannel>,
    pub(super) runs: RunsClient<AuthenticatedChannel>,
}

impl TenantClient {
    pub(super) async fn connect(address: SocketAddr, token: &str) -> Result<TenantClient, tonic::transport::Error> {
        let channel = proctor_proto::client::connect_tcp(format!("http://{address}")).await?;
        let wire = || InterceptedService::new(channel.clone(), BearerToken(format!("Bearer {token}").parse().ok()));
        Ok(TenantClient {
            sessions: SessionsClient::new(wire()),
            runs: RunsClient::new(wire()).max_decoding_message_size(MESSAGE_BYTES_MAX),
        })
    }
}

/// The error of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallError {
    /// An answer of the supervisor: code, the exhausted quota or the reason (the text if there is neither), and text.
    Status { code: Code, reason: String, text: String },
    /// The connection broke before an answer.
    ConnectionLost,
}

impl CallError {
    pub(super) fn from_status(status: &Status) -> CallError {
        // Statuses of the supervisor have no source error; those that the transport makes have one.
        if status.source().is_some() {
            return CallError::ConnectionLost;
        }
        let reason = match status.get_details_error_info() {
            Some(info) => info.metadata.get("quota").cloned().unwrap_or(info.reason),
            None => status.message().to_owned(),
        };
        CallError::Status { code: status.code(), reason, text: status.message().to_owned() }
    }
}
