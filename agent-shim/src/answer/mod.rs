//! The answer of a tool call. Its text and its structured content hold the same facts, because some clients show a model
//! only one of them; one budget bounds both together.

pub(crate) mod budget;
pub(crate) mod check;
pub(crate) mod failure;
pub(crate) mod failure_list;
pub(crate) mod failure_text;
pub(crate) mod next_call;
pub(crate) mod run;
pub(crate) mod run_headline;
pub(crate) mod run_text;

use crate::call_error::CallError;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use proctor_proto::v1::TestId;
use proctor_proto::{reason, text};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The text of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    /// A fixed form that agents parse: the first block, alone. Notes and the next call are a second block.
    Fixed(String),
    /// The runner's own output, which no budget shortens. Everything else is a second block.
    Raw(String),
    /// One block: the headline, then `body`, notes, the next call, and `trailer` as the last lines.
    Composed { body: String, trailer: String },
}

/// A picture that an answer shows.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    pub(crate) bytes: Vec<u8>,
    /// MIME type: `image/png`.
    pub(crate) mime: &'static str,
}

/// The answer of a tool call that was carried out.
#[derive(Debug, Clone)]
pub(crate) struct ToolAnswer {
    /// What the call found, in one line.
    pub(crate) headline: String,
    pub(crate) text: Text,
    /// Structured members of this tool, the most important first. Nulls are left out: each property has one type, so
    /// that every client can validate it.
    pub(crate) members: Vec<(&'static str, Value)>,
    /// Members of the whole report, for a caller that asked for it. They follow the others, and replace those of the same
    /// name.
    pub(crate) report: Option<Arc<ReportMembers>>,
    /// The call that usually follows.
    pub(crate) next: Option<String>,
    pub(crate) notes: Vec<String>,
    /// That the call attached to a run in flight, and the age of that run.
    pub(crate) attached: Option<String>,
    /// A result with a picture carries no structured content: clients that prefer the latter would not show the picture.
    pub(crate) picture: Option<Picture>,
}

/// Members of the whole report of a run, without nulls. Their size is known, because an answer is drawn several times.
#[derive(Debug)]
pub(crate) struct ReportMembers {
    members: Map<String, Value>,
    bytes: usize,
}

impl ReportMembers {
    pub(crate) fn new(members: Map<String, Value>) -> Arc<ReportMembers> {
        let members = members.into_iter().filter(|(_, value)| !value.is_null());
        let members: Map<String, Value> = members.map(|(name, value)| (name, without_nulls(value))).collect();
        let bytes = serde_json::to_string(&members).map_or(0, |json| json.len());
        Arc::new(ReportMembers { members, bytes })
    }
}

/// Members that stand before `next`, `notes` and `attached`.
const LEADING: [&str; 5] = ["outcome", "summary", "failures", "named", "findings"];

impl ToolAnswer {
    /// An answer in a fixed text form.
    pub(crate) fn fixed(headline: impl Into<String>, text: String, members: Vec<(&'static str, Value)>) -> ToolAnswer {
        ToolAnswer {
            headline: headline.into(),
            text: Text::Fixed(text),
            members,
            report: None,
            next: None,
            notes: Vec::new(),
            attached: None,
            picture: None,
        }
    }

    /// An answer in a fixed text form, whose first line says what the call found.
    pub(crate) fn with_own_headline(text: String, members: Vec<(&'static str, Value)>) -> ToolAnswer {
        let headline = text.lines().next().unwrap_or_default().trim_end_matches(':').to_owned();
        ToolAnswer::fixed(headline, text, members)
    }

    /// The answer when nothing ran, for a `reason` that programs can tell.
    pub(crate) fn nothing_ran(reason: &str, text: String) -> ToolAnswer {
        ToolAnswer::fixed(text.clone(), text, vec![("nothing_ran", reason.into())])
    }

    /// The answer about the last run before there is one.
    pub(crate) fn no_run_yet() -> ToolAnswer {
        ToolAnswer::nothing_ran(reason::NO_RUN_YET, text::NO_RUN_YET.to_owned()).with_next("run_tests")
    }

    /// Sets the call that usually follows.
    #[must_use]
    pub(crate) fn with_next(self, next: impl Into<String>) -> ToolAnswer {
        ToolAnswer { next: Some(next.into()), ..self }
    }

    /// Appends notes.
    #[must_use]
    pub(crate) fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> ToolAnswer {
        self.notes.extend(notes);
        self
    }

    /// The text blocks, of which only the first is required.
    pub(crate) fn blocks(&self) -> Vec<String> {
        match &self.text {
            Text::Fixed(text) | Text::Raw(text) => {
                let lines: Vec<String> = self.remarks().collect();
                let second = (!lines.is_empty()).then(|| lines.join("\n"));
                [text.clone()].into_iter().chain(second).collect()
            }
            Text::Composed { body, trailer } => {
                let mut text = format!("{}\n", self.headline);
                text.extend(self.attached.iter().map(|attached| format!("{attached}\n")));
                text.push_str(body);
                text.extend(self.notes.iter().map(|note| format!("note: {note}\n")));
                text.extend(self.next.iter().map(|next| format!("next: {next}\n")));
                text.push_str(trailer);
                vec![text]
            }
        }
    }

    // Everything that a text of a fixed form has no place for. Of these only the runner's own output has no headline.
    fn remarks(&self) -> impl Iterator<Item = String> {
        let next = self.next.iter().map(|next| format!("next: {next}"));
        let headline = matches!(self.text, Text::Raw(_)).then(|| self.headline.clone());
        headline.into_iter().chain(self.attached.clone()).chain(self.notes.clone()).chain(next)
    }

    /// The structured content: what matters most first.
    pub(crate) fn structured(&self) -> Map<String, Value> {
        let mut structured = self.own_members();
        // A member that is there already keeps its position.
        let report = self.report.iter().flat_map(|report| &report.members);
        structured.extend(report.map(|(name, value)| (name.clone(), value.clone())));
        structured
    }

    // Without those of the whole report.
    fn own_members(&self) -> Map<String, Value> {
        let (leading, others): (Vec<_>, Vec<_>) = self.members.iter().partition(|(name, _)| LEADING.contains(name));
        let texts = |texts: &[String]| (!texts.is_empty()).then(|| Value::from(texts.to_vec()));
        let text = |text: &Option<String>| text.as_ref().map(|text| Value::from(text.as_str()));
        let headline = Some(self.headline.as_str()).filter(|headline| !headline.is_empty()).map(Value::from);
        let common = [("next", text(&self.next)), ("notes", texts(&self.notes)), ("attached", text(&self.attached))];
        let common = common.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let members = |members: Vec<&(&'static str, Value)>| members.into_iter().cloned().collect::<Vec<_>>();
        headline
            .map(|headline| ("headline", headline))
            .into_iter()
            .chain(members(leading))
            .chain(common)
            .chain(members(others))
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.to_owned(), without_nulls(value)))
            .collect()
    }

    /// Bytes of text and structured content together, without the runner's own output. A few more with a whole report, which
    /// replaces members.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks();
        let counted = blocks.iter().skip(usize::from(matches!(self.text, Text::Raw(_))));
        let text: usize = counted.map(String::len).sum();
        let report = self.report.as_ref().map_or(0, |report| report.bytes);
        text + report + serde_json::to_string(&self.own_members()).map_or(0, |json| json.len())
    }

