//! The attacks of `tests/attacks`, compiled: hostile code makes calls that safe Rust has no words for. Must not know what
//! holds them.

use crate::process::{command, source_root, wait_for_exit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where the C compiler of a Debian-like machine is.
pub const COMPILER: &str = "/usr/bin/cc";

/// Compiles them into the one program `attack`.
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
    let said = wait_for_exit(child);
    assert!(said.status == 0, "the attacks do not compile (apt-get install gcc libc6-dev): {}", said.stderr);
}
