//! The whole report as JSON: proctor's own record, and beside it the fields of the plugin pytest-json-report (`created`,
//! `exitcode`, `call`, …) for the programs that read those, whatever the framework. Documents:
//! github.com/numirias/pytest-json-report, "Format".
//!
//! What proctor does not know is not claimed: `lineno`, where a test begins, is null, and `call` stands for all phases of a
//! test, as runners do not tell them apart.

use super::{RenderError, ReportInput};
use proctor_core::report::{CoverageSummary, Report, Resources, Summary, Truncated};
use proctor_core::test_case::{Collector, TestCase};
use serde::Serialize;

/// Most bytes of the fields that other programs read, beside those that are proctor's own: what is left of a message
/// when every list of the report is as large as it may be.
const BESIDE_BYTES_MAX: usize = 6 * 1_024 * 1_024;

/// Bytes of the phase of a test without its texts.
const PHASE_BYTES: usize = 80;

pub(super) fn render(input: ReportInput<'_>) -> Result<Vec<u8>, RenderError> {
    Ok(serde_json::to_vec(&document(input.report))?)
}

/// The document as a value to serialize.
#[must_use]
pub fn document(report: &Report) -> impl Serialize {
    let mut budget = BESIDE_BYTES_MAX;
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
        truncated,
    } = report;
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
        tests: tests.iter().map(|test| document_test(test, &mut budget)).collect(),
        collectors: collectors.iter().map(|collector| document_collector(collector, &mut budget)).collect(),
        evidence,
        resources: *resources,
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
        truncated: *truncated,
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
    truncated: Truncated,
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
    lineno: Option<u32>,
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

fn document_test<'a>(test: &'a TestCase, budget: &mut usize) -> DocumentTest<'a> {
    let outcome = match test.outcome.name() {
        "passed" | "xpassed" => "passed",
        "skipped" | "xfailed" => "skipped",
        _ => "failed",
    };
    let call = take(budget, PHASE_BYTES).then(|| {
        let texts = [test.message.as_deref(), test.stack.as_deref()];
        let longrepr = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        let crash = test.outcome.is_failure().then(|| crash(test)).flatten();
        // A control character takes six bytes.
        let bytes = 6 * (longrepr.len() + crash.as_ref().map_or(0, |crash| crash.path.len() + crash.message.len()));
        let fits = take(budget, bytes);
        Phase {
            duration: test.duration_s,
            outcome,
            crash: crash.filter(|_| fits),
            longrepr: Some(longrepr).filter(|text| fits && !text.is_empty()),
        }
    });
    DocumentTest { test, lineno: None, call }
}

fn crash(test: &TestCase) -> Option<Crash<'_>> {
    let message = test.message.as_deref().unwrap_or_default();
    Some(Crash { path: test.file.as_deref()?, lineno: test.line?, message: message.lines().next().unwrap_or_default() })
}

fn document_collector<'a>(collector: &'a Collector, budget: &mut usize) -> DocumentCollector<'a> {
    let longrepr = Some(collector.message.as_str()).filter(|text| take(budget, 6 * text.len() + PHASE_BYTES));
    DocumentCollector { collector, outcome: "failed", result: [], longrepr }
}

fn take(budget: &mut usize, bytes: usize) -> bool {
    let left = budget.checked_sub(bytes);
    *budget = left.unwrap_or(*budget);
    left.is_some()
}
