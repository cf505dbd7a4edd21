//! Which lines of a Rust source are inside the body of a function. A text whose brackets do not match, as may be because this
//! reader does not understand it, has no such line.
//!
//! As long as only lines between those of a body's brackets change, the code outside of it is the same. Left out are bodies that
//! the compiler executes, or whose text has an effect outside of them: of a `const fn`, of a function that is `async` or returns
//! an `impl`, in a call of a macro outside of functions, or with one of [`ACTS_OUTSIDE`] in it.

use super::body::Body;
use crate::script_text::is_word;

/// Words in a function's body that have an effect outside of it, or that are not the same in each build.
const ACTS_OUTSIDE: [&str; 11] = [
    "impl",
    "const",
    "cfg",
    "cfg_attr",
    "macro_rules",
    "macro",
    "submit",
    "no_mangle",
    "export_name",
    "link_section",
    "distributed_slice",
];

/// For each line the outermost body around it; none if the brackets do not match.
pub(super) fn rust_bodies(text: &str) -> Vec<Option<Body>> {
    let mut found = vec![None; text.split_inclusive('\n').count()];
    let mut scanner = Scanner {
        text,
        at: 0,
        line: 0,
        open: Vec::new(),
        around: None,
        last: Token::Other,
        item: Item::None,
        has_const: false,
        is_async: false,
        bodies: Vec::new(),
    };
    if scanner.scan().is_some() && scanner.open.is_empty() {
        for (first, last) in scanner.bodies {
            for line in found.iter_mut().take(last).skip(first + 1) {
                *line = Some((first, last));
            }
        }
    }
    found
}

/// Where the reader is, if not between items.
#[derive(Clone, Copy, PartialEq)]
enum Around {
    /// The body of a function that begins on this line.
    Body { first: usize, is_plain: bool },
    /// A call of a macro outside of functions, or its rules.
    Macro,
}

/// The last token.
#[derive(Clone, Copy, PartialEq)]
enum Token<'t> {
    Word(&'t str),
    /// `!` behind a word, and a name behind that.
    MacroCall,
    /// A sign behind which `{` begins a constant in a type, as in `X<{ N }>`.
    BeforeOperand,
    Other,
}

/// What has been read outside of functions.
#[derive(Clone, Copy, PartialEq)]
enum Item {
    None,
    /// The beginning of a function, up to its body, which comes at this depth of brackets.
    Function {
        depth: usize,
        is_plain: bool,
        has_parameters: bool,
        has_where: bool,
    },
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    line: usize,
    /// The open brackets.
    open: Vec<u8>,
    /// The body or macro that the reader is in, with the number of brackets outside of it.
    around: Option<(usize, Around)>,
    last: Token<'t>,
    item: Item,
    /// Whether a word with `const` has come since the last item: a function that follows may be constant, also by an attribute.
    has_const: bool,
    is_async: bool,
    bodies: Vec<Body>,
}

impl<'t> Scanner<'t> {
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    /// Goes on behind the next `len` bytes.
    fn pass(&mut self, len: usize) {
        let end = (self.at + len).min(self.text.len());
        self.line += self.text.as_bytes()[self.at..end].iter().filter(|byte| **byte == b'\n').count();
        self.at = end;
    }

