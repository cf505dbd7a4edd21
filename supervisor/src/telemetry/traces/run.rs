//! The spans of a run: its wait, scan and preparation, and for each execution the worker's set-up, the runner and the
//! parsing of what it left; at last its conclusion. The run is a child of the request that started it, and outlives
//! it.

use super::{TARGET, context};
use crate::runs::RunEnd;
use opentelemetry::KeyValue;
use proctor_core::bounds::{TRACE_EXECUTIONS_MAX, TRACE_TESTS_MAX, TRACE_TEXT_BYTES_MAX, clip};
use proctor_core::event::RunEvent;
use proctor_core::isolation::Isolation;
use proctor_core::outcome::Outcome;
use proctor_core::redact::redact;
use proctor_core::report::Report;
use proctor_core::request::RunKind;
use proctor_core::test_case::{TestCase, TestOutcome};
use proctor_proto::printable;
use proctor_sandbox::{Ending, SandboxError};
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The spans of a scan for a request or for a run that has waited, below the span of the one or of the other.
#[derive(Debug)]
pub struct ScanTrace {
    parent: Span,
    scan: Span,
}

impl ScanTrace {
    /// Begins the wait for a scan, and the scan.
    #[must_use]
    pub fn new(parent: &Span) -> ScanTrace {
        if parent.is_disabled() {
            return ScanTrace { parent: Span::none(), scan: Span::none() };
        }
        let scan = tracing::info_span!(target: TARGET, parent: parent, "scan");
        ScanTrace { parent: parent.clone(), scan }
    }

    /// Ends the scan.
    pub fn scanned(&self) {
        // The layer takes the time of the last exit for the end.
        self.scan.in_scope(|| ());
    }

    /// Runs `prepare` in a span of its own.
    pub fn prepare<T, E>(&self, prepare: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.parent.is_disabled() {
            return prepare();
        }
        let span =
            tracing::info_span!(target: TARGET, parent: &self.parent, "prepare", otel.status_code = field::Empty);
        let prepared = span.in_scope(prepare);
        if prepared.is_err() {
            span.record("otel.status_code", "ERROR");
        }
        prepared
    }
}

/// The spans of a run. The default records nothing.
#[derive(Debug)]
pub struct RunTrace {
    run: Span,
    /// From the acceptance of the run to its turn on the host.
    wait: Span,
    executions: usize,
    tests: TestEvents,
}

impl Default for RunTrace {
    fn default() -> RunTrace {
        RunTrace { run: Span::none(), wait: Span::none(), executions: 0, tests: TestEvents::default() }
    }
}

impl RunTrace {
    /// Begins the spans of a run that was accepted for the call of `request`.
    #[must_use]
    pub fn new(request: &Span, tenant: &str, session: &str, run: &str, kind: RunKind) -> RunTrace {
        let span = tracing::info_span!(
            target: TARGET,
            parent: None,
            "run",
            otel.status_code = field::Empty,
            otel.status_description = field::Empty,
            error.type = field::Empty,
            cicd.pipeline.name = field::Empty,
            cicd.pipeline.run.id = run,
            cicd.pipeline.result = field::Empty,
            test.suite.run.status = field::Empty,
            proctor.run.id = run,
            proctor.run.kind = match kind {
                RunKind::Tests => "tests",
                RunKind::Listing => "listing",
                RunKind::Check => "check",
            },
            proctor.session.id = session,
            proctor.tenant = tenant,
            proctor.outcome = field::Empty,
            proctor.tests.total = field::Empty,
            proctor.tests.failed = field::Empty,
            proctor.tests.left_out = field::Empty,
            proctor.executions.left_out = field::Empty,
        );
        if span.is_disabled() {
            return RunTrace::default();
        }
        if let Some(request) = context::of_span(request) {
            context::set_parent(&span, request);
        }
        let wait = tracing::info_span!(target: TARGET, parent: &span, "queue wait");
        RunTrace { run: span, wait, ..RunTrace::default() }
    }

    /// The part for the driver, which ends the wait. The session keeps the span of the run.
    #[must_use]
    pub fn for_driver(&mut self) -> RunTrace {
        let wait = std::mem::replace(&mut self.wait, Span::none());
        RunTrace { run: self.run.clone(), wait, ..RunTrace::default() }
    }

