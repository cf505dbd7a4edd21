//! The Test Anything Protocol, versions 12 to 14 (<https://testanything.org/tap-version-14-specification.html>): a plan,
//! test points with directives, diagnostics in YAML or comments, subtests by indentation. Must not know what writes it.
//!
//! A point is told when the next line shows that nothing more belongs to it. A subtest is called `parent/child`; until its
//! parent's name is known, it is held back. What does not keep its plan, has none, counts a point twice, or bails out is cut
//! off.

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

/// Deepest subtests that are told apart.
const DEPTH_MAX: usize = 16;

/// Most subtests that are held back for their parent's name, and most names that are known to have come.
const HELD_MAX: usize = 10_000;

/// What stands for the tests of a program that skips all of them: `1..0 # SKIP why`.
const ALL: &str = "all tests";

/// Blanks by which a subtest is indented.
const INDENT: usize = 4;

static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)^TAP version 1[2-4]\s*$").ok());
static PLAN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^1\.\.(\d+)\s*(?:#\s*(?P<skip>skip\S*)?\s*(?P<why>.*))?$").ok());
static POINT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(?P<not>not )?ok\b(?:\s+(?P<number>\d+)\b)?(?:\s+-)?\s*(?P<text>.*?)(?:\s*#\s*(?P<directive>skip|todo)\S*\s*(?P<why>.*))?$").ok()
});

/// Whether a stream that begins with this line is TAP.
pub(crate) fn starts_stream(line: &str) -> bool {
    [&VERSION, &PLAN].into_iter().any(|regex| regex.as_ref().is_some_and(|regex| regex.is_match(line)))
}

/// The stream so far.
#[derive(Debug)]
pub(crate) struct TapParser {
    package: String,
    paths: WorkspacePaths,
    /// The stream itself, and the subtests that the current line is within.
    levels: Vec<Level>,
    /// A name that a comment gives to the subtests that come next.
    announced: Option<String>,
    open: Option<OpenPoint>,
    /// How often each name came.
    names: HashMap<String, u32>,
    /// Whether it had what nothing but TAP has: a plan, or the words that give up.
    is_certain: bool,
    cut_off: bool,
    notes: Notes,
}

#[derive(Debug, Default)]
struct Level {
    name: Option<String>,
    plan: Option<u64>,
    /// Why there is nothing to run, if the plan says so.
    skipped: Option<String>,
    seen: u64,
    numbers: Numbers,
    /// Whether a point of it failed: the point that it belongs to fails for that reason.
    failed: bool,
    /// Points whose parent's name is not known, by their own path.
    held: Vec<(String, OpenPoint)>,
}

/// The numbers of the points so far, in whatever order they come.
#[derive(Debug, Default)]
struct Numbers {
    /// All up to this one came.
    whole: u64,
    /// These came before their turn, at most [`HELD_MAX`].
    early: BTreeSet<u64>,
    last: u64,
}

impl Numbers {
    /// Takes in the next point's; one without a number follows the one before it. Whether it is its first.
    fn take_in(&mut self, number: Option<u64>) -> bool {
        let number = number.unwrap_or_else(|| self.last.saturating_add(1));
        self.last = number;
        let is_new = number > self.whole && self.early.len() < HELD_MAX && self.early.insert(number);
        while self.early.remove(&(self.whole.saturating_add(1))) {
            self.whole += 1;
        }
        is_new
    }
}

