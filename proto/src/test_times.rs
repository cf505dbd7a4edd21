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

/// Tells which tests of a list are subtests of others, whose time then includes their own. Tests are known by their `nodeid`.
pub struct Subtests<'a> {
    separator: Option<&'static str>,
    all: HashSet<&'a str>,
}

impl<'a> Subtests<'a> {
    /// For the tests `nodeids` of a run of `framework`.
    #[must_use]
    pub fn new(framework: &str, nodeids: impl Iterator<Item = &'a str>) -> Subtests<'a> {
        let separator = subtest_separator(framework);
        let all = if separator.is_some() { nodeids.collect() } else { HashSet::new() };
        Subtests { separator, all }
    }

    /// Whether the test is one.
    #[must_use]
    pub fn contains(&self, nodeid: &str) -> bool {
        let Some(separator) = self.separator else { return false };
        nodeid.match_indices(separator).any(|(at, _)| self.all.contains(&nodeid[..at]))
    }
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
        let all = ["a/T", "a/T/x", "a/T/x/deep", "u.js > sums", "u.js > sums > of none"];
        let part = |framework, nodeid| Subtests::new(framework, all.into_iter()).contains(nodeid);
        assert_eq!([part("go", "a/T"), part("go", "a/T/x/deep"), part("go", "b/T/x")], [false, true, false]);
        assert!(part("node", "u.js > sums > of none") && !part("node", "a/T/x"));
        assert!(!part("ctest", "a/T/x"), "names of executables");
    }
}
