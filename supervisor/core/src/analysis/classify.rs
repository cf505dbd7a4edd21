//! The kind of one failure, and what follows from it.

use super::analyzed_failure::AnalyzedFailure;
use super::install::install_command;
use super::mask::MaskedMessage;
use super::package_names::is_namespace;
use super::pattern_kind::PatternKind;
use super::patterns::{Language, Pattern};
use super::template::{Captures, fill, match_line};
use super::{Confidence, ProjectContext};
use crate::test_case::CollectorKind;
use std::collections::HashMap;

/// Most lines of a message and of an output that are compared with the patterns.
const MESSAGE_LINES_MAX: usize = 40;
/// See [`MESSAGE_LINES_MAX`].
const OUTPUT_LINES_MAX: usize = 60;

/// Most bytes of such a line.
const LINE_BYTES_MAX: usize = 1024;

/// The kind of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Classification {
    pub(super) kind: PatternKind,
    pub(super) confidence: Confidence,
    pub(super) suggestion: Option<String>,
    /// The name that the pattern captured: a module, a file, a variable, a test.
    pub(super) subject: Option<String>,
}

impl Classification {
    /// The degree of the suggestion. Even where the kind is certain, what to do about it is not.
    pub(super) fn suggestion_confidence(&self) -> Confidence {
        self.confidence.min(Confidence::Likely)
    }
}

/// What decides a classification beside the captured output.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MessageKey {
    message: MaskedMessage,
    values: Option<PatternKind>,
    is_rejection: bool,
    reads_environment: bool,
}

/// Classifies the failures of a run. Alike messages are compared with all patterns once; each has the values of its own words.
pub(super) struct Classifier<'a> {
    project: &'a ProjectContext<'a>,
    /// The pattern that the first message of a key has, at most one entry for each failure of a report.
    by_message: HashMap<MessageKey, Option<&'static Pattern>>,
}

impl<'a> Classifier<'a> {
    pub(super) fn new(project: &'a ProjectContext<'a>) -> Classifier<'a> {
        Classifier { project, by_message: HashMap::new() }
    }

    /// The classification of `failed`, whose masked message is `message`.
    pub(super) fn classify(&mut self, failed: &AnalyzedFailure<'_>, message: &MaskedMessage) -> Classification {
        let values = by_values(failed);
        let key = MessageKey {
            message: message.clone(),
            values: values.as_ref().map(|class| class.kind),
            is_rejection: failed.collector.is_some(),
            reads_environment: failed.innermost_shows("os.environ"),
        };
        let (project, lines) = (self.project, message_lines(failed));
        let found = match self.by_message.get(&key).copied() {
            Some(None) => None,
            Some(Some(pattern)) => captures(pattern, lines.clone())
                .map(|captures| (pattern, captures))
                .or_else(|| find_pattern(lines, failed, project)),
            None => {
                let found = find_pattern(lines, failed, project);
                self.by_message.insert(key, found.as_ref().map(|(pattern, _)| *pattern));
                found
            }
        };
        let found = found.map(|(pattern, captures)| fill_pattern(pattern, &captures, project));
        match by_message(failed, values, found) {
            Some(class) if class.kind != PatternKind::Crash => class,
            known => by_output(failed, project).or(known).unwrap_or_else(|| without_pattern(failed)),
        }
    }
}

/// Kinds that a runner reports together with an expected and an actual value.
const WITH_VALUES: [PatternKind; 5] = [
    PatternKind::DataRace,
    PatternKind::LeakedResource,
    PatternKind::MissingException,
    PatternKind::MockExpectation,
    PatternKind::SnapshotMismatch,
];

fn by_message(
    failed: &AnalyzedFailure<'_>,
    values: Option<Classification>,
    found: Option<Match>,
) -> Option<Classification> {
    // What the compiler or runner itself says about a file that it rejected is a fact.
    let confidence = if failed.collector.is_some() { Confidence::Certain } else { Confidence::Likely };
    match found {
        // A comparison may be of texts with any words.
        found if values.is_some() && !found.as_ref().is_some_and(|(kind, ..)| WITH_VALUES.contains(kind)) => values,
        Some((PatternKind::MissingKey, _, Some(name))) if failed.innermost_shows("os.environ") => {
            let name = name.trim_matches('\'').to_owned();
            let suggestion = Some(format!(
                "set {name} for the run: `env` in the request or `--env`, or `environment` in .proctor.yaml"
            ));
            let kind = PatternKind::MissingEnvironmentVariable;
            Some(Classification { kind, confidence, suggestion, subject: Some(name) })
        }
        found => {
            let (kind, suggestion, subject) = found?;
            Some(Classification { kind, confidence, suggestion, subject })
        }
    }
}

