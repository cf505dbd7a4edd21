//! Runs the Go parser on recorded streams: each recording is parsed as its snapshot says, and cutting a stream into pieces
//! changes nothing. `goldens/go/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod brief;
    pub(crate) mod pieces;
    pub(crate) mod render;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::{CoverageMode, Selection};
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::go::Go;
use proctor_frameworks::{FileTree, Framework, Parser, Plan, PlanRequest};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use support::brief::brief;
use support::pieces::pieces;
use support::render::render;
use support::want::want;

macro_rules! goldens {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../goldens/go/", $name, ".jsonl")))),*]
    };
}

/// All recorded streams of complete runs.
const GOLDENS: &[(&str, &[u8])] = goldens![
    "builderror",
    "builderror-coverage",
    "crash",
    "crash-go1.27",
    "fail",
    "fail-go1.27",
    "forkbomb",
    "libraries",
    "notests",
    "oom-killed-test",
    "panic",
    "panic-go1.27",
    "pass",
    "race",
    "shapes",
    "shapes-go1.27",
    "table",
    "twomodules-alpha",
    "twomodules-beta",
    "unicode",
    "unicode-go1.27",
    "vet",
];

const KILLED: &[u8] = include_bytes!("../goldens/go/hang-killed.jsonl");

fn plan(coverage: CoverageMode) -> Plan {
    let mut tree = FileTree::default();
    tree.add_with_content("go.mod", "module example.com/x\n");
    let want = PlanRequest { coverage, ..want(&Selection::All) };
    Go.plan(&Go.detect(&tree), &tree, &want).unwrap()
}

fn parser() -> Box<dyn Parser> {
    Go.parser(&plan(CoverageMode::Off), &want(&Selection::All))
}

/// Parses `chunks` as one step that ended by itself.
fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    for chunk in chunks {
        parser.stdout(chunk, &mut events);
    }
    parser.step_ended(Exit::Code(1), false, &mut events);
    (events, parser)
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (name, bytes) in GOLDENS {
        let (events, parser) = parse([*bytes]);
        let mut text = render(&events, brief);
        writeln!(text, "{:?}", parser.summary()).unwrap();
        insta::assert_snapshot!(*name, text);
    }
}

#[test]
fn outcomes_are_exactly_the_final_actions_of_the_stream() {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase", default)]
    #[derive(Default)]
    struct Line {
        action: String,
        package: String,
        test: String,
    }
    for (name, bytes) in GOLDENS {
        let mut actions = BTreeMap::new();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Line = serde_json::from_slice(line).unwrap();
            if !line.test.is_empty() && ["run", "pass", "fail", "skip"].contains(&line.action.as_str()) {
                actions.insert(format!("{}/{}", line.package, line.test), line.action);
            }
        }
        let mut read = BTreeMap::new();
        for event in parse([*bytes]).0 {
            // The error for a package without a proof is proctor's own.
            if let RunnerEvent::TestFinished(test) = event
                && test.name != "TestMain"
            {
                assert!(read.insert(test.nodeid.clone(), test.outcome).is_none(), "{name}: {} twice", test.nodeid);
            }
        }
        assert_eq!(actions.keys().collect::<Vec<_>>(), read.keys().collect::<Vec<_>>(), "{name}");
        for (test, action) in actions {
            let outcome = read[&test];
            match action.as_str() {
                "pass" => assert_eq!(outcome, TestOutcome::Passed, "{name}: {test}"),
                "fail" => assert_eq!(outcome, TestOutcome::Failed, "{name}: {test}"),
                "skip" => assert_eq!(outcome, TestOutcome::Skipped, "{name}: {test}"),
                // The test never ended, so it must not pass.
                _ => assert!(outcome.is_failure(), "{name}: {test}"),
            }
        }
    }
}

#[test]
fn no_event_contains_the_workspace_path() {
    for (name, bytes) in GOLDENS {
        for event in parse([*bytes]).0 {
            assert!(!format!("{event:?}").contains("/workspace"), "{name}: {event:?}");
        }
    }
}

