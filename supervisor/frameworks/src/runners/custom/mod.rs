//! The custom command: takes the place of an adapter when a request brings its own command.
//!
//! Its exit status decides. Results test by test come from a JUnit file, if the command leaves one at the path `PROCTOR_JUNIT` or
//! beside it; else from TAP, if the command prints TAP from one of its first lines on, in colours or not. The plan may come last:
//! a stream that starts with a point or a comment is TAP if a plan follows, and is not TAP without one, even if points say
//! `not ok`. A plan behind other lines counts if a point or comment follows it. Without TAP and a file, lines such as `FAIL: x` name
//! tests; any program may print those, so they are reported as unstructured and never change the outcome.
//!
//! A command need not know `PROCTOR_JUNIT`, so a missing file there means nothing. A project that names a report of its own has
//! said where its results are: a run that did not write that report is not green.

mod shell_status;

use crate::contract::{ARTIFACTS, Parser, Plan, Step, StreamSummary};
use crate::formats::junit;
use crate::formats::tap::{self, Recognition, TapCandidate, TapParser};
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::request::CUSTOM_FRAMEWORK;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use std::collections::{BTreeMap, HashSet};

/// The framework's name in reports.
pub const NAME: &str = CUSTOM_FRAMEWORK;

/// Variable with the path where the command may leave a JUnit file.
const REPORT_VARIABLE: &str = "PROCTOR_JUNIT";

/// Lines in which TAP may start: a build may print something first.
const RECOGNITION_LINES_MAX: usize = 16;

/// Mark that some programs write before their first character.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Start of a TAP version line.
const VERSION: &str = "TAP version";

/// Starts of lines that name a test and its outcome, as Automake and many scripts print them.
const OUTCOME_PREFIXES: [(&str, TestOutcome); 6] = [
    ("PASS: ", TestOutcome::Passed),
    ("FAIL: ", TestOutcome::Failed),
    ("ERROR: ", TestOutcome::Error),
    ("SKIP: ", TestOutcome::Skipped),
    ("XFAIL: ", TestOutcome::Xfailed),
    ("XPASS: ", TestOutcome::Xpassed),
];

/// Runs the command behind its first argument, a path, and copies the file at that path to [`REPORT_VARIABLE`] if it is a new file
/// or has new content. An older run may have left one, and a `touch` does not make it a new report.
const TAKE_REPORT: &str = r#"path=$1; shift
seen() { stat -c %i -- "$path" 2>/dev/null && cksum < "$path"; }
before=$(seen); "$@"; status=$?; after=$(seen)
if [ -n "$after" ] && [ "$after" != "$before" ]; then cp -- "$path" "$PROCTOR_JUNIT"; fi
exit $status"#;

/// The plan that runs `command` in the workspace's root; without steps for an empty command. `report` is a JUnit file, relative to
/// the workspace, that the command writes by itself.
#[must_use]
pub fn plan(command: &[String], scratch: &str, report: Option<&str>) -> Plan {
    let env = BTreeMap::from([(REPORT_VARIABLE.to_owned(), format!("{scratch}/{ARTIFACTS}/{NAME}/junit.xml"))]);
    let taking = |path: &str| ["/bin/sh", "-c", TAKE_REPORT, "sh", path].map(str::to_owned);
    let words: Vec<String> = report.map(taking).into_iter().flatten().chain(command.iter().cloned()).collect();
    let steps = words
        .split_first()
        .filter(|_| !command.is_empty())
        .map(|(program, args)| Step { programs: vec![program.clone()], args: args.to_vec(), dir: String::new(), env })
        .into_iter()
        .collect();
    Plan { steps, artifacts: true, dirs: vec![format!("{ARTIFACTS}/{NAME}")], ..Plan::default() }
}

/// A parser for a custom command.
#[must_use]
pub fn parser(workspace: &str) -> Box<dyn Parser> {
    parser_for(&[], workspace, None)
}

