//! Reads how many tests nextest is about to run, which it says on stderr before the first.

use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::output_tail::strip_ansi;
use std::collections::BTreeMap;

/// Numbers of tests, by step.
#[derive(Debug)]
pub(super) struct NextestTotals {
    lines: LineSplitter,
    by_step: BTreeMap<usize, u64>,
    /// Whether everything was selected: then the tests that nextest calls skipped are ignored ones, which it reports as well.
    reports_skipped: bool,
}

impl NextestTotals {
    pub(super) fn new(selects_all: bool) -> NextestTotals {
        NextestTotals { lines: LineSplitter::default(), by_step: BTreeMap::new(), reports_skipped: selects_all }
    }

    /// Reads bytes of a step's stderr. The first announcement counts: what follows may be a test's output.
    pub(super) fn feed(&mut self, step: usize, bytes: &[u8]) {
        if self.by_step.contains_key(&step) {
            return;
        }
        let mut found = None;
        let reports_skipped = self.reports_skipped;
        self.lines.feed(bytes, |line| {
            found = found.or_else(|| announced(&strip_ansi(&String::from_utf8_lossy(line)), reports_skipped));
        });
        if let Some(tests) = found {
            self.by_step.insert(step, tests);
            self.lines = LineSplitter::default();
        }
    }

    /// The tests of all steps; `None` until each step has announced its own.
    pub(super) fn sum(&self, steps: usize) -> Option<u64> {
        let sum = || self.by_step.values().try_fold(0_u64, |sum, tests| sum.checked_add(*tests));
        if self.by_step.len() == steps && steps > 0 { sum() } else { None }
    }
}

/// `    Starting 4 tests across 3 binaries (1 test skipped)`.
fn announced(line: &str, reports_skipped: bool) -> Option<u64> {
    let rest = line.trim_start().strip_prefix("Starting ")?;
    let (tests, rest) = rest.split_once(" test")?;
    if !rest.contains(" across ") {
        return None;
    }
    let skipped = rest.split_once('(').and_then(|(_, rest)| rest.split_once(" test")).map(|(number, _)| number);
    let skipped: u64 = skipped.and_then(|number| number.parse().ok()).unwrap_or(0);
    tests.parse::<u64>().ok()?.checked_add(if reports_skipped { skipped } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = include_bytes!("../../../../goldens/nextest/pass.err");

    #[test]
    fn reads_the_announcement_however_it_is_split() {
        for size in [1, 7, GOLDEN.len()] {
            let mut totals = NextestTotals::new(true);
            GOLDEN.chunks(size).for_each(|bytes| totals.feed(0, bytes));
            assert_eq!((totals.sum(1), totals.sum(2)), (Some(5), None), "{size}");
        }
    }

    #[test]
    fn what_a_filter_leaves_out_is_not_reported() {
        let mut totals = NextestTotals::new(false);
        totals.feed(0, b"    Starting 1 test across 1 binary (7 tests and 1 binary skipped)\n    Starting 9 tests across 1 binary\n");
        assert_eq!(totals.sum(1), Some(1));
    }

    #[test]
    fn reads_nothing_else() {
        for line in [
            "Starting",
            "Starting x tests across 1 binary",
            "Starting 99999999999999999999 tests across 1 binary",
            "Starting 3 tests",
        ] {
            assert_eq!(announced(line, true), None, "{line}");
        }
    }
}
