//! Combines the XML files, the report and the console of a run into test events.

use super::command::{RERUNS_NOTE, SOURCES, STOPS_NOTE};
use super::console::{ConsoleLine, parse_line};
use super::detect::MARKER;
use super::records::{Record, RecordSplitter};
use crate::contract::{Parser, Plan, PlanRequest, Step, StreamSummary};
use crate::ecosystems::jvm::{CaseNamer, SourceIndex, class_id, test_id};
use crate::formats::junit;
use crate::parsing::line_splitter::LineSplitter;
use crate::parsing::notes::Notes;
use crate::parsing::output_tail::describe_exit;
use crate::parsing::proof_tracker::ProofTracker;
use crate::parsing::workspace_paths::{WorkspacePaths, join};
use memchr::memmem;
use proctor_core::bounds::COLLECTORS_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most classes that are tracked as running, and most files that are remembered.
const CLASSES_MAX: usize = 65_536;

/// Most bytes of compiler output that are kept for each file.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Most bytes of files that are held back until Maven has ended. Files beyond that are reported at once.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Parser of a run or a listing.
pub(super) struct MavenParser {
    paths: WorkspacePaths,
    sources: SourceIndex,
    steps: Vec<Step>,
    dir: String,
    lines: LineSplitter,
    records: RecordSplitter,
    /// Whether a file with failures may be replaced because failed tests run again.
    reruns: bool,
    /// Number of failures after which tests may have been skipped.
    stops_after: Option<usize>,
    step: StepState,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

/// StepState of the current step.
#[derive(Default)]
struct StepState {
    namer: CaseNamer,
    /// Files that were reported, by a hash of name and content.
    files: HashSet<u64>,
    /// Files with failures that may still be replaced, by name.
    held: BTreeMap<String, Vec<u8>>,
    held_bytes: usize,
    /// Classes that began and did not end, the oldest first.
    running: Vec<String>,
    build_errors: Vec<BuildError>,
    goals: Vec<FailedGoal>,
    crashed: Vec<String>,
    has_crashed: bool,
    names_follow: bool,
    reported: usize,
    /// Tests among the reported events.
    finished: u64,
    failures: usize,
    /// Tests that Surefire and Failsafe counted, and how many of them failed.
    counted: (u64, u64),
    /// How the build ended, once the extension reported it.
    ended: Option<BuildResult>,
    reported_nothing_selected: bool,
    nothing_selected: bool,
}

/// Result of a build, as Maven reports it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BuildResult {
    Success,
    Failure,
}

/// A file that does not compile, or a project that cannot be read.
struct BuildError {
    file: String,
    line: Option<u32>,
    message: String,
    output: String,
}

struct FailedGoal {
    goal: String,
    project: String,
    why: String,
}

impl FailedGoal {
    /// The message about this failed goal.
    fn message(&self) -> String {
        let why = if self.why.is_empty() { "failed" } else { self.why.as_str() };
        if self.goal.is_empty() {
            format!("{}: {why}", self.project)
        } else {
            format!("{}: {}: {why}", self.project, self.goal)
        }
    }

    fn runs_tests(&self) -> bool {
        self.goal.contains("surefire") || self.goal.contains("failsafe")
    }
}

