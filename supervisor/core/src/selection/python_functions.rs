//! The functions of a Python source by name, with their text, and which of them keep values for later calls, or have them kept.

use super::python_bodies::{python_bodies, statements};
use crate::coverage::LineSpan;
use std::collections::HashSet;

/// Parts of the names of decorators and other functions that keep what a function returns.
const CACHING: [&str; 8] = ["cache", "memo", "once", "lazy", "singleton", "jit", "tf.function", "compile"];

/// Decorators of the standard library that keep what a function returns.
const CACHES: [&str; 4] = ["lru_cache", "@cache", "functools.cache", "cached_property"];

/// Beginnings of statements with which a function keeps a value outside of itself.
const KEEPING: [&str; 2] = ["global ", "nonlocal "];

/// What changes a container.
const CHANGING: [&str; 8] =
    ["] = ", ".setdefault(", ".append(", ".add(", ".update(", ".insert(", ".extend(", "setattr("];

/// Beginnings of names for the class of an object.
const OF_CLASS: [&str; 3] = ["cls.", "type(self).", "self.__class__."];

/// Beginnings of lines outside of functions that assign nothing.
const NO_ASSIGNMENTS: [&str; 7] = ["#", "@", "def ", "async ", "class ", "import ", "from "];

/// A function that is in no other one, or a class whose objects a decorator keeps.
#[derive(Debug)]
pub(super) struct PythonFunction<'t> {
    name: &'t str,
    /// The class that it is in.
    class: Option<&'t str>,
    /// From its head to its last line, from 1.
    pub(super) lines: LineSpan,
    decorators: Vec<&'t str>,
    text: Vec<&'t str>,
    /// Whether it changes what a name outside of functions stands for, or a class.
    changes_outside: bool,
}

impl<'t> PythonFunction<'t> {
    /// The name by which others reach it: of what Python itself calls, as `__init__`, that of its class.
    pub(super) fn name(&self) -> &'t str {
        self.class.filter(|_| self.name.starts_with("__")).unwrap_or(self.name)
    }

    /// The names and other words in it.
    pub(super) fn words(&self) -> impl Iterator<Item = &'t str> + '_ {
        self.text.iter().flat_map(|line| words_of(line))
    }

    /// Whether it keeps values for later calls, or a function in it does.
    pub(super) fn keeps_values(&self) -> bool {
        let decorators = self.text.iter().filter(|line| line.trim_start().starts_with('@'));
        self.changes_outside
            || decorators.chain(&self.decorators).any(|line| keeps_values(line))
            || self.text.iter().any(|line| KEEPING.iter().any(|word| line.trim_start().starts_with(word)))
    }

    /// Whether a decorator of the standard library keeps its values. A test's own decorators have many names.
    pub(super) fn is_cached(&self) -> bool {
        self.decorators.iter().any(|line| names_a_cache(line))
    }
}

/// Whether a text has a decorator of the standard library that keeps values.
pub(super) fn names_a_cache(text: &str) -> bool {
    CACHES.iter().any(|name| text.contains(name))
}

fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn keeps_values(line: &str) -> bool {
    let line = line.to_lowercase();
    CACHING.iter().any(|part| line.contains(part))
}

/// The functions of a text; none if it cannot be read.
pub(super) fn python_functions(text: &str) -> Vec<PythonFunction<'_>> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let statements = statements(text).unwrap_or_default();
    let outside: HashSet<&str> =
        statements.iter().filter(|one| one.indent == 0).filter_map(|one| defined_name(lines[one.first])).collect();
    let mut functions: Vec<PythonFunction<'_>> = Vec::new();
    let (mut decorators, mut inside): (Vec<&str>, Option<usize>) = (Vec::new(), None);
    let mut classes: Vec<(usize, &str)> = Vec::new();
    let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
    for statement in &statements {
        let text = &lines[statement.first..=statement.last];
        if inside.is_some_and(|indent| statement.indent > indent) {
            if let Some(function) = functions.last_mut() {
                function.text.extend(text);
                function.lines.last = number(statement.last);
            }
            continue;
        }
        inside = None;
        classes.retain(|(indent, _)| *indent < statement.indent);
        if text[0].trim_start().starts_with('@') {
            decorators.extend(text);
            continue;
        }
        let keeps_objects = decorators.iter().any(|line| keeps_values(line));
        let name = if statement.is_function { name_of(text[0]) } else { class_name(text[0]).filter(|_| keeps_objects) };
        if let Some(name) = name {
            inside = Some(statement.indent);
            functions.push(PythonFunction {
                name,
                class: classes.last().map(|(_, name)| *name),
                lines: LineSpan { first: number(statement.first), last: number(statement.last) },
                decorators: std::mem::take(&mut decorators),
                text: text.to_vec(),
                changes_outside: false,
            });
        }
        classes.extend(class_name(text[0]).map(|name| (statement.indent, name)));
        decorators.clear();
    }
    for function in &mut functions {
        function.changes_outside = function.text.iter().any(|line| changes_outside(line, &outside));
    }
    functions
}

