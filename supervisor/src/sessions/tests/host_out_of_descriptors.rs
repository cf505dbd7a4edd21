//! Tests of a host without descriptors or disk space while a session has runs.

use super::harness::{Order, ScriptedSandbox, World, start, within};
use crate::runs::{RunEnd, Spools};
use crate::sessions::*;
use proctor_core::event::Stream;
use proctor_core::isolation::Isolation;
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{Ending, SandboxError, SandboxEvent, Spool};

/// A file whose writes find no space.
fn full_disk() -> Spool {
    Spool::of(std::fs::File::options().read(true).write(true).open("/dev/full").unwrap())
}

#[tokio::test]
async fn a_run_whose_output_cannot_be_stored_fails_for_the_host() {
    let world = World::new();
    world.order(Order::Write("hello\n"));
    let report = world.driven(Spools { stdout: full_disk(), ..Spools::default() }).await;
    assert_eq!((report.outcome, report.evidence.killed), (Outcome::WorkerLost, Some(KillReason::HostFailed)));
    let note = "the run was ended, as its output could not be kept: the host's temporary directory is full";
    assert_eq!(report.evidence.notes.iter().filter(|found| *found == note).count(), 1, "{:?}", report.evidence.notes);
    assert_eq!(report.exit_code, 5);
}

/// The lost output may have been a failure.
#[tokio::test]
async fn a_run_whose_last_output_cannot_be_stored_does_not_pass() {
    let world = World::with(ScriptedSandbox(|sink| {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        sink(SandboxEvent::Output { stream: Stream::Stderr, bytes: b"last words" });
        sink(SandboxEvent::CommandExited { index: 0, exit: Exit::Code(0) });
        Ok(Ending { exits: vec![Exit::Code(0)], ..Ending::default() })
    }));
    let report = world.driven(Spools { stderr: full_disk(), ..Spools::default() }).await;
    assert_eq!(report.outcome, Outcome::WorkerLost);
    assert!(report.evidence.notes.iter().any(|note| note.contains("temporary directory is full")), "{report:?}");
}

#[tokio::test]
async fn artefacts_that_cannot_be_stored_are_noted_without_changing_the_outcome() {
    let world = World::with(ScriptedSandbox(|sink| {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        sink(SandboxEvent::CommandExited { index: 0, exit: Exit::Code(0) });
        sink(SandboxEvent::Kept { path: "trace.zip", begins: true, bytes: b"first" });
        sink(SandboxEvent::Kept { path: "trace.zip", begins: false, bytes: b"second" });
        Ok(Ending { exits: vec![Exit::Code(0)], ..Ending::default() })
    }));
    let report = world.driven(Spools { artifacts: full_disk(), ..Spools::default() }).await;
    assert_eq!((report.outcome, report.artifacts.len()), (Outcome::Passed, 0));
    let expected = "files that tests left are not kept, or not whole: the host's temporary directory is full";
    assert!(report.evidence.notes.iter().any(|note| note == expected), "{:?}", report.evidence.notes);
}

#[tokio::test]
async fn a_run_ends_as_not_started_when_the_host_is_short_of_a_resource() {
    let world = World::with(ScriptedSandbox(|_| {
        let source = std::io::Error::from_raw_os_error(24); // EMFILE
        Err(SandboxError::HostLacks { operation: "making a control socket".to_owned(), source })
    }));
    let session = world.open("s");
    let run = start(&session, "a").await;
    let text = "the supervisor has no file descriptor left".to_owned();
    let RunEnd::NotStarted(why) = within(run.handle.end()).await.unwrap() else { panic!("the run has a report") };
    assert_eq!(why, PrepareError::HostFailed { text }.into());
    assert_eq!(within(session.status()).await.unwrap().last, None);
}
