//! Parses files as real writers leave them, and as a hostile one might.

use super::*;
use proctor_core::test_case::{TestCase, TestOutcome};
use proptest::prelude::*;

fn parse(document: &[u8]) -> (Vec<RunnerEvent>, JunitSummary) {
    let mut events = Vec::new();
    let summary = parse_report("junit.xml", document, &WorkspacePaths::new("/ws"), "pkg", &mut events);
    (events, summary)
}

fn cases(document: &str) -> Vec<TestCase> {
    let (events, summary) = parse(document.as_bytes());
    assert!(!summary.is_incomplete, "{summary:?}");
    let case = |event| match event {
        RunnerEvent::TestFinished(case) => *case,
        other => panic!("{other:?}"),
    };
    events.into_iter().map(case).collect()
}

fn case(inside: &str) -> TestCase {
    cases(&format!("<testsuite name='s'><testcase classname='c' name='n'{inside}</testcase></testsuite>")).remove(0)
}

#[test]
fn maps_each_element_to_an_outcome() {
    for (inside, outcome) in [
        ("/><testcase name='x'>", TestOutcome::Passed),
        (">", TestOutcome::Passed),
        ("><system-out>fine</system-out>", TestOutcome::Passed),
        ("><failure message='m'/>", TestOutcome::Failed),
        ("><failure/><error/>", TestOutcome::Error),
        ("><error/><system-err>x</system-err>", TestOutcome::Error),
        ("><skipped message='later'/>", TestOutcome::Skipped),
        ("><flakyFailure message='m'><stackTrace>s</stackTrace></flakyFailure>", TestOutcome::Passed),
        ("><failure/><rerunFailure/>", TestOutcome::Failed),
        (" status='fail'>", TestOutcome::Failed),
        (" status='notrun'>", TestOutcome::Skipped),
        (" status='run' result='completed'>", TestOutcome::Passed),
        (" status='ERROR'>", TestOutcome::Error),
        ("><skipped type='pytest.xfail' message='known'/>", TestOutcome::Xfailed),
        ("><skipped type='todo'/><failure/>", TestOutcome::Xfailed),
    ] {
        assert_eq!(case(inside).outcome, outcome, "{inside}");
    }
}

/// Files that real runners wrote; `goldens/junit/README.md` says how.
const GOLDENS: &[(&str, &[u8])] = &[
    ("ctest", include_bytes!("../../../goldens/junit/ctest.xml")),
    ("gtest", include_bytes!("../../../goldens/junit/gtest.xml")),
    ("node", include_bytes!("../../../goldens/junit/node.xml")),
    ("pytest", include_bytes!("../../../goldens/junit/pytest.xml")),
];

#[test]
fn every_golden_reads_as_its_snapshot() {
    for (name, bytes) in GOLDENS {
        let mut events = Vec::new();
        let summary = parse_report("junit.xml", bytes, &WorkspacePaths::new("/workspace"), "", &mut events);
        assert!(!summary.is_incomplete && summary.notes.is_empty(), "{summary:?}");
        let rendered: Vec<String> = events
            .iter()
            .map(|event| match event {
                RunnerEvent::TestFinished(test) => format!(
                    "{} {}\n  at {:?} {:?}\n  {:?}\n  {:?} {:?}\n",
                    test.outcome.name(),
                    test.nodeid,
                    test.file,
                    test.line,
                    test.message,
                    test.expected,
                    test.actual
                ),
                other => panic!("{other:?}"),
            })
            .collect();
        insta::assert_snapshot!(format!("junit-{name}"), rendered.concat());
    }
}

