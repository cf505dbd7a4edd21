//! The capacity of this host: what a run, a session and a prepared worker cost here, and the `[host]` table that follows
//! from it, which is printed, written to the file named by `PROCTOR_CAPACITY_FILE`, and tried.

use crate::bench_setup::{BenchSetup, SupervisorSession, TRUE, run_and_check, sandbox, time_ms};
use crate::demo_supervisor::ExtraKeys;
use crate::idle_sessions::open_sessions;
use crate::run_throughput::idle_sandbox_kib;
use crate::soak::ResourceUsage;
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_core::limits::Limits;
use proctor_proto::v1::Outcome;
use proctor_sandbox::PoolBounds;
use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Rounds of each spawn.
const SPAWNS: usize = 100;

/// Sessions whose memory is measured.
const SESSIONS: usize = 10_000;

/// Runs of [`SUITE`] for each of those at once, and in all at least.
const RUNS_EACH: usize = 8;
const RUNS_MIN: usize = 96;

/// Stands for a test suite: computes for about as long as it waits for a disk or a server.
const SUITE: [&str; 3] = ["/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; sleep 0.05"];

/// Concurrent runs that are tried, for each processor.
const RUNS_PER_PROCESSOR: [usize; 4] = [1, 2, 3, 4];

/// Share of the best rate that is enough: more runs at once take memory and make each one slower.
const ENOUGH: f64 = 0.95;

/// Parts of the host's memory: for all runs together, for idle sessions, for prepared workers. One part in each.
const RUNS_MEMORY: (u64, u64) = (7, 8);
const SESSIONS_MEMORY_PART: u64 = 32;
const WORKERS_MEMORY_PART: u64 = 128;

/// Most sessions and prepared workers that a table has, whatever the memory: as many as `make bench` and the built-in values
/// have tried.
const SESSIONS_MAX: u64 = 100_000;
const WORKERS_MAX: u64 = 1_024;

/// Rate of runs with a number of them at once.
#[derive(Debug, Clone, Copy)]
struct Rate {
    concurrent: usize,
    per_second: f64,
}

/// What was measured.
struct Costs {
    memory_bytes: u64,
    session_bytes: u64,
    worker_bytes: u64,
    chosen: Rate,
}

pub(crate) fn bench() -> Result<Vec<Figure>> {
    let processors = std::thread::available_parallelism()?.get();
    let memory_bytes = memory_bytes()?;
    anstream::println!("\ncapacity: {processors} processors, {} MiB of memory", memory_bytes >> 20);
    print_spawns()?;
    let limits = Limits::DEFAULT;
    // More do not fit into the memory, with the default limit.
    let fitting = usize::try_from(runs_memory(memory_bytes) / limits.memory_bytes_max)?.max(1);
    let candidates: BTreeSet<usize> = RUNS_PER_PROCESSOR.map(|runs| (runs * processors).min(fitting)).into();
    let most = candidates.last().copied().context("no number of runs")?;
    // Nothing but the number of sessions bounds the runs while the best number is searched.
    let host = format!(
        "memory = {}\ncpus = {}\nsessions_max = {}",
        limits.memory_bytes_max * most as u64,
        u64::from(limits.cpu_millis_max) * most as u64 / 1_000,
        SESSIONS + most
    );
    let tenant = format!("sessions_max = {}\n[tenant.quota]\nrequests_per_second = 1000000", SESSIONS + most);
    let setup = BenchSetup::start_with(most, ExtraKeys { host: &host, tenant: &tenant })?;
    let supervisor = setup.supervisor.as_ref().context("no supervisor")?.pid();
    let sessions = (0..most).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    let mut rates = Vec::new();
    for concurrent in candidates {
        let per_second = suites_per_second(&setup, &sessions[..concurrent])?;
        anstream::println!("{concurrent:>4} runs at once: {per_second:>7.1} runs/s of a suite that computes and waits");
        rates.push(Rate { concurrent, per_second });
    }
    let chosen = choose(&rates).context("no rate was measured")?;
    let worker_bytes = idle_sandbox_kib(supervisor)? << 10;
    let before = ResourceUsage::measure(supervisor)?.rss_kib;
    let workspaces = (0..most).map(|number| setup.workspace(number).display().to_string()).collect();
    setup.runtime.block_on(open_sessions(setup.channel(), Arc::new(workspaces), SESSIONS))?;
    let session_kib = ResourceUsage::measure(supervisor)?.rss_kib.saturating_sub(before);
    let session_bytes = (session_kib * 1024 / SESSIONS as u64).max(1);
    setup.stop()?;

    let table = Costs { memory_bytes, session_bytes, worker_bytes, chosen }.table();
    anstream::println!("\n{table}");
    if let Some(file) = std::env::var_os("PROCTOR_CAPACITY_FILE") {
        fs::write(&file, &table).with_context(|| format!("writing {}", file.display()))?;
        anstream::println!("written to {}", file.display());
    }
    let ratio = try_table(&table, chosen)? / chosen.per_second;
    Ok(vec![Figure::at_least("capacity: rate with this table to the measured", "x", ratio, 0.9)])
}

