//! Load: many tenants with mixed runs at once, while faults are injected. Every accepted run must have one end, which all of its
//! watchers see without missing or duplicate events, and the supervisor must hold no more resources at the end than at the
//! start.

mod audit_log_check;
mod client_lane;
mod event_checker;
mod fault_injection;
mod load_setup;
mod run_kinds;
mod tally;
mod tenant_client;
mod watched_run;

use crate::soak::{ResourceUsage, entries};
use crate::targets::Figure;
use anyhow::{Context as _, Result, anyhow};
use client_lane::ClientLane;
use load_setup::LoadSupervisor;
use proctor_proto::reason;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tally::{FaultEffect, SharedTally};
use tenant_client::{CallError, TenantClient, WAIT_MAX};
use tokio::runtime::Runtime;
use tonic::Code;

/// Variable with the duration of the long load in seconds; the Makefile sets it.
const SECONDS: &str = "PROCTOR_LOAD_SECONDS";

/// How long a host that is whole again may refuse runs: until its next trial worker, three failed trials in a row behind the first.
const TRIAL_WAIT_MAX: Duration = Duration::from_secs(4);

/// Clients of each tenant, each with its own session and workspace.
const LANES: usize = 6;

/// Parameters of a load.
struct Scale {
    /// Number of tenants without the guest.
    tenants: usize,
    warm_up: Duration,
    duration: Duration,
    /// Pause between two faults.
    pause: Duration,
    /// Most memory at the end.
    rss_mib: f64,
    /// Most growth of memory from the middle to the end, where the first half is long enough to fill all pools.
    grown_mib: Option<f64>,
}

/// State shared by clients, watchers and fault injection.
struct LoadContext {
    supervisor: Arc<LoadSupervisor>,
    tally: Arc<SharedTally>,
    over_at: Instant,
}

impl LoadContext {
    fn is_over(&self) -> bool {
        Instant::now() >= self.over_at
    }

    /// Opens a connection, retrying for [`WAIT_MAX`]; `None` when that fails, which is recorded as a violation.
    async fn connect(&self, tenant: usize) -> Option<TenantClient> {
        let until = Instant::now() + WAIT_MAX;
        while Instant::now() < until {
            if let Ok(client) = self.supervisor.connect(tenant).await {
                return Some(client);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.tally.record_violation(format!("no connection for {WAIT_MAX:?}"));
        None
    }

    /// Counts a refused call, requested at `since`, and records a violation unless the quotas or a fault explain it.
    fn check_refusal(&self, tenant: usize, refused: &CallError, since: Instant) {
        let is_guest = tenant == self.supervisor.guest();
        let had_effect = |effect| self.tally.had_effect_since(effect, since);
        let (name, is_explained) = match refused {
            // Accepting a connection needs a descriptor.
            CallError::ConnectionLost => ("connection lost".to_owned(), had_effect(FaultEffect::NoDescriptors)),
            CallError::Status { code: Code::ResourceExhausted, reason: quota, .. } => (format!("quota {quota}"), true),
            CallError::Status { code: code @ (Code::Unauthenticated | Code::PermissionDenied), .. } => {
                (format!("{code:?}"), is_guest)
            }
            // The error for a failed host. A worker killed before its run started is replaced, unless too many are.
            CallError::Status { code: Code::Unavailable, reason, .. } if reason == reason::HOST_FAILED => {
                let effects =
                    [FaultEffect::NoDescriptors, FaultEffect::HostLacksResources, FaultEffect::ProcessesKilled];
                let since = since.checked_sub(TRIAL_WAIT_MAX).unwrap_or(since);
                (reason.clone(), effects.into_iter().any(|effect| self.tally.had_effect_since(effect, since)))
            }
            // A missing worker binary needs a repair by the operator.
            CallError::Status { code: Code::Internal, text, .. } => {
                (format!("Internal: {text}"), had_effect(FaultEffect::HostLacksResources))
            }
            CallError::Status { code, reason, .. } => (format!("{code:?}: {reason}"), false),
        };
        if !is_explained {
            let text = match refused {
                CallError::Status { text, .. } => text,
                CallError::ConnectionLost => "",
            };
            self.tally.record_violation(format!("tenant {tenant} was refused: {name}: {text:?}"));
        }
        self.tally.count_refusal(&name);
    }
}

/// The short load, part of the benchmark.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let second = Duration::from_secs(1);
    load(&Scale {
        tenants: 10,
        warm_up: 3 * second,
        duration: 20 * second,
        pause: second / 5,
        rss_mib: 128.0,
        grown_mib: None,
    })
}

/// The long load.
pub(crate) fn long() -> Result<Vec<Figure>> {
    let seconds = std::env::var(SECONDS).ok().map_or(Ok(600), |text| text.parse()).context(SECONDS)?;
    let second = Duration::from_secs(1);
    load(&Scale {
        tenants: 50,
        warm_up: 20 * second,
        duration: seconds * second,
        pause: second / 2,
        rss_mib: 256.0,
        grown_mib: Some(32.0),
    })
}

/// Resources held by the supervisor, its mounts and its temporary files.
struct UsageSnapshot {
    usage: ResourceUsage,
    mounts: usize,
    files: usize,
}

impl UsageSnapshot {
    fn take(supervisor: &LoadSupervisor) -> Result<UsageSnapshot> {
        let usage = ResourceUsage::measure_at_rest(supervisor.pid())?;
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", supervisor.pid()))?.lines().count();
        Ok(UsageSnapshot { usage, mounts, files: entries(supervisor.tmp()).count() })
    }

