//! How the value that a test got differs from the one that it wanted, for a person: short ones side by side, long lines around
//! the first difference, texts as a diff by lines. Bounded in lines and columns. Must not know of which test they are.

use crate::printable::{block, columns_of, cut, fits, line};
use similar::{ChangeTag, DiffOp, TextDiff};
use std::borrow::Cow;

/// Columns of a line, without its mark: what is indented fits into a terminal of 80.
const COLUMNS: usize = 72;

/// Lines of a diff that are shown.
const LINES_SHOWN: usize = 40;

/// Lines around each difference.
const CONTEXT: usize = 3;

/// Lines of each text that are compared: behind that, a diff takes long and nobody reads it.
const LINES_COMPARED: usize = 2_000;

/// What a line of a difference shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What both values have.
    Same,
    /// What only the value has that the test got.
    Got,
    /// What only the value has that the test wanted.
    Want,
    /// A word about the difference.
    About,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it shows.
    pub kind: Kind,
    /// Its text, made fit to be shown.
    pub text: String,
}

impl Line {
    fn new(kind: Kind, text: impl Into<String>) -> Line {
        Line { kind, text: text.into() }
    }

    fn about(text: impl Into<String>) -> Line {
        Line::new(Kind::About, text)
    }
}

/// The lines that show how `got` differs from `want`, at most some forty; none if there is neither.
#[must_use]
pub fn lines(got: Option<&str>, want: Option<&str>) -> Vec<Line> {
    match (got.map(block), want.map(block)) {
        (Some(got), Some(want)) => both(&got, &want),
        (Some(got), None) => one(Kind::Got, "got", &got),
        (None, Some(want)) => one(Kind::Want, "want", &want),
        (None, None) => Vec::new(),
    }
}

fn both(got: &str, want: &str) -> Vec<Line> {
    let (whole_got, whole_want) = (got, want);
    let (got, want) = (got.trim_end_matches('\n'), want.trim_end_matches('\n'));
    if got == want {
        let mut lines = one(Kind::Same, "got", got);
        let ends = [whole_got, whole_want].map(|whole| whole.len() - got.len());
        lines.push(Line::about(match ends {
            [got, want] if got != want => {
                format!("want reads the same, but for the line ends behind it: got has {got}, want {want}")
            }
            _ => "want reads the same".to_owned(),
        }));
        return lines;
    }
    if got.contains('\n') || want.contains('\n') {
        return by_lines(got, want);
    }
    if let (Some(got), Some(want)) = (quoted_lines(got), quoted_lines(want))
        && (got.contains('\n') || want.contains('\n'))
    {
        return by_lines(&got, &want);
    }
    // Whose columns can be counted.
    let (got, want) = (&*line(got), &*line(want));
    let at = common_chars(got, want);
    let (shown_got, shown_want) = (Window::of(got, at), Window::of(want, at));
    let mut lines = vec![
        Line::new(Kind::Got, format!("got: {}", shown_got.text)),
        Line::new(Kind::Want, format!("want: {}", shown_want.text)),
    ];
    if shown_got.is_cut || shown_want.is_cut {
        // Under the second line, whose label is the longer one.
        lines[0].text = format!("got:  {}", shown_got.text);
        lines.push(Line::about(format!("{}^", " ".repeat("want: ".len() + shown_want.columns_before))));
        let (of_got, of_want) = (got.chars().count(), want.chars().count());
        lines.push(Line::about(format!(
            "the first difference is character {} (got has {of_got}, want {of_want})",
            at + 1
        )));
    }
    lines
}

// A text in the quotes of its language, by lines: with `\n` in them, all of it is one line.
fn quoted_lines(value: &str) -> Option<String> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    if value.len() < 2 || !value.ends_with(quote) {
        return None;
    }
    let (mut lines, mut chars) = (String::with_capacity(value.len()), value.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'n').is_some() => lines.push('\n'),
            // An escaped backslash is none before what follows.
            '\\' => lines.extend(['\\'].into_iter().chain(chars.next())),
            c => lines.push(c),
        }
    }
    Some(lines)
}

