//! A file that a run left, for an agent: text as text, a picture as a picture, and of anything else what it is. Must not know
//! how the tool is called.

use crate::call_error::CallError;
use crate::tool_answer::{self, Answer, PICTURE};
use crate::tool_call::ToolCall;
use crate::{report_json, shortened_text};
use proctor_proto::text;
use proctor_proto::v1::{GetReportResponse, ReadArtifactRequest};
use serde_json::Value;

/// Most bytes that are fetched. Clients refuse messages of more than a few MiB.
const BYTES_MAX: usize = 1024 * 1024;

/// How pictures that agents can look at begin.
const PICTURES: [(&[u8], &str); 2] = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg")];

/// The artefact called `name` of the run whose report was fetched.
pub(super) async fn show(
    call: &ToolCall<'_>,
    fetched: &GetReportResponse,
    name: &str,
    bytes_max: Option<usize>,
) -> Result<Answer, CallError> {
    let document: Value = serde_json::from_slice(&fetched.document).map_err(|_| CallError::Document)?;
    let listed = document["artifacts"].as_array().into_iter().flatten().find(|artifact| artifact["name"] == name);
    // The supervisor says what is wrong with a name that the report does not list.
    let size = listed.and_then(|artifact| artifact["bytes"].as_u64()).unwrap_or_default();
    let bytes = read(call, &fetched.run_id, name).await?;
    let mut structured = report_json::structured(&fetched.document, &report_json::Context::of(fetched, bytes_max))?;
    let picture = PICTURES.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, mime)| *mime);
    let is_whole = bytes.len() as u64 == size;
    let said = match (picture, std::str::from_utf8(&bytes)) {
        (None, Ok(content)) if is_whole => {
            shortened_text::first_lines(content, bytes_max.unwrap_or(text::STREAM_BYTES_MAX)).to_owned()
        }
        _ => format!("{}: {size} bytes\n", described(listed)),
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
    Ok(Answer { text: said, summary, structured })
}

fn described(listed: Option<&Value>) -> String {
    let kind = listed.and_then(|artifact| artifact["kind"].as_str()).unwrap_or("other");
    match listed.and_then(|artifact| artifact["test"]["name"].as_str()) {
        Some(test) => format!("{kind} of {test}"),
        None => kind.to_owned(),
    }
}

async fn read(call: &ToolCall<'_>, run_id: &str, name: &str) -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    loop {
        let request = ReadArtifactRequest {
            run_id: run_id.to_owned(),
            name: name.to_owned(),
            cursor: bytes.len() as u64,
            max_bytes: 0,
        };
        let part = call
            .ask(|mut clients| {
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
