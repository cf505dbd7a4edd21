//! Handles test binaries that the wrapper frames, one after the other, and doctests, which have no frame: their text output
//! and their end.

use super::{Mode, RustParser};
use crate::parsing::output_tail::strip_ansi;
use crate::runners::rust::failure::{self, FailureReason};
use crate::runners::rust::libtest_text::{LibtestTextParser, TextResult, listed_name};
use proctor_core::bounds::{TEST_OUTPUT_BYTES_MAX, push_keeping_end};
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestId, TestOutcome};
use std::collections::HashSet;

/// The test binary whose lines are being read.
#[derive(Debug)]
pub(super) struct CurrentBinary {
    /// Its name, see `binary_names.rs`.
    pub(super) id: String,
    /// Whether it is built without libtest's harness.
    pub(super) is_plain: bool,
    text: LibtestTextParser,
    /// Beginning of its output beside results, bounded.
    pub(super) output: String,
    /// Tests with a result, and how many of them failed.
    pub(super) results: u64,
    pub(super) failed: u64,
    /// Whether its suite began, and whether it is still open.
    pub(super) began: bool,
    pub(super) open: bool,
    /// Number of tests that its harness announced.
    pub(super) announced: u64,
}

/// A binary that ended while tests were running.
#[derive(Debug)]
pub(super) struct BinaryCrash {
    tests: Vec<TestId>,
    how: String,
}

impl RustParser {
    pub(super) fn start_binary(&mut self, file: &str, is_plain: bool) {
        let stem = || file.rsplit('/').next().unwrap_or_default().to_owned();
        let id = self.build_output.binary(file).unwrap_or_else(stem);
        self.build_output.is_finished = true;
        self.current = Some(CurrentBinary {
            id,
            is_plain,
            text: LibtestTextParser::default(),
            output: String::new(),
            results: 0,
            failed: 0,
            began: false,
            open: false,
            announced: 0,
        });
    }

    pub(super) fn text_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let text = strip_ansi(line);
        if self.mode == Mode::Listing {
            if let Some(name) = listed_name(&text) {
                let package = self
                    .current
                    .as_ref()
                    .map_or_else(|| self.build_output.documented_by(&self.dir, &name), |now| now.id.clone());
                self.list_test(TestId { package, name }, events);
            }
            return;
        }
        let mut results = Vec::new();
        match &mut self.current {
            Some(current) => {
                current.text.parse_line(&text, &mut results);
                push_bounded(&mut current.output, &text);
            }
            None => self.doctests.parse_line(&text, &mut results),
        }
        self.report_text_results(results, events);
    }

    /// Emits test results that were reported as text: of the current binary, or of doctests.
    pub(super) fn report_text_results(&mut self, results: Vec<TextResult>, events: &mut Vec<RunnerEvent>) {
        for TextResult { name, outcome, reason, output } in results {
            let current = self.current.as_ref().map(|current| current.id.clone());
            let failure = match (outcome, &current) {
                (TestOutcome::Failed, Some(_)) => failure::from_other_harness(&name, &output, self.here()),
                (TestOutcome::Failed, None) => failure::from_doctest(&name, &output, self.here()),
                _ => FailureReason { message: reason, ..FailureReason::default() },
            };
            let package = current.unwrap_or_else(|| self.build_output.documented_by(&self.dir, &name));
            self.finish_test(TestId { package, name }, outcome, None, failure, &output, events);
        }
    }

    pub(super) fn finish_binary(&mut self, status: i32, events: &mut Vec<RunnerEvent>) {
        let Some(text) = self.current.as_mut().map(|current| std::mem::take(&mut current.text)) else { return };
        let mut results = Vec::new();
        let (is_open, uses_text_format) = (text.is_open(), text.uses_text_format());
        let began = { text }.finish(&mut results);
        self.report_text_results(results, events);
        let Some(current) = self.current.take() else { return };
        // A binary that lacks tests is reported below and not counted here.
        self.announced += Some(current.announced).filter(|announced| *announced <= current.results).unwrap_or_default();
        let how = if status > 128 {
            format!("was ended by signal {}", signal_name(status - 128))
        } else {
            format!("exited with {status}")
        };
        let began = began.map(|name| TestId { package: current.id.clone(), name });
        let tests: Vec<TestId> =
            self.running.iter().filter(|id| id.package == current.id).cloned().chain(began).collect();
        let output = self.paths.scrub(strip_ansi(&current.output).trim());
        if !tests.is_empty() {
            self.summary.unreached = true;
            self.notes.add(format!("{}: the test program {how}, and tests that had not begun did not run", current.id));
            self.crashes.push(BinaryCrash { tests, how });
        } else if self.mode == Mode::Listing && status == 0 {
            if current.is_plain && current.results == 0 {
                self.list_test(whole_program_test(&current.id), events);
            }
        } else if current.is_plain && !uses_text_format && self.mode == Mode::Running {
            let outcome = if status == 0 { TestOutcome::Passed } else { TestOutcome::Failed };
            let failure = failure::from_test("main", &output, None, self.here());
            let message = failure.message.clone().unwrap_or_else(|| format!("the test program {how}"));
            let failure = FailureReason { message: (status != 0).then_some(message), ..failure };
            let failure = if status == 0 { FailureReason::default() } else { failure };
            self.finish_test(whole_program_test(&current.id), outcome, None, failure, &output, events);
        } else if current.open
            || is_open
            || current.results < current.announced
            || (!current.is_plain && !current.began)
        {
            self.report_binary_failure(
                &current.id,
                &format!("the test program {how} before it had reported its tests"),
                output,
                events,
            );
        } else if status != 0 && current.failed == 0 {
            self.report_binary_failure(
                &current.id,
                &format!("the test program {how} outside of its tests"),
                output,
                events,
            );
        }
    }

    /// Finishes tests of crashed binaries. The reason is on stderr, which may be read later than the binary's end.
    pub(super) fn report_crashes(&mut self, events: &mut Vec<RunnerEvent>) {
        if self.crashes.is_empty() {
            return;
        }
        let stderr = self.stderr.text();
        // Searched once and not for each test: a crash may leave tens of thousands of tests open.
        let named = |line: &str| Some(line.split_once("thread '")?.1.rsplit_once('\'')?.0.to_owned());
        let overflowed: HashSet<String> =
            stderr.lines().filter(|line| line.contains("overflowed its stack")).filter_map(named).collect();
        for BinaryCrash { tests, how } in std::mem::take(&mut self.crashes) {
            for id in tests {
                let message = if overflowed.contains(&id.name) {
                    "the test overflowed its stack".to_owned()
                } else {
                    format!("did not finish: the test program {how}")
                };
                let failure = FailureReason { message: Some(message), ..FailureReason::default() };
                self.finish_test(id, TestOutcome::Error, None, failure, "", events);
            }
        }
    }
}

/// The single test of a harness-free program, named after the program.
fn whole_program_test(id: &str) -> TestId {
    let name = id.rsplit(['/', ':']).next().unwrap_or_default();
    TestId { package: id.to_owned(), name: name.to_owned() }
}

pub(super) fn push_bounded(output: &mut String, line: &str) {
    push_keeping_end(output, line, TEST_OUTPUT_BYTES_MAX);
    output.push('\n');
}

fn signal_name(number: i32) -> String {
    let known =
        [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")];
    known.iter().find(|(known, _)| *known == number).map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}
