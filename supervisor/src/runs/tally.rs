//! Collects the tests, errors and counts of a run within the bounds of a report. Pure bookkeeping.

use super::report_limits;
use proctor_core::bounds::{COLLECTORS_MAX, REPORT_COLLECTORS_BYTES_MAX, REPORT_TESTS_BYTES_MAX, TEST_CASES_MAX, clip};
use proctor_core::event::{RunEvent, RunnerEvent};
use proctor_core::failed_parents::FailedParents;
use proctor_core::report::{Summary, Truncated};
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most bytes of output, stacks, messages and values in one report, over all tests, as JSON. It is part of
/// [`REPORT_TESTS_BYTES_MAX`], so the rest is left for names.
const TEXT_BYTES_MAX: usize = 22 * 1024 * 1024;

/// The same for build and collection errors: part of [`REPORT_COLLECTORS_BYTES_MAX`].
const COLLECTOR_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes kept of a message beyond that budget: one line.
const MESSAGE_BYTES_BEYOND: usize = 120;

/// The tests and errors of one run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    failing: Vec<Arc<TestCase>>,
    others: Vec<Arc<TestCase>>,
    collectors: Vec<Arc<Collector>>,
    /// Whether a failure was left out; passed tests then get no room either.
    failures_left_out: bool,
    /// JSON bytes of the listed tests, and of the errors.
    tests_bytes: usize,
    collectors_bytes: usize,
    /// The part of these that texts take, including texts of tests that were dropped for others.
    text_bytes: usize,
    collector_text_bytes: usize,
    texts_left_out: u64,
    expected_parents: FailedParents,
    /// Counts over all tests.
    pub(super) summary: Summary,
    /// Failed tests among them that failed only because a subtest of theirs did.
    pub(super) failed_parents: u64,
    /// Packages that could not be built.
    pub(super) build_errors: u64,
    /// Packages that could not be collected.
    pub(super) collection_errors: u64,
}

impl Tally {
    /// Records an event and converts it into what subscribers see.
    pub(super) fn record(&mut self, event: RunnerEvent) -> RunEvent {
        match event {
            RunnerEvent::TestStarted(test) => RunEvent::TestStarted(test),
            RunnerEvent::TestFinished(test) => {
                let mut test = test.bounded();
                self.expected_parents.mark(&mut test);
                RunEvent::TestFinished(self.record_test(test))
            }
            RunnerEvent::Collector(collector) => {
                match collector.kind {
                    CollectorKind::Build => self.build_errors += 1,
                    CollectorKind::Collection => self.collection_errors += 1,
                }
                let collector = Arc::new(self.collector_within_budget(collector.bounded()));
                let bytes = report_limits::json_bytes(collector.as_ref());
                if self.collectors.len() < COLLECTORS_MAX
                    && self.collectors_bytes + bytes <= REPORT_COLLECTORS_BYTES_MAX
                {
                    self.collectors_bytes += bytes;
                    self.collectors.push(Arc::clone(&collector));
                }
                RunEvent::Collector(collector)
            }
        }
    }

    /// Records a bounded test that is known to have failed by a subtest or not.
    pub(super) fn record_test(&mut self, test: TestCase) -> Arc<TestCase> {
        let position = self.summary.total;
        let test = Arc::new(TestCase { position, ..self.within_budget(test) });
        self.summary.count(test.outcome);
        self.failed_parents += u64::from(test.failed_by_subtest);
        self.list(&test);
        test
    }

    fn list(&mut self, test: &Arc<TestCase>) {
        let bytes = report_limits::json_bytes(test.as_ref());
        // Failures displace tests that did not fail.
        while test.outcome.is_failure() && !self.has_room(bytes) {
            let Some(other) = self.others.pop() else { break };
            self.tests_bytes -= report_limits::json_bytes(other.as_ref());
        }
        let displaced = self.failures_left_out && !test.outcome.is_failure();
        if self.has_room(bytes) && !displaced {
            self.tests_bytes += bytes;
            let listed = if test.outcome.is_failure() { &mut self.failing } else { &mut self.others };
            listed.push(Arc::clone(test));
        } else {
            self.failures_left_out |= test.outcome.is_failure();
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.failing.len() + self.others.len() < TEST_CASES_MAX && self.tests_bytes + bytes <= REPORT_TESTS_BYTES_MAX
    }

    // The texts of the first failures are worth the most; beyond the budget, texts stay in the output stream only.
    fn within_budget(&mut self, mut test: TestCase) -> TestCase {
        let texts = [&test.output, &test.stack, &test.message, &test.expected, &test.actual];
        let bytes: usize = texts.into_iter().flatten().map(report_limits::json_bytes).sum();
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
        let bytes = report_limits::json_bytes(&collector.output) + report_limits::json_bytes(&collector.message);
        if self.collector_text_bytes + bytes <= COLLECTOR_TEXT_BYTES_MAX {
            self.collector_text_bytes += bytes;
            return collector;
        }
        self.texts_left_out += 1;
        collector.output = String::new();
        collector.message = clip(collector.message, MESSAGE_BYTES_BEYOND);
        collector
    }

    /// A note about texts that the report had no room for.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = self.texts_left_out;
        (left_out > 0)
            .then(|| format!("output, stacks and values of {left_out} tests or errors are in the stream only"))
    }

    /// Tests that finished normally, by package: only their coverage is valid.
    pub(super) fn finished(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut finished: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for test in self.failing.iter().chain(&self.others) {
            finished.entry(test.package.clone()).or_default().insert(test.name.clone());
        }
        finished
    }

    /// The tests, failures first, the errors, and the number of omitted items.
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
