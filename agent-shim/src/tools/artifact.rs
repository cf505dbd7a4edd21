//! Shows an artifact of a run to an agent: text as text, a picture as an image, and anything else as a description.

use crate::call_error::CallError;
use crate::tool_answer::{self, PICTURE, ToolAnswer};
use crate::tool_call::ToolCall;
use crate::{report_json, shortened_text};
use proctor_proto::text::STREAM_BYTES_MAX;
use proctor_proto::v1::{GetReportResponse, ReadArtifactRequest};
use serde_json::Value;

/// Most bytes fetched. Clients refuse messages of more than a few MiB.
const BYTES_MAX: usize = 1024 * 1024;

/// Magic bytes and types of the pictures that agents can view.
const PICTURES: [(&[u8], &str); 2] = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg")];

/// The artifact `name` of the run whose report was fetched.
pub(super) async fn show_artifact(
    call: &ToolCall<'_>,
    fetched: &GetReportResponse,
    name: &str,
    bytes_max: Option<usize>,
) -> Result<ToolAnswer, CallError> {
    let document: Value = serde_json::from_slice(&fetched.document).map_err(|_| CallError::MalformedReport)?;
    let listed = document["artifacts"].as_array().into_iter().flatten().find(|artifact| artifact["name"] == name);
    // If the report does not list the name, the supervisor's error says so.
    let size = listed.and_then(|artifact| artifact["bytes"].as_u64()).unwrap_or_default();
    let bytes = read_artifact(call, &fetched.run_id, name).await?;
    let mut structured =
        report_json::parse_document(&fetched.document, &report_json::Context::for_report(fetched, bytes_max))?;
    let picture = PICTURES.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, mime)| *mime);
    let is_whole = bytes.len() as u64 == size;
    let text = match (picture, std::str::from_utf8(&bytes)) {
        (None, Ok(content)) if is_whole => {
            shortened_text::first_lines(content, bytes_max.unwrap_or(STREAM_BYTES_MAX)).to_owned()
        }
        _ => format!("{}: {size} bytes\n", describe(listed)),
    };
    let summary = match picture.filter(|_| is_whole) {
        Some(mime) => {
            structured[PICTURE] = tool_answer::picture(&bytes, mime);
            vec!["The picture is the last block.".to_owned()]
        }
        None => {
            vec!["What is no text or picture of up to 1 MiB is read with ReadArtifact or `proctor report`.".to_owned()]
        }
    };
    Ok(ToolAnswer { text, summary, structured })
}

fn describe(listed: Option<&Value>) -> String {
    let kind = listed.and_then(|artifact| artifact["kind"].as_str()).unwrap_or("other");
    match listed.and_then(|artifact| artifact["test"]["name"].as_str()) {
        Some(test) => format!("{kind} of {test}"),
        None => kind.to_owned(),
    }
}

async fn read_artifact(call: &ToolCall<'_>, run_id: &str, name: &str) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    loop {
        let request = ReadArtifactRequest {
            run_id: run_id.to_owned(),
            name: name.to_owned(),
            cursor: bytes.len() as u64,
            max_bytes: 0,
        };
        let part = call
            .request(|mut clients| {
                let request = request.clone();
                async move { Ok(clients.runs.read_artifact(request).await?.into_inner()) }
            })
            .await?;
        bytes.extend(&part.bytes);
        if part.end || part.bytes.is_empty() || bytes.len() >= BYTES_MAX {
            return Ok(bytes);
        }
    }
}
