//! Counters of the supervisor since its start. They are atomics behind one handle: no caller waits for another, and a
//! scrape reads them without stopping anybody.

use crate::runs::{NotStarted, RunEnd};
use proctor_core::histogram::Histogram;
use proctor_core::outcome::{KillReason, Outcome};
use proctor_core::report::Report;
use proctor_core::request::RunKind;
use proctor_frameworks::FRAMEWORKS;
use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Code;

/// Every method that is counted by name, in the order of the counters. All others count as [`OTHER`].
pub const METHODS: [&str; 26] = [
    "Sessions/CreateSession",
    "Sessions/GetSession",
    "Sessions/ListSessions",
    "Sessions/CloseSession",
    "Runs/RunTests",
    "Runs/RunFailingTests",
    "Runs/RunAffectedTests",
    "Runs/RunChecks",
    "Runs/WatchRun",
    "Runs/GetRun",
    "Runs/CancelRun",
    "Runs/ReadOutput",
    "Runs/ReadArtifact",
    "Results/ListTests",
    "Results/LastTestFailures",
    "Results/TestsCovering",
    "Results/AffectedTests",
    "Results/AnalyzeFailures",
    "Results/History",
    "Results/GetReport",
    "Host/GetHost",
    "Host/ListTenants",
    "Host/ListAllSessions",
    "Host/ListRuns",
    "Host/StopRun",
    "Host/Drain",
];

/// Every quota that a refusal names, in the order of the counters. All others count as [`OTHER`].
pub const QUOTAS: [&str; 19] = [
    "queued_runs",
    "host_queued_runs",
    "host_tenants",
    "kept",
    "kept_memory",
    "cache",
    "running_runs",
    "memory",
    "cpus",
    "tenant",
    "requests_per_second",
    "request_bytes",
    "answer_bytes",
    "subscribers",
    "sessions_max",
    "host.sessions_max",
    "session_looks",
    "session_queued_runs",
    "run_readers",
];

/// Label value of whatever has no name of its own.
pub const OTHER: &str = "other";

/// Label value of a run without a framework: one of a command, or one that ended before it was prepared.
pub const NO_FRAMEWORK: &str = "none";

/// Names of the codes of gRPC, by number.
pub const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Upper bounds of the times of calls, in seconds: most answers take well under a millisecond, a listing seconds.
const CALL_BOUNDS_S: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0];

/// Upper bounds of waits and durations of runs, in seconds, up to the longest run of the built-in limits.
const RUN_BOUNDS_S: &[f64] = &[0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0];

/// A fixed number of counters.
#[derive(Debug)]
struct CounterRow(Box<[AtomicU64]>);

impl CounterRow {
    fn new(len: usize) -> CounterRow {
        CounterRow((0..len).map(|_| AtomicU64::new(0)).collect())
    }

    fn increment(&self, index: usize) {
        if let Some(counter) = self.0.get(index) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn values(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|counter| counter.load(Ordering::Relaxed))
    }
}

/// Position of `name` in `names`, or the one after the last.
fn index_of(names: &[&str], name: &str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or(names.len())
}

/// Ended runs of one kind or of one tenant by outcome.
#[derive(Debug)]
pub struct OutcomeCounters(CounterRow);

impl Default for OutcomeCounters {
    fn default() -> OutcomeCounters {
        OutcomeCounters(CounterRow::new(Outcome::ALL.len()))
    }
}

impl OutcomeCounters {
    fn increment(&self, outcome: Outcome) {
        self.0.increment(outcome_index(outcome));
    }

    /// Every outcome and its number of runs.
    pub fn counts(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.0.values())
    }
}

fn outcome_index(outcome: Outcome) -> usize {
    Outcome::ALL.iter().position(|other| *other == outcome).unwrap_or(Outcome::ALL.len())
}

/// The counters of a supervisor.
#[derive(Debug)]
pub struct Counters {
    /// Times of calls: for each method a histogram of each code.
    calls: Box<[Histogram]>,
    refusals: CounterRow,
    /// Ended test runs: for each framework, and for none, a counter of each outcome.
    runs: CounterRow,
    /// Ended checks by linters and type checkers.
    pub checks: OutcomeCounters,
    not_started: AtomicU64,
    kills: CounterRow,
    workers_lost: AtomicU64,
    scans: AtomicU64,
    /// From the acceptance of a run to its start.
    pub queue_wait: Histogram,
    /// From the start of a run to its end.
    pub run_duration: Histogram,
    /// From the start of a check to its end.
    pub check_duration: Histogram,
}

