//! The rules of Rust: which tests of `cargo test` and nextest a changed source may affect.
//!
//! With `cargo test` one process runs all tests of a target, and the first to need something cached executes it for all: so by
//! target, not by test. A library is selected with its whole package, which a run of it builds and runs.

use super::baseline::LastResult;
use super::changed_lines::{add_tests_of_functions, moves_lines};
use super::file_kind::{Ecosystem, FileKind, file_name};
use super::picks::Picks;
use super::rust_packages::{RustPackages, package_of_unit};
use super::rust_text::lists_files;
use super::selection_input::SelectionInput;
use super::snapshot::ChangedFile;
use super::{FullReason, Reason};
use crate::bounds::SELECTION_NAMED_FILES_MAX;
use crate::test_case::TestId;

pub(super) fn apply(input: &SelectionInput<'_>, picks: &mut Picks) -> Result<(), FullReason> {
    let packages = RustPackages::new(input.sources);
    let known = input.baseline.tests();
    if input.changes.len() > SELECTION_NAMED_FILES_MAX {
        return Err(FullReason::TooManyNames { what: "changed files" });
    }
    if let Some(change) = input.changes.iter().find(|change| is_documentation(change) && may_be_read(change, input)) {
        return Err(FullReason::Data { file: change.path.clone(), how: change.how.word() });
    }
    let mut first: Option<&str> = None;
    for change in input.changes.iter().filter(|change| !is_documentation(change)) {
        let (path, how) = (change.path.as_str(), change.how.word());
        let file = || path.to_owned();
        if let Some(why) = packages.why_unknown() {
            return Err(why.clone());
        }
        if (change.old.is_none() || change.new.is_none()) && packages.may_be_target(path) {
            let why = "Cargo finds the tests and programs of this directory by itself";
            return Err(FullReason::MaybeTest { file: file(), how, why });
        }
        if is_named_in_a_source(path, input) {
            return Err(FullReason::Data { file: file(), how });
        }
        first.get_or_insert(path);
        let tests = packages.tests_of(path).ok_or_else(|| FullReason::NoPackage { file: file(), how })?;
        let may_count_lines = packages.knows_lines() && moves_lines(change);
        let is_measured = !packages.is_executed_elsewhere(path) && !may_count_lines;
        if is_measured && add_tests_of_functions(input, picks, change) {
            continue;
        }
        let units = packages.units(&[&tests], known.keys());
        // The package may be no member of the workspace, and its files what a test reads.
        if !units.iter().any(|unit| known.contains_key(unit)) {
            return Err(FullReason::Data { file: file(), how });
        }
        for unit in units {
            let is_own = packages.is_of_package(&unit, path);
            picks.whole(&unit, if is_own { Reason::OwnFile(file()) } else { Reason::Imports(file()) });
        }
    }
    if let Some(path) = first {
        let with_processes = input.index.tests_with_processes().into_iter().map(|test| test.package);
        for unit in packages.units(&packages.reaching_all(), known.keys()).into_iter().chain(with_processes) {
            picks.whole(&unit, Reason::ReachesAll(path.to_owned()));
        }
    }
    add_unmeasured(input, picks);
    for (library, reason) in picks.whole_units() {
        if package_of_unit(&library) == library {
            let of_package = known.keys().filter(|unit| package_of_unit(unit) == library);
            of_package.for_each(|unit| picks.whole(unit, reason.clone()));
        }
    }
    Ok(())
}

fn is_documentation(change: &ChangedFile) -> bool {
    FileKind::of(Ecosystem::Rust, &change.path) == FileKind::Documentation
}

/// Whether a source takes in documentation without its whole name.
fn may_be_read(change: &ChangedFile, input: &SelectionInput<'_>) -> bool {
    let mut sources = input.sources.iter().filter(|(source, _)| source.ends_with(".rs"));
    sources.any(|(_, text)| lists_files(text, file_name(&change.path)))
}

/// Whether a source names the file, as one does that takes its text in.
fn is_named_in_a_source(path: &str, input: &SelectionInput<'_>) -> bool {
    let name = format!("{}\"", file_name(path));
    input.sources.iter().any(|(source, text)| source.ends_with(".rs") && text.contains(&name))
}

/// Adds the targets with a test of which not all lines are known: documentation tests, and tests whose records were too many.
fn add_unmeasured(input: &SelectionInput<'_>, picks: &mut Picks) {
    let measured = input.index.completely_measured();
    for (unit, tests) in input.baseline.tests() {
        let test = |name: &String| TestId { package: unit.clone(), name: name.clone() };
        let mut run = tests.iter().filter(|(_, result)| **result != LastResult::Skipped);
        if run.any(|(name, _)| measured.binary_search(&test(name)).is_err()) {
            picks.whole(unit, Reason::Unmapped);
        }
    }
}
