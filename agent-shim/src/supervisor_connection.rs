//! The connection to the supervisor: made when it is first needed, made anew when it is gone. Must not know sessions.

use crate::bearer_token::{BearerToken, TokenError};
use crate::certificate_errors;
use crate::command_line::{Address, Endpoint, TlsFiles};
use crate::private_supervisor::{PrivateError, PrivateSupervisor};
use crate::tls_probe::{greet, is_encrypted};
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

/// How long a supervisor may take to answer what needs no look at anything.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long a connection may take. Everything is on this host.
const CONNECT_MAX: Duration = Duration::from_secs(10);

type Transport = InterceptedService<Channel, BearerToken>;

/// Why there is no supervisor to ask.
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
    #[error("the supervisor does not let us in")]
    Greeting(#[source] std::io::Error),
    #[error("the supervisor speaks TLS there, and --supervisor says http://")]
    Encrypted,
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
    fn over(channel: Channel, token: BearerToken) -> Clients {
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

/// A supervisor, running or yet to be started. Clones are the same one.
#[derive(Clone)]
pub(crate) struct SupervisorConnection {
    endpoint: Arc<Endpoint>,
    // Held while connecting, so that calls that come together share one supervisor.
    connection: Arc<Mutex<Option<EstablishedConnection>>>,
}

impl SupervisorConnection {
    /// One that will be reached at `endpoint`.
    pub(crate) fn new(endpoint: Endpoint) -> SupervisorConnection {
        SupervisorConnection { endpoint: Arc::new(endpoint), connection: Arc::default() }
    }

    /// Its services; connects, or starts it, if need be.
    pub(crate) async fn clients(&self) -> Result<Clients, ConnectError> {
        let mut slot = self.connection.lock().await;
        // A socket to one process cannot be mended: after a crash only a new supervisor helps.
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

    /// Lets go of a private one that cannot be asked any more, so that the next call starts another. It may well be alive: its
    /// socket is not closed by the end of what was spoken over it, since we hold that too.
    pub(crate) async fn mend(&self) {
        let mut slot = self.connection.lock().await;
        let Some(connection) = slot.as_ref().filter(|connection| connection.private.is_some()) else { return };
        let answers = tokio::time::timeout(ANSWER_MAX, answers(&connection.clients)).await;
        if !answers.unwrap_or(false)
            && let Some(EstablishedConnection { private: Some(private), .. }) = slot.take()
        {
            tracing::warn!("the private supervisor cannot be asked any more: the next call starts another");
            private.end().await;
        }
    }

    /// Whether it is one that we start.
    pub(crate) fn is_private(&self) -> bool {
        matches!(*self.endpoint, Endpoint::Private { .. })
    }

    /// Why connections to it do not last, if that is a certificate, or that it speaks TLS and we do not.
    pub(crate) async fn refusal(&self) -> Option<ConnectError> {
        let Endpoint::Running { address, tls, .. } = &*self.endpoint else { return None };
        match address {
            Address::Unix(_) => None,
            Address::Tcp(uri) => {
                let encrypted = tokio::time::timeout(CONNECT_MAX, is_encrypted(uri)).await;
                encrypted.is_ok_and(|encrypted| encrypted).then_some(ConnectError::Encrypted)
            }
            Address::Tls(uri) => {
                let tls = read(tls).ok()?;
                let greeted = tokio::time::timeout(CONNECT_MAX, greet(uri, &tls)).await.ok()?;
                greeted.map_err(ConnectError::Greeting).err().filter(|why| certificate_errors::trouble(why).is_some())
            }
        }
    }

    /// Its services if it is one that others started and that has been connected to.
    pub(crate) async fn shared(&self) -> Option<Clients> {
        let slot = self.connection.lock().await;
        slot.as_ref().filter(|connection| connection.private.is_none()).map(|connection| connection.clients.clone())
    }

    /// Lets go of it; a private one ends.
    pub(crate) async fn end(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(private) = connection.and_then(|connection| connection.private) {
            private.end().await;
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
                Address::Tls(uri) => client::connect_tls(uri.clone(), read(tls)?).await?,
            };
            Ok(EstablishedConnection { clients: Clients::over(channel, token), private: None })
        }
        Endpoint::Private { binary, workspace } => {
            let (private, stream) = PrivateSupervisor::start(binary.as_deref(), workspace)?;
            let channel = client::connect_stream(stream).await?;
            Ok(EstablishedConnection { clients: Clients::over(channel, BearerToken::NONE), private: Some(private) })
        }
    }
}

// Whatever it says: what was made here, for want of an answer, has a source.
async fn answers(clients: &Clients) -> bool {
    let asked = clients.clone().sessions.get_session(GetSessionRequest::default()).await;
    asked.err().is_none_or(|status| status.source().is_none())
}

// Read for each connection, so that files that are replaced count for the next one.
fn read(files: &TlsFiles) -> Result<client::Tls, ConnectError> {
    let text = |path: &PathBuf| {
        std::fs::read_to_string(path).map_err(|source| ConnectError::Tls { path: path.clone(), source })
    };
    let authorities = text(files.ca.as_ref().ok_or(ConnectError::NoAuthority)?)?;
    let own = files.own.as_ref().map(|(certificate, key)| Ok::<_, ConnectError>((text(certificate)?, text(key)?)));
    Ok(client::Tls { authorities, own: own.transpose()? })
}
