//! Reads an assertion's output: message, expected and actual value. Knows the formats that Go code uses (plain `got/want`,
//! testify, go-cmp).
//!
//! Values are reported only when both are recognised: half a guess would be shown as a diff that no assertion printed.

use regex::Regex;
use std::sync::LazyLock;

/// Most lines of a message that has no diff.
const MESSAGE_LINES_MAX: usize = 40;

/// A parsed assertion.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Assertion {
    pub(super) message: String,
    pub(super) expected: Option<String>,
    pub(super) actual: Option<String>,
    /// Frames that the assertion library printed, innermost first.
    pub(super) trace: Vec<String>,
}

impl Assertion {
    /// Whether the text is certainly an assertion: it compares two values, or a library's block marks it.
    pub(super) fn is_certain(&self) -> bool {
        self.expected.is_some() || !self.trace.is_empty()
    }
}

fn regex(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

/// A value on one line: quoted, bracketed, or a single word.
const VALUE: &str = r#"("(?:[^"\\]|\\.)*"|`[^`]*`|'[^']*'|[\w.*&\[\]]*(?:\[[^\]]*\]|\{[^}]*\})|[^\s,;"'`\[\]{}()]*[^\s,;:."'`\[\]{}()])"#;

/// `got 5, want 3`
static GOT_WANT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)\bgot\s*[:=]?\s*{VALUE}\s*[,;]?\s*(?:but )?(?:want|wanted|expected|exp)\s*[:=]?\s*{VALUE}\.?$"
    ))
});

/// `want 3, got 5`, `expected 3 but got 5`
static WANT_GOT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)\b(?:want|wanted|expected|expect|exp)\s*[:=]?\s*{VALUE}\s*[,;]?\s*(?:but )?(?:instead )?(?:got|was|received|have|actual)\s*[:=]?\s*{VALUE}\.?$"
    ))
});

/// `Add(2, 2) = 5, want 4`
static IS_WANT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(&format!(
        r"(?i)(?:=|\breturned|\breturns|\bis|\bwas)\s*{VALUE}\s*[,;]\s*(?:want|wanted|expected)\s*:?\s*{VALUE}\.?$"
    ))
});

/// `got: 5` on a line of its own.
static LABEL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(
        r"(?i)^\s*(?:(?P<actual>got|have|actual|received)|(?P<expected>want|wanted|expected|exp))\s*[:=]\s*(?P<value>.*)$",
    )
});

/// `mismatch (-want +got):`
static DIFF_HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    regex(
        r"(?i)\(?-\s?(?P<minus>want|expected|exp|got|actual)\w*[,/]?\s*\+\s?(?:got|actual|have|want|expected|exp)\w*\)?:?",
    )
});

/// `\tError Trace:\tvalue` and its continuation lines.
static TESTIFY: LazyLock<Option<Regex>> =
    LazyLock::new(|| regex(r"^\s*\t(?:(?P<label>Error Trace|Error|Test|Messages):)?\s*\t(?P<text>.*)$"));

/// Parses the lines of one message, without its position and indentation.
pub(super) fn parse(lines: &[String]) -> Assertion {
    parse_testify(lines)
        .or_else(|| parse_diff(lines))
        .or_else(|| parse_labels(lines))
        .unwrap_or_else(|| parse_inline(lines))
}

fn plain_message(lines: &[String]) -> String {
    let kept: Vec<&str> = lines.iter().take(MESSAGE_LINES_MAX).map(|line| line.trim_end()).collect();
    kept.join("\n").trim().to_owned()
}

fn parse_inline(lines: &[String]) -> Assertion {
    let message = plain_message(lines);
    let find = |pattern: &LazyLock<Option<Regex>>| {
        let found = pattern.as_ref()?.captures(&message)?;
        Some((found[1].to_owned(), found[2].to_owned()))
    };
    let is_one_line = !message.contains('\n');
    let (actual, expected) = if !is_one_line {
        (None, None)
    } else if let Some((actual, expected)) = find(&GOT_WANT).or_else(|| find(&IS_WANT)) {
        (Some(actual), Some(expected))
    } else if let Some((expected, actual)) = find(&WANT_GOT) {
        (Some(actual), Some(expected))
    } else {
        (None, None)
    };
    Assertion { message, expected, actual, trace: Vec::new() }
}

