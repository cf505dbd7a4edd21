//! Serving: listeners in, an orderly end out. Must not know what is served.

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
use connection_limiter::guarded;
use http2_authority::ReadableAuthority;
use peer::PeerInfo;
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

pub use peer::{ConnectionState, Peer, Visitor};
pub use unix_socket::{BindError, SocketFile, bind_unix};

/// Streams of one connection at the same time: a shim has one or two, a platform service a few hundred.
const STREAMS_MAX: u32 = 1_024;

/// A silent peer is asked whether it is there, and dropped when it does not answer, or when it does not take the question.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_ANSWER: Duration = Duration::from_secs(20);

/// How long connections may take to end after their runs have.
const LINGER: Duration = Duration::from_secs(5);

/// Where callers come from.
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
    /// TLS on TCP.
    Tls {
        /// The socket.
        listener: TcpListener,
        /// Whose certificates are shown.
        access: CurrentAccess,
    },
    /// One connection that is there already. Serving ends with it.
    Connected(UnixStream),
}

/// Why serving ended badly.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A transport failed.
    #[error("the listener failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// What is served, and what comes to an end with it.
pub struct Served {
    /// All services.
    pub routes: Routes,
    /// The sessions.
    pub registry: Registry,
    /// The end.
    pub drain: Drain,
    /// The environment of their runs.
    pub sandbox: Arc<dyn Sandbox>,
}

/// Serves on all `listeners` until the drain begins or a connection that was there already ends. Then takes on nothing
/// new, lets runs finish until the drain's deadline and closes every session, so that nothing of any run is left when this
/// returns.
pub async fn serve(served: Served, listeners: Vec<Listener>) -> Result<(), ServeError> {
    let Served { routes, registry, drain, sandbox } = served;
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
            // Nobody is left who could watch a run.
            drain.begin(Some(Duration::ZERO));
        }
    }
    tracing::info!(seconds_left = drain.remaining().as_secs(), "draining: no new work is taken on");
    let closed = registry.drain(drain.overdue()).await;
    tracing::info!(finished = closed.finished, cancelled = closed.cancelled, "drained");
    drain.side_tasks_ended().await;
    // Ending processes blocks.
    _ = tokio::task::spawn_blocking(move || sandbox.close()).await;
    drain.finish(closed);
    stopping.cancel();
    // A client that does not let go of its connection cannot hold up the end.
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
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE_ANSWER))
        .tcp_nodelay(true)
        .add_routes(routes);
    let stop = stopping.clone().cancelled_owned();
    match listener {
        Listener::Unix { listener, file: _file } => {
            let incoming = guarded(UnixListenerStream::new(listener));
            let incoming = incoming.map(|connection| connection.map(ReadableAuthority::over));
            router.serve_with_incoming_shutdown(incoming, stop).await
        }
        Listener::Tcp(listener) => {
            router.serve_with_incoming_shutdown(guarded(TcpListenerStream::new(listener)), stop).await
        }
        Listener::Tls { listener, access } => {
            router.serve_with_incoming_shutdown(tls_listener::incoming(listener, access, stopping), stop).await
        }
        Listener::Connected(stream) => {
            // The transport would close the connection when no other can come, so the next one is awaited for ever.
            let gone = CancellationToken::new();
            let visitor = Visitor::alone(stream.peer());
            let one = Connection::new(stream, visitor, gone.clone().drop_guard());
            let incoming = tokio_stream::once(Ok::<_, io::Error>(one)).chain(tokio_stream::pending());
            let end = async move {
                tokio::select! {
                    () = gone.cancelled() => {}
                    () = stop => {}
                }
            };
            router.serve_with_incoming_shutdown(incoming, end).await
        }
    }
}