fn print_spawns() -> Result<()> {
    let setup = BenchSetup::start()?;
    let spec = setup.spec("tenant", 0, &[TRUE])?;
    for (name, bounds) in [("warm", PoolBounds::DEFAULT), ("cold", PoolBounds::NONE)] {
        let sandbox = sandbox(bounds)?;
        run_and_check(&sandbox, &spec)?;
        let times = (0..SPAWNS).map(|_| time_ms(|| run_and_check(&sandbox, &spec))).collect::<Result<Vec<_>>>()?;
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(&times, share));
        anstream::println!("{TRUE} in the sandbox, {name}: p50 {p50:.2} ms, p99 {p99:.2} ms");
    }
    setup.stop()
}

fn suites_per_second(setup: &BenchSetup, sessions: &[SupervisorSession]) -> Result<f64> {
    let (started, claimed) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let count = RUNS_MIN.max(RUNS_EACH * sessions.len());
    let work = |mut session: SupervisorSession, claimed: Arc<AtomicUsize>| async move {
        while claimed.fetch_add(1, Ordering::Relaxed) < count {
            let outcome = session.run_command(&SUITE).await?;
            ensure!(outcome == Some(Outcome::Passed), "a run ended as {outcome:?}");
        }
        Ok(())
    };
    let tasks: Vec<_> =
        sessions.iter().map(|session| setup.runtime.spawn(work(session.clone(), Arc::clone(&claimed)))).collect();
    tasks.into_iter().try_for_each(|task| setup.runtime.block_on(task)?)?;
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// The fewest concurrent runs with nearly the best rate.
fn choose(rates: &[Rate]) -> Option<Rate> {
    let best = rates.iter().map(|rate| rate.per_second).fold(0.0, f64::max);
    rates.iter().copied().find(|rate| rate.per_second >= best * ENOUGH)
}

/// The rate with `table` as the supervisor's, from as many sessions as it was made for.
fn try_table(table: &str, chosen: Rate) -> Result<f64> {
    let host = table.strip_prefix("[host]\n").context("a table without its name")?;
    let setup = BenchSetup::start_with(chosen.concurrent, ExtraKeys { host, tenant: "" })?;
    let sessions = (0..chosen.concurrent).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    let per_second = suites_per_second(&setup, &sessions)?;
    anstream::println!("tried: {per_second:.1} runs/s from {} sessions", chosen.concurrent);
    setup.stop()?;
    Ok(per_second)
}

impl Costs {
    fn table(&self) -> String {
        let Costs { memory_bytes, session_bytes, worker_bytes, chosen } = *self;
        let Rate { concurrent, per_second } = chosen;
        let limits = Limits::DEFAULT;
        let runs_bytes = runs_memory(memory_bytes);
        let fitting = runs_bytes / limits.memory_bytes_max;
        let cpus = u64::from(limits.cpu_millis_max) * concurrent as u64 / 1_000;
        let sessions_max = (memory_bytes / SESSIONS_MEMORY_PART / session_bytes).clamp(1, SESSIONS_MAX);
        let workers_max = (memory_bytes / WORKERS_MEMORY_PART / worker_bytes.max(1)).clamp(1, WORKERS_MAX);
        format!(
            "[host]\n\
             # {} of {} parts of the memory: {fitting} runs at once with the default limit of {} GiB.\n\
             memory = \"{}MiB\"\n\
             # {concurrent} runs at once with the default limit of {} cpus: {per_second:.1} runs/s; more are hardly faster.\n\
             cpus = {cpus}\n\
             # {session_bytes} bytes each: at most one of {SESSIONS_MEMORY_PART} parts of the memory.\n\
             sessions_max = {sessions_max}\n\
             \n\
             [host.pool]\n\
             # {} KiB each: at most one of {WORKERS_MEMORY_PART} parts of the memory.\n\
             workers_max = {workers_max}\n",
            RUNS_MEMORY.0,
            RUNS_MEMORY.1,
            limits.memory_bytes_max >> 30,
            runs_bytes >> 20,
            f64::from(limits.cpu_millis_max) / 1e3,
            worker_bytes >> 10,
        )
    }
}

/// Memory for all runs together, on a host with `memory_bytes`.
fn runs_memory(memory_bytes: u64) -> u64 {
    memory_bytes / RUNS_MEMORY.1 * RUNS_MEMORY.0
}

fn memory_bytes() -> Result<u64> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    Ok(total.context("no MemTotal")?.parse::<u64>()? << 10)
}
