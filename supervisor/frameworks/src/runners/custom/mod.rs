//! The custom command: a pseudo framework that takes the place of an adapter when a request brings its own command. Must
//! not know what the command does.
//!
//! Its exit status decides. Results test by test come from a JUnit file, when it leaves one where `PROCTOR_JUNIT` says or
//! beside it; else from TAP, when that is what it prints from one of its first lines on, in colours or not. Its plan may come last:
//! what begins with a point or a comment is TAP if a plan follows, and none without one, also where points say `not ok`. A plan
//! behind lines of another kind is one if a point or comment follows it. Without either, lines such as `FAIL: x` name what failed;
//! anything may print those, so they are said to be unstructured and never change what a run came to.
//!
//! Nobody who brings a command need know of `PROCTOR_JUNIT`, so nothing follows from a command that leaves nothing there. A
//! project that names a report of its own has said where its results are: a run that did not write it is cut off.

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

/// Where the command may leave JUnit files.
const REPORT_VARIABLE: &str = "PROCTOR_JUNIT";

/// Lines that are looked at for the beginning of TAP: a build may say something first.
const LOOK_LINES_MAX: usize = 16;

/// Mark that some programs put before the first character that they write.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// How TAP begins that says so.
const VERSION: &str = "TAP version";

/// How lines begin that name a test and what became of it, as Automake and many scripts print them.
const WORDS: [(&str, TestOutcome); 6] = [
    ("PASS: ", TestOutcome::Passed),
    ("FAIL: ", TestOutcome::Failed),
    ("ERROR: ", TestOutcome::Error),
    ("SKIP: ", TestOutcome::Skipped),
    ("XFAIL: ", TestOutcome::Xfailed),
    ("XPASS: ", TestOutcome::Xpassed),
];

/// Runs the command behind its first word, a path, and puts the file at that path where [`REPORT_VARIABLE`] says, if it is another
/// file than before or has another content: an older run may have left one, which a touch makes no newer.
const TAKE_REPORT: &str = r#"path=$1; shift
seen() { stat -c %i -- "$path" 2>/dev/null && cksum < "$path"; }
before=$(seen); "$@"; status=$?; after=$(seen)
if [ -n "$after" ] && [ "$after" != "$before" ]; then cp -- "$path" "$PROCTOR_JUNIT"; fi
exit $status"#;

/// The plan that runs `command` in the workspace's root. An empty command gives a plan without steps. `report` is a JUnit
/// file relative to the workspace that the command writes without being told where.
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

/// The parser of a custom command.
#[must_use]
pub fn parser(workspace: &str) -> Box<dyn Parser> {
    parser_for(&[], workspace, None)
}

/// The parser of this custom command, which is to write `report`, as in [`plan`].
#[must_use]
pub fn parser_for(command: &[String], workspace: &str, report: Option<&str>) -> Box<dyn Parser> {
    Box::new(CustomParser {
        hides: shell_status::hidden_failure(command),
        report: report.map(str::to_owned),
        ..CustomParser::new(WorkspacePaths::new(workspace))
    })
}

/// What the command prints.
#[derive(Debug)]
enum Form {
    /// Nobody knows after so many lines.
    Unknown(usize),
    /// It began so many lines ago as TAP may whose plan comes last.
    Candidate(usize, Box<TapCandidate>),
    /// The last of so many lines was a plan, and nothing before it was TAP.
    Planned(usize, String),
    Tap(Box<TapParser>),
    Text,
}

#[derive(Debug)]
pub(crate) struct CustomParser {
    /// What its tests are called after.
    package: String,
    /// Why a failure may not show in the command's status.
    hides: Option<String>,
    /// What the command is to write.
    report: Option<String>,
    paths: WorkspacePaths,
    lines: LineSplitter,
    form: Form,
    /// What lines name. They are told last, when it is known that nothing better is there.
    named: Vec<(String, TestOutcome)>,
    names: HashSet<String>,
    went_well: bool,
    killed: bool,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

impl CustomParser {
    /// Of the output of one command among several, whose tests are called after `package`.
    pub(crate) fn for_output(package: &str, paths: &WorkspacePaths) -> CustomParser {
        CustomParser { package: package.to_owned(), ..CustomParser::new(paths.clone()) }
    }

    fn new(paths: WorkspacePaths) -> CustomParser {
        CustomParser {
            package: NAME.to_owned(),
            hides: None,
            report: None,
            paths,
            lines: LineSplitter::default(),
            form: Form::Unknown(0),
            named: Vec::new(),
            names: HashSet::new(),
            went_well: false,
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
                self.unknown(lines, strip_ansi(line).trim_start_matches(BYTE_ORDER_MARK), events);
            }
            Form::Candidate(lines, perhaps) => {
                *lines += usize::from(!line.trim().is_empty());
                let (lines, is) = (*lines, perhaps.line(line));
                self.perhaps(lines, &strip_ansi(line), is, events);
            }
            Form::Planned(..) if line.trim().is_empty() => {}
            Form::Planned(lines, plan) => {
                let (lines, plan) = (*lines, std::mem::take(plan));
                self.planned(lines, &plan, &strip_ansi(line), events);
            }
            Form::Tap(tap) => tap.line(line, events),
            Form::Text => self.word(line),
        }
    }

