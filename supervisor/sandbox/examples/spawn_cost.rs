//! What a sandboxed run of a program that does nothing costs over a bare spawn of it, side by side in one process.
//! `cargo run --release -p proctor-sandbox --example spawn_cost [ROUNDS]`, after the example `worker` was built.

use proctor_core::isolation::Network;
use proctor_core::limits::Limits;
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox};
use std::error::Error;
use std::time::{Duration, Instant};

const PROGRAM: &str = "/bin/true";

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(300), |text| text.parse())?;
    let worker = std::env::current_exe()?.with_file_name("worker");
    let sandbox = LinuxSandbox::new(worker, PoolBounds::DEFAULT)?;
    let spec = |network| RunSpec {
        commands: vec![CommandSpec { program: PROGRAM.into(), args: vec![], dir: "/".into(), env: vec![] }],
        jail: Jail { network, ..Jail::at("/usr") },
        scratch_files: vec![],
        scratch_dirs: vec![],
        artifacts: String::new(),
        limits: Limits::DEFAULT,
        required_limits: vec![],
    };
    let (isolated, networked) = (spec(Network::None), spec(Network::Host));
    let (mut bare, mut with_net, mut without_net, mut setup) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        bare.push(timed(spawn_bare)?.0);
        let (took, ending) = timed(|| Ok(sandbox.run(&isolated, &KillSwitch::new()?, &mut |_| {})?))?;
        setup.push(Duration::from_secs_f64(ending.resources.setup_s));
        with_net.push(took);
        without_net.push(timed(|| Ok(sandbox.run(&networked, &KillSwitch::new()?, &mut |_| {})?))?.0);
    }
    let base = percentile(&mut bare, 50);
    let rows = [
        ("bare spawn", bare),
        ("sandbox, own network", with_net),
        ("sandbox, host's network", without_net),
        ("of which until the command starts, own network", setup),
    ];
    for (name, mut times) in rows {
        let (p5, p50, p99) = (percentile(&mut times, 5), percentile(&mut times, 50), percentile(&mut times, 99));
        println!(
            "{name:<48} p5 {p5:>10.1?} p50 {p50:>10.1?}  p99 {p99:>10.1?}  {:>5.1} x",
            p50.as_secs_f64() / base.as_secs_f64()
        );
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the bare spawn is what the sandbox is compared with")]
fn spawn_bare() -> Result<(), Box<dyn Error>> {
    std::process::Command::new(PROGRAM).status()?;
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> Result<T, Box<dyn Error>>) -> Result<(Duration, T), Box<dyn Error>> {
    let begun = Instant::now();
    let outcome = work()?;
    Ok((begun.elapsed(), outcome))
}

fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
}
