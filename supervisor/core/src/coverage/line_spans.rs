//! Sorted and disjoint spans of lines: their text form, and what two lists of them have in common.

use super::LineSpan;
use std::fmt::Write as _;

/// The spans as text, `3-5,8`.
#[must_use]
pub fn spans_to_text(spans: &[LineSpan]) -> String {
    let mut text = String::new();
    for LineSpan { first, last } in spans {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        _ = if first == last { write!(text, "{comma}{first}") } else { write!(text, "{comma}{first}-{last}") };
    }
    text
}

/// The spans of a text such as `3-5,8`; `None` unless they are sorted and disjoint.
#[must_use]
pub fn spans_from_text(text: &str) -> Option<Vec<LineSpan>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let span = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(LineSpan { first: first.parse().ok()?, last: last.parse().ok()? })
    };
    let spans: Vec<LineSpan> = text.split(',').map(span).collect::<Option<_>>()?;
    let is_sound = spans.iter().all(|span| (1..=span.last).contains(&span.first))
        && spans.is_sorted_by(|one, next| one.last < next.first);
    is_sound.then_some(spans)
}

/// The lines of both lists.
#[must_use]
pub fn common_lines(one: &[LineSpan], other: &[LineSpan]) -> Vec<LineSpan> {
    let (mut common, mut left, mut right) = (Vec::new(), one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let (first, last) = (a.first.max(b.first), a.last.min(b.last));
        if first <= last {
            common.push(LineSpan { first, last });
        }
        if a.last <= b.last {
            left.next()
        } else {
            right.next()
        };
    }
    common
}

/// The lines of the first list that the other does not have.
#[must_use]
pub fn lines_without(spans: &[LineSpan], removed: &[LineSpan]) -> Vec<LineSpan> {
    let (mut left, mut at) = (Vec::new(), 0);
    for span in spans {
        at += removed[at..].partition_point(|removed| removed.last < span.first);
        let mut first = span.first;
        for removed in removed[at..].iter().take_while(|removed| removed.first <= span.last) {
            if first < removed.first {
                left.push(LineSpan { first, last: removed.first - 1 });
            }
            first = first.max(removed.last.saturating_add(1));
        }
        if first <= span.last {
            left.push(LineSpan { first, last: span.last });
        }
    }
    left
}

/// The lines of any of the spans, in any order.
#[must_use]
pub fn united(mut spans: Vec<LineSpan>) -> Vec<LineSpan> {
    spans.sort_unstable_by_key(|span| (span.first, span.last));
    spans.dedup_by(|next, kept| {
        let touches = next.first <= kept.last.saturating_add(1);
        if touches {
            kept.last = kept.last.max(next.last);
        }
        touches
    });
    spans
}

/// Whether the spans have this line.
#[must_use]
pub fn contains_line(spans: &[LineSpan], line: u32) -> bool {
    let at = spans.partition_point(|span| span.last < line);
    spans.get(at).is_some_and(|span| span.first <= line)
}

/// Number of lines.
#[must_use]
pub fn count_lines(spans: &[LineSpan]) -> u64 {
    spans.iter().map(|span| u64::from(span.last - span.first) + 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn span(first: u32, last: u32) -> LineSpan {
        LineSpan { first, last }
    }

    #[test]
    fn reads_what_it_writes_and_rejects_the_rest() {
        let spans = [span(3, 5), span(8, 8)];
        assert_eq!(spans_to_text(&spans), "3-5,8");
        assert_eq!(spans_from_text("3-5,8").unwrap(), spans);
        assert_eq!(spans_from_text("").unwrap(), []);
        for text in ["0", "5-3", "3-5,5", "8,3", "a", "3-", ",", "99999999999", "1-2-3"] {
            assert_eq!(spans_from_text(text), None, "{text}");
        }
    }

    fn lines(spans: &[LineSpan]) -> BTreeSet<u32> {
        spans.iter().flat_map(|span| span.first..=span.last).collect()
    }

    fn any_spans() -> impl Strategy<Value = Vec<LineSpan>> {
        prop::collection::vec((1_u32..40, 0_u32..6).prop_map(|(first, more)| span(first, first + more)), 0..8)
    }

    proptest! {
        #[test]
        fn lists_are_sets_of_lines(one in any_spans(), other in any_spans()) {
            let (a, b) = (united(one.clone()), united(other.clone()));
            prop_assert_eq!(lines(&a), lines(&one));
            prop_assert!(a.is_sorted_by(|one, next| one.last + 1 < next.first));
            let both: BTreeSet<u32> = lines(&one).intersection(&lines(&other)).copied().collect();
            prop_assert_eq!(count_lines(&common_lines(&a, &b)), both.len() as u64);
            let rest: BTreeSet<u32> = lines(&one).difference(&lines(&other)).copied().collect();
            prop_assert_eq!(lines(&lines_without(&a, &b)), rest.clone());
            prop_assert_eq!(count_lines(&lines_without(&a, &b)), rest.len() as u64);
            prop_assert_eq!(lines(&common_lines(&a, &b)), both.clone());
            for line in 1..50 {
                prop_assert_eq!(contains_line(&common_lines(&a, &b), line), both.contains(&line));
            }
            prop_assert_eq!(spans_from_text(&spans_to_text(&a)).unwrap(), a);
        }
    }
}
