//! Reads all facts for a scrape. One task does it: scrapes that arrive together, or soon after each other, share its
//! result, so that however many there are cost little.

use super::counters::Counters;
use super::exposition::{Exposition, Samples, Value};
use super::failure_streak::STREAKS;
use super::metric::*;
use super::process::ProcessFigures;
use super::traces::span_counts::span_counts;
use crate::caches;
use crate::clock::Clock;
use crate::grpc::Api;
use crate::history;
use crate::runs::scheduler::SchedulerUsage;
use crate::sessions::registry::SessionCounts;
use crate::tenants::Tenant;
use proctor_core::bounds::{SCRAPES_MAX, TENANT_LABELS_MAX};
use proctor_core::outcome::Outcome;
use proctor_sandbox::WorkerCounts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// How long a result is reused.
const RESULT_MAX_AGE: Duration = Duration::from_millis(250);

/// Label value of all tenants beyond [`TENANT_LABELS_MAX`] together. No tenant can have this name.
const OTHER_TENANTS: &str = "(other)";

/// Handle of the task. Clones share it.
#[derive(Debug, Clone)]
pub struct MetricsCollector(mpsc::Sender<ScrapeRequest>);

/// A request for the metrics.
#[derive(Debug)]
struct ScrapeRequest {
    /// How old they may be.
    age_max: Duration,
    reply: oneshot::Sender<Exposition>,
}

impl MetricsCollector {
    /// Starts the task for the supervisor of `api`, whose state is in `state_dir`.
    #[must_use]
    pub fn start(api: Api, state_dir: PathBuf) -> MetricsCollector {
        let (requests, inbox) = mpsc::channel(SCRAPES_MAX);
        tokio::spawn(serve(inbox, api, state_dir));
        MetricsCollector(requests)
    }

    /// The current metrics. `None` if they cannot be read, or too many scrapes wait.
    pub(super) async fn collect(&self) -> Option<Exposition> {
        self.request(RESULT_MAX_AGE).await
    }

    /// The metrics as they are now, not those of an earlier scrape.
    pub(super) async fn collect_anew(&self) -> Option<Exposition> {
        self.request(Duration::ZERO).await
    }

    async fn request(&self, age_max: Duration) -> Option<Exposition> {
        let (reply, result) = oneshot::channel();
        self.0.try_send(ScrapeRequest { age_max, reply }).ok()?;
        result.await.ok()
    }
}

async fn serve(mut inbox: mpsc::Receiver<ScrapeRequest>, api: Api, state_dir: PathBuf) {
    let mut last: Option<(Instant, Exposition)> = None;
    while let Some(ScrapeRequest { age_max, reply }) = inbox.recv().await {
        if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= age_max) {
            last = collect(&api, &state_dir).await.map(|exposition| (Instant::now(), exposition));
        }
        if let Some((_, exposition)) = &last {
            _ = reply.send(exposition.clone());
        }
    }
}

async fn collect(api: &Api, state_dir: &Path) -> Option<Exposition> {
    let (counts, usage) = (api.registry.session_counts().await, api.context.scheduler.usage().await);
    let facts = Facts {
        tenants: api.access.borrow().tenants.all().to_vec(),
        sessions: counts,
        scheduler: usage,
        is_draining: api.drain.has_begun(),
        state_dir: state_dir.to_owned(),
    };
    let context = Arc::clone(&api.context);
    // Reading files blocks.
    let encoded = spawn_blocking(move || {
        let mut samples = Samples::default();
        facts.add_to(&mut samples);
        add_counters(&mut samples, &context.counters);
        context.sandbox.worker_counts().into_iter().for_each(|counts| add_workers(&mut samples, counts));
        add_process(&mut samples, context.clock);
        let (trouble, unkillable) = context.host.trouble();
        samples.count(&HOST_HEALTHY, &[], trouble.is_none().into());
        samples.count(&WORKERS_UNKILLABLE, &[], unkillable);
        Exposition::encode(samples)
    });
    match encoded.await {
        Ok(Ok(exposition)) => Some(exposition),
        failed => {
            tracing::error!(?failed, "the metrics could not be written");
            None
        }
    }
}

/// Facts that were asked of other tasks.
struct Facts {
    tenants: Vec<Arc<Tenant>>,
    /// `None` once the sessions have ended with the supervisor, whose last metrics have no such gauges.
    sessions: Option<SessionCounts>,
    /// `None` once the scheduler has.
    scheduler: Option<SchedulerUsage>,
    is_draining: bool,
    state_dir: PathBuf,
}

