//! Reads stacks in the form of Python's `faulthandler`, in which proctor's own code in other runners prints them too:
//! `Thread 0x1 (most recent call first):`, then `  File "/a.py", line 3 in f` for each frame.

use crate::contract::StackOutput;
use crate::parsing::stack_frames::{Frame, Stack, attribute};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::hung_test::HungTest;

/// End of the line above a stack.
const TITLE_END: &str = "(most recent call first):";

/// The stacks in a text. One in which a frame is in a file of the runner is a test's.
pub(crate) fn read(text: &str, workspace: &str, is_runner: impl Fn(&str) -> bool) -> Vec<Stack> {
    let paths = WorkspacePaths::new(workspace);
    let mut found: Vec<Stack> = Vec::new();
    for line in text.lines() {
        if line.ends_with(TITLE_END) {
            found.push(Stack { title: line.trim().to_owned(), ..Stack::default() });
        } else if let (Some(stack), Some((path, number, function))) = (found.last_mut(), frame(line)) {
            stack.is_of_test |= is_runner(path);
            stack.frames.push(Frame::new(&paths, path, number, function));
        }
    }
    found
}

/// Where the running tests hang, by stacks on stderr. One with a frame in the runner's own file, whose path ends with
/// `runner_file`, belongs to the test whose file is in it, or to the one that runs.
pub(crate) fn hung_by_file(output: &StackOutput<'_>, runner_file: &str) -> Vec<HungTest> {
    let stacks = read(output.stderr, output.workspace, |path| path.ends_with(runner_file));
    attribute(&stacks, output.running, |test, stack| stack.is_in(&test.package))
}

/// `  File "/a.py", line 3 in f`.
fn frame(line: &str) -> Option<(&str, u32, &str)> {
    let (path, rest) = line.strip_prefix("  File \"")?.rsplit_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    Some((path, number.parse().ok()?, function))
}
