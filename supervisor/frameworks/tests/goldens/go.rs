//! Recordings of the Go adapter.

use crate::noise::no_bytes_make_the_parser_panic;
use crate::recording::{Channel, Killed, Recordings, Replay, Run};
use crate::render::{self, BRIEF};
use crate::want::want;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::go::Go;
use proctor_frameworks::{FileTree, Framework, PlanRequest};
use proptest::prelude::*;
use std::collections::BTreeMap;

pub(crate) static GO: Recordings = Recordings {
    // The packages of a project are not announced.
    unproven_bytes: |_| 0,
    channels: &[("jsonl", Channel::Stdout)],
    render: render::brief,
    runs: &[
        (0, "notests pass twomodules-alpha"),
        (
            1,
            "builderror builderror-coverage crash crash-go1.27 fail fail-go1.27 forkbomb libraries oom-killed-test panic panic-go1.27 race shapes shapes-go1.27 table twomodules-beta unicode unicode-go1.27 vet",
        ),
    ],
    killed: &[Killed {
        name: "hang-killed",
        passed: "example.com/hang/TestEnds",
        running: ("example.com/hang", "TestHangs"),
    }],
    listings: &["list-crash", "list-shapes"],
    proof: &[
        (r#""Output":"PASS\n"}"#, r#""Output":"DONE\n"}"#),
        (r#""Action":"pass","Package":"example.com/pass/calc","E"#, ""),
    ],
    ..Recordings::of(&Go)
};

/// Replays pieces of stdout.
fn parse(stdout: &[&[u8]]) -> Replay {
    let stdout: Vec<(Channel, &[u8])> = stdout.iter().map(|piece| (Channel::Stdout, *piece)).collect();
    GO.replay(&Run::new(&stdout, Exit::Code(1)))
}

#[test]
fn outcomes_are_exactly_the_final_actions_of_the_stream() {
    #[derive(serde::Deserialize, Default)]
    #[serde(rename_all = "PascalCase", default)]
    struct Line {
        action: String,
        package: String,
        test: String,
    }
    for (name, _) in GO.runs() {
        let (run, mut actions) = (GO.run(name), BTreeMap::new());
        for line in run.last().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let line: Line = serde_json::from_slice(line).unwrap();
            if !line.test.is_empty() && ["run", "pass", "fail", "skip"].contains(&line.action.as_str()) {
                actions.insert(format!("{}/{}", line.package, line.test), line.action);
            }
        }
        let mut read = BTreeMap::new();
        // The error for a package without a proof is proctor's own.
        for test in GO.replay(&run).finished().filter(|test| test.name != "TestMain") {
            assert!(read.insert(test.nodeid.clone(), test.outcome).is_none(), "{name}: {} twice", test.nodeid);
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
fn a_stream_that_just_ends_leaves_no_test_without_an_outcome() {
    let replay = GO.replay(&GO.load("hang-killed", 1));
    assert!(BRIEF.render(&replay.events).contains("error example.com/hang/TestHangs\n"));
    assert!(replay.running.is_empty() && replay.is_unproven());
}

#[test]
fn reruns_packages_broken_by_another_one_without_coverage() {
    let mut tree = FileTree::default();
    tree.add_with_content("go.mod", "module example.com/x\n");
    let want = PlanRequest { is_measured: true, ..want(&Selection::All) };
    let mut parser = Go.parser(&Go.plan(&Go.detect(&tree), &tree, &want).unwrap(), &want);
    let mut events = Vec::new();
    let mut step = |number, name| {
        parser.step_started(number);
        parser.stdout(GO.run(name).last(), &mut events);
        parser.step_ended(Exit::Code(1), false, &mut events);
        let again = parser.follow_up();
        assert!(parser.follow_up().is_empty());
        again
    };
    let again = step(0, "builderror-coverage");
    assert_eq!(again.len(), 1);
    let args: Vec<&str> = again[0].args.iter().map(String::as_str).collect();
    let packages = ["example.com/builderror/good", "example.com/builderror/user"];
    assert_eq!(args, [&["test", "-json", "-count=1", "-fullpath", "-timeout=0"][..], &packages[..]].concat());
    assert!(step(1, "builderror").is_empty());
    let collectors = events.iter().filter(|event| matches!(event, RunnerEvent::Collector(_))).count();
    assert_eq!(collectors, 1, "the same build error is reported once");
}

#[test]
fn a_failing_go_tool_becomes_a_collector() {
    let stderr = b"go: errors parsing go.mod:\ngo.mod:1: usage: module module/path\n";
    let replay = GO.replay(&Run::new(&[(Channel::Stderr, stderr)], Exit::Code(1)));
    let [RunnerEvent::Collector(collector)] = &replay.events[..] else { panic!("{:?}", replay.events) };
    assert_eq!((collector.file.as_deref(), collector.line), (Some("go.mod"), Some(1)));
    assert_eq!(collector.message, "usage: module module/path");
}

#[test]
fn reads_build_errors_on_stderr() {
    let stderr = b"# m/broken [m/broken.test]\nbroken/a.go:3:4: undefined: x\n# m/other\nother/b.go:1:2: bad\n";
    let failed = |package: &str| {
        let line =
            format!(r#"{{"Action":"output","Package":"{package}","Output":"FAIL\t{package} [build failed]\n"}}"#);
        let start = format!(r#"{{"Action":"start","Package":"{package}"}}"#);
        let end = format!(r#"{{"Action":"fail","Package":"{package}"}}"#);
        format!("{start}\n{line}\n{end}\n")
    };
    let stdout = ["m/broken", "m/other"].map(failed).concat();
    let channels = [(Channel::Stderr, &stderr[..]), (Channel::Stdout, stdout.as_bytes())];
    let text = BRIEF.render(&GO.replay(&Run::new(&channels, Exit::Code(1))).events);
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
    let replay = parse(&[stream(10_000_000).as_bytes()]);
    assert!(!replay.is_unproven());
    let Some(RunnerEvent::TestFinished(test)) = replay.events.last() else { panic!() };
    assert!(test.output.as_deref().unwrap().starts_with("xxx"));
    let stream = stream(17 * 1024 * 1024);
    let replay = parse(&stream.as_bytes().chunks(65_536).collect::<Vec<_>>());
    assert!(replay.is_unproven());
    assert_eq!(replay.summary.notes.len(), 1);
    assert!(matches!(replay.events.last(), Some(RunnerEvent::TestFinished(_))));
}

#[test]
fn a_flood_of_tests_costs_bounded_memory_and_is_counted() {
    let (mut parser, mut events) = (GO.parser(), Vec::new());
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
fn event_like() -> impl Strategy<Value = Vec<u8>> {
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
    literal.prop_map(String::into_bytes)
}

#[test]
fn no_events_make_the_parser_panic() {
    no_bytes_make_the_parser_panic(&GO, event_like());
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
    let replay = parse(&[tests.as_bytes(), panic.as_bytes(), b"{\"Action\":\"fail\",\"Package\":\"p\"}\n"]);
    let lengths: Vec<usize> = replay.finished().filter_map(|test| test.message.as_deref()).map(str::len).collect();
    assert_eq!(lengths.iter().filter(|length| **length > 1_024).count(), 1, "{lengths:?}");
    assert_eq!(lengths.len(), 50);
}
