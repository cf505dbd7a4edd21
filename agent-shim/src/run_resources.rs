//! Resources of runs, so that bulk travels only to a client that reads it: `proctor://runs/<id>/report`,
//! `proctor://runs/<id>/stdout`, `proctor://runs/<id>/stderr`, `proctor://runs/<id>/artifacts/<name>`, and the report in other
//! formats: `proctor://runs/<id>/junit`, `html` and so on.

use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::run_output;
use crate::run_uri::{self, Part, SCHEME};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::Stream;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

/// Most bytes of one resource. Clients refuse messages of more than a few MiB.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A resource of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunResource {
    run_id: String,
    part: Part,
}

impl RunResource {
    /// Parses a URI.
    pub(crate) fn from_uri(uri: &str) -> Option<RunResource> {
        run_uri::parse(uri).map(|(run_id, part)| RunResource { run_id, part })
    }

    /// Reads the resource: at most 4 MiB of it, and of a stream the beginning.
    pub(crate) async fn read(&self, call: &CallContext<'_>, uri: &str) -> Result<ResourceContents, CallError> {
        match &self.part {
            Part::Document(ReportFormat::Json) => Ok(text(self.report(call).await?, uri, "application/json")),
            Part::Document(format) => {
                let bytes_max = u32::try_from(BYTES_MAX).unwrap_or(u32::MAX);
                let document = call.fetch_document(&self.run_id, *format, bytes_max).await?.document;
                Ok(text(String::from_utf8_lossy(&document).into_owned(), uri, format.media_type()))
            }
            Part::Output(stream) => Ok(text(self.output(call, *stream).await?, uri, "text/plain")),
            Part::Artifact(name) => {
                let (mut bytes, total) = call.fetch_artifact(&self.run_id, name, BYTES_MAX).await?;
                bytes.truncate(BYTES_MAX);
                Ok(artifact(bytes, total, uri))
            }
        }
    }

    async fn report(&self, call: &CallContext<'_>) -> Result<String, CallError> {
        let document = call.fetch_report(&self.run_id).await?.document;
        if document.len() <= BYTES_MAX {
            return Ok(String::from_utf8_lossy(&document).into_owned());
        }
        let bounded = crate::bounded_report::parse_and_bound(&document)?;
        Ok(serde_json::Value::Object(bounded).to_string())
    }

    async fn output(&self, call: &CallContext<'_>, stream: Stream) -> Result<String, CallError> {
        let run_id = &self.run_id;
        let span = call
            .request(|clients| async move { run_output::read_page(&clients, run_id, stream, 0, BYTES_MAX).await })
            .await?;
        let mut text = String::from_utf8_lossy(&span.bytes).into_owned();
        if span.next_cursor() < span.total {
            let hint = run_output::read_on_hint(run_id, stream, span.next_cursor());
            text.push_str(&format!("\n[TRUNCATED] {} bytes left out; {hint}\n", span.total - span.next_cursor()));
        }
        Ok(text)
    }
}

// Of a text that is too long the beginning. A part of anything else would be of no use.
fn artifact(bytes: Vec<u8>, total: u64, uri: &str) -> ResourceContents {
    let left_out = total.saturating_sub(bytes.len() as u64);
    if left_out == 0 {
        return match String::from_utf8(bytes) {
            Ok(content) => text(content, uri, "text/plain"),
            Err(binary) => ResourceContents::blob(BASE64_STANDARD.encode(binary.as_bytes()), uri),
        };
    }
    let whole = match std::str::from_utf8(&bytes) {
        Ok(head) => Some(head),
        // The cut is within a character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    let content = match whole {
        Some(head) => format!("{head}\n[TRUNCATED] {} of {total} bytes left out\n", total - head.len() as u64),
        None => format!("[TRUNCATED] not text, and all of its {total} bytes left out: a resource holds {BYTES_MAX}\n"),
    };
    text(content, uri, "text/plain")
}

fn text(content: String, uri: &str, mime: &str) -> ResourceContents {
    ResourceContents::text(content, uri).with_mime_type(mime)
}

/// The resources of the run `run_id`, the last one of a session.
pub(crate) fn list(run_id: &str) -> Vec<Resource> {
    let one = |part: &str, title: &str, mime: &str| {
        Resource::new(format!("{SCHEME}{run_id}/{part}"), part.to_owned()).with_title(title).with_mime_type(mime)
    };
    let own = [
        one("report", "Report of the last run", "application/json"),
        one("stdout", "Standard output of the last run", "text/plain"),
        one("stderr", "Standard error of the last run", "text/plain"),
    ];
    let documents = documents().map(|format| {
        one(format.name(), &format!("Report of the last run: {}", format.description()), format.media_type())
    });
    own.into_iter().chain(documents).collect()
}

/// The forms of the URIs.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let one = |part: &str, description: &str| {
        ResourceTemplate::new(format!("{SCHEME}{{run_id}}/{part}"), part.to_owned()).with_description(description)
    };
    let own = [
        one("report", "The whole report as JSON."),
        one("stdout", "What the runner wrote to standard output, the first 4 MiB."),
        one("stderr", "What the runner wrote to standard error, the first 4 MiB."),
        one("artifacts/{+name}", "A screenshot, trace, video or other file that the run left."),
    ];
    own.into_iter().chain(documents().map(|format| one(format.name(), format.description()))).collect()
}

// The report as JSON has a name of its own.
fn documents() -> impl Iterator<Item = ReportFormat> {
    ReportFormat::ALL.into_iter().filter(|format| *format != ReportFormat::Json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn content(bytes: &[u8], total: u64) -> serde_json::Value {
        serde_json::to_value(artifact(bytes.to_vec(), total, "u")).unwrap()
    }

    #[test]
    fn says_how_much_of_an_artifact_was_left_out() {
        assert_eq!(content(b"log", 3)["text"], "log");
        assert_eq!(content(b"\xff\x00", 2)["blob"], json!("/wA="));
        assert_eq!(
            content("aé".as_bytes().split_last().unwrap().1, 10)["text"],
            "a\n[TRUNCATED] 9 of 10 bytes left out\n"
        );
        let binary = content(b"\xff\x00", 5_000_000);
        assert!(binary["text"].as_str().unwrap().starts_with("[TRUNCATED] not text, and all of its 5000000 bytes"));
    }
}