fn one(kind: Kind, label: &str, value: &str) -> Vec<Line> {
    let all = value.lines().count();
    let mut lines: Vec<Line> = value
        .lines()
        .take(LINES_SHOWN)
        .enumerate()
        .map(|(number, line)| {
            let label = if number == 0 { format!("{label}: ") } else { String::new() };
            Line::new(kind, format!("{label}{}", cut(line, COLUMNS * 2)))
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::new(kind, format!("{label}: ")));
    }
    more(&mut lines, all.saturating_sub(LINES_SHOWN), "more lines");
    lines
}

fn more(lines: &mut Vec<Line>, count: usize, what: &str) {
    if count > 0 {
        lines.push(Line::about(format!("… {count} {what}")));
    }
}

fn common_chars(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// A part of a long line that has its character number `at`.
struct Window<'a> {
    text: Cow<'a, str>,
    /// Columns of it that lie before that character.
    columns_before: usize,
    is_cut: bool,
}

impl Window<'_> {
    // The two values of a difference are the same before it, so both windows begin at the same character.
    fn of(line: &str, at: usize) -> Window<'_> {
        if fits(line, COLUMNS) {
            let columns_before = line.chars().take(at).map(columns_of).sum();
            return Window { text: line.into(), columns_before, is_cut: false };
        }
        // A third of the room is for what both have.
        let (mut begin, mut columns_before) = (at, 0);
        for c in line.chars().rev().skip(line.chars().count() - at) {
            if columns_before + columns_of(c) > COLUMNS / 3 {
                break;
            }
            columns_before += columns_of(c);
            begin -= 1;
        }
        let offset = line.char_indices().nth(begin).map_or(line.len(), |(offset, _)| offset);
        let mark = if begin > 0 { "…" } else { "" };
        let room = COLUMNS - mark.chars().count();
        let text = format!("{mark}{}", cut(&line[offset..], room));
        Window { text: text.into(), columns_before: columns_before + mark.chars().count(), is_cut: true }
    }
}

fn by_lines(got: &str, want: &str) -> Vec<Line> {
    let all_got: Vec<&str> = got.split('\n').collect();
    let all_want: Vec<&str> = want.split('\n').collect();
    let (few_got, few_want) =
        (&all_got[..all_got.len().min(LINES_COMPARED)], &all_want[..all_want.len().min(LINES_COMPARED)]);
    let diff = TextDiff::from_slices(few_want, few_got);
    let mut lines = vec![Line::about("- want  + got")];
    for group in diff.grouped_ops(CONTEXT) {
        let first = group.first().map_or(0, |op| op.old_range().start);
        lines.push(Line::about(format!("@@ line {} @@", first + 1)));
        for op in &group {
            lines.extend(diff.iter_changes(op).map(|change| {
                let (kind, mark) = match change.tag() {
                    ChangeTag::Equal => (Kind::Same, ' '),
                    ChangeTag::Delete => (Kind::Want, '-'),
                    ChangeTag::Insert => (Kind::Got, '+'),
                };
                let at = differs_at(op, change.old_index(), change.new_index(), few_want, few_got);
                Line::new(kind, format!("{mark}{}", Window::of(change.value(), at).text))
            }));
        }
    }
    let hidden = lines.len().saturating_sub(LINES_SHOWN);
    lines.truncate(LINES_SHOWN);
    more(&mut lines, hidden, "more lines of the diff");
    let left = all_got.len().max(all_want.len()).saturating_sub(LINES_COMPARED);
    more(&mut lines, left, "more lines, which were not compared");
    lines
}

