//! Runs the Maestro parser on output in Maestro's format: each golden run is parsed as its snapshot says, cutting the console
//! anywhere changes nothing, and a run is green only if console and report agree. `goldens/maestro/README.md` names the sources
//! of the format.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::Selection;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::maestro::Maestro;
use proctor_frameworks::{FileTree, Framework, Parser, PlanRequest, StreamSummary};
use proptest::prelude::*;
use std::fmt::Write as _;
use support::want::want;

macro_rules! golden {
    ($file:literal) => {
        include_bytes!(concat!("../goldens/maestro/", $file))
    };
}

/// One command: its stdout, its stderr, its exit status and its report file.
#[derive(Clone, Copy, Default)]
struct Command<'a> {
    out: &'a [u8],
    err: &'a [u8],
    code: i32,
    report: Option<&'a [u8]>,
}

const FAIL: Command<'_> = Command { out: golden!("fail.out"), err: b"", code: 1, report: Some(golden!("fail.xml")) };
const AGAIN: Command<'_> =
    Command { out: golden!("fail-again.out"), err: b"", code: 1, report: Some(golden!("fail-again.xml")) };

const fn silent(err: &[u8]) -> Command<'_> {
    Command { out: b"", err, code: 1, report: None }
}

const fn green<'a>(out: &'a [u8], report: &'a [u8]) -> Command<'a> {
    Command { out, err: b"", code: 0, report: Some(report) }
}

/// Name, `parallel`, files of the flows' directory, and the commands of each run.
type Golden = (&'static str, Option<u32>, &'static [&'static str], &'static [Command<'static>]);

const ALL: &[&str] = &["greeting.yaml", "login.yaml", "search.yaml"];

const GOLDENS: &[Golden] = &[
    ("pass", None, &["login.yaml", "search.yaml"], &[green(golden!("pass.out"), golden!("pass.xml"))]),
    ("fail", None, ALL, &[FAIL, AGAIN]),
    ("shards", Some(2), ALL, &[green(golden!("shards.out"), golden!("shards.xml"))]),
    ("subflow", None, ALL, &[silent(golden!("subflow.err"))]),
    ("nodevice", None, ALL, &[silent(golden!("nodevice.err"))]),
    ("tags", None, ALL, &[silent(golden!("tags.err"))]),
    (
        "old",
        None,
        ALL,
        &[Command {
            err: b"Unknown option: '--flatten-debug-output'\nUsage: maestro\n",
            code: 2,
            out: b"",
            report: None,
        }],
    ),
];

fn parser(files: &[&str], parallel: Option<u32>) -> Box<dyn Parser> {
    let mut tree = FileTree::default();
    for file in files {
        let name = match *file {
            "greeting.yaml" => "name: Greeting (in English)\n",
            "login.yaml" => "name: Log in\n",
            _ => "",
        };
        tree.add_with_content(format!(".maestro/{file}"), format!("appId: x\n{name}---\n- launchApp\n"));
    }
    let want = PlanRequest { parallel, ..want(&Selection::All) };
    Maestro.parser(&Maestro.plan(&Maestro.detect(&tree), &tree, &want).unwrap(), &want)
}

/// Runs the commands one after the other; `cut` is the offset at which each console is cut in two.
fn run(golden: &Golden, cut: usize) -> (Vec<RunnerEvent>, Box<dyn Parser>, String) {
    let (_, parallel, files, commands) = golden;
    let (mut parser, mut events, mut follow_ups) = (parser(files, *parallel), Vec::new(), String::new());
    let mut left = Vec::new();
    for (number, command) in commands.iter().enumerate() {
        parser.step_started(number);
        let (head, tail) = command.out.split_at(cut.min(command.out.len()));
        [head, tail].iter().for_each(|piece| parser.stdout(piece, &mut events));
        parser.stderr(command.err, &mut events);
        parser.step_ended(Exit::Code(command.code), false, &mut events);
        for step in parser.follow_up() {
            writeln!(follow_ups, "then {} {}", step.programs.join(" "), step.args.join(" ")).unwrap();
        }
        let round = if number == 0 { String::new() } else { format!("round-{}/", number + 1) };
        left.extend(command.report.map(|bytes| (format!("{round}maestro/report-{number}.xml"), bytes.to_vec())));
    }
    parser.files(&left, &mut events);
    (events, parser, follow_ups)
}

fn render(golden: &Golden, cut: usize) -> String {
    let (events, parser, mut text) = run(golden, cut);
    for event in &events {
        match event {
            RunnerEvent::TestStarted(id) => writeln!(text, "started {} of {}", id.name, id.package).unwrap(),
            RunnerEvent::TestFinished(test) => {
                writeln!(text, "{} {} {:?}s", test.outcome.name(), test.nodeid, test.duration_s).unwrap();
                if let Some(message) = &test.message {
                    writeln!(text, "    {:?}: {message:?}", test.file).unwrap();
                }
            }
            RunnerEvent::Collector(collector) => {
                writeln!(
                    text,
                    "{:?} {} {:?}:{:?}\n    {:?}",
                    collector.kind, collector.nodeid, collector.file, collector.line, collector.message
                )
                .unwrap();
            }
        }
    }
    let (nothing, flaky) = (parser.nothing_selected(), parser.flaky());
    writeln!(text, "nothing selected: {nothing}, flaky: {flaky}\n{:#?}", parser.summary()).unwrap();
    text
}

/// Parses one command. Returns the summary, and whether a test failed.
fn parse_one(files: &'static [&'static str], command: Command<'static>) -> (StreamSummary, bool) {
    let commands: &'static [Command<'static>] = Box::leak(Box::new([command]));
    let (events, parser, _) = run(&("", None, files, commands), 0);
    let failed = |event: &RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome.is_failure());
    (parser.summary(), events.iter().any(failed))
}

