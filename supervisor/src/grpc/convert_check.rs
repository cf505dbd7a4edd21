//! Conversions of checks by linters and type checkers between wire and domain types.

use proctor_core::check::{
    CheckComparison, CheckKind, CheckReport, CheckerResult, CheckerStatus, Edit, Finding, Fix, Range, Severity,
};
use proctor_proto::v1;
use std::collections::BTreeSet;

/// The kind that a request names; `None` for none.
#[must_use]
pub fn check_kind_request(kind: v1::CheckKind) -> Option<CheckKind> {
    match kind {
        v1::CheckKind::Unspecified => None,
        v1::CheckKind::Lint => Some(CheckKind::Lint),
        v1::CheckKind::Typecheck => Some(CheckKind::Typecheck),
    }
}

fn check_kind(kind: CheckKind) -> v1::CheckKind {
    match kind {
        CheckKind::Lint => v1::CheckKind::Lint,
        CheckKind::Typecheck => v1::CheckKind::Typecheck,
    }
}

fn severity(severity: Severity) -> v1::Severity {
    match severity {
        Severity::Error => v1::Severity::Error,
        Severity::Warning => v1::Severity::Warning,
        Severity::Info => v1::Severity::Info,
    }
}

/// What a check found. `since`: the state since which its files had to change.
#[must_use]
pub fn check_report(check: &CheckReport, since: Option<&str>) -> v1::CheckReport {
    let new: BTreeSet<u32> = check.comparison.iter().flat_map(|compared| &compared.new).copied().collect();
    let findings = (0..).zip(&check.findings).map(|(at, one)| finding(one, new.contains(&at)));
    v1::CheckReport {
        findings: findings.collect(),
        errors: check.severities.errors,
        warnings: check.severities.warnings,
        infos: check.severities.infos,
        findings_left_out: check.omitted,
        elsewhere: check.elsewhere,
        since: since.unwrap_or_default().to_owned(),
        checkers: check.checkers.iter().map(checker).collect(),
        comparison: check.comparison.as_ref().map(comparison),
    }
}

fn comparison(compared: &CheckComparison) -> v1::CheckComparison {
    v1::CheckComparison {
        new: compared.new.len() as u64,
        fixed: compared.fixed_total,
        fixed_findings: compared.fixed.iter().map(|one| finding(one, false)).collect(),
        uncompared: compared.uncompared.clone(),
    }
}

/// What became of one command of a checker.
#[must_use]
pub fn checker(result: &CheckerResult) -> v1::CheckerStatus {
    let state = match result.status {
        CheckerStatus::Complete => v1::CheckerState::Complete,
        CheckerStatus::Partial { .. } => v1::CheckerState::Partial,
        CheckerStatus::Failed { .. } => v1::CheckerState::Failed,
        CheckerStatus::Missing { .. } => v1::CheckerState::Missing,
    };
    v1::CheckerStatus {
        checker: result.checker.clone(),
        kind: check_kind(result.kind).into(),
        dir: result.dir.clone(),
        state: state.into(),
        reason: result.status.text().to_owned(),
        findings: result.findings,
        elsewhere: result.elsewhere,
    }
}

/// A finding. `new`: whether the check before did not have it.
#[must_use]
pub fn finding(finding: &Finding, new: bool) -> v1::Finding {
    v1::Finding {
        checker: finding.checker.clone(),
        kind: check_kind(finding.kind).into(),
        rule: finding.rule.clone(),
        severity: severity(finding.severity).into(),
        file: finding.file.clone(),
        range: Some(range(finding.range)),
        message: finding.message.clone(),
        fix: finding.fix.as_ref().map(fix),
        url: finding.url.clone(),
        new,
    }
}

fn fix(fix: &Fix) -> v1::Fix {
    let edit = |edit: &Edit| v1::Edit { range: Some(range(edit.range)), text: edit.text.clone() };
    v1::Fix { description: fix.description.clone(), edits: fix.edits.iter().map(edit).collect(), is_safe: fix.is_safe }
}

fn range(Range { line, column, end_line, end_column }: Range) -> v1::Range {
    v1::Range { line, column, end_line, end_column }
}
