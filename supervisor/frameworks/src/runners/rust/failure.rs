//! Turns a failed test's output into a message with a place: panics, errors that a test returned, doctests.
//!
//! `assert_eq!(left, right)` gives its sides no meaning. PathContext left is the actual and right the expected value, the order in
//! which the standard library's documentation and most tests write them.

use crate::parsing::workspace_paths::WorkspacePaths;
use regex::Regex;
use std::sync::LazyLock;

/// First line of a panic since Rust 1.73, with the thread's number since 1.91.
static PANIC: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^thread '(.*)' (?:\(\d+\) )?panicked at (.+):(\d+):\d+:$").ok());

/// A place in a stack trace or in a compiler's message.
static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s+(?:at|-->) (.+):(\d+):\d+$").ok());

/// Parsed reason of a failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FailureReason {
    pub(super) message: Option<String>,
    pub(super) place: Option<(String, u32)>,
    pub(super) expected: Option<String>,
    pub(super) actual: Option<String>,
    pub(super) stack: Option<String>,
}

/// A panic as the default hook prints it.
#[derive(Debug)]
struct Panic {
    thread: String,
    place: Option<(String, u32)>,
    message: String,
    stack: Vec<String>,
}

/// Resolves printed paths: the workspace's root, and the directory in it in which the runner runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathContext<'a> {
    pub(super) paths: &'a WorkspacePaths,
    pub(super) dir: &'a str,
}

impl PathContext<'_> {
    fn place(self, file: &str, line: &str) -> Option<(String, u32)> {
        Some((self.paths.relative_to(self.dir, file)?, line.parse().ok()?))
    }
}

/// Finds why a test failed that printed `output`; `harness_message` is the harness's own message about it.
pub(super) fn from_test(
    name: &str,
    output: &str,
    harness_message: Option<&str>,
    here: PathContext<'_>,
) -> FailureReason {
    let panic = decisive_panic(name, panics(output, here));
    let mut failure = match panic {
        Some(panic) => from_panic(panic),
        None => FailureReason { message: returned_error(output), ..FailureReason::default() },
    };
    if let Some(message) = harness_message.map(str::to_owned).or_else(|| harness_note(output)) {
        apply_harness_message(&message, here, &mut failure);
    }
    failure
}

/// Finds why a doctest failed. A panic's line is a line of rustdoc's generated program, so the place is the start of the
/// doctest, unless the compiler names a better one.
pub(super) fn from_doctest(name: &str, output: &str, here: PathContext<'_>) -> FailureReason {
    let begins = || {
        let (file, rest) = name.split_once(" - ")?;
        // The blank is trimmed because a doctest of the crate itself has no item name in front of its line.
        let line = rest.rsplit_once(super::binary_names::DOCTEST_LINE.trim_start())?.1.split(')').next()?;
        here.place(file, line)
    };
    if let Some((error, rest)) = compiler_error(output) {
        let place = rest.lines().find_map(|line| place(line, here));
        return FailureReason { message: Some(error), place: place.or_else(begins), ..FailureReason::default() };
    }
    let failure = panics(output, here).pop().map(from_panic).unwrap_or_default();
    FailureReason { place: begins(), message: failure.message.clone().or_else(|| first_line(output)), ..failure }
}

/// Finds why a test of another harness failed; such a test need not panic.
pub(super) fn from_other_harness(name: &str, output: &str, here: PathContext<'_>) -> FailureReason {
    let failure = from_test(name, output, None, here);
    FailureReason { message: failure.message.clone().or_else(|| first_line(output)), ..failure }
}

/// Finds why a build script failed: its panic's message and place, else its last line.
pub(super) fn from_script(output: &str, here: PathContext<'_>) -> FailureReason {
    let panic = decisive_panic("main", panics(output, here));
    let last = || output.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    let (message, place) = match panic {
        Some(panic) => (Some(panic.message.trim_end().to_owned()).filter(|words| !words.is_empty()), panic.place),
        None => (last(), None),
    };
    FailureReason { message, place, ..FailureReason::default() }
}

