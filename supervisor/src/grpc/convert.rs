//! Conversions between wire and domain types: the one file that knows both. It decides nothing; `run_request` reports
//! mistakes of callers.

use super::convert_check::check_report;
use crate::host::checks::Check;
use crate::runs::CoveringLines;
use crate::sessions::QueueOptions;
use proctor_core::artifact::{Artifact, ArtifactKind};
use proctor_core::bounds::{ANSWER_NAMES_BYTES_MAX, DEFERRED_NAMED_MAX, UNTESTED_SPANS_MAX};
use proctor_core::coverage::{Attribution, LineSpan, count_lines};
use proctor_core::event::{Progress, Stream};
use proctor_core::failure::{Failure, LastRun};
use proctor_core::history::{SinceLastGreen, SinceLastRun, TestGroup};
use proctor_core::hung_test::HungTest;
use proctor_core::isolation::{Isolation, Network};
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::outcome::{Evidence, LimitHit, Outcome};
use proctor_core::queue::Priority;
use proctor_core::repetition::Repetitions;
use proctor_core::report::{CoverageSummary, Report, Resources, Summary};
use proctor_core::request::{CoverageMode, IfBusy, RerunTarget};
use proctor_core::selection::{AffectedSummary, AffectedTests, ReasonCount};
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use proctor_core::timestamp::Timestamp;
use proctor_core::untested::{UntestedLines, UntestedSpan};
use proctor_proto::v1;
use proctor_sandbox::Status;
use std::collections::BTreeSet;

/// Most packages or files without a known test in an answer.
const NEW_UNITS_MAX: usize = 200;

/// An outcome on the wire.
#[must_use]
pub fn outcome(outcome: Outcome) -> v1::Outcome {
    match outcome {
        Outcome::Cancelled => v1::Outcome::Cancelled,
        Outcome::TimedOut => v1::Outcome::TimedOut,
        Outcome::OutOfMemory => v1::Outcome::OutOfMemory,
        Outcome::DiskFull => v1::Outcome::DiskFull,
        Outcome::PidsExhausted => v1::Outcome::PidsExhausted,
        Outcome::OutputFlood => v1::Outcome::OutputFlood,
        Outcome::WorkerLost => v1::Outcome::WorkerLost,
        Outcome::Crashed => v1::Outcome::Crashed,
        Outcome::RunnerMissing => v1::Outcome::RunnerMissing,
        Outcome::BuildFailed => v1::Outcome::BuildFailed,
        Outcome::CollectionFailed => v1::Outcome::CollectionFailed,
        Outcome::Failed => v1::Outcome::Failed,
        Outcome::NoTests => v1::Outcome::NoTests,
        Outcome::Passed => v1::Outcome::Passed,
    }
}

/// A test's outcome on the wire.
#[must_use]
pub fn test_outcome(outcome: TestOutcome) -> v1::TestOutcome {
    match outcome {
        TestOutcome::Passed => v1::TestOutcome::Passed,
        TestOutcome::Failed => v1::TestOutcome::Failed,
        TestOutcome::Skipped => v1::TestOutcome::Skipped,
        TestOutcome::Xfailed => v1::TestOutcome::Xfailed,
        TestOutcome::Xpassed => v1::TestOutcome::Xpassed,
        TestOutcome::Error => v1::TestOutcome::Error,
    }
}

/// A test id on the wire.
#[must_use]
pub fn test_id(test: &TestId) -> v1::TestId {
    v1::TestId { package: test.package.clone(), name: test.name.clone() }
}

/// A finished test.
#[must_use]
pub fn test_case(test: &TestCase) -> v1::TestCase {
    v1::TestCase {
        nodeid: test.nodeid.clone(),
        package: test.package.clone(),
        name: test.name.clone(),
        outcome: test_outcome(test.outcome).into(),
        failed_by_subtest: test.failed_by_subtest,
        duration_s: test.duration_s,
        setup_s: test.setup_s,
        cpu_s: test.cpu_s,
        file: test.file.clone(),
        line: test.line,
        message: test.message.clone(),
        expected: test.expected.clone(),
        actual: test.actual.clone(),
        stack: test.stack.clone(),
        output: test.output.clone(),
    }
}

