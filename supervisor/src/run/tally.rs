//! What a driver has learnt of a run so far: tests, errors, counts. Pure bookkeeping within bounds. Must not know where
//! events come from.

use proctor_core::bound::{COLLECTORS_MAX, TEST_CASES_MAX, clip};
use proctor_core::event::{RunEvent, RunnerEvent};
use proctor_core::report::{Summary, Truncated};
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of output and stacks kept in one report, all tests together: with names, messages and positions, which are
/// always kept, the report stays well below what one message may carry.
const TEXT_BYTES_MAX: usize = 24 * 1024 * 1024;

/// What is kept of a message beyond that budget, in bytes: a line.
const MESSAGE_BYTES_BEYOND: usize = 120;

/// Tests and errors of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    failing: Vec<Arc<TestCase>>,
    others: Vec<Arc<TestCase>>,
    collectors: Vec<Arc<Collector>>,
    text_bytes: usize,
    texts_left_out: u64,
    /// Counts over all tests.
    pub(super) summary: Summary,
    /// Packages that could not be built.
    pub(super) build_errors: u64,
    /// Packages that could not be collected.
    pub(super) collection_errors: u64,
}

impl Tally {
    /// Counts what happened and turns it into what subscribers see.
    pub(super) fn count(&mut self, event: RunnerEvent) -> RunEvent {
        match event {
            RunnerEvent::TestStarted(test) => RunEvent::TestStarted(test),
            RunnerEvent::TestFinished(test) => {
                self.summary.count(test.outcome);
                let test = Arc::new(self.within_budget(test.bounded()));
                if self.failing.len() + self.others.len() < TEST_CASES_MAX {
                    let kept = if test.outcome.is_failure() { &mut self.failing } else { &mut self.others };
                    kept.push(Arc::clone(&test));
                } else if test.outcome.is_failure() && !self.others.is_empty() {
                    // A failure is worth more than a pass that came earlier.
                    self.others.pop();
                    self.failing.push(Arc::clone(&test));
                }
                RunEvent::TestFinished(test)
            }
            RunnerEvent::Collector(collector) => {
                match collector.kind {
                    CollectorKind::Build => self.build_errors += 1,
                    CollectorKind::Collection => self.collection_errors += 1,
                }
                let collector = Arc::new(collector.bounded());
                if self.collectors.len() < COLLECTORS_MAX {
                    self.collectors.push(Arc::clone(&collector));
                }
                RunEvent::Collector(collector)
            }
        }
    }

    // Output and stacks of the first failures are worth the most; beyond the budget they stay in the stream only.
    fn within_budget(&mut self, mut test: TestCase) -> TestCase {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let texts = [&test.output, &test.stack, &test.message, &test.expected, &test.actual];
        let bytes: usize = texts.into_iter().map(length).sum();
        if self.text_bytes + bytes <= TEXT_BYTES_MAX {
            self.text_bytes += bytes;
            return test;
        }
        self.texts_left_out += 1;
        (test.output, test.stack, test.expected, test.actual) = (None, None, None, None);
        test.message = test.message.map(|message| clip(message, MESSAGE_BYTES_BEYOND));
        test
    }

    /// A sentence about texts that the report had no room for.
    pub(super) fn note(&self) -> Option<String> {
        let tests = self.texts_left_out;
        (tests > 0).then(|| format!("output, stacks and values of {tests} tests are in the stream only"))
    }

    /// The tests that finished without being cut off, by package: whose coverage can be believed.
    pub(super) fn finished(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut finished: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for test in self.failing.iter().chain(&self.others) {
            finished.entry(test.package.clone()).or_default().insert(test.name.clone());
        }
        finished
    }

    /// The tests, failures first, and the errors, with what had no room.
    pub(super) fn into_parts(self) -> (Vec<TestCase>, Vec<Collector>, Truncated) {
        let errors = self.build_errors + self.collection_errors;
        let tests: Vec<TestCase> = self.failing.into_iter().chain(self.others).map(Arc::unwrap_or_clone).collect();
        let collectors: Vec<Collector> = self.collectors.into_iter().map(Arc::unwrap_or_clone).collect();
        let truncated = Truncated {
            tests: self.summary.total - tests.len() as u64,
            collectors: errors - collectors.len() as u64,
            ..Truncated::default()
        };
        (tests, collectors, truncated)
    }
}
