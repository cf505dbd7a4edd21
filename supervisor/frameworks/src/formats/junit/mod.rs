//! JUnit XML, which most runners can write, each in its own way: Ant, Surefire, pytest, GoogleTest, ctest, Maestro. There is no
//! standard; what they share is documented at <https://github.com/testmoapp/junitxml>.
//!
//! `xml` walks the document, and `case` makes a test of each `testcase`.
//!
//! **Trust.** The tests run beside the writer of this file and may write it themselves, so nothing here makes a run green: a file
//! that ends too early, or counts more tests or failures than it names, is incomplete.

mod case;
mod xml;

use crate::parsing::notes::Notes;
use crate::parsing::workspace_paths::WorkspacePaths;
use case::OpenCase;
pub(crate) use case::UNNAMED_TEST;
use proctor_core::bounds::{COLLECTORS_MAX, TEST_CASES_MAX};
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{Collector, CollectorKind, TestId};
use std::collections::HashSet;
use xml::{Attributes, Part};

/// Host name of a suite written by Catch2 and doctest, which count assertions as tests.
const ASSERTIONS_COUNTED: &str = "tbd";

/// Names of the suites written by pytest, which counts subtests without naming them.
const SUBTESTS_COUNTED: [&str; 2] = ["pytest tests", "pytest"];

/// What a file shows as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JunitSummary {
    /// Number of tests in the file.
    pub(crate) tests: usize,
    /// Number of tests that passed after a failure, each named in a note if there is room.
    pub(crate) flaky: u64,
    /// Whether the file ends too early, cannot be read, or counts a failure that it does not name.
    pub(crate) is_incomplete: bool,
    /// Notes for a person.
    pub(crate) notes: Notes,
}

/// Parses the file `name` of a runner that worked in `dir`.
pub(crate) fn parse_report(
    name: &str,
    bytes: &[u8],
    paths: &WorkspacePaths,
    dir: &str,
    events: &mut Vec<RunnerEvent>,
) -> JunitSummary {
    let mut report = Report {
        paths,
        dir,
        events,
        suites: Vec::new(),
        open: None,
        seen: HashSet::new(),
        depth: 0,
        summary: JunitSummary::default(),
        roots: 0,
        collectors: 0,
    };
    let ended = xml::walk(bytes, |part| report.handle(part));
    if let Err(why) = ended {
        report.is_incomplete(format!("{name}: {why}"));
    } else if report.roots == 0 {
        report.is_incomplete(format!("{name} is no JUnit file"));
    }
    report.summary
}

/// An open `testsuite` or `testsuites` element.
#[derive(Debug, Default)]
struct Suite {
    name: String,
    /// Failures and errors that the suite counts, and those that its elements name.
    counted: usize,
    named: usize,
    /// The same for tests. A skipped test need not be named.
    tests_counted: usize,
    tests_named: usize,
    skipped_counted: usize,
    skipped_named: usize,
}

impl Suite {
    fn new(attributes: &Attributes) -> Suite {
        let count = |name: &str| attributes.number::<usize>(name).unwrap_or(0);
        let name = attributes.get("name").unwrap_or_default().to_owned();
        let counts_other =
            attributes.get("hostname") == Some(ASSERTIONS_COUNTED) || SUBTESTS_COUNTED.contains(&name.as_str());
        Suite {
            name,
            counted: count("failures").saturating_add(count("errors")),
            tests_counted: if counts_other { 0 } else { count("tests") },
            skipped_counted: count("skipped").saturating_add(count("disabled")),
            ..Suite::default()
        }
    }

    /// Why the suite names less than it counts; `None` if it is complete.
    fn missing_reason(&self) -> Option<String> {
        let Suite { name, counted, named, tests_counted, tests_named, .. } = self;
        if counted > named {
            return Some(format!("suite {name:?} counts {counted} failure(s) and names {named}"));
        }
        // Some count a failed test once more for its clean-up, and Surefire each of its attempts; the failure itself is named.
        let skipped = self.skipped_counted.saturating_sub(self.skipped_named);
        let accounted = tests_named.saturating_add(*named).saturating_add(skipped);
        (*tests_counted > accounted)
            .then(|| format!("suite {name:?} counts {tests_counted} test(s) and names {tests_named}"))
    }
}

