//! JUnit XML, by `quick-junit`. A test is a case of the suite of its package. Characters that XML cannot hold, and those that
//! steer a terminal, are written as escapes (`\u{1b}`), so that nothing is silently missing.

use super::budget::{Budget, beginning};
use super::entries::{Entry, RUN_SUITE, Status, Subject, entries, headline};
use super::{RenderError, ReportInput};
use chrono::{DateTime, Utc};
use proctor_core::test_case::TestOutcome;
use proctor_core::timestamp::Timestamp;
use proctor_proto::printable::{block, line};
use quick_junit::{FlakyOrRerun, NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestRerun, TestSuite};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of a case's tag, its numbers and the names of its attributes, with the indentation.
const CASE_BYTES: usize = 160;

/// Bytes of the element in a case that is no plain success.
const RESULT_BYTES: usize = 160;

/// Bytes of the element around a case's output.
const OUTPUT_BYTES: usize = 80;

/// Most elements for failures in further executions; the property has their number.
const RERUNS_MAX: u64 = 8;

/// Bytes of such an element, and of a property with a mark.
const RERUN_BYTES: usize = 200;

/// Bytes of a suite's tags without its name.
const SUITE_BYTES: usize = 200;

pub(super) fn render(input: ReportInput<'_>, bytes_max: usize) -> Result<Vec<u8>, RenderError> {
    let report = input.report;
    let mut budget = Budget::new(bytes_max);
    let mut suites: Vec<TestSuite> = Vec::new();
    let mut suite_by_name: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries(report) {
        let suite_bytes = match suite_by_name.contains_key(entry.suite) {
            true => 0,
            false => SUITE_BYTES + xml_bytes(&xml(&line(entry.suite))),
        };
        let Some(case) = case(&entry, suite_bytes, &mut budget) else { continue };
        let index = *suite_by_name.entry(entry.suite).or_insert_with(|| {
            suites.push(TestSuite::new(xml(&line(entry.suite))));
            suites.len() - 1
        });
        let suite = &mut suites[index];
        let time = suite.time.unwrap_or_default() + case.time.unwrap_or_default();
        suite.set_time(time);
        suite.add_test_case(case);
    }
    let run = match suite_by_name.get(RUN_SUITE) {
        Some(index) => &mut suites[*index],
        None => {
            suites.push(TestSuite::new(RUN_SUITE));
            let last = suites.len() - 1;
            &mut suites[last]
        }
    };
    let left_out = budget.left_out().note(report);
    let run_id = Some(input.run_id).filter(|id| !id.is_empty()).map(str::to_owned);
    let properties = [
        ("outcome", Some(report.outcome.name().to_owned())),
        ("exit_code", Some(report.exit_code.to_string())),
        ("framework", Some(report.framework.clone())),
        ("headline", Some(headline(report))),
        ("run_id", run_id),
        ("left_out", left_out),
    ];
    for (name, value) in properties {
        run.properties.extend(value.map(|value| Property::new(format!("proctor.{name}"), xml(&line(&value)))));
    }
    let mut document = Report::new(RUN_SUITE);
    document.set_time(seconds(report.duration_s));
    if let Some(started_at) = date(report.started_at) {
        document.set_timestamp(started_at);
    }
    document.add_test_suites(suites);
    Ok(document.to_string()?.into_bytes())
}

