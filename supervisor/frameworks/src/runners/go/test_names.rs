//! Recognises the names that `go test -list` prints.

/// Whether a line of a package's output names a test, example or fuzz target. Benchmarks do not run.
pub(super) fn is_test_name(line: &str) -> bool {
    ["Test", "Example", "Fuzz"].iter().any(|kind| {
        // As in the testing package, no lower-case letter may follow: `Testing` is no test.
        line.strip_prefix(kind).is_some_and(|rest| !rest.starts_with(char::is_lowercase))
    }) && line.chars().all(|character| character.is_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_tests_examples_and_fuzz_targets() {
        for name in ["TestA", "Test", "Test_a", "Test1", "ExampleX_y", "Example", "FuzzZ", "TestÜber"] {
            assert!(is_test_name(name), "{name}");
        }
        for line in ["BenchmarkA", "Testing", "ok  \tpkg\t0.1s", "Test A", "", "PASS"] {
            assert!(!is_test_name(line), "{line}");
        }
    }
}
