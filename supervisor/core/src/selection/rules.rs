//! Applies the table of files, the coverage index and the imports to the files that changed.

use super::file_kind::{Ecosystem, FileKind, directory, file_name};
use super::go_packages::GoPackages;
use super::python_modules::PythonModules;
use super::snapshot::{ChangedFile, HowChanged, Snapshot};
use super::text::LineMap;
use super::{AffectedTests, Baseline, FullReason, LastResult, Reason, SelectedTest};
use crate::bounds::SELECTION_LINES_MAX;
use crate::coverage::{Attribution, CoverageIndex, CoveringTests};
use crate::failure::RerunPlan;
use crate::request::{RerunTarget, RunRequest};
use crate::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a selection depends on.
pub struct SelectionInput<'a> {
    /// The state that the workspace is compared with, in words.
    pub since: String,
    /// What changed since then.
    pub changes: Vec<ChangedFile>,
    /// Results of the tests, and the text that they are of.
    pub baseline: &'a Baseline,
    /// Lines that the tests executed.
    pub index: &'a CoverageIndex,
    /// What failed last time.
    pub failures: RerunPlan,
    /// The settings that the tests would run with.
    pub settings: &'a RunRequest,
    /// The files now.
    pub now: &'a Snapshot,
    /// The text of the sources for which [`Ecosystem::is_read`] holds, by path.
    pub sources: &'a BTreeMap<String, String>,
}

/// Selects the tests that may be affected.
#[must_use]
pub fn select(input: SelectionInput<'_>) -> AffectedTests {
    let known = input.baseline.tests().values().map(|tests| tests.len() as u64).sum();
    let (since, changed_files) = (input.since.clone(), input.changes.len() as u64);
    match Picks::of(&input) {
        Ok(picks) => {
            let outside = input.now.links_outside();
            let note = format!("{outside} link(s) lead out of the workspace: changes behind them are not seen");
            let answer = picks.into_answer(input.baseline, since, known, changed_files);
            AffectedTests { notes: (outside > 0).then_some(note).into_iter().collect(), ..answer }
        }
        Err(reason) => AffectedTests { changed_files, ..AffectedTests::full(since, reason, known) },
    }
}

/// Selected tests by package or file.
#[derive(Default)]
struct Picks {
    units: BTreeMap<String, Unit>,
    /// Known packages and files that are gone.
    gone: BTreeSet<String>,
    /// Failures that the last run names without their package.
    named: BTreeSet<String>,
}

#[derive(Default)]
struct Unit {
    whole: Option<Reason>,
    tests: BTreeMap<String, Reason>,
}

type Rules<'a> = (&'a SelectionInput<'a>, &'a mut Picks);

