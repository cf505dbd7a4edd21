//! Connects to a supervisor: over a unix socket, over TCP with or without TLS, or over a socket that is already open.

use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use std::sync::Mutex;
use tokio::net::UnixStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Uri};
use tower::service_fn;

/// A channel over the unix socket at `path`.
pub async fn connect_unix(path: PathBuf) -> Result<Channel, tonic::transport::Error> {
    endpoint()
        .connect_with_connector(service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await
}

/// A channel over a connected socket. It cannot reconnect.
pub async fn connect_stream(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let once = Mutex::new(Some(stream));
    endpoint()
        .connect_with_connector(service_fn(move |_: Uri| {
            let stream = once.lock().ok().and_then(|mut slot| slot.take());
            async move { stream.map(TokioIo::new).ok_or_else(|| std::io::Error::other("the supervisor is gone")) }
        }))
        .await
}

/// A channel to `uri` (`http://127.0.0.1:7878`).
pub async fn connect_tcp(uri: String) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_shared(uri)?.tcp_nodelay(true).connect().await
}

/// Certificates and key of a TLS client, in PEM.
#[derive(Clone)]
pub struct TlsConfig {
    /// Authorities that may have issued the supervisor's certificate.
    pub authorities: String,
    /// Client certificate with its intermediates, and its private key.
    pub client: Option<(String, String)>,
}

/// A channel to `uri` (`https://build.example:7878`). The supervisor's certificate must name the host.
pub async fn connect_tls(uri: String, tls: TlsConfig) -> Result<Channel, tonic::transport::Error> {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(tls.authorities));
    if let Some((certificate, key)) = tls.client {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    Endpoint::from_shared(uri)?.tls_config(config)?.tcp_nodelay(true).connect().await
}

// The URI is never resolved: the connector decides where to connect.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://supervisor.proctor")
}