#[test]
fn a_failure_has_its_place_values_and_output() {
    let failed = case(
        " file='tests/a.c' line='7' time='1,000.5'><failure message='expected: &lt;5&gt; but was: &lt;4&gt;' \
         type='X'><![CDATA[Traceback\n  /ws/pkg/b.py:3 in f\n\x1b[31mred\x1b[0m]]></failure><system-out>one</system-out>\
         <system-err>two</system-err>",
    );
    assert_eq!((failed.nodeid.as_str(), failed.duration_s), ("c::n", Some(1000.5)));
    assert_eq!((failed.file.as_deref(), failed.line), (Some("pkg/b.py"), Some(3)));
    assert_eq!(failed.message.as_deref(), Some("expected: <5> but was: <4>"));
    assert_eq!((failed.expected.as_deref(), failed.actual.as_deref()), (Some("5"), Some("4")));
    assert_eq!(failed.stack.as_deref(), Some("Traceback\n  pkg/b.py:3 in f\nred"));
    assert_eq!(failed.output.as_deref(), Some("one\ntwo"));
}

#[test]
fn reads_the_place_from_the_text_when_no_attribute_names_it() {
    for (text, file, line) in [
        ("def t():\n\ntest_a.py:3: AssertionError", Some("pkg/test_a.py"), Some(3)),
        ("test_a.py:13:\n\nhelp/b.py:5: AssertionError", Some("pkg/help/b.py"), Some(5)),
        ("Error: x\n    at f (src/a.test.js:3:5)", Some("pkg/src/a.test.js"), Some(3)),
        ("at /usr/lib/x.js:1\n at /ws/pkg/t.js:9", Some("pkg/t.js"), Some(9)),
        ("\tat com.x.FooTest.t(FooTest.java:12)", None, None),
        ("see http://localhost:80/", None, None),
    ] {
        let failed = case(&format!("><failure>{text}</failure>"));
        assert_eq!((failed.file.as_deref(), failed.line), (file, line), "{text}");
    }
}

#[test]
fn suites_nest_and_documents_follow_one_another() {
    let cases = cases(
        "<?xml version='1.0'?><testsuites tests='2' failures='1'><testsuite name='a' failures='1'><properties><property \
         name='p' value='v'/></properties><testsuite name='b'><testcase name='t'><failure/></testcase></testsuite>\
         <testcase name='u'/></testsuite></testsuites>\n<?xml version='1.0'?><testsuite name='z'><testcase \
         name='t'/></testsuite>",
    );
    let names: Vec<&str> = cases.iter().map(|case| case.nodeid.as_str()).collect();
    assert_eq!(names, ["b::t", "a::u", "z::t"]);
}

#[test]
fn a_failure_outside_of_tests_becomes_a_collector() {
    let (events, summary) = parse(b"<testsuite name='s' errors='1'><error message='no database'>x</error></testsuite>");
    let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((collector.nodeid.as_str(), collector.message.as_str()), ("s", "no database"));
    assert!(!summary.is_incomplete);
}

#[test]
fn a_file_that_counts_more_than_it_names_is_incomplete() {
    for document in [
        "",
        "no xml at all",
        "<html><body/></html>",
        "<testsuite name='s' failures='1'><testcase name='t'/></testsuite>",
        "<testsuites errors='1'><testsuite><testcase name='t'/></testsuite></testsuites>",
        "<testsuite tests='120'><testcase name='t'/><testcase name='u'/><testcase name='v'/></testsuite>",
        "<testsuites tests='2'><testsuite tests='1'><testcase name='t'/></testsuite></testsuites>",
        "<testsuite tests='4' skipped='2'><testcase name='t'/><testcase name='u'><skipped/></testcase></testsuite>",
        "<testsuite><testcase name='t'/>",
        "<testsuite><testcase name='t'/></testsuites>",
        "<testsuite><testcase name='t'><failure>",
    ] {
        let (_, summary) = parse(document.as_bytes());
        assert!(summary.is_incomplete && !summary.notes.is_empty(), "{document}");
    }
}