/// The case of an entry, whose suite takes `suite_bytes` if it is new; `None` if there is no room.
fn case(entry: &Entry<'_>, suite_bytes: usize, budget: &mut Budget) -> Option<TestCase> {
    let (suite, name) = (xml(&line(entry.suite)), xml(&line(&entry.name)));
    let file = entry.file.map(|file| xml(&line(file)));
    let message = xml(&block(&entry.message));
    // In an attribute and in the element's text.
    let message_bytes = if entry.status == Status::Passed { 0 } else { 2 * xml_bytes(beginning(&message)) };
    let names: usize = [Some(&suite), Some(&suite), Some(&name), file.as_ref()]
        .into_iter()
        .flatten()
        .map(|name| xml_bytes(name))
        .sum();
    let is_xpassed = matches!(entry.subject, Subject::Test(test) if test.outcome == TestOutcome::Xpassed);
    let marks_bytes = (entry.marks().len() + usize::from(entry.is_failed_by_subtest())) * RERUN_BYTES;
    let result_bytes = if entry.status == Status::Passed && !is_xpassed { 0 } else { RESULT_BYTES } + marks_bytes;
    if !budget.take_entry(entry, suite_bytes + CASE_BYTES + names + result_bytes + message_bytes) {
        return None;
    }
    let mut status = match entry.status {
        Status::Passed => TestCaseStatus::success(),
        Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Status::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        Status::Skipped => TestCaseStatus::skipped(),
    };
    if entry.status != Status::Passed {
        status.set_type(entry.kind);
        status.set_message(beginning(message.lines().next().unwrap_or_default()));
        let message = budget.message(&message, xml_bytes(&message));
        let details =
            entry.details().map(|details| xml(&details)).filter(|details| budget.take_text(xml_bytes(details)));
        let text: Vec<&str> = [message, details.as_deref().unwrap_or_default()].into();
        let text = text.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n");
        if !text.is_empty() {
            status.set_description(text);
        }
        add_reruns(&mut status, entry, beginning(message), budget);
    }
    let mut case = TestCase::new(name, status);
    case.set_classname(suite);
    if let Some(duration_s) = entry.duration_s {
        case.set_time(seconds(duration_s));
    }
    let place = [("file", file), ("line", entry.line.map(|line| line.to_string()))];
    case.extra.extend(place.into_iter().filter_map(|(name, value)| Some((name.into(), value?.into()))));
    if entry.is_failed_by_subtest() {
        case.add_property(("proctor.failed_by_subtest", "true"));
    }
    if entry.is_new {
        case.add_property(("proctor.new", "true"));
    }
    if entry.is_quarantined {
        case.add_property(("proctor.quarantine", "true"));
    }
    if let Some(flaky) = entry.flaky {
        let counts = format!("failed {} of {} executions", flaky.failures, flaky.executions);
        case.add_property(("proctor.flaky", counts.as_str()));
    }
    if is_xpassed {
        case.add_property(("proctor.outcome", entry.kind));
    }
    // A success has no message, which a hint of a linter needs.
    let hint = matches!(entry.subject, Subject::Finding(_)) && entry.status == Status::Passed;
    let output = entry.output().map(|output| xml(&output)).or_else(|| hint.then(|| message.clone()));
    if let Some(output) = output.filter(|output| budget.take_text(OUTPUT_BYTES + xml_bytes(output))) {
        case.set_system_out(output);
    }
    Some(case)
}

/// Adds the failures of several executions as Surefire and nextest write them. A test that also passed has a `flakyFailure`
/// for each failed execution, beside its `failure`: no reader takes it for a success. One that only failed has a
/// `rerunFailure` for each failure behind the first.
fn add_reruns(status: &mut TestCaseStatus, entry: &Entry<'_>, message: &str, budget: &mut Budget) {
    let (kind, count) = match entry.flaky {
        Some(flaky) => (FlakyOrRerun::Flaky, flaky.failures),
        None => (FlakyOrRerun::Rerun, entry.failures.saturating_sub(1)),
    };
    if !entry.is_failure() || count == 0 {
        return;
    }
    let first = message.lines().next().unwrap_or_default();
    status.set_rerun_kind(kind);
    for number in 0..count.min(RERUNS_MAX) {
        let is_kept = number == 0 && kind == FlakyOrRerun::Flaky;
        let text = if is_kept { first } else { "failed again: the message of the first failure is kept" };
        if !budget.take_text(RERUN_BYTES + xml_bytes(text)) {
            return;
        }
        let mut rerun =
            TestRerun::new(if entry.status == Status::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure });
        rerun.set_type(entry.kind);
        rerun.set_message(text);
        status.add_rerun(rerun);
    }
}

/// Escapes what XML cannot hold even as a reference and printable text still has: noncharacters. The writer drops tabs, which
/// become spaces.
fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{fffe}' | '\u{ffff}' => safe.extend(c.escape_unicode()),
            '\t' => safe.push_str("    "),
            c => safe.push(c),
        }
    }
    safe
}

/// Bytes of a text in a document.
fn xml_bytes(text: &str) -> usize {
    let bytes = |c: char| match c {
        '&' => 5,
        '<' | '>' => 4,
        '"' | '\'' => 6,
        c => c.len_utf8(),
    };
    text.chars().map(bytes).sum()
}

// A time that a runner made up is none.
fn seconds(duration_s: f64) -> Duration {
    Duration::try_from_secs_f64(duration_s).unwrap_or_default()
}

fn date(time: Timestamp) -> Option<DateTime<Utc>> {
    i64::try_from(time.0).ok().and_then(DateTime::from_timestamp_millis)
}