impl Picks {
    fn of(input: &SelectionInput<'_>) -> Result<Picks, FullReason> {
        let baseline = input.baseline;
        let framework = &baseline.framework;
        let ecosystem = Ecosystem::of_framework(framework)
            .ok_or_else(|| FullReason::Unsupported { framework: framework.clone() })?;
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
            return Err(FullReason::UnknownChanges {
                why: "the tests have more names than a session remembers".into(),
            });
        }
        if ecosystem == Ecosystem::Go && !input.index.has_measured() {
            return Err(FullReason::NoCoverage);
        }
        let mut picks = Picks::default();
        picks.add_failures(&input.failures)?;
        // What decides about all tests first, so that the reason is that of the first such file.
        for change in &input.changes {
            check_kind(ecosystem, change, input.sources)?;
        }
        match ecosystem {
            Ecosystem::Go => go((input, &mut picks))?,
            Ecosystem::Python => python((input, &mut picks))?,
        }
        picks.add_results(baseline);
        Ok(picks)
    }

    fn add_failures(&mut self, failures: &RerunPlan) -> Result<(), FullReason> {
        match failures {
            RerunPlan::Everything => return Err(FullReason::UnknownFailures),
            RerunPlan::NoRunYet | RerunPlan::NothingFailed { .. } => {}
            RerunPlan::Targets { now, deferred } => {
                if deferred.more > 0 || deferred.unreached {
                    return Err(FullReason::UnknownFailures);
                }
                for target in now.iter().chain(&deferred.targets) {
                    match target {
                        RerunTarget::Package(unit) => self.whole(unit, Reason::FailedLast),
                        RerunTarget::Test(test) => self.test(test, Reason::FailedLast),
                        RerunTarget::Name(name) => _ = self.named.insert(name.clone()),
                    }
                }
            }
        }
        Ok(())
    }

    fn add_results(&mut self, baseline: &Baseline) {
        for (unit, tests) in baseline.tests().iter().filter(|(unit, _)| !self.gone.contains(*unit)).collect::<Vec<_>>()
        {
            for (name, result) in tests {
                let reason = match result {
                    LastResult::Passed => continue,
                    LastResult::Failed => Reason::FailedLast,
                    LastResult::Flaky => Reason::Flaky,
                    LastResult::Skipped => Reason::SkippedLast,
                };
                self.test(&TestId { package: unit.clone(), name: name.clone() }, reason);
            }
        }
    }

    // Known packages and files that are not there: removed ones have no tests any more, of others nothing is known.
    fn sort_out_gone(
        &mut self,
        baseline: &Baseline,
        is_there: impl Fn(&str) -> bool,
        is_removed: impl Fn(&str) -> bool,
    ) {
        for unit in baseline.tests().keys().filter(|unit| !is_there(unit)) {
            if is_removed(unit) {
                self.gone.insert(unit.clone());
            } else {
                self.whole(unit, Reason::Unmapped);
            }
        }
    }

    fn whole(&mut self, unit: &str, reason: Reason) {
        let whole = &mut self.units.entry(unit.to_owned()).or_default().whole;
        *whole = Some(whole.take().map_or(reason.clone(), |known| known.min(reason)));
    }

    fn test(&mut self, test: &TestId, reason: Reason) {
        let tests = &mut self.units.entry(test.package.clone()).or_default().tests;
        let known = tests.entry(test.name.clone()).or_insert_with(|| reason.clone());
        if reason < *known {
            *known = reason;
        }
    }

    fn covering(&mut self, covering: &CoveringTests, reason: &Reason) {
        for test in &covering.tests {
            if covering.attribution == Some(Attribution::Test) {
                self.test(test, reason.clone());
            } else {
                self.whole(&test.package, reason.clone());
            }
        }
    }

    // One process runs all tests of a Go package, and the first to need something cached executes it for all: so by package.
    fn covering_packages(&mut self, covering: &CoveringTests, reason: &Reason) {
        covering.tests.iter().for_each(|test| self.whole(&test.package, reason.clone()));
    }

    fn into_answer(self, baseline: &Baseline, since: String, known: u64, changed_files: u64) -> AffectedTests {
        let Picks { units, gone, named } = self;
        let mut ranked: Vec<(Reason, TestId)> = Vec::new();
        let mut targets: Vec<RerunTarget> = Vec::new();
        let units = units.into_iter().filter(|(name, _)| !gone.contains(name));
        for (name, unit) in units {
            let known_tests = baseline.tests().get(&name);
            let is_all = |tests: &super::baseline::TestsOfUnit| tests.keys().all(|test| unit.tests.contains_key(test));
            let is_whole = unit.whole.is_some() || known_tests.is_some_and(is_all);
            let all = known_tests.into_iter().flat_map(|tests| tests.keys()).filter(|_| is_whole);
            let names: BTreeSet<&String> = unit.tests.keys().chain(all).collect();
            for test in names {
                let reason = unit.tests.get(test).into_iter().chain(&unit.whole).min();
                ranked.extend(
                    reason.map(|reason| (reason.clone(), TestId { package: name.clone(), name: test.clone() })),
                );
            }
            if is_whole {
                targets.push(RerunTarget::Package(name));
            } else {
                let tests = unit.tests.into_keys().map(|test| TestId { package: name.clone(), name: test });
                targets.extend(tests.map(RerunTarget::Test));
            }
        }
        targets.extend(named.into_iter().map(RerunTarget::Name));
        ranked.sort();
        // A skipped test alone tells nothing, and a run without one executed test is no pass.
        if ranked.iter().all(|(reason, _)| *reason == Reason::SkippedLast) && targets_are_known(&targets, baseline) {
            (ranked, targets) = (Vec::new(), Vec::new());
        }
        let selected: Vec<SelectedTest> =
            ranked.into_iter().map(|(reason, test)| SelectedTest { test, reason }).collect();
        let known = known
            - gone.iter().filter_map(|unit| baseline.tests().get(unit)).map(|tests| tests.len() as u64).sum::<u64>();
        // Failures of the last run may have names that no run of all tests had.
        let known = known.max(selected.len() as u64);
        AffectedTests { since, full_reason: None, selected, targets, known, changed_files, notes: Vec::new() }
    }
}