#[test]
fn counts_of_assertions_subtests_and_skips_hide_nothing() {
    for document in [
        "<testsuite tests='1'><testcase name='t'/><testcase name='u'/></testsuite>",
        // A skipped test is not always named, and a failure may count for its clean-up too.
        "<testsuite tests='3' skipped='1' disabled='1'><testcase name='t'/></testsuite>",
        "<testsuite tests='2' errors='1'><testcase name='t'><error/></testcase></testsuite>",
        "<testsuite tests='3' failures='2'><testcase name='t'/><testcase name='u'><failure/><rerunFailure/></testcase></testsuite>",
        // Catch2 and doctest count assertions, pytest its subtests.
        "<testsuites><testsuite name='s' tests='14' hostname='tbd' time='0'><testcase name='t'/></testsuite></testsuites>",
        "<testsuites name='pytest tests'><testsuite name='pytest' tests='11'><testcase name='t'/></testsuite></testsuites>",
    ] {
        let (_, summary) = parse(document.as_bytes());
        assert!(!summary.is_incomplete && summary.notes.is_empty(), "{document}: {summary:?}");
    }
}

#[test]
fn notes_attempts_before_a_pass_and_repeated_names() {
    let (_, summary) =
        parse(b"<testsuite><testcase name='t'><flakyFailure/><flakyError/></testcase><testcase name='t'/></testsuite>");
    assert_eq!(summary.notes[..], ["t passed after 2 failed attempt(s)", "t is reported more than once"]);
    assert_eq!((summary.tests, summary.flaky), (2, 1));
}

#[test]
fn failed_attempts_that_a_suite_counts_are_not_missing() {
    let flaky = "<testcase name='a'><flakyFailure/></testcase><testcase name='b'><flakyError/></testcase>";
    for (tests, failures, hides) in [(4, 1, false), (5, 2, true)] {
        let document = format!("<testsuite tests='{tests}' failures='{failures}' errors='1'>{flaky}</testsuite>");
        let (_, summary) = parse(document.as_bytes());
        assert_eq!((summary.is_incomplete, summary.flaky), (hides, 2), "{summary:?}");
    }
}

#[test]
fn texts_stay_within_their_bounds() {
    let long = "x".repeat(3_000_000);
    let failed = case(&format!(
        " file='{long}'><failure message='{long}'>{long}&lt;{long}</failure><system-out>{long}</system-out>"
    ));
    let texts = [&failed.message, &failed.stack, &failed.output, &failed.file];
    assert!(texts.into_iter().flatten().all(|text| text.len() <= proctor_core::bounds::TEST_OUTPUT_BYTES_MAX));
}

const WHOLE: &str = "<?xml version='1.0'?><!-- c --><testsuites><testsuite name='a' failures='1' errors='0'><testcase \
     classname='c' name='t' time='0.1'><failure message='&#x1F600; &amp;'><![CDATA[a.c:3: x]]></failure><system-out>é\
     </system-out></testcase><testcase name='u'><skipped/></testcase></testsuite></testsuites>";

proptest! {
    #[test]
    fn a_truncated_file_never_looks_complete(at in 0usize..400) {
        let whole = WHOLE.as_bytes();
        let (_, summary) = parse(&whole[..at.min(whole.len() - 1)]);
        prop_assert!(summary.is_incomplete);
    }

    #[test]
    fn no_input_makes_the_parser_panic(
        noise in prop::collection::vec(any::<u8>(), 0..60), pieces in prop::collection::vec(prop_oneof![
            Just("<testsuite>"), Just("</testsuite>"), Just("<testcase name='t'>"), Just("</testcase>"), Just("<failure>"),
            Just("</failure>"), Just("<![CDATA["), Just("]]>"), Just("<!DOCTYPE x ["), Just("&#xD800;"), Just("&"),
            Just("<error/>"), Just("<testsuite errors='-1' failures='99999999999999999999'>"), Just("<?xml"), Just("<!--"),
        ], 0..30), at in 0usize..400,
    ) {
        let mut document = WHOLE.as_bytes().to_vec();
        document.splice(at.min(document.len())..at.min(document.len()), noise);
        parse(&document);
        parse(pieces.concat().as_bytes());
    }
}
