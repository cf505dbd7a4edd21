//! Stacks that a runner printed at the deadline: as texts, with the project's own frames, and attributed to running tests.

use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::HUNG_TESTS_MAX;
use proctor_core::hung_test::HungTest;
use proctor_core::test_case::TestId;
use std::fmt::Write as _;

/// Most frames of one stack that are shown.
const FRAMES_SHOWN_MAX: usize = 40;

/// Most frames shown of a stack without a frame of the project: what it waits for is at its inner end.
const FOREIGN_FRAMES_SHOWN_MAX: usize = 12;

/// Most stacks of other threads shown below a test's own: what it waits for may be there.
const OTHERS_SHOWN_MAX: usize = 4;

/// Directories of installed packages, whose files are not the project's own wherever they are.
const INSTALLED: [&str; 6] = ["site-packages", "dist-packages", "node_modules", "vendor", "gems", ".yarn"];

/// One frame of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Path as the runner printed it; empty if it printed none.
    pub(crate) path: String,
    pub(crate) line: u32,
    pub(crate) function: String,
    /// The path relative to the workspace, if the file is the project's own.
    pub(crate) own: Option<String>,
}

impl Frame {
    pub(crate) fn new(paths: &WorkspacePaths, path: &str, line: u32, function: &str) -> Frame {
        let is_foreign = |part: &str| INSTALLED.contains(&part) || part == "..";
        let own = paths.relative(path).filter(|file| !file.split('/').any(is_foreign));
        Frame { path: path.to_owned(), line, function: function.to_owned(), own }
    }

    /// `a/b.py:3 in f`; of files outside of the project only the name.
    fn write(&self, text: &mut String) {
        let file = self.own.as_deref().unwrap_or_else(|| self.path.rsplit('/').next().unwrap_or_default());
        let place = if file.is_empty() { String::new() } else { format!("{file}:{}", self.line) };
        let _ = match (place.is_empty(), self.function.is_empty()) {
            (false, false) => writeln!(text, "{place} in {}", self.function),
            _ => writeln!(text, "{place}{}", self.function),
        };
    }
}

/// The stack of one thread or goroutine, innermost frame first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stack {
    /// What the runner printed above it: `goroutine 8 [chan receive]:`.
    pub(crate) title: String,
    pub(crate) frames: Vec<Frame>,
    /// Whether the runner's own frames show that it carries out a test.
    pub(crate) is_of_test: bool,
}

impl Stack {
    /// File and line of the innermost frame of the project.
    pub(crate) fn place(&self) -> Option<(&str, u32)> {
        self.frames.iter().find_map(|frame| Some((frame.own.as_deref()?, frame.line)))
    }

    /// Whether a frame of the project is in this file.
    pub(crate) fn is_in(&self, file: &str) -> bool {
        self.frames.iter().any(|frame| frame.own.as_deref() == Some(file))
    }

    /// Frames up to the outermost of the project: what is outside of it is the runner's, and the same for all tests.
    fn write(&self, text: &mut String) {
        let outermost = self.frames.iter().rposition(|frame| frame.own.is_some());
        let shown = outermost.map_or(FOREIGN_FRAMES_SHOWN_MAX, |at| (at + 1).min(FRAMES_SHOWN_MAX));
        self.frames.iter().take(shown).for_each(|frame| frame.write(text));
    }
}

/// The running tests whose stack is known beyond doubt. `belongs` says whether a test's stack could be this one.
///
/// Of several stacks that a test could have, all must be at the same place, and no more tests than stacks may claim them.
/// If nothing names a test, a lone running test has the lone stack of a test.
pub(crate) fn attribute(
    stacks: &[Stack],
    running: &[TestId],
    belongs: impl Fn(&TestId, &Stack) -> bool,
) -> Vec<HungTest> {
    let tests: Vec<&TestId> = running.iter().filter(|test| !has_running_subtest(test, running)).collect();
    let of_tests: Vec<&Stack> = stacks.iter().filter(|stack| stack.is_of_test && !stack.frames.is_empty()).collect();
    let claimed = |test: &TestId| of_tests.iter().copied().filter(|stack| belongs(test, stack)).collect::<Vec<_>>();
    let known = |test: &TestId| {
        let own = claimed(test);
        if let ([lone], [_]) = (of_tests.as_slice(), tests.as_slice()) {
            return Some(*lone);
        }
        let first = own.first()?;
        let claimants = tests.iter().filter(|other| own.iter().any(|stack| belongs(other, stack))).count();
        let are_alike = own.iter().all(|stack| stack.place() == first.place());
        (are_alike && claimants <= own.len()).then_some(*first)
    };
    let others: Vec<&Stack> = stacks.iter().filter(|stack| !stack.is_of_test && stack.place().is_some()).collect();
    let hung = tests.iter().filter_map(|test| Some(hung_test(test, known(test)?, &others)));
    hung.take(HUNG_TESTS_MAX).collect()
}