    /// The line behind a plan that came after so many lines of another kind.
    fn planned(&mut self, lines: usize, plan: &str, line: &str, events: &mut Vec<RunnerEvent>) {
        if !tap::may_start_stream(line) {
            return self.unknown(lines, line, events);
        }
        let mut tap = TapParser::new(&self.package, &self.paths);
        tap.line(plan, events);
        self.is_tap(tap, line, events);
    }

    /// A line of a stream whose form nobody knows after so many.
    fn unknown(&mut self, lines: usize, line: &str, events: &mut Vec<RunnerEvent>) {
        let more = lines + usize::from(!line.trim().is_empty());
        if tap::starts_stream(line) && (lines == 0 || line.starts_with(VERSION)) {
            return self.is_tap(TapParser::new(&self.package, &self.paths), line, events);
        }
        self.form = if more > LOOK_LINES_MAX {
            Form::Text
        } else if tap::starts_stream(line) {
            Form::Planned(more, line.to_owned())
        } else if tap::is_test_point(line) || lines == 0 && tap::may_start_stream(line) {
            let mut perhaps = TapCandidate::new(&self.package, &self.paths);
            perhaps.line(line);
            Form::Candidate(more, Box::new(perhaps))
        } else {
            Form::Unknown(more)
        };
        self.word(line);
    }

    /// A line, the one of so many, of what began as TAP may, and what is known with it.
    fn perhaps(&mut self, lines: usize, line: &str, is: Recognition, events: &mut Vec<RunnerEvent>) {
        self.word(line);
        let is_new = lines <= LOOK_LINES_MAX && line.starts_with(VERSION) && tap::starts_stream(line);
        if is_new {
            return self.is_tap(TapParser::new(&self.package, &self.paths), line, events);
        }
        let went_on = std::mem::replace(&mut self.form, Form::Text);
        self.form = match (is, went_on) {
            (Recognition::Unknown, perhaps) => perhaps,
            (Recognition::Tap, Form::Candidate(_, perhaps)) => {
                let (tap, held) = perhaps.into_tap();
                self.summary.structured = true;
                events.extend(held);
                Form::Tap(Box::new(tap))
            }
            (Recognition::Tap | Recognition::NotTap, _) if lines > LOOK_LINES_MAX => Form::Text,
            (Recognition::Tap | Recognition::NotTap, _) => Form::Unknown(lines),
        };
    }

    fn is_tap(&mut self, mut tap: TapParser, line: &str, events: &mut Vec<RunnerEvent>) {
        tap.line(line, events);
        self.form = Form::Tap(Box::new(tap));
        self.summary.structured = true;
    }

    fn word(&mut self, line: &str) {
        let found = WORDS.iter().find_map(|(word, outcome)| Some((line.strip_prefix(word)?.trim(), *outcome)));
        if let Some((name, outcome)) = found
            && !name.is_empty()
            && self.named.len() < TEST_CASES_MAX
            && self.names.insert(name.to_owned())
        {
            self.named.push((name.to_owned(), outcome));
        }
    }

    /// Tells what lines named. A failure that the exit status knows nothing of is none.
    fn tell_named(&mut self, events: &mut Vec<RunnerEvent>) {
        let named = std::mem::take(&mut self.named);
        if named.is_empty() {
            return;
        }
        let count = named.len();
        let kept = named.into_iter().filter(|(_, outcome)| !(self.went_well && outcome.is_failure()));
        let told: Vec<RunnerEvent> = kept
            .map(|(name, outcome)| {
                let id = TestId { package: NAME.to_owned(), name: name.clone() };
                RunnerEvent::TestFinished(Box::new(TestCase::new(id, name, outcome).bounded()))
            })
            .collect();
        let left_out = count - told.len();
        self.notes.add("the tests are what lines such as `FAIL: x` name: only the exit status counts".to_owned());
        if left_out > 0 {
            self.notes.add(format!("{left_out} line(s) say FAIL or ERROR, and the command exited with 0"));
        }
        events.extend(told);
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
        lines.finish(|line| self.line(line, events));
        self.went_well = exit == Exit::Code(0) && !killed;
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
            Form::Candidate(_, perhaps) => {
                let failed = perhaps.count_failed();
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
            let told = junit::parse_report(name, bytes, &self.paths, "", events);
            self.summary.structured = true;
            if told.is_incomplete {
                self.proofs.invalidate();
            }
            self.notes.extend(told.notes);
            self.flaky += told.flaky;
        }
        if reports.is_empty() {
            self.tell_named(events);
        }
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        Vec::new()
    }

