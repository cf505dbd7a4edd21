//! The rules of Python: which tests of pytest and unittest a changed source may affect.
//!
//! An edit in the body of a function concerns the tests that executed the function, and those that may need what it returned and another
//! function has kept, if it is known what earlier tests executed for later ones, as by filling a cache. Anything else concerns the test
//! files that may import the changed file.

use super::baseline::LastResult;
use super::changed_lines::add_tests_of_lines;
use super::file_kind::{Ecosystem, FileKind, directory, extension, file_name};
use super::picks::Picks;
use super::python_modules::{PythonModules, module_name, package_around};
use super::python_names::is_standard_module;
use super::python_stores::stores_outside;
use super::selection_input::SelectionInput;
use super::snapshot::ChangedFile;
use super::text::LineMap;
use super::{FullReason, Reason};

use crate::bounds::{SELECTION_LINES_MAX, SELECTION_NAMED_FILES_MAX};
use crate::coverage::{LineSpan, SourceLines, contains_line, united};
use crate::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Applies the rules to the changed files.
pub(super) fn apply(input: &SelectionInput<'_>, picks: &mut Picks) -> Result<(), FullReason> {
    let removed: BTreeSet<&str> =
        input.changes.iter().filter(|change| change.new.is_none()).map(|change| change.path.as_str()).collect();
    picks.sort_out_gone(input.baseline, |unit| input.now.file(unit).is_some(), |unit| removed.contains(unit));
    let modules = PythonModules::new(input.sources, removed.iter().copied());
    check_packages(input, &modules)?;
    check_stand_ins(input)?;
    let (calibrated, alone) = input.index.calibrated();
    let measured = input.index.completely_measured();
    let mut rules = PythonRules { input, modules, calibrated, measured, has_unknown: false };
    rules.has_unknown = input.baseline.tests().iter().any(|unit| rules.has_unknown_of(unit));
    let sources_have = |words: &[&str]| input.sources.values().any(|text| words.iter().any(|word| text.contains(word)));
    let naming = Naming { is_own: sources_have(&OWN_NAMES), has_examples: sources_have(&["doctest"]) };
    let with_new_tests = input.changes.iter().filter(|change| rules.may_have_new_tests(change, &naming));
    for change in with_new_tests.filter(|change| !rules.is_test(&change.path)) {
        picks.whole(&change.path, Reason::OwnFile(change.path.clone()));
    }
    rules.add_reading_documentation(picks);
    // Each of these is searched in all test files.
    let may_execute = input.changes.len() <= SELECTION_NAMED_FILES_MAX;
    let (mut imported, mut executed): (Option<&str>, Vec<&str>) = (None, Vec::new());
    for change in input.changes.iter().filter(|change| kind(&change.path) != FileKind::Documentation) {
        if may_execute && rules.add_executing(picks, change)? {
            executed.push(&change.path);
        } else {
            rules.add_importing(picks, change, |_| true)?;
            imported.get_or_insert(&change.path);
        }
    }
    if let Some(path) = imported {
        rules.add_whole(picks, &rules.modules.reaching_all(), &Reason::ReachesAll(path.to_owned()));
    }
    if let [path, ..] = executed[..] {
        rules.add_reading(picks, path, &executed);
        picks.ran_alone = alone.len() as u64;
    }
    Ok(())
}

fn kind(path: &str) -> FileKind {
    FileKind::of(Ecosystem::Python, path)
}

/// What a line of a test has: its head, or the base of its class.
const TEST_WORDS: [&str; 3] = ["def test", "class Test", "TestCase"];

/// Settings with which tests have names of the project's own, and what then may be a test.
const OWN_NAMES: [&str; 3] = ["python_files", "python_classes", "python_functions"];
const HEADS: [&str; 3] = ["def ", "async def ", "class "];

/// What tests are called.
struct Naming {
    /// Whether the project has names of its own for them.
    is_own: bool,
    /// Whether examples in documentation may be tests.
    has_examples: bool,
}

