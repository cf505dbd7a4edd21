//! Renders the difference between the actual and the expected value of a test for a person: short values below each other,
//! long lines around the first difference, texts as a line diff. Bounded in lines and columns.

use crate::printable::{block, char_columns, cut, fits, line};
use similar::{ChangeTag, DiffOp, TextDiff};
use std::borrow::Cow;

/// Columns of a line, without its mark: with indentation it fits a terminal of 80 columns.
const COLUMNS: usize = 72;

/// Most lines of a diff shown.
const LINES_SHOWN: usize = 40;

/// Context lines around each difference.
const CONTEXT: usize = 3;

/// Most lines of each text compared: a larger diff takes long, and only [`LINES_SHOWN`] are shown.
const LINES_COMPARED: usize = 2_000;

/// Which value a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// In both values.
    Same,
    /// In the actual value only.
    Got,
    /// In the expected value only.
    Want,
    /// A remark about the difference.
    Note,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// Which value the line belongs to.
    pub kind: LineKind,
    /// The text; hidden characters are escaped.
    pub text: String,
}

impl DiffLine {
    fn new(kind: LineKind, text: impl Into<String>) -> DiffLine {
        DiffLine { kind, text: text.into() }
    }

    fn note(text: impl Into<String>) -> DiffLine {
        DiffLine::new(LineKind::Note, text)
    }
}

/// The lines that show how `got` differs from `want`, at most about forty; none if both are absent.
#[must_use]
pub fn lines(got: Option<&str>, want: Option<&str>) -> Vec<DiffLine> {
    match (got.map(block), want.map(block)) {
        (Some(got), Some(want)) => compare(&got, &want),
        (Some(got), None) => single_value(LineKind::Got, "got", &got),
        (None, Some(want)) => single_value(LineKind::Want, "want", &want),
        (None, None) => Vec::new(),
    }
}

fn compare(got: &str, want: &str) -> Vec<DiffLine> {
    let (whole_got, whole_want) = (got, want);
    let (got, want) = (got.trim_end_matches('\n'), want.trim_end_matches('\n'));
    if got == want {
        let mut lines = single_value(LineKind::Same, "got", got);
        let ends = [whole_got, whole_want].map(|whole| whole.len() - got.len());
        lines.push(DiffLine::note(match ends {
            [got, want] if got != want => {
                format!("want reads the same, but for the line ends behind it: got has {got}, want {want}")
            }
            _ => "want reads the same".to_owned(),
        }));
        return lines;
    }
    if got.contains('\n') || want.contains('\n') {
        return diff_lines(got, want);
    }
    if let (Some(got), Some(want)) = (quoted_lines(got), quoted_lines(want))
        && (got.contains('\n') || want.contains('\n'))
    {
        return diff_lines(&got, &want);
    }
    // Escapes hidden characters, so that columns can be counted.
    let (got, want) = (&*line(got), &*line(want));
    let at = common_chars(got, want);
    let (shown_got, shown_want) = (Window::around(got, at), Window::around(want, at));
    let mut lines = vec![
        DiffLine::new(LineKind::Got, format!("got: {}", shown_got.text)),
        DiffLine::new(LineKind::Want, format!("want: {}", shown_want.text)),
    ];
    if shown_got.is_cut || shown_want.is_cut {
        // The caret stands below the second line, whose label is the longer one.
        lines[0].text = format!("got:  {}", shown_got.text);
        lines.push(DiffLine::note(format!("{}^", " ".repeat("want: ".len() + shown_want.columns_before))));
        let (got_chars, want_chars) = (got.chars().count(), want.chars().count());
        lines.push(DiffLine::note(format!(
            "the first difference is character {} (got has {got_chars}, want {want_chars})",
            at + 1
        )));
    }
    lines
}

// The content of a quoted literal with `\n` turned into line ends; `None` if the value is not quoted.
fn quoted_lines(value: &str) -> Option<String> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    if value.len() < 2 || !value.ends_with(quote) {
        return None;
    }
    let (mut lines, mut chars) = (String::with_capacity(value.len()), value.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next_if_eq(&'n').is_some() => lines.push('\n'),
            // Copy the escaped character too: in `\\\\n` the second backslash does not begin an escape.
            '\\' => lines.extend(['\\'].into_iter().chain(chars.next())),
            c => lines.push(c),
        }
    }
    Some(lines)
}

fn single_value(kind: LineKind, label: &str, value: &str) -> Vec<DiffLine> {
    let all = value.lines().count();
    let mut lines: Vec<DiffLine> = value
        .lines()
        .take(LINES_SHOWN)
        .enumerate()
        .map(|(number, line)| {
            let label = if number == 0 { format!("{label}: ") } else { String::new() };
            DiffLine::new(kind, format!("{label}{}", cut(line, COLUMNS * 2)))
        })
        .collect();
    if lines.is_empty() {
        lines.push(DiffLine::new(kind, format!("{label}: ")));
    }
    note_more(&mut lines, all.saturating_sub(LINES_SHOWN), "more lines");
    lines
}