    /// The span of the run.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.run
    }

    /// The run has its turn.
    pub fn end_wait(&mut self) {
        self.wait = Span::none();
    }

    /// The context of the run for its processes, as the variable `TRACEPARENT` has it; `None` if nothing records it.
    #[must_use]
    pub fn traceparent(&self) -> Option<String> {
        context::traceparent(&self.run)
    }

    /// Begins one execution of the runner's commands with the set-up of its worker.
    #[must_use]
    pub fn execution(&mut self) -> ExecutionTrace<'_> {
        let mut worker = Span::none();
        if !self.run.is_disabled() {
            self.executions += 1;
            if self.executions <= TRACE_EXECUTIONS_MAX {
                worker = tracing::info_span!(
                    target: TARGET, parent: &self.run, "worker set-up", otel.status_code = field::Empty
                );
            }
        }
        ExecutionTrace { run: &self.run, worker, runner: Span::none(), tests: &mut self.tests }
    }

    /// Runs `parse`, which reads the files that the runner left, in a span of its own.
    pub fn parse(&mut self, parse: impl FnOnce() -> Vec<RunEvent>) -> Vec<RunEvent> {
        if self.run.is_disabled() || self.executions > TRACE_EXECUTIONS_MAX {
            return parse();
        }
        let span = tracing::info_span!(target: TARGET, parent: &self.run, "parse");
        let events = parse();
        self.tests.record(&span, &events);
        events
    }

    /// Begins the conclusion: the report, the history, and what the session learns.
    #[must_use]
    pub fn conclude(&self) -> Span {
        if self.run.is_disabled() {
            return Span::none();
        }
        if self.tests.left_out > 0 {
            self.run.record("proctor.tests.left_out", self.tests.left_out);
        }
        if let Some(left_out) = self.executions.checked_sub(TRACE_EXECUTIONS_MAX).filter(|left_out| *left_out > 0) {
            self.run.record("proctor.executions.left_out", left_out);
        }
        tracing::info_span!(target: TARGET, parent: &self.run, "conclude")
    }

    /// Ends the run.
    pub fn finish(mut self, end: &RunEnd) {
        self.end_wait();
        if self.run.is_disabled() {
            return;
        }
        match end {
            RunEnd::Report(report) => self.record_report(report),
            RunEnd::NotStarted(_) => {
                // The reason may name what the caller asked for; its kind is enough here.
                self.run
                    .record("cicd.pipeline.result", "error")
                    .record("proctor.outcome", "not_started")
                    .record("error.type", "not_started")
                    .record("otel.status_code", "ERROR");
            }
        }
    }

    fn record_report(&self, report: &Report) {
        let outcome = report.outcome;
        self.run
            .record("cicd.pipeline.name", report.framework.as_str())
            .record("cicd.pipeline.result", pipeline_result(outcome))
            .record("test.suite.run.status", suite_status(outcome))
            .record("proctor.outcome", outcome.name())
            .record("proctor.tests.total", report.summary.total)
            .record("proctor.tests.failed", report.summary.failures());
        if outcome != Outcome::Passed {
            self.run.record("otel.status_code", "ERROR").record("otel.status_description", outcome.name());
            self.run.record("error.type", outcome.name());
        }
    }
}

/// `cicd.pipeline.result` of the semantic conventions.
fn pipeline_result(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "success",
        Outcome::Cancelled => "cancellation",
        Outcome::TimedOut => "timeout",
        Outcome::NoTests => "skip",
        Outcome::WorkerLost | Outcome::RunnerMissing | Outcome::DiskFull => "error",
        _ => "failure",
    }
}

/// `test.suite.run.status` of the semantic conventions.
fn suite_status(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "success",
        Outcome::TimedOut => "timed_out",
        Outcome::NoTests => "skipped",
        Outcome::Cancelled | Outcome::WorkerLost => "aborted",
        _ => "failure",
    }
}

/// The spans of one execution: the set-up of its worker, then its runner.
#[derive(Debug)]
pub struct ExecutionTrace<'a> {
    run: &'a Span,
    worker: Span,
    runner: Span,
    tests: &'a mut TestEvents,
}