/// Hooks that pytest calls when all tests have run, and nothing is measured any more.
const AT_THE_END: [&str; 3] = ["pytest_sessionfinish", "pytest_terminal_summary", "pytest_unconfigure"];

/// How an example in documentation begins, which may be a test.
const EXAMPLE: &str = ">>>";

/// Errors for packages that are new or gone and have tests, which then have other names, or are found now, or no longer.
fn check_packages(input: &SelectionInput<'_>, modules: &PythonModules) -> Result<(), FullReason> {
    for change in input.changes.iter().filter(|change| change.old.is_none() || change.new.is_none()) {
        let path = &change.path;
        let is_test = |file: &str| {
            let is_known = input.changes.iter().all(|change| change.path != file || change.old.is_some());
            is_known && (file_name(file).starts_with("test") || input.baseline.tests().contains_key(file))
        };
        if file_name(path) == "__init__.py" && modules.below(directory(path)).any(is_test) {
            let (what, how) = ("which makes a directory of tests a package", change.how.word());
            return Err(FullReason::Settings { file: path.clone(), what, how });
        }
    }
    Ok(())
}

/// Errors for modules that are new or gone and may be loaded in place of one of Python's own.
fn check_stand_ins(input: &SelectionInput<'_>) -> Result<(), FullReason> {
    for change in input.changes.iter().filter(|change| change.old.is_none() || change.new.is_none()) {
        let path = &change.path;
        let own = module_name(path).filter(|name| is_standard_module(name));
        if let Some(name) = own.filter(|_| input.now.file(&package_around(path)).is_none()) {
            let other = format!("Python's own module {name}");
            return Err(FullReason::InPlaceOf { file: path.clone(), how: change.how.word(), other });
        }
    }
    Ok(())
}

struct PythonRules<'a> {
    input: &'a SelectionInput<'a>,
    modules: PythonModules,
    /// Tests of processes of which a sample ran alone, sorted.
    calibrated: Vec<TestId>,
    /// Tests of which all lines are measured, sorted.
    measured: Vec<TestId>,
    /// Whether there are tests of which it is not known what they execute.
    has_unknown: bool,
}

