//! Reads what our reporters say: plugins of ours inside pytest, Jest and others, which all write one form to the run's report.
//! Must not know which runner it is, or how a reporter came to be there.
//!
//! **The form.** One JSON object a line. `event` is one of
//! - `begin`: the reporter was loaded and the runner is about to collect;
//! - `started`: `package`, `name`;
//! - `finished`: the same, `outcome` in the words of [`TestOutcome`], and as far as known `nodeid`, `duration_s`, `file`
//!   (absolute, or relative to the step's directory), `line` (from 1), `message`, `expected`, `actual`, `stack`, `output`,
//!   `failed_attempts` (how many of the same test failed before this one);
//! - `collector`: `nodeid`, `message`, and as far as known `file`, `line`, `output`: a file that could not be loaded, or, with
//!   `kind` `build`, not be compiled;
//! - `artifact`: the test's `package` and `name`, `path`, `kind`: a file that a test left among those that are kept;
//! - `listed`: `package`, `name`: a test that a listing found;
//! - `note`: `text`, a sentence for the evidence;
//! - `end`: the runner is done and has told everything.
//!
//! `package` is the test file relative to the step's directory, and becomes relative to the workspace here. A writer keeps
//! each line within 4 KiB where it can, since lines of that size reach a FIFO in one piece whoever else writes.
//!
//! **Trust.** The tests run in the process that writes this and may write it themselves. So nothing here makes a run green:
//! without `begin` and `end` it is cut off, and the exit status counts beside it.

use crate::framework::{Parser, Plan, Step, StreamSummary, Want};
use crate::lines::{LINE_BYTES_MAX, Lines};
use crate::paths::{Paths, join};
use proctor_core::artifact::{ARTIFACTS_MAX, ArtifactKind};
use proctor_core::bound::TEST_CASES_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};

/// Bytes of each stream that are kept to explain why a runner gave up.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// Most sentences in the summary.
const NOTES_MAX: usize = 32;

/// Most tests that are held as running. Runners that tell of more at a time do not run them at a time.
const RUNNING_MAX: usize = 65_536;

/// What a runner means by giving up, as far as its words show. Every field is a question about what it printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    /// The framework's name, for what has no better one.
    pub(crate) name: &'static str,
    /// What stands between a package and a name where the reporter gives no whole form.
    pub(crate) between: &'static str,
    /// What to do when the runner is not installed, if that is what these words say.
    pub(crate) missing: fn(&str) -> Option<String>,
    /// Whether these words say that no test was selected.
    pub(crate) nothing_selected: fn(&str) -> bool,
    /// File and line, absolute or relative to the step's directory, that these words blame for a runner that could not begin.
    pub(crate) blamed: fn(&str) -> Option<(String, u32)>,
    /// Which of these words say why it could not begin; its last line, if nothing is known.
    pub(crate) reason: fn(&str) -> Option<String>,
}

