//! MCP transport over stdin and stdout, one message per line. Unlike rmcp's own transport, it answers every request of a client,
//! however malformed, and keeps from rmcp what would end the server or lose an answer: messages before the handshake,
//! ids that are in use, batches.

use crate::batch_answers::BatchAnswers;
use crate::handshake::{Handshake, HandshakeStep};
use crate::json_rpc_line::IncomingLine;
use crate::line_reader::LineReader;
use crate::line_writer::LineWriter;
use crate::requests_in_flight::RequestsInFlight;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ErrorData, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

type SendFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Transport over `R` and `W`. rmcp drops the future of `receive` and calls it again, so partly sent answers are kept here.
pub(crate) struct LineTransport<R, W> {
    input: LineReader<R>,
    output: LineWriter<W>,
    // Lines that the transport itself answers, not being sent yet.
    own_answers: Vec<u8>,
    // The same while they are being sent.
    pending_answer: Option<SendFuture>,
    // Messages of the last batch that rmcp has not taken yet.
    ready: VecDeque<RxJsonRpcMessage<RoleServer>>,
    handshake: Handshake,
    // Once `initialize` is answered.
    version: Option<ProtocolVersion>,
    requests: RequestsInFlight,
    batches: BatchAnswers,
}

/// What the transport does with one message of the client.
enum Admission {
    /// rmcp gets it.
    Deliver(Box<RxJsonRpcMessage<RoleServer>>),
    /// The transport answers it with this error.
    Refuse(ErrorData, Option<RequestId>),
    /// It needs no answer and has no effect.
    Drop,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A transport that reads `input` and writes `output`.
    pub(crate) fn new(input: R, output: W) -> LineTransport<R, W> {
        LineTransport {
            input: LineReader::new(input),
            output: LineWriter::new(output),
            own_answers: Vec::new(),
            pending_answer: None,
            ready: VecDeque::new(),
            handshake: Handshake::default(),
            version: None,
            requests: RequestsInFlight::default(),
            batches: BatchAnswers::default(),
        }
    }

    fn answer(&mut self, lines: Vec<u8>) {
        self.own_answers.extend(lines);
    }

    async fn send_own_answers(&mut self) -> io::Result<()> {
        if !self.own_answers.is_empty() {
            let lines = std::mem::take(&mut self.own_answers);
            self.pending_answer = Some(Box::pin(self.output.clone().write(lines)));
        }
        if let Some(answer) = &mut self.pending_answer {
            let sent = answer.await;
            self.pending_answer = None;
            sent?;
        }
        Ok(())
    }

    // Admits one message that is not a batch.
    fn admit(&mut self, line: IncomingLine) -> Admission {
        let message = match line {
            IncomingLine::Message(message) => message,
            IncomingLine::Invalid(error, id) => return Admission::Refuse(error, id),
            IncomingLine::Ignored | IncomingLine::Batch(_) => return Admission::Drop,
        };
        match self.handshake.check(&message) {
            HandshakeStep::Pass => {}
            HandshakeStep::Drop => return Admission::Drop,
            HandshakeStep::Refuse(error) => return Admission::Refuse(error, request_id(&message)),
        }
        if let Some(id) = request_id(&message)
            && let Err(error) = self.requests.start(&id)
        {
            return Admission::Refuse(error, Some(id));
        }
        if let Some(id) = cancelled_id(&message) {
            // rmcp sends no answer to a cancelled request.
            self.requests.finish(id);
            if let Some(array) = self.batches.finish(id, None) {
                self.answer(with_line_end(array));
            }
        }
        Admission::Deliver(message)
    }

    fn receive_line(&mut self, line: IncomingLine) {
        if let IncomingLine::Batch(elements) = line {
            match self.version == Some(ProtocolVersion::V_2025_03_26) {
                true => self.receive_batch(elements),
                false => self.refuse_batch(&elements),
            }
            return;
        }
        match self.admit(line) {
            Admission::Deliver(message) => self.ready.push_back(*message),
            Admission::Refuse(error, id) => self.answer(error_line(error, id)),
            Admission::Drop => {}
        }
    }

    fn receive_batch(&mut self, elements: Vec<IncomingLine>) {
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for element in elements {
            match self.admit(element) {
                Admission::Deliver(message) => {
                    requests.extend(request_id(&message));
                    self.ready.push_back(*message);
                }
                Admission::Refuse(error, id) => answers.push(error_object(error, id)),
                Admission::Drop => {}
            }
        }
        if let Some(array) = self.batches.open(requests, answers) {
            self.answer(with_line_end(array));
        }
    }

    // Each request on a line of its own: a client of another version reads no array.
    fn refuse_batch(&mut self, elements: &[IncomingLine]) {
        let ids = elements.iter().filter_map(|element| match element {
            IncomingLine::Message(message) => request_id(message),
            IncomingLine::Invalid(_, id) => id.clone(),
            IncomingLine::Ignored | IncomingLine::Batch(_) => None,
        });
        let mut ids: Vec<Option<RequestId>> = ids.map(Some).collect();
        if ids.is_empty() {
            ids.push(None);
        }
        let text = "Invalid request: only MCP 2025-03-26 has batches; send each message on a line of its own";
        let error = ErrorData::invalid_request(text, None);
        self.answer(ids.into_iter().flat_map(|id| error_line(error.clone(), id)).collect());
    }

    // The lines to write for a message of rmcp: none while other answers of its batch are missing.
    fn outgoing_lines(&mut self, message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
        if let ServerJsonRpcMessage::Response(response) = message
            && let ServerResult::InitializeResult(result) = &response.result
        {
            self.version = Some(result.protocol_version.clone());
        }
        let bytes = serde_json::to_vec(message)?;
        let answered = match message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = answered else { return Ok(with_line_end(bytes)) };
        self.requests.finish(id);
        if !self.batches.contains(id) {
            return Ok(with_line_end(bytes));
        }
        Ok(self.batches.finish(id, Some(bytes)).map(with_line_end).unwrap_or_default())
    }
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (lines, output) = (self.outgoing_lines(&message), self.output.clone());
        async move { output.write(lines?).await }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let sent = self.send_own_answers().await;
            sent.inspect_err(|error| tracing::debug!(%error, "the client does not read")).ok()?;
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            match self.input.next().await {
                Ok(Some(line)) => self.receive_line(line),
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the client's messages");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.close().await;
        Ok(())
    }
}

fn request_id(message: &RxJsonRpcMessage<RoleServer>) -> Option<RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

fn cancelled_id(message: &RxJsonRpcMessage<RoleServer>) -> Option<&RequestId> {
    let ClientJsonRpcMessage::Notification(notification) = message else { return None };
    let ClientNotification::CancelledNotification(cancelled) = &notification.notification else { return None };
    cancelled.params.request_id.as_ref()
}

// MCP leaves the id out if it is unknown.
fn error_object(error: ErrorData, id: Option<RequestId>) -> Vec<u8> {
    tracing::info!(%error, "the client sent an invalid message");
    serde_json::to_vec(&TxJsonRpcMessage::<RoleServer>::error(error, id)).unwrap_or_default()
}

fn error_line(error: ErrorData, id: Option<RequestId>) -> Vec<u8> {
    with_line_end(error_object(error, id))
}

fn with_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.is_empty() {
        bytes.push(b'\n');
    }
    bytes
}
