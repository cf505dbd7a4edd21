//! The report of a check, and its builder.

use super::{CheckComparison, CheckKind, CheckRequest, Finding, Severity};
use crate::bounds::{
    CHECK_FINDINGS_BYTES_MAX, CHECK_FINDINGS_MAX, CHECK_MESSAGE_BYTES_MAX, CHECK_RULES_MAX, NOTES_MAX, clip,
};
use crate::redact::redacted;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// Files and directories that were asked for; empty for all.
    pub files: Vec<String>,
    /// Findings in the files that were asked for, sorted by file and range, each once; at most [`CHECK_FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// Number of further findings in these files, which have no record.
    pub omitted: u64,
    /// Number of findings in other files, of which none has a record and none is in another figure.
    pub elsewhere: u64,
    /// Findings in the files that were asked for, by severity, with the omitted ones.
    pub severities: SeverityCounts,
    /// The same by rule, the most frequent first; at most [`CHECK_RULES_MAX`].
    pub rules: Vec<RuleCount>,
    /// What became of each checker, one entry for each of its commands, in the order in which they ran.
    pub checkers: Vec<CheckerResult>,
    /// New and fixed findings since the last check of the session; `None` for the first one.
    pub comparison: Option<CheckComparison>,
    /// Sentences about the check: what was not checked, and why.
    pub notes: Vec<String>,
}

/// Numbers of findings by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeverityCounts {
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Hints.
    pub infos: u64,
}

/// Number of findings of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// The checker.
    pub checker: String,
    /// Its name of the rule; empty for findings without one.
    pub rule: String,
    /// Number of findings.
    pub count: u64,
}

/// What became of one command of a checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckerResult {
    /// Name of the checker.
    pub checker: String,
    /// Its kind.
    pub kind: CheckKind,
    /// The project's directory, relative to the workspace; empty for the root.
    pub dir: String,
    /// What became of it.
    pub status: CheckerStatus,
    /// Number of its findings in the files that were asked for.
    pub findings: u64,
    /// Number of its findings in other files.
    pub elsewhere: u64,
}

/// What became of a checker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "status")]
pub enum CheckerStatus {
    /// It ran to its end.
    Complete,
    /// It ran and checked only a part, such as the syntax of files that have errors there: a file without a finding may
    /// still have some.
    Partial {
        /// What it did not check, as one sentence.
        reason: String,
    },
    /// It did not run to its end, or its output cannot be trusted. Findings that it had reported before are kept.
    Failed {
        /// Why, as one sentence with the checker's own words.
        reason: String,
    },
    /// It is not installed.
    Missing {
        /// How to install it.
        remedy: String,
    },
}

impl CheckerStatus {
    /// The name in reports.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            CheckerStatus::Complete => "complete",
            CheckerStatus::Partial { .. } => "partial",
            CheckerStatus::Failed { .. } => "failed",
            CheckerStatus::Missing { .. } => "missing",
        }
    }

    /// The reason or the remedy; empty for a checker that ran to its end.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            CheckerStatus::Complete => "",
            CheckerStatus::Partial { reason } | CheckerStatus::Failed { reason } => reason,
            CheckerStatus::Missing { remedy } => remedy,
        }
    }

    fn bounded(self) -> CheckerStatus {
        let short = |text| clip(redacted(text), CHECK_MESSAGE_BYTES_MAX);
        match self {
            CheckerStatus::Complete => CheckerStatus::Complete,
            CheckerStatus::Partial { reason } => CheckerStatus::Partial { reason: short(reason) },
            CheckerStatus::Failed { reason } => CheckerStatus::Failed { reason: short(reason) },
            CheckerStatus::Missing { remedy } => CheckerStatus::Missing { remedy: short(remedy) },
        }
    }
}

impl SeverityCounts {
    /// Number of findings.
    #[must_use]
    pub fn total(self) -> u64 {
        self.errors + self.warnings + self.infos
    }

    fn add(&mut self, severity: Severity) {
        match severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Info => self.infos += 1,
        }
    }
}

