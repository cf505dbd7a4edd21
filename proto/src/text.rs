//! The text forms of the answers. Agents parse them, so they are part of the contract like the messages.

use crate::difference;
use crate::printable::{block, cut, line};
use crate::v1::{
    AffectedTestsResponse, Attribution, Failure, HungTest, LastTestFailuresResponse, LineRange, ListTestsResponse,
    Outcome, Report, SinceLastGreen, SinceLastRun, TestId, TestsCoveringResponse,
};
use std::fmt::Write as _;

/// Most bytes of each stream in the text of a run: 500 KiB. The head is kept.
pub const STREAM_BYTES_MAX: usize = 512_000;

/// Most tests named on one line; a report names at most as many running ones.
const NAMED_MAX: usize = 64;

/// Most columns of a message line for a person; the report has the rest.
const MESSAGE_COLUMNS: usize = 400;

/// Answer to an agent that asks about the last run before there is one.
pub const NO_RUN_YET: &str = "no run_tests call yet in this session";

/// Answer of `tests_covering` to an agent before any coverage was measured.
pub const NO_COVERAGE_YET: &str = "no coverage data yet — run `run_tests` first";

/// Appended to a passed run if an earlier run was cut off.
const UNREACHED: &str = "\nan earlier run ended before all of its tests had run: only a run of all tests covers them";

/// The audience of a text: an agent starts runs with tools, a person with the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Calls tools, and parses these texts.
    Agent,
    /// Uses the command line.
    Person,
}

impl Reader {
    fn no_run_yet(self) -> &'static str {
        match self {
            Reader::Agent => NO_RUN_YET,
            Reader::Person => "no run here yet: `proctor run` first",
        }
    }

    fn no_coverage_yet(self) -> &'static str {
        match self {
            Reader::Agent => NO_COVERAGE_YET,
            Reader::Person => {
                "no coverage data yet: `proctor run` first, of a framework whose coverage is measured (cargo, go, jest, mocha, nextest, node, pytest, unittest, vitest)"
            }
        }
    }

    fn last_run(self) -> &'static str {
        match self {
            Reader::Agent => "last run_tests",
            Reader::Person => "last run",
        }
    }

    fn last_call(self) -> &'static str {
        match self {
            Reader::Agent => "last run_tests call",
            Reader::Person => "last run",
        }
    }

    fn larger_limit(self) -> &'static str {
        match self {
            Reader::Agent => "pass a larger limit",
            Reader::Person => "pass a larger --limit",
        }
    }
}

