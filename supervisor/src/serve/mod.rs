//! Serving: listeners in, an orderly end out. Must not know what is served.

mod drain;
mod only;
mod tls;

pub use drain::{DRAIN, DRAIN_MAX, Drain};

use crate::access::Current;
use crate::api::Api;
use only::Only;
use std::io;
use std::path::{Path, PathBuf};
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

pub use tls::Peer;

/// Streams of one connection at the same time: a shim has one or two, a platform service a few hundred.
const STREAMS_MAX: u32 = 1_024;

/// A silent peer is asked whether it is there, and dropped when it does not answer.
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
        /// Its file, when it is ours to remove.
        path: Option<PathBuf>,
    },
    /// TCP.
    Tcp(TcpListener),
    /// TLS on TCP.
    Tls {
        /// The socket.
        listener: TcpListener,
        /// Whose certificates are shown.
        access: Current,
    },
    /// One connection that is there already. Serving ends with it.
    Connected(UnixStream),
}

/// Why serving ended badly.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The reflection service could not read our own descriptors.
    #[error("reflection")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// A transport failed.
    #[error("transport")]
    Transport(#[from] tonic::transport::Error),
}

/// Why a unix socket could not be bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// Somebody answers there.
    #[error("{}: another supervisor is listening there", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Serves `api` on all `listeners` until its drain begins or a connection that was there already ends. Then takes on nothing
/// new, lets runs finish until the drain's deadline and closes every session, so that nothing of any run is left when this
/// returns.
pub async fn serve(api: Api, listeners: Vec<Listener>) -> Result<(), ServeError> {
    let (registry, drain) = (api.registry.clone(), api.drain.clone());
    let sandbox = Arc::clone(&api.context.sandbox);
    let routes = api.routes().await?;
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
    tracing::info!(seconds_left = drain.left().as_secs(), "draining: no new work is taken on");
    let closed = registry.drain(drain.overdue()).await;
    tracing::info!(finished = closed.finished, cancelled = closed.cancelled, "drained");
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
        Listener::Unix { listener, path } => {
            let _socket = path.map(Socket);
            router.serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop).await
        }
        Listener::Tcp(listener) => router.serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop).await,
        Listener::Tls { listener, access } => {
            router.serve_with_incoming_shutdown(tls::incoming(listener, access, stopping), stop).await
        }
        Listener::Connected(stream) => {
            // The transport would close the connection when no other can come, so the next one is awaited for ever.
            let gone = CancellationToken::new();
            let one = Only { stream, _gone: gone.clone().drop_guard() };
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

struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// Binds a unix socket at `path` with these permission bits. A socket that nobody answers on is replaced.
pub async fn bind_unix(path: &Path, mode: u32) -> Result<Listener, BindError> {
    let failed = |source| BindError::Io { path: path.to_owned(), source };
    if UnixStream::connect(path).await.is_ok() {
        return Err(BindError::InUse { path: path.to_owned() });
    }
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()) => {
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => return Err(failed(io::Error::other("there is something else than a socket"))),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).map_err(failed)?;
    Ok(Listener::Unix { listener, path: Some(path.to_owned()) })
}