impl Default for Counters {
    fn default() -> Counters {
        let calls = (0..(METHODS.len() + 1) * CODES.len()).map(|_| Histogram::new(CALL_BOUNDS_S)).collect();
        Counters {
            calls,
            refusals: CounterRow::new(QUOTAS.len() + 1),
            runs: CounterRow::new((FRAMEWORKS.len() + 1) * Outcome::ALL.len()),
            checks: OutcomeCounters::default(),
            not_started: AtomicU64::new(0),
            kills: CounterRow::new(KillReason::ALL.len()),
            workers_lost: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            queue_wait: Histogram::new(RUN_BOUNDS_S),
            run_duration: Histogram::new(RUN_BOUNDS_S),
            check_duration: Histogram::new(RUN_BOUNDS_S),
        }
    }
}

impl Counters {
    /// Counts a call of `method` (`Service/Method`) that was answered with `code` after `us` microseconds.
    pub fn record_call(&self, method: &str, code: Code, us: u64) {
        let code = usize::try_from(i32::from(code)).unwrap_or(CODES.len());
        if let Some(times) = self.calls.get(index_of(&METHODS, method) * CODES.len() + code) {
            times.record_us(us);
        }
    }

    /// Counts a request that was refused because `quota` is used up.
    pub fn record_refusal(&self, quota: &str) {
        self.refusals.increment(index_of(&QUOTAS, quota));
    }

