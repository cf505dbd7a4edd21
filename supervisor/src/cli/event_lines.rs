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
}

impl EventLines {
    /// Writes the event. Output is read back from `files`.
    pub(super) fn show(&mut self, logged: &LoggedEvent, files: Option<&OutputFiles>) {
        if self.failure.is_some() {
            return;
        }
        let line = json!({ "sequence": logged.sequence, "at": logged.at, "event": name(&logged.event) });
        let (Value::Object(mut line), Value::Object(members)) = (line, members(&logged.event, files)) else { return };
        line.extend(members);
        self.failure = print::document(&line).err();
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

fn members(event: &RunEvent, files: Option<&OutputFiles>) -> Value {
    match event {
        RunEvent::Queued { position } => json!({ "position": position }),
        RunEvent::Started { limits, isolation } => json!({ "limits": limits, "isolation": isolation.as_ref() }),
        RunEvent::TestStarted(test) => json!({ "test": test }),
        RunEvent::TestFinished(test) => json!({ "test": test.as_ref() }),
        RunEvent::Collector(collector) => json!({ "collector": collector.as_ref() }),
        RunEvent::Output { stream, offset, len } => {
            let bytes = files.and_then(|files| files.read_output(*stream, *offset, *len as usize).ok());
            let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let stream = if *stream == Stream::Stdout { "stdout" } else { "stderr" };
            json!({ "stream": stream, "offset": offset, "bytes": len, "text": text })
        }
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