fn collector_kind(kind: CollectorKind) -> v1::CollectorKind {
    match kind {
        CollectorKind::Build => v1::CollectorKind::Build,
        CollectorKind::Collection => v1::CollectorKind::Collection,
    }
}

/// A build or collection error.
#[must_use]
pub fn collector(collector: &Collector) -> v1::Collector {
    v1::Collector {
        nodeid: collector.nodeid.clone(),
        kind: collector_kind(collector.kind).into(),
        file: collector.file.clone(),
        line: collector.line,
        message: collector.message.clone(),
        output: collector.output.clone(),
    }
}

/// The limits of a run.
#[must_use]
pub fn limits(limits: &Limits) -> v1::Limits {
    v1::Limits {
        memory_bytes: limits.memory_bytes_max,
        cpu_millis: limits.cpu_millis_max,
        pids: limits.pids_max,
        wall_ms: limits.wall_ms_max,
        grace_ms: limits.grace_ms,
        log_bytes: limits.log_bytes_max,
        tmp_bytes: limits.tmp_bytes_max,
        disk_bytes: limits.disk_bytes_max,
    }
}

/// The limits that a request sets: zero on the wire means unset.
#[must_use]
pub fn limit_request(limits: &v1::Limits) -> LimitRequest {
    LimitRequest {
        memory_bytes: (limits.memory_bytes > 0).then_some(limits.memory_bytes),
        cpu_millis: (limits.cpu_millis > 0).then_some(limits.cpu_millis),
        pids: (limits.pids > 0).then_some(limits.pids),
        wall_ms: (limits.wall_ms > 0).then_some(limits.wall_ms),
        disk_bytes: (limits.disk_bytes > 0).then_some(limits.disk_bytes),
    }
}

/// The network that a request sets.
#[must_use]
pub fn network_request(network: v1::Network) -> Option<Network> {
    match network {
        v1::Network::Unspecified => None,
        v1::Network::None => Some(Network::None),
        v1::Network::Host => Some(Network::Host),
    }
}

/// The coverage mode that a request sets.
#[must_use]
pub fn coverage_mode(mode: v1::CoverageMode) -> CoverageMode {
    match mode {
        v1::CoverageMode::Unspecified | v1::CoverageMode::Auto => CoverageMode::Auto,
        v1::CoverageMode::Off => CoverageMode::Off,
        v1::CoverageMode::On => CoverageMode::On,
    }
}

/// How a run waits in queues.
#[must_use]
pub fn queue_options(if_busy: v1::IfBusy, priority: v1::Priority) -> QueueOptions {
    QueueOptions {
        if_busy: match if_busy {
            v1::IfBusy::Unspecified | v1::IfBusy::Queue => IfBusy::Queue,
            v1::IfBusy::Refuse => IfBusy::Refuse,
        },
        priority: match priority {
            v1::Priority::Low => Priority::Low,
            v1::Priority::Unspecified | v1::Priority::Normal => Priority::Normal,
            v1::Priority::High => Priority::High,
        },
    }
}

/// The stream that a request names.
#[must_use]
pub fn stream_request(stream: v1::Stream) -> Option<Stream> {
    match stream {
        v1::Stream::Unspecified => None,
        v1::Stream::Stdout => Some(Stream::Stdout),
        v1::Stream::Stderr => Some(Stream::Stderr),
    }
}

/// A stream on the wire.
#[must_use]
pub fn stream(stream: Stream) -> v1::Stream {
    match stream {
        Stream::Stdout => v1::Stream::Stdout,
        Stream::Stderr => v1::Stream::Stderr,
    }
}

