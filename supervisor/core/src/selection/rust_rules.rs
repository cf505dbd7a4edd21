//! The rules of Rust: which tests of `cargo test` and nextest a changed source may affect.
//!
//! One process runs all tests of a target, and the first to need something cached executes it for all: so by target, not by test.

use super::baseline::LastResult;
use super::changed_lines::add_tests_of_functions;
use super::file_kind::{Ecosystem, FileKind, file_name};
use super::picks::Picks;
use super::rust_packages::RustPackages;
use super::selection_input::SelectionInput;
use super::snapshot::ChangedFile;
use super::{FullReason, Reason};
use crate::bounds::SELECTION_NAMED_FILES_MAX;
use crate::test_case::TestId;
use std::collections::BTreeSet;

pub(super) fn apply(input: &SelectionInput<'_>, picks: &mut Picks) -> Result<(), FullReason> {
    let packages = RustPackages::new(input.sources);
    let units = || input.baseline.tests().keys();
    if input.changes.len() > SELECTION_NAMED_FILES_MAX {
        return Err(FullReason::TooManyNames { what: "changed files" });
    }
    let mut first: Option<&str> = None;
    for change in input.changes.iter().filter(|change| kind(change) != FileKind::Documentation) {
        let (path, how) = (change.path.as_str(), change.how.word());
        let file = || path.to_owned();
        if let Some(word) = packages.convention() {
            return Err(FullReason::Convention { word });
        }
        if (change.old.is_none() || change.new.is_none()) && packages.may_be_target(path) {
            let why = "Cargo finds the tests and programs of this directory by itself";
            return Err(FullReason::MaybeTest { file: file(), how, why });
        }
        if is_text_of_a_source(path, input) {
            return Err(FullReason::Data { file: file(), how });
        }
        first.get_or_insert(path);
        let tests = packages.tests_of(path).ok_or_else(|| FullReason::NoPackage { file: file(), how })?;
        let may_count_lines = packages.knows_lines() && lines(&change.old) != lines(&change.new);
        if !packages.runs_at_build(path) && !may_count_lines && add_tests_of_functions(input, picks, change) {
            continue;
        }
        let found = packages.units(&tests, units());
        // A target of another name, or a package that is no member of the workspace and that a test may read.
        let found = match packages.package_of(path) {
            Some(package) if found.is_empty() => packages.units(&package, units()),
            _ => found,
        };
        if found.is_empty() {
            return Err(FullReason::Data { file: file(), how });
        }
        let is_own = |unit: &str| packages.is_of_package(unit, path);
        for unit in found {
            picks.whole(unit, if is_own(unit) { Reason::OwnFile(file()) } else { Reason::Imports(file()) });
        }
    }
    if let Some(path) = first {
        let with_processes = input.index.tests_with_processes().into_iter().map(|test| test.package);
        let reaching_all = packages.reaching_all().flat_map(|tests| packages.units(tests, units())).cloned();
        for unit in reaching_all.chain(with_processes) {
            picks.whole(&unit, Reason::ReachesAll(path.to_owned()));
        }
    }
    add_unmeasured(input, picks);
    Ok(())
}

fn kind(change: &ChangedFile) -> FileKind {
    FileKind::of(Ecosystem::Rust, &change.path)
}

fn lines(text: &Option<super::FileText>) -> usize {
    text.as_ref().map_or(0, super::FileText::lines)
}

/// Whether a source or a manifest names the file, as one does that takes its text in.
fn is_text_of_a_source(path: &str, input: &SelectionInput<'_>) -> bool {
    let name = format!("{}\"", file_name(path));
    input.sources.iter().any(|(source, text)| source.ends_with(".rs") && text.contains(&name))
}

/// Adds the targets with a test of which no line is known: documentation tests, and tests whose records were too many.
fn add_unmeasured(input: &SelectionInput<'_>, picks: &mut Picks) {
    let measured: BTreeSet<TestId> = input.index.completely_measured().into_iter().collect();
    for (unit, tests) in input.baseline.tests() {
        let test = |name: &String| TestId { package: unit.clone(), name: name.clone() };
        let mut run = tests.iter().filter(|(_, result)| **result != LastResult::Skipped);
        if run.any(|(name, _)| !measured.contains(&test(name))) {
            picks.whole(unit, Reason::Unmapped);
        }
    }
}
