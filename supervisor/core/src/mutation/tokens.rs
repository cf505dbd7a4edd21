//! Splits a source text into tokens, as far as mutation needs it: strings, templates and regular expressions are one token
//! each, and comments are none. A text that is no valid program gives some tokens and never fails.

use super::Language;
use crate::script_text::{is_word, regex_end};

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or keyword.
    Word,
    /// A decimal integer.
    Integer,
    /// Any other number.
    Number,
    /// A string, template or regular expression.
    Text,
    /// An operator or bracket.
    Op,
}

/// A token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Byte at which it begins.
    pub(super) start: usize,
    /// Line on which it begins, from 1.
    pub(super) line: u32,
    /// Open brackets before it that continue a statement over several lines.
    pub(super) depth: u32,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text
    }
}

/// Operators of more than one character, longest first.
const OPERATORS: [&str; 44] = [
    ">>>=", "===", "!==", "**=", "...", "&&=", "||=", "??=", "<<=", ">>=", ">>>", "//=", "&^=", "=>", "==", "!=", "<=",
    ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**", "//",
    "->", "<-", ":=", "&^", "@=", "::", "<>", "~=",
];

/// Operators of one language alone, which are two operators in the others.
const OF_ONE_LANGUAGE: [(&str, Language); 5] = [
    ("<-", Language::Go),
    ("&^", Language::Go),
    ("&^=", Language::Go),
    ("//", Language::Python),
    ("->", Language::Python),
];

/// Words after which an operand follows, although they are words.
const BEFORE_OPERANDS: [&str; 30] = [
    "return",
    "typeof",
    "instanceof",
    "in",
    "of",
    "new",
    "delete",
    "void",
    "throw",
    "case",
    "do",
    "else",
    "yield",
    "await",
    "and",
    "or",
    "not",
    "is",
    "if",
    "elif",
    "while",
    "lambda",
    "import",
    "from",
    "function",
    "assert",
    "go",
    "defer",
    "range",
    "export",
];

/// Whether an operand ends with this token, so that an operator may follow it.
pub(super) fn ends_operand(token: &Token<'_>) -> bool {
    match token.kind {
        Kind::Word => !BEFORE_OPERANDS.contains(&token.text),
        Kind::Op => matches!(token.text, ")" | "]"),
        Kind::Integer | Kind::Number | Kind::Text => true,
    }
}

/// The tokens of a text.
pub(super) fn tokens(language: Language, text: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner { language, text, bytes: text.as_bytes(), at: 0, line: 1, tokens: Vec::new() };
    scanner.scan();
    scanner.tokens
}

struct Scanner<'a> {
    language: Language,
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    tokens: Vec<Token<'a>>,
}

impl<'a> Scanner<'a> {
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    fn scan(&mut self) {
        // Of each block that is open, the brackets that are open in it.
        let mut depths: Vec<u32> = vec![0];
        while self.at < self.bytes.len() {
            let Some((kind, end)) = self.next_token() else { continue };
            let token = &self.text[self.at..end];
            let depth = depths.last().copied().unwrap_or(0);
            self.tokens.push(Token { kind, text: token, start: self.at, line: self.line, depth });
            if kind == Kind::Op {
                match (token, self.language) {
                    ("(" | "[", _) | ("{", Language::Python) => bump(&mut depths, 1),
                    (")" | "]", _) | ("}", Language::Python) => bump(&mut depths, -1),
                    ("{", _) => depths.push(0),
                    ("}", _) if depths.len() > 1 => drop(depths.pop()),
                    _ => {}
                }
            }
            self.advance_to(end);
        }
    }

