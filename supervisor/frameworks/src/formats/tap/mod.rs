//! The Test Anything Protocol, versions 12 to 14 (<https://testanything.org/tap-version-14-specification.html>): a plan, test points
//! with directives, diagnostics in YAML or comments, subtests by indentation.
//!
//! A point is reported when the next line shows that its diagnostics are complete. A subtest is called `parent/child` and held back
//! until its parent's name is known. A stream that does not match its plan, has no plan, repeats a point or bails out is incomplete.

mod candidate;
mod diagnostics;

use crate::parsing::notes::Notes;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use diagnostics::Diagnostics;
use proctor_core::event::RunnerEvent;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use regex::Regex;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

pub(crate) use candidate::{Recognition, TapCandidate, is_test_point, may_start_stream};

/// Deepest subtests that are read.
const DEPTH_MAX: usize = 16;

/// Most subtests that are held back for their parent's name, and most names that are counted.
const HELD_MAX: usize = 10_000;

/// Name of the one test that stands for a program that skips all of its tests: `1..0 # SKIP why`.
const ALL_TESTS: &str = "all tests";

/// Blanks by which a subtest is indented.
const INDENT: usize = 4;

static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)^TAP version 1[2-4]\s*$").ok());
static PLAN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^1\.\.(\d+)\s*(?:#\s*(?P<skip>skip\S*)?\s*(?P<why>.*))?$").ok());
static POINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?P<not>not )?ok\b(?:\s+(?P<number>\d+)\b)?(?:\s+-)?\s*(?P<text>.*?)(?:\s*#\s*(?P<directive>skip|todo)\S*\s*(?P<why>.*))?$").ok()
});

/// Whether a stream that starts with this line is TAP.
pub(crate) fn starts_stream(line: &str) -> bool {
    [&VERSION, &PLAN].into_iter().any(|regex| regex.as_ref().is_some_and(|regex| regex.is_match(line)))
}

/// Parses one stream.
#[derive(Debug)]
pub(crate) struct TapParser {
    package: String,
    paths: WorkspacePaths,
    /// The stream itself, and the open levels of subtests.
    levels: Vec<Level>,
    /// Name that a `# Subtest` comment gives to the following subtests.
    next_subtest_name: Option<String>,
    open: Option<OpenPoint>,
    /// How often each name occurred.
    names: HashMap<String, u32>,
    /// Whether the stream had what only TAP has: a plan, or `Bail out!`.
    is_certain: bool,
    is_incomplete: bool,
    notes: Notes,
}

#[derive(Debug, Default)]
struct Level {
    name: Option<String>,
    plan: Option<u64>,
    /// Why nothing runs, if the plan says so.
    skipped: Option<String>,
    seen: u64,
    numbers: Numbers,
    /// Whether a point of this level failed, which makes its parent point fail.
    failed: bool,
    /// Points whose parent's name is not known yet, by their own path.
    held: Vec<(String, OpenPoint)>,
}

/// The numbers of the points so far, in any order.
#[derive(Debug, Default)]
struct Numbers {
    /// All numbers up to this one occurred.
    contiguous: u64,
    /// Numbers that came before their turn, at most [`HELD_MAX`].
    early: BTreeSet<u64>,
    last: u64,
}

impl Numbers {
    /// Adds the next number; a point without one follows the previous. `false` for a repeated number.
    fn add(&mut self, number: Option<u64>) -> bool {
        let number = number.unwrap_or_else(|| self.last.saturating_add(1));
        self.last = number;
        let is_new = number > self.contiguous && self.early.len() < HELD_MAX && self.early.insert(number);
        while self.early.remove(&(self.contiguous.saturating_add(1))) {
            self.contiguous += 1;
        }
        is_new
    }
}

/// A point whose diagnostics may continue.
#[derive(Debug)]
struct OpenPoint {
    text: String,
    outcome: TestOutcome,
    why: String,
    diagnostics: Diagnostics,
}

