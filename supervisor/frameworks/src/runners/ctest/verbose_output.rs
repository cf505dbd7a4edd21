//! Reads ctest's own lines, as `ctest -V` prints them: `Start 2: name`, `2: output of test 2`, `1/9 Test #2: name ...`, and
//! the summary at the end.
//!
//! ctest prefixes every line of a test's output with the test's number, so a line without the prefix is ctest's own.

use super::NODE_ID_SEPARATOR;
use super::assertion_output::{AssertionFailure, TestOutputBuffer};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Most tests that are tracked as running. Each may hold its full share of kept output.
const RUNNING_MAX: usize = 1024;

/// ctest's result of a test that exceeded its TIMEOUT.
const TIMEOUT: &str = "***Timeout";

/// ctest's result of a test with an unexpected exit status.
const FAILED: &str = "***Failed";

/// Substrings of ctest's result and the outcome they mean, the most specific first.
const OUTCOMES: [(&str, TestOutcome); 7] = [
    ("***Not Run (Disabled)", TestOutcome::Skipped),
    ("***Not Run", TestOutcome::Error),
    ("***Skipped", TestOutcome::Skipped),
    ("Exception", TestOutcome::Error),
    (TIMEOUT, TestOutcome::Failed),
    ("***", TestOutcome::Failed),
    ("Passed", TestOutcome::Passed),
];

/// Lines that ctest prints before the result of a test that it could not start.
const NOT_STARTED: [&str; 3] = ["Could not find executable", "Unable to find executable:", "Failed test dependencies:"];

/// The last line that ctest prints about a test before the test's own output.
const PREAMBLE_END: &str = "Test timeout computed to be:";

static START: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s+Start\s+(\d+): (.*)$").ok());
static RESULT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s*\d+/(\d+) Test\s+#(\d+): (.*)$").ok());
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?P<words>.*?)\s+(?P<s>\d+\.\d+) sec\*?\s*$").ok());
static SUMMARY: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d+% tests passed, \d+ tests? failed out of \d+").ok());

/// A test that was started.
#[derive(Debug)]
struct RunningTest {
    number: u64,
    id: TestId,
    output: TestOutputBuffer,
    /// Whether the preamble ended: further lines are the test's own output.
    preamble_ended: bool,
    /// Why ctest could not start it.
    reason: Option<String>,
}

/// Parser of the output of one ctest command.
#[derive(Debug)]
pub(super) struct VerboseOutputParser {
    package: String,
    dir: String,
    paths: WorkspacePaths,
    running: Vec<RunningTest>,
    /// Names of the tests with `WILL_FAIL`.
    will_fail: HashSet<String>,
    /// The number of the first test of each name.
    names: HashMap<String, u64>,
    /// Number and text of a result that continues in the next line.
    unfinished: Option<(u64, String)>,
    /// Number of tests that ctest announced, and number of results that came.
    announced: u64,
    results: u64,
    ended: bool,
    /// Whether two tests have the same name.
    pub(super) has_duplicate_names: bool,
    /// The build directory that ctest names in its output.
    pub(super) build_dir: Option<String>,
}

impl VerboseOutputParser {
    pub(super) fn new(
        package: &str,
        dir: &str,
        paths: &WorkspacePaths,
        will_fail: HashSet<String>,
    ) -> VerboseOutputParser {
        VerboseOutputParser {
            package: package.to_owned(),
            dir: dir.to_owned(),
            paths: paths.clone(),
            running: Vec::new(),
            will_fail,
            names: HashMap::new(),
            unfinished: None,
            announced: 0,
            results: 0,
            ended: false,
            has_duplicate_names: false,
            build_dir: None,
        }
    }

    /// Whether ctest printed its summary, and as many results as it announced.
    pub(super) fn is_complete(&self) -> bool {
        self.ended && self.results == self.announced && self.running.is_empty()
    }

    /// Number of tests that ctest runs; `None` before it has printed the first result.
    pub(super) fn announced(&self) -> Option<u64> {
        Some(self.announced).filter(|announced| *announced > 0)
    }

    /// Number of results.
    pub(super) fn result_count(&self) -> u64 {
        self.results
    }

    /// Tests that were started and have no result, the longest running first.
    pub(super) fn running(&self) -> Vec<TestId> {
        self.running.iter().map(|running| running.id.clone()).collect()
    }