    /// Counts a workspace scan.
    pub fn record_scan(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a run; `tenant` counts it too.
    pub fn record_run(&self, end: &RunEnd, kind: RunKind, tenant: &OutcomeCounters) {
        match end {
            RunEnd::Report(report) => {
                self.record_limits(report);
                match kind {
                    RunKind::Tests => self.record_tests(report, tenant),
                    RunKind::Check => {
                        self.checks.increment(report.outcome);
                        self.check_duration.record_s(report.duration_s);
                    }
                    RunKind::Listing => {}
                }
            }
            RunEnd::NotStarted(why) => {
                self.not_started.fetch_add(1, Ordering::Relaxed);
                if let NotStarted::Quota(exceeded) = why {
                    self.record_refusal(exceeded.quota());
                }
            }
        }
    }

    fn record_tests(&self, report: &Report, tenant: &OutcomeCounters) {
        let framework = FRAMEWORKS.iter().position(|framework| framework.name() == report.framework);
        let row = framework.unwrap_or(FRAMEWORKS.len());
        self.runs.increment(row * Outcome::ALL.len() + outcome_index(report.outcome));
        tenant.increment(report.outcome);
        self.queue_wait.record_s(report.resources.queue_wait_s);
        self.run_duration.record_s(report.duration_s);
    }

    fn record_limits(&self, report: &Report) {
        let killed = report.evidence.killed.and_then(|why| KillReason::ALL.iter().position(|reason| *reason == why));
        killed.into_iter().for_each(|reason| self.kills.increment(reason));
        if report.evidence.held.contains(&Outcome::WorkerLost) {
            self.workers_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Every method and code with its times, in order.
    pub fn calls(&self) -> impl Iterator<Item = (&'static str, &'static str, &Histogram)> {
        let methods = METHODS.into_iter().chain([OTHER]);
        let labels = methods.flat_map(|method| CODES.into_iter().map(move |code| (method, code)));
        labels.zip(&self.calls).map(|((method, code), times)| (method, code, times))
    }

    /// Every quota with its number of refusals.
    pub fn refusals(&self) -> impl Iterator<Item = (&'static str, u64)> {
        QUOTAS.into_iter().chain([OTHER]).zip(self.refusals.values())
    }

    /// Every framework and outcome with its number of runs.
    pub fn runs(&self) -> impl Iterator<Item = (&'static str, Outcome, u64)> {
        let frameworks = FRAMEWORKS.iter().map(|framework| framework.name()).chain([NO_FRAMEWORK]);
        let labels = frameworks.flat_map(|name| Outcome::ALL.into_iter().map(move |outcome| (name, outcome)));
        labels.zip(self.runs.values()).map(|((framework, outcome), count)| (framework, outcome, count))
    }

    /// Every reason to kill a run with its number of runs.
    pub fn kills(&self) -> impl Iterator<Item = (KillReason, u64)> {
        KillReason::ALL.into_iter().zip(self.kills.values())
    }

    /// Accepted runs that ended without a report.
    #[must_use]
    pub fn not_started(&self) -> u64 {
        self.not_started.load(Ordering::Relaxed)
    }

    /// Runs whose worker was lost.
    #[must_use]
    pub fn workers_lost(&self) -> u64 {
        self.workers_lost.load(Ordering::Relaxed)
    }

    /// Workspace scans.
    #[must_use]
    pub fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::without_running;
    use proctor_core::limits::Limits;
    use proctor_core::quota::QuotaExceeded;
    use proctor_core::timestamp::Timestamp;
    use prost::Message;
    use std::sync::Arc;

    fn ended(outcome: Outcome, framework: &str) -> RunEnd {
        let mut report = without_running(Timestamp::default(), Limits::DEFAULT, framework, KillReason::Deadline, "");
        report.outcome = outcome;
        report.evidence.held = vec![outcome];
        RunEnd::Report(Arc::new(report))
    }

    #[test]
    fn every_method_of_the_services_is_counted_by_name() {
        let services = prost_types::FileDescriptorSet::decode(proctor_proto::FILE_DESCRIPTOR_SET).unwrap();
        let mut declared: Vec<String> = Vec::new();
        for service in services.file.iter().flat_map(|file| &file.service) {
            declared.extend(service.method.iter().map(|method| format!("{}/{}", service.name(), method.name())));
        }
        let mut counted = METHODS.map(str::to_owned).to_vec();
        declared.sort();
        counted.sort();
        assert_eq!(counted, declared);
    }

    #[test]
    fn codes_have_the_names_of_grpc() {
        for (number, name) in (0..).zip(CODES) {
            let code = format!("{:?}", Code::from_i32(number)).to_uppercase();
            assert_eq!(code, name.replace('_', ""));
        }
    }

    #[test]
    fn counts_calls_by_method_and_code_and_unknown_methods_together() {
        let counters = Counters::default();
        counters.record_call("Runs/RunTests", Code::Ok, 2_000);
        counters.record_call("Runs/RunTests", Code::Unauthenticated, 1);
        counters.record_call("x", Code::Unimplemented, 1);
        counters.record_call("y", Code::Unimplemented, 1);
        let counted = counters.calls().map(|(method, code, times)| (method, code, times.counts().count));
        let counted: Vec<_> = counted.filter(|(.., count)| *count > 0).collect();
        let expected =
            [("Runs/RunTests", "OK", 1), ("Runs/RunTests", "UNAUTHENTICATED", 1), (OTHER, "UNIMPLEMENTED", 2)];
        assert_eq!(counted, expected);
    }

    #[test]
    fn counts_the_ends_of_runs() {
        let (counters, tenant) = (Counters::default(), OutcomeCounters::default());
        counters.record_run(&ended(Outcome::TimedOut, "pytest"), RunKind::Tests, &tenant);
        counters.record_run(&ended(Outcome::WorkerLost, ""), RunKind::Tests, &tenant);
        counters.record_run(&ended(Outcome::Passed, "pytest"), RunKind::Listing, &tenant);
        counters.record_run(&ended(Outcome::Failed, "ruff, mypy"), RunKind::Check, &tenant);
        counters.record_run(&RunEnd::NotStarted(QuotaExceeded::HostTenants.into()), RunKind::Tests, &tenant);
        let runs: Vec<_> = counters.runs().filter(|(.., count)| *count > 0).collect();
        assert_eq!(runs, [("pytest", Outcome::TimedOut, 1), (NO_FRAMEWORK, Outcome::WorkerLost, 1)]);
        let of_tenant: Vec<_> = tenant.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(of_tenant, [(Outcome::TimedOut, 1), (Outcome::WorkerLost, 1)]);
        let kills: Vec<_> = counters.kills().filter(|(_, count)| *count > 0).collect();
        assert_eq!(kills, [(KillReason::Deadline, 4)], "a listing and a check are killed as well");
        let checks: Vec<_> = counters.checks.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!((checks, counters.check_duration.counts().count), (vec![(Outcome::Failed, 1)], 1));
        let refusals: Vec<_> = counters.refusals().filter(|(_, count)| *count > 0).collect();
        assert_eq!(refusals, [("host_tenants", 1)]);
        assert_eq!((counters.not_started(), counters.workers_lost(), counters.queue_wait.counts().count), (1, 1, 2));
    }
}
