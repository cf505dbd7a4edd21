//! The bodies of functions in the text of a Python source, found without parsing it whole. What may be known of a function without
//! calling it is not part of its body: decorators, defaults, the documentation string, and lines with `yield`, which make it a generator.

use super::body::Body;
use crate::script_text::is_word;
use std::ops::Range;

/// Most formatted strings that stand within each other.
const NESTED_STRINGS_MAX: usize = 32;

/// Columns of a tab, as Python counts them.
const TAB_COLUMNS: usize = 8;

/// Beginnings of lines that cannot stand within brackets: there the brackets were misread.
const STATEMENTS: [&[u8]; 6] = [b"def ", b"async ", b"class ", b"@", b"import ", b"from "];

/// The logical lines of a text; `None` if it is no Python that can be read.
pub(super) fn statements(text: &str) -> Option<Vec<Statement>> {
    Scanner::new(text).statements()
}

/// A text in which the contents of strings are `_`, comments are spaces, and nothing else differs: the fields of formatted strings are
/// code. `None` if it is no Python that can be read.
pub(super) fn without_literals(text: &str) -> Option<String> {
    let mut scanner = Scanner::new(text);
    scanner.statements()?;
    let mut bytes = text.as_bytes().to_vec();
    for (range, filling) in &scanner.literals {
        bytes[range.clone()]
            .iter_mut()
            .filter(|byte| !matches!(**byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = *filling);
    }
    String::from_utf8(bytes).ok()
}

/// For each line the body of the outermost function around it. Without any where the text is no Python that can be read.
pub(super) fn python_bodies(text: &str) -> Vec<Option<Body>> {
    let mut bodies = vec![None; text.split_inclusive('\n').count()];
    let Some(statements) = statements(text) else { return bodies };
    let mut rest = statements.as_slice();
    while let Some((header, behind)) = rest.split_first() {
        rest = behind;
        if !header.is_function {
            continue;
        }
        let size = behind.iter().take_while(|statement| statement.indent > header.indent).count();
        let (members, behind) = behind.split_at(size);
        rest = behind;
        let members = if members.first().is_some_and(|first| first.is_string) { &members[1..] } else { members };
        let [first, ..] = members else { continue };
        let last = members[members.len() - 1].last;
        bodies[first.first..=last].fill(Some((first.first - 1, last + 1)));
        for statement in members.iter().filter(|statement| statement.has_yield) {
            bodies[statement.first..=statement.last].fill(None);
        }
    }
    bodies
}

/// A logical line: a simple statement, or the head of a compound one.
#[derive(Debug)]
pub(super) struct Statement {
    /// First and last line, from 0.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) indent: usize,
    /// Whether it is the head of a function, which may have its body in the same line.
    pub(super) is_function: bool,
    /// Whether it may begin with a string, as a documentation string does.
    is_string: bool,
    has_yield: bool,
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    /// Number of all lines.
    lines: usize,
    has_yield: bool,
    /// The contents of strings and the comments so far, with what they are filled with in a text without them.
    literals: Vec<(Range<usize>, u8)>,
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str) -> Scanner<'t> {
        let lines = text.split_inclusive('\n').count();
        Scanner { text: text.as_bytes(), at: 0, line: 0, lines, has_yield: false, literals: Vec::new() }
    }

    /// All statements; `None` if a string or bracket has no end, or a line ends as no other editor's lines do.
    fn statements(&mut self) -> Option<Vec<Statement>> {
        let is_alone = |pair: &[u8]| pair[0] == b'\r' && pair[1] != b'\n';
        if self.text.windows(2).any(is_alone) {
            return None;
        }
        let mut statements = Vec::new();
        loop {
            let indent = self.indent();
            match self.byte(0) {
                0 if self.at >= self.text.len() => return Some(statements),
                b'\n' | b'\r' | b'#' => self.comment(),
                _ => {
                    let (first, at) = (self.line, self.at);
                    self.has_yield = false;
                    self.tokens(0, Self::ends_statement)?;
                    let start = &self.text[at..];
                    // Behind a backslash the text may end with the line.
                    let last = self.line.min(self.lines.saturating_sub(1));
                    statements.push(Statement {
                        first,
                        last,
                        indent,
                        is_function: begins_function(start),
                        // In brackets or behind a backslash, too.
                        is_string: matches!(start.first(), Some(b'(' | b'\\'))
                            || string_prefix(start).is_some_and(|length| is_quote(start.get(length))),
                        has_yield: self.has_yield,
                    });
                }
            }
            // The end of the line, or of the text.
            self.pass(1);
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Goes on, and counts the lines that end.
    fn pass(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.text.len());
        self.line += self.text[self.at..end].iter().filter(|byte| **byte == b'\n').count();
        self.at = end;
    }

    fn indent(&mut self) -> usize {
        let mut indent = 0;
        loop {
            match self.byte(0) {
                b' ' => indent += 1,
                b'\t' => indent += TAB_COLUMNS - indent % TAB_COLUMNS,
                b'\x0c' => indent = 0,
                // The mark of an encoding, before the first line.
                0xef if self.text.starts_with(b"\xef\xbb\xbf") && self.at == 0 => self.at += 2,
                _ => return indent,
            }
            self.at += 1;
        }
    }

    /// To the end of the line.
    fn comment(&mut self) {
        let rest = &self.text[self.at..];
        let end = self.at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.literals.push((self.at..end, b' '));
        self.at = end;
    }

    fn ends_statement(byte: u8) -> bool {
        byte == b'\n'
    }

    fn ends_field(byte: u8) -> bool {
        byte == b'}' || byte == b':'
    }

    /// Reads up to a byte outside of strings and brackets for which `ends` holds, or to the end of the text.
    fn tokens(&mut self, nested: usize, ends: fn(u8) -> bool) -> Option<()> {
        let mut depth = 0_usize;
        while self.at < self.text.len() {
            let byte = self.byte(0);
            if depth == 0 && ends(byte) {
                return Some(());
            }
            match byte {
                b'\n' => {
                    self.pass(1);
                    if STATEMENTS.iter().any(|start| self.text[self.at..].starts_with(start)) {
                        return None;
                    }
                }
                b'#' => self.comment(),
                b'(' | b'[' | b'{' => {
                    depth += 1;
                    self.pass(1);
                }
                b')' | b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    self.pass(1);
                }
                b'"' | b'\'' => self.string(b"", nested)?,
                b'\\' if self.byte(1) == b'\r' => self.pass(3),
                b'\\' => self.pass(2),
                byte if is_word(byte) => self.word(nested)?,
                _ => self.pass(1),
            }
        }
        (depth == 0 && nested == 0).then_some(())
    }

    fn word(&mut self, nested: usize) -> Option<()> {
        let rest = &self.text[self.at..];
        let word = &rest[..rest.iter().take_while(|byte| is_word(**byte)).count()];
        self.has_yield |= word == b"yield";
        self.pass(word.len());
        match string_prefix(rest) {
            Some(length) if length == word.len() && is_quote(rest.get(length)) => self.string(word, nested),
            _ => Some(()),
        }
    }

    /// A string, from its first quote.
    fn string(&mut self, prefix: &[u8], nested: usize) -> Option<()> {
        let quote = self.byte(0);
        let length = if self.byte(1) == quote && self.byte(2) == quote { 3 } else { 1 };
        let is_format = prefix.iter().any(|byte| b"fFtT".contains(byte));
        let is_raw = prefix.iter().any(|byte| b"rR".contains(byte));
        self.pass(length);
        let mut from = self.at;
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            match self.byte(0) {
                byte if byte == quote && rest.iter().take(length).filter(|byte| **byte == quote).count() == length => {
                    self.literals.push((from..self.at, b'_'));
                    self.pass(length);
                    return Some(());
                }
                b'\n' if length == 1 => return None,
                // The name of a character.
                b'\\' if is_format && !is_raw && rest.starts_with(b"\\N{") => {
                    self.pass(rest.iter().position(|byte| *byte == b'}')? + 1)
                }
                b'\\' if is_format && self.byte(1) == b'{' => self.pass(1),
                b'\\' if self.byte(1) == b'\r' => self.pass(3),
                b'\\' => self.pass(2),
                b'{' if is_format && self.byte(1) == b'{' => self.pass(2),
                b'{' if is_format => {
                    self.literals.push((from..self.at, b'_'));
                    self.field(quote, length, nested + 1)?;
                    from = self.at;
                }
                _ => self.pass(1),
            }
        }
        None
    }

    /// A replacement field of a formatted string, from its bracket.
    fn field(&mut self, quote: u8, length: usize, nested: usize) -> Option<()> {
        if nested > NESTED_STRINGS_MAX {
            return None;
        }
        self.pass(1);
        self.tokens(nested, Self::ends_field)?;
        let is_format = self.byte(0) == b':';
        self.pass(1);
        if is_format { self.format(quote, length, nested) } else { Some(()) }
    }

    /// How the value of a field is formatted, to its end: text with fields of its own.
    fn format(&mut self, quote: u8, length: usize, nested: usize) -> Option<()> {
        loop {
            match self.byte(0) {
                b'{' => self.field(quote, length, nested + 1)?,
                b'}' => {
                    self.pass(1);
                    return Some(());
                }
                0 => return None,
                b'\n' if length == 1 => return None,
                byte if byte == quote && length == 1 => return None,
                _ => self.pass(1),
            }
        }
    }
}

