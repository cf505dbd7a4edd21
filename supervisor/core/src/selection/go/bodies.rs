//! Which lines of a Go source are inside the body of a function. A text whose brackets do not match, as may
//! be because this reader does not understand it, has no such line.
//!
//! As long as only lines between those of a body's brackets change, the code outside of it is the same. Left out are bodies whose text
//! has an effect without being executed:
//! - with a comment that begins with `//go:`: the compiler looks for these in the whole file;
//! - of examples: whether and against what the go tool runs one, a comment in its body says;
//! - of `TestMain`, which runs the tests of its package;
//! - lines that pass variable arguments of any type on, as `log(format, arguments...)`, or change these: by such lines, `go vet` takes a
//!   function for one that prints, and checks its callers in every package, so that these may not be tested any more;
//! - all of a file that uses C, since the go tool writes its functions anew, or that says in which lines of another file its code is: what is
//!   measured has those lines.

use super::super::body::Body;
use super::print_wrappers::{lines_that_pass_on, may_be_any};
use super::tokens::{GoToken, GoTokenKind, go_tokens};

/// Most brackets around a text that is read.
const DEPTH_MAX: usize = 1_000;

/// For each line the body of a declared function around it; none if the text cannot be read.
pub(in super::super) fn go_bodies(text: &str) -> Vec<Option<Body>> {
    let mut found = vec![None; text.split_inclusive('\n').count()];
    let source = GoSource::parse(text).filter(|source| !source.has_other_lines);
    for function in source.iter().flat_map(|source| &source.functions).filter(|function| function.is_plain) {
        let (first, last) = function.body;
        for line in found.iter_mut().take(last).skip(first + 1) {
            *line = Some((first, last));
        }
        let passing = if function.takes_any { lines_that_pass_on(function.text) } else { Vec::new() };
        passing.into_iter().for_each(|line| found[function.first_line + line] = None);
    }
    found
}

/// The functions of a Go source.
#[derive(Debug, Default)]
struct GoSource<'t> {
    /// Those with a body, in order.
    functions: Vec<GoFunction<'t>>,
    /// Whether what is compiled has other lines than the text.
    has_other_lines: bool,
}

/// A function or method with a body.
#[derive(Debug)]
struct GoFunction<'t> {
    /// From `func` to the last bracket.
    text: &'t str,
    /// The line of `func`, from 0.
    first_line: usize,
    /// The lines of the brackets.
    body: Body,
    /// Whether the body has no effect without being executed.
    is_plain: bool,
    /// Whether it has parameters for any number of arguments of any type.
    takes_any: bool,
}

impl<'t> GoSource<'t> {
    /// The functions of a text; `None` if it cannot be read.
    fn parse(text: &'t str) -> Option<GoSource<'t>> {
        let mut parser = Parser { text, open: Vec::new(), last: None, declaration: None, source: GoSource::default() };
        for token in go_tokens(text) {
            parser.add(token)?;
        }
        parser.open.is_empty().then_some(parser.source)
    }
}

/// A declaration that is being read.
struct Declaration<'t> {
    /// Its first token.
    keyword: GoToken<'t>,
    name: Option<&'t str>,
    /// The body's first bracket.
    body: Option<GoToken<'t>>,
    /// Whether it has a directive of the compiler in its body.
    has_directive: bool,
    /// Whether it has parameters for any number of arguments of any type.
    takes_any: bool,
}

struct Parser<'t> {
    text: &'t str,
    /// The open brackets.
    open: Vec<u8>,
    /// The last token that is no comment and no end of a line.
    last: Option<GoToken<'t>>,
    declaration: Option<Declaration<'t>>,
    source: GoSource<'t>,
}

impl<'t> Parser<'t> {
    /// `None` if the text cannot be read.
    fn add(&mut self, token: GoToken<'t>) -> Option<()> {
        match token.kind {
            GoTokenKind::Unreadable => return None,
            GoTokenKind::Comment => self.add_comment(token),
            GoTokenKind::LineEnd => {}
            GoTokenKind::Word | GoTokenKind::Literal | GoTokenKind::Sign => {
                if token.is_sign(";") && self.open.is_empty() {
                    self.declaration = None;
                } else {
                    self.add_to_declaration(token)?;
                }
                self.last = Some(token);
            }
        }
        if token.ends_line() && self.open.is_empty() && self.last.is_some_and(|last| last.ends_statement()) {
            self.declaration = None;
        }
        Some(())
    }

    fn add_comment(&mut self, token: GoToken<'t>) {
        // As `//line a.y:1` or `/*line a.y:1:2*/`.
        let content = &token.text[2..];
        self.source.has_other_lines |= content.starts_with("line ") && content.contains(':');
        if let Some(declaration) = &mut self.declaration {
            declaration.has_directive |= token.text.starts_with("//go:") && declaration.body.is_some();
        }
    }