#[test]
fn every_golden_run_parses_as_its_snapshot() {
    for golden in GOLDENS {
        insta::assert_snapshot!(format!("maestro_{}", golden.0), render(golden, 0));
    }
}

#[test]
fn a_run_is_green_only_if_console_and_report_agree() {
    const TWO: &[&str] = &["login.yaml", "search.yaml"];
    let (out, xml): (&[u8], &[u8]) = (golden!("pass.out"), golden!("pass.xml"));
    let proof = Proof::Shown { tests: 0 };
    let whole = StreamSummary { structured: true, proof, ..StreamSummary::default() };
    assert_eq!(parse_one(TWO, green(out, xml)), (whole, false));
    let forged: &[u8] = b"Waiting for flows to complete...\n[Passed] Log in (1s)\n[Passed] search (1s)\n[Passed] Greeting (in English) (1s)\n";
    for (files, command) in [
        (TWO, Command { report: None, ..green(out, xml) }),
        (TWO, green(out, &xml[..xml.len() / 2])),
        (TWO, green(out, b"<testsuites/>")),
        (TWO, green(b"", xml)),
        (TWO, green(b"[Passed] Log in (1s)\n", b"")),
        (ALL, green(out, xml)),
        (ALL, green(forged, golden!("fail.xml"))),
    ] {
        let (summary, failed) = parse_one(files, command);
        assert!(summary.proof.is_missing() || failed, "{files:?}: {summary:?}");
    }
}

#[test]
fn reports_flows_that_only_the_report_names() {
    let golden = ("", Some(2), ALL, &[Command { out: b"[Passed] search (0s)\n", ..FAIL }][..]);
    let (events, parser, _) = run(&golden, 0);
    let failed =
        |event: &&RunnerEvent| matches!(event, RunnerEvent::TestFinished(test) if test.outcome == TestOutcome::Failed);
    assert_eq!((events.len(), events.iter().filter(failed).count()), (3, 2), "{events:?}");
    assert!(!parser.summary().proof.is_missing());
}

#[test]
fn a_killed_run_keeps_finished_flows_and_names_the_running_one() {
    let (mut parser, mut events) = (parser(ALL, None), Vec::new());
    parser.step_started(0);
    parser
        .stdout(b"\nWaiting for flows to complete...\n[Passed] Greeting (in English) (4s)\n[Passed] Log", &mut events);
    parser.step_ended(Exit::Signal(9), true, &mut events);
    parser.files(&[], &mut events);
    let ended = events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_))).count();
    assert_eq!((ended, parser.running()[0].name.as_str()), (1, "Log in"));
    assert!(parser.summary().proof.is_missing() && parser.follow_up().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_the_console_into_chunks_changes_nothing(golden in 0..GOLDENS.len(), cut in 0usize..400) {
        prop_assert_eq!(render(&GOLDENS[golden], 0), render(&GOLDENS[golden], cut));
    }

    #[test]
    fn no_bytes_make_the_parser_panic(noise in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..300) {
        let splice = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            let at = at.min(bytes.len());
            bytes.splice(at..at, noise.iter().copied());
            bytes
        };
        let (mut parser, mut events) = (parser(ALL, None), Vec::new());
        parser.step_started(0);
        parser.stdout(&splice(FAIL.out), &mut events);
        parser.stderr(&noise, &mut events);
        parser.step_ended(Exit::Code(1), false, &mut events);
        parser.files(&[("maestro/report-0.xml".to_owned(), splice(FAIL.report.unwrap()))], &mut events);
    }
}