type Match = (PatternKind, Option<String>, Option<String>);

// The first pattern that one of the lines has, with the values of its holes.
fn find_pattern<'a>(
    lines: impl Iterator<Item = &'a str> + Clone,
    failed: &AnalyzedFailure<'_>,
    project: &ProjectContext<'_>,
) -> Option<(&'static Pattern, Captures<'a>)> {
    let mut patterns = project.language.patterns();
    patterns.find_map(|pattern| {
        let applies = failed.collector.is_some() || !pattern.is_build_only;
        Some((pattern, applies.then(|| captures(pattern, lines.clone()))??))
    })
}

fn captures<'a>(pattern: &Pattern, mut lines: impl Iterator<Item = &'a str>) -> Option<Captures<'a>> {
    lines.find_map(|line| {
        let captures = match_line(pattern.message, line)?;
        // What a namespace lacks is a distribution of its own and no module of a package.
        if captures.first().is_some_and(|(name, value)| *name == "package" && is_namespace(value)) {
            return None;
        }
        let is_variable = pattern.kind == PatternKind::MissingEnvironmentVariable && !captures.is_empty();
        if is_variable { Some(vec![("name", environment_variable(captures[0].1)?)]) } else { Some(captures) }
    })
}

fn fill_pattern(pattern: &Pattern, captures: &Captures<'_>, project: &ProjectContext<'_>) -> Match {
    let subject = captures.first().map(|(_, value)| (*value).to_owned());
    let module = captures.iter().find(|(name, _)| *name == "module").map(|(_, value)| *value);
    let own = module.filter(|module| pattern.kind == PatternKind::MissingDependency && project.has_own(module));
    if let Some(module) = own {
        let suggestion = match project.language {
            Language::Go => format!("no package {module} is in this module: check the import path, or create it"),
            Language::Python => format!("{module} is in the workspace: put its directory on the path"),
            _ => format!("{module} begins with an entry of the workspace: check the path of the import"),
        };
        return (PatternKind::MissingModule, Some(suggestion), subject);
    }
    let install = module.and_then(|module| install_command(project.language, module, project.context));
    let filled = match install {
        Some(install) => fill(&pattern.suggestion.replace("{install}", &install), captures),
        None => fill(without_install(pattern.suggestion), captures),
    };
    (pattern.kind, Some(filled).filter(|text| !text.is_empty()), subject)
}

// What remains of the template of a suggestion where no command is known: its alternative.
fn without_install(template: &'static str) -> &'static str {
    match template.strip_prefix("{install}") {
        Some(rest) => {
            rest.strip_prefix(", or ").or_else(|| Some(rest.split_once("; otherwise ")?.1)).unwrap_or_default()
        }
        None => template,
    }
}

// The last word, if it has the form of an environment variable's name: messages have others before it.
fn environment_variable(text: &str) -> Option<&str> {
    let word = text.split_whitespace().next_back()?.trim_matches(['"', '\'', '`', '$', ':']);
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (word.len() > 1 && word.chars().all(is_part) && !word.starts_with(|c: char| c.is_ascii_digit())).then_some(word)
}

// Captured output tells less than a message: other tests and programs may have printed it.
fn by_output(failed: &AnalyzedFailure<'_>, project: &ProjectContext<'_>) -> Option<Classification> {
    let (pattern, captures) = find_pattern(output_lines(failed), failed, project)?;
    let (kind, suggestion, subject) = fill_pattern(pattern, &captures, project);
    let confidence = if failed.collector.is_some() { Confidence::Likely } else { Confidence::Possible };
    Some(Classification { kind, confidence, suggestion, subject })
}

/// The lines of a failure's message that are compared with the patterns.
pub(super) fn message_lines<'a>(failed: &AnalyzedFailure<'a>) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
    lines(failed.message, MESSAGE_LINES_MAX)
}

/// The lines at the end of a failure's output that are compared with the patterns.
pub(super) fn output_lines<'a>(failed: &AnalyzedFailure<'a>) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
    let from = failed.output.len().saturating_sub(16 * LINE_BYTES_MAX);
    lines(&failed.output[failed.output.ceil_char_boundary(from)..], OUTPUT_LINES_MAX)
}

fn lines(text: &str, most: usize) -> impl Iterator<Item = &str> + Clone {
    text.lines().take(most).map(|line| &line[..line.floor_char_boundary(LINE_BYTES_MAX)])
}

