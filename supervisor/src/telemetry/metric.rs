//! The one table of metrics: name, kind, unit, labels and help. `deploy/README.md` has the same table, and tests compare
//! both with what a supervisor exposes.

use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// A family of samples with one name.
#[derive(Debug)]
pub struct Metric {
    /// Name without unit and without the suffix of its kind.
    pub base: &'static str,
    /// Counter, gauge or histogram.
    pub kind: MetricType,
    /// Unit, which follows the name.
    pub unit: Option<Unit>,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

impl Metric {
    /// The whole name, as queries use it; the samples of a histogram have further suffixes.
    #[must_use]
    pub fn name(&self) -> String {
        let unit = self.unit.as_ref().map_or(String::new(), |unit| format!("_{}", unit.as_str()));
        let total = if matches!(self.kind, MetricType::Counter) { "_total" } else { "" };
        format!("{}{unit}{total}", self.base)
    }

    /// The name of its kind.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
            MetricType::Info | MetricType::Unknown => "unknown",
        }
    }
}

macro_rules! metrics {
    ($($id:ident = $base:literal, $kind:ident $(($unit:ident))?, [$($label:literal),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $id: Metric = Metric {
                base: $base,
                kind: MetricType::$kind,
                unit: metrics!(@unit $($unit)?),
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// All metrics, in the order of the exposition.
        pub static METRICS: &[&Metric] = &[$(&$id),*];
    };
    (@unit) => { None };
    (@unit $unit:ident) => { Some(Unit::$unit) };
}

metrics! {
    BUILD_INFO = "proctor_build_info", Gauge, ["version"],
        "1, with the version of the supervisor";
    UPTIME = "proctor_uptime", Gauge(Seconds), [],
        "Time since the start of the supervisor";
    DRAINING = "proctor_draining", Gauge, [],
        "1 once the supervisor drains and refuses new work";
    HOST_HEALTHY = "proctor_host_healthy", Gauge, [],
        "0 while the host runs nothing because workers do not start on it";
    WORKERS_UNKILLABLE = "proctor_workers_unkillable", Gauge, [],
        "Killed workers that the kernel still holds a minute later";
    CALLS = "proctor_call_duration", Histogram(Seconds), ["method", "code"],
        "Calls of gRPC, from their headers to the start of the answer";
    REFUSALS = "proctor_quota_refusals", Counter, ["quota"],
        "Calls and accepted runs that were refused because a quota is used up";
    SESSIONS = "proctor_sessions", Gauge, ["tenant"],
        "Open sessions";
    SESSIONS_FAILING = "proctor_sessions_failing", Gauge, ["streak"],
        "Sessions whose last 3 or more, or 10 or more, test runs all failed";
    STREAK_MAX = "proctor_session_failure_streak_max", Gauge, [],
        "Longest row of failed test runs of a session";
    SINCE_GREEN_MAX = "proctor_session_since_green_max", Gauge(Seconds), [],
        "Of the sessions that failed 3 or more times in a row, the longest time since a run passed or the session began";
    RUNS = "proctor_runs", Counter, ["framework", "outcome"],
        "Ended test runs; without a framework are custom commands and runs that ended before their preparation";
    TENANT_RUNS = "proctor_tenant_runs", Counter, ["tenant", "outcome"],
        "Ended test runs of each tenant";
    RUNS_NOT_STARTED = "proctor_runs_not_started", Counter, [],
        "Accepted runs that ended without a report";
    RUN_DURATION = "proctor_run_duration", Histogram(Seconds), [],
        "Test runs from start to end";
    CHECKS = "proctor_checks", Counter, ["outcome"],
        "Ended checks by linters and type checkers";
    CHECK_DURATION = "proctor_check_duration", Histogram(Seconds), [],
        "Checks by linters and type checkers from start to end";
    KILLS = "proctor_run_kills", Counter, ["reason"],
        "Runs that proctor killed, by the limit that they reached or by whoever asked for it";
    WORKERS_LOST = "proctor_workers_lost", Counter, [],
        "Runs whose worker died before it reported their end";
    QUEUE_WAIT = "proctor_queue_wait", Histogram(Seconds), [],
        "Test runs from their acceptance to their start";
    QUEUE_DEPTH = "proctor_queue_depth", Gauge, [],
        "Runs that wait for a turn on the host";
    TENANT_QUEUED = "proctor_tenant_queued_runs", Gauge, ["tenant"],
        "Runs of each tenant that wait, in their sessions or for a turn";
    RUNS_ACTIVE = "proctor_runs_active", Gauge, [],
        "Runs that have a turn on the host";
    BUDGET_MEMORY = "proctor_host_budget_memory", Gauge(Bytes), [],
        "Memory that all runs together may use";
    BUDGET_MEMORY_USED = "proctor_host_budget_memory_used", Gauge(Bytes), [],
        "Memory that the active runs may use";
    BUDGET_CPUS = "proctor_host_budget_cpus", Gauge, [],
        "Processors that all runs together may use";
    BUDGET_CPUS_USED = "proctor_host_budget_cpus_used", Gauge, [],
        "Processors that the active runs may use";
    WORKER_SETUP = "proctor_worker_setup", Histogram(Seconds), ["worker"],
        "Set-up of runs with a worker that was prepared (warm) or new (cold)";
    POOL_REQUESTS = "proctor_pool_requests", Counter, ["result"],
        "Runs that found a prepared worker (hit) or none (miss)";
    SCANS = "proctor_workspace_scans", Counter, [],
        "Scans of workspaces for runs";
    EVENT_STREAMS = "proctor_event_streams", Gauge, ["tenant"],
        "Open event streams";
    SPANS_SENT = "proctor_spans_sent", Counter, [],
        "Spans of traces that the collector took";
    SPANS_DROPPED = "proctor_spans_dropped", Counter, ["reason"],
        "Spans that were dropped, as too many waited (queue_full) or the collector did not take them (not_sent)";
    KEPT = "proctor_tenant_kept", Gauge(Bytes), ["tenant"],
        "Retained results of runs, as the quota `kept` counts them";
    KEPT_MEMORY = "proctor_tenant_kept_memory", Gauge(Bytes), ["tenant"],
        "The part of them in memory, as the quota `kept_memory` counts it";
    CACHE = "proctor_tenant_cache", Gauge(Bytes), ["tenant"],
        "Build caches when they were measured last";
    HISTORY = "proctor_tenant_history", Gauge(Bytes), ["tenant"],
        "Database of the history";
    STATE_SIZE = "proctor_state_filesystem_size", Gauge(Bytes), [],
        "Size of the file system of `state_dir`";
    STATE_AVAILABLE = "proctor_state_filesystem_available", Gauge(Bytes), [],
        "Free space of the file system of `state_dir`";
    PROCESS_CPU = "process_cpu", Counter(Seconds), [],
        "Processor time of the supervisor itself, without its runs";
    PROCESS_MEMORY = "process_resident_memory", Gauge(Bytes), [],
        "Resident memory of the supervisor";
    PROCESS_FDS = "process_open_fds", Gauge, [],
        "Open descriptors of the supervisor";
    PROCESS_FDS_MAX = "process_max_fds", Gauge, [],
        "Most descriptors that the supervisor may open";
    PROCESS_THREADS = "process_threads", Gauge, [],
        "Threads of the supervisor";
    PROCESS_START = "process_start_time", Gauge(Seconds), [],
        "Start of the supervisor since the Unix epoch";
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table of metrics in the operator's guide.
    fn documented() -> Vec<String> {
        let guide = include_str!("../../../deploy/README.md");
        let rows = guide.lines().filter(|line| line.starts_with("| `proctor_") || line.starts_with("| `process_"));
        rows.map(str::to_owned).collect()
    }

    #[test]
    fn the_operators_guide_has_the_table() {
        let rows: Vec<String> = METRICS
            .iter()
            .map(|metric| {
                let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
                format!("| `{}` | {} | {} | {} |", metric.name(), metric.kind_name(), labels.join(", "), metric.help)
            })
            .collect();
        assert_eq!(documented(), rows, "the table should be:\n{}", rows.join("\n"));
    }

    #[test]
    fn no_label_has_values_that_a_caller_chooses() {
        let allowed = [
            "version",
            "method",
            "code",
            "quota",
            "tenant",
            "streak",
            "framework",
            "outcome",
            "reason",
            "worker",
            "result",
        ];
        assert!(METRICS.iter().flat_map(|metric| metric.labels).all(|label| allowed.contains(label)));
    }
}
