//! What the time of a test consists of, and of which other test it is a part.

use std::collections::HashSet;

/// What stands between the names of a test and of its subtest: in Go, in node:test, and in names of paths.
const SEPARATORS: [&str; 3] = ["/", " > ", "::"];

/// Whether a test is a subtest of another one of a list, whose time then includes its own. Both by their `nodeid`.
#[must_use]
pub fn is_part(nodeid: &str, all: &HashSet<&str>) -> bool {
    let ends = SEPARATORS.into_iter().flat_map(|separator| nodeid.match_indices(separator));
    ends.map(|(at, _)| &nodeid[..at]).any(|parent| all.contains(parent))
}

/// `set-up 0.30 s, processor 0.02 s`, as far as both are known; empty if neither is.
#[must_use]
pub fn parts(setup_s: Option<f64>, cpu_s: Option<f64>) -> String {
    let known = [("set-up", setup_s), ("processor", cpu_s)];
    let known = known.iter().filter_map(|(what, seconds)| Some(format!("{what} {:.2} s", (*seconds)?)));
    known.collect::<Vec<_>>().join(", ")
}

/// The same in brackets behind a blank; empty if neither is known.
#[must_use]
pub fn parts_in_brackets(setup_s: Option<f64>, cpu_s: Option<f64>) -> String {
    let parts = parts(setup_s, cpu_s);
    if parts.is_empty() { parts } else { format!(" ({parts})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_known() {
        assert_eq!(parts(Some(0.304), Some(0.02)), "set-up 0.30 s, processor 0.02 s");
        assert_eq!(parts_in_brackets(None, Some(1.0)), " (processor 1.00 s)");
        assert_eq!(parts_in_brackets(None, None), "");
    }

    #[test]
    fn a_subtest_is_a_part_of_a_test_that_is_there() {
        let all =
            HashSet::from(["a/T", "a/T/x", "a/T/x/deep", "u.js > sums", "u.js > sums > of none", "sums", "sums up"]);
        let parts: Vec<bool> =
            ["a/T", "a/T/x/deep", "b/T/x", "u.js > sums > of none", "sums up"].map(|name| is_part(name, &all)).into();
        assert_eq!(parts, [false, true, false, true, false]);
    }
}
