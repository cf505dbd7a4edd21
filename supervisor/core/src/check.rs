//! A check of a workspace by linters and type checkers: the request, one record for each finding, and the report.
//!
//! A check is no run of tests and has no verdict of its own: [`CheckReport::is_clean`] holds only if every checker that
//! was asked ran to its end and none found anything. A checker that is missing, that crashed or that was cut off is
//! never "no findings".
//!
//! Every figure of a report is of the files that were asked for. Findings elsewhere, which type checkers report since
//! they read what a file imports, are counted in [`CheckReport::elsewhere`] and [`CheckerResult::elsewhere`] alone.

mod identity;
mod memory;
mod report;

pub use identity::FindingId;
pub use memory::{CheckComparison, CheckMemory};
pub use report::{CheckReport, CheckReportBuilder, CheckerResult, CheckerStatus, RuleCount, SeverityCounts, counted};

use crate::bounds::{
    CHECK_FIX_BYTES_MAX, CHECK_FIX_EDITS_MAX, CHECK_MESSAGE_BYTES_MAX, CHECK_RULE_BYTES_MAX, NAME_BYTES_MAX, clip,
};
use crate::redact::redacted;
use serde::{Deserialize, Serialize};

/// What a checker looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// Doubtful code and style: ESLint, ruff, Clippy.
    Lint,
    /// Errors of types, as a compiler has them: tsc, mypy, `cargo check`.
    Typecheck,
}

impl CheckKind {
    /// Both kinds.
    pub const ALL: [CheckKind; 2] = [CheckKind::Lint, CheckKind::Typecheck];

    /// The name in requests and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CheckKind::Lint => "lint",
            CheckKind::Typecheck => "typecheck",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<CheckKind> {
        CheckKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Which checkers a check runs, on which files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct CheckRequest {
    /// Kinds of checkers; empty for both.
    pub kinds: Vec<CheckKind>,
    /// Checkers by name; empty for those that the workspace's own settings select.
    pub checkers: Vec<String>,
    /// Files and directories whose findings are wanted, relative to the workspace; empty for all.
    pub files: Vec<String>,
}

impl CheckRequest {
    /// Whether checkers of this kind are wanted.
    #[must_use]
    pub fn wants(&self, kind: CheckKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    /// Whether findings in this file are wanted.
    #[must_use]
    pub fn covers(&self, file: &str) -> bool {
        self.files.is_empty() || self.files.iter().any(|asked| is_within(file, asked))
    }
}

/// How serious a finding is, by the checker's own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The checker fails because of it.
    Error,
    /// The checker reports it.
    Warning,
    /// A hint.
    Info,
}

impl Severity {
    /// All severities, the most serious first.
    pub const ALL: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Info];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        }
    }
}

/// A range of a file. Lines and columns count from 1, columns in characters as the checker counts them; 0 where it gave
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Range {
    /// First line.
    pub line: u32,
    /// Column of the first character.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Column behind the last character.
    pub end_column: u32,
}

/// One finding of a checker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// File relative to the workspace, `/`-separated.
    pub file: String,
    /// Where in the file; all zero for the file as a whole.
    pub range: Range,
    /// Name of the checker.
    pub checker: String,
    /// The checker's kind.
    pub kind: CheckKind,
    /// The checker's name of the rule; empty where it has none.
    pub rule: String,
    /// How serious it is.
    pub severity: Severity,
    /// What is wrong, at most [`CHECK_MESSAGE_BYTES_MAX`] bytes.
    pub message: String,
    /// How to mend it, if the checker says so.
    pub fix: Option<Fix>,
    /// Where the rule is described; empty if unknown.
    pub url: String,
}

/// How to mend a finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Fix {
    /// What to do, as the checker describes it; may be empty if it has edits.
    pub description: String,
    /// Replacements that mend it, to be made together; empty if the checker only describes them.
    pub edits: Vec<Edit>,
    /// Whether the checker promises that the program behaves as before.
    pub is_safe: bool,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Edit {
    /// What is replaced, in the finding's file; empty for an insertion.
    pub range: Range,
    /// What replaces it.
    pub text: String,
}

impl Finding {
    /// Clips every string to its bound and redacts known secrets. A fix that does not fit keeps its description only.
    #[must_use]
    pub fn bounded(self) -> Finding {
        Finding {
            file: clip(self.file, NAME_BYTES_MAX),
            rule: clip(self.rule, CHECK_RULE_BYTES_MAX),
            message: clip(redacted(self.message), CHECK_MESSAGE_BYTES_MAX),
            fix: self.fix.map(Fix::bounded),
            url: clip(self.url, CHECK_RULE_BYTES_MAX),
            ..self
        }
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let texts = [&self.file, &self.checker, &self.rule, &self.message, &self.url];
        let fix = self.fix.as_ref().map_or(0, Fix::memory_bytes);
        size_of::<Finding>() + texts.into_iter().map(String::len).sum::<usize>() + fix
    }
}

impl Fix {
    fn bounded(self) -> Fix {
        let bytes: usize = self.edits.iter().map(|edit| edit.text.len()).sum();
        let fits = self.edits.len() <= CHECK_FIX_EDITS_MAX && bytes <= CHECK_FIX_BYTES_MAX;
        // Half of a replacement would break the file, and so would one with a part blotted out.
        let is_plain = |edit: &Edit| redacted(edit.text.clone()) == edit.text;
        let edits = if fits && self.edits.iter().all(is_plain) { self.edits } else { Vec::new() };
        Fix { description: clip(redacted(self.description), CHECK_MESSAGE_BYTES_MAX), edits, is_safe: self.is_safe }
    }

    fn memory_bytes(&self) -> usize {
        let edits: usize = self.edits.iter().map(|edit| size_of::<Edit>() + edit.text.len()).sum();
        self.description.len() + edits
    }
}

/// Whether `path` is `dir` or below it; the empty `dir` contains everything.
#[must_use]
pub fn is_within(path: &str, dir: &str) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
