//! Runs the Maven parser on recorded runs: each recorded pair of console and report is parsed as its snapshot says, and cutting
//! them into pieces changes nothing. `goldens/maven/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod jvm;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::maven::Maven;
use proctor_frameworks::{Framework, Parser, PlanRequest};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::jvm::{self, StepOutput};
use support::want::want;

macro_rules! goldens {
    ($($name:literal $exit:literal),* $(,)?) => {
        &[$(($name, $exit, [
            include_bytes!(concat!("../goldens/maven/", $name, ".out")),
            include_bytes!(concat!("../goldens/maven/", $name, ".report")),
        ])),*]
    };
}

/// Name, exit status, console and report of each run.
const GOLDENS: &[(&str, i32, [&[u8]; 2])] = goldens![
    "pass" 0,
    "fail" 1,
    "junit4" 1,
    "testng" 1,
    "modules" 1,
    "builderror" 1,
    "crash" 1,
    "offline" 1,
    "badpom" 1,
    "nothing" 0,
    "stopped" 1,
];

/// The last record of a successful run.
const END: &[u8] = b"token end \nsuccess\0";

/// Name, exit status, console and report of each listing.
const LISTINGS: &[(&str, i32, [&[u8]; 2])] = goldens!["list-fail" 0, "list-junit4" 0];

const KILLED: [&[u8]; 2] =
    [include_bytes!("../goldens/maven/hang-killed.out"), include_bytes!("../goldens/maven/hang-killed.report")];

fn parser(is_listing: bool) -> Box<dyn Parser> {
    let tests = ["Alive", "Before", "Calc", "Exit", "Greet", "Hang", "Ng", "Old", "SetUp", "Bad", "Plain", "Three"];
    let tree = jvm::tree("pom.xml", &tests);
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    let projects = Maven.detect(&tree);
    if is_listing {
        let plan = Maven.plan_listing(&projects, &tree, &want).unwrap();
        return Maven.listing_parser(&plan, &want);
    }
    let plan = Maven.plan(&projects, &tree, &want).unwrap();
    Maven.parser(&plan, &want)
}

/// Parses pieces of both streams of a run as one step.
fn parse(out: &[&[u8]], report: &[&[u8]], exit: Exit, killed: bool) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    jvm::read(parser(false), StepOutput { out, report, ..StepOutput::default() }, exit, killed)
}

/// Parses the streams of a listing that ended by itself.
fn parse_listing(out: &[u8], report: &[u8], exit: i32) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    jvm::read(
        parser(true),
        StepOutput { out: &[out], report: &[report], ..StepOutput::default() },
        Exit::Code(exit),
        false,
    )
}

fn render(events: &[RunnerEvent], parser: &dyn Parser) -> String {
    let mut text = String::new();
    let field = |text: &mut String, label: &str, value: &Option<String>| {
        if let Some(value) = value {
            writeln!(text, "    {label}: {value:?}").unwrap();
        }
    };
    for event in events {
        match event {
            RunnerEvent::TestStarted(id) => writeln!(text, "started {id:?}").unwrap(),
            RunnerEvent::TestFinished(test) => {
                writeln!(text, "{} {} of {}", test.outcome.name(), test.nodeid, test.package).unwrap();
                if let (Some(file), Some(line)) = (&test.file, test.line) {
                    writeln!(text, "    at {file}:{line}").unwrap();
                }
                field(&mut text, "message", &test.message);
                field(&mut text, "expected", &test.expected);
                field(&mut text, "actual", &test.actual);
                field(&mut text, "output", &test.output);
            }
            RunnerEvent::Collector(collector) => {
                writeln!(text, "{:?} {} {:?}:{:?}", collector.kind, collector.nodeid, collector.file, collector.line)
                    .unwrap();
                writeln!(text, "    message: {:?}\n    output: {:?}", collector.message, collector.output).unwrap();
            }
        }
    }
    writeln!(text, "nothing selected: {}\n{:#?}", parser.nothing_selected(), parser.summary()).unwrap();
    text
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (name, exit, [out, report]) in GOLDENS {
        let (events, parser) = parse(&[out], &[report], Exit::Code(*exit), false);
        insta::assert_snapshot!(format!("maven_{name}"), render(&events, parser.as_ref()));
    }
}

