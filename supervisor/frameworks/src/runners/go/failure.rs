//! Why a test failed, out of what it printed: the line that says so, its position, the values. Must not know the event
//! stream.
//!
//! Since Go 1.27 the stream marks error lines. Before, `t.Log` and `t.Error` look the same, so the line is chosen: the
//! first that can only be an assertion (values compared, or a library's block); else the last that uses a word of failure,
//! because logs come before the `t.Fatal` that ends a test and clean-up logs come after it; else the last.

use super::assertion::{self, Assertion};
use super::buffer::OutputLine;
use super::event::OutputKind;
use super::trace::{self, Trace};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind, TestCase};
use regex::Regex;
use std::sync::LazyLock;

/// `    file_test.go:12: text`, also behind something that was printed without a newline.
static ENTRY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?: {4}(?P<path>[^\s:][^:]*\.\w+)|.*?\S {4}(?P<abs>/[^:]+\.\w+)):(?P<line>\d+): ?(?P<text>.*)$").ok()
});

/// Words that people use when something is wrong.
static COMPLAINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?i)\b(?:error|unexpected|expected|fail\w*|invalid|wrong|mismatch|want(?:ed)?|got|missing|should|must|not equal|differ\w*|cannot|could not|incorrect|bad|panic\w*|timed? ?out)\b",
    )
    .ok()
});

/// What the coverage runtime adds to stderr when a process ends by `os.Exit` in a package whose only files are tests. It is
/// no last word of the test, although it may stand behind one on the same line.
const COVER_NOTE: &str = "program not built with -cover";

/// What is known of the test beside its output.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) name: &'a str,
    /// Whether the runner told its end. A crash of the process is then printed after its `--- FAIL` line.
    pub(super) ended: bool,
    /// Whether one of its subtests failed, which is reason enough for it to fail.
    pub(super) has_failed_subtest: bool,
}

/// Why a test failed. All paths in it are relative to the workspace.
#[derive(Debug, Default)]
pub(super) struct Failure {
    message: Option<String>,
    position: Option<(String, u32)>,
    expected: Option<String>,
    actual: Option<String>,
    stack: Option<String>,
    output: Option<String>,
    /// Whether the test took its process down.
    pub(super) is_crash: bool,
}

impl Failure {
    /// The first line of its message.
    pub(super) fn headline(&self) -> &str {
        self.message.as_deref().and_then(|message| message.lines().next()).unwrap_or_default()
    }

    /// The last line that the test printed.
    pub(super) fn last_line(&self) -> Option<&str> {
        self.output.as_deref().and_then(|output| output.lines().rfind(|line| !line.trim().is_empty())).map(str::trim)
    }

