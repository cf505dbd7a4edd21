//! Parses streams in the forms that real producers write.

use super::*;
use proptest::prelude::*;

fn read(stream: &str) -> (Vec<TestCase>, bool, Vec<String>) {
    let (mut tap, mut events) = (TapParser::new("p", &WorkspacePaths::new("/ws")), Vec::new());
    stream.lines().for_each(|line| tap.line(line, &mut events));
    tap.finish(&mut events);
    let case = |event| match event {
        RunnerEvent::TestFinished(case) => *case,
        other => panic!("{other:?}"),
    };
    let (is_incomplete, notes) = tap.verdict();
    (events.into_iter().map(case).collect(), is_incomplete, notes.to_vec())
}

fn outcomes(stream: &str) -> Vec<(String, TestOutcome)> {
    read(stream).0.into_iter().map(|case| (case.nodeid, case.outcome)).collect()
}

fn owned(names: &[(&str, TestOutcome)]) -> Vec<(String, TestOutcome)> {
    names.iter().map(|(name, outcome)| ((*name).to_owned(), *outcome)).collect()
}

#[test]
fn maps_points_and_directives_to_outcomes() {
    let stream = "TAP version 13\n1..8\nok 1 - adds\nnot ok 2 fails\nok 3 # SKIP no moon\nnot ok 4 later # TODO not yet\n\
                  ok 5 - early # todo\nok\nnot ok 7 # skip odd\nok 8 - a \\# b\n";
    use TestOutcome::{Failed, Passed, Skipped, Xfailed, Xpassed};
    assert_eq!(
        outcomes(stream),
        owned(&[
            ("adds", Passed),
            ("fails", Failed),
            ("test 3", Skipped),
            ("later", Xfailed),
            ("early", Xpassed),
            ("test 6", Passed),
            ("test 7", Skipped),
            ("a # b", Passed)
        ])
    );
    let (cases, is_incomplete, _) = read(stream);
    assert!(!is_incomplete);
    assert_eq!((cases[2].message.as_deref(), cases[3].message.as_deref()), (Some("no moon"), Some("not yet")));
}

#[test]
fn a_block_of_yaml_explains_a_failure() {
    let stream = "TAP version 13\nnot ok 1 - equal\n  ---\n  message: 'it''s off'\n  operator: equal\n  expected: 3\n  actual: \"4\"\n  \
                  at:\n    file: /ws/t/a.js\n    line: 7\n  stack: |-\n    Error: off\n        at f (/ws/t/a.js:7:3)\n  ...\nok 2\n1..2\n";
    let (cases, is_incomplete, _) = read(stream);
    let failed = &cases[0];
    assert_eq!((failed.message.as_deref(), failed.outcome), (Some("it's off"), TestOutcome::Failed));
    assert_eq!((failed.expected.as_deref(), failed.actual.as_deref()), (Some("3"), Some("4")));
    assert_eq!((failed.file.as_deref(), failed.line), (Some("t/a.js"), Some(7)));
    assert_eq!(failed.stack.as_deref(), Some("Error: off\n    at f (t/a.js:7:3)"));
    assert!(!is_incomplete && cases.len() == 2);
    let node =
        "1..1\nnot ok 1 - x\n  ---\n  location: '/ws/x.test.js:4:1'\n  error: |-\n    one\n    \n    two\n  ...\n";
    let (cases, ..) = read(node);
    assert_eq!((cases[0].file.as_deref(), cases[0].line), (Some("x.test.js"), Some(4)));
    assert_eq!(cases[0].message.as_deref(), Some("one\n\ntwo"));
}

#[test]
fn comments_explain_a_failure() {
    let stream = "not ok 1 - sum\n#   Failed test 'sum'\n#   at t/sum.t line 12.\n#          got: '4'\n#     expected: '5'\n1..1\n";
    let (cases, ..) = read(stream);
    assert_eq!((cases[0].file.as_deref(), cases[0].line), (Some("t/sum.t"), Some(12)));
    assert_eq!((cases[0].expected.as_deref(), cases[0].actual.as_deref()), (Some("5"), Some("4")));
    assert_eq!(cases[0].message.as_deref(), Some("Failed test 'sum'"));
}

#[test]
fn subtests_are_named_after_their_parents() {
    use TestOutcome::{Failed, Passed};
    let announced = "TAP version 14\n# Subtest: outer\n    # Subtest: inner\n        ok 1 - a\n        1..1\n    ok 1 - inner\n    \
                     not ok 2 - b\n    1..2\nnot ok 1 - outer\n1..1\n";
    let wanted = [("outer/inner/a", Passed), ("outer/inner", Passed), ("outer/b", Failed), ("outer", Failed)];
    assert_eq!(outcomes(announced), owned(&wanted));
    let silent: String = announced.lines().filter(|line| !line.contains('#')).map(|line| format!("{line}\n")).collect();
    assert_eq!(outcomes(&silent), owned(&wanted));
    assert!(!read(announced).1 && !read(&silent).1);
    let indented = "    # Subtest: outer\n        # Subtest: inner\n        ok 1 - a\n        1..1\n    ok 1 - inner\n    not ok 2 - b\n    \
                    1..2\nnot ok 1 - outer\n1..1\n";
    assert_eq!(outcomes(indented), owned(&wanted));
}

