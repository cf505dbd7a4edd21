//! Connecting to a supervisor: unix socket, TCP with or without TLS, or a socket that is already open. Must not know
//! what is asked over it.

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

/// A channel over one socket that is already connected. When it breaks, the channel is broken for good.
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

/// What a TLS client knows, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The authorities of whom the supervisor's certificate may be.
    pub authorities: String,
    /// Our own certificate, with those between it and its authority's, and its private key.
    pub own: Option<(String, String)>,
}

/// A channel to `uri` (`https://build.example:7878`), whose host the supervisor's certificate has to name.
pub async fn connect_tls(uri: String, tls: Tls) -> Result<Channel, tonic::transport::Error> {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(tls.authorities));
    if let Some((certificate, key)) = tls.own {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    Endpoint::from_shared(uri)?.tls_config(config)?.tcp_nodelay(true).connect().await
}

// The URI is never dialled: the connector above decides where bytes go.
fn endpoint() -> Endpoint {
    Endpoint::from_static("http://supervisor.proctor")
}