/// Parses lines `got: …` and `want: …`, each with the lines that follow it.
fn parse_labels(lines: &[String]) -> Option<Assertion> {
    let pattern = LABEL.as_ref()?;
    let first = lines.iter().position(|line| pattern.is_match(line))?;
    let (mut expected, mut actual): (Option<String>, Option<String>) = (None, None);
    let mut current: Option<bool> = None;
    for line in &lines[first..] {
        if let Some(found) = pattern.captures(line) {
            let is_actual = found.name("actual").is_some();
            current = Some(is_actual);
            let slot = if is_actual { &mut actual } else { &mut expected };
            if slot.is_none() {
                *slot = Some(found["value"].trim_end().to_owned());
                continue;
            }
        }
        if line.trim().is_empty() {
            current = None;
        }
        let Some(is_actual) = current else { continue };
        if let Some(value) = if is_actual { &mut actual } else { &mut expected } {
            value.push('\n');
            value.push_str(line.trim_end());
        }
    }
    let trim = |value: String| value.trim_matches('\n').to_owned();
    let (expected, actual) = (expected.map(trim)?, actual.map(trim)?);
    let before = plain_message(&lines[..first]);
    let message = if before.is_empty() { plain_message(lines) } else { before.trim_end_matches(':').to_owned() };
    Some(Assertion { message, expected: Some(expected), actual: Some(actual), trace: Vec::new() })
}

/// Parses a go-cmp diff: expected and actual are the lines of either side.
fn parse_diff(lines: &[String]) -> Option<Assertion> {
    let pattern = DIFF_HEADER.as_ref()?;
    let at = lines.iter().position(|line| pattern.is_match(line))?;
    let minus_is_expected = {
        let found = pattern.captures(&lines[at])?;
        !matches!(found["minus"].to_ascii_lowercase().as_str(), "got" | "actual")
    };
    let side = |sign: char| {
        let marked = lines[at + 1..].iter().filter_map(|line| line.trim_start().strip_prefix(sign));
        let kept: Vec<&str> = marked.map(|line| line.trim().trim_end_matches(',')).collect();
        (!kept.is_empty()).then(|| kept.join("\n"))
    };
    let (minus, plus) = (side('-'), side('+'));
    if minus.is_none() && plus.is_none() {
        return None;
    }
    let missing = || "(nothing)".to_owned();
    let (minus, plus) = (minus.unwrap_or_else(missing), plus.unwrap_or_else(missing));
    let (expected, actual) = if minus_is_expected { (minus, plus) } else { (plus, minus) };
    let mut head = lines[..=at].to_vec();
    head[at] = pattern.replace(&head[at], "").trim().trim_end_matches(':').trim_end().to_owned();
    let message = plain_message(&head);
    let message = if message.is_empty() { "values differ".to_owned() } else { message };
    Some(Assertion { message, expected: Some(expected), actual: Some(actual), trace: Vec::new() })
}

/// Parses testify's block: labels in one column, text in the next.
fn parse_testify(lines: &[String]) -> Option<Assertion> {
    let pattern = TESTIFY.as_ref()?;
    let (mut trace, mut error, mut messages): (Vec<String>, Vec<String>, Vec<String>) = Default::default();
    let mut label = String::new();
    for line in lines {
        let Some(found) = pattern.captures(line) else { continue };
        if let Some(new) = found.name("label") {
            label = new.as_str().to_owned();
        }
        let text = found["text"].trim_end().to_owned();
        match label.as_str() {
            "Error Trace" => trace.push(text.trim().to_owned()),
            "Error" => error.push(text),
            "Messages" => messages.push(text),
            _ => {}
        }
    }
    if trace.is_empty() || error.is_empty() {
        return None;
    }
    let mut assertion = testify_values(&error).unwrap_or_else(|| parse_inline(&error));
    if assertion.expected.is_none() {
        assertion.message = error.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned();
    }
    let messages = plain_message(&messages);
    if !messages.is_empty() {
        assertion.message = format!("{}: {messages}", assertion.message);
    }
    assertion.trace = trace;
    Some(assertion)
}

