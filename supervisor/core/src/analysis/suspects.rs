//! Where the bug may be: lines of the product ranked by which failed and which passed tests executed them.
//!
//! A line that all failed tests execute and few passed ones is suspect. For failures of one kind the score of a block is
//! Op2 = f - p / (P + 1), where f failed and p of all P passed tests executed it. For failures of several kinds, which one
//! bug does not explain, it is Ochiai = f / sqrt(F (f + p)), where F is the number of failed tests. (Naish, Lee and
//! Ramamohanarao, "A model for spectra-based software diagnosis", 2011.) Of equal blocks those come first in which a failure's
//! innermost frame of the product is.

use super::Analysis;
use super::analyzed_failure::{self, AnalyzedFailure};
use super::functions::SourceFunctions;
use crate::bounds::{ANALYSIS_TEXT_BYTES_MAX, clip};
use crate::coverage::{CoverageIndex, ExecutedBlock, LineSpan, SpectrumTotals};
use crate::report::Report;
use crate::selection::{Ecosystem, FileKind};
use crate::test_case::{TestId, TestOutcome};
use crate::untested::SourceLanguage;
use serde::{Deserialize, Serialize};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Suspects in an analysis: further ones are hardly ever right.
const SUSPECTS_MAX: usize = 5;

/// Those of them that are for failures which execute none of the others.
const OTHERS_MAX: usize = 2;

/// Blocks of which the functions are looked up. A large function has some dozens.
const BLOCKS_MAX: usize = 500;

/// Files whose text is read to find the functions: the first suspects are in a few. The texts are in memory together.
const SOURCES_MAX: usize = 16;

/// Names of tests for and against a suspect.
const TESTS_MAX: usize = 3;

/// How blocks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspectMeasure {
    /// f - p / (P + 1): failures of one kind.
    Op2,
    /// f / sqrt(F (f + p)): failures of several kinds.
    Ochiai,
}

impl SuspectMeasure {
    /// The name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SuspectMeasure::Op2 => "op2",
            SuspectMeasure::Ochiai => "ochiai",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "numbers of tests are far below 2^52")]
    fn score(self, block: &ExecutedBlock<'_>, totals: SpectrumTotals) -> f64 {
        let (failed, passed) = (block.failed as f64, block.passed as f64);
        match self {
            SuspectMeasure::Op2 => failed - passed / (totals.passed as f64 + 1.0),
            SuspectMeasure::Ochiai => failed / (totals.failed as f64 * (failed + passed)).sqrt(),
        }
    }
}

/// Lines that may have the bug.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspect {
    /// File, relative to the workspace.
    pub path: String,
    /// First of the suspect lines.
    pub first_line: u32,
    /// Last of the suspect lines.
    pub last_line: u32,
    /// Function around them; `None` outside of functions, and if the source cannot be read or was edited.
    pub function: Option<String>,
    /// Text of the first line, under the same condition.
    pub source: Option<String>,
    /// Number of failed tests that executed them.
    pub failed: u64,
    /// Number of passed tests that executed them.
    pub passed: u64,
    /// The first of these failed tests, at most 3.
    pub failed_tests: Vec<TestId>,
    /// The first of these passed tests, at most 3.
    pub passed_tests: Vec<TestId>,
    /// Failures whose innermost frame of the product is in this function, or in these lines outside of one.
    pub in_stacks: u64,
    /// Whether the file was edited after the run began, so that lines may have moved.
    pub is_edited: bool,
}

/// The most suspect lines of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspects {
    /// How they are compared.
    pub measure: SuspectMeasure,
    /// Number of failed tests whose lines are known.
    pub failed_tests: u64,
    /// Number of passed tests whose lines are known.
    pub passed_tests: u64,
    /// One for each function, the most suspect first.
    pub lines: Vec<Suspect>,
}

/// The text of a source, as it was during the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceText {
    /// The file is as it was.
    Unchanged(String),
    /// The file was edited, replaced or removed after the run began.
    Edited,
    /// The file cannot be read, or is too large.
    Unknown,
}