fn by_values(failed: &AnalyzedFailure<'_>) -> Option<Classification> {
    let (expected, actual) = (failed.expected?, failed.actual?);
    let class = |kind, confidence, suggestion: &str| {
        Some(Classification { kind, confidence, suggestion: Some(suggestion.to_owned()), subject: None })
    };
    if differ_by_rounding(expected, actual) {
        let suggestion = "the values differ only by rounding: compare with a tolerance";
        return class(PatternKind::FloatRounding, Confidence::Likely, suggestion);
    }
    if differ_by_time_zone(expected, actual) {
        let suggestion = "both are the same moment in different time zones: compare in one";
        return class(PatternKind::TimeZone, Confidence::Likely, suggestion);
    }
    if differ_by_order(expected, actual) {
        let suggestion = "both have the same elements in a different order: sort them, or compare without order";
        return class(PatternKind::OrderDependence, Confidence::Possible, suggestion);
    }
    class(PatternKind::Assertion, Confidence::Likely, "compare the expected with the actual value")
}

/// Largest difference that is rounding, relative to the values: some dozens of the 2.2e-16 by which neighbouring numbers differ, as a
/// sum of many terms has. Two times in seconds or two amounts of money differ by more.
const ROUNDING_MAX: f64 = 1e-14;

fn differ_by_rounding(expected: &str, actual: &str) -> bool {
    let number =
        |text: &str| text.trim().trim_matches(['<', '>']).parse::<f64>().ok().filter(|value| value.is_finite());
    let is_fraction = expected.contains('.') || actual.contains('.');
    match (number(expected), number(actual)) {
        #[expect(clippy::float_cmp, reason = "equal numbers in other spelling are no rounding")]
        (Some(one), Some(other)) => {
            is_fraction && one != other && (one - other).abs() <= ROUNDING_MAX * one.abs().max(other.abs())
        }
        _ => false,
    }
}

fn differ_by_time_zone(expected: &str, actual: &str) -> bool {
    match (Moment::parse(expected), Moment::parse(actual)) {
        (Some(one), Some(other)) => {
            one.minutes_utc == other.minutes_utc && one.seconds == other.seconds && one.zone != other.zone
        }
        _ => false,
    }
}

/// A time with a zone, as in `2024-05-01T12:00:00+02:00`.
#[derive(Debug, PartialEq, Eq)]
struct Moment<'a> {
    /// Months count as 31 days: equal minutes are the same minute, but the same minute in two months is not found.
    minutes_utc: i64,
    /// What stands between the minute and the zone.
    seconds: &'a str,
    /// Minutes east of UTC.
    zone: i64,
}

impl Moment<'_> {
    fn parse(text: &str) -> Option<Moment<'_>> {
        let text = text.trim().trim_matches(['\'', '"']);
        let date_ends = text.as_bytes().get(10).is_some_and(|byte| matches!(byte, b'T' | b' '));
        if !text.is_ascii() || text.len() < 17 || text.as_bytes()[4] != b'-' || !date_ends {
            return None;
        }
        let number = |digits: &str| digits.parse::<u16>().ok().filter(|_| !digits.starts_with('+')).map(i64::from);
        let field = |range: std::ops::Range<usize>| number(text.get(range)?);
        let zone_at = 16 + text[16..].find(['Z', '+', '-'])?;
        let zone = match &text[zone_at..] {
            "Z" => 0,
            zone => {
                let digits = zone[1..].replace(':', "");
                let east = match digits.len() {
                    2 => number(&digits)? * 60,
                    4 => number(&digits[..2])? * 60 + number(&digits[2..])?,
                    _ => return None,
                };
                if zone.starts_with('-') { -east } else { east }
            }
        };
        let days = (field(0..4)? * 12 + field(5..7)?) * 31 + field(8..10)?;
        let minutes_utc = (days * 24 + field(11..13)?) * 60 + field(14..16)? - zone;
        Some(Moment { minutes_utc, seconds: &text[16..zone_at], zone })
    }
}

fn differ_by_order(expected: &str, actual: &str) -> bool {
    let sorted = |text| {
        let mut elements = elements(text)?;
        elements.sort_unstable();
        Some(elements)
    };
    expected != actual && matches!((sorted(expected), sorted(actual)), (Some(one), Some(other)) if one == other)
}

