//! Runs the Gradle parser on recorded reports: each recording is parsed as its snapshot says, and cutting it anywhere changes
//! nothing or is noticed. `goldens/gradle/README.md` says how the files were made.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod brief;
    pub(crate) mod jvm;
    pub(crate) mod render;
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_frameworks::runners::gradle::Gradle;
use proctor_frameworks::{Framework, Parser, PlanRequest};
use proptest::prelude::*;
use support::brief::brief;
use support::jvm::{self, StepOutput};
use support::render::render;
use support::want::want;

macro_rules! goldens {
    ($($name:literal $exit:literal),* $(,)?) => {
        &[$(($name, $exit, include_bytes!(concat!("../goldens/gradle/", $name, ".jsonl")))),*]
    };
}

/// Name, exit status and report of each run.
const GOLDENS: &[(&str, i32, &[u8])] = goldens![
    "pass" 0,
    "fail" 1,
    "modules" 0,
    "builderror" 1,
    "configerror" 1,
    "crash" 0,
    "nothing" 0,
    "selected" 1,
    "both" 0,
    "elsewhere" 0,
    "listing" 1,
    "notask" 1,
    "offline" 1,
    "testng" 1,
];

const KILLED: &[u8] = include_bytes!("../goldens/gradle/hang-killed.jsonl");

fn parser() -> Box<dyn Parser> {
    let tests = ["Alive", "Calc", "Exit", "Greet", "Hang", "Length", "Ng", "Other", "SetUp", "Zero"];
    let tree = jvm::tree("build.gradle", &tests);
    let want = PlanRequest { scratch: "/tmp/proctor", ..want(&Selection::All) };
    let plan = Gradle.plan(&Gradle.detect(&tree), &tree, &want).unwrap();
    Gradle.parser(&plan, &want)
}

/// Parses pieces of a report as one step.
fn parse(report: &[&[u8]], stderr: &[u8], exit: Exit, killed: bool) -> (Vec<RunnerEvent>, Box<dyn Parser>) {
    jvm::read(parser(), StepOutput { report, err: stderr, ..StepOutput::default() }, exit, killed)
}

fn read(report: &[&[u8]], exit: i32) -> String {
    let (events, parser) = parse(report, b"", Exit::Code(exit), false);
    format!("{}nothing selected: {}\n{:#?}\n", render(&events, brief), parser.nothing_selected(), parser.summary())
}

#[test]
fn every_recording_parses_as_its_snapshot() {
    for (name, exit, report) in GOLDENS {
        insta::assert_snapshot!(format!("gradle_{name}"), read(&[report], *exit));
    }
}

#[test]
fn a_killed_run_keeps_finished_tests_and_names_the_running_one() {
    let (events, parser) = parse(&[KILLED], b"", Exit::Signal(15), true);
    assert_eq!(render(&events, brief), "passed com.example.AliveTest#holds\n");
    let running: Vec<String> = parser.running().into_iter().map(|id| format!("{}/{}", id.package, id.name)).collect();
    assert_eq!(running, ["src/test/java/com/example/HangTest.java/com.example.HangTest#hangs"]);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn explains_a_gradle_that_fails_before_the_init_script() {
    let stderr = b"FAILURE: Build failed with an exception.\n\n* Where:\nSettings file '/workspace/settings.gradle' line: 3\n\n\
                 * What went wrong:\nCould not compile settings file '/workspace/settings.gradle'.\n> no\n\n* Try:\nx\n";
    let (events, parser) = parse(&[], stderr, Exit::Code(1), false);
    let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((collector.file.as_deref(), collector.line), (Some("settings.gradle"), Some(3)));
    assert_eq!(collector.message, "Could not compile settings file 'settings.gradle'.\n> no");
    assert!(parser.summary().proof.is_missing());
    let (_, parser) = parse(&[], b"run.sh: 7: exec: gradle: not found\n", Exit::Code(127), false);
    assert!(parser.summary().runner_missing);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_a_report_into_chunks_changes_nothing(golden in 0..GOLDENS.len(), at in 0usize..20_000) {
        let (_, exit, report) = GOLDENS[golden];
        let (head, tail) = report.split_at(at.min(report.len()));
        prop_assert_eq!(read(&[report], exit), read(&[head, tail], exit));
    }

    #[test]
    fn a_truncated_report_has_no_proof(golden in 0..GOLDENS.len(), at in 0usize..20_000) {
        let (_, exit, report) = GOLDENS[golden];
        // The last line may lack its newline.
        let whole = &report[..at.min(report.len() - 2)];
        prop_assert!(parse(&[whole], b"", Exit::Code(exit), false).1.summary().proof.is_missing());
    }
}
