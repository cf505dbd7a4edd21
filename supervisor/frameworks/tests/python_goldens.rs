//! Runs the two Python adapters on recorded reports: each recording is parsed as its snapshot says, and cutting a report into
//! pieces changes nothing. `goldens/pytest/README.md` says how the files were made.

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
use proctor_frameworks::runners::pytest::Pytest;
use proctor_frameworks::runners::unittest::Unittest;
use proctor_frameworks::{FileTree, Framework, Parser};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::pieces::pieces;
use support::render::render;
use support::want::want;

macro_rules! goldens {
    ($framework:literal: $($name:literal $exit:literal),* $(,)?) => {
        &[$(($name, $exit, include_bytes!(concat!("../goldens/", $framework, "/", $name, ".jsonl")))),*]
    };
}

/// Name, exit status and report of a recording.
type Golden = (&'static str, i32, &'static [u8]);

const PYTEST: &[Golden] = goldens!["pytest":
    "pass" 0, "fail" 1, "error" 1, "skip" 1, "collection" 2, "conftest" 4, "crash" 0, "stops" 0, "breaks" 3, "workers" 1,
    "unicode" 1, "fail-pytest7" 1, "error-pytest7" 1, "skip-pytest7" 1, "collection-pytest7" 2, "conftest-pytest7" 4,
    "workers-pytest7" 1, "fail-parallel" 1, "doctest" 1,
];

const UNITTEST: &[Golden] = goldens!["unittest": "pass" 0, "fail" 1, "error" 1, "skip" 0, "collection" 1, "crash" 0, "unicode" 1,
    "brought" 1, "others" 1, "functions" 5];

fn parser(framework: &dyn Framework) -> Box<dyn Parser> {
    let mut tree = FileTree::default();
    tree.add("test_x.py");
    tree.add(if framework.name() == "pytest" { "pytest.ini" } else { "setup.py" });
    let plan = framework.plan(&framework.detect(&tree), &tree, &want(&Selection::All)).unwrap();
    assert_eq!((plan.steps.len(), plan.report), (1, true));
    framework.parser(&plan, &want(&Selection::All))
}

/// Parses `chunks` as the report of one step with this exit.
fn parse<'a>(
    framework: &dyn Framework,
    chunks: impl IntoIterator<Item = &'a [u8]>,
    exit: Exit,
    killed: bool,
) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (mut parser, mut events) = (parser(framework), Vec::new());
    parser.step_started(0);
    for chunk in chunks {
        parser.report(chunk, &mut events);
    }
    parser.step_ended(exit, killed, &mut events);
    (events, parser)
}

/// Writes the facts that a reviewer would check, without durations.
fn whole(text: &mut String, test: &TestCase) {
    writeln!(text, "{} {} ({} in {})", test.outcome.name(), test.nodeid, test.name, test.package).unwrap();
    if let (Some(file), Some(line)) = (&test.file, test.line) {
        writeln!(text, "    at {file}:{line}").unwrap();
    }
    for (label, value) in [
        ("message", &test.message),
        ("expected", &test.expected),
        ("actual", &test.actual),
        ("stack", &test.stack),
        ("output", &test.output),
    ] {
        if let Some(value) = value {
            writeln!(text, "    {label}: {value:?}").unwrap();
        }
    }
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (framework, goldens) in [(&Pytest as &dyn Framework, PYTEST), (&Unittest, UNITTEST)] {
        for (name, exit, bytes) in goldens {
            let (events, parser) = parse(framework, [*bytes], Exit::Code(*exit), false);
            let mut text = render(&events, whole);
            writeln!(text, "{:?}", parser.summary()).unwrap();
            assert!(!text.contains("/workspace"), "{name}: {text}");
            insta::assert_snapshot!(format!("{}-{name}", framework.name()), text);
        }
    }
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_one() {
    let pytest: &[u8] = include_bytes!("../goldens/pytest/hang-killed.jsonl");
    let unittest: &[u8] = include_bytes!("../goldens/unittest/hang-killed.jsonl");
    for (framework, bytes, running) in
        [(&Pytest as &dyn Framework, pytest, "test_hangs"), (&Unittest, unittest, "TestHang.test_b_hangs")]
    {
        let (events, parser) = parse(framework, [bytes], Exit::Signal(9), true);
        let finished = events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_))).count();
        assert_eq!((finished, parser.summary().proof.is_missing()), (1, true));
        assert_eq!(parser.running().into_iter().map(|test| test.name).collect::<Vec<_>>(), [running]);
    }
}

#[test]
fn a_listing_names_the_tests_of_a_run() {
    let pytest: &[u8] = include_bytes!("../goldens/pytest/list.jsonl");
    let unittest: &[u8] = include_bytes!("../goldens/unittest/list.jsonl");
    for (framework, bytes, count, one) in [
        (&Pytest as &dyn Framework, pytest, 5, "tests/test_money.py::test_without_tax[99]"),
        (&Unittest, unittest, 8, "test_fail.py::TestShout.test_parts"),
    ] {
        let (events, _) = parse(framework, [bytes], Exit::Code(0), false);
        let listed: Vec<String> = events
            .into_iter()
            .map(|event| {
                let RunnerEvent::TestStarted(test) = event else { panic!("{event:?}") };
                format!("{}::{}", test.package, test.name)
            })
            .collect();
        assert_eq!(listed.len(), count, "{listed:?}");
        assert!(listed.iter().any(|name| name == one), "{listed:?}");
    }
}

#[test]
fn reports_a_missing_pytest_with_a_remedy() {
    let (mut parser, mut events) = (parser(&Pytest), Vec::new());
    parser.step_started(0);
    parser.stderr(b"/workspace/.venv/bin/python: No module named pytest\n", &mut events);
    parser.step_ended(Exit::Code(1), false, &mut events);
    let summary = parser.summary();
    assert!(summary.runner_missing && events.is_empty(), "{events:?}");
    assert!(summary.notes[0].contains(".venv/bin/pip install pytest"), "{:?}", summary.notes);
}

proptest! {
    #[test]
    fn cutting_a_report_into_chunks_changes_nothing(
        golden in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let bytes = golden.get(PYTEST).2;
        let read = |chunks: Vec<&[u8]>| parse(&Pytest, chunks, Exit::Code(1), false).0;
        prop_assert_eq!(read(pieces(bytes, &cuts)), read(vec![bytes]));
    }
}
