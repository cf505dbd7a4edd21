//! The messages that agents post to one workspace: size, JSON, batches and ids are checked here, the rest by rmcp.

use super::early_headers;
use super::error_response::{busy_response, error_response, json_response, with_typed_error};
use super::response_body::{HttpResponse, ResponseBody, full, hold};
use super::sessions::{HttpSessions, OpenRequest};
use super::{OpenSessionId, SESSION_HEADER};
use crate::batch_answers::array;
use crate::handshake::initialize_error;
use crate::json_rpc_line::{IncomingLine, MESSAGE_BYTES_MAX, parse_line, reject_long_line};
use crate::mcp_server::McpServer;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ProtocolVersion, RequestId};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Most requests under way in a workspace. Each may be a run that waits for others.
const REQUESTS_MAX: usize = 256;

/// Most event streams without a request (GET) in a workspace. An agent has one at most.
const STREAMS_MAX: usize = 128;

/// Most bytes of a body that needs no permit: those of nearly every request. All connections together hold less than
/// 100 MiB of them, with what was read and not taken yet.
const SMALL_BODY_BYTES_MAX: usize = 64 << 10;

/// Most larger bodies that are being received. Bounds their memory to as many MiB. Slow senders of them delay each other, and
/// not the usual requests.
const BODIES_MAX: usize = 16;

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a body that is too long is read, so that its sender sees the answer rather than a broken connection.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

const VERSION_HEADER: &str = "mcp-protocol-version";

type Service = StreamableHttpService<McpServer, LocalSessionManager>;

/// Serves the messages for one workspace. Clones share it.
#[derive(Clone)]
pub(super) struct Messages {
    service: Service,
    sessions: HttpSessions,
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Messages {
    pub(super) fn new(server: McpServer, config: StreamableHttpServerConfig) -> Messages {
        let sessions = HttpSessions::new();
        let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.manager(), config);
        Messages {
            service,
            sessions,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_MAX)),
        }
    }

    /// Answers a GET: an event stream, which a session may have, or the rest of one that broke off.
    pub(super) async fn get(&self, request: Request<Incoming>) -> HttpResponse {
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            let text = format!("busy: {STREAMS_MAX} event streams are open; close one of them");
            return busy_response(StatusCode::SERVICE_UNAVAILABLE, text, None);
        };
        let open = session_of(request.headers()).and_then(|session| self.sessions.start(session, None).ok().flatten());
        hold(self.handle(request.map(|_| Full::default()), None).await, (permit, open))
    }

    /// Answers any other method: rmcp closes sessions by DELETE, and refuses the rest.
    pub(super) async fn other(&self, request: Request<Incoming>) -> HttpResponse {
        self.handle(request.map(|_| Full::default()), None).await
    }

    /// Answers a POST.
    pub(super) async fn post(&self, request: Request<Incoming>) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let bytes = match self.receive(body).await {
            Ok(bytes) => bytes,
            Err(refusal) => return *refusal,
        };
        match parse_line(&bytes) {
            IncomingLine::Message(message) => self.post_message(&parts, *message, bytes).await,
            IncomingLine::Batch(elements) => self.post_batch(&parts, elements).await,
            IncomingLine::Invalid(error, id) => error_response(StatusCode::BAD_REQUEST, error, id),
            IncomingLine::Ignored if bytes.trim_ascii().is_empty() => {
                let error = ErrorData::parse_error("Parse error: the body is empty", None);
                error_response(StatusCode::BAD_REQUEST, error, None)
            }
            IncomingLine::Ignored => accepted(),
        }
    }

    async fn receive(&self, mut body: Incoming) -> Result<Bytes, Box<HttpResponse>> {
        let refuse = |status, text: &str| {
            Box::new(error_response(status, ErrorData::invalid_request(format!("Invalid request: {text}"), None), None))
        };
        match read_body(&mut body, &self.bodies).await {
            Ok((bytes, false)) => Ok(bytes.into()),
            Ok((head, true)) => {
                let IncomingLine::Invalid(error, id) = reject_long_line(&head) else { return Ok(head.into()) };
                Err(Box::new(error_response(StatusCode::PAYLOAD_TOO_LARGE, error, id)))
            }
            Err(BodyError::BrokeOff(error)) => {
                tracing::debug!(%error, "a body broke off");
                Err(refuse(StatusCode::BAD_REQUEST, "the body broke off"))
            }
            Err(BodyError::Slow) => Err(refuse(
                StatusCode::REQUEST_TIMEOUT,
                &format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs()),
            )),
        }
    }

    async fn post_message(&self, parts: &Parts, message: RxJsonRpcMessage<RoleServer>, bytes: Bytes) -> HttpResponse {
        let (id, is_initialize) = match &message {
            ClientJsonRpcMessage::Request(request) => {
                if let ClientRequest::CustomRequest(custom) = &request.request
                    && custom.method == "initialize"
                {
                    let error = initialize_error(custom.params.as_ref());
                    return error_response(StatusCode::BAD_REQUEST, error, Some(request.id.clone()));
                }
                (Some(request.id.clone()), matches!(request.request, ClientRequest::InitializeRequest(_)))
            }
            _ => (None, false),
        };
        drop(message);
        let Ok(permit) = self.requests.clone().try_acquire_owned() else {
            let text = format!("busy: {REQUESTS_MAX} requests are not answered yet; wait for one of them");
            return busy_response(StatusCode::SERVICE_UNAVAILABLE, text, id);
        };
        let open = match self.open_request(&parts.headers, id.clone()) {
            Ok(open) => open,
            Err(error) => return error_response(StatusCode::BAD_REQUEST, error, id),
        };
        let is_new = is_initialize && session_of(&parts.headers).is_none();
        let room = if is_new { Some(self.sessions.make_room().await) } else { None };
        if let Some(None) = room {
            let text = "busy: every session is in use; wait for one of them to end".to_owned();
            return busy_response(StatusCode::SERVICE_UNAVAILABLE, text, id);
        }
        let mut request = with_body(parts, bytes);
        if let (Some(_), Some(session)) = (&open, session_of(&parts.headers)) {
            request.extensions_mut().insert(OpenSessionId(session.into()));
        }
        let (messages, request_id) = (self.clone(), id);
        let response = early_headers::respond(async move { messages.handle(request, request_id).await }).await;
        if let Some(Some(room)) = room
            && let Some(session) = session_of(response.headers())
        {
            self.sessions.add(session, room);
        }
        hold(response, (permit, open))
    }

    fn open_request(&self, headers: &HeaderMap, id: Option<RequestId>) -> Result<Option<OpenRequest>, ErrorData> {
        session_of(headers).map_or(Ok(None), |session| self.sessions.start(session, id))
    }

    // Each message as a request of its own, and their answers as one array. Progress is left out: an array cannot have it.
    async fn post_batch(&self, parts: &Parts, elements: Vec<IncomingLine>) -> HttpResponse {
        let version = parts.headers.get(VERSION_HEADER).map(|version| version.as_bytes());
        // Clients of 2025-03-26 do not send the header, which came later.
        let has_batches = version.is_none_or(|version| version == ProtocolVersion::V_2025_03_26.as_str().as_bytes());
        if !has_batches || session_of(&parts.headers).is_none() {
            let text =
                "Invalid request: only MCP 2025-03-26 has batches, after initialize; send one message per request";
            return error_response(StatusCode::BAD_REQUEST, ErrorData::invalid_request(text, None), None);
        }
        let responses = join_all(elements.into_iter().map(|element| async {
            match element {
                IncomingLine::Message(message) => {
                    let bytes = serde_json::to_vec(&message).unwrap_or_default();
                    self.post_message(parts, *message, bytes.into()).await
                }
                IncomingLine::Invalid(error, id) => error_response(StatusCode::BAD_REQUEST, error, id),
                IncomingLine::Ignored | IncomingLine::Batch(_) => accepted(),
            }
        }));
        let mut answers = Vec::new();
        for response in responses.await {
            // The session ended: the client has to begin another.
            if response.status() == StatusCode::NOT_FOUND {
                return response;
            }
            answers.extend(answers_in(response).await);
        }
        match answers.is_empty() {
            true => accepted(),
            false => json_response(StatusCode::OK, array(&answers)),
        }
    }

    async fn handle(&self, request: Request<Full<Bytes>>, id: Option<RequestId>) -> HttpResponse {
        with_typed_error(self.service.handle(request).await.map(BodyExt::boxed_unsync), id).await
    }
}

