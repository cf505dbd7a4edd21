//! The test binaries that our runner frames, one after the other, and doctests, which have no frame: what they print as
//! text, and how they end. Must not know libtest's JSON.

use super::{Mode, RustParser};
use crate::parsing::output_tail::strip_ansi;
use crate::runners::rust::failure::{self, Failure};
use crate::runners::rust::text::{Text, Told, listed};
use proctor_core::bounds::TEST_OUTPUT_BYTES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestId, TestOutcome};
use std::collections::HashSet;

/// The test binary whose lines these are.
#[derive(Debug)]
pub(super) struct Current {
    /// Its name, see `names.rs`.
    pub(super) id: String,
    /// Whether it has no harness of libtest's.
    pub(super) is_plain: bool,
    text: Text,
    /// The beginning of what it printed beside results.
    pub(super) output: String,
    /// Tests that it told of, and how many of them failed.
    pub(super) told: u64,
    pub(super) failed: u64,
    /// Whether its suite began, and did not end.
    pub(super) began: bool,
    pub(super) open: bool,
    /// How many tests its harness said that it has.
    pub(super) announced: u64,
}

/// A binary that ended with tests that had not.
#[derive(Debug)]
pub(super) struct Crash {
    tests: Vec<TestId>,
    how: String,
}

impl RustParser {
    pub(super) fn binary_began(&mut self, file: &str, is_plain: bool) {
        let stem = || file.rsplit('/').next().unwrap_or_default().to_owned();
        let id = self.building.binary(file).unwrap_or_else(stem);
        self.building.is_over = true;
        self.current = Some(Current {
            id,
            is_plain,
            text: Text::default(),
            output: String::new(),
            told: 0,
            failed: 0,
            began: false,
            open: false,
            announced: 0,
        });
    }

    pub(super) fn text_line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let text = strip_ansi(line);
        if self.mode == Mode::Listing {
            if let Some(name) = listed(&text) {
                let package = self
                    .current
                    .as_ref()
                    .map_or_else(|| self.building.documented_by(&self.dir, &name), |now| now.id.clone());
                self.list(TestId { package, name }, events);
            }
            return;
        }
        let mut told = Vec::new();
        match &mut self.current {
            Some(current) => {
                current.text.line(&text, &mut told);
                keep(&mut current.output, &text);
            }
            None => self.doctests.line(&text, &mut told),
        }
        self.tell(told, events);
    }

    /// Tests that were told as text: of the current binary, or doctests.
    pub(super) fn tell(&mut self, told: Vec<Told>, events: &mut Vec<RunnerEvent>) {
        for Told { name, outcome, reason, output } in told {
            let current = self.current.as_ref().map(|current| current.id.clone());
            let failure = match (outcome, &current) {
                (TestOutcome::Failed, Some(_)) => failure::of_words(&name, &output, self.here()),
                (TestOutcome::Failed, None) => failure::of_doctest(&name, &output, self.here()),
                _ => Failure { message: reason, ..Failure::default() },
            };
            let package = current.unwrap_or_else(|| self.building.documented_by(&self.dir, &name));
            self.finished(TestId { package, name }, outcome, None, failure, &output, events);
        }
    }

    pub(super) fn binary_ended(&mut self, status: i32, events: &mut Vec<RunnerEvent>) {
        let Some(text) = self.current.as_mut().map(|current| std::mem::take(&mut current.text)) else { return };
        let mut told = Vec::new();
        let (is_open, speaks) = (text.is_open(), text.speaks());
        let began = { text }.finish(&mut told);
        self.tell(told, events);
        let Some(current) = self.current.take() else { return };
        // What one that broke lacks is told of it.
        self.announced += Some(current.announced).filter(|announced| *announced <= current.told).unwrap_or_default();
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
            self.crashes.push(Crash { tests, how });
        } else if self.mode == Mode::Listing && status == 0 {
            if current.is_plain && current.told == 0 {
                self.list(whole(&current.id), events);
            }
        } else if current.is_plain && !speaks && self.mode == Mode::Running {
            let outcome = if status == 0 { TestOutcome::Passed } else { TestOutcome::Failed };
            let failure = failure::of_test("main", &output, None, self.here());
            let message = failure.message.clone().unwrap_or_else(|| format!("the test program {how}"));
            let failure = Failure { message: (status != 0).then_some(message), ..failure };
            let failure = if status == 0 { Failure::default() } else { failure };
            self.finished(whole(&current.id), outcome, None, failure, &output, events);
        } else if current.open || is_open || current.told < current.announced || (!current.is_plain && !current.began) {
            self.broke(&current.id, &format!("the test program {how} before it had told its tests"), output, events);
        } else if status != 0 && current.failed == 0 {
            self.broke(&current.id, &format!("the test program {how} outside of its tests"), output, events);
        }
    }

    /// Tests that a binary left open. Why is on stderr, which may be read later than the binary's end.
    pub(super) fn tell_crashes(&mut self, events: &mut Vec<RunnerEvent>) {
        if self.crashes.is_empty() {
            return;
        }
        let said = self.stderr.text();
        // Looked for once and not for each test: a binary may leave tens of thousands open.
        let named = |line: &str| Some(line.split_once("thread '")?.1.rsplit_once('\'')?.0.to_owned());
        let overflowed: HashSet<String> =
            said.lines().filter(|line| line.contains("overflowed its stack")).filter_map(named).collect();
        for Crash { tests, how } in std::mem::take(&mut self.crashes) {
            for id in tests {
                let message = if overflowed.contains(&id.name) {
                    "the test overflowed its stack".to_owned()
                } else {
                    format!("did not finish: the test program {how}")
                };
                let failure = Failure { message: Some(message), ..Failure::default() };
                self.finished(id, TestOutcome::Error, None, failure, "", events);
            }
        }
    }
}

/// A program that is one test as a whole: it is called as the program is.
fn whole(id: &str) -> TestId {
    let name = id.rsplit(['/', ':']).next().unwrap_or_default();
    TestId { package: id.to_owned(), name: name.to_owned() }
}

pub(super) fn keep(output: &mut String, line: &str) {
    if output.len() + line.len() < TEST_OUTPUT_BYTES_MAX {
        output.push_str(line);
        output.push('\n');
    }
}

fn signal_name(number: i32) -> String {
    let known =
        [(4, "SIGILL"), (6, "SIGABRT"), (7, "SIGBUS"), (8, "SIGFPE"), (9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")];
    known.iter().find(|(known, _)| *known == number).map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}
