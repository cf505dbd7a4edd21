//! The HTTP client of collectors: one connection for each message, over hyper and rustls, which are there already.

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
pub(in crate::telemetry) struct CollectorClient {
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
    pub(in crate::telemetry) fn new(authorities: Option<&[u8]>) -> Result<CollectorClient, String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::CertifiedKey;
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// Posts to a server with a certificate for `name`, by a client that trusts `authority` or else that certificate.
    async fn post(name: &str, authority: Option<&str>) -> Result<Response<Bytes>, HttpError> {
        let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([name.to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert.der().clone()], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            let stream = listener.accept().await.unwrap().0;
            // A client that does not trust it ends the handshake.
            if let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
                let mut request = [0; 1_024];
                let len = stream.read(&mut request).await.unwrap();
                assert!(request[..len].starts_with(b"POST /v1/metrics HTTP/1.1\r\n"));
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            }
        });
        let authority = authority.map_or(cert.pem(), str::to_owned);
        let client = CollectorClient::new(Some(authority.as_bytes()))?;
        client.send_bytes(Request::post(format!("https://127.0.0.1:{port}/v1/metrics")).body(Bytes::new())?).await
    }

    #[tokio::test]
    async fn a_server_needs_a_certificate_of_its_name_by_a_trusted_authority() {
        let answer = post("127.0.0.1", None).await.unwrap();
        assert_eq!((answer.status().as_u16(), &answer.body()[..]), (200, &b"ok"[..]));
        assert!(post("collector.example", None).await.unwrap_err().to_string().contains("certificate"));
        let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        assert!(post("127.0.0.1", Some(&other.cert.pem())).await.unwrap_err().to_string().contains("certificate"));
        assert!(CollectorClient::new(Some(b"nothing")).is_err());
    }
}
