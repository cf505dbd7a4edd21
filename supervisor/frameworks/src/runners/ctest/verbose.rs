//! Reads ctest's own lines, as `ctest -V` prints them: `Start 2: name`, `2: what test 2 printed`, `1/9 Test #2: name ...`,
//! and the sum at the end. Must not know how ctest was started.
//!
//! A line of a test's output always begins with its number, so a line that does not is ctest's.

use super::failure::{Failure, Printed};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// Most tests that are held as running. Each may hold as much output as a test keeps.
const RUNNING_MAX: usize = 1024;

/// What ctest says of a test that it killed.
const TIMEOUT: &str = "***Timeout";

/// What ctest says of a test whose exit status was not the one that it was to have.
const FAILED: &str = "***Failed";

/// What ctest says became of a test, in parts of its words, the surest first.
const WORDS: [(&str, TestOutcome); 7] = [
    ("***Not Run (Disabled)", TestOutcome::Skipped),
    ("***Not Run", TestOutcome::Error),
    ("***Skipped", TestOutcome::Skipped),
    ("Exception", TestOutcome::Error),
    (TIMEOUT, TestOutcome::Failed),
    ("***", TestOutcome::Failed),
    ("Passed", TestOutcome::Passed),
];

/// Words of ctest about a test that it could not start; they come before its result.
const NOT_STARTED: [&str; 3] = ["Could not find executable", "Unable to find executable:", "Failed test dependencies:"];

/// The last line of ctest's about a test before what the test prints.
const PREAMBLE_END: &str = "Test timeout computed to be:";

static START: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s+Start\s+(\d+): (.*)$").ok());
static RESULT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s*\d+/(\d+) Test\s+#(\d+): (.*)$").ok());
static TOOK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?P<words>.*?)\s+(?P<s>\d+\.\d+) sec\*?\s*$").ok());
static SUM: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d+% tests passed, \d+ tests? failed out of \d+").ok());

/// A test that was started.
#[derive(Debug)]
struct Running {
    number: u64,
    id: TestId,
    printed: Printed,
    /// Whether what comes is the test's own.
    begun: bool,
    /// Why it could not be started.
    reason: Option<String>,
}

/// The lines of one ctest.
#[derive(Debug)]
pub(super) struct Verbose {
    package: String,
    dir: String,
    paths: WorkspacePaths,
    running: Vec<Running>,
    /// Names of the tests that are to fail.
    to_fail: HashSet<String>,
    /// The number of the first test of each name.
    names: HashMap<String, u64>,
    /// A result whose words go on in the next line.
    unfinished: Option<(u64, String)>,
    /// How many tests ctest was to run, and how many results it told.
    wanted: u64,
    told: u64,
    ended: bool,
    /// Whether a name came twice.
    pub(super) doubled: bool,
    /// Where ctest says that the tests are.
    pub(super) project: Option<String>,
}

impl Verbose {
    pub(super) fn new(package: &str, dir: &str, paths: &WorkspacePaths, to_fail: HashSet<String>) -> Verbose {
        Verbose {
            package: package.to_owned(),
            dir: dir.to_owned(),
            paths: paths.clone(),
            running: Vec::new(),
            to_fail,
            names: HashMap::new(),
            unfinished: None,
            wanted: 0,
            told: 0,
            ended: false,
            doubled: false,
            project: None,
        }
    }

    /// Whether ctest said that it was done, and told as many results as it was to.
    pub(super) fn is_whole(&self) -> bool {
        self.ended && self.told == self.wanted && self.running.is_empty()
    }

    /// How many results it told.
    pub(super) fn told(&self) -> u64 {
        self.told
    }

    /// Tests that were started and have no result, the longest running first.
    pub(super) fn running(&self) -> Vec<TestId> {
        self.running.iter().map(|running| running.id.clone()).collect()
    }

