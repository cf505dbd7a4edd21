//! Compiles the extension module that stores executed lines in a Python process. It is injected into runs as a file.

#![expect(clippy::disallowed_methods, reason = "cargo gives a build script its directory in a variable")]

use std::path::PathBuf;

/// The module's source.
const SOURCE: &str = "src/ecosystems/python/proctor_lines.c";

/// Arguments for a shared object that needs no C library: it is loaded by whatever Python a project has.
const ARGUMENTS: [&str; 9] =
    ["-std=c11", "-O2", "-s", "-shared", "-fPIC", "-fvisibility=hidden", "-ffreestanding", "-nostdlib", "-o"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed={SOURCE}");
    let module = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("proctor_lines.so");
    let compiler = cc::Build::new().try_get_compiler()?;
    let status = compiler.to_command().args(ARGUMENTS).arg(module).arg(SOURCE).status()?;
    if status.success() { Ok(()) } else { Err(format!("the C compiler failed on {SOURCE}: {status}").into()) }
}
