//! Runs the parsers of the JavaScript runners on recorded reports: each recording is parsed as its snapshot says, and cutting a
//! stream anywhere changes nothing or is noticed. `goldens/*/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod pieces;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_frameworks::runners::cypress::Cypress;
use proctor_frameworks::runners::jest::Jest;
use proctor_frameworks::runners::mocha::Mocha;
use proctor_frameworks::runners::node_test::NodeTest;
use proctor_frameworks::runners::playwright::Playwright;
use proctor_frameworks::runners::vitest::Vitest;
use proctor_frameworks::{FileTree, Framework, Parser};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::pieces::pieces;
use support::want::want;

/// A recording: name, runner, the runner's exit, report.
type Golden = (&'static str, &'static dyn Framework, Exit, &'static [u8]);

macro_rules! golden {
    ($framework:expr, $name:literal, $exit:expr) => {
        ($name, &$framework, $exit, include_bytes!(concat!("../goldens/", $name, ".jsonl")))
    };
}

/// All recordings of runs that ended by themselves.
const GOLDENS: &[Golden] = &[
    golden!(Cypress, "cypress/collection", Exit::Code(1)),
    golden!(Cypress, "cypress/crash", Exit::Code(0)),
    golden!(Cypress, "cypress/error", Exit::Code(3)),
    golden!(Cypress, "cypress/fail", Exit::Code(3)),
    golden!(Cypress, "cypress/flaky", Exit::Code(1)),
    golden!(Cypress, "cypress/pass", Exit::Code(0)),
    golden!(Cypress, "cypress/skip", Exit::Code(0)),
    golden!(Cypress, "cypress/unicode", Exit::Code(2)),
    golden!(Jest, "jest/collection", Exit::Code(1)),
    golden!(Jest, "jest/collection-jest24", Exit::Code(1)),
    golden!(Jest, "jest/crash", Exit::Signal(6)),
    golden!(Jest, "jest/error", Exit::Code(1)),
    golden!(Jest, "jest/error-jest24", Exit::Code(1)),
    golden!(Jest, "jest/fail", Exit::Code(1)),
    golden!(Jest, "jest/fail-jest24", Exit::Code(1)),
    golden!(Jest, "jest/fail-jest26", Exit::Code(1)),
    golden!(Jest, "jest/fail-jest28", Exit::Code(1)),
    golden!(Jest, "jest/pass", Exit::Code(0)),
    golden!(Jest, "jest/skip", Exit::Code(0)),
    golden!(Jest, "jest/typescript", Exit::Code(1)),
    golden!(Jest, "jest/unicode", Exit::Code(1)),
    golden!(Mocha, "mocha/crash", Exit::Code(0)),
    golden!(Mocha, "mocha/error", Exit::Code(3)),
    golden!(Mocha, "mocha/fail", Exit::Code(6)),
    golden!(Mocha, "mocha/fail-mocha6", Exit::Code(6)),
    golden!(Mocha, "mocha/pass", Exit::Code(0)),
    golden!(Mocha, "mocha/skip", Exit::Code(0)),
    golden!(Mocha, "mocha/unicode", Exit::Code(2)),
    golden!(NodeTest, "node/collection", Exit::Code(1)),
    golden!(NodeTest, "node/collection-node18", Exit::Code(1)),
    golden!(NodeTest, "node/collection-node22", Exit::Code(1)),
    golden!(NodeTest, "node/crash", Exit::Code(1)),
    golden!(NodeTest, "node/error", Exit::Code(1)),
    golden!(NodeTest, "node/error-node22", Exit::Code(1)),
    golden!(NodeTest, "node/fail", Exit::Code(1)),
    golden!(NodeTest, "node/fail-node18", Exit::Code(1)),
    golden!(NodeTest, "node/fail-node20", Exit::Code(1)),
    golden!(NodeTest, "node/fail-node22", Exit::Code(1)),
    golden!(NodeTest, "node/fail-node26", Exit::Code(1)),
    golden!(NodeTest, "node/pass", Exit::Code(0)),
    golden!(NodeTest, "node/skip", Exit::Code(0)),
    golden!(NodeTest, "node/skip-node22", Exit::Code(0)),
    golden!(NodeTest, "node/unicode", Exit::Code(1)),
    golden!(NodeTest, "node/vanishes-node18", Exit::Code(0)),
    golden!(Playwright, "playwright/collection", Exit::Code(1)),
    golden!(Playwright, "playwright/crash", Exit::Code(1)),
    golden!(Playwright, "playwright/error", Exit::Code(1)),
    golden!(Playwright, "playwright/fail", Exit::Code(1)),
    golden!(Playwright, "playwright/flaky", Exit::Code(1)),
    golden!(Playwright, "playwright/pass", Exit::Code(0)),
    golden!(Playwright, "playwright/setup", Exit::Code(1)),
    golden!(Playwright, "playwright/skip", Exit::Code(0)),
    golden!(Playwright, "playwright/unicode", Exit::Code(1)),
    golden!(Vitest, "vitest/collection", Exit::Code(1)),
    golden!(Vitest, "vitest/crash", Exit::Code(1)),
    golden!(Vitest, "vitest/crash-vitest2", Exit::Code(1)),
    golden!(Vitest, "vitest/error", Exit::Code(1)),
    golden!(Vitest, "vitest/error-vitest1", Exit::Code(1)),
    golden!(Vitest, "vitest/fail", Exit::Code(1)),
    golden!(Vitest, "vitest/fail-vitest1", Exit::Code(1)),
    golden!(Vitest, "vitest/pass", Exit::Code(0)),
    golden!(Vitest, "vitest/skip", Exit::Code(0)),
    golden!(Vitest, "vitest/skip-vitest1", Exit::Code(0)),
    golden!(Vitest, "vitest/unhandled", Exit::Code(1)),
    golden!(Vitest, "vitest/unicode", Exit::Code(1)),
];

const KILLED: &[Golden] = &[
    golden!(Cypress, "cypress/hang-killed", Exit::Signal(9)),
    golden!(Jest, "jest/hang-killed", Exit::Signal(9)),
    golden!(Mocha, "mocha/hang-killed", Exit::Signal(9)),
    golden!(NodeTest, "node/hang-killed", Exit::Signal(9)),
    golden!(Playwright, "playwright/hang-killed", Exit::Signal(9)),
    golden!(Vitest, "vitest/hang-killed", Exit::Signal(9)),
    golden!(Vitest, "vitest/hang-killed-vitest1", Exit::Signal(9)),
];

fn parser(framework: &dyn Framework) -> Box<dyn Parser> {
    let mut tree = FileTree::default();
    tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":\"{} test\"}}}}", framework.name()));
    let want = want(&Selection::All);
    framework.parser(&framework.plan(&framework.detect(&tree), &tree, &want).unwrap(), &want)
}