    fn advance_to(&mut self, end: usize) {
        let lines = self.bytes[self.at..end].iter().filter(|byte| **byte == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.at = end;
    }

    /// Kind and end of the token that begins here. `None` after white space or a comment, which are skipped.
    fn next_token(&mut self) -> Option<(Kind, usize)> {
        let (first, second) = (self.byte(self.at), self.byte(self.at + 1));
        let is_c_like = self.language != Language::Python;
        let comment_end = match (first, second) {
            _ if first.is_ascii_whitespace() => Some(self.at + 1),
            (b'#', _) if !is_c_like || (self.at == 0 && second == b'!') => Some(self.line_end(self.at)),
            (b'/', b'/') if is_c_like => Some(self.line_end(self.at)),
            (b'/', b'*') if is_c_like => {
                let close = self.text.get(self.at + 2..).and_then(|rest| rest.find("*/"));
                Some(close.map_or(self.bytes.len(), |close| self.at + 2 + close + 2))
            }
            _ => None,
        };
        if let Some(end) = comment_end {
            self.advance_to(end);
            return None;
        }
        Some(match first {
            b'"' | b'\'' => (Kind::Text, self.string_end(self.at)),
            b'`' if self.language == Language::Go => {
                let close = self.bytes[self.at + 1..].iter().position(|byte| *byte == b'`');
                (Kind::Text, close.map_or(self.bytes.len(), |close| self.at + close + 2))
            }
            b'`' => (Kind::Text, self.template_end(self.at)),
            b'/' if self.is_regex() => match self.regex_end(self.at) {
                Some(end) => (Kind::Text, end),
                None => (Kind::Op, self.at + 1),
            },
            b'0'..=b'9' => self.number(),
            b'.' if second.is_ascii_digit() => self.number(),
            _ if is_word(first) => self.word(),
            _ => (Kind::Op, self.at + self.operator_len()),
        })
    }

    fn line_end(&self, from: usize) -> usize {
        self.bytes[from..].iter().position(|byte| *byte == b'\n').map_or(self.bytes.len(), |len| from + len)
    }

    /// End of the string whose quote is at `from`. A string in one line ends with it at the latest.
    fn string_end(&self, from: usize) -> usize {
        let quote = self.byte(from);
        let triple = [quote; 3];
        let is_triple = self.language == Language::Python && self.bytes[from..].starts_with(&triple);
        let mut at = if is_triple { from + 3 } else { from + 1 };
        while at < self.bytes.len() {
            match self.byte(at) {
                b'\\' => at += 1,
                b'\n' if !is_triple => return at,
                byte if byte == quote && !is_triple => return at + 1,
                byte if byte == quote && self.bytes[at..].starts_with(&triple) => return at + 3,
                _ => {}
            }
            at += 1;
        }
        self.bytes.len()
    }

    /// End of the template at `from`, with the expressions in it.
    fn template_end(&self, from: usize) -> usize {
        // `None` for a template, the open braces for an expression in one.
        let mut open: Vec<Option<u32>> = vec![None];
        let mut at = from + 1;
        while at < self.bytes.len() {
            let Some(innermost) = open.last_mut() else { return at };
            match (innermost, self.byte(at)) {
                (None, b'\\') => at += 1,
                (None, b'`') => drop(open.pop()),
                (None, b'$') if self.byte(at + 1) == b'{' => {
                    open.push(Some(0));
                    at += 1;
                }
                (Some(_), b'`') => open.push(None),
                (Some(braces), b'{') => *braces += 1,
                (Some(0), b'}') => drop(open.pop()),
                (Some(braces), b'}') => *braces -= 1,
                (Some(_), b'"' | b'\'') => at = self.string_end(at) - 1,
                _ => {}
            }
            at += 1;
        }
        self.bytes.len()
    }

    fn is_regex(&self) -> bool {
        self.language.is_script() && !self.tokens.last().is_some_and(ends_operand)
    }

    fn regex_end(&self, from: usize) -> Option<usize> {
        let end = regex_end(self.bytes, from)?;
        let flags = self.bytes[end..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        Some(end + flags)
    }

    fn number(&self) -> (Kind, usize) {
        let is_hex = self.byte(self.at) == b'0' && matches!(self.byte(self.at + 1), b'x' | b'X');
        let mut end = self.at;
        while is_word(self.byte(end)) || self.byte(end) == b'.' {
            end += 1;
            let is_exponent = !is_hex && matches!(self.byte(end - 1), b'e' | b'E');
            if is_exponent && matches!(self.byte(end), b'+' | b'-') {
                end += 1;
            }
        }
        let end = end.min(self.bytes.len());
        let text = &self.bytes[self.at..end];
        let is_decimal = text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'_');
        let is_integer = is_decimal && text.len() <= 18 && (text[0] != b'0' || text.len() == 1);
        (if is_integer { Kind::Integer } else { Kind::Number }, end)
    }

    fn word(&self) -> (Kind, usize) {
        let len = self.bytes[self.at..].iter().take_while(|byte| is_word(**byte)).count();
        let end = self.at + len;
        let is_prefix = self.language == Language::Python
            && len <= 2
            && self.bytes[self.at..end].iter().all(|byte| b"rRbBuUfFtT".contains(byte));
        match self.byte(end) {
            b'"' | b'\'' if is_prefix => (Kind::Text, self.string_end(end)),
            _ => (Kind::Word, end),
        }
    }

    fn operator_len(&self) -> usize {
        let is_of_other = |operator: &str| {
            OF_ONE_LANGUAGE.iter().any(|(other, language)| *other == operator && *language != self.language)
        };
        let rest = &self.text[self.at..];
        let found = OPERATORS.iter().find(|operator| rest.starts_with(**operator) && !is_of_other(operator));
        found.map_or(1, |operator| operator.len())
    }
}

fn bump(depths: &mut [u32], by: i32) {
    if let Some(depth) = depths.last_mut() {
        *depth = depth.saturating_add_signed(by);
    }
}
