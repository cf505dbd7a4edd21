//! A shim on HTTP and requests to it, written by hand.

use crate::client::shim_with_stderr;
use crate::fake_supervisor::FakeSupervisor;
use crate::raw_client::{SOON, initialize};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::error::Error;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

pub(crate) const TOKEN: &str = "the-token-of-the-agents";

/// A shim that serves HTTP.
pub(crate) struct HttpShim {
    pub(crate) process: Child,
    pub(crate) port: u16,
    pub(crate) dir: tempfile::TempDir,
}

/// A response as a whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl HttpShim {
    /// A shim of one workspace at `/mcp`.
    pub(crate) async fn of(fake: &FakeSupervisor) -> HttpShim {
        HttpShim::with(fake, &["--workspace", "/"]).await
    }

    /// A shim with these options that knows agents by the token.
    pub(crate) async fn with(fake: &FakeSupervisor, more: &[&str]) -> HttpShim {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        HttpShim::start(fake, &[&["--http-token-file", token.to_str().unwrap()], more].concat(), dir).await
    }

    /// A shim with these options and a directory for its files.
    pub(crate) async fn start(fake: &FakeSupervisor, options: &[&str], dir: tempfile::TempDir) -> HttpShim {
        let supervisor = format!("unix:{}", fake.socket().display());
        let http = ["--http", "127.0.0.1:0", "--supervisor", &supervisor];
        let mut process = shim_with_stderr(&[&http, options].concat());
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
        let url = line.strip_prefix("proctor-mcp: serving MCP at http").unwrap_or_else(|| panic!("{line}"));
        let port = url.trim_start_matches('s').strip_prefix("://127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
        let port = port.split_once("/mcp").unwrap().0.parse().unwrap();
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        HttpShim { process, port, dir }
    }

    /// A request with the token and the headers of every client, and with these.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let host = format!("127.0.0.1:{}", self.port);
        let authorization = format!("Bearer {TOKEN}");
        let usual = [
            ("host", host.as_str()),
            ("authorization", authorization.as_str()),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        for (name, value) in usual.iter().chain(headers) {
            let name = hyper::header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            match value.is_empty() {
                true => _ = request.headers_mut().remove(name),
                false => _ = request.headers_mut().insert(name, value.parse().unwrap()),
            }
        }
        request
    }

    /// Sends a request over a connection of its own; the response's body is still to be read.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let mut connection = Connection::over(self.stream().await).await.unwrap();
        connection.send(request).await.unwrap()
    }

    /// A connection over TLS.
    pub(crate) async fn secure_connection(&self, tls: &TlsConnector) -> Result<Connection, Box<dyn Error>> {
        let name = ServerName::try_from("localhost")?;
        let stream = tokio::time::timeout(SOON, tls.connect(name, self.stream().await)).await??;
        Connection::over(stream).await
    }

    async fn stream(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    pub(crate) async fn exchange(&self, request: Request<Full<Bytes>>) -> Answer {
        Answer::read(self.send(request).await).await.unwrap()
    }

    /// Posts a message with these headers.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], message: Value) -> Answer {
        self.exchange(self.request(Method::POST, path, headers, message.to_string().into_bytes())).await
    }

    /// The id of a new session.
    pub(crate) async fn session(&self, path: &str, version: &str) -> String {
        let answer = self.post(path, &[], initialize(version)).await;
        assert_eq!(answer.message()["result"]["protocolVersion"], version, "{answer:?}");
        answer.header("mcp-session-id").to_owned()
    }

    /// Posts a request of 2026-07-28 with the headers that it needs.
    pub(crate) async fn post_stateless(&self, path: &str, more: &[(&str, &str)], message: Value) -> Answer {
        self.post(path, &[&stateless_headers(&message)[..], more].concat(), message.clone()).await
    }
}

/// The headers that a request of 2026-07-28 repeats from its body.
pub(crate) fn stateless_headers(message: &Value) -> Vec<(&str, &str)> {
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", message["method"].as_str().unwrap())];
    headers.extend(message["params"]["name"].as_str().map(|name| ("mcp-name", name)));
    headers
}

/// A connection for several requests, one after the other.
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// The end of the connection, which says why it ended.
    ended: JoinHandle<hyper::Result<()>>,
}

impl Connection {
    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Result<Connection, Box<dyn Error>> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Connection { sender, ended: tokio::spawn(connection) })
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Box<dyn Error>> {
        let sent = match self.sender.ready().await {
            Ok(()) => tokio::time::timeout(SOON, self.sender.send_request(request)).await?,
            Err(error) => Err(error),
        };
        match sent {
            Ok(response) => Ok(response),
            // A refused handshake is an error of the connection, or of the request if it was on its way.
            Err(error) => {
                let connection = tokio::time::timeout(SOON, &mut self.ended).await?;
                Err(format!("{error:?}; the connection: {connection:?}").into())
            }
        }
    }

    pub(crate) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, Box<dyn Error>> {
        Answer::read(self.send(request).await?).await
    }
}

impl Answer {
    async fn read(response: Response<Incoming>) -> Result<Answer, Box<dyn Error>> {
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(SOON, body.collect()).await??.to_bytes();
        let body = String::from_utf8(body.to_vec())?;
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("{name}: {self:?}")).to_str().unwrap()
    }

    /// The messages of the body, whatever its form.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
        lines.filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
    }

    /// The last message, which is the answer.
    pub(crate) fn message(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// The code and text of the error.
    pub(crate) fn error(&self) -> (i64, String) {
        let error = self.message()["error"].clone();
        let code = error["code"].as_i64().unwrap_or_else(|| panic!("{self:?}"));
        (code, error["message"].as_str().unwrap().to_owned())
    }
}
