//! The functions and classes of a Python source by name, with their text.

use super::python_bodies::statements;
use crate::coverage::LineSpan;
use std::collections::HashSet;
use std::rc::Rc;

/// Most lines of a class's decorators: each of its functions has them.
const CLASS_DECORATOR_LINES_MAX: usize = 50;

/// A function that is in no other one.
#[derive(Debug)]
pub(super) struct PythonFunction<'t> {
    name: &'t str,
    /// The class that it is in, with the decorators of this class.
    class: Option<(&'t str, Rc<[&'t str]>)>,
    /// From its head to its last line, from 1.
    pub(super) lines: LineSpan,
    /// The last line of its head.
    head_last: u32,
    decorators: Vec<&'t str>,
    text: Vec<&'t str>,
}

impl<'t> PythonFunction<'t> {
    /// The name by which others reach it: of what Python itself calls, as `__init__`, that of its class.
    pub(super) fn name(&self) -> &'t str {
        let class = self.class.as_ref().filter(|_| self.is_special());
        class.map_or(self.name, |(name, _)| name)
    }

    /// Whether it is called as a test, by its name.
    pub(super) fn is_test(&self) -> bool {
        self.name.starts_with("test")
    }

    /// Whether tests need it that are in other files: the set-up of a package.
    pub(super) fn is_set_up(&self) -> bool {
        matches!(self.name, "setup_module" | "setUpModule" | "setup_package" | "setup")
    }

    /// Whether Python itself calls it, as `__init__`.
    pub(super) fn is_special(&self) -> bool {
        self.class.is_some() && self.name.starts_with("__")
    }

    /// Whether a line is behind its head.
    pub(super) fn has_in_body(&self, line: u32) -> bool {
        self.head_last < line && line <= self.lines.last
    }

    /// The lines of its head, to the one that ends with a colon.
    pub(super) fn head(&self) -> &[&'t str] {
        let end = self.text.iter().position(|line| line.trim_end().ends_with(':'));
        &self.text[..end.map_or(1, |end| end + 1)]
    }

    /// Its lines, without its decorators.
    pub(super) fn text(&self) -> &[&'t str] {
        &self.text
    }

    /// The lines of its decorators, of those of its class, and of those of functions in it.
    pub(super) fn decorators(&self) -> impl Iterator<Item = &'t str> + '_ {
        let of_class = self.class.iter().flat_map(|(_, decorators)| decorators.iter());
        let inside = self.text.iter().filter(|line| line.trim_start().starts_with('@'));
        self.decorators.iter().chain(of_class).chain(inside).copied()
    }
}

/// The names and other words of a line.
pub(super) fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The functions of a text; none if it cannot be read.
pub(super) fn python_functions(text: &str) -> Vec<PythonFunction<'_>> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut functions: Vec<PythonFunction<'_>> = Vec::new();
    let (mut decorators, mut inside): (Vec<&str>, Option<usize>) = (Vec::new(), None);
    let mut classes: Vec<(usize, &str, Rc<[&str]>)> = Vec::new();
    let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    for statement in statements(text).unwrap_or_default() {
        let text = &lines[statement.first..=statement.last];
        if inside.is_some_and(|indent| statement.indent > indent) {
            if let Some(function) = functions.last_mut() {
                function.text.extend(text);
                function.lines.last = number(statement.last);
            }
            continue;
        }
        inside = None;
        classes.retain(|(indent, ..)| *indent < statement.indent);
        if text[0].trim_start().starts_with('@') {
            decorators.extend(text);
            continue;
        }
        if let (true, Some(name)) = (statement.is_function, function_name(text[0])) {
            inside = Some(statement.indent);
            functions.push(PythonFunction {
                name,
                class: classes.last().map(|(_, name, decorators)| (*name, decorators.clone())),
                lines: LineSpan { first: number(statement.first), last: number(statement.last) },
                head_last: number(statement.last),
                decorators: decorators.clone(),
                text: text.to_vec(),
            });
        }
        if let Some(name) = class_name(text[0]) {
            let decorators = decorators.iter().take(CLASS_DECORATOR_LINES_MAX).copied().collect();
            classes.push((statement.indent, name, decorators));
        }
        decorators.clear();
    }
    functions
}

/// The classes of a text by name, each with the words of the line in which it begins, such as its bases.
pub(super) fn python_classes(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.lines().filter_map(|line| Some((class_name(line)?, words_of(line).collect())))
}

/// The names that lines in the first column assign, import, or begin a class or function with.
pub(super) fn names_of_module(text: &str) -> HashSet<&str> {
    let (mut names, mut is_import) = (HashSet::new(), false);
    for line in text.lines() {
        let is_first = !line.starts_with([' ', '\t', ')']);
        is_import = if is_first { line.starts_with("from ") || line.starts_with("import ") } else { is_import };
        if is_import {
            names.extend(words_of(line).filter(|word| !word.is_empty()));
        } else if is_first {
            names.extend(defined_name(line));
        }
    }
    names
}

fn defined_name(line: &str) -> Option<&str> {
    let name = words_of(line).next().filter(|name| !name.is_empty())?;
    let rest = line[name.len()..].trim_start();
    let assigned = || (rest.starts_with('=') || rest.starts_with(':')).then_some(name);
    class_name(line).or_else(|| function_name(line)).or_else(assigned)
}

fn class_name(line: &str) -> Option<&str> {
    words_of(line.trim_start().strip_prefix("class ")?).find(|word| !word.is_empty())
}

/// The name of the function whose head begins in this line.
fn function_name(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("async ").unwrap_or(rest).trim_start().strip_prefix("def ")?.trim_start();
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_by_name_with_their_lines_and_decorators() {
        let text = "import functools\n\n@functools.lru_cache(\n    maxsize=None)\n\ndef rates(a):\n    'Says.'\n    return read(a)\n\n\
                    def read(a):\n    return a\n\n@once\nclass C:\n    async def load(self):\n        level = read(1)\n\n    \
                    @cached\n    def other(self): return tax(1)\n    def last(\n        self,\n    ):\n        \"\"\"Says\n        def \
                    no(a): 1\"\"\"\n        @memo\n        def inner(): pass\n        return 2\n    class D:\n        x = 1\n    def \
                    __init__(self):\n        pass\n\ndef __f():\n    pass\n";
        let functions = python_functions(text);
        let described = |one: &PythonFunction<'_>| {
            let decorators: Vec<&str> = one.decorators().map(str::trim).collect();
            format!("{} {}-{} {}", one.name(), one.lines.first, one.lines.last, decorators.join(""))
        };
        let expected = [
            "rates 6-8 @functools.lru_cache(maxsize=None)",
            "read 10-11 ",
            "load 15-16 @once",
            "other 19-19 @cached@once",
            "last 20-27 @once@memo",
            "C 30-31 @once",
            "__f 33-34 ",
        ];
        assert_eq!(functions.iter().map(described).collect::<Vec<_>>(), expected);
        let classes: Vec<(&str, Vec<&str>)> = python_classes("class A(B):\n    pass\n").collect();
        assert_eq!(classes, [("A", vec!["class", "A", "B", "", ""])]);
        let text = "from a import (\n    b,\n)\nKNOWN: dict = {}\nknown = 1\nclass Shop:\n    own = 1\ndef f():\n    c = 1\ncall(a)\n";
        let names = HashSet::from(["from", "a", "import", "b", "KNOWN", "known", "Shop", "f"]);
        assert_eq!(names_of_module(text), names);
    }
}
