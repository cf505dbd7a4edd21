//! Runs the parsers of the Ruby and PHP runners on recorded reports: each recording is parsed as its snapshot says, and cutting
//! a report into pieces changes nothing. `goldens/*/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod pieces;
    pub(crate) mod render;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::TestCase;
use proctor_frameworks::runners::phpunit::Phpunit;
use proctor_frameworks::runners::rspec::Rspec;
use proctor_frameworks::{FileTree, Framework, Parser};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::pieces::pieces;
use support::render::render;
use support::want::want;

/// A recording: name, runner, the runner's exit status, report.
type Golden = (&'static str, &'static dyn Framework, i32, &'static [u8]);

macro_rules! golden {
    ($framework:expr, $name:literal, $exit:literal) => {
        ($name, &$framework, $exit, include_bytes!(concat!("../goldens/", $name, ".jsonl")))
    };
}

/// All recordings of runs that ended by themselves.
const GOLDENS: &[Golden] = &[
    golden!(Phpunit, "phpunit/collection", 2),
    golden!(Phpunit, "phpunit/crash", 0),
    golden!(Phpunit, "phpunit/error", 2),
    golden!(Phpunit, "phpunit/error-phpunit11", 2),
    golden!(Phpunit, "phpunit/error-phpunit13", 2),
    golden!(Phpunit, "phpunit/fail", 2),
    golden!(Phpunit, "phpunit/fail-phpunit11", 2),
    golden!(Phpunit, "phpunit/fail-phpunit13", 2),
    golden!(Phpunit, "phpunit/pass", 0),
    golden!(Phpunit, "phpunit/pass-phpunit11", 0),
    golden!(Phpunit, "phpunit/pass-phpunit13", 0),
    golden!(Phpunit, "phpunit/provider", 2),
    golden!(Phpunit, "phpunit/provider-phpunit11", 2),
    golden!(Phpunit, "phpunit/provider-phpunit13", 2),
    golden!(Phpunit, "phpunit/risky", 1),
    golden!(Phpunit, "phpunit/risky-phpunit11", 1),
    golden!(Phpunit, "phpunit/skip", 0),
    golden!(Phpunit, "phpunit/skip-phpunit11", 0),
    golden!(Phpunit, "phpunit/skip-phpunit13", 0),
    golden!(Phpunit, "phpunit/stops", 1),
    golden!(Phpunit, "phpunit/stops-phpunit11", 1),
    golden!(Phpunit, "phpunit/teardown", 1),
    golden!(Phpunit, "phpunit/teardown-phpunit11", 2),
    golden!(Phpunit, "phpunit/unicode", 2),
    golden!(Phpunit, "phpunit/unicode-phpunit13", 2),
    golden!(Rspec, "rspec/collection", 1),
    golden!(Rspec, "rspec/collection-rspec313", 1),
    golden!(Rspec, "rspec/crash", 0),
    golden!(Rspec, "rspec/dryrun", 0),
    golden!(Rspec, "rspec/error", 1),
    golden!(Rspec, "rspec/error-rspec313", 1),
    golden!(Rspec, "rspec/fail", 1),
    golden!(Rspec, "rspec/fail-rspec313", 1),
    golden!(Rspec, "rspec/pass", 0),
    golden!(Rspec, "rspec/skip", 0),
    golden!(Rspec, "rspec/skip-rspec313", 0),
    golden!(Rspec, "rspec/stops", 1),
    golden!(Rspec, "rspec/suite", 1),
    golden!(Rspec, "rspec/syntax", 1),
    golden!(Rspec, "rspec/teardown", 1),
    golden!(Rspec, "rspec/teardown-rspec313", 1),
    golden!(Rspec, "rspec/unicode", 1),
];

/// Recordings of runs that were killed during a test, and that test.
const KILLED: &[(Golden, &str)] = &[
    (golden!(Phpunit, "phpunit/hang-killed", 137), "HangTest::testHangs"),
    (golden!(Phpunit, "phpunit/hang-killed-phpunit11", 137), "HangTest::testHangs"),
    (golden!(Rspec, "rspec/hang-killed", 137), "hang > b hangs"),
];

/// Recordings of listings: how many tests they have, and one of these.
const LISTINGS: &[(Golden, usize, &str)] = &[
    (golden!(Phpunit, "phpunit/list", 0), 11, "tests/ShoutTest.php > ShoutTest::testLetters with data set #0"),
    (
        golden!(Phpunit, "phpunit/list-phpunit11", 0),
        11,
        "tests/ShoutTest.php > ShoutTest::testLetters with data set #0",
    ),
    (golden!(Rspec, "rspec/list", 0), 12, "spec/shout_spec.rb > shout > with a nil > example [1:10:1]"),
];

/// A file by which the framework detects a project.
const MARKERS: &[(&str, &str)] = &[("rspec", ".rspec"), ("phpunit", "phpunit.xml")];

/// Parses `chunks` as the report of one step.
fn parse(golden: &Golden, chunks: &[&[u8]], exit: Exit) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (_, framework, ..) = golden;
    let mut tree = FileTree::default();
    MARKERS
        .iter()
        .filter(|(name, _)| *name == framework.name())
        .for_each(|(_, marker)| tree.add_with_content(*marker, ""));
    let request = want(&Selection::All);
    let plan = framework.plan(&framework.detect(&tree), &tree, &request).unwrap();
    assert_eq!((plan.steps.len(), plan.report), (1, true));
    let (mut parser, mut events) = (framework.parser(&plan, &request), Vec::new());
    parser.step_started(0);
    chunks.iter().for_each(|chunk| parser.report(chunk, &mut events));
    parser.step_ended(exit, matches!(exit, Exit::Signal(_)), &mut events);
    (events, parser)
}

