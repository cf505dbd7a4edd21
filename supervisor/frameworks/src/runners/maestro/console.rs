//! Parses the lines that Maestro prints (`TestSuiteStatusView` and `TestSuiteInteractor` of its sources).

use regex::Regex;
use std::sync::LazyLock;

/// Meaning of a console line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FlowLine<'a> {
    /// Flows are about to run.
    Waiting,
    /// A flow ended; `rest` is its name, its duration and, for a failed one, the reason.
    Ended { result: FlowResult, rest: &'a str },
    /// All flows ended: `1/2 Flows Failed`.
    Total,
    /// Any other line.
    Other,
}

/// Result of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowResult {
    /// Passed, possibly with a warning.
    Passed,
    /// A command of the flow failed.
    Failed,
    /// The flow was not carried out to its end.
    Stopped,
}

/// Maestro's words for a result, in brackets as printed.
const RESULTS: [(&str, FlowResult); 7] = [
    ("[Passed] ", FlowResult::Passed),
    ("[Failed] ", FlowResult::Failed),
    ("[Stopped] ", FlowResult::Stopped),
    ("[Skipped] ", FlowResult::Stopped),
    ("[Timeout] ", FlowResult::Stopped),
    ("[Canceled by user] ", FlowResult::Stopped),
    ("[Canceled (unknown reason)] ", FlowResult::Stopped),
];

static SHARD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\[shard \d+\] ").ok());
static TOTAL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\d+/\d+ Flows? (?:Passed|Failed)\b").ok());
static DURATION: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r" \(((?:\d+(?:\.\d+)?(?:ms|us|ns|[smhd]) ?)+)\)").ok());

/// Parses a line.
pub(super) fn parse_line(line: &str) -> FlowLine<'_> {
    let shard = SHARD.as_ref().and_then(|shard| shard.find(line)).map_or(0, |found| found.end());
    let line = line.get(shard..).unwrap_or_default();
    let ended = RESULTS.iter().find_map(|(word, result)| Some((*result, line.strip_prefix(word)?)));
    if let Some((result, rest)) = ended {
        return FlowLine::Ended { result, rest };
    }
    match line {
        "Waiting for flows to complete..." => FlowLine::Waiting,
        total if TOTAL.as_ref().is_some_and(|pattern| pattern.is_match(total)) => FlowLine::Total,
        _ => FlowLine::Other,
    }
}

/// The name before the duration, for an unknown flow.
pub(super) fn name(rest: &str) -> &str {
    let end = DURATION.as_ref().and_then(|pattern| pattern.find(rest)).map_or(rest.len(), |found| found.start());
    rest.get(..end).unwrap_or(rest)
}

/// Parses what follows a name, ` (1m 12s) (why it failed`: the duration in seconds, and the text behind it.
pub(super) fn after_name(rest: &str) -> (Option<f64>, &str) {
    let found = DURATION.as_ref().and_then(|pattern| pattern.captures(rest)).filter(|found| {
        let whole = found.get(0);
        whole.is_some_and(|whole| whole.start() == 0)
    });
    let Some(found) = found else { return (None, rest) };
    let end = found.get(0).map_or(0, |whole| whole.end());
    (found.get(1).and_then(|text| seconds(text.as_str())), rest.get(end..).unwrap_or_default())
}

/// Parses a duration in Kotlin's format: `1h 2m 3.5s`, `20ms`.
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
    fn every_pattern_compiles() {
        assert!(SHARD.is_some() && TOTAL.is_some() && DURATION.is_some());
    }

    #[test]
    fn parses_lines_in_all_their_formats() {
        let ended = |result, rest| FlowLine::Ended { result, rest };
        for (line, expected) in [
            ("Waiting for flows to complete...", FlowLine::Waiting),
            ("[shard 2] Waiting for flows to complete...", FlowLine::Waiting),
            ("[Passed] Log in (12s)", ended(FlowResult::Passed, "Log in (12s)")),
            ("[shard 1] [Failed] a (2s) (not visible)", ended(FlowResult::Failed, "a (2s) (not visible)")),
            ("[Stopped] a", ended(FlowResult::Stopped, "a")),
            ("1/2 Flows Failed", FlowLine::Total),
            ("1/1 Flow Passed in 12s", FlowLine::Total),
            (" [Passed] indented", FlowLine::Other),
            ("[Passed]", FlowLine::Other),
            ("", FlowLine::Other),
        ] {
            assert_eq!(parse_line(line), expected, "{line}");
        }
    }

    #[test]
    fn a_name_may_contain_brackets() {
        assert_eq!(name("Buy (2 items) (1m 3s) (no such item)"), "Buy (2 items)");
        assert_eq!(name("plain"), "plain");
        assert_eq!(after_name(" (1m 3s) (why)"), (Some(63.0), " (why)"));
        assert_eq!(after_name(" (20ms)"), (Some(0.02), ""));
        assert_eq!(after_name(" (why) (3s)"), (None, " (why) (3s)"));
    }
}