impl MavenParser {
    pub(super) fn new(plan: &Plan, request: &PlanRequest<'_>) -> MavenParser {
        MavenParser {
            paths: WorkspacePaths::new(request.workspace),
            sources: SourceIndex::from_file(&plan.files, SOURCES),
            steps: plan.steps.clone(),
            dir: String::new(),
            lines: LineSplitter::default(),
            records: RecordSplitter::default(),
            reruns: plan.notes.iter().any(|note| note == RERUNS_NOTE),
            stops_after: plan.notes.iter().find_map(|note| note.strip_prefix(STOPS_NOTE)?.parse().ok()),
            step: StepState::default(),
            flaky: 0,
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn handle_record(&mut self, record: &Record<'_>, events: &mut Vec<RunnerEvent>) {
        match record {
            Record::Begin => {}
            Record::End { success } => {
                self.step.ended = Some(if *success { BuildResult::Success } else { BuildResult::Failure })
            }
            Record::Unreadable => {
                self.proofs.invalidate();
                self.notes.add("a part of what Surefire reported could not be read".to_owned());
            }
            Record::Forged => {
                self.proofs.invalidate();
                self.notes.add(FORGED.to_owned());
            }
            Record::Ran(counts) => {
                let (tests, failures) = counts.unwrap_or_default();
                let (all, failed) = self.step.counted;
                self.step.counted = (all.saturating_add(tests), failed.saturating_add(failures));
            }
            Record::Listed(kind, module, text) => self.handle_listing(kind, module, text, events),
            Record::File(name, content) => {
                let mut hasher = DefaultHasher::new();
                (name, content).hash(&mut hasher);
                if self.step.files.len() >= CLASSES_MAX || !self.step.files.insert(hasher.finish()) {
                    return;
                }
                if !self.hold_back(name, content) {
                    self.report_file(name, content, events);
                }
            }
        }
    }

    /// Holds back a file with failures that may be replaced. A later file of the same name replaces a held one.
    fn hold_back(&mut self, name: &str, content: &[u8]) -> bool {
        let failed = |content: &[u8]| {
            [&b"<failure"[..], b"<error"].iter().any(|element| memmem::find(content, element).is_some())
        };
        let before = self.step.held.get(name).map(Vec::len);
        let bytes = self.step.held_bytes - before.unwrap_or(0) + content.len();
        if !self.reruns || (before.is_none() && !failed(content)) {
            return false;
        }
        if bytes > HELD_BYTES_MAX {
            self.step.held.remove(name);
            self.step.held_bytes -= before.unwrap_or(0);
            return false;
        }
        self.step.held.insert(name.to_owned(), content.to_vec());
        self.step.held_bytes = bytes;
        true
    }

    fn release(&mut self, events: &mut Vec<RunnerEvent>) {
        for (name, content) in std::mem::take(&mut self.step.held) {
            self.report_file(&name, &content, events);
        }
    }

    fn report_file(&mut self, name: &str, content: &[u8], events: &mut Vec<RunnerEvent>) {
        let path = join(&self.dir, name);
        let module = module(&path);
        let pom = join(module, MARKER);
        let class = path.rsplit('/').next().and_then(|file| file.strip_prefix("TEST-")?.strip_suffix(".xml"));
        self.finish_class(class.unwrap_or_default());
        let mut found = Vec::new();
        let suite = junit::parse_report(&path, content, &self.paths, &self.dir, &mut found);
        if suite.is_incomplete {
            self.proofs.invalidate();
        }
        self.flaky += suite.flaky;
        self.notes.extend(suite.notes);
        for event in found {
            self.step.reported += 1;
            events.push(match event {
                RunnerEvent::TestFinished(case) if is_skipped_after_failure(&case) => {
                    self.summary.unreached = true;
                    let class = &case.package;
                    self.notes.add(format!(
                        "{class} was not run to its end: Surefire passes over what comes after failures (skipAfterFailureCount)"
                    ));
                    continue;
                }
                RunnerEvent::TestFinished(case) => {
                    self.step.finished += 1;
                    let case = self.step.namer.name_case(*case, &self.sources, module, &pom);
                    self.step.failures += usize::from(case.outcome.is_failure());
                    RunnerEvent::TestFinished(Box::new(case))
                }
                other => {
                    self.step.failures += 1;
                    other
                }
            });
        }
    }

    /// Handles a record of `Listing.java`: a kind with a module's directory, and a text.
    fn handle_listing(&mut self, kind: &str, module: &str, content: &[u8], events: &mut Vec<RunnerEvent>) {
        let module = join(&self.dir, module);
        let pom = join(&module, MARKER);
        let text = String::from_utf8_lossy(content);
        match kind {
            "listed" => {
                for test in text.lines().filter(|test| !test.is_empty()) {
                    self.step.reported += 1;
                    events.push(RunnerEvent::TestStarted(test_id(&self.sources, &module, &pom, test).bounded()));
                }
            }
            "broken" => {
                let (class, why) = text.split_once('\n').unwrap_or((&text, ""));
                let file = class_id(&self.sources, &module, &pom, class).package;
                self.step.failures += 1;
                let collector = Collector {
                    nodeid: file.clone(),
                    kind: CollectorKind::Collection,
                    file: Some(file),
                    line: None,
                    message: format!("{class}: {}", self.paths.scrub(why)),
                    output: String::new(),
                };
                events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
            }
            _ => self.notes.add(format!("{pom}: {text}")),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let parsed = parse_line(line.trim_end_matches('\r'));
        let names_follow = std::mem::take(&mut self.step.names_follow);
        match parsed {
            ConsoleLine::Running(class) if self.step.running.len() < CLASSES_MAX => {
                self.step.running.push(class.to_owned())
            }
            ConsoleLine::Ran(class) => self.finish_class(class),
            ConsoleLine::Compiler { file, line, message } => self.record_build_error(Some(file), Some(line), message),
            ConsoleLine::Project { file, line, message } => self.record_build_error(file, line, message),
            ConsoleLine::Goal { goal, project, why } if self.step.goals.len() < COLLECTORS_MAX => {
                self.step.has_crashed |= why.contains("The forked VM terminated");
                let (project, why) =
                    (project.to_owned(), self.paths.scrub(why.trim_end_matches(" -> [Help 1]").trim()));
                self.step.goals.push(FailedGoal { goal: goal.to_owned(), project, why });
            }
            ConsoleLine::Crashed => self.step.has_crashed = true,
            ConsoleLine::CrashedTests => {
                self.step.has_crashed = true;
                self.step.names_follow = true;
            }
            ConsoleLine::More(class) if names_follow && is_class(class) => {
                self.step.names_follow = true;
                if self.step.crashed.len() < CLASSES_MAX && !self.step.crashed.iter().any(|known| known == class) {
                    self.step.crashed.push(class.to_owned());
                }
            }
            ConsoleLine::Detail(text) => self.append_detail(text),
            ConsoleLine::More(text) => self.append_reason(text),
            ConsoleLine::NothingSelected => self.step.reported_nothing_selected = true,
            ConsoleLine::Skipped(module) => {
                self.summary.unreached = true;
                self.notes.add(format!("module {module} was not built or tested, since one that it needs failed"));
            }
            ConsoleLine::Running(_) | ConsoleLine::Goal { .. } | ConsoleLine::Other => {}
        }
    }

    /// RecordSplitter that a class, with all classes nested in it, has ended.
    fn finish_class(&mut self, class: &str) {
        self.step.running.retain(|running| running != class);
    }

    /// Whether the workspace has the class: a test can print that another one runs.
    fn is_own(&self, class: &str) -> bool {
        self.sources.class_file(&self.dir, class).is_some()
    }

    /// RecordSplitter a compiler or project error. Maven prints each one as it happens and again at the end.
    fn record_build_error(&mut self, file: Option<&str>, line: Option<u32>, message: &str) {
        let file = file.and_then(|file| self.paths.relative_to(&self.dir, file.trim()));
        let line = line.filter(|_| file.is_some());
        let file = file.unwrap_or_else(|| join(&self.dir, MARKER));
        let message = self.paths.scrub(message);
        let text = line.map_or_else(|| format!("{file}: {message}\n"), |line| format!("{file}:{line}: {message}\n"));
        let has_room = self.step.build_errors.len() < COLLECTORS_MAX;
        match self.step.build_errors.iter_mut().find(|blame| blame.file == file) {
            Some(known) if known.output.contains(&text) || known.output.len() > OUTPUT_BYTES_MAX => {}
            Some(known) => known.output.push_str(&text),
            None if has_room => {
                self.step.build_errors.push(BuildError { file, line, message, output: text });
            }
            None => {}
        }
    }

    /// Appends a detail line of javac below an error: `symbol: ...`.
    fn append_detail(&mut self, text: &str) {
        let text = self.paths.scrub(text);
        if let Some(last) = self.step.build_errors.last_mut().filter(|last| last.output.len() <= OUTPUT_BYTES_MAX)
            && !last.output.contains(&text)
        {
            last.output.push_str(&format!("  {text}\n"));
        }
    }

    /// RecordSplitter the reason of a failed goal: Surefire's begins with an empty line.
    fn append_reason(&mut self, text: &str) {
        let why = self.paths.scrub(text);
        if let Some(goal) = self.step.goals.last_mut().filter(|goal| goal.why.is_empty()) {
            goal.why = why;
        }
    }

    /// The note if the files have less than Surefire counted: any process beside Surefire can write and remove them.
    fn missing_results(&self) -> Option<String> {
        let (tests, failures) = self.step.counted;
        let came = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (reported, failed) = (came(self.step.reported), came(self.step.failures));
        (tests > reported || failures > failed).then(|| {
            format!(
                "Surefire counted {tests} test(s), {failures} of them failed, and its files have {reported} and {failed}"
            )
        })
    }

    /// Finishes classes without a file as errors, in a run that did not pass.
    fn close(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let mut open = std::mem::take(&mut self.step.crashed);
        let running = std::mem::take(&mut self.step.running);
        if exit != Exit::Code(0) {
            open.extend(running.into_iter().filter(|class| self.is_own(class)));
        }
        let message = if self.step.has_crashed {
            "did not finish: its JVM ended without a word (System.exit, or a crash)".to_owned()
        } else {
            format!("did not finish: Maven {}", describe_exit(exit))
        };
        let mut named = HashSet::new();
        for class in open.into_iter().filter(|class| named.insert(class.clone())) {
            let id = class_id(&self.sources, &self.dir, &join(&self.dir, MARKER), &class);
            let case = TestCase { message: Some(message.clone()), ..TestCase::new(id, class, TestOutcome::Error) };
            self.step.reported += 1;
            self.step.failures += 1;
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }

    /// Emits collectors for what kept Maven from testing.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let mut collect = |nodeid: String, place: (Option<String>, Option<u32>), message: String, output: String| {
            let collector =
                Collector { nodeid, kind: CollectorKind::Build, file: place.0, line: place.1, message, output };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        };
        let (build_errors, goals) = (std::mem::take(&mut self.step.build_errors), std::mem::take(&mut self.step.goals));
        let pom = join(&self.dir, MARKER);
        let failed = exit != Exit::Code(0);
        let mut explained = self.step.failures > 0 || self.step.reported_nothing_selected;
        let is_explained = |goal: &FailedGoal| {
            (goal.runs_tests() && explained) || goal.why.starts_with("Compilation fail") && !build_errors.is_empty()
        };
        for goal in goals.iter().filter(|goal| failed && !is_explained(goal)) {
            collect(pom.clone(), (None, None), goal.message(), String::new());
        }
        // Compiler warnings of a build that went on are not reported.
        for BuildError { file, line, message, output } in build_errors.into_iter().filter(|_| failed) {
            explained = true;
            collect(file.clone(), (Some(file), line), message, output);
        }
        if failed && !explained && goals.is_empty() && !matches!(exit, Exit::Signal(_) | Exit::NotStarted(_)) {
            collect(pom, (None, None), format!("Maven {} and did not say why", describe_exit(exit)), String::new());
        }
    }
}

impl Parser for MavenParser {
    fn step_started(&mut self, step: usize) {
        self.dir = self.steps.get(step).or(self.steps.last()).map(|step| step.dir.clone()).unwrap_or_default();
        self.step = StepState::default();
        self.proofs.start_step();
        self.records.reset();
    }

    fn stdout(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line));
        self.lines = lines;
    }

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut records = std::mem::take(&mut self.records);
        records.feed(bytes, |record| self.handle_record(&record, events));
        self.records = records;
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.finish(|line| self.line(line));
        self.lines = lines;
        self.release(events);
        if killed {
            return;
        }
        match self.step.ended {
            None => self
                .notes
                .add(format!("Maven {} before the extension reported the end of the build", describe_exit(exit))),
            Some(_) => match self.missing_results().filter(|_| exit == Exit::Code(0)) {
                Some(note) => self.notes.add(note),
                None => self.proofs.record(self.step.finished),
            },
        }
        let before = events.len();
        self.close(exit, events);
        self.explain(exit, events);
        self.summary.unreached |= self.stops_after.is_some_and(|stops| self.step.failures >= stops);
        let is_empty = self.step.reported == 0 && events.len() == before;
        let is_success = exit == Exit::Code(0) && self.step.ended == Some(BuildResult::Success);
        self.step.nothing_selected = is_empty && (is_success || self.step.reported_nothing_selected);
    }

    fn nothing_selected(&self) -> bool {
        self.step.nothing_selected
    }

    fn running(&self) -> Vec<TestId> {
        let pom = join(&self.dir, MARKER);
        self.step
            .running
            .iter()
            .filter(|class| self.is_own(class))
            .map(|class| class_id(&self.sources, &self.dir, &pom, class))
            .collect()
    }

    fn flaky(&self) -> u64 {
        self.flaky
    }

    fn summary(&self) -> StreamSummary {
        StreamSummary { proof: self.proofs.proof(), notes: self.notes.to_vec(), ..self.summary.clone() }
    }
}