impl Dialect {
    /// One that nothing is known about.
    pub(crate) const fn plain(name: &'static str) -> Dialect {
        Dialect {
            name,
            between: "::",
            missing: |_| None,
            nothing_selected: |_| false,
            blamed: |_| None,
            reason: |_| None,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Begin,
    Started(Named),
    Finished(Box<Finished>),
    Collector(Box<Blame>),
    Artifact(Box<LeftFile>),
    Listed(Named),
    Note { text: String },
    End,
}

#[derive(Debug, Deserialize)]
struct Named {
    package: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Finished {
    package: String,
    name: String,
    outcome: TestOutcome,
    #[serde(default)]
    nodeid: Option<String>,
    #[serde(default)]
    duration_s: Option<f64>,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    expected: Option<String>,
    #[serde(default)]
    actual: Option<String>,
    #[serde(default)]
    stack: Option<String>,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    failed_attempts: u32,
}

#[derive(Debug, Deserialize)]
struct LeftFile {
    package: String,
    name: String,
    path: String,
    kind: ArtifactKind,
}

#[derive(Debug, Deserialize)]
struct Blame {
    #[serde(default)]
    kind: Option<CollectorKind>,
    nodeid: String,
    message: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    output: Option<String>,
}

/// How far the reporter of the current step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Silent,
    Begun,
    Ended,
}

/// The parser of a run or listing through a reporter of ours.
#[derive(Debug)]
pub(crate) struct Reported {
    dialect: Dialect,
    paths: Paths,
    steps: Vec<Step>,
    dir: String,
    stage: Stage,
    lines: Lines,
    stdout: Said,
    stderr: Said,
    /// Tests that have begun, and when; and the same the other way round.
    running: HashMap<TestId, u64>,
    began: BTreeMap<u64, TestId>,
    sequence: u64,
    /// Tests, collectors and listed names of the current step.
    told: u64,
    listed: usize,
    unreadable: u64,
    nothing_selected: bool,
    /// What tests left, by its path.
    artifacts: BTreeMap<String, (ArtifactKind, TestId)>,
    flaky: u64,
    summary: StreamSummary,
}

impl Reported {
    pub(crate) fn new(dialect: Dialect, plan: &Plan, want: &Want<'_>) -> Reported {
        Reported {
            dialect,
            paths: Paths::new(want.workspace),
            steps: plan.steps.clone(),
            dir: String::new(),
            stage: Stage::Silent,
            lines: Lines::default(),
            stdout: Said::default(),
            stderr: Said::default(),
            running: HashMap::new(),
            began: BTreeMap::new(),
            sequence: 0,
            told: 0,
            listed: 0,
            unreadable: 0,
            nothing_selected: false,
            artifacts: BTreeMap::new(),
            flaky: 0,
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
        }
    }

    fn line(&mut self, line: &[u8], events: &mut Vec<RunnerEvent>) {
        if line.is_empty() {
            return;
        }
        match serde_json::from_slice::<Line>(line) {
            Ok(line) => self.take_in(line, events),
            Err(_) => self.unreadable += 1,
        }
    }

    fn take_in(&mut self, line: Line, events: &mut Vec<RunnerEvent>) {
        match line {
            Line::Begin => self.stage = Stage::Begun,
            Line::End => self.stage = Stage::Ended,
            Line::Note { text } => self.note(text),
            Line::Started(test) => self.started(test, events),
            Line::Finished(test) => self.finished(*test, events),
            Line::Listed(test) if self.listed < TEST_CASES_MAX => {
                self.told += 1;
                self.listed += 1;
                let id = TestId { package: join(&self.dir, &test.package), name: test.name };
                events.push(RunnerEvent::TestStarted(id.bounded()));
            }
            Line::Listed(_) => {}
            Line::Artifact(file) => self.left(*file),
            Line::Collector(blame) => {
                self.told += 1;
                let Blame { kind, nodeid, message, file, line, output } = *blame;
                let (file, line) = self.place(file, line);
                let collector = Collector {
                    nodeid: self.paths.scrub(&nodeid),
                    kind: kind.unwrap_or(CollectorKind::Collection),
                    file,
                    line,
                    message: self.text(&message),
                    output: output.map(|output| self.text(&output)).unwrap_or_default(),
                };
                events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
            }
        }
    }

    fn started(&mut self, test: Named, events: &mut Vec<RunnerEvent>) {
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        if self.running.len() < RUNNING_MAX && !self.running.contains_key(&id) {
            self.sequence += 1;
            self.running.insert(id.clone(), self.sequence);
            self.began.insert(self.sequence, id.clone());
            events.push(RunnerEvent::TestStarted(id.bounded()));
        }
    }

    fn finished(&mut self, test: Finished, events: &mut Vec<RunnerEvent>) {
        self.told += 1;
        let id = TestId { package: join(&self.dir, &test.package), name: test.name };
        if let Some(sequence) = self.running.remove(&id) {
            self.began.remove(&sequence);
        }
        if test.failed_attempts > 0 && test.outcome == TestOutcome::Passed {
            self.flaky += 1;
            self.note(format!("{} is flaky: it passed at attempt {}", self.whole(&id), test.failed_attempts + 1));
        }
        let (file, line) = self.place(test.file, test.line);
        let text = |text: Option<String>| text.map(|text| self.text(&text));
        let nodeid = test.nodeid.unwrap_or_else(|| self.whole(&id));
        let case = TestCase {
            duration_s: test.duration_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0),
            file,
            line,
            message: text(test.message),
            expected: text(test.expected),
            actual: text(test.actual),
            stack: text(test.stack),
            output: text(test.output),
            ..TestCase::new(id, nodeid, test.outcome)
        };
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }

    fn left(&mut self, file: LeftFile) {
        if self.artifacts.len() < ARTIFACTS_MAX {
            let test = TestId { package: join(&self.dir, &file.package), name: file.name };
            self.artifacts.insert(file.path, (file.kind, test));
        }
    }

    fn whole(&self, id: &TestId) -> String {
        format!("{}{}{}", id.package, self.dialect.between, id.name)
    }

    /// A place inside of the workspace, or none.
    fn place(&self, file: Option<String>, line: Option<u32>) -> (Option<String>, Option<u32>) {
        (file.and_then(|file| self.paths.relative_to(&self.dir, &file)), line)
    }

    /// What a person reads: without colours, and without where the workspace is.
    fn text(&self, text: &str) -> String {
        self.paths.scrub(&plain(text))
    }

    fn note(&mut self, note: String) {
        if self.summary.notes.len() < NOTES_MAX && !self.summary.notes.contains(&note) {
            self.summary.notes.push(note);
        }
    }

    /// Tests without an end in a step that ended by itself.
    fn close(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        self.running.clear();
        for (_, id) in std::mem::take(&mut self.began) {
            self.told += 1;
            let nodeid = self.whole(&id);
            let message = format!("did not finish: the runner {}", ending(exit));
            let case = TestCase { message: Some(message), ..TestCase::new(id, nodeid, TestOutcome::Error) };
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }

    /// The runner ended without our reporter having told everything.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let raw = plain(&format!("{}\n{}", self.stderr.text(), self.stdout.text()));
        let said = self.paths.scrub(&raw);
        if let Some(remedy) = (self.dialect.missing)(&said) {
            self.summary.runner_missing = true;
            return self.note(remedy);
        }
        if self.told == 0 && (self.dialect.nothing_selected)(&said) {
            self.nothing_selected = true;
            return;
        }
        self.summary.cut_off = true;
        let what = if self.stage == Stage::Silent { "before it came to any test" } else { "before it was done" };
        let message = format!("{} {} {what}", self.dialect.name, ending(exit));
        self.note(message.clone());
        if self.told == 0 && !matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            let (file, line) =
                (self.dialect.blamed)(&raw).map_or((None, None), |(file, line)| self.place(Some(file), Some(line)));
            let nodeid = if self.dir.is_empty() { ".".to_owned() } else { self.dir.clone() };
            let last = || said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(&message).trim().to_owned();
            let message = (self.dialect.reason)(&said).unwrap_or_else(last);
            let kind = CollectorKind::Collection;
            let collector = Collector { nodeid, kind, file, line, message, output: said };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        }
    }
}