fn note_more(lines: &mut Vec<DiffLine>, count: usize, what: &str) {
    if count > 0 {
        lines.push(DiffLine::note(format!("… {count} {what}")));
    }
}

fn common_chars(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// The part of a long line around a character.
struct Window<'a> {
    text: Cow<'a, str>,
    /// Columns before that character.
    columns_before: usize,
    is_cut: bool,
}

impl Window<'_> {
    // Both values are equal before the first difference, so both windows begin at the same character.
    fn around(line: &str, at: usize) -> Window<'_> {
        if fits(line, COLUMNS) {
            let columns_before = line.chars().take(at).map(char_columns).sum();
            return Window { text: line.into(), columns_before, is_cut: false };
        }
        // A third of the columns shows the common part.
        let (mut begin, mut columns_before) = (at, 0);
        for c in line.chars().rev().skip(line.chars().count() - at) {
            if columns_before + char_columns(c) > COLUMNS / 3 {
                break;
            }
            columns_before += char_columns(c);
            begin -= 1;
        }
        let offset = line.char_indices().nth(begin).map_or(line.len(), |(offset, _)| offset);
        let mark = if begin > 0 { "…" } else { "" };
        let room = COLUMNS - mark.chars().count();
        let text = format!("{mark}{}", cut(&line[offset..], room));
        Window { text: text.into(), columns_before: columns_before + mark.chars().count(), is_cut: true }
    }
}

fn diff_lines(got: &str, want: &str) -> Vec<DiffLine> {
    let all_got: Vec<&str> = got.split('\n').collect();
    let all_want: Vec<&str> = want.split('\n').collect();
    let (few_got, few_want) =
        (&all_got[..all_got.len().min(LINES_COMPARED)], &all_want[..all_want.len().min(LINES_COMPARED)]);
    let diff = TextDiff::from_slices(few_want, few_got);
    let mut lines = vec![DiffLine::note("- want  + got")];
    for group in diff.grouped_ops(CONTEXT) {
        let first = group.first().map_or(0, |op| op.old_range().start);
        lines.push(DiffLine::note(format!("@@ line {} @@", first + 1)));
        for op in &group {
            lines.extend(diff.iter_changes(op).map(|change| {
                let (kind, mark) = match change.tag() {
                    ChangeTag::Equal => (LineKind::Same, ' '),
                    ChangeTag::Delete => (LineKind::Want, '-'),
                    ChangeTag::Insert => (LineKind::Got, '+'),
                };
                let at = differs_at(op, change.old_index(), change.new_index(), few_want, few_got);
                DiffLine::new(kind, format!("{mark}{}", Window::around(change.value(), at).text))
            }));
        }
    }
    let hidden = lines.len().saturating_sub(LINES_SHOWN);
    lines.truncate(LINES_SHOWN);
    note_more(&mut lines, hidden, "more lines of the diff");
    let left = all_got.len().max(all_want.len()).saturating_sub(LINES_COMPARED);
    note_more(&mut lines, left, "more lines, which were not compared");
    lines
}

// Where a replaced line differs from the line in its place, so that the window of a long line shows the difference.
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
    fn short_values_are_shown_below_each_other() {
        assert_eq!(shown("5", "3"), "got: 5\nwant: 3\n");
        assert_eq!(shown("x", "x"), "got: x\nwant reads the same\n");
        let same = "got: x\nwant reads the same, but for the line ends behind it: got has 1, want 0\n";
        assert_eq!(shown("x\n", "x"), same);
        assert_eq!(lines(None, None), []);
        let [one] = &lines(None, Some(""))[..] else { panic!("one line") };
        assert_eq!((one.kind, one.text.as_str()), (LineKind::Want, "want: "));
    }

    #[test]
    fn long_values_are_cut_around_the_first_difference() {
        let value = |middle: &str| format!("[{}{middle}{}]", "'日本', ".repeat(40), "9, ".repeat(60));
        let text = shown(&value("1"), &value("22"));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "got:  …'日本', '日本', '日本', 19, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, …");
        assert_eq!(lines[1], "want: …'日本', '日本', '日本', 229, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,…");
        let columns = |text: &str| text.chars().map(char_columns).sum::<usize>();
        let caret = columns(lines[2].trim_end_matches('^'));
        assert_eq!(caret, columns(lines[1].split("229").next().unwrap()));
        assert_eq!(lines[3], "the first difference is character 242 (got has 423, want 424)");
        assert!(lines.iter().all(|line| columns(line) <= COLUMNS + "want: ".len()), "{text}");
        // One of the two is short.
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
    fn a_quoted_text_is_compared_by_its_lines() {
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
        fn any_two_values_stay_within_the_columns(got in "[ab日\n\u{301}]{0,300}", want in "[ab日\n\u{301}]{0,300}") {
            for line in lines(Some(&got), Some(&want)) {
                prop_assert!(line.text.chars().map(char_columns).sum::<usize>() <= COLUMNS + 72, "{:?}", line);
            }
        }
    }
}
