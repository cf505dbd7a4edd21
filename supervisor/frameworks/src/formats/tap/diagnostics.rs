//! Diagnostics below a test point: a block of YAML, or comments. Of YAML only what TAP producers write is read: a key with its value
//! on one line, and texts of several lines.

use crate::parsing::assertion_values::assertion_values;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::TEST_OUTPUT_BYTES_MAX;
use proctor_core::test_case::{TestCase, TestOutcome};
use regex::Regex;
use std::sync::LazyLock;

/// Keys of each piece of information, as different producers spell them.
const MESSAGE: &[&str] = &["message", "error", "reason"];
const EXPECTED: &[&str] = &["expected", "wanted", "expect"];
const ACTUAL: &[&str] = &["actual", "found", "got", "received"];
const FILE: &[&str] = &["file", "fileName"];
const LINE: &[&str] = &["line", "lineNumber"];
const STACK: &[&str] = &["stack"];
const LOCATION: &[&str] = &["location", "at"];
/// AVA's substitutes for a message: the assertion, and a diff with `-` before actual and `+` before expected lines.
const ASSERTION: &[&str] = &["assertion"];
const DIFFERENCE: &[&str] = &["'Difference (- actual, + expected):'"];

static PAIR: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^(?P<indent>\s*)(?P<key>\w+|'[^']+')\s*:(?:\s+(?P<value>.*))?$").ok());
/// `file.js:3:1`, and Perl's `at t/a.t line 3.`
static AT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?P<file>[^\s:()']+\.\w+):(?P<line>\d+)").ok());
static AT_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\bat (?P<file>\S+) line (?P<line>\d+)\.").ok());
/// Perl's values: `got: '1'` above `expected: '2'`.
static GOT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*got: (?P<actual>.+)\n\s*expected: (?P<expected>.+)$").ok());

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Yaml,
    /// After the block.
    Done,
}

/// The diagnostics of one point.
#[derive(Debug)]
pub(super) struct Diagnostics {
    indent: usize,
    /// Whether the point failed only because its subtests did.
    echoes: bool,
    within: Within,
    yaml: Vec<String>,
    comments: String,
    bytes: usize,
}

impl Diagnostics {
    /// Diagnostics of a point with this indentation in blanks.
    pub(super) fn new(indent: usize, echoes: bool) -> Diagnostics {
        Diagnostics { indent, echoes, within: Within::Nothing, yaml: Vec::new(), comments: String::new(), bytes: 0 }
    }

    /// Adds the line if it belongs to the diagnostics; `false` if it does not.
    pub(super) fn add_line(&mut self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        match self.within {
            Within::Yaml if text == "..." && indent <= self.indent + 4 => self.within = Within::Done,
            Within::Yaml => {
                self.bytes += line.len() + 1;
                if self.bytes <= TEST_OUTPUT_BYTES_MAX {
                    self.yaml.push(line.to_owned());
                }
            }
            Within::Nothing if text == "---" && indent > self.indent => self.within = Within::Yaml,
            _ => {
                let comment = text.strip_prefix('#').filter(|comment| !comment.starts_with(" Subtest: "));
                let Some(comment) = comment.filter(|_| indent == self.indent) else { return false };
                self.bytes += comment.len() + 1;
                if self.bytes <= TEST_OUTPUT_BYTES_MAX {
                    self.comments.push_str(comment.strip_prefix(' ').unwrap_or(comment));
                    self.comments.push('\n');
                }
            }
        }
        true
    }

