//! Resources of runs, so that bulk travels only to a client that reads it: `proctor://runs/<id>/report`,
//! `proctor://runs/<id>/stdout`, `proctor://runs/<id>/stderr` and `proctor://runs/<id>/artifacts/<name>`.

use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::run_output;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use proctor_proto::v1::Stream;
use rmcp::model::{Resource, ResourceContents, ResourceTemplate};

/// Beginning of every URI.
const SCHEME: &str = "proctor://runs/";

/// Most bytes of one resource. Clients refuse messages of more than a few MiB.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a resource holds.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Report,
    Output(Stream),
    Artifact(String),
}

/// A resource of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunResource {
    run_id: String,
    part: Part,
}

impl RunResource {
    /// Parses a URI.
    pub(crate) fn from_uri(uri: &str) -> Option<RunResource> {
        let (run_id, part) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        let part = match part {
            "report" => Part::Report,
            "stdout" => Part::Output(Stream::Stdout),
            "stderr" => Part::Output(Stream::Stderr),
            part => Part::Artifact(part.strip_prefix("artifacts/").filter(|name| !name.is_empty())?.to_owned()),
        };
        (!run_id.is_empty()).then(|| RunResource { run_id: run_id.to_owned(), part })
    }

    /// Reads the resource: at most 4 MiB of it, and of a stream the beginning.
    pub(crate) async fn read(&self, call: &CallContext<'_>, uri: &str) -> Result<ResourceContents, CallError> {
        match &self.part {
            Part::Report => Ok(text(self.report(call).await?, uri, "application/json")),
            Part::Output(stream) => Ok(text(self.output(call, *stream).await?, uri, "text/plain")),
            Part::Artifact(name) => {
                let bytes = call.fetch_artifact(&self.run_id, name, BYTES_MAX).await?;
                Ok(match String::from_utf8(bytes) {
                    Ok(content) => text(content, uri, "text/plain"),
                    Err(binary) => ResourceContents::blob(BASE64_STANDARD.encode(binary.as_bytes()), uri),
                })
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

fn text(content: String, uri: &str, mime: &str) -> ResourceContents {
    ResourceContents::text(content, uri).with_mime_type(mime)
}

/// The resources of the run `run_id`, the last one of a session.
pub(crate) fn list(run_id: &str) -> Vec<Resource> {
    let one = |part: &str, title: &str, mime: &str| {
        Resource::new(format!("{SCHEME}{run_id}/{part}"), part.to_owned()).with_title(title).with_mime_type(mime)
    };
    vec![
        one("report", "Report of the last run", "application/json"),
        one("stdout", "Standard output of the last run", "text/plain"),
        one("stderr", "Standard error of the last run", "text/plain"),
    ]
}

/// The forms of the URIs.
pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let one = |part: &str, description: &str| {
        ResourceTemplate::new(format!("{SCHEME}{{run_id}}/{part}"), part.to_owned()).with_description(description)
    };
    vec![
        one("report", "The whole report as JSON."),
        one("stdout", "What the runner wrote to standard output, the first 4 MiB."),
        one("stderr", "What the runner wrote to standard error, the first 4 MiB."),
        one("artifacts/{name}", "A screenshot, trace, video or other file that the run left."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_its_own_uris() {
        let parse = |uri: &str| RunResource::from_uri(uri).map(|resource| resource.part);
        assert_eq!(parse("proctor://runs/r1/report"), Some(Part::Report));
        assert_eq!(parse("proctor://runs/r1/stderr"), Some(Part::Output(Stream::Stderr)));
        assert_eq!(parse("proctor://runs/r1/artifacts/0/shot.png"), Some(Part::Artifact("0/shot.png".into())));
        for other in
            ["proctor://runs/r1", "proctor://runs//report", "proctor://runs/r1/artifacts/", "file:///etc/passwd"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
