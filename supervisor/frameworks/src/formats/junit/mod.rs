//! JUnit XML, the form that most runners can write and that each writes in its own way: Ant's, Surefire's, pytest's,
//! GoogleTest's, ctest's, Maestro's. There is no standard; what they share is documented at
//! <https://github.com/testmoapp/junitxml>. Must not know who wrote it.
//!
//! `xml` walks the document and `case` makes one test of what a `testcase` holds.
//!
//! **Trust.** The tests run beside what writes this and may write it themselves, so nothing here makes a run green: what
//! ends too early, or counts more tests or failures than it names, is cut off.

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

/// The host of a suite as Catch2 and doctest write it, which count assertions and call them tests.
const ASSERTIONS_COUNTED: &str = "tbd";

/// The name of all suites and of the one as pytest writes them, which counts subtests that it does not name.
const SUBTESTS_COUNTED: [&str; 2] = ["pytest tests", "pytest"];

/// What a file says as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct JunitSummary {
    /// How many tests it names.
    pub(crate) tests: usize,
    /// How many passed after they had failed, each named in a note if there is room.
    pub(crate) flaky: u64,
    /// Whether it ends too early, cannot be read, or hides a failure that it counts.
    pub(crate) cut_off: bool,
    /// What a person should know beside the tests.
    pub(crate) notes: Notes,
}

/// Reads the file `name` of a runner that worked in `dir`.
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
        told: JunitSummary::default(),
        roots: 0,
        blamed: 0,
    };
    let ended = xml::walk(bytes, |part| report.take_in(part));
    if let Err(why) = ended {
        report.cut_off(format!("{name}: {why}"));
    } else if report.roots == 0 {
        report.cut_off(format!("{name} is no JUnit file"));
    }
    report.told
}

/// A `testsuite` or `testsuites` that has begun.
#[derive(Debug, Default)]
struct Suite {
    name: String,
    /// Failures and errors that it counts, and those that it names.
    counted: usize,
    named: usize,
    /// The same for tests; those that were skipped need not be named.
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

    /// Why what it holds is not all that it counts.
    fn hides(&self) -> Option<String> {
        let Suite { name, counted, named, tests_counted, tests_named, .. } = self;
        if counted > named {
            return Some(format!("suite {name:?} counts {counted} failure(s) and names {named}"));
        }
        // Some count a test that failed once more for its clean-up, and Surefire each of its attempts; what failed is known.
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
    /// The test whose element is open, and how deep within it the walk is.
    open: Option<OpenCase>,
    depth: usize,
    seen: HashSet<TestId>,
    /// Suites that began, and collectors that were told.
    roots: usize,
    blamed: usize,
    told: JunitSummary,
}

impl Report<'_> {
    fn take_in(&mut self, part: Part<'_>) {
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
            (Part::Close, Some(_)) => self.close(),
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
            // A suite of its own, so that the walk comes back to where it was.
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
            "error" | "failure" => self.outside_of_tests(&suite.name, attributes),
            _ => {}
        }
        self.suites.push(suite);
    }

    /// Something failed that is no test: a class's set-up, a file that does not load.
    fn outside_of_tests(&mut self, suite: &str, attributes: &Attributes) {
        self.named(1);
        if self.blamed < COLLECTORS_MAX {
            self.blamed += 1;
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

    fn close(&mut self) {
        let Some(test) = self.open.take() else { return };
        self.named(test.counted());
        let skipped = usize::from(test.is_skipped());
        for suite in &mut self.suites {
            suite.tests_named += 1;
            suite.skipped_named += skipped;
        }
        if let Some(note) = test.note() {
            self.told.flaky += 1;
            self.told.notes.add(note);
        }
        self.told.tests += 1;
        let test = test.into_case(self.paths, self.dir);
        if self.seen.len() < TEST_CASES_MAX && !self.seen.insert(test.id()) {
            self.told.notes.add(format!("{} is told more than once", test.nodeid));
        }
        self.events.push(RunnerEvent::TestFinished(Box::new(test)));
    }

    /// So many failures are named; every suite around them may have counted them.
    fn named(&mut self, failures: usize) {
        self.suites.iter_mut().for_each(|suite| suite.named += failures);
    }

    fn leave(&mut self) {
        let Some(suite) = self.suites.pop() else { return };
        if let Some(why) = suite.hides() {
            self.cut_off(why);
        }
    }

    fn cut_off(&mut self, why: String) {
        self.told.cut_off = true;
        self.told.notes.add(why);
    }
}

#[cfg(test)]
mod tests;
