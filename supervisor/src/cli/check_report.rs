//! Renders a check for a person at a terminal: checkers without a verdict, findings by file, notes, and the counts. Colours are
//! removed later if stdout is no terminal.

use super::terminal_report::{bold, cyan, dim, green, notes_and_layers, red, yellow};
use crate::grpc::convert;
use proctor_core::outcome::Outcome;
use proctor_core::report::Report;
use proctor_proto::check_text;
use proctor_proto::printable::{block, cut, line};
use proctor_proto::v1::{CheckReport, Finding, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Findings shown in full; the others are counted.
const FINDINGS_SHOWN: usize = 200;

/// Lines shown of a message, of a reason and of the end of the output.
const LINES_SHOWN: usize = 12;

/// Columns shown of a line.
const COLUMNS_SHOWN: usize = 400;

/// Renders a check.
pub(super) fn report(report: &Report) -> String {
    let mut text = String::new();
    let shown = convert::report(report);
    if let Some(check) = &shown.check {
        let reasons: BTreeSet<String> = check_text::unfinished(check).map(check_text::reason).collect();
        for reason in &reasons {
            let _ = writeln!(text, "{} {}", red("✗"), indented(reason));
        }
        if !reasons.is_empty() && !check.findings.is_empty() {
            text.push('\n');
        }
        findings(&mut text, check);
        if let Some(elsewhere) = check_text::elsewhere(check) {
            let _ = writeln!(text, "{elsewhere}");
        }
    }
    notes_and_layers(&mut text, report);
    let headline = check_text::headline(&shown);
    let (word, rest) = headline.split_once(':').unwrap_or((&headline, ""));
    let word = word.replace('_', " ");
    let word =
        if report.outcome == Outcome::Passed { green(&format!("✓ {word}")) } else { red(&format!("✗ {word}")) };
    let _ = writeln!(text, "{word}:{rest}");
    text
}

// Files with errors first; within a file by line.
fn findings(text: &mut String, check: &CheckReport) {
    let mut files: BTreeMap<(bool, &str), Vec<&Finding>> = BTreeMap::new();
    let with_errors: BTreeSet<&str> = check
        .findings
        .iter()
        .filter(|finding| finding.severity() == Severity::Error)
        .map(|finding| finding.file.as_str())
        .collect();
    for finding in &check.findings {
        let key = (!with_errors.contains(finding.file.as_str()), finding.file.as_str());
        files.entry(key).or_default().push(finding);
    }
    let mut room = FINDINGS_SHOWN;
    for findings in files.values() {
        if room == 0 {
            break;
        }
        for finding in findings.iter().take(room) {
            one(text, finding);
        }
        room -= findings.len().min(room);
        text.push('\n');
    }
    let left_out = check.findings.len().saturating_sub(FINDINGS_SHOWN) as u64 + check.findings_left_out;
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} more findings: name files, or see --output json\n");
    }
}

fn one(text: &mut String, finding: &Finding) {
    let severity = check_text::severity_name(finding.severity());
    let severity = match finding.severity() {
        Severity::Error => red(severity),
        Severity::Warning => yellow(severity),
        Severity::Info | Severity::Unspecified => dim(severity),
    };
    let rule = if finding.rule.is_empty() { line(&finding.checker) } else { line(&finding.rule) };
    let new = if finding.new { format!(" {}", bold("new")) } else { String::new() };
    let message = indented(&block(&finding.message));
    let _ = writeln!(text, "{}: {severity} {} {message}{new}", cyan(&check_text::place(finding)), bold(&rule));
    if let Some(fix) = check_text::fix(finding) {
        let _ = writeln!(text, "  {} {}", dim("fix:"), indented(&fix));
    }
}

// The first lines of a text, further ones below the first.
fn indented(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let shown: Vec<String> = lines.iter().take(LINES_SHOWN).map(|line| cut(line, COLUMNS_SHOWN).into_owned()).collect();
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let more = if more > 0 { format!("\n  … {more} more lines") } else { String::new() };
    shown.join("\n  ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use proctor_core::check::{self, CheckKind, CheckReportBuilder, CheckRequest, CheckerStatus, Fix, Range};
    use proctor_core::limits::Limits;
    use proctor_core::outcome::KillReason;
    use proctor_core::timestamp::Timestamp;

    fn finding(file: &str, line: u32, severity: check::Severity) -> check::Finding {
        check::Finding {
            file: file.to_owned(),
            range: Range { line, column: 1, end_line: line, end_column: 9 },
            checker: "ruff".to_owned(),
            kind: CheckKind::Lint,
            rule: "F401".to_owned(),
            severity,
            message: "`os` imported but unused\u{1b}]0;x\u{7}".to_owned(),
            fix: Some(Fix { description: "Remove unused import: `os`".to_owned(), edits: Vec::new(), is_safe: true }),
            url: String::new(),
        }
    }

    fn rendered(findings: Vec<check::Finding>, others: &[CheckerStatus], outcome: Outcome) -> String {
        let mut builder = CheckReportBuilder::new(CheckRequest::default());
        builder.add("ruff", CheckKind::Lint, "", CheckerStatus::Complete, findings);
        for status in others {
            builder.add("mypy", CheckKind::Typecheck, "", status.clone(), Vec::new());
        }
        let mut ended = without_running(Timestamp(0), Limits::DEFAULT, "ruff, mypy", KillReason::Deadline, "");
        (ended.outcome, ended.check) = (outcome, Some(builder.build()));
        ended.evidence.notes.clear();
        anstream::adapter::strip_str(&report(&ended)).to_string()
    }

    #[test]
    fn files_with_errors_come_first() {
        use check::Severity::{Error, Warning};
        let found = vec![finding("b.py", 3, Error), finding("a.py", 1, Warning), finding("b.py", 1, Warning)];
        let text = "b.py:1:1: warning F401 `os` imported but unused\n  fix: Remove unused import: `os`\n\
                    b.py:3:1: error F401 `os` imported but unused\n  fix: Remove unused import: `os`\n\n\
                    a.py:1:1: warning F401 `os` imported but unused\n  fix: Remove unused import: `os`\n\n\
                    ✗ failed: 1 error, 2 warnings in 2 files (ruff, mypy, 0.0s)\n";
        assert_eq!(rendered(found, &[], Outcome::Failed), text);
    }

    #[test]
    fn a_checker_without_a_verdict_is_named_first_and_nothing_is_called_clean() {
        let failed = CheckerStatus::Failed { reason: "it exited with 2: bad config".to_owned() };
        let text = "✗ mypy gave no verdict: it exited with 2: bad config\n\
                    ✗ collection failed: no complete verdict of mypy (ruff, mypy, 0.0s)\n";
        assert_eq!(rendered(Vec::new(), &[failed], Outcome::CollectionFailed), text);
        assert_eq!(rendered(Vec::new(), &[], Outcome::Passed), "✓ passed: no findings (ruff, mypy, 0.0s)\n");
    }

    #[test]
    fn counts_the_findings_beyond_those_that_are_shown() {
        let many = (1..=250).map(|line| finding("a.py", line, check::Severity::Error)).collect();
        let text = rendered(many, &[], Outcome::Failed);
        assert_eq!(text.matches("fix:").count(), FINDINGS_SHOWN);
        assert!(text.contains("\n50 more findings: name files, or see --output json\n"), "{text}");
    }
}
