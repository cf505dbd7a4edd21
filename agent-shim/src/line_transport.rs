//! The client's side of the wire: a message a line, as MCP has it over stdin and stdout. Unlike rmcp's own transport, which
//! passes over what it cannot read, this one answers it. Must not know what messages say.

use crate::json_rpc_line::{IncomingLine, read, too_long};
use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH};
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Empty};

type Sending = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// A transport over `R` and `W`. Its future of the next message may be dropped and asked for again, as rmcp does: what was
/// read and what is being sent is kept here.
pub(crate) struct LineTransport<R, W: AsyncWrite> {
    input: BufReader<R>,
    line: Vec<u8>,
    // Whether what comes next is the rest of a line that was too long.
    passing_over: bool,
    // Only written to.
    output: AsyncRwTransport<RoleServer, Empty, W>,
    answer: Option<Sending>,
}

impl<R, W> LineTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Reads `input` and writes `output`.
    pub(crate) fn over(input: R, output: W) -> LineTransport<R, W> {
        let output = AsyncRwTransport::new(tokio::io::empty(), output);
        LineTransport { input: BufReader::new(input), line: Vec::new(), passing_over: false, output, answer: None }
    }

    // `None` at the end. The last line may lack its end.
    async fn next(&mut self) -> io::Result<Option<IncomingLine>> {
        loop {
            // Nothing is lost if this is where we are dropped: below there is no waiting.
            let bytes = self.input.fill_buf().await?;
            if bytes.is_empty() {
                let last = std::mem::take(&mut self.line);
                return Ok(Some(read(&last)).filter(|_| !last.is_empty()));
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(bytes.len(), |end| end + 1);
            let is_rest = self.passing_over;
            if !is_rest {
                self.line.extend_from_slice(&bytes[..taken]);
            }
            self.input.consume(taken);
            if is_rest {
                self.passing_over = end.is_none();
                continue;
            }
            if self.line.len() > DEFAULT_MAX_LINE_LENGTH {
                self.passing_over = end.is_none();
                return Ok(Some(too_long(&std::mem::take(&mut self.line), DEFAULT_MAX_LINE_LENGTH)));
            }
            if end.is_some() {
                return Ok(Some(read(&std::mem::take(&mut self.line))));
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
            if let Some(answer) = &mut self.answer {
                let sent = answer.await;
                self.answer = None;
                sent.inspect_err(|error| tracing::debug!(%error, "the client does not read")).ok()?;
            }
            match self.next().await {
                Ok(Some(IncomingLine::Message(message))) => return Some(*message),
                Ok(Some(IncomingLine::Nothing)) => {}
                Ok(Some(IncomingLine::Refused(error, id))) => {
                    tracing::info!(%error, "the client sent what is no message");
                    // MCP leaves the id out where it cannot be known.
                    self.answer = Some(Box::pin(self.output.send(TxJsonRpcMessage::<RoleServer>::error(error, id))));
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::warn!(%error, "the client's messages cannot be read");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.output.close().await
    }
}
