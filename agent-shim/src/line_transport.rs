//! MCP transport over stdin and stdout, one message per line. Unlike rmcp's own transport, which skips invalid lines, this one
//! answers them.

use crate::json_rpc_line::{IncomingLine, parse_line, reject_long_line};
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH};
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty};

type SendFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Transport over `R` and `W`. rmcp drops the future of `receive` and calls it again, so partly read lines and partly sent
/// answers are kept here.
pub(crate) struct LineTransport<R, W: AsyncWrite> {
    input: BufReader<R>,
    line: Vec<u8>,
    // Whether the next bytes are the rest of a line that was too long.
    skipping_line: bool,
    // Used for writing only.
    output: AsyncRwTransport<RoleServer, Empty, W>,
    // The answer to an invalid line, while it is being sent.
    pending_answer: Option<SendFuture>,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A transport that reads `input` and writes `output`.
    pub(crate) fn new(input: R, output: W) -> LineTransport<R, W> {
        let output = AsyncRwTransport::new(tokio::io::empty(), output);
        LineTransport {
            input: BufReader::new(input),
            line: Vec::new(),
            skipping_line: false,
            output,
            pending_answer: None,
        }
    }

    // `None` at the end of input. The last line may lack its line end.
    async fn next_line(&mut self) -> io::Result<Option<IncomingLine>> {
        loop {
            // Cancel-safe: this is the only await of the loop.
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                let last = std::mem::take(&mut self.line);
                return Ok(Some(parse_line(&last)).filter(|_| !last.is_empty()));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            let is_rest = self.skipping_line;
            if !is_rest {
                self.line.extend_from_slice(&bytes[..taken]);
            }
            self.input.consume(taken);
            if is_rest {
                self.skipping_line = end.is_none();
                continue;
            }
            if self.line.len() > DEFAULT_MAX_LINE_LENGTH {
                self.skipping_line = end.is_none();
                return Ok(Some(reject_long_line(&std::mem::take(&mut self.line), DEFAULT_MAX_LINE_LENGTH)));
            }
            if end.is_some() {
                return Ok(Some(parse_line(&std::mem::take(&mut self.line))));
            }
        }
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
        self.output.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = &mut self.pending_answer {
                let sent = answer.await;
                self.pending_answer = None;
                sent.inspect_err(|error| tracing::debug!(%error, "the client does not read")).ok()?;
            }
            match self.next_line().await {
                Ok(Some(IncomingLine::Message(message))) => return Some(*message),
                Ok(Some(IncomingLine::Ignored)) => {}
                Ok(Some(IncomingLine::Invalid(error, id))) => {
                    tracing::info!(%error, "the client sent an invalid message");
                    // MCP leaves the id out if it is unknown.
                    self.pending_answer =
                        Some(Box::pin(self.output.send(TxJsonRpcMessage::<RoleServer>::error(error, id))));
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the client's messages");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.close().await
    }
}