/// Note of a run in which something else than the extension wrote to the report.
const FORGED: &str = "a part of Maven's report was not Maven's own: something that the tests ran wrote there";

/// Whether the test was skipped because of `skipAfterFailureCount` (JUnit 4 reports a class, TestNG a test). The project did not
/// choose to skip it, and its result is not known.
fn is_skipped_after_failure(case: &TestCase) -> bool {
    let has_reason = |message: &str| SKIP_AFTER_FAILURE.iter().any(|reason| message.contains(reason));
    case.outcome == TestOutcome::Skipped && case.message.as_deref().is_some_and(has_reason)
}

const SKIP_AFTER_FAILURE: [&str; 2] = [
    "org.junit.runner.notification.StoppedByUserException",
    "Skipped after failure. See parameter [skipAfterFailureCount]",
];

/// The module of a report file: the directory above its build directory.
fn module(report: &str) -> &str {
    let anchored = report.find("/target/").or_else(|| report.starts_with("target/").then_some(0));
    anchored.map_or("", |end| &report[..end])
}

fn is_class(text: &str) -> bool {
    text.chars().all(|character| character.is_alphanumeric() || "._$".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::request::Selection;

    #[test]
    fn the_last_file_of_a_rerun_class_wins_whatever_its_size() {
        let plan = Plan { notes: vec![RERUNS_NOTE.to_owned()], ..Plan::default() };
        let mut parser = MavenParser::new(&plan, &PlanRequest::plain(&Selection::All));
        let file = |inside: &str| {
            format!(r#"<testsuite name="ATest"><testcase name="a" classname="ATest">{inside}</testcase></testsuite>"#)
        };
        let mut events = Vec::new();
        let failed = file(r#"<failure message="x"/>"#);
        parser.handle_record(&Record::File("TEST-ATest.xml", failed.as_bytes()), &mut events);
        assert!(events.is_empty(), "it may run again");
        parser.step.held_bytes = HELD_BYTES_MAX;
        parser.handle_record(
            &Record::File("TEST-ATest.xml", file(r#"<system-out>y</system-out>"#).as_bytes()),
            &mut events,
        );
        parser.release(&mut events);
        let outcome = |event: &RunnerEvent| match event {
            RunnerEvent::TestFinished(case) => Some(case.outcome),
            _ => None,
        };
        assert_eq!(events.iter().filter_map(outcome).collect::<Vec<_>>(), [TestOutcome::Passed]);
        assert_eq!(parser.step.held_bytes, HELD_BYTES_MAX - failed.len());
    }
}
