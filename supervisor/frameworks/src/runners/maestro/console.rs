//! What a line that Maestro prints means (`TestSuiteStatusView` and `TestSuiteInteractor` of its sources). Must not know
//! which flows there are.

use regex::Regex;
use std::sync::LazyLock;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OutputTail<'a> {
    /// Flows are about to run.
    Waiting,
    /// A flow ended; `rest` is its name, its duration and, for one that failed, why.
    Ended { verdict: Verdict, rest: &'a str },
    /// All flows ended: `1/2 Flows Failed`.
    Total,
    /// Anything else.
    Other,
}

/// What became of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Also one with a warning.
    Passed,
    /// A command of it did not hold.
    Failed,
    /// It was not carried out to its end.
    Stopped,
}

/// Maestro's words for it, as they stand in brackets.
const VERDICTS: [(&str, Verdict); 7] = [
    ("[Passed] ", Verdict::Passed),
    ("[Failed] ", Verdict::Failed),
    ("[Stopped] ", Verdict::Stopped),
    ("[Skipped] ", Verdict::Stopped),
    ("[Timeout] ", Verdict::Stopped),
    ("[Canceled by user] ", Verdict::Stopped),
    ("[Canceled (unknown reason)] ", Verdict::Stopped),
];

static SHARD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\[shard \d+\] ").ok());
static TOTAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d+/\d+ Flows? (?:Passed|Failed)\b").ok());
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r" \(((?:\d+(?:\.\d+)?(?:ms|us|ns|[smhd]) ?)+)\)").ok());

/// What `line` says.
pub(super) fn said(line: &str) -> OutputTail<'_> {
    let shard = SHARD.as_ref().and_then(|shard| shard.find(line)).map_or(0, |found| found.end());
    let line = line.get(shard..).unwrap_or_default();
    let ended = VERDICTS.iter().find_map(|(word, verdict)| Some((*verdict, line.strip_prefix(word)?)));
    if let Some((verdict, rest)) = ended {
        return OutputTail::Ended { verdict, rest };
    }
    match line {
        "Waiting for flows to complete..." => OutputTail::Waiting,
        total if TOTAL.as_ref().is_some_and(|shape| shape.is_match(total)) => OutputTail::Total,
        _ => OutputTail::Other,
    }
}

/// A name before its duration, for a flow that nobody knows.
pub(super) fn name(rest: &str) -> &str {
    let end = DURATION.as_ref().and_then(|shape| shape.find(rest)).map_or(rest.len(), |found| found.start());
    rest.get(..end).unwrap_or(rest)
}

/// The duration in seconds, and the text behind it, of what follows a name: ` (1m 12s) (why it failed`.
pub(super) fn after_name(rest: &str) -> (Option<f64>, &str) {
    let found = DURATION.as_ref().and_then(|shape| shape.captures(rest)).filter(|found| {
        let whole = found.get(0);
        whole.is_some_and(|whole| whole.start() == 0)
    });
    let Some(found) = found else { return (None, rest) };
    let end = found.get(0).map_or(0, |whole| whole.end());
    (found.get(1).and_then(|text| seconds(text.as_str())), rest.get(end..).unwrap_or_default())
}

/// A duration as Kotlin writes it: `1h 2m 3.5s`, `20ms`.
fn seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 7] =
        [("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0), ("m", 60.0), ("h", 3_600.0), ("d", 86_400.0)];
    text.split_whitespace()
        .map(|part| {
            let (unit, factor) = UNITS.iter().find(|(unit, _)| part.ends_with(unit))?;
            Some(part.strip_suffix(unit)?.parse::<f64>().ok()? * factor)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_is_one() {
        assert!(SHARD.is_some() && TOTAL.is_some() && DURATION.is_some());
    }

    #[test]
    fn lines_are_read_in_all_their_forms() {
        let ended = |verdict, rest| OutputTail::Ended { verdict, rest };
        for (line, meaning) in [
            ("Waiting for flows to complete...", OutputTail::Waiting),
            ("[shard 2] Waiting for flows to complete...", OutputTail::Waiting),
            ("[Passed] Log in (12s)", ended(Verdict::Passed, "Log in (12s)")),
            ("[shard 1] [Failed] a (2s) (not visible)", ended(Verdict::Failed, "a (2s) (not visible)")),
            ("[Stopped] a", ended(Verdict::Stopped, "a")),
            ("1/2 Flows Failed", OutputTail::Total),
            ("1/1 Flow Passed in 12s", OutputTail::Total),
            (" [Passed] indented", OutputTail::Other),
            ("[Passed]", OutputTail::Other),
            ("", OutputTail::Other),
        ] {
            assert_eq!(said(line), meaning, "{line}");
        }
    }

    #[test]
    fn a_name_may_have_brackets_of_its_own() {
        assert_eq!(name("Buy (2 items) (1m 3s) (no such item)"), "Buy (2 items)");
        assert_eq!(name("plain"), "plain");
        assert_eq!(after_name(" (1m 3s) (why)"), (Some(63.0), " (why)"));
        assert_eq!(after_name(" (20ms)"), (Some(0.02), ""));
        assert_eq!(after_name(" (why) (3s)"), (None, " (why) (3s)"));
    }
}