/// Writes the facts that a reviewer would check, without durations.
fn whole(text: &mut String, test: &TestCase) {
    writeln!(text, "{} {} ({} in {})", test.outcome.name(), test.nodeid, test.name, test.package).unwrap();
    if let (Some(file), Some(line)) = (&test.file, test.line) {
        writeln!(text, "    at {file}:{line}").unwrap();
    }
    let parts = [("message", &test.message), ("expected", &test.expected), ("actual", &test.actual)];
    for (label, value) in parts.into_iter().chain([("stack", &test.stack), ("output", &test.output)]) {
        if let Some(value) = value {
            writeln!(text, "    {label}: {value:?}").unwrap();
        }
    }
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for golden @ (name, _, exit, report) in GOLDENS {
        let (events, parser) = parse(golden, &[report], Exit::Code(*exit));
        let text = format!("{}{:?}\n", render(&events, whole), parser.summary());
        assert!(!text.contains("/workspace"), "{name}: {text}");
        insta::assert_snapshot!(name.replace('/', "-"), text);
    }
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_one() {
    for (golden, running) in KILLED {
        let (events, parser) = parse(golden, &[golden.3], Exit::Signal(9));
        let finished = events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_))).count();
        assert_eq!((finished, parser.summary().proof.is_missing()), (1, true));
        assert_eq!(parser.running().into_iter().map(|test| test.name).collect::<Vec<_>>(), [*running]);
    }
}

#[test]
fn a_listing_names_the_tests_of_a_run() {
    for (golden, count, one) in LISTINGS {
        let (events, _) = parse(golden, &[golden.3], Exit::Code(0));
        let name = |event| match event {
            RunnerEvent::TestStarted(test) => format!("{} > {}", test.package, test.name),
            other => panic!("{other:?}"),
        };
        let listed: Vec<String> = events.into_iter().map(name).collect();
        assert_eq!(listed.len(), *count, "{listed:?}");
        assert!(listed.iter().any(|name| name == one), "{listed:?}");
    }
}

#[test]
fn a_report_without_its_end_has_no_proof() {
    for golden in GOLDENS {
        let lines: Vec<&[u8]> = golden.3.split_inclusive(|byte| *byte == b'\n').collect();
        for kept in 0..lines.len() {
            let (_, parser) = parse(golden, &lines[..kept], Exit::Code(0));
            assert!(parser.summary().proof.is_missing(), "{}: {kept} lines", golden.0);
        }
    }
}

proptest! {
    #[test]
    fn cutting_a_report_into_chunks_changes_nothing(which in 0..GOLDENS.len(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let golden = &GOLDENS[which];
        let exit = Exit::Code(golden.2);
        let (whole, cut) = (parse(golden, &[golden.3], exit), parse(golden, &pieces(golden.3, &cuts), exit));
        prop_assert_eq!(whole.0, cut.0);
        prop_assert_eq!(whole.1.summary(), cut.1.summary());
    }
}
