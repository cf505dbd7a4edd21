//! Tests of reports, identities and comparisons of checks.

use super::*;
use crate::bounds::{CHECK_FINDINGS_MAX, CHECK_SCOPES_MAX};
use proptest::prelude::*;

fn finding(checker: &str, file: &str, line: u32, message: &str) -> Finding {
    Finding {
        file: file.to_owned(),
        range: Range { line, column: 1, end_line: line, end_column: 2 },
        checker: checker.to_owned(),
        kind: CheckKind::Lint,
        rule: "R1".to_owned(),
        severity: Severity::Error,
        message: message.to_owned(),
        fix: None,
        url: String::new(),
    }
}

fn report_of(files: &[&str], checkers: &[(&str, &str, CheckerStatus, Vec<Finding>)]) -> CheckReport {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    let mut builder = CheckReportBuilder::new(CheckRequest { files, ..CheckRequest::default() });
    for (checker, dir, status, findings) in checkers {
        builder.add(checker, CheckKind::Lint, dir, status.clone(), findings.clone());
    }
    builder.build()
}

fn failed() -> CheckerStatus {
    CheckerStatus::Failed { reason: "exited with 2".to_owned() }
}

/// Messages of new findings and of fixed ones.
fn compared(memory: &CheckMemory, report: &CheckReport) -> Option<(Vec<String>, Vec<String>)> {
    let comparison = memory.compare(report)?;
    let new = comparison.new.iter().map(|at| report.findings[*at as usize].message.clone()).collect();
    assert_eq!(comparison.fixed_total, comparison.fixed.len() as u64);
    Some((new, comparison.fixed.into_iter().map(|one| one.message).collect()))
}

fn texts(new: &[&str], fixed: &[&str]) -> Option<(Vec<String>, Vec<String>)> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Some((owned(new), owned(fixed)))
}

#[test]
fn every_figure_is_of_the_files_that_were_asked_for() {
    let mut warning = finding("ruff", "src/b.py", 1, "w");
    warning.severity = Severity::Warning;
    let findings = vec![finding("ruff", "src/a.py", 2, "x"), warning, finding("ruff", "lib/c.py", 1, "y")];
    let report = report_of(&["src"], &[("ruff", "", CheckerStatus::Complete, findings)]);
    assert_eq!((report.total(), report.elsewhere, report.omitted), (2, 1, 0));
    assert_eq!((report.severities.errors, report.severities.warnings), (1, 1));
    assert_eq!((report.rules[0].count, report.checkers[0].findings, report.checkers[0].elsewhere), (2, 2, 1));
    assert_eq!(report.summary(), "2 findings (1 error, 1 warning) of ruff, and 1 finding in other files");
}

#[test]
fn only_checkers_that_all_ran_to_their_end_make_a_clean_report() {
    assert!(!report_of(&[], &[]).is_clean(), "no checker ran");
    let complete = ("ruff", "", CheckerStatus::Complete, Vec::new());
    assert!(report_of(&[], std::slice::from_ref(&complete)).is_clean());
    let missing = CheckerStatus::Missing { remedy: "install mypy".to_owned() };
    let partial = CheckerStatus::Partial { reason: "only the syntax was checked".to_owned() };
    for status in [failed(), missing, partial] {
        let is = match status.name() {
            "failed" => "failed".to_owned(),
            name => format!("is {name}"),
        };
        let report = report_of(&[], &[complete.clone(), ("mypy", "a", status, Vec::new())]);
        assert!(!report.is_clean());
        assert_eq!(report.summary(), format!("no findings of ruff, mypy; mypy in a {is}"));
    }
}

#[test]
fn a_finding_of_two_commands_of_one_checker_counts_once() {
    let same = || vec![finding("tsc", "a.ts", 1, "x")];
    let (first, second) =
        (("tsc", "", CheckerStatus::Complete, same()), ("tsc", "e2e", CheckerStatus::Complete, same()));
    let report = report_of(&[], &[first, second]);
    assert_eq!((report.total(), report.findings.len()), (1, 1));
}

