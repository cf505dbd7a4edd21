//! Why a test failed, out of what it printed: GoogleTest, Catch2, doctest, Boost.Test and `assert` each have a line that
//! says where, and lines below it that say what. Must not know how ctest told that it failed.

use crate::parsing::assertion_values::assertion_values;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::{MESSAGE_BYTES_MAX, TEST_OUTPUT_BYTES_MAX};
use regex::Regex;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// How a library says that an assertion did not hold.
struct Shape {
    /// Words that its first line has, so that few lines meet the expression.
    word: &'static str,
    /// Its first line: `file` and `line`, and `text` if it says there what was wrong.
    first: &'static str,
    /// How a line begins that does not belong to it any more; an empty one stands for an empty line.
    ends: &'static [&'static str],
    says: Says,
}

/// What an assertion's text means beside ctest's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// The test was left out.
    Skipped,
    /// It failed.
    Failed,
    /// It failed, even where ctest calls it skipped: the library's CMake module tells ctest to do so by a sign that a failed
    /// test may give too. GoogleTest skips the tests of a suite whose set-up failed, and Catch2, before it had a status for
    /// failures, exited with their number.
    FailedAnyway,
}

const SHAPES: &[Shape] = &[
    Shape {
        word: ": Failure",
        first: r"^(?:(?P<file>.+):(?P<line>\d+)|unknown file): Failure$",
        ends: &["[  FAILED  ]", "[       OK ]", "[ RUN      ]", "[  SKIPPED ]", "[-------"],
        says: Says::FailedAnyway,
    },
    Shape {
        word: ": Skipped",
        first: r"^(?P<file>.+):(?P<line>\d+): Skipped$",
        ends: &["[  SKIPPED ]", "[  FAILED  ]", "[-------"],
        says: Says::Skipped,
    },
    Shape {
        word: ": FAILED:",
        first: r"^(?P<file>.+):(?P<line>\d+): FAILED:$",
        ends: &["", "====", "----"],
        says: Says::FailedAnyway,
    },
    Shape {
        word: " ERROR: ",
        first: r"^(?P<file>[^:]+):(?P<line>\d+): (?:FATAL )?ERROR: (?P<text>.+)$",
        ends: &["", "====", "[doctest]"],
        says: Says::Failed,
    },
    Shape {
        word: "error: in ",
        first: r#"^(?P<file>[^()]+)\((?P<line>\d+)\): (?:fatal )?error: in "[^"]*": (?P<text>.+)$"#,
        ends: &["", "***"],
        says: Says::Failed,
    },
    Shape {
        word: "Assertion ",
        first: r"^(?:.*: )?(?P<file>[^:\s]+):(?P<line>\d+): (?:.*: )?(?P<text>Assertion .+ failed\.)$",
        ends: &[""],
        says: Says::Failed,
    },
];

static FIRST: LazyLock<Vec<Option<Regex>>> =
    LazyLock::new(|| SHAPES.iter().map(|shape| Regex::new(shape.first).ok()).collect());

/// Where GoogleTest begins to say how it came to an assertion, and what differs between texts.
const TRACE: &str = "Google Test trace:";
const DIFF: &str = "With diff:";

/// What GoogleTest prints when a test begins, and when it ends: behind what the test printed last, if that had no newline.
const BEGINS: &str = "[ RUN      ]";
const ENDS: [&str; 3] = ["[       OK ]", "[  FAILED  ]", "[  SKIPPED ]"];

/// The same for all tests of a program: `[==========] Running 2 tests from 1 test suite.`, `[==========] 2 tests from 1 test
/// suite ran. (0 ms total)`.
const ALL_BEGIN: &str = "[==========] Running ";
const ALL_END: (&str, &str) = ("[==========] ", " ran.");

/// Bytes of a test's output that are kept from its beginning, and as many from its end.
const KEPT_BYTES_MAX: usize = TEST_OUTPUT_BYTES_MAX / 2 - 64;

/// Most further assertions whose places are told: a program whose tests all fail needs another look anyway.
const FURTHER_MAX: usize = 16;

/// What a test printed so far, within bounds, and the first assertion in it that did not hold.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    left_out: u64,
    block: Option<Block>,
    /// First lines of the assertions after it, and how many there were.
    further: Vec<String>,
    further_count: u64,
    /// Whether GoogleTest is in a test, and whether it is between its first and its last words.
    in_test: bool,
    in_all: bool,
}

