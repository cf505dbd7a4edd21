//! Which functions of Python sources keep values for later calls, or have them kept: a later test may need what an earlier one executed
//! there. Told by words, so that it is rather too many.

use super::python_functions::{PythonFunction, names_of_module, python_classes, python_functions, words_of};
use crate::coverage::LineSpan;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Parts of the names of decorators and other functions that keep what a function returns.
const CACHING: [&str; 8] = ["cache", "memo", "once", "lazy", "singleton", "jit", "tf.function", "compile"];

/// Decorators of the standard library that keep what a function returns.
const CACHES: [&str; 4] = ["lru_cache", "@cache", "functools.cache", "cached_property"];

/// Beginnings of statements with which a function keeps a value outside of itself.
const KEEPING: [&str; 2] = ["global ", "nonlocal "];

/// Most signs of equality of a line that are read.
const TARGETS_MAX: usize = 16;

/// Calls that change what they are of.
const CHANGING: [&str; 7] = [".setdefault(", ".append(", ".appendleft(", ".add(", ".update(", ".insert(", ".extend("];

/// Beginnings of expressions for the class of an object, or the module.
const OF_CLASS: [&str; 5] = ["cls.", "cls[", "type(self).", "self.__class__.", "globals()"];

/// Defaults of parameters that can change.
const DEFAULTS: [&str; 4] = ["={}", "=[]", "=dict()", "=set()"];

/// Beginnings of lines outside of functions that assign nothing.
const NO_ASSIGNMENTS: [&str; 7] = ["#", "@", "def ", "async ", "class ", "import ", "from "];

/// Lines of functions that keep values for later calls, or have them kept, or that such a one names, by the path of each source that tests
/// loaded.
#[derive(Default)]
pub(super) struct CachedFunctions<'t>(BTreeMap<&'t str, Vec<LineSpan>>);

/// Functions of a source, by name.
type Functions<'t> = Vec<(&'t str, LineSpan)>;

impl<'t> CachedFunctions<'t> {
    /// Those in `sources`, which are texts by path. Of tests themselves, which run once, and of the decorators in their files, which have
    /// many names, only the standard library's decorators count.
    pub(super) fn new(
        sources: &'t BTreeMap<String, String>,
        loaded: &HashSet<&str>,
        is_test: impl Fn(&str) -> bool,
    ) -> CachedFunctions<'t> {
        let (names, functions) = Self::names_and_functions(sources, loaded, is_test);
        let of_names = |functions: Functions<'_>| {
            functions.into_iter().filter(|(name, _)| names.contains(name)).map(|(_, lines)| lines).collect()
        };
        CachedFunctions(functions.into_iter().map(|(path, functions)| (path, of_names(functions))).collect())
    }

    /// The names of such functions with all words in them, and all functions, by the path of each source.
    fn names_and_functions(
        sources: &'t BTreeMap<String, String>,
        loaded: &HashSet<&str>,
        is_test: impl Fn(&str) -> bool,
    ) -> (BTreeSet<&'t str>, BTreeMap<&'t str, Functions<'t>>) {
        let (mut names, mut keeping_classes) = (BTreeSet::new(), BTreeSet::new());
        let mut all: BTreeMap<&str, Functions<'_>> = BTreeMap::new();
        let python = || sources.iter().filter(|(path, _)| loaded.contains(path.as_str()));
        for (path, text) in python() {
            let is_test = is_test(path);
            let functions = python_functions(text);
            if !is_test {
                names.extend(words_of_kept(text, &functions));
            }
            let of_module = names_of_module(text);
            let keeps = |function: &PythonFunction<'_>| {
                let is_decorated = function.decorators().any(if is_test { names_a_cache } else { caches });
                let is_set_up = path.ends_with("__init__.py") && function.is_set_up();
                is_decorated || is_set_up || !(is_test && function.is_test()) && keeps_values(function, &of_module)
            };
            for function in functions.iter().filter(|function| keeps(function)) {
                if function.is_special() {
                    keeping_classes.insert(function.name());
                }
                names.insert(function.name());
                names.extend(function.text().iter().flat_map(|line| words_of(line)));
            }
            all.insert(path, functions.iter().map(|function| (function.name(), function.lines)).collect());
        }
        // What makes or calls a class is called for those that name it, as one of its metaclass. Of a class that is named, Python also
        // calls what its bases have.
        let mut classes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, words) in python().flat_map(|(_, text)| python_classes(text)) {
            if words.iter().any(|word| keeping_classes.contains(word)) {
                names.insert(name);
            }
            classes.entry(name).or_default().extend(words);
        }
        let mut left: Vec<&str> = classes.keys().filter(|name| names.contains(*name)).copied().collect();
        while let Some(name) = left.pop() {
            for word in classes.remove(name).unwrap_or_default() {
                names.insert(word);
                left.push(word);
            }
        }
        (names, all)
    }

    /// Whether one of them has one of these lines, or may have, in a source that no test loaded.
    pub(super) fn have_lines(&self, path: &str, lines: &[LineSpan]) -> bool {
        let overlaps = |own: &LineSpan| lines.iter().any(|lines| own.first <= lines.last && lines.first <= own.last);
        self.0.get(path).is_none_or(|own| own.iter().any(overlaps))
    }
}

