//! The changed lines that no test executed, in one line: `3 of 14 changed lines were executed by no test: shop/cart.py:12-14`.

use crate::printable::line;
use crate::text::range_text;
use crate::v1::{LineRange, UntestedLines, UntestedSpan};

/// Most places and files named.
const NAMED_MAX: usize = 5;

/// The line for a run; `None` if every changed line was executed, or nothing is known.
#[must_use]
pub fn untested_line(untested: &UntestedLines) -> Option<String> {
    let mut parts = Vec::new();
    let untested_lines = untested.changed_lines.saturating_sub(untested.executed_lines);
    if untested_lines > 0 {
        let places: Vec<String> = untested.spans.iter().map(place).collect();
        let places = named(&places, untested.spans_left_out);
        let were = if untested.changed_lines == 1 { "line was" } else { "lines were" };
        parts.push(format!(
            "{untested_lines} of {} changed {were} executed by no test: {places}",
            untested.changed_lines
        ));
    }
    if !untested.not_loaded.is_empty() {
        let files = named(&untested.not_loaded, untested.not_loaded_left_out);
        parts.push(format!("changed and loaded by no test: {files}"));
    }
    if parts.is_empty() {
        return None;
    }
    parts.extend(not_known_line(untested));
    if untested.has_processes {
        parts.push("lines in processes that tests start are not measured".to_owned());
    }
    Some(parts.join("; "))
}

/// The changed files of which the run does not tell.
#[must_use]
pub fn not_known_line(untested: &UntestedLines) -> Option<String> {
    let files = (!untested.not_known.is_empty()).then(|| named(&untested.not_known, untested.not_known_left_out))?;
    Some(format!("not known for {files}: not all tests ran on their text as it is now, or it could not be read"))
}

/// Where the lines are, `shop/cart.py:12-14`.
#[must_use]
pub fn place(span: &UntestedSpan) -> String {
    let UntestedSpan { first_line, last_line, .. } = *span;
    format!("{}:{}", line(&span.file), range_text(&LineRange { first_line, last_line }))
}

fn named(all: &[String], left_out: u64) -> String {
    let first: Vec<_> = all.iter().take(NAMED_MAX).map(|one| line(one)).collect();
    let more = all.len().saturating_sub(NAMED_MAX) as u64 + left_out;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first_line: u32, last_line: u32) -> UntestedSpan {
        UntestedSpan { file: "shop/cart.py".to_owned(), first_line, last_line, source: String::new() }
    }

    #[test]
    fn is_one_line_with_the_places() {
        let mut untested = UntestedLines { changed_lines: 14, executed_lines: 11, ..UntestedLines::default() };
        untested.spans = vec![span(12, 14)];
        let text = "3 of 14 changed lines were executed by no test: shop/cart.py:12-14";
        assert_eq!(untested_line(&untested).unwrap(), text);
        untested.not_known = vec!["b.py".to_owned()];
        untested.has_processes = true;
        let more = "; not known for b.py: not all tests ran on their text as it is now, or it could not be read; \
                    lines in processes that tests start are not measured";
        assert_eq!(untested_line(&untested).unwrap(), format!("{text}{more}"));
    }

    #[test]
    fn is_silent_where_nothing_is_untested() {
        let mut untested = UntestedLines { changed_lines: 2, executed_lines: 2, ..UntestedLines::default() };
        assert_eq!(untested_line(&untested), None);
        untested.not_known = vec!["b.py".to_owned()];
        assert_eq!(untested_line(&untested), None);
        assert!(not_known_line(&untested).unwrap().starts_with("not known for b.py"));
    }

    #[test]
    fn names_a_few_places_and_counts_the_others() {
        let mut untested = UntestedLines { changed_lines: 9, spans_left_out: 2, ..UntestedLines::default() };
        untested.spans = (1..8).map(|at| span(10 * at, 10 * at)).collect();
        untested.not_loaded = vec!["shop/new.py".to_owned()];
        let text = untested_line(&untested).unwrap();
        assert!(text.starts_with("9 of 9 changed lines were executed by no test: shop/cart.py:10, "), "{text}");
        assert!(text.ends_with("shop/cart.py:50 and 4 more; changed and loaded by no test: shop/new.py"), "{text}");
        untested = UntestedLines { not_loaded: untested.not_loaded, ..UntestedLines::default() };
        assert_eq!(untested_line(&untested).unwrap(), "changed and loaded by no test: shop/new.py");
    }
}
