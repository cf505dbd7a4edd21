//! The functions of a source text, by the forms that the formatters of Go, Python and Rust keep. No parser: what looks like a function in a
//! multi-line string is taken for one; a wrong name appears in an analysis only.

use crate::coverage::{LineSpan, contains_line};
use crate::untested::{SourceLanguage, declared_function, test_modules};

/// A function or method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, with its class or receiver: `Cart.total`.
    pub name: String,
    /// From its first line to the line before the next one.
    pub lines: LineSpan,
}

/// Most functions of one name that are looked for in a file.
const NAMED_MAX: usize = 10;

/// Most declarations of one name of which class and end are looked for, which may read the whole file.
const DECLARATIONS_MAX: usize = 100;

/// The functions of a source with this name, `total` or `Cart.total`, at most ten. Lines of a Python function are those of its body.
#[must_use]
pub fn functions_named(path: &str, text: &str, name: &str) -> Vec<Function> {
    let source = SourceFunctions::new(path, text.to_owned());
    let is_javascript = SourceLanguage::of_path(path) == Some(SourceLanguage::JavaScript);
    let own = name.rsplit('.').next().unwrap_or(name);
    let declares = |line: &str| {
        if is_javascript {
            return declares_javascript(line, name);
        }
        let declared = match source.language {
            Some(SourceLanguage::Go) => declared_go(line),
            Some(SourceLanguage::Rust) => declared_function(line),
            _ => declared_python(line),
        };
        declared == Some(own)
    };
    let function = |at: usize| {
        if is_javascript {
            return source.javascript_function(at, name);
        }
        let found = match source.language {
            Some(SourceLanguage::Go) => source.go_function(at),
            Some(SourceLanguage::Rust) => source.rust_function(at),
            _ => source.python_function_at(at),
        }?;
        let is_whole = matches!(source.language, Some(SourceLanguage::Go | SourceLanguage::Rust));
        let has_name = found.name == name || found.name.strip_suffix(name).is_some_and(|before| before.ends_with('.'));
        (has_name && (!is_whole || found.lines.first == span(at, at).first)).then_some(found)
    };
    let declarations = (0..source.lines.len()).filter(|at| source.raw(*at).is_some_and(declares));
    declarations.take(DECLARATIONS_MAX).filter_map(function).take(NAMED_MAX).collect()
}

/// The name of the function that a line of Go declares.
fn declared_go(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("func ")?;
    let declared = match declared.strip_prefix('(') {
        Some(receiver) => receiver.split_once(')')?.1.trim_start(),
        None => declared,
    };
    declared.split(['(', '[']).next()
}

/// The name of the function that a line of Python defines.
fn declared_python(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let defined = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ")?;
    defined.split(['(', '[']).next().map(str::trim)
}

/// Whether a line of JavaScript declares a function of this name, a constant with one, or a method.
fn declares_javascript(line: &str, name: &str) -> bool {
    let mut code = line.trim_start();
    for word in ["export ", "default ", "public ", "private ", "protected ", "static ", "async ", "get ", "set "] {
        code = code.strip_prefix(word).unwrap_or(code);
    }
    let declared = ["function* ", "function ", "const ", "let ", "var "]
        .iter()
        .find_map(|word| Some((code.strip_prefix(word)?, !word.starts_with("function"))));
    let (code, is_variable) = declared.unwrap_or((code, false));
    let Some(rest) = code.strip_prefix(name) else { return false };
    match (declared, is_variable) {
        (Some(_), false) => rest.starts_with(['(', '<']),
        (Some(_), true) => {
            !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                && (rest.contains("=>") || rest.contains("function"))
        }
        (None, _) => rest.starts_with(['(', '<']) && line.trim_end().ends_with('{'),
    }
}

/// A source text by line.
pub(super) struct SourceFunctions {
    text: String,
    /// Begin of each line.
    lines: Vec<usize>,
    language: Option<SourceLanguage>,
    /// Lines of modules that are compiled for tests only.
    of_tests: Vec<LineSpan>,
}

impl SourceFunctions {
    /// The source at `path`.
    pub(super) fn new(path: &str, text: String) -> SourceFunctions {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let language = SourceLanguage::of_path(path);
        let of_tests = if language == Some(SourceLanguage::Rust) { test_modules(&text) } else { Vec::new() };
        SourceFunctions { text, lines, language, of_tests }
    }

    /// The text of a line, from 1, without blanks around it; `None` behind the end and for a blank one.
    pub(super) fn line(&self, number: u32) -> Option<String> {
        Some(self.raw(usize::try_from(number).ok()?.checked_sub(1)?)?.trim().to_owned()).filter(|line| !line.is_empty())
    }

