//! What the pages for people have beside the report: the history of the workspace, the lines of source around failures, and what
//! the coverage index tells.
//! The only part of reports that reads anything.

use super::budget::cut;
use crate::clock::Clock;
use crate::history::query::{HistoryAnswer, HistoryQuery, look_up};
use crate::history::{HistoryLocation, WorkspaceKey};
use crate::runs::{add_suspects, analyze_run};
use crate::workspace::Workspace;
use proctor_core::analysis::Suspects;
use proctor_core::bounds::ANALYSIS_PATTERNS_MAX;
use proctor_core::coverage::CoverageIndex;
use proctor_core::report::Report;
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use proctor_proto::report_format::ReportFormat;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;

/// Earlier runs looked up: as many as a strip of bars shows.
const RUNS_MAX: usize = 60;

/// Files read for their lines around failures.
const FILES_MAX: usize = 200;

/// Failures with lines of source.
const EXCERPTS_MAX: usize = 500;

/// Bytes of a source file. Larger ones are generated.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;

/// Lines before and after the line of a failure.
const LINES_AROUND: usize = 4;

/// Words in the path of a file that is no code under test.
const TEST_WORDS: [&str; 12] = [
    "test", "tests", "testing", "spec", "specs", "conftest", "fixture", "fixtures", "config", "setup", "mock", "mocks",
];

/// Files and groups of tests listed.
const LISTED_MAX: usize = 20;

/// Files without coverage that are read to see whether they have any content.
const UNCOVERED_READ_MAX: usize = 2_000;

/// Bytes of a line.
const LINE_BYTES_MAX: usize = 240;

/// What is known of a run beside its report.
#[derive(Debug, Clone, Default)]
pub struct ReportContext {
    /// The history of the workspace; `None` if there is none or it cannot be read.
    pub history: Option<HistoryAnswer>,
    /// Lines around failures, by file and line.
    pub excerpts: BTreeMap<(String, u32), SourceExcerpt>,
    /// What the coverage index tells; `None` if no run has measured coverage.
    pub coverage: Option<CoverageFindings>,
    /// Lines that may have the bug; `None` if the lines of single tests are not known.
    pub suspects: Option<Suspects>,
}

/// What the coverage index tells about files and tests. Lists are bounded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoverageFindings {
    /// Source files of which no measured test executed a line: of the kinds of files that the index has, without tests.
    pub uncovered: Vec<String>,
    /// Number of such files among those that were looked at.
    pub uncovered_found: u64,
    /// Whether there are files that were not looked at, so that more may be uncovered.
    pub uncovered_more: bool,
    /// Tests that executed exactly the same lines, by group, and the number of all groups; `None` if no test was measured
    /// alone.
    pub same_lines: Option<(Vec<Vec<TestId>>, u64)>,
}

impl CoverageFindings {
    /// Compares the index, which has measurements, with the files of the workspace. `None` if the workspace cannot be read.
    /// Scans all files, so not for a tokio thread.
    #[must_use]
    pub fn look_up(index: &CoverageIndex, workspace: &Workspace) -> Option<CoverageFindings> {
        let scan = workspace.scan().inspect_err(|error| tracing::warn!(%error, "a plan has no coverage")).ok()?;
        let covered: BTreeSet<&str> = index.file_names().collect();
        let extensions: BTreeSet<&str> = covered.iter().filter_map(|file| extension(file)).collect();
        let is_source = |file: &&str| {
            extension(file).is_some_and(|extension| extensions.contains(extension))
                && !is_test(file)
                && !covered.contains(file)
        };
        let has_code = |file: &str| {
            let content = workspace.read_source(file, FILE_BYTES_MAX);
            content.is_some_and(|content| content.iter().any(|byte| !byte.is_ascii_whitespace()))
        };
        let (mut uncovered, mut found) = (Vec::new(), 0);
        let mut sources = scan.tree.files().filter(is_source);
        for file in sources.by_ref().take(UNCOVERED_READ_MAX).filter(|file| has_code(file)) {
            found += 1;
            if uncovered.len() < LISTED_MAX {
                uncovered.push(file.to_owned());
            }
        }
        let uncovered_more = sources.next().is_some();
        let same_lines = index.same_lines().map(|mut groups| {
            let total = groups.len() as u64;
            groups.truncate(LISTED_MAX);
            (groups, total)
        });
        Some(CoverageFindings { uncovered, uncovered_found: found, uncovered_more, same_lines })
    }
}

