//! The whole report as JSON: proctor's own record, and beside it the fields of the plugin pytest-json-report (`created`,
//! `exitcode`, `call`, …) for the programs that read those, whatever the framework. Documents:
//! github.com/numirias/pytest-json-report, "Format".
//!
//! What proctor does not know is not claimed: there is no `lineno`, where a test begins, and `call` is all of a test but
//! the set-up and tear-down that a runner tells apart. The record is never cut for them: tests that they have no room for are counted.

use super::{RenderError, ReportInput};
use proctor_core::report::{CoverageSummary, Report, Resources, Summary, Truncated};
use proctor_core::test_case::{Collector, TestCase, TestOutcome};
use proctor_core::usage_samples::UsageSample;
use serde::Serialize;

/// Most bytes of the fields that other programs read, beside those that are proctor's own: what is left of a message
/// when every list of the report is as large as it may be.
const BESIDE_BYTES_MAX: usize = 3 * 1_024 * 1_024;

/// Bytes of the phase of a test without its texts.
const PHASE_BYTES: usize = 80;

pub(super) fn render(input: ReportInput<'_>) -> Result<Vec<u8>, RenderError> {
    Ok(serde_json::to_vec(&document(input.report))?)
}

/// The document as a value to serialize.
#[must_use]
pub fn document(report: &Report) -> impl Serialize {
    let mut room = Room { bytes: BESIDE_BYTES_MAX, calls_left_out: 0, texts_left_out: 0 };
    let Report {
        outcome,
        exit_code,
        raw_exit_code,
        framework,
        summary,
        failed_parents,
        flaky_in_run,
        duration_s,
        started_at,
        ended_at,
        partial,
        is_scoped,
        structured,
        tests,
        collectors,
        evidence,
        resources,
        usage,
        limits,
        isolation,
        coverage,
        stdout_tail,
        stderr_tail,
        artifacts,
        since_last_run,
        since_last_green,
        repetitions,
        quarantined,
        affected,
        untested,
        check,
        checked_since,
        truncated,
    } = report;
    let tests = tests.iter().map(|test| document_test(test, &mut room)).collect();
    let collectors = collectors.iter().map(|collector| document_collector(collector, &mut room)).collect();
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^52")]
    let created = ended_at.0 as f64 / 1_000.0;
    Document {
        outcome: *outcome,
        exit_code: *exit_code,
        raw_exit_code: *raw_exit_code,
        framework,
        summary: DocumentSummary { counts: *summary, collected: (!partial).then_some(summary.total) },
        failed_parents: *failed_parents,
        flaky_in_run: *flaky_in_run,
        duration_s: *duration_s,
        started_at: *started_at,
        ended_at: *ended_at,
        partial: *partial,
        is_scoped: *is_scoped,
        structured: *structured,
        created,
        duration: *duration_s,
        exitcode: *exit_code,
        // Paths are relative to the workspace, and where it is on the host is nobody's business.
        root: ".",
        environment: Environment { framework },
        tests,
        collectors,
        evidence,
        resources: *resources,
        usage,
        limits,
        isolation,
        coverage,
        stdout_tail,
        stderr_tail,
        artifacts,
        since_last_run: since_last_run.as_ref(),
        since_last_green: since_last_green.as_ref(),
        repetitions: repetitions.as_ref(),
        quarantined: quarantined.as_ref(),
        affected: affected.as_ref(),
        untested: untested.as_ref(),
        check: check.as_ref(),
        checked_since: checked_since.as_deref(),
        truncated: DocumentTruncated {
            counts: *truncated,
            calls: room.calls_left_out,
            call_texts: room.texts_left_out,
        },
    }
}

