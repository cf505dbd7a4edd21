//! TLS of the listener: its own certificate, and the client certificates that give access.

use super::watched_files::WatchedFiles;
use crate::command_line::HttpTlsFiles;
use anyhow::{Context, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What the files say.
pub(super) struct HttpTls {
    server: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    // Names of which a client certificate needs one; empty if any that an authority signed gives access.
    client_names: Vec<String>,
}

/// Certificate chain of a connection, the client's own first. The handshake has proved that the client has its key.
#[derive(Clone)]
pub(super) struct ClientCertificates(Arc<[CertificateDer<'static>]>);

impl HttpTls {
    /// Reads the files, and reads them again once one was replaced.
    pub(super) fn watch(files: HttpTlsFiles) -> anyhow::Result<WatchedFiles<HttpTls>> {
        let paths = [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten();
        WatchedFiles::open(paths.cloned().collect(), move || HttpTls::load(&files))
    }

    fn load(files: &HttpTlsFiles) -> anyhow::Result<HttpTls> {
        let chain = read_certificates("--http-cert", &files.cert)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .with_context(|| format!("--http-key {}: no private key in PEM", files.key.display()))?;
        let clients = files.client_ca.as_deref().map(client_verifier).transpose()?;
        // A client without a certificate may have a token, and is told by the answer what it needs.
        let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
        let mut server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .with_context(|| format!("--http-key {}", files.key.display()))?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(HttpTls { server: Arc::new(server), clients, client_names: files.client_names.clone() })
    }

    /// Performs the handshake of a connection.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, Option<ClientCertificates>)> {
        let stream = TlsAcceptor::from(self.server.clone()).accept(stream).await?;
        let presented = stream.get_ref().1.peer_certificates();
        let chain = presented.map(|chain| chain.iter().map(|one| CertificateDer::clone(one).into_owned()).collect());
        Ok((stream, chain.map(ClientCertificates)))
    }

    /// Whether the certificate gives access at that time. Checked for each request: a connection may be older than the
    /// authorities, and than the end of the certificate.
    pub(super) fn admits(&self, ClientCertificates(chain): &ClientCertificates, at: UnixTime) -> bool {
        let (Some(clients), Some((own, intermediates))) = (&self.clients, chain.split_first()) else { return false };
        clients.verify_client_cert(own, intermediates, at).is_ok()
            && (self.client_names.is_empty() || has_name(own, &self.client_names))
    }
}

// Whether the subjectAltName has one of the names: a URI (as in SPIFFE), or a DNS name, in which case does not matter.
fn has_name(certificate: &CertificateDer<'_>, names: &[String]) -> bool {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return false };
    certificate.valid_uri_names().any(|uri| names.iter().any(|name| name == uri))
        || certificate.valid_dns_names().any(|dns| names.iter().any(|name| name.eq_ignore_ascii_case(dns)))
}

fn client_verifier(path: &Path) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    let context = || format!("--http-client-ca {}", path.display());
    let mut roots = RootCertStore::empty();
    for authority in read_certificates("--http-client-ca", path)? {
        roots.add(authority).with_context(context)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).allow_unauthenticated();
    builder.build().with_context(context)
}

/// The certificates in the PEM file that `option` names.
pub(crate) fn read_certificates(option: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let context = || format!("{option} {}", path.display());
    let read = CertificateDer::pem_file_iter(path).with_context(context)?;
    let certificates = read.collect::<Result<Vec<_>, _>>().with_context(context)?;
    ensure!(!certificates.is_empty(), "{option} {}: no certificate in PEM", path.display());
    Ok(certificates)
}
