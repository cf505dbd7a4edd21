//! One test and what became of it: the same record for every language. Must not know any framework.

use crate::bound::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, TEST_OUTPUT_BYTES_MAX, clip};
use crate::redact::redacted;
use serde::{Deserialize, Serialize};

/// A test by its package and its name within the package.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestId {
    /// Go import path, Python or JavaScript file, Rust crate and binary: what the framework runs as a unit.
    pub package: String,
    /// The test within it, in the runner's own form (`TestValidate/empty_input`).
    pub name: String,
}

impl TestId {
    /// Bytes of its texts in memory.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.package.len() + self.name.len()
    }

    /// The same names within their bound, as a finished test has them. Every test that begins passes through here on its way
    /// out of a parser.
    #[must_use]
    pub fn bounded(self) -> Self {
        TestId { package: clip(self.package, NAME_BYTES_MAX), name: clip(self.name, NAME_BYTES_MAX) }
    }
}

/// What became of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// It ran and held.
    Passed,
    /// It ran and did not hold.
    Failed,
    /// The runner chose not to run it.
    Skipped,
    /// It was expected to fail and did.
    Xfailed,
    /// It was expected to fail and passed.
    Xpassed,
    /// It could not be carried out: fixture, hook or runner error, or cut off by a crash.
    Error,
}

impl TestOutcome {
    /// The name users see.
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

    /// Whether somebody has to look at it.
    #[must_use]
    pub fn is_failure(self) -> bool {
        matches!(self, TestOutcome::Failed | TestOutcome::Error)
    }
}

/// A finished test. Strings are bounded by [`crate::bound`]; paths are relative to the workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestCase {
    /// The runner's own form of the whole name: Go's `package/Test/sub`, pytest's node id.
    pub nodeid: String,
    /// See [`TestId::package`].
    pub package: String,
    /// See [`TestId::name`].
    pub name: String,
    /// What became of it.
    pub outcome: TestOutcome,
    /// Wall time in seconds, as the runner measured it.
    pub duration_s: Option<f64>,
    /// File of the failure, relative to the workspace, `/`-separated.
    pub file: Option<String>,
    /// Line of the failure, from 1.
    pub line: Option<u32>,
    /// What the assertion said, without position and without the diff.
    pub message: Option<String>,
    /// The wanted value, as the runner printed it.
    pub expected: Option<String>,
    /// The value that came instead.
    pub actual: Option<String>,
    /// Stack trace, innermost frame first.
    pub stack: Option<String>,
    /// What the test printed. Kept for failures and skips; a passing test's output stays in the stream.
    pub output: Option<String>,
}

impl TestCase {
    /// A test with an outcome and nothing else known.
    #[must_use]
    pub fn new(id: TestId, nodeid: String, outcome: TestOutcome) -> Self {
        TestCase {
            nodeid,
            package: id.package,
            name: id.name,
            outcome,
            duration_s: None,
            file: None,
            line: None,
            message: None,
            expected: None,
            actual: None,
            stack: None,
            output: None,
        }
    }

    /// Its package and name.
    #[must_use]
    pub fn id(&self) -> TestId {
        TestId { package: self.package.clone(), name: self.name.clone() }
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let may_be = [&self.file, &self.message, &self.expected, &self.actual, &self.stack, &self.output];
        let texts: usize = may_be.into_iter().flatten().map(String::len).sum();
        size_of::<TestCase>() + self.nodeid.len() + self.package.len() + self.name.len() + texts
    }

    /// The same test with every string within its bound, no secret of a known form in a text, and a line only where there is
    /// one. Every test passes through here on its way out of a parser. Names stay as they are: a rerun selects by them.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let show_opt = |text: &mut Option<String>, max| *text = text.take().map(|inner| shown(inner, max));
        self.nodeid = clip(self.nodeid, 2 * NAME_BYTES_MAX);
        self.package = clip(self.package, NAME_BYTES_MAX);
        self.name = clip(self.name, NAME_BYTES_MAX);
        self.file = self.file.map(|file| clip(file, NAME_BYTES_MAX));
        self.line = line_in(self.file.as_ref(), self.line);
        show_opt(&mut self.message, MESSAGE_BYTES_MAX);
        show_opt(&mut self.expected, MESSAGE_BYTES_MAX);
        show_opt(&mut self.actual, MESSAGE_BYTES_MAX);
        show_opt(&mut self.stack, TEST_OUTPUT_BYTES_MAX);
        show_opt(&mut self.output, TEST_OUTPUT_BYTES_MAX);
        self
    }
}

// Redacted before it is clipped, so that no half of a secret is left.
fn shown(text: String, bytes_max: usize) -> String {
    clip(redacted(text), bytes_max)
}

/// Lines are counted from 1 and stand in a file, whatever a runner printed.
fn line_in(file: Option<&String>, line: Option<u32>) -> Option<u32> {
    line.filter(|line| *line > 0 && file.is_some())
}

/// Why something could not be built or collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorKind {
    /// A compiler or vet refused it.
    Build,
    /// The runner could not load the file or find its tests.
    Collection,
}

/// A build or collection error: a failure of a whole package or file, with no test to blame.
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
    /// All that the compiler or loader said, bounded.
    pub output: String,
}

impl Collector {
    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, String::len);
        size_of::<Collector>() + self.nodeid.len() + file + self.message.len() + self.output.len()
    }

    /// The same record with every string within its bound, no secret of a known form in a text, and a line only where there
    /// is one.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.nodeid = clip(self.nodeid, NAME_BYTES_MAX);
        self.file = self.file.map(|file| clip(file, NAME_BYTES_MAX));
        self.line = line_in(self.file.as_ref(), self.line);
        self.message = shown(self.message, MESSAGE_BYTES_MAX);
        self.output = shown(self.output, TEST_OUTPUT_BYTES_MAX);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_says_is_redacted_before_it_is_clipped() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let id = TestId { package: "p".to_owned(), name: secret.clone() };
        let text = |before: usize| Some(format!("{}{secret}", "x".repeat(before)));
        let case = TestCase {
            message: text(MESSAGE_BYTES_MAX - 20),
            expected: text(0),
            actual: text(1),
            stack: text(2),
            output: text(TEST_OUTPUT_BYTES_MAX - 12),
            ..TestCase::new(id.clone(), secret.clone(), TestOutcome::Failed)
        };
        let case = case.bounded();
        assert_eq!(case.id(), id);
        for text in [case.message, case.expected, case.actual, case.stack, case.output].into_iter().flatten() {
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
    fn a_line_is_in_a_file_and_counted_from_one() {
        let id = TestId { package: "p".to_owned(), name: "t".to_owned() };
        let line_of = |file: Option<&str>, line| {
            let case = TestCase::new(id.clone(), "p/t".to_owned(), TestOutcome::Failed);
            TestCase { file: file.map(str::to_owned), line: Some(line), ..case }.bounded().line
        };
        assert_eq!((line_of(Some("a.go"), 7), line_of(Some("a.go"), 0), line_of(None, 7)), (Some(7), None, None));
    }
}
