//! Handles libtest's JSON, from a binary with libtest's harness or from nextest, and nextest's lists.

use super::test_binary::push_bounded;
use super::{HELD_MAX, RunnerKind, RustParser};
use crate::parsing::output_tail::strip_ansi;
use crate::runners::rust::binary_names::node_id;
use crate::runners::rust::event::{HarnessLine, TestLine};
use crate::runners::rust::failure::{self, FailureReason};
use crate::runners::rust::nextest::NextestList;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestId, TestOutcome};

/// A failed test without a reason in its output. Nextest has a process for each test, and reports only in its text output
/// that a signal ended it: the test's own, or proctor's, on which nextest ends all tests and reports them as failed.
#[derive(Debug)]
pub(super) struct UnexplainedFailure {
    id: TestId,
    duration_s: Option<f64>,
    output: String,
}

impl RustParser {
    pub(super) fn harness_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        // A test may have printed to the same line before the result.
        let starts = line.match_indices('{').map(|(at, _)| at);
        let is_form = |at: &usize| ["{ \"type\":", "{\"type\":"].iter().any(|form| line[*at..].starts_with(form));
        let found = starts.filter(is_form).take(4).find_map(|at| Some((at, serde_json::from_str(&line[at..]).ok()?)));
        let before = found.as_ref().map_or(line, |(at, _)| &line[..*at]);
        if let Some(current) = self.current.as_mut().filter(|_| !before.is_empty()) {
            push_bounded(&mut current.output, before);
        }
        match found {
            Some((_, HarnessLine::Suite(suite))) => {
                if self.runner == RunnerKind::Nextest {
                    self.suites.record_suite(&suite);
                }
                if let Some(current) = &mut self.current {
                    current.open = suite.event == "started";
                    current.began = true;
                    current.announced += suite.test_count;
                }
            }
            Some((_, HarnessLine::Test(test))) => self.test_line(*test, events),
            Some((_, HarnessLine::Other)) | None => {}
        }
    }

    /// Handles nextest's list, which is one line.
    pub(super) fn list_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Ok(list) = serde_json::from_str::<NextestList>(line) else { return };
        if self.lists_ignored {
            for (package, name) in list.ignored() {
                let id = TestId { package, name };
                if !self.suites.has_skipped(&id) {
                    self.finish_test(id, TestOutcome::Skipped, None, FailureReason::default(), "", events);
                }
            }
        } else {
            list.tests().for_each(|(package, name)| self.list_test(TestId { package, name }, events));
        }
    }

    fn test_line(&mut self, test: TestLine, events: &mut Vec<RunnerEvent>) {
        let (id, attempt) = match &self.current {
            Some(current) => (TestId { package: current.id.clone(), name: test.name }, 1),
            None => {
                let Some((package, name, attempt)) = self.suites.split(&test) else { return };
                (TestId { package, name: name.to_owned() }, attempt)
            }
        };
        let outcome = match test.event.as_str() {
            "started" => return self.start_test(id, events),
            "discovered" => return self.list_test(id, events),
            "ok" => TestOutcome::Passed,
            "failed" => TestOutcome::Failed,
            "ignored" => TestOutcome::Skipped,
            // A notice about a slow test is no result, and neither are events of later versions.
            _ => return,
        };
        if outcome == TestOutcome::Passed && attempt > 1 {
            self.flaky += 1;
            self.notes.add(format!("{} is flaky: it passed at attempt {attempt}", node_id(&id.package, &id.name)));
        }
        let output = strip_ansi(&test.stdout.unwrap_or_default());
        let failure = match outcome {
            TestOutcome::Failed => {
                let failure = failure::from_test(&id.name, &output, test.message.as_deref(), self.here());
                if self.runner == RunnerKind::Nextest && failure.message.is_none() && self.unexplained.len() < HELD_MAX
                {
                    return self.unexplained.push(UnexplainedFailure { id, duration_s: test.exec_time, output });
                }
                failure
            }
            TestOutcome::Skipped => {
                FailureReason { message: test.message.filter(|reason| !reason.is_empty()), ..FailureReason::default() }
            }
            _ => FailureReason::default(),
        };
        self.finish_test(id, outcome, test.exec_time, failure, &output, events);
    }

    /// Reports the unexplained failures, after a step that was not killed.
    pub(super) fn report_unexplained_failures(&mut self, events: &mut Vec<RunnerEvent>) {
        for UnexplainedFailure { id, duration_s, output } in std::mem::take(&mut self.unexplained) {
            let message = Some("the test's process ended without a panic".to_owned());
            let failure = FailureReason { message, ..FailureReason::default() };
            self.finish_test(id, TestOutcome::Failed, duration_s, failure, &output, events);
        }
    }
}
