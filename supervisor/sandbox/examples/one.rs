//! Runs one shell script in the sandbox and prints what it hears: a supervisor small enough to be killed, or to be run as
//! an ordinary user, by the tests. `one SCRIPT [REQUIRED_LIMIT]`, beside the example `worker`.

use proctor_core::limits::{LimitKind, Limits};
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox, SandboxEvent};
use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let script = args.next().ok_or("what script?")?;
    let required_limits = args.next().map(|_| LimitKind::Memory).into_iter().collect();
    let sandbox = LinuxSandbox::new(std::env::current_exe()?.with_file_name("worker"), PoolBounds::NONE)?;
    sandbox.sweep();
    let command = CommandSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script],
        dir: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
    };
    let spec = RunSpec {
        commands: vec![command],
        jail: Jail::at("/usr"),
        scratch_files: vec![],
        scratch_dirs: vec![],
        artifacts: String::new(),
        report: false,
        limits: Limits::DEFAULT,
        required_limits,
    };
    let ending = sandbox.run(&spec, &KillSwitch::new()?, &mut |event| {
        // What cannot be printed is for nobody.
        let _printed = match event {
            SandboxEvent::Started { isolation } => writeln!(stdout(), "{isolation:?}"),
            SandboxEvent::Output { bytes, .. } => stdout().write_all(bytes),
            _ => Ok(()),
        };
    })?;
    println!("{ending:?}");
    Ok(())
}
