//! The mutants of a workspace: of executed lines of the product's sources, in the files or the changes that are asked for.

use super::baseline::Baseline;
use crate::cli::mutate_arguments::MutateArgs;
use crate::cli::{CommandError, in_process};
use crate::workspace::Workspace;
use proctor_core::coverage::LineSpan;
use proctor_core::mutation::{Language, Mutant, choose, mutants};
use proctor_core::test_case::TestId;
use proctor_core::untested::ChangedSource;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A mutant and the tests that may notice it.
pub(super) struct Candidate {
    /// The file, relative to the workspace.
    pub(super) file: String,
    /// Its text without the mutant.
    pub(super) text: Arc<str>,
    pub(super) mutant: Mutant,
    /// The tests that execute its line and pass without it.
    pub(super) tests: Vec<TestId>,
}

/// The mutants to run.
pub(super) struct Candidates {
    /// In order of file, line and place.
    pub(super) chosen: Vec<Candidate>,
    /// Mutants that the bound left out.
    pub(super) left_out: usize,
    /// Mutants on lines that only failing tests execute.
    pub(super) without_tests: usize,
    /// What was mutated, in words.
    pub(super) scope: String,
}

/// The files or directories named on the command line, relative to the workspace.
pub(super) fn named_files(workspace: &Workspace, files: &[String]) -> Result<Vec<String>, CommandError> {
    let existing = |file: &String| {
        workspace.existing(file).map_err(|error| in_process::path_failure(&format!("file {file}"), &error))
    };
    files.iter().map(existing).collect()
}

impl Candidates {
    /// Finds the mutants and picks some of many. Reads files.
    ///
    /// # Errors
    /// If no executed line of the product has a mutant, or the revision does not exist.
    pub(super) fn find(
        workspace: &Workspace,
        baseline: &Baseline,
        files: &[String],
        arguments: &MutateArgs,
    ) -> Result<Candidates, CommandError> {
        let changed: Option<BTreeMap<String, Vec<LineSpan>>> = match &arguments.since {
            Some(revision) => {
                let is_product = |path: &str| Language::of_product(path).is_some();
                let sources = workspace.sources_changed_since_commit(revision, is_product);
                let (_, sources) = sources.map_err(|error| CommandError::usage(format!("since: {error}")))?;
                let all = || vec![LineSpan { first: 1, last: u32::MAX }];
                let lines = |source: &ChangedSource| source.changed_lines().unwrap_or_else(all);
                let (sources, not_read) = sources.finish();
                let compared = sources.iter().map(|source| (source.path.clone(), lines(source)));
                Some(compared.chain(not_read.into_iter().map(|path| (path, all()))).collect())
            }
            None => None,
        };
        let is_named = |path: &str| {
            let is_within = |named: &String| {
                path.strip_prefix(named.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            files.is_empty() || files.iter().any(is_within)
        };
        let (mut found, mut without_tests) = (Vec::new(), 0);
        for path in baseline.index.file_names().filter(|path| is_named(path)) {
            let Some(language) = Language::of_product(path) else { continue };
            let spans = changed.as_ref().map(|changed| changed.get(path));
            if spans == Some(None) {
                continue;
            }
            let Some(text) = measured_text(workspace, baseline, path) else { continue };
            let text: Arc<str> = text.into();
            // Whether a line is executed, and by a test that can notice something.
            let mut lines: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
            for mutant in mutants(language, &text) {
                let is_in = |span: &LineSpan| (span.first..=span.last).contains(&mutant.line);
                if spans.flatten().is_some_and(|spans| !spans.iter().any(is_in)) {
                    continue;
                }
                let (is_executed, has_tests) = *lines.entry(mutant.line).or_insert_with(|| {
                    let covering = baseline.index.covering(path, Some(mutant.line)).tests;
                    (!covering.is_empty(), covering.iter().any(|test| baseline.is_sound(test)))
                });
                without_tests += usize::from(is_executed && !has_tests);
                if has_tests {
                    found.push((path, Arc::clone(&text), mutant));
                }
            }
        }
        let scope = scope(arguments, files);
        if found.is_empty() {
            return Err(CommandError::usage(format!(
                "nothing to mutate in {scope}: no executed line of the product, in Go, Python, JavaScript or TypeScript, has a \
                 mutant; `proctor covering FILE` shows which tests execute a file"
            )));
        }
        let lines: Vec<(&str, u32)> = found.iter().map(|(file, _, mutant)| (*file, mutant.line)).collect();
        let max = usize::try_from(arguments.max).unwrap_or(usize::MAX);
        let mut wanted = choose(&lines, max).into_iter().peekable();
        let total = found.len();
        let is_wanted = |(index, candidate)| wanted.next_if_eq(&index).map(|_| candidate);
        let with_tests = |(file, text, mutant): (&str, Arc<str>, Mutant)| {
            let tests = baseline.sound(baseline.index.covering(file, Some(mutant.line)).tests);
            Candidate { file: file.to_owned(), text, mutant, tests }
        };
        let chosen: Vec<Candidate> = found.into_iter().enumerate().filter_map(is_wanted).map(with_tests).collect();
        Ok(Candidates { left_out: total - chosen.len(), chosen, without_tests, scope })
    }
}

/// The text of a source; `None` unless it is the one whose lines were measured.
fn measured_text(workspace: &Workspace, baseline: &Baseline, path: &str) -> Option<String> {
    let (text, source) = workspace.source_text(path)?;
    let (_, measured) = baseline.index.source(path)?.newest()?;
    (text.content_number() == measured).then_some(source)
}

fn scope(arguments: &MutateArgs, files: &[String]) -> String {
    let files = if files.is_empty() { "the executed lines".to_owned() } else { files.join(", ") };
    arguments.since.as_ref().map_or_else(|| files.clone(), |since| format!("{files} changed since {since}"))
}