    /// Converts to an MCP result. Failing tests are data, so this is never an error.
    pub(crate) fn into_result(self) -> CallToolResult {
        let mut content: Vec<ContentBlock> = self.blocks().into_iter().map(ContentBlock::text).collect();
        if let Some(picture) = &self.picture {
            content.push(ContentBlock::image(BASE64_STANDARD.encode(&picture.bytes), picture.mime));
            return CallToolResult::success(content);
        }
        let mut result = CallToolResult::success(content);
        result.structured_content = Some(Value::Object(self.structured()));
        result
    }
}

/// The result of a call of `tool` that could not be carried out. `is_private`: whether this process started the supervisor.
pub(crate) fn error_result(tool: &str, error: &CallError, is_private: bool) -> CallToolResult {
    tracing::info!(tool, ?error, "the call failed");
    CallToolResult::error(vec![ContentBlock::text(error.text(tool, is_private))])
}

/// Tests as structured content: names by package, in their order.
pub(crate) fn by_package(tests: &[TestId]) -> Value {
    let groups = tests.chunk_by(|a, b| a.package == b.package).map(|tests| {
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        json!({"package": tests[0].package, "names": names})
    });
    groups.collect()
}

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

    fn answer(text: Text) -> ToolAnswer {
        ToolAnswer {
            headline: "failed: 1 of 2 (go, 1.0s)".into(),
            text,
            report: None,
            members: vec![("run_id", json!("r1")), ("outcome", json!("failed")), ("failures", json!([{"at": null}]))],
            next: Some("run_failing_tests".into()),
            notes: vec!["careful".into()],
            attached: Some("attached, started 3s ago".into()),
            picture: None,
        }
    }

    #[test]
    fn structured_content_begins_with_what_matters() {
        let structured = answer(Text::Fixed("text".into())).structured();
        let names: Vec<&str> = structured.keys().map(String::as_str).collect();
        assert_eq!(names, ["headline", "outcome", "failures", "next", "notes", "attached", "run_id"]);
        assert_eq!(structured["failures"], json!([{}]), "nulls are left out at every depth");
    }

    #[test]
    fn a_composed_text_ends_with_its_trailer() {
        let text = "failed: 1 of 2 (go, 1.0s)\nattached, started 3s ago\n1. a/TestB\nnote: careful\n\
                    next: run_failing_tests\nexit: 1\n";
        let answer = answer(Text::Composed { body: "1. a/TestB\n".into(), trailer: "exit: 1\n".into() });
        assert_eq!(answer.blocks(), [text]);
    }

    #[test]
    fn a_fixed_text_stands_alone() {
        let second = "attached, started 3s ago\ncareful\nnext: run_failing_tests";
        assert_eq!(answer(Text::Fixed("text".into())).blocks(), ["text", second]);
        let second = format!("failed: 1 of 2 (go, 1.0s)\n{second}");
        let raw = answer(Text::Raw("text".into()));
        assert_eq!(raw.blocks(), ["text", second.as_str()]);
        assert_eq!(raw.bytes(), answer(Text::Raw("a longer text".into())).bytes(), "no budget shortens it");
    }

    #[test]
    fn a_picture_replaces_the_structured_content() {
        let picture = Some(Picture { bytes: vec![1], mime: "image/png" });
        let result = ToolAnswer { picture, ..answer(Text::Fixed("text".into())) }.into_result();
        assert!(result.structured_content.is_none());
        assert_eq!(result.content.len(), 3);
    }
}
