//! A report for a person at a terminal: what failed and where, then one line that says it all. Colours are taken away
//! again when nobody would see them. Must not know where a report comes from.

use proctor_core::human_units::format_bytes;
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use proctor_proto::difference::{self, Kind};
use proctor_proto::printable::{block, cut, line};
use proctor_proto::text::folded;
use std::fmt::Write as _;

/// Failures shown in full; the rest is counted.
const FAILURES_SHOWN: usize = 20;

/// Files that the run left which are named; the report has all.
const ARTIFACTS_SHOWN: usize = 10;

/// Lines of a message or of the last output that are shown.
const LINES_SHOWN: usize = 12;

/// Columns of a line that are shown.
const COLUMNS_SHOWN: usize = 400;

/// The text of a report. Where `output_seen`, all that the run wrote has been shown already.
pub(super) fn report(report: &Report, output_seen: bool) -> String {
    let mut text = String::new();
    for collector in report.collectors.iter().take(FAILURES_SHOWN) {
        collector_block(&mut text, collector);
    }
    and_more(&mut text, report.collectors.len());
    let failing: Vec<&TestCase> = report.tests.iter().filter(|test| test.outcome.is_failure()).collect();
    let telling: Vec<&TestCase> =
        failing.iter().copied().filter(|test| test.message.is_some() || test.file.is_some()).collect();
    let shown = if telling.is_empty() { &failing } else { &telling };
    for test in shown.iter().take(FAILURES_SHOWN) {
        failure_block(&mut text, test);
    }
    and_more(&mut text, shown.len());
    let unexplained = shown.is_empty() && report.collectors.is_empty();
    if !matches!(report.outcome, Outcome::Passed | Outcome::NoTests) && unexplained && !output_seen {
        last_words(&mut text, report);
    }
    for test in &report.evidence.running {
        let _ = writeln!(text, "running when it was cut off: {}", line(&format!("{}/{}", test.package, test.name)));
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
    for (kind, notes) in [("note", &report.evidence.notes), ("coverage", &report.coverage.notes)] {
        for note in folded(notes) {
            let _ = writeln!(text, "{kind}: {}", line(&note));
        }
    }
    for missing in &report.isolation.missing {
        let missing = format!("{}: {}; {}", missing.name, missing.reason, missing.remedy);
        let _ = writeln!(text, "{} {}", dim("not in force:"), line(&missing));
    }
    text.push_str(&verdict(report));
    text
}

fn and_more(text: &mut String, all: usize) {
    let more = all.saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "… and {more} more: `proctor failures --limit 500`\n");
    }
}

fn collector_block(text: &mut String, collector: &Collector) {
    let what = match collector.kind {
        CollectorKind::Build => "✗ did not build",
        CollectorKind::Collection => "✗ could not be collected",
    };
    let _ = writeln!(text, "{} {}", red(what), bold(&line(&collector.nodeid)));
    place(text, collector.file.as_deref(), collector.line);
    lines(text, &collector.message);
    text.push('\n');
}

fn failure_block(text: &mut String, test: &TestCase) {
    let _ = writeln!(text, "{} {}", red("✗"), bold(&line(&test.nodeid)));
    place(text, test.file.as_deref(), test.line);
    lines(text, test.message.as_deref().unwrap_or_default());
    for told in difference::lines(test.actual.as_deref(), test.expected.as_deref()) {
        let told = match told.kind {
            Kind::Same => told.text,
            Kind::Got => red(&told.text),
            Kind::Want => green(&told.text),
            Kind::About => dim(&told.text),
        };
        let _ = writeln!(text, "  {told}");
    }
    text.push('\n');
}

fn place(text: &mut String, file: Option<&str>, number: Option<u32>) {
    if let Some(file) = file {
        let number = number.map_or_else(String::new, |number| format!(":{number}"));
        let _ = writeln!(text, "  {}", cyan(&format!("{}{number}", line(file))));
    }
}

fn lines(text: &mut String, told: &str) {
    let told = block(told);
    for line in told.lines().take(LINES_SHOWN) {
        let _ = writeln!(text, "  {}", cut(line, COLUMNS_SHOWN));
    }
    let more = told.lines().count().saturating_sub(LINES_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "  … {more} more lines");
    }
}

// Without a test to blame, the end of what the runner said is the best there is.
fn last_words(text: &mut String, report: &Report) {
    let streams = [
        ("stdout", &report.stdout_tail, report.truncated.stdout_bytes),
        ("stderr", &report.stderr_tail, report.truncated.stderr_bytes),
    ];
    for (name, tail, left_out) in streams {
        let tail = block(tail);
        // A line whose beginning is gone is half of something.
        let said: Vec<&str> =
            tail.lines().skip(usize::from(left_out > 0)).filter(|line| !is_event(line, report)).collect();
        if said.iter().all(|line| line.trim().is_empty()) {
            continue;
        }
        let _ = writeln!(text, "{}", dim(&format!("last of {name}:")));
        for line in &said[said.len().saturating_sub(LINES_SHOWN)..] {
            let _ = writeln!(text, "  {}", cut(line, COLUMNS_SHOWN));
        }
    }
}

// Where a runner's stdout is a stream of events (Go's), each line is an object, which is for parsers.
fn is_event(line: &str, report: &Report) -> bool {
    report.structured && line.starts_with('{') && line.ends_with('}')
}

fn verdict(report: &Report) -> String {
    let summary = &report.summary;
    let mut parts = match report.raw_exit_code {
        Some(code) if !report.structured => vec![format!("exit status {code}")],
        _ => vec![format!("{} passed", summary.passed)],
    };
    let counts = [
        (summary.failed, "failed"),
        (summary.error, "errors"),
        (summary.skipped, "skipped"),
        (summary.xfailed, "failed as expected"),
        (summary.xpassed, "passed unexpectedly"),
    ];
    parts.extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
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

fn red(text: &str) -> String {
    paint("31", text)
}

fn green(text: &str) -> String {
    paint("32", text)
}

fn cyan(text: &str) -> String {
    paint("36", text)
}

fn bold(text: &str) -> String {
    paint("1", text)
}

fn dim(text: &str) -> String {
    paint("2", text)
}