#[test]
fn every_listing_parses_as_its_snapshot() {
    for (name, exit, [out, report]) in LISTINGS {
        let (events, parser) = parse_listing(out, report, *exit);
        insta::assert_snapshot!(format!("maven_{name}"), render(&events, parser.as_ref()));
    }
}

#[test]
fn a_listing_without_an_end_record_has_no_proof() {
    let (_, exit, [out, report]) = LISTINGS[0];
    let without = &report[..report.len() - END.len()];
    for (report, is_cut_off) in [(report, false), (without, true)] {
        let (_, parser) = parse_listing(out, report, exit);
        assert_eq!(parser.summary().proof.is_missing(), is_cut_off);
    }
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_class() {
    let (events, parser) = parse(&[KILLED[0]], &[KILLED[1]], Exit::Signal(15), true);
    let passed =
        |event: &RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome == TestOutcome::Passed);
    assert!(events.len() == 1 && events.iter().all(passed), "{events:?}");
    let running: Vec<String> = parser.running().into_iter().map(|id| id.name).collect();
    assert_eq!(running, ["com.example.HangTest"]);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn no_forged_record_or_line_makes_a_run_green() {
    let (_, _, [out, report]) = GOLDENS[0];
    let end = report.len() - END.len();
    let is_missing = |report: &[&[u8]]| parse(&[out], report, Exit::Code(0), false).1.summary().proof.is_missing();
    assert!(is_missing(&[&report[..end]]));
    assert!(is_missing(&[&report[..end], b"end \nsuccess\0"]), "a test does not know the token");
    assert!(is_missing(&[b"x file a\n\0", report]), "a test wrote");
    assert!(!is_missing(&[report]));
    // Printing a success does not undo a test's failure.
    let forged = [b"[INFO] BUILD SUCCESS\n[INFO] Tests run: 9, Failures: 0\n", GOLDENS[1].2[0]].concat();
    let (events, _) = parse(&[&forged], &[GOLDENS[1].2[1]], Exit::Code(0), false);
    assert!(events.iter().any(|event| matches!(event, RunnerEvent::TestFinished(test) if test.outcome.is_failure())));
}

#[test]
fn a_test_that_passed_when_surefire_reran_it_is_flaky() {
    let report: &[u8] =
        b"begin \ntoken\0token file target/surefire-reports/TEST-com.example.ATest.xml\n<testsuite tests='1' failures='0'><testcase \
        classname='com.example.ATest' name='adds'><flakyFailure type='x'/></testcase></testsuite>\0token ran \n1 0\0\
        token end \nsuccess\0";
    let (events, parser) = parse(&[GOLDENS[0].2[0]], &[report], Exit::Code(0), false);
    assert_eq!((events.len(), parser.flaky(), parser.summary().proof.is_missing()), (1, 1, false));
    assert!(parser.summary().notes.iter().any(|note| note.contains("adds passed after 1 failed attempt(s)")));
}

/// Surefire writes the result of a class after each attempt, and the file may be read between two attempts.
#[test]
fn does_not_report_the_result_of_an_attempt_that_was_repeated() {
    let file = |result: &str| {
        format!(
            "token file target/surefire-reports/TEST-com.example.ATest.xml\n<testsuite tests='1'><testcase \
             classname='com.example.ATest' name='adds'>{result}</testcase></testsuite>\0"
        )
    };
    let mut tree = jvm::tree("pom.xml", &["A"]);
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    tree.add_with_content("pom.xml", "<rerunFailingTestsCount>1</rerunFailingTestsCount>");
    let plan = Maven.plan(&Maven.detect(&tree), &tree, &want).unwrap();
    let outcomes = |results: &[&str], exit, killed| {
        let report: String = results.iter().map(|result| file(result)).collect();
        let output = StepOutput {
            out: &[GOLDENS[0].2[0]],
            report: &[b"begin \ntoken\0", report.as_bytes(), END],
            ..StepOutput::default()
        };
        let (events, parser) = jvm::read(Maven.parser(&plan, &want), output, exit, killed);
        let outcomes = events.iter().map(|event| match event {
            RunnerEvent::TestFinished(test) => test.outcome,
            other => panic!("{other:?}"),
        });
        (outcomes.collect::<Vec<_>>(), parser.flaky())
    };
    let (failed, flaky) = ("<failure type='x'/>", "<flakyFailure type='x'/>");
    assert_eq!(outcomes(&[failed, flaky], Exit::Code(0), false), (vec![TestOutcome::Passed], 1));
    assert_eq!(outcomes(&[failed], Exit::Code(1), false), (vec![TestOutcome::Failed], 0));
    assert_eq!(outcomes(&[failed], Exit::Signal(15), true), (vec![TestOutcome::Failed], 0), "what is known stays");
}

/// In parallel, JUnit 4 does not report the tests that it skips.
#[test]
fn a_run_that_may_have_stopped_after_failures_is_incomplete() {
    let mut tree = jvm::tree("pom.xml", &["Greet"]);
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    let mut unreached = |count: &str| {
        tree.add_with_content("pom.xml", format!("<skipAfterFailureCount>{count}</skipAfterFailureCount>"));
        let plan = Maven.plan(&Maven.detect(&tree), &tree, &want).unwrap();
        let is_unreached = |[out, report]: [&'static [u8]; 2]| {
            let (_, parser) = jvm::read(
                Maven.parser(&plan, &want),
                StepOutput { out: &[out], report: &[report], ..StepOutput::default() },
                Exit::Code(1),
                false,
            );
            parser.summary().unreached
        };
        (is_unreached(GOLDENS[1].2), is_unreached(GOLDENS[0].2), plan.notes.len())
    };
    assert_eq!(unreached("5"), (true, false, 1), "five failed");
    assert_eq!(unreached("6"), (false, false, 1));
    assert_eq!(unreached("${most}"), (true, false, 1), "it may be the first");
    assert_eq!(unreached("0"), (false, false, 0), "it is turned off");
}

#[test]
fn reports_a_file_once_that_comes_twice() {
    let (_, _, [out, report]) = GOLDENS[0];
    let once = parse(&[out], &[report], Exit::Code(0), false).0;
    assert_eq!(parse(&[out], &[&report[..report.len() - END.len()], report], Exit::Code(0), false).0, once);
}

/// Any process beside Surefire can rewrite and remove its files.
#[test]
fn files_with_fewer_tests_or_failures_than_surefire_counted_are_no_proof() {
    let (_, _, [out, report]) = GOLDENS[0];
    let text = String::from_utf8(report.to_vec()).unwrap();
    for (counted, noted) in
        [("5 0", "counted 5 test(s), 0 of them failed, and its files have 4 and 0"), ("4 1", "4 and 0")]
    {
        let other = text.replace("ran \n4 0", &format!("ran \n{counted}"));
        let (_, parser) = parse(&[out], &[other.as_bytes()], Exit::Code(0), false);
        let summary = parser.summary();
        assert!(summary.proof.is_missing() && summary.notes.iter().any(|note| note.contains(noted)), "{summary:?}");
    }
    // An old Surefire does not log its counts through Maven.
    let without = text.replace("ran \n4 0", "ran \n");
    assert!(!parse(&[out], &[without.as_bytes()], Exit::Code(0), false).1.summary().proof.is_missing());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_the_streams_into_chunks_changes_nothing(golden in 0..GOLDENS.len(), first in 0usize..20_000, second in 0usize..20_000) {
        let (_, exit, [out, report]) = GOLDENS[golden];
        let whole = parse(&[out], &[report], Exit::Code(exit), false);
        let ((a, b), (c, d)) = (out.split_at(first.min(out.len())), report.split_at(second.min(report.len())));
        let pieces = parse(&[a, b], &[c, d], Exit::Code(exit), false);
        prop_assert_eq!(render(&whole.0, whole.1.as_ref()), render(&pieces.0, pieces.1.as_ref()));
    }
}
