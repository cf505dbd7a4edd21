//! Records test events in any format: started, listed, finished; and binaries that failed without a failed test.

use super::{RunnerKind, RustParser};
use crate::runners::rust::binary_names::node_id;
use crate::runners::rust::failure::FailureReason;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};

impl RustParser {
    pub(super) fn start_test(&mut self, id: TestId, events: &mut Vec<RunnerEvent>) {
        if self.running.start(&id) {
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    pub(super) fn list_test(&mut self, id: TestId, events: &mut Vec<RunnerEvent>) {
        if let Some(current) = &mut self.current {
            current.results += 1;
        }
        if self.listed < TEST_CASES_MAX {
            self.listed += 1;
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    pub(super) fn finish_test(
        &mut self,
        id: TestId,
        outcome: TestOutcome,
        duration_s: Option<f64>,
        failure: FailureReason,
        output: &str,
        events: &mut Vec<RunnerEvent>,
    ) {
        self.running.finish(&id);
        if self.runner == RunnerKind::Nextest && outcome == TestOutcome::Skipped {
            self.suites.record_skipped(&id);
        }
        let failed = u64::from(outcome.is_failure());
        self.reported_failures += failed;
        if let Some(current) = &mut self.current {
            current.results += 1;
            current.failed += failed;
        }
        let FailureReason { message, place, expected, actual, stack } = failure;
        let (file, line) = place.unzip();
        let scrub = |text: Option<String>| text.map(|text| self.paths.scrub(&text));
        let output = Some(output.trim()).filter(|output| !output.is_empty() && outcome != TestOutcome::Passed);
        let nodeid = node_id(&id.package, &id.name);
        let case = TestCase {
            duration_s: duration_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
            file,
            line,
            message: scrub(message),
            expected: scrub(expected),
            actual: scrub(actual),
            stack: scrub(stack),
            output: scrub(output.map(str::to_owned)),
            ..TestCase::new(id, nodeid, outcome)
        };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    /// Emits a collector for a binary that failed without a failed test.
    pub(super) fn report_binary_failure(
        &mut self,
        id: &str,
        message: &str,
        output: String,
        events: &mut Vec<RunnerEvent>,
    ) {
        self.reported_failures += 1;
        let (nodeid, message) = (id.to_owned(), message.to_owned());
        let collector = Collector { nodeid, kind: CollectorKind::Collection, file: None, line: None, message, output };
        events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
    }
}
