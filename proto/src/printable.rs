//! Text made fit to be shown: what a terminal acts on and what hides from a reader is written as an escape (`\u{9b}`). Must not
//! know what a text says.

use std::borrow::Cow;
use std::io::{self, Write};
use unicode_width::UnicodeWidthChar;

/// Most bytes of one escape sequence. What is longer, or has no end, is shown as text.
const SEQUENCE_BYTES_MAX: usize = 4_096;

/// Whether a terminal acts on `c`, or a reader cannot see it: control characters (C0, DEL, C1), what changes the direction of
/// text, separators of lines that are none of a terminal's, fillers, tags and other invisible format characters. The joiners
/// of emoji and of Indic and Arabic scripts (U+200C, U+200D) and their variation selectors are not among them.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        ' '..='~' => false,
        _ if c.is_control() => true,
        // Soft hyphen, Arabic letter mark.
        '\u{ad}' | '\u{61c}' => true,
        // Combining grapheme joiner and the blank letters of Hangul.
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => true,
        // Khmer's inherent vowels, Mongolian selectors and vowel separator.
        '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' => true,
        // Zero width space, direction marks; line and paragraph separators, embeddings, overrides.
        '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Word joiner, invisible operators, isolates, deprecated format characters.
        '\u{2060}'..='\u{206f}' => true,
        // Byte order mark, interlinear annotations.
        '\u{feff}' | '\u{fff0}'..='\u{fffb}' => true,
        // Shorthand and musical format controls; tags and the variation selectors that can carry text.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// `name` on one line: a name, a path, a note. Everything hidden is escaped, ends of lines included.
#[must_use]
pub fn line(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_hidden) { escaped(name, |_| false).into() } else { name.into() }
}

/// `text` of one or more lines: a message, a value, output. Lines and tabs stay, escape sequences such as colours are left out,
/// everything else that is hidden is escaped.
#[must_use]
pub fn block(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !is_layout(c)) {
        return text.into();
    }
    let mut left = without_sequences(text);
    if left.contains("\r\n") {
        left = left.replace("\r\n", "\n");
    }
    escaped(&left, is_layout).into()
}

/// `text` with its colours and no other sequence, for a writer that takes colours away where nobody sees them.
#[must_use]
pub fn coloured(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !is_layout(c)) {
        return text.into();
    }
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let len = colour_len(rest).unwrap_or(0);
        let (colour, after) = rest.split_at(len);
        shown.push_str(colour);
        rest = after;
        if len == 0 {
            push(&mut shown, c, is_layout);
            rest = &rest[c.len_utf8()..];
        }
    }
    shown.into()
}

/// What a program writes to a terminal, without what steers it: colours stay, other sequences are left out, a carriage return
/// ends a line, everything else that is hidden is escaped.
#[must_use]
pub fn live(text: &str) -> String {
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let colour = colour_len(rest);
        let sequence = colour.or_else(|| sequence_len(rest));
        let (sequence, after) = rest.split_at(sequence.unwrap_or(0));
        if colour.is_some() {
            shown.push_str(sequence);
        }
        rest = after;
        if sequence.is_empty() {
            rest = &rest[c.len_utf8()..];
            match c {
                '\r' if rest.starts_with('\n') => {}
                '\r' => shown.push('\n'),
                c => push(&mut shown, c, is_layout),
            }
        }
    }
    shown
}

fn is_layout(c: char) -> bool {
    c == '\n' || c == '\t'
}

fn escaped(text: &str, stays: fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut shown, c, stays));
    shown
}

fn push(shown: &mut String, c: char, stays: fn(char) -> bool) {
    if is_hidden(c) && !stays(c) {
        // As in a literal of Rust: `\r`, `\u{202e}`.
        shown.extend(c.escape_default());
    } else {
        shown.push(c);
    }
}

fn without_sequences(text: &str) -> String {
    let (mut left, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\x1b') {
        left.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = sequence_len(rest);
        if len.is_none() {
            left.push('\x1b');
        }
        rest = &rest[len.unwrap_or(1)..];
    }
    left.push_str(rest);
    left
}

/// Bytes of the escape sequence that `text` begins with (ECMA-48); `None` without a whole one.
#[must_use]
pub fn sequence_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let bytes = &bytes[..bytes.len().min(SEQUENCE_BYTES_MAX)];
    if bytes.first() != Some(&0x1b) {
        return None;
    }
    let run = |from: usize, of: std::ops::RangeInclusive<u8>| {
        bytes[from..].iter().position(|byte| !of.contains(byte)).map(|len| from + len)
    };
    let ends =
        |at: usize, of: std::ops::RangeInclusive<u8>| bytes.get(at).filter(|byte| of.contains(byte)).map(|_| at + 1);
    match bytes.get(1)? {
        // CSI: parameters, intermediates, a final byte.
        b'[' => ends(run(run(2, 0x30..=0x3f)?, 0x20..=0x2f)?, 0x40..=0x7e),
        // Strings (titles, links, device controls), to BEL or ST.
        b']' | b'P' | b'X' | b'^' | b'_' => {
            let end = bytes[2..].iter().position(|byte| matches!(byte, 0x07 | 0x1b))? + 2;
            match bytes[end] {
                0x07 => Some(end + 1),
                _ => (bytes.get(end + 1) == Some(&b'\\')).then_some(end + 2),
            }
        }
        _ => ends(run(1, 0x20..=0x2f)?, 0x30..=0x7e),
    }
}

