//! A private supervisor whose connection breaks while its process lives on. The supervisor is this test binary itself, started
//! by a script, so that it can serve the socket on its stdin.

use crate::client::{Client, block, shim_with_stderr, write_program};
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::http_client::HttpShim;
use crate::runs::failed;
use serde_json::json;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tonic::Status;

/// Environment variable: the directory where each supervisor of a test leaves a file named by its process id.
const PID_DIR: &str = "PROCTOR_TEST_PRIVATE";

/// Size of an error message that exceeds the header limit of a client, which then drops the whole connection. Also larger than
/// a socket buffer, so that the server is still writing when the socket is closed.
const OVERSIZED_MESSAGE_BYTES: usize = 4_000_000;

// Acts as the supervisor. The first one of a test breaks its connection with its first answer.
fn serve(pid_dir: &Path) {
    let is_first = std::fs::read_dir(pid_dir).unwrap().count() == 0;
    std::fs::write(pid_dir.join(std::process::id().to_string()), "").unwrap();
    let refuse = is_first.then(|| Status::invalid_argument("x".repeat(OVERSIZED_MESSAGE_BYTES)));
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    FakeSupervisor::serve_on(socket.into(), FakeState { refuse, ..failed() });
}

// A program named `proctor` that executes this test binary.
fn program(dir: &Path) -> PathBuf {
    let program = dir.join("proctor");
    let (own, pid_dir) = (std::env::current_exe().unwrap(), dir.join("pids"));
    std::fs::create_dir(&pid_dir).unwrap();
    let script = format!(
        "#!/bin/sh\n{PID_DIR}={} exec {} --exact private_supervisor::an_unresponsive_one_is_ended_and_another_started\n",
        pid_dir.display(),
        own.display()
    );
    write_program(&program, &script);
    program
}

#[test]
fn an_unresponsive_one_is_ended_and_another_started() {
    match std::env::var_os(PID_DIR) {
        Some(pid_dir) => serve(Path::new(&pid_dir)),
        None => tokio::runtime::Runtime::new().unwrap().block_on(another_is_started()),
    }
}

async fn another_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let client = Client::with(&["--proctor-binary", program(dir.path()).to_str().unwrap()]).await;
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert!(block(&result, 0).ends_with("exit: 1\n"), "{result:?}");
    let pids = std::fs::read_dir(dir.path().join("pids")).unwrap();
    let alive = |pid: &String| Path::new("/proc").join(pid).exists();
    let pids: Vec<String> = pids.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!((pids.len(), pids.iter().filter(|pid| alive(pid)).count()), (2, 1));
}

pub(crate) async fn doctor(arguments: &[&str]) -> (bool, String) {
    let all = ["doctor"].iter().chain(arguments).copied().collect::<Vec<_>>();
    let output = shim_with_stderr(&all).wait_with_output().await.unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[tokio::test]
async fn the_doctor_says_at_which_step_a_client_would_fail() {
    let workspace = tempfile::tempdir().unwrap();
    let workspace = workspace.path().to_str().unwrap();
    let fake = FakeSupervisor::start(FakeState::default());
    let supervisor = format!("unix:{}", fake.socket().display());
    let (works, text) = doctor(&["--workspace", workspace, "--supervisor", &supervisor]).await;
    assert!(works && text.ends_with("everything that a client does first works\n"), "{text}");
    let (works, text) = doctor(&["--workspace", workspace, "--supervisor", "unix:/nowhere"]).await;
    assert!(!works && text.contains("FAILED  open a session: get_run: cannot reach the supervisor"), "{text}");
    let (works, text) = doctor(&["--workspace", "/nowhere"]).await;
    assert!(!works && text.contains("FAILED  initialize: "), "{text}");
}

#[tokio::test]
async fn the_doctor_connects_to_a_server_as_an_agent_would() {
    let fake = FakeSupervisor::start(FakeState::default());
    let shim = HttpShim::with(&fake, &["--workspace", "one=/", "--workspace", "two=/tmp"]).await;
    let address = format!("127.0.0.1:{}", shim.port);
    let token = shim.dir.path().join("token");
    let server = ["--workspace", "one=/", "--workspace", "two=/tmp", "--http", &address, "--http-token-file"];
    let (works, text) = doctor(&[&server[..], &[token.to_str().unwrap()]].concat()).await;
    assert!(works && text.ends_with("everything that a client does first works\n"), "{text}");
    for line in ["a caller without credentials is refused", "/mcp/one lists ", "session on the workspace of /mcp/two"] {
        assert!(text.contains(line), "{text}");
    }
    let other = shim.dir.path().join("other");
    std::fs::write(&other, "of-another-server").unwrap();
    let (works, text) = doctor(&[&server[..], &[other.to_str().unwrap()]].concat()).await;
    assert!(!works && text.contains("FAILED  initialize: answered with 401"), "{text}");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (works, text) =
        doctor(&["--workspace", "/", "--http", &nobody, "--http-token-file", token.to_str().unwrap()]).await;
    assert!(!works && text.contains("FAILED  connect: ") && text.contains("without `doctor`"), "{text}");
}