pub(crate) fn ending(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exited with {code}"),
        Exit::Signal(signal) => format!("was ended by signal {signal}"),
        Exit::NotStarted(_) => "was not started".to_owned(),
    }
}

/// `text` without terminal control sequences.
pub(crate) fn plain(text: &str) -> String {
    if text.contains('\x1b') { anstream::adapter::strip_str(text).to_string() } else { text.to_owned() }
}

/// The last words of a stream.
#[derive(Debug, Default)]
pub(crate) struct Said(Vec<u8>);

impl Said {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes.get(bytes.len().saturating_sub(SAID_BYTES_MAX)..).unwrap_or_default());
        // Twice the bound, so that little is moved for each piece of a long stream.
        if self.0.len() > 2 * SAID_BYTES_MAX {
            self.0.drain(..self.0.len() - SAID_BYTES_MAX);
        }
    }

    pub(crate) fn text(&self) -> String {
        let from = self.0.len().saturating_sub(SAID_BYTES_MAX);
        String::from_utf8_lossy(self.0.get(from..).unwrap_or_default()).into_owned()
    }
}

impl Parser for Reported {
    fn step_started(&mut self, step: usize) {
        self.dir = self.steps.get(step).or(self.steps.last()).map(|step| step.dir.clone()).unwrap_or_default();
        self.stage = Stage::Silent;
        self.told = 0;
        self.nothing_selected = false;
        (self.stdout, self.stderr) = (Said::default(), Said::default());
    }