impl PythonRules<'_> {
    fn is_test(&self, file: &str) -> bool {
        let baseline = self.input.baseline;
        let is_found_by_unittest = || {
            let name = file_name(file);
            baseline.framework == "unittest" && name.starts_with("test") && name.ends_with(".py")
        };
        kind(file) == FileKind::Test || baseline.tests().contains_key(file) || is_found_by_unittest()
    }

    /// Whether a file holds tests or what only tests use.
    fn is_of_tests(&self, file: &str) -> bool {
        self.is_test(file) || kind(file) == FileKind::SetUp || is_beside_tests(file)
    }

    /// Whether no test is known to load a source that was there: one may read it as a text.
    fn is_unseen(&self, change: &ChangedFile, dependents: &BTreeSet<String>) -> bool {
        let path = &change.path;
        let index = self.input.index;
        let is_loaded = index.source(path).is_some() || !index.tests_touching(path, None).tests.is_empty();
        let may_be_imported = self.has_unknown && dependents.len() > 1;
        change.old.is_some() && !is_loaded && !may_be_imported && !self.is_test(path) && kind(path) == FileKind::Source
    }

    /// Whether a changed file may have tests that it did not have before, whatever its name is.
    fn may_have_new_tests(&self, change: &ChangedFile, naming: &Naming) -> bool {
        let Some((new, text)) = change.new.as_ref().zip(self.input.sources.get(&change.path)) else { return false };
        let map = change.old.as_ref().map(|old| LineMap::new(old, new)).filter(LineMap::knows_lines);
        let changed = map.map(|map| map.changed_lines());
        let is_changed = |line: u32| changed.as_ref().is_none_or(|changed| contains_line(changed, line));
        let of_change = (1..).zip(text.lines()).filter(|(line, _)| is_changed(*line)).map(|(_, text)| text);
        of_change.into_iter().any(|line| {
            TEST_WORDS.iter().any(|word| line.contains(word))
                || naming.is_own && HEADS.iter().any(|head| line.trim_start().starts_with(head))
                || naming.has_examples && line.contains(EXAMPLE)
        })
    }

    /// Whether it is not known what a test executes. A subtest executes no more than its test.
    fn is_unknown(&self, test: &TestId) -> bool {
        let is_known = |test: &TestId| self.calibrated.binary_search(test).is_ok();
        let of_whole = |(whole, _): (&str, &str)| TestId { package: test.package.clone(), name: whole.to_owned() };
        let whole = test.name.split_once('/').filter(|_| self.measured.binary_search(test).is_err()).map(of_whole);
        !is_known(test) && !whole.is_some_and(|whole| is_known(&whole))
    }

    /// A test with its subtests.
    fn with_subtests(&self, test: TestId) -> Vec<TestId> {
        let start = format!("{}/", test.name);
        let tests = self.input.baseline.tests().get(&test.package);
        let behind = tests.into_iter().flat_map(|tests| tests.range(start.clone()..)).map(|(name, _)| name);
        let subtests = behind.take_while(|name| name.starts_with(&start));
        let subtests = subtests.map(|name| TestId { package: test.package.clone(), name: name.clone() }).collect();
        [vec![test], subtests].concat()
    }

    fn has_unknown_of(&self, (unit, tests): (&String, &BTreeMap<String, LastResult>)) -> bool {
        let mut ran = tests.iter().filter(|(_, result)| **result != LastResult::Skipped);
        ran.any(|(name, _)| self.is_unknown(&TestId { package: unit.clone(), name: name.clone() }))
    }

    /// Selects the tests that executed a function in whose body lines changed, and, of those of which it is not known what they execute,
    /// the ones that may import the file. False if more may be affected.
    fn add_executing(&self, picks: &mut Picks, change: &ChangedFile) -> Result<bool, FullReason> {
        let path = &change.path;
        if kind(path) != FileKind::Source || self.is_test(path) || self.calibrated.is_empty() {
            return Ok(false);
        }
        if self.modules.runs_unseen() || self.may_store(change) {
            return Ok(false);
        }
        let is_all_measured = self.measures_all_of(path);
        let Some(tests) = add_tests_of_lines(self.input, picks, change, is_all_measured) else { return Ok(false) };
        let tests: BTreeSet<TestId> = tests.into_iter().flat_map(|test| self.with_subtests(test)).collect();
        tests.iter().for_each(|test| picks.test(test, Reason::TouchedFile(path.clone())));
        self.add_conditional(picks, path, &tests);
        if self.has_unknown {
            self.add_importing(picks, change, |test| self.is_unknown(test))?;
        }
        Ok(true)
    }

    /// Whether all that runs of a file's functions is measured: it was loaded after the measurement began, and nothing of the
    /// project runs when it has ended.
    fn measures_all_of(&self, path: &str) -> bool {
        let is_loaded = self.input.index.source(path).and_then(SourceLines::newest).is_some();
        is_loaded && !self.input.sources.values().any(|text| AT_THE_END.iter().any(|word| text.contains(word)))
    }

    /// Selects the test files that may have other tests now: a function that is called as they are loaded may decide it. Its tests are all
    /// of such a file.
    fn add_conditional(&self, picks: &mut Picks, path: &str, executing: &BTreeSet<TestId>) {
        let baseline = self.input.baseline.tests();
        let without_tests = self.modules.dependents(path).into_iter();
        let without_tests = without_tests.filter(|file| self.is_test(file) && !baseline.contains_key(file));
        let executes =
            |file: &str, name: &String| executing.contains(&TestId { package: file.to_owned(), name: name.clone() });
        let is_whole = |(file, tests): &(&String, &BTreeMap<String, LastResult>)| {
            tests.iter().all(|(name, result)| *result == LastResult::Skipped || executes(file, name))
        };
        let whole = baseline.iter().filter(is_whole).map(|(file, _)| file.clone());
        for file in whole.chain(without_tests).filter(|file| self.input.now.file(file).is_some()) {
            picks.whole(&file, Reason::TouchedFile(path.to_owned()));
        }
    }

    /// Whether a changed function may store a value now where a test finds it that does not execute the function.
    fn may_store(&self, change: &ChangedFile) -> bool {
        let Some((old, new)) = change.old.as_ref().zip(change.new.as_ref()) else { return true };
        let changed = LineMap::new(old, new).changed_lines();
        let text = self.input.sources.get(&change.path);
        let is_executed = |lines: LineSpan| self.is_executed(change, lines);
        changed.len() > SELECTION_LINES_MAX || text.is_none_or(|text| stores_outside(text, &changed, is_executed))
    }

    /// Whether a test is known to have executed one of these lines of the new text.
    fn is_executed(&self, change: &ChangedFile, lines: LineSpan) -> bool {
        let texts = self.input.baseline.measured_texts(&change.path).unwrap_or_default();
        let Some(new) = &change.new else { return false };
        texts.iter().any(|text| {
            let measured = united(LineMap::new(text, new).old_lines_around(lines).into_iter().collect());
            !self.input.index.tests_touching(&change.path, Some(&measured)).tests.is_empty()
        })
    }

    /// Selects the tests that may import a file, of those that are `wanted`, and all tests of files that are new.
    fn add_importing(
        &self,
        picks: &mut Picks,
        change: &ChangedFile,
        wanted: impl Fn(&TestId) -> bool,
    ) -> Result<(), FullReason> {
        if let Some(word) = self.modules.convention() {
            return Err(FullReason::Convention { word });
        }
        let path = change.path.as_str();
        let dependents = self.modules.dependents(path);
        if let Some(file) = dependents.iter().find(|file| is_named_in_settings(file, self.input.sources)) {
            let how = change.how.word();
            return Err(FullReason::Settings { file: file.clone(), what: "a module that settings name", how });
        }
        if self.is_unseen(change, &dependents) {
            return Err(FullReason::Data { file: path.to_owned(), how: change.how.word() });
        }
        let mut add = |file: &str, reason: Reason| match self.input.baseline.tests().get(file) {
            _ if !self.is_test(file) || self.input.now.file(file).is_none() => {}
            Some(tests) => {
                let tests = tests.keys().map(|name| TestId { package: file.to_owned(), name: name.clone() });
                let (wanted, others): (Vec<TestId>, Vec<TestId>) = tests.partition(&wanted);
                if others.is_empty() {
                    picks.whole(file, reason);
                } else {
                    wanted.iter().for_each(|test| picks.test(test, reason.clone()));
                }
            }
            None => picks.whole(file, reason),
        };
        if kind(path) == FileKind::SetUp {
            self.modules.below(directory(path)).for_each(|file| add(file, Reason::SetUp(path.to_owned())));
        }
        for file in &dependents {
            let is_own = file == path;
            add(file, if is_own { Reason::OwnFile(path.to_owned()) } else { Reason::Imports(path.to_owned()) });
        }
        let (touching, reason) = (self.input.index.tests_touching(path, None), Reason::TouchedFile(path.to_owned()));
        if touching.tests.iter().all(&wanted) {
            picks.covering(&touching, &reason);
        }
        touching.tests.iter().filter(|test| wanted(test)).for_each(|test| picks.test(test, reason.clone()));
        Ok(())
    }

    /// Selects the tests that may depend on changed files without executing them: in a process, or by reading their text.
    fn add_reading(&self, picks: &mut Picks, first: &str, changed: &[&str]) {
        let reason = Reason::ReachesAll(first.to_owned());
        self.input.index.tests_with_processes().iter().for_each(|test| picks.test(test, reason.clone()));
        self.add_whole(picks, &self.modules.reading_sources(|file| self.is_of_tests(file)), &reason);
        for path in changed {
            let naming = self.input.sources.iter().filter(|(file, _)| file.as_str() != *path && self.is_of_tests(file));
            let naming = naming.filter(|(_, text)| text.contains(file_name(path))).map(|(file, _)| file.clone());
            self.add_whole(picks, &self.modules.dependents_of(naming), &Reason::ReachesAll((*path).to_owned()));
        }
    }

    /// Selects the tests that may read changed documentation without naming it: they look for files, or name the extension.
    fn add_reading_documentation(&self, picks: &mut Picks) {
        let paths = self.input.changes.iter().map(|change| change.path.as_str());
        // Files of one extension have the same readers. The first stands for all.
        let mut first_by_extension: BTreeMap<Option<&str>, &str> = BTreeMap::new();
        for path in paths.filter(|path| kind(path) == FileKind::Documentation) {
            let first = first_by_extension.entry(extension(path)).or_insert(path);
            *first = path.min(*first);
        }
        for (extension, path) in first_by_extension {
            let quoted = extension.map(|extension| ['"', '\''].map(|mark| format!("{extension}{mark}")));
            let names_extension = |text: &String| quoted.iter().flatten().any(|end| text.contains(end));
            let naming = self.input.sources.iter().filter(|(_, text)| names_extension(text)).map(|(file, _)| file);
            let reading = naming.chain(self.modules.listing()).filter(|file| self.is_of_tests(file)).cloned();
            self.add_whole(picks, &self.modules.dependents_of(reading), &Reason::ReachesAll(path.to_owned()));
        }
    }

    fn add_whole(&self, picks: &mut Picks, files: &BTreeSet<String>, reason: &Reason) {
        let tests = files.iter().filter(|file| self.input.baseline.tests().contains_key(*file));
        tests.for_each(|file| picks.whole(file, reason.clone()));
    }
}