#[test]
fn findings_beyond_the_bound_are_counted_and_not_compared() {
    let many =
        (0..CHECK_FINDINGS_MAX + 3).map(|line| finding("ruff", "a.py", u32::try_from(line).unwrap(), "x")).collect();
    let report = report_of(&[], &[("ruff", "", CheckerStatus::Complete, many)]);
    assert_eq!((report.findings.len(), report.omitted), (CHECK_FINDINGS_MAX, 3));
    assert_eq!(report.total(), CHECK_FINDINGS_MAX as u64 + 3);
    let mut memory = CheckMemory::default();
    memory.record(&report);
    assert_eq!((memory.compare(&report), memory), (None, CheckMemory::default()));
}

#[test]
fn a_finding_that_moves_is_neither_new_nor_fixed() {
    let mut memory = CheckMemory::default();
    let first = vec![finding("ruff", "a.py", 3, "defined on line 9"), finding("ruff", "a.py", 9, "gone")];
    let first = report_of(&[], &[("ruff", "", CheckerStatus::Complete, first)]);
    assert_eq!(memory.compare(&first), None, "nothing to compare with");
    memory.record(&first);
    let second = vec![finding("ruff", "a.py", 7, "defined on line 13"), finding("ruff", "a.py", 8, "added")];
    let second = report_of(&[], &[("ruff", "", CheckerStatus::Complete, second)]);
    assert_eq!(compared(&memory, &second), texts(&["added"], &["gone"]));
}

#[test]
fn a_memory_that_was_stored_compares_as_before() {
    let mut memory = CheckMemory::default();
    let found = vec![finding("ruff", "a.py", 1, "x")];
    memory.record(&report_of(&[], &[("ruff", "", CheckerStatus::Complete, found)]));
    let stored = serde_json::to_string(&memory).unwrap();
    assert_eq!(serde_json::from_str::<CheckMemory>(&stored).unwrap(), memory);
}

#[test]
fn equal_findings_are_told_apart_by_their_number() {
    let mut memory = CheckMemory::default();
    let twice = vec![finding("ruff", "a.py", 1, "x"), finding("ruff", "a.py", 5, "x")];
    memory.record(&report_of(&[], &[("ruff", "", CheckerStatus::Complete, twice)]));
    let once = report_of(&[], &[("ruff", "", CheckerStatus::Complete, vec![finding("ruff", "a.py", 5, "x")])]);
    assert_eq!(compared(&memory, &once), texts(&[], &["x"]));
}

#[test]
fn only_files_that_both_checks_covered_are_compared() {
    let mut memory = CheckMemory::default();
    memory
        .record(&report_of(&["a.py"], &[("ruff", "", CheckerStatus::Complete, vec![finding("ruff", "a.py", 1, "a")])]));
    let all = vec![finding("ruff", "a.py", 2, "a2"), finding("ruff", "b.py", 1, "b")];
    let all =
        report_of(&[], &[("ruff", "", CheckerStatus::Complete, all), ("mypy", "", CheckerStatus::Complete, vec![])]);
    assert_eq!(compared(&memory, &all), texts(&["a2"], &["a"]));
    assert_eq!(memory.compare(&all).unwrap().uncompared, ["mypy"]);
    memory.record(&all);
    let only_b = report_of(&["b.py"], &[("ruff", "", CheckerStatus::Complete, vec![])]);
    assert_eq!(compared(&memory, &only_b), texts(&[], &["b"]));
}

