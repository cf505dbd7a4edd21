//! Shows an artifact of a run to an agent: text as text, a picture as an image, and anything else as a description.

use super::Answer;
use crate::answer::budget::{Detail, Draw, clip_end};
use crate::answer::{Picture, ToolAnswer};
use crate::arguments::{ArgumentError, clip};
use crate::call_context::CallContext;
use crate::call_error::CallError;
use proctor_proto::v1::GetReportResponse;
use serde_json::{Value, json};

/// Most bytes fetched. Clients refuse messages of more than a few MiB.
const BYTES_MAX: usize = 1024 * 1024;

/// Most artifacts named in an error.
const NAMED_MAX: usize = 20;

/// Magic bytes and types of the pictures that agents can view.
const PICTURES: [(&[u8], &str); 2] = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg")];

/// The artifact `name` of the run whose report was fetched.
pub(super) async fn show_artifact(
    call: &CallContext<'_>,
    fetched: &GetReportResponse,
    name: &str,
) -> Result<Answer, CallError> {
    let document: Value = serde_json::from_slice(&fetched.document).map_err(|_| CallError::MalformedReport)?;
    let listed = document["artifacts"].as_array().into_iter().flatten().find(|artifact| artifact["name"] == name);
    let listed = listed.ok_or_else(|| unknown_artifact(name, &document))?;
    let size = listed["bytes"].as_u64().unwrap_or_default();
    let (bytes, _) = call.fetch_artifact(&fetched.run_id, name, BYTES_MAX).await?;
    let headline = format!("{}: {size} bytes", describe(listed));
    let members = vec![("artifact", json!({"name": name, "bytes": size})), ("run_id", fetched.run_id.as_str().into())];
    let description = ToolAnswer::fixed(headline.clone(), headline + "\n", members);
    let picture = PICTURES.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, mime)| *mime);
    let is_whole = bytes.len() as u64 == size;
    Ok(match (picture.filter(|_| is_whole), String::from_utf8(bytes)) {
        (Some(mime), content) => {
            let bytes = content.map_or_else(|error| error.into_bytes(), String::into_bytes);
            let shown = description.with_notes(["the picture is the last block".to_owned()]);
            Box::new(ToolAnswer { picture: Some(Picture { bytes, mime }), ..shown })
        }
        (None, Ok(content)) if is_whole => Box::new(TextArtifact { description, content }),
        (None, _) => Box::new(description.with_notes([
            "what is no text or picture of up to 1 MiB is read with ReadArtifact or `proctor report`".to_owned(),
        ])),
    })
}

/// An artifact that is text; as much of its beginning is shown as fits.
struct TextArtifact {
    description: ToolAnswer,
    content: String,
}

impl Draw for TextArtifact {
    fn items(&self) -> usize {
        self.content.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let content = clip_end(&self.content, detail.items);
        let is_cut = self.content.len() > detail.items;
        let shown_bytes = content.len() - if is_cut { '…'.len_utf8() } else { 0 };
        let cut = format!("the first {shown_bytes} of {} bytes; max_tokens cut the rest", self.content.len());
        let mut shown = self.description.clone().with_notes(is_cut.then_some(cut));
        shown.members.push(("content", content.as_str().into()));
        ToolAnswer { text: crate::answer::Text::Fixed(content), ..shown }
    }
}

fn unknown_artifact(name: &str, document: &Value) -> ArgumentError {
    let names = document["artifacts"].as_array().into_iter().flatten().filter_map(|artifact| artifact["name"].as_str());
    let names: Vec<_> = names.take(NAMED_MAX).collect();
    let known = if names.is_empty() { "it left none".to_owned() } else { format!("it left {}", names.join(", ")) };
    ArgumentError::Artifact { name: clip(name).into_owned(), known }
}

fn describe(listed: &Value) -> String {
    let kind = listed["kind"].as_str().unwrap_or("other");
    match listed["test"]["name"].as_str() {
        Some(test) => format!("{kind} of {test}"),
        None => kind.to_owned(),
    }
}