// Where a line that was replaced differs from the one in its place, so that a long one shows that.
fn differs_at(op: &DiffOp, old: Option<usize>, new: Option<usize>, olds: &[&str], news: &[&str]) -> usize {
    let DiffOp::Replace { old_index, old_len, new_index, new_len } = *op else { return 0 };
    let (old, new) = match (old, new) {
        (Some(old), None) if old - old_index < new_len => (old, new_index + (old - old_index)),
        (None, Some(new)) if new - new_index < old_len => (old_index + (new - new_index), new),
        _ => return 0,
    };
    common_chars(olds[old], news[new])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(got: &str, want: &str) -> String {
        lines(Some(got), Some(want)).iter().map(|line| format!("{}\n", line.text)).collect()
    }

    #[test]
    fn short_values_are_side_by_side() {
        assert_eq!(shown("5", "3"), "got: 5\nwant: 3\n");
        assert_eq!(shown("x", "x"), "got: x\nwant reads the same\n");
        let told = "got: x\nwant reads the same, but for the line ends behind it: got has 1, want 0\n";
        assert_eq!(shown("x\n", "x"), told);
        assert_eq!(lines(None, None), []);
        let [one] = &lines(None, Some(""))[..] else { panic!("one line") };
        assert_eq!((one.kind, one.text.as_str()), (Kind::Want, "want: "));
    }

    #[test]
    fn long_values_are_cut_around_the_first_difference() {
        let value = |middle: &str| format!("[{}{middle}{}]", "'日本', ".repeat(40), "9, ".repeat(60));
        let text = shown(&value("1"), &value("22"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "got:  …'日本', '日本', '日本', 19, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, …");
        assert_eq!(lines[1], "want: …'日本', '日本', '日本', 229, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,…");
        let columns = |text: &str| text.chars().map(columns_of).sum::<usize>();
        let caret = columns(lines[2].trim_end_matches('^'));
        assert_eq!(caret, columns(lines[1].split("229").next().unwrap()));
        assert_eq!(lines[3], "the first difference is character 242 (got has 423, want 424)");
        assert!(lines.iter().all(|line| columns(line) <= COLUMNS + "want: ".len()), "{text}");
        // Of which one is short.
        assert!(shown(&"x".repeat(500), "y").contains("\nwant: y\n      ^\n"));
    }

    #[test]
    fn texts_are_a_diff_by_lines_with_context() {
        let text = |changed: &str| -> String {
            (0..20).map(|number| if number == 9 { format!("{changed}\n") } else { format!("{number}\n") }).collect()
        };
        assert_eq!(
            shown(&text("got this"), &text("want that")),
            "- want  + got\n@@ line 7 @@\n 6\n 7\n 8\n-want that\n+got this\n 10\n 11\n 12\n"
        );
        let long = |end: &str| format!("a\n{}{end}\n", "x".repeat(300));
        assert!(
            shown(&long("1"), &long("2")).ends_with("x2\n+…xxxxxxxxxxxxxxxxxxxxxxxx1\n"),
            "{}",
            shown(&long("1"), &long("2"))
        );
    }

    #[test]
    fn a_quoted_text_is_read_by_its_lines() {
        assert_eq!(shown(r"'one\ntwo\n'", r"'one\n2\n'"), "- want  + got\n@@ line 1 @@\n 'one\n-2\n+two\n '\n");
        assert_eq!(shown(r"'C:\\new'", "'x'"), "got: 'C:\\\\new'\nwant: 'x'\n");
        assert_eq!(shown(r"['a\n']", r"['b\n']"), "got: ['a\\n']\nwant: ['b\\n']\n");
    }

    #[test]
    fn a_difference_is_bounded() {
        let text = |line: &str| format!("{line}\n").repeat(10_000);
        let all = lines(Some(&text("one")), Some(&text("two")));
        assert_eq!(all.len(), LINES_SHOWN + 2);
        assert_eq!(all[LINES_SHOWN].text, "… 3962 more lines of the diff");
        assert_eq!(all[LINES_SHOWN + 1].text, "… 8000 more lines, which were not compared");
    }

    proptest! {
        #[test]
        fn no_two_values_are_too_much(got in "[ab日\n\u{301}]{0,300}", want in "[ab日\n\u{301}]{0,300}") {
            for line in lines(Some(&got), Some(&want)) {
                prop_assert!(line.text.chars().map(columns_of).sum::<usize>() <= COLUMNS + 72, "{:?}", line);
            }
        }
    }
}
