//! Which lines of a JavaScript source are inside the body of a function, as far as its brackets tell. A text whose brackets do not
//! match, as may be because this reader does not understand it, has no such line.
//!
//! A line counts only if the body's opening bracket ends an earlier line and nothing on the line closes it. So as long as only such
//! lines change, the code outside of these bodies is the same.

use super::body::Body;
use crate::script_text::{is_word, regex_end};

/// Words before a bracket that begins no list of parameters.
const CONTROL: [&str; 8] = ["if", "for", "while", "switch", "with", "catch", "await", "super"];

/// Words after which `/` begins a regular expression.
const BEFORE_OPERANDS: [&str; 12] =
    ["return", "typeof", "instanceof", "in", "of", "new", "delete", "void", "throw", "case", "do", "else"];

/// For each line the outermost body around it; none if the brackets do not match.
pub(super) fn bodies(text: &str) -> Vec<Option<Body>> {
    let lines = text.split_inclusive('\n').count();
    let mut scanner = Scanner::new(text);
    if has_other_line_ends(text) || scanner.scan().is_none() || !scanner.open.is_empty() {
        return vec![None; lines];
    }
    let mut found = vec![None; lines];
    for (first, last) in scanner.outermost {
        for line in found.iter_mut().take(last).skip(first + 1) {
            *line = Some((first, last));
        }
    }
    found
}

// Parsers of JavaScript also end a line at these, so that their numbers of lines are not those of `\n`.
fn has_other_line_ends(text: &str) -> bool {
    let is_followed = |at: usize| text.as_bytes().get(at + 1) == Some(&b'\n');
    text.contains(['\u{2028}', '\u{2029}']) || text.match_indices('\r').any(|(at, _)| !is_followed(at))
}

/// A bracket that is open.
struct OpenBracket {
    bracket: u8,
    /// The line of the bracket of a function's body that ends its line.
    body: Option<usize>,
    /// Of a round bracket, whether it may hold parameters.
    is_parameters: bool,
    /// Whether a `class` waits for its body here.
    has_class: bool,
}

