//! Text forms of what linters and type checkers found, shared by the command line and the shim.

use crate::printable::{block, line};
use crate::text::outcome_name;
use crate::v1::{CheckReport, CheckerState, CheckerStatus, Finding, Outcome, Range, Report, Severity};
use std::collections::BTreeSet;

/// Name of a severity in answers.
#[must_use]
pub fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info | Severity::Unspecified => "info",
    }
}

/// Where a finding is: `a.py:3:8`.
#[must_use]
pub fn place(finding: &Finding) -> String {
    let Range { line: number, column, .. } = finding.range.unwrap_or_default();
    let numbers = match (number, column) {
        (0, _) => String::new(),
        (number, 0) => format!(":{number}"),
        (number, column) => format!(":{number}:{column}"),
    };
    format!("{}{numbers}", line(&finding.file))
}

/// How to mend a finding: the checker's words, or the new text if that is one replacement.
#[must_use]
pub fn fix(finding: &Finding) -> Option<String> {
    let fix = finding.fix.as_ref()?;
    let text = match (fix.description.as_str(), fix.edits.as_slice()) {
        ("", []) => return None,
        ("", [edit]) if edit.text.is_empty() => "remove it".to_owned(),
        ("", [edit]) => format!("replace by {}", block(edit.text.trim_end())),
        ("", edits) => format!("{} replacements", edits.len()),
        (description, _) => block(description).trim_end().to_owned(),
    };
    Some(if fix.is_safe { text } else { format!("{text} (may change what the program does)") })
}

/// What was found, without its place: `error F401 message`, in several lines if the message has several.
#[must_use]
pub fn what(finding: &Finding) -> String {
    let rule = if finding.rule.is_empty() { String::new() } else { format!(" {}", line(&finding.rule)) };
    format!("{}{rule} {}", severity_name(finding.severity()), block(&finding.message).trim_end())
}

