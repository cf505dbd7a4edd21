//! The entries of a check by linters and type checkers: one for each finding, in the suite of its file, and one for each command
//! of a checker, so that a checker without a verdict is red and a clean check is no empty report.

use super::entries::{Entry, RUN_SUITE, Status, Subject};
use crate::grpc::convert_check;
use proctor_core::check::{CheckReport, CheckerResult, CheckerStatus, Finding, Range, Severity};
use proctor_proto::check_text;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The entries, findings first, the most serious first.
pub(super) fn check_entries(check: &CheckReport) -> Vec<Entry<'_>> {
    let new: BTreeSet<u32> = check.comparison.iter().flat_map(|compared| &compared.new).copied().collect();
    let findings = (0..).zip(&check.findings);
    let mut entries: Vec<Entry<'_>> = findings.map(|(number, one)| finding(one, new.contains(&number))).collect();
    entries.sort_by_key(|entry| match entry.subject {
        Subject::Finding(finding) => Some(finding.severity),
        _ => None,
    });
    let (red, green): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
        check.checkers.iter().map(checker).partition(Entry::is_failure);
    red.into_iter().chain(entries).chain(green).collect()
}

/// Whether the entries show why the check did not pass.
pub(super) fn explain(check: &CheckReport) -> bool {
    // Those that are listed: the report may have no room for others.
    check.findings.iter().any(is_failing) || check.checkers.iter().any(|one| one.status != CheckerStatus::Complete)
}

fn is_failing(finding: &Finding) -> bool {
    // A hint fails no check.
    finding.severity != Severity::Info
}

/// Failing findings and hints that the report has no room for.
pub(super) fn left_out(check: &CheckReport) -> (u64, u64) {
    let listed = check.findings.iter().filter(|finding| is_failing(finding)).count() as u64;
    let failing = (check.severities.errors + check.severities.warnings).saturating_sub(listed).min(check.omitted);
    (failing, check.omitted - failing)
}

/// How to mend a finding, if its checker says so.
pub(super) fn fix(finding: &Finding) -> Option<String> {
    check_text::fix(&convert_check::finding(finding, false))
}

fn finding(finding: &Finding, is_new: bool) -> Entry<'_> {
    let Range { line, column, .. } = finding.range;
    let place = match (line, column) {
        (0, _) => String::new(),
        (line, 0) => format!(" at {line}"),
        (line, column) => format!(" at {line}:{column}"),
    };
    let rule = if finding.rule.is_empty() { String::new() } else { format!(" {}", finding.rule) };
    Entry {
        subject: Subject::Finding(finding),
        suite: &finding.file,
        name: Cow::Owned(format!("{}{rule}{place}", finding.checker)),
        status: if is_failing(finding) { Status::Failed } else { Status::Passed },
        kind: finding.severity.name(),
        file: Some(&finding.file),
        line: (line > 0).then_some(line),
        duration_s: None,
        message: finding.message.as_str().into(),
        is_new,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}

fn checker(result: &CheckerResult) -> Entry<'_> {
    let is_complete = result.status == CheckerStatus::Complete;
    let message = match is_complete {
        true => String::new(),
        false => check_text::reason(&convert_check::checker(result)),
    };
    let name = match result.dir.as_str() {
        "" => result.checker.as_str().into(),
        dir => Cow::Owned(format!("{} in {dir}", result.checker)),
    };
    Entry {
        subject: Subject::Checker,
        suite: RUN_SUITE,
        name,
        status: if is_complete { Status::Passed } else { Status::Error },
        kind: result.status.name(),
        file: None,
        line: None,
        duration_s: None,
        message: message.into(),
        is_new: false,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}
