//! The doctor of a server that listens (`proctor-mcp doctor --http ADDRESS`): connects as an agent would, and goes through what
//! every agent does first, in each workspace.

use crate::bearer_token::read_token;
use crate::command_line::HttpSettings;
use crate::doctor::{ALL_WORKS, Failure, print, step};
use crate::doctor_tls;
use crate::http::{SESSION_HEADER, read_certificates};
use crate::tools::Tool;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Most bytes of an answer that a message quotes.
const QUOTED_BYTES_MAX: usize = 300;

const VERSION: &str = "2025-11-25";

/// Remedies.
const START_IT: &str = "start proctor-mcp with these options but without `doctor`, then run the doctor again";
const READ_LOG: &str = "the log of the server says why";

/// One connection to the server.
struct Agent {
    requests: SendRequest<Full<Bytes>>,
    // Where agents reach the server, which takes requests for no other host.
    host: String,
    token: Option<String>,
    session: Option<String>,
    // Drives the connection while this lives.
    _connection: JoinSet<()>,
}

/// Where the server is, and how to reach it.
struct Server {
    address: SocketAddr,
    host: String,
    // If it speaks TLS.
    certificate: Option<CertificateDer<'static>>,
}

/// Goes through all steps and returns the verdict. `paths`: those of the workspaces.
pub(crate) async fn check(settings: &HttpSettings, paths: &[String]) -> Result<&'static str, Failure> {
    let token = settings.token_file.as_deref().map(read_token).transpose();
    let token = token.map_err(|error| Failure::new("read the token", &error, "check --http-token-file"))?;
    let chain = settings.tls.as_ref().map(|files| read_certificates("--http-cert", &files.cert)).transpose();
    let chain =
        chain.map_err(|error| Failure::new("read the certificate", &format!("{error:#}"), "check --http-cert"))?;
    let address = settings.address;
    let host = settings.url.as_ref().map_or_else(|| address.to_string(), |url| url.host.clone());
    let server = Server { address, host, certificate: chain.into_iter().flatten().next() };
    let mut stranger = Agent::connect(&server, None).await?;
    print(&format!("ok      {address} takes connections"));
    let refused = stranger.request(Method::POST, &paths[0], Some(&initialize())).await?.status();
    if refused != StatusCode::UNAUTHORIZED {
        let cause = format!("a caller without credentials is answered with {refused}");
        return Err(Failure::new("refuse a stranger", &cause, "another program may listen there"));
    }
    print("ok      a caller without credentials is refused");
    let Some(token) = token else {
        print("note    no workspace was tried: it takes --http-token-file, by which the doctor is known");
        return Ok("the server refuses strangers; nothing else was tried");
    };
    for path in paths {
        check_workspace(&server, &token, path).await?;
    }
    Ok(ALL_WORKS)
}

async fn check_workspace(server: &Server, token: &str, path: &str) -> Result<(), Failure> {
    let mut agent = Agent::connect(server, Some(token.to_owned())).await?;
    let response = agent.request(Method::POST, path, Some(&initialize())).await?;
    let session = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let server = result_of("initialize", response).await?;
    agent.session = session;
    print(&format!(
        "ok      {path} is initialized, protocol {}",
        server["protocolVersion"].as_str().unwrap_or_default()
    ));
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    read_to_end(agent.request(Method::POST, path, Some(&notification)).await?).await?;
    let listed = agent.request(Method::POST, path, Some(&message(2, "tools/list", &json!({})))).await?;
    let tools = result_of("list the tools", listed).await?["tools"].as_array().map_or(0, Vec::len);
    print(&format!("ok      {path} lists {tools} tools"));
    // Opens a session at the supervisor, and runs nothing.
    let call = message(3, "tools/call", &json!({"name": Tool::GetRun.name(), "arguments": {}}));
    let answered = agent.request(Method::POST, path, Some(&call)).await?;
    let answer = result_of("open a session", answered).await?;
    if answer["isError"] == true {
        let cause = answer["content"][0]["text"].as_str().unwrap_or_default();
        return Err(Failure::new("open a session", &cause, "mend this, then run the doctor again"));
    }
    print(&format!("ok      the supervisor opens a session on the workspace of {path}"));
    read_to_end(agent.request(Method::DELETE, path, None).await?).await.map(drop)
}

impl Agent {
    async fn connect(server: &Server, token: Option<String>) -> Result<Agent, Failure> {
        let stream = step("connect", START_IT, TcpStream::connect(server.address)).await?;
        let mut driver = JoinSet::new();
        let requests = match server.certificate.clone() {
            Some(certificate) => {
                let remedy = "--http-cert has to be the certificate of the server that listens there; start it again";
                let secured = step("handshake", remedy, doctor_tls::handshake(stream, certificate)).await?;
                drive(secured, &mut driver).await?
            }
            None => drive(stream, &mut driver).await?,
        };
        Ok(Agent { requests, host: server.host.clone(), token, session: None, _connection: driver })
    }

    async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(session) = &self.session {
            request = request.header(SESSION_HEADER, session).header("mcp-protocol-version", VERSION);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request =
            request.body(Full::new(Bytes::from(body))).map_err(|error| Failure::new("ask", &error, READ_LOG))?;
        // The connection takes the next request once the last response was read.
        step("ask", READ_LOG, self.requests.ready()).await?;
        step("ask", READ_LOG, self.requests.send_request(request)).await
    }
}

async fn drive(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    driver: &mut JoinSet<()>,
) -> Result<SendRequest<Full<Bytes>>, Failure> {
    let (requests, connection) = step("connect", START_IT, http1::handshake(TokioIo::new(stream))).await?;
    driver.spawn(async move { _ = connection.await });
    Ok(requests)
}

fn message(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize() -> Value {
    let client = json!({"name": "proctor-mcp doctor", "version": env!("CARGO_PKG_VERSION")});
    message(1, "initialize", &json!({"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}))
}

async fn read_to_end(response: Response<Incoming>) -> Result<Bytes, Failure> {
    Ok(step("read the answer", READ_LOG, response.into_body().collect()).await?.to_bytes())
}

// The result in a response, which is JSON or an event stream with one answer.
async fn result_of(name: &'static str, response: Response<Incoming>) -> Result<Value, Failure> {
    let status = response.status();
    let body = read_to_end(response).await?;
    let text = String::from_utf8_lossy(&body);
    let answers = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    let result = answers.filter_map(|line| serde_json::from_str::<Value>(line).ok()?.get("result").cloned()).next();
    result.ok_or_else(|| {
        let quoted = &text[..text.floor_char_boundary(QUOTED_BYTES_MAX)];
        Failure::new(name, &format!("answered with {status}: {quoted}"), READ_LOG)
    })
}
