//! Turns what a failed test printed into a message with a place: panics, errors that a test returned, doctests. Must not
//! know which test it was, or how output came.
//!
//! `assert_eq!(left, right)` gives its sides no meaning. Here the left one is what came and the right one what was wanted,
//! the order in which the standard library's documentation and most tests write them.

use crate::parsing::workspace_paths::WorkspacePaths;
use regex::Regex;
use std::sync::LazyLock;

/// Since Rust 1.73, with the thread's number since 1.91.
static PANIC: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^thread '(.*)' (?:\(\d+\) )?panicked at (.+):(\d+):\d+:$").ok());

/// A place in a trace or in what a compiler says.
static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\s+(?:at|-->) (.+):(\d+):\d+$").ok());

/// What is read out of a failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Failure {
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

/// Where the workspace is, and in which of its directories the runner runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Here<'a> {
    pub(super) paths: &'a WorkspacePaths,
    pub(super) dir: &'a str,
}

impl Here<'_> {
    fn place(self, file: &str, line: &str) -> Option<(String, u32)> {
        Some((self.paths.relative_to(self.dir, file)?, line.parse().ok()?))
    }
}

/// Why a test failed that printed `output`. `said` is what the harness itself says about it.
pub(super) fn of_test(name: &str, output: &str, said: Option<&str>, here: Here<'_>) -> Failure {
    let panic = blamed(name, panics(output, here));
    let mut failure = match panic {
        Some(panic) => of_panic(panic),
        None => Failure { message: returned_error(output), ..Failure::default() },
    };
    if let Some(said) = said.map(str::to_owned).or_else(|| harness_note(output)) {
        of_harness(&said, here, &mut failure);
    }
    failure
}

/// Why a doctest failed. Lines of its panics are those of a program that rustdoc wrote, so its place is where it begins,
/// except where the compiler names a better one.
pub(super) fn of_doctest(name: &str, output: &str, here: Here<'_>) -> Failure {
    let begins = || {
        let (file, rest) = name.split_once(" - ")?;
        // Without the blank: what documents the crate itself has no name of an item in front of its line.
        let line = rest.rsplit_once(super::names::DOCTEST_LINE.trim_start())?.1.split(')').next()?;
        here.place(file, line)
    };
    if let Some((error, rest)) = compiler_error(output) {
        let place = rest.lines().find_map(|line| place(line, here));
        return Failure { message: Some(error), place: place.or_else(begins), ..Failure::default() };
    }
    let failure = panics(output, here).pop().map(of_panic).unwrap_or_default();
    Failure { place: begins(), message: failure.message.clone().or_else(|| first_line(output)), ..failure }
}

/// Why a test of another harness failed, which need not panic.
pub(super) fn of_words(name: &str, output: &str, here: Here<'_>) -> Failure {
    let failure = of_test(name, output, None, here);
    Failure { message: failure.message.clone().or_else(|| first_line(output)), ..failure }
}

/// Why a build script gave up: its panic's words and their place, else what it said last.
pub(super) fn of_script(output: &str, here: Here<'_>) -> Failure {
    let panic = blamed("main", panics(output, here));
    let last = || output.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    let (message, place) = match panic {
        Some(panic) => (Some(panic.message.trim_end().to_owned()).filter(|words| !words.is_empty()), panic.place),
        None => (last(), None),
    };
    Failure { message, place, ..Failure::default() }
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

fn place(line: &str, here: Here<'_>) -> Option<(String, u32)> {
    let found = PLACE.as_ref()?.captures(line)?;
    here.place(&found[1], &found[2])
}

fn panics(output: &str, here: Here<'_>) -> Vec<Panic> {
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
        // A panic in a dependency: the first frame of the project is as near as one gets.
        panic.place = panic.place.take().or_else(|| panic.stack.iter().find_map(|line| place(line, here)));
    }
    panics
}

/// The panic that failed the test: its own thread's last one, which is called `main` when tests run one at a time. When it
/// only says that another thread panicked, that one's.
fn blamed(name: &str, mut panics: Vec<Panic>) -> Option<Panic> {
    let own = panics.iter().rposition(|panic| panic.thread == name || panic.thread == "main");
    let at = own.or_else(|| panics.len().checked_sub(1))?;
    let hands_on = panics[at].message.contains("on an `Err` value: Any { .. }");
    let other = panics[..at].iter().rposition(|panic| panic.thread != panics[at].thread);
    Some(panics.swap_remove(other.filter(|_| hands_on).unwrap_or(at)))
}

fn of_panic(panic: Panic) -> Failure {
    let stack = (!panic.stack.is_empty()).then(|| panic.stack.join("\n"));
    let message = panic.message.trim_end();
    let (message, sides) = sides(message).map_or((message, None), |(head, left, right)| (head, Some((left, right))));
    let (actual, expected) = sides.map(|(left, right)| (left.to_owned(), right.to_owned())).unzip();
    Failure {
        message: Some(message.to_owned()).filter(|text| !text.is_empty()),
        place: panic.place,
        expected,
        actual,
        stack,
    }
}

/// The two sides of an assertion that they are equal, or that one matches the other.
fn sides(message: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = message.split_once("\n  left: ")?;
    let (left, right) = rest.split_once("\n right: ")?;
    ["assertion `left == right`", "assertion `left matches right`"]
        .iter()
        .any(|words| head.starts_with(words))
        .then_some((head, left, right))
}

