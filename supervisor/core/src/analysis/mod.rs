//! Failure analysis: what the failures of a run have in common, and where to look first.
//!
//! Reads nothing but a [`Report`] and facts that the caller passes. Every statement has its evidence and one of three degrees of
//! [`Confidence`]; where nothing is known there is no statement. Matching is linear in the length of the texts.

mod affected_files;
mod analyzed_failure;
mod changes;
mod classify;
mod clusters;
mod frames;
mod functions;
mod imported_paths;
mod imports;
mod install;
mod mask;
mod package_names;
mod pattern_kind;
mod patterns;
mod root_cause;
mod sandbox_causes;
mod suspects;
mod template;
#[cfg(test)]
mod tests;

pub use changes::{Change, ChangedFile, ChangedFiles, FileChange, TestSource, WorkspaceChanges, test_files};
pub use functions::{Function, functions_named};
pub use imported_paths::imported_paths;
pub use pattern_kind::PatternKind;
pub use suspects::{SourceText, Suspect, SuspectMeasure, Suspects};

use crate::bounds::{
    ANALYSIS_FILES_MAX, ANALYSIS_FURTHER_CAUSES_MAX, ANALYSIS_NAMES_MAX, ANALYSIS_PATTERNS_MAX,
    ANALYSIS_TEXT_BYTES_MAX, clip,
};
use crate::outcome::Outcome;
use crate::report::Report;
use patterns::Language;
use root_cause::FailureCount;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// How sure a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Only circumstances agree: a place in common, captured output.
    #[default]
    Possible,
    /// The failure's own message has a known form.
    Likely,
    /// The kernel, proctor, or the compiler or runner itself recorded it.
    Certain,
}

impl Confidence {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }
}

/// Facts about the project beside the report; empty if nothing is known.
#[derive(Debug, Clone, Default)]
pub struct WorkspaceFacts {
    /// Absolute path of the workspace; empty if unknown.
    pub root: String,
    /// Those of [`WorkspaceFacts::ROOT_FILES`] and of [`imported_paths`] that the workspace has.
    pub root_files: Vec<String>,
}

/// A test, package or file that failed, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FailureLocation {
    /// The runner's own name of the test, or of the package or file that was not built or loaded.
    pub test: String,
    /// File, relative to the workspace.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
}

impl FailureLocation {
    /// `file:line`, or the file if the line is unknown.
    #[must_use]
    pub fn file_and_line(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        Some(self.line.map_or_else(|| file.to_owned(), |line| format!("{file}:{line}")))
    }
}

/// A failed test, package or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTest {
    /// Its name and place.
    #[serde(flatten)]
    pub location: FailureLocation,
    /// Kind of the failure.
    pub kind: PatternKind,
}

/// Failures that have the same kind, message and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorPattern {
    /// Kind of the failures.
    #[serde(rename = "type")]
    pub kind: PatternKind,
    /// The message of the first of them.
    pub message: String,
    /// Number of these failures.
    pub frequency: u64,
    /// Names of the first of them, at most [`ANALYSIS_NAMES_MAX`].
    pub test_names: Vec<String>,
    /// The first of them.
    pub evidence: FailureLocation,
    /// How sure the kind is.
    pub confidence: Confidence,
    /// What follows from it.
    pub suggestion: Option<String>,
    /// Whether another failure of the run is the reason of these.
    pub is_consequence: bool,
}

/// Where to look first, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    /// Kind of the failure, if it is one.
    pub kind: Option<PatternKind>,
    /// What the run shows, in one sentence.
    pub statement: String,
    /// How sure it is.
    pub confidence: Confidence,
    /// The failure that shows it.
    pub evidence: Option<FailureLocation>,
    /// Number of failures behind it.
    pub failures: u64,
    /// What to do.
    pub suggestion: Option<String>,
    /// How sure the suggestion is.
    #[serde(skip)]
    pub suggestion_confidence: Confidence,
    /// Whether the sandbox is the cause.
    pub is_sandbox: bool,
}

/// What to do, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// One sentence.
    pub text: String,
    /// How sure its reason is.
    pub confidence: Confidence,
    /// The failure that shows it.
    pub evidence: Option<FailureLocation>,
}

/// A file of the project that has to do with the failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AffectedFile {
    /// Path, relative to the workspace.
    pub path: String,
    /// Failures whose place or stack is in the file.
    pub failures: u64,
    /// Whether one of them is at this file's innermost frame.
    pub is_place: bool,
    /// Whether it was edited after the run began, so that lines may have moved and the failure may be gone.
    pub is_edited: bool,
    /// Whether the workspace has no such file now: it was removed, or the runner's name for it is not that of a file.
    #[serde(default)]
    pub is_missing: bool,
}

/// What became of a file since the run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// It is as it was.
    Unchanged,
    /// It was written, replaced or created.
    Edited,
    /// The workspace has no such file.
    Missing,
}