/// A parser for this custom command, which has to write `report`, as in [`plan`].
#[must_use]
pub fn parser_for(command: &[String], workspace: &str, report: Option<&str>) -> Box<dyn Parser> {
    Box::new(CustomParser {
        hidden_failure: shell_status::hidden_failure(command),
        report: report.map(str::to_owned),
        ..CustomParser::new(WorkspacePaths::new(workspace))
    })
}

/// What kind of output the command prints.
#[derive(Debug)]
enum Form {
    /// Not known yet; the number of lines so far.
    Unknown(usize),
    /// Possibly TAP whose plan comes last; the number of lines so far.
    Candidate(usize, Box<TapCandidate>),
    /// The last line was a plan, and nothing before it was TAP; the number of lines so far and the plan.
    Planned(usize, String),
    Tap(Box<TapParser>),
    Text,
}

#[derive(Debug)]
pub(crate) struct CustomParser {
    /// Package of its tests.
    package: String,
    /// Why a failure may not show in the command's exit status.
    hidden_failure: Option<String>,
    /// The report that the command has to write.
    report: Option<String>,
    paths: WorkspacePaths,
    lines: LineSplitter,
    form: Form,
    /// Tests that lines name. They are reported last, if no better results exist.
    named: Vec<(String, TestOutcome)>,
    names: HashSet<String>,
    is_success: bool,
    killed: bool,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

impl CustomParser {
    /// A parser for the output of one command among several, whose tests have the package `package`.
    pub(crate) fn for_output(package: &str, paths: &WorkspacePaths) -> CustomParser {
        CustomParser { package: package.to_owned(), ..CustomParser::new(paths.clone()) }
    }