/// Parses `expected: …` and `actual  : …` up to the blank line before the diff.
fn testify_values(error: &[String]) -> Option<Assertion> {
    let expected_at = error.iter().position(|line| line.starts_with("expected"))?;
    let end = error[expected_at..].iter().position(|line| line.is_empty() || line == "Diff:");
    let end = end.map_or(error.len(), |offset| expected_at + offset);
    let mut assertion = parse_labels(&error[expected_at..end])?;
    assertion.message = plain_message(&error[..expected_at]).trim_end_matches(':').trim_end().to_owned();
    Some(assertion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_text(text: &str) -> (String, Option<String>, Option<String>) {
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let assertion = parse(&lines);
        (assertion.message, assertion.expected, assertion.actual)
    }

    #[test]
    fn reads_values_on_one_line() {
        for (text, expected, actual) in [
            ("got 5, want 3", "3", "5"),
            ("sum: got 5 want 3", "3", "5"),
            ("got: 5; want: 3", "3", "5"),
            ("want 3, got 5", "3", "5"),
            ("expected 3, got 5", "3", "5"),
            ("Expected 3 but got 5.", "3", "5"),
            ("Add(2, 3) = 6; want 5", "5", "6"),
            ("Add(2, 3) = 6, want 5", "5", "6"),
            ("Name() = \"a, b\", want \"c\\\"\"", "\"c\\\"\"", "\"a, b\""),
            ("Split = [a b], want [a b c]", "[a b c]", "[a b]"),
            ("got []int{1, 2}, want []int{1}", "[]int{1}", "[]int{1, 2}"),
            ("got map[a:1], want map[b:2]", "map[b:2]", "map[a:1]"),
            ("got &{A:1 B:2}, want &{A:1 B:3}", "&{A:1 B:3}", "&{A:1 B:2}"),
            ("len was 3, expected 4", "4", "3"),
            ("got -1.5, want 2e3", "2e3", "-1.5"),
        ] {
            assert_eq!(
                parse_text(text),
                (text.to_owned(), Some(expected.to_owned()), Some(actual.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn an_uncertain_text_stays_a_message() {
        for text in [
            "expected error for empty input, got nil",
            "unexpected error: disk is on fire",
            "got an error",
            "got error reading file a: no such file, want nil",
            "bad\nthings",
        ] {
            assert_eq!(parse_text(text), (text.to_owned(), None, None), "{text}");
        }
    }

    #[test]
    fn reads_values_on_labelled_lines() {
        let expected_parts = ("mismatch".to_owned(), Some("3".to_owned()), Some("5".to_owned()));
        assert_eq!(parse_text("mismatch\ngot: 5\nwant: 3"), expected_parts);
        assert_eq!(
            parse_text("mismatch:\n  want: 3\n  got:  5"),
            ("mismatch".to_owned(), expected_parts.1.clone(), expected_parts.2.clone())
        );
        let (message, expected, actual) = parse_text("text\ngot:\na\nb\n\nwant:\na\nc");
        assert_eq!(message, "text");
        assert_eq!((expected.as_deref(), actual.as_deref()), (Some("a\nc"), Some("a\nb")));
        assert_eq!(parse_text("got: 5\nwant: 3").0, "got: 5\nwant: 3");
    }

    #[test]
    fn reads_the_differing_lines_of_a_go_cmp_diff() {
        let text = "Parse mismatch (-want +got):\n  fail.T{\n- \tA: 1,\n+ \tA: 2,\n  \tB: \"x\",\n  }";
        let expected_parts = ("Parse mismatch".to_owned(), Some("A: 1".to_owned()), Some("A: 2".to_owned()));
        assert_eq!(parse_text(text), expected_parts);
        assert_eq!(
            parse_text("(-got +want)\n- 1\n+ 2"),
            ("values differ".to_owned(), Some("2".to_owned()), Some("1".to_owned()))
        );
    }

    #[test]
    fn reads_a_testify_block() {
        let text = "\n\tError Trace:\t/w/a_test.go:12\n\t            \t\t\t\t/w/b_test.go:3\n\tError:      \tNot equal: \n\t            \texpected: 5\n\
                    \t            \tactual  : 4\n\t            \t\n\t            \tDiff:\n\t            \t--- Expected\n\tTest:       \tTestX\n\
                    \tMessages:   \tthe sum";
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let assertion = parse(&lines);
        assert_eq!(assertion.message, "Not equal: the sum");
        assert_eq!((assertion.expected.as_deref(), assertion.actual.as_deref()), (Some("5"), Some("4")));
        assert_eq!(assertion.trace, ["/w/a_test.go:12", "/w/b_test.go:3"]);
        assert!(assertion.is_certain());
    }

    #[test]
    fn a_testify_error_without_values_keeps_its_text() {
        let text = "\n\tError Trace:\t/w/a_test.go:12\n\tError:      \tReceived unexpected error:\n\t            \tboom\n\tTest:       \tTestX";
        assert_eq!(parse_text(text), ("Received unexpected error: boom".to_owned(), None, None));
    }
}