/// An age: `3s ago`, `1m42s ago`, `2h15m ago`, and `just now` under a second.
#[must_use]
pub fn ago(age_ms: u64) -> String {
    let seconds = age_ms / 1_000;
    match seconds {
        0 => "just now".to_owned(),
        1..=59 => format!("{seconds}s ago"),
        60..=3_599 => format!("{}m{}s ago", seconds / 60, seconds % 60),
        _ => format!("{}h{}m ago", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// The lower-case name of an outcome: `timed_out`.
#[must_use]
pub fn outcome_name(outcome: Outcome) -> String {
    outcome.as_str_name().trim_start_matches("OUTCOME_").to_ascii_lowercase()
}

/// The head of a stream and the size of the whole stream.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The first bytes; at most [`STREAM_BYTES_MAX`] of them are shown.
    pub bytes: &'a [u8],
    /// Bytes of the whole stream.
    pub total: u64,
    /// How to read the rest; shown if something is left out.
    pub read_on_hint: &'a str,
}

impl Head<'_> {
    fn write(&self, text: &mut String) {
        let shown = &self.bytes[..self.bytes.len().min(STREAM_BYTES_MAX)];
        if shown.is_empty() {
            return;
        }
        let lossy = String::from_utf8_lossy(shown);
        let _ = write!(text, "{}", anstream::adapter::strip_str(&lossy));
        end_line(text);
        let left_out = self.total.saturating_sub(shown.len() as u64);
        if left_out > 0 {
            let _ = writeln!(text, "[TRUNCATED] {left_out} bytes left out; {}", self.read_on_hint);
        }
    }
}

/// The text of a run: stdout, stderr if there is any, why it stopped, and `exit: N`.
#[must_use]
pub fn run(stdout: Head<'_>, stderr: Head<'_>, report: &Report) -> String {
    let mut text = String::new();
    stdout.write(&mut text);
    let mut errors = String::new();
    stderr.write(&mut errors);
    // Some runners write nothing to stderr but a colour reset.
    if !errors.is_empty() {
        text.push_str("--- stderr ---\n");
        text.push_str(&errors);
    }
    text.push_str(&run_trailer(report));
    text
}

/// The last lines of a run's text, the same however much of the output is shown.
#[must_use]
pub fn run_trailer(report: &Report) -> String {
    let why = match report.outcome() {
        Outcome::TimedOut => {
            format!("timed out after {}\n", seconds(report.limits.as_ref().map_or(0, |limits| limits.wall_ms)))
        }
        Outcome::NoTests => "no tests ran\n".to_owned(),
        _ => String::new(),
    };
    format!("{why}exit: {}\n", report.exit_code)
}

fn seconds(ms: u64) -> String {
    match ms % 1_000 {
        0 => format!("{}s", ms / 1_000),
        rest => format!("{}.{}s", ms / 1_000, format!("{rest:03}").trim_end_matches('0')),
    }
}

/// How a run differs from the runs before it: `1 new, 2 fixed, 1 still failing; all passed 3 runs ago`. `None` if nothing failed
/// then or fails now.
#[must_use]
pub fn changes(since: Option<&SinceLastRun>, green: Option<&SinceLastGreen>) -> Option<String> {
    let since = since?;
    let groups = [(&since.new, "new"), (&since.fixed, "fixed"), (&since.still_failing, "still failing")];
    let counts = groups.iter().filter_map(|(group, what)| Some((group.as_ref()?.total, what)));
    let counts: Vec<String> =
        counts.filter(|(total, _)| *total > 0).map(|(total, what)| format!("{total} {what}")).collect();
    // The last run needs no mention of its own.
    let green = green.filter(|green| green.runs > 1);
    let green = green.map_or_else(String::new, |green| format!("; all passed {} runs ago", green.runs));
    (!counts.is_empty()).then(|| counts.join(", ") + &green)
}

/// The text of `proctor failures`, and of `last_test_failures` without its notes.
#[must_use]
pub fn failures(answer: &LastTestFailuresResponse, reader: Reader) -> String {
    let more = answer.total.saturating_sub(answer.failures.len() as u64);
    failures_page(answer, reader, &FailuresPage { first: 1, named: "", more, advice: reader.larger_limit() })
}

/// The line of changes beside the failures of a run.
#[must_use]
pub fn changes_line(answer: &LastTestFailuresResponse) -> Option<String> {
    Some(changes_note(&changes(answer.since_last_run.as_ref(), answer.since_last_green.as_ref())?))
}

/// [`changes`] as a note of its own.
#[must_use]
pub fn changes_note(changes: &str) -> String {
    format!("compared with each test's last result: {changes}")
}

/// A part of the failures of a run.
#[derive(Debug, Clone, Copy)]
pub struct FailuresPage<'a> {
    /// Number of its first failure, from 1.
    pub first: u64,
    /// Further failures of this part, in a shorter form.
    pub named: &'a str,
    /// Number of failures after it.
    pub more: u64,
    /// How to see those.
    pub advice: &'a str,
}

