//! Finds why a test failed in the test's output: the decisive line, its position, the values.
//!
//! Since Go 1.27 the stream marks error lines. Before, `t.Log` and `t.Error` look the same, so the line is chosen: the
//! first that is certainly an assertion (compared values, or a library's block); else the last with a word of failure,
//! because logs come before the `t.Fatal` that ends a test and clean-up logs come after it; else the last.

use super::assertion::{self, Assertion};
use super::event::OutputKind;
use super::output_buffer::OutputLine;
use super::runtime_trace::{self, RuntimeTrace};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use regex::Regex;
use std::sync::LazyLock;

/// `    file_test.go:12: text`, also behind other output that ended without a newline.
static LOG_ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?: {4}(?P<path>[^\s:][^:]*\.\w+)|.*?\S {4}(?P<abs>/[^:]+\.\w+)):(?P<line>\d+): ?(?P<text>.*)$").ok()
});

/// Words that occur in messages about failures.
static FAILURE_WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:error|unexpected|expected|fail\w*|invalid|wrong|mismatch|want(?:ed)?|got|missing|should|must|not equal|differ\w*|cannot|could not|incorrect|bad|panic\w*|timed? ?out)\b",
    )
    .ok()
});

/// Note that the coverage runtime adds to stderr when a process ends by `os.Exit` in a package that only has test files. It
/// may follow the test's own last output on the same line, and is not part of it.
const COVER_NOTE: &str = "program not built with -cover";

/// Facts about a failed test beside its output.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestFacts<'a> {
    pub(super) name: &'a str,
    /// Whether the runner reported its end. The crash of a process is then printed after the `--- FAIL` line.
    pub(super) ended: bool,
    /// Whether one of its subtests failed, which is reason enough for it to fail.
    pub(super) has_failed_subtest: bool,
}

/// Why a test failed. All paths in it are relative to the workspace.
#[derive(Debug, Default)]
pub(super) struct FailureDetails {
    message: Option<String>,
    position: Option<(String, u32)>,
    expected: Option<String>,
    actual: Option<String>,
    stack: Option<String>,
    output: Option<String>,
    /// Whether the test crashed its process.
    pub(super) is_crash: bool,
}

impl FailureDetails {
    /// The first line of its message.
    pub(super) fn headline(&self) -> &str {
        self.message.as_deref().and_then(|message| message.lines().next()).unwrap_or_default()
    }

    /// The last line that the test printed.
    pub(super) fn last_line(&self) -> Option<&str> {
        self.output.as_deref().and_then(|output| output.lines().rfind(|line| !line.trim().is_empty())).map(str::trim)
    }

    /// Fills a test's record; output that is there already stays in front.
    pub(super) fn fill(self, case: &mut TestCase) {
        case.message = self.message;
        (case.file, case.line) = self.position.unzip();
        (case.expected, case.actual, case.stack) = (self.expected, self.actual, self.stack);
        case.output = match (case.output.take(), self.output) {
            (Some(before), Some(output)) => Some(format!("{before}\n{output}")),
            (before, output) => before.or(output),
        };
    }
}

/// A message with a position, and the lines that continue it.
#[derive(Debug)]
struct LogEntry {
    path: String,
    line: u32,
    text: Vec<String>,
    is_error: bool,
}

/// Finds why a test failed or did not end.
pub(super) fn from_test(facts: TestFacts<'_>, lines: &[OutputLine], paths: &WorkspacePaths) -> FailureDetails {
    let own = without_cover_note(lines.iter().filter(|line| !is_frame(line, facts.name)).cloned().collect());
    let output = joined(&own, paths);
    let verdict = format!("--- FAIL: {} (", facts.name);
    let crash_may_begin = if facts.ended {
        lines.iter().rposition(|line| line.text.starts_with(&verdict)).map_or(lines.len(), |at| at + 1)
    } else {
        0
    };
    if let Some(crash) = runtime_trace::find_crash(&lines[crash_may_begin..], paths) {
        return FailureDetails { output, is_crash: true, ..from_trace(crash, paths) };
    }
    let race = runtime_trace::find_race(&own, paths);
    let is_typed = lines.iter().any(|line| line.kind == OutputKind::Frame);
    let mut found = entries(&own);
    found.retain(|entry| !entry.text[0].starts_with("race detected during execution"));
    let chosen = if is_typed {
        found.into_iter().find(|entry| entry.is_error)
    } else {
        choose(found, facts.has_failed_subtest || race.is_some())
    };
    if let Some(entry) = chosen {
        return FailureDetails { output, ..from_entry(&entry, paths) };
    }
    if let Some(race) = race {
        return FailureDetails { output, ..from_trace(race, paths) };
    }
    FailureDetails { output, ..from_example(facts.name, &own) }
}