/// Layers and limits in force.
#[must_use]
pub fn isolation(isolation: &Isolation) -> v1::Isolation {
    let network = match isolation.network {
        Network::None => v1::Network::None,
        Network::Host => v1::Network::Host,
    };
    v1::Isolation {
        layers: isolation.layers.iter().map(|layer| layer.name().to_owned()).collect(),
        limits: isolation
            .limits
            .iter()
            .map(|limit| v1::LimitInForce {
                limit: limit.limit.name().to_owned(),
                max: limit.max,
                by: limit.by.clone(),
            })
            .collect(),
        missing: isolation
            .missing
            .iter()
            .map(|missing| v1::Missing {
                name: missing.name.clone(),
                reason: missing.reason.clone(),
                remedy: missing.remedy.clone(),
            })
            .collect(),
        network: network.into(),
    }
}

/// Counts of tests.
#[must_use]
pub fn summary(summary: &Summary) -> v1::Summary {
    v1::Summary {
        total: summary.total,
        passed: summary.passed,
        failed: summary.failed,
        skipped: summary.skipped,
        xfailed: summary.xfailed,
        xpassed: summary.xpassed,
        error: summary.error,
    }
}

fn resources(resources: &Resources) -> v1::Resources {
    v1::Resources {
        wall_s: resources.wall_s,
        cpu_user_s: resources.cpu_user_s,
        cpu_system_s: resources.cpu_system_s,
        memory_peak_bytes: resources.memory_peak_bytes,
        throttled_s: resources.throttled_s,
        pids_peak: resources.pids_peak,
        read_bytes: resources.read_bytes,
        written_bytes: resources.written_bytes,
        queue_wait_s: resources.queue_wait_s,
        setup_s: resources.setup_s,
        output_bytes: resources.output_bytes,
        cpu_pressure_s: resources.cpu_pressure_s,
        memory_pressure_s: resources.memory_pressure_s,
        io_pressure_s: resources.io_pressure_s,
    }
}

fn limit_hit(hit: &LimitHit) -> v1::LimitHit {
    v1::LimitHit { limit: hit.limit.name().to_owned(), max: hit.max, peak: hit.peak, count: hit.count }
}

fn evidence(evidence: &Evidence, not_run_left_out: u64) -> v1::Evidence {
    v1::Evidence {
        held: evidence.held.iter().map(|held| outcome(*held).into()).collect(),
        exit_code: evidence.exit_code,
        signal: evidence.signal,
        killed: evidence.killed.map_or_else(String::new, |reason| reason.name().to_owned()),
        limit_hits: evidence.limit_hits.iter().map(limit_hit).collect(),
        running: evidence.running.iter().map(test_id).collect(),
        tests_finished: evidence.tests_finished,
        notes: evidence.notes.clone(),
        not_run: evidence.not_run.iter().map(test_id).collect(),
        not_run_left_out,
        unreached: evidence.unreached,
        not_built: evidence.not_built.clone(),
        hung: evidence.hung.iter().map(hung_test).collect(),
    }
}

fn hung_test(hung: &HungTest) -> v1::HungTest {
    let HungTest { test, file, line, stack } = hung.clone();
    v1::HungTest { test: Some(test_id(&test)), file, line, stack }
}

fn attribution(attribution: Option<Attribution>) -> v1::Attribution {
    match attribution {
        None => v1::Attribution::Unspecified,
        Some(Attribution::Test) => v1::Attribution::Test,
        Some(Attribution::File) => v1::Attribution::File,
        Some(Attribution::Package) => v1::Attribution::Package,
    }
}

fn coverage(coverage: &CoverageSummary) -> v1::CoverageSummary {
    v1::CoverageSummary {
        measured: coverage.measured,
        attribution: attribution(coverage.attribution).into(),
        files: coverage.files,
        notes: coverage.notes.clone(),
    }
}

