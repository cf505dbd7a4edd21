//! The failures of a report as the analysis reads them: tests and build or collection errors in one form.

use super::frames::{ProjectFrame, project_frames};
use super::{FailureLocation, frames};
use crate::report::Report;
use crate::test_case::{Collector, CollectorKind, TestCase};

/// Extensions of sources whose frames have a file name without its directory.
const JVM: [&str; 4] = [".java", ".kt", ".scala", ".groovy"];

/// Packages of the JVM's own and of test runners. The names of modules stand before a slash: `java.base/java.util.List.get`.
const LIBRARIES: [&str; 12] = [
    "app//",
    "groovy.",
    "java.",
    "javax.",
    "jdk.",
    "junit.",
    "kotlin.",
    "org.apache.maven.",
    "org.codehaus.",
    "org.gradle.",
    "org.junit.",
    "sun.",
];

/// A failed test, or a package or file that could not be built or loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnalyzedFailure<'a> {
    pub(super) name: &'a str,
    pub(super) package: &'a str,
    pub(super) collector: Option<CollectorKind>,
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) message: &'a str,
    pub(super) expected: Option<&'a str>,
    pub(super) actual: Option<&'a str>,
    stack: &'a str,
    pub(super) output: &'a str,
}

/// All failures of `report`, build and collection errors first. A test that failed only because a subtest did is none.
pub(super) fn failures(report: &Report) -> Vec<AnalyzedFailure<'_>> {
    let collectors = report.collectors.iter().map(AnalyzedFailure::from_collector);
    collectors.chain(report.own_failures().map(AnalyzedFailure::from_test)).collect()
}

impl<'a> AnalyzedFailure<'a> {
    fn from_test(test: &'a TestCase) -> AnalyzedFailure<'a> {
        let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
        let failed = AnalyzedFailure {
            name: &test.nodeid,
            package: &test.package,
            collector: None,
            file: test.file.as_deref(),
            line: test.line,
            message: text(&test.message),
            expected: test.expected.as_deref(),
            actual: test.actual.as_deref(),
            stack: text(&test.stack),
            output: text(&test.output),
        };
        failed.with_location()
    }

    fn from_collector(collector: &'a Collector) -> AnalyzedFailure<'a> {
        let failed = AnalyzedFailure {
            name: &collector.nodeid,
            package: &collector.nodeid,
            collector: Some(collector.kind),
            file: collector.file.as_deref(),
            line: collector.line,
            message: &collector.message,
            expected: None,
            actual: None,
            stack: "",
            output: &collector.output,
        };
        failed.with_location()
    }

    // A file alone is that of the test: a frame of the stack says more.
    fn with_location(self) -> AnalyzedFailure<'a> {
        let file = self.file.filter(|file| !frames::is_foreign(file));
        let frame = self.frames().first().map(|frame| (frame.file, frame.line));
        let (file, line) = match (file, self.line, frame) {
            (None, _, Some((file, line))) => (Some(file), Some(line)),
            (None, _, None) => (None, None),
            (Some(file), None, Some((innermost, line))) if innermost == file => (Some(file), Some(line)),
            (file, line, _) => (file, line),
        };
        AnalyzedFailure { file, line, ..self }
    }

    /// Frames of the project in the stack, innermost first. Those of the JVM name no path and are left out.
    pub(super) fn frames(&self) -> Vec<ProjectFrame<'a>> {
        let mut frames = project_frames(self.stack);
        frames.retain(|frame| !Self::is_bare_file(frame.file));
        frames
    }

    /// Like [`AnalyzedFailure::frames`], with those of the JVM that are in classes of the project.
    pub(super) fn frames_with_functions(&self) -> Vec<ProjectFrame<'a>> {
        let mut frames = project_frames(self.stack);
        let is_library = |function: &str| LIBRARIES.iter().any(|package| function.starts_with(package));
        frames.retain(|frame| !Self::is_bare_file(frame.file) || !frame.function.is_none_or(is_library));
        frames
    }

    /// Whether `file` is the name of a source of the JVM without its directory.
    pub(super) fn is_bare_file(file: &str) -> bool {
        JVM.iter().any(|extension| file.ends_with(extension)) && !file.contains('/')
    }

    /// Whether the innermost frames show code with these words.
    pub(super) fn innermost_shows(&self, words: &str) -> bool {
        self.stack.lines().take(4).any(|line| line.contains(words))
    }

    /// The failure's name and location, as evidence for a statement about it.
    pub(super) fn location(&self) -> FailureLocation {
        FailureLocation { test: self.name.to_owned(), file: self.file.map(str::to_owned), line: self.line }
    }
}