/// Finds why a test was skipped: its last log line.
pub(super) fn from_skip(name: &str, lines: &[OutputLine], paths: &WorkspacePaths) -> FailureDetails {
    let own: Vec<OutputLine> = lines.iter().filter(|line| !is_frame(line, name)).cloned().collect();
    let output = joined(&own, paths);
    let Some(entry) = entries(&own).pop() else { return FailureDetails { output, ..FailureDetails::default() } };
    let message = Some(paths.scrub(entry.text.join("\n").trim())).filter(|message| !message.is_empty());
    FailureDetails { message, position: position(&entry, paths), output, ..FailureDetails::default() }
}

/// The collector of a package that failed without a failed test.
pub(super) fn from_package(
    package: &str,
    tests_began: u64,
    lines: &[OutputLine],
    paths: &WorkspacePaths,
) -> RunnerEvent {
    let is_verdict = |text: &str| {
        matches!(text, "FAIL" | "PASS" | "")
            || ["FAIL\t", "ok  \t", "coverage: "].iter().any(|word| text.starts_with(word))
    };
    let own = without_cover_note(lines.iter().filter(|line| !is_verdict(&line.text)).cloned().collect());
    let output = joined(&own, paths).unwrap_or_default();
    let trace = runtime_trace::find_crash(&own, paths).or_else(|| runtime_trace::find_race(&own, paths));
    let words = match (&trace, own.last()) {
        (Some(trace), _) => trace.message.clone(),
        (None, Some(last)) => last.text.trim().to_owned(),
        (None, None) => "the test process failed without saying why".to_owned(),
    };
    let when = if tests_began == 0 { "no test ran" } else { "failed outside of its tests" };
    let (file, line) = trace.and_then(|trace| trace.position).unzip();
    let message = format!("{when}: {}", paths.scrub(&words));
    let kind = CollectorKind::Collection;
    RunnerEvent::Collector(Box::new(
        Collector { nodeid: package.to_owned(), kind, file, line, message, output }.bounded(),
    ))
}

/// Whether the line is the runner's own frame line about this test. Since Go 1.27 frame lines are marked; before, a test that
/// prints the same text only loses that line from its output.
fn is_frame(line: &OutputLine, name: &str) -> bool {
    if line.kind == OutputKind::Frame {
        return true;
    }
    let text = line.text.as_str();
    let is_start = ["=== RUN   ", "=== PAUSE ", "=== CONT  ", "=== NAME  "]
        .iter()
        .any(|word| text.strip_prefix(word).is_some_and(|rest| rest == name));
    let is_end = ["--- FAIL: ", "--- PASS: ", "--- SKIP: "].iter().any(|word| {
        text.strip_prefix(word).and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with(" ("))
    });
    is_start || is_end
}

/// The lines without the coverage runtime's note, which is the last output of a process.
fn without_cover_note(mut lines: Vec<OutputLine>) -> Vec<OutputLine> {
    if let Some(last) = lines.last_mut()
        && let Some(before) = last.text.strip_suffix(COVER_NOTE)
    {
        let before = before.to_owned();
        if before.is_empty() {
            lines.pop();
        } else {
            last.text = before;
        }
    }
    lines
}

fn joined(lines: &[OutputLine], paths: &WorkspacePaths) -> Option<String> {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let text = paths.scrub(texts.join("\n").trim_end());
    (!text.is_empty()).then_some(text)
}