    /// `None` if the text cannot be read.
    fn scan(&mut self) -> Option<()> {
        while self.at < self.text.len() {
            let (byte, next) = (self.byte(self.at), self.byte(self.at + 1));
            match byte {
                b'/' if next == b'/' => {
                    let rest = &self.text.as_bytes()[self.at..];
                    self.pass(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
                }
                b'/' if next == b'*' => self.comment()?,
                b'"' => self.string()?,
                b'\'' => self.character_or_lifetime()?,
                b'(' | b'[' | b'{' => self.open(byte),
                b')' | b']' | b'}' => self.close(byte)?,
                _ if byte.is_ascii_whitespace() => self.pass(1),
                _ if is_word(byte) => self.word()?,
                _ => {
                    self.sign(byte);
                    self.pass(1);
                }
            }
        }
        Some(())
    }

    fn comment(&mut self) -> Option<()> {
        let mut depth = 0;
        loop {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (b'/', b'*') => depth += 1,
                (b'*', b'/') => depth -= 1,
                _ if self.at >= self.text.len() => return None,
                _ => {
                    self.pass(1);
                    continue;
                }
            }
            self.pass(2);
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.pass(1);
        while self.at < self.text.len() {
            match self.byte(self.at) {
                b'"' => {
                    self.pass(1);
                    self.last = Token::Other;
                    return Some(());
                }
                b'\\' => self.pass(2),
                _ => self.pass(1),
            }
        }
        None
    }

    /// A raw string, from its first `#` or quote.
    fn raw_string(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let signs = rest.bytes().take_while(|byte| *byte == b'#').count();
        let end = format!("\"{}", "#".repeat(signs));
        let content = rest[signs..].strip_prefix('"')?;
        self.pass(signs + 1 + content.find(&end)? + end.len());
        self.last = Token::Other;
        Some(())
    }

    fn character_or_lifetime(&mut self) -> Option<()> {
        self.last = Token::Other;
        let rest = &self.text[self.at + 1..];
        let first = rest.chars().next()?;
        if first == '\\' {
            // Behind the escaped character, which may be a quote itself.
            let escaped = rest.char_indices().nth(2)?.0;
            self.pass(1 + escaped + rest[escaped..].find('\'')? + 1);
        } else if rest[first.len_utf8()..].starts_with('\'') {
            self.pass(2 + first.len_utf8());
        } else {
            self.pass(1);
            self.pass(self.word_len());
        }
        Some(())
    }

    /// Bytes of the word that begins here.
    fn word_len(&self) -> usize {
        self.text.as_bytes()[self.at..].iter().take_while(|byte| is_word(**byte)).count()
    }

    fn word(&mut self) -> Option<()> {
        let (start, len) = (self.at, self.word_len());
        let word = &self.text[start..start + len];
        let next = self.byte(start + len);
        let is_prefix = matches!(word, "r" | "br" | "cr");
        if is_prefix && (next == b'"' || next == b'#' && matches!(self.byte(start + len + 1), b'"' | b'#')) {
            self.pass(len);
            return self.raw_string();
        }
        self.pass(len);
        if word == "r" && next == b'#' {
            // A name that is a word of the language, as `r#fn`.
            self.pass(1);
            self.pass(self.word_len());
            self.last = Token::Word("");
            return Some(());
        }
        let (is_named, depth) = (word == "fn" && self.is_named(), self.open.len());
        match (&mut self.around, &mut self.item) {
            (Some((_, Around::Body { is_plain, .. })), _) => *is_plain &= !ACTS_OUTSIDE.contains(&word),
            (Some((_, Around::Macro)), _) => {}
            (None, Item::Function { is_plain, has_parameters, has_where, .. }) => {
                // A caller's code depends on the type that stands behind what is returned.
                *is_plain &= word != "impl" || !*has_parameters;
                *has_where |= word == "where";
            }
            // A pointer to a function has a bracket behind the word, and no name.
            (None, Item::None) if is_named => {
                let is_plain = !self.has_const && !self.is_async;
                self.item = Item::Function { depth, is_plain, has_parameters: false, has_where: false };
            }
            (None, Item::None) => {
                self.has_const |= word.contains("const");
                self.is_async |= word == "async";
            }
        }
        self.last = if self.last == Token::MacroCall { Token::MacroCall } else { Token::Word(word) };
        Some(())
    }

    /// Whether a name follows.
    fn is_named(&self) -> bool {
        self.text[self.at..].trim_start().bytes().next().is_some_and(is_word)
    }

    fn sign(&mut self, sign: u8) {
        if sign == b';' && self.around.is_none() {
            match self.item {
                Item::Function { depth, .. } if depth < self.open.len() => {}
                _ => self.end_item(),
            }
        }
        self.last = match (sign, self.last) {
            (b'!', Token::Word(word)) if !word.is_empty() => Token::MacroCall,
            (b'<' | b'=', _) => Token::BeforeOperand,
            // Behind the last bound of a function comes its body.
            (b',', _) if !matches!(self.item, Item::Function { has_where: true, .. }) => Token::BeforeOperand,
            _ => Token::Other,
        };
    }

    fn end_item(&mut self) {
        (self.item, self.has_const, self.is_async) = (Item::None, false, false);
    }

    fn open(&mut self, bracket: u8) {
        let depth = self.open.len();
        let around = match self.item {
            _ if self.last == Token::MacroCall => Some(Around::Macro),
            Item::Function { depth: wanted, is_plain, .. }
                if bracket == b'{' && wanted == depth && self.last != Token::BeforeOperand =>
            {
                Some(Around::Body { first: self.line, is_plain })
            }
            _ => None,
        };
        if let (None, Some(around)) = (self.around, around) {
            self.around = Some((depth, around));
        }
        self.open.push(bracket);
        self.last = Token::Other;
        self.pass(1);
    }

    fn close(&mut self, bracket: u8) -> Option<()> {
        let opening = self.open.pop()?;
        if !matches!((opening, bracket), (b'(', b')') | (b'[', b']') | (b'{', b'}')) {
            return None;
        }
        let depth = self.open.len();
        match (self.around, &mut self.item) {
            (Some((outside, around)), item) if outside == depth => {
                self.around = None;
                let is_function = matches!(item, Item::Function { .. });
                if let Around::Body { first, is_plain: true } = around {
                    self.bodies.push((first, self.line));
                }
                if around != Around::Macro || bracket == b'}' && !is_function {
                    self.end_item();
                }
            }
            (Some(_), _) => {}
            (None, Item::Function { depth: wanted, has_parameters, .. }) if *wanted == depth => {
                *has_parameters |= bracket == b')';
            }
            (None, Item::Function { depth: wanted, .. }) if *wanted < depth => {}
            (None, Item::Function { .. }) => self.end_item(),
            (None, Item::None) if bracket == b'}' => self.end_item(),
            (None, Item::None) => {}
        }
        self.last = Token::Other;
        self.pass(1);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines in bodies, from 1, with those of the brackets' lines.
    fn found(text: &str) -> Vec<(usize, Body)> {
        let bodies = rust_bodies(text).into_iter().enumerate();
        bodies.filter_map(|(line, body)| body.map(|(first, last)| (line + 1, (first + 1, last + 1)))).collect()
    }

    #[test]
    fn finds_the_lines_of_functions() {
        let rows: &[(&str, &[(usize, Body)])] = &[
            ("fn f() {\n1\n}\nfn g() { 2 }\n", &[(2, (1, 3))]),
            (
                "pub(crate) unsafe extern \"C\" fn f<'a, const N: usize>(a: &'a [u8; N]) -> [u8; 2]\nwhere\n T: X<{ N }>,\n{\n1\n}",
                &[(5, (4, 6))],
            ),
            (
                "impl<T> X for Y<T> {\nfn f(&self);\nconst A: u8 = 1;\nfn g(f: fn(u8) -> u8) -> u8 {\n1\n}\n}",
                &[(5, (4, 6))],
            ),
            ("const A: u8 = 1;\nfn f() {\n1\n}", &[(3, (2, 4))]),
            ("const fn a() {}\nstruct S<const N: usize>([u8; N]);\nfn f(a: impl X) {\n1\n}", &[(4, (3, 5))]),
            ("trait X { fn f(); }\nfn g() {\n1\n}", &[(3, (2, 4))]),
            // Within one body, all lines have the outer one.
            (
                "fn f() {\nfn g() {\n1\n}\nlet a = || {\n2\n};\n}",
                &[(2, (1, 8)), (3, (1, 8)), (4, (1, 8)), (5, (1, 8)), (6, (1, 8)), (7, (1, 8))],
            ),
            ("mod a {\n#[test]\nfn f() {\n1\n}\n}", &[(4, (3, 5))]),
            ("fn f() -> A<{\n1\n}> {\n2\n}", &[(4, (3, 5))]),
        ];
        for (text, expected) in rows {
            assert_eq!(found(text), *expected, "{text}");
        }
    }

    #[test]
    fn what_the_compiler_executes_and_what_has_an_effect_outside_is_no_body() {
        for text in [
            "const fn f() {\n1\n}",
            "async fn f() {\n1\n}",
            "fn f(a: u8) -> impl X {\n1\n}",
            "fn f() -> (u8, impl X) {\n1\n}",
            "#[rustversion::attr(since(1.46), const)]\npub fn f() {\n1\n}",
            "#[const_fn::const_fn]\npub fn f() {\n1\n}",
            "\u{feff}const fn f() {\n1\n}",
            "impl const X for Y {\nfn f() {\n1\n}\n}",
            "fn f() {\n#[cfg(test)]\n1;\n}",
            "fn f() {\nconst { assert!(1) }\n}",
            "fn f() {\ninventory::submit! { 1 }\n}",
            "pub const unsafe fn f() {\n1\n}",
            "const extern \"C\" fn f() {\n1\n}",
            "macro_rules! a { () => {\nfn f() {\n1\n}\n} }",
            "lazy! {\nfn f() {\n1\n}\n}",
            "a::b!(\nfn f() {\n1\n}\n);",
            "fn f() {\nimpl X for Y {}\n1\n}",
            "static A: B = B::new(|| {\n1\n});",
            "const A: u8 = {\n1\n};",
            "fn f();\nconst A: u8 = {\n1\n};",
            "struct A {\na: u8\n}",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn brackets_in_texts_and_comments_do_not_count() {
        for inner in [
            "\"{\\\"{\"",
            "'{'",
            "'\\''",
            "b'{'",
            "'\\u{7d}'",
            "'\u{e9}'",
            "r\"{\\\"",
            "r#\"{\"{\"#",
            "br##\"\"#{\"##",
            "c\"}\"",
            "// {",
            "/* { /* } */ { */",
            "let a: &'static str = x::<'_>;",
            "let r#fn = r#impl;",
            "'a: loop {}",
            "/// }",
        ] {
            let text = format!("fn f() {{\n{inner}\n}}\nfn g() {{\n1\n}}");
            assert_eq!(found(&text), [(2, (1, 3)), (5, (4, 6))], "{inner}");
        }
    }

    #[test]
    fn lines_of_texts_and_comments_are_counted() {
        for inner in ["\"a\nb\"", "\"a\\\nb\"", "r#\"a\n\"b\"#", "/* a\nb */"] {
            let text = format!("const A: X = {inner};\nfn g() {{\n1\n}}");
            assert_eq!(found(&text), [(4, (3, 5))], "{inner}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_read_has_no_bodies() {
        for end in ["}", "{", "\"", "/*", "(", "r#\"a\"", "'\\"] {
            assert_eq!(found(&format!("fn f() {{\n1\n}}\n{end}")), [], "{end}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "[a-z(){}\\[\\]'\"/*#!<>=,;\n\\\\\u{e9} ]{0,200}") {
            proptest::prop_assert_eq!(rust_bodies(&text).len(), text.split_inclusive('\n').count());
        }
    }
}
