//! Which functions of Python sources keep values for later calls, or have them kept: a later test may need what an earlier one executed
//! there. Told by words, so that it is rather too many.

use super::python_bodies::python_bodies;
use super::python_functions::{PythonFunction, names_of_module, python_classes, python_functions, words_of};
use crate::coverage::LineSpan;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Parts of the names of decorators and other functions that keep what a function returns.
const CACHING: [&str; 8] = ["cache", "memo", "once", "lazy", "singleton", "jit", "tf.function", "compile"];

/// Decorators of the standard library that keep what a function returns.
const CACHES: [&str; 4] = ["lru_cache", "@cache", "functools.cache", "cached_property"];

/// Beginnings of statements with which a function keeps a value outside of itself.
const KEEPING: [&str; 2] = ["global ", "nonlocal "];

/// Calls that change what they are of.
const CHANGING: [&str; 6] = [".setdefault(", ".append(", ".add(", ".update(", ".insert(", ".extend("];

/// Beginnings of names for the class of an object.
const OF_CLASS: [&str; 3] = ["cls.", "type(self).", "self.__class__."];

/// Beginnings of lines outside of functions that assign nothing.
const NO_ASSIGNMENTS: [&str; 7] = ["#", "@", "def ", "async ", "class ", "import ", "from "];

/// Names of functions that keep values for later calls, or have them kept, and all words in these.
#[derive(Default)]
pub(super) struct CachedNames<'t>(BTreeSet<&'t str>);

impl<'t> CachedNames<'t> {
    /// The names in sources that tests loaded, by path. In files of tests only the standard library's decorators count: their own have
    /// many names.
    pub(super) fn new(
        sources: &'t BTreeMap<String, String>,
        loaded: &HashSet<&str>,
        is_test: impl Fn(&str) -> bool,
    ) -> CachedNames<'t> {
        let mut names = BTreeSet::new();
        let python = || sources.iter().filter(|(path, _)| loaded.contains(path.as_str()));
        for (path, text) in python() {
            let is_test = is_test(path);
            if is_test && !names_a_cache(text) {
                continue;
            }
            let of_module = if is_test { HashSet::new() } else { names_of_module(text) };
            if !is_test {
                names.extend(words_of_kept(text));
            }
            let keeps = |function: &PythonFunction<'_>| {
                if is_test { function.decorators().any(names_a_cache) } else { keeps_values(function, &of_module) }
            };
            for function in python_functions(text).iter().filter(|function| keeps(function)) {
                names.insert(function.name());
                names.extend(function.text().iter().flat_map(|line| words_of(line)));
            }
        }
        // Of a class that is named, Python also calls what its bases have.
        let mut classes: Vec<(&str, Vec<&str>)> = python().flat_map(|(_, text)| python_classes(text)).collect();
        loop {
            let (named, others): (Vec<_>, Vec<_>) = classes.into_iter().partition(|(name, _)| names.contains(name));
            if named.is_empty() {
                return CachedNames(names);
            }
            names.extend(named.into_iter().flat_map(|(_, words)| words));
            classes = others;
        }
    }

    /// Whether one of them is a function with one of these lines.
    pub(super) fn have_lines(&self, text: &str, lines: &[LineSpan]) -> bool {
        let has_line = |function: &PythonFunction<'_>| {
            let own = function.lines;
            lines.iter().any(|lines| own.first <= lines.last && lines.first <= own.last)
        };
        python_functions(text).iter().any(|function| has_line(function) && self.0.contains(function.name()))
    }
}

/// Whether a function keeps values for later calls, or a function in it does.
fn keeps_values(function: &PythonFunction<'_>, of_module: &HashSet<&str>) -> bool {
    function.decorators().any(caches)
        || function.text().iter().any(|line| {
            KEEPING.iter().any(|word| line.trim_start().starts_with(word)) || changes_outside(line, of_module)
        })
}

/// Whether a line has a part of the name of a cache.
fn caches(line: &str) -> bool {
    let line = line.to_lowercase();
    CACHING.iter().any(|part| line.contains(part))
}

/// Whether a text has a decorator of the standard library that keeps values.
fn names_a_cache(text: &str) -> bool {
    CACHES.iter().any(|name| text.contains(name))
}

/// Whether a line changes what one of these names stands for, or a class.
fn changes_outside(line: &str, of_module: &HashSet<&str>) -> bool {
    let line = line.trim_start();
    let is_outside = |expression: &str| {
        OF_CLASS.iter().any(|start| expression.starts_with(start))
            || words_of(expression).next().is_some_and(|word| of_module.contains(word))
    };
    let is_part = |target: &str| target.contains(['.', '[']) && is_outside(target);
    let is_receiver = |before: &str| is_outside(&before[before.rfind(ends_expression).map_or(0, |at| at + 1)..]);
    line.split_once(" = ").is_some_and(|(target, _)| is_part(target))
        || line.split_once("setattr(").is_some_and(|(_, of)| is_outside(&of.replacen(',', ".", 1)))
        || CHANGING.iter().any(|call| line.match_indices(call).any(|(at, _)| is_receiver(&line[..at])))
}

/// Whether an ASCII character cannot be in the expression that a call is of.
fn ends_expression(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.' | '[' | ']')
}

/// The words of assignments outside of functions with which the values of a function are kept, as in `get = lru_cache(None)(_get)`.
fn words_of_kept(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let assigns = |line: &str| {
        let line = line.trim_start();
        line.contains('=') && line.contains('(') && !NO_ASSIGNMENTS.iter().any(|start| line.starts_with(start))
    };
    let kept: Vec<usize> = (0..lines.len()).filter(|at| assigns(lines[*at]) && caches(lines[*at])).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("own.append(Shop(a))", false),
            ("f(KNOWN[a].append(é))", true),
            ("setattr(cls, a, 1)", true),
            ("setattr(self, a, KNOWN)", false),
            ("KNOWN = read(a)", false),
            ("self.level = Shop(a)", false),
            ("return KNOWN[a] == 1", false),
        ] {
            let text = format!(
                "KNOWN: dict = {{}}\nknown = Known()\nclass Shop:\n    own = 1\n\ndef f(cls, a):\n    {line}\n"
            );
            assert_eq!(keeps_values(&python_functions(&text)[0], &names_of_module(&text)), keeps, "{line}");
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

    #[test]
    fn finds_what_cached_functions_need() {
        let product = "@once\ndef rates():\n    return read(A())\n\ndef other():\n    global level\n    tax()\n\nclass A(B):\n    pass\n\nclass \
                       B:\n    def __init__(self):\n        self.a = 1\n\ndef plain():\n    free()\n";
        let test = "@memo\ndef helper():\n    fixture()\n\n@functools.cache\ndef known():\n    load()\n";
        let sources = [("shop.py", product), ("test_shop.py", test), ("docs/conf.py", "@once\ndef f():\n    free()\n")];
        let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let loaded = HashSet::from(["shop.py", "test_shop.py"]);
        let names = CachedNames::new(&sources, &loaded, |path| path.starts_with("test_"));
        for (name, is_kept) in
            [("read", true), ("tax", true), ("B", true), ("load", true), ("free", false), ("fixture", false)]
        {
            assert_eq!(names.0.contains(name), is_kept, "{name}");
        }
        let (of_init, _) = (1_u32..).zip(product.lines()).find(|(_, line)| line.contains("self.a")).unwrap();
        let line = |line: u32| [LineSpan { first: line, last: line }];
        assert!(names.have_lines(product, &line(of_init)) && !names.have_lines(product, &line(of_init + 3)));
    }
}