/// A block with its rank: the greater, the more suspect.
struct RankedBlock<'a> {
    score: f64,
    in_stacks: u64,
    block: ExecutedBlock<'a>,
}

impl RankedBlock<'_> {
    fn key(&self) -> (u64, Reverse<(&str, u32)>) {
        (self.in_stacks, Reverse((self.block.file, self.block.lines.first)))
    }
}

impl Ord for RankedBlock<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| self.key().cmp(&other.key()))
    }
}

impl PartialOrd for RankedBlock<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedBlock<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedBlock<'_> {}

/// What the tests of a report are to a spectrum, and which files are theirs.
struct TestsOfRun<'a> {
    has_failed: HashMap<(&'a str, &'a str), Option<bool>>,
    /// Files that are packages of tests, as in Python.
    packages: HashSet<&'a str>,
}

impl<'a> TestsOfRun<'a> {
    fn new(report: &'a Report) -> TestsOfRun<'a> {
        let mut has_failed: HashMap<(&str, &str), Option<bool>> = HashMap::new();
        for test in &report.tests {
            let outcome = match test.outcome {
                TestOutcome::Failed | TestOutcome::Error => Some(true),
                TestOutcome::Passed => Some(false),
                TestOutcome::Skipped | TestOutcome::Xfailed | TestOutcome::Xpassed => None,
            };
            let key: (&str, &str) = (&test.package, &test.name);
            // A test that both passed and failed says nothing about lines.
            has_failed
                .entry(key)
                .and_modify(|known| *known = known.filter(|known| Some(*known) == outcome))
                .or_insert(outcome);
        }
        TestsOfRun { has_failed, packages: report.tests.iter().map(|test| test.package.as_str()).collect() }
    }

    fn has_failed(&self, package: &str, name: &str) -> Option<bool> {
        *self.has_failed.get(&(package, name))?
    }

    /// Whether a file belongs to the product: tests and their set-up are executed by failing tests like nothing else.
    fn is_product(&self, file: &str) -> bool {
        let is_product = match Ecosystem::of_source(file) {
            Some(ecosystem @ (Ecosystem::Go | Ecosystem::Python)) => FileKind::of(ecosystem, file) == FileKind::Source,
            Some(Ecosystem::JavaScript | Ecosystem::Rust) | None => {
                SourceLanguage::of_path(file).is_some_and(|language| language.is_product(file))
            }
        };
        is_product && !self.packages.contains(file)
    }

    fn first(&self, tests: &[TestId], failed: bool) -> Vec<TestId> {
        let of_outcome = tests.iter().filter(|test| self.has_failed(&test.package, &test.name) == Some(failed));
        of_outcome.take(TESTS_MAX).cloned().collect()
    }
}

/// Places of failures in the product, innermost: file and line, with the number of failures.
type Places<'a> = HashMap<&'a str, Vec<(u32, u64)>>;

fn places<'a>(failed: &[AnalyzedFailure<'a>], tests: &TestsOfRun<'_>) -> Places<'a> {
    let mut places: Places<'a> = HashMap::new();
    for one in failed {
        let Some(frame) = one.frames().into_iter().find(|frame| tests.is_product(frame.file)) else { continue };
        let lines = places.entry(frame.file).or_default();
        match lines.iter_mut().find(|(line, _)| *line == frame.line) {
            Some((_, count)) => *count += 1,
            None => lines.push((frame.line, 1)),
        }
    }
    places
}

fn failures_in(places: &Places<'_>, file: &str, lines: LineSpan) -> u64 {
    let of_file = places.get(file).into_iter().flatten();
    of_file.filter(|(line, _)| (lines.first..=lines.last).contains(line)).map(|(_, count)| count).sum()
}

/// A search for suspects in one run.
struct Search<'a, F> {
    index: &'a CoverageIndex,
    tests: &'a TestsOfRun<'a>,
    places: Places<'a>,
    measure: SuspectMeasure,
    source: F,
}

