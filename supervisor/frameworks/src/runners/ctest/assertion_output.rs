//! Reads the assertion that failed a test from the test's output: GoogleTest, Catch2, doctest, Boost.Test and `assert` each
//! print a line with the place, and lines below it with the reason.

use crate::parsing::assertion_values::assertion_values;
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::{MESSAGE_BYTES_MAX, TEST_OUTPUT_BYTES_MAX};
use regex::Regex;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// How a library prints a failed assertion.
struct AssertionFormat {
    /// Substring of the first line; a cheap check before the regular expression.
    substring: &'static str,
    /// Regular expression of the first line: groups `file` and `line`, and `text` if the reason is in the same line.
    first_line: &'static str,
    /// Prefixes of the line that ends the block; an empty one stands for an empty line.
    ends: &'static [&'static str],
    implies: Implies,
}

/// Result that an assertion's text implies, next to ctest's own result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Implies {
    /// The test was skipped.
    Skipped,
    /// The test failed.
    Failed,
    /// The test failed, even where ctest reports it as skipped: the library's CMake module makes ctest skip on an output or
    /// exit status that a failed test may have too. GoogleTest skips the tests of a suite whose set-up failed, and Catch2,
    /// before it had an exit status for failures, exited with their number.
    FailedAlthoughSkipped,
}

const FORMATS: &[AssertionFormat] = &[
    AssertionFormat {
        substring: ": Failure",
        first_line: r"^(?:(?P<file>.+):(?P<line>\d+)|unknown file): Failure$",
        ends: &["[  FAILED  ]", "[       OK ]", "[ RUN      ]", "[  SKIPPED ]", "[-------"],
        implies: Implies::FailedAlthoughSkipped,
    },
    AssertionFormat {
        substring: ": Skipped",
        first_line: r"^(?P<file>.+):(?P<line>\d+): Skipped$",
        ends: &["[  SKIPPED ]", "[  FAILED  ]", "[-------"],
        implies: Implies::Skipped,
    },
    AssertionFormat {
        substring: ": FAILED:",
        first_line: r"^(?P<file>.+):(?P<line>\d+): FAILED:$",
        ends: &["", "====", "----"],
        implies: Implies::FailedAlthoughSkipped,
    },
    AssertionFormat {
        substring: " ERROR: ",
        first_line: r"^(?P<file>[^:]+):(?P<line>\d+): (?:FATAL )?ERROR: (?P<text>.+)$",
        ends: &["", "====", "[doctest]"],
        implies: Implies::Failed,
    },
    AssertionFormat {
        substring: "error: in ",
        first_line: r#"^(?P<file>[^()]+)\((?P<line>\d+)\): (?:fatal )?error: in "[^"]*": (?P<text>.+)$"#,
        ends: &["", "***"],
        implies: Implies::Failed,
    },
    AssertionFormat {
        substring: "Assertion ",
        first_line: r"^(?:.*: )?(?P<file>[^:\s]+):(?P<line>\d+): (?:.*: )?(?P<text>Assertion .+ failed\.)$",
        ends: &[""],
        implies: Implies::Failed,
    },
];

static FIRST_LINES: LazyLock<Vec<Option<Regex>>> =
    LazyLock::new(|| FORMATS.iter().map(|format| Regex::new(format.first_line).ok()).collect());

/// Marks the start of GoogleTest's scoped traces, and of its diff of two texts.
const TRACE: &str = "Google Test trace:";
const DIFF: &str = "With diff:";

/// GoogleTest's lines at the start and at the end of a test. The end may follow unterminated output on the same line.
const BEGINS: &str = "[ RUN      ]";
const ENDS: [&str; 3] = ["[       OK ]", "[  FAILED  ]", "[  SKIPPED ]"];

/// GoogleTest's lines at the start and at the end of a program: `[==========] Running 2 tests from 1 test suite.`,
/// `[==========] 2 tests from 1 test suite ran. (0 ms total)`.
const ALL_BEGIN: &str = "[==========] Running ";
const ALL_END: (&str, &str) = ("[==========] ", " ran.");

/// Bytes of a test's output that are kept from its beginning, and as many from its end.
const KEPT_BYTES_MAX: usize = TEST_OUTPUT_BYTES_MAX / 2 - 64;

/// Most further failed assertions whose places are reported: a program whose tests all fail needs a closer look anyway.
const FURTHER_MAX: usize = 16;

/// Bounded output of a test, and the first failed assertion in it.
#[derive(Debug, Default)]
pub(crate) struct TestOutputBuffer {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    left_out: u64,
    block: Option<AssertionBlock>,
    /// First lines of the failed assertions after the first one, and how many followed.
    further: Vec<String>,
    further_count: u64,
    /// Whether GoogleTest is inside a test, and whether it is between its first and its last line.
    in_test: bool,
    in_all: bool,
}

