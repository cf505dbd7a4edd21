//! What a driver has learnt of a run so far: tests, errors, counts. Pure bookkeeping within bounds. Must not know where
//! events come from.

use super::report_limits::{self, COLLECTORS_BYTES_MAX, TESTS_BYTES_MAX};
use proctor_core::bounds::{COLLECTORS_MAX, TEST_CASES_MAX, clip};
use proctor_core::event::{RunEvent, RunnerEvent};
use proctor_core::report::{Summary, Truncated};
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of output, stacks, messages and values in one report, all tests together and as JSON, so that as much is left
/// for names: of [`TESTS_BYTES_MAX`], in which every test is counted whole.
const TEXT_BYTES_MAX: usize = 22 * 1024 * 1024;

/// The same of its build and collection errors: of [`COLLECTORS_BYTES_MAX`].
const COLLECTOR_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What is kept of a message beyond that budget, in bytes: a line.
const MESSAGE_BYTES_BEYOND: usize = 120;

/// Tests and errors of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    failing: Vec<Arc<TestCase>>,
    others: Vec<Arc<TestCase>>,
    collectors: Vec<Arc<Collector>>,
    /// Whether a failure found no room, so that no pass gets what is left.
    failures_left_out: bool,
    /// Bytes of the tests that are listed, and of the errors.
    tests_bytes: usize,
    collectors_bytes: usize,
    /// Of these, the bytes of texts, also of those tests that gave their place to others.
    text_bytes: usize,
    collector_text_bytes: usize,
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
                self.list(&test);
                RunEvent::TestFinished(test)
            }
            RunnerEvent::Collector(collector) => {
                match collector.kind {
                    CollectorKind::Build => self.build_errors += 1,
                    CollectorKind::Collection => self.collection_errors += 1,
                }
                let collector = Arc::new(self.collector_within_budget(collector.bounded()));
                let bytes = report_limits::bytes(collector.as_ref());
                if self.collectors.len() < COLLECTORS_MAX && self.collectors_bytes + bytes <= COLLECTORS_BYTES_MAX {
                    self.collectors_bytes += bytes;
                    self.collectors.push(Arc::clone(&collector));
                }
                RunEvent::Collector(collector)
            }
        }
    }

    fn list(&mut self, test: &Arc<TestCase>) {
        let bytes = report_limits::bytes(test.as_ref());
        // A failure is worth more than passes that came earlier.
        while test.outcome.is_failure() && !self.has_room(bytes) {
            let Some(other) = self.others.pop() else { break };
            self.tests_bytes -= report_limits::bytes(other.as_ref());
        }
        let comes_after = self.failures_left_out && !test.outcome.is_failure();
        if self.has_room(bytes) && !comes_after {
            self.tests_bytes += bytes;
            let listed = if test.outcome.is_failure() { &mut self.failing } else { &mut self.others };
            listed.push(Arc::clone(test));
        } else {
            self.failures_left_out |= test.outcome.is_failure();
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.failing.len() + self.others.len() < TEST_CASES_MAX && self.tests_bytes + bytes <= TESTS_BYTES_MAX
    }

    // Output and stacks of the first failures are worth the most; beyond the budget they stay in the stream only.
    fn within_budget(&mut self, mut test: TestCase) -> TestCase {
        let texts = [&test.output, &test.stack, &test.message, &test.expected, &test.actual];
        let bytes: usize = texts.into_iter().flatten().map(report_limits::bytes).sum();
        if self.text_bytes + bytes <= TEXT_BYTES_MAX {
            self.text_bytes += bytes;
            return test;
        }
        self.texts_left_out += 1;
        (test.output, test.stack, test.expected, test.actual) = (None, None, None, None);
        test.message = test.message.map(|message| clip(message, MESSAGE_BYTES_BEYOND));
        test
    }

    fn collector_within_budget(&mut self, mut collector: Collector) -> Collector {
        let bytes = report_limits::bytes(&collector.output) + report_limits::bytes(&collector.message);
        if self.collector_text_bytes + bytes <= COLLECTOR_TEXT_BYTES_MAX {
            self.collector_text_bytes += bytes;
            return collector;
        }
        self.texts_left_out += 1;
        collector.output = String::new();
        collector.message = clip(collector.message, MESSAGE_BYTES_BEYOND);
        collector
    }

    /// A sentence about texts that the report had no room for.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = self.texts_left_out;
        (left_out > 0)
            .then(|| format!("output, stacks and values of {left_out} tests or errors are in the stream only"))
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
