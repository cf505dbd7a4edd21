//! Listens, bounds the connections, and ends them.

use super::HttpWorkspace;
use super::anonymous_connections::{AnonymousConnections, ConnectionEntry};
use super::endpoint::Endpoint;
use crate::command_line::HttpSettings;
use crate::mcp_server::McpServer;
use anyhow::Context;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Most connections: several for each of a hundred agents. Below the usual limit of 1,024 descriptors.
const CONNECTIONS_MAX: usize = 512;

/// How long the headers of a request may take, and how long a connection may be idle between two requests.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);

/// Buffer of a connection, in bytes, which bounds the headers of a request.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// How long a client may take to acknowledge what was sent, in milliseconds. Event streams have something to send every
/// 15 s, so that a client that no longer reads is found.
const UNREAD_MS_MAX: u32 = 60_000;

/// Pause after a failed `accept`: the process has no descriptors left, and closing connections takes a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the answers to interrupted calls may take. They are ready at once.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(500);

/// The answer to a connection too many. Written without a request, and read instead of its answer.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A server that listens.
pub(crate) struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    endpoint: Arc<Endpoint>,
    servers: Vec<McpServer>,
    // Ends event streams and sessions.
    interruption: CancellationToken,
}

impl HttpServer {
    pub(super) async fn bind(settings: &HttpSettings, workspaces: Vec<HttpWorkspace>) -> anyhow::Result<HttpServer> {
        let asked = settings.address;
        let listener = TcpListener::bind(asked).await.with_context(|| format!("--http {asked}: cannot listen"))?;
        let address = listener.local_addr().with_context(|| format!("--http {asked}"))?;
        let interruption = CancellationToken::new();
        let servers = workspaces.iter().map(|workspace| workspace.server.clone()).collect();
        let endpoint = Arc::new(Endpoint::new(settings, address, workspaces, &interruption)?);
        Ok(HttpServer { listener, address, endpoint, servers, interruption })
    }

    /// The URLs of the workspaces, for callers on this host.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.endpoint.paths().map(|path| format!("http://{}{path}", self.address)).collect()
    }

    /// Serves until `terminated` is ready, then answers the calls in flight that the server ends.
    pub(crate) async fn run(self, terminated: impl Future<Output = ()>) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let (anonymous, connections) = (AnonymousConnections::default(), GracefulShutdown::new());
        tokio::pin!(terminated);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut terminated => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = permits.clone().try_acquire_owned() else {
                tracing::info!("a connection too many was refused");
                _ = stream.try_write(BUSY);
                continue;
            };
            let (entry, endpoint, watcher) = (Arc::new(anonymous.add()), self.endpoint.clone(), connections.watcher());
            tokio::spawn(async move {
                serve(stream, endpoint, &entry, watcher).await;
                drop(permit);
            });
        }
        self.servers.iter().for_each(McpServer::interrupt_calls);
        if tokio::time::timeout(LAST_ANSWERS_MAX, connections.shutdown()).await.is_err() {
            tracing::debug!("event streams are open: they end now");
        }
        self.interruption.cancel();
    }
}

async fn serve(stream: TcpStream, endpoint: Arc<Endpoint>, entry: &Arc<ConnectionEntry>, watcher: Watcher) {
    _ = stream.set_nodelay(true);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_MS_MAX) {
        tracing::debug!(%error, "a client that does not read is not found");
    }
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(entry.clone());
        let endpoint = endpoint.clone();
        async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = watcher.watch(connection) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke off");
            }
        }
        () = entry.closed() => tracing::info!("the oldest connection without a token was closed"),
    }
}
