//! From the kill to everything reaped and every group gone, beside a bare kill of a pid namespace with the same processes, in
//! turn. Must not know how proctor kills.

use crate::bench_setup::{Stage, command, is_ready, sandbox};
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

/// Processes of a run beside their parent.
const COUNT: &str = "200";

/// What they do.
const KINDS: [(&str, &str); 2] =
    [("idle", "kill of 200 idle, p99 to bare p99"), ("spinning", "kill of 200 spinning, p99 to bare p99")];

const ROUNDS: usize = 100;

/// From everything being there to the kill.
const PAUSE: Duration = Duration::from_millis(20);

/// A program as init of a pid namespace of its own, and nothing else. Killed when it is dropped.
struct Bare {
    unshare: Child,
}

impl Bare {
    fn start(program: &Path, kind: &str) -> Result<Bare> {
        let mut unshare = command("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(program).args([kind, COUNT]);
        // It has things to say when its child is killed.
        unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut bare = Bare { unshare: unshare.spawn().context("unshare")? };
        let read = bare.unshare.stdout.as_mut().context("no pipe")?.read(&mut [0; 64])?;
        ensure!(read > 0, "the bare namespace ended without a word");
        Ok(bare)
    }

    /// Kills init and waits until it, and so everything, is reaped.
    fn kill(mut self) -> Result<f64> {
        let pid = self.unshare.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let init = Pid::from_raw(children.trim().parse().context("the init of the bare namespace")?);
        let begun = Instant::now();
        kill(init, Signal::SIGKILL)?;
        self.unshare.wait()?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        _ = self.unshare.kill();
        _ = self.unshare.wait();
    }
}

/// The same in the sandbox, from the switch until the run has returned.
fn sandboxed(sandbox: &LinuxSandbox, spec: &RunSpec) -> Result<f64> {
    let switch = KillSwitch::new()?;
    let (ready, said) = sync_channel(1);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let ending = sandbox.run(spec, &switch, &mut |event| {
                if is_ready(&event) {
                    _ = ready.try_send(());
                }
            });
            ending.map(|ending| (ending, Instant::now()))
        });
        let heard = said.recv_timeout(Duration::from_secs(30));
        std::thread::sleep(PAUSE);
        let begun = Instant::now();
        switch.kill(KillReason::Cancelled);
        let (ending, ended) = run.join().map_err(|_| anyhow!("a thread panicked"))??;
        heard.with_context(|| format!("the sandboxed run said nothing: {ending:?}"))?;
        ensure!(ending.killed == Some(KillReason::Cancelled), "the run was not killed: {ending:?}");
        Ok((ended - begun).as_secs_f64() * 1e3)
    })
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let stage = Stage::open()?;
    let (program, sandbox) = (stage.neighbour()?, sandbox(PoolBounds::DEFAULT)?);
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
        let spec = stage.spec("tenant", 0, &[path, kind, COUNT])?;
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let namespace = Bare::start(&program, kind)?;
            std::thread::sleep(PAUSE);
            bare.push(namespace.kill()?);
            ours.push(sandboxed(&sandbox, &spec)?);
        }
        let of = |times: &[f64]| [0.5, 0.9, 0.99].map(|share| quantile(times, share));
        let ([b50, b90, b99], [o50, o90, o99]) = (of(&bare), of(&ours));
        anstream::println!("{kind:<28}{b50:>10.2}{b90:>8.2}{b99:>8.2}{o50:>14.2}{o90:>8.2}{o99:>8.2}");
        figures.push(Figure::at_most(name, "x", o99 / b99, 1.5));
    }
    drop(sandbox);
    stage.close()?;
    Ok(figures)
}
