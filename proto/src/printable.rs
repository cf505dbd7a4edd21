//! Makes text safe to show: characters that steer a terminal or are invisible become escapes (`\u{9b}`).

use std::borrow::Cow;
use std::io::{self, Write};
use unicode_width::UnicodeWidthChar;

/// Most bytes of one escape sequence. A longer or unterminated one is shown as text.
const SEQUENCE_BYTES_MAX: usize = 4_096;

/// Whether `c` steers a terminal or is invisible: control characters (C0, DEL, C1), direction changes, Unicode line separators,
/// fillers, tags and other invisible format characters. Not hidden: the joiners of emoji and of Indic and Arabic scripts
/// (U+200C, U+200D) and their variation selectors.
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

/// A name, a path or a note on one line. Escapes everything hidden, line ends included.
#[must_use]
pub fn line(name: &str) -> Cow<'_, str> {
    if name.chars().any(is_hidden) { escape(name, |_| false).into() } else { name.into() }
}

/// A message, a value or output of one or more lines. Keeps line ends and tabs, removes escape sequences such as colours,
/// escapes everything else hidden.
#[must_use]
pub fn block(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_hidden(c) && !is_layout(c)) {
        return text.into();
    }
    let mut plain = without_sequences(text);
    if plain.contains("\r\n") {
        plain = plain.replace("\r\n", "\n");
    }
    escape(&plain, is_layout).into()
}

/// Keeps colours, line ends and tabs, and escapes everything else hidden, other sequences included. For writers that remove
/// colours themselves where the output is not a terminal.
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

/// Live output of a program for a terminal: keeps colours, removes other sequences, turns a carriage return into a line end,
/// escapes everything else hidden.
#[must_use]
pub fn live_output(text: &str) -> String {
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

fn escape(text: &str, is_kept: fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| push(&mut shown, c, is_kept));
    shown
}

fn push(shown: &mut String, c: char, is_kept: fn(char) -> bool) {
    if is_hidden(c) && !is_kept(c) {
        // As in a Rust literal: `\r`, `\u{202e}`.
        shown.extend(c.escape_default());
    } else {
        shown.push(c);
    }
}

fn without_sequences(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\x1b') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = sequence_len(rest);
        if len.is_none() {
            plain.push('\x1b');
        }
        rest = &rest[len.unwrap_or(1)..];
    }
    plain.push_str(rest);
    plain
}

/// Length in bytes of the escape sequence (ECMA-48) at the start of `text`; `None` without a complete one.
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

/// Length in bytes of the colour sequence (SGR) at the start of `text`.
#[must_use]
pub fn colour_len(text: &str) -> Option<usize> {
    let len = sequence_len(text)?;
    let parameters = text.get(..len)?.strip_prefix("\x1b[")?.strip_suffix('m')?;
    parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')).then_some(len)
}

/// Most characters per column: a letter may carry any number of combining marks.
const CHARS_PER_COLUMN_MAX: usize = 4;

/// Columns of `c` on a terminal; a tab counts as 8, its maximum.
#[must_use]
pub fn char_columns(c: char) -> usize {
    if c == '\t' { 8 } else { c.width().unwrap_or(0) }
}

/// Whether the one-line `text` fits into `columns`.
#[must_use]
pub fn fits(text: &str, columns: usize) -> bool {
    text.len() <= columns || matches!(cut(text, columns), Cow::Borrowed(_))
}

/// The beginning of the one-line `text` in at most `columns`, ending in `…` if it was cut.
#[must_use]
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    let (mut taken, mut fits) = (0, 0);
    for (number, (at, c)) in text.char_indices().enumerate() {
        taken += char_columns(c);
        if taken > columns || number >= columns * CHARS_PER_COLUMN_MAX {
            let mark = if columns == 0 { "" } else { "…" };
            return format!("{}{mark}", &text[..fits]).into();
        }
        // The mark still fits after this character.
        if taken < columns {
            fits = at + c.len_utf8();
        }
    }
    text.into()
}

/// A writer for people: applies [`coloured`]; invalid UTF-8 becomes U+FFFD. Each write must end between two characters.
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
    fn escapes_hidden_characters() {
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
    fn a_block_loses_colours_and_keeps_line_ends() {
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
    fn keeps_colours_and_escapes_other_sequences() {
        let text = "\x1b[31mred\x1b[0m\x1b[2J\x1b[?25l\x1b[>4m\x1b]0;t\x07\u{9b}\n";
        let shown = "\x1b[31mred\x1b[0m\\u{1b}[2J\\u{1b}[?25l\\u{1b}[>4m\\u{1b}]0;t\\u{7}\\u{9b}\n";
        assert_eq!(coloured(text), shown);
    }

    #[test]
    fn cuts_to_columns_and_counts_wide_characters_twice() {
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
        fn leaves_nothing_hidden(text in any_text()) {
            prop_assert!(!line(&text).chars().any(is_hidden));
            prop_assert!(!block(&text).chars().any(|c| is_hidden(c) && !is_layout(c)));
            let mut written = Printable(Vec::new());
            written.write_all(text.as_bytes()).unwrap();
            // Complete colour sequences may remain.
            for written in [String::from_utf8(written.0).unwrap(), live_output(&text)] {
            let mut rest = written.as_str();
            while let Some(c) = rest.chars().next() {
                let colour = colour_len(rest);
                prop_assert!(colour.is_some() || !is_hidden(c) || is_layout(c), "{:?}", written);
                rest = &rest[colour.unwrap_or(c.len_utf8())..];
            }
            }
        }

        #[test]
        fn leaves_visible_text_unchanged(text in "[ -~é日\n\t]{0,40}") {
            prop_assert_eq!(block(&text), text.as_str());
            prop_assert_eq!(coloured(&text), text.as_str());
        }
    }
}