    fn summary(&self) -> StreamSummary {
        // Whoever counts the tests needs no status, and a failure that is seen is not hidden.
        let hides = self.hides.iter().filter(|_| self.went_well && !self.summary.structured);
        let notes = self.notes.iter().chain(hides).cloned().collect();
        StreamSummary { proof: self.proofs.proof(), notes, ..self.summary.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::proof::Proof;

    /// What is known of a command whose status alone counts.
    fn by_status() -> StreamSummary {
        StreamSummary { proof: Proof::Shown { tests: 0 }, ..StreamSummary::default() }
    }

    /// What a command that prints this, leaves these files and exits so comes to: tests and the summary.
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
    fn what_a_line_hides_is_told_where_its_status_alone_says_that_all_is_well() {
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
    fn a_command_is_one_step_and_is_told_where_a_report_may_be_left() {
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
    fn what_says_nothing_is_judged_by_its_exit_status_alone() {
        assert_eq!(ran("--- FAIL: TestGhost\nFAILED\n FAIL: x\nFAIL:\n", &[], 1), (vec![], by_status()));
    }

    #[test]
    fn attempts_that_failed_before_one_that_passed_are_counted() {
        let (mut parser, mut events) = (parser("/ws"), Vec::new());
        let file = b"<testsuite><testcase name='t'><flakyFailure/></testcase><testcase name='u'/></testsuite>".to_vec();
        parser.files(&[("custom/junit.xml".to_owned(), file)], &mut events);
        assert_eq!((parser.flaky(), events.len()), (1, 2));
    }

    #[test]
    fn tap_is_read_from_its_first_lines_on() {
        let (tests, summary) = ran("make: nothing to do\nTAP version 13\nok 1 - a\n1..1\n", &[], 0);
        assert_eq!(tests, one("a", TestOutcome::Passed));
        assert!(summary.structured && !summary.proof.is_missing());
        assert_eq!(ran("1..1\nnot ok 1 - a\n", &[], 1).0, one("a", TestOutcome::Failed));
        let late = format!("{}TAP version 13\nok 1\n1..1\n", "x\n".repeat(20));
        assert_eq!(ran(&late, &[], 0), (vec![], by_status()));
    }

    #[test]
    fn tap_is_read_in_colours_behind_a_mark_and_behind_lines_of_another_kind() {
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
            assert_eq!(ran(stream, &[], 0), (vec![], by_status()), "{stream:?}");
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
    fn points_without_a_plan_are_no_tap() {
        for stream in [
            "ok 1 - a\nok 2 - b\n".to_owned(),
            "ok, here we go\n1..2\n".to_owned(),
            "# hello\nworld\n1..1\n".to_owned(),
            "    ok 1 - a\n    1..1\n".to_owned(),
            "ok 1\n".repeat(20_000),
        ] {
            let start: String = stream.chars().take(40).collect();
            assert_eq!(ran(&stream, &[], 0), (vec![], by_status()), "{start}");
        }
        let (tests, summary) = ran("ok 1 - a\nFAIL: x\nnot ok 2 - b\n", &[], 1);
        assert_eq!(tests, one("x", TestOutcome::Failed));
        assert!(!summary.structured && !summary.proof.is_missing());
        let note = "1 line(s) say `not ok` and are not read as TAP: no plan (`1..N`) came";
        assert_eq!(summary.notes[0], note);
        assert_eq!(ran("not ok 1 - a\n", &[], 0).1.notes, [note]);
    }

    #[test]
    fn tap_that_ends_early_is_cut_off_and_makes_a_file_superfluous() {
        let (_, summary) = ran("1..2\nok 1 - a\n", &[("custom/junit.xml", "<testsuite/>")], 0);
        assert!(summary.structured && summary.proof.is_missing());
        assert_eq!(summary.notes.len(), 2);
    }

    #[test]
    fn a_junit_file_is_worth_more_than_lines() {
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
    fn a_report_that_a_project_names_has_to_be_written() {
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
    fn lines_name_tests_and_change_no_verdict() {
        let said = "PASS: a\nFAIL: b\nERROR: c\nSKIP: d\nXFAIL: e\nXPASS: f\nPASS: a\n";
        let (tests, summary) = ran(said, &[], 2);
        let outcomes: Vec<&str> = tests.iter().map(|(_, outcome)| outcome.name()).collect();
        assert_eq!(outcomes, ["passed", "failed", "error", "skipped", "xfailed", "xpassed"]);
        assert!(!summary.structured && !summary.proof.is_missing() && summary.notes.len() == 1);
        let (tests, summary) = ran(said, &[], 0);
        assert!(tests.iter().all(|(_, outcome)| !outcome.is_failure()) && tests.len() == 4);
        assert_eq!(summary.notes[1], "2 line(s) say FAIL or ERROR, and the command exited with 0");
    }
}