fn entries(lines: &[OutputLine]) -> Vec<LogEntry> {
    let mut entries: Vec<LogEntry> = Vec::new();
    let mut open = false;
    for line in lines {
        if open && let Some(text) = line.text.strip_prefix("        ") {
            if let Some(entry) = entries.last_mut() {
                entry.text.push(text.to_owned());
            }
            continue;
        }
        let found = LOG_ENTRY.as_ref().and_then(|pattern| pattern.captures(&line.text));
        open = found.is_some();
        let Some(found) = found else { continue };
        let path = found.name("path").or(found.name("abs")).map(|path| path.as_str().to_owned());
        let (Some(path), Ok(number)) = (path, found["line"].parse()) else { continue };
        let text = vec![found["text"].to_owned()];
        entries.push(LogEntry { path, line: number, text, is_error: line.kind == OutputKind::Error });
    }
    entries
}

/// Chooses the decisive entry (see the file's header). With another reason (a failed subtest, a data race) only a certain
/// assertion is chosen.
fn choose(mut entries: Vec<LogEntry>, has_other_reason: bool) -> Option<LogEntry> {
    let certain = entries.iter().position(|entry| assertion::parse(&entry.text).is_certain());
    if certain.is_some() || has_other_reason {
        return certain.map(|at| entries.swap_remove(at));
    }
    let has_failure_word = |entry: &LogEntry| {
        FAILURE_WORDS.as_ref().is_some_and(|words| entry.text.iter().any(|line| words.is_match(line)))
    };
    match entries.iter().rposition(has_failure_word) {
        Some(at) => Some(entries.swap_remove(at)),
        None => entries.pop(),
    }
}

/// The position of an entry within the workspace. A bare file name has none: with `-fullpath` the go tool prints none, so
/// another program wrote it.
fn position(entry: &LogEntry, paths: &WorkspacePaths) -> Option<(String, u32)> {
    paths.relative(&entry.path).map(|file| (file, entry.line))
}

fn from_entry(entry: &LogEntry, paths: &WorkspacePaths) -> FailureDetails {
    let Assertion { message, expected, actual, trace } = assertion::parse(&entry.text);
    let from_trace = || {
        trace.iter().find_map(|frame| {
            let (file, line) = frame.rsplit_once(':')?;
            Some((paths.relative(file)?, line.parse().ok()?))
        })
    };
    let scrub = |text: String| paths.scrub(&text);
    FailureDetails {
        position: position(entry, paths).or_else(from_trace),
        message: Some(scrub(message)).filter(|message| !message.is_empty()),
        expected: expected.map(scrub),
        actual: actual.map(scrub),
        stack: (!trace.is_empty()).then(|| paths.scrub(&trace.join("\n"))),
        ..FailureDetails::default()
    }
}

fn from_trace(trace: RuntimeTrace, paths: &WorkspacePaths) -> FailureDetails {
    FailureDetails {
        message: Some(paths.scrub(&trace.message)),
        position: trace.position,
        stack: Some(paths.scrub(&trace.stack)),
        ..FailureDetails::default()
    }
}

/// The failure of an example whose output differs: lines `got:` and `want:`.
fn from_example(name: &str, lines: &[OutputLine]) -> FailureDetails {
    if !name.starts_with("Example") {
        return FailureDetails::default();
    }
    let at = |label: &str| lines.iter().position(|line| line.text == label);
    let (Some(got), Some(want)) = (at("got:"), at("want:")) else { return FailureDetails::default() };
    let text = |lines: &[OutputLine]| lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    if got > want {
        return FailureDetails::default();
    }
    FailureDetails {
        message: Some("the example's output differs".to_owned()),
        expected: Some(text(&lines[want + 1..])),
        actual: Some(text(&lines[got + 1..want])),
        ..FailureDetails::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<OutputLine> {
        texts.iter().map(|text| OutputLine { kind: OutputKind::Plain, text: (*text).to_owned() }).collect()
    }

    #[test]
    fn removes_the_coverage_note_at_the_end_only() {
        for (printed, kept) in [
            (&["bye", COVER_NOTE][..], &["bye"][..]),
            (&["no newlineprogram not built with -cover"], &["no newline"]),
            (&[COVER_NOTE, "later"], &[COVER_NOTE, "later"]),
            (&[], &[]),
        ] {
            assert_eq!(without_cover_note(lines(printed)), lines(kept));
        }
    }
}
