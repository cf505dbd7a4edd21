//! The tokens of a Go source, as far as brackets, names, signs and the ends of statements need them
//! (<https://go.dev/ref/spec#Lexical_elements>).

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GoTokenKind {
    /// A name or keyword.
    Word,
    /// A number, string or rune.
    Literal,
    /// An operator, a bracket, or another sign.
    Sign,
    Comment,
    LineEnd,
    /// What no Go source has; nothing follows.
    Unreadable,
}

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GoToken<'t> {
    pub(super) kind: GoTokenKind,
    pub(super) text: &'t str,
    /// Its offset in bytes.
    pub(super) at: usize,
    /// The line on which it begins, from 0.
    pub(super) line: usize,
}

/// Operators of several characters, longer ones first.
const OPERATORS: [&str; 25] = [
    "<<=", ">>=", "&^=", "...", "<<", ">>", "&^", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "&&", "||", "<-",
    "++", "--", "==", "!=", "<=", ">=", ":=",
];

/// Keywords behind which a statement may end, and the others (<https://go.dev/ref/spec#Keywords>).
const ENDING_KEYWORDS: [&str; 4] = ["break", "continue", "fallthrough", "return"];
const OTHER_KEYWORDS: [&str; 21] = [
    "case",
    "chan",
    "const",
    "default",
    "defer",
    "else",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

impl GoToken<'_> {
    /// Whether it is a name, and no keyword.
    pub(super) fn is_name(&self) -> bool {
        let is_keyword = ENDING_KEYWORDS.contains(&self.text) || OTHER_KEYWORDS.contains(&self.text);
        self.kind == GoTokenKind::Word && !is_keyword
    }

    /// Whether a line that ends behind it ends a statement.
    pub(super) fn ends_statement(&self) -> bool {
        match self.kind {
            GoTokenKind::Word => !OTHER_KEYWORDS.contains(&self.text),
            GoTokenKind::Literal => true,
            GoTokenKind::Sign => matches!(self.text, ")" | "]" | "}" | "++" | "--"),
            GoTokenKind::Comment | GoTokenKind::LineEnd | GoTokenKind::Unreadable => false,
        }
    }

    /// Whether it ends a line: the end itself, or a comment over several lines.
    pub(super) fn ends_line(&self) -> bool {
        match self.kind {
            GoTokenKind::LineEnd => true,
            GoTokenKind::Comment => self.text.contains('\n'),
            _ => false,
        }
    }

    /// Whether it is this sign.
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == GoTokenKind::Sign && self.text == sign
    }
}

/// The tokens of a text, without blanks.
pub(super) fn go_tokens(text: &str) -> impl Iterator<Item = GoToken<'_>> {
    // A mark of the byte order may begin a file.
    let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at, line: 0 };
    std::iter::from_fn(move || reader.next_token())
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl<'t> Reader<'t> {
    fn next_token(&mut self) -> Option<GoToken<'t>> {
        let bytes = self.text.as_bytes();
        self.at += bytes[self.at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        let (at, line) = (self.at, self.line);
        let first = *bytes.get(at)?;
        let (kind, len) = self.measure(first).unwrap_or((GoTokenKind::Unreadable, 0));
        let text = &self.text[at..at + len];
        self.line += text.bytes().filter(|byte| *byte == b'\n').count();
        self.at = if kind == GoTokenKind::Unreadable { self.text.len() } else { at + len };
        Some(GoToken { kind, text, at, line })
    }

    /// What begins here with this byte, and its number of bytes; `None` if it cannot be read.
    fn measure(&self, first: u8) -> Option<(GoTokenKind, usize)> {
        let rest = &self.text[self.at..];
        let next = rest.as_bytes().get(1).copied().unwrap_or(0);
        Some(match first {
            b'\n' => (GoTokenKind::LineEnd, 1),
            b'/' if next == b'/' => (GoTokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
            b'/' if next == b'*' => (GoTokenKind::Comment, 2 + rest[2..].find("*/")? + 2),
            b'"' | b'\'' => (GoTokenKind::Literal, quoted_len(rest.as_bytes(), first)?),
            b'`' => (GoTokenKind::Literal, 1 + rest[1..].find('`')? + 1),
            b'0'..=b'9' => (GoTokenKind::Literal, number_len(rest.as_bytes())),
            b'.' if next.is_ascii_digit() => (GoTokenKind::Literal, number_len(rest.as_bytes())),
            _ if is_word(first) => {
                (GoTokenKind::Word, rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len()))
            }
            b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'<' | b'>' | b'=' | b'!' | b'(' | b')' | b'['
            | b']' | b'{' | b'}' | b',' | b';' | b'.' | b':' | b'~' => {
                let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
                (GoTokenKind::Sign, operator.map_or(1, |operator| operator.len()))
            }
            _ => return None,
        })
    }
}

/// Whether a byte is part of a word. Every byte of a character that is not ASCII is.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Bytes of a string or rune up to this quote, which is in the same line.
fn quoted_len(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'\n' => return None,
            // What is escaped is no end, not even of a line.
            b'\\' if *text.get(at + 1)? != b'\n' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Bytes of a number.
fn number_len(text: &[u8]) -> usize {
    let is_hexadecimal = matches!(text, [b'0', b'x' | b'X', ..]);
    let is_exponent = |byte: u8| if is_hexadecimal { matches!(byte, b'p' | b'P') } else { matches!(byte, b'e' | b'E') };
    let is_sign = |at: usize| matches!(text[at], b'+' | b'-') && at > 0 && is_exponent(text[at - 1]);
    (0..text.len()).find(|at| !is_word(text[*at]) && text[*at] != b'.' && !is_sign(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_a_text_into_tokens() {
        for (text, expected) in [
            ("a.b[0] := `c\"` // d", "a . b [ 0 ] := `c\"` // d"),
            ("x<<=1e+3+0x1p-2-0xe+1", "x <<= 1e+3 + 0x1p-2 - 0xe + 1"),
            ("a<-b&^c...", "a <- b &^ c ..."),
            ("'\\''+'\\\\'+'{'+'\\u007d'+'\u{e9}'", "'\\'' + '\\\\' + '{' + '\\u007d' + '\u{e9}'"),
            ("\"\\\"{\"+\"\\\\\"", "\"\\\"{\" + \"\\\\\""),
            ("a/* b *//c", "a /* b */ / c"),
            ("1.+.5-a.b", "1. + .5 - a . b"),
            ("\u{feff}package a", "package a"),
            ("\u{e9}t\u{e9} ++", "\u{e9}t\u{e9} ++"),
        ] {
            let found: Vec<&str> = go_tokens(text).map(|token| token.text).collect();
            assert_eq!(found.join(" "), expected);
        }
    }

    #[test]
    fn counts_lines() {
        let found: Vec<(usize, &str)> =
            go_tokens("a /*\n*/ b `\n\n`\r\nc").map(|token| (token.line, token.text)).collect();
        assert_eq!(found, [(0, "a"), (0, "/*\n*/"), (1, "b"), (1, "`\n\n`"), (3, "\n"), (4, "c")]);
    }

    #[test]
    fn nothing_follows_what_cannot_be_read() {
        for text in ["\"a\nb", "'a", "`a", "/* a", "\"\\", "\"\\\nb\"", "#", "$a", "\\"] {
            let kinds: Vec<GoTokenKind> = go_tokens(text).map(|token| token.kind).collect();
            assert_eq!(kinds, [GoTokenKind::Unreadable], "{text:?}");
        }
    }
}