    /// Whether a line, from 1, belongs to a module that is compiled for tests only.
    pub(super) fn is_of_tests(&self, number: u32) -> bool {
        contains_line(&self.of_tests, number)
    }

    /// The innermost named function around a line, from 1.
    pub(super) fn around(&self, number: u32) -> Option<Function> {
        let at = usize::try_from(number).ok()?.checked_sub(1).filter(|at| *at < self.lines.len())?;
        match self.language {
            Some(SourceLanguage::Go) => self.go_function(at),
            Some(SourceLanguage::Rust) => self.rust_function(at),
            _ => self.python_function(at),
        }
    }

    fn raw(&self, at: usize) -> Option<&str> {
        let begin = *self.lines.get(at)?;
        let end = self.lines.get(at + 1).copied().unwrap_or(self.text.len());
        self.text.get(begin..end).map(|line| line.trim_end_matches(['\n', '\r']))
    }

    // gofmt begins a function in the first column and ends it with a brace there.
    fn go_function(&self, at: usize) -> Option<Function> {
        let first = (0..=at).rev().find_map(|above| {
            let line = self.raw(above)?;
            match line.strip_prefix("func ") {
                // A function in one line.
                Some(_) if above < at && line.ends_with('}') => Some(None),
                Some(declared) => Some(go_name(declared).map(|name| (above, name))),
                None if above < at && line.starts_with('}') => Some(None),
                None => None,
            }
        })??;
        let last = (at..self.lines.len()).find(|below| self.raw(*below).is_some_and(|line| line.starts_with('}')));
        Some(Function { name: first.1, lines: span(first.0, last.unwrap_or(first.0).max(at)) })
    }

    // rustfmt indents what is in a function, and ends it with a brace that is indented like its first line.
    fn rust_function(&self, at: usize) -> Option<Function> {
        let line = self.raw(at)?;
        let own = rust_indentation(line)?;
        // The first and the last line are the function's, too.
        let is_border = declared_function(line).is_some() || continues_rust(line);
        let mut inner = if is_border { own + 1 } else { own };
        let (mut names, mut function) = (Vec::new(), None);
        for above in (0..=at).rev() {
            let Some((line, indent)) = self.raw(above).and_then(|line| Some((line, rust_indentation(line)?))) else {
                continue;
            };
            if indent >= inner {
                continue;
            }
            if continues_rust(line) {
                inner = indent + 1;
                continue;
            }
            inner = indent;
            if let Some(name) = declared_function(line) {
                names.push(name);
                function = function.or(Some((above, indent)));
            } else if let Some(name) = rust_type(line.trim_start()) {
                names.extend(function.is_some().then_some(name));
            }
            if indent == 0 {
                break;
            }
        }
        let (first, indent) = function?;
        let ends = |below: &usize| {
            self.raw(*below).is_some_and(|line| {
                let is_short = *below == first && line.trim_end().ends_with(['}', ';']);
                is_short || line.trim_start().starts_with('}') && rust_indentation(line) == Some(indent)
            })
        };
        let last = (first..self.lines.len()).find(ends).unwrap_or(first);
        names.reverse();
        (last >= at).then(|| Function { name: names.join("."), lines: span(first, last) })
    }

    // A function that is defined in this line.
    fn python_function_at(&self, at: usize) -> Option<Function> {
        let code = |at: &usize| self.raw(*at).and_then(indentation).is_some();
        let Function { name, lines } = self.python_function((at + 1..self.lines.len()).find(code)?)?;
        // The signature runs when the module is loaded, and so for any test.
        let last = (at..usize::try_from(lines.last).ok()?).rev().find(code).unwrap_or(at);
        let signature = (at..last).find(|at| self.raw(*at).is_some_and(|line| line.trim_end().ends_with(':')));
        (lines.first == span(at, at).first)
            .then(|| Function { name, lines: span(signature.map_or(at, |end| end + 1), last) })
    }

    // A function that is declared in this line ends with a bracket that is indented like it.
    fn javascript_function(&self, at: usize, name: &str) -> Option<Function> {
        let line = self.raw(at)?;
        let is_open = !line.trim_end().ends_with([';', '}']);
        let indent = line.len() - line.trim_start().len();
        let ends = |below: &usize| {
            self.raw(*below).is_some_and(|line| {
                let code = line.trim_start();
                code.starts_with(['}', ')']) && line.len() - code.len() == indent && !code.ends_with(['{', '('])
            })
        };
        let end = if is_open { (at + 1..self.lines.len()).find(ends)? } else { at };
        Some(Function { name: name.to_owned(), lines: span(at, end) })
    }

