//! The connection to the supervisor: established on first use, and re-established when it is lost.

use crate::bearer_token::{BearerToken, TokenError};
use crate::certificate_errors;
use crate::command_line::{Address, Endpoint, TlsFiles};
use crate::private_supervisor::{PrivateError, PrivateSupervisor};
use crate::tls_probe::{handshake, speaks_tls};
use proctor_proto::v1::GetSessionRequest;
use proctor_proto::v1::results_client::ResultsClient;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::{MESSAGE_BYTES_MAX, client};
use std::error::Error as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Mutex;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;

/// How long a supervisor may take to answer a trivial request.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);

type Transport = InterceptedService<Channel, BearerToken>;

/// Why no supervisor can be reached.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Private(#[from] PrivateError),
    #[error("{}", path.display())]
    Tls { path: PathBuf, source: std::io::Error },
    #[error("an https:// supervisor needs --ca with the certificates of its authorities")]
    NoAuthority,
    #[error("cannot reach the supervisor")]
    Connect(#[from] tonic::transport::Error),
    #[error("the supervisor refuses the TLS handshake")]
    Handshake(#[source] std::io::Error),
    #[error("the supervisor speaks TLS there, and --supervisor says http://")]
    TlsExpected,
    #[error("the supervisor does not answer")]
    Timeout,
}

/// The services of a supervisor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Clients {
    pub(crate) sessions: SessionsClient<Transport>,
    pub(crate) runs: RunsClient<Transport>,
    pub(crate) results: ResultsClient<Transport>,
}

impl Clients {
    fn new(channel: Channel, token: BearerToken) -> Clients {
        let transport = InterceptedService::new(channel, token);
        Clients {
            sessions: SessionsClient::new(transport.clone()),
            runs: RunsClient::new(transport.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            results: ResultsClient::new(transport).max_decoding_message_size(MESSAGE_BYTES_MAX),
        }
    }
}

struct EstablishedConnection {
    clients: Clients,
    private: Option<PrivateSupervisor>,
}

/// A connection to a supervisor that runs or is started on first use. Clones share the connection.
#[derive(Clone)]
pub(crate) struct SupervisorConnection {
    endpoint: Arc<Endpoint>,
    // Locked while connecting, so that concurrent calls share one supervisor.
    connection: Arc<Mutex<Option<EstablishedConnection>>>,
}

impl SupervisorConnection {
    /// A connection to `endpoint`, not yet established.
    pub(crate) fn new(endpoint: Endpoint) -> SupervisorConnection {
        SupervisorConnection { endpoint: Arc::new(endpoint), connection: Arc::default() }
    }

    /// The clients of its services. Connects, and starts a private supervisor, if necessary.
    pub(crate) async fn clients(&self) -> Result<Clients, ConnectError> {
        let mut slot = self.connection.lock().await;
        // The socket belongs to one process: after its crash only a new supervisor helps.
        if slot.as_mut().and_then(|connection| connection.private.as_mut()).is_some_and(PrivateSupervisor::has_ended) {
            *slot = None;
        }
        if let Some(connection) = slot.as_ref() {
            return Ok(connection.clients.clone());
        }
        let connection = tokio::time::timeout(CONNECT_MAX, connect(&self.endpoint)).await;
        let connection = connection.map_err(|_| ConnectError::Timeout)??;
        let clients = connection.clients.clone();
        *slot = Some(connection);
        Ok(clients)
    }

    /// Ends a private supervisor that no longer answers, so that the next call starts another. Its process may be alive: a
    /// broken HTTP/2 connection does not close the socket, of which this process holds a clone.
    pub(crate) async fn drop_dead_private(&self) {
        let mut slot = self.connection.lock().await;
        let Some(connection) = slot.as_ref().filter(|connection| connection.private.is_some()) else { return };
        let responds = tokio::time::timeout(ANSWER_MAX, is_responding(&connection.clients)).await;
        if !responds.unwrap_or(false)
            && let Some(EstablishedConnection { private: Some(private), .. }) = slot.take()
        {
            tracing::warn!("the private supervisor no longer answers: the next call starts another");
            private.shut_down().await;
        }
    }

    /// Whether the supervisor is started by this process.
    pub(crate) fn is_private(&self) -> bool {
        matches!(*self.endpoint, Endpoint::Private { .. })
    }

    /// Why connections fail, if the cause is a certificate, or TLS on an `http://` address.
    pub(crate) async fn diagnose(&self) -> Option<ConnectError> {
        let Endpoint::Running { address, tls, .. } = &*self.endpoint else { return None };
        match address {
            Address::Unix(_) => None,
            Address::Tcp(uri) => {
                let is_tls = tokio::time::timeout(CONNECT_MAX, speaks_tls(uri)).await;
                is_tls.unwrap_or(false).then_some(ConnectError::TlsExpected)
            }
            Address::Tls(uri) => {
                let tls = read_tls_files(tls).ok()?;
                let result = tokio::time::timeout(CONNECT_MAX, handshake(uri, &tls)).await.ok()?;
                result
                    .map_err(ConnectError::Handshake)
                    .err()
                    .filter(|error| certificate_errors::find_fault(error).is_some())
            }
        }
    }

    /// The clients, if the supervisor is a shared one and is connected.
    pub(crate) async fn shared(&self) -> Option<Clients> {
        let slot = self.connection.lock().await;
        slot.as_ref().filter(|connection| connection.private.is_none()).map(|connection| connection.clients.clone())
    }

    /// Drops the connection; ends a private supervisor.
    pub(crate) async fn shut_down(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(private) = connection.and_then(|connection| connection.private) {
            private.shut_down().await;
        }
    }
}

async fn connect(endpoint: &Endpoint) -> Result<EstablishedConnection, ConnectError> {
    match endpoint {
        Endpoint::Running { address, token_file, tls } => {
            let token = token_file.as_deref().map_or(Ok(BearerToken::NONE), BearerToken::read)?;
            let channel = match address {
                Address::Unix(path) => client::connect_unix(path.clone()).await?,
                Address::Tcp(uri) => client::connect_tcp(uri.clone()).await?,
                Address::Tls(uri) => client::connect_tls(uri.clone(), read_tls_files(tls)?).await?,
            };
            Ok(EstablishedConnection { clients: Clients::new(channel, token), private: None })
        }
        Endpoint::Private { binary, workspace } => {
            let (private, stream) = PrivateSupervisor::start(binary.as_deref(), workspace)?;
            let channel = client::connect_stream(stream).await?;
            Ok(EstablishedConnection { clients: Clients::new(channel, BearerToken::NONE), private: Some(private) })
        }
    }
}

// Any answer counts, errors too: only a status made by the local client has a source.
async fn is_responding(clients: &Clients) -> bool {
    let answer = clients.clone().sessions.get_session(GetSessionRequest::default()).await;
    answer.err().is_none_or(|status| status.source().is_none())
}

// Called for each connection, so that replaced files take effect with the next one.
fn read_tls_files(files: &TlsFiles) -> Result<client::TlsConfig, ConnectError> {
    let text = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| ConnectError::Tls { path: path.clone(), source })
    };
    let authorities = text(files.ca.as_ref().ok_or(ConnectError::NoAuthority)?)?;
    let client =
        files.client.as_ref().map(|(certificate, key)| Ok::<_, ConnectError>((text(certificate)?, text(key)?)));
    Ok(client::TlsConfig { authorities, client: client.transpose()? })
}
