//! The entries of a report, the same for every format: what happened to the run as a whole, to what did not build, to the
//! tests that were cut off, and to each test. Failures come first.

use super::check_entries::{check_entries, explain, fix};
use crate::grpc::convert;
use proctor_core::check::Finding;
use proctor_core::hung_test::HungTest;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::{FlakyInRun, ResultCounts};
use proctor_core::report::Report;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use proctor_proto::check_text;
use proctor_proto::difference::{self, LineKind};
use proctor_proto::printable::block;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Suite of the entry for a run that failed as a whole.
pub(super) const RUN_SUITE: &str = "proctor";

/// The message of a test that failed only because a subtest of it did.
const BY_SUBTEST: &str = "failed because a subtest of it failed";

/// How an entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Passed,
    /// A test that ran and failed.
    Failed,
    /// Anything else that needs attention.
    Error,
    Skipped,
}

/// What an entry is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    /// The run as a whole, which did not pass for another reason than a failed test.
    Run,
    Collector(&'a Collector),
    /// A test that was running when the run was cut off, with its stack if the runner printed it.
    CutOff(Option<&'a HungTest>),
    /// A selected test that did not run.
    NotRun,
    Test(&'a TestCase),
    /// What a linter or type checker found.
    Finding(&'a Finding),
    /// A command of such a checker.
    Checker,
}

/// One line of a report.
#[derive(Debug, Clone)]
pub(super) struct Entry<'a> {
    pub(super) subject: Subject<'a>,
    /// Package, file or module.
    pub(super) suite: &'a str,
    /// Name within the suite.
    pub(super) name: Cow<'a, str>,
    pub(super) status: Status,
    /// Kind of result in proctor's own words: `failed`, `xfailed`, `build`, `timed_out`.
    pub(super) kind: &'static str,
    /// Relative to the workspace.
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) duration_s: Option<f64>,
    /// What a person reads first; empty for a passed test.
    pub(super) message: Cow<'a, str>,
    /// Whether the check before did not have it.
    pub(super) is_new: bool,
    /// Whether the project has it in quarantine.
    pub(super) is_quarantined: bool,
    /// Its results in several executions of the run, if it passed and failed.
    pub(super) flaky: Option<&'a FlakyInRun>,
    /// Executions that it failed, where they were counted.
    pub(super) failures: u64,
}

impl Entry<'_> {
    /// Everything else that explains a failure: the difference of the values, the stack, the output. Terminal control is
    /// removed. `None` if there is nothing.
    pub(super) fn details(&self) -> Option<String> {
        let mut text = String::new();
        match self.subject {
            Subject::Run | Subject::NotRun | Subject::Checker => {}
            Subject::Finding(finding) => {
                text.extend(fix(finding).map(|fix| format!("fix: {fix}\n")));
                text.push_str(&block(&finding.url));
            }
            Subject::Collector(collector) => text.push_str(&block(&collector.output)),
            Subject::CutOff(hung) => text.push_str(&hung.map_or(Cow::Borrowed(""), |hung| block(&hung.stack))),
            Subject::Test(test) => {
                for line in difference::lines(test.actual.as_deref(), test.expected.as_deref()) {
                    let mark = match line.kind {
                        LineKind::Got => "- ",
                        LineKind::Want => "+ ",
                        LineKind::Same | LineKind::Note => "  ",
                    };
                    let _ = writeln!(text, "{mark}{}", line.text);
                }
                text.push_str(&block(test.stack.as_deref().unwrap_or_default()));
            }
        }
        (!text.trim().is_empty()).then_some(text)
    }

    /// What the test printed, without terminal control.
    pub(super) fn output(&self) -> Option<Cow<'_, str>> {
        let Subject::Test(test) = self.subject else { return None };
        test.output.as_deref().map(block).filter(|output| !output.trim().is_empty())
    }

    /// What a reader knows of a failure besides: that it is known, and that the test also passed.
    pub(super) fn marks(&self) -> Vec<String> {
        let flaky = self.flaky.map(|flaky| {
            format!("flaky: failed {} of {} executions ({})", flaky.failures, flaky.executions, flaky.rate)
        });
        let marks = [(self.is_quarantined, "in quarantine"), (self.is_new, "new")];
        let marks = marks.into_iter().filter(|(is_marked, _)| *is_marked).map(|(_, mark)| mark.to_owned());
        marks.chain(flaky).collect()
    }

    /// Whether it needs attention, and not only because another entry does.
    pub(super) fn is_own_failure(&self) -> bool {
        self.is_failure() && !self.is_failed_by_subtest()
    }

    /// Whether it is a test that failed only because a subtest of it did.
    pub(super) fn is_failed_by_subtest(&self) -> bool {
        matches!(self.subject, Subject::Test(test) if test.failed_by_subtest)
    }

    /// Whether it needs attention.
    pub(super) fn is_failure(&self) -> bool {
        matches!(self.status, Status::Failed | Status::Error)
    }
}

