//! The coverage index: which tests execute this line?
//!
//! The unit of the index is a set of tests that were measured together. A language that can measure test by test gives
//! sets of one; Go's own profile gives one set per package. A partial run replaces only the tests that it completed:
//! they leave their old sets and form new ones. A run of some of a test's subtests adds to the lines of the test.
//! Lines that ran outside of any test belong to a set of all tests that needed them. `line_sets` has the sets by line,
//! `source_lines` the lines that can be executed, `loaded_files` the files that test files load. `cost` decides whether a
//! run measures at all.

mod cost;
mod line_sets;
mod line_spans;
mod loaded_files;
mod source_lines;
mod spectrum;

pub use cost::CoverageCost;
pub use line_spans::{common_lines, contains_line, count_lines, lines_without, spans_from_text, spans_to_text, united};
pub use loaded_files::LoadedFiles;
pub use source_lines::{LoadedSource, SourceLines};
pub use spectrum::{ExecutedBlock, SpectrumTotals};

use crate::bounds::{COVERAGE_BYTES_MAX, COVERAGE_UNITS_MAX, COVERED_FILES_MAX};
use crate::report::Report;
use crate::test_case::{TestCase, TestId, TestOutcome};
use crate::timestamp::Timestamp;
use line_sets::{LineSets, SetSpan};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What a covering entry names. The order is from fine to coarse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The test itself executed the line.
    Test,
    /// Some test of the same file did.
    File,
    /// Some test of the same package did.
    Package,
}

/// What is known of what the tests of a process executed for those that ran after them, as by filling a cache: a sample of the tests
/// ran once more, each in a process of its own, and lines that they executed only there belong to all tests of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calibration {
    /// No test ran alone, too few did, or one of them failed there.
    #[default]
    None,
    /// A sample of the process's tests ran alone.
    BySample,
    /// This test ran alone, too, and executed no less there.
    Alone,
}

/// Lines from `first` to `last`, both included, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LineSpan {
    /// First line.
    pub first: u32,
    /// Last line, not before `first`.
    pub last: u32,
}

/// Lines that one set of tests executed, as an adapter reads it from a runner's coverage files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageMeasurement {
    /// The package of these tests.
    pub package: String,
    /// Names of the tests that were measured together.
    pub tests: Vec<String>,
    /// Whether these tests ran with all their subtests. If not, their earlier lines stay in the index.
    pub complete: bool,
    /// What each named test stands for.
    pub attribution: Attribution,
    /// Whether one of these tests started another process, of which no line was measured.
    pub started_processes: bool,
    /// Whether tests also ran alone.
    pub calibration: Calibration,
    /// Executed lines by file, relative to the workspace.
    pub files: Vec<(String, Vec<LineSpan>)>,
    /// Lines by file that some test of the process executed below a function that keeps values, as a cache does: these tests may need them
    /// without executing them.
    pub kept: Vec<(String, Vec<LineSpan>)>,
}

/// What a run measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunCoverage {
    /// Sets of tests and the lines they executed.
    pub tests: Vec<CoverageMeasurement>,
    /// The sources that the run loaded, each once.
    pub sources: Vec<LoadedSource>,
    /// The files that test files loaded, where each has modules of its own.
    pub loaded: Box<LoadedFiles>,
    /// The tests that executed what they did when the session measured them, of a run of all tests that measured nothing. Empty if that is
    /// not known.
    pub unchanged: Box<HashSet<TestId>>,
}

impl RunCoverage {
    /// Whether the lines of every test that the run of `report` executed are known.
    #[must_use]
    pub fn has_all_tests_of(&self, report: &Report) -> bool {
        report.truncated.tests == 0 && self.unmeasured(report).is_empty()
    }

    /// The measured tests, by package and name.
    pub(crate) fn tests_measured(&self) -> HashSet<(&str, &str)> {
        self.tests.iter().flat_map(|set| set.tests.iter().map(|test| (set.package.as_str(), test.as_str()))).collect()
    }