impl ExecutionTrace<'_> {
    /// Every layer and limit is in force: the worker is ready and the runner starts.
    pub fn started(&mut self, isolation: &Isolation) {
        let worker = std::mem::replace(&mut self.worker, Span::none());
        if worker.is_disabled() {
            return;
        }
        for layer in &isolation.layers {
            worker.add_event("layer", vec![KeyValue::new("proctor.layer", layer.name())]);
        }
        for missing in &isolation.missing {
            worker.add_event("missing", vec![KeyValue::new("proctor.layer", missing.name.clone())]);
        }
        self.runner = tracing::info_span!(
            target: TARGET,
            parent: self.run,
            "runner",
            otel.status_code = field::Empty,
            error.type = field::Empty,
        );
    }

    /// Records the tests among events of the run.
    pub fn record(&mut self, events: &[RunEvent]) {
        if !self.run.is_disabled() {
            self.tests.record(&self.runner, events);
        }
    }

    /// The processes of the execution have ended.
    pub fn ended(&mut self, ending: Result<&Ending, &SandboxError>) {
        match ending {
            Err(_) => _ = self.worker.record("otel.status_code", "ERROR"),
            Ok(ending) => {
                let reason = ending.killed.map(|reason| reason.name()).or(ending.worker_lost.then_some("worker_lost"));
                if let Some(reason) = reason {
                    self.runner.record("otel.status_code", "ERROR").record("error.type", reason);
                }
            }
        }
    }
}

/// The tests of a run that are events of its spans: half of the places are for failures.
#[derive(Debug, Default)]
struct TestEvents {
    recorded: usize,
    left_out: u64,
}

impl TestEvents {
    fn record(&mut self, span: &Span, events: &[RunEvent]) {
        for event in events {
            if let RunEvent::TestFinished(case) = event {
                self.record_test(span, case);
            }
        }
    }

    fn record_test(&mut self, span: &Span, case: &TestCase) {
        let max = if case.outcome.is_failure() { TRACE_TESTS_MAX } else { TRACE_TESTS_MAX / 2 };
        if self.recorded >= max || span.is_disabled() {
            self.left_out += 1;
            return;
        }
        self.recorded += 1;
        let text = |text: &str| clip(printable::line(&redact(text)).into_owned(), TRACE_TEXT_BYTES_MAX);
        let status = match case.outcome {
            TestOutcome::Failed | TestOutcome::Error => Some("fail"),
            TestOutcome::Passed | TestOutcome::Xfailed | TestOutcome::Xpassed => Some("pass"),
            // The conventions have no word for it.
            TestOutcome::Skipped => None,
        };
        let mut attributes = vec![
            KeyValue::new("test.case.name", text(&case.name)),
            KeyValue::new("test.suite.name", text(&case.package)),
            KeyValue::new("proctor.outcome", case.outcome.name()),
        ];
        attributes.extend(status.map(|status| KeyValue::new("test.case.result.status", status)));
        attributes.extend(case.duration_s.map(|seconds| KeyValue::new("proctor.test.duration_s", seconds)));
        span.add_event("test", attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_recording_nothing_is_open_and_a_run_has_no_context() {
        let mut trace = RunTrace::new(&Span::none(), "acme", "s", "s-1", RunKind::Tests);
        assert!(trace.span().is_disabled() && trace.traceparent().is_none() && trace.conclude().is_disabled());
        let mut execution = trace.execution();
        execution.started(&Isolation::default());
        assert!(execution.worker.is_disabled() && execution.runner.is_disabled());
        assert!(trace.for_driver().span().is_disabled());
        assert_eq!(ScanTrace::new(&Span::none()).prepare(|| Ok::<_, ()>(7)), Ok(7));
    }

    #[test]
    fn every_outcome_has_a_result_of_the_conventions() {
        let results = ["success", "failure", "timeout", "skip", "cancellation", "error"];
        let statuses = ["success", "failure", "skipped", "aborted", "timed_out"];
        for outcome in Outcome::ALL {
            assert!(results.contains(&pipeline_result(outcome)) && statuses.contains(&suite_status(outcome)));
            assert_eq!(pipeline_result(outcome) == "success", outcome == Outcome::Passed);
        }
    }
}
