//! Runs one shell script in the sandbox and prints its events: a supervisor that the tests can kill, or run as an
//! unprivileged user. `run_script SCRIPT [REQUIRED_LIMIT]`, in the directory of the example `worker`.

use proctor_core::limits::{LimitKind, Limits};
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox, SandboxEvent};
use std::error::Error;
use std::io::{Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let script = args.next().ok_or("usage: run_script SCRIPT [REQUIRED_LIMIT]")?;
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
        jail: Jail::new("/usr"),
        stack_requests: vec![],
        scratch_files: vec![],
        scratch_dirs: vec![],
        artifacts: String::new(),
        report: false,
        alone: false,
        limits: Limits::DEFAULT,
        required_limits,
    };
    let ending = sandbox.run(&spec, &KillSwitch::new()?, &mut |event| {
        // A closed stdout is ignored.
        let _printed = match event {
            SandboxEvent::Started { isolation } => writeln!(stdout(), "{isolation:?}"),
            SandboxEvent::Output { bytes, .. } => stdout().write_all(bytes),
            _ => Ok(()),
        };
    })?;
    println!("{ending:?}");
    Ok(())
}
