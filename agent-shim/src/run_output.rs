//! Reading what a run wrote: heads for the text of a run, pages for reading on. Must not know how either is shown.

use crate::supervisor_connection::Clients;
use proctor_proto::text::STREAM_BYTES_MAX;
use proctor_proto::v1::{ReadOutputRequest, Stream};
use tonic::Status;

/// Most bytes asked for in one call; the supervisor gives at most 1 MiB.
const READ_BYTES_MAX: u32 = 512 * 1024;

/// Bytes of one stream of a run.
#[derive(Debug, Default)]
pub(crate) struct OutputSpan {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Offset of the first of them.
    pub(crate) cursor: u64,
    /// Bytes of the whole stream so far.
    pub(crate) total: u64,
    /// Whether the run has ended and these are its last bytes.
    pub(crate) end: bool,
}

impl OutputSpan {
    /// Offset of the first byte after these.
    pub(crate) fn next_cursor(&self) -> u64 {
        self.cursor + self.bytes.len() as u64
    }

    /// Drops the last bytes if they only begin a character, so that a reader who goes on behind them sees it whole.
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

/// The head of a stream, as much of it as the text of a run shows.
pub(crate) async fn head(clients: &Clients, run_id: &str, stream: Stream) -> Result<OutputSpan, Status> {
    read(clients, run_id, stream, 0, STREAM_BYTES_MAX).await
}

/// Up to `bytes_max` bytes of a stream from `cursor` on, ending between two characters.
pub(crate) async fn page(
    clients: &Clients,
    run_id: &str,
    stream: Stream,
    cursor: u64,
    bytes_max: usize,
) -> Result<OutputSpan, Status> {
    Ok(read(clients, run_id, stream, cursor, bytes_max).await?.without_broken_character())
}

async fn read(
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

/// How to read on behind `cursor`, as an agent would call it.
pub(crate) fn how_to_read_on(run_id: &str, stream: Stream, cursor: u64) -> String {
    format!("read on with get_run {{run_id: \"{run_id}\", stream: \"{}\", cursor: {cursor}}}", stream_name(stream))
}

/// The name of a stream in arguments and answers.
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
        assert_eq!(span(b"a\xff", false).without_broken_character().bytes, b"a\xff", "that is no character at all");
        assert_eq!(span(b"ab", false).without_broken_character().bytes, b"ab");
    }
}
