//! Runs a second with every layer and limit: from threads at the sandbox level, from sessions through a supervisor. Must not
//! know how a run works.

use crate::bench_setup::{Stage, TRUE, run_well, sandbox};
use crate::targets::Figure;
use anyhow::{Result, anyhow};
use proctor_sandbox::{LinuxSandbox, PoolBounds, RunSpec};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Sessions at the same time. As many as it takes: the best of these counts.
const SESSIONS: [usize; 3] = [2, 4, 8];

/// Runs of each measurement.
const RUNS: usize = 2_000;

/// Measurements of each kind, in turn.
const ROUNDS: usize = 2;

fn per_second(sandbox: &LinuxSandbox, specs: &[RunSpec]) -> Result<f64> {
    let (begun, drawn) = (Instant::now(), AtomicUsize::new(0));
    let work = |spec: &RunSpec| -> Result<()> {
        while drawn.fetch_add(1, Ordering::Relaxed) < RUNS {
            run_well(sandbox, spec)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = specs.iter().map(|spec| scope.spawn(|| work(spec))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(rate(begun.elapsed().as_secs_f64()))
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand runs")]
fn rate(seconds: f64) -> f64 {
    RUNS as f64 / seconds
}

/// Measures and prints the rates; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let stage = Stage::open()?;
    let sandbox = sandbox(PoolBounds::DEFAULT)?;
    let specs: Vec<RunSpec> = (0..8).map(|number| stage.spec("tenant", number, &[TRUE])).collect::<Result<_>>()?;
    let sessions = (0..8).map(|number| stage.session(number)).collect::<Result<Vec<_>>>()?;
    let mut best = (0.0_f64, 0.0_f64);
    let processors = std::thread::available_parallelism()?;
    anstream::println!("\n{TRUE}, runs a second, {RUNS} runs, {processors} processors");
    anstream::println!("{:<28}{:>10}{:>10}", "", "sandbox", "gRPC");
    for at_once in SESSIONS.into_iter().cycle().take(SESSIONS.len() * ROUNDS) {
        let alone = per_second(&sandbox, &specs[..at_once])?;
        let remote = rate(stage.storm(&sessions[..at_once], RUNS)?.as_secs_f64());
        anstream::println!("{:<28}{alone:>10.0}{remote:>10.0}", format!("{at_once} sessions"));
        best = (best.0.max(alone), best.1.max(remote));
    }
    drop(sandbox);
    stage.close()?;
    Ok(vec![Figure::at_least("sandbox, runs a second", "/s", best.0, 500.0)])
}