#[derive(Debug)]
struct Block {
    shape: usize,
    lines: Vec<String>,
    bytes: usize,
    open: bool,
}

/// What a failed assertion says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Where, relative to the workspace.
    pub(crate) at: Option<(String, u32)>,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) actual: Option<String>,
    pub(crate) stack: Option<String>,
}

impl Printed {
    /// The next line.
    pub(crate) fn line(&mut self, line: &str) {
        let line = line.trim_end_matches('\r');
        self.look(line);
        self.follow(line);
        if self.tail.is_empty() && self.head.len() + line.len() < KEPT_BYTES_MAX {
            self.head.push_str(line);
            self.head.push('\n');
            return;
        }
        let kept = proctor_core::bounds::clip(line.to_owned(), KEPT_BYTES_MAX / 4);
        self.tail_bytes += kept.len() + 1;
        self.tail.push_back(kept);
        while self.tail_bytes > KEPT_BYTES_MAX {
            let Some(gone) = self.tail.pop_front() else { break };
            self.tail_bytes -= gone.len() + 1;
            self.left_out += 1;
        }
    }

    /// Follows GoogleTest from its first words to its last.
    fn follow(&mut self, line: &str) {
        let ended = |(first, last): (&str, &str)| line.split_once(first).is_some_and(|(_, rest)| rest.contains(last));
        self.in_test = line.contains(BEGINS) || self.in_test && !ENDS.iter().any(|end| line.contains(end));
        self.in_all = line.contains(ALL_BEGIN) || self.in_all && !ended(ALL_END);
    }

    fn look(&mut self, line: &str) {
        let shape = shape_of(line);
        let failed = shape.is_some_and(|shape| says(shape) != Says::Skipped);
        if failed && self.is_skip() {
            // A test that failed says more than one that was left out before it.
            self.block = None;
        }
        if failed && self.block.is_some() {
            self.further_count += 1;
            if self.further.len() < FURTHER_MAX {
                self.further.push(strip_ansi(line));
            }
        }
        match self.block.as_mut() {
            Some(block) if block.open => {
                let ends = SHAPES.get(block.shape).map_or(&[][..], |shape| shape.ends);
                let ended = ends.iter().any(|end| if end.is_empty() { line.is_empty() } else { line.starts_with(end) });
                block.bytes += line.len() + 1;
                block.open = !ended && block.bytes <= MESSAGE_BYTES_MAX && shape.is_none();
                if block.open {
                    block.lines.push(line.to_owned());
                }
            }
            Some(_) => {}
            None => {
                self.block = shape.map(|shape| Block { shape, lines: vec![strip_ansi(line)], bytes: 0, open: true })
            }
        }
    }

    /// All that is kept of it, for a person to read.
    pub(crate) fn text(&self) -> String {
        let mut text = self.head.clone();
        if self.left_out > 0 {
            text.push_str(&format!("[{} line(s) left out]\n", self.left_out));
        }
        self.tail.iter().for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        strip_ansi(&text)
    }

