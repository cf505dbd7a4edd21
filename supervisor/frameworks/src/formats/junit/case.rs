//! One `testcase`: collects its attributes and elements and makes a test case of them.

use super::xml::Attributes;
use crate::parsing::assertion_values::assertion_values;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use crate::runners::ctest::assertion_output::{AssertionFailure, TestOutputBuffer};
use proctor_core::bounds::{TEST_OUTPUT_BYTES_MAX, push_keeping_end};
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use regex::Regex;
use std::sync::LazyLock;

/// The outcome that attributes and elements give a test, the strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CaseVerdict {
    Passed,
    Skipped,
    Xfailed,
    Failed,
    Error,
}

/// Elements that decide the outcome. A `flaky` element describes an attempt that failed before one that passed, a `rerun` element
/// a further failure of a failed test.
const VERDICTS: [(&str, CaseVerdict); 7] = [
    ("failure", CaseVerdict::Failed),
    ("error", CaseVerdict::Error),
    ("skipped", CaseVerdict::Skipped),
    ("rerunFailure", CaseVerdict::Failed),
    ("rerunError", CaseVerdict::Error),
    ("flakyFailure", CaseVerdict::Passed),
    ("flakyError", CaseVerdict::Passed),
];

/// Types of a skip that mean that the test is expected to fail (pytest, node:test).
const EXPECTED_TO_FAIL: [&str; 2] = ["pytest.xfail", "todo"];

/// Values of a `status` or `result` attribute that decide the outcome where no element does (ctest, GoogleTest, Maestro).
const STATUSES: [(&str, CaseVerdict); 7] = [
    ("fail", CaseVerdict::Failed),
    ("failed", CaseVerdict::Failed),
    ("error", CaseVerdict::Error),
    ("notrun", CaseVerdict::Skipped),
    ("disabled", CaseVerdict::Skipped),
    ("suppressed", CaseVerdict::Skipped),
    ("skipped", CaseVerdict::Skipped),
];

/// `file.ext:12` at the start of a line, or `dir/file.ext:12` after a blank or a bracket. A bare name in the second place is a
/// Java class's file, which could be anywhere.
static POSITION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)^((?:[\w.@+-]*/)*[\w.@+-]+\.[A-Za-z]\w*):(\d+)\b|[\s(\[](?:file://)?([\w.@+-]*/[\w./@+-]*\.[A-Za-z]\w*):(\d+)\b",
    )
    .ok()
});

/// A line that is a position and nothing else.
static POSITION_ONLY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\S+:\d+$").ok());

/// Name of a test without one: Surefire's form of a failure outside of all tests of a class.
pub(crate) const UNNAMED_TEST: &str = "unnamed";

/// A test whose element is open.
#[derive(Debug)]
pub(super) struct OpenCase {
    id: TestId,
    file: Option<String>,
    line: Option<u32>,
    duration_s: Option<f64>,
    verdict: CaseVerdict,
    /// Attempts that failed before one passed.
    flaky: usize,
    /// Attempts that failed after a failed one.
    rerun: usize,
    /// Whether the test is expected to fail.
    expected_to_fail: bool,
    /// Whether an element describes a failure, expected or not.
    failed: bool,
    message: Option<String>,
    expected: Option<String>,
    actual: Option<String>,
    stack: String,
    output: String,
    /// Target of text: one entry for each open element within the test.
    text_targets: Vec<TextTarget>,
}

/// What text within an element is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextTarget {
    Stack,
    Output,
    Nothing,
}

