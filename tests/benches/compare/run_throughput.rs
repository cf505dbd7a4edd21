//! Runs per second with all layers and limits: from threads at the sandbox, from sessions through a supervisor, and from
//! connections to go-judge; and the memory of what each keeps in advance.

use crate::bench_setup::{BenchSetup, TRUE, run_and_check, sandbox};
use crate::rivals::go_judge::GoJudge;
use crate::soak::collect_descendants;
use crate::targets::Figure;
use anyhow::{Context as _, Result, anyhow, ensure};
use proctor_sandbox::{PoolBounds, RunSpec};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Numbers of concurrent sessions; the best result counts.
const SESSIONS: [usize; 3] = [2, 4, 8];

/// Runs per measurement.
const RUNS: usize = 2_000;

/// Measurements of each kind, in turn.
const ROUNDS: usize = 2;

/// Runs a second if each of `runners` works in a thread of its own.
fn per_second(runners: Vec<Box<dyn FnMut() -> Result<()> + Send + '_>>) -> Result<f64> {
    let (started, claimed) = (Instant::now(), AtomicUsize::new(0));
    let work = |mut run: Box<dyn FnMut() -> Result<()> + Send + '_>| -> Result<()> {
        while claimed.fetch_add(1, Ordering::Relaxed) < RUNS {
            run()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = runners.into_iter().map(|run| scope.spawn(|| work(run))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(rate(started.elapsed().as_secs_f64()))
}

/// Memory of a sandbox that waits for a run, in KiB: the proportional share (PSS) of the processes below `server`, for each
/// of their PID namespaces.
pub(crate) fn idle_sandbox_kib(server: u32) -> Result<u64> {
    let mut family = Vec::new();
    collect_descendants(server, &mut family);
    let own = fs::read_link(format!("/proc/{server}/ns/pid"))?;
    let (mut namespaces, mut kib) = (BTreeSet::new(), 0_u64);
    for pid in family.into_iter().filter(|pid| *pid != server) {
        // A process may end meanwhile.
        let Ok(memory) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let share = memory.lines().find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB"));
        kib += share.and_then(|kib| kib.parse::<u64>().ok()).context("no Pss")?;
        namespaces.extend(fs::read_link(format!("/proc/{pid}/ns/pid")).ok().filter(|namespace| *namespace != own));
    }
    ensure!(!namespaces.is_empty(), "no sandbox waits for a run");
    Ok(kib / namespaces.len() as u64)
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand runs")]
fn rate(seconds: f64) -> f64 {
    RUNS as f64 / seconds
}

/// Measures, prints the rates and returns the figures with targets.
#[expect(clippy::cast_precision_loss, reason = "a few thousand kibibytes")]
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let sandbox = sandbox(PoolBounds::DEFAULT)?;
    let specs: Vec<RunSpec> = (0..8).map(|number| setup.spec("tenant", number, &[TRUE])).collect::<Result<_>>()?;
    let sessions = (0..8).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    let judge = GoJudge::start(&setup, SESSIONS[SESSIONS.len() - 1])?;
    let mut best = [0.0_f64; 3];
    let processors = std::thread::available_parallelism()?;
    anstream::println!("\n{TRUE}, runs a second, {RUNS} runs, {processors} processors");
    anstream::println!("{:<28}{:>10}{:>10}{:>10}", "", "sandbox", "gRPC", "go-judge");
    for concurrent in SESSIONS.into_iter().cycle().take(SESSIONS.len() * ROUNDS) {
        let alone = specs[..concurrent].iter().map(|spec| Box::new(|| run_and_check(&sandbox, spec)) as Box<_>);
        let mut clients = (0..concurrent).map(|_| judge.client()).collect::<Result<Vec<_>>>()?;
        let judged = clients.iter_mut().map(|client| Box::new(|| client.run()) as Box<_>);
        let rates = [
            per_second(alone.collect())?,
            rate(setup.run_in_parallel(&sessions[..concurrent], RUNS)?.as_secs_f64()),
            per_second(judged.collect())?,
        ];
        let [alone, remote, judged] = rates;
        anstream::println!("{:<28}{alone:>10.0}{remote:>10.0}{judged:>10.0}", format!("{concurrent} sessions"));
        for (best, rate) in best.iter_mut().zip(rates) {
            *best = best.max(rate);
        }
    }
    let supervisor = setup.supervisor.as_ref().context("no supervisor")?.pid();
    let (own_kib, judge_kib) = (idle_sandbox_kib(supervisor)?, idle_sandbox_kib(judge.pid())?);
    anstream::println!("a sandbox that waits for a run: {own_kib} KiB, of go-judge {judge_kib} KiB");
    drop((sandbox, judge));
    setup.stop()?;
    Ok(vec![
        Figure::at_least("sandbox, runs a second", "/s", best[0], 500.0),
        Figure::at_least("gRPC, runs a second to go-judge's", "x", best[1] / best[2], 2.5),
        Figure::at_most("a waiting sandbox's memory to go-judge's", "x", own_kib as f64 / judge_kib as f64, 1.0),
    ])
}