/// What the last token was.
#[derive(Clone, Copy, PartialEq)]
enum LastToken<'a> {
    Word(&'a str),
    /// The end of what may be parameters.
    Parameters,
    /// The end of another operand.
    Operand,
    Arrow,
    Operator,
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: usize,
    open: Vec<OpenBracket>,
    /// Whether a `class` waits for its body outside of all brackets.
    has_class: bool,
    last: LastToken<'a>,
    /// Whether only a type can have come since the parameters of a function.
    is_return_type: bool,
    /// The bodies that no other body is around, in order.
    outermost: Vec<Body>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        let bytes = text.as_bytes();
        let (open, outermost) = (Vec::new(), Vec::new());
        Scanner {
            text,
            bytes,
            at: 0,
            line: 0,
            open,
            has_class: false,
            last: LastToken::Operator,
            is_return_type: false,
            outermost,
        }
    }

    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    // `None` if the text cannot be read.
    fn scan(&mut self) -> Option<()> {
        while self.at < self.bytes.len() {
            let byte = self.byte(self.at);
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                _ if byte.is_ascii_whitespace() => self.at += 1,
                b'/' if self.byte(self.at + 1) == b'/' => self.skip_to(b"\n"),
                b'#' if self.at == 0 && self.byte(1) == b'!' => self.skip_to(b"\n"),
                b'/' if self.byte(self.at + 1) == b'*' => self.comment()?,
                b'"' | b'\'' => self.string(byte)?,
                b'`' => {
                    self.at += 1;
                    self.template()?;
                }
                b'/' if self.begins_regex() => self.regex()?,
                b'(' | b'[' | b'{' => self.open(byte),
                b')' | b']' | b'}' => self.close(byte)?,
                _ if is_word(byte) => self.word(),
                b'=' if self.byte(self.at + 1) == b'>' => {
                    (self.last, self.is_return_type) = (LastToken::Arrow, false);
                    self.at += 2;
                }
                b':' => {
                    self.is_return_type |= self.last == LastToken::Parameters;
                    self.last = LastToken::Operator;
                    self.at += 1;
                }
                _ => {
                    self.is_return_type &= b"<>.|&".contains(&byte);
                    self.last = LastToken::Operator;
                    self.at += 1;
                }
            }
        }
        Some(())
    }

    fn skip_to(&mut self, end: &[u8]) {
        while self.at < self.bytes.len() && !self.bytes[self.at..].starts_with(end) {
            self.at += 1;
        }
    }

    fn comment(&mut self) -> Option<()> {
        let end = self.text.get(self.at + 2..)?.find("*/")? + self.at + 4;
        self.count_lines(end);
        Some(())
    }

    fn count_lines(&mut self, end: usize) {
        self.line += self.bytes[self.at..end].iter().filter(|byte| **byte == b'\n').count();
        self.at = end;
    }

    // A string that does not end in its line is none: the text of an element has a quote.
    fn string(&mut self, quote: u8) -> Option<()> {
        let mut at = self.at + 1;
        loop {
            match self.byte(at) {
                0 | b'\n' => return None,
                b'\\' => at += 2,
                byte if byte == quote => break,
                _ => at += 1,
            }
        }
        self.count_lines(at + 1);
        self.last = LastToken::Operand;
        Some(())
    }

    // From behind the quote, or behind an expression, to the next expression or the end.
    fn template(&mut self) -> Option<()> {
        loop {
            match self.byte(self.at) {
                0 => return None,
                b'\\' if self.byte(self.at + 1) != b'\n' => self.at += 1,
                b'\n' => self.line += 1,
                b'`' => break,
                b'$' if self.byte(self.at + 1) == b'{' => {
                    self.at += 2;
                    self.open.push(OpenBracket { bracket: b'`', body: None, is_parameters: false, has_class: false });
                    self.last = LastToken::Operator;
                    return Some(());
                }
                _ => {}
            }
            self.at += 1;
        }
        self.at += 1;
        self.last = LastToken::Operand;
        Some(())
    }

    // `</` and `/>` are of elements.
    fn begins_regex(&self) -> bool {
        let is_operand = match self.last {
            LastToken::Word(word) => !BEFORE_OPERANDS.contains(&word),
            LastToken::Parameters | LastToken::Operand => true,
            LastToken::Arrow | LastToken::Operator => false,
        };
        let is_element = self.byte(self.at + 1) == b'>' || self.at > 0 && self.byte(self.at - 1) == b'<';
        !is_operand && !is_element
    }

    fn regex(&mut self) -> Option<()> {
        self.at = regex_end(self.bytes, self.at)?;
        self.last = LastToken::Operand;
        Some(())
    }

    fn word(&mut self) {
        let len = self.bytes[self.at..].iter().take_while(|byte| is_word(**byte)).count();
        let word = &self.text[self.at..self.at + len];
        let is_member = self.at > 0 && self.byte(self.at - 1) == b'.';
        if word == "class" && !is_member {
            *self.class() = true;
        }
        self.at += len;
        self.last = if is_member { LastToken::Operand } else { LastToken::Word(word) };
    }

    // Whether a `class` waits for its body among the innermost brackets.
    fn class(&mut self) -> &mut bool {
        self.open.last_mut().map_or(&mut self.has_class, |open| &mut open.has_class)
    }

    fn open(&mut self, bracket: u8) {
        let is_class = bracket == b'{' && std::mem::take(self.class());
        let begins_body = self.last == LastToken::Arrow || self.last == LastToken::Parameters || self.is_return_type;
        let is_body = bracket == b'{' && begins_body && !is_class && self.ends_line();
        let is_parameters = bracket == b'('
            && match self.last {
                LastToken::Word(word) => !CONTROL.contains(&word),
                LastToken::Operand | LastToken::Operator => true,
                LastToken::Parameters | LastToken::Arrow => false,
            };
        self.open.push(OpenBracket { bracket, body: is_body.then_some(self.line), is_parameters, has_class: false });
        (self.last, self.is_return_type) = (LastToken::Operator, false);
        self.at += 1;
    }

    // Whether nothing but blanks or a comment follows on the line. Reads no further than the first byte that is not blank: a line
    // may have many brackets.
    fn ends_line(&self) -> bool {
        let is_blank = |byte: &u8| *byte != b'\n' && byte.is_ascii_whitespace();
        let after = self.at + 1;
        let first = after + self.bytes[after..].iter().take_while(|byte| is_blank(byte)).count();
        matches!(self.byte(first), 0 | b'\n') || self.bytes[first..].starts_with(b"//")
    }

    fn close(&mut self, bracket: u8) -> Option<()> {
        let open = self.open.pop()?;
        let expected = match open.bracket {
            b'(' => b')',
            b'[' => b']',
            _ => b'}',
        };
        if bracket != expected {
            return None;
        }
        self.at += 1;
        if open.bracket == b'`' {
            return self.template();
        }
        if let Some(first) = open.body {
            // The bodies inside of this one have come before it.
            while self.outermost.last().is_some_and(|(inner, _)| *inner > first) {
                self.outermost.pop();
            }
            self.outermost.push((first, self.line));
        }
        self.is_return_type = false;
        self.last = match bracket {
            b')' if open.is_parameters => LastToken::Parameters,
            // Behind a condition as behind a block a statement begins.
            b')' | b'}' => LastToken::Operator,
            _ => LastToken::Operand,
        };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines in a body, from 1.
    fn inside(text: &str) -> Vec<usize> {
        let bodies = bodies(text);
        (1..).zip(bodies).filter(|(_, body)| body.is_some()).map(|(line, _)| line).collect()
    }

    #[test]
    fn finds_the_lines_of_functions() {
        for (text, expected) in [
            ("function f() {\n  a();\n}\n", vec![2]),
            ("export const f = async (a) => {\n  a();\n};\n", vec![2]),
            ("const f = (a: A): Promise<B[]> => {\n  a();\n};\n", vec![2]),
            ("class A {\n  static x = f();\n  m(a = 1): void {\n    a();\n  }\n}\n", vec![4]),
            ("class A extends m(B) {\n  x = 1;\n}\n", vec![]),
            ("const o = {\n  m() {\n    a();\n  },\n  x: 1,\n};\n", vec![3]),
            ("describe('x', () => {\n  it('y', () => {\n    a();\n  });\n});\n", vec![2, 3, 4]),
            ("if (a) {\n  b();\n}\nfor (;;) {\n  c();\n}\n", vec![]),
            ("try {\n  a();\n} catch (e) {\n  b();\n}\n", vec![]),
            ("function f() { a();\n  b();\n}\n", vec![]),
            ("function f() { return 1; }\n", vec![]),
            ("import {\n  a,\n} from 'b';\ninterface I {\n  a: 1;\n}\n", vec![]),
            ("function f() {\n  if (a) {\n    b();\n  } else {\n    c();\n  }\n}\n", vec![2, 3, 4, 5, 6]),
            ("function f() {\n  return `}${{ a: '}' }.a}}`;\n}\n", vec![2]),
            ("function f() {\n  return /[}/]}/.test(a) / 2 / 3;\n}\n", vec![2]),
            ("function f() {\n  // }\n  /* }\n  */ a();\n}\n", vec![2, 3, 4]),
            ("function F() {\n  return <a href=\"x\">it is {b}</a>;\n}\n", vec![2]),
            ("const a = `\\\n`;\nfunction f() {\n  a();\n}\n", vec![4]),
            ("const a = `${b}\\\n`;\nfunction f() {\n  a();\n}\n", vec![4]),
            ("const a = 'b\\\nc';\nfunction f() {\n  a();\n}\n", vec![4]),
            ("/* \\\n */ // \\\nfunction f() {\n  a();\n}\n", vec![4]),
            ("function f() { // why\n  a();\n}\nfunction g() {  \r\n  a();\n}\n", vec![2, 5]),
        ] {
            assert_eq!(inside(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_whose_brackets_do_not_match_has_none() {
        for text in [
            "function f() {\n  a();\n",
            "function f() {\n  a();\n}\n}\n",
            "function f() {\n  a(];\n}\n",
            "function F() {\n  return <a>it's {b}</a>;\n}\n",
            "function f() {\n  `a\n}\n",
            "const a = <a>/ \\\n /</a>;\nfunction f() {\n  a();\n}\n",
        ] {
            assert_eq!(inside(text), [0; 0], "{text}");
        }
    }

    #[test]
    fn a_text_with_other_ends_of_lines_has_none() {
        for end in ["\r", "\u{2028}", "\u{2029}"] {
            let text = format!("const a = 1;{end}\nfunction f() {{\n  a();\n}}\n");
            let expected: &[usize] = if end == "\r" { &[3] } else { &[] };
            assert_eq!(inside(&text), expected, "{text:?}");
            let text = format!("const a = 1;{end}function f() {{\n  a();\n}}\n");
            assert_eq!(inside(&text), [0; 0], "{text:?}");
        }
    }

    // With time that grows with the square of the text, this test would take minutes.
    #[test]
    fn reads_many_brackets_on_a_line_and_deep_bodies_in_linear_time() {
        let depth = 150_000;
        let line = "f(() => { ".repeat(depth) + &"});".repeat(depth);
        assert_eq!(inside(&line), [0; 0]);
        let nested = "f(() => {\n".repeat(depth) + &"});\n".repeat(depth);
        let mut scanner = Scanner::new(&nested);
        assert!(scanner.scan().is_some());
        assert_eq!(scanner.outermost, [(0, 2 * depth - 1)]);
        assert_eq!(inside(&nested).len(), 2 * depth - 2);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_answer_for_each_line(text in "[a-z(){}\\[\\]'\"`$/\\\\ =>:;.\n*\u{e4}]{0,80}") {
            proptest::prop_assert_eq!(bodies(&text).len(), text.split_inclusive('\n').count());
        }
    }
}
