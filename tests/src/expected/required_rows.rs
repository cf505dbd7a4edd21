//! Coverage of the outcome table: for every framework, the row that demonstrates each kind of result, or why there is none.

/// Kinds of results, in the order of the columns of [`SHOWN`].
pub const KINDS: [&str; 11] =
    ["pass", "fail", "error", "skip", "collection", "hang", "crash", "nothing", "unicode", "colours", "many"];

/// Marks a kind without a row, for the reason in [`WITHOUT`].
const NONE: &str = "-";

/// The row of each framework for each kind.
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
    ("custom",     ["result_words_exit_0", "junit", "junit_broken", "tap", "junit_broken", "hang",
                    "crash", "tap_empty", "unicode", "unicode", "many"]),
];

/// Framework, kind, and the reason why there is no row.
pub const WITHOUT: &[(&str, &str, &str)] = &[
    (
        "maestro",
        "skip",
        "a flow passes or fails; flows excluded by tags are not reported, and a skipped command is not a flow",
    ),
    ("script", "error", "TAP has none"),
    ("script", "collection", "TAP has none"),
    ("script", "hang", "its output is parsed like that of a custom command: custom/hang"),
    ("script", "nothing", "a filter does not apply to a command and is refused"),
    ("script", "many", "its output is parsed like that of a custom command: custom/many"),
    ("maestro", "colours", "Maestro is run without colours, and texts on a screen have none"),
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

    /// Least number of reported tests in a row of the kind `many`.
    const REPORTED_MIN: usize = 10_000;

    /// Least number of passed tests in such a row. Where a test takes as long as a process, the others are skipped.
    const PASSED_MIN: u64 = 200;

    /// Spellings of the start of a colour sequence in the sources of fixtures.
    const ESCAPES: [&str; 6] = ["\u{1b}[", "\\u001b[", "\\u{1b}[", "\\x1b[", "\\033[", "\\e["];

    /// Whether a row demonstrates this kind. `outcome_table` checks the results themselves.
    fn demonstrates(row: &Row, kind: &str) -> bool {
        let has = |outcome: &str| row.count(outcome) > 0;
        let texts = |case: &Case| [Some(case.nodeid), case.message].into_iter().flatten();
        let failures = || row.tests.iter().filter(|case| case.is_failure());
        match kind {
            "pass" => row.outcome == "passed" && has("passed"),
            "fail" => row.outcome == "failed" && failures().any(|case| case.message.is_some()),
            "error" => has("error"),
            "skip" => has("skipped"),
            "collection" => !row.collectors.is_empty() && matches!(row.outcome, "build_failed" | "collection_failed"),
            // A custom command does not report the running test.
            "hang" => row.outcome == "timed_out" && (!row.running.is_empty() || row.framework == custom::NAME),
            "crash" => row.exit_status != 0 && row.killed.is_none() && row.total() > 0,
            "nothing" => row.outcome == "no_tests" && row.total() == 0,
            "unicode" => failures().flat_map(texts).any(|text| !text.is_ascii()),
            // Expected messages have their colours removed, so the sources are searched.
            "colours" => tree(&source_root().join("fixtures").join(row.fixture)).values().any(|(_, content)| {
                let text = String::from_utf8_lossy(content);
                ESCAPES.iter().any(|escape| text.contains(escape))
            }),
            "many" => row.total() >= REPORTED_MIN && row.count("passed") >= PASSED_MIN,
            _ => false,
        }
    }

    fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_framework_has_a_row_of_each_kind_or_a_reason() {
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
                let row =
                    row.unwrap_or_else(|| panic!("{framework}: the table has no row {name:?}, listed for {kind:?}"));
                assert_eq!(row.framework, *framework);
                assert!(demonstrates(row, kind), "{framework}: the row {name:?} does not demonstrate {kind:?}");
            }
        }
        assert_eq!(WITHOUT.len(), without.len());
        assert_eq!(WITHOUT.iter().map(|(framework, kind, _)| (*framework, *kind)).collect::<BTreeSet<_>>(), without);
        assert!(WITHOUT.iter().all(|(_, _, why)| !why.is_empty()));
    }
}