fn extension(file: &str) -> Option<&str> {
    Path::new(file).extension().and_then(OsStr::to_str)
}

// Files that runners take for tests, or that only tests use, by the names that are usual in any language.
fn is_test(file: &str) -> bool {
    file.to_ascii_lowercase().split(['/', '.', '_', '-']).any(|word| TEST_WORDS.contains(&word))
}

/// Lines of a file around the line of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceExcerpt {
    /// Number of the first line, from 1.
    pub first: u32,
    /// The lines, clipped.
    pub lines: Vec<String>,
    /// Whether the file was changed after the run began: the lines may be others.
    pub is_edited: bool,
}

impl ReportContext {
    /// Whether a document of `format` shows the history of the workspace.
    #[must_use]
    pub fn has_history(format: ReportFormat) -> bool {
        matches!(format, ReportFormat::Html | ReportFormat::Optimization)
    }

    /// Whether a document of `format` shows what the coverage index tells.
    #[must_use]
    pub fn has_coverage(format: ReportFormat) -> bool {
        matches!(format, ReportFormat::Html | ReportFormat::Optimization)
    }

    /// Looks up what `format` shows of a run of `workspace`. Reads the database and some hundred files, so not for a tokio
    /// thread.
    #[must_use]
    pub fn look_up(
        format: ReportFormat,
        report: &Report,
        workspace: &Workspace,
        history: Option<&HistoryLocation>,
        clock: &Clock,
        index: Option<&CoverageIndex>,
    ) -> ReportContext {
        // A check by linters says nothing of tests, and they nothing of it.
        let is_test_run = report.check.is_none();
        let history = history.filter(|_| is_test_run && ReportContext::has_history(format));
        let history = history.and_then(|location| past(location, workspace));
        let index = index.filter(|index| is_test_run && ReportContext::has_coverage(format) && index.has_measured());
        let mut context = ReportContext { history, ..ReportContext::default() };
        match format {
            ReportFormat::Html => {
                context.excerpts = excerpts(report, workspace, clock.for_file_times(report.started_at));
                context.suspects = index.and_then(|index| suspects(report, index, workspace, clock));
            }
            ReportFormat::Optimization => {
                context.coverage = index.and_then(|index| CoverageFindings::look_up(index, workspace));
            }
            _ => {}
        }
        context
    }
}

// A page without its history is better than none.
fn past(location: &HistoryLocation, workspace: &Workspace) -> Option<HistoryAnswer> {
    location.wait_until_written();
    let query =
        HistoryQuery { limit: RUNS_MAX, flaky: true, slow: true, never_failing: true, ..HistoryQuery::default() };
    look_up(location, WorkspaceKey::for_workspace(workspace), &query)
        .inspect_err(|error| tracing::warn!(%error, "a report has no history"))
        .ok()
}

fn suspects(report: &Report, index: &CoverageIndex, workspace: &Workspace, clock: &Clock) -> Option<Suspects> {
    if !report.tests.iter().any(|test| test.outcome.is_failure()) {
        return None;
    }
    let mut analysis = analyze_run(report, workspace, clock, ANALYSIS_PATTERNS_MAX);
    add_suspects(&mut analysis, report, index, workspace, clock);
    analysis.suspects
}

