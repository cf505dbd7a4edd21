//! The worker binary. All of its code is in the sandbox crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor_sandbox::worker::main()
}
