//! The rules of Go: which tests a changed source may affect.
//!
//! A package's tests share a process. An edit in the body of a function concerns the packages that executed the function, and of these
//! the tests that did, if it is also known what earlier tests executed for later ones, as by filling a cache; of some edits those that
//! executed the changed lines. Anything else concerns the packages that import the changed one.

use super::super::changed_lines::{add_tests_of_lines, tests_coming_by};
use super::super::file_kind::{Ecosystem, FileKind};
use super::super::picks::Picks;
use super::super::selection_input::SelectionInput;
use super::super::snapshot::ChangedFile;
use super::super::text::LineMap;
use super::super::{FullReason, LastResult, Reason};
use super::outer_names::ProductSources;
use super::packages::GoPackages;
use super::reaching_tests::ReachingTests;
use super::stores::stores_outside;
use crate::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Applies the rules to the changed files.
pub(in super::super) fn apply(input: &SelectionInput<'_>, picks: &mut Picks) -> Result<(), FullReason> {
    let packages = GoPackages::new(input.sources);
    let removed = input.changes.iter().filter(|change| change.new.is_none());
    let left: BTreeSet<String> = removed.filter_map(|change| packages.package_of(&change.path)).collect();
    picks.sort_out_gone(input.baseline, |unit| packages.has_tests(unit), |unit| left.contains(unit));
    let product_sources = product_sources(input.sources, &packages);
    let rules = GoRules { input, packages, alone: input.index.calibrated().1, product_sources };
    // The first change beside those of test files: tests that find files, or compile them, may read it.
    let mut reached: Option<&str> = None;
    for change in &input.changes {
        let (path, kind) = (change.path.as_str(), FileKind::of(Ecosystem::Go, &change.path));
        if kind == FileKind::Documentation {
            reached.get_or_insert(path);
            continue;
        }
        let package = rules.packages.package_of(path);
        let package = package.ok_or_else(|| FullReason::NoPackage { file: path.into(), how: change.how.word() })?;
        if kind == FileKind::Data && !rules.packages.has(&package) {
            return Err(FullReason::Data { file: path.into(), how: change.how.word() });
        }
        if kind == FileKind::Test {
            rules.add_whole(picks, &package, Reason::OwnFile(path.to_owned()));
            continue;
        }
        reached.get_or_insert(path);
        if rules.add_executing(picks, change, &package) {
            picks.ran_alone = rules.alone.len() as u64;
        } else {
            rules.add_importing(picks, path, &package);
        }
    }
    if let Some(path) = reached {
        rules.add_reaching_all(picks, &Reason::ReachesAll(path.to_owned()));
    }
    rules.add_unmeasured(picks);
    Ok(())
}

struct GoRules<'a> {
    input: &'a SelectionInput<'a>,
    packages: GoPackages,
    /// Tests that ran alone, too, sorted: of these it is known what they need, whatever others executed before them.
    alone: Vec<TestId>,
    /// The sources of each package that are no tests.
    product_sources: BTreeMap<String, ProductSources<'a>>,
}

