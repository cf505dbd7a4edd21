//! Applies the table of files, the coverage index and the imports to the files that changed.

use super::file_kind::{Ecosystem, FileKind, directory, file_name};
use super::go::rules as go_rules;
use super::javascript_rules;
use super::picks::Picks;
use super::python_rules;
use super::rust_rules;
use super::selection_input::SelectionInput;
use super::snapshot::ChangedFile;
use super::{AffectedTests, Baseline, FullReason};
use crate::bounds::{SELECTION_CHANGES_MAX, SELECTION_NAMED_FILES_MAX};
use crate::request::RunRequest;
use std::collections::BTreeMap;

/// Selects the tests that may be affected.
#[must_use]
pub fn select(input: SelectionInput<'_>) -> AffectedTests {
    let known = input.baseline.known_tests();
    let (since, changed_files) = (input.since.clone(), input.changes.len() as u64);
    match picked(&input) {
        Ok(picks) => {
            let outside = input.now.links_outside();
            let note = format!("{outside} link(s) lead out of the workspace: changes behind them are not seen");
            let answer = picks.into_answer(input.baseline, since, known, changed_files);
            AffectedTests { notes: (outside > 0).then_some(note).into_iter().collect(), ..answer }
        }
        Err(reason) => AffectedTests { changed_files, ..AffectedTests::full(since, reason, known) },
    }
}

fn picked(input: &SelectionInput<'_>) -> Result<Picks, FullReason> {
    let baseline = input.baseline;
    let framework = &baseline.framework;
    let ecosystem =
        Ecosystem::of_framework(framework).ok_or_else(|| FullReason::Unsupported { framework: framework.clone() })?;
    check_settings(baseline, input.settings)?;
    if let Some(why) = input.now.incomplete().or(baseline.seen.snapshot.incomplete()) {
        return Err(FullReason::UnknownChanges { why: why.to_owned() });
    }
    if input.now.others != baseline.seen.snapshot.others {
        let why = "a file whose name is not UTF-8 was added, changed or removed".to_owned();
        return Err(FullReason::UnknownChanges { why });
    }
    for change in &input.changes {
        if let Some(link) = input.now.link_to(&change.path) {
            let why = format!("{} was {}, and the link {link} leads to it", change.path, change.how.word());
            return Err(FullReason::UnknownChanges { why });
        }
    }
    if baseline.has_unknown_tests() {
        return Err(FullReason::UnknownChanges { why: "the tests have more names than a session remembers".into() });
    }
    if matches!(ecosystem, Ecosystem::Go | Ecosystem::Rust) && !input.index.has_measured() {
        return Err(FullReason::NoCoverage);
    }
    if input.changes.len() > SELECTION_CHANGES_MAX {
        return Err(FullReason::TooManyChanges);
    }
    let mut picks = Picks::default();
    picks.add_failures(&input.failures)?;
    // Each of these files is searched in all texts.
    let is_documentation = |change: &&ChangedFile| FileKind::of(ecosystem, &change.path) == FileKind::Documentation;
    if input.changes.iter().filter(is_documentation).count() > SELECTION_NAMED_FILES_MAX {
        return Err(FullReason::TooManyNames { what: "changed files of documentation" });
    }
    // What decides about all tests first, so that the reason is that of the first such file.
    for change in &input.changes {
        check_kind(ecosystem, change, input.sources)?;
    }
    match ecosystem {
        Ecosystem::Go => go_rules::apply(input, &mut picks)?,
        Ecosystem::Rust => rust_rules::apply(input, &mut picks)?,
        Ecosystem::Python => python_rules::apply(input, &mut picks)?,
        Ecosystem::JavaScript => javascript_rules::apply(input, &mut picks)?,
    }
    picks.add_results(baseline);
    // A run of all tests that finds none is no pass, so that nothing to run may not look like one.
    if !baseline.tests().is_empty() && baseline.tests().keys().all(|unit| picks.gone.contains(unit)) {
        return Err(FullReason::NoneLeft);
    }
    Ok(picks)
}

fn check_settings(baseline: &Baseline, now: &RunRequest) -> Result<(), FullReason> {
    let before = &baseline.settings;
    let differs = [
        ("the environment variables", before.env != now.env),
        ("the framework", now.framework.as_ref().is_some_and(|name| *name != baseline.framework)),
        ("the command", before.command != now.command),
        ("the network access", before.network != now.network),
    ];
    match differs.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(FullReason::OtherSettings { what }),
        None => Ok(()),
    }
}

// Errors for files after which all tests have to run.
fn check_kind(
    ecosystem: Ecosystem,
    change: &ChangedFile,
    sources: &BTreeMap<String, String>,
) -> Result<(), FullReason> {
    let (path, how) = (&change.path, change.how.word());
    let data = || FullReason::Data { file: path.clone(), how };
    match FileKind::of(ecosystem, path) {
        FileKind::Settings(what) => Err(FullReason::Settings { file: path.clone(), what, how }),
        FileKind::SetUp if directory(path).is_empty() => {
            Err(FullReason::Settings { file: path.clone(), what: "the set-up of all tests", how })
        }
        FileKind::Data if ecosystem == Ecosystem::Go && is_linked_into_go(path) => Ok(()),
        FileKind::Data => Err(data()),
        FileKind::Documentation if is_read_by_sources(path, sources) => Err(data()),
        FileKind::Documentation | FileKind::Source | FileKind::Test | FileKind::SetUp | FileKind::Snapshot => Ok(()),
    }
}

// The go tool compiles or links these files of a package's directory.
fn is_linked_into_go(path: &str) -> bool {
    let extensions =
        [".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".m", ".s", ".S", ".sx", ".f", ".swig", ".syso"];
    !path.split('/').any(|part| part == "testdata") && extensions.iter().any(|extension| path.ends_with(extension))
}

// Whether a source or the settings name the file, its extension as a pattern, or embed or test what is in its directory.
fn is_read_by_sources(path: &str, sources: &BTreeMap<String, String>) -> bool {
    let name = file_name(path);
    let pattern = name.rsplit_once('.').map(|(_, extension)| format!("*.{extension}"));
    let is_below = |source: &str| {
        let dir = directory(source);
        dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
    };
    sources.iter().any(|(source, text)| {
        text.contains(name)
            || pattern.as_ref().is_some_and(|pattern| text.contains(pattern))
            || text.contains("go:embed") && is_below(source)
            || text.contains("doctest-glob")
    })
}