    // A definition ends where a line is indented no more than it.
    fn python_function(&self, at: usize) -> Option<Function> {
        let mut inner = indentation(self.raw(at)?)?;
        let (mut names, mut function) = (Vec::new(), None);
        for above in (0..at).rev() {
            let Some((line, indent)) = self.raw(above).and_then(|line| Some((line, indentation(line)?))) else {
                continue;
            };
            if indent >= inner {
                continue;
            }
            inner = indent;
            let line = line.trim_start();
            let defined = line.strip_prefix("async ").unwrap_or(line).strip_prefix("def ");
            if let Some(name) = defined.and_then(identifier) {
                names.push(name);
                function = function.or(Some((above, indent)));
            } else if let Some(name) = line.strip_prefix("class ").and_then(identifier) {
                names.extend(function.is_some().then_some(name));
            }
            if indent == 0 {
                break;
            }
        }
        let (first, indent) = function?;
        let is_behind = |below: &usize| self.raw(*below).and_then(indentation).is_some_and(|found| found <= indent);
        let end = (at..self.lines.len()).find(is_behind).unwrap_or(self.lines.len());
        names.reverse();
        Some(Function { name: names.join("."), lines: span(first, end.saturating_sub(1).max(at)) })
    }
}

/// Lines from 1 of positions from 0.
fn span(first: usize, last: usize) -> LineSpan {
    let number = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    LineSpan { first: number(first), last: number(last) }
}

/// Blanks at the beginning; `None` for a blank line and for a comment.
fn indentation(line: &str) -> Option<usize> {
    let code = line.trim_start();
    (!code.is_empty() && !code.starts_with('#')).then(|| line.len() - code.len())
}

/// Blanks at the beginning of a line of Rust; `None` for a blank line, a comment and an attribute.
fn rust_indentation(line: &str) -> Option<usize> {
    let code = line.trim_start();
    (!code.is_empty() && !code.starts_with("//") && !code.starts_with('#')).then(|| line.len() - code.len())
}

/// Whether a line of Rust that is indented like the first one of an item continues it.
fn continues_rust(line: &str) -> bool {
    let code = line.trim_start();
    code.starts_with([')', '{', '}', '>', ']']) || code.trim_end() == "where"
}

