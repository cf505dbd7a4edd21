//! libtest's JSON, of a binary with libtest's harness or of nextest, and nextest's lists. Must not know who frames what it
//! reads, or how a failure's text is read.

use super::binary::keep;
use super::{HELD_MAX, RustParser, Speaker};
use crate::parsing::output_tail::strip_ansi;
use crate::runners::rust::event::{HarnessLine, Test};
use crate::runners::rust::failure::{self, Failure};
use crate::runners::rust::names::node_id;
use crate::runners::rust::nextest::List;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestId, TestOutcome};

/// A test that failed and did not say why. Nextest has a process for each test, and tells only people that a signal ended
/// it: one of the test's own, or proctor's, on which nextest ends all tests and calls them failed.
#[derive(Debug)]
pub(super) struct Silent {
    id: TestId,
    duration_s: Option<f64>,
    output: String,
}

impl RustParser {
    pub(super) fn harness_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        // A test may have printed before the result on the same line.
        let starts = line.match_indices('{').map(|(at, _)| at);
        let is_form = |at: &usize| ["{ \"type\":", "{\"type\":"].iter().any(|form| line[*at..].starts_with(form));
        let found = starts.filter(is_form).take(4).find_map(|at| Some((at, serde_json::from_str(&line[at..]).ok()?)));
        let before = found.as_ref().map_or(line, |(at, _)| &line[..*at]);
        if let Some(current) = self.current.as_mut().filter(|_| !before.is_empty()) {
            keep(&mut current.output, before);
        }
        match found {
            Some((_, HarnessLine::Suite(suite))) => {
                if self.speaker == Speaker::Nextest {
                    self.suites.line(&suite);
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

    /// Nextest's list is one line.
    pub(super) fn list_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let Ok(list) = serde_json::from_str::<List>(line) else { return };
        if self.completes {
            for (package, name) in list.ignored() {
                let id = TestId { package, name };
                if !self.suites.has_skipped(&id) {
                    self.finished(id, TestOutcome::Skipped, None, Failure::default(), "", events);
                }
            }
        } else {
            list.tests().for_each(|(package, name)| self.list(TestId { package, name }, events));
        }
    }

    fn test_line(&mut self, test: Test, events: &mut Vec<RunnerEvent>) {
        let (id, attempt) = match &self.current {
            Some(current) => (TestId { package: current.id.clone(), name: test.name }, 1),
            None => {
                let Some((package, name, attempt)) = self.suites.split(&test) else { return };
                (TestId { package, name: name.to_owned() }, attempt)
            }
        };
        let outcome = match test.event.as_str() {
            "started" => return self.started(id, events),
            "discovered" => return self.list(id, events),
            "ok" => TestOutcome::Passed,
            "failed" => TestOutcome::Failed,
            "ignored" => TestOutcome::Skipped,
            // That a test runs for long is no result; what later versions add is none either.
            _ => return,
        };
        if outcome == TestOutcome::Passed && attempt > 1 {
            self.flaky += 1;
            self.notes.add(format!("{} is flaky: it passed at attempt {attempt}", node_id(&id.package, &id.name)));
        }
        let output = strip_ansi(&test.stdout.unwrap_or_default());
        let failure = match outcome {
            TestOutcome::Failed => {
                let failure = failure::of_test(&id.name, &output, test.message.as_deref(), self.here());
                if self.speaker == Speaker::Nextest && failure.message.is_none() && self.silent.len() < HELD_MAX {
                    return self.silent.push(Silent { id, duration_s: test.exec_time, output });
                }
                failure
            }
            TestOutcome::Skipped => {
                Failure { message: test.message.filter(|reason| !reason.is_empty()), ..Failure::default() }
            }
            _ => Failure::default(),
        };
        self.finished(id, outcome, test.exec_time, failure, &output, events);
    }

    /// Tests that failed in silence, once it is known that nobody killed the run.
    pub(super) fn tell_silent(&mut self, events: &mut Vec<RunnerEvent>) {
        for Silent { id, duration_s, output } in std::mem::take(&mut self.silent) {
            let message = Some("the test's process ended without a panic".to_owned());
            let failure = Failure { message, ..Failure::default() };
            self.finished(id, TestOutcome::Failed, duration_s, failure, &output, events);
        }
    }
}
