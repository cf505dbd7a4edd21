//! The events of a run as JSON lines, written as they happen: `{"sequence":3,"at":…,"event":"test_finished",…}`. The last line is
//! `finished` with the report.

use super::{CommandError, print};
use crate::reports;
use crate::runs::{LoggedEvent, OutputFiles};
use proctor_core::event::{RunEvent, Stream};
use serde_json::{Value, json};

/// Writes one line for each event.
#[derive(Default)]
pub(super) struct EventLines {
    /// The first failure to write. The run goes on, and its exit status tells.
    failure: Option<CommandError>,
    stdout: StreamText,
    stderr: StreamText,
}

/// The output of one stream as text. A character that two events divide is in the text of the second; one that the stream
/// itself ends amid is in none.
#[derive(Default)]
struct StreamText {
    /// Beginning of a character, at most three bytes.
    beginning: Vec<u8>,
    /// Offset of the byte after it in the stream.
    end: u64,
}

impl StreamText {
    /// The text of the `bytes` at `offset`, and of what came before them.
    fn push(&mut self, offset: u64, bytes: &[u8]) -> String {
        let mut text = String::new();
        if self.end != offset && !self.beginning.is_empty() {
            // What lies between was missed.
            self.beginning.clear();
            text.push(char::REPLACEMENT_CHARACTER);
        }
        self.end = offset + bytes.len() as u64;
        self.beginning.extend_from_slice(bytes);
        let unfinished = self.beginning.split_off(self.beginning.len() - unfinished_len(&self.beginning));
        let finished = std::mem::replace(&mut self.beginning, unfinished);
        text + &String::from_utf8_lossy(&finished)
    }
}

/// Number of bytes at the end that begin a character and do not finish it.
fn unfinished_len(bytes: &[u8]) -> usize {
    let is_unfinished = |len: &usize| {
        let end = bytes.len().checked_sub(*len).map(|start| std::str::from_utf8(&bytes[start..]));
        matches!(end, Some(Err(error)) if error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=3).find(is_unfinished).unwrap_or(0)
}

impl EventLines {
    /// Writes the event. Output is read back from `files`.
    pub(super) fn show(&mut self, logged: &LoggedEvent, files: Option<&OutputFiles>) {
        if self.failure.is_some() {
            return;
        }
        let line = json!({ "sequence": logged.sequence, "at": logged.at, "event": name(&logged.event) });
        let (Value::Object(mut line), Value::Object(members)) = (line, self.members(&logged.event, files)) else {
            return;
        };
        line.extend(members);
        self.failure = print::document(&line).err();
    }

    fn members(&mut self, event: &RunEvent, files: Option<&OutputFiles>) -> Value {
        let RunEvent::Output { stream, offset, len } = event else { return members(event) };
        let bytes = files.and_then(|files| files.read_output(*stream, *offset, *len as usize).ok());
        let (name, text) = match stream {
            Stream::Stdout => ("stdout", &mut self.stdout),
            Stream::Stderr => ("stderr", &mut self.stderr),
        };
        let text = bytes.map(|bytes| text.push(*offset, &bytes));
        json!({ "stream": name, "offset": offset, "bytes": len, "text": text })
    }

    /// The failure to write, if there was one.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        self.failure.map_or(Ok(()), Err)
    }
}

fn name(event: &RunEvent) -> &'static str {
    match event {
        RunEvent::Queued { .. } => "queued",
        RunEvent::Started { .. } => "started",
        RunEvent::TestStarted(_) => "test_started",
        RunEvent::TestFinished(_) => "test_finished",
        RunEvent::Collector(_) => "collector",
        RunEvent::Output { .. } => "output",
        RunEvent::Progress(_) => "progress",
        RunEvent::Missed { .. } => "missed",
        RunEvent::Finished(_) => "finished",
    }
}

fn members(event: &RunEvent) -> Value {
    match event {
        RunEvent::Queued { position } => json!({ "position": position }),
        RunEvent::Started { limits, isolation } => json!({ "limits": limits, "isolation": isolation.as_ref() }),
        RunEvent::TestStarted(test) => json!({ "test": test }),
        RunEvent::TestFinished(test) => json!({ "test": test.as_ref() }),
        RunEvent::Collector(collector) => json!({ "collector": collector.as_ref() }),
        // Needs the stream's earlier bytes.
        RunEvent::Output { .. } => json!({}),
        RunEvent::Progress(progress) => json!({
            "tests_finished": progress.tests_finished,
            "tests_failed": progress.tests_failed,
            "elapsed_ms": progress.elapsed_ms,
            "memory_bytes": progress.memory_bytes,
            "running": progress.running,
        }),
        RunEvent::Missed { events } => json!({ "events": events }),
        RunEvent::Finished(report) => {
            json!({ "report": serde_json::to_value(reports::json_document(report)).unwrap_or_default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_events_divide_is_whole() {
        let output = "a\u{e4}\u{20ac}\u{1f600}z".as_bytes();
        for size in 1..output.len() {
            let mut stream = StreamText::default();
            let mut text = String::new();
            for (number, bytes) in output.chunks(size).enumerate() {
                text += &stream.push((number * size) as u64, bytes);
            }
            assert_eq!(text.as_bytes(), output, "in parts of {size} bytes");
        }
    }

    #[test]
    fn bytes_that_are_no_text_and_gaps_are_replaced() {
        let mut stream = StreamText::default();
        assert_eq!(stream.push(0, b"a\xff"), "a\u{fffd}");
        assert_eq!(stream.push(2, b"b\xe2\x82"), "b");
        assert_eq!(stream.push(5, b"c"), "\u{fffd}c");
        assert_eq!(stream.push(6, b"\xe2\x82"), "");
        assert_eq!(stream.push(100, b"\xacd"), "\u{fffd}\u{fffd}d", "another character's end");
    }
}
