//! Bad input at every entrance: a clear error with its type, before any process starts, and nothing lost of what was there.
//! Must not know how good input is carried out.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod command_line;
#[path = "../authentication/credentials.rs"]
#[expect(dead_code, reason = "who only knocks needs a part of it")]
mod credentials;
mod host_file;
mod mcp_arguments;
#[path = "../outcome_table/mcp_client.rs"]
mod mcp_client;
mod resource_floods;
mod run_requests;
mod session_requests;
mod stalled_peers;
mod terminal_output;
mod unread_log;

use proctor_proto::v1::{Outcome, RunTestsRequest};
use proctor_tests::grpc_client::{Client, Stream};
use std::path::Path;

/// A filter that is refused at every entrance, and what is said about it.
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

/// What a workspace without any project is told.
const NO_PROJECT: &str = "no supported project detected in workspace root";

/// What is said without the runner's program.
const NO_GO: &str = "go: not found on PATH";

/// A directory with the few programs that every host has, and no go.
fn path_without_go(dir: &Path) -> String {
    let bin = dir.join("bin-without-go");
    std::fs::create_dir_all(&bin).unwrap();
    for program in ["sh", "sleep", "cat"] {
        _ = std::os::unix::fs::symlink(format!("/bin/{program}"), bin.join(program));
    }
    bin.to_str().unwrap().to_owned()
}

/// Puts links that lead out of a workspace into it.
fn add_links_out(workspace: &Path) {
    std::os::unix::fs::symlink("/etc", workspace.join("out")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", workspace.join("passwd.txt")).unwrap();
}

#[test]
fn the_long_filter_is_one_too_long() {
    assert_eq!(LONG.chars().count(), 201);
}

async fn start(client: &Client, session_id: &str, command: &[&str]) -> Stream {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let request = RunTestsRequest { session_id: session_id.to_owned(), command, ..RunTestsRequest::default() };
    client.start(request).await.unwrap()
}

async fn assert_passes(client: &Client, session_id: &str) {
    let followed = start(client, session_id, &["/bin/true"]).await.to_end().await;
    assert_eq!(followed.report().outcome(), Outcome::Passed);
}
