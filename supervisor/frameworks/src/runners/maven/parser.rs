//! Puts together what the files and the console of a run say. Must not know what a line or a file means.

use super::command::{RERUNS, SOURCES, STOPS};
use super::console::{Said, said};
use super::detect::MARKER;
use super::records::{Record, Records};
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

/// Most classes that are held as running, and most files that are known again.
const CLASSES_MAX: usize = 65_536;

/// Bytes of compiler output that are kept for each file.
const OUTPUT_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the files that are held back until Maven has ended. What is beyond is told at once.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The parser of a run or listing.
pub(super) struct MavenParser {
    paths: WorkspacePaths,
    sources: SourceIndex,
    steps: Vec<Step>,
    dir: String,
    lines: LineSplitter,
    records: Records,
    /// Whether a class with failures may have another file when they were run again.
    reruns: bool,
    /// After how many failures tests may have been passed over.
    stops: Option<usize>,
    step: State,
    flaky: u64,
    proofs: ProofTracker,
    summary: StreamSummary,
    notes: Notes,
}

/// What is known of the current step.
#[derive(Default)]
struct State {
    namer: CaseNamer,
    /// Files that were told, by a hash of name and content.
    files: HashSet<u64>,
    /// Files with failures that may yet be other ones, by name.
    held: BTreeMap<String, Vec<u8>>,
    held_bytes: usize,
    /// Classes that began and did not end, the oldest first.
    running: Vec<String>,
    blamed: Vec<Blame>,
    goals: Vec<Goal>,
    crashed: Vec<String>,
    has_crashed: bool,
    names_follow: bool,
    told: usize,
    /// Tests among what was told.
    finished: u64,
    failures: usize,
    /// Tests that Surefire and Failsafe counted, and those of them that failed.
    counted: (u64, u64),
    /// How the build ended, once our extension told it.
    ended: Option<Ended>,
    said_nothing_selected: bool,
    nothing_selected: bool,
}

/// How Maven says that a build ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Success,
    Failure,
}

/// A file that does not compile, or a project that cannot be read.
struct Blame {
    file: String,
    line: Option<u32>,
    message: String,
    output: String,
}

struct Goal {
    goal: String,
    project: String,
    why: String,
}