    /// Counts that must not grow.
    fn counts(&self) -> [usize; 6] {
        let ResourceUsage { descriptors, processes, namespaces, groups, .. } = self.usage;
        [descriptors, processes, namespaces, groups, self.mounts, self.files]
    }

    fn print(&self, when: &str) {
        let [descriptors, processes, namespaces, groups, mounts, files] = self.counts();
        let ResourceUsage { rss_kib, threads, .. } = self.usage;
        anstream::println!(
            "  {when}: RSS {rss_kib} KiB, {threads} threads, {descriptors} descriptors, {processes} processes, {namespaces} \
             namespaces, {groups} cgroups, {mounts} mounts, {files} temporary files"
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of resources, and kibibytes")]
fn load(scale: &Scale) -> Result<Vec<Figure>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tenants = scale.tenants + 1;
    let supervisor = Arc::new(LoadSupervisor::start(tenants, LANES)?);
    let tally = Arc::new(SharedTally::new(tenants));
    // Counts of the warm-up are discarded; violations are kept.
    run_for(&runtime, &supervisor, &tally, scale.warm_up, None)?;
    let before = UsageSnapshot::take(&supervisor)?;
    tally.reset_counts();
    let started = Instant::now();
    run_for(&runtime, &supervisor, &tally, scale.duration / 2, Some(scale.pause))?;
    let middle = UsageSnapshot::take(&supervisor)?;
    run_for(&runtime, &supervisor, &tally, scale.duration / 2, Some(scale.pause))?;
    let took = started.elapsed().as_secs_f64();
    let after = UsageSnapshot::take(&supervisor)?;

    let mut supervisor = Arc::into_inner(supervisor).context("the supervisor is still in use")?;
    runtime.block_on(supervisor.stop())?;
    for line in supervisor.panics()? {
        tally.record_violation(line);
    }
    let accepted = audit_log_check::compare(&supervisor.audit_files(), &tally)?;
    let lost = tally.lock().lost;
    let kills = tally.lock().kills();
    anstream::println!(
        "\nload: {} tenants and a guest, {LANES} clients each, {took:.0} s; {accepted} runs accepted, {lost} workers lost",
        scale.tenants
    );
    if lost > kills {
        tally.record_violation(format!("{lost} workers were lost, but only {kills} kills were injected"));
    }
    let tally = tally.lock();
    let least = tally.print_shares(scale.tenants, load_setup::weight);
    tally.print();
    before.print("before");
    middle.print("middle");
    after.print("after ");
    let mib = |snapshot: &UsageSnapshot| snapshot.usage.rss_kib as f64 / 1024.0;
    let grown = before.counts().into_iter().zip(after.counts()).map(|(before, after)| after.saturating_sub(before));
    let mut figures = vec![
        Figure::at_most("load: promises broken", "", tally.violation_count as f64, 0.0),
        Figure::at_most("load: other things that are held, grown", "", grown.sum::<usize>() as f64, 0.0),
        Figure::at_most("load: RSS at the end", "MiB", mib(&after), scale.rss_mib).firm(),
        Figure::at_least("load: least share, over its weight", "x", least, 0.8).firm(),
    ];
    if let Some(grown_mib) = scale.grown_mib {
        figures.push(Figure::at_most(
            "load: RSS grown in the second half",
            "MiB",
            mib(&after) - mib(&middle),
            grown_mib,
        ));
    }
    Ok(figures)
}

/// Runs the load for a time, with faults if a pause between them is given, until every client has finished its runs.
fn run_for(
    runtime: &Runtime,
    supervisor: &Arc<LoadSupervisor>,
    tally: &Arc<SharedTally>,
    duration: Duration,
    pause: Option<Duration>,
) -> Result<()> {
    let context = LoadContext {
        supervisor: Arc::clone(supervisor),
        tally: Arc::clone(tally),
        over_at: Instant::now() + duration,
    };
    let context = Arc::new(context);
    let faults = pause.map(|pause| {
        let context = Arc::clone(&context);
        std::thread::spawn(move || fault_injection::inject(&context, pause))
    });
    let lanes: Vec<_> = (0..=supervisor.guest())
        .flat_map(|tenant| (0..LANES).map(move |lane| (tenant, lane)))
        .map(|(tenant, lane)| runtime.spawn(ClientLane::new(&context, tenant, lane).run()))
        .collect();
    for lane in lanes {
        runtime.block_on(lane).context("a client panicked")?;
    }
    if let Some(faults) = faults {
        faults.join().map_err(|_| anyhow!("the fault injection panicked"))??;
    }
    Ok(())
}
