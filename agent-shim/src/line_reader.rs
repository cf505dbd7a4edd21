//! Reads lines of bounded length and parses each as a message.

use crate::json_rpc_line::{IncomingLine, MESSAGE_BYTES_MAX, parse_line, reject_long_line};
use std::io;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Reads messages, one per line. Callers may drop the future of `next` and call it again: a partly read line is kept here.
pub(crate) struct LineReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    // Whether the next bytes are the rest of a line that was too long.
    skipping_line: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(input: R) -> LineReader<R> {
        LineReader { input: BufReader::new(input), line: Vec::new(), skipping_line: false }
    }

    /// The next line; `None` at the end of input. The last line may lack its line end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<IncomingLine>> {
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
            if self.line.len() > MESSAGE_BYTES_MAX {
                self.skipping_line = end.is_none();
                return Ok(Some(reject_long_line(&std::mem::take(&mut self.line))));
            }
            if end.is_some() {
                return Ok(Some(parse_line(&std::mem::take(&mut self.line))));
            }
        }
    }
}
