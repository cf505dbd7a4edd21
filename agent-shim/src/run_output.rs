//! Reads the output of a run: the head of a stream for the run's text, and pages from any offset.

use crate::answer::next_call;
use crate::supervisor_connection::Clients;
use proctor_proto::text::STREAM_BYTES_MAX;
use proctor_proto::v1::{ReadOutputRequest, Stream};
use tonic::Status;

/// Most bytes requested in one call; the supervisor allows 1 MiB.
const READ_BYTES_MAX: u32 = 512 * 1024;

/// A range of bytes of one output stream.
#[derive(Debug, Default)]
pub(crate) struct OutputSpan {
    pub(crate) bytes: Vec<u8>,
    /// Offset of the first byte.
    pub(crate) cursor: u64,
    /// Bytes of the whole stream so far.
    pub(crate) total: u64,
    /// Whether the run has ended and the range reaches the end of the stream.
    pub(crate) end: bool,
}

impl OutputSpan {
    /// Offset of the first byte after the range.
    pub(crate) fn next_cursor(&self) -> u64 {
        self.cursor + self.bytes.len() as u64
    }

    /// The first `bytes_max` bytes, ending between two characters.
    pub(crate) fn first(&self, bytes_max: usize) -> OutputSpan {
        let bytes = self.bytes[..self.bytes.len().min(bytes_max)].to_vec();
        let end = self.end && bytes.len() == self.bytes.len();
        OutputSpan { bytes, end, ..*self }.without_broken_character()
    }

    /// Drops an incomplete character at the end, so that the next page begins with it.
    fn without_broken_character(mut self) -> OutputSpan {
        if let Err(error) = std::str::from_utf8(&self.bytes)
            && error.error_len().is_none()
            && error.valid_up_to() > 0
            && !self.end
        {
            self.bytes.truncate(error.valid_up_to());
        }
        self
    }
}

/// Reads the head of a stream, as much as the text of a run shows.
pub(crate) async fn read_head(clients: &Clients, run_id: &str, stream: Stream) -> Result<OutputSpan, Status> {
    read_span(clients, run_id, stream, 0, STREAM_BYTES_MAX).await
}

/// Reads up to `bytes_max` bytes of a stream from `cursor` on, ending between two characters.
pub(crate) async fn read_page(
    clients: &Clients,
    run_id: &str,
    stream: Stream,
    cursor: u64,
    bytes_max: usize,
) -> Result<OutputSpan, Status> {
    Ok(read_span(clients, run_id, stream, cursor, bytes_max).await?.without_broken_character())
}

async fn read_span(
    clients: &Clients,
    run_id: &str,
    stream: Stream,
    cursor: u64,
    bytes_max: usize,
) -> Result<OutputSpan, Status> {
    let mut span = OutputSpan { cursor, ..OutputSpan::default() };
    loop {
        let room = u32::try_from(bytes_max - span.bytes.len()).unwrap_or(u32::MAX).min(READ_BYTES_MAX);
        let request = ReadOutputRequest {
            run_id: run_id.to_owned(),
            stream: stream.into(),
            cursor: span.next_cursor(),
            max_bytes: room,
        };
        let answer = clients.clone().runs.read_output(request).await?.into_inner();
        span.total = answer.total_bytes;
        span.end = answer.end;
        let room = bytes_max - span.bytes.len();
        span.bytes.extend(answer.bytes.iter().take(room));
        if answer.end || answer.bytes.is_empty() || span.bytes.len() >= bytes_max {
            return Ok(span);
        }
    }
}

/// The call by which an agent reads on from `cursor`.
pub(crate) fn read_on_hint(run_id: &str, stream: Stream, cursor: u64) -> String {
    format!("{} reads on", next_call::output_from(run_id, stream, cursor))
}

/// Name of a stream in arguments and answers.
pub(crate) fn stream_name(stream: Stream) -> &'static str {
    match stream {
        Stream::Stderr => "stderr",
        Stream::Stdout | Stream::Unspecified => "stdout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_between_two_characters() {
        let span = |bytes: &[u8], end| OutputSpan { bytes: bytes.to_vec(), end, ..OutputSpan::default() };
        let half = "aé".as_bytes()[..2].to_vec();
        assert_eq!(span(&half, false).without_broken_character().bytes, b"a");
        assert_eq!(span(&half, true).without_broken_character().bytes, half, "nothing follows at the end");
        assert_eq!(
            span(b"a\xff", false).without_broken_character().bytes,
            b"a\xff",
            "an invalid byte is not an incomplete character"
        );
        assert_eq!(span(b"ab", false).without_broken_character().bytes, b"ab");
    }
}
