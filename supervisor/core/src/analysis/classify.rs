//! The kind of one failure, and what follows from it.

use super::failures::Failed;
use super::install::install_command;
use super::kind::Kind;
use super::template::{fill, match_line};
use super::{Confidence, Project};
use crate::test_case::CollectorKind;

/// Most lines of a message and of an output that are compared with the patterns.
const MESSAGE_LINES_MAX: usize = 40;
/// See [`MESSAGE_LINES_MAX`].
const OUTPUT_LINES_MAX: usize = 60;

/// Most bytes of such a line.
const LINE_BYTES_MAX: usize = 1024;

/// The kind of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) kind: Kind,
    pub(super) confidence: Confidence,
    pub(super) suggestion: Option<String>,
    /// The name that the pattern captured: a module, a file, a variable, a test.
    pub(super) subject: Option<String>,
}

/// Classifies a failure of a run.
pub(super) fn classify(failed: &Failed<'_>, project: &Project<'_>) -> Class {
    let by_message = by_pattern(lines(failed.message, MESSAGE_LINES_MAX), project);
    // What the compiler or runner itself says about a file that it rejected is a fact.
    let certain = if failed.collector.is_some() { Confidence::Certain } else { Confidence::Likely };
    let values = by_values(failed);
    match by_message {
        Some((kind, ..)) if kind == Kind::Assertion && values.is_some() => values,
        Some((Kind::MissingKey, _, Some(name))) if failed.innermost_shows("os.environ") => {
            let suggestion = Some(format!(
                "set {name} for the run: `env` in the request or `--env`, or `environment` in .proctor.yaml"
            ));
            Some(Class { kind: Kind::MissingEnvironmentVariable, confidence: certain, suggestion, subject: Some(name) })
        }
        Some((kind, suggestion, subject)) if kind != Kind::Crash => {
            Some(Class { kind, confidence: certain, suggestion, subject })
        }
        found => values.or_else(|| by_output(failed, project)).or_else(|| {
            found.map(|(kind, suggestion, subject)| Class { kind, confidence: certain, suggestion, subject })
        }),
    }
    .unwrap_or_else(|| without_pattern(failed))
}

type Match = (Kind, Option<String>, Option<String>);

fn by_pattern<'a>(lines: impl Iterator<Item = &'a str> + Clone, project: &Project<'_>) -> Option<Match> {
    project.language.patterns().find_map(|pattern| {
        let captures = lines.clone().find_map(|line| match_line(pattern.message, line))?;
        let subject = captures.first().map(|(_, value)| (*value).to_owned());
        let module = captures.iter().find(|(name, _)| *name == "module").map(|(_, value)| *value);
        let own = module.filter(|module| pattern.kind == Kind::MissingDependency && project.has_own(module));
        if let Some(module) = own {
            let suggestion = format!("no package {module} is in this module: check the import path, or create it");
            return Some((Kind::MissingModule, Some(suggestion), subject));
        }
        let install =
            module.map(|module| install_command(project.language, module, project.context)).unwrap_or_default();
        let filled = fill(pattern.suggestion, &captures).replace("{install}", &install);
        Some((pattern.kind, Some(filled).filter(|text| !text.is_empty()), subject))
    })
}

// Captured output tells less than a message: other tests and programs may have printed it.
fn by_output(failed: &Failed<'_>, project: &Project<'_>) -> Option<Class> {
    let from = failed.output.len().saturating_sub(16 * LINE_BYTES_MAX);
    let output = &failed.output[failed.output.ceil_char_boundary(from)..];
    let (kind, suggestion, subject) = by_pattern(lines(output, OUTPUT_LINES_MAX), project)?;
    let confidence = if failed.collector.is_some() { Confidence::Likely } else { Confidence::Possible };
    Some(Class { kind, confidence, suggestion, subject })
}

fn lines(text: &str, most: usize) -> impl Iterator<Item = &str> + Clone {
    text.lines().take(most).map(|line| &line[..line.floor_char_boundary(LINE_BYTES_MAX)])
}

fn by_values(failed: &Failed<'_>) -> Option<Class> {
    let (expected, actual) = (failed.expected?, failed.actual?);
    let class = |kind, confidence, suggestion: &str| {
        Some(Class { kind, confidence, suggestion: Some(suggestion.to_owned()), subject: None })
    };
    if differ_by_rounding(expected, actual) {
        let suggestion = "the values differ only by rounding: compare with a tolerance";
        return class(Kind::FloatRounding, Confidence::Likely, suggestion);
    }
    if let (Some(one), Some(other)) = (minutes_utc(expected), minutes_utc(actual)) {
        if one == other && expected != actual {
            return class(
                Kind::TimeZone,
                Confidence::Likely,
                "both are the same moment in different time zones: compare in one",
            );
        }
    }
    if differ_by_order(expected, actual) {
        let suggestion = "both have the same elements in a different order: sort them, or compare without order";
        return class(Kind::OrderDependence, Confidence::Possible, suggestion);
    }
    class(Kind::Assertion, Confidence::Likely, "compare the expected with the actual value")
}

