//! Workflow commands of GitHub Actions: an annotation for each failure, at its file and line. Format:
//! docs.github.com, "Workflow commands for GitHub Actions".

use super::ReportInput;
use super::budget::{Budget, cut};
use super::entries::{Entry, entries, headline};
use crate::grpc::convert;
use proctor_core::check::{CheckReport, Finding, Range, Severity};
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_proto::check_text;
use proctor_proto::printable::{block, line};
use std::fmt::Write as _;

/// Annotations of failures. GitHub shows ten of a step and fifty of a job.
const FAILURES_MAX: usize = 50;

/// Bytes of a message: GitHub cuts those of more than 4 KiB.
const MESSAGE_BYTES: usize = 4 * 1_024;

/// Bytes of a title or a path.
const NAME_BYTES: usize = 512;

pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> String {
    let report = input.report;
    if let Some(check) = &report.check {
        return render_check(report, check, bytes_max);
    }
    let level = if report.outcome == Outcome::Passed { "notice" } else { "error" };
    let mut text = format!("::{level} title=proctor::{}\n", data(&line(&headline(report))));
    let mut budget = Budget::new(bytes_max);
    for (number, entry) in entries(report).iter().filter(|entry| entry.is_own_failure()).enumerate() {
        let command = annotation(entry);
        if number >= FAILURES_MAX {
            budget.count(entry.status);
        } else if budget.take_entry(entry, command.len()) {
            text.push_str(&command);
        }
    }
    let left_out = budget.left_out().failures + report.own_failures_left_out() + report.truncated.collectors;
    if left_out > 0 {
        let _ = writeln!(text, "::warning title=proctor::{left_out} further failures have no annotation");
    }
    text
}

// Findings of linters and type checkers, the most serious first: GitHub shows the first ones.
fn render_check(report: &Report, check: &CheckReport, bytes_max: usize) -> String {
    let shown = convert::report(report);
    let level = if report.outcome == Outcome::Passed { "notice" } else { "error" };
    let mut text = format!("::{level} title=proctor::{}\n", data(&line(&check_text::headline(&shown))));
    for checker in shown.check.iter().flat_map(check_text::unfinished) {
        let reason = check_text::reason(checker);
        let _ = writeln!(text, "::error title=proctor::{}", data(cut(&reason, MESSAGE_BYTES)));
    }
    let mut findings: Vec<&Finding> = check.findings.iter().collect();
    findings.sort_by_key(|finding| finding.severity);
    let mut annotated = 0;
    for finding in findings.iter().take(FAILURES_MAX) {
        let command = finding_annotation(finding);
        if text.len() + command.len() > bytes_max {
            break;
        }
        text.push_str(&command);
        annotated += 1;
    }
    let left_out = check.total().saturating_sub(annotated);
    if left_out > 0 {
        let _ = writeln!(text, "::warning title=proctor::{left_out} further findings have no annotation");
    }
    text
}

fn finding_annotation(finding: &Finding) -> String {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let mut command = format!("::{level} file={}", property(cut(&finding.file, NAME_BYTES)));
    let Range { line, column, end_line, end_column } = finding.range;
    for (name, number) in [("line", line), ("col", column), ("endLine", end_line), ("endColumn", end_column)] {
        if number > 0 {
            let _ = write!(command, ",{name}={number}");
        }
    }
    let title = format!("{} {}", finding.checker, finding.rule);
    let title = property(cut(title.trim_end(), NAME_BYTES));
    let message = block(&finding.message);
    let _ = writeln!(command, ",title={title}::{}", data(cut(&message, MESSAGE_BYTES)));
    command
}

fn annotation(entry: &Entry<'_>) -> String {
    let mut command = String::from("::error ");
    if let Some(file) = entry.file {
        let _ = write!(command, "file={},", property(cut(file, NAME_BYTES)));
        if let Some(line) = entry.line {
            let _ = write!(command, "line={line},");
        }
    }
    let marks = entry.marks().iter().map(|mark| format!(" ({mark})")).collect::<String>();
    let name = format!("{} {}", entry.suite, entry.name);
    let title = format!("{}{marks}", cut(&name, NAME_BYTES));
    let mut message = block(&entry.message).into_owned();
    if let Some(details) = entry.details() {
        if !message.is_empty() {
            message.push('\n');
        }
        message.push_str(&details);
    }
    if message.is_empty() {
        message = entry.kind.replace('_', " ");
    }
    let _ = writeln!(command, "title={}::{}", property(&title), data(cut(&message, MESSAGE_BYTES)));
    command
}

// The text of a command: a line end would begin another command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

// The value of a property, which a colon or comma would end.
fn property(text: &str) -> String {
    data(&line(text)).replace(':', "%3A").replace(',', "%2C")
}
