//! The coverage index: which tests execute this line?
//!
//! The unit of the index is a set of tests that were measured together. A language that can measure test by test gives
//! sets of one; Go's own profile gives one set per package. A partial run replaces only the tests that it completed:
//! they leave their old sets and form new ones. A run of some of a test's subtests adds to the lines of the test.

use crate::bounds::{COVERAGE_BYTES_MAX, COVERAGE_UNITS_MAX, COVERED_FILES_MAX, SPANS_PER_FILE_MAX};
use crate::test_case::TestId;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Executed lines by file, relative to the workspace.
    pub files: Vec<(String, Vec<LineSpan>)>,
}

/// Which tests execute which lines, for one session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CoverageIndex {
    units: BTreeMap<u32, TestSet>,
    files: BTreeMap<String, Vec<SetSpan>>,
    next_unit: u32,
    has_measured: bool,
}

/// Tests that were measured together.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TestSet {
    package: String,
    tests: BTreeSet<String>,
    complete: bool,
    attribution: Attribution,
    measured_at: Timestamp,
}

impl TestSet {
    fn memory_bytes(&self) -> usize {
        let tests = self.tests.iter().map(|test| test.len() + size_of::<String>());
        size_of::<TestSet>() + self.package.len() + tests.sum::<usize>()
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SetSpan {
    first: u32,
    last: u32,
    unit: u32,
}

/// Memory of a file entry without its spans, in bytes.
fn file_memory_bytes(file: &str) -> usize {
    file.len() + size_of::<(String, Vec<SetSpan>)>()
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
        self.has_measured = true;
        if whole {
            self.units.clear();
            self.files.clear();
        } else {
            self.remove_tests(&measured);
        }
        let mut omitted = OmittedCounts::default();
        let mut bytes_left = COVERAGE_BYTES_MAX.saturating_sub(self.memory_bytes());
        for set in measured {
            self.add(set, began_at, &mut bytes_left, &mut omitted);
        }
        omitted.notes()
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let files = self.files.iter().map(|(file, spans)| file_memory_bytes(file) + spans.len() * size_of::<SetSpan>());
        files.chain(self.units.values().map(TestSet::memory_bytes)).sum()
    }

    fn remove_tests(&mut self, measured: &[CoverageMeasurement]) {
        let mut remeasured: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for set in measured.iter().filter(|set| set.complete) {
            remeasured.entry(&set.package).or_default().extend(set.tests.iter().map(String::as_str));
        }
        self.units.retain(|_, unit| {
            if let Some(tests) = remeasured.get(unit.package.as_str()) {
                unit.tests.retain(|test| !tests.contains(test.as_str()));
            }
            !unit.tests.is_empty()
        });
        self.files.retain(|_, spans| {
            spans.retain(|span| self.units.contains_key(&span.unit));
            !spans.is_empty()
        });
    }

    // Adds as much of a set as fits into `bytes_left`.
    fn add(
        &mut self,
        set: CoverageMeasurement,
        measured_at: Timestamp,
        bytes_left: &mut usize,
        omitted: &mut OmittedCounts,
    ) {
        if set.tests.is_empty() {
            return;
        }
        let CoverageMeasurement { package, complete, attribution, .. } = set;
        let unit = TestSet { package, tests: set.tests.into_iter().collect(), complete, attribution, measured_at };
        // A partial measurement joins an earlier partial one of the same tests, so that a subtest that runs again and
        // again does not fill the index. The set keeps the time of its oldest lines.
        let joined = if complete { None } else { self.find_partial_set(&unit) };
        let id = joined.unwrap_or(self.next_unit);
        if joined.is_none() {
            let bytes = unit.memory_bytes();
            if self.units.len() >= COVERAGE_UNITS_MAX || bytes > *bytes_left {
                omitted.units += 1;
                return;
            }
            *bytes_left -= bytes;
            self.next_unit = self.next_unit.wrapping_add(1);
            self.units.insert(id, unit);
        }
        for (file, mut spans) in set.files {
            if !self.files.contains_key(&file) {
                let bytes = file_memory_bytes(&file);
                if self.files.len() >= COVERED_FILES_MAX || bytes > *bytes_left {
                    omitted.files += 1;
                    continue;
                }
                *bytes_left -= bytes;
            }
            let known = self.files.entry(file).or_default();
            if joined.is_some() {
                let before = known.len();
                let own = known.extract_if(.., |span| span.unit == id);
                spans.extend(own.map(|span| LineSpan { first: span.first, last: span.last }));
                *bytes_left += (before - known.len()) * size_of::<SetSpan>();
                spans = union(spans);
            }
            let more =
                SPANS_PER_FILE_MAX.saturating_sub(known.len()).min(*bytes_left / size_of::<SetSpan>()).min(spans.len());
            omitted.spans += spans.len() - more;
            *bytes_left -= more * size_of::<SetSpan>();
            known.extend(spans.iter().take(more).map(|span| SetSpan { first: span.first, last: span.last, unit: id }));
        }
    }

    fn find_partial_set(&self, more: &TestSet) -> Option<u32> {
        let same = |unit: &TestSet| !unit.complete && unit.package == more.package && unit.tests == more.tests;
        self.units.iter().find(|(_, unit)| same(unit)).map(|(id, _)| *id)
    }

    /// The tests that executed `line` of `file`, or any of its lines.
    #[must_use]
    pub fn covering(&self, file: &str, line: Option<u32>) -> CoveringTests {
        let hit = |span: &&SetSpan| line.is_none_or(|line| (span.first..=span.last).contains(&line));
        let units: BTreeSet<u32> =
            self.files.get(file).into_iter().flatten().filter(hit).map(|span| span.unit).collect();
        let mut tests = BTreeSet::new();
        let mut covering = CoveringTests::default();
        for unit in units.iter().filter_map(|id| self.units.get(id)) {
            covering.attribution = covering.attribution.max(Some(unit.attribution));
            covering.measured_at =
                Some(covering.measured_at.map_or(unit.measured_at, |oldest| oldest.min(unit.measured_at)));
            tests.extend(unit.tests.iter().map(|name| TestId { package: unit.package.clone(), name: name.clone() }));
        }
        covering.tests = tests.into_iter().collect();
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
        let is_alone = |unit: &TestSet| unit.complete && unit.attribution == Attribution::Test && unit.tests.len() == 1;
        if !self.units.values().any(is_alone) {
            return None;
        }
        let mut lines: BTreeMap<u32, Vec<(usize, u32, u32)>> = BTreeMap::new();
        for (file, spans) in self.files.values().enumerate() {
            for span in spans.iter().filter(|span| self.units.get(&span.unit).is_some_and(is_alone)) {
                lines.entry(span.unit).or_default().push((file, span.first, span.last));
            }
        }
        let mut groups: BTreeMap<Vec<(usize, u32, u32)>, Vec<TestId>> = BTreeMap::new();
        for (id, mut spans) in lines {
            spans.sort_unstable();
            let Some(unit) = self.units.get(&id) else { continue };
            let named = unit.tests.iter().map(|name| TestId { package: unit.package.clone(), name: name.clone() });
            groups.entry(spans).or_default().extend(named);
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

// Merges overlapping and adjacent spans.
fn union(mut spans: Vec<LineSpan>) -> Vec<LineSpan> {
    spans.sort_unstable_by_key(|span| (span.first, span.last));
    spans.dedup_by(|next, kept| {
        let touches = next.first <= kept.last.saturating_add(1);
        if touches {
            kept.last = kept.last.max(next.last);
        }
        touches
    });
    spans
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
mod tests {
    use super::*;

    fn measured(package: &str, tests: &[&str], file: &str, spans: &[(u32, u32)]) -> CoverageMeasurement {
        CoverageMeasurement {
            package: package.into(),
            tests: tests.iter().map(ToString::to_string).collect(),
            complete: true,
            attribution: if tests.len() == 1 { Attribution::Test } else { Attribution::Package },
            files: vec![(file.into(), spans.iter().map(|&(first, last)| LineSpan { first, last }).collect())],
        }
    }

    fn names(index: &CoverageIndex, line: Option<u32>) -> Vec<String> {
        index.covering("a.go", line).tests.into_iter().map(|test| format!("{}.{}", test.package, test.name)).collect()
    }

    #[test]
    fn a_line_is_covered_only_by_tests_that_executed_it() {
        let mut index = CoverageIndex::default();
        assert!(!index.has_measured());
        index.ingest(
            vec![measured("p", &["A", "B"], "a.go", &[(1, 3)]), measured("q", &["C"], "a.go", &[(3, 9)])],
            true,
            Timestamp(5),
        );
        assert_eq!(names(&index, Some(1)), ["p.A", "p.B"]);
        assert_eq!(names(&index, Some(3)), ["p.A", "p.B", "q.C"]);
        assert_eq!(names(&index, Some(10)), [""; 0]);
        assert_eq!(names(&index, None), ["p.A", "p.B", "q.C"]);
        assert_eq!(index.covering("a.go", Some(9)).attribution, Some(Attribution::Test));
        assert_eq!(index.covering("a.go", Some(3)).attribution, Some(Attribution::Package));
    }

    #[test]
    fn finds_tests_that_execute_exactly_the_same_lines() {
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 3)])], true, Timestamp(5));
        assert_eq!(index.same_lines(), None, "the lines of a package are nobody's");
        let alone = |name: &str, spans: &[(u32, u32)]| measured("q", &[name], "a.go", spans);
        let more = vec![
            alone("C", &[(4, 5), (9, 9)]),
            alone("D", &[(4, 5)]),
            alone("E", &[(9, 9), (4, 5)]),
            measured("r", &["F"], "b.go", &[(4, 5)]),
        ];
        index.ingest(more, false, Timestamp(6));
        let named = |name: &str| TestId { package: "q".into(), name: name.into() };
        assert_eq!(index.same_lines(), Some(vec![vec![named("C"), named("E")]]));
        assert_eq!(index.file_names().collect::<Vec<_>>(), ["a.go", "b.go"]);
    }