#[test]
fn every_golden_reads_as_its_snapshot() {
    for (name, stream) in [
        ("node", include_str!("../../../goldens/tap/node.tap")),
        ("perl", include_str!("../../../goldens/tap/perl.tap")),
    ] {
        let (cases, is_incomplete, _) = read(&stream.replace("/workspace/", "/ws/"));
        assert!(!is_incomplete, "{name}");
        let rendered: Vec<String> = cases
            .iter()
            .map(|test| {
                format!(
                    "{} {}\n  at {:?} {:?}\n  {:?}\n  {:?} {:?}\n",
                    test.outcome.name(),
                    test.nodeid,
                    test.file,
                    test.line,
                    test.message,
                    test.expected,
                    test.actual
                )
            })
            .collect();
        insta::assert_snapshot!(format!("tap-{name}"), rendered.concat());
    }
}

#[test]
fn a_stream_that_does_not_match_its_plan_is_incomplete() {
    for (stream, note) in [
        ("1..3\nok 1\nok 2\n", "the plan is 3 test(s), and 2 arrived"),
        ("1..1\nok 1\nok 2\n", "the plan is 1 test(s), and 2 arrived"),
        ("TAP version 13\nok 1\n", "the plan is missing"),
        ("1..2\nok 1\nBail out! no disk\n", "bailed out: no disk"),
        ("1..1\n    ok 1 - a\n    1..2\nok 1 - x\n", "the plan of x is 2 test(s), and 1 arrived"),
        ("TAP version 13\n", "the plan is missing"),
        ("1..2\nok 1\nok 1\n", "test 1 is repeated or out of order"),
        ("1..2\nok 1\nok 3\n", "the plan is 1 to 2, and other numbers arrived"),
        ("1..2\nok 2\nok\n", "the plan is 1 to 2, and other numbers arrived"),
        ("1..1\nok 0\n", "test 0 is repeated or out of order"),
        ("1..0 # SKIP not here\nok 1\n", "the plan is 0 test(s), and 1 arrived"),
    ] {
        let (_, is_incomplete, notes) = read(stream);
        assert!(is_incomplete && notes[0] == note, "{stream}{notes:?}");
    }
    assert!(!read("1..3\nok 3\nok 1\nok 2\n").1, "any order will do");
}

#[test]
fn a_program_that_skips_all_of_its_tests_is_one_skipped_test() {
    let (cases, is_incomplete, _) = read("1..0 # SKIP nothing here\n");
    assert_eq!((cases.len(), cases[0].outcome, is_incomplete), (1, TestOutcome::Skipped, false));
    assert_eq!((cases[0].name.as_str(), cases[0].message.as_deref()), ("all tests", Some("nothing here")));
    assert_eq!(read("1..0\n").0.len(), 0);
}

#[test]
fn repeated_names_stay_apart_and_other_output_is_ignored() {
    let stream = "1..2\nhello\nok 1 - same\n  indented\nokay\nnotok\nok 2 - same\n";
    assert_eq!(outcomes(stream), owned(&[("same", TestOutcome::Passed), ("same #2", TestOutcome::Passed)]));
}

#[test]
fn only_a_version_or_a_plan_starts_a_stream() {
    for line in ["TAP version 13", "TAP version 14", "1..3", "1..0 # skip"] {
        assert!(starts_stream(line), "{line}");
    }
    for line in ["", "ok 1", "TAP version 99", "1..x", "1...3", "version 1..3"] {
        assert!(!starts_stream(line), "{line}");
    }
}

#[test]
fn reads_the_values_that_ava_and_qunit_compared() {
    let ava = "TAP version 13\nnot ok 1 - a › fails\n  ---\n    name: AssertionError\n    assertion: t.deepEqual()\n    details:\n      \
               'Difference (- actual, + expected):': |2-\n          {\n        -   a: 1,\n        +   a: 2,\n          }\n    message: ''\n    \
               at: >-\n      ExecutionContext.deepEqual\n      (file:///ws/node_modules/ava/lib/assert.js:339:15)\n  ...\n1..1\n";
    let qunit = "TAP version 13\nnot ok 1 math > fails\n  ---\n  message: same\n  severity: failed\n  actual  : {\n    \"a\": 1\n  }\n  \
                 expected: {\n    \"a\": 2\n  }\n  stack: |\n        at Object.<anonymous> (/ws/test/a.js:3:66)\n  ...\n  ---\n  \
                 message: more\n  ...\n1..1\n";
    for (stream, name, message, expected, actual, place) in [
        (ava, "a › fails", "t.deepEqual()", "{\n  a: 2,\n}", "{\n  a: 1,\n}", None),
        (qunit, "math > fails", "same", "{ \"a\": 2 }", "{ \"a\": 1 }", Some("test/a.js")),
    ] {
        let (cases, is_incomplete, _) = read(stream);
        let case = &cases[0];
        assert_eq!((case.name.as_str(), case.message.as_deref(), is_incomplete), (name, Some(message), false));
        assert_eq!((case.expected.as_deref(), case.actual.as_deref()), (Some(expected), Some(actual)));
        assert_eq!(case.file.as_deref(), place);
    }
}

proptest! {
    #[test]
    fn no_input_makes_the_parser_panic(lines in prop::collection::vec(prop_oneof![
        Just("ok 1 - a".to_owned()), Just("    not ok 1".to_owned()), Just("        ok".to_owned()), Just("1..99999999999999999999".to_owned()),
        Just("    1..1".to_owned()), Just("  ---".to_owned()), Just("  stack: |-".to_owned()), Just("    é".to_owned()), Just("  ...".to_owned()),
        Just("# Subtest: é".to_owned()), Just("#".to_owned()), Just("Bail out!".to_owned()), "[ -~]{0,20}", ".{0,10}",
    ], 0..40)) {
        read(&lines.join("\n"));
    }
}