    fn add_to_declaration(&mut self, token: GoToken<'t>) -> Option<()> {
        let declaration = self.declaration.get_or_insert(Declaration {
            keyword: token,
            name: None,
            body: None,
            has_directive: false,
            takes_any: false,
        });
        let (is_function, is_outside) = (declaration.keyword.text == "func", self.open.is_empty());
        declaration.takes_any |= self.last.is_some_and(|last| last.is_sign("...")) && may_be_any(token);
        match (token.kind, token.text) {
            (GoTokenKind::Word, name) if is_outside && is_function && token.at > declaration.keyword.at => {
                declaration.name.get_or_insert(name);
            }
            // The go tool compiles other text in place of this one.
            (GoTokenKind::Literal, "\"C\"" | "`C`") if declaration.keyword.text == "import" => {
                self.source.has_other_lines = true;
            }
            (GoTokenKind::Sign, "(" | "[" | "{") => {
                let last = self.last.map_or("", |last| last.text);
                let is_type = matches!(last, "struct" | "interface");
                if is_function && is_outside && token.text == "{" && !is_type {
                    declaration.body.get_or_insert(token);
                }
                if self.open.len() >= DEPTH_MAX {
                    return None;
                }
                self.open.extend(token.text.bytes());
            }
            (GoTokenKind::Sign, ")" | "]" | "}") => self.close(token)?,
            _ => {}
        }
        Some(())
    }

    fn close(&mut self, token: GoToken<'t>) -> Option<()> {
        if !matches!((self.open.pop()?, token.text), (b'(', ")") | (b'[', "]") | (b'{', "}")) {
            return None;
        }
        let Some(declaration) = self.declaration.as_ref().filter(|_| self.open.is_empty()) else { return Some(()) };
        if let Some(function) = declaration.function(self.text, token) {
            self.source.functions.push(function);
            self.declaration = None;
        }
        Some(())
    }
}

