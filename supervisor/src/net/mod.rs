//! Listeners for gRPC connections and the orderly end of the supervisor.

mod connection;
mod connection_limiter;
mod http2_authority;
mod peer;
mod tls_listener;
mod unix_socket;

use crate::ops::drain::Drain;
use crate::sessions::registry::Registry;
use crate::tenants::access::CurrentAccess;
use connection::Connection;
use connection_limiter::limited;
use http2_authority::AuthorityRewriter;
use peer::PeerInfo;
use proctor_core::bounds::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, STREAMS_MAX};
use proctor_sandbox::Sandbox;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;

pub use peer::{ConnectionInfo, ConnectionState, Peer};
pub use unix_socket::{BindError, SocketFile, bind_unix};

/// How long connections may take to end after the runs have ended.
const LINGER: Duration = Duration::from_secs(5);

/// A source of connections.
pub enum Listener {
    /// A unix socket; its file is removed at the end.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file.
        file: SocketFile,
    },
    /// TCP.
    Tcp(TcpListener),
    /// A TLS listener on TCP.
    Tls {
        /// The socket.
        listener: TcpListener,
        /// Access with the certificates of the listener.
        access: CurrentAccess,
    },
    /// One connection that exists already. Serving ends with it.
    Connected(UnixStream),
}

/// Why serving failed.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A transport failed.
    #[error("the listener failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// The services to serve, and the state that ends with them.
pub struct ServerParts {
    /// All services.
    pub routes: Routes,
    /// The sessions.
    pub registry: Registry,
    /// The end.
    pub drain: Drain,
    /// The sandbox of the runs.
    pub sandbox: Arc<dyn Sandbox>,
}

/// Serves on all `listeners` until the drain begins or an existing connection ends. Then refuses new work, lets runs
/// finish until the drain's deadline and closes every session, so that nothing of any run is left when this returns.
pub async fn serve(parts: ServerParts, listeners: Vec<Listener>) -> Result<(), ServeError> {
    let ServerParts { routes, registry, drain, sandbox } = parts;
    let mut transports = JoinSet::new();
    let stopping = CancellationToken::new();
    for listener in listeners {
        transports.spawn(transport(routes.clone(), listener, stopping.clone()));
    }
    let mut result = Ok(());
    tokio::select! {
        () = drain.begun() => {}
        Some(ended) = transports.join_next() => {
            if let Ok(Err(error)) = ended {
                result = Err(error.into());
            }
            // No client is left that could watch a run.
            drain.begin(Some(Duration::ZERO));
        }
    }
    tracing::info!(seconds_left = drain.remaining().as_secs(), "draining: new work is refused");
    let closed = registry.drain(drain.overdue()).await;
    tracing::info!(finished = closed.finished, cancelled = closed.cancelled, "drained");
    drain.side_tasks_ended().await;
    // Ending processes blocks.
    _ = tokio::task::spawn_blocking(move || sandbox.close()).await;
    drain.finish(closed);
    stopping.cancel();
    // A client that keeps its connection open cannot delay the end.
    _ = tokio::time::timeout(LINGER, async { while transports.join_next().await.is_some() {} }).await;
    result
}

async fn transport(
    routes: Routes,
    listener: Listener,
    stopping: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let router = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .tcp_nodelay(true)
        .add_routes(routes);
    let stop = stopping.clone().cancelled_owned();
    match listener {
        Listener::Unix { listener, file: _file } => {
            let incoming = limited(UnixListenerStream::new(listener));
            let incoming = incoming.map(|connection| connection.map(AuthorityRewriter::new));
            router.serve_with_incoming_shutdown(incoming, stop).await
        }
        Listener::Tcp(listener) => {
            router.serve_with_incoming_shutdown(limited(TcpListenerStream::new(listener)), stop).await
        }
        Listener::Tls { listener, access } => {
            router.serve_with_incoming_shutdown(tls_listener::incoming(listener, access, stopping), stop).await
        }
        Listener::Connected(stream) => {
            // The transport would close the connection when no other can follow, so the stream of connections never
            // ends.
            let closed = CancellationToken::new();
            let info = ConnectionInfo::single(stream.peer());
            let connection = Connection::new(stream, info, closed.clone().drop_guard());
            let incoming = tokio_stream::once(Ok::<_, io::Error>(connection)).chain(tokio_stream::pending());
            let end = async move {
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = stop => {}
                }
            };
            router.serve_with_incoming_shutdown(incoming, end).await
        }
    }
}