    /// Whether GoogleTest began and did not come to its end, or began a test and did not end it.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.in_test || self.in_all
    }

    fn is_skip(&self) -> bool {
        self.block.as_ref().is_some_and(|block| says(block.shape) == Says::Skipped)
    }

    /// Whether it failed, even if ctest calls it skipped.
    pub(crate) fn failed_anyway(&self) -> bool {
        self.block.as_ref().is_some_and(|block| says(block.shape) == Says::FailedAnyway)
    }

    /// The last line that is not empty.
    pub(crate) fn last_line(&self) -> Option<String> {
        let kept = self.tail.iter().rev().map(String::as_str).chain(self.head.lines().rev());
        kept.map(|line| strip_ansi(line).trim().to_owned()).find(|line| !line.is_empty())
    }

    /// Where the assertions after the first are: a program with many tests may be one test of ctest's.
    fn further(&self, dir: &str, paths: &WorkspacePaths) -> String {
        let place = |line: &String| {
            let found = FIRST.iter().flatten().find_map(|first| first.captures(line))?;
            Some(format!("{}:{}", paths.relative_to(dir, found.name("file")?.as_str())?, &found.name("line")?.as_str()))
        };
        let places: Vec<String> = self.further.iter().filter_map(place).collect();
        match (self.further_count, places.as_slice()) {
            (0, _) => String::new(),
            (count, []) => format!("\n({count} more did not hold)"),
            (count, places) => {
                let more = if count > places.len() as u64 { ", ..." } else { "" };
                format!("\n({count} more did not hold: {}{more})", places.join(", "))
            }
        }
    }

    /// The first assertion that did not hold, or that skipped the test.
    pub(crate) fn failure(&self, dir: &str, paths: &WorkspacePaths) -> Option<Failure> {
        let block = self.block.as_ref()?;
        let (first, rest) = block.lines.split_first()?;
        let found = FIRST.get(block.shape)?.as_ref()?.captures(first)?;
        let place = |file: &str, line: &str| Some((paths.relative_to(dir, file)?, line.parse().ok()?));
        let at =
            found.name("file").zip(found.name("line")).and_then(|(file, line)| place(file.as_str(), line.as_str()));
        let rest = strip_ansi(&rest.join("\n"));
        let (told, stack) = rest.split_once(TRACE).map_or((rest.as_str(), None), |(told, stack)| (told, Some(stack)));
        let text = found.name("text").map(|text| format!("{}\n", text.as_str())).unwrap_or_default();
        let whole = format!("{text}{told}");
        let values = assertion_values(&whole);
        let message = whole.split(DIFF).next().unwrap_or_default().trim();
        let (expected, actual) = values.unzip();
        Some(Failure {
            at,
            message: paths.scrub(if message.is_empty() { "failed" } else { message }) + &self.further(dir, paths),
            expected,
            actual,
            stack: stack.map(|stack| paths.scrub(stack.trim())),
        })
    }
}

fn says(shape: usize) -> Says {
    SHAPES.get(shape).map_or(Says::Failed, |shape| shape.says)
}

