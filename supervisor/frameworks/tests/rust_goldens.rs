//! Runs the parser of cargo and nextest on recorded streams: each recording is parsed as its snapshot says, and cutting a stream
//! into pieces changes nothing. `goldens/rust/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod brief;
    pub(crate) mod pieces;
    pub(crate) mod render;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::rust::{Cargo, Nextest};
use proctor_frameworks::{FileTree, Framework, Parser, PlanRequest};
use proptest::prelude::*;
use proptest::sample::Index;
use std::fmt::Write as _;
use support::brief::brief;
use support::pieces::pieces;
use support::render::render;
use support::want::want;

/// A recording: the streams of a run, and the runner's exit status.
struct Golden {
    name: &'static str,
    framework: &'static dyn Framework,
    stdout: &'static [u8],
    stderr: &'static [u8],
    status: i32,
}

macro_rules! goldens {
    ($($framework:ident $name:literal $status:literal),* $(,)?) => {
        &[$(Golden {
            name: $name,
            framework: &$framework,
            stdout: include_bytes!(concat!("../goldens/rust/", $name, ".out")),
            stderr: include_bytes!(concat!("../goldens/rust/", $name, ".err")),
            status: $status,
        }),*]
    };
}

const GOLDENS: &[Golden] = goldens![
    Cargo "cargo-builderror" 101,
    Cargo "cargo-crash" 101,
    Cargo "cargo-fail" 101,
    Cargo "cargo-harness" 101,
    Cargo "cargo-pass" 0,
    Cargo "cargo-skip" 0,
    Cargo "cargo-unicode" 101,
    Nextest "nextest-builderror" 101,
    Nextest "nextest-fail" 100,
    Nextest "nextest-pass" 0,
];

const BACKTRACE: &[u8] = include_bytes!("../goldens/rust/cargo-backtrace.out");
const HANG: &[u8] = include_bytes!("../goldens/rust/cargo-hang.out");

fn parser(framework: &dyn Framework, listing: bool) -> Box<dyn Parser> {
    let mut tree = FileTree::default();
    tree.add_with_content("Cargo.toml", "[package]\nname = 'x'\n");
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    let projects = framework.detect(&tree);
    let plan = framework.plan(&projects, &tree, &want).unwrap();
    if listing { framework.listing_parser(&plan, &want) } else { framework.parser(&plan, &want) }
}

/// Parses `chunks` of stdout as one step that ended by itself.
fn parse<'a>(golden: &Golden, chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (mut parser, mut events) = (parser(golden.framework, false), Vec::new());
    parser.step_started(0);
    parser.stderr(golden.stderr, &mut events);
    chunks.into_iter().for_each(|chunk| parser.stdout(chunk, &mut events));
    parser.step_ended(Exit::Code(golden.status), false, &mut events);
    (events, parser)
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for golden in GOLDENS {
        let (events, parser) = parse(golden, [golden.stdout]);
        let mut text = render(&events, brief);
        writeln!(text, "{:?}", parser.summary()).unwrap();
        insta::assert_snapshot!(golden.name, text);
    }
}