    /// Parses the next line of ctest's stdout.
    pub(super) fn parse_line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if let Some((number, words)) = self.unfinished.take() {
            return self.parse_result(number, &format!("{words} {line}"), true, events);
        }
        if self.record_test_output(line) {
            return;
        }
        if let Some(found) = START.as_ref().and_then(|start| start.captures(line)) {
            return self.start_test(found[1].parse().unwrap_or(0), &found[2], events);
        }
        if let Some(found) = RESULT.as_ref().and_then(|result| result.captures(line)) {
            self.announced = found[1].parse().unwrap_or(0);
            return self.parse_result(found[2].parse().unwrap_or(0), &found[3], false, events);
        }
        if let Some(place) = line.strip_prefix("Test project ") {
            self.build_dir.get_or_insert_with(|| place.to_owned());
        } else if NOT_STARTED.iter().any(|words| line.starts_with(words)) {
            if let Some(last) = self.running.last_mut() {
                last.reason.get_or_insert_with(|| line.to_owned());
            }
        } else if SUMMARY.as_ref().is_some_and(|summary| summary.is_match(line)) {
            self.ended = true;
        }
    }

    /// Records `2: text` as output of test 2. Returns whether the line has that form.
    fn record_test_output(&mut self, line: &str) -> bool {
        let Some((number, text)) = line.split_once(':') else { return false };
        let Ok(number) = number.parse::<u64>() else { return false };
        let text = text.strip_prefix(' ').unwrap_or(text);
        if let Some(test) = self.running.iter_mut().find(|test| test.number == number) {
            if test.preamble_ended {
                test.output.push_line(text);
            } else {
                test.preamble_ended = text.starts_with(PREAMBLE_END);
            }
        }
        true
    }

    fn start_test(&mut self, number: u64, name: &str, events: &mut Vec<RunnerEvent>) {
        if self.running.len() >= RUNNING_MAX {
            return;
        }
        let id = self.id(number, name);
        events.push(RunnerEvent::TestStarted(id.clone().bounded()));
        self.running.push(RunningTest {
            number,
            id,
            output: TestOutputBuffer::default(),
            preamble_ended: false,
            reason: None,
        });
    }

    /// The ID of a test: its name, with `#number` appended unless it is the first test of that name.
    fn id(&mut self, number: u64, name: &str) -> TestId {
        let first = match self.names.get(name) {
            Some(first) => *first,
            None => {
                if self.names.len() < TEST_CASES_MAX {
                    self.names.insert(name.to_owned(), number);
                }
                number
            }
        };
        self.has_duplicate_names |= first != number;
        let name = if first == number { name.to_owned() } else { format!("{name}#{number}") };
        TestId { package: self.package.clone(), name }
    }

    fn parse_result(&mut self, number: u64, text: &str, continued: bool, events: &mut Vec<RunnerEvent>) {
        let Some(duration) = DURATION.as_ref().and_then(|duration| duration.captures(text)) else {
            // ctest prints a PASS_REGULAR_EXPRESSION verbatim, with its newlines.
            if !continued {
                self.unfinished = Some((number, text.to_owned()));
                return;
            }
            return self.finish_test(number, text, None, events);
        };
        let seconds = duration["s"].parse().ok();
        self.finish_test(number, &duration["words"], seconds, events);
    }

    fn finish_test(&mut self, number: u64, text: &str, duration_s: Option<f64>, events: &mut Vec<RunnerEvent>) {
        self.results += 1;
        let started = self.running.iter().position(|test| test.number == number).map(|at| self.running.remove(at));
        let name = |text: &str| text.split(" .").next().unwrap_or(text).trim().to_owned();
        let test = started.unwrap_or_else(|| RunningTest {
            number,
            id: self.id(number, &name(text)),
            output: TestOutputBuffer::default(),
            preamble_ended: false,
            reason: None,
        });
        let own = test.id.name.strip_suffix(&format!("#{number}")).unwrap_or(&test.id.name);
        let words = text.strip_prefix(own).unwrap_or(text).trim_start_matches([' ', '.']).trim();
        let will_fail = self.will_fail.contains(own);
        let case = TestCase { duration_s, ..self.case(test, words, will_fail) };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    fn case(&self, test: RunningTest, words: &str, will_fail: bool) -> TestCase {
        // An unknown result is never a pass.
        let outcome =
            OUTCOMES.iter().find(|(part, _)| words.contains(part)).map_or(TestOutcome::Error, |(_, outcome)| *outcome);
        let skipped_wrongly = outcome == TestOutcome::Skipped && test.output.failed_although_skipped();
        let outcome = if skipped_wrongly { TestOutcome::Failed } else { outcome };
        let nodeid = self.nodeid(&test.id);
        // The test process ended in the middle of a GoogleTest test, with an exit status of its own choice. ctest reports a
        // pass if that status was 0, although the remaining tests did not run.
        let by_exit_status = matches!(outcome, TestOutcome::Passed | TestOutcome::Failed) && !words.contains(TIMEOUT);
        // A test with WILL_FAIL may fail this way.
        let is_cut_off = by_exit_status && !will_fail && test.output.is_unfinished();
        if outcome == TestOutcome::Passed && !is_cut_off {
            return TestCase::new(test.id, nodeid, outcome);
        }
        let outcome = if is_cut_off { TestOutcome::Error } else { outcome };
        // The output of a WILL_FAIL test that passed does not explain why it is reported as failed.
        let passed_unexpectedly = will_fail && words == FAILED;
        let failure = if passed_unexpectedly { None } else { test.output.failure(&self.dir, &self.paths) };
        // An assertion that aborts the process is a failure, not a crash.
        let aborted = outcome == TestOutcome::Error
            && !is_cut_off
            && failure.as_ref().is_some_and(|failure| failure.place.is_some());
        let outcome = if aborted { TestOutcome::Failed } else { outcome };
        let output = Some(self.paths.scrub(&test.output.text())).filter(|output| !output.is_empty());
        let message = match &failure {
            Some(failure) => Some(failure.message.clone()),
            None if passed_unexpectedly => Some("the test passed, but WILL_FAIL expects it to fail".to_owned()),
            None if is_cut_off => Some("the test process ended before the test did".to_owned()),
            None => self.describe_result(outcome, words, &test),
        };
        let AssertionFailure { place, expected, actual, stack, .. } = failure.unwrap_or_default();
        let (file, line) = place.unzip();
        TestCase { file, line, message, expected, actual, stack, output, ..TestCase::new(test.id, nodeid, outcome) }
    }

    /// The meaning of ctest's result, where the test's output has no assertion.
    fn describe_result(&self, outcome: TestOutcome, words: &str, test: &RunningTest) -> Option<String> {
        let message = |message: &str| Some(message.to_owned());
        let words = words.replace("***", " ");
        let words = words.trim().trim_end_matches(':');
        if let Some(reason) = &test.reason {
            return Some(format!("not run: {}", self.paths.scrub(reason)));
        }
        match words {
            "Failed" | "Skipped" => {
                let last = test.output.last_line().map(|line| self.paths.scrub(&line));
                last.or_else(|| message("it printed nothing"))
            }
            "Not Run (Disabled)" => message("disabled"),
            "Not Run" => message("not run"),
            "Timeout" => message("timed out: the project sets a TIMEOUT for this test"),
            _ if outcome == TestOutcome::Error => {
                let how = words.replace("Exception", "");
                Some(format!("the test crashed: {}", how.trim_matches([' ', ':'])))
            }
            _ => Some(words.strip_prefix("Failed").unwrap_or(words).trim().to_owned()),
        }
    }

    fn nodeid(&self, id: &TestId) -> String {
        if self.dir.is_empty() { id.name.clone() } else { format!("{}{NODE_ID_SEPARATOR}{}", id.package, id.name) }
    }

    /// Finishes tests without a result as errors, after a ctest that ended by itself.
    pub(super) fn close(&mut self, why: &str, events: &mut Vec<RunnerEvent>) {
        for test in std::mem::take(&mut self.running) {
            let output = Some(self.paths.scrub(&test.output.text())).filter(|output| !output.is_empty());
            let message = Some(format!("did not finish: {why}"));
            let nodeid = self.nodeid(&test.id);
            let case = TestCase { message, output, ..TestCase::new(test.id, nodeid, TestOutcome::Error) };
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }
}
