//! Linters and type checkers at the three entrances, with the real tools: findings, new and fixed ones, files, changes since an
//! earlier state, and that a checker without a verdict is never one without findings.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy treats as ordinary code")]

mod command_line;
mod every_checker;
mod grpc;
mod mcp;
#[path = "../report_formats/readers.rs"]
#[expect(dead_code, reason = "these tests use a part of the readers")]
mod readers;
mod report_formats;

use proctor_tests::process::{ProcessOutput, ensure_installed, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

/// A file with one finding of ruff: an import that is not used.
const UNUSED_IMPORT: &str = "import os\n";

/// PATH with the checkers behind the suites' own programs.
fn path_with_checkers() -> OsString {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("checkers"));
    let ours = search_path();
    std::env::join_paths(std::env::split_paths(&ours).chain([tools().join("checkers/bin")])).unwrap()
}

/// One of proctor's programs, which finds the checkers.
fn program(workspace: &TestWorkspace, name: &str) -> Command {
    let mut command = workspace.command(name);
    command.env("PATH", path_with_checkers());
    command
}

/// Runs `proctor check` with these arguments to its end.
fn check(workspace: &TestWorkspace, arguments: &[&str]) -> ProcessOutput {
    wait_for_exit(program(workspace, "proctor").arg("check").args(arguments).spawn().unwrap())
}

/// Makes a program of the project's own environment stand for ruff, which settings select.
fn stand_in_for_ruff(workspace: &Path, script: &str) {
    fs::write(workspace.join("ruff.toml"), "").unwrap();
    fs::write(workspace.join("a.py"), UNUSED_IMPORT).unwrap();
    let bin = workspace.join(".venv/bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("ruff");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}
