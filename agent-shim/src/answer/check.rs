//! The answer for an ended check, drawn from the report in its last event.

use super::budget::{Detail, Draw, clip_end, last_lines};
use super::{Text, ToolAnswer, next_call, run_text};
use crate::run_follower::EndedRun;
use proctor_proto::printable::line;
use proctor_proto::v1::{CheckKind, CheckReport, CheckerState, Finding, Outcome, Report};
use proctor_proto::{check_text, text};
use serde_json::{Value, json};

/// Most notes shown, and most bytes of each.
const NOTES_MAX: usize = 5;
const NOTE_BYTES_MAX: usize = 400;

/// Most bytes of the end of stderr that is shown where no checker says why it has no verdict.
const TAIL_BYTES_MAX: usize = 1_500;

/// Most bytes of a fix.
const FIX_BYTES_MAX: usize = 400;

/// Most files that a proposed call names.
const FILES_MAX: usize = 5;

/// The answer for one ended check.
pub(crate) struct CheckAnswer {
    ended: EndedRun,
    leading: Vec<(&'static str, Value)>,
}

impl CheckAnswer {
    pub(crate) fn new(ended: EndedRun) -> CheckAnswer {
        CheckAnswer { ended, leading: Vec::new() }
    }

    /// Adds members that stand before those of the check.
    #[must_use]
    pub(crate) fn with_members(self, leading: Vec<(&'static str, Value)>) -> CheckAnswer {
        CheckAnswer { leading, ..self }
    }

    fn report(&self) -> &Report {
        &self.ended.report
    }

    fn findings(&self) -> &[Finding] {
        self.report().check.as_ref().map_or(&[], |check| &check.findings)
    }

    // The end of stderr, where nothing else says why there is no verdict.
    fn tail(&self, detail: &Detail) -> String {
        let report = self.report();
        let is_explained = matches!(report.outcome(), Outcome::Passed | Outcome::Failed | Outcome::Cancelled)
            || report
                .check
                .as_ref()
                .is_some_and(|check| check_text::unfinished(check).any(|checker| !checker.reason.is_empty()));
        let bytes = if is_explained { 0 } else { detail.output_bytes.min(TAIL_BYTES_MAX) };
        run_text::tail(last_lines(&report.stderr_tail, bytes))
    }

    fn notes(&self, left_out: u64) -> Vec<String> {
        let report = self.report();
        let evidence = report.evidence.as_ref();
        let notes = evidence.map(|evidence| text::merge_repeated_notes(&evidence.notes)).unwrap_or_default();
        let more = notes.len().saturating_sub(NOTES_MAX);
        let listed = notes.iter().take(NOTES_MAX).map(|note| clip_end(&line(note), NOTE_BYTES_MAX));
        let unlisted = report.check.as_ref().map_or(0, |check| check.findings_left_out);
        let beyond = (unlisted > 0).then(|| format!("{unlisted} more findings were counted and not kept"));
        let cut = (left_out > 0).then(|| format!("{left_out} findings not shown: pass a larger max_tokens, or files"));
        let other = report.check.as_ref().and_then(check_text::elsewhere);
        let more = (more > 0).then(|| format!("{more} more notes: the JSON report has them"));
        cut.into_iter().chain(beyond).chain(other).chain(listed).chain(more).collect()
    }

    // The same tool again, on the files that are to be changed.
    fn next(&self) -> Option<String> {
        let check = self.report().check.as_ref()?;
        let tool = match check.checkers.first()?.kind() {
            CheckKind::Typecheck => "run_typecheck",
            CheckKind::Lint | CheckKind::Unspecified => "run_lint",
        };
        if check_text::unfinished(check).any(|checker| checker.state() != CheckerState::Partial) {
            return Some(format!("{tool} once that is mended"));
        }
        let mut files: Vec<&str> = check.findings.iter().map(|finding| finding.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        match (self.report().outcome(), files.len()) {
            (Outcome::Failed, 1..=FILES_MAX) => Some(format!("{} after a fix", next_call::check_files(tool, &files))),
            (Outcome::Failed, _) => Some(format!("{tool} after a fix")),
            _ => None,
        }
    }
}

impl Draw for CheckAnswer {
    fn items(&self) -> usize {
        self.findings().len().max(1)
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let report = self.report();
        let none = CheckReport::default();
        let check = report.check.as_ref().unwrap_or(&none);
        let shown = &check.findings[..check.findings.len().min(detail.items)];
        let left_out = (check.findings.len() - shown.len()) as u64;
        let drawn: Vec<DrawnFinding<'_>> =
            shown.iter().enumerate().map(|(number, finding)| DrawnFinding::new(finding, number, detail)).collect();
        let reasons: Vec<String> = check_text::unfinished(check)
            .map(|checker| clip_end(&check_text::reason(checker), detail.message_bytes.max(NOTE_BYTES_MAX)))
            .collect();
        let tail = self.tail(detail);
        let mut members = self.leading.clone();
        members.extend([
            ("outcome", Value::from(text::outcome_name(report.outcome()))),
            (
                "findings",
                if drawn.is_empty() { Value::Null } else { drawn.iter().map(DrawnFinding::to_json).collect() },
            ),
            ("no_verdict", if reasons.is_empty() { Value::Null } else { reasons.clone().into() }),
            ("left_out", if left_out > 0 { left_out.into() } else { Value::Null }),
            ("exit_code", report.exit_code.into()),
            ("run_id", self.ended.run_id.as_str().into()),
            ("stderr_tail", if tail.is_empty() { Value::Null } else { tail.as_str().into() }),
        ]);
        let body: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
        let body = drawn.iter().fold(body, |body, finding| body + &finding.to_text());
        ToolAnswer {
            headline: check_text::headline(report),
            text: Text::Composed {
                body: body + &run_text::streams(&[("stderr_tail", tail)]),
                trailer: text::run_trailer(report),
            },
            members,
            report: None,
            next: self.next(),
            notes: self.notes(left_out),
            attached: self.ended.attached_age_ms.map(|age| format!("attached, started {}", text::ago(age))),
            picture: None,
        }
    }
}

/// A finding as far as its answer has room for it.
struct DrawnFinding<'a> {
    finding: &'a Finding,
    message: String,
    fix: Option<String>,
}

impl DrawnFinding<'_> {
    fn new<'a>(finding: &'a Finding, number: usize, detail: &Detail) -> DrawnFinding<'a> {
        // Every finding is one of few words: the first line of the last ones stays.
        let bytes = if number < detail.explained { detail.message_bytes } else { detail.message_bytes.min(80) };
        let fix = check_text::fix(finding).filter(|_| detail.stack_frames > 0);
        DrawnFinding {
            finding,
            message: clip_end(&finding.message, bytes),
            fix: fix.map(|fix| clip_end(&fix, bytes.min(FIX_BYTES_MAX))),
        }
    }

    fn to_text(&self) -> String {
        let shown = Finding { message: self.message.clone(), ..self.finding.clone() };
        let place = check_text::place(&shown);
        let new = if shown.new { " (new)" } else { "" };
        let fix = self.fix.as_ref().map(|fix| format!("   fix: {}\n", indented(fix))).unwrap_or_default();
        let what = indented(&check_text::what(&shown));
        format!("{place}: {what} [{}]{new}\n{fix}", line(&shown.checker))
    }

    fn to_json(&self) -> Value {
        let finding = self.finding;
        json!({
            "at": check_text::place(finding),
            "severity": check_text::severity_name(finding.severity()),
            "rule": (!finding.rule.is_empty()).then_some(&finding.rule),
            "message": self.message,
            "checker": finding.checker,
            "fix": self.fix,
            "new": finding.new.then_some(true),
        })
    }
}

// Further lines stand below the first one.
fn indented(text: &str) -> String {
    proctor_proto::printable::block(text).trim_end().replace('\n', "\n   ")
}
