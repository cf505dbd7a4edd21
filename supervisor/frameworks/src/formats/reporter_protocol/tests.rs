//! Parses complete, truncated and forged reports.

use super::*;
use proctor_core::request::Selection;
use proptest::prelude::*;

const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: |text| text.contains("no such runner").then(|| "install it".to_owned()),
    nothing_selected: |text| text.contains("nothing found"),
    empty_status: Some(5),
    error_reason: |text| text.lines().find_map(|line| line.strip_prefix("why: ")).map(str::to_owned),
    ..RunnerProfile::new("runner")
};

fn parser() -> ReporterParser {
    let request = PlanRequest { workspace: "/ws", ..PlanRequest::plain(&Selection::All) };
    let step = Step { programs: vec!["runner".into()], args: vec![], dir: "pkg".into(), env: BTreeMap::new() };
    ReporterParser::new(PROFILE, &Plan { steps: vec![step], ..Plan::default() }, &request)
}

/// Runs one step that writes this report, prints `stderr` and exits like this.
fn step(report: &str, stderr: &str, exit: Exit, killed: bool) -> (Vec<RunnerEvent>, ReporterParser) {
    let (mut parser, mut events) = (parser(), Vec::new());
    parser.step_started(0);
    parser.stderr(stderr.as_bytes(), &mut events);
    parser.report(report.as_bytes(), &mut events);
    parser.step_ended(exit, killed, &mut events);
    (events, parser)
}

const PASSING: &str = r#"{"event":"begin"}
{"event":"started","package":"a.py","name":"t"}
{"event":"finished","package":"a.py","name":"t","outcome":"passed","duration_s":0.5}
{"event":"end","tests":1,"left":0}
"#;

/// The summary of a complete run of one test.
fn complete_summary() -> StreamSummary {
    StreamSummary { structured: true, proof: Proof::Shown { tests: 1 }, ..StreamSummary::default() }
}

#[test]
fn names_and_places_are_relative_to_the_workspace() {
    let report = PASSING.replace(
        r#""outcome":"passed""#,
        r#""outcome":"failed","file":"/ws/pkg/b.py","line":7,"message":"\u001b[31mat /ws/pkg/b.py\u001b[0m""#,
    );
    let (events, parser) = step(&report, "", Exit::Code(1), false);
    let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
    assert_eq!((case.nodeid.as_str(), case.file.as_deref(), case.line), ("pkg/a.py::t", Some("pkg/b.py"), Some(7)));
    assert_eq!((case.message.as_deref(), case.duration_s), (Some("at pkg/b.py"), Some(0.5)));
    assert_eq!(parser.summary(), complete_summary());
}

