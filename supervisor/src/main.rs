//! The binary `proctor`: parses the command line and hands over to [`proctor::cli`].

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    proctor::cli::main()
}