impl Facts {
    fn add_to(&self, samples: &mut Samples) {
        samples.count(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
        samples.count(&DRAINING, &[], self.is_draining.into());
        if let Some(SchedulerUsage { waiting, running, in_use, budget }) = &self.scheduler {
            samples.count(&QUEUE_DEPTH, &[], *waiting as u64);
            samples.count(&RUNS_ACTIVE, &[], *running as u64);
            samples.count(&BUDGET_MEMORY, &[], budget.memory_bytes);
            samples.count(&BUDGET_MEMORY_USED, &[], in_use.memory_bytes);
            samples.add(&BUDGET_CPUS, &[], Value::Number(thousandths(budget.cpu_millis)));
            samples.add(&BUDGET_CPUS_USED, &[], Value::Number(thousandths(in_use.cpu_millis)));
        }
        if let Some(SessionCounts { streaks, .. }) = &self.sessions {
            for (from, sessions) in STREAKS.iter().zip(streaks.sessions) {
                samples.count(&SESSIONS_FAILING, &[&from.to_string()], sessions);
            }
            samples.count(&STREAK_MAX, &[], streaks.longest.into());
            samples.add(&SINCE_GREEN_MAX, &[], Value::Number(thousandths(streaks.since_green_ms_max)));
        }
        if let Ok(disk) = rustix::fs::statvfs(&self.state_dir) {
            samples.count(&STATE_SIZE, &[], disk.f_blocks.saturating_mul(disk.f_frsize));
            samples.count(&STATE_AVAILABLE, &[], disk.f_bavail.saturating_mul(disk.f_frsize));
        }
        self.add_tenants(samples);
    }

    // The first tenants of the host file have labels of their own; the others are added up.
    fn add_tenants(&self, samples: &mut Samples) {
        let mut by_label: BTreeMap<&str, TenantFigures> = BTreeMap::new();
        for (index, tenant) in self.tenants.iter().enumerate() {
            let label = if index < TENANT_LABELS_MAX { tenant.id.as_str() } else { OTHER_TENANTS };
            let counts = self.sessions.as_ref().map(|sessions| &sessions.by_tenant);
            let sessions = counts.and_then(|counts| counts.get(&tenant.id).copied()).unwrap_or(0);
            by_label.entry(label).or_default().add(tenant, sessions);
        }
        for (label, figures) in by_label {
            for (outcome, runs) in Outcome::ALL.iter().zip(figures.runs) {
                samples.count(&TENANT_RUNS, &[label, outcome.name()], runs);
            }
            for (metric, value) in TENANT_METRICS.iter().zip(figures.gauges) {
                samples.count(metric, &[label], value);
            }
        }
    }
}

/// Gauges of each tenant, in the order of [`TenantFigures::gauges`].
static TENANT_METRICS: [&Metric; 7] =
    [&SESSIONS, &TENANT_QUEUED, &EVENT_STREAMS, &KEPT, &KEPT_MEMORY, &CACHE, &HISTORY];

/// Figures of one tenant, or of several together.
#[derive(Debug, Default)]
struct TenantFigures {
    runs: [u64; Outcome::ALL.len()],
    gauges: [u64; TENANT_METRICS.len()],
}

impl TenantFigures {
    fn add(&mut self, tenant: &Tenant, sessions: u64) {
        for (sum, (_, runs)) in self.runs.iter_mut().zip(tenant.usage.runs.counts()) {
            *sum += runs;
        }
        let (usage, policy) = (&tenant.usage, &tenant.policy);
        let gauges = [
            sessions,
            usage.queued.now(),
            tenant.allowance.subscribers(),
            usage.retained.bytes.now(),
            usage.retained.memory.now(),
            policy.cache.as_deref().and_then(caches::measured_bytes).unwrap_or(0),
            policy.history.as_ref().map_or(0, |location| history::stored_bytes(&location.dir)),
        ];
        for (sum, value) in self.gauges.iter_mut().zip(gauges) {
            *sum = sum.saturating_add(value);
        }
    }
}

fn add_counters(samples: &mut Samples, counters: &Counters) {
    for (method, code, times) in counters.calls() {
        let counts = times.counts();
        if counts.count > 0 {
            samples.add(&CALLS, &[method, code], Value::Histogram(counts));
        }
    }
    counters.refusals().for_each(|(quota, count)| samples.count(&REFUSALS, &[quota], count));
    for (framework, outcome, count) in counters.runs().filter(|(.., count)| *count > 0) {
        samples.count(&RUNS, &[framework, outcome.name()], count);
    }
    for (outcome, count) in counters.checks.counts().filter(|(_, count)| *count > 0) {
        samples.count(&CHECKS, &[outcome.name()], count);
    }
    counters.kills().for_each(|(reason, count)| samples.count(&KILLS, &[reason.name()], count));
    samples.count(&RUNS_NOT_STARTED, &[], counters.not_started());
    samples.count(&WORKERS_LOST, &[], counters.workers_lost());
    samples.count(&SCANS, &[], counters.scans());
    let spans = span_counts();
    samples.count(&SPANS_SENT, &[], spans.sent());
    spans.dropped().into_iter().for_each(|(reason, count)| samples.count(&SPANS_DROPPED, &[reason], count));
    samples.add(&QUEUE_WAIT, &[], Value::Histogram(counters.queue_wait.counts()));
    samples.add(&RUN_DURATION, &[], Value::Histogram(counters.run_duration.counts()));
    samples.add(&CHECK_DURATION, &[], Value::Histogram(counters.check_duration.counts()));
}

fn add_workers(samples: &mut Samples, counts: &WorkerCounts) {
    samples.add(&WORKER_SETUP, &["warm"], Value::Histogram(counts.setup_prepared.counts()));
    samples.add(&WORKER_SETUP, &["cold"], Value::Histogram(counts.setup_new.counts()));
    samples.count(&POOL_REQUESTS, &["hit"], counts.pool_hits());
    samples.count(&POOL_REQUESTS, &["miss"], counts.pool_misses());
}

fn add_process(samples: &mut Samples, clock: Clock) {
    let figures = ProcessFigures::read();
    samples.add(&PROCESS_CPU, &[], Value::Number(figures.cpu_s));
    samples.count(&PROCESS_MEMORY, &[], figures.resident_bytes);
    samples.count(&PROCESS_FDS, &[], figures.fds);
    samples.count(&PROCESS_FDS_MAX, &[], figures.fds_max);
    samples.count(&PROCESS_THREADS, &[], figures.threads);
    let uptime_ms = clock.elapsed_ms();
    samples.add(&UPTIME, &[], Value::Number(thousandths(uptime_ms)));
    samples.add(&PROCESS_START, &[], Value::Number(thousandths(clock.now().0.saturating_sub(uptime_ms))));
}

fn thousandths(number: u64) -> f64 {
    Duration::from_millis(number).as_secs_f64()
}