#[test]
fn times_that_no_clock_measures_are_dropped() {
    let times = |text: &str| {
        let report = PASSING.replace(r#""duration_s":0.5"#, text);
        let (events, _) = step(&report, "", Exit::Code(0), false);
        let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
        (case.duration_s, case.setup_s, case.cpu_s)
    };
    assert_eq!(times(r#""duration_s":0.5,"setup_s":0.2,"cpu_s":0.1"#), (Some(0.5), Some(0.2), Some(0.1)));
    assert_eq!(times(r#""duration_s":0.5,"setup_s":0.7,"cpu_s":-1"#), (Some(0.5), Some(0.5), None));
    assert_eq!(times(r#""duration_s":-1,"setup_s":0.2,"cpu_s":null"#), (None, None, None));
}

#[test]
fn a_kill_names_the_open_files_if_no_running_test_is_known() {
    let opened = "{\"event\":\"begin\"}\n{\"event\":\"opened\",\"package\":\"a.js\"}\n{\"event\":\"opened\",\"package\":\"b.js\"}\n\
                  {\"event\":\"closed\",\"package\":\"a.js\"}\n";
    let notes = |report: &str, killed: bool| step(report, "", Exit::Signal(9), killed).1.summary().notes;
    assert_eq!(notes(opened, true), ["runner had started and not finished: pkg/b.js"]);
    let started = format!("{opened}{{\"event\":\"started\",\"package\":\"b.js\",\"name\":\"t\"}}\n");
    assert_eq!(notes(&started, true), [""; 0]);
    assert_eq!(notes(opened, false), ["runner was ended by signal 9 before it was done"]);
}

#[test]
fn the_total_is_what_every_step_announced() {
    let step =
        |program: &str| Step { programs: vec![program.into()], args: vec![], dir: String::new(), env: BTreeMap::new() };
    let total = |programs: &[&str], reports: &[&str]| {
        let steps = programs.iter().map(|program| step(program)).collect();
        let mut parser = ReporterParser::with_steps(PROFILE, WorkspacePaths::new("/ws"), steps);
        for (index, report) in reports.iter().enumerate() {
            parser.step_started(index);
            parser.report(report.as_bytes(), &mut Vec::new());
        }
        parser.total()
    };
    let announced = "{\"event\":\"begin\"}\n{\"event\":\"total\",\"tests\":3}\n";
    assert_eq!(total(&["runner"], &[announced]), Some(3));
    assert_eq!(total(&["runner"], &["{\"event\":\"begin\"}\n"]), None, "not announced");
    assert_eq!(total(&["runner", "runner"], &[announced]), None, "the second step has not begun");
    assert_eq!(total(&["runner", "runner"], &[announced, announced]), Some(6));
    assert_eq!(total(&["sh"], &[announced]), None, "a shell may start a second runner");
    let huge = announced.replace('3', &u64::MAX.to_string());
    assert_eq!(total(&["runner", "runner"], &[&huge, announced]), None);
    let parts = format!(
        "{announced}{}\n{}\n",
        r#"{"event":"started","package":"a.py","name":"t"}"#,
        r#"{"event":"finished","package":"a.py","name":"t/(i=1)","outcome":"passed"}"#,
    );
    assert_eq!(total(&["runner"], &[&parts]), None, "subtests were not announced");
}

#[test]
fn a_running_test_is_declared_where_its_reporter_says() {
    let id = |name: &str| TestId { package: "pkg/a.py".to_owned(), name: name.to_owned() };
    let started = |name: &str, file: &str| {
        format!("{{\"event\":\"started\",\"package\":\"a.py\",\"name\":\"{name}\",\"file\":\"{file}\",\"line\":4}}\n")
    };
    let finished = r#"{"event":"finished","package":"a.py","name":"done","outcome":"passed"}"#;
    let report = [
        "{\"event\":\"begin\"}\n",
        &started("hangs", "/ws/pkg/a.py"),
        &started("elsewhere", "/usr/lib/a.py"),
        &started("done", "/ws/pkg/a.py"),
        finished,
        "\n",
    ];
    let (_, parser) = step(&report.concat(), "", Exit::Signal(9), true);
    assert_eq!(parser.declared_at(&id("hangs")), Some(("pkg/a.py".to_owned(), 4)));
    assert_eq!((parser.declared_at(&id("elsewhere")), parser.declared_at(&id("done"))), (None, None));
}

/// A report whose reporter has a token, with `foreign` lines before its end.
fn with_token(foreign: &str) -> String {
    let [begin, started, finished, end] = PASSING.lines().collect::<Vec<_>>().try_into().unwrap();
    let begin = begin.replace('}', r#","token":"abc"}"#);
    format!("{begin}\n{begin}\nabc {started}\nabc {finished}\n{foreign}abc {end}\n")
}

#[test]
fn drops_a_line_without_the_token_and_invalidates_the_proof() {
    let (events, parser) = step(&with_token(""), "", Exit::Code(0), false);
    assert_eq!((events.len(), parser.summary()), (2, complete_summary()));
    for foreign in [
        r#"{"event":"finished","package":"b.py","name":"u","outcome":"passed"}"#,
        r#"{"event":"begin"}"#,
        r#"{"event":"begin","token":"mine"}"#,
        r#"{"event":"end","tests":1,"left":0}"#,
    ] {
        let (events, parser) = step(&with_token(&format!("{foreign}\n")), "", Exit::Code(0), false);
        let summary = parser.summary();
        assert!(events.len() == 2 && summary.proof.is_missing(), "{foreign}");
        assert!(summary.notes[0].contains("were not the reporter's own"), "{foreign}: {:?}", summary.notes);
    }
    // A line with another token is no event, and an `end` without the token does not complete the report.
    let (_, parser) = step(&with_token("mine {\"event\":\"end\",\"tests\":1,\"left\":0}\n"), "", Exit::Code(0), false);
    assert!(parser.summary().proof.is_missing());
    let end = "{\"event\":\"end\",\"tests\":1,\"left\":0}\n";
    let ended_by_another = with_token(end).replace(&format!("abc {end}"), "");
    let (_, parser) = step(&ended_by_another, "", Exit::Code(0), false);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn drops_a_place_outside_of_the_workspace() {
    let report = PASSING.replace(r#""outcome":"passed""#, r#""outcome":"failed","file":"/usr/lib/x.py","line":7"#);
    let (events, _) = step(&report, "", Exit::Code(1), false);
    let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
    assert_eq!((case.file.as_deref(), case.line), (None, None));
}

#[test]
fn only_a_report_with_its_end_is_complete() {
    for line in 0..4 {
        let cut: String = PASSING.lines().take(line).map(|line| format!("{line}\n")).collect();
        let (_, parser) = step(&cut, "", Exit::Code(0), false);
        assert!(parser.summary().proof.is_missing(), "{cut}");
    }
    let (_, parser) = step(&format!("{PASSING}{{\"event\":\"unheard of\"}}\n"), "", Exit::Code(0), false);
    assert!(parser.summary().proof.is_missing());
}

#[test]
fn the_end_proves_a_run_only_if_its_counts_match_and_no_test_is_left() {
    let ended = |end: &str| {
        let report = PASSING.replace(r#"{"event":"end","tests":1,"left":0}"#, end);
        step(&report, "", Exit::Code(0), false).1.summary()
    };
    for end in [
        r#"{"event":"end"}"#,
        r#"{"event":"end","tests":1}"#,
        r#"{"event":"end","left":0}"#,
        r#"{"event":"end","tests":2,"left":0}"#,
        r#"{"event":"end","tests":0,"left":0}"#,
    ] {
        assert!(ended(end).proof.is_missing(), "{end}");
    }
    let left = ended(r#"{"event":"end","tests":1,"left":3}"#);
    assert!(left.unreached && left.notes == ["3 test(s) of runner were not reported"], "{left:?}");
}

#[test]
fn a_long_name_is_clipped_alike_at_start_and_finish() {
    let long = PASSING.replace(r#""name":"t""#, &format!(r#""name":"{}""#, "t".repeat(10_000)));
    let (events, _) = step(&long, "", Exit::Code(0), false);
    let [RunnerEvent::TestStarted(began), RunnerEvent::TestFinished(ended)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((began, began.name.len() < 5_000), (&ended.id(), true));
}

#[test]
fn an_unfinished_test_is_an_error_unless_the_run_was_killed() {
    let open: String = PASSING.lines().take(2).collect::<Vec<_>>().join("\n");
    let (events, parser) = step(&open, "", Exit::Code(70), false);
    let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
    assert_eq!(case.outcome, TestOutcome::Error);
    assert_eq!(case.message.as_deref(), Some("did not finish: the runner exited with 70"));
    assert!(parser.running().is_empty());
    let (events, parser) = step(&format!("{open}\n"), "", Exit::Signal(9), true);
    assert_eq!((events.len(), parser.running().len(), parser.summary().proof.is_missing()), (1, 1, true));
    // By then the caller has asked for the running tests, and a test started now would never finish.
    let (events, parser) = step(&open, "", Exit::Signal(9), true);
    assert_eq!((events.len(), parser.running().len(), parser.summary().proof.is_missing()), (0, 0, true));
}

#[test]
fn explains_why_a_runner_gave_up_by_its_output() {
    let (events, parser) = step("", "x\nno such runner\n", Exit::Code(1), false);
    assert!(events.is_empty() && parser.summary().runner_missing);
    assert_eq!(parser.summary().notes, ["install it"]);
    let (events, parser) = step("", "nothing found", Exit::Code(5), false);
    assert!(events.is_empty() && parser.nothing_selected() && !parser.summary().proof.is_missing());
    let (events, parser) = step("", "config is bad\n\n", Exit::Code(4), false);
    let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((collector.nodeid.as_str(), collector.message.as_str()), ("pkg", "config is bad"));
    assert!(parser.summary().proof.is_missing());
    let (events, _) = step("", "why: no disk\nand so on\n", Exit::Code(4), false);
    let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(collector.message, "no disk");
    let (_, parser) =
        step("{\"event\":\"begin\"}\n{\"event\":\"end\",\"tests\":0,\"left\":0}\n", "", Exit::Code(5), false);
    assert!(parser.nothing_selected() && !parser.summary().proof.is_missing());
}

#[test]
fn an_empty_report_means_nothing_selected_only_if_the_runner_says_so() {
    const EMPTY: &str = "{\"event\":\"begin\"}\n{\"event\":\"end\",\"tests\":0,\"left\":0}\n";
    for (stderr, exit, nothing) in [
        ("", Exit::Code(0), true),
        ("", Exit::Code(5), true),
        ("nothing found", Exit::Code(1), true),
        ("a hook of the project's threw", Exit::Code(1), false),
        ("", Exit::Signal(11), false),
    ] {
        let (_, parser) = step(EMPTY, stderr, exit, false);
        assert_eq!(parser.nothing_selected(), nothing, "{stderr}: {exit:?}");
    }
}

#[test]
fn names_a_program_that_the_run_cannot_execute() {
    let note = |programs: &[&str]| {
        let mut parser = parser();
        parser.steps[0].programs = programs.iter().map(|program| (*program).to_owned()).collect();
        parser.step_started(0);
        parser.step_ended(Exit::NotStarted(2), false, &mut Vec::new());
        parser.summary().notes.remove(0)
    };
    assert_eq!(note(&["runner"]), "runner was not started: No such file or directory (os error 2)");
    let text = note(&[".venv/bin/python", "venv/bin/python", "python3"]);
    assert_eq!(
        text,
        "runner was not started: a run cannot execute .venv/bin/python or venv/bin/python: No such file or directory \
         (os error 2); what a link leads to has to be within the workspace, or where PATH leads"
    );
}

proptest! {
    #[test]
    fn parses_the_same_for_any_chunks_and_never_panics(
        noise in prop::collection::vec(any::<u8>(), 0..80), at in 0usize..300, cut in 0usize..300,
    ) {
        let mut report = PASSING.as_bytes().to_vec();
        report.splice(at.min(report.len())..at.min(report.len()), noise);
        let read = |pieces: &[&[u8]]| {
            let (mut parser, mut events) = (parser(), Vec::new());
            parser.step_started(0);
            pieces.iter().for_each(|piece| parser.report(piece, &mut events));
            parser.step_ended(Exit::Code(0), false, &mut events);
            (events, parser.summary())
        };
        let (head, tail) = report.split_at(cut.min(report.len()));
        prop_assert_eq!(read(&[&report]), read(&[head, tail]));
    }
}
