//! Overhead of a run: `/bin/true` bare, through proctor and through its rivals, in random order within one process, so that
//! noise of the machine affects all alike.

use crate::bench_setup::{BenchSetup, TRUE, run_and_check, sandbox, time_ms};
use crate::rivals::go_judge::GoJudge;
use crate::rivals::nsjail::Nsjail;
use crate::rivals::oci::{self, ThreadWithoutV2};
use crate::rivals::{bare, bubblewrap};
use crate::seeded_random::SeededRandom;
use crate::targets::{Figure, quantile};
use anyhow::Result;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_sandbox::PoolBounds;
use std::time::Duration;

/// Rounds that are not measured, in which caches and the supervisor's pools fill.
const WARM_UP: usize = 20;
const ROUNDS: usize = 400;

/// New sessions of which the first run is measured.
const FIRST_RUNS: usize = 100;

/// Pause after each run. After a run's end the kernel dismantles its namespaces and proctor prepares the next worker, at the
/// expense of the next measurement. The throughput benchmark shows the total cost.
const PAUSE: Duration = Duration::from_millis(3);

/// A way of running [`TRUE`].
struct Contestant<'a> {
    name: &'static str,
    /// Features that a warm proctor has and this one lacks.
    lacks: &'static str,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
    /// Duration of each round in milliseconds.
    times: Vec<f64>,
}

fn measure(contestants: &mut [Contestant<'_>]) -> Result<()> {
    let mut random = SeededRandom::new();
    for round in 0..WARM_UP + ROUNDS {
        let mut turns: Vec<usize> = (0..contestants.len()).collect();
        while !turns.is_empty() {
            let contestant = &mut contestants[turns.swap_remove(random.below(turns.len()))];
            let ms = time_ms(&mut contestant.run)?;
            if round >= WARM_UP {
                contestant.times.push(ms);
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// Milliseconds of the first run in each of [`FIRST_RUNS`] sessions.
fn time_first_runs(setup: &BenchSetup) -> Result<Vec<f64>> {
    let (mut sessions, mut times) = (SessionsClient::new(setup.channel()), Vec::with_capacity(FIRST_RUNS));
    for _ in 0..FIRST_RUNS {
        let mut session = setup.session(2)?;
        times.push(time_ms(|| setup.runtime.block_on(session.run()))?);
        setup.runtime.block_on(session.close(&mut sessions))?;
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}

/// Measures, prints the times and returns the figures with targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let mut remote = setup.session(1)?;
    let (warm, cold) = (sandbox(PoolBounds::DEFAULT)?, sandbox(PoolBounds::NONE)?);
    let spec = setup.spec("tenant", 0, &[TRUE])?;
    let crun = ThreadWithoutV2::start(oci::runner(&setup, "crun")?);
    let judge = GoJudge::start(&setup, 1)?;
    let (mut judge_client, mut nsjail) = (judge.client()?, Nsjail::new(&setup)?);
    let contestant = |name, lacks, run| Contestant { name, lacks, run, times: Vec::new() };
    let mut contestants = [
        contestant("bare spawn", "everything", Box::new(bare) as Box<dyn FnMut() -> Result<()>>),
        contestant("proctor, warm", "", Box::new(|| run_and_check(&warm, &spec))),
        contestant("proctor, gRPC to finished", "", Box::new(|| setup.runtime.block_on(remote.run()))),
        contestant("proctor, cold", "", Box::new(|| run_and_check(&cold, &spec))),
        contestant(
            "go-judge, HTTP to finished",
            "workspace, seccomp, landlock; later runs use its containers again",
            Box::new(|| judge_client.run()),
        ),
        contestant("nsjail", "landlock, kill of the group", Box::new(|| nsjail.run())),
        contestant("bubblewrap", "limits, seccomp, landlock, kill of the group", Box::new(bubblewrap(&setup)?)),
        contestant("crun", "landlock, v2 hidden where it is hybrid", Box::new(|| crun.run())),
        contestant("runc", "landlock", Box::new(oci::runner(&setup, "runc")?)),
    ];
    measure(&mut contestants)?;
    anstream::println!("\n{TRUE}, milliseconds, {ROUNDS} rounds");
    anstream::println!("{:<28}{:>8}{:>8}{:>8}{:>10}  lacks", "", "p50", "p90", "p99", "to bare");
    let base = quantile(&contestants[0].times, 0.5);
    for Contestant { name, lacks, times, .. } in &contestants {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|share| quantile(times, share));
        anstream::println!("{name:<28}{p50:>8.2}{p90:>8.2}{p99:>8.2}{:>9.1}x  {lacks}", p50 / base);
    }
    let at = |contestant: usize, share| quantile(&contestants[contestant].times, share);
    let first_p50 = quantile(&time_first_runs(&setup)?, 0.5);
    anstream::println!("first run of a session, gRPC to finished: p50 {first_p50:.2} ms of {FIRST_RUNS} sessions");
    let figures = vec![
        Figure::at_most("warm p50 over bare p50", "ms", at(1, 0.5) - at(0, 0.5), 1.0),
        Figure::at_most("warm p99 over bare p99", "ms", at(1, 0.99) - at(0, 0.99), 6.0),
        Figure::at_most("gRPC request to finished p50", "ms", at(2, 0.5), 2.5),
        Figure::at_most("gRPC p50 to go-judge's p50", "x", at(2, 0.5) / at(4, 0.5), 0.33),
        Figure::at_most("first run of a session over bare p50", "ms", first_p50 - at(0, 0.5), 3.0),
    ];
    drop(contestants);
    drop((warm, cold, crun));
    setup.stop()?;
    Ok(figures)
}