/// A report.
#[must_use]
pub fn report(report: &Report) -> v1::Report {
    v1::Report {
        outcome: outcome(report.outcome).into(),
        exit_code: report.exit_code,
        raw_exit_code: report.raw_exit_code,
        framework: report.framework.clone(),
        summary: Some(summary(&report.summary)),
        duration_s: report.duration_s,
        partial: report.partial,
        structured: report.structured,
        tests: report.tests.iter().map(test_case).collect(),
        collectors: report.collectors.iter().map(collector).collect(),
        evidence: Some(evidence(&report.evidence, report.truncated.not_run)),
        resources: Some(resources(&report.resources)),
        limits: Some(limits(&report.limits)),
        isolation: Some(isolation(&report.isolation)),
        coverage: Some(coverage(&report.coverage)),
        stdout_tail: report.stdout_tail.clone(),
        stderr_tail: report.stderr_tail.clone(),
        tests_left_out: report.truncated.tests,
        collectors_left_out: report.truncated.collectors,
        flaky_in_run: report.flaky_in_run,
        failed_parents: report.failed_parents,
        artifacts: report.artifacts.iter().map(artifact).collect(),
        since_last_run: report.since_last_run.as_ref().map(since_last_run),
        since_last_green: report.since_last_green.as_ref().map(since_last_green),
        repetitions: report.repetitions.as_ref().map(repetitions),
        is_scoped: report.is_scoped,
        quarantined: report.quarantined.as_ref().map(test_group),
        affected: report.affected.as_ref().map(affected),
        check: report.check.as_ref().map(|check| check_report(check, report.checked_since.as_deref())),
        untested: report.untested.as_ref().map(untested),
    }
}

/// Changed lines that no test executed.
#[must_use]
pub fn untested(untested: &UntestedLines) -> v1::UntestedLines {
    let span = |span: &UntestedSpan| v1::UntestedSpan {
        file: span.file.clone(),
        first_line: span.first,
        last_line: span.last,
        source: span.source.clone(),
    };
    v1::UntestedLines {
        since: untested.since.clone(),
        changed_lines: untested.changed_lines,
        executed_lines: untested.executed_lines,
        spans: untested.spans.iter().map(span).collect(),
        spans_left_out: untested.spans_left_out,
        not_loaded: untested.not_loaded.files.clone(),
        not_loaded_left_out: untested.not_loaded.left_out,
        not_known: untested.not_known.files.clone(),
        not_known_left_out: untested.not_known.left_out,
        has_processes: untested.has_processes,
    }
}

fn repetitions(repetitions: &Repetitions) -> v1::Repetitions {
    let &Repetitions { requested, executions, failed, retries, .. } = repetitions;
    let flaky = repetitions.flaky.iter().map(|flaky| v1::FlakyInRun {
        test: Some(test_id(&flaky.test)),
        executions: flaky.executions,
        failures: flaky.failures,
        rate: flaky.rate.rate,
        rate_low: flaky.rate.low,
        rate_high: flaky.rate.high,
        first_failure: flaky.first_failure,
        fastest_s: flaky.fastest_s,
        slowest_s: flaky.slowest_s,
        failed_after: flaky.failed_after.as_ref().map(test_id),
        seed: flaky.seed.clone().unwrap_or_default(),
    });
    v1::Repetitions { requested, executions, failed, retries, flaky: flaky.collect() }
}

pub(super) fn since_last_run(since: &SinceLastRun) -> v1::SinceLastRun {
    v1::SinceLastRun {
        run_id: since.run_id.clone(),
        ended_at_ms: since.ended_at.0,
        new: Some(test_group(&since.new)),
        fixed: Some(test_group(&since.fixed)),
        still_failing: Some(test_group(&since.still_failing)),
    }
}

pub(super) fn since_last_green(since: &SinceLastGreen) -> v1::SinceLastGreen {
    v1::SinceLastGreen {
        run_id: since.run_id.clone(),
        ended_at_ms: since.ended_at.0,
        runs: since.runs,
        failing: Some(test_group(&since.failing)),
    }
}

fn test_group(group: &TestGroup) -> v1::TestGroup {
    v1::TestGroup { total: group.total, tests: group.tests.iter().map(test_id).collect() }
}