/// A point to which something may still belong.
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
            announced: None,
            open: None,
            names: HashMap::new(),
            is_certain: false,
            cut_off: false,
            notes: Notes::default(),
        }
    }

    /// The next line.
    pub(crate) fn line(&mut self, line: &str, events: &mut Vec<RunnerEvent>) {
        let line = strip_ansi(line);
        let line = line.trim_end();
        if self.open.as_mut().is_some_and(|open| open.diagnostics.take_in(line)) {
            return;
        }
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        let level = indent / INDENT;
        if !indent.is_multiple_of(INDENT) || level > DEPTH_MAX {
            return;
        }
        if let Some(name) = text.strip_prefix("# Subtest: ") {
            self.tell(events);
            self.announce(level, name, events);
        } else if let Some(plan) = PLAN.as_ref().and_then(|plan| plan.captures(text)) {
            self.tell(events);
            self.enter(level, events);
            self.is_certain |= level == 0;
            if let Some(level) = self.levels.get_mut(level) {
                level.plan = plan[1].parse().ok();
                let is_skipped = level.plan == Some(0) && plan.name("skip").is_some();
                level.skipped = is_skipped.then(|| plan.name("why").map_or("", |why| why.as_str()).to_owned());
            }
        } else if let Some(reason) = text.strip_prefix("Bail out!") {
            self.tell(events);
            self.is_certain = true;
            self.give_up(format!("bailed out: {}", reason.trim()));
        } else if let Some(point) = POINT.as_ref().and_then(|point| point.captures(text)) {
            // What a test prints may be indented and begin with `ok`; the first point of subtests has its number.
            if level >= self.levels.len() && point.name("number").is_none() {
                return;
            }
            self.tell(events);
            let part = |name: &str| point.name(name).map_or("", |part| part.as_str()).trim();
            let text = part("text").replace("\\#", "#");
            // What was deeper belongs to this point.
            let echoes = self.leave(level + 1, Some(text.as_str()).filter(|text| !text.is_empty()), events);
            self.enter(level, events);
            self.announced = None;
            let own = part("number").parse().ok();
            let (number, is_new) = self.levels.get_mut(level).map_or((0, true), |level| {
                level.seen += 1;
                (level.seen, level.numbers.take_in(own))
            });
            if !is_new {
                self.give_up(format!("test {} came again, or out of place", part("number")));
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

    /// The stream ended; how it did is the exit status's to say.
    pub(crate) fn finish(&mut self, events: &mut Vec<RunnerEvent>) {
        self.tell(events);
        self.leave(1, None, events);
        if let Some(whole) = self.levels.pop() {
            self.check(&whole, "the plan");
            if let Some(why) = whole.skipped.filter(|_| whole.seen == 0) {
                let diagnostics = Diagnostics::new(0, false);
                let open = OpenPoint { text: ALL.to_owned(), outcome: TestOutcome::Skipped, why, diagnostics };
                self.push(ALL.to_owned(), open, events);
            }
        }
        self.levels.push(Level::default());
    }

    /// Whether it is TAP beyond doubt.
    fn is_certain(&self) -> bool {
        self.is_certain
    }

    /// Whether something is missing, and what a person should know.
    pub(crate) fn verdict(&self) -> (bool, &[String]) {
        (self.cut_off, &self.notes)
    }

    /// A comment names subtests: those of its own level when it stands where they do, else those below it.
    fn announce(&mut self, level: usize, name: &str, events: &mut Vec<RunnerEvent>) {
        if level == self.levels.len() && self.announced.is_none() {
            self.announced = Some(name.to_owned());
            self.enter(level, events);
        } else {
            self.enter(level, events);
            self.announced = Some(name.to_owned());
        }
    }

    /// A line of that level: deeper ones are done, and it may be the first of its own.
    fn enter(&mut self, level: usize, events: &mut Vec<RunnerEvent>) {
        self.leave(level + 1, None, events);
        while self.levels.len() <= level {
            self.levels.push(Level { name: self.announced.take(), ..Level::default() });
        }
    }

    /// Levels from `level` on are done; `name` is that of the point that they belong to.
    /// Whether a point of them failed.
    fn leave(&mut self, level: usize, name: Option<&str>, events: &mut Vec<RunnerEvent>) -> bool {
        let mut failed = false;
        while self.levels.len() > level.max(1) {
            let Some(done) = self.levels.pop() else { break };
            failed |= done.failed;
            let own = name.filter(|_| self.levels.len() == level).map(str::to_owned).or(done.name.clone());
            let own = own.unwrap_or_else(|| "subtest".to_owned());
            self.check(&done, &format!("the plan of {own}"));
            for (path, open) in done.held {
                self.place(format!("{own}/{path}"), open, events);
            }
        }
        failed
    }

    fn check(&mut self, level: &Level, what: &str) {
        match level.plan {
            Some(plan) if plan == level.seen && plan != level.numbers.whole => {
                self.give_up(format!("{what} is 1 to {plan}, and other numbers came"));
            }
            Some(plan) if plan == level.seen => {}
            Some(plan) => self.give_up(format!("{what} is {plan} test(s), and {} came", level.seen)),
            None => self.give_up(format!("{what} is missing")),
        }
    }

    fn give_up(&mut self, why: String) {
        self.cut_off = true;
        self.notes.add(why);
    }

    /// Nothing more belongs to the open point.
    fn tell(&mut self, events: &mut Vec<RunnerEvent>) {
        let Some(open) = self.open.take() else { return };
        self.place(open.text.clone(), open, events);
    }

    /// Tells a point of the innermost level that is left, or holds it back.
    fn place(&mut self, path: String, open: OpenPoint, events: &mut Vec<RunnerEvent>) {
        let inner = self.levels.get(1..).unwrap_or_default();
        let nameless = inner.iter().rposition(|level| level.name.is_none());
        let above = nameless.map_or(0, |at| at + 1);
        let names = inner.get(above..).unwrap_or_default().iter().filter_map(|level| level.name.as_deref());
        let path = names.chain([path.as_str()]).collect::<Vec<_>>().join("/");
        match nameless.and_then(|at| self.levels.get_mut(at + 1)).filter(|level| level.held.len() < HELD_MAX) {
            Some(level) => level.held.push((path, open)),
            None => self.push(path, open, events),
        }
    }

    fn push(&mut self, path: String, open: OpenPoint, events: &mut Vec<RunnerEvent>) {
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