impl OpenCase {
    /// A test of the suite called `suite`.
    pub(super) fn new(suite: &str, attributes: &Attributes) -> OpenCase {
        let named = |name: &str| attributes.get(name).map(str::to_owned);
        let status = named("result").or(named("status")).map(|status| status.to_lowercase()).unwrap_or_default();
        let status = STATUSES.iter().find(|(known, _)| *known == status).map(|(_, verdict)| *verdict);
        OpenCase {
            id: TestId {
                package: named("classname").unwrap_or_else(|| suite.to_owned()),
                name: named("name").unwrap_or_else(|| UNNAMED_TEST.to_owned()),
            },
            file: named("file"),
            line: attributes.number("line"),
            // Some writers put a comma between thousands.
            duration_s: attributes.get("time").and_then(|time| time.replace(',', "").trim().parse().ok()),
            verdict: status.unwrap_or(CaseVerdict::Passed),
            flaky: 0,
            rerun: 0,
            expected_to_fail: false,
            failed: status.is_some_and(|status| status >= CaseVerdict::Failed),
            message: None,
            expected: None,
            actual: None,
            stack: String::new(),
            output: String::new(),
            text_targets: Vec::new(),
        }
    }

    /// How many failures and errors a suite around the test may count for it: Surefire counts every attempt.
    pub(super) fn counted(&self) -> usize {
        usize::from(self.failed) + self.rerun + self.flaky
    }

    /// Whether the test did not run.
    pub(super) fn is_skipped(&self) -> bool {
        self.verdict == CaseVerdict::Skipped
    }

    /// A note besides the outcome.
    pub(super) fn note(&self) -> Option<String> {
        let flaky = self.flaky > 0 && self.verdict == CaseVerdict::Passed;
        flaky.then(|| format!("{} passed after {} failed attempt(s)", self.nodeid(), self.flaky))
    }

    /// An element within the test opens.
    pub(super) fn enter(&mut self, name: &str, attributes: &Attributes) {
        let verdict = VERDICTS.iter().find(|(known, _)| *known == name).map(|(_, verdict)| *verdict);
        if let Some(verdict) = verdict {
            self.flaky += usize::from(verdict == CaseVerdict::Passed);
            self.rerun += usize::from(name.starts_with("rerun"));
            self.failed |= verdict >= CaseVerdict::Failed;
            self.expected_to_fail |= verdict == CaseVerdict::Skipped
                && attributes.get("type").is_some_and(|kind| EXPECTED_TO_FAIL.contains(&kind));
            self.verdict = self.verdict.max(verdict);
            let named = |name: &str| attributes.get(name).map(str::to_owned);
            self.message = self.message.take().or(named("message"));
            self.expected = self.expected.take().or(named("expected"));
            self.actual = self.actual.take().or(named("actual"));
        }
        self.text_targets.push(match (verdict, name) {
            (Some(_), _) if self.stack.is_empty() => TextTarget::Stack,
            // `stackTrace` and `system-out` of an attempt are nested in its element.
            (_, "stackTrace") => TextTarget::Stack,
            (_, "system-out" | "system-err") => TextTarget::Output,
            _ => TextTarget::Nothing,
        });
    }

    /// Text within the test.
    pub(super) fn text(&mut self, text: &str) {
        match self.text_targets.last() {
            Some(TextTarget::Stack) if self.stack.len() < TEST_OUTPUT_BYTES_MAX => {
                self.stack.push_str(&text[..text.floor_char_boundary(TEST_OUTPUT_BYTES_MAX)]);
            }
            Some(TextTarget::Output) => push_keeping_end(&mut self.output, text, TEST_OUTPUT_BYTES_MAX),
            Some(TextTarget::Stack | TextTarget::Nothing) | None => {}
        }
    }

    /// The innermost open element within the test closes.
    pub(super) fn leave(&mut self) {
        if self.text_targets.pop() == Some(TextTarget::Output)
            && !self.output.is_empty()
            && !self.output.ends_with('\n')
        {
            self.output.push('\n');
        }
    }

    fn nodeid(&self) -> String {
        let TestId { package, name } = &self.id;
        if package.is_empty() || package == name { name.clone() } else { format!("{package}::{name}") }
    }

