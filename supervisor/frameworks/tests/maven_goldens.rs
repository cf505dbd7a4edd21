//! The Maven parser against real runs: every golden pair of console and report has a snapshot of what is read out of it, and
//! cutting them into pieces anywhere changes nothing. `goldens/maven/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use proctor_core::event::RunnerEvent;
use proctor_core::isolation::Network;
use proctor_core::outcome::Exit;
use proctor_core::request::{CoverageMode, Selection};
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::maven::Maven;
use proctor_frameworks::{FileTree, Framework, Parser, Want};
use proptest::prelude::*;
use std::fmt::Write as _;

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
];

/// The same of listings.
const LISTINGS: &[(&str, i32, [&[u8]; 2])] = goldens!["list-fail" 0, "list-junit4" 0];

const KILLED: [&[u8]; 2] =
    [include_bytes!("../goldens/maven/hang-killed.out"), include_bytes!("../goldens/maven/hang-killed.report")];

fn parser(is_listing: bool) -> Box<dyn Parser> {
    let mut tree = FileTree::default();
    tree.add_with_content("pom.xml", "");
    let tests = ["Alive", "Before", "Calc", "Exit", "Greet", "Hang", "Ng", "Old", "SetUp", "Bad", "Plain", "Three"];
    tests.iter().for_each(|name| tree.add(format!("src/test/java/com/example/{name}Test.java")));
    ["core/src/main/java/com/example/Price.java", "core/src/test/java/com/example/PriceTest.java"]
        .iter()
        .for_each(|file| tree.add(*file));
    tree.add("tools/src/test/java/com/example/PriceTest.java");
    let want = Want {
        selection: &Selection::All,
        coverage: CoverageMode::Off,
        parallel: None,
        network: Network::None,
        workspace: "/workspace",
        scratch: "/tmp/proctor",
        cache: "/cache",
    };
    let projects = Maven.detect(&tree);
    if is_listing {
        let plan = Maven.plan_listing(&projects, &tree, &want).unwrap();
        return Maven.listing(&plan, &want);
    }
    let plan = Maven.plan(&projects, &tree, &want).unwrap();
    Maven.parser(&plan, &want)
}

/// Feeds pieces of both streams of a run as one step.
fn parse(out: &[&[u8]], report: &[&[u8]], exit: Exit, killed: bool) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    parse_with(parser(false), out, report, exit, killed)
}

fn parse_with(
    mut parser: Box<dyn Parser>,
    out: &[&[u8]],
    report: &[&[u8]],
    exit: Exit,
    killed: bool,
) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let mut events = Vec::new();
    parser.step_started(0);
    out.iter().for_each(|piece| parser.stdout(piece, &mut events));
    report.iter().for_each(|piece| parser.report(piece, &mut events));
    parser.step_ended(exit, killed, &mut events);
    (events, parser)
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
            RunnerEvent::Collector(told) => {
                writeln!(text, "{:?} {} {:?}:{:?}", told.kind, told.nodeid, told.file, told.line).unwrap();
                writeln!(text, "    message: {:?}\n    output: {:?}", told.message, told.output).unwrap();
            }
        }
    }
    writeln!(text, "nothing selected: {}\n{:#?}", parser.nothing_selected(), parser.summary()).unwrap();
    text
}

#[test]
fn every_golden_reads_as_its_snapshot() {
    for (name, exit, [out, report]) in GOLDENS {
        let (events, parser) = parse(&[out], &[report], Exit::Code(*exit), false);
        insta::assert_snapshot!(format!("maven_{name}"), render(&events, parser.as_ref()));
    }
}

#[test]
fn every_listing_reads_as_its_snapshot() {
    for (name, exit, [out, report]) in LISTINGS {
        let (events, parser) = parse_with(parser(true), &[out], &[report], Exit::Code(*exit), false);
        insta::assert_snapshot!(format!("maven_{name}"), render(&events, parser.as_ref()));
    }
}

#[test]
fn a_listing_that_maven_passed_over_is_cut_off() {
    let (_, _, [out, report]) = LISTINGS[0];
    let without = &report[b"begin \n\0".len()..];
    for (report, is_cut_off) in [(report, false), (without, true)] {
        let (_, parser) = parse_with(parser(true), &[out], &[report], Exit::Code(0), false);
        assert_eq!(parser.summary().cut_off, is_cut_off);
    }
}

#[test]
fn a_killed_run_has_what_ended_and_names_what_was_running() {
    let (events, parser) = parse(&[KILLED[0]], &[KILLED[1]], Exit::Signal(15), true);
    let passed =
        |event: &RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome == TestOutcome::Passed);
    assert!(events.len() == 1 && events.iter().all(passed), "{events:?}");
    let running: Vec<String> = parser.running().into_iter().map(|id| id.name).collect();
    assert_eq!(running, ["com.example.HangTest"]);
    assert!(parser.summary().cut_off);
}

#[test]
fn no_line_makes_a_run_whole() {
    let (_, _, [out, report]) = GOLDENS[0];
    let end = report.len() - b"end\n\0".len();
    for (out, report) in [(out, &report[..end]), (&b"[INFO] nothing\n"[..], report)] {
        let (_, parser) = parse(&[out], &[report], Exit::Code(0), false);
        assert!(parser.summary().cut_off);
    }
    // A test that says all is well does not make its failure good.
    let forged = [b"[INFO] BUILD SUCCESS\n[INFO] Tests run: 9, Failures: 0\n", GOLDENS[1].2[0]].concat();
    let (events, _) = parse(&[&forged], &[GOLDENS[1].2[1]], Exit::Code(0), false);
    assert!(events.iter().any(|event| matches!(event, RunnerEvent::TestFinished(test) if test.outcome.is_failure())));
}

#[test]
fn a_file_that_is_told_twice_is_told_once() {
    let (_, _, [out, report]) = GOLDENS[0];
    let once = parse(&[out], &[report], Exit::Code(0), false).0;
    assert_eq!(parse(&[out], &[&report[..report.len() - 5], report], Exit::Code(0), false).0, once);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_do_not_matter(golden in 0..GOLDENS.len(), first in 0usize..20_000, second in 0usize..20_000) {
        let (_, exit, [out, report]) = GOLDENS[golden];
        let whole = parse(&[out], &[report], Exit::Code(exit), false);
        let ((a, b), (c, d)) = (out.split_at(first.min(out.len())), report.split_at(second.min(report.len())));
        let pieces = parse(&[a, b], &[c, d], Exit::Code(exit), false);
        prop_assert_eq!(render(&whole.0, whole.1.as_ref()), render(&pieces.0, pieces.1.as_ref()));
    }
}
