//! The spectrum of a run: how many of its failed and of its passed tests executed each block of lines. What the numbers mean
//! for a search is not known here.

use super::{Attribution, CoverageIndex, LineSpan};
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};

/// Consecutive lines that the same tests executed, at least one failed test among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutedBlock<'a> {
    /// File, relative to the workspace.
    pub file: &'a str,
    /// The lines.
    pub lines: LineSpan,
    /// Number of failed tests that executed them.
    pub failed: u64,
    /// Number of passed tests that executed them.
    pub passed: u64,
}

/// The tests of a run whose lines are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpectrumTotals {
    /// Number of failed tests.
    pub failed: u64,
    /// Those of them that were measured one by one.
    pub failed_alone: u64,
    /// Number of passed tests.
    pub passed: u64,
}

/// A test by package and name.
type Test<'a> = (&'a str, &'a str);

/// Tests by number. A set of one test has the test's number, so that a combination of such sets is one of tests as well.
struct NumberedTests {
    failed: RoaringBitmap,
    passed: RoaringBitmap,
    /// Tests of the other sets.
    members: HashMap<u32, RoaringBitmap>,
    /// The other sets.
    shared: RoaringBitmap,
    /// Sets with a failed test.
    failing_sets: RoaringBitmap,
}

impl NumberedTests {
    /// The tests of these sets.
    fn of(&self, sets: &RoaringBitmap) -> RoaringBitmap {
        let mut tests = sets - &self.shared;
        let shared = sets & &self.shared;
        shared.iter().filter_map(|set| self.members.get(&set)).for_each(|members| tests |= members);
        tests
    }
}

impl CoverageIndex {
    /// Calls `visit` with each block that a failed test executed, by file and line. `has_failed` is `None` for a test that did
    /// not run, or neither passed nor failed.
    pub fn spectrum<'a>(
        &'a self,
        has_failed: impl Fn(&str, &str) -> Option<bool>,
        mut visit: impl FnMut(ExecutedBlock<'a>),
    ) -> SpectrumTotals {
        let (tests, totals) = self.numbered_tests(has_failed);
        for (file, lines) in &self.files {
            let count = |sets: &RoaringBitmap| {
                if sets.is_disjoint(&tests.failing_sets) {
                    return (0, 0);
                }
                let executing = tests.of(sets);
                (executing.intersection_len(&tests.failed), executing.intersection_len(&tests.passed))
            };
            let counts: Vec<(u64, u64)> = lines.combinations().iter().map(count).collect();
            for (lines, combination) in lines.runs() {
                let (failed, passed) = counts[combination];
                if failed > 0 {
                    visit(ExecutedBlock { file, lines, failed, passed });
                }
            }
        }
        totals
    }

    fn numbered_tests(&self, has_failed: impl Fn(&str, &str) -> Option<bool>) -> (NumberedTests, SpectrumTotals) {
        let sets = || (0_u32..).zip(&self.units).filter_map(|(id, set)| Some((id, set.as_ref()?)));
        let mut numbers: HashMap<Test<'_>, u32> = HashMap::new();
        for (id, set) in sets() {
            if let [test] = &set.tests[..] {
                numbers.entry((&set.package, test)).or_insert(id);
            }
        }
        let mut next = u32::try_from(self.units.len()).unwrap_or(u32::MAX);
        let mut tests = NumberedTests {
            failed: RoaringBitmap::new(),
            passed: RoaringBitmap::new(),
            members: HashMap::new(),
            shared: RoaringBitmap::new(),
            failing_sets: RoaringBitmap::new(),
        };
        let mut alone: HashSet<u32> = HashSet::new();
        for (id, set) in sets() {
            for name in &set.tests {
                if !set.is_aside && self.aside.contains(&set.package, name) {
                    // Newer lines of the test are aside: these are of the other tests of the set, if it has any.
                    tests.shared.insert(id);
                    continue;
                }
                let number = *numbers.entry((&set.package, name)).or_insert_with(|| {
                    next = next.saturating_add(1);
                    next - 1
                });
                if number != id {
                    tests.members.entry(id).or_default().insert(number);
                    tests.shared.insert(id);
                }
                match has_failed(&set.package, name) {
                    Some(true) => {
                        tests.failed.insert(number);
                        tests.failing_sets.insert(id);
                        alone.extend((set.attribution == Attribution::Test).then_some(number));
                    }
                    Some(false) => {
                        tests.passed.insert(number);
                    }
                    None => {}
                }
            }
        }
        let totals =
            SpectrumTotals { failed: tests.failed.len(), failed_alone: alone.len() as u64, passed: tests.passed.len() };
        (tests, totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::{Calibration, CoverageMeasurement};
    use crate::timestamp::Timestamp;

    fn set(tests: &[&str], attribution: Attribution, spans: &[(u32, u32)]) -> CoverageMeasurement {
        CoverageMeasurement {
            package: "p".to_owned(),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            complete: true,
            attribution,
            started_processes: false,
            kept: Vec::new(),
            calibration: Calibration::None,
            files: vec![(
                "a.py".to_owned(),
                spans.iter().map(|(first, last)| LineSpan { first: *first, last: *last }).collect(),
            )],
        }
    }

    fn spectrum(measured: Vec<CoverageMeasurement>) -> (Vec<String>, SpectrumTotals) {
        let mut index = CoverageIndex::default();
        index.ingest(measured, true, Timestamp(1));
        let mut blocks = Vec::new();
        let has_failed = |_: &str, name: &str| match name.as_bytes()[0] {
            b'f' => Some(true),
            b'p' => Some(false),
            _ => None,
        };
        let totals = index.spectrum(has_failed, |block| {
            blocks.push(format!(
                "{}-{}: {} failed, {} passed",
                block.lines.first, block.lines.last, block.failed, block.passed
            ));
        });
        (blocks, totals)
    }

    #[test]
    fn counts_the_failed_and_the_passed_tests_of_each_block() {
        let (blocks, totals) = spectrum(vec![
            set(&["f1"], Attribution::Test, &[(1, 4), (10, 12)]),
            set(&["f2"], Attribution::Test, &[(3, 4)]),
            set(&["p1"], Attribution::Test, &[(4, 6), (20, 29)]),
            set(&["s1"], Attribution::Test, &[(1, 30)]),
        ]);
        assert_eq!(
            blocks,
            [
                "1-2: 1 failed, 0 passed",
                "3-3: 2 failed, 0 passed",
                "4-4: 2 failed, 1 passed",
                "10-12: 1 failed, 0 passed",
            ]
        );
        assert_eq!(totals, SpectrumTotals { failed: 2, failed_alone: 2, passed: 1 });
    }

    #[test]
    fn counts_a_test_of_several_sets_once() {
        let (blocks, totals) = spectrum(vec![
            set(&["f1"], Attribution::Test, &[(1, 2)]),
            set(&["p1"], Attribution::Test, &[(2, 2)]),
            set(&["f1", "f2", "p1", "p2"], Attribution::Package, &[(2, 3)]),
        ]);
        assert_eq!(blocks, ["1-1: 1 failed, 0 passed", "2-2: 2 failed, 2 passed", "3-3: 2 failed, 2 passed"]);
        assert_eq!(totals, SpectrumTotals { failed: 2, failed_alone: 1, passed: 2 });
    }
}