fn excerpts(report: &Report, workspace: &Workspace, began_at: Timestamp) -> BTreeMap<(String, u32), SourceExcerpt> {
    let tests = report.tests.iter().filter(|test| test.outcome.is_failure());
    let places = tests.map(|test| (test.file.as_deref(), test.line));
    let collectors = report.collectors.iter().map(|collector| (collector.file.as_deref(), collector.line));
    let findings = report.check.iter().flat_map(|check| &check.findings);
    let findings = findings.map(|finding| (Some(finding.file.as_str()), Some(finding.range.line)));
    // By file, so that one file at a time is in memory.
    let mut lines_of: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for (file, line) in collectors.chain(places).chain(findings).take(EXCERPTS_MAX) {
        let (Some(file), Some(line)) = (file, line) else { continue };
        if lines_of.len() < FILES_MAX || lines_of.contains_key(file) {
            lines_of.entry(file).or_default().insert(line);
        }
    }
    let mut found = BTreeMap::new();
    for (file, lines) in lines_of {
        let Some(content) = workspace.read_source(file, FILE_BYTES_MAX) else { continue };
        let is_edited = workspace.changed_since(file, began_at);
        let excerpts = lines.into_iter().filter_map(|line| Some((line, excerpt(&content, line, is_edited)?)));
        found.extend(excerpts.map(|(line, excerpt)| ((file.to_owned(), line), excerpt)));
    }
    found
}

fn excerpt(content: &[u8], line: u32, is_edited: bool) -> Option<SourceExcerpt> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let first = index.saturating_sub(LINES_AROUND);
    let clip = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        cut(text.trim_end_matches('\r'), LINE_BYTES_MAX).to_owned()
    };
    let lines: Vec<String> =
        content.split(|byte| *byte == b'\n').skip(first).take(index - first + 1 + LINES_AROUND).map(clip).collect();
    // A line behind the end is no line of this file.
    (lines.len() > index - first).then_some(SourceExcerpt { first: u32::try_from(first).ok()? + 1, lines, is_edited })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_gets_the_lines_of_its_own_file() {
        use crate::runs::without_running;
        use proctor_core::limits::Limits;
        use proctor_core::outcome::KillReason;
        use proctor_core::test_case::{TestCase, TestOutcome};
        let dir = tempfile::tempdir().unwrap();
        for file in ["a.py", "b.py"] {
            std::fs::write(dir.path().join(file), format!("# {file}\n").repeat(9)).unwrap();
        }
        let failing = |(file, line): (&str, u32)| {
            let id = TestId { package: file.to_owned(), name: line.to_string() };
            let case = TestCase::new(id, format!("{file}::{line}"), TestOutcome::Failed);
            TestCase { file: Some(file.to_owned()), line: Some(line), ..case }
        };
        let places = [("b.py", 2), ("a.py", 1), ("b.py", 9), ("b.py", 2), ("b.py", 11), ("c.py", 1)];
        let report = without_running(Timestamp(0), Limits::DEFAULT, "pytest", KillReason::Cancelled, "note");
        let report = Report { tests: places.map(failing).into(), ..report };
        let found = excerpts(&report, &Workspace::open(dir.path()).unwrap(), Timestamp(0));
        let keys: Vec<(&str, u32)> = found.keys().map(|(file, line)| (file.as_str(), *line)).collect();
        assert_eq!(keys, [("a.py", 1), ("b.py", 2), ("b.py", 9)]);
        assert!(found.iter().all(|((file, _), excerpt)| excerpt.lines[0] == format!("# {file}")), "{found:?}");
    }

    #[test]
    fn an_excerpt_has_the_lines_around_a_line_that_exists() {
        let content: Vec<u8> = (1..=20).flat_map(|line| format!("line {line}\r\n").into_bytes()).collect();
        let found = excerpt(&content, 7, false).unwrap();
        assert_eq!((found.first, found.lines.len(), found.lines[4].as_str()), (3, 9, "line 7"));
        assert_eq!(excerpt(&content, 1, true).unwrap().first, 1);
        assert_eq!(excerpt(&content, 0, false), None);
        assert_eq!(excerpt(&content, 900, false), None);
        assert_eq!(excerpt("é".repeat(400).as_bytes(), 1, false).unwrap().lines[0].len(), LINE_BYTES_MAX);
    }
}
