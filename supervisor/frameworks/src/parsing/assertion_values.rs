//! Reads the expected and the actual value out of the assertion messages of many libraries. Only messages that name both are
//! read: a guess would be worse than nothing.

use regex::Regex;
use std::sync::LazyLock;

/// Shapes of assertion messages, the most certain first. Each has the groups `expected` and `actual`.
const SHAPES: &[&str] = &[
    // JUnit 5, AssertJ, Kotest: `expected: <5> but was: <4>`.
    r"(?is)\bexpected:?\s*<(?P<expected>.*?)>,? but (?:was|got):?\s*<(?P<actual>.*?)>(?:\s|$)",
    // TestNG.
    r"(?s)\bexpected \[(?P<expected>.*?)\] but found \[(?P<actual>.*?)\](?:\s|$)",
    // Hamcrest, on two lines. JUnit 4's `expected:<a[b]c> but was:<a[d]c>` matches the first shape.
    r"(?m)^Expected: (?P<expected>.+)\n\s+but: was (?P<actual>.+)$",
    // GoogleTest's predicates on values.
    r"(?m)^\s*Actual: (?P<actual>.+)\n\s*Expected: (?P<expected>.+)$",
    r"(?m)^\s*Expected: (?P<expected>.+)\n\s*Actual: (?P<actual>.+)$",
    r"(?m)^Expected: (?P<expected>\(.+\) (?:<=?|>=?|!=) \(.+\)), actual: (?P<actual>.+)$",
    // Catch2: the expansion of a comparison is on a line of its own.
    r"(?m)^with expansion:\n\s+(?P<actual>[^\n]+?) == (?P<expected>[^\n]+)$",
    // doctest: `values: CHECK( 3 == 2 )`.
    r"(?m)^\s*values: \w+\( (?P<actual>.+?)(?: == |, )(?P<expected>.+) \)$",
    // Jest, Chai and others in one line.
    r"(?i)\bexpected:? (?P<expected>\S+),? (?:but )?(?:got|was|actual|received):? (?P<actual>\S+?)\.?(?:\s|$)",
];

static SHAPE_REGEXES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect());

/// GoogleTest's `EXPECT_EQ`, whose values are on lines of their own.
const EQUALITY: &str = "Expected equality of these values:";

/// The expected and the actual value that an assertion message names.
pub(crate) fn assertion_values(text: &str) -> Option<(String, String)> {
    if let Some((_, text)) = text.split_once(EQUALITY) {
        return equality(text);
    }
    let found = SHAPE_REGEXES.iter().find_map(|shape| shape.captures(text))?;
    Some((found["expected"].trim().to_owned(), found["actual"].trim().to_owned()))
}

/// Reads two expressions, each followed by its value unless the expression is the value. An expression without a value line is
/// a literal, hence the expected one; else the second is, as in GoogleTest's own examples.
fn equality(text: &str) -> Option<(String, String)> {
    let mut sides: Vec<(&str, bool)> = Vec::new();
    for line in text.lines().skip_while(|line| line.is_empty()) {
        match (line.strip_prefix("    Which is: "), line.strip_prefix("  ")) {
            (Some(value), _) => *sides.last_mut()? = (value, true),
            (None, Some(value)) if sides.len() < 2 => sides.push((value, false)),
            _ => break,
        }
    }
    let [(first, first_computed), (second, second_computed)] = sides.as_slice() else { return None };
    let first_is_expected = !first_computed && *second_computed;
    let (expected, actual) = if first_is_expected { (first, second) } else { (second, first) };
    Some(((*expected).to_owned(), (*actual).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_values_of_common_messages() {
        for (text, expected, actual) in [
            ("expected: <5> but was: <4>", "5", "4"),
            ("sum ==> expected:<[a]> but was:<[b]>", "[a]", "[b]"),
            ("expected [a b] but found [c]", "a b", "c"),
            ("\nExpected: is <5>\n     but: was <4>", "is <5>", "<4>"),
            ("Expected equality of these values:\n  2 + 2\n    Which is: 4\n  5\nsum is off", "5", "4"),
            ("Expected equality of these values:\n  5\n  total\n    Which is: 4", "5", "4"),
            ("Expected equality of these values:\n  a\n    Which is: 1\n  b\n    Which is: 2", "2", "1"),
            ("Expected equality of these values:\n  \"abc\"\n  \"abd\"", "\"abd\"", "\"abc\""),
            ("Value of: x == 4\n  Actual: false\nExpected: true", "true", "false"),
            ("Value of: v\nExpected: has 3 elements\n  Actual: { 1, 2 }", "has 3 elements", "{ 1, 2 }"),
            ("Expected: (5) < (x), actual: 5 vs 3", "(5) < (x)", "5 vs 3"),
            ("  REQUIRE( f(1) == 2 )\nwith expansion:\n  3 == 2", "2", "3"),
            ("CHECK( a == b ) is NOT correct!\n  values: CHECK( 1 == 2 )", "2", "1"),
            ("expected 3 but got 4.", "3", "4"),
        ] {
            assert_eq!(assertion_values(text), Some((expected.to_owned(), actual.to_owned())), "{text}");
        }
    }

    #[test]
    fn returns_nothing_where_the_message_names_no_values() {
        for text in [
            "",
            "boom",
            "expected an error",
            "Expected equality of these values:",
            "Actual: 3",
            "with expansion:\n  false",
        ] {
            assert_eq!(assertion_values(text), None, "{text}");
        }
    }

    #[test]
    fn every_shape_is_a_regex() {
        assert_eq!(SHAPE_REGEXES.len(), SHAPES.len());
    }
}
