//! Recognises the names that `go test -list` prints. Must not know how lines are read.

/// Whether a line of a package's output names something that a run would run. Benchmarks do not run.
pub(super) fn is_test_name(line: &str) -> bool {
    ["Test", "Example", "Fuzz"].iter().any(|kind| {
        // As in the testing package: what follows is no lower-case letter, so `Testing` is no test.
        line.strip_prefix(kind).is_some_and(|rest| !rest.starts_with(char::is_lowercase))
    }) && line.chars().all(|character| character.is_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_examples_and_fuzz_targets_are_listed() {
        for name in ["TestA", "Test", "Test_a", "Test1", "ExampleX_y", "Example", "FuzzZ", "TestÜber"] {
            assert!(is_test_name(name), "{name}");
        }
        for line in ["BenchmarkA", "Testing", "ok  \tpkg\t0.1s", "Test A", "", "PASS"] {
            assert!(!is_test_name(line), "{line}");
        }
    }
}