fn first_line(output: &str) -> Option<String> {
    output.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

fn compiler_error(output: &str) -> Option<(String, &str)> {
    if !output.contains("Couldn't compile the test") {
        return None;
    }
    let at = output.find("error")?;
    let (first, rest) = output[at..].split_once('\n')?;
    let message = first.split_once(": ").map_or(first, |(_, message)| message);
    Some((message.to_owned(), rest))
}

fn place(line: &str, here: PathContext<'_>) -> Option<(String, u32)> {
    let found = PLACE.as_ref()?.captures(line)?;
    here.place(&found[1], &found[2])
}

fn panics(output: &str, here: PathContext<'_>) -> Vec<Panic> {
    #[derive(PartialEq)]
    enum Part {
        Message,
        Stack,
        Over,
    }
    let (mut panics, mut part): (Vec<Panic>, Part) = (Vec::new(), Part::Over);
    for line in output.lines() {
        if let Some(found) = PANIC.as_ref().and_then(|pattern| pattern.captures(line)) {
            let place = here.place(&found[2], &found[3]);
            panics.push(Panic { thread: found[1].to_owned(), place, message: String::new(), stack: Vec::new() });
            part = Part::Message;
            continue;
        }
        let Some(panic) = panics.last_mut() else { continue };
        match part {
            Part::Message if line == "stack backtrace:" => part = Part::Stack,
            Part::Message | Part::Stack if line.starts_with("note: ") => part = Part::Over,
            Part::Message => {
                panic.message.push_str(line);
                panic.message.push('\n');
            }
            Part::Stack if line.starts_with(' ') => panic.stack.push(line.to_owned()),
            Part::Stack | Part::Over => {}
        }
    }
    for panic in &mut panics {
        // For a panic in a dependency, the first frame in the project is the closest known place.
        panic.place = panic.place.take().or_else(|| panic.stack.iter().find_map(|line| place(line, here)));
    }
    panics
}

/// The panic that failed the test: the last one of its own thread, which is called `main` when tests run one at a time. If
/// that one only joins a thread that panicked, the other thread's.
fn decisive_panic(name: &str, mut panics: Vec<Panic>) -> Option<Panic> {
    let own = panics.iter().rposition(|panic| panic.thread == name || panic.thread == "main");
    let at = own.or_else(|| panics.len().checked_sub(1))?;
    let only_joins = panics[at].message.contains("on an `Err` value: Any { .. }");
    let other = panics[..at].iter().rposition(|panic| panic.thread != panics[at].thread);
    Some(panics.swap_remove(other.filter(|_| only_joins).unwrap_or(at)))
}

fn from_panic(panic: Panic) -> FailureReason {
    let stack = (!panic.stack.is_empty()).then(|| panic.stack.join("\n"));
    let message = panic.message.trim_end();
    let (message, sides) = sides(message).map_or((message, None), |(head, left, right)| (head, Some((left, right))));
    let (actual, expected) = sides.map(|(left, right)| (left.to_owned(), right.to_owned())).unzip();
    FailureReason {
        message: Some(message.to_owned()).filter(|text| !text.is_empty()),
        place: panic.place,
        expected,
        actual,
        stack,
    }
}

/// The two sides of an equality or match assertion.
fn sides(message: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = message.split_once("\n  left: ")?;
    let (left, right) = rest.split_once("\n right: ")?;
    ["assertion `left == right`", "assertion `left matches right`"]
        .iter()
        .any(|words| head.starts_with(words))
        .then_some((head, left, right))
}

/// The error that a test returned: it is the last thing printed.
fn returned_error(output: &str) -> Option<String> {
    let at = if output.starts_with("Error: ") { 0 } else { output.rfind("\nError: ")? + 1 };
    Some(output[at..].trim_end().to_owned())
}

/// The harness's note in libtest's text output, which is all that nextest sees.
fn harness_note(output: &str) -> Option<String> {
    let notes = ["note: test did not panic as expected", "note: panic did not contain expected string"];
    let at = notes.iter().find_map(|note| output.rfind(note))?;
    let note = output[at..].trim_start_matches("note: ");
    Some(note.split("\n\n").next().unwrap_or(note).to_owned())
}

/// Applies the harness's message about a test that should have panicked, or ran for too long.
fn apply_harness_message(harness_message: &str, here: PathContext<'_>, failure: &mut FailureReason) {
    let (first, rest) = harness_message.split_once('\n').unwrap_or((harness_message, ""));
    let (message, at) = first.rsplit_once(" at ").unwrap_or((first, ""));
    let found = at.rsplitn(3, ':').collect::<Vec<_>>();
    let is_place = found.len() == 3 && found[1].parse::<u32>().is_ok();
    failure.message = Some(if is_place { message } else { first }.to_owned());
    if is_place {
        failure.place = here.place(found[2], found[1]);
    }
    let value = |label: &str| {
        let line = rest.lines().find_map(|line| line.trim_start().strip_prefix(label))?;
        Some(line.trim().to_owned())
    };
    failure.actual = value("panic message:");
    failure.expected = value("expected substring:");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, output: &str, harness_message: Option<&str>) -> FailureReason {
        from_test(name, output, harness_message, PathContext { paths: &WorkspacePaths::new("/ws"), dir: "sub" })
    }

    #[test]
    fn reads_place_and_sides_of_an_assertion() {
        let output = "out\n\nthread 't::ne' (7) panicked at src/lib.rs:28:58:\nassertion `left == right` failed: sum\n  left: \
                      2\n right: 3\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let failure = parse("t::ne", output, None);
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 28)));
        assert_eq!(failure.message.as_deref(), Some("assertion `left == right` failed: sum"));
        assert_eq!((failure.actual.as_deref(), failure.expected.as_deref()), (Some("2"), Some("3")));
        let unequal = output.replace("==", "!=");
        assert_eq!(parse("t::ne", &unequal, None).message.unwrap().lines().count(), 3);
    }

    #[test]
    fn blames_the_thread_that_panicked_first_when_the_test_only_joined_it() {
        let output = "thread '<unnamed>' panicked at src/a.rs:1:1:\nin thread\nnote: run with x\n\nthread 't' panicked at \
                      src/a.rs:2:2:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n";
        assert_eq!(parse("t", output, None).message.as_deref(), Some("in thread"));
        let caught = output.replace("called `Result::unwrap()` on an `Err` value: Any { .. }", "another");
        assert_eq!(parse("t", &caught, None).message.as_deref(), Some("another"));
    }

    #[test]
    fn places_a_panic_in_a_dependency_where_the_project_called_it() {
        let output = "thread 'main' (1) panicked at /home/u/.cargo/registry/src/x/y.rs:9:9:\nbad\nstack backtrace:\n   0: y::f\n             \
                      at /home/u/.cargo/registry/src/x/y.rs:9:9\n   1: t::f\n             at ./src/lib.rs:3:5\nnote: z\n";
        let failure = parse("t", output, None);
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 3)));
        assert_eq!(failure.stack.unwrap().lines().count(), 4);
    }

    #[test]
    fn the_harness_message_wins() {
        let failure = parse("t", "", Some("test did not panic as expected at src/lib.rs:33:32"));
        assert_eq!(failure.message.as_deref(), Some("test did not panic as expected"));
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 33)));
        let harness_message =
            "panic did not contain expected string\n      panic message: \"x\"\n expected substring: \"yy\"";
        let failure = parse("t", "thread 't' panicked at src/lib.rs:3:3:\nx\n", Some(harness_message));
        assert_eq!(failure.message.as_deref(), Some("panic did not contain expected string"));
        assert_eq!((failure.actual.as_deref(), failure.expected.as_deref()), (Some("\"x\""), Some("\"yy\"")));
        assert_eq!(failure.place.unwrap().1, 3);
    }

    #[test]
    fn a_returned_error_is_the_message() {
        assert_eq!(parse("t", "x\nError: \"bad\"\n", None).message.as_deref(), Some("Error: \"bad\""));
        assert_eq!(parse("t", "", None), FailureReason::default());
    }

    #[test]
    fn places_a_doctest_where_it_begins_or_where_the_compiler_says() {
        let here = PathContext { paths: &WorkspacePaths::new("/ws"), dir: "" };
        let name = "src/lib.rs - add (line 18)";
        let output = "Test executable failed (exit status: 101).\n\nstderr:\n\nthread 'main' (1) panicked at src/lib.rs:5:1:\nbad\n";
        let failure = from_doctest(name, output, here);
        assert_eq!((failure.message.as_deref(), failure.place), (Some("bad"), Some(("src/lib.rs".to_owned(), 18))));
        let failure = from_doctest("src/lib.rs - (line 2)", output, here);
        assert_eq!(failure.place, Some(("src/lib.rs".to_owned(), 2)), "of the crate itself");
        let output = "error[E0308]: mismatched types\n  --> src/lib.rs:23:13\n   |\nCouldn't compile the test.\n";
        let failure = from_doctest(name, output, here);
        assert_eq!(failure.message.as_deref(), Some("mismatched types"));
        assert_eq!(failure.place, Some(("src/lib.rs".to_owned(), 23)));
        let failure = from_doctest(name, "Test compiled successfully, but it's marked `compile_fail`.\n", here);
        assert!(failure.message.unwrap().starts_with("Test compiled"));
    }
}
