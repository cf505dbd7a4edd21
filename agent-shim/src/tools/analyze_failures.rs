//! The tool `analyze_failures`: what the failures of the last run have in common, and where to look first.

use super::Answer;
use super::tool_spec::ToolSpec;
use crate::answer::ToolAnswer;
use crate::answer::budget::{Detail, Draw, clip_end};
use crate::arguments::Arguments;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use crate::json_schema::{list, number, plain, string};
use proctor_proto::analysis_text::{self, confidence_name, location, suspect_lines};
use proctor_proto::printable::block;
use proctor_proto::text::outcome_name;
use proctor_proto::v1::{AnalyzeFailuresRequest, AnalyzeFailuresResponse, ErrorPattern, FailurePlace};
use proctor_proto::{reason, v1};
use serde_json::{Value, json};

/// Most patterns that may be requested.
const LIMIT_MAX: u32 = 500;

const DESCRIPTION: &str = "\
Why the last run failed: root cause, suspect lines, patterns, files, each with its evidence.";

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        title: "Why the last run failed",
        description: DESCRIPTION,
        input: vec![
            ("limit", number("Most patterns. Default 20.")),
            ("since", string("Also files changed since last_run, last_green or a git revision.")),
        ],
        required: &[],
        output: Some(vec![
            ("outcome", plain("string")),
            ("total", plain("number")),
            ("root_cause", plain("object")),
            ("further_causes", list(plain("object"))),
            ("error_patterns", list(plain("object"))),
            ("suggestions", list(plain("object"))),
            ("affected_files", list(plain("object"))),
            ("changed_files", plain("object")),
            ("suspects", plain("object")),
            ("failed_tests", list(plain("object"))),
            ("left_out", plain("object")),
        ]),
        read_only: true,
    }
}