/// Whether the text of a function keeps values for later calls.
fn keeps_values(function: &PythonFunction<'_>, of_module: &HashSet<&str>) -> bool {
    let is_kept = |line: &&str| {
        KEEPING.iter().any(|word| line.trim_start().starts_with(word)) || changes_outside(line, of_module)
    };
    // A default is made once.
    function.head().iter().any(|line| DEFAULTS.iter().any(|default| line.replace(' ', "").contains(default)))
        || function.text().iter().any(is_kept)
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
        let expression = expression.trim_start_matches(['(', ' ']);
        OF_CLASS.iter().any(|start| expression.starts_with(start))
            || words_of(expression).next().is_some_and(|word| of_module.contains(word))
    };
    let is_part = |target: &str| target.contains(['.', '[']) && target.split([',', ':']).any(is_outside);
    let is_receiver = |before: &str| is_outside(&before[before.rfind(ends_expression).map_or(0, |at| at + 1)..]);
    targets(line).any(is_part)
        || line.split_once("setattr(").is_some_and(|(_, of)| is_outside(&of.replacen(',', ".", 1)))
        || CHANGING.iter().any(|call| line.match_indices(call).any(|(at, _)| is_receiver(&line[..at])))
}

/// What a line may assign to: all that is before a sign of equality which is none of a comparison.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let is_assignment = |at: usize| {
        let (before, after) = (line[..at].chars().next_back(), line[at + 1..].chars().next());
        after != Some('=') && !matches!(before, Some('=' | '!' | '<' | '>' | ':'))
    };
    let signs = line.match_indices('=').map(|(at, _)| at).filter(move |at| is_assignment(*at)).take(TARGETS_MAX);
    signs.scan(0, move |from, at| {
        let target = &line[*from..at];
        *from = at + 1;
        Some(target.trim_start())
    })
}

/// Whether an ASCII character cannot be in the expression that a call is of.
fn ends_expression(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.' | '[' | ']')
}

/// The words of assignments outside of functions with which the values of a function are kept, as in `get = lru_cache(None)(_get)`.
fn words_of_kept<'t>(text: &'t str, functions: &[PythonFunction<'t>]) -> BTreeSet<&'t str> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let assigns = |line: &str| {
        let line = line.trim_start();
        line.contains('=') && line.contains('(') && !NO_ASSIGNMENTS.iter().any(|start| line.starts_with(start))
    };
    let is_in_function = |line: u32| functions.iter().any(|function| function.has_in_body(line));
    let kept = (1..).zip(lines.iter().enumerate()).filter(|(_, (_, line))| assigns(line) && caches(line));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut words, mut end) = (BTreeSet::new(), 0);
    for (number, (first, _)) in kept {
        if first < end || is_in_function(number) {
            continue;
        }
        // With the lines to which its brackets reach.
        let goes_on = |line: &&&str| indent(line) > indent(lines[first]) || line.trim_start().starts_with(')');
        end = first + 1 + lines[first + 1..].iter().take_while(goes_on).count();
        words.extend(lines[first..end].iter().flat_map(|line| words_of(line)));
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
            ("value = KNOWN[a] = read(a)", true),
            ("if a: KNOWN[a] = read(a)", true),
            ("(KNOWN[a], own[a]) = read(a), 1", true),
            ("IMPORTED[a]=read(a)", true),
            ("f.value = read(a)", true),
            ("globals()['V'] = read(a)", true),
            ("KNOWN[a] += read(a)", true),
            ("own[a] = KNOWN[a] <= a == 1", false),
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
                "from a import IMPORTED\nKNOWN: dict = {{}}\nknown = Known()\nclass Shop:\n    own = 1\n\ndef f(cls, a):\n    {line}\n"
            );
            assert_eq!(keeps_values(&python_functions(&text)[0], &names_of_module(&text)), keeps, "{line}");
        }
    }

    #[test]
    fn finds_functions_whose_values_an_assignment_keeps() {
        let text = "from functools import lru_cache\nrates = lru_cache(None)(_rates)\n\nclass C:\n    level = cached_property(\n        \
                    read,\n    )\n    other = 1\n\ndef cached(a=1):\n    b = cache(tax)\n    return b\n";
        let words = words_of_kept(text, &python_functions(text));
        for (word, is_kept) in [("_rates", true), ("read", true), ("other", false), ("cached", false), ("tax", false)] {
            assert_eq!(words.contains(&word), is_kept, "{word}");
        }
    }

    #[test]
    fn finds_what_cached_functions_need() {
        let product = "@once\ndef rates():\n    return read(A())\n\ndef other():\n    global level\n    tax()\n\nclass A(B):\n    pass\n\nclass \
                       B:\n    def __init__(self):\n        self.a = 1\n\nclass One(type):\n    def __call__(cls):\n        cls.made = 1\n\nclass Made(metaclass=One):\n    pass\n\ndef plain():\n    free()\n";
        let test = "@memo\ndef helper():\n    fixture()\n\n@functools.cache\ndef known():\n    load()\n\ndef data(a, known={}):\n    \
                    lazy()\n\ndef test_a():\n    global level\n    once()\n";
        let sources = [("shop.py", product), ("test_shop.py", test), ("docs/conf.py", "@once\ndef f():\n    free()\n")];
        let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let loaded = HashSet::from(["shop.py", "test_shop.py"]);
        let is_test = |path: &str| path.starts_with("test_");
        let (names, _) = CachedFunctions::names_and_functions(&sources, &loaded, is_test);
        for (name, is_kept) in [
            ("read", true),
            ("tax", true),
            ("B", true),
            ("load", true),
            ("lazy", true),
            ("once", false),
            ("Made", true),
            ("free", false),
            ("fixture", false),
        ] {
            assert_eq!(names.contains(name), is_kept, "{name}");
        }
        let cached = CachedFunctions::new(&sources, &loaded, is_test);
        let line_of = |part: &str| (1_u32..).zip(product.lines()).find(|(_, line)| line.contains(part)).unwrap().0;
        let is_kept = |part: &str| {
            let line = line_of(part);
            cached.have_lines("shop.py", &[LineSpan { first: line, last: line }])
        };
        assert!(is_kept("self.a") && !is_kept("free()"));
    }
}
