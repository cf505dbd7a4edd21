//! Tests that ran alone, beside the process that ran all: what they executed there and not beside the others, an earlier test had
//! executed for them. All names and numbers may be forged, and cost no more than what was written.

use super::process_lines::{ProcessLines, TestLines, sort};
use proctor_core::coverage::{Calibration, LineSpan, lines_without, united};
use std::collections::BTreeMap;

/// Fewest tests that have to run alone for a process to be calibrated, unless it has fewer.
const SAMPLED_TESTS_MIN: usize = 5;

/// Most tests that run alone: as many as `proctor_sample.py` chooses.
const SAMPLED_TESTS_MAX: usize = 30;

/// What tests executed that ran alone, by package and name.
#[derive(Debug, Default)]
pub(super) struct AloneTests(BTreeMap<(String, String), BTreeMap<String, Vec<LineSpan>>>);

/// What the tests of a process that ran alone show of all its tests.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Lines that tests executed when they ran alone, and not beside the others.
    pub(super) hidden: Vec<(String, Vec<LineSpan>)>,
    /// The most seconds that a test in it took, if all of them ran alone.
    slowest: Option<f64>,
    tests: Vec<(String, String)>,
}

impl Sample {
    pub(super) fn calibration(&self, test: &TestLines) -> Calibration {
        let is_own = |(package, name): &(String, String)| *package == test.package && *name == test.name;
        match self.slowest {
            None => Calibration::None,
            Some(_) if self.tests.iter().any(is_own) => Calibration::Alone,
            Some(slowest) if test.seconds.is_some_and(|seconds| seconds <= slowest) => Calibration::BySample,
            // No test like this one can be in the sample.
            Some(_) => Calibration::None,
        }
    }
}

impl AloneTests {
    /// Adds all lines of the process of one test.
    pub(super) fn add(&mut self, process: ProcessLines) {
        let [test] = process.tests.as_slice() else { return };
        if self.0.len() == SAMPLED_TESTS_MAX {
            return;
        }
        let shared = process.packages.values().chain(process.fixtures.values()).flatten();
        let mut words: Vec<u32> = test.words.iter().chain(&process.everywhere).chain(shared).copied().collect();
        sort(&mut words);
        let lines = process.lines(&words).into_iter().collect();
        self.0.insert((test.package.clone(), test.name.clone()), lines);
    }

    /// What the tests of `process` show that ran alone. Each is used once.
    pub(super) fn sample(
        &mut self,
        process: &ProcessLines,
        shared: &BTreeMap<String, Vec<u32>>,
        fixtures: &BTreeMap<u32, Vec<u32>>,
    ) -> Sample {
        // The only test of a process that came to its end ran alone.
        if let ([test], true) = (process.tests.as_slice(), process.imported.is_some()) {
            let tests = vec![(test.package.clone(), test.name.clone())];
            return Sample { slowest: Some(0.0), tests, ..Sample::default() };
        }
        let mut sample = Sample::default();
        let mut hidden: BTreeMap<String, Vec<LineSpan>> = BTreeMap::new();
        for test in &process.tests {
            let id = (test.package.clone(), test.name.clone());
            let Some(alone) = self.0.remove(&id) else { continue };
            sample.tests.push(id);
            let beside = beside(process, test, shared, fixtures);
            for (file, lines) in &alone {
                let known = beside.get(file).map_or(&[][..], Vec::as_slice);
                let of_file = hidden.entry(file.clone()).or_default();
                of_file.extend(lines_without(lines, known));
                *of_file = united(std::mem::take(of_file));
            }
        }
        hidden.retain(|_, lines| !lines.is_empty());
        sample.hidden = hidden.into_iter().collect();
        // A test that fails alone, or takes too long there, is left out: it depends on others in a way that lines do not show.
        let is_whole = |(tests, _): &(usize, f64)| {
            *tests == sample.tests.len()
                && *tests >= SAMPLED_TESTS_MIN.min(process.tests.len())
                && process.imported.is_some()
        };
        sample.slowest = process.sampled.filter(is_whole).map(|(_, seconds)| seconds);
        sample
    }
}

/// What a test executed, or shares, beside the others, by file.
fn beside(
    process: &ProcessLines,
    test: &TestLines,
    shared: &BTreeMap<String, Vec<u32>>,
    fixtures: &BTreeMap<u32, Vec<u32>>,
) -> BTreeMap<String, Vec<LineSpan>> {
    let used = test.fixtures.iter().filter_map(|fixture| fixtures.get(fixture));
    let others = shared.get(&test.package).into_iter().chain(used).flatten();
    let mut words: Vec<u32> = test.words.iter().chain(others).copied().collect();
    sort(&mut words);
    process.lines(&words).into_iter().collect()
}