    /// Fills in the test case from the diagnostics.
    pub(super) fn explain(&self, case: &mut TestCase, paths: &WorkspacePaths) {
        let is_failed = case.outcome.is_failure() || case.outcome == TestOutcome::Xfailed;
        if case.outcome == TestOutcome::Passed || self.echoes {
            return;
        }
        let text = |keys: &[&str]| self.value(keys).map(|value| paths.scrub(&value)).filter(|value| !value.is_empty());
        let comments = paths.scrub(self.comments.trim_end());
        let first = comments.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        case.message = text(MESSAGE).or(first).or_else(|| text(ASSERTION));
        case.stack = text(STACK).filter(|_| is_failed);
        case.output = Some(comments.clone()).filter(|comments| is_failed && !comments.is_empty());
        if !is_failed {
            return;
        }
        (case.expected, case.actual) = (text(EXPECTED), text(ACTUAL));
        if case.expected.is_none() && case.actual.is_none() {
            let got = GOT.as_ref().and_then(|got| got.captures(&comments));
            let read = got.map(|got| (unquoted(&got["expected"]), unquoted(&got["actual"])));
            (case.expected, case.actual) = read.or_else(|| assertion_values(case.message.as_deref()?)).unzip();
        }
        if let Some(difference) = text(DIFFERENCE).filter(|_| case.expected.is_none() && case.actual.is_none()) {
            (case.expected, case.actual) = (Some(side(&difference, '-')), Some(side(&difference, '+')));
        }
        let place = self.place(paths);
        (case.file, case.line) = place.unzip();
    }

    fn place(&self, paths: &WorkspacePaths) -> Option<(String, u32)> {
        let inside = |file: &str, line: &str| {
            let line = line.trim().parse().ok().filter(|line| *line > 0)?;
            let file = file.strip_prefix("//").filter(|file| file.starts_with('/')).unwrap_or(file);
            // A line of a library does not show where the test failed.
            let is_own = |file: &String| !file.split('/').any(|part| part == "node_modules");
            Some((paths.relative_to("", file).filter(is_own)?, line))
        };
        let named = self.value(FILE).zip(self.value(LINE)).and_then(|(file, line)| inside(&file, &line));
        let read = |regex: &LazyLock<Option<Regex>>, text: &str| {
            regex.as_ref()?.captures_iter(text).find_map(|at| inside(&at["file"], &at["line"]))
        };
        // The stack has the place of the failure, the other keys the place of the test.
        read(&AT, &self.value(STACK).unwrap_or_default())
            .or(named)
            .or_else(|| read(&AT, &self.value(LOCATION)?))
            .or_else(|| read(&AT_LINE, &self.comments))
    }

    /// The value of the first of these keys that exists.
    fn value(&self, keys: &[&str]) -> Option<String> {
        keys.iter().find_map(|key| self.value_of(key))
    }

    fn value_of(&self, wanted: &str) -> Option<String> {
        let mut lines = self.yaml.iter();
        while let Some(line) = lines.next() {
            let Some(pair) = PAIR.as_ref().and_then(|pair| pair.captures(line)) else { continue };
            if &pair["key"] != wanted {
                continue;
            }
            let (indent, value) = (pair["indent"].len(), pair.name("value").map_or("", |value| value.as_str()));
            let deeper = |line: &&String| line.is_empty() || line.len() - line.trim_start().len() > indent;
            // QUnit writes its values as JSON over several lines.
            if let Some(close) = matches!(value, "{" | "[").then(|| if value == "{" { "}" } else { "]" }) {
                let within: Vec<&str> = lines.take_while(deeper).map(|line| line.trim()).collect();
                return Some(format!("{value} {} {close}", within.join(" ")));
            }
            // The digit of a block style such as `|2-` is its indentation.
            let style: String = value.chars().filter(|char| !char.is_ascii_digit()).collect();
            if !matches!(style.as_str(), "|" | "|-" | "|+" | ">" | ">-" | ">+") || style.len() + 1 < value.len() {
                return Some(unquoted(value)).filter(|value| !value.is_empty());
            }
            let block: Vec<&str> = lines.take_while(deeper).map(String::as_str).collect();
            let common =
                block.iter().filter(|line| !line.is_empty()).map(|line| line.len() - line.trim_start().len()).min();
            let common = common.unwrap_or(0);
            return Some(
                block.iter().map(|line| line.get(common..).unwrap_or_default()).collect::<Vec<_>>().join("\n"),
            );
        }
        None
    }
}

/// One side of a line diff: the lines that do not start with the sign `without`. Common lines start with a blank.
fn side(difference: &str, without: char) -> String {
    let own = difference.lines().filter(|line| !line.starts_with(without));
    own.map(|line| line.get(2..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// A scalar without its quotes.
fn unquoted(value: &str) -> String {
    let value = value.trim();
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    match (inside('\''), inside('"')) {
        (Some(single), _) => single.replace("''", "'"),
        (None, Some(double)) => double.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"),
        (None, None) => value.to_owned(),
    }
}
