//! Invalid input at every interface: a clear typed error before any process starts, and no loss of earlier results.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests, which clippy treats as ordinary code"
)]

mod command_line;
mod command_output;
#[path = "../authentication/credentials.rs"]
#[expect(dead_code, reason = "these tests use a part of the credentials")]
mod credentials;
mod host_file;
mod mcp_arguments;
mod resource_floods;
mod run_requests;
mod session_requests;
mod stalled_peers;
mod unread_log;

use proctor_proto::v1::{Outcome, RunTestsRequest};
use proctor_tests::grpc_client::{Client, RunStream};
use std::path::Path;

/// Filters that every interface refuses, with the message.
const FILTERS: [(&str, &str); 6] = [
    ("-x", "filter cannot start with '-' (looks like a CLI option, not a test name)"),
    ("-exec=/bin/sh", "filter cannot start with '-' (looks like a CLI option, not a test name)"),
    ("a/../b", "filter cannot contain '..'"),
    ("Test\nEvil", "filter contains control characters"),
    ("Test\u{1b}[31m", "filter contains control characters"),
    (LONG, "filter too long (201 > 200 chars)"),
];

const LONG: &str = "ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé\
                    éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé";

/// Message for a workspace without any project.
const NO_PROJECT: &str = "no supported project detected in workspace root";

/// Message when the runner's program is missing.
const NO_GO: &str = "go: not found on PATH";

/// A PATH directory with some programs of every host, and without go.
fn path_without_go(dir: &Path) -> String {
    let bin = dir.join("bin-without-go");
    std::fs::create_dir_all(&bin).unwrap();
    for program in ["sh", "sleep", "cat"] {
        _ = std::os::unix::fs::symlink(format!("/bin/{program}"), bin.join(program));
    }
    bin.to_str().unwrap().to_owned()
}

/// Adds symlinks that lead out of the workspace.
fn add_links_out(workspace: &Path) {
    std::os::unix::fs::symlink("/etc", workspace.join("out")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", workspace.join("passwd.txt")).unwrap();
}

#[test]
fn long_filter_exceeds_the_limit_by_one() {
    assert_eq!(LONG.chars().count(), 201);
}

async fn start(client: &Client, session_id: &str, command: &[&str]) -> RunStream {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let request = RunTestsRequest { session_id: session_id.to_owned(), command, ..RunTestsRequest::default() };
    client.start(request).await.unwrap()
}

async fn assert_can_run(client: &Client, session_id: &str) {
    let followed = start(client, session_id, &["/bin/true"]).await.read_to_end().await;
    assert_eq!(followed.report().outcome(), Outcome::Passed);
}