/// The failures of a run, of which `answer` has those that `page` shows at length.
#[must_use]
pub fn failures_page(answer: &LastTestFailuresResponse, reader: Reader, page: &FailuresPage) -> String {
    if !answer.has_run {
        return reader.no_run_yet().to_owned();
    }
    let (framework, ago, last_run) = (&answer.framework, ago(answer.age_ms), reader.last_run());
    let summary = answer.summary.unwrap_or_default();
    if !answer.structured && answer.total == 0 {
        return format!("no structured failures available for {framework} ({last_run} {ago})");
    }
    if answer.total == 0 {
        return match answer.outcome() {
            Outcome::Passed => {
                let not_run = name_tests("not run", &answer.not_run, answer.not_run_left_out);
                let passed =
                    format!("{last_run} had no failures ({} tests passed, {framework}, {ago})", summary.passed);
                let unreached = if answer.unreached { UNREACHED } else { "" };
                format!("{passed}{}{unreached}", not_run.replacen(", ", "\n", 1))
            }
            outcome => {
                let mut text = format!(
                    "{last_run} did not pass: {} ({} passed, {} failed{})",
                    outcome_name(outcome),
                    summary.passed,
                    summary.failed + summary.error,
                    name_tests("running", &answer.running, 0)
                        + &name_tests("not run", &answer.not_run, answer.not_run_left_out),
                );
                if !answer.hung.is_empty() {
                    text.push_str("\n\n");
                    write_hung(&mut text, &answer.hung);
                }
                text
            }
        };
    }
    let mut text = format!("{} test failure(s) from {} ({framework}, {ago}):\n\n", answer.total, reader.last_call());
    for (number, failure) in (page.first..).zip(&answer.failures) {
        write_failure(&mut text, number, failure, reader);
    }
    text.push_str(page.named);
    if page.more > 0 {
        let _ = writeln!(text, "({} more entries truncated; {} to see them)", page.more, page.advice);
    }
    write_hung(&mut text, &answer.hung);
    let not_run = name_tests("not run", &answer.not_run, answer.not_run_left_out);
    if !not_run.is_empty() {
        let _ = writeln!(text, "{}", not_run.trim_start_matches(", "));
    }
    text
}

/// `notes` in their order without repetitions; a repeated note gets its count.
#[must_use]
pub fn merge_repeated_notes(notes: &[String]) -> Vec<String> {
    let mut counted: Vec<(&String, usize)> = Vec::new();
    for note in notes {
        match counted.iter_mut().find(|(earlier, _)| *earlier == note) {
            Some((_, count)) => *count += 1,
            None => counted.push((note, 1)),
        }
    }
    let show =
        |(note, count): (&String, usize)| if count > 1 { format!("{note} ({count} times)") } else { note.clone() };
    counted.into_iter().map(show).collect()
}

/// The package and the name of a test. A test that was requested without its package has only its name.
#[must_use]
pub fn full_name(test: &TestId) -> String {
    if test.package.is_empty() { test.name.clone() } else { format!("{}/{}", test.package, test.name) }
}

fn name_tests(what: &str, tests: &[TestId], left_out: u64) -> String {
    let names = tests.iter().take(NAMED_MAX).map(|test| line(&full_name(test)).into_owned());
    let more = tests.len().saturating_sub(NAMED_MAX) as u64 + left_out;
    let more = (more > 0).then(|| format!("{more} more"));
    match names.chain(more).collect::<Vec<_>>() {
        names if names.is_empty() => String::new(),
        names => format!(", {what}: {}", names.join(", ")),
    }
}

fn write_failure(text: &mut String, number: u64, failure: &Failure, reader: Reader) {
    let _ = writeln!(text, "{number}. {}", line(&failure.nodeid));
    write_location(text, failure.file.as_deref(), failure.line);
    match reader {
        Reader::Agent => {
            indent(text, &failure.message);
            write_values(text, failure);
        }
        Reader::Person => {
            for message_line in block(&failure.message).lines() {
                let _ = writeln!(text, "   {}", cut(message_line.trim_end(), MESSAGE_COLUMNS));
            }
            for diff_line in difference::lines(failure.actual.as_deref(), failure.expected.as_deref()) {
                let _ = writeln!(text, "   {}", diff_line.text);
            }
        }
    }
    text.push('\n');
}

/// Writes a block for each test that was running at the deadline: where it hangs, and its stack.
fn write_hung(text: &mut String, hung: &[HungTest]) {
    for hung in hung {
        let name = hung.test.as_ref().map(full_name).unwrap_or_default();
        let _ = writeln!(text, "running at the deadline: {}", line(&name));
        write_location(text, hung.file.as_deref(), hung.line);
        indent(text, &hung.stack);
        text.push('\n');
    }
}

fn write_location(text: &mut String, file: Option<&str>, number: Option<u32>) {
    let Some(file) = file.map(line) else { return };
    let _ = match number {
        Some(number) => writeln!(text, "   {file}:{number}"),
        None => writeln!(text, "   {file}"),
    };
}