fn shape_of(line: &str) -> Option<usize> {
    let likely = |shape: &Shape| line.contains(shape.word);
    SHAPES.iter().zip(FIRST.iter()).position(|(shape, first)| {
        likely(shape) && first.as_ref().is_some_and(|first| first.is_match(&strip_ansi(line)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Printed {
        let mut printed = Printed::default();
        text.lines().for_each(|line| printed.line(line));
        printed
    }

    fn failure(text: &str) -> Failure {
        printed(text).failure("pkg", &WorkspacePaths::new("/ws")).unwrap()
    }

    #[test]
    fn each_library_says_where_and_what() {
        for (text, line, message, values) in [
            (
                "[ RUN      ] C.W\n/ws/t.cpp:5: Failure\nExpected equality of these values:\n  2 + 2\n    Which is: 4\n  5\noff\n\
                 /ws/t.cpp:6: Failure\nFailed\n[  FAILED  ] C.W (0 ms)",
                5,
                "Expected equality of these values:\n  2 + 2\n    Which is: 4\n  5\noff\n(1 more did not hold: t.cpp:6)",
                Some(("5", "4")),
            ),
            ("/ws/t.cpp:9: Failure\nFailed\nno good\nsecond\n[  FAILED  ] x", 9, "Failed\nno good\nsecond", None),
            ("/ws/t.cpp:3: Skipped\nneeds moon\n[  SKIPPED ] C.S", 3, "needs moon", None),
            (
                "---\nname\n---\n/ws/t.cpp:2\n...\n\n/ws/t.cpp:4: FAILED:\n  REQUIRE( f(1) == 2 )\nwith expansion:\n  3 == 2\n\n===",
                4,
                "REQUIRE( f(1) == 2 )\nwith expansion:\n  3 == 2",
                Some(("2", "3")),
            ),
            (
                "/ws/t.cpp:7: ERROR: CHECK( a == b ) is NOT correct!\n  values: CHECK( 1 == 2 )\n\n===",
                7,
                "CHECK( a == b ) is NOT correct!\n  values: CHECK( 1 == 2 )",
                Some(("2", "1")),
            ),
            (
                "/ws/t.cpp(8): error: in \"s/c\": check a == b has failed [1 != 2]",
                8,
                "check a == b has failed [1 != 2]",
                None,
            ),
            ("prog: /ws/t.cpp:11: int main(): Assertion `x == 1' failed.", 11, "Assertion `x == 1' failed.", None),
        ] {
            let failure = failure(text);
            assert_eq!(failure.at, Some(("t.cpp".to_owned(), line)), "{text}");
            assert_eq!(failure.message, message);
            assert_eq!(failure.expected.as_deref().zip(failure.actual.as_deref()), values);
        }
    }

    #[test]
    fn a_failure_counts_for_more_than_a_skip() {
        const SKIP: &str = "/ws/t.cpp:3: Skipped\nneeds moon\n[  SKIPPED ] C.S\n";
        const FAIL: &str = "/ws/t.cpp:9: Failure\nFailed\n[  FAILED  ] x\n";
        for (text, line, message, anyway) in [
            (SKIP.to_owned(), 3, "needs moon", false),
            ([SKIP, SKIP].concat(), 3, "needs moon", false),
            ([SKIP, FAIL].concat(), 9, "Failed", true),
            ([FAIL, SKIP].concat(), 9, "Failed", true),
            ("/ws/t.cpp:4: FAILED:\n  CHECK( a )\n\n".to_owned(), 4, "CHECK( a )", true),
            // What a program may say before it asks to be skipped.
            ("/ws/t.cpp:5: ERROR: no device\n".to_owned(), 5, "no device", false),
        ] {
            let failure = failure(&text);
            assert_eq!(failure.at, Some(("t.cpp".to_owned(), line)), "{text}");
            assert_eq!((failure.message.as_str(), printed(&text).failed_anyway()), (message, anyway), "{text}");
        }
    }

    #[test]
    fn googletest_is_done_when_it_says_so() {
        const ALL: &str = "[==========] Running 2 tests from 1 test suite.\n";
        const ONE: &str = "[ RUN      ] A.b\nno newline[       OK ] A.b (0 ms)\n";
        const DONE: &str = "[==========] 2 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 2 tests.\n";
        for (text, unfinished) in [
            ("prints what it likes\n".to_owned(), false),
            ([ALL, ONE, DONE].concat(), false),
            ([ALL, ONE, "Bye.", DONE].concat(), false),
            ([ALL, ONE, "[ RUN      ] A.c\n"].concat(), true),
            ([ALL, ONE].concat(), true),
            ([ALL].concat(), true),
            // Its printer of failures alone says neither.
            (DONE.to_owned(), false),
        ] {
            assert_eq!(printed(&text).is_unfinished(), unfinished, "{text}");
        }
    }

    #[test]
    fn an_exception_has_no_place_and_a_trace_is_a_stack() {
        let text =
            "unknown file: Failure\nC++ exception with description \"boom\" thrown in the test body.\n[  FAILED  ] x";
        let thrown = failure(text);
        assert_eq!(
            (thrown.at, thrown.message.as_str()),
            (None, "C++ exception with description \"boom\" thrown in the test body.")
        );
        let traced = failure("/ws/t.cpp:5: Failure\nFailed\nGoogle Test trace:\n/ws/t.cpp:17: outer\n[  FAILED  ] x");
        assert_eq!((traced.message.as_str(), traced.stack.as_deref()), ("Failed", Some("t.cpp:17: outer")));
    }

    #[test]
    fn a_diff_is_not_part_of_the_message() {
        let text = "/ws/t.cpp:7: Failure\nExpected equality of these values:\n  \"a\\nb\"\n  \"a\\nc\"\nWith diff:\n@@ -1 +1 @@\n-b\n+c\n\n[  FAILED  ] x";
        assert_eq!(failure(text).message, "Expected equality of these values:\n  \"a\\nb\"\n  \"a\\nc\"");
    }

    #[test]
    fn a_flood_keeps_its_ends_and_its_failure() {
        let mut printed = Printed::default();
        printed.line("first");
        (0..200_000).for_each(|number| printed.line(&format!("noise {number}")));
        printed.line("/ws/t.cpp:5: Failure");
        printed.line("Failed");
        (0..200_000).for_each(|number| printed.line(&format!("noise {number}")));
        printed.line(&"x".repeat(1_000_000));
        let text = printed.text();
        assert!(text.starts_with("first\n") && text.contains("left out]") && text.ends_with("…\n"));
        assert!(text.len() <= TEST_OUTPUT_BYTES_MAX);
        let failure = printed.failure("", &WorkspacePaths::new("/ws")).unwrap();
        assert_eq!(failure.at, Some(("t.cpp".to_owned(), 5)));
        assert!(failure.message.len() <= 2 * MESSAGE_BYTES_MAX);
    }

    #[test]
    fn every_shape_is_a_regex() {
        assert!(FIRST.iter().all(Option::is_some));
    }
}