    /// The tests that the run of `report` executed and did not measure, by package and name.
    #[must_use]
    pub fn unmeasured<'r>(&self, report: &'r Report) -> HashSet<(&'r str, &'r str)> {
        let measured = self.tests_measured();
        let executed = report.tests.iter().filter(|test| test.outcome != TestOutcome::Skipped);
        // A subtest of Go is measured with the test that it belongs to.
        let names = executed.map(|test| (test.package.as_str(), [test.name.as_str(), top_level(&test.name)]));
        let unmeasured =
            names.filter(|(package, names)| !names.iter().any(|name| measured.contains(&(*package, *name))));
        unmeasured.flat_map(|(package, names)| names.map(|name| (package, name))).collect()
    }

    /// What test files loaded, without those with a test in `report` of which no lines were measured.
    #[must_use]
    pub fn loaded_of(&self, report: &Report) -> LoadedFiles {
        let measured = self.tests_measured();
        let is_unmeasured = |test: &&TestCase| {
            test.outcome != TestOutcome::Skipped && !measured.contains(&(test.package.as_str(), test.name.as_str()))
        };
        let mut loaded = LoadedFiles::clone(&self.loaded);
        report.tests.iter().filter(is_unmeasured).for_each(|test| loaded.forget(&test.package));
        loaded
    }

    /// Whether a test started other processes, whose lines are not measured.
    #[must_use]
    pub fn has_processes(&self) -> bool {
        self.tests.iter().any(|set| set.started_processes)
    }
}

/// The name of the test of Go that a subtest belongs to.
fn top_level(name: &str) -> &str {
    name.split('/').next().unwrap_or_default()
}

/// Which tests execute which lines, for one session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CoverageIndex {
    /// Sets by number; a number whose tests all left is given to another set.
    units: Vec<Option<TestSet>>,
    files: BTreeMap<String, LineSets>,
    /// Lines that tests may need without executing them. Missing in an index that an earlier version stored.
    #[serde(default)]
    kept: BTreeMap<String, LineSets>,
    has_measured: bool,
    /// Missing in an index that an earlier version stored.
    #[serde(default)]
    sources: BTreeMap<String, SourceLines>,
    /// Whether a loaded source had no room in `sources`.
    #[serde(default)]
    misses_sources: bool,
    /// Missing in an index that an earlier version stored.
    #[serde(default)]
    loaded: LoadedFiles,
    /// Tests that have run since they were measured, or may have changed: what they execute now is not known.
    #[serde(default)]
    outdated: TestNames,
    /// Tests that were last measured aside.
    #[serde(default)]
    aside: TestNames,
}

/// Names of tests by package.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct TestNames(BTreeMap<String, BTreeSet<String>>);

impl TestNames {
    fn contains(&self, package: &str, name: &str) -> bool {
        self.0.get(package).is_some_and(|tests| tests.contains(name))
    }

