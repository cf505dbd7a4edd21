//! Renders a report for a person at a terminal: failures by cause, then a summary, a one-line verdict and the next command.
//! Colours are removed later if stdout is no terminal.

use super::failure_groups::failure_groups;
use super::run_summary::{RunView, next_command, summary};
use proctor_core::human_units::format_bytes;
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use proctor_proto::difference::{self, LineKind};
use proctor_proto::printable::{block, cut, line};
use proctor_proto::text::merge_repeated_notes;
use std::fmt::Write as _;

/// Failures shown in full, one for each cause; the rest is counted.
pub(super) const FAILURES_SHOWN: usize = 20;

/// Artifacts listed; the report has all.
const ARTIFACTS_SHOWN: usize = 10;

/// Lines shown of a message or of trailing output.
const LINES_SHOWN: usize = 12;

/// Columns shown of a line.
const COLUMNS_SHOWN: usize = 400;

/// Renders a report.
pub(super) fn report(report: &Report, view: &RunView<'_>) -> String {
    let mut text = String::new();
    failure_groups(&mut text, report, view.analysis);
    let unexplained =
        !report.tests.iter().any(|test| test.outcome.is_failure() && (test.message.is_some() || test.file.is_some()))
            && report.collectors.is_empty();
    if !matches!(report.outcome, Outcome::Passed | Outcome::NoTests) && unexplained && !view.output_seen {
        output_tail(&mut text, report);
    }
    for test in &report.evidence.running {
        let _ = writeln!(text, "running when it was cut off: {}", line(&test.full_name()));
        let hung = report.evidence.hung.iter().find(|hung| hung.test == *test);
        for frame in hung.iter().flat_map(|hung| hung.stack.lines()).take(LINES_SHOWN) {
            let _ = writeln!(text, "   {}", cut(&line(frame), COLUMNS_SHOWN));
        }
    }
    for hit in &report.evidence.limit_hits {
        let (peak, max) = (hit.limit.format_value(hit.peak), hit.limit.format_value(hit.max));
        let times = if hit.count == 1 { "once".to_owned() } else { format!("{} times", hit.count) };
        let _ = writeln!(text, "limit {} reached: {peak} of {max} ({times})", hit.limit.name());
    }
    for artifact in report.artifacts.iter().take(ARTIFACTS_SHOWN) {
        let (kind, bytes) = (artifact.kind.name(), format_bytes(artifact.bytes));
        let _ = writeln!(text, "{} {}", dim(&format!("{kind}, {bytes}:")), line(&artifact.name));
    }
    if !report.artifacts.is_empty() {
        let all = report.artifacts.len();
        let _ = writeln!(text, "{all} file(s) were left: `proctor report --artifact NAME --out FILE`\n");
    }
    notes_and_layers(&mut text, report);
    text.push_str(&affected(report));
    text.push_str(&summary(report, view));
    text.push_str(&verdict(report));
    text.push_str(&next_command(report, view));
    text
}

/// Renders the notes of a run, and the layers that were not in force.
pub(super) fn notes_and_layers(text: &mut String, report: &Report) {
    for (kind, notes) in [("note", &report.evidence.notes), ("coverage", &report.coverage.notes)] {
        for note in merge_repeated_notes(notes) {
            let _ = writeln!(text, "{kind}: {}", line(&note));
        }
    }
    for missing in &report.isolation.missing {
        let missing = format!("{}: {}; {}", missing.name, missing.reason, missing.remedy);
        let _ = writeln!(text, "{} {}", dim("not in force:"), line(&missing));
    }
}

/// Renders one failure, without an empty line at its end.
pub(super) fn collector_block(text: &mut String, collector: &Collector) {
    let what = match collector.kind {
        CollectorKind::Build => "✗ did not build",
        CollectorKind::Collection => "✗ could not be collected",
    };
    let _ = writeln!(text, "{} {}", red(what), bold(&line(&collector.nodeid)));
    location(text, collector.file.as_deref(), collector.line);
    message_lines(text, &collector.message);
}

/// Renders one failure, without an empty line at its end.
pub(super) fn failure_block(text: &mut String, test: &TestCase) {
    let _ = writeln!(text, "{} {}", red("✗"), bold(&line(&test.nodeid)));
    location(text, test.file.as_deref(), test.line);
    message_lines(text, test.message.as_deref().unwrap_or_default());
    for entry in difference::lines(test.actual.as_deref(), test.expected.as_deref()) {
        let entry = match entry.kind {
            LineKind::Same => entry.text,
            LineKind::Got => red(&entry.text),
            LineKind::Want => green(&entry.text),
            LineKind::Note => dim(&entry.text),
        };
        let _ = writeln!(text, "  {entry}");
    }
}

