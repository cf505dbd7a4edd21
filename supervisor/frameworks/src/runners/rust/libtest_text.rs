//! Parses libtest's text format, which rustdoc uses for doctests and other harnesses imitate. A failed test's output follows
//! after all tests have ended, so failures are held back until then.

use proctor_core::bounds::{TEST_OUTPUT_BYTES_MAX, push_keeping_end};
use proctor_core::test_case::TestOutcome;

/// Most failed tests held back at a time; further ones are reported without output.
const WAITING_MAX: usize = 10_000;

/// Suffixes that rustdoc adds to a doctest's name; they are not part of the name in a selection.
const MODE_SUFFIXES: [&str; 3] = [" - compile fail", " - compile", " - should panic"];

/// Result of one test.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextResult {
    pub(super) name: String,
    pub(super) outcome: TestOutcome,
    /// Why it was skipped.
    pub(super) reason: Option<String>,
    pub(super) output: String,
}

/// Parser of one binary's text, or of the text of all doctests in sequence.
#[derive(Debug, Default)]
pub(super) struct LibtestTextParser {
    /// A test that began, when tests run one at a time and print.
    pending: Option<String>,
    /// Failed tests with the output collected so far.
    failed: Vec<(String, String)>,
    /// Index in `failed` of the test whose output is being read.
    section: Option<usize>,
    /// Whether tests were announced and their summary has not come.
    open: bool,
    /// Whether any line had this format.
    uses_text_format: bool,
}

impl LibtestTextParser {
    /// Parses a line and appends completed results to `results`.
    pub(super) fn parse_line(&mut self, line: &str, results: &mut Vec<TextResult>) {
        if line.starts_with("running ") && (line.ends_with(" tests") || line.ends_with(" test")) {
            (self.open, self.uses_text_format) = (true, true);
        } else if line.starts_with("test result: ") {
            self.open = false;
            self.finish(results);
        } else if let Some(rest) = line.strip_prefix("test ").filter(|_| self.open && self.section.is_none()) {
            let Some((name, result)) =
                rest.rsplit_once(" ... ").or_else(|| rest.strip_suffix(" ...").map(|name| (name, "")))
            else {
                return;
            };
            let name = without_mode(name.trim_end());
            if !self.record_result(&name, result, results) {
                self.pending = Some(name);
            }
        } else if let Some(at) = self.output_heading(line) {
            self.section = Some(at);
        } else if line == "failures:" {
            self.section = None;
        } else if let Some((_, output)) = self.section.and_then(|at| self.failed.get_mut(at)) {
            push_keeping_end(output, line, TEST_OUTPUT_BYTES_MAX);
            output.push('\n');
        } else if let Some(name) = self.pending.take()
            && !self.record_result(&name, line, results)
        {
            self.pending = Some(name);
        }
    }

    /// Whether tests were announced and their summary has not come.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether any line had this format.
    pub(super) fn uses_text_format(&self) -> bool {
        self.uses_text_format
    }

    /// Appends the held-back failures to `results`, and returns the test that had begun and not ended.
    pub(super) fn finish(&mut self, results: &mut Vec<TextResult>) -> Option<String> {
        self.section = None;
        results.extend(self.failed.drain(..).map(|(name, output)| TextResult {
            name,
            outcome: TestOutcome::Failed,
            reason: None,
            output,
        }));
        self.pending.take()
    }

    fn record_result(&mut self, name: &str, result: &str, results: &mut Vec<TextResult>) -> bool {
        // The duration may follow.
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
            results.push(TextResult { name: name.to_owned(), outcome, reason, output: String::new() });
        }
        true
    }

    fn output_heading(&self, line: &str) -> Option<usize> {
        let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
        let name = without_mode(name.strip_suffix(" stdout").unwrap_or(name));
        self.failed.iter().position(|(failed, _)| *failed == name)
    }
}

/// The name in a line of a test list; `None` for any other line.
pub(super) fn listed_name(line: &str) -> Option<String> {
    line.strip_suffix(": test").map(without_mode)
}

fn without_mode(name: &str) -> String {
    MODE_SUFFIXES.iter().find_map(|mode| name.strip_suffix(mode)).unwrap_or(name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, &'static str, String)> {
        let (mut reader, mut results) = (LibtestTextParser::default(), Vec::new());
        text.lines().for_each(|line| reader.parse_line(line, &mut results));
        results
            .into_iter()
            .map(|result| {
                (result.name, result.outcome.name(), result.reason.unwrap_or(result.output.trim().to_owned()))
            })
            .collect()
    }

    #[test]
    fn a_failure_is_reported_with_its_later_output() {
        let text = "running 4 tests\ntest src/lib.rs - a (line 12) - compile ... ok\ntest b ... FAILED\ntest c ... ignored, \
                    slow\ntest d ... \nsaid\nok\n\nfailures:\n\n---- b stdout ----\nwhy\n---- ghost ----\nand\n\nfailures:\n    \
                    b\n\ntest result: FAILED. 2 passed\n";
        let expected = [
            ("src/lib.rs - a (line 12)", "passed", ""),
            ("c", "skipped", "slow"),
            ("d", "passed", ""),
            ("b", "failed", "why\n---- ghost ----\nand"),
        ];
        assert_eq!(read(text), expected.map(|(name, outcome, output)| (name.to_owned(), outcome, output.to_owned())));
    }

    #[test]
    fn ignores_tests_that_were_not_announced() {
        assert!(read("test ghost ... ok\n").is_empty());
    }

    #[test]
    fn is_open_without_a_summary() {
        let (mut reader, mut results) = (LibtestTextParser::default(), Vec::new());
        for line in ["running 2 tests", "test a ... FAILED", "test b ... "] {
            reader.parse_line(line, &mut results);
        }
        assert!(reader.is_open() && results.is_empty());
        assert_eq!(reader.finish(&mut results).as_deref(), Some("b"));
        assert_eq!(results[0].name, "a");
    }
}
