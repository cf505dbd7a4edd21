//! Renders a test case for a snapshot in short form: long stacks and outputs as line counts.

use proctor_core::test_case::TestCase;
use std::fmt::Write as _;

/// Writes the facts that a reviewer would check, without durations and addresses.
pub(crate) fn brief(text: &mut String, test: &TestCase) {
    writeln!(text, "{} {}", test.outcome.name(), test.nodeid).unwrap();
    if let (Some(file), Some(line)) = (&test.file, test.line) {
        writeln!(text, "    at {file}:{line}").unwrap();
    }
    for (label, value) in [("message", &test.message), ("expected", &test.expected), ("actual", &test.actual)] {
        if let Some(value) = value {
            writeln!(text, "    {label}: {value:?}").unwrap();
        }
    }
    if let Some(stack) = &test.stack {
        writeln!(text, "    stack: {:?} +{}", stack.lines().next().unwrap_or_default(), stack.lines().count()).unwrap();
    }
    if let Some(output) = &test.output {
        writeln!(text, "    output: {} lines", output.lines().count()).unwrap();
    }
}