/// The type whose functions an `impl` has, or the trait: `impl<T> Add for a::Cart<T> {`.
fn rust_type(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = code.strip_prefix("unsafe ").unwrap_or(code);
    if let Some(declared) = code.strip_prefix("trait ") {
        return identifier(declared);
    }
    let mut code = code.strip_prefix("impl")?;
    if code.starts_with('<') {
        let mut depth = 0_usize;
        let end = code.find(|c| {
            depth = depth + usize::from(c == '<') - usize::from(c == '>' && depth > 0);
            depth == 0
        })?;
        code = &code[end + 1..];
    }
    let code = code.split_once(" for ").map_or(code, |(_, of)| of).trim_start();
    let path = code.trim_start_matches(['&', '*']).split(['<', ' ', '{']).next()?;
    identifier(path.rsplit("::").next()?)
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

// `Add(a int)`, `(s *Store[K]) Add(a int)`.
fn go_name(declared: &str) -> Option<String> {
    let Some(received) = declared.strip_prefix('(') else { return identifier(declared).map(str::to_owned) };
    let (receiver, method) = received.split_once(')')?;
    let kind = receiver.rsplit_once(' ').map_or(receiver, |(_, kind)| kind).trim_start_matches('*');
    let kind =
        identifier(receiver.split_once('[').map_or(kind, |(kind, _)| kind.rsplit([' ', '*']).next().unwrap_or(kind)))?;
    Some(format!("{kind}.{}", identifier(method.trim_start())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(path: &str, text: &str) -> String {
        let functions = SourceFunctions::new(path, text.to_owned());
        let row = |line| {
            let found = functions.around(line)?;
            Some(format!("{line} {} {}-{}", found.name, found.lines.first, found.lines.last))
        };
        (0..=u32::try_from(text.lines().count()).unwrap() + 2).filter_map(row).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn finds_functions_by_name() {
        let row = |path: &str, text: &str, name: &str| {
            let found = functions_named(path, text, name).into_iter();
            found
                .map(|one| format!("{} {}-{}", one.name, one.lines.first, one.lines.last))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let python = "class Cart:\n    def total(self):\n        return 1\n\n\nclass Order:\n    async def total(self):\n        \
                      return self.total()\n\n\ndef total_of(x):\n    return x\n";
        assert_eq!(row("a.py", python, "total"), "Cart.total 3-3, Order.total 8-8");
        assert_eq!(row("a.py", python, "Order.total"), "Order.total 8-8");
        assert_eq!(row("a.py", python, "total_of"), "total_of 12-12");
        let go =
            "package a\n\nfunc (c *Cart) Total() int {\n\treturn Total()\n}\n\nfunc Total() int {\n\treturn 1\n}\n";
        assert_eq!(row("a.go", go, "Total"), "Cart.Total 3-5, Total 7-9");
        assert_eq!(row("a.go", go, "Cart.Total"), "Cart.Total 3-5");
        let js = "export async function load(a) {\n  if (a) {\n    b();\n  }\n}\n\nconst twice = (n) => 2 * n;\nconst f = (n) => {\n  \
                  return n;\n};\nclass A {\n  total(x) {\n    total(x);\n  }\n}\n";
        assert_eq!(row("a.ts", js, "load"), "load 1-5");
        assert_eq!(row("a.ts", js, "twice"), "twice 7-7");
        assert_eq!(row("a.ts", js, "f"), "f 8-10");
        assert_eq!(row("a.ts", js, "total"), "total 12-14");
        assert_eq!(row("a.ts", js, "none"), "");
    }

    /// The end of each is at the end of the file: with each line looked at for each, this would take minutes.
    #[test]
    fn a_file_of_declarations_of_one_name_is_read_a_bounded_number_of_times() {
        for (path, line) in [("a.py", " def a():\n"), ("a.go", "a\n"), ("a.rs", "fn a(\n"), ("a.ts", "function a(\n")] {
            assert_eq!(functions_named(path, &line.repeat(50_000), "X.a"), []);
        }
        assert_eq!(functions_named("a.ts", &"function a(\n".repeat(50_000), "a"), []);
    }

    #[test]
    fn finds_the_functions_of_python() {
        let text = "\
import a

class C:
    x = 1

    @property
    def m(self):
        # comment
        return [
            1,
        ]

    class D:
        async def n(self):
            def inner():
                return 1
            return inner

def f(): pass
y = 2
";
        assert_eq!(
            around("a.py", text),
            "9 C.m 7-12, 10 C.m 7-12, 11 C.m 7-12, 15 C.D.n 14-18, 16 C.D.n.inner 15-16, 17 C.D.n 14-18"
        );
    }

    #[test]
    fn finds_the_functions_of_rust() {
        let text = "\
use a::b;

impl<T: Into<u8>> fmt::Display for shop::Cart<T> {
    // A comment.
    #[inline]
    pub(crate) fn total(
        &self,
    ) -> u8
    where
        T: Copy,
    {
        let sum = || {
            1
        };

        sum()
    }
}

const X: u8 = 1;

fn main() {
    fn inner() -> u8 { 1 }
    trait_of();
}
";
        assert_eq!(
            around("a.rs", text),
            "6 Cart.total 6-17, 7 Cart.total 6-17, 8 Cart.total 6-17, 9 Cart.total 6-17, 10 Cart.total 6-17, \
             11 Cart.total 6-17, 12 Cart.total 6-17, 13 Cart.total 6-17, 14 Cart.total 6-17, 16 Cart.total 6-17, \
             17 Cart.total 6-17, 22 main 22-25, 23 main.inner 23-23, 24 main 22-25, 25 main 22-25"
        );
        let named =
            |name: &str| functions_named("a.rs", text, name).into_iter().map(|one| one.name).collect::<Vec<_>>();
        assert_eq!(named("Cart.total"), ["Cart.total"]);
        assert_eq!(named("total"), ["Cart.total"]);
        assert_eq!(named("Shop.total"), [""; 0]);
        let tests = SourceFunctions::new("a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n".to_owned());
        assert_eq!([1, 4].map(|line| tests.is_of_tests(line)), [false, true]);
    }

    #[test]
    fn finds_the_functions_of_go() {
        let text = "\
package a

var x = 1

func (s *Store[K, V]) Add(a int) int {
\treturn func() int {
\t\treturn a
\t}()
}

func (Plain) Name() {
}

func Map[T any](a T) T { return a }

type T struct{}
";
        assert_eq!(
            around("a.go", text),
            "5 Store.Add 5-9, 6 Store.Add 5-9, 7 Store.Add 5-9, 8 Store.Add 5-9, 9 Store.Add 5-9, 11 Plain.Name 11-12, \
             12 Plain.Name 11-12, 14 Map 14-14"
        );
    }

    #[test]
    fn any_text_has_its_lines() {
        for text in ["", "\n", "\r\n\r\n", "def", "    def \n  x", "func (", "func ()", "func (a", "\u{a0}\u{2003}x"] {
            for path in ["a.go", "a.py", "a.rs"] {
                let functions = SourceFunctions::new(path, text.to_owned());
                (0..5).for_each(|line| assert!(functions.around(line).is_none_or(|one| one.lines.first <= line)));
                assert_eq!(functions.line(0), None);
            }
        }
    }
}
