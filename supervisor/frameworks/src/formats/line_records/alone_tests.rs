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
pub(super) struct AloneTests(BTreeMap<(String, String), LinesByFile>);

/// What the tests of a process that ran alone show of all its tests.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// Lines that tests executed when they ran alone, and not beside the others.
    pub(super) hidden: Vec<(String, Vec<LineSpan>)>,
    /// The most seconds that a test in it took, if all of them ran alone.
    slowest: Option<f64>,
    /// What each test executed alone, by package and name, if it was no less.
    tests: BTreeMap<String, BTreeMap<String, LinesByFile>>,
}

/// Lines by file.
type LinesByFile = BTreeMap<String, Vec<LineSpan>>;

impl Sample {
    /// Whether enough tests ran alone.
    pub(super) fn is_calibrated(&self) -> bool {
        self.slowest.is_some()
    }

    /// What a test executed alone; None if it did not run alone, or executed there less than beside the others.
    fn alone(&self, package: &str, name: &str) -> Option<&LinesByFile> {
        self.tests.get(package)?.get(name)
    }

    /// The tests among these for which others may have executed something.
    pub(super) fn others(&self, package: &str, names: &[String]) -> Vec<String> {
        names.iter().filter(|name| self.alone(package, name).is_none()).cloned().collect()
    }

    /// Adds what a test executed alone, once, to the lines that it executed beside the others.
    pub(super) fn add_alone(
        &mut self,
        test: &TestLines,
        lines: Vec<(String, Vec<LineSpan>)>,
    ) -> Vec<(String, Vec<LineSpan>)> {
        let known = self.tests.get_mut(&test.package).and_then(|tests| tests.get_mut(&test.name));
        let alone = known.map(std::mem::take).unwrap_or_default();
        if alone.is_empty() {
            return lines;
        }
        let mut all: LinesByFile = lines.into_iter().collect();
        for (file, lines) in alone {
            let known = all.entry(file).or_default();
            known.extend(lines);
            *known = united(std::mem::take(known));
        }
        all.into_iter().collect()
    }

    pub(super) fn calibration(&self, test: &TestLines) -> Calibration {
        match self.slowest {
            None => Calibration::None,
            Some(_) if self.alone(&test.package, &test.name).is_some() => Calibration::Alone,
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
            let alone = BTreeMap::from([(test.name.clone(), LinesByFile::new())]);
            let tests = BTreeMap::from([(test.package.clone(), alone)]);
            return Sample { slowest: Some(0.0), tests, ..Sample::default() };
        }
        let (mut sample, mut count) = (Sample::default(), 0);
        let mut hidden = LinesByFile::new();
        for test in &process.tests {
            let id = (test.package.clone(), test.name.clone());
            let Some(alone) = self.0.remove(&id) else { continue };
            count += 1;
            let beside = beside(process, test, shared, fixtures);
            for (file, lines) in &alone {
                let known = beside.get(file).map_or(&[][..], Vec::as_slice);
                let of_file = hidden.entry(file.clone()).or_default();
                of_file.extend(lines_without(lines, known));
                *of_file = united(std::mem::take(of_file));
            }
            // One that took another way beside the others may depend on what they did.
            let of_file = |file: &str| alone.get(file).map_or(&[][..], Vec::as_slice);
            let own = process.lines(&test.words);
            if own.iter().all(|(file, lines)| lines_without(lines, of_file(file)).is_empty()) {
                sample.tests.entry(id.0).or_default().insert(id.1, alone);
            }
        }
        hidden.retain(|_, lines| !lines.is_empty());
        sample.hidden = hidden.into_iter().collect();
        // A test that fails alone, or takes too long there, is left out: it depends on others in a way that lines do not show.
        let is_whole = |(tests, _): &(usize, f64)| {
            *tests == count && *tests >= SAMPLED_TESTS_MIN.min(process.tests.len()) && process.imported.is_some()
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
) -> LinesByFile {
    let used = test.fixtures.iter().filter_map(|fixture| fixtures.get(fixture));
    let others = shared.get(&test.package).into_iter().chain(used).flatten();
    let mut words: Vec<u32> = test.words.iter().chain(others).copied().collect();
    sort(&mut words);
    process.lines(&words).into_iter().collect()
}