    /// The next line of ctest's stdout.
    pub(super) fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        if let Some((number, words)) = self.unfinished.take() {
            return self.result(number, &format!("{words} {line}"), true, events);
        }
        if self.printed(line) {
            return;
        }
        if let Some(found) = START.as_ref().and_then(|start| start.captures(line)) {
            return self.started(found[1].parse().unwrap_or(0), &found[2], events);
        }
        if let Some(found) = RESULT.as_ref().and_then(|result| result.captures(line)) {
            self.wanted = found[1].parse().unwrap_or(0);
            return self.result(found[2].parse().unwrap_or(0), &found[3], false, events);
        }
        if let Some(place) = line.strip_prefix("Test project ") {
            self.project.get_or_insert_with(|| place.to_owned());
        } else if NOT_STARTED.iter().any(|words| line.starts_with(words)) {
            if let Some(last) = self.running.last_mut() {
                last.reason.get_or_insert_with(|| line.to_owned());
            }
        } else if SUM.as_ref().is_some_and(|sum| sum.is_match(line)) {
            self.ended = true;
        }
    }

    /// Takes in `2: text`, if that is what the line is.
    fn printed(&mut self, line: &str) -> bool {
        let Some((number, text)) = line.split_once(':') else { return false };
        let Ok(number) = number.parse::<u64>() else { return false };
        let text = text.strip_prefix(' ').unwrap_or(text);
        if let Some(test) = self.running.iter_mut().find(|test| test.number == number) {
            if test.begun {
                test.printed.line(text);
            } else {
                test.begun = text.starts_with(PREAMBLE_END);
            }
        }
        true
    }

    fn started(&mut self, number: u64, name: &str, events: &mut Vec<RunnerEvent>) {
        if self.running.len() >= RUNNING_MAX {
            return;
        }
        let id = self.id(number, name);
        events.push(RunnerEvent::TestStarted(id.clone().bounded()));
        self.running.push(Running { number, id, printed: Printed::default(), begun: false, reason: None });
    }

    /// The name that a test is told by: its own, and with its number when it is not the first of that name.
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
        self.doubled |= first != number;
        let name = if first == number { name.to_owned() } else { format!("{name}#{number}") };
        TestId { package: self.package.clone(), name }
    }

    fn result(&mut self, number: u64, told: &str, continued: bool, events: &mut Vec<RunnerEvent>) {
        let Some(took) = TOOK.as_ref().and_then(|took| took.captures(told)) else {
            // A regular expression that a test was to match is printed as it was written, with its newlines.
            if !continued {
                self.unfinished = Some((number, told.to_owned()));
                return;
            }
            return self.finish(number, told, None, events);
        };
        let seconds = took["s"].parse().ok();
        self.finish(number, &took["words"], seconds, events);
    }

    fn finish(&mut self, number: u64, told: &str, duration_s: Option<f64>, events: &mut Vec<RunnerEvent>) {
        self.told += 1;
        let started = self.running.iter().position(|test| test.number == number).map(|at| self.running.remove(at));
        let name = |told: &str| told.split(" .").next().unwrap_or(told).trim().to_owned();
        let test = started.unwrap_or_else(|| Running {
            number,
            id: self.id(number, &name(told)),
            printed: Printed::default(),
            begun: false,
            reason: None,
        });
        let own = test.id.name.strip_suffix(&format!("#{number}")).unwrap_or(&test.id.name);
        let words = told.strip_prefix(own).unwrap_or(told).trim_start_matches([' ', '.']).trim();
        let to_fail = self.to_fail.contains(own);
        let case = TestCase { duration_s, ..self.case(test, words, to_fail) };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    fn case(&self, test: Running, words: &str, to_fail: bool) -> TestCase {
        // Words that nobody knows are no pass.
        let outcome =
            WORDS.iter().find(|(part, _)| words.contains(part)).map_or(TestOutcome::Error, |(_, outcome)| *outcome);
        let skipped_wrongly = outcome == TestOutcome::Skipped && test.printed.failed_anyway();
        let outcome = if skipped_wrongly { TestOutcome::Failed } else { outcome };
        let nodeid = self.nodeid(&test.id);
        // GoogleTest was in the middle of the test when the process ended with a status that it chose itself. Where that was
        // 0 ctest calls it a pass, and whatever was still to be tested was not.
        let chosen = matches!(outcome, TestOutcome::Passed | TestOutcome::Failed) && !words.contains(TIMEOUT);
        // One that is to fail may fail so.
        let left = chosen && !to_fail && test.printed.is_unfinished();
        if outcome == TestOutcome::Passed && !left {
            return TestCase::new(test.id, nodeid, outcome);
        }
        let outcome = if left { TestOutcome::Error } else { outcome };
        // What a test says that was to fail and did not is not what is wrong with it.
        let failed_not = to_fail && words == FAILED;
        let failure = if failed_not { None } else { test.printed.failure(&self.dir, &self.paths) };
        // An assertion that aborts is no crash.
        let aborted =
            outcome == TestOutcome::Error && !left && failure.as_ref().is_some_and(|failure| failure.at.is_some());
        let outcome = if aborted { TestOutcome::Failed } else { outcome };
        let output = Some(self.paths.scrub(&test.printed.text())).filter(|output| !output.is_empty());
        let message = match &failure {
            Some(failure) => Some(failure.message.clone()),
            None if failed_not => Some("it was to fail (WILL_FAIL) and did not".to_owned()),
            None if left => Some("the test process ended before the test did".to_owned()),
            None => self.meaning(outcome, words, &test),
        };
        let Failure { at, expected, actual, stack, .. } = failure.unwrap_or_default();
        let (file, line) = at.unzip();
        TestCase { file, line, message, expected, actual, stack, output, ..TestCase::new(test.id, nodeid, outcome) }
    }

    /// What ctest's words mean, where the test itself did not say what was wrong.
    fn meaning(&self, outcome: TestOutcome, words: &str, test: &Running) -> Option<String> {
        let said = |message: &str| Some(message.to_owned());
        let words = words.replace("***", " ");
        let words = words.trim().trim_end_matches(':');
        if let Some(reason) = &test.reason {
            return Some(format!("not run: {}", self.paths.scrub(reason)));
        }
        match words {
            "Failed" | "Skipped" => {
                let last = test.printed.last_line().map(|line| self.paths.scrub(&line));
                last.or_else(|| said("it printed nothing"))
            }
            "Not Run (Disabled)" => said("disabled"),
            "Not Run" => said("not run"),
            "Timeout" => said("timed out: the project sets a TIMEOUT for this test"),
            _ if outcome == TestOutcome::Error => {
                let how = words.replace("Exception", "");
                Some(format!("the test crashed: {}", how.trim_matches([' ', ':'])))
            }
            _ => Some(words.strip_prefix("Failed").unwrap_or(words).trim().to_owned()),
        }
    }

    fn nodeid(&self, id: &TestId) -> String {
        if self.dir.is_empty() { id.name.clone() } else { format!("{}::{}", id.package, id.name) }
    }

    /// Tests without a result in a ctest that ended by itself become errors.
    pub(super) fn close(&mut self, why: &str, events: &mut Vec<RunnerEvent>) {
        for test in std::mem::take(&mut self.running) {
            let output = Some(self.paths.scrub(&test.printed.text())).filter(|output| !output.is_empty());
            let message = Some(format!("did not finish: {why}"));
            let nodeid = self.nodeid(&test.id);
            let case = TestCase { message, output, ..TestCase::new(test.id, nodeid, TestOutcome::Error) };
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }
}
