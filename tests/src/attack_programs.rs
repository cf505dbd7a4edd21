//! Compiles the attack programs of `tests/attacks` (C, because safe Rust cannot express the system calls they make).

use crate::process::{command, source_root, wait_for_exit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Path of the C compiler on Debian-like hosts.
pub const COMPILER: &str = "/usr/bin/cc";

/// Compiles all attack sources into the single program `attack`.
pub fn compile(attack: &Path) {
    let mut parts: Vec<PathBuf> =
        fs::read_dir(source_root().join("tests/attacks")).unwrap().flatten().map(|e| e.path()).collect();
    parts.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    let mut compiler = command(Path::new(COMPILER));
    compiler.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    compiler.args(["-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(attack).args(parts);
    compiler.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child =
        compiler.spawn().unwrap_or_else(|error| panic!("no C compiler ({error}): apt-get install gcc libc6-dev"));
    let output = wait_for_exit(child);
    assert!(output.status == 0, "the attacks do not compile (apt-get install gcc libc6-dev): {}", output.stderr);
}