/// A check in one line: `failed: 2 errors, 1 warning in 2 files (ruff, mypy, 1.2s); 1 new, 3 fixed`.
#[must_use]
pub fn headline(report: &Report) -> String {
    let Some(check) = &report.check else { return format!("{}: nothing was checked", outcome_name(report.outcome())) };
    let (partial, without): (Vec<&CheckerStatus>, Vec<&CheckerStatus>) =
        unfinished(check).partition(|checker| checker.state() == CheckerState::Partial);
    let named = |checkers: &[&CheckerStatus]| {
        let names: BTreeSet<_> = checkers.iter().map(|checker| line(&checker.checker)).collect();
        (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "))
    };
    let has_verdict = report.outcome() == Outcome::Passed || check.errors + check.warnings + check.infos > 0;
    let parts = [
        named(&without).map(|names| format!("no complete verdict of {names}")),
        // What was not looked for is not said to be absent.
        has_verdict.then(|| counts(check)),
        named(&partial).map(|names| format!("{names} checked only a part")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!(
        "{}: {} ({}, {:.1}s){}",
        outcome_name(report.outcome()),
        if parts.is_empty() { "no verdict".to_owned() } else { parts.join("; ") },
        line(&report.framework),
        report.duration_s,
        changes(check)
    )
}

/// The findings by severity, and the number of their files.
fn counts(check: &CheckReport) -> String {
    let kinds = [(check.errors, "error"), (check.warnings, "warning"), (check.infos, "info")];
    let counted: Vec<String> =
        kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| some(*count, kind)).collect();
    let changed = if check.since.is_empty() { "" } else { " in changed files" };
    if counted.is_empty() {
        return format!("no findings{changed}");
    }
    let files: BTreeSet<&str> = check.findings.iter().map(|finding| finding.file.as_str()).collect();
    // Not all files are known where findings are left out.
    let of_files = match (check.findings_left_out, check.since.as_str()) {
        (1.., _) => changed.to_owned(),
        (0, "") => format!(" in {}", some(files.len() as u64, "file")),
        (0, _) => format!(" in {}", some(files.len() as u64, "changed file")),
    };
    counted.join(", ") + &of_files
}

/// What differs from the check before: `; 1 new, 3 fixed`. Empty if nothing does, or there was none.
fn changes(check: &CheckReport) -> String {
    let Some(compared) = &check.comparison else { return String::new() };
    let groups = [(compared.new, "new"), (compared.fixed, "fixed")];
    let counted: Vec<String> =
        groups.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if counted.is_empty() { String::new() } else { format!("; {}", counted.join(", ")) }
}

fn some(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The commands of checkers whose findings are not complete.
pub fn unfinished(check: &CheckReport) -> impl Iterator<Item = &CheckerStatus> {
    check.checkers.iter().filter(|checker| checker.state() != CheckerState::Complete)
}

/// Why a checker is not complete, in a text that begins with its name.
#[must_use]
pub fn reason(checker: &CheckerStatus) -> String {
    let what = match checker.state() {
        CheckerState::Missing => "is not installed",
        CheckerState::Partial => "checked only a part",
        _ => "gave no verdict",
    };
    let dir = if checker.dir.is_empty() { String::new() } else { format!(" in {}", line(&checker.dir)) };
    let why =
        if checker.reason.is_empty() { String::new() } else { format!(": {}", block(&checker.reason).trim_end()) };
    format!("{}{dir} {what}{why}", line(&checker.checker))
}

/// The findings that are not counted, because their files were not asked for.
#[must_use]
pub fn elsewhere(check: &CheckReport) -> Option<String> {
    (check.elsewhere > 0).then(|| match check.since.as_str() {
        "" => format!("{} in other files left out", some(check.elsewhere, "finding")),
        since => {
            format!("{} in files that did not change since {} left out", some(check.elsewhere, "finding"), line(since))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{CheckComparison, Edit, Fix};

    fn finding() -> Finding {
        Finding {
            checker: "ruff".into(),
            rule: "F401".into(),
            severity: Severity::Error.into(),
            file: "a\u{202e}.py".into(),
            range: Some(Range { line: 3, column: 8, ..Range::default() }),
            message: "unused\nimport\u{1b}[31m".into(),
            ..Finding::default()
        }
    }

    #[test]
    fn a_finding_has_its_place_and_no_control_characters() {
        assert_eq!(place(&finding()), "a\\u{202e}.py:3:8");
        assert_eq!(place(&Finding { range: None, ..finding() }), "a\\u{202e}.py");
        assert_eq!(what(&finding()), "error F401 unused\nimport");
        assert_eq!(what(&Finding { rule: String::new(), message: "m".into(), ..Finding::default() }), "info m");
    }

    #[test]
    fn a_fix_has_the_words_of_the_checker_or_the_new_text() {
        let of = |description: &str, texts: &[&str], is_safe| {
            let edits = texts.iter().map(|text| Edit { text: (*text).to_owned(), ..Edit::default() }).collect();
            fix(&Finding { fix: Some(Fix { description: description.into(), edits, is_safe }), ..finding() })
        };
        assert_eq!(of("Remove import", &[""], true).unwrap(), "Remove import");
        assert_eq!(of("", &["x = 1\n"], true).unwrap(), "replace by x = 1");
        assert_eq!(of("", &[""], false).unwrap(), "remove it (may change what the program does)");
        assert_eq!(of("", &["a", "b"], true).unwrap(), "2 replacements");
        assert_eq!((of("", &[], true), fix(&finding())), (None, None));
    }

    #[test]
    fn a_headline_never_makes_a_missing_verdict_a_pass() {
        let check = CheckReport {
            findings: vec![finding()],
            errors: 1,
            warnings: 2,
            findings_left_out: 2,
            ..CheckReport::default()
        };
        let mut report =
            Report { framework: "ruff, mypy".into(), duration_s: 1.26, check: Some(check), ..Report::default() };
        report.set_outcome(Outcome::Failed);
        assert_eq!(headline(&report), "failed: 1 error, 2 warnings (ruff, mypy, 1.3s)");
        let check = report.check.as_mut().unwrap();
        (check.warnings, check.findings_left_out) = (0, 0);
        check.comparison = Some(CheckComparison { new: 1, fixed: 3, ..CheckComparison::default() });
        assert_eq!(headline(&report), "failed: 1 error in 1 file (ruff, mypy, 1.3s); 1 new, 3 fixed");
        report.check.as_mut().unwrap().since = "commit ab".into();
        assert_eq!(headline(&report), "failed: 1 error in 1 changed file (ruff, mypy, 1.3s); 1 new, 3 fixed");
        report.check = Some(CheckReport { since: "commit ab".into(), ..CheckReport::default() });
        report.set_outcome(Outcome::Passed);
        assert_eq!(headline(&report), "passed: no findings in changed files (ruff, mypy, 1.3s)");
        let mut partial = CheckerStatus { checker: "ruff".into(), ..CheckerStatus::default() };
        partial.set_state(CheckerState::Partial);
        report.check = Some(CheckReport { checkers: vec![partial], ..report.check.unwrap() });
        report.set_outcome(Outcome::CollectionFailed);
        assert_eq!(headline(&report), "collection_failed: ruff checked only a part (ruff, mypy, 1.3s)");
        let failed = CheckerStatus { checker: "mypy".into(), reason: "bad config".into(), ..CheckerStatus::default() };
        report.check = Some(CheckReport { checkers: vec![failed.clone()], ..CheckReport::default() });
        report.set_outcome(Outcome::CollectionFailed);
        assert_eq!(headline(&report), "collection_failed: no complete verdict of mypy (ruff, mypy, 1.3s)");
        assert_eq!(reason(&failed), "mypy gave no verdict: bad config");
        report.check = None;
        report.set_outcome(Outcome::Cancelled);
        assert_eq!(headline(&report), "cancelled: nothing was checked");
    }

    #[test]
    fn says_how_many_findings_are_in_other_files() {
        let mut check = CheckReport { elsewhere: 1, ..CheckReport::default() };
        assert_eq!(elsewhere(&check).unwrap(), "1 finding in other files left out");
        (check.elsewhere, check.since) = (2, "commit ab".to_owned());
        assert_eq!(elsewhere(&check).unwrap(), "2 findings in files that did not change since commit ab left out");
        check.elsewhere = 0;
        assert_eq!(elsewhere(&check), None);
    }
}