impl<'a, F: Fn(&str) -> SourceText> Search<'a, F> {
    /// The most suspect functions for those failed tests for which `is_searched` holds, at most `limit`.
    fn find(&self, is_searched: impl Fn(&str, &str) -> bool, limit: usize) -> (Vec<FoundFunction<'a>>, SpectrumTotals) {
        let has_failed = |package: &str, name: &str| {
            self.tests.has_failed(package, name).filter(|failed| !failed || is_searched(package, name))
        };
        let mut blocks: Vec<ExecutedBlock<'_>> = Vec::new();
        let is_product = |block: &ExecutedBlock<'_>| self.tests.is_product(block.file);
        let totals = self.index.spectrum(has_failed, |block| blocks.extend(Some(block).filter(is_product)));
        if totals.failed_alone == 0 || totals.passed == 0 {
            return (Vec::new(), totals);
        }
        // Lines that every passed test executed, as those of an import, tell nothing apart.
        blocks.retain(|block| block.passed < totals.passed);
        let mut first: BinaryHeap<Reverse<RankedBlock<'_>>> = BinaryHeap::new();
        for block in blocks {
            let in_stacks = failures_in(&self.places, block.file, block.lines);
            first.push(Reverse(RankedBlock { score: self.measure.score(&block, totals), in_stacks, block }));
            if first.len() > BLOCKS_MAX {
                first.pop();
            }
        }
        // Reversed, so that the greatest come first.
        let ranked = first.into_sorted_vec().into_iter().map(|Reverse(ranked)| ranked);
        (by_function(ranked, limit, &self.places, &self.source), totals)
    }
}

impl Analysis {
    /// Adds the lines that may have the bug, if the run's failed tests were measured one by one and executed lines that not all
    /// passed tests did. `source` is asked for the files of the first blocks.
    pub fn add_suspects(&mut self, report: &Report, index: &CoverageIndex, source: impl Fn(&str) -> SourceText) {
        let tests = TestsOfRun::new(report);
        let causes = self.error_patterns.iter().filter(|pattern| !pattern.is_consequence).count();
        let measure = match causes as u64 + self.patterns_left_out {
            0 | 1 => SuspectMeasure::Op2,
            _ => SuspectMeasure::Ochiai,
        };
        let places = places(&analyzed_failure::failures(report), &tests);
        let search = Search { index, tests: &tests, places, measure, source };
        let (mut found, totals) = search.find(|_, _| true, SUSPECTS_MAX);
        // Failures with a bug of their own execute none of the lines that most failures do.
        let executing = |one: &FoundFunction<'_>| index.tests_of_lines(one.block.file, &[one.block.lines]).tests;
        let explained: HashSet<TestId> = found.iter().flat_map(executing).collect();
        let is_unexplained = |package: &str, name: &str| {
            !explained.contains(&TestId { package: package.to_owned(), name: name.to_owned() })
        };
        let (others, _) = search.find(is_unexplained, OTHERS_MAX);
        found.truncate(SUSPECTS_MAX - others.len());
        found.extend(others);
        if found.is_empty() {
            return;
        }
        let lines = found.into_iter().map(|found| found.suspect(&tests, index)).collect();
        self.suspects = Some(Suspects { measure, failed_tests: totals.failed, passed_tests: totals.passed, lines });
    }
}

/// The most suspect block of a function, or a block outside of functions.
struct FoundFunction<'a> {
    block: ExecutedBlock<'a>,
    score: f64,
    in_stacks: u64,
    name: Option<String>,
    source: Option<String>,
    is_edited: bool,
}