impl GoRules<'_> {
    fn add_whole(&self, picks: &mut Picks, package: &str, reason: Reason) {
        if self.packages.has_tests(package) {
            picks.whole(package, reason);
        }
    }

    /// Selects the tests that executed a function in whose body lines changed, or these lines where that is enough, and tests of their
    /// packages of which it is not known what they need. False if more may be affected.
    fn add_executing(&self, picks: &mut Picks, change: &ChangedFile, own: &str) -> bool {
        let Some(map) = line_map(change) else { return false };
        if map.changes_declarations() || map.moves_lines() && self.packages.knows_lines {
            return false;
        }
        let Some(executing) = add_tests_of_lines(self.input, picks, change, false) else { return false };
        let packages: BTreeSet<&str> = executing.iter().map(|test| test.package.as_str()).collect();
        let affected = tests_coming_by(self.input, change).unwrap_or_else(|| executing.clone());
        let mut vetted: BTreeSet<String> = BTreeSet::new();
        for test in packages.iter().flat_map(|package| self.tests_of(package)) {
            if affected.contains(&test) {
                picks.whole_test(self.input.baseline, &test, &Reason::TouchedFile(change.path.clone()));
            } else if self.alone.binary_search(&test).is_err() {
                picks.whole_test(self.input.baseline, &test, &Reason::ExecutedFunction(change.path.clone()));
            } else {
                continue;
            }
            vetted.insert(test.package);
        }
        // Any other test of the process may find what such a function leaves.
        if self.may_store(change, &map, own) {
            for package in &packages {
                self.add_whole(picks, package, Reason::ExecutedFunction(change.path.clone()));
            }
        }
        // `go test` vets each package that it is called with, also one without tests.
        match self.tests_of(own).next() {
            _ if vetted.contains(own) => {}
            Some(test) => picks.whole_test(self.input.baseline, &test, &Reason::OwnFile(change.path.clone())),
            None => picks.whole(own, Reason::OwnFile(change.path.clone())),
        }
        // Of other modules no line is measured.
        let dependents = self.packages.dependents(own);
        for package in dependents.iter().filter(|package| self.packages.are_of_two_modules(package, own)) {
            self.add_whole(picks, package, Reason::Imports(change.path.clone()));
        }
        true
    }

    /// Whether a function in which lines changed may leave something where a test finds it that does not execute the function.
    fn may_store(&self, change: &ChangedFile, map: &LineMap, package: &str) -> bool {
        let text = self.input.sources.get(&change.path);
        text.is_none_or(|text| stores_outside(text, &map.changed_lines(), package, &self.product_sources))
    }

    /// Selects the tests that may run or read any source.
    fn add_reaching_all(&self, picks: &mut Picks, reason: &Reason) {
        for (package, tests) in self.packages.reaching_all() {
            match tests {
                ReachingTests::All => self.add_whole(picks, &package, reason.clone()),
                ReachingTests::Some(names) => {
                    for test in self.tests_of(&package).filter(|test| names.contains(&test.name)) {
                        picks.whole_test(self.input.baseline, &test, reason);
                    }
                }
            }
        }
    }

    /// The known top-level tests of a package.
    fn tests_of(&self, package: &str) -> impl Iterator<Item = TestId> {
        let names = self.input.baseline.tests().get(package).into_iter().flat_map(BTreeMap::keys);
        let mut tests: Vec<TestId> = names
            .map(|name| name.split_once('/').map_or(name.as_str(), |(whole, _)| whole))
            .map(|name| TestId { package: package.to_owned(), name: name.to_owned() })
            .collect();
        tests.sort();
        tests.dedup();
        tests.into_iter()
    }

    fn add_importing(&self, picks: &mut Picks, path: &str, package: &str) {
        for dependent in self.packages.dependents(package) {
            let is_own = dependent == package;
            let reason = if is_own { Reason::OwnFile(path.to_owned()) } else { Reason::Imports(path.to_owned()) };
            self.add_whole(picks, &dependent, reason);
        }
    }

    /// Selects the packages with a test that was not measured as it is now, or of which no line was.
    fn add_unmeasured(&self, picks: &mut Picks) {
        let index = self.input.index;
        let files = index.file_names();
        let with_lines: BTreeSet<String> =
            files.flat_map(|file| index.tests_touching(file, None).tests).map(|test| test.package).collect();
        let measured = index.measured_tests();
        let is_measured =
            |unit: &str, name: &str| measured.contains(&(unit, name.split('/').next().unwrap_or_default()));
        for (unit, tests) in self.input.baseline.tests() {
            let mut run = tests.iter().filter(|(_, result)| **result != LastResult::Skipped);
            let is_known = with_lines.contains(unit) && run.all(|(name, _)| is_measured(unit, name));
            if !is_known && !picks.gone.contains(unit) {
                picks.whole(unit, Reason::Unmapped);
            }
        }
    }
}

fn product_sources<'s>(
    sources: &'s BTreeMap<String, String>,
    packages: &GoPackages,
) -> BTreeMap<String, ProductSources<'s>> {
    let mut found: BTreeMap<String, ProductSources<'_>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| path.ends_with(".go") && !path.ends_with("_test.go")) {
        if let Some(package) = packages.package_of(path) {
            found.entry(package).or_default().add(text);
        }
    }
    found
}

fn line_map(change: &ChangedFile) -> Option<LineMap> {
    Some(LineMap::new(change.old.as_ref()?, change.new.as_ref()?))
}
