//! Runs each line of its stdin as a shell script, in a sandbox that keeps prepared workers, and prints a word for each
//! step: a supervisor that the tests can kill at any moment. `run_pooled WORKSPACE MARK`, in the directory of the
//! example `worker`; `MARK` is in the environment of all commands.

use proctor_core::limits::Limits;
use proctor_sandbox::{CommandSpec, Jail, KillSwitch, LinuxSandbox, PoolBounds, RunSpec, Sandbox, SandboxEvent};
use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::time::Duration;

/// No zygote is evicted because a test is slow.
const BOUNDS: PoolBounds = PoolBounds { idle: Duration::from_secs(3_600), ..PoolBounds::DEFAULT };

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (workspace, mark) = args.next().zip(args.next()).ok_or("usage: run_pooled WORKSPACE MARK")?;
    let sandbox = LinuxSandbox::new(std::env::current_exe()?.with_file_name("worker"), BOUNDS)?;
    sandbox.sweep();
    print_word("swept");
    for script in stdin().lines() {
        let command = CommandSpec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script?],
            dir: "/".into(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into()), ("MARK".into(), mark.clone())],
        };
        let spec = RunSpec {
            commands: vec![command],
            jail: Jail { session: "one".to_owned(), ..Jail::new(&workspace) },
            stack_requests: vec![],
            scratch_files: vec![],
            scratch_dirs: vec![],
            artifacts: String::new(),
            report: false,
            alone: false,
            limits: Limits::DEFAULT,
            required_limits: vec![],
        };
        sandbox.run(&spec, &KillSwitch::new()?, &mut |event| {
            if let SandboxEvent::CommandStarted { .. } = event {
                print_word("begun");
            }
        })?;
        print_word("ended");
    }
    Ok(())
}

fn print_word(word: &str) {
    // A closed stdout is ignored.
    let _printed = writeln!(stdout(), "{word}");
}
