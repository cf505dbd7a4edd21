//! Runs the ctest adapter on recorded output: each recording is parsed as its snapshot says, and cutting a stream into pieces
//! changes nothing. `goldens/ctest/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod pieces;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::{TestCase, TestOutcome};
use proctor_frameworks::runners::ctest::Ctest;
use proctor_frameworks::{FileTree, Framework, Parser, Plan};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::pieces::pieces;
use support::want::want;

macro_rules! goldens {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../goldens/ctest/", $name, ".out")))),*]
    };
}

/// Recorded output of ctest runs that ended by themselves.
const TESTS: &[(&str, &[u8])] =
    goldens!["crash", "error", "fail", "fail-parallel", "pass", "skip", "suites", "twins", "unicode", "whole"];

/// Recorded output of CMake and compilers that failed.
const BUILDS: &[(&str, &[u8])] = goldens!["builderror", "configerror", "linkerror"];

const KILLED: &[u8] = include_bytes!("../goldens/ctest/hang-killed.out");

fn plan() -> Plan {
    let mut tree = FileTree::default();
    tree.add_with_content("CMakeLists.txt", "project(x)\nenable_testing()\n");
    Ctest.plan(&Ctest.detect(&tree), &tree, &want(&Selection::All)).unwrap()
}

/// Feeds one configure or build step with this output and exit status. Returns whether a step follows.
fn build_step(
    parser: &mut Box<dyn Parser>,
    step: usize,
    output: &[u8],
    status: i32,
    events: &mut Vec<RunnerEvent>,
) -> bool {
    parser.step_started(step);
    parser.stderr(output, events);
    parser.step_ended(Exit::Code(status), false, events);
    !parser.follow_up().is_empty()
}

/// A parser whose current step runs the tests.
fn parser_at_tests(mut parser: Box<dyn Parser>) -> Box<dyn Parser> {
    let mut events = Vec::new();
    assert!(build_step(&mut parser, 0, b"", 0, &mut events));
    assert!(build_step(&mut parser, 1, b"", 0, &mut events));
    assert!(events.is_empty());
    parser.step_started(2);
    parser
}

fn runs() -> Box<dyn Parser> {
    parser_at_tests(Ctest.parser(&plan(), &want(&Selection::All)))
}

/// Parses `golden` in a project that mentions WILL_FAIL, where ctest's list sets it for test `name`.
fn parse_with_will_fail(golden: &[u8], name: &str) -> Vec<RunnerEvent> {
    let mut tree = FileTree::default();
    tree.add_with_content(
        "CMakeLists.txt",
        "project(x)\nenable_testing()\nset_tests_properties(y PROPERTIES WILL_FAIL 1)",
    );
    let (selection, mut events) = (Selection::All, Vec::new());
    let plan = Ctest.plan(&Ctest.detect(&tree), &tree, &want(&selection)).unwrap();
    let mut parser = Ctest.parser(&plan, &want(&selection));
    parser.step_started(0);
    parser.step_ended(Exit::Code(0), false, &mut events);
    parser.follow_up();
    parser.step_started(1);
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert!(plan.report && parser.follow_up()[0].args[1].contains("--show-only=json-v1"));
    parser.step_started(2);
    let list = format!(r#"{{"tests":[{{"name":"{name}","properties":[{{"name":"WILL_FAIL","value":true}}]}}]}}"#);
    list.as_bytes().chunks(9).for_each(|chunk| parser.report(chunk, &mut events));
    parser.step_ended(Exit::Code(0), false, &mut events);
    parser.step_started(3);
    parser.stdout(&with_planned_dir(golden), &mut events);
    parser.step_ended(Exit::Code(8), false, &mut events);
    events
}

/// Parses `chunks` as the output of one ctest that ended by itself.
fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (mut parser, mut events) = (runs(), Vec::new());
    for chunk in chunks {
        parser.stdout(chunk, &mut events);
    }
    parser.step_ended(Exit::Code(8), false, &mut events);
    (events, parser)
}

/// A recording with the planned build directory in the place of the recorded one.
fn with_planned_dir(golden: &[u8]) -> Vec<u8> {
    let dir = plan().steps[0].args[3].clone();
    String::from_utf8_lossy(golden).replace("/cache/cmake/0123456789abcdef", &dir).into_bytes()
}

