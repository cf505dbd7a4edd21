//! The functions of a Python source by name, with their text, and which of them keep values for later calls.

use super::python_bodies::python_bodies;
use crate::coverage::LineSpan;

/// Parts of the names of decorators that keep what a function returns.
const CACHING: [&str; 8] = ["cache", "memo", "once", "lazy", "singleton", "jit", "tf.function", "compile"];

/// Statements with which a function keeps a value outside of itself.
const KEEPING: [&str; 2] = ["global ", "nonlocal "];

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
        self.body.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
    }
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
        let decorators = head[..at].iter().rev().take_while(|line| !line.trim().is_empty());
        let mut decorators = decorators.map(|line| line.to_lowercase());
        let body = lines[first + 1..last.min(lines.len())].to_vec();
        let is_caching = decorators.any(|line| CACHING.iter().any(|part| line.contains(part)))
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
}
