//! One test and its result: the same record for every language.

use crate::bounds::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TEST_OUTPUT_BYTES_MAX, clip, clip_beginning};
use crate::redact::redacted;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A test, identified by its package and its name within the package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestId {
    /// Go import path, Python or JavaScript file, Rust crate and binary: the unit that the framework runs.
    pub package: String,
    /// The test's name within the package, in the runner's own form (`TestValidate/empty_input`).
    pub name: String,
}

impl TestId {
    /// The package and the name. A test that was requested without its package has only its name.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.package.is_empty() { self.name.clone() } else { format!("{}/{}", self.package, self.name) }
    }

    /// Bytes of the two strings.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.package.len() + self.name.len()
    }

    /// Clips both names to the bound that finished tests have. Parsers pass every started test through here.
    #[must_use]
    pub fn bounded(self) -> Self {
        TestId { package: clip(self.package, NAME_BYTES_MAX), name: clip(self.name, NAME_BYTES_MAX) }
    }
}

/// Result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// The test ran and passed.
    Passed,
    /// The test ran and failed.
    Failed,
    /// The runner did not run the test.
    Skipped,
    /// The test was expected to fail and failed.
    Xfailed,
    /// The test was expected to fail and passed.
    Xpassed,
    /// The test could not be carried out: fixture, hook or runner error, or cut off by a crash.
    Error,
}

impl TestOutcome {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TestOutcome::Passed => "passed",
            TestOutcome::Failed => "failed",
            TestOutcome::Skipped => "skipped",
            TestOutcome::Xfailed => "xfailed",
            TestOutcome::Xpassed => "xpassed",
            TestOutcome::Error => "error",
        }
    }

    /// Whether the result needs attention.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, TestOutcome::Failed | TestOutcome::Error)
    }
}

/// A finished test. Strings are bounded by [`crate::bounds`]; paths are relative to the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestCase {
    /// The runner's own form of the whole name: Go's `package/Test/sub`, pytest's node id.
    pub nodeid: String,
    /// See [`TestId::package`].
    pub package: String,
    /// See [`TestId::name`].
    pub name: String,
    /// Result of the test.
    pub outcome: TestOutcome,
    /// Whether it failed only because a subtest of it did: no failure of its own, which a list of failures would repeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed_by_subtest: bool,
    /// Wall time in seconds, as the runner measured it.
    pub duration_s: Option<f64>,
    /// The part of `duration_s` in set-up and tear-down: fixtures and hooks. `None` if the runner does not tell it apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_s: Option<f64>,
    /// Processor time in seconds, user and system, that the process of the test used within `duration_s`: all of its threads and
    /// none of its children. `None` if it is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Seconds from the runner's start until proctor read the result; `None` if the result was read after the runner's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_s: Option<f64>,
    /// Number of the tests of its execution that finished before it: which tests may have changed something for it.
    #[serde(skip)]
    pub position: u64,
    /// File of the failure, relative to the workspace, `/`-separated.
    pub file: Option<String>,
    /// Line of the failure, from 1.
    pub line: Option<u32>,
    /// Message of the assertion, without position and diff.
    pub message: Option<String>,
    /// The expected value, as the runner printed it.
    pub expected: Option<String>,
    /// The actual value.
    pub actual: Option<String>,
    /// Stack trace, innermost frame first.
    pub stack: Option<String>,
    /// Captured output, of a long one the end. Kept for failures and skips; a passing test's output stays in the stream.
    pub output: Option<String>,
}

impl TestCase {
    /// A test with an outcome and no details.
    #[must_use]
    pub fn new(id: TestId, nodeid: String, outcome: TestOutcome) -> Self {
        TestCase {
            nodeid,
            package: id.package,
            name: id.name,
            outcome,
            failed_by_subtest: false,
            duration_s: None,
            setup_s: None,
            cpu_s: None,
            finished_s: None,
            position: 0,
            file: None,
            line: None,
            message: None,
            expected: None,
            actual: None,
            stack: None,
            output: None,
        }
    }

    /// Whether it failed, and not only because a subtest of it did.
    #[must_use]
    pub fn is_own_failure(&self) -> bool {
        self.outcome.is_failure() && !self.failed_by_subtest
    }

    /// Package and name of the test.
    #[must_use]
    pub fn id(&self) -> TestId {
        TestId { package: self.package.clone(), name: self.name.clone() }
    }

    /// The names by which a person may mean this test: its own, the runner's, and its own behind the package.
    pub fn spellings(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let own = [self.name.as_str(), self.nodeid.as_str()].map(Cow::Borrowed);
        let behind_package =
            ["/", "::", "."].map(|between| Cow::Owned(format!("{}{between}{}", self.package, self.name)));
        own.into_iter().chain(behind_package)
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let optional = [&self.file, &self.message, &self.expected, &self.actual, &self.stack, &self.output];
        let texts: usize = optional.into_iter().flatten().map(String::len).sum();
        size_of::<TestCase>() + self.nodeid.len() + self.package.len() + self.name.len() + texts
    }