/// Bytes of the sequence of colours (SGR) that `text` begins with.
#[must_use]
pub fn colour_len(text: &str) -> Option<usize> {
    let len = sequence_len(text)?;
    let parameters = text.get(..len)?.strip_prefix("\x1b[")?.strip_suffix('m')?;
    parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')).then_some(len)
}

/// Characters for each column at most: a letter may have any number of marks above it.
const CHARS_PER_COLUMN_MAX: usize = 4;

/// Columns that `c` takes on a terminal: a tab at most 8.
#[must_use]
pub fn columns_of(c: char) -> usize {
    if c == '\t' { 8 } else { c.width().unwrap_or(0) }
}

/// Whether `text`, which is one line, has room in `columns`.
#[must_use]
pub fn fits(text: &str, columns: usize) -> bool {
    text.len() <= columns || matches!(cut(text, columns), Cow::Borrowed(_))
}

/// The beginning of `text`, which is one line, in at most `columns` of a terminal, with `…` where it was cut.
#[must_use]
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    let (mut taken, mut fits) = (0, 0);
    for (number, (at, c)) in text.char_indices().enumerate() {
        taken += columns_of(c);
        if taken > columns || number >= columns * CHARS_PER_COLUMN_MAX {
            let mark = if columns == 0 { "" } else { "…" };
            return format!("{}{mark}", &text[..fits]).into();
        }
        // Where the mark still fits behind it.
        if taken < columns {
            fits = at + c.len_utf8();
        }
    }
    text.into()
}

/// Writes what is shown to people: text passes [`coloured`], bytes that are no UTF-8 become U+FFFD. Each piece that is written
/// to it ends between two characters.
#[derive(Debug)]
pub struct Printable<W>(pub W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(coloured(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_hides_is_escaped() {
        for (name, shown) in [
            ("TestA/é_日本/👨‍👩‍👧", "TestA/é_日本/👨‍👩‍👧"),
            ("a\u{9b}31m", "a\\u{9b}31m"),
            ("a\x1b[2J\rb\nc\td\x7f", "a\\u{1b}[2J\\rb\\nc\\td\\u{7f}"),
            ("\u{202e}gnp.exe\u{2066}\u{e0041}\u{feff}", "\\u{202e}gnp.exe\\u{2066}\\u{e0041}\\u{feff}"),
        ] {
            assert_eq!(line(name), shown);
        }
    }

    #[test]
    fn a_block_loses_its_colours_and_keeps_its_lines() {
        for (text, shown) in [
            ("one\n\ttwo\n", "one\n\ttwo\n"),
            ("\x1b[1;38:2:1:2:3mred\x1b(B\x1b[m\r\nnext", "red\nnext"),
            ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bPq\x1b\\c\x1b7d", "abcd"),
            ("10%\r20%", "10%\\r20%"),
            ("open \x1b]0;title\nrest", "open \\u{1b}]0;title\nrest"),
            ("cut \x1b[3", "cut \\u{1b}[3"),
        ] {
            assert_eq!(block(text), shown);
        }
    }

    #[test]
    fn colours_alone_pass() {
        let text = "\x1b[31mred\x1b[0m\x1b[2J\x1b[?25l\x1b[>4m\x1b]0;t\x07\u{9b}\n";
        let shown = "\x1b[31mred\x1b[0m\\u{1b}[2J\\u{1b}[?25l\\u{1b}[>4m\\u{1b}]0;t\\u{7}\\u{9b}\n";
        assert_eq!(coloured(text), shown);
    }

    #[test]
    fn a_line_is_cut_to_columns_of_which_wide_characters_take_two() {
        for (text, columns, shown) in [
            ("abcdef", 6, "abcdef"),
            ("abcdef", 5, "abcd…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
        ] {
            assert_eq!(cut(text, columns), shown, "{text} in {columns}");
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let special = prop::sample::select(vec![
            '\x1b', '[', ']', 'm', '1', ';', '?', '\\', '\x07', '\r', '\n', '\t', '\u{9b}', '\u{202e}', '\u{7f}',
            '\u{2028}',
        ]);
        prop::collection::vec(prop_oneof![3 => special, 1 => any::<char>()], 0..60)
            .prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any_text()) {
            prop_assert!(!line(&text).chars().any(is_hidden));
            prop_assert!(!block(&text).chars().any(|c| is_hidden(c) && !is_layout(c)));
            let mut written = Printable(Vec::new());
            written.write_all(text.as_bytes()).unwrap();
            // Of the rest, whole colours may be there.
            for written in [String::from_utf8(written.0).unwrap(), live(&text)] {
            let mut rest = written.as_str();
            while let Some(c) = rest.chars().next() {
                let colour = colour_len(rest);
                prop_assert!(colour.is_some() || !is_hidden(c) || is_layout(c), "{:?}", written);
                rest = &rest[colour.unwrap_or(c.len_utf8())..];
            }
            }
        }

        #[test]
        fn what_hides_nothing_stays_as_it_is(text in "[ -~é日\n\t]{0,40}") {
            prop_assert_eq!(block(&text), text.as_str());
            prop_assert_eq!(coloured(&text), text.as_str());
        }
    }
}
