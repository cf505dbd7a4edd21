//! Reads stacks in the form of Python's `faulthandler`, in which proctor's own code in other runners prints them too:
//! `Thread 0x1 (most recent call first):`, then `  File "/a.py", line 3 in f` for each frame.

use crate::parsing::stack_frames::{Frame, Stack};
use crate::parsing::workspace_paths::WorkspacePaths;

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

/// `  File "/a.py", line 3 in f`.
fn frame(line: &str) -> Option<(&str, u32, &str)> {
    let (path, rest) = line.strip_prefix("  File \"")?.rsplit_once("\", line ")?;
    let (number, function) = rest.split_once(" in ")?;
    Some((path, number.parse().ok()?, function))
}
