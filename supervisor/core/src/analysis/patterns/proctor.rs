//! Patterns of what proctor itself reports about a test that did not finish, tried before all others.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::DependencyFailed,
        "did not finish: {test} ended the test process",
        "{test} ended the process of this test: look at it first",
    ),
    Pattern::new(
        PatternKind::StackOverflow,
        "the test overflowed its stack",
        "the function calls itself without an end, or holds a very large value",
    ),
    Pattern::new(PatternKind::Crash, "did not finish: the test program was ended by signal {signal}", ""),
    Pattern::new(
        PatternKind::Crash,
        "did not finish: the test program exited with {status}",
        "the test, or what it calls, ends the process",
    ),
    Pattern::new(
        PatternKind::Crash,
        "the test process ended before the test did",
        "the test, or what it calls, ends the process",
    ),
    Pattern::new(PatternKind::Crash, "unexpected call to os.Exit", "the test, or what it calls, ends the process"),
    Pattern::new(
        PatternKind::Crash,
        "did not finish: the runner {how}",
        "the test, or what it calls, ended the runner",
    ),
    Pattern::new(
        PatternKind::Crash,
        "did not finish: its JVM ended without a word",
        "the test, or what it calls, ended the JVM: System.exit, or a crash",
    ),
    Pattern::new(
        PatternKind::Crash,
        "its process exited with {status} outside of its tests",
        "what the file runs outside of its tests, or after them, ends the process",
    ),
];
