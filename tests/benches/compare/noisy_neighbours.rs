//! What the worst neighbours do to a tenant: the same runs of `/bin/true`, alone and beside runs of another tenant that fork,
//! or take memory, for ever, in turn. Must not know how processors and memory are shared.

use crate::bench_setup::{Stage, TRUE, is_ready, run_well, sandbox, timed};
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, anyhow};
use proctor_core::outcome::KillReason;
use proctor_sandbox::{KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Runs beside each neighbour in each round.
const RUNS: usize = 60;
const ROUNDS: usize = 5;

/// From the neighbour's first word to the first run beside it: by then it is at its limit.
const PAUSE: Duration = Duration::from_millis(300);

/// Pause before each run: a tenant who comes and goes, not one who is always there.
const BREATH: Duration = Duration::from_millis(2);

/// Neighbours, and what they take. The one that spins is the measure of an honest one.
const NEIGHBOURS: [(&str, &[&str]); 4] = [
    ("alone", &[]),
    ("beside two that spin", &["spinning", "2"]),
    ("beside a fork bomb", &["forks"]),
    ("beside a memory bomb", &["memory"]),
];

/// The neighbour's runs, one after the other, until the switch is pressed.
fn live(sandbox: &LinuxSandbox, spec: &RunSpec, switch: &KillSwitch, ready: &SyncSender<()>) -> Result<()> {
    while switch.reason().is_none() {
        sandbox.run(spec, switch, &mut |event| {
            if is_ready(&event) {
                _ = ready.try_send(());
            }
        })?;
    }
    Ok(())
}

fn runs(sandbox: &LinuxSandbox, tenant: &RunSpec, times: &mut Vec<f64>) -> Result<()> {
    for _ in 0..RUNS {
        std::thread::sleep(BREATH);
        times.push(timed(|| run_well(sandbox, tenant))?);
    }
    Ok(())
}

fn beside(sandbox: &LinuxSandbox, neighbour: &RunSpec, tenant: &RunSpec, times: &mut Vec<f64>) -> Result<()> {
    let switch = KillSwitch::new()?;
    let (ready, said) = sync_channel(1);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| live(sandbox, neighbour, &switch, &ready));
        let heard = said.recv_timeout(Duration::from_secs(30));
        std::thread::sleep(PAUSE);
        let ran = heard.context("the neighbour said nothing").and_then(|()| runs(sandbox, tenant, times));
        switch.kill(KillReason::Cancelled);
        neighbour.join().map_err(|_| anyhow!("a thread panicked"))??;
        ran
    })
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let stage = Stage::open()?;
    let (program, sandbox) = (stage.neighbour()?, sandbox(PoolBounds::DEFAULT)?);
    let path = program.to_str().context("a path that is not UTF-8")?;
    let tenant = stage.spec("tenant", 0, &[TRUE])?;
    let mut times = NEIGHBOURS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, does), times) in NEIGHBOURS.iter().zip(&mut times) {
            match does {
                [] => runs(&sandbox, &tenant, times)?,
                does => {
                    let neighbour = stage.spec("neighbour", 1, &[&[path], *does].concat())?;
                    beside(&sandbox, &neighbour, &tenant, times)?;
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
    let figure = |name, place: usize| Figure::at_most(name, "x", quantile(&times[place], 0.99) / alone, 2.0);
    let figures = vec![figure("p99 beside a fork bomb to alone", 2), figure("p99 beside a memory bomb to alone", 3)];
    drop(sandbox);
    stage.close()?;
    Ok(figures)
}
