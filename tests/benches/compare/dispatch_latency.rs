//! What a run costs beyond its command: `/bin/true` bare, through proctor and through its rivals, in turn within one process
//! so that a noisy machine disturbs all alike. Must not know how any of them works.

use crate::bench_setup::{Stage, TRUE, run_well, sandbox, timed};
use crate::rival_sandboxes::{WithoutV2, bare, bubblewrap, oci};
use crate::seeded_random::Dice;
use crate::targets::{Figure, quantile};
use anyhow::Result;
use proctor_sandbox::PoolBounds;
use std::time::Duration;

/// Rounds that are not counted: caches fill, the supervisor's pools grow.
const WARM_UP: usize = 20;
const ROUNDS: usize = 400;

/// Pause after each run. The kernel takes the namespaces of a run apart, and proctor prepares the next one, after its end: at
/// the cost of whoever comes next. What that costs in all is what the throughput says.
const PAUSE: Duration = Duration::from_millis(3);

/// One who runs [`TRUE`].
struct Contestant<'a> {
    name: &'static str,
    /// What it does not have that a warm proctor has.
    lacks: &'static str,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
    /// Milliseconds of every round.
    times: Vec<f64>,
}

fn measure(contestants: &mut [Contestant<'_>]) -> Result<()> {
    let mut dice = Dice::new();
    for round in 0..WARM_UP + ROUNDS {
        let mut turns: Vec<usize> = (0..contestants.len()).collect();
        while !turns.is_empty() {
            let contestant = &mut contestants[turns.swap_remove(dice.below(turns.len()))];
            let ms = timed(&mut contestant.run)?;
            if round >= WARM_UP {
                contestant.times.push(ms);
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let stage = Stage::open()?;
    let mut remote = stage.session(1)?;
    let (warm, cold) = (sandbox(PoolBounds::DEFAULT)?, sandbox(PoolBounds::NONE)?);
    let spec = stage.spec("tenant", 0, &[TRUE])?;
    let crun = WithoutV2::running(oci(&stage, "crun")?);
    let contestant = |name, lacks, run| Contestant { name, lacks, run, times: Vec::new() };
    let mut contestants = [
        contestant("bare spawn", "everything", Box::new(bare) as Box<dyn FnMut() -> Result<()>>),
        contestant("proctor, warm", "", Box::new(|| run_well(&warm, &spec))),
        contestant("proctor, gRPC to finished", "", Box::new(|| stage.runtime.block_on(remote.run()))),
        contestant("proctor, cold", "", Box::new(|| run_well(&cold, &spec))),
        contestant("bubblewrap", "limits, seccomp, landlock, kill of the group", Box::new(bubblewrap(&stage)?)),
        contestant("crun", "landlock, v2 hidden where it is hybrid", Box::new(|| crun.run())),
        contestant("runc", "landlock", Box::new(oci(&stage, "runc")?)),
    ];
    measure(&mut contestants)?;
    anstream::println!("\n{TRUE}, milliseconds, {ROUNDS} rounds");
    anstream::println!("{:<28}{:>8}{:>8}{:>8}{:>10}  lacks", "", "p50", "p90", "p99", "to bare");
    let base = quantile(&contestants[0].times, 0.5);
    for Contestant { name, lacks, times, .. } in &contestants {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(times, share));
        anstream::println!("{name:<28}{p50:>8.2}{p90:>8.2}{p99:>8.2}{:>9.1}x  {lacks}", p50 / base);
    }
    let of = |place: usize, share| quantile(&contestants[place].times, share);
    let figures = vec![
        Figure::at_most("warm p50 over bare p50", "ms", of(1, 0.5) - of(0, 0.5), 1.0),
        Figure::at_most("warm p99 over bare p99", "ms", of(1, 0.99) - of(0, 0.99), 6.0),
        Figure::at_most("gRPC request to finished p50", "ms", of(2, 0.5), 2.5),
    ];
    drop(contestants);
    drop((warm, cold, crun));
    stage.close()?;
    Ok(figures)
}