#[derive(Debug)]
struct AssertionBlock {
    format: usize,
    lines: Vec<String>,
    bytes: usize,
    open: bool,
}

/// A failed assertion.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AssertionFailure {
    /// File, relative to the workspace, and line.
    pub(crate) place: Option<(String, u32)>,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) actual: Option<String>,
    pub(crate) stack: Option<String>,
}

impl TestOutputBuffer {
    /// Records the next line.
    pub(crate) fn push_line(&mut self, line: &str) {
        let line = line.trim_end_matches('\r');
        self.find_assertion(line);
        self.track_googletest(line);
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

    /// Tracks GoogleTest's start and end lines.
    fn track_googletest(&mut self, line: &str) {
        let ended = |(first, last): (&str, &str)| line.split_once(first).is_some_and(|(_, rest)| rest.contains(last));
        self.in_test = line.contains(BEGINS) || self.in_test && !ENDS.iter().any(|end| line.contains(end));
        self.in_all = line.contains(ALL_BEGIN) || self.in_all && !ended(ALL_END);
    }

    fn find_assertion(&mut self, line: &str) {
        let format = format_index(line);
        let failed = format.is_some_and(|format| implied_by(format) != Implies::Skipped);
        if failed && self.is_skip() {
            // A failure replaces a skip before it: it is the more important one.
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
                let ends = FORMATS.get(block.format).map_or(&[][..], |format| format.ends);
                let ended = ends.iter().any(|end| if end.is_empty() { line.is_empty() } else { line.starts_with(end) });
                block.bytes += line.len() + 1;
                block.open = !ended && block.bytes <= MESSAGE_BYTES_MAX && format.is_none();
                if block.open {
                    block.lines.push(line.to_owned());
                }
            }
            Some(_) => {}
            None => {
                self.block =
                    format.map(|format| AssertionBlock { format, lines: vec![strip_ansi(line)], bytes: 0, open: true })
            }
        }
    }