    fn insert(&mut self, package: &str, name: &str) {
        if !self.contains(package, name) {
            self.0.entry(package.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Removes the tests that were measured completely.
    fn remove(&mut self, measured: &[CoverageMeasurement]) {
        for set in measured.iter().filter(|set| set.complete) {
            if let Some(tests) = self.0.get_mut(&set.package) {
                set.tests.iter().for_each(|test| _ = tests.remove(test));
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        self.0.values().flatten().map(|name| name.len() + NAME_BYTES).sum()
    }
}

/// Tests that were measured together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TestSet {
    package: String,
    /// Sorted, each once.
    tests: Vec<String>,
    complete: bool,
    attribution: Attribution,
    started_processes: bool,
    /// Whether they were measured at other files than those that changes are compared with. It adds to what is known of them, and
    /// makes nothing unknown. Missing in an index that an earlier version stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_aside: bool,
    /// Missing in an index that an earlier version stored.
    #[serde(default)]
    calibration: Calibration,
    measured_at: Timestamp,
}

impl TestSet {
    fn memory_bytes(&self) -> usize {
        let tests = self.tests.iter().map(|test| test.len() + size_of::<String>());
        size_of::<Option<TestSet>>() + self.package.len() + tests.sum::<usize>()
    }
}

/// Memory of a test's name beside its bytes.
const NAME_BYTES: usize = 48;

/// Memory of a file entry without its lines, in bytes.
fn file_memory_bytes(file: &str) -> usize {
    file.len() + size_of::<(String, LineSets)>()
}

/// The tests that cover a file or a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoveringTests {
    /// The tests, sorted by package and name.
    pub tests: Vec<TestId>,
    /// The coarsest attribution among them; `None` without tests.
    pub attribution: Option<Attribution>,
    /// Start of the run with the oldest of these measurements; `None` without tests.
    pub measured_at: Option<Timestamp>,
}

impl CoverageIndex {
    /// Whether any run of this session has measured coverage.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.has_measured
    }

    /// Adds the measurements of a run that began at `began_at`. A `whole` run replaces the index; any other replaces
    /// only the entries of the tests in `measured` that are complete there, and adds to the others'.
    ///
    /// Returns a sentence for each bound that left something out.
    pub fn ingest(&mut self, measured: Vec<CoverageMeasurement>, whole: bool, began_at: Timestamp) -> Vec<String> {
        if measured.is_empty() {
            return Vec::new();
        }
        if whole {
            self.units.clear();
            self.files.clear();
            self.kept.clear();
            self.sources.clear();
            self.misses_sources = false;
            (self.outdated, self.aside) = (TestNames::default(), TestNames::default());
        } else {
            self.outdated.remove(&measured);
            self.aside.remove(&measured);
            self.remove_tests(&measured, |_| true);
        }
        self.add(measured, false, began_at)
    }

    /// Adds the measurements of a run that began at `began_at`, at other files than those that changes are compared with. They replace only
    /// earlier ones of this kind: what the tests execute at the latter decides what a change concerns.
    ///
    /// Returns a sentence for each bound that left something out.
    pub fn ingest_aside(&mut self, measured: Vec<CoverageMeasurement>, began_at: Timestamp) -> Vec<String> {
        self.remove_tests(&measured, |set| set.is_aside);
        for set in &measured {
            set.tests.iter().for_each(|test| self.aside.insert(&set.package, test));
        }
        self.add(measured, true, began_at)
    }

    fn add(&mut self, measured: Vec<CoverageMeasurement>, is_aside: bool, began_at: Timestamp) -> Vec<String> {
        self.has_measured |= !measured.is_empty();
        let mut omitted = OmittedCounts::default();
        let mut bytes_left = COVERAGE_BYTES_MAX.saturating_sub(self.memory_bytes());
        let (executed, kept) = self.add_sets(measured, is_aside, began_at, &mut bytes_left, &mut omitted);
        for (files, spans) in [(&mut self.files, executed), (&mut self.kept, kept)] {
            for (file, spans) in spans {
                add_lines(files, file, spans, &mut bytes_left, &mut omitted);
            }
        }
        let notes = omitted.notes();
        if !notes.is_empty() {
            // A line that is missing here may be one that all tests need.
            self.units.iter_mut().flatten().for_each(|unit| unit.calibration = Calibration::None);
        }
        notes
    }

    /// Adds what tests executed alone in an earlier run, if they executed no more now, to what a run of all tests measured of the same
    /// files with the same settings: of these it is still known what they need. Not all tests run alone in one run.
    pub fn keep_alone(&self, measured: &mut [CoverageMeasurement]) {
        let is_single =
            |complete, attribution, tests: &[String]| complete && attribution == Attribution::Test && tests.len() == 1;
        let known = (0..).zip(&self.units).filter_map(|(id, unit)| Some((id, unit.as_ref()?)));
        let known = known.filter(|(_, unit)| {
            let is_alone = unit.calibration == Calibration::Alone && !unit.is_aside;
            is_alone
                && is_single(unit.complete, unit.attribution, &unit.tests)
                && !self.outdated.contains(&unit.package, &unit.tests[0])
        });
        let known: HashMap<(&str, &str), u32> =
            known.map(|(id, unit)| ((unit.package.as_str(), unit.tests[0].as_str()), id)).collect();
        let alone: RoaringBitmap = known.values().copied().collect();
        let mut lines: HashMap<u32, BTreeMap<&str, Vec<LineSpan>>> = HashMap::new();
        for (file, sets) in &self.files {
            for (span, combination) in sets.runs() {
                for id in &sets.combinations()[combination] & &alone {
                    lines.entry(id).or_default().entry(file).or_default().push(span);
                }
            }
        }
        for set in measured {
            let is_wanted =
                set.calibration == Calibration::None && is_single(set.complete, set.attribution, &set.tests);
            let id = set.tests.first().filter(|_| is_wanted).and_then(|test| known.get(&(&set.package, test)));
            let Some(before) = id.and_then(|id| lines.get(id)) else { continue };
            let is_known = |(file, spans): &(String, Vec<LineSpan>)| {
                let before = before.get(file.as_str()).map_or(&[][..], Vec::as_slice);
                lines_without(&united(spans.clone()), &united(before.to_vec())).is_empty()
            };
            if set.files.iter().all(is_known) {
                set.files = before.iter().map(|(file, spans)| ((*file).to_owned(), united(spans.clone()))).collect();
                set.calibration = Calibration::Alone;
            }
        }
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let files = self.files.iter().chain(&self.kept);
        let files = files.map(|(file, lines)| file_memory_bytes(file) + lines.memory_bytes());
        let tests = self.units.iter().flatten().map(TestSet::memory_bytes);
        let names = [&self.outdated, &self.aside].map(TestNames::memory_bytes);
        files.chain(tests).chain(names).sum::<usize>() + self.sources_memory_bytes()
    }

    /// Records what the test files of a run loaded, `ran` being those with a result. A `whole` run replaces what was known; any other
    /// adds to it, and of test files of which it does not know what they loaded nothing is known any more.
    pub fn record_loaded<'a>(&mut self, ran: impl IntoIterator<Item = &'a str>, loaded: LoadedFiles, whole: bool) {
        if whole {
            self.loaded = loaded;
        } else {
            self.loaded.merge(&loaded, ran);
        }
    }

    /// Forgets what test files load, but those for which `is_kept` holds.
    pub fn forget_loaded(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.loaded.retain(is_kept);
    }

    /// The files that test files load.
    #[must_use]
    pub fn loaded(&self) -> &LoadedFiles {
        &self.loaded
    }

    /// Removes the tests that were measured completely from those of their sets for which `is_replaced` holds.
    fn remove_tests(&mut self, measured: &[CoverageMeasurement], is_replaced: impl Fn(&TestSet) -> bool) {
        let mut remeasured: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for set in measured.iter().filter(|set| set.complete) {
            remeasured.entry(&set.package).or_default().extend(set.tests.iter().map(String::as_str));
        }
        let mut removed = RoaringBitmap::new();
        for (id, unit) in (0..).zip(&mut self.units) {
            let Some(set) = unit.as_mut().filter(|set| is_replaced(set)) else { continue };
            if let Some(tests) = remeasured.get(set.package.as_str()) {
                set.tests.retain(|test| !tests.contains(test.as_str()));
            }
            if set.tests.is_empty() {
                *unit = None;
                removed.insert(id);
            }
        }
        for files in [&mut self.files, &mut self.kept] {
            files.retain(|_, lines| {
                lines.remove(&removed);
                !lines.any().is_empty()
            });
        }
    }

    /// Adds as many sets as fit into `bytes_left`. Returns the lines that they executed by file, and those that they may need.
    fn add_sets(
        &mut self,
        measured: Vec<CoverageMeasurement>,
        is_aside: bool,
        measured_at: Timestamp,
        bytes_left: &mut usize,
        omitted: &mut OmittedCounts,
    ) -> (BTreeMap<String, Vec<SetSpan>>, BTreeMap<String, Vec<SetSpan>>) {
        // A partial measurement joins an earlier partial one of the same tests, so that a subtest that runs again and
        // again does not fill the index. The set keeps the time of its oldest lines.
        let partial = (0..).zip(&self.units).filter_map(|(id, unit)| Some((id, unit.as_ref()?)));
        let partial = partial.filter(|(_, unit)| !unit.complete && unit.is_aside == is_aside);
        let mut partial: BTreeMap<(String, Vec<String>), u32> =
            partial.map(|(id, unit)| ((unit.package.clone(), unit.tests.clone()), id)).collect();
        let mut free = 0;
        let (mut executed, mut needed) = (BTreeMap::new(), BTreeMap::new());
        for set in measured {
            let CoverageMeasurement {
                package,
                mut tests,
                complete,
                attribution,
                started_processes,
                calibration,
                files,
                kept,
            } = set;
            tests.sort_unstable();
            tests.dedup();
            if tests.is_empty() {
                continue;
            }
            let key = (!complete).then(|| (package.clone(), tests.clone()));
            let joined = key.as_ref().and_then(|key| partial.get(key).copied());
            let unit = TestSet {
                package,
                tests,
                complete,
                attribution,
                started_processes,
                is_aside,
                calibration,
                measured_at,
            };
            let joined = joined.inspect(|id| {
                if let Some(Some(known)) = self.units.get_mut(*id as usize) {
                    known.started_processes |= unit.started_processes;
                }
            });
            let Some(id) = joined.or_else(|| self.add_set(unit, &mut free, bytes_left)) else {
                omitted.units += 1;
                continue;
            };
            partial.extend(key.map(|key| (key, id)));
            for (by_file, files) in [(&mut executed, files), (&mut needed, kept)] {
                for (file, spans) in files {
                    let sound = spans.into_iter().filter(|span| span.first <= span.last);
                    let known: &mut Vec<SetSpan> = by_file.entry(file).or_default();
                    known.extend(sound.map(|span| SetSpan { set: id, span }));
                }
            }
        }
        (executed, needed)
    }

    /// The number of an added set, at or behind `free`; `None` if it does not fit.
    fn add_set(&mut self, unit: TestSet, free: &mut usize, bytes_left: &mut usize) -> Option<u32> {
        let bytes = unit.memory_bytes();
        let is_used = |unit: &Option<TestSet>| unit.is_some();
        *free += self.units.iter().skip(*free).take_while(|unit| is_used(unit)).count();
        if *free >= COVERAGE_UNITS_MAX || bytes > *bytes_left {
            return None;
        }
        *bytes_left -= bytes;
        if *free == self.units.len() {
            self.units.push(None);
        }
        self.units[*free] = Some(unit);
        u32::try_from(*free).ok()
    }

    /// The tests that executed `line` of `file`, or any of its lines, when they were last measured.
    #[must_use]
    pub fn covering(&self, file: &str, line: Option<u32>) -> CoveringTests {
        let Some(lines) = self.files.get(file) else { return CoveringTests::default() };
        match line {
            Some(line) => self.last_tests_of(&lines.executing(&[LineSpan { first: line, last: line }])),
            None => self.last_tests_of(lines.any()),
        }
    }

    /// The tests that executed one of these lines of `file` when they were last measured.
    #[must_use]
    pub fn tests_of_lines(&self, file: &str, spans: &[LineSpan]) -> CoveringTests {
        self.files.get(file).map_or_else(CoveringTests::default, |lines| self.last_tests_of(&lines.executing(spans)))
    }

    /// The tests that executed one of these lines of `file`, or any for `None`, at the files that changes are compared with, or when they
    /// were last measured.
    #[must_use]
    pub fn tests_touching(&self, file: &str, spans: Option<&[LineSpan]>) -> CoveringTests {
        self.files.get(file).map_or_else(CoveringTests::default, |lines| match spans {
            Some(spans) => self.tests_of(&lines.executing(spans)),
            None => self.tests_of(lines.any()),
        })
    }

    /// The tests that may need one of these lines of `file`, though it was another test of their process that executed them.
    #[must_use]
    pub fn tests_of_kept_lines(&self, file: &str, spans: &[LineSpan]) -> CoveringTests {
        self.kept.get(file).map_or_else(CoveringTests::default, |lines| self.tests_of(&lines.executing(spans)))
    }

    /// Tests that started processes, whose lines are not in the index, sorted by package and name. A change of any file may
    /// concern them.
    #[must_use]
    pub fn tests_with_processes(&self) -> Vec<TestId> {
        self.tests_of(&self.sets_with(|unit| unit.started_processes)).tests
    }

    /// Numbers of the sets for which `is_wanted` holds.
    fn sets_with(&self, is_wanted: impl Fn(&TestSet) -> bool) -> RoaringBitmap {
        let sets = (0..).zip(&self.units).filter(|(_, unit)| unit.as_ref().is_some_and(&is_wanted));
        sets.map(|(id, _)| id).collect()
    }

    /// Records that tests, by package and name, have run without being measured: what they execute now is not known.
    pub fn record_unmeasured(&mut self, tests: &HashSet<(&str, &str)>) {
        self.record_outdated(|package, name| tests.contains(&(package, name)));
    }

    /// Records that all tests may have changed without being measured, but those for which `is_unchanged` holds.
    pub fn record_all_unmeasured(&mut self, unchanged: &HashSet<TestId>) {
        let unchanged: HashSet<(&str, &str)> =
            unchanged.iter().map(|test| (test.package.as_str(), test.name.as_str())).collect();
        self.record_outdated(|package, name| !unchanged.contains(&(package, name)));
    }

    fn record_outdated(&mut self, is_outdated: impl Fn(&str, &str) -> bool) {
        for unit in self.units.iter().flatten().filter(|unit| !unit.is_aside) {
            for name in unit.tests.iter().filter(|name| is_outdated(&unit.package, name)) {
                self.outdated.insert(&unit.package, name);
            }
        }
    }

    /// Tests that were measured with all their subtests, and have not run since without that, by package and name.
    #[must_use]
    pub fn measured_tests(&self) -> HashSet<(&str, &str)> {
        let sets = self.units.iter().flatten().filter(|unit| unit.complete && !unit.is_aside);
        let tests = sets.flat_map(|unit| unit.tests.iter().map(|name| (unit.package.as_str(), name.as_str())));
        tests.filter(|(package, name)| !self.outdated.contains(package, name)).collect()
    }

    /// Tests that executed a line, and of which no measurement is incomplete or outdated, sorted by package and name.
    #[must_use]
    pub fn completely_measured(&self) -> Vec<TestId> {
        let aside = self.sets_with(|unit| unit.is_aside);
        let executed = self.files.values().fold(RoaringBitmap::new(), |sets, lines| sets | lines.any()) - aside;
        let incomplete = self.tests_of(&self.sets_with(|unit| !unit.is_aside && !unit.complete)).tests;
        let mut tests = self.tests_of(&executed).tests;
        tests.retain(|test| {
            incomplete.binary_search(test).is_err() && !self.outdated.contains(&test.package, &test.name)
        });
        tests
    }

    /// Tests of processes of which a sample ran alone, sorted by package and name, and those that did. Of each all lines are measured.
    #[must_use]
    pub fn calibrated(&self) -> (Vec<TestId>, Vec<TestId>) {
        let measured = self.completely_measured();
        let with = |is_wanted: fn(Calibration) -> bool| -> Vec<TestId> {
            let sets = self.sets_with(|unit| !unit.is_aside && is_wanted(unit.calibration));
            let mut tests = self.tests_of(&sets).tests;
            tests.retain(|test| measured.binary_search(test).is_ok());
            tests
        };
        (with(|calibration| calibration != Calibration::None), with(|calibration| calibration == Calibration::Alone))
    }

    fn tests_of(&self, sets: &RoaringBitmap) -> CoveringTests {
        self.tests_where(sets, |_, _| true)
    }

    /// The tests of these sets without those of which others are newer.
    fn last_tests_of(&self, sets: &RoaringBitmap) -> CoveringTests {
        self.tests_where(sets, |unit, name| unit.is_aside || !self.aside.contains(&unit.package, name))
    }

    fn tests_where(&self, sets: &RoaringBitmap, is_wanted: impl Fn(&TestSet, &str) -> bool) -> CoveringTests {
        let mut covering = CoveringTests::default();
        let mut tests: Vec<(&str, &str)> = Vec::new();
        let has_wanted = |unit: &&TestSet| unit.tests.iter().any(|name| is_wanted(unit, name));
        for unit in sets.iter().filter_map(|id| self.units.get(id as usize)?.as_ref()).filter(has_wanted) {
            covering.attribution = covering.attribution.max(Some(unit.attribution));
            covering.measured_at =
                Some(covering.measured_at.map_or(unit.measured_at, |oldest| oldest.min(unit.measured_at)));
            let wanted = unit.tests.iter().filter(|name| is_wanted(unit, name));
            tests.extend(wanted.map(|name| (unit.package.as_str(), name.as_str())));
        }
        tests.sort();
        tests.dedup();
        let id = |(package, name): (&str, &str)| TestId { package: package.to_owned(), name: name.to_owned() };
        covering.tests = tests.into_iter().map(id).collect();
        covering
    }

    /// Names of the files with at least one executed line, sorted.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Tests that executed exactly the same lines, by group, the largest group first. Only tests that were measured one by
    /// one, with all their subtests: of others it is not known which lines are whose. `None` if no test was.
    #[must_use]
    pub fn same_lines(&self) -> Option<Vec<Vec<TestId>>> {
        let is_single = |unit: &TestSet| unit.attribution == Attribution::Test && unit.tests.len() == 1;
        let alone = self.sets_with(|unit| unit.complete && !unit.is_aside && is_single(unit));
        if alone.is_empty() {
            return None;
        }
        // A file has each combination once, so that sets with the same lines are in the same combinations.
        let mut lines: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for (file, sets) in (0..).zip(self.files.values()) {
            for (combination, sets) in (0..).zip(sets.combinations()) {
                (sets & &alone).iter().for_each(|id| lines.entry(id).or_default().push((file, combination)));
            }
        }
        let mut groups: BTreeMap<Vec<(u32, u32)>, Vec<TestId>> = BTreeMap::new();
        for (id, lines) in lines {
            let Some(unit) = self.units.get(id as usize).and_then(Option::as_ref) else { continue };
            let named = unit.tests.iter().map(|name| TestId { package: unit.package.clone(), name: name.clone() });
            groups.entry(lines).or_default().extend(named);
        }
        let mut groups: Vec<Vec<TestId>> = groups.into_values().filter(|tests| tests.len() > 1).collect();
        groups.iter_mut().for_each(|tests| tests.sort_unstable());
        groups.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Some(groups)
    }

    /// Number of files with at least one executed line.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }
}

/// Adds lines of a file as far as they fit into `bytes_left`.
fn add_lines(
    files: &mut BTreeMap<String, LineSets>,
    file: String,
    spans: Vec<SetSpan>,
    bytes_left: &mut usize,
    omitted: &mut OmittedCounts,
) {
    if spans.is_empty() {
        return;
    }
    if !files.contains_key(&file) {
        let bytes = file_memory_bytes(&file);
        if files.len() >= COVERED_FILES_MAX || bytes > *bytes_left {
            omitted.files += 1;
            return;
        }
        *bytes_left -= bytes;
    }
    let lines = files.entry(file.clone()).or_default();
    omitted.spans += lines.add(spans, bytes_left);
    if lines.any().is_empty() {
        files.remove(&file);
    }
}

#[derive(Default)]
struct OmittedCounts {
    units: usize,
    files: usize,
    spans: usize,
}

impl OmittedCounts {
    fn notes(&self) -> Vec<String> {
        [(self.units, "sets of tests"), (self.files, "files"), (self.spans, "line spans")]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("coverage index full: {count} {what} left out"))
            .collect()
    }
}

#[cfg(test)]
mod tests;