/// The analysis of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Framework of the run.
    pub framework: String,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Number of failures, those beyond the report's bounds included.
    pub total: u64,
    /// Number of failures that the report has and that were analysed.
    pub analyzed: u64,
    /// Where to look first.
    pub root_cause: Option<RootCause>,
    /// What else explains failures, the first to look at first, at most [`ANALYSIS_FURTHER_CAUSES_MAX`].
    pub further_causes: Vec<RootCause>,
    /// Why `root_cause` is absent; what else the run shows.
    pub notes: Vec<String>,
    /// Patterns, the most frequent first, at most [`ANALYSIS_PATTERNS_MAX`].
    pub error_patterns: Vec<ErrorPattern>,
    /// Patterns beyond these.
    pub patterns_left_out: u64,
    /// What to do, the root cause first.
    pub suggestions: Vec<Suggestion>,
    /// Files, those to look at first first, at most [`ANALYSIS_FILES_MAX`].
    pub affected_files: Vec<AffectedFile>,
    /// The failures, at most as many as were asked for.
    pub failed_tests: Vec<FailedTest>,
    /// Files that changed, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_files: Option<ChangedFiles>,
    /// Lines that may have the bug, if the lines of single tests are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspects: Option<Suspects>,
}

/// What is known about the project of a run.
struct ProjectContext<'a> {
    language: Language,
    context: &'a WorkspaceFacts,
    /// Packages of the run's tests and errors.
    packages: HashSet<&'a str>,
}

impl<'a> ProjectContext<'a> {
    fn new(report: &'a Report, language: Language, context: &'a WorkspaceFacts) -> ProjectContext<'a> {
        let tests = report.tests.iter().map(|test| test.package.as_str());
        let packages = tests.chain(report.collectors.iter().map(|collector| collector.nodeid.as_str())).collect();
        ProjectContext { language, context, packages }
    }

    /// Whether an imported module is the project's own: below a package of the run, or in the workspace. Then no command installs it.
    fn has_own(&self, module: &str) -> bool {
        let paths = imported_paths::paths(self.language, module);
        if paths.iter().any(|path| self.context.root_files.contains(path)) {
            return true;
        }
        let above = module.match_indices('/').map(|(at, _)| &module[..at]);
        self.language == Language::Go && above.into_iter().any(|package| self.packages.contains(package))
    }
}

impl Analysis {
    /// Marks the affected files by what became of them after the run began, as `state` knows it.
    pub fn mark_files(&mut self, state: impl Fn(&str) -> FileState) {
        for file in &mut self.affected_files {
            let state = state(&file.path);
            (file.is_edited, file.is_missing) = (state == FileState::Edited, state == FileState::Missing);
        }
    }
}

/// Analyses the failures of a run; `limit` is the most patterns and failed tests in the answer.
#[must_use]
pub fn analyze(report: &Report, context: &WorkspaceFacts, limit: usize) -> Analysis {
    let limit = limit.min(ANALYSIS_PATTERNS_MAX);
    let failed = analyzed_failure::failures(report);
    let language = Language::of_framework(&report.framework);
    let clusters = clusters::clusters(&failed, &ProjectContext::new(report, language, context));
    let left_out = report.own_failures_left_out() + report.truncated.collectors;
    let count = FailureCount { analyzed: failed.len(), total: failed.len() as u64 + left_out };
    let causes = root_cause::causes(report, &failed, &clusters, context, count);
    let affected_files = affected_files::files(&failed, &clusters, &causes);
    let mut suggestions: Vec<Suggestion> = Vec::new();
    let of_causes = causes
        .found
        .iter()
        .map(|cause| (cause.suggestion.clone(), cause.suggestion_confidence, cause.evidence.clone()));
    let of_patterns = clusters.iter().filter(|cluster| !cluster.is_consequence).take(limit).map(|cluster| {
        (
            cluster.class.suggestion.clone(),
            cluster.class.suggestion_confidence(),
            Some(failed[cluster.members[0]].location()),
        )
    });
    for (text, confidence, evidence) in of_causes.chain(of_patterns) {
        let Some(text) = text.map(|text| clip(text, ANALYSIS_TEXT_BYTES_MAX)) else { continue };
        if !suggestions.iter().any(|one| one.text == text && one.evidence == evidence) {
            suggestions.push(Suggestion { text, confidence, evidence });
        }
    }
    let mut kinds = vec![PatternKind::Unknown; failed.len()];
    clusters.iter().for_each(|cluster| cluster.members.iter().for_each(|at| kinds[*at] = cluster.class.kind));
    Analysis {
        framework: report.framework.clone(),
        outcome: report.outcome,
        total: count.total,
        analyzed: failed.len() as u64,
        error_patterns: clusters.iter().take(limit).map(|cluster| cluster.pattern(&failed)).collect(),
        patterns_left_out: clusters.len().saturating_sub(limit) as u64,
        suggestions,
        affected_files: affected_files.into_iter().take(ANALYSIS_FILES_MAX).collect(),
        failed_tests: failed
            .iter()
            .zip(kinds)
            .take(limit)
            .map(|(failed, kind)| FailedTest { location: failed.location(), kind })
            .collect(),
        changed_files: None,
        suspects: None,
        notes: causes.notes,
        further_causes: causes.further.into_iter().take(ANALYSIS_FURTHER_CAUSES_MAX).collect(),
        root_cause: causes.found,
    }
}

// The first of the names.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.take(ANALYSIS_NAMES_MAX).map(str::to_owned).collect()
}