impl<'t> Declaration<'t> {
    /// The function that ends with this bracket.
    fn function(&self, text: &'t str, end: GoToken<'t>) -> Option<GoFunction<'t>> {
        let (name, body, keyword) = (self.name?, self.body?, self.keyword);
        Some(GoFunction {
            text: &text[keyword.at..=end.at],
            first_line: keyword.line,
            body: (body.line, end.line),
            is_plain: !self.has_directive && !name.starts_with("Example") && name != "TestMain",
            takes_any: self.takes_any,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines in bodies, from 1, with those of the brackets' lines.
    fn found(text: &str) -> Vec<(usize, Body)> {
        let bodies = go_bodies(text).into_iter().enumerate();
        bodies.filter_map(|(line, body)| body.map(|(first, last)| (line + 1, (first + 1, last + 1)))).collect()
    }

    #[test]
    fn finds_the_lines_of_functions() {
        let rows: &[(&str, &[(usize, Body)])] = &[
            ("func f() {\n1\n}\nfunc g() { 2 }\n", &[(2, (1, 3))]),
            ("func f() {\r\n1\r\n}\r\nfunc g() {\r\n2\r\n}\r\n", &[(2, (1, 3)), (5, (4, 6))]),
            ("\u{feff}package a\nfunc (r *T[K]) f() {\n1\n}", &[(3, (2, 4))]),
            ("func f(\na struct{\nb int\n},\nc interface{ d() },\n) (e map[int]struct{}) {\n1\n}", &[(7, (6, 8))]),
            ("func f() struct{ a int } {\n1\n}", &[(2, (1, 3))]),
            ("func f() struct /* a */ {\na int\n} {\n1\n}", &[(4, (3, 5))]),
            ("func f() interface {\nm()\n} {\n1\n}", &[(4, (3, 5))]),
            ("func f() func(a struct{}) interface{} {\n1\n}", &[(2, (1, 3))]),
            ("func f() chan<- [len(\"{\")]struct{} {\n1\n}", &[(2, (1, 3))]),
            ("func f[T interface{ ~int | m() }, U any](a T) G[struct{}] {\n1\n}", &[(2, (1, 3))]),
            // Implemented in assembler, and a function behind it.
            ("func f(a int) int\nfunc g() interface{ m() }\nfunc h() {\n1\n}", &[(4, (3, 5))]),
            ("func f(a int) int // {\nfunc h() {\n1\n}", &[(3, (2, 4))]),
            ("func f() int /*\n*/ func h() {\n1\n}", &[(3, (2, 4))]),
            ("func f() func(\n) {\n1\n}", &[(3, (2, 4))]),
            // Within one body, all lines have the outer one.
            (
                "func f() {\ng := func() {\n1\n}\ntype t struct {\na int\n}\n}",
                &[(2, (1, 8)), (3, (1, 8)), (4, (1, 8)), (5, (1, 8)), (6, (1, 8)), (7, (1, 8))],
            ),
            ("//go:noinline\nfunc init() {\n1\n}\nfunc main() {\n2\n}", &[(3, (2, 4)), (6, (5, 7))]),
            ("//go:build a\n\npackage a\n\nimport \"D\"\n\nfunc TestA(t *testing.T) {\n1\n}", &[(8, (7, 9))]),
            ("const A = 1.\nfunc f() {\n1\n}", &[(3, (2, 4))]),
            ("var a, b = c, d; func f() {\n1\n}", &[(2, (1, 3))]),
            ("func f(a ...any) {\n1\nf(a...)\n}\nfunc g(a ...string) {\ng(a...)\n}", &[(2, (1, 4)), (6, (5, 7))]),
        ];
        for (text, expected) in rows {
            assert_eq!(found(text), *expected, "{text}");
        }
    }

    #[test]
    fn what_is_outside_of_functions_and_what_has_an_effect_outside_is_no_body() {
        for text in [
            "var f = func() {\n1\n}",
            "var f =\nfunc() {\n1\n}",
            "var f = a +\nfunc() int {\n1\n}()",
            "var (\nf = func() {\n1\n}\n)",
            "var m = map[string]func(){\n\"a\": func() {\n1\n},\n}",
            "type F func(\na struct{\nb int\n},\n) interface{\nm()\n}",
            "type I interface {\nm()\n}",
            "func f() struct {\na int\n}",
            "func f() {\n//go:linkname a b\n}",
            "import \"C\"\nfunc f() {\n1\n}",
            "import (\n\"a\"\n_ `C`\n)\nfunc f() {\n1\n}",
            "//line a.y:1\nfunc f() {\n1\n}",
            "func f() {\n1\n}\nfunc g() { /*line a.y:1:2*/ }",
            "func ExampleF() {\n// Output: 1\n}",
            "func TestMain(m *testing.M) {\nm.Run()\n}",
            "func f(format string, a ...any) {\nfmt.Printf(format, a...)\n}",
            "func f() {\nlogf = func(format string, a ...any) { fmt.Printf(format, a...) }\n}",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn brackets_in_texts_and_comments_do_not_count() {
        for inner in [
            "\"{\\\"{\"",
            "\"\\\\\"",
            "'{'",
            "'\\''",
            "'\\\\'",
            "'\\u007d'",
            "'\u{e9}'",
            "`{\\`",
            "`'\"{`",
            "// {",
            "// `",
            "/* { /* } */",
            "/* \" */",
        ] {
            let text = format!("func f() {{\n{inner}\n}}\nfunc g() {{\n1\n}}");
            assert_eq!(found(&text), [(2, (1, 3)), (5, (4, 6))], "{inner}");
        }
    }

    #[test]
    fn lines_of_texts_and_comments_are_counted() {
        for inner in ["`a\nb`", "`\n`", "1 /* a\nb */", "1 +\n2"] {
            let text = format!("const A = {inner}\nfunc g() {{\n1\n}}");
            assert_eq!(found(&text), [(4, (3, 5))], "{inner}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_read_has_no_bodies() {
        for end in ["}", "{", "\"", "/*", "(", "`a", "'\\", "(]", "#", "\"a\nb\""] {
            assert_eq!(found(&format!("func f() {{\n1\n}}\n{end}")), [], "{end}");
        }
        let nested = |depth| format!("func f() {{\n1\n}}\nvar a = {}{}", "(".repeat(depth), ")".repeat(depth));
        assert!(found(&nested(DEPTH_MAX + 1)).is_empty() && !found(&nested(DEPTH_MAX)).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([a-z(){}\\[\\]'\"/*#!<>=,;:.`\n\\\\\u{e9} ]|func |//go:|/\\*line |struct\\{){0,200}") {
            proptest::prop_assert_eq!(go_bodies(&text).len(), text.split_inclusive('\n').count());
        }

        #[test]
        fn a_function_behind_what_can_be_read_is_found(text in "([a-z(){}'\"/*`\n\u{e9} ]|func f\\(\\) \\{){0,60}") {
            let first = text.matches('\n').count() + 1;
            let all = format!("{text}\n;func f() {{\n1\n}}\n");
            if GoSource::parse(&text).is_some_and(|source| !source.has_other_lines) {
                proptest::prop_assert_eq!(go_bodies(&all)[first + 1], Some((first, first + 2)));
            }
        }
    }
}