fn location(text: &mut String, file: Option<&str>, number: Option<u32>) {
    if let Some(file) = file {
        let number = number.map_or_else(String::new, |number| format!(":{number}"));
        let _ = writeln!(text, "  {}", cyan(&format!("{}{number}", line(file))));
    }
}

fn message_lines(text: &mut String, message: &str) {
    let message = block(message);
    for line in message.lines().take(LINES_SHOWN) {
        let _ = writeln!(text, "  {}", cut(line, COLUMNS_SHOWN));
    }
    let more = message.lines().count().saturating_sub(LINES_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "  … {more} more lines");
    }
}

// If no test explains the result, shows the end of the output.
fn output_tail(text: &mut String, report: &Report) {
    let streams = [
        ("stdout", &report.stdout_tail, report.truncated.stdout_bytes),
        ("stderr", &report.stderr_tail, report.truncated.stderr_bytes),
    ];
    for (name, tail, left_out) in streams {
        let tail = block(tail);
        // The first line may be incomplete.
        let lines: Vec<&str> =
            tail.lines().skip(usize::from(left_out > 0)).filter(|line| !is_json_event(line, report)).collect();
        if lines.iter().all(|line| line.trim().is_empty()) {
            continue;
        }
        let _ = writeln!(text, "{}", dim(&format!("last of {name}:")));
        for line in &lines[lines.len().saturating_sub(LINES_SHOWN)..] {
            let _ = writeln!(text, "  {}", cut(line, COLUMNS_SHOWN));
        }
    }
}

// If stdout is a stream of JSON events (Go), its lines are for parsers.
fn is_json_event(line: &str, report: &Report) -> bool {
    report.structured && line.starts_with('{') && line.ends_with('}')
}

// What a run of affected tests selected, and why the others were left out.
fn affected(report: &Report) -> String {
    let Some(affected) = &report.affected else { return String::new() };
    if let Some(reason) = &affected.full_reason {
        return format!("all tests ran: {}\n", line(reason));
    }
    let reasons: Vec<String> =
        affected.reasons.iter().map(|count| format!("{} {}", count.tests, count.reason)).collect();
    let mut text = format!("affected since {}: {}\n", line(&affected.since), reasons.join(", "));
    if affected.left_out > 0 {
        let _ = writeln!(text, "{} left out: {}", affected.left_out, line(&affected.safe_because));
    }
    text
}

fn verdict(report: &Report) -> String {
    let summary = &report.summary;
    let mut parts = match report.raw_exit_code {
        Some(code) if !report.structured => vec![format!("exit status {code}")],
        _ => vec![format!("{} passed", summary.passed)],
    };
    let counts = [
        // As many as are shown: a parent that failed only because of its subtest is not.
        (summary.failed.saturating_sub(report.failed_parents), "failed"),
        (report.failed_parents, "failed by a subtest"),
        (summary.error, "errors"),
        (summary.skipped, "skipped"),
        (summary.xfailed, "failed as expected"),
        (summary.xpassed, "passed unexpectedly"),
    ];
    parts.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    if let Some(affected) = report.affected.as_ref().filter(|affected| affected.full_reason.is_none()) {
        parts.push(format!("{} affected of {}", summary.total, summary.total + affected.left_out));
    }
    if report.partial {
        parts.push("partial".to_owned());
    }
    let word = report.outcome.name().replace('_', " ");
    let word =
        if report.outcome == Outcome::Passed { green(&format!("✓ {word}")) } else { red(&format!("✗ {word}")) };
    let resources = &report.resources;
    let memory =
        resources.memory_peak_bytes.map_or_else(String::new, |bytes| format!(", {} peak", format_bytes(bytes)));
    let cpu = resources.cpu_user_s + resources.cpu_system_s;
    format!("{word}: {} ({}, {:.1}s, {cpu:.1}s cpu{memory})\n", parts.join(", "), report.framework, report.duration_s)
}

fn paint(code: &str, text: &str) -> String {
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// `text` in red.
pub(super) fn red(text: &str) -> String {
    paint("31", text)
}

/// `text` in green.
pub(super) fn green(text: &str) -> String {
    paint("32", text)
}

/// `text` in yellow.
pub(super) fn yellow(text: &str) -> String {
    paint("33", text)
}

/// `text` in cyan.
pub(super) fn cyan(text: &str) -> String {
    paint("36", text)
}

/// `text` in bold.
pub(super) fn bold(text: &str) -> String {
    paint("1", text)
}

/// `text` in a faint colour.
pub(super) fn dim(text: &str) -> String {
    paint("2", text)
}

#[cfg(test)]
mod tests;