/// The first block of each function, of blocks that come in the order of their rank.
fn by_function<'a>(
    ranked: impl Iterator<Item = RankedBlock<'a>>,
    limit: usize,
    places: &Places<'_>,
    source: impl Fn(&str) -> SourceText,
) -> Vec<FoundFunction<'a>> {
    let mut sources: HashMap<&str, (Option<SourceFunctions>, bool)> = HashMap::new();
    let mut functions: HashSet<(&str, u32)> = HashSet::new();
    let mut found: Vec<FoundFunction<'a>> = Vec::new();
    for RankedBlock { score, block, .. } in ranked {
        // Blocks of one score are compared by function: all of those are needed.
        if found.len() >= limit && found.last().is_some_and(|last| last.score > score) {
            break;
        }
        let has_room = sources.len() < SOURCES_MAX;
        let text = || if has_room { source(block.file) } else { SourceText::Unknown };
        let (text, is_edited) = sources.entry(block.file).or_insert_with(|| match text() {
            SourceText::Unchanged(text) => (Some(SourceFunctions::new(block.file, text)), false),
            SourceText::Edited => (None, true),
            SourceText::Unknown => (None, false),
        });
        if text.as_ref().is_some_and(|text| text.is_of_tests(block.lines.first)) {
            continue;
        }
        let function = text.as_ref().and_then(|text| text.around(block.lines.first));
        let lines = function.as_ref().map_or(block.lines, |function| function.lines);
        if functions.insert((block.file, lines.first)) {
            found.push(FoundFunction {
                block,
                score,
                in_stacks: failures_in(places, block.file, lines),
                name: function.map(|function| function.name),
                source: text.as_ref().and_then(|text| text.line(block.lines.first)),
                is_edited: *is_edited,
            });
        }
    }
    found.sort_by(|one, other| other.score.total_cmp(&one.score).then(other.in_stacks.cmp(&one.in_stacks)));
    found.truncate(limit);
    found
}

