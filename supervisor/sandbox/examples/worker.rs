//! The worker for this crate's own tests and benchmark; the real binary belongs to the supervisor's package.

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor_sandbox::worker::main()
}
