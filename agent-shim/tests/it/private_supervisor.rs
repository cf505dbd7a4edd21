//! A private supervisor whose connection breaks while it lives on. It is this test itself, called by a script, so that it can
//! speak over the socket that it is given.

use crate::client::{Client, block, write_program};
use crate::fake_supervisor::{FakeState, FakeSupervisor};
use crate::runs::failed;
use serde_json::json;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use tonic::Status;

/// Where the supervisors of a test leave their process ids, a file each.
const PLACE: &str = "PROCTOR_TEST_PRIVATE";

/// More than a client takes as the headers of an answer: it breaks off the whole connection. And more than a socket holds, so
/// that who says it is not done before the socket is closed.
const TOO_LONG: usize = 4_000_000;

// The supervisor: the first one of a test breaks its connection with its first answer.
fn be_the_supervisor(place: &Path) {
    let is_first = std::fs::read_dir(place).unwrap().count() == 0;
    std::fs::write(place.join(std::process::id().to_string()), "").unwrap();
    let refuse = is_first.then(|| Status::invalid_argument("x".repeat(TOO_LONG)));
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    FakeSupervisor::over(socket.into(), FakeState { refuse, ..failed() });
}

// A program that is called like `proctor` and is this one.
fn program(dir: &Path) -> PathBuf {
    let program = dir.join("proctor");
    let (own, place) = (std::env::current_exe().unwrap(), dir.join("pids"));
    std::fs::create_dir(&place).unwrap();
    let script = format!(
        "#!/bin/sh\n{PLACE}={} exec {} --exact private_supervisor::one_that_cannot_be_asked_any_more_is_ended_and_another_started\n",
        place.display(),
        own.display()
    );
    write_program(&program, &script);
    program
}

#[test]
fn one_that_cannot_be_asked_any_more_is_ended_and_another_started() {
    match std::env::var_os(PLACE) {
        Some(place) => be_the_supervisor(Path::new(&place)),
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