struct Report<'a> {
    paths: &'a WorkspacePaths,
    dir: &'a str,
    events: &'a mut Vec<RunnerEvent>,
    suites: Vec<Suite>,
    /// The test whose element is open, and the nesting depth within it.
    open: Option<OpenCase>,
    depth: usize,
    seen: HashSet<TestId>,
    /// Suites opened, and collectors emitted.
    roots: usize,
    collectors: usize,
    summary: JunitSummary,
}

impl Report<'_> {
    fn handle(&mut self, part: Part<'_>) {
        match (part, self.open.as_mut()) {
            (Part::Open(name, attributes), Some(test)) => {
                self.depth += 1;
                test.enter(name, &attributes);
            }
            (Part::Text(text), Some(test)) => test.text(text),
            (Part::Close, Some(test)) if self.depth > 0 => {
                self.depth -= 1;
                test.leave();
            }
            (Part::Close, Some(_)) => self.finish_test(),
            (Part::Open(name, attributes), None) => self.enter(name, &attributes),
            (Part::Text(_), None) => {}
            (Part::Close, None) => self.leave(),
        }
    }

    fn enter(&mut self, name: &str, attributes: &Attributes) {
        let suite = match name {
            "testsuites" | "testsuite" => {
                self.roots += 1;
                Suite::new(attributes)
            }
            // Any other element opens an anonymous suite, so that its end closes nothing else.
            _ => Suite {
                name: self.suites.last().map(|suite| suite.name.clone()).unwrap_or_default(),
                ..Suite::default()
            },
        };
        match name {
            "testcase" => {
                let suite = self.suites.last().map(|suite| suite.name.as_str()).unwrap_or_default();
                self.open = Some(OpenCase::new(suite, attributes));
                return;
            }
            "error" | "failure" => self.emit_collector(&suite.name, attributes),
            _ => {}
        }
        self.suites.push(suite);
    }

    /// A failure that is no test: a class's set-up, a file that does not load.
    fn emit_collector(&mut self, suite: &str, attributes: &Attributes) {
        self.add_named_failures(1);
        if self.collectors < COLLECTORS_MAX {
            self.collectors += 1;
            let message = attributes.get("message").or(attributes.get("type")).unwrap_or("failed outside of its tests");
            let collector = Collector {
                nodeid: suite.to_owned(),
                kind: CollectorKind::Collection,
                file: None,
                line: None,
                message: self.paths.scrub(message),
                output: String::new(),
            };
            self.events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        }
    }

    fn finish_test(&mut self) {
        let Some(test) = self.open.take() else { return };
        self.add_named_failures(test.counted());
        let skipped = usize::from(test.is_skipped());
        for suite in &mut self.suites {
            suite.tests_named += 1;
            suite.skipped_named += skipped;
        }
        if let Some(note) = test.note() {
            self.summary.flaky += 1;
            self.summary.notes.add(note);
        }
        self.summary.tests += 1;
        let test = test.into_case(self.paths, self.dir);
        if self.seen.len() < TEST_CASES_MAX && !self.seen.insert(test.id()) {
            self.summary.notes.add(format!("{} is reported more than once", test.nodeid));
        }
        self.events.push(RunnerEvent::TestFinished(Box::new(test)));
    }

    /// Adds failures to every open suite: each may count them.
    fn add_named_failures(&mut self, failures: usize) {
        self.suites.iter_mut().for_each(|suite| suite.named += failures);
    }

    fn leave(&mut self) {
        let Some(suite) = self.suites.pop() else { return };
        if let Some(why) = suite.missing_reason() {
            self.is_incomplete(why);
        }
    }

    fn is_incomplete(&mut self, why: String) {
        self.summary.is_incomplete = true;
        self.summary.notes.add(why);
    }
}

#[cfg(test)]
mod tests;