    /// Clips every string to its bound, redacts known secrets in the texts, and drops a line number without a file.
    /// Parsers pass every finished test through here. Names are not redacted: a rerun selects by them.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let sanitize = |text: &mut Option<String>, max| *text = text.take().map(|inner| redact_and_clip(inner, max));
        self.nodeid = clip(self.nodeid, 2 * NAME_BYTES_MAX);
        self.package = clip(self.package, NAME_BYTES_MAX);
        self.name = clip(self.name, NAME_BYTES_MAX);
        self.file = self.file.map(|file| clip(file, NAME_BYTES_MAX));
        self.line = valid_line(self.file.as_ref(), self.line);
        sanitize(&mut self.message, MESSAGE_BYTES_MAX);
        sanitize(&mut self.expected, MESSAGE_BYTES_MAX);
        sanitize(&mut self.actual, MESSAGE_BYTES_MAX);
        sanitize(&mut self.stack, TEST_OUTPUT_BYTES_MAX);
        // What a test printed last explains its failure.
        self.output = self.output.map(|output| clip_beginning(redacted(output), TEST_OUTPUT_BYTES_MAX));
        self
    }
}

// Redacts before clipping, so that no half of a secret is left.
fn redact_and_clip(text: String, bytes_max: usize) -> String {
    clip(redacted(text), bytes_max)
}

/// Drops line 0 and a line without a file, whatever the runner printed.
fn valid_line(file: Option<&String>, line: Option<u32>) -> Option<u32> {
    line.filter(|line| *line > 0 && file.is_some())
}

/// Why a package or file could not be built or collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorKind {
    /// A compiler or vet rejected it.
    Build,
    /// The runner could not load the file or find its tests.
    Collection,
}

/// A build or collection error: a failure of a whole package or file, with no single failed test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// The package or file that could not be built or collected, in the runner's own form.
    pub nodeid: String,
    /// Build or collection.
    pub kind: CollectorKind,
    /// File of the first error, relative to the workspace.
    pub file: Option<String>,
    /// Line of the first error, from 1.
    pub line: Option<u32>,
    /// The first error's message.
    pub message: String,
    /// All output of the compiler or loader, bounded.
    pub output: String,
}

impl Collector {
    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, String::len);
        size_of::<Collector>() + self.nodeid.len() + file + self.message.len() + self.output.len()
    }

    /// Clips every string to its bound, redacts known secrets in the texts, and drops a line number without a file.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.nodeid = clip(self.nodeid, NAME_BYTES_MAX);
        self.file = self.file.map(|file| clip(file, NAME_BYTES_MAX));
        self.line = valid_line(self.file.as_ref(), self.line);
        self.message = redact_and_clip(self.message, MESSAGE_BYTES_MAX);
        self.output = redact_and_clip(self.output, TEST_OUTPUT_BYTES_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_texts_before_clipping_them() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let id = TestId { package: "p".to_owned(), name: secret.clone() };
        let text = |before: usize| Some(format!("{}{secret}", "x".repeat(before)));
        let case = TestCase {
            message: text(MESSAGE_BYTES_MAX - 20),
            expected: text(0),
            actual: text(1),
            stack: text(2),
            // The cut would be within the secret.
            output: text(200).map(|secret| secret + &"\ny".repeat(TEST_OUTPUT_BYTES_MAX / 2 - 42)),
            ..TestCase::new(id.clone(), secret.clone(), TestOutcome::Failed)
        };
        let case = case.bounded();
        assert_eq!(case.id(), id);
        let output = case.output.unwrap();
        assert!(
            output.ends_with('y') && !output.contains("a1B2") && output.contains("bytes before this"),
            "{}",
            &output[..120]
        );
        for text in [case.message, case.expected, case.actual, case.stack].into_iter().flatten() {
            assert!(
                !text.contains("ghp_") && text.contains("[redacte"),
                "{}",
                &text[text.len() - 40.min(text.len())..]
            );
        }
        let output = format!("E {secret}");
        let (nodeid, kind) = ("p".to_owned(), CollectorKind::Build);
        let collector = Collector { nodeid, kind, file: None, line: None, message: output.clone(), output }.bounded();
        assert_eq!([collector.message.as_str(), &collector.output], ["E [redacted: github]"; 2]);
    }

    #[test]
    fn drops_line_zero_and_a_line_without_a_file() {
        let id = TestId { package: "p".to_owned(), name: "t".to_owned() };
        let line_of = |file: Option<&str>, line| {
            let case = TestCase::new(id.clone(), "p/t".to_owned(), TestOutcome::Failed);
            TestCase { file: file.map(str::to_owned), line: Some(line), ..case }.bounded().line
        };
        assert_eq!((line_of(Some("a.go"), 7), line_of(Some("a.go"), 0), line_of(None, 7)), (Some(7), None, None));
    }
}