impl Goal {
    /// A person's words for what failed.
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
            records: Records::default(),
            reruns: plan.notes.iter().any(|note| note == RERUNS),
            stops: plan.notes.iter().find_map(|note| note.strip_prefix(STOPS)?.parse().ok()),
            step: State::default(),
            flaky: 0,
            proofs: ProofTracker::default(),
            summary: StreamSummary { structured: true, ..StreamSummary::default() },
            notes: Notes::default(),
        }
    }

    fn record(&mut self, record: &Record<'_>, events: &mut Vec<RunnerEvent>) {
        match record {
            Record::Begin => {}
            Record::End { success } => self.step.ended = Some(if *success { Ended::Success } else { Ended::Failure }),
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
            Record::Listed(kind, module, text) => self.listed(kind, module, text, events),
            Record::File(name, content) => {
                let mut hasher = DefaultHasher::new();
                (name, content).hash(&mut hasher);
                if self.step.files.len() >= CLASSES_MAX || !self.step.files.insert(hasher.finish()) {
                    return;
                }
                if !self.hold(name, content) {
                    self.file(name, content, events);
                }
            }
        }
    }

    // A later file of the same name takes the place of one that is held.
    fn hold(&mut self, name: &str, content: &[u8]) -> bool {
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
            self.file(&name, &content, events);
        }
    }

    fn file(&mut self, name: &str, content: &[u8], events: &mut Vec<RunnerEvent>) {
        let path = join(&self.dir, name);
        let module = module(&path);
        let pom = join(module, MARKER);
        let class = path.rsplit('/').next().and_then(|file| file.strip_prefix("TEST-")?.strip_suffix(".xml"));
        self.ended(class.unwrap_or_default());
        let mut found = Vec::new();
        let told = junit::parse_report(&path, content, &self.paths, &self.dir, &mut found);
        if told.is_incomplete {
            self.proofs.invalidate();
        }
        self.flaky += told.flaky;
        self.notes.extend(told.notes);
        for event in found {
            self.step.told += 1;
            events.push(match event {
                RunnerEvent::TestFinished(case) if is_passed_over(&case) => {
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

    /// What `Listing.java` says: a kind with a module's directory, and a text.
    fn listed(&mut self, kind: &str, module: &str, content: &[u8], events: &mut Vec<RunnerEvent>) {
        let module = join(&self.dir, module);
        let pom = join(&module, MARKER);
        let text = String::from_utf8_lossy(content);
        match kind {
            "listed" => {
                for test in text.lines().filter(|test| !test.is_empty()) {
                    self.step.told += 1;
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
        let meaning = said(line.trim_end_matches('\r'));
        let names_follow = std::mem::take(&mut self.step.names_follow);
        match meaning {
            Said::Running(class) if self.step.running.len() < CLASSES_MAX => self.step.running.push(class.to_owned()),
            Said::Ran(class) => self.ended(class),
            Said::Compiler { file, line, message } => self.blame(Some(file), Some(line), message),
            Said::Project { file, line, message } => self.blame(file, line, message),
            Said::Goal { goal, project, why } if self.step.goals.len() < COLLECTORS_MAX => {
                self.step.has_crashed |= why.contains("The forked VM terminated");
                let (project, why) =
                    (project.to_owned(), self.paths.scrub(why.trim_end_matches(" -> [Help 1]").trim()));
                self.step.goals.push(Goal { goal: goal.to_owned(), project, why });
            }
            Said::Crashed => self.step.has_crashed = true,
            Said::CrashedTests => {
                self.step.has_crashed = true;
                self.step.names_follow = true;
            }
            Said::More(class) if names_follow && is_class(class) => {
                self.step.names_follow = true;
                if self.step.crashed.len() < CLASSES_MAX && !self.step.crashed.iter().any(|known| known == class) {
                    self.step.crashed.push(class.to_owned());
                }
            }
            Said::Detail(text) => self.detail(text),
            Said::More(text) => self.more(text),
            Said::NothingSelected => self.step.said_nothing_selected = true,
            Said::PassedOver(module) => {
                self.summary.unreached = true;
                self.notes.add(format!("module {module} was not built or tested, since one that it needs failed"));
            }
            Said::Running(_) | Said::Goal { .. } | Said::Other => {}
        }
    }

    /// A class with all that is nested in it has ended.
    fn ended(&mut self, class: &str) {
        self.step.running.retain(|running| running != class);
    }

    /// Whether the workspace has the class: anybody can print that another one runs.
    fn is_own(&self, class: &str) -> bool {
        self.sources.class_file(&self.dir, class).is_some()
    }

    /// Maven tells what a compiler says once as it goes and once at its end.
    fn blame(&mut self, file: Option<&str>, line: Option<u32>, message: &str) {
        let file = file.and_then(|file| self.paths.relative_to(&self.dir, file.trim()));
        let line = line.filter(|_| file.is_some());
        let file = file.unwrap_or_else(|| join(&self.dir, MARKER));
        let message = self.paths.scrub(message);
        let told = line.map_or_else(|| format!("{file}: {message}\n"), |line| format!("{file}:{line}: {message}\n"));
        let has_room = self.step.blamed.len() < COLLECTORS_MAX;
        match self.step.blamed.iter_mut().find(|blame| blame.file == file) {
            Some(known) if known.output.contains(&told) || known.output.len() > OUTPUT_BYTES_MAX => {}
            Some(known) => known.output.push_str(&told),
            None if has_room => {
                self.step.blamed.push(Blame { file, line, message, output: told });
            }
            None => {}
        }
    }

    /// What javac says below an error: `symbol: ...`.
    fn detail(&mut self, text: &str) {
        let text = self.paths.scrub(text);
        if let Some(last) = self.step.blamed.last_mut().filter(|last| last.output.len() <= OUTPUT_BYTES_MAX)
            && !last.output.contains(&text)
        {
            last.output.push_str(&format!("  {text}\n"));
        }
    }

    /// Surefire's reason begins with an empty line.
    fn more(&mut self, text: &str) {
        let why = self.paths.scrub(text);
        if let Some(goal) = self.step.goals.last_mut().filter(|goal| goal.why.is_empty()) {
            goal.why = why;
        }
    }

    /// What is to be said where less came in files than Surefire counted: whatever runs beside it can write and remove them.
    fn short(&self) -> Option<String> {
        let (tests, failures) = self.step.counted;
        let came = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let (told, failed) = (came(self.step.told), came(self.step.failures));
        (tests > told || failures > failed).then(|| {
            format!(
                "Surefire counted {tests} test(s), {failures} of them failed, and its files have {told} and {failed}"
            )
        })
    }

    /// Classes of which nothing came, in a run that did not pass.
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
            self.step.told += 1;
            self.step.failures += 1;
            events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
        }
    }

    /// What kept Maven from testing.
    fn explain(&mut self, exit: Exit, events: &mut Vec<RunnerEvent>) {
        let mut collect = |nodeid: String, place: (Option<String>, Option<u32>), message: String, output: String| {
            let collector =
                Collector { nodeid, kind: CollectorKind::Build, file: place.0, line: place.1, message, output };
            events.push(RunnerEvent::Collector(Box::new(collector.bounded())));
        };
        let (blamed, goals) = (std::mem::take(&mut self.step.blamed), std::mem::take(&mut self.step.goals));
        let pom = join(&self.dir, MARKER);
        let failed = exit != Exit::Code(0);
        let mut explained = self.step.failures > 0 || self.step.said_nothing_selected;
        let is_told = |goal: &Goal| {
            (goal.runs_tests() && explained) || goal.why.starts_with("Compilation fail") && !blamed.is_empty()
        };
        for goal in goals.iter().filter(|goal| failed && !is_told(goal)) {
            collect(pom.clone(), (None, None), goal.message(), String::new());
        }
        // Warnings of a build that went on are nobody's concern.
        for Blame { file, line, message, output } in blamed.into_iter().filter(|_| failed) {
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
        self.step = State::default();
        self.proofs.start_step();
        self.records.forget();
    }

    fn stdout(&mut self, bytes: &[u8], _events: &mut Vec<RunnerEvent>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.feed(bytes, |line| self.line(line));
        self.lines = lines;
    }

    fn stderr(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        let mut records = std::mem::take(&mut self.records);
        records.feed(bytes, |record| self.record(&record, events));
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
            None => self.notes.add(format!("Maven {} before it told the end of its build", describe_exit(exit))),
            Some(_) => match self.short().filter(|_| exit == Exit::Code(0)) {
                Some(short) => self.notes.add(short),
                None => self.proofs.record(self.step.finished),
            },
        }
        let before = events.len();
        self.close(exit, events);
        self.explain(exit, events);
        self.summary.unreached |= self.stops.is_some_and(|stops| self.step.failures >= stops);
        let is_empty = self.step.told == 0 && events.len() == before;
        let is_content = exit == Exit::Code(0) && self.step.ended == Some(Ended::Success);
        self.step.nothing_selected = is_empty && (is_content || self.step.said_nothing_selected);
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

/// What a run says in which something else than our extension wrote to the report.
const FORGED: &str = "a part of Maven's report was not Maven's own: something that the tests ran wrote there";

/// What Surefire writes for a class of JUnit 4 or a test of TestNG when the project has it stop after so many failures
/// (`skipAfterFailureCount`). Nobody chose to skip it, and what it would come to is not known.
fn is_passed_over(case: &TestCase) -> bool {
    let is_said = |message: &str| PASSED_OVER.iter().any(|said| message.contains(said));
    case.outcome == TestOutcome::Skipped && case.message.as_deref().is_some_and(is_said)
}

const PASSED_OVER: [&str; 2] = [
    "org.junit.runner.notification.StoppedByUserException",
    "Skipped after failure. See parameter [skipAfterFailureCount]",
];

/// The module whose report this is: what is above its build directory.
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
    fn of_a_test_that_ran_again_the_last_file_counts_however_large_it_is() {
        let plan = Plan { notes: vec![RERUNS.to_owned()], ..Plan::default() };
        let mut parser = MavenParser::new(&plan, &PlanRequest::plain(&Selection::All));
        let file = |inside: &str| {
            format!(r#"<testsuite name="ATest"><testcase name="a" classname="ATest">{inside}</testcase></testsuite>"#)
        };
        let mut events = Vec::new();
        let failed = file(r#"<failure message="x"/>"#);
        parser.record(&Record::File("TEST-ATest.xml", failed.as_bytes()), &mut events);
        assert!(events.is_empty(), "it may run again");
        parser.step.held_bytes = HELD_BYTES_MAX;
        parser.record(&Record::File("TEST-ATest.xml", file(r#"<system-out>y</system-out>"#).as_bytes()), &mut events);
        parser.release(&mut events);
        let outcome = |event: &RunnerEvent| match event {
            RunnerEvent::TestFinished(case) => Some(case.outcome),
            _ => None,
        };
        assert_eq!(events.iter().filter_map(outcome).collect::<Vec<_>>(), [TestOutcome::Passed]);
        assert_eq!(parser.step.held_bytes, HELD_BYTES_MAX - failed.len());
    }
}