fn targets_are_known(targets: &[RerunTarget], baseline: &Baseline) -> bool {
    targets.iter().all(|target| target.package().is_some_and(|unit| baseline.tests().contains_key(unit)))
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
        FileKind::Documentation | FileKind::Source | FileKind::Test | FileKind::SetUp => Ok(()),
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

fn go((input, picks): Rules<'_>) -> Result<(), FullReason> {
    let packages = GoPackages::new(input.sources);
    let removed = input.changes.iter().filter(|change| change.new.is_none());
    let left: BTreeSet<String> = removed.filter_map(|change| packages.package_of(&change.path)).collect();
    picks.sort_out_gone(input.baseline, |unit| packages.has(unit), |unit| left.contains(unit));
    let mut product: Option<&str> = None;
    for change in &input.changes {
        let (path, kind) = (change.path.as_str(), FileKind::of(Ecosystem::Go, &change.path));
        if kind == FileKind::Documentation {
            continue;
        }
        let package = packages
            .package_of(path)
            .ok_or_else(|| FullReason::NoPackage { file: path.into(), how: change.how.word() })?;
        if kind == FileKind::Data && !packages.has(&package) {
            return Err(FullReason::Data { file: path.into(), how: change.how.word() });
        }
        if kind == FileKind::Test {
            if packages.has_tests(&package) {
                picks.whole(&package, Reason::OwnFile(path.to_owned()));
            }
            continue;
        }
        product.get_or_insert(path);
        if !add_executing_tests((input, picks), change) {
            for dependent in packages.dependents(&package) {
                let is_own = dependent == package;
                let reason = if is_own { Reason::OwnFile(path.to_owned()) } else { Reason::Imports(path.to_owned()) };
                if packages.has_tests(&dependent) {
                    picks.whole(&dependent, reason);
                }
            }
        }
    }
    if let Some(path) = product {
        for package in packages.reaching_all().iter().filter(|package| packages.has_tests(package)) {
            picks.whole(package, Reason::ReachesAll(path.to_owned()));
        }
    }
    // Packages of which nothing was measured.
    let mut measured: BTreeSet<String> = BTreeSet::new();
    for file in input.index.file_names() {
        measured.extend(input.index.covering(file, None).tests.into_iter().map(|test| test.package));
    }
    for unit in input.baseline.tests().keys().filter(|unit| !measured.contains(*unit)) {
        if !picks.gone.contains(unit) {
            picks.whole(unit, Reason::Unmapped);
        }
    }
    Ok(())
}

// Selects the tests that executed a changed line of a function's body. False if these are not all that may be affected: a line
// outside of functions changed, a line that no test executed, or what was measured is not known.
fn add_executing_tests((input, picks): Rules<'_>, change: &ChangedFile) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let map = LineMap::new(old, new);
    if change.how != HowChanged::Edited || !map.knows_lines() || map.changes_declarations() {
        return false;
    }
    let Some(texts) = input.baseline.measured_texts(&change.path) else { return false };
    let mut lines: BTreeSet<u32> = BTreeSet::new();
    for text in &texts {
        let since_measured = LineMap::new(text, new);
        if !since_measured.knows_lines() {
            return false;
        }
        let spans = map.changed_lines().into_iter().flat_map(|span| since_measured.old_lines_around(span));
        lines.extend(spans.flat_map(|span| span.first..=span.last).take(SELECTION_LINES_MAX + 1));
    }
    let reason = Reason::ExecutedLine(change.path.clone());
    if lines.len() > SELECTION_LINES_MAX {
        let covering = input.index.covering(&change.path, None);
        picks.covering_packages(&covering, &Reason::TouchedFile(change.path.clone()));
        return !covering.tests.is_empty();
    }
    let mut is_executed = false;
    for line in lines {
        let covering = input.index.covering(&change.path, Some(line));
        is_executed |= !covering.tests.is_empty();
        picks.covering_packages(&covering, &reason);
    }
    is_executed
}

fn python((input, picks): Rules<'_>) -> Result<(), FullReason> {
    let removed = input.changes.iter().filter(|change| change.new.is_none()).map(|change| change.path.as_str());
    let modules = PythonModules::new(input.sources, removed);
    let left: BTreeSet<&str> =
        input.changes.iter().filter(|change| change.new.is_none()).map(|change| change.path.as_str()).collect();
    picks.sort_out_gone(input.baseline, |unit| input.now.file(unit).is_some(), |unit| left.contains(unit));
    let changed = |change: &&ChangedFile| FileKind::of(Ecosystem::Python, &change.path) != FileKind::Documentation;
    let mut product: Option<&str> = None;
    for change in input.changes.iter().filter(changed) {
        if let Some(word) = modules.convention() {
            return Err(FullReason::Convention { word });
        }
        let path = change.path.as_str();
        let dependents = modules.dependents(path);
        if let Some(file) = dependents.iter().find(|file| is_named_in_settings(file, input.sources)) {
            return Err(FullReason::Settings {
                file: file.clone(),
                what: "a module that settings name",
                how: change.how.word(),
            });
        }
        let is_test = |file: &str| {
            FileKind::of(Ecosystem::Python, file) == FileKind::Test || input.baseline.tests().contains_key(file)
        };
        if FileKind::of(Ecosystem::Python, path) == FileKind::SetUp {
            let below: Vec<String> = modules.below(directory(path)).map(str::to_owned).collect();
            below
                .iter()
                .filter(|file| is_test(file))
                .for_each(|file| picks.whole(file, Reason::SetUp(path.to_owned())));
        }
        for file in dependents.iter().filter(|file| is_test(file) && input.now.file(file).is_some()) {
            let reason = if file == path { Reason::OwnFile(path.to_owned()) } else { Reason::Imports(path.to_owned()) };
            picks.whole(file, reason);
        }
        // In one process, the first test to need something cached executes it for all: so by file, not by line.
        picks.covering(&input.index.covering(path, None), &Reason::TouchedFile(path.to_owned()));
        product.get_or_insert(path);
    }
    if let Some(path) = product {
        let reaching = modules.reaching_all();
        let tests = reaching.iter().filter(|file| input.baseline.tests().contains_key(*file));
        tests.for_each(|file| picks.whole(file, Reason::ReachesAll(path.to_owned())));
    }
    Ok(())
}

// A plugin or a settings module that pytest itself loads.
fn is_named_in_settings(path: &str, sources: &BTreeMap<String, String>) -> bool {
    let Some(name) = file_name(path).strip_suffix(".py") else { return false };
    let parent = file_name(directory(path));
    let dotted = format!("{parent}.{name}");
    let settings = sources.iter().filter(|(path, _)| !path.ends_with(".py"));
    settings.into_iter().any(|(_, text)| {
        !parent.is_empty() && text.contains(&dotted)
            || text.contains(&format!("-p {name}"))
            || text.contains(&format!("-p{name}"))
    })
}
