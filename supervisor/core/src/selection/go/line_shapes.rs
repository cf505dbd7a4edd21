//! What the lines of a Go source are, as far as that decides which tests an edit of them concerns.
//!
//! The go tool counts blocks of statements. As long as an edit leaves the blocks around it as they are, a test that executes none of the
//! edited lines runs as before: it would have to come by whatever they compute, declare, or go on to. A line is none of these kinds if
//! that cannot be said of it: what is known beyond its place (labels, constants and types), and brackets of any other form.

use super::super::line_shape::LineShape;
use super::tokens::{GoToken, GoTokenKind, go_tokens};

/// Words of lines that are no plain part of a statement.
const NOT_PLAIN: [&str; 10] = ["case", "const", "default", "else", "for", "func", "if", "select", "switch", "type"];

/// The kind of each line.
pub(in super::super) fn go_line_shapes(text: &str) -> Vec<LineShape> {
    let mut lines: Vec<Line<'_>> = text.split_inclusive('\n').map(|_| Line::default()).collect();
    for token in go_tokens(text) {
        // What jumps may come by a line without executing those before it.
        if token.kind == GoTokenKind::Unreadable || token.kind == GoTokenKind::Word && token.text == "goto" {
            return vec![LineShape::Other; lines.len()];
        }
        // A text over several lines is a part of what is around it.
        let end = token.line + token.text.trim_end_matches('\n').matches('\n').count();
        for line in lines.iter_mut().take(end + 1).skip(token.line) {
            line.add(token);
        }
    }
    lines.iter().map(Line::shape).collect()
}

/// What has been read of a line.
#[derive(Default)]
struct Line<'t> {
    /// Its first words and signs.
    first: [&'t str; 3],
    last: &'t str,
    tokens: usize,
    opened: usize,
    closed: usize,
    is_plain: bool,
}

impl<'t> Line<'t> {
    fn add(&mut self, token: GoToken<'t>) {
        if matches!(token.kind, GoTokenKind::Comment | GoTokenKind::LineEnd) {
            return;
        }
        let is_sign = |sign| usize::from(token.is_sign(sign));
        self.opened += is_sign("{");
        self.closed += is_sign("}");
        self.is_plain = (self.tokens == 0 || self.is_plain) && !NOT_PLAIN.contains(&token.text);
        if let Some(place) = self.first.get_mut(self.tokens) {
            *place = token.text;
        }
        self.last = token.text;
        self.tokens += 1;
    }

    fn shape(&self) -> LineShape {
        let has_label = self.first[1] == ":" || self.last == ":";
        match (self.first, self.opened, self.closed) {
            (_, 0, 0) if self.tokens == 0 => LineShape::Blank,
            (["case" | "default", ..], 0, 0) if self.last == ":" => LineShape::Case,
            (_, 0, 0) if self.is_plain && !has_label => LineShape::Statement,
            (["if" | "for" | "switch" | "select", ..], 1, 0) if self.last == "{" => LineShape::Head,
            (["}", "else", "if"], 1, 1) if self.last == "{" => LineShape::ElseIf,
            (["}", "else", "{"], 1, 1) if self.tokens == 3 => LineShape::Else,
            (["}", ..], 0, 1) if self.tokens == 1 => LineShape::End,
            _ => LineShape::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LineShape::{Blank, Case, Else, ElseIf, End, Head, Other, Statement};
    use super::*;

    #[test]
    fn tells_lines_apart() {
        for (line, shape) in [
            ("x := f(a, b)", Statement),
            ("return x, nil // {", Statement),
            ("a: b,", Other),
            ("b,", Statement),
            ("go f()", Statement),
            ("break loop", Statement),
            ("x := <-c", Statement),
            ("\"a\", `{`,", Statement),
            (")", Statement),
            ("", Blank),
            ("\t// why", Blank),
            ("if x := f(); x != nil {", Head),
            ("if x == (T{}) {", Other),
            ("if a &&", Other),
            ("b {", Other),
            ("if a { return }", Other),
            ("} else if a {", ElseIf),
            ("} else {", Else),
            ("}", End),
            ("} // end", End),
            ("})", Other),
            ("}()", Other),
            ("{", Other),
            ("for i := 0; i < 3; i++ {", Head),
            ("for range c { //", Head),
            ("switch x := y.(type) {", Head),
            ("select {", Head),
            ("case 1:", Case),
            ("case <-c:", Case),
            ("default:", Case),
            ("b:", Other),
            ("default: f()", Other),
            ("case <-c: f()", Other),
            ("again:", Other),
            ("again: f()", Other),
            ("goto again", Other),
            ("const a = 1", Other),
            ("type a int", Other),
            ("f := func() {", Other),
            ("x := T{a}", Other),
            ("go func() {", Other),
            ("f(func(int) int(nil))", Other),
        ] {
            assert_eq!(go_line_shapes(line), if line.is_empty() { vec![] } else { vec![shape] }, "{line}");
        }
    }

    #[test]
    fn a_text_or_comment_over_lines_belongs_to_what_is_around_it() {
        let text = "f(`\n{ case\n`, x)\r\n/* if {\n} */ g()\n\nif x {\n";
        assert_eq!(go_line_shapes(text), [Statement, Statement, Statement, Blank, Statement, Blank, Head]);
        assert_eq!(go_line_shapes("a\n\"\n"), [Other, Other], "what cannot be read");
        assert_eq!(go_line_shapes("a()\ngoto b\n"), [Other, Other], "what is executed may jump");
    }
}
