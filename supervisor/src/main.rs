//! The binary `proctor`: parses the command line and hands over to [`proctor::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    proctor::cli::main()
}
