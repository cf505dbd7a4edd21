//! Workflow commands of GitHub Actions: an annotation for each failure, at its file and line. Format:
//! docs.github.com, "Workflow commands for GitHub Actions".

use super::ReportInput;
use super::budget::{Budget, LeftOut, cut};
use super::entries::{Entry, entries, headline};
use proctor_core::outcome::Outcome;
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
    let level = if report.outcome == Outcome::Passed { "notice" } else { "error" };
    let mut text = format!("::{level} title=proctor::{}\n", data(&line(&headline(report))));
    let mut budget = Budget::new(bytes_max);
    for (number, entry) in entries(report).iter().filter(|entry| entry.is_failure()).enumerate() {
        let command = annotation(entry);
        if number >= FAILURES_MAX {
            budget.count(entry.status);
        } else if budget.take_entry(entry, command.len()) {
            text.push_str(&command);
        }
    }
    let left_out = budget.left_out().failures + LeftOut::of_report(report).failures;
    if left_out > 0 {
        let _ = writeln!(text, "::warning title=proctor::{left_out} further failures have no annotation");
    }
    text
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
