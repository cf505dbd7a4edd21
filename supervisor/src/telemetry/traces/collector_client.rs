//! The HTTP client of the exporter: one connection for each batch, over hyper and rustls, which are there already.

use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Largest answer of a collector, in bytes: one that takes all spans is empty.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Sends batches. Its caller sets the time limit.
pub(super) struct CollectorClient {
    /// `None` for a collector without TLS.
    tls: Option<TlsConnector>,
}

// The certificates of all authorities would fill pages.
impl fmt::Debug for CollectorClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CollectorClient").field("tls", &self.tls.is_some()).finish()
    }
}

impl CollectorClient {
    /// A client that trusts the authorities of a PEM file; `None` for a collector without TLS.
    pub(super) fn new(authorities: Option<&[u8]>) -> Result<CollectorClient, String> {
        let Some(pem) = authorities else { return Ok(CollectorClient { tls: None }) };
        let mut roots = RootCertStore::empty();
        let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err("no certificate of an authority".to_owned());
        }
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        Ok(CollectorClient { tls: Some(TlsConnector::from(Arc::new(config))) })
    }
}

#[tonic::async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let uri = request.uri().clone();
        let (host, is_https) = (uri.host().unwrap_or_default(), uri.scheme_str() == Some("https"));
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        // A literal IPv6 address has brackets in a URL only.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((name, port)).await?;
        match self.tls.as_ref().filter(|_| is_https) {
            Some(tls) => {
                let server = ServerName::try_from(name.to_owned())?;
                exchange(tls.connect(server, stream).await?, request).await
            }
            None if is_https => Err("the client has no authorities for TLS".into()),
            None => exchange(stream, request).await,
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let host = parts.uri.authority().map_or("", |authority| authority.as_str());
    parts.headers.insert(HOST, HeaderValue::from_str(host)?);
    parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Dropped, and with it the connection, when the answer is complete or the time is up.
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let answer = sender.send_request(Request::from_parts(parts, Full::new(body))).await?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}