impl FoundFunction<'_> {
    fn suspect(self, tests: &TestsOfRun<'_>, index: &CoverageIndex) -> Suspect {
        let executing = index.tests_of_lines(self.block.file, &[self.block.lines]).tests;
        Suspect {
            path: self.block.file.to_owned(),
            first_line: self.block.lines.first,
            last_line: self.block.lines.last,
            function: self.name.map(|name| clip(name, ANALYSIS_TEXT_BYTES_MAX)),
            source: self.source.map(|text| clip(text, ANALYSIS_TEXT_BYTES_MAX)),
            failed: self.block.failed,
            passed: self.block.passed,
            failed_tests: tests.first(&executing, true),
            passed_tests: tests.first(&executing, false),
            in_stacks: self.in_stacks,
            is_edited: self.is_edited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WorkspaceFacts, analyze};
    use super::*;
    use crate::coverage::{Attribution, Calibration, CoverageMeasurement};
    use crate::outcome::Outcome;
    use crate::report::tests::report;
    use crate::test_case::TestCase;
    use crate::timestamp::Timestamp;

    const SHOP: &str = "\
import math


class Cart:
    def total(self):
        tax = 1
        return tax

    def add(self, item):
        self.items.append(item)


def price(item):
    if item:
        return item.prise
    return 0
";

    fn test(name: &str, outcome: TestOutcome, stack: &str) -> TestCase {
        let id = TestId { package: "test_shop.py".to_owned(), name: name.to_owned() };
        let is_failure = outcome.is_failure();
        TestCase {
            message: is_failure.then(|| format!("AttributeError: {stack}")),
            stack: is_failure.then(|| stack.to_owned()),
            ..TestCase::new(id, format!("test_shop.py::{name}"), outcome)
        }
    }

    fn measured(name: &str, spans: &[(&str, u32, u32)]) -> CoverageMeasurement {
        let span = |(file, first, last): &(&str, u32, u32)| {
            ((*file).to_owned(), vec![LineSpan { first: *first, last: *last }])
        };
        CoverageMeasurement {
            package: "test_shop.py".to_owned(),
            tests: vec![name.to_owned()],
            complete: true,
            attribution: Attribution::Test,
            started_processes: false,
            kept: Vec::new(),
            calibration: Calibration::None,
            files: spans.iter().map(span).collect(),
        }
    }

    fn index(measured: Vec<CoverageMeasurement>) -> CoverageIndex {
        let mut index = CoverageIndex::default();
        index.ingest(measured, true, Timestamp(1));
        index
    }

    fn suspects(tests: Vec<TestCase>, index: &CoverageIndex) -> Option<Suspects> {
        let report = report(Outcome::Failed, tests);
        let mut analysis = analyze(&report, &WorkspaceFacts::default(), 20);
        analysis.add_suspects(&report, index, |path| match path {
            "shop.py" => SourceText::Unchanged(SHOP.to_owned()),
            "edited.py" => SourceText::Edited,
            _ => SourceText::Unknown,
        });
        analysis.suspects
    }

    fn rows(suspects: &Suspects) -> Vec<String> {
        let row = |one: &Suspect| {
            let function = one.function.as_deref().unwrap_or("-");
            let lines = format!("{}:{}-{}", one.path, one.first_line, one.last_line);
            format!("{lines} {function}: {} failed, {} passed, {} in stacks", one.failed, one.passed, one.in_stacks)
        };
        suspects.lines.iter().map(row).collect()
    }

    #[test]
    fn lines_of_all_failed_and_of_few_passed_tests_come_first() {
        let index = index(vec![
            measured("test_a", &[("shop.py", 6, 7), ("shop.py", 14, 15), ("test_shop.py", 1, 9)]),
            measured("test_b", &[("shop.py", 14, 15), ("conftest.py", 1, 3)]),
            measured("test_c", &[("shop.py", 14, 14), ("shop.py", 16, 16), ("shop.py", 6, 7)]),
            measured("test_d", &[("shop.py", 10, 10)]),
        ]);
        let stack = "shop.py:15 in price\ntest_shop.py:4 in test_a";
        let found = suspects(
            vec![
                test("test_a", TestOutcome::Failed, stack),
                test("test_b", TestOutcome::Failed, stack),
                test("test_c", TestOutcome::Passed, ""),
                test("test_d", TestOutcome::Passed, ""),
            ],
            &index,
        )
        .unwrap();
        assert_eq!((found.measure, found.failed_tests, found.passed_tests), (SuspectMeasure::Op2, 2, 2));
        let expected = [
            "shop.py:15-15 price: 2 failed, 0 passed, 2 in stacks",
            "shop.py:6-7 Cart.total: 1 failed, 1 passed, 0 in stacks",
        ];
        assert_eq!(rows(&found), expected);
        let first = &found.lines[0];
        assert_eq!(first.source.as_deref(), Some("return item.prise"));
        let names = |tests: &[TestId]| tests.iter().map(|test| test.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&first.failed_tests), ["test_a", "test_b"]);
        assert_eq!(names(&found.lines[1].passed_tests), ["test_c"]);
    }

    #[test]
    fn of_equal_lines_those_come_first_at_which_a_failure_is() {
        let index = index(vec![
            measured("test_a", &[("edited.py", 3, 4), ("shop.py", 6, 6), ("shop.py", 10, 10)]),
            measured("test_b", &[("other.py", 1, 1)]),
        ]);
        let tests =
            |stack: &str| vec![test("test_a", TestOutcome::Error, stack), test("test_b", TestOutcome::Passed, "")];
        let found = suspects(tests("shop.py:10 in add"), &index).unwrap();
        let expected = [
            "shop.py:10-10 Cart.add: 1 failed, 0 passed, 1 in stacks",
            "edited.py:3-4 -: 1 failed, 0 passed, 0 in stacks",
            "shop.py:6-6 Cart.total: 1 failed, 0 passed, 0 in stacks",
        ];
        assert_eq!(rows(&found), expected);
        assert!(found.lines[1].is_edited && found.lines[1].source.is_none());
    }

    #[test]
    fn failures_of_several_kinds_need_not_have_a_line_in_common() {
        let index = index(vec![
            measured("test_a", &[("shop.py", 6, 6), ("shop.py", 14, 14)]),
            measured("test_b", &[("shop.py", 10, 10), ("shop.py", 14, 14)]),
            measured("test_c", &[("shop.py", 14, 14)]),
            measured("test_d", &[("shop.py", 14, 14)]),
            measured("test_e", &[("shop.py", 14, 14)]),
            measured("test_f", &[("shop.py", 16, 16)]),
        ]);
        let found = suspects(
            vec![
                test("test_a", TestOutcome::Failed, "shop.py:6 in total"),
                test("test_b", TestOutcome::Failed, "shop.py:10 in add"),
                test("test_c", TestOutcome::Passed, ""),
                test("test_d", TestOutcome::Passed, ""),
                test("test_e", TestOutcome::Passed, ""),
                test("test_f", TestOutcome::Passed, ""),
                test("test_g", TestOutcome::Passed, ""),
            ],
            &index,
        )
        .unwrap();
        assert_eq!((found.measure, found.passed_tests), (SuspectMeasure::Ochiai, 4), "test_g was not measured");
        let functions: Vec<_> = found.lines.iter().map(|one| one.function.as_deref().unwrap()).collect();
        assert_eq!(functions, ["Cart.total", "Cart.add", "price"]);
    }

    #[test]
    fn a_failure_with_a_bug_of_its_own_has_a_suspect() {
        let file = |number: u32| format!("f{number}.py");
        let files: Vec<String> = (1..9).map(file).collect();
        let of_many: Vec<(&str, u32, u32)> = files.iter().map(|file| (file.as_str(), 1, 2)).collect();
        let index = index(vec![
            measured("test_a", &of_many),
            measured("test_b", &of_many),
            measured("test_c", &[("shop.py", 10, 10), ("shop.py", 14, 14)]),
            measured("test_d", &[("shop.py", 14, 14)]),
            measured("test_e", &[("shop.py", 6, 6)]),
        ]);
        let found = suspects(
            vec![
                test("test_a", TestOutcome::Failed, "f1.py:1 in f"),
                test("test_b", TestOutcome::Failed, "f1.py:1 in f"),
                test("test_c", TestOutcome::Failed, "test_shop.py:3 in test_c"),
                test("test_d", TestOutcome::Passed, ""),
                test("test_e", TestOutcome::Passed, ""),
            ],
            &index,
        )
        .unwrap();
        let paths: Vec<(&str, u32)> = found.lines.iter().map(|one| (one.path.as_str(), one.first_line)).collect();
        assert_eq!(paths, [("f1.py", 1), ("f2.py", 1), ("f3.py", 1), ("shop.py", 10), ("shop.py", 14)]);
    }

    #[test]
    fn without_lines_of_single_tests_nothing_is_suspect() {
        let failed = || test("test_a", TestOutcome::Failed, "shop.py:6");
        let passed = || test("test_b", TestOutcome::Passed, "");
        let alone = |name| measured(name, &[("shop.py", 6, 6)]);
        assert_eq!(suspects(vec![failed(), passed()], &CoverageIndex::default()), None);
        assert_eq!(
            suspects(vec![failed()], &index(vec![alone("test_a"), alone("test_b")])),
            None,
            "no passed test ran"
        );
        let shared = CoverageMeasurement {
            tests: vec!["test_a".to_owned(), "test_b".to_owned()],
            attribution: Attribution::Package,
            ..alone("")
        };
        assert_eq!(suspects(vec![failed(), passed()], &index(vec![shared])), None);
        let both = index(vec![alone("test_a"), alone("test_b")]);
        assert_eq!(suspects(vec![failed(), passed()], &both), None, "every test executed the only line");
    }

    #[test]
    fn a_flaky_test_counts_neither_as_failed_nor_as_passed() {
        let index = index(vec![
            measured("test_a", &[("shop.py", 6, 6)]),
            measured("test_b", &[("shop.py", 14, 14)]),
            measured("test_c", &[("shop.py", 10, 10)]),
        ]);
        let found = suspects(
            vec![
                test("test_a", TestOutcome::Failed, "shop.py:6"),
                test("test_b", TestOutcome::Failed, "shop.py:14"),
                test("test_b", TestOutcome::Passed, ""),
                test("test_c", TestOutcome::Passed, ""),
            ],
            &index,
        )
        .unwrap();
        assert_eq!((found.failed_tests, found.passed_tests, found.lines.len()), (1, 1, 1));
    }
}
