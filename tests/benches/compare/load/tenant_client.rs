//! A tenant on a connection of its own, and what an answer that is an error says. Must not know what is asked.

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

/// No answer and no event is waited for longer: what takes seconds on a busy host is stuck by then.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Says who is calling.
#[derive(Clone)]
pub(super) struct Bearer(Option<AsciiMetadataValue>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

type Wire = InterceptedService<Channel, Bearer>;

/// Clones share the connection, which is closed when the last one and its streams are dropped.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) sessions: SessionsClient<Wire>,
    pub(super) runs: RunsClient<Wire>,
}

impl Caller {
    pub(super) async fn connect(address: SocketAddr, token: &str) -> Result<Caller, tonic::transport::Error> {
        let channel = proctor_proto::client::connect_tcp(format!("http://{address}")).await?;
        let wire = || InterceptedService::new(channel.clone(), Bearer(format!("Bearer {token}").parse().ok()));
        Ok(Caller {
            sessions: SessionsClient::new(wire()),
            runs: RunsClient::new(wire()).max_decoding_message_size(MESSAGE_BYTES_MAX),
        })
    }
}

/// What became of a call that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// The supervisor said why: a status, its text, and the quota that is used up or the reason in its details, or else the
    /// text again.
    Typed { code: Code, reason: String, text: String },
    /// The connection broke, and nobody said anything.
    Lost,
}

impl Refused {
    pub(super) fn by(status: &Status) -> Refused {
        // What a supervisor has said has no source; what the connection makes of its own end has one.
        if status.source().is_some() {
            return Refused::Lost;
        }
        let reason = match status.get_details_error_info() {
            Some(info) => info.metadata.get("quota").cloned().unwrap_or(info.reason),
            None => status.message().to_owned(),
        };
        Refused::Typed { code: status.code(), reason, text: status.message().to_owned() }
    }
}
