//! Lines that many processes or tests add to, sorted only now and then.

use proctor_core::bounds::SPANS_PER_FILE_MAX;
use proctor_core::coverage::{LineSpan, united};

/// Lines of one file, at most [`SPANS_PER_FILE_MAX`] spans once they are united, and twice as many before.
#[derive(Debug, Default)]
pub(crate) struct GrowingSpans {
    spans: Vec<LineSpan>,
    /// How many of them are sorted and disjoint. The others are united with them once they are as many, so that the lines are
    /// not sorted at each addition.
    united: usize,
}

impl GrowingSpans {
    /// Adds lines, which may be in any order.
    pub(crate) fn add(&mut self, more: &[LineSpan]) {
        if self.spans[..self.united] != *more {
            self.spans.extend(more);
            self.unite_many();
        }
    }

    /// Adds lines that lie together.
    pub(crate) fn push(&mut self, span: LineSpan) {
        self.spans.push(span);
        self.unite_many();
    }

    /// How many spans are held.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    fn unite_many(&mut self) {
        if self.spans.len() > 2 * self.united {
            self.unite();
        }
    }

    fn unite(&mut self) {
        self.spans = united(std::mem::take(&mut self.spans));
        self.spans.truncate(SPANS_PER_FILE_MAX);
        self.united = self.spans.len();
    }

    /// The lines, sorted and disjoint.
    pub(crate) fn into_united(mut self) -> Vec<LineSpan> {
        self.unite();
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32) -> LineSpan {
        LineSpan { first: line, last: line }
    }

    #[test]
    fn holds_few_spans_however_often_the_same_lines_are_added() {
        let mut spans = GrowingSpans::default();
        for round in 0..10_000 {
            for number in 0..20 {
                spans.push(line(1 + 2 * number + round % 7));
            }
            assert!(spans.len() <= 60, "{}", spans.len());
        }
        assert_eq!(spans.into_united(), [LineSpan { first: 1, last: 45 }]);
    }

    #[test]
    fn many_small_additions_are_united_seldom() {
        let mut spans = GrowingSpans::default();
        spans.add(&(0..20_000).map(|number| line(4 * number + 1)).collect::<Vec<LineSpan>>());
        for number in 0..20_000 {
            spans.add(&[line(4 * number + 3)]);
        }
        assert_eq!(spans.united, 20_000, "not at each addition");
        let found = spans.into_united();
        assert_eq!((found.len(), found[1]), (40_000, line(3)));
    }
}