impl TapParser {
    pub(crate) fn new(package: &str, paths: &WorkspacePaths) -> TapParser {
        TapParser {
            package: package.to_owned(),
            paths: paths.clone(),
            levels: vec![Level::default()],
            next_subtest_name: None,
            open: None,
            names: HashMap::new(),
            is_certain: false,
            is_incomplete: false,
            notes: Notes::default(),
        }
    }

    /// Reads the next line.
    pub(crate) fn line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let line = strip_ansi(line);
        let line = line.trim_end();
        if self.open.as_mut().is_some_and(|open| open.diagnostics.add_line(line)) {
            return;
        }
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let level = indent / INDENT;
        if !indent.is_multiple_of(INDENT) || level > DEPTH_MAX {
            return;
        }
        if let Some(name) = text.strip_prefix("# Subtest: ") {
            self.finish_point(events);
            self.handle_subtest_comment(level, name, events);
        } else if let Some(plan) = PLAN.as_ref().and_then(|plan| plan.captures(text)) {
            self.finish_point(events);
            self.enter_level(level, events);
            self.is_certain |= level == 0;
            if let Some(level) = self.levels.get_mut(level) {
                level.plan = plan[1].parse().ok();
                let is_skipped = level.plan == Some(0) && plan.name("skip").is_some();
                level.skipped = is_skipped.then(|| plan.name("why").map_or("", |why| why.as_str()).to_owned());
            }
        } else if let Some(reason) = text.strip_prefix("Bail out!") {
            self.finish_point(events);
            self.is_certain = true;
            self.mark_incomplete(format!("bailed out: {}", reason.trim()));
        } else if let Some(point) = POINT.as_ref().and_then(|point| point.captures(text)) {
            // A test may print an indented `ok`; the first point of subtests has a number.
            if level >= self.levels.len() && point.name("number").is_none() {
                return;
            }
            self.finish_point(events);
            let part = |name: &str| point.name(name).map_or("", |part| part.as_str()).trim();
            let text = part("text").replace("\\#", "#");
            // Deeper levels belong to this point.
            let echoes = self.leave_levels(level + 1, Some(text.as_str()).filter(|text| !text.is_empty()), events);
            self.enter_level(level, events);
            self.next_subtest_name = None;
            let own = part("number").parse().ok();
            let (number, is_new) = self.levels.get_mut(level).map_or((0, true), |level| {
                level.seen += 1;
                (level.seen, level.numbers.add(own))
            });
            if !is_new {
                self.mark_incomplete(format!("test {} is repeated or out of order", part("number")));
            }
            let outcome = match (part("not").is_empty(), part("directive").to_lowercase().as_str()) {
                (_, "skip") => TestOutcome::Skipped,
                (true, "todo") => TestOutcome::Xpassed,
                (false, "todo") => TestOutcome::Xfailed,
                (true, _) => TestOutcome::Passed,
                (false, _) => TestOutcome::Failed,
            };
            if let Some(level) = self.levels.get_mut(level) {
                level.failed |= outcome == TestOutcome::Failed;
            }
            let text = if text.is_empty() { format!("test {number}") } else { text };
            let diagnostics = Diagnostics::new(indent, echoes);
            self.open = Some(OpenPoint { text, outcome, why: part("why").to_owned(), diagnostics });
        }
    }

    /// Completes the stream. The exit status says how it ended.
    pub(crate) fn finish(&mut self, events: &mut Vec<RunnerEvent>) {
        self.finish_point(events);
        self.leave_levels(1, None, events);
        if let Some(whole) = self.levels.pop() {
            self.check_plan(&whole, "the plan");
            if let Some(why) = whole.skipped.filter(|_| whole.seen == 0) {
                let diagnostics = Diagnostics::new(0, false);
                let open = OpenPoint { text: ALL_TESTS.to_owned(), outcome: TestOutcome::Skipped, why, diagnostics };
                self.report(ALL_TESTS.to_owned(), open, events);
            }
        }
        self.levels.push(Level::default());
    }

    /// Whether the stream is certainly TAP.
    fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Whether something is missing, and the notes for a person.
    pub(crate) fn verdict(&self) -> (bool, &[String]) {
        (self.is_incomplete, &self.notes)
    }

    /// Handles a comment that names subtests: those of its own level if it is indented like them, else those below it.
    fn handle_subtest_comment(&mut self, level: usize, name: &str, events: &mut Vec<RunnerEvent>) {
        if level == self.levels.len() && self.next_subtest_name.is_none() {
            self.next_subtest_name = Some(name.to_owned());
            self.enter_level(level, events);
        } else {
            self.enter_level(level, events);
            self.next_subtest_name = Some(name.to_owned());
        }
    }

    /// Makes `level` the current one: closes deeper levels and opens missing ones.
    fn enter_level(&mut self, level: usize, events: &mut Vec<RunnerEvent>) {
        self.leave_levels(level + 1, None, events);
        while self.levels.len() <= level {
            self.levels.push(Level { name: self.next_subtest_name.take(), ..Level::default() });
        }
    }

    /// Closes `level` and deeper ones; `name` is that of their parent point. Returns whether a point of them failed.
    fn leave_levels(&mut self, level: usize, name: Option<&str>, events: &mut Vec<RunnerEvent>) -> bool {
        let mut failed = false;
        while self.levels.len() > level.max(1) {
            let Some(done) = self.levels.pop() else { break };
            failed |= done.failed;
            let own = name.filter(|_| self.levels.len() == level).map(str::to_owned).or(done.name.clone());
            let own = own.unwrap_or_else(|| "subtest".to_owned());
            self.check_plan(&done, &format!("the plan of {own}"));
            for (path, open) in done.held {
                self.report_or_hold(format!("{own}/{path}"), open, events);
            }
        }
        failed
    }

    fn check_plan(&mut self, level: &Level, what: &str) {
        match level.plan {
            Some(plan) if plan == level.seen && plan != level.numbers.contiguous => {
                self.mark_incomplete(format!("{what} is 1 to {plan}, and other numbers arrived"));
            }
            Some(plan) if plan == level.seen => {}
            Some(plan) => self.mark_incomplete(format!("{what} is {plan} test(s), and {} arrived", level.seen)),
            None => self.mark_incomplete(format!("{what} is missing")),
        }
    }

    fn mark_incomplete(&mut self, why: String) {
        self.is_incomplete = true;
        self.notes.add(why);
    }

    /// Reports the open point.
    fn finish_point(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(open) = self.open.take() else { return };
        self.report_or_hold(open.text.clone(), open, events);
    }

    /// Reports a point of the innermost remaining level, or holds it back.
    fn report_or_hold(&mut self, path: String, open: OpenPoint, events: &mut Vec<RunnerEvent>) {
        let inner = self.levels.get(1..).unwrap_or_default();
        let nameless = inner.iter().rposition(|level| level.name.is_none());
        let above = nameless.map_or(0, |at| at + 1);
        let names = inner.get(above..).unwrap_or_default().iter().filter_map(|level| level.name.as_deref());
        let path = names.chain([path.as_str()]).collect::<Vec<_>>().join("/");
        match nameless.and_then(|at| self.levels.get_mut(at + 1)).filter(|level| level.held.len() < HELD_MAX) {
            Some(level) => level.held.push((path, open)),
            None => self.report(path, open, events),
        }
    }

    fn report(&mut self, path: String, open: OpenPoint, events: &mut Vec<RunnerEvent>) {
        let known = self.names.len() < HELD_MAX || self.names.contains_key(&path);
        let count = if known { self.names.entry(path.clone()).or_default() } else { &mut 0 };
        *count += 1;
        let name = if *count > 1 { format!("{path} #{count}") } else { path };
        let id = TestId { package: self.package.clone(), name: name.clone() };
        let mut case = TestCase::new(id, name, open.outcome);
        open.diagnostics.explain(&mut case, &self.paths);
        if !open.why.is_empty() {
            case.message = case.message.or(Some(open.why));
        }
        events.push(RunnerEvent::TestFinished(Box::new(case.bounded())));
    }
}

#[cfg(test)]
mod tests;