enum BodyError {
    BrokeOff(hyper::Error),
    /// The sender took longer than [`BODY_TIMEOUT`].
    Slow,
}

// The body, and whether it is only the head of a longer one, whose rest was discarded. A large one waits for a permit, which
// is not the sender's time.
async fn read_body(body: &mut Incoming, permits: &Semaphore) -> Result<(Vec<u8>, bool), BodyError> {
    let (mut bytes, mut discarded, mut permit) = (Vec::new(), 0, None);
    let mut left = BODY_TIMEOUT;
    loop {
        let begun = tokio::time::Instant::now();
        let Some(frame) = tokio::time::timeout(left, body.frame()).await.map_err(|_| BodyError::Slow)? else { break };
        left = left.saturating_sub(begun.elapsed());
        let Ok(data) = frame.map_err(BodyError::BrokeOff)?.into_data() else { continue };
        if permit.is_none() && bytes.len() + data.len() > SMALL_BODY_BYTES_MAX {
            // The semaphore is never closed.
            permit = permits.acquire().await.ok();
        }
        let room = (MESSAGE_BYTES_MAX + 1).saturating_sub(bytes.len()).min(data.len());
        bytes.extend_from_slice(&data[..room]);
        discarded += data.len() - room;
        if discarded > DISCARDED_BYTES_MAX {
            break;
        }
    }
    let is_long = bytes.len() > MESSAGE_BYTES_MAX;
    Ok((bytes, is_long))
}

fn with_body(parts: &Parts, bytes: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::from_parts(parts.clone(), Full::new(bytes));
    request.headers_mut().remove(CONTENT_LENGTH);
    request
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()
}

fn accepted() -> HttpResponse {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

// The answers in a response: its JSON body, or those among the events of a stream.
async fn answers_in(response: HttpResponse) -> Vec<Vec<u8>> {
    let body: ResponseBody = response.into_body();
    let bytes = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let events = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let is_answer = |event: &&str| {
        let value: Value = serde_json::from_str(event).unwrap_or_default();
        value.get("result").is_some() || value.get("error").is_some()
    };
    events.filter(is_answer).map(|event| event.as_bytes().to_vec()).collect()
}
