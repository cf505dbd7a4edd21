//! A TLS greeting without a word after it, to hear what a supervisor says of our certificate. A client that goes on talking, as
//! HTTP/2 does, may find the connection closed before it has heard that. Must not know what would be asked.

use proctor_proto::client::Tls;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Uri;

/// Greets the supervisor at `uri` and returns when it lets us in, or why it does not.
pub(crate) async fn greet(uri: &str, tls: &Tls) -> io::Result<()> {
    let uri: Uri = uri.parse().map_err(io::Error::other)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    let stream = TcpStream::connect((host.as_str(), port)).await?;
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let mut stream = TlsConnector::from(Arc::new(config(tls)?)).connect(name, stream).await?;
    // Whoever lets us in says so at once, with the settings that HTTP/2 begins with; an end without a reason tells nothing.
    stream.read(&mut [0]).await.map(drop)
}

/// Whether it is TLS that is spoken at `uri`: whoever speaks it either shows a certificate, which without authorities is never
/// good, or says in its own way what it misses.
pub(crate) async fn is_encrypted(uri: &str) -> bool {
    let refused = greet(uri, &Tls { authorities: String::new(), own: None }).await.err();
    let cause = refused.as_ref().and_then(io::Error::get_ref).and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_)))
}

fn config(tls: &Tls) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(tls.authorities.as_bytes()) {
        roots.add(authority.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(io::Error::other)?.with_root_certificates(roots);
    let mut config = match &tls.own {
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