/// The entries of a report, failures first.
pub(super) fn entries<'a>(report: &'a Report) -> Vec<Entry<'a>> {
    let evidence = &report.evidence;
    let cut_off = |test: &'a TestId| {
        let hung = evidence.hung.iter().find(|hung| hung.test == *test);
        let message = "was running when the run was cut off";
        let place = hung.and_then(|hung| Some((hung.file.as_deref()?, hung.line)));
        Entry {
            file: place.map(|(file, _)| file),
            line: place.and_then(|(_, line)| line),
            ..named(Subject::CutOff(hung), test, Status::Error, "cut_off", message)
        }
    };
    let run = needs_entry(report).then(|| run(report));
    let checks = report.check.iter().flat_map(check_entries);
    let collectors = report.collectors.iter().map(collector);
    let running = evidence.running.iter().map(cut_off);
    let marks = Marks::new(report);
    let tests = report.tests.iter().map(|case| marks.add_to(test(case), case));
    let not_run = evidence
        .not_run
        .iter()
        .map(|id| named(Subject::NotRun, id, Status::Skipped, "not_run", "was selected and did not run"));
    run.into_iter().chain(checks).chain(collectors).chain(running).chain(tests).chain(not_run).collect()
}

/// What a report says of tests beside their results.
struct Marks<'a> {
    quarantined: BTreeSet<(&'a str, &'a str)>,
    flaky: BTreeMap<(&'a str, &'a str), &'a FlakyInRun>,
    counts: Option<&'a BTreeMap<TestId, ResultCounts>>,
}

impl<'a> Marks<'a> {
    fn new(report: &'a Report) -> Marks<'a> {
        let key = |test: &'a TestId| (test.package.as_str(), test.name.as_str());
        let quarantined = report.quarantined.iter().flat_map(|group| &group.tests).map(key).collect();
        let flaky = report.repetitions.iter().flat_map(|repetitions| &repetitions.flaky);
        let flaky = flaky.map(|flaky| (key(&flaky.test), flaky)).collect();
        Marks { quarantined, flaky, counts: report.repetitions.as_ref().map(|repetitions| &*repetitions.counts) }
    }

    fn add_to(&self, entry: Entry<'a>, test: &'a TestCase) -> Entry<'a> {
        let key = (test.package.as_str(), test.name.as_str());
        let counted = self.counts.and_then(|counts| counts.get(&test.id()));
        Entry {
            is_quarantined: entry.is_failure() && self.quarantined.contains(&key),
            flaky: self.flaky.get(&key).copied(),
            failures: counted.map_or(0, |counts| counts.failures()),
            ..entry
        }
    }
}