// The elements of a list that is whole, at least two: those of `['b', 'a']`, and numbers as Go prints them, `[2 1]`.
fn elements(text: &str) -> Option<Vec<&str>> {
    let text = text.trim();
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    if inner.contains("...") || inner.contains('…') {
        return None;
    }
    let (mut elements, mut begin, mut depth, mut quote, mut is_escaped) = (Vec::new(), 0, 0_u32, None, false);
    for (at, character) in inner.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if quote.is_some() => quote = quote.filter(|open| *open != character),
            '"' | '\'' | '`' => quote = Some(character),
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                elements.push(inner[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    elements.push(inner[begin..].trim());
    // A comma may end the last line.
    elements.retain(|element| !element.is_empty());
    if elements.len() == 1 {
        elements = inner.split_whitespace().collect();
        elements.iter().all(|element| element.parse::<f64>().is_ok()).then_some(())?;
    }
    (elements.len() > 1 && depth == 0 && quote.is_none()).then_some(elements)
}

fn without_pattern(failed: &AnalyzedFailure<'_>) -> Classification {
    let kind = match failed.collector {
        Some(CollectorKind::Build) => PatternKind::BuildError,
        Some(CollectorKind::Collection) => PatternKind::Exception,
        None if failed.message.contains("panic: ") => PatternKind::Exception,
        None if failed.message.starts_with("assert") => PatternKind::Assertion,
        None => {
            let first = failed.message.split([':', ' ', '(']).next().unwrap_or_default();
            if first.contains("Assert") {
                PatternKind::Assertion
            } else if ["Error", "Exception", "Failure"].iter().any(|end| first.ends_with(end)) {
                PatternKind::Exception
            } else {
                PatternKind::Unknown
            }
        }
    };
    let confidence = if failed.collector.is_some() { Confidence::Certain } else { Confidence::Likely };
    Classification { kind, confidence, suggestion: None, subject: None }
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
            ("1700000000.0", "1700000001.0", false),
            ("12345678.01", "12345678.02", false),
            ("1.0", "1.0000000001", false),
            ("1.0", "0.9999999999999999", true),
            ("1.0", "1.00", false),
            ("1000000000000", "1000000000001", false),
            ("NaN", "0.3", false),
        ] {
            assert_eq!(differ_by_rounding(expected, actual), is_rounding, "{expected} {actual}");
        }
    }

    #[test]
    fn an_environment_variable_is_the_last_word_in_capitals() {
        for (text, name) in [
            ("API_KEY", Some("API_KEY")),
            ("panic: $API_KEY", Some("API_KEY")),
            ("please set 'API_KEY2'", Some("API_KEY2")),
            ("called `Result::unwrap()` on an `Err` value", None),
            ("the timer", None),
            ("2ND", None),
            ("", None),
        ] {
            assert_eq!(environment_variable(text), name, "{text}");
        }
    }

    #[test]
    fn the_same_moment_in_another_zone_is_recognised() {
        let noon = "2024-05-01T12:00:05Z";
        for (expected, actual, is_zone) in [
            ("'1970-01-01T02:00:00+02:00'", "1970-01-01T00:00:00Z", true),
            (noon, "2024-05-01T14:00:05+02", true),
            (noon, "2024-05-01T07:00:05-0500", true),
            (noon, "2024-05-01T14:00:09+02:00", false),
            (noon, "2024-05-01T12:00:05+00:00", false),
            (noon, "2024-05-01T12:00:05+02:00", false),
            (noon, "2024-05-01T12:00:05", false),
            (noon, "2024-05-01T12:00:05+02:00[Europe/Berlin]", false),
        ] {
            assert_eq!(differ_by_time_zone(expected, actual), is_zone, "{expected} {actual}");
        }
    }

    #[test]
    fn order_is_of_the_same_elements() {
        for (expected, actual, is_order) in [
            ("['b', 'a']", "['a', 'b']", true),
            ("[\n  \"b, c\",\n  \"a\",\n]", "[\n  \"a\",\n  \"b, c\",\n]", true),
            ("[[1, 2], 3]", "[3, [1, 2]]", true),
            ("[2 1]", "[1 2]", true),
            ("['b', 'a']", "['a', 'c']", false),
            ("{'a': 1, 'b': 2}", "{'a': 2, 'b': 1}", false),
            ("[[1, 2], [3]]", "[[1], [2, 3]]", false),
            ("['b, a']", "['a, b']", false),
            ("[a b c]", "[b a c]", false),
            ("[2, 1, ...]", "[1, 2, ...]", false),
            ("'b a'", "'a b'", false),
            ("[]", "[]", false),
        ] {
            assert_eq!(differ_by_order(expected, actual), is_order, "{expected} {actual}");
        }
    }
}