#[derive(Serialize)]
struct Document<'a> {
    outcome: proctor_core::outcome::Outcome,
    exit_code: i32,
    raw_exit_code: Option<i32>,
    framework: &'a str,
    summary: DocumentSummary,
    failed_parents: u64,
    flaky_in_run: u64,
    duration_s: f64,
    started_at: proctor_core::timestamp::Timestamp,
    ended_at: proctor_core::timestamp::Timestamp,
    partial: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_scoped: bool,
    structured: bool,
    created: f64,
    duration: f64,
    exitcode: i32,
    root: &'static str,
    environment: Environment<'a>,
    tests: Vec<DocumentTest<'a>>,
    collectors: Vec<DocumentCollector<'a>>,
    evidence: &'a proctor_core::outcome::Evidence,
    resources: Resources,
    #[serde(skip_serializing_if = "<[UsageSample]>::is_empty")]
    usage: &'a [UsageSample],
    limits: &'a proctor_core::limits::Limits,
    isolation: &'a proctor_core::isolation::Isolation,
    coverage: &'a CoverageSummary,
    stdout_tail: &'a str,
    stderr_tail: &'a str,
    artifacts: &'a [proctor_core::artifact::Artifact],
    #[serde(skip_serializing_if = "Option::is_none")]
    since_last_run: Option<&'a proctor_core::history::SinceLastRun>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since_last_green: Option<&'a proctor_core::history::SinceLastGreen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repetitions: Option<&'a proctor_core::repetition::Repetitions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantined: Option<&'a proctor_core::history::TestGroup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affected: Option<&'a proctor_core::selection::AffectedSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    untested: Option<&'a proctor_core::untested::UntestedLines>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'a proctor_core::check::CheckReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checked_since: Option<&'a str>,
    truncated: DocumentTruncated,
}

#[derive(Serialize)]
struct DocumentTruncated {
    #[serde(flatten)]
    counts: Truncated,
    /// Listed tests without `call`.
    #[serde(skip_serializing_if = "is_zero")]
    calls: u64,
    /// Tests whose `call` has no `crash` and `longrepr`, and collectors without `longrepr`, for which there is no room.
    #[serde(skip_serializing_if = "is_zero")]
    call_texts: u64,
}

#[derive(Serialize)]
struct DocumentSummary {
    #[serde(flatten)]
    counts: Summary,
    /// Not known of a run that was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    collected: Option<u64>,
}

#[derive(Serialize)]
struct Environment<'a> {
    framework: &'a str,
}

#[derive(Serialize)]
struct DocumentTest<'a> {
    #[serde(flatten)]
    test: &'a TestCase,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Phase<'a>>,
}

#[derive(Serialize)]
struct Phase<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    crash: Option<Crash<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longrepr: Option<String>,
}

#[derive(Serialize)]
struct Crash<'a> {
    path: &'a str,
    lineno: u32,
    message: &'a str,
}

#[derive(Serialize)]
struct DocumentCollector<'a> {
    #[serde(flatten)]
    collector: &'a Collector,
    outcome: &'static str,
    result: [(); 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    longrepr: Option<&'a str>,
}

fn document_test<'a>(test: &'a TestCase, room: &mut Room) -> DocumentTest<'a> {
    let outcome = match test.outcome {
        TestOutcome::Passed | TestOutcome::Xpassed => "passed",
        TestOutcome::Skipped | TestOutcome::Xfailed => "skipped",
        TestOutcome::Failed | TestOutcome::Error => "failed",
    };
    let call = room.take_call().then(|| {
        let texts = [test.message.as_deref(), test.stack.as_deref()];
        let longrepr = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        let crash = test.outcome.is_failure().then(|| crash(test)).flatten();
        // A control character takes six bytes.
        let bytes = 6 * (longrepr.len() + crash.as_ref().map_or(0, |crash| crash.path.len() + crash.message.len()));
        let fits = bytes == 0 || room.take_text(bytes + PHASE_BYTES);
        Phase {
            duration: test.duration_s.map(|seconds| seconds - test.setup_s.unwrap_or_default()),
            outcome,
            crash: crash.filter(|_| fits),
            longrepr: Some(longrepr).filter(|text| fits && !text.is_empty()),
        }
    });
    DocumentTest { test, call }
}

fn crash(test: &TestCase) -> Option<Crash<'_>> {
    let message = test.message.as_deref().unwrap_or_default();
    Some(Crash { path: test.file.as_deref()?, lineno: test.line?, message: message.lines().next().unwrap_or_default() })
}

fn document_collector<'a>(collector: &'a Collector, room: &mut Room) -> DocumentCollector<'a> {
    let longrepr = Some(collector.message.as_str()).filter(|text| room.take_text(6 * text.len() + PHASE_BYTES));
    DocumentCollector { collector, outcome: "failed", result: [], longrepr }
}

/// What is left for the fields that other programs read, and what did not fit.
struct Room {
    bytes: usize,
    calls_left_out: u64,
    texts_left_out: u64,
}

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    fn take_call(&mut self) -> bool {
        let fits = self.take(PHASE_BYTES);
        self.calls_left_out += u64::from(!fits);
        fits
    }

    fn take_text(&mut self, bytes: usize) -> bool {
        let fits = self.take(bytes);
        self.texts_left_out += u64::from(!fits);
        fits
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
