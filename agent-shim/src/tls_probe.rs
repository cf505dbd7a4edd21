//! A TLS handshake with no request after it, to learn why a supervisor refuses the client certificate. A client that goes on
//! sending, as HTTP/2 does, may find the connection closed before it has read the alert.

use proctor_proto::client::TlsConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Uri;

/// Performs the handshake with the supervisor at `uri`; an error is the reason of a refusal.
pub(crate) async fn handshake(uri: &str, tls: &TlsConfig) -> io::Result<()> {
    let uri: Uri = uri.parse().map_err(io::Error::other)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let mut stream = TlsConnector::from(Arc::new(config(tls)?)).connect(name, stream).await?;
    // A server that accepts the certificate sends its HTTP/2 settings at once; one that refuses it sends an alert.
    stream.read(&mut [0]).await.map(drop)
}

/// Whether the server at `uri` speaks TLS: it then presents a certificate, which is never valid without authorities, or sends
/// an alert.
pub(crate) async fn speaks_tls(uri: &str) -> bool {
    let error = handshake(uri, &TlsConfig { authorities: String::new(), client: None }).await.err();
    let cause = error.as_ref().and_then(io::Error::get_ref).and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

fn config(tls: &TlsConfig) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(tls.authorities.as_bytes()) {
        roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?.with_root_certificates(roots);
    let mut config = match &tls.client {
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(io::Error::other)?;
            config.with_client_auth_cert(chain.map_err(io::Error::other)?, key).map_err(io::Error::other)?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