    /// The finished test case.
    pub(super) fn into_case(self, paths: &WorkspacePaths, dir: &str) -> TestCase {
        let verdict = if self.expected_to_fail { CaseVerdict::Xfailed } else { self.verdict };
        let outcome = match verdict {
            CaseVerdict::Passed => TestOutcome::Passed,
            CaseVerdict::Skipped => TestOutcome::Skipped,
            CaseVerdict::Xfailed => TestOutcome::Xfailed,
            CaseVerdict::Failed => TestOutcome::Failed,
            CaseVerdict::Error => TestOutcome::Error,
        };
        let nodeid = paths.scrub(&self.nodeid());
        let clean = |text: &str| Some(paths.scrub(strip_ansi(text).trim())).filter(|text| !text.is_empty());
        let stack = clean(&self.stack);
        let output = clean(&self.output);
        let own_message = self.message.as_deref().map(without_position).and_then(clean);
        let first = stack.as_deref().and_then(|stack| stack.lines().map(str::trim).find(|line| !line.is_empty()));
        let is_silent = own_message.is_none() && stack.is_none() && outcome.is_failure();
        let printed = is_silent.then(|| printed(&self.output, paths, dir)).flatten();
        let message = own_message.or_else(|| first.map(str::to_owned)).or_else(|| {
            // A failure without a message may be explained by the test's output (ctest's files are like that).
            let failure = printed.as_ref().map(|failure| failure.message.clone());
            failure.or_else(|| output.as_deref()?.lines().last().map(str::to_owned)).filter(|_| is_silent)
        });
        let has_details = outcome != TestOutcome::Passed;
        let read =
            message.as_deref().and_then(assertion_values).or_else(|| stack.as_deref().and_then(assertion_values));
        let (expected, actual) = read.filter(|_| outcome.is_failure()).unzip();
        let own = self.file.as_deref().and_then(|file| Some((paths.relative_to(dir, file)?, self.line?)));
        // The text has the place of the failure, the attributes the place of the test.
        let at = position(&strip_ansi(&self.stack), paths, dir).or_else(|| printed?.place);
        let place = at.or(own).filter(|(_, line)| has_details && *line > 0);
        let (file, line) = place.unzip();
        TestCase {
            duration_s: self.duration_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
            file,
            line,
            message: message.filter(|_| has_details),
            expected: self.expected.or(expected),
            actual: self.actual.or(actual),
            stack: stack.filter(|_| outcome.is_failure()),
            output: output.filter(|_| has_details),
            ..TestCase::new(self.id, nodeid, outcome)
        }
        .bounded()
    }
}

/// The message without a first line that is only a position (GoogleTest).
fn without_position(message: &str) -> &str {
    match message.split_once('\n') {
        Some((first, rest))
            if first == "unknown file" || POSITION_ONLY.as_ref().is_some_and(|place| place.is_match(first)) =>
        {
            rest
        }
        _ => message,
    }
}

/// The failure that a test without message and stack printed (ctest's files are like that).
fn printed(output: &str, paths: &WorkspacePaths, dir: &str) -> Option<AssertionFailure> {
    let mut printed = TestOutputBuffer::default();
    output.lines().for_each(|line| printed.push_line(line));
    printed.failure(dir, paths)
}

/// The failure's place within the workspace: the first position in the text, or the last in Python, whose stacks end there.
fn position(text: &str, paths: &WorkspacePaths, dir: &str) -> Option<(String, u32)> {
    let mut found = POSITION.as_ref()?.captures_iter(text).filter_map(|found| {
        let file = found.get(1).or(found.get(3))?.as_str();
        let line = found.get(2).or(found.get(4))?.as_str();
        Some((paths.relative_to(dir, file)?, line.parse().ok()?))
    });
    let first = found.next()?;
    let is_python = |place: &(String, u32)| place.0.rsplit_once('.').is_some_and(|(_, extension)| extension == "py");
    if is_python(&first) { Some(found.filter(is_python).last().unwrap_or(first)) } else { Some(first) }
}
