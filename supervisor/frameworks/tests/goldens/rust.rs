//! Recordings of cargo and nextest.

use crate::recording::{Channel, Killed, Recordings, Run};
use crate::render::{self, BRIEF};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::rust::{Cargo, Nextest};
use std::collections::BTreeSet;

pub(crate) static CARGO: Recordings = Recordings {
    // The binaries of a project are not announced: `a_truncated_stream_has_no_proof` looks at each.
    unproven_bytes: |_| 0,
    channels: &[("err", Channel::Stderr), ("out", Channel::Stdout)],
    render: render::brief,
    runs: &[(0, "pass skip"), (101, "builderror crash fail harness unicode")],
    killed: &[Killed { name: "hang-killed", passed: "hang$tests::a_quick", running: ("hang", "tests::hangs") }],
    listings: &["list-pass"],
    proof: &[
        (r#"{ "type": "suite", "event": "ok", "passed": 3,"#, "{"),
        (r#""test_count": 3"#, r#""test_count": 4"#),
        ("test result: ok. 2 passed;", ""),
    ],
    ..Recordings::of(&Cargo)
};

/// A backtrace becomes the stack.
pub(crate) static CARGO_BACKTRACE: Recordings = Recordings {
    unproven_bytes: CARGO.unproven_bytes,
    channels: CARGO.channels,
    render: |replay| BRIEF.render(&replay.events),
    runs: &[(101, "backtrace")],
    proof: &[],
    ..Recordings::of(&Cargo)
};

pub(crate) static NEXTEST: Recordings = Recordings {
    unproven_bytes: CARGO.unproven_bytes,
    channels: CARGO.channels,
    render: render::brief,
    runs: &[(0, "pass"), (100, "fail"), (101, "builderror")],
    listings: &["list-pass"],
    proof: &[
        (
            r#"{"type":"suite","event":"ok","passed":1,"failed":0,"ignored":0,"measured":0,"filtered_out":0,"exec_time":0.018"#,
            "{",
        ),
        (r#"{"type":"suite","event":"started","#, "{"),
    ],
    ..Recordings::of(&Nextest)
};

#[test]
fn a_truncated_stream_has_no_proof() {
    for (name, run) in CARGO.all().filter(|(name, _)| ["pass", "skip"].contains(name)) {
        let stdout = run.last();
        let began = stdout.windows(13).position(|bytes| bytes == b"proctor-began").unwrap();
        let last = stdout.windows(13).rposition(|bytes| bytes == b"proctor-ended").unwrap();
        for end in (began + 14..last).step_by(7) {
            let cut = &stdout[..end];
            let replay = CARGO.replay(&run.with_last(cut));
            let is_whole = !replay.is_unproven()
                && !replay.events.iter().any(|event| match event {
                    RunnerEvent::TestFinished(test) => test.outcome == TestOutcome::Error,
                    RunnerEvent::Collector(_) => true,
                    RunnerEvent::TestStarted(_) => false,
                });
            let between_binaries = cut.ends_with(b"proctor-ended 0\n");
            assert!(!is_whole || between_binaries || !is_inside_a_binary(cut), "{name} at {end}");
        }
    }
}

/// Whether the last binary that began has not ended.
fn is_inside_a_binary(stdout: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stdout);
    text.rfind("\nproctor-began ").or(Some(0)) > text.rfind("\nproctor-ended ")
}

#[test]
fn a_listing_names_the_tests_of_a_run() {
    for rust in [&CARGO, &NEXTEST] {
        let listed = rust.replay(&rust.load("list-pass", 0).listing());
        let listed: BTreeSet<_> = listed.started().cloned().collect();
        let ran: BTreeSet<_> = rust.replay(&rust.run("pass")).finished().map(|test| test.id()).collect();
        assert_eq!(listed, ran);
        assert!(!ran.is_empty());
    }
}

/// Nextest's stream of a run with two ignored tests: it has their number, but not their names.
const IGNORED: &[u8] = br#"{"type":"suite","event":"started","test_count":3,"nextest":{"crate":"x","test_binary":"x","kind":"lib"}}
{"type":"test","event":"started","name":"x::x$holds"}
{"type":"test","event":"ok","name":"x::x$holds","exec_time":0.05}
{"type":"suite","event":"ok","passed":1,"failed":0,"ignored":2,"measured":0,"filtered_out":0,"exec_time":0.05,"nextest":{"crate":"x","test_binary":"x","kind":"lib"}}
"#;

const LISTED: &[u8] = br#"{"rust-build-meta":{},"test-count":3,"rust-suites":{"x":{"testcases":{"holds":{"ignored":false,"filter-match":{"status":"matches"}},"a":{"ignored":true,"filter-match":{"status":"matches"}},"b":{"ignored":true,"filter-match":{"status":"matches"}},"c":{"ignored":true,"filter-match":{"status":"mismatch","reason":"string"}}}}}}
"#;

fn printed(stdout: &[u8]) -> Run {
    Run::new(&[(Channel::Stdout, stdout)], Exit::Code(0))
}

#[test]
fn lists_ignored_tests_that_nextest_only_counts() {
    let mut run = printed(IGNORED);
    let first = NEXTEST.replay(&run);
    assert!(!first.is_unproven() && first.steps_left == 1);
    assert_eq!(first.follow_ups[0].args[..2], ["nextest", "list"]);
    assert!(first.follow_ups[0].args.iter().any(|arg| arg == "--run-ignored=all"));
    run.steps.extend(printed(LISTED).steps);
    let replay = NEXTEST.replay(&run);
    assert!(!replay.is_unproven() && replay.steps_left == 0);
    assert_eq!(BRIEF.render(&replay.events), "passed x$holds\nskipped x$a\nskipped x$b\n");
}

#[test]
fn a_nextest_stream_with_open_suites_has_no_proof() {
    let last = IGNORED.windows(16).rposition(|bytes| bytes == br#"{"type":"suite","#.as_slice()).unwrap_or_default();
    assert!(NEXTEST.replay(&printed(&IGNORED[..last])).is_unproven());
}

#[test]
fn a_nextest_stream_without_suites_has_no_proof() {
    let is_test = |line: &&[u8]| !line.starts_with(br#"{"type":"suite","#);
    let tests: Vec<&[u8]> = IGNORED.split_inclusive(|byte| *byte == b'\n').filter(is_test).collect();
    let replay = NEXTEST.replay(&printed(&tests.concat()));
    assert!(!replay.events.is_empty() && replay.is_unproven());
}