impl CheckReport {
    /// Number of findings in the files that were asked for, with the omitted ones.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.severities.total()
    }

    /// Whether at least one checker ran, every one ran to its end, and none found anything in the files that were asked
    /// for.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_complete() && self.total() == 0
    }

    /// Whether at least one checker ran and every one ran to its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        are_complete(&self.checkers)
    }

    /// The report in one sentence: `3 findings (2 errors, 1 warning) of ruff, mypy; mypy failed`.
    #[must_use]
    pub fn summary(&self) -> String {
        let SeverityCounts { errors, warnings, infos } = self.severities;
        let parts = [counted(errors, "error"), counted(warnings, "warning"), counted(infos, "hint")];
        let parts: Vec<String> = parts
            .into_iter()
            .zip([errors, warnings, infos])
            .filter(|(_, count)| *count > 0)
            .map(|(text, _)| text)
            .collect();
        let mut names: Vec<&str> = Vec::new();
        for one in &self.checkers {
            if !names.contains(&one.checker.as_str()) {
                names.push(&one.checker);
            }
        }
        let mut text = match self.total() {
            0 => "no findings".to_owned(),
            total => format!("{} ({})", counted(total, "finding"), parts.join(", ")),
        };
        if !names.is_empty() {
            text.push_str(&format!(" of {}", names.join(", ")));
        }
        if self.elsewhere > 0 {
            text.push_str(&format!(", and {} in other files", counted(self.elsewhere, "finding")));
        }
        let unfinished = self.checkers.iter().filter(|one| one.status != CheckerStatus::Complete);
        for one in unfinished {
            let place = if one.dir.is_empty() { String::new() } else { format!(" in {}", one.dir) };
            let verb = if matches!(one.status, CheckerStatus::Failed { .. }) { "" } else { "is " };
            text.push_str(&format!("; {}{place} {verb}{}", one.checker, one.status.name()));
        }
        text
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let findings: usize = self.findings.iter().map(Finding::memory_bytes).sum();
        let rules: usize =
            self.rules.iter().map(|rule| size_of::<RuleCount>() + rule.checker.len() + rule.rule.len()).sum();
        let checkers: usize = self
            .checkers
            .iter()
            .map(|one| size_of::<CheckerResult>() + one.checker.len() + one.dir.len() + one.status.text().len())
            .sum();
        let notes: usize = self.notes.iter().map(|note| size_of::<String>() + note.len()).sum();
        let files: usize = self.files.iter().map(|file| size_of::<String>() + file.len()).sum();
        let comparison = self.comparison.as_ref().map_or(0, CheckComparison::memory_bytes);
        size_of::<CheckReport>() + findings + rules + checkers + notes + files + comparison
    }
}

/// Collects the findings of all checkers of one check.
#[derive(Debug, Clone, Default)]
pub struct CheckReportBuilder {
    request: CheckRequest,
    report: CheckReport,
    rules: BTreeMap<(String, String), u64>,
    bytes: usize,
}

impl CheckReportBuilder {
    /// A builder of the report for this request.
    #[must_use]
    pub fn new(request: CheckRequest) -> CheckReportBuilder {
        let report = CheckReport { files: request.files.clone(), ..CheckReport::default() };
        CheckReportBuilder { request, report, ..CheckReportBuilder::default() }
    }

    /// Adds what became of one command, with its findings. A finding that another command of the same checker reported
    /// as well counts once.
    pub fn add(&mut self, checker: &str, kind: CheckKind, dir: &str, status: CheckerStatus, findings: Vec<Finding>) {
        let (mut own, mut elsewhere) = (0, 0);
        for finding in findings.into_iter().map(Finding::bounded) {
            if !self.request.covers(&finding.file) {
                elsewhere += 1;
                continue;
            }
            let at = match self.report.findings.binary_search(&finding) {
                Ok(_) => continue,
                Err(at) => at,
            };
            own += 1;
            self.report.severities.add(finding.severity);
            self.count_rule(&finding);
            let bytes = finding.memory_bytes();
            if self.report.findings.len() < CHECK_FINDINGS_MAX && self.bytes + bytes <= CHECK_FINDINGS_BYTES_MAX {
                self.bytes += bytes;
                self.report.findings.insert(at, finding);
            } else {
                self.report.omitted += 1;
            }
        }
        self.report.elsewhere += elsewhere;
        let (checker, dir) = (checker.to_owned(), dir.to_owned());
        let status = status.bounded();
        self.report.checkers.push(CheckerResult { checker, kind, dir, status, findings: own, elsewhere });
    }

    /// Adds a sentence about the check; further ones than [`NOTES_MAX`] are dropped.
    pub fn note(&mut self, note: String) {
        if self.report.notes.len() < NOTES_MAX && !self.report.notes.contains(&note) {
            self.report.notes.push(clip(redacted(note), CHECK_MESSAGE_BYTES_MAX));
        }
    }

    /// See [`CheckReport::is_complete`], for what was added until now.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        are_complete(&self.report.checkers)
    }

    /// The report.
    #[must_use]
    pub fn build(mut self) -> CheckReport {
        let mut rules: Vec<RuleCount> =
            self.rules.into_iter().map(|((checker, rule), count)| RuleCount { checker, rule, count }).collect();
        rules.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.rule.cmp(&other.rule)));
        rules.truncate(CHECK_RULES_MAX);
        self.report.rules = rules;
        self.report
    }

    fn count_rule(&mut self, finding: &Finding) {
        let key = (finding.checker.clone(), finding.rule.clone());
        // A checker has some hundred rules; a name for each finding would be forged.
        if self.rules.len() < 2 * CHECK_RULES_MAX || self.rules.contains_key(&key) {
            *self.rules.entry(key).or_default() += 1;
        }
    }
}

fn are_complete(checkers: &[CheckerResult]) -> bool {
    !checkers.is_empty() && checkers.iter().all(|one| one.status == CheckerStatus::Complete)
}

/// A number with its noun: `1 finding`, `2 findings`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