    fn new(paths: WorkspacePaths) -> CustomParser {
        CustomParser {
            package: NAME.to_owned(),
            hidden_failure: None,
            report: None,
            paths,
            lines: LineSplitter::default(),
            form: Form::Unknown(0),
            named: Vec::new(),
            names: HashSet::new(),
            is_success: false,
            killed: false,
            flaky: 0,
            proofs: ProofTracker::default(),
            summary: StreamSummary::default(),
            notes: Notes::default(),
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        match &mut self.form {
            Form::Unknown(lines) => {
                let lines = *lines;
                self.handle_unrecognised(lines, strip_ansi(line).trim_start_matches(BYTE_ORDER_MARK), events);
            }
            Form::Candidate(lines, candidate) => {
                *lines += usize::from(!line.trim().is_empty());
                let (lines, recognition) = (*lines, candidate.line(line));
                self.handle_candidate(lines, &strip_ansi(line), recognition, events);
            }
            Form::Planned(..) if line.trim().is_empty() => {}
            Form::Planned(lines, plan) => {
                let (lines, plan) = (*lines, std::mem::take(plan));
                self.handle_after_plan(lines, &plan, &strip_ansi(line), events);
            }
            Form::Tap(tap) => tap.line(line, events),
            Form::Text => self.record_named(line),
        }
    }

    /// Handles the line behind a plan that came after `lines` other lines.
    fn handle_after_plan(&mut self, lines: usize, plan: &str, line: &str, events: &mut Vec<RunnerEvent>) {
        if !tap::may_start_stream(line) {
            return self.handle_unrecognised(lines, line, events);
        }
        let mut tap = TapParser::new(&self.package, &self.paths);
        tap.line(plan, events);
        self.start_tap(tap, line, events);
    }

    /// Handles a line of a stream that is not recognised after `lines` lines.
    fn handle_unrecognised(&mut self, lines: usize, line: &str, events: &mut Vec<RunnerEvent>) {
        let more = lines + usize::from(!line.trim().is_empty());
        if tap::starts_stream(line) && (lines == 0 || line.starts_with(VERSION)) {
            return self.start_tap(TapParser::new(&self.package, &self.paths), line, events);
        }
        self.form = if more > RECOGNITION_LINES_MAX {
            Form::Text
        } else if tap::starts_stream(line) {
            Form::Planned(more, line.to_owned())
        } else if tap::is_test_point(line) || lines == 0 && tap::may_start_stream(line) {
            let mut candidate = TapCandidate::new(&self.package, &self.paths);
            candidate.line(line);
            Form::Candidate(more, Box::new(candidate))
        } else {
            Form::Unknown(more)
        };
        self.record_named(line);
    }

    /// Handles line number `lines` of a TAP candidate, which is recognised as `recognition` with it.
    fn handle_candidate(&mut self, lines: usize, line: &str, recognition: Recognition, events: &mut Vec<RunnerEvent>) {
        self.record_named(line);
        let restarts = lines <= RECOGNITION_LINES_MAX && line.starts_with(VERSION) && tap::starts_stream(line);
        if restarts {
            return self.start_tap(TapParser::new(&self.package, &self.paths), line, events);
        }
        let form = std::mem::replace(&mut self.form, Form::Text);
        self.form = match (recognition, form) {
            (Recognition::Unknown, form) => form,
            (Recognition::Tap, Form::Candidate(_, candidate)) => {
                let (tap, held) = candidate.into_tap();
                self.summary.structured = true;
                events.extend(held);
                Form::Tap(Box::new(tap))
            }
            (Recognition::Tap | Recognition::NotTap, _) if lines > RECOGNITION_LINES_MAX => Form::Text,
            (Recognition::Tap | Recognition::NotTap, _) => Form::Unknown(lines),
        };
    }

    fn start_tap(&mut self, mut tap: TapParser, line: &str, events: &mut Vec<RunnerEvent>) {
        tap.line(line, events);
        self.form = Form::Tap(Box::new(tap));
        self.summary.structured = true;
    }

    fn record_named(&mut self, line: &str) {
        let found =
            OUTCOME_PREFIXES.iter().find_map(|(prefix, outcome)| Some((line.strip_prefix(prefix)?.trim(), *outcome)));
        if let Some((name, outcome)) = found
            && !name.is_empty()
            && self.named.len() < TEST_CASES_MAX
            && self.names.insert(name.to_owned())
        {
            self.named.push((name.to_owned(), outcome));
        }
    }

    /// Reports the tests that lines named. A failure that the exit status contradicts is dropped.
    fn report_named(&mut self, events: &mut Vec<RunnerEvent>) {
        let named = std::mem::take(&mut self.named);
        if named.is_empty() {
            return;
        }
        let count = named.len();
        let kept = named.into_iter().filter(|(_, outcome)| !(self.is_success && outcome.is_failure()));
        let events_of_named: Vec<RunnerEvent> = kept
            .map(|(name, outcome)| {
                let id = TestId { package: NAME.to_owned(), name: name.clone() };
                RunnerEvent::TestFinished(Box::new(TestCase::new(id, name, outcome).bounded()))
            })
            .collect();
        let left_out = count - events_of_named.len();
        self.notes.add("the tests are what lines such as `FAIL: x` name: only the exit status counts".to_owned());
        if left_out > 0 {
            self.notes.add(format!("{left_out} line(s) say FAIL or ERROR, and the command exited with 0"));
        }
        events.extend(events_of_named);
    }
}

impl Parser for CustomParser {
    fn step_started(&mut self, _step: usize) {
        self.proofs.start_step();
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        // A kill may leave a part of a line: `ok 1` of `ok 12 - adds # SKIP`.
        if !killed {
            lines.finish(|line| self.line(line, events));
        }
        self.is_success = exit == Exit::Code(0) && !killed;
        self.killed = killed;
        let mut is_whole = !killed;
        match std::mem::replace(&mut self.form, Form::Text) {
            Form::Tap(mut tap) => {
                tap.finish(events);
                let (cut_off, notes) = tap.verdict();
                is_whole &= !cut_off && lines.skipped_lines() == 0;
                self.notes.extend(notes.iter().cloned());
                self.form = Form::Tap(tap);
            }
            Form::Candidate(_, candidate) => {
                let failed = candidate.count_failed();
                if failed > 0 {
                    self.notes
                        .add(format!("{failed} line(s) say `not ok` and are not read as TAP: no plan (`1..N`) came"));
                }
            }
            Form::Unknown(_) | Form::Planned(..) | Form::Text => {}
        }
        if is_whole {
            self.proofs.record(0);
        }
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        let own = |path: &str| path.split('/').any(|part| part == NAME) && path.ends_with(".xml");
        let reports: Vec<&(String, Vec<u8>)> = files.iter().filter(|(path, _)| own(path)).collect();
        if let Some(report) = self.report.as_ref().filter(|_| reports.is_empty() && !self.killed) {
            self.proofs.invalidate();
            self.notes.add(format!(
                "the report that the project file names was not written, or holds what it held before: {report}"
            ));
        }
        if matches!(self.form, Form::Tap(_)) {
            if !reports.is_empty() {
                self.notes.add("the command printed TAP and left a JUnit file: the file was not read".to_owned());
            }
            return;
        }
        for (path, bytes) in &reports {
            let name = path.rsplit('/').next().unwrap_or(path);
            let parsed = junit::parse_report(name, bytes, &self.paths, "", events);
            self.summary.structured = true;
            if parsed.is_incomplete {
                self.proofs.invalidate();
            }
            self.notes.extend(parsed.notes);
            self.flaky += parsed.flaky;
        }
        if reports.is_empty() {
            self.report_named(events);
        }
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        Vec::new()
    }