/// Length of the letters that may stand before a string.
fn string_prefix(text: &[u8]) -> Option<usize> {
    let length = text.iter().take_while(|byte| b"rRbBuUfFtT".contains(byte)).count();
    (length <= 2).then_some(length)
}

fn is_quote(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'"' | b'\''))
}

fn begins_function(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"async").filter(|rest| rest.starts_with(b" ")).unwrap_or(text);
    let text = text.trim_ascii_start();
    text.strip_prefix(b"def").is_some_and(|rest| !rest.first().is_some_and(|byte| is_word(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of bodies, from 1, and the function of each by the first line of its body.
    fn lines(text: &str) -> Vec<(usize, usize)> {
        let numbered = (1..).zip(python_bodies(text));
        numbered.filter_map(|(line, body)| Some((line, body?.0 + 2))).collect()
    }

    fn in_bodies(text: &str) -> Vec<usize> {
        lines(text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn finds_the_lines_of_functions() {
        let text = "import a\n\n@decorated\ndef f(\n    x=(1,\n  2),\n):\n    # why\n    y = x\n\n    return y\n\nclass C:\n    level = 1\n\n    async def g(self):\n        def inner():\n            return '''\ndef no():\n  1\n'''\n        return inner\n\n    other = 2\n";
        assert_eq!(lines(text), [(9, 9), (10, 9), (11, 9), (17, 17), (18, 17), (19, 17), (20, 17), (21, 17), (22, 17)]);
    }

    #[test]
    fn what_is_known_without_a_call_is_no_body() {
        assert_eq!(in_bodies("def f(): return 1\n"), [0; 0]);
        assert_eq!(in_bodies("def f():\n    '''Says\n    what.'''\n    return 1\n"), [4]);
        assert_eq!(in_bodies("def f():\n    R\"Says what.\"\n"), [0; 0]);
        assert_eq!(in_bodies("def f():\n    (\n    'Says what.')\n    return 1\n"), [4]);
        assert_eq!(in_bodies("def f():\n    a = 1\n    x = (\n        yield a)\n    return a\n"), [2, 5]);
        assert_eq!(in_bodies("def f():\n    yields = 'yield'\n"), [2]);
        assert_eq!(in_bodies("default = 1\ndef_ = 2\n"), [0; 0]);
    }

    #[test]
    fn reads_strings_and_brackets() {
        for line in [
            "a = '(' + \"[\" + '''{\n'''",
            "a = 'it\\'s (' # (",
            "a = r'\\' + '('\n    '",
            "a = f'{x[\"(\"]}' f\"{x[\"(\"]}\"",
            "a = f'{x:(>10}' rf'\\{x}('",
            "a = f'{{(' f'{x!r:{width}}' f'\\N{LEFT PARENTHESIS}('",
            "a = f'''{\n  x:\n(}'''",
            "a = (1,  # )\n2)",
            "a = 1 + \\\n  2",
            "if a: b = {'c': [1]}",
        ] {
            let text = format!("def f():\n    {line}\n    return a\nb = 1\n");
            let ends = text.matches('\n').count();
            let expected: Vec<usize> = if line.starts_with("a = r'") { Vec::new() } else { (2..ends).collect() };
            assert_eq!(in_bodies(&text), expected, "{line}");
        }
        assert_eq!(in_bodies("def f():\r\n    return 1\r\n\r\nb = 2\r\n"), [2]);
        assert_eq!(in_bodies("\u{feff}def f():\n    return 1\n"), [2]);
        assert_eq!(
            in_bodies("if a:\n\tdef f():\n\t\treturn 1\n        b = 2\n"),
            [3],
            "a tab ends in the eighth column"
        );
    }

    #[test]
    fn finds_nothing_in_what_it_cannot_read() {
        for text in ["a = (\n", "a = ')\n", ")\n", "a = '''\n", "b\rd", "a = f'{x'\n", "a = (\ndef g():\n    )\n"] {
            let text = format!("def f():\n    return 1\n\n{text}\nc = 1\n");
            assert_eq!(in_bodies(&text), [0; 0], "{text}");
        }
        for end in ["\\\n", "\\\r\n", "\\"] {
            assert_eq!(in_bodies(&format!("def f():\n    x{end}")), [2], "{end}");
        }
        let deep = format!("def f():\n    return {}1{}\n", "f'{".repeat(100_000), "}'".repeat(100_000));
        assert_eq!(in_bodies(&deep), [0; 0]);
    }

    #[test]
    fn a_text_without_literals_has_the_code_of_formatted_strings() {
        for (text, code) in [
            ("a['k = 1']['é'] = 2  # for b in c\n", "a['_____']['__'] = 2              \n"),
            ("r\"\"\"a = 1\n  b\"\"\"\r\n", "r\"\"\"_____\n___\"\"\"\r\n"),
            ("f'a; {a.pop(\"b;\")!r:>{w}} b'\n", "f'___{a.pop(\"__\")!r:>{w}}__'\n"),
            ("f'{{a = {b}}}' + ''\n", "f'______{b}__' + ''\n"),
        ] {
            assert_eq!(without_literals(text).as_deref(), Some(code), "{text}");
        }
        assert_eq!(without_literals("a = '\n"), None);
    }

    proptest! {
        #[test]
        fn every_text_has_as_many_lines_as_answers(text in "(def f\\(\\):|    |\t|\n|\r\n|'|\"|\"\"\"|f'|[{}():\\\\#]|yield|é|x){0,60}") {
            prop_assert_eq!(python_bodies(&text).len(), text.split_inclusive('\n').count());
            if let Some(code) = without_literals(&text) {
                let ends = |text: &str| text.split_inclusive('\n').map(str::len).collect::<Vec<_>>();
                prop_assert_eq!(ends(&code), ends(&text));
            }
        }
    }
}
