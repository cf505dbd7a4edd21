//! Time from a kill until all processes are reaped and the cgroup is gone, compared with the bare kill of a pid namespace with
//! the same processes, in turn.

use crate::bench_setup::{BenchSetup, command, is_ready, sandbox};
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use proctor_core::outcome::KillReason;
use proctor_sandbox::{KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Child processes of each run.
const COUNT: &str = "200";

/// Kinds of processes and the names of their figures.
const KINDS: [(&str, &str); 2] =
    [("idle", "kill of 200 idle, p99 to bare p99"), ("spinning", "kill of 200 spinning, p99 to bare p99")];

const ROUNDS: usize = 100;

/// Pause between the start of all processes and the kill.
const PAUSE: Duration = Duration::from_millis(20);

/// A program as init of its own pid namespace, without any other isolation. Killed on drop.
struct BareNamespace {
    unshare: Child,
}

impl BareNamespace {
    fn start(program: &Path, kind: &str) -> Result<BareNamespace> {
        let mut unshare = command("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program).args([kind, COUNT]);
        // `unshare` prints an error when its child is killed.
        unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bare = BareNamespace { unshare: unshare.spawn().context("unshare")? };
        let read = bare.unshare.stdout.as_mut().context("no pipe")?.read(&mut [0; 64])?;
        ensure!(read > 0, "the bare namespace ended without output");
        Ok(bare)
    }

    /// Kills init, waits until it and so all processes are reaped, and returns the milliseconds.
    fn kill(mut self) -> Result<f64> {
        let pid = self.unshare.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let init = Pid::from_raw(children.trim().parse().context("the init of the bare namespace")?);
        let started = Instant::now();
        kill(init, Signal::SIGKILL)?;
        self.unshare.wait()?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

impl Drop for BareNamespace {
    fn drop(&mut self) {
        _ = self.unshare.kill();
        _ = self.unshare.wait();
    }
}

/// Kills a sandboxed run and returns the milliseconds until the run has returned.
fn kill_sandboxed(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<f64> {
    let switch = KillSwitch::new()?;
    let (send_ready, ready) = sync_channel(1);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let ending = sandbox.run(spec, &switch, &mut |event| {
                if is_ready(&event) {
                    _ = send_ready.try_send(());
                }
            });
            ending.map(|ending| (ending, Instant::now()))
        });
        let is_ready = ready.recv_timeout(Duration::from_secs(30));
        std::thread::sleep(PAUSE);
        let started = Instant::now();
        switch.kill(KillReason::Cancelled);
        let (ending, ended) = run.join().map_err(|_| anyhow!("a thread panicked"))??;
        is_ready.with_context(|| format!("the sandboxed run printed nothing: {ending:?}"))?;
        ensure!(ending.killed == Some(KillReason::Cancelled), "the run was not killed: {ending:?}");
        Ok((ended - started).as_secs_f64() * 1e3)
    })
}

/// Measures, prints the times and returns the figures with targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let setup = BenchSetup::start()?;
    let (program, sandbox) = (setup.compile_neighbour()?, sandbox(PoolBounds::DEFAULT)?);
    let path = program.to_str().context("a path that is not UTF-8")?;
    anstream::println!(
        "\nkill of {COUNT} processes until all is reaped and their group gone, milliseconds, {ROUNDS} rounds"
    );
    anstream::println!(
        "{:<28}{:>10}{:>8}{:>8}{:>14}{:>8}{:>8}",
        "",
        "bare p50",
        "p90",
        "p99",
        "proctor p50",
        "p90",
        "p99"
    );
    let mut figures = Vec::new();
    for (kind, name) in KINDS {
        let spec = setup.spec("tenant", 0, &[path, kind, COUNT])?;
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let namespace = BareNamespace::start(&program, kind)?;
            std::thread::sleep(PAUSE);
            bare.push(namespace.kill()?);
            ours.push(kill_sandboxed(&sandbox, &spec)?);
        }
        let quantiles = |times: &[f64]| [0.5, 0.9, 0.99].map(|share| quantile(times, share));
        let ([b50, b90, b99], [o50, o90, o99]) = (quantiles(&bare), quantiles(&ours));
        anstream::println!("{kind:<28}{b50:>10.2}{b90:>8.2}{b99:>8.2}{o50:>14.2}{o90:>8.2}{o99:>8.2}");
        figures.push(Figure::at_most(name, "x", o99 / b99, 1.5));
    }
    drop(sandbox);
    setup.stop()?;
    Ok(figures)
}