    fn stdout(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stdout.add(bytes);
    }

    fn stderr(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        self.stderr.add(bytes);
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line, events));
        self.lines = lines;
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        // Who was killed in the middle of a line has not said it, and what still ran was asked for before.
        lines.finish(|line| {
            if !killed {
                self.line(line, events)
            }
        });
        self.lines = lines;
        if killed {
            self.summary.cut_off = true;
            return;
        }
        self.close(exit, events);
        if self.stage == Stage::Ended {
            self.nothing_selected = self.told == 0;
        } else {
            self.explain(exit, events);
        }
    }

    fn nothing_selected(&self) -> bool {
        self.nothing_selected
    }

    fn left_by(&self, path: &str) -> Option<(ArtifactKind, TestId)> {
        self.artifacts.get(path).cloned()
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn running(&self) -> Vec<TestId> {
        self.began.values().cloned().collect()
    }

    fn summary(&self) -> StreamSummary {
        let mut summary = self.summary.clone();
        let lost = [
            (self.unreadable, "line(s) of the report could not be read".to_owned()),
            (self.lines.skipped(), format!("line(s) of the report had more than {LINE_BYTES_MAX} bytes")),
        ];
        for (count, what) in lost.into_iter().filter(|(count, _)| *count > 0) {
            summary.cut_off = true;
            summary.notes.push(format!("{count} {what}"));
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::isolation::Network;
    use proctor_core::request::{CoverageMode, Selection};
    use proptest::prelude::*;

    const DIALECT: Dialect = Dialect {
        missing: |said| said.contains("no such runner").then(|| "install it".to_owned()),
        nothing_selected: |said| said.contains("nothing found"),
        reason: |said| said.lines().find_map(|line| line.strip_prefix("why: ")).map(str::to_owned),
        ..Dialect::plain("runner")
    };

    fn parser() -> Reported {
        let want = Want {
            selection: &Selection::All,
            coverage: CoverageMode::Off,
            parallel: None,
            network: Network::None,
            workspace: "/ws",
            scratch: "/tmp/proctor",
            cache: "/cache",
        };
        let step = Step { programs: vec!["runner".into()], args: vec![], dir: "pkg".into(), env: BTreeMap::new() };
        Reported::new(DIALECT, &Plan { steps: vec![step], ..Plan::default() }, &want)
    }

    /// What a step that writes these lines, says this and exits so comes to.
    fn step(report: &str, said: &str, exit: Exit, killed: bool) -> (Vec<RunnerEvent>, Reported) {
        let (mut parser, mut events) = (parser(), Vec::new());
        parser.step_started(0);
        parser.stderr(said.as_bytes(), &mut events);
        parser.report(report.as_bytes(), &mut events);
        parser.step_ended(exit, killed, &mut events);
        (events, parser)
    }

    const PASSING: &str = r#"{"event":"begin"}
{"event":"started","package":"a.py","name":"t"}
{"event":"finished","package":"a.py","name":"t","outcome":"passed","duration_s":0.5}
{"event":"end"}
"#;

    #[test]
    fn a_test_is_named_and_placed_from_the_workspace() {
        let report = PASSING.replace(
            r#""outcome":"passed""#,
            r#""outcome":"failed","file":"/ws/pkg/b.py","line":7,"message":"\u001b[31mat /ws/pkg/b.py\u001b[0m""#,
        );
        let (events, parser) = step(&report, "", Exit::Code(1), false);
        let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
        assert_eq!((case.nodeid.as_str(), case.file.as_deref(), case.line), ("pkg/a.py::t", Some("pkg/b.py"), Some(7)));
        assert_eq!((case.message.as_deref(), case.duration_s), (Some("at pkg/b.py"), Some(0.5)));
        assert_eq!(parser.summary(), StreamSummary { structured: true, ..StreamSummary::default() });
    }

    #[test]
    fn a_place_outside_of_the_workspace_is_none() {
        let report = PASSING.replace(r#""outcome":"passed""#, r#""outcome":"failed","file":"/usr/lib/x.py","line":7"#);
        let (events, _) = step(&report, "", Exit::Code(1), false);
        let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
        assert_eq!((case.file.as_deref(), case.line), (None, None));
    }

    #[test]
    fn only_a_report_with_its_end_is_whole() {
        for line in 0..4 {
            let cut: String = PASSING.lines().take(line).map(|line| format!("{line}\n")).collect();
            let (_, parser) = step(&cut, "", Exit::Code(0), false);
            assert!(parser.summary().cut_off, "{cut}");
        }
        let (_, parser) = step(&format!("{PASSING}{{\"event\":\"unheard of\"}}\n"), "", Exit::Code(0), false);
        assert!(parser.summary().cut_off);
    }

    #[test]
    fn a_test_begins_and_ends_under_one_name_however_long_that_is() {
        let long = PASSING.replace(r#""name":"t""#, &format!(r#""name":"{}""#, "t".repeat(10_000)));
        let (events, _) = step(&long, "", Exit::Code(0), false);
        let [RunnerEvent::TestStarted(began), RunnerEvent::TestFinished(ended)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!((began, began.name.len() < 5_000), (&ended.id(), true));
    }

    #[test]
    fn a_test_that_the_runner_left_open_is_an_error_and_one_that_was_cut_off_still_runs() {
        let open: String = PASSING.lines().take(2).collect::<Vec<_>>().join("\n");
        let (events, parser) = step(&open, "", Exit::Code(70), false);
        let RunnerEvent::TestFinished(case) = &events[1] else { panic!("{events:?}") };
        assert_eq!(case.outcome, TestOutcome::Error);
        assert_eq!(case.message.as_deref(), Some("did not finish: the runner exited with 70"));
        assert!(parser.running().is_empty());
        let (events, parser) = step(&format!("{open}\n"), "", Exit::Signal(9), true);
        assert_eq!((events.len(), parser.running().len(), parser.summary().cut_off), (1, 1, true));
        // What was running has been asked for by then, and nobody would tell the end of this one.
        let (events, parser) = step(&open, "", Exit::Signal(9), true);
        assert_eq!((events.len(), parser.running().len(), parser.summary().cut_off), (0, 0, true));
    }

    #[test]
    fn a_runner_that_gives_up_is_explained_by_its_words() {
        let (events, parser) = step("", "x\nno such runner\n", Exit::Code(1), false);
        assert!(events.is_empty() && parser.summary().runner_missing);
        assert_eq!(parser.summary().notes, ["install it"]);
        let (events, parser) = step("", "nothing found", Exit::Code(5), false);
        assert!(events.is_empty() && parser.nothing_selected() && !parser.summary().cut_off);
        let (events, parser) = step("", "config is bad\n\n", Exit::Code(4), false);
        let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!((collector.nodeid.as_str(), collector.message.as_str()), ("pkg", "config is bad"));
        assert!(parser.summary().cut_off);
        let (events, _) = step("", "why: no disk\nand so on\n", Exit::Code(4), false);
        let [RunnerEvent::Collector(collector)] = events.as_slice() else { panic!("{events:?}") };
        assert_eq!(collector.message, "no disk");
        let (_, parser) = step("{\"event\":\"begin\"}\n{\"event\":\"end\"}\n", "", Exit::Code(5), false);
        assert!(parser.nothing_selected() && !parser.summary().cut_off);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter_and_nothing_panics(
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
}