/// The classes of a text by name, each with the words of the line in which it begins, such as its bases.
pub(super) fn python_classes(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    text.lines().filter_map(|line| Some((class_name(line)?, words_of(line).collect())))
}

fn class_name(line: &str) -> Option<&str> {
    words_of(line.trim_start().strip_prefix("class ")?).find(|word| !word.is_empty())
}

/// The name that a line in the first column assigns, or the class that it begins.
fn defined_name(line: &str) -> Option<&str> {
    let name = words_of(line).next().filter(|name| !name.is_empty())?;
    let rest = line[name.len()..].trim_start();
    class_name(line).or((rest.starts_with('=') || rest.starts_with(':')).then_some(name))
}

/// Whether a line changes one of these names' containers or attributes, or an attribute of a class.
fn changes_outside(line: &str, outside: &HashSet<&str>) -> bool {
    let line = line.trim_start();
    let assigns = line.contains(" = ");
    if assigns && OF_CLASS.iter().any(|start| line.starts_with(start)) {
        return true;
    }
    let names_one = || words_of(line).any(|word| outside.contains(word));
    CHANGING.iter().any(|part| line.contains(part)) && names_one()
        || assigns
            && words_of(line).next().is_some_and(|word| outside.contains(word) && line[word.len()..].starts_with('.'))
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
        let text = "import functools\n\n@functools.lru_cache(\n    maxsize=None)\n\ndef rates(a):\n    'Says.'\n    return read(a)\n\n\
                    def read(a):\n    return a\n\nclass C:\n    async def load(self):\n        global level\n        level = read(1)\n\n    \
                    @lru_cache\n    def other(self): return tax(1)\n    def last(\n        self,\n    ):\n        \"\"\"Says\n        def \
                    no(a): 1\"\"\"\n        @cached\n        def inner(): pass\n        return 2\n\ntop = 1\n";
        let functions = python_functions(text);
        let found: Vec<(&str, u32, u32, bool, bool)> = functions
            .iter()
            .map(|one| (one.name(), one.lines.first, one.lines.last, one.keeps_values(), one.is_cached()))
            .collect();
        let expected = [
            ("rates", 6, 8, true, true),
            ("read", 10, 11, false, false),
            ("load", 14, 16, true, false),
            ("other", 19, 19, true, true),
            ("last", 20, 27, true, false),
        ];
        assert_eq!(found, expected);
        let kept = &python_functions("@once\nclass C:\n    def f(self): load()\n\nclass D:\n    pass\n");
        assert!(kept.len() == 1 && kept[0].name() == "C" && kept[0].words().any(|word| word == "load"), "{kept:?}");
        let made = &python_functions(
            "class C:\n    class D:\n        x = 1\n    def __init__(self):\n        pass\n\ndef __f():\n    pass\n",
        );
        assert_eq!(made.iter().map(PythonFunction::name).collect::<Vec<_>>(), ["C", "__f"]);
        assert!(functions[0].words().any(|word| word == "read") && functions[3].words().any(|word| word == "tax"));
    }

    #[test]
    fn finds_functions_that_change_what_is_outside() {
        for (line, keeps) in [
            ("KNOWN[a] = read(a)", true),
            ("return KNOWN.setdefault(a, read(a))", true),
            ("cls.level = read(a)", true),
            ("Shop.level = read(a)", true),
            ("known.values.append(a)", true),
            ("own[a] = read(a)", false),
            ("own.append(a)", false),
            ("self.level = Shop(a)", false),
            ("return KNOWN[a] == 1", false),
        ] {
            let text = format!(
                "KNOWN: dict = {{}}\nknown = Known()\nclass Shop:\n    own = 1\n\ndef f(cls, a):\n    {line}\n"
            );
            assert_eq!(python_functions(&text)[0].keeps_values(), keeps, "{line}");
        }
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
