//! Evaluates a `-run` expression as the test binary does: which top-level tests it selects, and whether with all their
//! subtests.

use proctor_core::filter::FILTER_CHARS_MAX;
use regex::bytes::{Regex, RegexBuilder};
use std::collections::HashMap;

/// Longest expression whose patterns are compiled, in bytes: that of a request's filter. Longer ones name tests one by one.
const PATTERNS_BYTES_MAX: usize = 4 * FILTER_CHARS_MAX;

/// Largest compiled pattern, in bytes. The expression is read from a directory that tests can write to, so it is untrusted.
const COMPILED_BYTES_MAX: usize = 64 * 1024;

/// How much of a top-level test an expression selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// Some of its subtests, or an unknown part.
    Part,
    /// The test with all its subtests.
    Whole,
}

/// The first levels of an expression's paths, each with the extent that the levels below it leave of a test.
#[derive(Debug, Default)]
pub(super) struct RunExpression {
    /// `^TestA$` and the like. Reruns consist of thousands of them, and they match exactly.
    exact: HashMap<String, Extent>,
    /// Every other first level; `None` for an unreadable one, which may select anything.
    patterns: Vec<(Option<Regex>, Extent)>,
}

impl RunExpression {
    pub(super) fn parse(expression: &str) -> RunExpression {
        let mut parsed = RunExpression::default();
        for path in paths(expression) {
            let first = path.first().copied().unwrap_or_default();
            // An empty level matches everything, so `TestA/` leaves no subtest out.
            let nothing_below = path.iter().skip(1).all(|level| level.is_empty());
            let extent = if nothing_below { Extent::Whole } else { Extent::Part };
            if let Some(name) = literal(first) {
                let known = parsed.exact.entry(name).or_insert(extent);
                *known = extent.max(*known);
            } else if expression.len() > PATTERNS_BYTES_MAX {
                parsed.patterns = vec![(None, Extent::Part)];
                break;
            } else {
                let pattern = compile(first);
                let extent = if pattern.is_some() { extent } else { Extent::Part };
                parsed.patterns.push((pattern, extent));
            }
        }
        parsed
    }

    /// How much of the top-level test `name` runs; `None` if nothing of it does.
    ///
    /// Go's patterns and Rust's differ in edge cases, so a test that ran although no pattern seems to match ran in part.
    pub(super) fn extent(&self, name: &str) -> Option<Extent> {
        let matches = |pattern: &Option<Regex>| pattern.as_ref().is_none_or(|it| it.is_match(name.as_bytes()));
        let patterns = self.patterns.iter().filter(|(pattern, _)| matches(pattern)).map(|(_, extent)| *extent);
        let unsure = (!self.patterns.is_empty()).then_some(Extent::Part);
        self.exact.get(name).copied().into_iter().chain(patterns).max().or(unsure)
    }
}

/// Compiles to bytes instead of Unicode, as `\w` and `\d` are ASCII in Go.
fn compile(level: &str) -> Option<Regex> {
    // The test binary replaces blanks in the same way before it compiles.
    let level = level.replace(' ', "_");
    RegexBuilder::new(&level).unicode(false).size_limit(COMPILED_BYTES_MAX).build().ok()
}

/// The paths of an expression and their levels. `|` and `/` separate only outside of brackets and parentheses, as in
/// `splitRegexp` of <https://go.dev/src/testing/match.go>.
fn paths(expression: &str) -> Vec<Vec<&str>> {
    let mut paths = vec![Vec::new()];
    let (mut brackets, mut parentheses) = (0_usize, 0_isize);
    let mut from = 0;
    let mut bytes = expression.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'[' => brackets += 1,
            b']' => brackets = brackets.saturating_sub(1),
            b'(' if brackets == 0 => parentheses += 1,
            b')' if brackets == 0 => parentheses -= 1,
            b'\\' => _ = bytes.next(),
            b'/' | b'|' if brackets == 0 && parentheses == 0 => {
                push_level(&mut paths, &expression[from..at]);
                from = at + 1;
                if byte == b'|' {
                    paths.push(Vec::new());
                }
            }
            _ => {}
        }
    }
    push_level(&mut paths, &expression[from..]);
    paths
}

fn push_level<'a>(paths: &mut [Vec<&'a str>], level: &'a str) {
    if let Some(path) = paths.last_mut() {
        path.push(level);
    }
}

/// The one name that `^name$` matches; `None` for a pattern.
fn literal(level: &str) -> Option<String> {
    let quoted = level.strip_prefix('^')?.strip_suffix('$')?;
    let mut name = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => name.push(characters.next().filter(|quoted| is_special(*quoted))?),
            character if is_special(character) => return None,
            character => name.push(character),
        }
    }
    Some(name)
}

/// Quotes Go's regexp metacharacters, as its `QuoteMeta` does.
pub(super) fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 8);
    for character in name.chars() {
        if is_special(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

fn is_special(character: char) -> bool {
    r"\.+*?()|[]{}^$".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_whole_unless_its_path_goes_on_below_it() {
        let (whole, part) = (Some(Extent::Whole), Some(Extent::Part));
        for (expression, name, expected) in [
            ("^TestA$", "TestA", whole),
            ("^TestA$", "TestAb", None),
            ("^TestA$/^x$", "TestA", part),
            ("^TestA$/^x$|^TestB$", "TestA", part),
            ("^TestA$/^x$|^TestB$", "TestB", whole),
            ("^TestA$/^x$|^TestA$", "TestA", whole),
            (r"^Test\.Ä$/^a\|b$", "Test.Ä", part),
            ("TestA", "TestAb", whole),
            ("TestA/x", "TestAb", part),
            ("TestA/", "TestA", whole),
            ("/x", "TestA", part),
            ("Test(A/x|B)", "TestA", part),
            ("Test[A/|]", "TestA", whole),
            (r"Test\w+$|TestÄ/x", "TestAb", whole),
            (r"Test\w+$|TestÄ/x", "TestÄ", part),
            // Rust's regex has no `\Q`, so this expression is unreadable here.
            (r"\QTestA\E", "TestA", part),
            ("Test(", "TestA", part),
            ("Test[", "TestA", part),
            ("", "TestA", whole),
        ] {
            assert_eq!(RunExpression::parse(expression).extent(name), expected, "{expression} {name}");
        }
    }

    #[test]
    fn hostile_expressions_are_not_compiled() {
        let many = RunExpression::parse(&r"\w{1000}|".repeat(100_000));
        assert_eq!((many.patterns.len(), many.extent("TestA")), (1, Some(Extent::Part)));
        let large = RunExpression::parse("((((a{99}){99}){99}){99})");
        assert_eq!(large.extent("TestA"), Some(Extent::Part));
        assert_eq!(RunExpression::parse("a\\").extent("TestA"), Some(Extent::Part));
    }
}