    /// The kept output as plain text.
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
        self.block.as_ref().is_some_and(|block| implied_by(block.format) == Implies::Skipped)
    }

    /// Whether the test failed even if ctest reports it as skipped.
    pub(crate) fn failed_although_skipped(&self) -> bool {
        self.block.as_ref().is_some_and(|block| implied_by(block.format) == Implies::FailedAlthoughSkipped)
    }

    /// The last line that is not empty.
    pub(crate) fn last_line(&self) -> Option<String> {
        let kept = self.tail.iter().rev().map(String::as_str).chain(self.head.lines().rev());
        kept.map(|line| strip_ansi(line).trim().to_owned()).find(|line| !line.is_empty())
    }

    /// Places of the failed assertions after the first: one test of ctest's may be a program with many tests.
    fn further(&self, dir: &str, paths: &WorkspacePaths) -> String {
        let place = |line: &String| {
            let found = FIRST_LINES.iter().flatten().find_map(|first| first.captures(line))?;
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

    /// The first assertion that failed or skipped the test.
    pub(crate) fn failure(&self, dir: &str, paths: &WorkspacePaths) -> Option<AssertionFailure> {
        let block = self.block.as_ref()?;
        let (first, rest) = block.lines.split_first()?;
        let found = FIRST_LINES.get(block.format)?.as_ref()?.captures(first)?;
        let parse_place = |file: &str, line: &str| Some((paths.relative_to(dir, file)?, line.parse().ok()?));
        let place = found
            .name("file")
            .zip(found.name("line"))
            .and_then(|(file, line)| parse_place(file.as_str(), line.as_str()));
        let rest = strip_ansi(&rest.join("\n"));
        let (description, stack) =
            rest.split_once(TRACE).map_or((rest.as_str(), None), |(description, stack)| (description, Some(stack)));
        let text = found.name("text").map(|text| format!("{}\n", text.as_str())).unwrap_or_default();
        let whole = format!("{text}{description}");
        let values = assertion_values(&whole);
        let message = whole.split(DIFF).next().unwrap_or_default().trim();
        let (expected, actual) = values.unzip();
        Some(AssertionFailure {
            place,
            message: paths.scrub(if message.is_empty() { "failed" } else { message }) + &self.further(dir, paths),
            expected,
            actual,
            stack: stack.map(|stack| paths.scrub(stack.trim())),
        })
    }
}

fn implied_by(format: usize) -> Implies {
    FORMATS.get(format).map_or(Implies::Failed, |format| format.implies)
}

fn format_index(line: &str) -> Option<usize> {
    let likely = |format: &AssertionFormat| line.contains(format.substring);
    FORMATS.iter().zip(FIRST_LINES.iter()).position(|(format, first)| {
        likely(format) && first.as_ref().is_some_and(|first| first.is_match(&strip_ansi(line)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(text: &str) -> TestOutputBuffer {
        let mut buffer = TestOutputBuffer::default();
        text.lines().for_each(|line| buffer.push_line(line));
        buffer
    }

    fn failure(text: &str) -> AssertionFailure {
        buffer(text).failure("pkg", &WorkspacePaths::new("/ws")).unwrap()
    }

    #[test]
    fn reads_place_message_and_values_of_each_library() {
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
            assert_eq!(failure.place, Some(("t.cpp".to_owned(), line)), "{text}");
            assert_eq!(failure.message, message);
            assert_eq!(failure.expected.as_deref().zip(failure.actual.as_deref()), values);
        }
    }

    #[test]
    fn prefers_a_failure_to_a_skip() {
        const SKIP: &str = "/ws/t.cpp:3: Skipped\nneeds moon\n[  SKIPPED ] C.S\n";
        const FAIL: &str = "/ws/t.cpp:9: Failure\nFailed\n[  FAILED  ] x\n";
        for (text, line, message, anyway) in [
            (SKIP.to_owned(), 3, "needs moon", false),
            ([SKIP, SKIP].concat(), 3, "needs moon", false),
            ([SKIP, FAIL].concat(), 9, "Failed", true),
            ([FAIL, SKIP].concat(), 9, "Failed", true),
            ("/ws/t.cpp:4: FAILED:\n  CHECK( a )\n\n".to_owned(), 4, "CHECK( a )", true),
            // A program may print an error before it asks to be skipped.
            ("/ws/t.cpp:5: ERROR: no device\n".to_owned(), 5, "no device", false),
        ] {
            let failure = failure(&text);
            assert_eq!(failure.place, Some(("t.cpp".to_owned(), line)), "{text}");
            assert_eq!(
                (failure.message.as_str(), buffer(&text).failed_although_skipped()),
                (message, anyway),
                "{text}"
            );
        }
    }

    #[test]
    fn googletest_is_unfinished_without_its_end_lines() {
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
            // A GoogleTest that prints failures only prints neither line.
            (DONE.to_owned(), false),
        ] {
            assert_eq!(buffer(&text).is_unfinished(), unfinished, "{text}");
        }
    }

    #[test]
    fn an_exception_has_no_place_and_a_trace_becomes_the_stack() {
        let text =
            "unknown file: Failure\nC++ exception with description \"boom\" thrown in the test body.\n[  FAILED  ] x";
        let thrown = failure(text);
        assert_eq!(
            (thrown.place, thrown.message.as_str()),
            (None, "C++ exception with description \"boom\" thrown in the test body.")
        );
        let traced = failure("/ws/t.cpp:5: Failure\nFailed\nGoogle Test trace:\n/ws/t.cpp:17: outer\n[  FAILED  ] x");
        assert_eq!((traced.message.as_str(), traced.stack.as_deref()), ("Failed", Some("t.cpp:17: outer")));
    }

    #[test]
    fn leaves_the_diff_out_of_the_message() {
        let text = "/ws/t.cpp:7: Failure\nExpected equality of these values:\n  \"a\\nb\"\n  \"a\\nc\"\nWith diff:\n@@ -1 +1 @@\n-b\n+c\n\n[  FAILED  ] x";
        assert_eq!(failure(text).message, "Expected equality of these values:\n  \"a\\nb\"\n  \"a\\nc\"");
    }

    #[test]
    fn keeps_both_ends_of_a_flood_and_the_failure() {
        let mut buffer = TestOutputBuffer::default();
        buffer.push_line("first");
        (0..200_000).for_each(|number| buffer.push_line(&format!("noise {number}")));
        buffer.push_line("/ws/t.cpp:5: Failure");
        buffer.push_line("Failed");
        (0..200_000).for_each(|number| buffer.push_line(&format!("noise {number}")));
        buffer.push_line(&"x".repeat(1_000_000));
        let text = buffer.text();
        assert!(text.starts_with("first\n") && text.contains("left out]") && text.ends_with("…\n"));
        assert!(text.len() <= TEST_OUTPUT_BYTES_MAX);
        let failure = buffer.failure("", &WorkspacePaths::new("/ws")).unwrap();
        assert_eq!(failure.place, Some(("t.cpp".to_owned(), 5)));
        assert!(failure.message.len() <= 2 * MESSAGE_BYTES_MAX);
    }

    #[test]
    fn every_pattern_compiles() {
        assert!(FIRST_LINES.iter().all(Option::is_some));
    }
}