#[test]
fn a_backtrace_becomes_the_stack() {
    let golden = Golden { name: "", framework: &Cargo, stdout: BACKTRACE, stderr: b"", status: 101 };
    insta::assert_snapshot!("cargo-backtrace", render(&parse(&golden, [BACKTRACE]).0, brief));
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_one() {
    let (mut parser, mut events) = (parser(&Cargo, false), Vec::new());
    parser.step_started(0);
    parser.stdout(HANG, &mut events);
    parser.step_ended(Exit::Signal(9), true, &mut events);
    let running: Vec<String> = parser.running().into_iter().map(|id| id.name).collect();
    assert_eq!(running, ["tests::hangs"]);
    assert_eq!(render(&events, brief), "passed hang$tests::a_quick\n");
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn a_truncated_stream_has_no_proof() {
    for golden in GOLDENS.iter().filter(|golden| golden.status == 0 && golden.name.starts_with("cargo")) {
        let began = golden.stdout.windows(13).position(|bytes| bytes == b"proctor-began").unwrap();
        let last = golden.stdout.windows(13).rposition(|bytes| bytes == b"proctor-ended").unwrap();
        for end in (began + 14..last).step_by(7) {
            let cut = Golden { stdout: &golden.stdout[..end], ..*golden };
            let (events, parser) = parse(&cut, [cut.stdout]);
            let is_whole = !parser.summary().proof.is_missing()
                && !events.iter().any(|event| match event {
                    RunnerEvent::TestFinished(test) => test.outcome == TestOutcome::Error,
                    RunnerEvent::Collector(_) => true,
                    RunnerEvent::TestStarted(_) => false,
                });
            let between_binaries = golden.stdout[..end].ends_with(b"proctor-ended 0\n");
            assert!(
                !is_whole || between_binaries || !inside_a_binary(&golden.stdout[..end]),
                "{} at {end}",
                golden.name
            );
        }
    }
}

/// Whether the last binary that began has not ended.
fn inside_a_binary(stdout: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stdout);
    text.rfind("\nproctor-began ").or(Some(0)) > text.rfind("\nproctor-ended ")
}

#[test]
fn a_list_names_the_tests_of_a_run() {
    for (framework, list, run) in [
        (&Cargo as &dyn Framework, &include_bytes!("../goldens/rust/list-cargo-pass.out")[..], "cargo-pass"),
        (&Nextest, include_bytes!("../goldens/rust/list-nextest-pass.out"), "nextest-pass"),
    ] {
        let (mut parser, mut events) = (parser(framework, true), Vec::new());
        parser.step_started(0);
        parser.stdout(list, &mut events);
        parser.step_ended(Exit::Code(0), false, &mut events);
        let name = |event: &RunnerEvent| match event {
            RunnerEvent::TestStarted(id) => Some((id.package.clone(), id.name.clone())),
            _ => None,
        };
        let mut listed: Vec<_> = events.iter().filter_map(name).collect();
        let golden = GOLDENS.iter().find(|golden| golden.name == run).unwrap();
        let finished = |event: &RunnerEvent| match event {
            RunnerEvent::TestFinished(test) => Some((test.package.clone(), test.name.clone())),
            _ => None,
        };
        let mut ran: Vec<_> = parse(golden, [golden.stdout]).0.iter().filter_map(finished).collect();
        listed.sort();
        ran.sort();
        assert_eq!(listed, ran);
        assert!(!ran.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn cutting_a_stream_into_chunks_changes_nothing(which in 0..GOLDENS.len(), cuts in prop::collection::vec(any::<Index>(), 0..6)) {
        let golden = &GOLDENS[which];
        let chunks = pieces(golden.stdout, &cuts);
        let (whole, in_pieces) = (parse(golden, [golden.stdout]), parse(golden, chunks));
        prop_assert_eq!(whole.0, in_pieces.0);
        prop_assert_eq!(whole.1.summary(), in_pieces.1.summary());
    }

    #[test]
    fn no_output_of_a_test_makes_the_parser_panic(
        which in 0..GOLDENS.len(), noise in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..8192,
    ) {
        let golden = &GOLDENS[which];
        let mut bytes = golden.stdout.to_vec();
        let at = at.min(bytes.len());
        bytes.splice(at..at, noise);
        parse(golden, [&bytes[..]]);
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

#[test]
fn lists_ignored_tests_that_nextest_only_counts() {
    let (mut parser, mut events) = (parser(&Nextest, false), Vec::new());
    let mut step = |number: usize, stdout: &[u8], events: &mut Vec<RunnerEvent>| {
        parser.step_started(number);
        parser.stdout(stdout, events);
        parser.step_ended(Exit::Code(0), false, events);
        assert!(!parser.summary().proof.is_missing());
        parser.follow_up()
    };
    let more = step(0, IGNORED, &mut events);
    assert_eq!(more[0].args[..2], ["nextest", "list"]);
    assert!(more[0].args.iter().any(|arg| arg == "--run-ignored=all"));
    assert!(step(1, LISTED, &mut events).is_empty());
    assert_eq!(render(&events, brief), "passed x$holds\nskipped x$a\nskipped x$b\n");
}

#[test]
fn a_nextest_stream_with_open_suites_has_no_proof() {
    let (mut parser, mut events) = (parser(&Nextest, false), Vec::new());
    parser.step_started(0);
    let last = IGNORED.windows(16).rposition(|bytes| bytes == br#"{"type":"suite","#.as_slice()).unwrap_or_default();
    parser.stdout(&IGNORED[..last], &mut events);
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn a_nextest_stream_without_suites_has_no_proof() {
    let (mut parser, mut events) = (parser(&Nextest, false), Vec::new());
    parser.step_started(0);
    let is_test = |line: &&[u8]| !line.starts_with(br#"{"type":"suite","#);
    for line in IGNORED.split_inclusive(|byte| *byte == b'\n').filter(is_test) {
        parser.stdout(line, &mut events);
    }
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert!(!events.is_empty() && parser.summary().proof.is_missing());
}
