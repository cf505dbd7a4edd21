//! Runs per second with all layers and limits: from threads at the sandbox, and from sessions through a supervisor.

use crate::bench_setup::{BenchSetup, TRUE, run_and_check, sandbox};
use crate::targets::Figure;
use anyhow::{Result, anyhow};
use proctor_sandbox::{LinuxSandbox, PoolBounds, RunSpec};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Numbers of concurrent sessions; the best result counts.
const SESSIONS: [usize; 3] = [2, 4, 8];

/// Runs per measurement.
const RUNS: usize = 2_000;

/// Measurements of each kind, in turn.
const ROUNDS: usize = 2;

fn per_second(sandbox: &LinuxSandbox, specs: &[RunSpec]) -> Result<f64> {
    let (started, claimed) = (Instant::now(), AtomicUsize::new(0));
    let work = |spec: &RunSpec| -> Result<()> {
        while claimed.fetch_add(1, Ordering::Relaxed) < RUNS {
            run_and_check(sandbox, spec)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = specs.iter().map(|spec| scope.spawn(|| work(spec))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(rate(started.elapsed().as_secs_f64()))
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand runs")]
fn rate(seconds: f64) -> f64 {
    RUNS as f64 / seconds
}

/// Measures, prints the rates and returns the figure with a target.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let sandbox = sandbox(PoolBounds::DEFAULT)?;
    let specs: Vec<RunSpec> = (0..8).map(|number| setup.spec("tenant", number, &[TRUE])).collect::<Result<_>>()?;
    let sessions = (0..8).map(|number| setup.session(number)).collect::<Result<Vec<_>>>()?;
    let mut best = (0.0_f64, 0.0_f64);
    let processors = std::thread::available_parallelism()?;
    anstream::println!("\n{TRUE}, runs a second, {RUNS} runs, {processors} processors");
    anstream::println!("{:<28}{:>10}{:>10}", "", "sandbox", "gRPC");
    for concurrent in SESSIONS.into_iter().cycle().take(SESSIONS.len() * ROUNDS) {
        let alone = per_second(&sandbox, &specs[..concurrent])?;
        let remote = rate(setup.run_in_parallel(&sessions[..concurrent], RUNS)?.as_secs_f64());
        anstream::println!("{:<28}{alone:>10.0}{remote:>10.0}", format!("{concurrent} sessions"));
        best = (best.0.max(alone), best.1.max(remote));
    }
    drop(sandbox);
    setup.stop()?;
    Ok(vec![Figure::at_least("sandbox, runs a second", "/s", best.0, 500.0)])
}
