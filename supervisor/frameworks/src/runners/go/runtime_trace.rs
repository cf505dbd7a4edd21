//! Reads the Go runtime's crash output (panics, fatal errors) and the race detector's reports.

use super::output_buffer::OutputLine;
use crate::parsing::workspace_paths::WorkspacePaths;
use regex::Regex;
use std::sync::LazyLock;

/// Most lines of a panic's message.
const MESSAGE_LINES_MAX: usize = 40;

/// `\t/path/file.go:12 +0x1f`, the second line of a frame.
static FRAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s+(?P<file>/[^:]+\.\w+):(?P<line>\d+)(?: \+0x[0-9a-f]+)?\s*$").ok());

/// A crash or a data race.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuntimeTrace {
    pub(super) message: String,
    /// File, relative to the workspace, and line of the first frame in the workspace's own code.
    pub(super) position: Option<(String, u32)>,
    pub(super) stack: String,
}

/// The first panic or fatal error in `lines`: its message, and the stacks that follow.
pub(super) fn find_crash(lines: &[OutputLine], paths: &WorkspacePaths) -> Option<RuntimeTrace> {
    let last_stack = lines.iter().rposition(|line| is_goroutine(&line.text))?;
    let at = lines[..last_stack]
        .iter()
        .position(|line| line.text.starts_with("panic: ") || line.text.starts_with("fatal error: "))?;
    let stack_at = at + 1 + lines[at + 1..].iter().position(|line| is_goroutine(&line.text))?;
    let mut message: Vec<&str> = Vec::new();
    for line in &lines[at..stack_at] {
        let text = line.text.trim();
        // A re-raised panic repeated, and the address of a fault, add nothing.
        if text.is_empty() || text.starts_with("[signal ") || !message.is_empty() && text.starts_with("panic: ") {
            break;
        }
        if message.len() < MESSAGE_LINES_MAX {
            message.push(text.trim_end_matches(" [recovered, repanicked]").trim_end_matches(" [recovered]"));
        }
    }
    let stack = join(&lines[stack_at..]);
    let position = first_own_frame(&lines[stack_at..], paths);
    Some(RuntimeTrace { message: message.join("\n"), position, stack })
}

/// The first data race in `lines`.
pub(super) fn find_race(lines: &[OutputLine], paths: &WorkspacePaths) -> Option<RuntimeTrace> {
    let at = lines.iter().position(|line| line.text == "WARNING: DATA RACE")?;
    let length = lines[at..].iter().position(|line| line.text.starts_with("=======")).unwrap_or(lines.len() - at);
    let report = &lines[at..at + length];
    let position = first_own_frame(report, paths);
    Some(RuntimeTrace { message: "race detected during execution of test".to_owned(), position, stack: join(report) })
}

fn is_goroutine(text: &str) -> bool {
    text.starts_with("goroutine ") && text.contains(" [")
}

fn join(lines: &[OutputLine]) -> String {
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    texts.join("\n").trim_end().to_owned()
}

fn first_own_frame(lines: &[OutputLine], paths: &WorkspacePaths) -> Option<(String, u32)> {
    lines.iter().find_map(|line| {
        let found = FRAME.as_ref()?.captures(&line.text)?;
        let file = paths.relative(&found["file"]).filter(|file| !file.split('/').any(|part| part == "vendor"))?;
        Some((file, found["line"].parse().ok()?))
    })
}