fn write_values(text: &mut String, failure: &Failure) {
    if failure.actual.is_some() || failure.expected.is_some() {
        indent(text, "--- diff ---");
        for (label, value) in [("got", &failure.actual), ("want", &failure.expected)] {
            if let Some(value) = value {
                indent(text, &format!("{label}: {value}"));
            }
        }
    }
}

// Indents every line by three spaces, so that the output of a test cannot end its block.
fn indent(text: &mut String, content: &str) {
    for line in block(content).lines() {
        let _ = writeln!(text, "   {}", line.trim_end());
    }
}

/// The text of `tests_covering`, and of `proctor covering`, for `file` and what the answer says of its lines.
#[must_use]
pub fn covering(answer: &TestsCoveringResponse, file: &str, reader: Reader) -> String {
    if !answer.has_coverage {
        return reader.no_coverage_yet().to_owned();
    }
    let file = line(file);
    let location = answer.range.map_or_else(|| file.to_string(), |range| format!("{file}:{}", range_text(&range)));
    let mut text = if answer.tests.is_empty() {
        format!("no coverage found for {location}")
    } else {
        covering_tests(answer, &location)
    };
    if answer.attribution() == Attribution::Package && !answer.tests.is_empty() {
        text.push_str("attribution: per package (some test of each package listed executes it)\n");
    } else if answer.attribution() == Attribution::File && !answer.tests.is_empty() {
        text.push_str("attribution: per file (some test of each file listed executes it)\n");
    }
    if let Some(executable) =
        answer.executable_lines.filter(|_| answer.range.is_some_and(|range| range.first_line < range.last_line))
    {
        end_line(&mut text);
        let _ = writeln!(text, "{}", executable_lines(answer, executable));
    }
    if answer.line_moved {
        end_line(&mut text);
        let _ = writeln!(text, "{file} has changed since it was measured: the line was looked up where it was then");
    } else if answer.file_changed {
        end_line(&mut text);
        let _ = writeln!(text, "{file} has changed since it was measured: lines may have moved");
    }
    text
}

/// How many lines of a range can be executed, and which of them no test executed.
fn executable_lines(answer: &TestsCoveringResponse, executable: u64) -> String {
    if answer.not_executed_lines == 0 {
        return format!("{executable} of these lines can be executed, each by a test");
    }
    let ranges: Vec<String> = answer.not_executed.iter().map(range_text).collect();
    let lines = |range: &LineRange| u64::from(range.last_line.saturating_sub(range.first_line)) + 1;
    let listed: u64 = answer.not_executed.iter().map(lines).sum();
    let more = if listed < answer.not_executed_lines { ", ..." } else { "" };
    format!(
        "{executable} of these lines can be executed, {} by no test: {}{more}",
        answer.not_executed_lines,
        ranges.join(", ")
    )
}

/// Lines as text, `3-5` or `8`.
#[must_use]
pub fn range_text(range: &LineRange) -> String {
    let LineRange { first_line, last_line } = range;
    if first_line == last_line { first_line.to_string() } else { format!("{first_line}-{last_line}") }
}

fn covering_tests(answer: &TestsCoveringResponse, location: &str) -> String {
    let mut text = format!("{} test(s) cover {location}:\n", answer.total);
    write_by_package(&mut text, &answer.tests);
    let more = answer.total.saturating_sub(answer.tests.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "... ({more} more truncated)");
    }
    text
}

/// The text of `list_tests`, grouped like that of `tests_covering`.
#[must_use]
pub fn test_list(answer: &ListTestsResponse) -> String {
    test_list_advising(answer, "pass a larger limit")
}

/// The same with another `advice` on how to see what was left out.
#[must_use]
pub fn test_list_advising(answer: &ListTestsResponse, advice: &str) -> String {
    let framework = &answer.framework;
    let total = answer.tests.len() as u64 + answer.left_out;
    let mut text = if total == 0 {
        format!("no tests found ({framework})\n")
    } else {
        format!("{total} test(s) ({framework}):\n")
    };
    write_by_package(&mut text, &answer.tests);
    if answer.left_out > 0 {
        let _ = writeln!(text, "... ({} more truncated; {advice} to see them)", answer.left_out);
    }
    if answer.partial {
        let why = match answer.outcome() {
            Outcome::Passed => "there are more tests than are kept",
            outcome => &outcome_name(outcome),
        };
        let _ = writeln!(text, "\nthe listing was cut off: {why}");
    }
    for collector in &answer.collectors {
        let _ = writeln!(text, "\ncould not be listed: {}", line(&collector.nodeid));
        write_location(&mut text, collector.file.as_deref(), collector.line);
        indent(&mut text, &collector.message);
    }
    text
}

