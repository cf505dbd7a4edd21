//! Listens, performs TLS handshakes, bounds the connections, and ends them.

use super::HttpWorkspace;
use super::anonymous_connections::{AnonymousConnections, ConnectionEntry};
use super::authorization::Authorization;
use super::endpoint::Endpoint;
use super::tls::{ClientCertificates, HttpTls};
use super::watched_files::WatchedFiles;
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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Most connections: several for each of a hundred agents. Below the usual limit of 1,024 descriptors.
const CONNECTIONS_MAX: usize = 512;

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

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

/// The answer to a connection too many. Written without a request, and read instead of its answer. Over TLS the connection is
/// closed without one.
const BUSY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A server that listens.
pub(crate) struct HttpServer {
    listener: TcpListener,
    address: SocketAddr,
    endpoint: Arc<Endpoint>,
    tls: Option<Arc<WatchedFiles<HttpTls>>>,
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
        let tls = settings.tls.clone().map(HttpTls::watch).transpose()?.map(Arc::new);
        let authorization = Authorization::new(settings, tls.clone())?;
        let endpoint = Arc::new(Endpoint::new(settings, address, authorization, workspaces, &interruption));
        Ok(HttpServer { listener, address, endpoint, tls, servers, interruption })
    }

    /// The URLs of the workspaces, for callers on this host.
    pub(crate) fn urls(&self) -> Vec<String> {
        self.endpoint.urls(self.address)
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
                if self.tls.is_none() {
                    _ = stream.try_write(BUSY);
                }
                continue;
            };
            let (endpoint, tls) = (self.endpoint.clone(), self.tls.clone());
            let (entry, watcher) = (Arc::new(anonymous.add()), connections.watcher());
            tokio::spawn(async move {
                tokio::select! {
                    () = serve(stream, tls.as_deref(), endpoint, &entry, watcher) => {}
                    () = entry.closed() => tracing::info!("the oldest connection without valid credentials was closed"),
                }
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

async fn serve(
    stream: TcpStream,
    tls: Option<&WatchedFiles<HttpTls>>,
    endpoint: Arc<Endpoint>,
    entry: &Arc<ConnectionEntry>,
    watcher: Watcher,
) {
    _ = stream.set_nodelay(true);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_MS_MAX) {
        tracing::debug!(%error, "a client that does not read is not found");
    }
    let Some(tls) = tls else { return serve_requests(stream, None, endpoint, entry, watcher).await };
    // The files in force now; while one is unusable nobody has access.
    let Some(tls) = tls.current() else { return };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
        Ok(Ok((stream, certificates))) => serve_requests(stream, certificates, endpoint, entry, watcher).await,
        Ok(Err(error)) => tracing::info!(%error, "a TLS handshake failed"),
        Err(_) => tracing::info!("a TLS handshake took too long"),
    }
}

async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    certificates: Option<ClientCertificates>,
    endpoint: Arc<Endpoint>,
    entry: &Arc<ConnectionEntry>,
    watcher: Watcher,
) {
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(entry.clone());
        if let Some(certificates) = &certificates {
            request.extensions_mut().insert(certificates.clone());
        }
        let endpoint = endpoint.clone();
        async move { Ok::<_, Infallible>(endpoint.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection broke off");
    }
}