fn artifact(artifact: &Artifact) -> v1::Artifact {
    let kind = match artifact.kind {
        ArtifactKind::Screenshot => v1::ArtifactKind::Screenshot,
        ArtifactKind::Trace => v1::ArtifactKind::Trace,
        ArtifactKind::Video => v1::ArtifactKind::Video,
        ArtifactKind::Other => v1::ArtifactKind::Other,
    };
    v1::Artifact {
        name: artifact.name.clone(),
        kind: kind.into(),
        size: artifact.bytes,
        test: artifact.test.as_ref().map(test_id),
    }
}

/// Progress of a run.
#[must_use]
pub fn progress(progress: &Progress) -> v1::Progress {
    v1::Progress {
        tests_finished: progress.tests_finished,
        tests_failed: progress.tests_failed,
        elapsed_ms: progress.elapsed_ms,
        memory_bytes: progress.memory_bytes,
        running: progress.running.as_ref().map(test_id),
        tests_total: progress.tests_total,
    }
}

fn failure(failure: &Failure) -> v1::Failure {
    v1::Failure {
        nodeid: failure.nodeid.clone(),
        test: failure.test.as_ref().map(test_id),
        file: failure.file.clone(),
        line: failure.line,
        message: failure.message.clone(),
        expected: failure.expected.clone(),
        actual: failure.actual.clone(),
        stack: failure.stack.clone(),
        output: failure.output.clone(),
        collector: failure.collector.map_or(v1::CollectorKind::Unspecified, collector_kind).into(),
    }
}

/// The failures of the last run, with their age at `now`.
#[must_use]
pub fn last_run(last: Option<&LastRun>, now: Timestamp) -> v1::LastTestFailuresResponse {
    let Some(last) = last else { return v1::LastTestFailuresResponse::default() };
    // Deferred failures are named up to what a text shows: they may be thousands, and were reported when they failed.
    let deferred = last.deferred.targets.iter().filter_map(|target| match target {
        RerunTarget::Test(test) => Some(test),
        RerunTarget::Package(_) | RerunTarget::Name(_) => None,
    });
    let not_run: Vec<&TestId> = last.not_run.iter().chain(deferred.take(DEFERRED_NAMED_MAX)).collect();
    v1::LastTestFailuresResponse {
        has_run: true,
        run_id: last.run.to_string(),
        framework: last.framework.clone(),
        outcome: outcome(last.outcome).into(),
        structured: last.structured,
        age_ms: now.ms_since(last.ended_at),
        summary: Some(summary(&last.summary)),
        failures: last.failures.iter().map(failure).collect(),
        total: last.total,
        running: last.running.iter().map(test_id).collect(),
        not_run: not_run.iter().copied().map(test_id).collect(),
        not_run_left_out: last.not_run_left_out + last.deferred.count() - (not_run.len() - last.not_run.len()) as u64,
        unreached: last.unreached || last.deferred.unreached,
        hung: last.hung.iter().map(hung_test).collect(),
        since_last_run: last.since_last_run.as_ref().map(since_last_run),
        since_last_green: last.since_last_green.as_ref().map(since_last_green),
    }
}

/// Bytes of a name on the wire beside its text: tags and lengths.
const NAME_OVERHEAD_BYTES: usize = 16;

// As many ids as `limit` and the size of one message allow.
fn bounded_ids<'a>(tests: impl Iterator<Item = &'a TestId>, limit: usize) -> Vec<v1::TestId> {
    let mut bytes = 0;
    let fits = |test: &&TestId| {
        bytes += test.package.len() + test.name.len() + NAME_OVERHEAD_BYTES;
        bytes <= ANSWER_NAMES_BYTES_MAX
    };
    tests.take(limit).take_while(fits).map(test_id).collect()
}

/// What a selection of affected tests found.
fn affected(summary: &AffectedSummary) -> v1::Affected {
    let count = |count: &ReasonCount| v1::ReasonCount { reason: count.reason.clone(), tests: count.tests };
    v1::Affected {
        since: summary.since.clone(),
        selected: summary.selected,
        left_out: summary.left_out,
        full_reason: summary.full_reason.clone(),
        safe_because: summary.safe_because.clone(),
        reasons: summary.reasons.iter().map(count).collect(),
    }
}