fn write_by_package(text: &mut String, tests: &[TestId]) {
    for tests in tests.chunk_by(|a, b| a.package == b.package) {
        let _ = writeln!(text, "\n{}:", line(&tests[0].package));
        for test in tests {
            let _ = writeln!(text, "  {}", line(&test.name));
        }
    }
}

/// The text of `run_failing_tests`, and of `proctor run --failed`, when there is nothing to rerun.
#[must_use]
pub fn nothing_to_rerun(framework: &str, reader: Reader) -> String {
    let last_run = reader.last_run();
    format!("{last_run} had no failures — nothing to rerun ({framework})")
}

/// The text of a run of affected tests when no test is affected.
#[must_use]
pub fn nothing_affected(since: &str, left_out: u64) -> String {
    format!("no test is affected by what changed since {}: nothing was run, {left_out} left out", line(since))
}

/// The text of `AffectedTests`.
#[must_use]
pub fn affected_tests(answer: &AffectedTestsResponse) -> String {
    let affected = answer.affected.clone().unwrap_or_default();
    let (selected, all) = (affected.selected, affected.selected + affected.left_out);
    let mut text = String::new();
    if let Some(reason) = &answer.full_run_reason {
        let _ = writeln!(text, "all tests have to run: {}", line(reason));
    } else if selected == 0 && answer.new_units.is_empty() {
        let _ = writeln!(text, "{}", nothing_affected(&affected.since, affected.left_out));
    } else {
        let _ = writeln!(
            text,
            "{selected} of {all} test(s) are affected by what changed since {}:\n",
            line(&affected.since)
        );
    }
    for (test, reason) in answer.tests.iter().zip(&answer.reasons) {
        let _ = writeln!(text, "  {}/{}: {}", line(&test.package), line(&test.name), line(reason));
    }
    let more = selected.saturating_sub(answer.tests.len() as u64);
    if more > 0 && answer.full_run_reason.is_none() {
        let _ = writeln!(text, "  ... ({more} more)");
    }
    for unit in &answer.new_units {
        let _ = writeln!(text, "  {}: new, with all of its tests", line(unit));
    }
    if affected.left_out > 0 && !affected.safe_because.is_empty() {
        let _ = writeln!(text, "\n{} left out: {}", affected.left_out, line(&affected.safe_because));
    }
    for note in &answer.notes {
        let _ = writeln!(text, "note: {}", line(note));
    }
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Collector, Limits, Summary};

    fn test(package: &str, name: &str) -> TestId {
        TestId { package: package.into(), name: name.into() }
    }

    fn head(bytes: &[u8]) -> Head<'_> {
        Head { bytes, total: bytes.len() as u64, read_on_hint: "read on" }
    }

    #[test]
    fn ages_have_the_contract_forms() {
        let cases = [(999, "just now"), (3_000, "3s ago"), (102_000, "1m42s ago"), (8_100_000, "2h15m ago")];
        for (ms, text) in cases {
            assert_eq!(ago(ms), text);
        }
    }

    #[test]
    fn a_run_ends_with_its_exit_line() {
        let mut report = Report { outcome: Outcome::TimedOut.into(), exit_code: 124, ..Report::default() };
        report.limits = Some(Limits { wall_ms: 300_000, ..Limits::default() });
        let text = run(head(b"\x1b[31mred\x1b[0m"), head(b"oops\n"), &report);
        assert_eq!(text, "red\n--- stderr ---\noops\ntimed out after 300s\nexit: 124\n");
        let passed = Report { outcome: Outcome::Passed.into(), ..Report::default() };
        assert_eq!(run(head(b""), head(b""), &passed), "exit: 0\n");
        assert_eq!(run(head(b"ok\n"), head(b"\x1b[0m"), &passed), "ok\nexit: 0\n");
        let none = Report { outcome: Outcome::NoTests.into(), exit_code: 4, ..Report::default() };
        assert_eq!(run(head(b"ok\n"), head(b""), &none), "ok\nno tests ran\nexit: 4\n");
    }

    #[test]
    fn a_long_stream_keeps_its_head_and_says_how_much_is_missing() {
        let long = vec![b'#'; STREAM_BYTES_MAX + 10];
        let text = run(head(&long), head(b""), &Report::default());
        assert!(text.ends_with("#\n[TRUNCATED] 10 bytes left out; read on\nexit: 0\n"));
        assert_eq!(text.matches('#').count(), STREAM_BYTES_MAX);
    }

    #[test]
    fn failures_are_listed_as_agents_expect() {
        let answer = LastTestFailuresResponse {
            has_run: true,
            framework: "go".into(),
            structured: true,
            age_ms: 3_200,
            total: 3,
            failures: vec![
                Failure {
                    nodeid: "example.com/pkg/foo/TestValidate/empty_input".into(),
                    file: Some("internal/foo/foo.go".into()),
                    line: Some(42),
                    message: "expected error for empty input, got nil".into(),
                    ..Failure::default()
                },
                Failure {
                    nodeid: "example.com/pkg/bar/TestBaz".into(),
                    file: Some("internal/bar/bar_test.go".into()),
                    line: Some(87),
                    message: "mismatch".into(),
                    actual: Some("5".into()),
                    expected: Some("3".into()),
                    ..Failure::default()
                },
            ],
            ..LastTestFailuresResponse::default()
        };
        assert_eq!(
            failures(&answer, Reader::Agent),
            "3 test failure(s) from last run_tests call (go, 3s ago):\n\n\
             1. example.com/pkg/foo/TestValidate/empty_input\n   internal/foo/foo.go:42\n   \
             expected error for empty input, got nil\n\n\
             2. example.com/pkg/bar/TestBaz\n   internal/bar/bar_test.go:87\n   mismatch\n   --- diff ---\n   got: 5\n   \
             want: 3\n\n(1 more entries truncated; pass a larger limit to see them)\n"
        );
    }

    #[test]
    fn a_run_without_listed_failures_says_how_it_ended() {
        let none = LastTestFailuresResponse::default();
        assert_eq!(failures(&none, Reader::Agent), NO_RUN_YET);
        assert_eq!(failures(&none, Reader::Person), "no run here yet: `proctor run` first");
        let mut answer = LastTestFailuresResponse {
            has_run: true,
            framework: "go".into(),
            structured: true,
            outcome: Outcome::Passed.into(),
            age_ms: 102_000,
            summary: Some(Summary { passed: 7, ..Summary::default() }),
            ..LastTestFailuresResponse::default()
        };
        assert_eq!(failures(&answer, Reader::Agent), "last run_tests had no failures (7 tests passed, go, 1m42s ago)");
        answer.outcome = Outcome::TimedOut.into();
        answer.running = vec![test("example.com/hang", "TestHang")];
        assert_eq!(
            failures(&answer, Reader::Agent),
            "last run_tests did not pass: timed_out (7 passed, 0 failed, running: example.com/hang/TestHang)"
        );
        answer.hung = vec![HungTest {
            test: Some(test("example.com/hang", "TestHang")),
            file: Some("hang_test.go".into()),
            line: Some(16),
            stack: "time.go:3 in time.Sleep\nhang_test.go:16 in hang.TestHang".into(),
        }];
        assert_eq!(
            failures(&answer, Reader::Agent),
            "last run_tests did not pass: timed_out (7 passed, 0 failed, running: example.com/hang/TestHang)\n\n\
             running at the deadline: example.com/hang/TestHang\n   hang_test.go:16\n   time.go:3 in time.Sleep\n   \
             hang_test.go:16 in hang.TestHang\n\n"
        );
        answer.hung.clear();
        answer.outcome = Outcome::Failed.into();
        answer.running.clear();
        answer.not_run = (0..66).map(|number| test("p", &number.to_string())).collect();
        let text = failures(&answer, Reader::Agent);
        assert!(
            text.starts_with("last run_tests did not pass: failed (7 passed, 0 failed, not run: p/0, p/1, "),
            "{text}"
        );
        assert!(text.ends_with(", p/63, 2 more)"), "{text}");
        answer.total = 1;
        answer.not_run_left_out = 3;
        let text = failures(&answer, Reader::Agent);
        assert!(text.contains("\nnot run: p/0, p/1, ") && text.ends_with(", p/63, 5 more\n"), "{text}");
        answer.not_run = vec![test("", "adds (a+b)")];
        assert!(failures(&answer, Reader::Agent).contains("\nnot run: adds (a+b), 3 more\n"));
        answer.total = 0;
        answer.structured = false;
        assert_eq!(
            failures(&answer, Reader::Agent),
            "no structured failures available for go (last run_tests 1m42s ago)"
        );
    }

    #[test]
    fn merges_repeated_notes() {
        let notes = ["a", "b", "a", "a"].map(str::to_owned);
        assert_eq!(merge_repeated_notes(&notes), ["a (3 times)", "b"]);
    }

    #[test]
    fn keeps_names_on_one_line_and_shows_values_as_a_diff() {
        let failure = Failure {
            nodeid: "a\n1. b\u{9b}2J".into(),
            file: Some("\u{202e}og.a".into()),
            message: "\x1b[31mred\x1b[0m\u{85}".into(),
            actual: Some("one\ntwo\n".into()),
            expected: Some("one\n2\n".into()),
            ..Failure::default()
        };
        let answer = LastTestFailuresResponse {
            has_run: true,
            structured: true,
            total: 1,
            failures: vec![failure],
            ..LastTestFailuresResponse::default()
        };
        let head = "1. a\\n1. b\\u{9b}2J\n   \\u{202e}og.a\n   red\\u{85}\n";
        let text = failures(&answer, Reader::Agent);
        assert!(
            text.ends_with(&format!("{head}   --- diff ---\n   got: one\n   two\n   want: one\n   2\n\n")),
            "{text}"
        );
        let text = failures(&answer, Reader::Person);
        assert!(
            text.ends_with(&format!("{head}   - want  + got\n   @@ line 1 @@\n    one\n   -2\n   +two\n\n")),
            "{text}"
        );
    }

    #[test]
    fn covering_tests_are_grouped_by_package() {
        let mut answer = TestsCoveringResponse {
            has_coverage: true,
            total: 3,
            tests: vec![test("a/x", "TestA"), test("a/x", "TestB"), test("b", "TestC")],
            attribution: Attribution::Package.into(),
            ..TestsCoveringResponse::default()
        };
        assert_eq!(
            covering(
                &TestsCoveringResponse { range: Some(LineRange { first_line: 42, last_line: 42 }), ..answer.clone() },
                "x/read.go",
                Reader::Agent
            ),
            "3 test(s) cover x/read.go:42:\n\na/x:\n  TestA\n  TestB\n\nb:\n  TestC\n\
             attribution: per package (some test of each package listed executes it)\n"
        );
        answer.tests.clear();
        assert_eq!(covering(&answer, "x.go", Reader::Agent), "no coverage found for x.go");
        let none = TestsCoveringResponse::default();
        assert_eq!(covering(&none, "x.go", Reader::Agent), NO_COVERAGE_YET);
        assert!(covering(&none, "x.go", Reader::Person).contains("`proctor run` first"));
    }

    #[test]
    fn a_list_names_packages_that_could_not_be_listed() {
        let answer = ListTestsResponse {
            framework: "go".into(),
            tests: vec![test("a/x", "TestA"), test("b", "TestB")],
            left_out: 1,
            collectors: vec![Collector {
                nodeid: "c".into(),
                file: Some("c/c_test.go".into()),
                line: Some(3),
                message: "undefined: x".into(),
                ..Collector::default()
            }],
            outcome: Outcome::TimedOut.into(),
            partial: true,
        };
        assert_eq!(
            test_list(&answer),
            "3 test(s) (go):\n\na/x:\n  TestA\n\nb:\n  TestB\n... (1 more truncated; pass a larger limit to see \
             them)\n\nthe listing was cut off: timed_out\n\ncould not be listed: c\n   c/c_test.go:3\n   undefined: x\n"
        );
        let none = ListTestsResponse { framework: "go".into(), ..ListTestsResponse::default() };
        assert_eq!(test_list(&none), "no tests found (go)\n");
    }
}