fn differ_by_rounding(expected: &str, actual: &str) -> bool {
    let number =
        |text: &str| text.trim().trim_matches(['<', '>']).parse::<f64>().ok().filter(|value| value.is_finite());
    let is_fraction = expected.contains('.') || actual.contains('.');
    match (number(expected), number(actual)) {
        #[expect(clippy::float_cmp, reason = "equal numbers in other spelling are no rounding")]
        (Some(one), Some(other)) => {
            is_fraction && one != other && (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-300)
        }
        _ => false,
    }
}

// Minutes since the year 0 in UTC, of a time with a zone as in `2024-05-01T12:00:00+02:00`. Months count as 31 days: only equality
// of times within a month is asked for.
fn minutes_utc(text: &str) -> Option<i64> {
    let text = text.trim().trim_matches(['\'', '"']);
    if !text.is_ascii()
        || text.len() < 17
        || text.as_bytes().get(4) != Some(&b'-')
        || !matches!(text.as_bytes()[10], b'T' | b' ')
    {
        return None;
    }
    let field = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let zone = match text[16..].find(['Z', '+', '-']).map(|at| &text[16 + at..])? {
        "Z" => 0,
        zone => {
            let minutes =
                zone.get(1..3)?.parse::<i64>().ok()? * 60 + zone.get(zone.len() - 2..)?.parse::<i64>().ok()?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let days = (field(0..4)? * 12 + field(5..7)?) * 31 + field(8..10)?;
    Some((days * 24 + field(11..13)?) * 60 + field(14..16)? - zone)
}

fn differ_by_order(expected: &str, actual: &str) -> bool {
    let is_collection = |text: &str| text.trim_start().starts_with(['[', '{', '(']);
    let words = |text: &str| {
        let mut words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-')
            .filter(|word| !word.is_empty())
            .take(1_000)
            .map(str::to_owned)
            .collect();
        words.sort_unstable();
        words
    };
    is_collection(expected) && is_collection(actual) && expected != actual && expected.len() == actual.len() && {
        let words_of_expected = words(expected);
        words_of_expected.len() > 1 && words_of_expected == words(actual)
    }
}

fn without_pattern(failed: &Failed<'_>) -> Class {
    let kind = match failed.collector {
        Some(CollectorKind::Build) => Kind::BuildError,
        Some(CollectorKind::Collection) => Kind::Exception,
        None if failed.message.contains("panic: ") => Kind::Exception,
        None if failed.message.starts_with("assert") => Kind::Assertion,
        None => {
            let first = failed.message.split([':', ' ', '(']).next().unwrap_or_default();
            if first.contains("Assert") {
                Kind::Assertion
            } else if ["Error", "Exception", "Failure"].iter().any(|end| first.ends_with(end)) {
                Kind::Exception
            } else {
                Kind::Unknown
            }
        }
    };
    let confidence = if failed.collector.is_some() { Confidence::Certain } else { Confidence::Likely };
    Class { kind, confidence, suggestion: None, subject: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_a_small_difference_of_fractions() {
        for (expected, actual, is_rounding) in [
            ("0.3", "0.30000000000000004", true),
            ("<0.3>", "<0.30000000000000004>", true),
            ("0.3", "0.31", false),
            ("1.0", "1.00", false),
            ("1000000000000", "1000000000001", false),
            ("NaN", "0.3", false),
        ] {
            assert_eq!(differ_by_rounding(expected, actual), is_rounding, "{expected} {actual}");
        }
    }

    #[test]
    fn the_same_moment_in_another_zone_is_recognised() {
        assert_eq!(minutes_utc("'1970-01-01T02:00:00+02:00'"), minutes_utc("1970-01-01T00:00:00Z"));
        assert_ne!(minutes_utc("1970-01-01T02:00:00+02:00"), minutes_utc("1970-01-01T02:00:00Z"));
        assert_eq!(minutes_utc("1970-01-01T02:00:00"), None, "no zone");
    }

    #[test]
    fn order_is_of_the_same_elements() {
        assert!(differ_by_order("['b', 'a']", "['a', 'b']"));
        assert!(!differ_by_order("['b', 'a']", "['a', 'c']") && !differ_by_order("'b a'", "'a b'"));
    }
}