pub(super) async fn call(call: &CallContext<'_>, arguments: &mut Arguments) -> Result<Answer, CallError> {
    let limit = arguments.count("limit", LIMIT_MAX)?.unwrap_or_default();
    let since = arguments.text("since")?.unwrap_or_default();
    let answer = call
        .request_in_session(|mut clients, session_id| {
            let request = AnalyzeFailuresRequest { session_id, limit, run_id: String::new(), since: since.clone() };
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
        let changed = changed_count(&self.0);
        let lists = [self.0.error_patterns.len(), self.0.suggestions.len(), self.0.affected_files.len(), changed];
        lists.into_iter().max().unwrap_or_default().max(1)
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let shown = shorten(&self.0, detail);
        let left_out = LeftOut::new(&self.0, &shown);
        let members = vec![
            ("outcome", outcome_name(shown.outcome()).into()),
            ("root_cause", shown.root_cause.as_ref().map_or(Value::Null, root_cause)),
            ("further_causes", present(shown.further_causes.iter().map(root_cause).collect())),
            ("error_patterns", shown.error_patterns.iter().map(error_pattern).collect()),
            ("suggestions", shown.suggestions.iter().map(suggestion).collect()),
            ("affected_files", shown.affected_files.iter().map(affected_file).collect()),
            ("suspects", shown.suspects.as_ref().map_or(Value::Null, suspects)),
            ("changed_files", shown.changed_files.as_ref().map_or(Value::Null, changed_files)),
            ("failed_tests", present(shown.failed_tests.iter().map(failed_test).collect())),
            ("total", shown.total.into()),
            ("analyzed", if shown.analyzed == shown.total { Value::Null } else { shown.analyzed.into() }),
            ("patterns_left_out", some(shown.patterns_left_out)),
            ("left_out", left_out.to_json()),
            ("found", shown.notes.clone().into()),
            ("run_id", shown.run_id.as_str().into()),
        ];
        let text = format!("{}{}", analysis_text::analysis(&shown), left_out.to_text());
        let answer = ToolAnswer::with_own_headline(text, members);
        if self.0.total > 0 { answer.with_next("run_failing_tests after a fix") } else { answer }
    }
}

fn changed_count(answer: &AnalyzeFailuresResponse) -> usize {
    answer.changed_files.as_ref().map_or(0, |changed| changed.files.len())
}

fn suspect_count(answer: &AnalyzeFailuresResponse) -> usize {
    answer.suspects.as_ref().map_or(0, |suspects| suspects.lines.len())
}

/// Numbers of what the supervisor's answer has and the drawn one has not. Patterns beyond are in `patterns_left_out`.
struct LeftOut([(&'static str, usize); 6]);

impl LeftOut {
    fn new(all: &AnalyzeFailuresResponse, shown: &AnalyzeFailuresResponse) -> LeftOut {
        LeftOut([
            ("further_causes", all.further_causes.len() - shown.further_causes.len()),
            ("suggestions", all.suggestions.len() - shown.suggestions.len()),
            ("affected_files", all.affected_files.len() - shown.affected_files.len()),
            ("changed_files", changed_count(all) - changed_count(shown)),
            ("suspect_lines", suspect_count(all) - suspect_count(shown)),
            ("failed_tests", all.failed_tests.len() - shown.failed_tests.len()),
        ])
    }

    fn present(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.0.iter().copied().filter(|(_, count)| *count > 0)
    }

    fn to_json(&self) -> Value {
        let counts: serde_json::Map<String, Value> =
            self.present().map(|(name, count)| (name.to_owned(), count.into())).collect();
        if counts.is_empty() { Value::Null } else { Value::Object(counts) }
    }

    fn to_text(&self) -> String {
        let counts: Vec<String> =
            self.present().map(|(name, count)| format!("{count} more {}", name.replace('_', " "))).collect();
        if counts.is_empty() {
            return String::new();
        }
        format!("({}: pass a larger max_tokens to see them)\n", counts.join(", "))
    }
}

/// Most bytes of a name or sentence, however small the budget: the least that tells one from another.
const NAME_BYTES_MIN: usize = 80;

/// Most bytes of the root cause's statement, however small the budget: it is what the answer is for.
const STATEMENT_BYTES_MIN: usize = 240;

/// Names of tests in a pattern of a short answer. Its frequency counts all.
const NAMES_SHORT: usize = 3;

// What fits: lists lose their ends, texts what is beyond a length. The answer counts the former, an ellipsis shows the latter.
fn shorten(all: &AnalyzeFailuresResponse, detail: &Detail) -> AnalyzeFailuresResponse {
    let (is_full, bytes) = (detail.stack_frames > 1, detail.message_bytes.max(NAME_BYTES_MIN));
    let names = if is_full { usize::MAX } else { NAMES_SHORT };
    let text = |text: &str| clip_end(text, bytes);
    let place = |place: &Option<FailurePlace>| {
        let place = place.as_ref()?;
        Some(FailurePlace { test: text(&place.test), file: place.file.as_deref().map(text), line: place.line })
    };
    let cause = |cause: &v1::RootCause| v1::RootCause {
        statement: text(&cause.statement),
        evidence: place(&cause.evidence),
        ..cause.clone()
    };
    let pattern = |pattern: &ErrorPattern| ErrorPattern {
        message: clip_end(&block(&pattern.message), detail.message_bytes),
        test_names: pattern.test_names.iter().take(names).map(|name| text(name)).collect(),
        evidence: place(&pattern.evidence),
        suggestion: String::new(),
        ..pattern.clone()
    };
    let suggestion =
        |one: &v1::Suggestion| v1::Suggestion { text: text(&one.text), evidence: place(&one.evidence), ..one.clone() };
    let file = |file: &v1::AffectedFile| v1::AffectedFile { path: text(&file.path), ..file.clone() };
    let failed = |one: &v1::FailedTest| v1::FailedTest { place: place(&one.place), ..one.clone() };
    let changed = |changed: &v1::ChangedFiles| v1::ChangedFiles {
        files: changed.files.iter().take(detail.items).cloned().collect(),
        ..changed.clone()
    };
    let suspect = |one: &v1::Suspect| v1::Suspect {
        path: text(&one.path),
        function: text(&one.function),
        source: text(&one.source),
        failed_tests: Vec::new(),
        passed_tests: Vec::new(),
        ..one.clone()
    };
    let suspects = |all: &v1::Suspects| v1::Suspects {
        lines: all.lines.iter().take(detail.items).map(suspect).collect(),
        ..all.clone()
    };
    let patterns: Vec<ErrorPattern> = all.error_patterns.iter().take(detail.items).map(pattern).collect();
    let root = all.root_cause.as_ref().map(|root| v1::RootCause {
        statement: clip_end(&root.statement, bytes.max(STATEMENT_BYTES_MIN)),
        ..cause(root)
    });
    let further = if is_full { usize::MAX } else { detail.stack_frames };
    AnalyzeFailuresResponse {
        patterns_left_out: all.patterns_left_out + (all.error_patterns.len() - patterns.len()) as u64,
        error_patterns: patterns,
        suggestions: all.suggestions.iter().take(detail.items).map(suggestion).collect(),
        affected_files: all.affected_files.iter().take(detail.items).map(file).collect(),
        failed_tests: all.failed_tests.iter().take(if is_full { detail.items } else { 0 }).map(failed).collect(),
        further_causes: all.further_causes.iter().take(further).map(cause).collect(),
        changed_files: all.changed_files.as_ref().map(changed),
        suspects: all.suspects.as_ref().map(suspects),
        run_id: all.run_id.clone(),
        framework: all.framework.clone(),
        root_cause: root,
        notes: all.notes.iter().map(|note| text(note)).collect(),
        ..*all
    }
}

fn some(count: u64) -> Value {
    if count == 0 { Value::Null } else { count.into() }
}

// Without an empty list, which a short answer has no room for.
fn present(list: Vec<Value>) -> Value {
    if list.is_empty() { Value::Null } else { list.into() }
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

// A member that is there only if it is true.
fn flag(is_set: bool) -> Value {
    if is_set { Value::Bool(true) } else { Value::Null }
}

fn root_cause(cause: &v1::RootCause) -> Value {
    json!({
        "statement": cause.statement,
        "confidence": confidence_name(cause.confidence()),
        "type": text(&cause.r#type),
        "at": at(cause.evidence.as_ref()),
        "test": test(cause.evidence.as_ref()),
        "failures": cause.failures,
        "sandbox": flag(cause.is_sandbox),
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
        "consequence": flag(pattern.is_consequence),
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
        "edited": flag(file.is_edited),
        "missing": flag(file.is_missing),
    })
}

fn suspects(suspects: &v1::Suspects) -> Value {
    let suspect = |one: &v1::Suspect| {
        json!({
            "at": suspect_lines(one),
            "function": text(&one.function),
            "source": text(&one.source),
            "failed": one.failed,
            "passed": one.passed,
            "in_stacks": some(one.in_stacks),
            "edited": flag(one.is_edited),
        })
    };
    json!({
        "measure": suspects.measure,
        "failed_tests": suspects.failed_tests,
        "passed_tests": suspects.passed_tests,
        "lines": suspects.lines.iter().map(suspect).collect::<Vec<_>>(),
    })
}

fn changed_files(changed: &v1::ChangedFiles) -> Value {
    let file = |file: &v1::ChangedFile| {
        json!({
            "path": file.path,
            "change": file.change,
            "in_stacks": some(file.in_stacks),
            "covered": flag(file.is_covered),
            "imported": flag(file.is_imported),
        })
    };
    json!({
        "since": changed.since,
        "files": changed.files.iter().map(file).collect::<Vec<_>>(),
        "left_out": some(changed.left_out),
        "notes": changed.notes,
    })
}

fn failed_test(failed: &v1::FailedTest) -> Value {
    json!({
        "name": test(failed.place.as_ref()),
        "at": at(failed.place.as_ref()),
        "type": failed.r#type,
    })
}