    /// Fills a test's record; output that is there already stays in front.
    pub(super) fn put_into(self, case: &mut TestCase) {
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
struct Entry {
    path: String,
    line: u32,
    text: Vec<String>,
    is_error: bool,
}

/// Why a test failed, or did not end.
pub(super) fn of_test(about: Circumstances<'_>, lines: &[OutputLine], paths: &WorkspacePaths) -> Failure {
    let own = without_cover_note(lines.iter().filter(|line| !is_frame(line, about.name)).cloned().collect());
    let output = joined(&own, paths);
    let verdict = format!("--- FAIL: {} (", about.name);
    let crash_may_begin = if about.ended {
        lines.iter().rposition(|line| line.text.starts_with(&verdict)).map_or(lines.len(), |at| at + 1)
    } else {
        0
    };
    if let Some(crash) = trace::crash(&lines[crash_may_begin..], paths) {
        return Failure { output, is_crash: true, ..of_trace(crash, paths) };
    }
    let race = trace::race(&own, paths);
    let is_typed = lines.iter().any(|line| line.kind == OutputKind::Frame);
    let mut found = entries(&own);
    found.retain(|entry| !entry.text[0].starts_with("race detected during execution"));
    let chosen = if is_typed {
        found.into_iter().find(|entry| entry.is_error)
    } else {
        choose(found, about.has_failed_subtest || race.is_some())
    };
    if let Some(entry) = chosen {
        return Failure { output, ..of_entry(&entry, paths) };
    }
    if let Some(race) = race {
        return Failure { output, ..of_trace(race, paths) };
    }
    Failure { output, ..of_example(about.name, &own) }
}

/// Why a test was skipped: its last words.
pub(super) fn of_skip(name: &str, lines: &[OutputLine], paths: &WorkspacePaths) -> Failure {
    let own: Vec<OutputLine> = lines.iter().filter(|line| !is_frame(line, name)).cloned().collect();
    let output = joined(&own, paths);
    let Some(entry) = entries(&own).pop() else { return Failure { output, ..Failure::default() } };
    let message = Some(paths.scrub(entry.text.join("\n").trim())).filter(|message| !message.is_empty());
    Failure { message, position: position(&entry, paths), output, ..Failure::default() }
}

/// A package that failed without a test to blame.
pub(super) fn of_package(package: &str, tests_began: u64, lines: &[OutputLine], paths: &WorkspacePaths) -> RunnerEvent {
    let is_verdict = |text: &str| {
        matches!(text, "FAIL" | "PASS" | "")
            || ["FAIL\t", "ok  \t", "coverage: "].iter().any(|word| text.starts_with(word))
    };
    let own = without_cover_note(lines.iter().filter(|line| !is_verdict(&line.text)).cloned().collect());
    let output = joined(&own, paths).unwrap_or_default();
    let trace = trace::crash(&own, paths).or_else(|| trace::race(&own, paths));
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

/// Whether the line is the runner's own about this test. Since Go 1.27 it says so; before, a test can print the same words,
/// and all it gets is that its line is not repeated.
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

/// The lines without the coverage runtime's note, which is the last thing that a process says.
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

fn entries(lines: &[OutputLine]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut open = false;
    for line in lines {
        if open && let Some(text) = line.text.strip_prefix("        ") {
            if let Some(entry) = entries.last_mut() {
                entry.text.push(text.to_owned());
            }
            continue;
        }
        let found = ENTRY.as_ref().and_then(|pattern| pattern.captures(&line.text));
        open = found.is_some();
        let Some(found) = found else { continue };
        let path = found.name("path").or(found.name("abs")).map(|path| path.as_str().to_owned());
        let (Some(path), Ok(number)) = (path, found["line"].parse()) else { continue };
        let text = vec![found["text"].to_owned()];
        entries.push(Entry { path, line: number, text, is_error: line.kind == OutputKind::Error });
    }
    entries
}

/// See the top of this file. A test with a failed subtest or a data race has its reason, so there only certainty counts.
fn choose(mut entries: Vec<Entry>, has_other_reason: bool) -> Option<Entry> {
    let certain = entries.iter().position(|entry| assertion::read(&entry.text).is_certain());
    if certain.is_some() || has_other_reason {
        return certain.map(|at| entries.swap_remove(at));
    }
    let complains =
        |entry: &Entry| COMPLAINT.as_ref().is_some_and(|words| entry.text.iter().any(|line| words.is_match(line)));
    match entries.iter().rposition(complains) {
        Some(at) => Some(entries.swap_remove(at)),
        None => entries.pop(),
    }
}

/// The position of an entry, if it is in the workspace. A bare file name cannot be placed: with `-fullpath` the go tool
/// prints none, so some other program wrote it.
fn position(entry: &Entry, paths: &WorkspacePaths) -> Option<(String, u32)> {
    paths.relative(&entry.path).map(|file| (file, entry.line))
}

fn of_entry(entry: &Entry, paths: &WorkspacePaths) -> Failure {
    let Assertion { message, expected, actual, trace } = assertion::read(&entry.text);
    let from_trace = || {
        trace.iter().find_map(|frame| {
            let (file, line) = frame.rsplit_once(':')?;
            Some((paths.relative(file)?, line.parse().ok()?))
        })
    };
    let scrub = |text: String| paths.scrub(&text);
    Failure {
        position: position(entry, paths).or_else(from_trace),
        message: Some(scrub(message)).filter(|message| !message.is_empty()),
        expected: expected.map(scrub),
        actual: actual.map(scrub),
        stack: (!trace.is_empty()).then(|| paths.scrub(&trace.join("\n"))),
        ..Failure::default()
    }
}

fn of_trace(trace: Trace, paths: &WorkspacePaths) -> Failure {
    Failure {
        message: Some(paths.scrub(&trace.message)),
        position: trace.position,
        stack: Some(paths.scrub(&trace.stack)),
        ..Failure::default()
    }
}

/// An example whose output differs: `got:` and `want:` at the beginning of lines.
fn of_example(name: &str, lines: &[OutputLine]) -> Failure {
    if !name.starts_with("Example") {
        return Failure::default();
    }
    let at = |label: &str| lines.iter().position(|line| line.text == label);
    let (Some(got), Some(want)) = (at("got:"), at("want:")) else { return Failure::default() };
    let text = |lines: &[OutputLine]| lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
    if got > want {
        return Failure::default();
    }
    Failure {
        message: Some("the example's output differs".to_owned()),
        expected: Some(text(&lines[want + 1..])),
        actual: Some(text(&lines[got + 1..want])),
        ..Failure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<OutputLine> {
        texts.iter().map(|text| OutputLine { kind: OutputKind::Plain, text: (*text).to_owned() }).collect()
    }

    #[test]
    fn the_coverage_runtime_has_not_the_last_word() {
        for (said, kept) in [
            (&["bye", COVER_NOTE][..], &["bye"][..]),
            (&["no newlineprogram not built with -cover"], &["no newline"]),
            (&[COVER_NOTE, "later"], &[COVER_NOTE, "later"]),
            (&[], &[]),
        ] {
            assert_eq!(without_cover_note(lines(said)), lines(kept));
        }
    }
}
