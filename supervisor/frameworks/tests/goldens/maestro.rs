//! Runs of the Maestro adapter in Maestro's format: a run is green only if console and report agree. `goldens/maestro/README.md`
//! names the sources of the format.

use crate::recording::{Channel, Killed, Recordings, Replay, Run};
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::test_case::TestOutcome;
use proctor_frameworks::runners::maestro::Maestro;
use proctor_frameworks::{FileTree, StreamSummary};
use std::fmt::Write as _;

const REPORT: Channel = Channel::File(|step| match step {
    0 => "maestro/report-0.xml".to_owned(),
    _ => format!("round-{}/maestro/report-{step}.xml", step + 1),
});

/// Runs of the manifest's three flows.
pub(crate) static MAESTRO: Recordings = Recordings {
    channels: &[("out", Channel::Stdout), ("err", Channel::Stderr), ("xml", REPORT)],
    render,
    // `a_run_is_green_only_if_console_and_report_agree` cuts the report.
    unproven_bytes: |_| 0,
    runs: &[(1, "fail subflow nodevice tags"), (2, "old")],
    killed: &[Killed {
        name: "hang-killed",
        passed: ".maestro/greeting.yaml > Greeting (in English)",
        running: (".maestro/login.yaml", "Log in"),
    }],
    proof: &[],
    ..Recordings::of(&Maestro)
};

/// Runs of two flows.
pub(crate) static MAESTRO_TWO: Recordings = Recordings {
    workspace: |_| two_flows(),
    runs: &[(0, "pass")],
    proof: &[
        (r#"<testcase id="search" name="search" classname="search" time="63" status="WARNING"/>"#, ""),
        (r#"tests="2""#, r#"tests="3""#),
        (r#"status="WARNING"/>"#, r#"status="ERROR"><failure>x</failure></testcase>"#),
    ],
    ..defaults()
};

/// Runs on two devices.
pub(crate) static MAESTRO_SHARDS: Recordings = Recordings { parallel: Some(2), runs: &[(0, "shards")], ..defaults() };

const fn defaults() -> Recordings {
    Recordings { proof: &[], channels: MAESTRO.channels, render, unproven_bytes: |_| 0, ..Recordings::of(&Maestro) }
}

fn two_flows() -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content(".maestro/login.yaml", "appId: x\nname: Log in\n---\n- launchApp\n");
    tree.add_with_content(".maestro/search.yaml", "appId: x\n---\n- launchApp\n");
    tree
}

fn render(replay: &Replay) -> String {
    let mut text = String::new();
    for step in &replay.follow_ups {
        writeln!(text, "then {} {}", step.programs.join(" "), step.args.join(" ")).unwrap();
    }
    for event in &replay.events {
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
    let (nothing, flaky) = (replay.nothing_selected, replay.flaky);
    writeln!(text, "nothing selected: {nothing}, flaky: {flaky}\n{:#?}", replay.summary).unwrap();
    text
}

/// A run of one command that exits with 0.
fn green(stdout: &[u8], report: Option<&[u8]>) -> Run {
    let channels = std::iter::once((Channel::Stdout, stdout)).chain(report.map(|report| (REPORT, report)));
    Run::new(&channels.collect::<Vec<_>>(), Exit::Code(0))
}

#[test]
fn a_run_is_green_only_if_console_and_report_agree() {
    let pass = MAESTRO_TWO.run("pass");
    let (out, xml) = (pass.bytes(0), pass.last());
    let replay = MAESTRO_TWO.replay(&pass);
    let whole = StreamSummary { structured: true, proof: Proof::Shown { tests: 0 }, ..StreamSummary::default() };
    assert_eq!((&replay.summary, replay.has_failure()), (&whole, false));
    let forged: &[u8] = b"Waiting for flows to complete...\n[Passed] Log in (1s)\n[Passed] search (1s)\n[Passed] Greeting (in English) (1s)\n";
    let fail = MAESTRO.run("fail");
    let failed_report = &fail.steps[0].channels.last().unwrap().1;
    for (recordings, run) in [
        (&MAESTRO_TWO, green(out, None)),
        (&MAESTRO_TWO, green(out, Some(&xml[..xml.len() / 2]))),
        (&MAESTRO_TWO, green(out, Some(b"<testsuites/>"))),
        (&MAESTRO_TWO, green(b"", Some(xml))),
        (&MAESTRO_TWO, green(b"[Passed] Log in (1s)\n", Some(b""))),
        (&MAESTRO, green(out, Some(xml))),
        (&MAESTRO, green(forged, Some(failed_report))),
    ] {
        let replay = recordings.replay(&run);
        assert!(replay.is_unproven() || replay.has_failure(), "{replay:?}");
    }
}

#[test]
fn reports_flows_that_only_the_report_names() {
    let mut run = MAESTRO.run("fail");
    run.steps.truncate(1);
    run.steps[0].channels[0].1 = b"[Passed] search (0s)\n".to_vec();
    let replay = MAESTRO_SHARDS.replay(&run);
    let failed = replay.finished().filter(|test| test.outcome == TestOutcome::Failed).count();
    assert_eq!((replay.events.len(), failed), (3, 2), "{:?}", replay.events);
    assert!(!replay.is_unproven());
}