/// Whether a file is in a directory of tests, as their helpers are.
fn is_beside_tests(path: &str) -> bool {
    directory(path).split('/').any(|part| matches!(part, "test" | "tests" | "testing"))
}

// A plugin or a settings module that pytest itself loads. What installed programs and other projects call, it does not load.
fn is_named_in_settings(path: &str, sources: &BTreeMap<String, String>) -> bool {
    let Some(name) = file_name(path).strip_suffix(".py") else { return false };
    let parent = file_name(directory(path));
    let dotted = format!("{parent}.{name}");
    let settings = sources.iter().filter(|(path, _)| !path.ends_with(".py"));
    settings.into_iter().any(|(_, text)| {
        !parent.is_empty() && text.contains(&dotted) && without_entry_points(text).any(|line| line.contains(&dotted))
            || is_named_as_plugin(text, name)
    })
}

// Whether the option `-p` is before a name, as in `-p name`, `-pname` and `["-p", "name"]`.
fn is_named_as_plugin(text: &str, name: &str) -> bool {
    let is_part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    text.match_indices("-p").filter(|(at, _)| !text[..*at].ends_with(is_part_of_word)).any(|(at, option)| {
        let rest = text[at + option.len()..].trim_start_matches(|c: char| c.is_whitespace() || "\"',=".contains(c));
        rest.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_part_of_word))
    })
}

/// The lines of settings without the tables of what others call, as `[project.scripts]`. A source that asks for these is known by its
/// words, and so is a plugin of pytest.
fn without_entry_points(text: &str) -> impl Iterator<Item = &str> {
    let mut is_of_others = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with('[') {
            is_of_others = ["scripts]", "entry-points", "entry_points"].iter().any(|part| line.contains(part));
        }
        !is_of_others
    })
}
