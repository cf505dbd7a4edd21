//! Compiles what measures executed lines within the processes of a run, and is injected into runs as a file: the extension
//! module that stores the lines of Python, and the recorder that programs of Rust are linked with.

#![expect(clippy::disallowed_methods, reason = "cargo gives a build script its directory in a variable")]

use std::path::PathBuf;

/// The module's sources, the header that they share, and its name.
const PYTHON: [&str; 2] = ["src/ecosystems/python/proctor_lines.c", "src/ecosystems/python/proctor_tracer.c"];
const PYTHON_HEADER: &str = "src/ecosystems/python/proctor_lines.h";
const PYTHON_MODULE: &str = "proctor_lines.so";

/// Arguments for a shared object that needs no C library: it is loaded by whatever Python a project has.
const SHARED_OBJECT: &[&str] =
    &["-std=c11", "-O2", "-s", "-shared", "-fPIC", "-fvisibility=hidden", "-ffreestanding", "-nostdlib"];

/// The recorder's source, and its name.
const RUST: [&str; 1] = ["src/runners/rust/test_lines/recorder.c"];
const RUST_RECORDER: &str = "rust_recorder.o";

/// Arguments for an object that is linked into a program beside a C library.
const OBJECT: &[&str] =
    &["-std=gnu11", "-O2", "-c", "-fPIC", "-fvisibility=hidden", "-fno-stack-protector", "-U_FORTIFY_SOURCE"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let compiler = cc::Build::new().try_get_compiler()?;
    println!("cargo::rerun-if-changed={PYTHON_HEADER}");
    let objects: [(&[&str], &str, &[&str]); 2] =
        [(&PYTHON, PYTHON_MODULE, SHARED_OBJECT), (&RUST, RUST_RECORDER, OBJECT)];
    for (sources, name, arguments) in objects {
        sources.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
        let status =
            compiler.to_command().args(arguments).arg("-o").arg(directory.join(name)).args(sources).status()?;
        if !status.success() {
            return Err(format!("the C compiler failed on {}: {status}", sources.join(", ")).into());
        }
    }
    Ok(())
}
