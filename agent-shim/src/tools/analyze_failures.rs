//! The tool `analyze_failures`: what the failures of the last run have in common, and where to look first.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::ToolAnswer;
use crate::answer::budget::{Detail, Draw, clip_end};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{list, number, plain};
use proctor_proto::analysis_text::{self, confidence_name, location};
use proctor_proto::printable::block;
use proctor_proto::text::outcome_name;
use proctor_proto::v1::{AnalyzeFailuresRequest, AnalyzeFailuresResponse, ErrorPattern, FailurePlace};
use proctor_proto::{reason, v1};
use serde_json::{Value, json};

/// Most patterns that may be requested.
const LIMIT_MAX: u32 = 500;

const DESCRIPTION: &str = "\
Why the last run failed: root cause, patterns, files, with evidence and how sure each is. Use it when several tests fail.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Why the last run failed",
        description: DESCRIPTION,
        input: vec![("limit", number("Most patterns. Default 20."))],
        required: &[],
        output: Some(vec![
            ("root_cause", plain("object")),
            ("error_patterns", list(plain("object"))),
            ("suggestions", list(plain("object"))),
            ("affected_files", list(plain("object"))),
        ]),
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let limit = arguments.count("limit", LIMIT_MAX)?.unwrap_or_default();
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = AnalyzeFailuresRequest { session_id, limit, run_id: String::new() };
            async move { Ok(clients.results.analyze_failures(request).await?.into_inner()) }
        })
        .await;
    match answer {
        Ok(answer) => Ok(Box::new(FailureAnalysis(answer))),
        Err(error) if error.reason().is_some_and(|reason| reason.name == reason::NO_RUN_YET) => {
            Ok(Box::new(ToolAnswer::no_run_yet()))
        }
        Err(error) => Err(error),
    }
}

/// The analysis of the last run.
struct FailureAnalysis(AnalyzeFailuresResponse);

impl Draw for FailureAnalysis {
    fn items(&self) -> usize {
        let lists = [self.0.error_patterns.len(), self.0.suggestions.len(), self.0.affected_files.len()];
        lists.into_iter().max().unwrap_or_default().max(1)
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let shown = shorten(&self.0, detail);
        let members = vec![
            ("outcome", outcome_name(shown.outcome()).into()),
            ("root_cause", shown.root_cause.as_ref().map_or(Value::Null, root_cause)),
            ("error_patterns", shown.error_patterns.iter().map(error_pattern).collect()),
            ("suggestions", shown.suggestions.iter().map(suggestion).collect()),
            ("affected_files", shown.affected_files.iter().map(affected_file).collect()),
            ("failed_tests", shown.failed_tests.iter().map(failed_test).collect()),
            ("total", shown.total.into()),
            ("patterns_left_out", some(shown.patterns_left_out)),
            ("found", shown.notes.clone().into()),
            ("run_id", shown.run_id.as_str().into()),
        ];
        let answer = ToolAnswer::with_own_headline(analysis_text::analysis(&shown), members);
        if self.0.total > 0 { answer.with_next("run_failing_tests after a fix") } else { answer }
    }
}

// What fits: patterns beyond are counted, names of tests are those of the text at the least.
fn shorten(all: &AnalyzeFailuresResponse, detail: &Detail) -> AnalyzeFailuresResponse {
    let names = if detail.stack_frames > 1 { usize::MAX } else { 3 };
    let pattern = |pattern: &ErrorPattern| ErrorPattern {
        message: clip_end(&block(&pattern.message), detail.message_bytes),
        test_names: pattern.test_names.iter().take(names).cloned().collect(),
        suggestion: String::new(),
        ..pattern.clone()
    };
    let patterns: Vec<ErrorPattern> = all.error_patterns.iter().take(detail.items).map(pattern).collect();
    let failed = if detail.stack_frames > 1 { detail.items } else { 0 };
    AnalyzeFailuresResponse {
        patterns_left_out: all.patterns_left_out + (all.error_patterns.len() - patterns.len()) as u64,
        error_patterns: patterns,
        suggestions: all.suggestions.iter().take(detail.items).cloned().collect(),
        affected_files: all.affected_files.iter().take(detail.items).cloned().collect(),
        failed_tests: all.failed_tests.iter().take(failed).cloned().collect(),
        run_id: all.run_id.clone(),
        framework: all.framework.clone(),
        root_cause: all.root_cause.clone(),
        notes: all.notes.clone(),
        ..*all
    }
}

fn some(count: u64) -> Value {
    if count == 0 { Value::Null } else { count.into() }
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::Null } else { text.into() }
}

fn at(place: Option<&FailurePlace>) -> Value {
    place.map_or(Value::Null, |place| text(&location(place)))
}

fn test(place: Option<&FailurePlace>) -> Value {
    place.map_or(Value::Null, |place| text(&place.test))
}

fn root_cause(cause: &v1::RootCause) -> Value {
    json!({
        "statement": cause.statement,
        "confidence": confidence_name(cause.confidence()),
        "type": text(&cause.r#type),
        "at": at(cause.evidence.as_ref()),
        "test": test(cause.evidence.as_ref()),
        "failures": cause.failures,
        "sandbox": if cause.is_sandbox { Value::Bool(true) } else { Value::Null },
    })
}

fn error_pattern(pattern: &ErrorPattern) -> Value {
    json!({
        "type": pattern.r#type,
        "message": pattern.message,
        "frequency": pattern.frequency,
        "test_names": pattern.test_names,
        "at": at(pattern.evidence.as_ref()),
        "confidence": confidence_name(pattern.confidence()),
        "consequence": if pattern.is_consequence { Value::Bool(true) } else { Value::Null },
    })
}

fn suggestion(suggestion: &v1::Suggestion) -> Value {
    json!({
        "text": suggestion.text,
        "confidence": confidence_name(suggestion.confidence()),
        "at": at(suggestion.evidence.as_ref()),
        "test": test(suggestion.evidence.as_ref()),
    })
}

fn affected_file(file: &v1::AffectedFile) -> Value {
    json!({
        "path": file.path,
        "failures": file.failures,
        "edited": if file.is_edited { Value::Bool(true) } else { Value::Null },
    })
}

fn failed_test(failed: &v1::FailedTest) -> Value {
    json!({
        "name": test(failed.place.as_ref()),
        "at": at(failed.place.as_ref()),
        "type": failed.r#type,
    })
}