// A reader that counts failures must find one in every run that did not pass.
fn needs_entry(report: &Report) -> bool {
    let is_explained = match report.outcome {
        Outcome::Passed => true,
        Outcome::Failed | Outcome::CollectionFailed | Outcome::RunnerMissing if report.check.is_some() => {
            report.check.as_ref().is_some_and(explain)
        }
        Outcome::Failed => report.tests.iter().any(|test| test.outcome.is_failure()),
        Outcome::BuildFailed | Outcome::CollectionFailed => !report.collectors.is_empty(),
        _ => false,
    };
    !is_explained
}

fn run(report: &Report) -> Entry<'_> {
    let mut message = format!("the run ended as {}", report.outcome.name());
    for note in &report.evidence.notes {
        let _ = write!(message, "; {note}");
    }
    Entry {
        subject: Subject::Run,
        suite: RUN_SUITE,
        name: "run".into(),
        status: Status::Error,
        kind: report.outcome.name(),
        file: None,
        line: None,
        duration_s: Some(report.duration_s),
        message: message.into(),
        is_new: false,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}

fn named<'a>(
    subject: Subject<'a>,
    id: &'a TestId,
    status: Status,
    kind: &'static str,
    message: &'static str,
) -> Entry<'a> {
    let message = message.into();
    Entry {
        subject,
        suite: &id.package,
        name: id.name.as_str().into(),
        status,
        kind,
        file: None,
        line: None,
        duration_s: None,
        message,
        is_new: false,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}

fn collector(collector: &Collector) -> Entry<'_> {
    let (kind, name) = match collector.kind {
        CollectorKind::Build => ("build", "(build)"),
        CollectorKind::Collection => ("collection", "(collection)"),
    };
    Entry {
        subject: Subject::Collector(collector),
        suite: &collector.nodeid,
        name: name.into(),
        status: Status::Error,
        kind,
        file: collector.file.as_deref(),
        line: collector.line,
        duration_s: None,
        message: collector.message.as_str().into(),
        is_new: false,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}

fn test(test: &TestCase) -> Entry<'_> {
    let status = match test.outcome {
        TestOutcome::Passed | TestOutcome::Xpassed => Status::Passed,
        TestOutcome::Failed => Status::Failed,
        TestOutcome::Error => Status::Error,
        TestOutcome::Skipped | TestOutcome::Xfailed => Status::Skipped,
    };
    Entry {
        subject: Subject::Test(test),
        suite: &test.package,
        name: test.name.as_str().into(),
        status,
        kind: test.outcome.name(),
        file: test.file.as_deref(),
        line: test.line,
        duration_s: test.duration_s,
        message: test.message.as_deref().unwrap_or(if test.failed_by_subtest { BY_SUBTEST } else { "" }).into(),
        is_new: false,
        is_quarantined: false,
        flaky: None,
        failures: 0,
    }
}

/// One line about the run: `failed: 1 of 12 tests failed, 2 skipped (pytest, 1.2s)`.
pub(super) fn headline(report: &Report) -> String {
    if report.check.is_some() {
        return check_text::headline(&convert::report(report));
    }
    let outcome = report.outcome.name().replace('_', " ");
    format!("{outcome}: {} ({}, {:.1}s)", counts(report), report.framework, report.duration_s)
}

/// The counts of the run: `1 of 12 tests failed, 2 skipped`.
pub(super) fn counts(report: &Report) -> String {
    if let Some(check) = &report.check {
        return check.summary();
    }
    let summary = &report.summary;
    let mut text = match report.own_failure_count() {
        0 => format!("{} of {} tests passed", summary.passed, summary.total),
        failures => format!("{failures} of {} tests failed", summary.total),
    };
    let others = [
        (report.failed_parents, "failed by a subtest"),
        (report.collectors.len() as u64 + report.truncated.collectors, "not built or loaded"),
        (summary.skipped, "skipped"),
        (summary.xfailed, "failed as expected"),
        (summary.xpassed, "passed unexpectedly"),
        (report.flaky_in_run, "flaky"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    if report.partial {
        text.push_str(", cut off");
    }
    text
}
