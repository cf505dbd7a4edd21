//! Compares the tests that `proctor covering` names for lines with a table.

use proctor_tests::process::ProcessOutput;

/// A line, and the tests that execute it: file and names.
pub(crate) type Expected<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])]);

/// Calls `covering` with each line and compares what it prints.
pub(crate) fn check_covering(table: &[Expected<'_>], covering: impl Fn(&str) -> ProcessOutput) {
    let mut wrong = Vec::new();
    for (place, expected) in table {
        let output = covering(place);
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for line in output.stdout.lines().skip(1) {
            match (line.strip_suffix(':'), found.last_mut()) {
                (Some(package), _) => found.push((package.to_owned(), Vec::new())),
                (None, Some((_, tests))) if line.starts_with(' ') => tests.push(line.trim().to_owned()),
                _ => {}
            }
        }
        let expected: Vec<(String, Vec<String>)> = expected
            .iter()
            .map(|(package, tests)| ((*package).to_owned(), tests.iter().map(ToString::to_string).collect()))
            .collect();
        if found != expected {
            wrong.push(format!("{place}: {output:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
