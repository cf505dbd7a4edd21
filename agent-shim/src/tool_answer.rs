//! An answer of a tool: the exact text, a summary for the reader, and the same as data. Must not know which tool it is.

use crate::call_error::CallError;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// What a tool that was carried out says.
#[derive(Debug)]
pub(crate) struct Answer {
    /// First block: the text whose form is agreed on.
    pub(crate) text: String,
    /// Second block: a summary and a hint for the next call, line by line.
    pub(crate) summary: Vec<String>,
    /// The same as data, an object of the tool's output schema.
    pub(crate) structured: Value,
}

/// Member of [`Answer::structured`] that becomes the last block: a picture, made by [`picture`].
pub(crate) const PICTURE: &str = "picture";

/// A picture for [`PICTURE`]; `mime` says what its bytes are: `image/png`.
pub(crate) fn picture(bytes: &[u8], mime: &str) -> Value {
    json!({"data": BASE64_STANDARD.encode(bytes), "mime": mime})
}

impl Answer {
    /// An answer with `notes` at the end of its summary.
    #[must_use]
    pub(crate) fn with_notes(mut self, notes: Vec<String>) -> Answer {
        self.summary.extend(notes);
        self
    }

    /// As a tool result. Failing tests are data, so this is never an error.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut content = vec![ContentBlock::text(self.text)];
        if !self.summary.is_empty() {
            content.push(ContentBlock::text(self.summary.join("\n")));
        }
        let mut structured = self.structured;
        let picture = structured.as_object_mut().and_then(|members| members.remove(PICTURE));
        content
            .extend(picture.map(|picture| ContentBlock::image(text_of(&picture["data"]), text_of(&picture["mime"]))));
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(without_nulls(structured));
        result
    }
}

/// The result of a call of `tool` that could not be carried out, at a private supervisor or at one that others started.
pub(crate) fn refusal(tool: &str, error: &CallError, is_private: bool) -> CallToolResult {
    tracing::info!(tool, ?error, "refused");
    CallToolResult::error(vec![ContentBlock::text(error.text(tool, is_private))])
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

// What is absent is absent: the output schemas have one type per property, so that every client can check them.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name, without_nulls(member)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_left_out_at_every_depth() {
        let value = json!({"a": null, "b": [{"c": null, "d": 1}], "e": {"f": null}});
        assert_eq!(without_nulls(value), json!({"b": [{"d": 1}], "e": {}}));
    }
}
