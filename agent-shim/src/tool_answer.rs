//! The answer of a tool call: the exact text, a summary for the reader, and the same as structured data.

use crate::call_error::CallError;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

/// The answer of a tool call that was carried out.
#[derive(Debug)]
pub(crate) struct ToolAnswer {
    /// First block: the text that agents parse.
    pub(crate) text: String,
    /// Lines of the second block: a summary and a hint for the next call.
    pub(crate) summary: Vec<String>,
    /// The structured content, an object of the tool's output schema.
    pub(crate) structured: Value,
}

/// Member of [`ToolAnswer::structured`] that becomes an image block: a value made by [`picture`].
pub(crate) const PICTURE: &str = "picture";

/// The value of [`PICTURE`]; `mime` is the type of the bytes: `image/png`.
pub(crate) fn picture(bytes: &[u8], mime: &str) -> Value {
    json!({"data": BASE64_STANDARD.encode(bytes), "mime": mime})
}

impl ToolAnswer {
    /// Appends `notes` to the summary.
    #[must_use]
    pub(crate) fn with_notes(mut self, notes: Vec<String>) -> ToolAnswer {
        self.summary.extend(notes);
        self
    }

    /// Converts to an MCP result. Failing tests are data, so this is never an error.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut content = vec![ContentBlock::text(self.text)];
        if !self.summary.is_empty() {
            content.push(ContentBlock::text(self.summary.join("\n")));
        }
        let mut structured = self.structured;
        let picture = structured.as_object_mut().and_then(|members| members.remove(PICTURE));
        content.extend(
            picture.map(|picture| ContentBlock::image(string_value(&picture["data"]), string_value(&picture["mime"]))),
        );
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(without_nulls(structured));
        result
    }
}

/// The result of a call of `tool` that could not be carried out. `is_private`: whether this process started the supervisor.
pub(crate) fn error_result(tool: &str, error: &CallError, is_private: bool) -> CallToolResult {
    tracing::info!(tool, ?error, "the call failed");
    CallToolResult::error(vec![ContentBlock::text(error.text(tool, is_private))])
}

fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

// Removes nulls: the output schemas have one type per property, so that every client can validate them.
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
    fn removes_nulls_at_every_depth() {
        let value = json!({"a": null, "b": [{"c": null, "d": 1}], "e": {"f": null}});
        assert_eq!(without_nulls(value), json!({"b": [{"d": 1}], "e": {}}));
    }
}
