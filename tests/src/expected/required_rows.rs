//! Which row shows which way for tests to end, for every framework and for a command of one's own, or why none can. Must not
//! know more of a row than whether it shows what it is named for.

/// The ways, in the order of the columns of [`SHOWN`].
pub const KINDS: [&str; 11] =
    ["pass", "fail", "error", "skip", "collection", "hang", "crash", "nothing", "unicode", "colours", "many"];

/// In the place of a row: there is none, for the reason in [`WITHOUT`].
const NONE: &str = "-";

/// The row of each framework for each kind, `NONE` where there can be none.
#[rustfmt::skip]
pub const SHOWN: &[(&str, [&str; KINDS.len()])] = &[
    //              pass    fail    error    skip    collection    hang    crash    nothing         unicode    colours    many
    ("go",         ["pass", "fail", "panic", "fail", "builderror", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("pytest",     ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("unittest",   ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("jest",       ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("mocha",      ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("node",       ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("vitest",     ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("playwright", ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("script",     ["pass", "fail", NONE,    "fail", NONE,         NONE,   "fail",  NONE,           "fail",    "fail",    NONE]),
    ("cargo",      ["pass", "fail", "crash", "skip", "builderror", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("nextest",    ["pass", "fail", "error", "skip", "builderror", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("ctest",      ["pass", "fail", "error", "skip", "builderror", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("maven",      ["pass", "fail", "fail",  "fail", "builderror", "hang", "crash", "filtered_out", "fail",    "fail",    "many"]),
    ("gradle",     ["pass", "fail", "fail",  "fail", "builderror", "hang", "crash", "filtered_out", "fail",    "fail",    "many"]),
    ("maestro",    ["pass", "fail", "crash", NONE,   "collection", "hang", "crash", "filtered_out", "unicode", NONE,      "many"]),
    ("cypress",    ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("rspec",      ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("phpunit",    ["pass", "fail", "error", "skip", "collection", "hang", "crash", "filtered_out", "unicode", "unicode", "many"]),
    ("custom",     ["words_of_a_command_that_exits_with_0", "junit", "junit_broken", "tap", "junit_broken", "hang",
                    "crash", "tap_of_nothing", "unicode", "unicode", "many"]),
];

/// Why a framework has no row of a kind.
pub const WITHOUT: &[(&str, &str, &str)] = &[
    (
        "maestro",
        "skip",
        "a flow passes or fails; those that tags leave out are not told, and a command in it that is skipped is no flow",
    ),
    ("script", "error", "TAP has none"),
    ("script", "collection", "TAP has none"),
    ("script", "hang", "its commands are read as one of a caller's own is: custom/hang"),
    ("script", "nothing", "a filter selects nothing of a command, and is refused"),
    ("script", "many", "its commands are read as one of a caller's own is: custom/many"),
    ("maestro", "colours", "it is asked for none, and what a screen shows has none"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expectation::{Case, Row};
    use crate::expected::TABLES;
    use crate::process::source_root;
    use crate::test_workspace::tree;
    use proctor_frameworks::{FRAMEWORKS, runners::custom};
    use std::collections::BTreeSet;

    /// So many tests are told at least by a row of the kind `many`.
    const TOLD: usize = 10_000;

    /// Where each test is a process, or takes as long as one, so many of them run at least, and the rest is skipped.
    const RUN: u64 = 200;

    /// How the sources of a fixture write the beginning of a colour.
    const ESCAPES: [&str; 6] = ["\u{1b}[", "\\u001b[", "\\u{1b}[", "\\x1b[", "\\033[", "\\e["];

    /// Whether a row shows that kind. What it says is proved at every entrance; here, that it says the like at all.
    fn shows(row: &Row, kind: &str) -> bool {
        let has = |outcome: &str| row.count(outcome) > 0;
        let texts = |case: &Case| [Some(case.nodeid), case.message].into_iter().flatten();
        let failures = || row.tests.iter().filter(|case| case.is_failure());
        match kind {
            "pass" => row.outcome == "passed" && has("passed"),
            "fail" => row.outcome == "failed" && failures().any(|case| case.message.is_some()),
            "error" => has("error"),
            "skip" => has("skipped"),
            "collection" => !row.collectors.is_empty() && matches!(row.outcome, "build_failed" | "collection_failed"),
            // A command of one's own does not say what it is at.
            "hang" => row.outcome == "timed_out" && (!row.running.is_empty() || row.framework == custom::NAME),
            "crash" => row.exit_status != 0 && row.killed.is_none() && row.total() > 0,
            "nothing" => row.outcome == "no_tests" && row.total() == 0,
            "unicode" => failures().flat_map(texts).any(|text| !text.is_ascii()),
            // The table says what is left of a text without them.
            "colours" => tree(&source_root().join("fixtures").join(row.fixture)).values().any(|(_, content)| {
                let text = String::from_utf8_lossy(content);
                ESCAPES.iter().any(|escape| text.contains(escape))
            }),
            "many" => row.total() >= TOLD && row.count("passed") >= RUN,
            _ => false,
        }
    }

    fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_framework_shows_every_kind_or_says_why_not() {
        let known = FRAMEWORKS.iter().map(|framework| framework.name()).chain([custom::NAME]);
        assert_eq!(sorted(SHOWN.iter().map(|(framework, _)| *framework)), sorted(known));
        let mut without = BTreeSet::new();
        for (framework, names) in SHOWN {
            let (_, rows) = TABLES.iter().find(|(known, _)| known == framework).unwrap();
            for (kind, name) in KINDS.iter().zip(names) {
                if *name == NONE {
                    without.insert((*framework, *kind));
                    continue;
                }
                let row = rows.iter().find(|row| row.name == *name);
                let row = row.unwrap_or_else(|| panic!("{framework}: there is no row {name:?}, named for {kind:?}"));
                assert_eq!(row.framework, *framework);
                assert!(shows(row, kind), "{framework}: the row {name:?} does not show {kind:?}");
            }
        }
        assert_eq!(WITHOUT.len(), without.len());
        assert_eq!(WITHOUT.iter().map(|(framework, kind, _)| (*framework, *kind)).collect::<BTreeSet<_>>(), without);
        assert!(WITHOUT.iter().all(|(_, _, why)| !why.is_empty()));
    }
}