/// The answer of `AffectedTests`, with at most `limit` tests.
#[must_use]
pub fn affected_tests(found: &AffectedTests, limit: usize) -> v1::AffectedTestsResponse {
    let tests = bounded_ids(found.selected.iter().map(|selected| &selected.test), limit);
    let is_new = |unit: &&str| !found.selected.iter().any(|selected| selected.test.package == **unit);
    let units = found.targets.iter().filter_map(RerunTarget::package);
    v1::AffectedTestsResponse {
        reasons: found.selected.iter().take(tests.len()).map(|selected| selected.reason.to_string()).collect(),
        tests,
        full_run_reason: found.full_reason.as_ref().map(ToString::to_string),
        affected: Some(affected(&found.summary())),
        new_units: units.filter(is_new).take(NEW_UNITS_MAX).map(str::to_owned).collect(),
        notes: found.notes.clone(),
    }
}

/// The tests that execute a line or file, at most `limit` of them, or as many as one message can hold; empty before any
/// coverage was measured.
#[must_use]
pub fn covering(found: Option<&CoveringLines>, limit: usize) -> v1::TestsCoveringResponse {
    let Some(CoveringLines { found, range, lines }) = found else { return v1::TestsCoveringResponse::default() };
    let line_range = |span: &LineSpan| v1::LineRange { first_line: span.first, last_line: span.last };
    let not_executed = lines.as_ref().map_or(&[][..], |lines| &lines.not_executed);
    v1::TestsCoveringResponse {
        has_coverage: true,
        tests: bounded_ids(found.covering.tests.iter(), limit),
        total: found.covering.tests.len() as u64,
        attribution: attribution(found.covering.attribution).into(),
        file_changed: found.is_edited == Some(true),
        line_moved: found.is_moved,
        range: range.as_ref().map(line_range),
        executable_lines: lines.as_ref().map(|lines| lines.executable),
        not_executed_lines: count_lines(not_executed),
        not_executed: not_executed.iter().take(UNTESTED_SPANS_MAX).map(line_range).collect(),
    }
}

/// At most `limit` of the listed tests, or as many as one message can hold, and the number of those left out.
#[must_use]
pub fn listing(report: &Report, tests: &BTreeSet<TestId>, limit: usize) -> v1::ListTestsResponse {
    let listed = bounded_ids(tests.iter(), limit);
    v1::ListTestsResponse {
        framework: report.framework.clone(),
        left_out: (tests.len() - listed.len()) as u64,
        tests: listed,
        collectors: report.collectors.iter().map(collector).collect(),
        outcome: outcome(report.outcome).into(),
        partial: report.partial,
    }
}

/// One check of the host.
#[must_use]
pub fn check(check: &Check) -> v1::Check {
    let status = match check.status {
        Status::Usable => v1::CheckStatus::Usable,
        Status::Present => v1::CheckStatus::Present,
        Status::Missing => v1::CheckStatus::Missing,
    };
    v1::Check {
        group: check.group.to_owned(),
        name: check.name.clone(),
        status: status.into(),
        detail: check.detail.clone(),
        remedy: check.remedy.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use proctor_core::outcome::KillReason;
    use prost::Message;

    #[test]
    fn a_listing_of_long_names_fits_into_one_message_and_counts_what_it_leaves_out() {
        let name =
            |number: usize| TestId { package: "p".repeat(4_096), name: format!("{number:05}{}", "n".repeat(4_000)) };
        let report = without_running(Timestamp(0), Limits::DEFAULT, "go", KillReason::Cancelled, "");
        let tests: BTreeSet<TestId> = (0..9_000).map(name).collect();
        let long = listing(&report, &tests, 100_000);
        assert!(long.encoded_len() + (8 << 20) <= proctor_proto::MESSAGE_BYTES_MAX, "{}", long.encoded_len());
        assert!(long.tests.len() > 5_000, "{}", long.tests.len());
        assert_eq!(long.left_out, (tests.len() - long.tests.len()) as u64);
        assert_eq!(listing(&report, &tests, 10).left_out, 8_990);
    }
}