    #[test]
    fn a_filtered_run_replaces_only_the_tests_it_completed() {
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 3)])], true, Timestamp(5));
        index.ingest(vec![measured("p", &["A"], "a.go", &[(7, 7)])], false, Timestamp(9));
        assert_eq!(names(&index, Some(2)), ["p.B"]);
        assert_eq!(names(&index, Some(7)), ["p.A"]);
        assert_eq!(index.covering("a.go", None).measured_at, Some(Timestamp(5)));
    }

    #[test]
    fn a_partial_measurement_adds_to_the_known_lines() {
        let part = |tests: &[&str], spans: &[(u32, u32)]| CoverageMeasurement {
            complete: false,
            ..measured("p", tests, "a.go", spans)
        };
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("p", &["A", "B"], "a.go", &[(1, 4)])], true, Timestamp(5));
        index.ingest(vec![part(&["A"], &[(3, 3), (7, 7)])], false, Timestamp(9));
        assert_eq!(names(&index, Some(4)), ["p.A", "p.B"], "the rerun of one subtest removes nothing");
        assert_eq!(names(&index, Some(7)), ["p.A"]);
        assert_eq!(index.covering("a.go", Some(4)).measured_at, Some(Timestamp(5)));
        assert_eq!(index.covering("a.go", Some(7)).measured_at, Some(Timestamp(9)));

        // Repeated reruns stay one set, with the lines of all of them.
        for line in [7, 8, 20, 8] {
            index.ingest(vec![part(&["A"], &[(line, line)])], false, Timestamp(11));
        }
        assert_eq!((index.units.len(), index.files["a.go"].len()), (2, 4), "1-4, 3-3, 7-8, 20-20");
        assert_eq!(names(&index, Some(20)), ["p.A"]);
        assert_eq!(index.covering("a.go", Some(20)).measured_at, Some(Timestamp(9)));

        // B was completed beside A's partial rerun, then A completed: only then the old lines of each are gone.
        index.ingest(vec![measured("p", &["B"], "a.go", &[(30, 30)]), part(&["A"], &[(30, 30)])], false, Timestamp(12));
        assert_eq!(
            (names(&index, Some(4)), names(&index, Some(30))),
            (vec!["p.A".into()], vec!["p.A".into(), "p.B".into()])
        );
        index.ingest(vec![measured("p", &["A"], "a.go", &[(2, 2)])], false, Timestamp(13));
        assert_eq!((names(&index, Some(2)), names(&index, Some(30))), (vec!["p.A".into()], vec!["p.B".into()]));
        assert_eq!(names(&index, Some(7)), [""; 0]);
    }

    #[test]
    fn a_whole_run_replaces_the_index_and_a_run_without_measurements_changes_nothing() {
        let mut index = CoverageIndex::default();
        index.ingest(vec![measured("p", &["A"], "a.go", &[(1, 3)])], true, Timestamp(5));
        index.ingest(Vec::new(), true, Timestamp(6));
        assert_eq!(names(&index, None), ["p.A"]);
        index.ingest(vec![measured("q", &["C"], "b.go", &[(1, 1)])], true, Timestamp(7));
        assert_eq!(names(&index, None), [""; 0]);
        assert_eq!(index.files(), 1);
    }

    #[test]
    fn measurements_beyond_the_memory_bound_are_left_out_with_notes() {
        let spans: Vec<(u32, u32)> = (1..=50_000).map(|line| (2 * line, 2 * line)).collect();
        let mut many = measured("p", &["A"], "0.go", &spans);
        let spans_of_one_file = many.files[0].1.clone();
        many.files = (0..200).map(|number| (format!("{number}.go"), spans_of_one_file.clone())).collect();
        let named = |package: &str| {
            let names = (0..100).map(|number| format!("{number}{}", "n".repeat(1_000_000))).collect();
            CoverageMeasurement { tests: names, ..measured(package, &[], "a.go", &[(1, 1)]) }
        };
        let mut index = CoverageIndex::default();
        let notes = index.ingest(vec![many, named("q")], true, Timestamp(1));
        assert!(notes.iter().any(|note| note.ends_with("1 sets of tests left out")), "{notes:?}");
        assert!(notes.iter().any(|note| note.ends_with("line spans left out")), "{notes:?}");
        assert!(notes.iter().any(|note| note.ends_with("files left out")), "{notes:?}");
        let used = index.memory_bytes();
        assert!((COVERAGE_BYTES_MAX - 1_000_000..=COVERAGE_BYTES_MAX).contains(&used), "{used}");
        assert!(index.ingest(vec![measured("p", &["A"], "a.go", &[(1, 1)])], false, Timestamp(2)).is_empty());
        assert_eq!(names(&index, None), ["p.A"], "the replaced measurements free memory");
    }
}
