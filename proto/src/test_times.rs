//! What the time of a test consists of, and of which other test it is a part.

use std::collections::HashSet;

/// What stands between the names of a test and of its subtest in the runners that have subtests.
fn subtest_separator(framework: &str) -> Option<&'static str> {
    match framework {
        "go" => Some("/"),
        "node" => Some(" > "),
        _ => None,
    }
}

/// Whether a test is a subtest of another one of a list, whose time then includes its own. Both by their `nodeid`.
#[must_use]
pub fn is_part(framework: &str, nodeid: &str, all: &HashSet<&str>) -> bool {
    let Some(separator) = subtest_separator(framework) else { return false };
    nodeid.match_indices(separator).any(|(at, _)| all.contains(&nodeid[..at]))
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
        let all = HashSet::from(["a/T", "a/T/x", "a/T/x/deep", "u.js > sums", "u.js > sums > of none"]);
        let part = |framework, nodeid| is_part(framework, nodeid, &all);
        assert_eq!([part("go", "a/T"), part("go", "a/T/x/deep"), part("go", "b/T/x")], [false, true, false]);
        assert!(part("node", "u.js > sums > of none") && !part("node", "a/T/x"));
        assert!(!part("ctest", "a/T/x"), "names of executables");
    }
}