/// What a test returned as its error is the last thing that it prints.
fn returned_error(output: &str) -> Option<String> {
    let at = if output.starts_with("Error: ") { 0 } else { output.rfind("\nError: ")? + 1 };
    Some(output[at..].trim_end().to_owned())
}

/// The same in the harness's text, which is all that nextest sees.
fn harness_note(output: &str) -> Option<String> {
    let notes = ["note: test did not panic as expected", "note: panic did not contain expected string"];
    let at = notes.iter().find_map(|note| output.rfind(note))?;
    let note = output[at..].trim_start_matches("note: ");
    Some(note.split("\n\n").next().unwrap_or(note).to_owned())
}

/// What the harness says: of a test that should have panicked, or ran for too long.
fn of_harness(said: &str, here: Here<'_>, failure: &mut Failure) {
    let (first, rest) = said.split_once('\n').unwrap_or((said, ""));
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

    fn read(name: &str, output: &str, said: Option<&str>) -> Failure {
        of_test(name, output, said, Here { paths: &WorkspacePaths::new("/ws"), dir: "sub" })
    }

    #[test]
    fn an_assertion_has_its_place_and_its_sides() {
        let output = "out\n\nthread 't::ne' (7) panicked at src/lib.rs:28:58:\nassertion `left == right` failed: sum\n  left: \
                      2\n right: 3\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let failure = read("t::ne", output, None);
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 28)));
        assert_eq!(failure.message.as_deref(), Some("assertion `left == right` failed: sum"));
        assert_eq!((failure.actual.as_deref(), failure.expected.as_deref()), (Some("2"), Some("3")));
        let unequal = output.replace("==", "!=");
        assert_eq!(read("t::ne", &unequal, None).message.unwrap().lines().count(), 3);
    }

    #[test]
    fn the_thread_that_panicked_first_is_blamed_when_the_test_only_joined_it() {
        let output = "thread '<unnamed>' panicked at src/a.rs:1:1:\nin thread\nnote: run with x\n\nthread 't' panicked at \
                      src/a.rs:2:2:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n";
        assert_eq!(read("t", output, None).message.as_deref(), Some("in thread"));
        let caught = output.replace("called `Result::unwrap()` on an `Err` value: Any { .. }", "another");
        assert_eq!(read("t", &caught, None).message.as_deref(), Some("another"));
    }

    #[test]
    fn a_panic_in_a_dependency_is_placed_where_the_project_called_it() {
        let output = "thread 'main' (1) panicked at /home/u/.cargo/registry/src/x/y.rs:9:9:\nbad\nstack backtrace:\n   0: y::f\n             \
                      at /home/u/.cargo/registry/src/x/y.rs:9:9\n   1: t::f\n             at ./src/lib.rs:3:5\nnote: z\n";
        let failure = read("t", output, None);
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 3)));
        assert_eq!(failure.stack.unwrap().lines().count(), 4);
    }

    #[test]
    fn what_the_harness_says_counts_more() {
        let failure = read("t", "", Some("test did not panic as expected at src/lib.rs:33:32"));
        assert_eq!(failure.message.as_deref(), Some("test did not panic as expected"));
        assert_eq!(failure.place, Some(("sub/src/lib.rs".to_owned(), 33)));
        let said = "panic did not contain expected string\n      panic message: \"x\"\n expected substring: \"yy\"";
        let failure = read("t", "thread 't' panicked at src/lib.rs:3:3:\nx\n", Some(said));
        assert_eq!(failure.message.as_deref(), Some("panic did not contain expected string"));
        assert_eq!((failure.actual.as_deref(), failure.expected.as_deref()), (Some("\"x\""), Some("\"yy\"")));
        assert_eq!(failure.place.unwrap().1, 3);
    }

    #[test]
    fn a_returned_error_is_the_message() {
        assert_eq!(read("t", "x\nError: \"bad\"\n", None).message.as_deref(), Some("Error: \"bad\""));
        assert_eq!(read("t", "", None), Failure::default());
    }

    #[test]
    fn a_doctest_is_placed_where_it_begins_or_where_the_compiler_says() {
        let here = Here { paths: &WorkspacePaths::new("/ws"), dir: "" };
        let name = "src/lib.rs - add (line 18)";
        let output = "Test executable failed (exit status: 101).\n\nstderr:\n\nthread 'main' (1) panicked at src/lib.rs:5:1:\nbad\n";
        let failure = of_doctest(name, output, here);
        assert_eq!((failure.message.as_deref(), failure.place), (Some("bad"), Some(("src/lib.rs".to_owned(), 18))));
        let failure = of_doctest("src/lib.rs - (line 2)", output, here);
        assert_eq!(failure.place, Some(("src/lib.rs".to_owned(), 2)), "of the crate itself");
        let output = "error[E0308]: mismatched types\n  --> src/lib.rs:23:13\n   |\nCouldn't compile the test.\n";
        let failure = of_doctest(name, output, here);
        assert_eq!(failure.message.as_deref(), Some("mismatched types"));
        assert_eq!(failure.place, Some(("src/lib.rs".to_owned(), 23)));
        let failure = of_doctest(name, "Test compiled successfully, but it's marked `compile_fail`.\n", here);
        assert!(failure.message.unwrap().starts_with("Test compiled"));
    }
}