/// Renders the facts that a reviewer would check, without durations.
fn render(events: &[RunnerEvent]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => render_test(&mut text, test),
            RunnerEvent::Collector(collector) => {
                writeln!(text, "{:?} {} {:?}:{:?}", collector.kind, collector.nodeid, collector.file, collector.line)
                    .unwrap();
                writeln!(text, "    message: {:?}\n    output: {:?}", collector.message, collector.output).unwrap();
            }
        }
    }
    text
}

fn render_test(text: &mut String, test: &TestCase) {
    writeln!(text, "{} {}", test.outcome.name(), test.nodeid).unwrap();
    if let (Some(file), Some(line)) = (&test.file, test.line) {
        writeln!(text, "    at {file}:{line}").unwrap();
    }
    for (label, value) in
        [("message", &test.message), ("expected", &test.expected), ("actual", &test.actual), ("stack", &test.stack)]
    {
        if let Some(value) = value {
            writeln!(text, "    {label}: {value:?}").unwrap();
        }
    }
    if let Some(output) = &test.output {
        writeln!(text, "    output: {} lines", output.lines().count()).unwrap();
    }
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (name, bytes) in TESTS {
        let (events, parser) = parse([with_planned_dir(bytes).as_slice()]);
        let summary = parser.summary();
        assert!(summary.structured && !summary.proof.is_missing() && !summary.runner_missing, "{name}: {summary:?}");
        insta::assert_snapshot!(format!("ctest-{name}"), render(&events));
    }
    for (name, bytes) in BUILDS {
        let (mut parser, mut events) = (Ctest.parser(&plan(), &want(&Selection::All)), Vec::new());
        assert!(!build_step(&mut parser, 0, bytes, 1, &mut events), "{name} goes on");
        insta::assert_snapshot!(format!("ctest-{name}"), render(&events));
    }
}

#[test]
fn reports_a_will_fail_test_that_passed() {
    let golden = TESTS.iter().find(|(name, _)| *name == "fail").unwrap().1;
    let rendered = render(&parse_with_will_fail(golden, "must_fail"));
    let before = render(&parse([with_planned_dir(golden).as_slice()]).0);
    let silent = "failed must_fail\n    message: \"it printed nothing\"\n";
    assert!(before.contains(silent));
    assert_eq!(
        rendered,
        before
            .replace(silent, "failed must_fail\n    message: \"the test passed, but WILL_FAIL expects it to fail\"\n")
    );
    // The output of a passing test does not explain why it is reported as failed.
    let rendered = render(&parse_with_will_fail(golden, "says.why"));
    assert!(rendered.contains(
        "failed says.why\n    message: \"the test passed, but WILL_FAIL expects it to fail\"\n    output: 2 lines"
    ));
}

#[test]
fn parallel_tests_parse_like_serial_ones() {
    let sorted = |name: &str| {
        let golden = TESTS.iter().find(|(known, _)| *known == name).unwrap().1;
        let (events, _) = parse([with_planned_dir(golden).as_slice()]);
        let mut tests: Vec<TestCase> = events
            .into_iter()
            .filter_map(|event| match event {
                RunnerEvent::TestFinished(test) => Some(TestCase { duration_s: None, output: None, ..*test }),
                _ => None,
            })
            .collect();
        tests.sort_by(|a, b| a.nodeid.cmp(&b.nodeid));
        tests
    };
    assert_eq!(sorted("fail"), sorted("fail-parallel"));
}

#[test]
fn a_kill_keeps_the_running_test() {
    let (mut parser, mut events) = (runs(), Vec::new());
    parser.stdout(&with_planned_dir(KILLED), &mut events);
    parser.step_ended(Exit::Signal(9), true, &mut events);
    assert_eq!(render(&events), "passed ends\n");
    let running: Vec<String> = parser.running().into_iter().map(|id| id.name).collect();
    assert_eq!((running, parser.summary().proof.is_missing()), (vec!["hangs".to_owned()], true));
}

#[test]
fn a_ctest_that_ended_early_leaves_no_proof_and_its_test_is_an_error() {
    let (events, parser) = parse([with_planned_dir(KILLED).as_slice()]);
    assert!(parser.summary().proof.is_missing() && parser.running().is_empty());
    let Some(RunnerEvent::TestFinished(test)) = events.last() else { panic!("{events:?}") };
    assert_eq!((test.name.as_str(), test.outcome), ("hangs", TestOutcome::Error));
    assert_eq!(test.message.as_deref(), Some("did not finish: ctest exited with 8"));
}

