//! A host that is short of something while a session has runs: what it says of that.

use super::harness::{Do, Says, World, command, within};
use crate::runs::Spools;
use crate::sessions::*;
use proctor_core::event::Stream;
use proctor_core::isolation::Isolation;
use proctor_core::outcome::{Exit, KillReason};
use proctor_sandbox::{Ending, SandboxError, SandboxEvent, Spool};

/// A place without room: what is written to it finds none.
fn full() -> Spool {
    Spool::of(std::fs::File::options().read(true).write(true).open("/dev/full").unwrap())
}

#[tokio::test]
async fn a_run_whose_output_finds_no_room_ends_for_the_host_and_says_so() {
    let world = World::new();
    world.tell(Do::Write("hello\n"));
    let report = world.driven(Spools { stdout: full(), ..Spools::default() }).await;
    assert_eq!((report.outcome, report.evidence.killed), (Outcome::WorkerLost, Some(KillReason::HostFailed)));
    let note = "the run was ended, as its output could not be kept: the host's temporary directory is full";
    assert_eq!(report.evidence.notes.iter().filter(|told| *told == note).count(), 1, "{:?}", report.evidence.notes);
    assert_eq!(report.exit_code, 5);
}

/// What was not heard may have been a failure.
#[tokio::test]
async fn a_run_that_ends_well_is_not_green_when_its_last_words_found_no_room() {
    let world = World::with(Says(|sink| {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        sink(SandboxEvent::Output { stream: Stream::Stderr, bytes: b"last words" });
        sink(SandboxEvent::CommandExited { index: 0, exit: Exit::Code(0) });
        Ok(Ending { exits: vec![Exit::Code(0)], ..Ending::default() })
    }));
    let report = world.driven(Spools { stderr: full(), ..Spools::default() }).await;
    assert_eq!(report.outcome, Outcome::WorkerLost);
    assert!(report.evidence.notes.iter().any(|note| note.contains("temporary directory is full")), "{report:?}");
}

#[tokio::test]
async fn files_that_find_no_room_are_told_and_change_no_outcome() {
    let world = World::with(Says(|sink| {
        sink(SandboxEvent::Started { isolation: Isolation::default() });
        sink(SandboxEvent::CommandStarted { index: 0 });
        sink(SandboxEvent::CommandExited { index: 0, exit: Exit::Code(0) });
        sink(SandboxEvent::Kept { path: "trace.zip", begins: true, bytes: b"first" });
        sink(SandboxEvent::Kept { path: "trace.zip", begins: false, bytes: b"second" });
        Ok(Ending { exits: vec![Exit::Code(0)], ..Ending::default() })
    }));
    let report = world.driven(Spools { artifacts: full(), ..Spools::default() }).await;
    assert_eq!((report.outcome, report.artifacts.len()), (Outcome::Passed, 0));
    let told = "files that tests left are not kept, or not whole: the host's temporary directory is full";
    assert!(report.evidence.notes.iter().any(|note| note == told), "{:?}", report.evidence.notes);
}

#[tokio::test]
async fn what_the_host_is_short_of_is_told_as_such_and_makes_no_run() {
    let world = World::with(Says(|_| {
        let source = std::io::Error::from_raw_os_error(24); // EMFILE
        Err(SandboxError::HostLacks { operation: "making a control socket".to_owned(), source })
    }));
    let session = world.open("s");
    let refused = within(session.start(command("a"), RunKind::Tests, IfBusy::Queue)).await.err();
    let text = "the supervisor has no file descriptor left".to_owned();
    assert_eq!(refused, Some(SessionError::Prepare(PrepareError::HostFailed { text })));
    assert_eq!(within(session.status()).await.unwrap().last, None);
}