#[test]
fn a_checker_that_failed_fixes_nothing_and_keeps_what_was_known() {
    let mut memory = CheckMemory::default();
    let root = finding("mypy", "x.py", 1, "root");
    let inner = finding("mypy", "a/x.py", 1, "inner");
    let complete = CheckerStatus::Complete;
    memory.record(&report_of(
        &[],
        &[("mypy", "", complete.clone(), vec![root]), ("mypy", "a", complete.clone(), vec![inner.clone()])],
    ));
    let report = report_of(&[], &[("mypy", "", complete.clone(), vec![]), ("mypy", "a", failed(), vec![])]);
    assert_eq!(compared(&memory, &report), texts(&[], &["root"]));
    memory.record(&report);
    let report = report_of(&[], &[("mypy", "", complete.clone(), vec![]), ("mypy", "a", complete, vec![inner])]);
    assert_eq!(compared(&memory, &report), texts(&[], &[]), "the inner finding is known");
}

#[test]
fn memory_is_bounded_by_the_number_of_scopes() {
    let mut memory = CheckMemory::default();
    for number in 0..3 * CHECK_SCOPES_MAX {
        let file = format!("f{number}.py");
        let found = vec![finding("ruff", &file, 1, "x")];
        memory.record(&report_of(&[&file], &[("ruff", "", CheckerStatus::Complete, found)]));
    }
    let bytes = memory.memory_bytes();
    memory
        .record(&report_of(&["g.py"], &[("ruff", "", CheckerStatus::Complete, vec![finding("ruff", "g.py", 1, "x")])]));
    assert!(memory.memory_bytes() <= bytes + 16, "{} and {bytes}", memory.memory_bytes());
    let again = report_of(&["f0.py"], &[("ruff", "", CheckerStatus::Complete, vec![finding("ruff", "f0.py", 1, "y")])]);
    assert_eq!(compared(&memory, &again), texts(&[], &[]), "what is forgotten is not compared");
}

#[test]
fn a_fix_that_does_not_fit_keeps_its_description() {
    let edit = |text: String| Edit { range: Range::default(), text };
    let fix = |edits| Some(Fix { description: "d".to_owned(), edits, is_safe: true });
    let bounded = |fix| Finding { fix, ..finding("ruff", "a.py", 1, "x") }.bounded().fix.unwrap();
    assert_eq!(bounded(fix(vec![edit("x".repeat(CHECK_FIX_BYTES_MAX + 1))])).edits, []);
    assert_eq!(bounded(fix(vec![edit(format!("ghp_{}", "a1B2".repeat(9)))])).edits, [], "a secret is not repeated");
    assert_eq!(bounded(fix(vec![edit("y".to_owned())])).edits.len(), 1);
}

fn any_findings() -> impl Strategy<Value = Vec<Finding>> {
    let one = (0u32..4, "[ab]", "[xy]", 0u32..9)
        .prop_map(|(file, checker, message, line)| finding(&checker, &format!("f{file}"), line, &message));
    proptest::collection::vec(one, 0..12)
}

proptest! {
    #[test]
    fn a_report_compared_with_itself_has_nothing_new_and_nothing_fixed(findings in any_findings()) {
        let of = |name: &str| findings.iter().filter(|one| one.checker == name).cloned().collect::<Vec<_>>();
        let checkers = ["a", "b"].map(|name| (name, "", CheckerStatus::Complete, of(name)));
        let report = report_of(&[], &checkers);
        let mut memory = CheckMemory::default();
        memory.record(&report);
        prop_assert_eq!(compared(&memory, &report), texts(&[], &[]));
        let ids = FindingId::of_all(&report.findings);
        let distinct: std::collections::BTreeSet<&FindingId> = ids.iter().collect();
        prop_assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn moving_all_lines_keeps_every_identity(findings in any_findings(), by in 1u32..100) {
        let sorted = report_of(&[], &[("a", "", CheckerStatus::Complete, findings)]).findings;
        let moved: Vec<Finding> = sorted.iter().cloned().map(|mut one| { one.range.line += by; one }).collect();
        prop_assert_eq!(FindingId::of_all(&sorted), FindingId::of_all(&moved));
    }
}
