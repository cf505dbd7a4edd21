//! The effect of the worst neighbours on a tenant: runs of `/bin/true` alone and beside another tenant's runs that fork or
//! allocate memory without end, in turn.

use crate::bench_setup::{BenchSetup, TRUE, is_ready, run_and_check, sandbox, time_ms};
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, anyhow};
use proctor_core::outcome::KillReason;
use proctor_sandbox::{KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Runs beside each neighbour in each round.
const RUNS: usize = 60;
const ROUNDS: usize = 5;

/// Pause between the neighbour's output and the first run beside it, in which the neighbour reaches its limit.
const PAUSE: Duration = Duration::from_millis(300);

/// Pause before each run, as of a tenant that runs now and then.
const PAUSE_BEFORE_RUN: Duration = Duration::from_millis(2);

/// Neighbours and their arguments. The spinning one shows the effect of a neighbour that stays within its limits.
const NEIGHBOURS: [(&str, &[&str]); 4] = [
    ("alone", &[]),
    ("beside two that spin", &["spinning", "2"]),
    ("beside a fork bomb", &["forks"]),
    ("beside a memory bomb", &["memory"]),
];

/// Restarts the neighbour's run until the switch is used.
fn keep_running(sandbox: &LinuxSandbox, spec: &RunSpec, switch: &KillSwitch, ready: &SyncSender<()>) -> Result<()> {
    while switch.reason().is_none() {
        sandbox.run(spec, switch, &mut |event| {
            if is_ready(&event) {
                _ = ready.try_send(());
            }
        })?;
    }
    Ok(())
}

fn measure_runs(sandbox: &LinuxSandbox, tenant: &RunSpec, times: &mut Vec<f64>) -> Result<()> {
    for _ in 0..RUNS {
        std::thread::sleep(PAUSE_BEFORE_RUN);
        times.push(time_ms(|| run_and_check(sandbox, tenant))?);
    }
    Ok(())
}

fn measure_beside(sandbox: &LinuxSandbox, neighbour: &RunSpec, tenant: &RunSpec, times: &mut Vec<f64>) -> Result<()> {
    let switch = KillSwitch::new()?;
    let (send_ready, ready) = sync_channel(1);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| keep_running(sandbox, neighbour, &switch, &send_ready));
        let is_ready = ready.recv_timeout(Duration::from_secs(30));
        std::thread::sleep(PAUSE);
        let result =
            is_ready.context("the neighbour printed nothing").and_then(|()| measure_runs(sandbox, tenant, times));
        switch.kill(KillReason::Cancelled);
        neighbour.join().map_err(|_| anyhow!("a thread panicked"))??;
        result
    })
}

/// Measures, prints the times and returns the figures with targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let (program, sandbox) = (setup.compile_neighbour()?, sandbox(PoolBounds::DEFAULT)?);
    let path = program.to_str().context("a path that is not UTF-8")?;
    let tenant = setup.spec("tenant", 0, &[TRUE])?;
    let mut times = NEIGHBOURS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, arguments), times) in NEIGHBOURS.iter().zip(&mut times) {
            match arguments {
                [] => measure_runs(&sandbox, &tenant, times)?,
                arguments => {
                    let neighbour = setup.spec("neighbour", 1, &[&[path], *arguments].concat())?;
                    measure_beside(&sandbox, &neighbour, &tenant, times)?;
                }
            }
        }
    }
    anstream::println!(
        "\n{TRUE} of one tenant, alone and beside another tenant with the default limits whose runs start anew when they die;\n\
         milliseconds, {} runs each",
        ROUNDS * RUNS
    );
    anstream::println!("{:<28}{:>8}{:>8}{:>8}{:>10}", "", "p50", "p90", "p99", "of p99");
    let alone = quantile(&times[0], 0.99);
    for ((name, _), times) in NEIGHBOURS.iter().zip(&times) {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(times, share));
        anstream::println!("{name:<28}{p50:>8.2}{p90:>8.2}{p99:>8.2}{:>9.1}x", p99 / alone);
    }
    let figure = |name, index: usize| Figure::at_most(name, "x", quantile(&times[index], 0.99) / alone, 2.0);
    let figures = vec![figure("p99 beside a fork bomb to alone", 2), figure("p99 beside a memory bomb to alone", 3)];
    drop(sandbox);
    setup.stop()?;
    Ok(figures)
}
