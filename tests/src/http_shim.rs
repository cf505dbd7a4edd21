//! A `proctor-mcp` that serves a workspace over streamable HTTP.

use crate::process::{signal, wait_for_exit};
use crate::test_workspace::TestWorkspace;
use nix::sys::signal::Signal;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};
use tempfile::TempDir;

const TOKEN: &str = "of-the-agents";

/// A running server.
pub struct HttpShim {
    process: Child,
    url: String,
    // Closed, it would make the log fail.
    _stderr: BufReader<ChildStderr>,
    _dir: TempDir,
}

impl HttpShim {
    /// Starts a server for `workspace` on a free port of loopback.
    #[must_use]
    pub fn start(workspace: &TestWorkspace) -> HttpShim {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut shim = workspace.command("proctor-mcp");
        shim.args(["--http", "127.0.0.1:0", "--http-token-file"]).arg(&token).arg("--workspace").arg(&workspace.path);
        let mut process = shim.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        let url =
            line.trim().strip_prefix("proctor-mcp: serving MCP at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        HttpShim { process, url, _stderr: stderr, _dir: dir }
    }

    /// URL of the MCP endpoint.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The token that clients have to send.
    #[must_use]
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// Ends the server, which must succeed.
    pub fn stop(self) {
        signal(self.process.id(), Signal::SIGTERM);
        assert_eq!(wait_for_exit(self.process).status, 0);
    }
}