#[test]
fn a_ctest_that_is_too_old_is_reported_as_missing() {
    let (_, parser) = parse([b"Test project /workspace\n100% tests passed, 0 tests failed out of 0\n".as_slice()]);
    assert!(parser.summary().runner_missing);
    assert!(parser.summary().notes[0].ends_with("CMake 3.20 or later is needed"));
}

#[test]
fn no_tests_found_means_nothing_selected() {
    let (mut parser, mut events) = (runs(), Vec::new());
    parser.stderr(b"No tests were found!!!\n", &mut events);
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert!(parser.nothing_selected() && !parser.summary().proof.is_missing() && events.is_empty());
}

#[test]
fn a_listing_names_every_test() {
    let mut parser = parser_at_tests(Ctest.listing_parser(&plan(), &want(&Selection::All)));
    let mut events = Vec::new();
    parser.stdout(br#"{"kind":"ctestInfo","tests":[{"name":"a.b"},"#, &mut events);
    parser.stdout(br#"{"name":"c"}]}"#, &mut events);
    parser.step_ended(Exit::Code(0), false, &mut events);
    let names: Vec<String> = events
        .into_iter()
        .map(|event| match event {
            RunnerEvent::TestStarted(id) => format!("{}/{}", id.package, id.name),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["./a.b", "./c"]);
    assert!(!parser.summary().proof.is_missing());
}

#[test]
fn parses_ten_thousand_tests_without_keeping_their_output() {
    let (mut parser, mut events, mut finished) = (runs(), Vec::new(), 0);
    for number in 1..=10_000 {
        let text = format!(
            "      Start {number}: case_{number}\n{number}: Test timeout computed to be: 1\n{number}: {}\n\
             {number}/10000 Test #{number}: case_{number} ...   Passed    0.01 sec\n",
            "x".repeat(1_000)
        );
        parser.stdout(text.as_bytes(), &mut events);
        finished += events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_))).count();
        assert!(parser.running().is_empty());
        events.clear();
    }
    parser.stdout(b"100% tests passed, 0 tests failed out of 10000\n", &mut events);
    parser.step_ended(Exit::Code(0), false, &mut events);
    assert_eq!((finished, parser.summary().proof.is_missing()), (10_000, false));
}

/// Bytes similar enough to ctest's to reach the deeper parsing code.
fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let literal = prop_oneof![
        Just("      Start  1: a b\n"),
        Just("1: Test timeout computed to be: 1\n"),
        Just("1: /workspace/t.cpp:5: Failure\n1: Expected equality of these values:\n1:   1\n1:   2\n"),
        Just("1: [ RUN      ] x\n"),
        Just("1/2 Test #1: a b ...***Failed  Required regular expression not found. Regex=[x\n"),
        Just("]  0.01 sec\n"),
        Just("2/2 Test #2: ghost ...   Passed    0.01 sec\n"),
        Just("99999999999999999999/1 Test #99999999999999999999: x\n"),
        Just("      Start 99999999999999999999: x\n"),
        Just("Failed test dependencies: a\n"),
        Just("100% tests passed, 0 tests failed out of 2\n"),
        Just("Test project /x\n"),
        Just(":::\n1:\n"),
    ];
    let noise = prop::collection::vec(any::<u8>(), 0..30);
    prop::collection::vec(prop_oneof![4 => literal.prop_map(|text| text.as_bytes().to_vec()), 1 => noise], 0..40)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in stream_like(), at in any::<prop::sample::Index>(), step in 0usize..4, killed: bool) {
        let (mut parser, mut events) = (runs(), Vec::new());
        let (head, tail) = bytes.split_at(at.index(bytes.len() + 1));
        parser.step_started(step);
        parser.stdout(head, &mut events);
        parser.stderr(&bytes, &mut events);
        parser.stdout(tail, &mut events);
        parser.step_ended(Exit::Code(2), killed, &mut events);
        parser.follow_up();
        parser.summary();
        prop_assert!(killed || parser.running().is_empty());
    }

    #[test]
    fn cutting_a_stream_into_chunks_changes_nothing(
        golden in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let bytes = golden.get(TESTS).1;
        prop_assert_eq!(parse(pieces(bytes, &cuts)).0, parse([bytes]).0);
    }

    #[test]
    fn a_truncated_stream_has_no_proof(golden in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let bytes = with_planned_dir(golden.get(TESTS).1);
        let sum = bytes.windows(13).position(|window| window == b" tests passed").unwrap();
        let (_, parser) = parse([&bytes[..at.index(sum)]]);
        let summary = parser.summary();
        prop_assert!(summary.proof.is_missing() || summary.runner_missing);
    }
}
