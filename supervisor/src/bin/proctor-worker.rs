//! The worker binary. Everything it does is in the sandbox crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor_sandbox::worker::main()
}
