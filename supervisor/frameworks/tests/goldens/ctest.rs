//! Recordings of the ctest adapter.

use crate::noise::no_bytes_make_the_parser_panic;
use crate::recording::{Channel, Killed, Output, Recordings, Replay, Run};
use crate::render::{BRIEF, Detail, Style};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{TestCase, TestOutcome};
use proctor_frameworks::runners::ctest::Ctest;
use proctor_frameworks::{FileTree, Plan};
use proptest::prelude::*;

const STYLE: Style = Style { stack: Detail::Whole, collector_output: Detail::Whole, ..BRIEF };

fn render(replay: &Replay) -> String {
    STYLE.render(&replay.events)
}

/// Output of ctest, after the steps that configure and build.
pub(crate) static CTEST: Recordings = Recordings {
    silent_steps: 2,
    channels: &[("out", Channel::Stdout)],
    complete: name_planned_directory,
    render,
    unproven_bytes: |stdout| stdout.windows(13).position(|window| window == b" tests passed").unwrap(),
    runs: &[(8, "crash error fail fail-parallel pass skip suites twins unicode whole")],
    killed: &[Killed { name: "hang-killed", passed: "ends", running: (".", "hangs") }],
    proof: &[("100% tests passed, 0 tests failed out of 7", ""), ("/7 Test", "/8 Test")],
    ..Recordings::of(&Ctest)
};

/// Output of CMake and compilers that failed.
pub(crate) static CTEST_BUILD: Recordings = Recordings {
    channels: &[("out", Channel::Stderr)],
    render,
    // What failed exits with a status, and nothing else is to be proven.
    unproven_bytes: |_| 0,
    runs: &[(1, "builderror configerror linkerror")],
    proof: &[],
    ..Recordings::of(&Ctest)
};

/// Puts the planned build directory in the place of the recorded one.
fn name_planned_directory(plan: &Plan, output: &mut Output) {
    for (_, bytes) in &mut output.channels {
        let planned = plan.steps[0].args[3].as_str();
        *bytes = String::from_utf8_lossy(bytes).replace("/cache/cmake/0123456789abcdef", planned).into_bytes();
    }
}

/// Replays what one ctest printed.
fn parse(stdout: &[u8]) -> Replay {
    CTEST.replay(&Run::new(&[(Channel::Stdout, stdout)], Exit::Code(8)))
}

/// Replays the run `fail` in a project that mentions WILL_FAIL, where ctest's list sets it for test `name`.
fn replay_with_will_fail(name: &str) -> Replay {
    let mut tree = FileTree::default();
    tree.add_with_content(
        "CMakeLists.txt",
        "project(x)\nenable_testing()\nset_tests_properties(y PROPERTIES WILL_FAIL 1)",
    );
    let list = format!(r#"{{"tests":[{{"name":"{name}","properties":[{{"name":"WILL_FAIL","value":true}}]}}]}}"#);
    let mut run = Run::new(&[(Channel::Report, list.as_bytes())], Exit::Code(0));
    run.steps.extend(CTEST.run("fail").steps);
    let replay = CTEST.replay_in_pieces(&tree, &run, &|bytes| (0..bytes).step_by(9).collect());
    assert!(replay.plans_report && replay.follow_ups[1].args[1].contains("--show-only=json-v1"));
    replay
}

#[test]
fn every_run_of_tests_is_proven() {
    for (name, _) in CTEST.runs() {
        let summary = CTEST.replay(&CTEST.run(name)).summary;
        assert!(summary.structured && !summary.proof.is_missing() && !summary.runner_missing, "{name}: {summary:?}");
    }
}

#[test]
fn reports_a_will_fail_test_that_passed() {
    let rendered = render(&replay_with_will_fail("must_fail"));
    let before = render(&CTEST.replay(&CTEST.run("fail")));
    let silent = "failed must_fail\n    message: \"it printed nothing\"\n";
    assert!(before.contains(silent));
    assert_eq!(
        rendered,
        before
            .replace(silent, "failed must_fail\n    message: \"the test passed, but WILL_FAIL expects it to fail\"\n")
    );
    // The output of a passing test does not explain why it is reported as failed.
    let rendered = render(&replay_with_will_fail("says.why"));
    assert!(rendered.contains(
        "failed says.why\n    message: \"the test passed, but WILL_FAIL expects it to fail\"\n    output: 2 lines"
    ));
}

#[test]
fn parallel_tests_parse_like_serial_ones() {
    let sorted = |name: &str| {
        let replay = CTEST.replay(&CTEST.run(name));
        let mut tests: Vec<TestCase> =
            replay.finished().map(|test| TestCase { duration_s: None, output: None, ..test.clone() }).collect();
        tests.sort_by(|a, b| a.nodeid.cmp(&b.nodeid));
        tests
    };
    assert_eq!(sorted("fail"), sorted("fail-parallel"));
}

#[test]
fn a_ctest_that_ended_early_leaves_no_proof_and_its_test_is_an_error() {
    let replay = CTEST.replay(&CTEST.load("hang-killed", 8));
    assert!(replay.is_unproven() && replay.running.is_empty());
    let Some(RunnerEvent::TestFinished(test)) = replay.events.last() else { panic!("{:?}", replay.events) };
    assert_eq!((test.name.as_str(), test.outcome), ("hangs", TestOutcome::Error));
    assert_eq!(test.message.as_deref(), Some("did not finish: ctest exited with 8"));
}

#[test]
fn a_ctest_that_is_too_old_is_reported_as_missing() {
    let summary = parse(b"Test project /workspace\n100% tests passed, 0 tests failed out of 0\n").summary;
    assert!(summary.runner_missing);
    assert!(summary.notes[0].ends_with("CMake 3.20 or later is needed"));
}

#[test]
fn no_tests_found_means_nothing_selected() {
    let replay = CTEST.replay(&Run::new(&[(Channel::Stderr, b"No tests were found!!!\n")], Exit::Code(0)));
    assert!(replay.nothing_selected && !replay.is_unproven() && replay.events.is_empty());
}

#[test]
fn a_listing_names_every_test() {
    let pieces: [(Channel, &[u8]); 2] = [
        (Channel::Stdout, br#"{"kind":"ctestInfo","tests":[{"name":"a.b"},"#),
        (Channel::Stdout, br#"{"name":"c"}]}"#),
    ];
    let replay = CTEST.replay(&Run::new(&pieces, Exit::Code(0)).listing());
    let names: Vec<String> = replay.started().map(|id| format!("{}/{}", id.package, id.name)).collect();
    assert_eq!((names, replay.events.len()), (vec!["./a.b".to_owned(), "./c".to_owned()], 2));
    assert!(!replay.is_unproven());
}

#[test]
fn parses_ten_thousand_tests_without_keeping_their_output() {
    let (mut parser, mut events, mut finished) = (CTEST.parser(), Vec::new(), 0);
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

#[test]
fn no_lines_make_the_parser_panic() {
    let lines = prop_oneof![
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
    no_bytes_make_the_parser_panic(&CTEST, lines.prop_map(|line| line.as_bytes().to_vec()));
}