#[test]
fn a_killed_stream_keeps_finished_tests_and_names_the_running_one() {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    parser.stdout(KILLED, &mut events);
    parser.step_ended(Exit::Signal(9), true, &mut events);
    let finished: Vec<_> = events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_))).collect();
    assert_eq!(finished.len(), 1);
    let running: Vec<String> = parser.running().into_iter().map(|test| test.name).collect();
    assert_eq!(running, ["TestHangs"]);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn a_stream_that_just_ends_leaves_no_test_without_an_outcome() {
    let (events, parser) = parse([KILLED]);
    assert!(render(&events, brief).contains("error example.com/hang/TestHangs\n"));
    assert!(parser.running().is_empty());
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn reruns_packages_broken_by_another_one_without_coverage() {
    let plan = plan(CoverageMode::Auto);
    let mut parser = Go.parser(&plan, &want(&Selection::All));
    let mut events = Vec::new();
    parser.step_started(0);
    parser.stdout(include_bytes!("../goldens/go/builderror-coverage.jsonl"), &mut events);
    parser.step_ended(Exit::Code(1), false, &mut events);
    let again = parser.follow_up();
    assert_eq!(again.len(), 1);
    let args: Vec<&str> = again[0].args.iter().map(String::as_str).collect();
    let packages = ["example.com/builderror/good", "example.com/builderror/user"];
    assert_eq!(args, [&["test", "-json", "-count=1", "-fullpath", "-timeout=0"][..], &packages[..]].concat());
    assert!(parser.follow_up().is_empty());
    parser.step_started(1);
    parser.stdout(include_bytes!("../goldens/go/builderror.jsonl"), &mut events);
    parser.step_ended(Exit::Code(1), false, &mut events);
    assert!(parser.follow_up().is_empty());
    let collectors = events.iter().filter(|event| matches!(event, RunnerEvent::Collector(_))).count();
    assert_eq!(collectors, 1, "the same build error is reported once");
}

#[test]
fn a_listing_names_the_tests_of_a_run() {
    let names = |bytes: &[u8]| {
        let mut parser = Go.listing_parser(&plan(CoverageMode::Off), &want(&Selection::All));
        let mut events = Vec::new();
        parser.step_started(0);
        parser.stdout(bytes, &mut events);
        parser.step_ended(Exit::Code(0), false, &mut events);
        let (mut listed, mut errors) = (Vec::new(), Vec::new());
        for event in events {
            match event {
                RunnerEvent::TestStarted(test) => listed.push(format!("{}/{}", test.package, test.name)),
                RunnerEvent::Collector(collector) => errors.push(collector.nodeid),
                RunnerEvent::TestFinished(_) => panic!("a listing finishes no test"),
            }
        }
        (listed, errors)
    };
    let (listed, errors) = names(include_bytes!("../goldens/go/list-shapes.jsonl"));
    assert_eq!(listed.len(), 12);
    assert!(listed.contains(&"example.com/shapes/FuzzSeeds".to_owned()));
    assert!(listed.contains(&"example.com/shapes/deep/TestOuter".to_owned()));
    assert!(!listed.iter().any(|name| name.contains("Benchmark")));
    assert!(errors.is_empty());
    let (_, errors) = names(include_bytes!("../goldens/go/list-crash.jsonl"));
    assert!(errors.contains(&"example.com/crash/exttest".to_owned()), "{errors:?}");
}

#[test]
fn a_failing_go_tool_becomes_a_collector() {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    parser.stderr(b"go: errors parsing go.mod:\ngo.mod:1: usage: module module/path\n", &mut events);
    parser.step_ended(Exit::Code(1), false, &mut events);
    let [RunnerEvent::Collector(collector)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((collector.file.as_deref(), collector.line), (Some("go.mod"), Some(1)));
    assert_eq!(collector.message, "usage: module module/path");
}

#[test]
fn reads_build_errors_on_stderr() {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    parser.stderr(
        b"# m/broken [m/broken.test]\nbroken/a.go:3:4: undefined: x\n# m/other\nother/b.go:1:2: bad\n",
        &mut events,
    );
    for package in ["m/broken", "m/other"] {
        let line =
            format!(r#"{{"Action":"output","Package":"{package}","Output":"FAIL\t{package} [build failed]\n"}}"#);
        let start = format!(r#"{{"Action":"start","Package":"{package}"}}"#);
        let end = format!(r#"{{"Action":"fail","Package":"{package}"}}"#);
        parser.stdout(format!("{start}\n{line}\n{end}\n").as_bytes(), &mut events);
    }
    parser.step_ended(Exit::Code(1), false, &mut events);
    let text = render(&events, brief);
    assert!(text.contains("Build m/broken Some(\"broken/a.go\"):Some(3)\n    message: \"undefined: x\""), "{text}");
    assert!(text.contains("Build m/other Some(\"other/b.go\"):Some(1)"), "{text}");
}

#[test]
fn reads_a_line_of_ten_megabytes_and_notes_one_beyond_the_bound() {
    let event =
        |test: &str, action: &str| format!("{{\"Action\":\"{action}\",\"Package\":\"p\",\"Test\":\"{test}\"}}\n");
    let output = |bytes: usize| {
        let text = "x".repeat(bytes);
        format!("{{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T\",\"Output\":\"{text}\\n\"}}\n")
    };
    let stream = |bytes| {
        let package_end = "{\"Action\":\"fail\",\"Package\":\"p\"}\n";
        [event("T", "run"), output(bytes), event("T", "fail"), package_end.to_owned()].concat()
    };
    let (events, parser) = parse([stream(10_000_000).as_bytes()]);
    assert!(!parser.summary().proof.is_missing());
    let Some(RunnerEvent::TestFinished(test)) = events.last() else { panic!() };
    assert!(test.output.as_deref().unwrap().starts_with("xxx"));
    let stream = stream(17 * 1024 * 1024);
    let (events, parser) = parse(stream.as_bytes().chunks(65_536));
    assert!(parser.summary().proof.is_missing());
    assert_eq!(parser.summary().notes.len(), 1);
    assert!(matches!(events.last(), Some(RunnerEvent::TestFinished(_))));
}

#[test]
fn a_flood_of_tests_costs_bounded_memory_and_is_counted() {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    let long = "n".repeat(4000);
    let mut failed = 0;
    for number in 0..30_000 {
        let line = format!("{{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T{number}{long}\"}}\n");
        parser.stdout(line.as_bytes(), &mut events);
        events.clear();
    }
    for number in 0..30_000 {
        let line = format!("{{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"T{number}{long}\"}}\n");
        parser.stdout(line.as_bytes(), &mut events);
        failed += events.len();
        events.clear();
    }
    assert_eq!(failed, 30_000);
    assert!(parser.running().is_empty());
    assert!(parser.summary().notes[0].starts_with("too many tests"), "{:?}", parser.summary());
}

/// Bytes similar enough to events to reach the deeper parsing code.
fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let literal = prop_oneof![
        Just("{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"T/a\"}\n".to_owned()),
        Just("{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"T/a\"}\n".to_owned()),
        Just("{\"Action\":\"fail\",\"Package\":\"p\",\"Test\":\"T\",\"Elapsed\":-1e300}\n".to_owned()),
        Just("{\"Action\":\"fail\",\"Package\":\"p\",\"FailedBuild\":\"q [r.test]\"}\n".to_owned()),
        Just("{\"Action\":\"build-output\",\"ImportPath\":\"q\",\"Output\":\"# \\n\"}\n{\"Action\":\"build-fail\",\"ImportPath\":\"q\"}\n".to_owned()),
        "[ -~]{0,40}".prop_map(|text| {
            let output = serde_json::to_string(&format!("{text}\n")).unwrap();
            format!("{{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T/a\",\"Output\":{output}}}\n")
        }),
        Just("{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T/a\",\"Output\":\"panic: \\u00e9\\n\"}\n".to_owned()),
        Just("{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T/a\",\"Output\":[1, null]}\n".to_owned()),
        Just("{\"Action\":\"output\",\"Package\":\"p\",\"Test\":\"T/a\",\"Output\":\"goroutine 1 [\\n\"}\n".to_owned()),
    ];
    let noise = proptest::collection::vec(any::<u8>(), 0..30);
    proptest::collection::vec(prop_oneof![4 => literal.prop_map(String::into_bytes), 1 => noise], 0..40)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in stream_like(), at in any::<prop::sample::Index>(), killed: bool) {
        let (mut parser, mut events) = (parser(), Vec::new());
        let (head, tail) = bytes.split_at(at.index(bytes.len() + 1));
        parser.step_started(7);
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
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let bytes = golden.get(GOLDENS).1;
        prop_assert_eq!(parse(pieces(bytes, &cuts)).0, parse([bytes]).0);
    }
}

#[test]
fn repeats_the_reason_of_a_crash_in_short_form_only() {
    let line = |action: &str, test: &str, output: &str| {
        let mut line = serde_json::json!({"Action": action, "Package": "p", "Test": test});
        if !output.is_empty() {
            line["Output"] = output.into();
        }
        format!("{line}\n")
    };
    let tests: String = (0..50).map(|number| line("run", &format!("Test{number}"), "")).collect();
    let panic = line("output", "Test0", &format!("panic: {}\n", "x".repeat(10_000)));
    let (events, _) = parse([tests.as_bytes(), panic.as_bytes(), b"{\"Action\":\"fail\",\"Package\":\"p\"}\n"]);
    let messages = events.iter().filter_map(|event| match event {
        RunnerEvent::TestFinished(test) => test.message.as_deref(),
        _ => None,
    });
    let lengths: Vec<usize> = messages.map(str::len).collect();
    assert_eq!(lengths.iter().filter(|length| **length > 1_024).count(), 1, "{lengths:?}");
    assert_eq!(lengths.len(), 50);
}