/// Parses `chunks` as one step.
fn parse(golden: &Golden, chunks: &[&[u8]], killed: bool) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (mut parser, mut events) = (parser(golden.1), Vec::new());
    parser.step_started(0);
    // Cypress prints its number of specs.
    if golden.1.name() == "cypress" {
        let specs =
            golden.3.split(|byte| *byte == b'\n').filter(|line| line.starts_with(br#"{"event":"opened""#)).count();
        parser.stdout(format!("  Specs:  {specs} found (...)\n").as_bytes(), &mut events);
    }
    chunks.iter().for_each(|chunk| parser.report(chunk, &mut events));
    parser.step_ended(golden.2, killed, &mut events);
    (events, parser)
}

/// Renders the facts that a reviewer would check, without durations.
fn render(events: &[RunnerEvent]) -> String {
    let mut text = String::new();
    for event in events {
        match event {
            RunnerEvent::TestStarted(_) => {}
            RunnerEvent::TestFinished(test) => {
                writeln!(text, "{} {}", test.outcome.name(), test.nodeid).unwrap();
                if let Some(file) = &test.file {
                    writeln!(text, "    at {file}:{}", test.line.unwrap_or_default()).unwrap();
                }
                let stack = test.stack.clone().filter(|stack| !stack.is_empty());
                let parts = [("message", &test.message), ("expected", &test.expected), ("actual", &test.actual)];
                for (label, value) in parts.into_iter().chain([("stack", &stack)]) {
                    if let Some(value) = value {
                        writeln!(text, "    {label}: {value:?}").unwrap();
                    }
                }
            }
            RunnerEvent::Collector(collector) => {
                let lines = collector.output.lines().count();
                writeln!(text, "{:?} {} {:?}:{:?}", collector.kind, collector.nodeid, collector.file, collector.line)
                    .unwrap();
                writeln!(text, "    message: {:?}\n    output: {lines} lines", collector.message).unwrap();
            }
        }
    }
    text
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for golden in GOLDENS {
        let (events, parser) = parse(golden, &[golden.3], false);
        let text = format!("{}{:?}\n", render(&events), parser.summary());
        insta::assert_snapshot!(golden.0.replace('/', "-"), text);
    }
}

#[test]
fn no_event_contains_the_workspace_path() {
    for golden in GOLDENS {
        for event in parse(golden, &[golden.3], false).0 {
            assert!(!format!("{event:?}").contains("/workspace"), "{}: {event:?}", golden.0);
        }
    }
}

#[test]
fn a_kill_keeps_the_running_test() {
    for golden in KILLED {
        let (events, parser) = parse(golden, &[golden.3], true);
        let running: Vec<String> = parser.running().into_iter().map(|test| test.name).collect();
        let rendered = render(&events);
        assert_eq!((running, rendered.lines().count()), (vec!["hangs".to_owned()], 1));
        assert!(rendered.starts_with("passed ") && rendered.ends_with("> ends\n"), "{rendered}");
        assert!(parser.summary().proof.is_missing());
    }
}

#[test]
fn a_stream_without_its_end_has_no_proof() {
    for golden in GOLDENS {
        let lines: Vec<&[u8]> = golden.3.split_inclusive(|byte| *byte == b'\n').collect();
        for kept in 0..lines.len() {
            let (_, parser) = parse(golden, &lines[..kept], false);
            assert!(parser.summary().proof.is_missing(), "{}: {kept} lines", golden.0);
        }
    }
}

proptest! {
    #[test]
    fn cutting_a_stream_into_chunks_changes_nothing(which in 0..GOLDENS.len(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let golden = &GOLDENS[which];
        let (whole, pieces) = (parse(golden, &[golden.3], false), parse(golden, &pieces(golden.3, &cuts), false));
        prop_assert_eq!(whole.0, pieces.0);
        prop_assert_eq!(whole.1.summary(), pieces.1.summary());
    }
}