    fn summary(&self) -> StreamSummary {
        // A hidden failure matters only if the exit status decides, and only if it says success.
        let hidden_failure = self.hidden_failure.iter().filter(|_| self.is_success && !self.summary.structured);
        let notes = self.notes.iter().chain(hidden_failure).cloned().collect();
        StreamSummary { proof: self.proofs.proof(), notes, ..self.summary.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::proof::Proof;

    /// The summary of a command that is judged by its exit status alone.
    fn status_only() -> StreamSummary {
        StreamSummary { proof: Proof::Shown { tests: 0 }, ..StreamSummary::default() }
    }

    /// Runs a command that prints `stdout`, leaves `files` and exits with `status`: its tests and the summary.
    fn ran(stdout: &str, files: &[(&str, &str)], status: i32) -> (Vec<(String, TestOutcome)>, StreamSummary) {
        let (mut parser, mut events) = (parser("/ws"), Vec::new());
        parser.step_started(0);
        stdout.as_bytes().chunks(5).for_each(|chunk| parser.stdout(chunk, &mut events));
        parser.step_ended(Exit::Code(status), false, &mut events);
        let files: Vec<_> = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        parser.files(&files, &mut events);
        let case = |event| match event {
            RunnerEvent::TestFinished(case) => (case.nodeid, case.outcome),
            other => panic!("{other:?}"),
        };
        (events.into_iter().map(case).collect(), parser.summary())
    }

    fn one(name: &str, outcome: TestOutcome) -> Vec<(String, TestOutcome)> {
        vec![(name.to_owned(), outcome)]
    }

    #[test]
    fn notes_a_failure_that_the_exit_status_may_hide() {
        let notes = |stdout: &[u8], status| {
            let command = ["sh", "-c", "make check | tee log"].map(str::to_owned);
            let mut parser = parser_for(&command, "/ws", None);
            parser.stdout(stdout, &mut Vec::new());
            parser.step_ended(Exit::Code(status), false, &mut Vec::new());
            parser.summary().notes.len()
        };
        assert_eq!((notes(b"ok\n", 0), notes(b"ok\n", 1), notes(b"1..1\nok 1\n", 0)), (1, 0, 0));
    }

    #[test]
    fn a_command_is_one_step_with_the_path_for_its_report() {
        let plan = plan(&["make".to_owned(), "check".to_owned()], "/scratch", None);
        assert_eq!(plan.steps.len(), 1);
        assert_eq!(
            (plan.steps[0].programs[0].as_str(), plan.steps[0].args.as_slice()),
            ("make", &["check".to_owned()][..])
        );
        assert_eq!(plan.steps[0].env["PROCTOR_JUNIT"], "/scratch/artifacts/custom/junit.xml");
        assert_eq!((plan.artifacts, plan.dirs), (true, vec!["artifacts/custom".to_owned()]));
        assert!(super::plan(&[], "/scratch", None).steps.is_empty());
    }

    #[test]
    fn a_command_without_results_is_judged_by_its_exit_status() {
        assert_eq!(ran("--- FAIL: TestGhost\nFAILED\n FAIL: x\nFAIL:\n", &[], 1), (vec![], status_only()));
    }

    #[test]
    fn counts_tests_that_passed_after_a_failed_attempt() {
        let (mut parser, mut events) = (parser("/ws"), Vec::new());
        let file = b"<testsuite><testcase name='t'><flakyFailure/></testcase><testcase name='u'/></testsuite>".to_vec();
        parser.files(&[("custom/junit.xml".to_owned(), file)], &mut events);
        assert_eq!((parser.flaky(), events.len()), (1, 2));
    }

    #[test]
    fn reads_tap_that_starts_in_the_first_lines() {
        let (tests, summary) = ran("make: nothing to do\nTAP version 13\nok 1 - a\n1..1\n", &[], 0);
        assert_eq!(tests, one("a", TestOutcome::Passed));
        assert!(summary.structured && !summary.proof.is_missing());
        assert_eq!(ran("1..1\nnot ok 1 - a\n", &[], 1).0, one("a", TestOutcome::Failed));
        let late = format!("{}TAP version 13\nok 1\n1..1\n", "x\n".repeat(20));
        assert_eq!(ran(&late, &[], 0), (vec![], status_only()));
    }

    #[test]
    fn reads_tap_in_colours_behind_a_mark_and_behind_other_lines() {
        for stream in [
            "\u{feff}1..1\nnot ok 1 - a\n",
            "\u{feff}TAP version 13\nnot ok 1 - a\n1..1\n",
            "\u{1b}[1mTAP version 13\u{1b}[0m\n\u{1b}[31mnot ok 1 - a\u{1b}[0m\n1..1\n",
            "\u{1b}[31mnot ok\u{1b}[0m 1 - a\n1..1\n",
            "hello\n1..1\n\nnot ok 1 - a\n",
            "hello\n1..1\n# a\nnot ok 1 - a\n",
            "hello\nnot ok 1 - a\n1..1\n",
            "1 of\n1..3\nready\n1..1\nnot ok 1 - a\n",
        ] {
            let (tests, summary) = ran(stream, &[], 0);
            assert_eq!(tests, one("a", TestOutcome::Failed), "{stream:?}");
            assert!(summary.structured && !summary.proof.is_missing(), "{stream:?}");
        }
        for stream in ["hello\n1..3\n", "hello\n1..3\nworld\nok\n", "hello\n# 1\nok 1 - a\n"] {
            assert_eq!(ran(stream, &[], 0), (vec![], status_only()), "{stream:?}");
        }
    }

    #[test]
    fn a_plan_may_come_last() {
        use TestOutcome::{Failed, Passed};
        let both = [one("a", Passed), one("b", Failed)].concat();
        for stream in [
            "ok 1 - a\nnot ok 2 - b\n1..2\n",
            "# hello\n\nok 1 - a\nokay?\nnot ok 2 - b\n# why\n1..2\n# done\n",
            "# hello\n1..2\nok 1 - a\nnot ok 2 - b\n",
            "not a point\nTAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n",
            "ok 1 - configured\nTAP version 13\nok 1 - a\nnot ok 2 - b\n1..2\n",
        ] {
            let (tests, summary) = ran(stream, &[], 0);
            assert_eq!(tests, both, "{stream}");
            assert!(summary.structured && !summary.proof.is_missing() && summary.notes.is_empty(), "{stream}");
        }
        let sub = "# Subtest: x\n    ok 1 - a\n    1..1\nok 1 - x\n1..1\n";
        assert_eq!(ran(sub, &[], 0).0, [one("x/a", Passed), one("x", Passed)].concat());
        assert!(ran("ok 1 - a\n1..2\n", &[], 0).1.proof.is_missing());
        assert!(ran("ok 1 - a\nBail out! no disk\n", &[], 0).1.proof.is_missing());
        let many: String = (1..=20_000).map(|number| format!("ok {number} - t{number}\n")).collect();
        let (tests, summary) = ran(&format!("{many}1..20000\n"), &[], 0);
        assert!(tests.len() == 20_000 && summary.structured && !summary.proof.is_missing());
    }

    #[test]
    fn points_without_a_plan_are_not_tap() {
        for stream in [
            "ok 1 - a\nok 2 - b\n".to_owned(),
            "ok, here we go\n1..2\n".to_owned(),
            "# hello\nworld\n1..1\n".to_owned(),
            "    ok 1 - a\n    1..1\n".to_owned(),
            "ok 1\n".repeat(20_000),
        ] {
            let start: String = stream.chars().take(40).collect();
            assert_eq!(ran(&stream, &[], 0), (vec![], status_only()), "{start}");
        }
        let (tests, summary) = ran("ok 1 - a\nFAIL: x\nnot ok 2 - b\n", &[], 1);
        assert_eq!(tests, one("x", TestOutcome::Failed));
        assert!(!summary.structured && !summary.proof.is_missing());
        let note = "1 line(s) say `not ok` and are not read as TAP: no plan (`1..N`) came";
        assert_eq!(summary.notes[0], note);
        assert_eq!(ran("not ok 1 - a\n", &[], 0).1.notes, [note]);
    }

    #[test]
    fn tap_that_ends_early_is_incomplete_and_takes_precedence_over_a_file() {
        let (_, summary) = ran("1..2\nok 1 - a\n", &[("custom/junit.xml", "<testsuite/>")], 0);
        assert!(summary.structured && summary.proof.is_missing());
        assert_eq!(summary.notes.len(), 2);
    }

    #[test]
    fn a_junit_file_takes_precedence_over_lines() {
        let file = "<testsuite><testcase name='t'><failure/></testcase></testsuite>";
        for path in ["custom/junit.xml", "custom/deep/TEST-x.xml", "round-2/custom/junit.xml"] {
            let (tests, summary) = ran("PASS: t\n", &[(path, file)], 1);
            assert_eq!(tests, one("t", TestOutcome::Failed), "{path}");
            assert!(summary.structured && !summary.proof.is_missing());
        }
        assert!(ran("", &[("custom/junit.xml", "<testsuite><testcase")], 0).1.proof.is_missing());
        assert!(!ran("", &[("other/junit.xml", file), ("custom/x.txt", file)], 0).1.structured);
    }

    #[test]
    fn a_report_that_the_project_names_is_required() {
        let file = ("custom/junit.xml".to_owned(), b"<testsuite><testcase name='t'/></testsuite>".to_vec());
        for (files, killed, cut_off) in [(&[][..], false, true), (&[][..], true, false), (&[file][..], false, false)] {
            let (mut parser, mut events) = (parser_for(&[], "/ws", Some("build/j.xml")), Vec::new());
            parser.step_started(0);
            parser.step_ended(Exit::Code(0), killed, &mut events);
            parser.files(files, &mut events);
            let summary = parser.summary();
            assert_eq!(summary.proof.is_missing(), cut_off || killed);
            let note =
                "the report that the project file names was not written, or holds what it held before: build/j.xml";
            assert_eq!(summary.notes == [note], cut_off, "{summary:?}");
        }
    }

    #[test]
    fn lines_name_tests_and_never_change_the_outcome() {
        let stdout = "PASS: a\nFAIL: b\nERROR: c\nSKIP: d\nXFAIL: e\nXPASS: f\nPASS: a\n";
        let (tests, summary) = ran(stdout, &[], 2);
        let outcomes: Vec<&str> = tests.iter().map(|(_, outcome)| outcome.name()).collect();
        assert_eq!(outcomes, ["passed", "failed", "error", "skipped", "xfailed", "xpassed"]);
        assert!(!summary.structured && !summary.proof.is_missing() && summary.notes.len() == 1);
        let (tests, summary) = ran(stdout, &[], 0);
        assert!(tests.iter().all(|(_, outcome)| !outcome.is_failure()) && tests.len() == 4);
        assert_eq!(summary.notes[1], "2 line(s) say FAIL or ERROR, and the command exited with 0");
    }
}
