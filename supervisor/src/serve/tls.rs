//! TLS on a TCP listener: handshakes beside each other, each with the certificates of its moment. Must not know who a
//! peer is; what it has shown travels with its connection.

use crate::access::Current;
use rustls::pki_types::CertificateDer;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

/// Peers that may be greeting at the same time. Those that never end it make room after [`HANDSHAKE`].
const HANDSHAKES: usize = 256;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Connections that may wait to be served. They are taken as they come, so these are few milliseconds' worth.
const WAITING: usize = 16;

/// How long nobody is let in after the host could not let anybody in, as when descriptors have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// What a TLS connection knows of its peer.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its certificates, its own first; none from a peer who has shown none.
    pub certificates: Option<Arc<[CertificateDer<'static>]>>,
}

/// The connections of a listener, greeted, until `stopping`.
pub(super) fn incoming(
    listener: TcpListener,
    access: Current,
    stopping: CancellationToken,
) -> impl Stream<Item = io::Result<Secured>> {
    let (greeted, incoming) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        tokio::select! {
            () = stopping.cancelled() => {}
            () = greet_all(&listener, &access, &greeted) => {}
        }
    });
    ReceiverStream::new(incoming)
}

async fn greet_all(listener: &TcpListener, access: &Current, greeted: &mpsc::Sender<io::Result<Secured>>) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    while let Ok(turn) = Arc::clone(&handshakes).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        // The certificates are those of now: a connection that is there keeps its own.
        let Some(server) = access.borrow().server() else { continue };
        let greeted = greeted.clone();
        tokio::spawn(async move {
            _ = stream.set_nodelay(true);
            match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(server).accept(stream)).await {
                Ok(Ok(stream)) => _ = greeted.send(Ok(Secured { stream })).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
            drop(turn);
        });
    }
}

/// A connection that is encrypted.
pub(super) struct Secured {
    stream: TlsStream<TcpStream>,
}

impl Connected for Secured {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        let shown = self.stream.get_ref().1.peer_certificates();
        Peer { certificates: shown.map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect()) }
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