/// The entry of a test without a stack: the place where it is declared. `note` says what the place is.
pub(crate) fn declared_test(test: &TestId, file: &str, line: u32, note: &str) -> HungTest {
    let stack = format!("{file}:{line} in {}\n{note}", test.name);
    HungTest { test: test.clone(), file: Some(file.to_owned()), line: Some(line), stack }.bounded()
}

/// Whether a subtest of the test runs, for which the test only waits.
fn has_running_subtest(test: &TestId, running: &[TestId]) -> bool {
    running.iter().any(|other| is_part(other, test))
}

/// Whether a test is a part of another one: a subtest.
pub(crate) fn is_part(id: &TestId, whole: &TestId) -> bool {
    let rest = id.name.strip_prefix(whole.name.as_str());
    id.package == whole.package && rest.is_some_and(|rest| rest.starts_with('/'))
}

fn hung_test(test: &TestId, stack: &Stack, others: &[&Stack]) -> HungTest {
    let mut text = String::new();
    stack.write(&mut text);
    for other in others.iter().take(OTHERS_SHOWN_MAX) {
        let _ = writeln!(text, "{}", other.title);
        other.write(&mut text);
    }
    let (file, line) = stack.place().unzip();
    let file = file.map(str::to_owned);
    HungTest { test: test.clone(), file, line, stack: text.trim_end().to_owned() }.bounded()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str) -> TestId {
        TestId { package: "p".to_owned(), name: name.to_owned() }
    }

    fn stack(function: &str, line: u32) -> Stack {
        let paths = WorkspacePaths::new("/w");
        let frames = vec![
            Frame::new(&paths, "/usr/lib/time.py", 1, "sleep"),
            Frame::new(&paths, "/w/a.py", line, function),
            Frame::new(&paths, "/w/venv/site-packages/_pytest/python.py", 9, "call"),
        ];
        Stack { title: "thread:".to_owned(), frames, is_of_test: true }
    }

    fn hung(stacks: &[Stack], running: &[TestId]) -> Vec<(String, Option<u32>)> {
        let belongs =
            |test: &TestId, stack: &Stack| stack.frames.iter().any(|frame| test.name.starts_with(&frame.function));
        attribute(stacks, running, belongs).into_iter().map(|hung| (hung.test.name, hung.line)).collect()
    }

    #[test]
    fn shows_the_innermost_frame_of_the_project_and_nothing_of_the_runner() {
        let found = attribute(&[stack("test_a", 3)], &[test("test_a")], |_, _| true);
        assert_eq!((found[0].file.as_deref(), found[0].line), (Some("a.py"), Some(3)));
        assert_eq!(found[0].stack, "time.py:1 in sleep\na.py:3 in test_a");
    }

    #[test]
    fn a_lone_running_test_has_the_lone_stack_whatever_its_functions_are_called() {
        assert_eq!(hung(&[stack("a_fixture", 3)], &[test("test_a")]), [("test_a".to_owned(), Some(3))]);
    }

    #[test]
    fn a_parent_only_waits_for_its_running_subtest() {
        assert_eq!(hung(&[stack("T", 3)], &[test("T"), test("T/sub")]), [("T/sub".to_owned(), Some(3))]);
    }

    #[test]
    fn claims_nothing_where_stacks_cannot_be_told_apart() {
        let running = [test("t[1]"), test("t[2]")];
        assert_eq!(hung(&[stack("t", 3), stack("t", 4)], &running), [], "different places");
        assert_eq!(hung(&[stack("t", 3)], &running), [], "a stack for one of two");
        assert_eq!(hung(&[stack("t", 3), stack("t", 3)], &running).len(), 2, "the same place");
        assert_eq!(hung(&[stack("other", 3), stack("t", 4)], &[test("unknown"), test("t")]).len(), 1);
        assert_eq!(hung(&[], &running), []);
    }

    #[test]
    fn other_threads_of_the_project_come_below_the_tests_own() {
        let other = Stack { is_of_test: false, title: "goroutine 8:".to_owned(), ..stack("worker", 7) };
        let found = attribute(&[other, stack("t", 3)], &[test("t")], |_, _| true);
        assert!(
            found[0].stack.ends_with("a.py:3 in t\ngoroutine 8:\ntime.py:1 in sleep\na.py:7 in worker"),
            "{found:?}"
        );
    }
}
