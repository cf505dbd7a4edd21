//! Reads libtest's text form, in which rustdoc tells doctests, and which other harnesses imitate. Why a test failed comes
//! after all tests have ended, so failures wait for it. Must not know what is made of a failure.

use proctor_core::bounds::{TEST_OUTPUT_BYTES_MAX, clip};
use proctor_core::test_case::TestOutcome;

/// Most failed tests that wait for their output at a time; later ones are told without.
const WAITING_MAX: usize = 10_000;

/// What rustdoc adds to the name of a doctest, which is no part of it where tests are chosen.
const MODES: [&str; 3] = [" - compile fail", " - compile", " - should panic"];

/// A test that ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) name: String,
    pub(super) outcome: TestOutcome,
    /// Why it was skipped.
    pub(super) reason: Option<String>,
    pub(super) output: String,
}

/// A reader of one binary's text, or of all doctests one after the other.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// A test that began, when tests run one at a time and print.
    pending: Option<String>,
    /// Failed tests, with what is known of their output.
    failed: Vec<(String, String)>,
    /// Which of them is being told about.
    section: Option<usize>,
    /// Tests are announced and the result is not there yet.
    open: bool,
    /// Whether anything was in this form.
    speaks: bool,
}

impl Text {
    /// Takes in a line and says which tests are done with.
    pub(super) fn line(&mut self, line: &str, told: &mut Vec<Told>) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            (self.open, self.speaks) = (true, true);
        } else if line.starts_with("test result: ") {
            self.open = false;
            self.finish(told);
        } else if let Some(rest) = line.strip_prefix("test ").filter(|_| self.open && self.section.is_none()) {
            let Some((name, result)) =
                rest.rsplit_once(" ... ").or_else(|| rest.strip_suffix(" ...").map(|name| (name, "")))
            else {
                return;
            };
            let name = bare(name.trim_end());
            if !self.ended(&name, result, told) {
                self.pending = Some(name);
            }
        } else if let Some(at) = self.heading(line) {
            self.section = Some(at);
        } else if line == "failures:" {
            self.section = None;
        } else if let Some((_, output)) = self.section.and_then(|at| self.failed.get_mut(at)) {
            if output.len() < TEST_OUTPUT_BYTES_MAX {
                output.push_str(&clip(line.to_owned(), TEST_OUTPUT_BYTES_MAX));
                output.push('\n');
            }
        } else if let Some(name) = self.pending.take()
            && !self.ended(&name, line, told)
        {
            self.pending = Some(name);
        }
    }

    /// Whether tests were announced whose result has not come.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether anything was in this form.
    pub(super) fn speaks(&self) -> bool {
        self.speaks
    }

    /// Tells the failures that still wait, and who had begun.
    pub(super) fn finish(&mut self, told: &mut Vec<Told>) -> Option<String> {
        self.section = None;
        told.extend(self.failed.drain(..).map(|(name, output)| Told {
            name,
            outcome: TestOutcome::Failed,
            reason: None,
            output,
        }));
        self.pending.take()
    }

    fn ended(&mut self, name: &str, result: &str, told: &mut Vec<Told>) -> bool {
        // The time that a test took may follow.
        let result = result.split_once(" <").map_or(result, |(result, _)| result);
        let (outcome, reason) = match result.split_once(", ") {
            _ if result == "ok" => (TestOutcome::Passed, None),
            _ if result == "FAILED" || result.starts_with("FAILED (") => (TestOutcome::Failed, None),
            _ if result == "ignored" => (TestOutcome::Skipped, None),
            Some(("ignored", reason)) => (TestOutcome::Skipped, Some(reason.to_owned())),
            _ => return false,
        };
        if outcome == TestOutcome::Failed && self.failed.len() < WAITING_MAX {
            self.failed.push((name.to_owned(), String::new()));
        } else {
            told.push(Told { name: name.to_owned(), outcome, reason, output: String::new() });
        }
        true
    }

    fn heading(&self, line: &str) -> Option<usize> {
        let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
        let name = bare(name.strip_suffix(" stdout").unwrap_or(name));
        self.failed.iter().position(|(failed, _)| *failed == name)
    }
}

/// A test in a list, unless the line is something else.
pub(super) fn listed(line: &str) -> Option<String> {
    line.strip_suffix(": test").map(bare)
}

fn bare(name: &str) -> String {
    MODES.iter().find_map(|mode| name.strip_suffix(mode)).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, &'static str, String)> {
        let (mut reader, mut told) = (Text::default(), Vec::new());
        text.lines().for_each(|line| reader.line(line, &mut told));
        told.into_iter()
            .map(|told| (told.name, told.outcome.name(), told.reason.unwrap_or(told.output.trim().to_owned())))
            .collect()
    }

    #[test]
    fn failures_come_with_what_is_said_about_them_later() {
        let text = "running 4 tests\ntest src/lib.rs - a (line 12) - compile ... ok\ntest b ... FAILED\ntest c ... ignored, \
                    slow\ntest d ... \nsaid\nok\n\nfailures:\n\n---- b stdout ----\nwhy\n---- ghost ----\nand\n\nfailures:\n    \
                    b\n\ntest result: FAILED. 2 passed\n";
        let expected = [
            ("src/lib.rs - a (line 12)", "passed", ""),
            ("c", "skipped", "slow"),
            ("d", "passed", ""),
            ("b", "failed", "why\n---- ghost ----\nand"),
        ];
        assert_eq!(read(text), expected.map(|(name, outcome, said)| (name.to_owned(), outcome, said.to_owned())));
    }

    #[test]
    fn what_was_not_announced_is_no_test() {
        assert!(read("test ghost ... ok\n").is_empty());
    }

    #[test]
    fn a_text_without_its_result_is_open() {
        let (mut reader, mut told) = (Text::default(), Vec::new());
        for line in ["running 2 tests", "test a ... FAILED", "test b ... "] {
            reader.line(line, &mut told);
        }
        assert!(reader.is_open() && told.is_empty());
        assert_eq!(reader.finish(&mut told).as_deref(), Some("b"));
        assert_eq!(told[0].name, "a");
    }
}
