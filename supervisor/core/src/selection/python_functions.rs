//! The functions of a Python source by name, with their text, and which of them keep values for later calls, or have them kept.

use super::python_bodies::python_bodies;
use crate::coverage::LineSpan;

/// Parts of the names of decorators and other functions that keep what a function returns.
const CACHING: [&str; 8] = ["cache", "memo", "once", "lazy", "singleton", "jit", "tf.function", "compile"];

/// Statements with which a function keeps a value outside of itself.
const KEEPING: [&str; 2] = ["global ", "nonlocal "];

/// Beginnings of lines outside of functions that assign nothing.
const NO_ASSIGNMENTS: [&str; 7] = ["#", "@", "def ", "async ", "class ", "import ", "from "];

/// A function that is in no other one.
#[derive(Debug)]
pub(super) struct PythonFunction<'t> {
    pub(super) name: &'t str,
    /// Its body, from 1.
    pub(super) lines: LineSpan,
    /// Whether it keeps values for later calls.
    pub(super) is_caching: bool,
    body: Vec<&'t str>,
}

impl<'t> PythonFunction<'t> {
    /// The names and other words in its body.
    pub(super) fn words(&self) -> impl Iterator<Item = &'t str> + '_ {
        self.body.iter().flat_map(|line| words_of(line))
    }
}

fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn keeps_values(line: &str) -> bool {
    let line = line.to_lowercase();
    CACHING.iter().any(|part| line.contains(part))
}

/// The functions of a text with a body that can be told from the rest.
pub(super) fn python_functions(text: &str) -> Vec<PythonFunction<'_>> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut functions: Vec<PythonFunction<'_>> = Vec::new();
    let mut last_body = None;
    // Where the lines above a body begin: behind the body before.
    let mut above = 0;
    for (first, last) in python_bodies(text).into_iter().flatten() {
        if last_body == Some((first, last)) {
            continue;
        }
        last_body = Some((first, last));
        let head = &lines[above.min(first + 1)..=first.min(lines.len() - 1)];
        above = last;
        let Some(at) = head.iter().rposition(|line| name_of(line).is_some()) else { continue };
        let mut decorators = head[..at].iter().rev().take_while(|line| !line.trim().is_empty());
        let body = lines[first + 1..last.min(lines.len())].to_vec();
        let is_caching = decorators.any(|line| keeps_values(line))
            || body.iter().any(|line| KEEPING.iter().any(|word| line.trim_start().starts_with(word)));
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        functions.push(PythonFunction {
            name: name_of(head[at]).unwrap_or_default(),
            lines: LineSpan { first: number(first + 2), last: number(last) },
            is_caching,
            body,
        });
    }
    functions
}

/// The words of assignments outside of functions with which the values of a function are kept, as in `get = lru_cache(None)(_get)`.
pub(super) fn words_of_kept(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let assigns = |line: &str| {
        let line = line.trim_start();
        line.contains('=') && line.contains('(') && !NO_ASSIGNMENTS.iter().any(|start| line.starts_with(start))
    };
    let kept: Vec<usize> = (0..lines.len()).filter(|at| assigns(lines[*at]) && keeps_values(lines[*at])).collect();
    if kept.is_empty() {
        return Vec::new();
    }
    let bodies = python_bodies(text);
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut words = Vec::new();
    for first in kept.into_iter().filter(|first| bodies[*first].is_none()) {
        // With the lines to which its brackets reach.
        let goes_on = |line: &&&str| indent(line) > indent(lines[first]) || line.trim_start().starts_with(')');
        let statement = [lines[first]].into_iter().chain(lines[first + 1..].iter().take_while(goes_on).copied());
        words.extend(statement.flat_map(words_of));
    }
    words
}

/// The name of the function whose head begins in this line.
fn name_of(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("async ").unwrap_or(rest).trim_start().strip_prefix("def ")?.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_that_keep_values() {
        let text = "import functools\n\n@functools.lru_cache(\n    maxsize=None)\ndef rates(a):\n    'Says.'\n    return read(a)\n\n\
                    def read(a):\n    return a\n\nclass C:\n    async def load(self):\n        global level\n        level = read(1)\n\n    \
                    def other(self): return 1\n    def last(\n        self,\n    ):\n        return 2\n";
        let functions = python_functions(text);
        let found: Vec<(&str, u32, u32, bool)> =
            functions.iter().map(|one| (one.name, one.lines.first, one.lines.last, one.is_caching)).collect();
        let expected =
            [("rates", 7, 7, true), ("read", 10, 10, false), ("load", 14, 15, true), ("last", 21, 21, false)];
        assert_eq!(found, expected);
        assert!(functions[0].words().any(|word| word == "read"));
    }

    #[test]
    fn finds_functions_whose_values_an_assignment_keeps() {
        let text = "from functools import lru_cache\nrates = lru_cache(None)(_rates)\n\nclass C:\n    level = cached_property(\n        \
                    read,\n    )\n    other = 1\n\ndef cached(a=1):\n    b = cache(tax)\n    return b\n";
        let words = words_of_kept(text);
        for (word, is_kept) in [("_rates", true), ("read", true), ("other", false), ("cached", false), ("tax", false)] {
            assert_eq!(words.contains(&word), is_kept, "{word}");
        }
    }
}
