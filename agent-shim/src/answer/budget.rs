//! The budget of an answer: bytes of its text and its structured content together. An answer is drawn with less and less
//! detail until it fits.

use super::ToolAnswer;

/// Average bytes of text per token.
const TOKEN_BYTES: usize = 4;

/// Default budget, in tokens.
pub(crate) const MAX_TOKENS_DEFAULT: u32 = 2_000;

/// Largest budget that may be requested, in tokens: more than a model reads.
pub(crate) const MAX_TOKENS_MAX: u32 = 1_000_000;

/// The number of bytes that `max_tokens` stands for.
pub(crate) fn token_bytes(max_tokens: u32) -> usize {
    usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_BYTES)
}

/// How much of its facts an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Detail {
    /// Most bytes of the output of a run, or of one test.
    pub(crate) output_bytes: usize,
    /// Most frames of the stack of one test.
    pub(crate) stack_frames: usize,
    /// Whether passed tests are listed where the caller asked for them.
    pub(crate) lists_passed: bool,
    /// Whether limits, isolation and resources are shown where the caller asked for them.
    pub(crate) is_verbose: bool,
    /// Whether failures with the same message and file are shown once, with the number of the others.
    pub(crate) folds_failures: bool,
    /// Most bytes of one message, and of an expected or actual value.
    pub(crate) message_bytes: usize,
    /// Most failures with a message; further ones have name and place only.
    pub(crate) explained: usize,
    /// Most items of the list that the answer is about.
    pub(crate) items: usize,
}

/// Failures that are explained even if others can then not be named: the first ones often are the cause of the rest.
const EXPLAINED_MIN: usize = 3;

/// Everything that an answer may show.
pub(crate) const FULL: Detail = Detail {
    output_bytes: 8 * 1024,
    stack_frames: 32,
    lists_passed: true,
    is_verbose: true,
    folds_failures: false,
    message_bytes: 4 * 1024,
    explained: usize::MAX,
    items: usize::MAX,
};

/// Levels of detail, each with less than the one before it: first output goes, then stacks, passed tests, further frames,
/// repeated failures, and the ends of messages. A listed failure always has its name and its place.
const LEVELS: [Detail; 11] = {
    let tail = Detail { output_bytes: 1024, ..FULL };
    let no_output = Detail { output_bytes: 0, ..FULL };
    let short_stack = Detail { stack_frames: 6, ..no_output };
    let no_passed = Detail { lists_passed: false, ..short_stack };
    let brief = Detail { is_verbose: false, ..no_passed };
    let one_frame = Detail { stack_frames: 1, ..brief };
    let folded = Detail { folds_failures: true, ..one_frame };
    let short = Detail { message_bytes: 600, ..folded };
    let shorter = Detail { message_bytes: 200, ..short };
    let names = Detail { message_bytes: 80, stack_frames: 0, ..shorter };
    [FULL, tail, no_output, short_stack, no_passed, brief, one_frame, folded, short, shorter, names]
};

/// An answer that can be drawn with more or less detail.
pub(crate) trait Draw {
    /// Number of items of the list that the answer is about; 1 if there is none.
    fn items(&self) -> usize;
    /// The answer with no more than `detail`.
    fn draw(&self, detail: &Detail) -> ToolAnswer;
}

/// An answer without a list, which is short.
impl Draw for ToolAnswer {
    fn items(&self) -> usize {
        1
    }

    fn draw(&self, _detail: &Detail) -> ToolAnswer {
        self.clone()
    }
}

/// The most detailed answer that takes at most `bytes_max` together with `notes`. At the least it has one item.
pub(crate) fn fit(drawing: &dyn Draw, notes: &[String], bytes_max: usize) -> ToolAnswer {
    let draw = |detail: &Detail| drawing.draw(detail).with_notes(notes.iter().cloned());
    let fits = |answer: &ToolAnswer| answer.bytes() <= bytes_max;
    let least = LEVELS[LEVELS.len() - 1];
    // Each item takes a byte in the text and one in the structured content at the least.
    let items_max = bytes_max / 2;
    if drawing.items() <= items_max {
        for level in &LEVELS {
            let answer = draw(level);
            if fits(&answer) {
                return answer;
            }
        }
    }
    // Naming all comes before explaining many, and an answer with more of either is longer.
    let few = Detail { explained: EXPLAINED_MIN, ..least };
    if drawing.items() <= items_max && fits(&draw(&few)) {
        let explained = largest(EXPLAINED_MIN, drawing.items(), |explained| fits(&draw(&Detail { explained, ..few })));
        return draw(&Detail { explained, ..few });
    }
    let items = largest(1, drawing.items().min(items_max), |items| fits(&draw(&Detail { items, ..few })));
    draw(&Detail { items, ..few })
}

// The largest number from `least` to `most` that fits, or `least`.
fn largest(least: usize, most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut fitting, mut too_many) = (least, most.max(least) + 1);
    while too_many - fitting > 1 {
        let middle = fitting.midpoint(too_many);
        if fits(middle) {
            fitting = middle;
        } else {
            too_many = middle;
        }
    }
    fitting
}

/// The first `bytes_max` bytes of `text` with an ellipsis if that is not all, in whole lines where a line fits.
pub(crate) fn clip_end(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let cut = &text[..text.floor_char_boundary(bytes_max)];
    let whole = cut.rfind('\n').filter(|end| *end > bytes_max / 2).map_or(cut, |end| &cut[..end]);
    format!("{}…", whole.trim_end())
}

/// The last lines of `text` in at most `bytes_max` bytes.
pub(crate) fn last_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let cut = &text[text.ceil_char_boundary(text.len() - bytes_max)..];
    cut.find('\n').map_or(cut, |start| &cut[start + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // Draws `items` lines of ten bytes.
    struct List(usize);

    impl Draw for List {
        fn items(&self) -> usize {
            self.0
        }

        fn draw(&self, detail: &Detail) -> ToolAnswer {
            let shown = self.0.min(detail.items);
            ToolAnswer::fixed("", "123456789\n".repeat(shown), vec![("shown", json!(shown))])
        }
    }

    fn shown(answer: &ToolAnswer) -> u64 {
        answer.structured()["shown"].as_u64().unwrap()
    }

    #[test]
    fn draws_as_many_items_as_fit_and_at_least_one() {
        assert_eq!(shown(&fit(&List(50), &[], 10_000)), 50);
        assert_eq!(shown(&fit(&List(50), &[], 110)), 9);
        assert!(fit(&List(50), &[], 110).bytes() <= 110);
        assert_eq!(shown(&fit(&List(50), &[], 0)), 1);
        assert!(shown(&fit(&List(50), &["n".repeat(40)], 110)) < 6, "notes count");
    }

    #[test]
    fn levels_only_lose_detail() {
        for pair in LEVELS.windows(2) {
            let (more, less) = (pair[0], pair[1]);
            assert!(less.output_bytes <= more.output_bytes && less.stack_frames <= more.stack_frames);
            assert!(less.message_bytes <= more.message_bytes && less.is_verbose <= more.is_verbose);
            assert!(less.lists_passed <= more.lists_passed);
            assert!(less.folds_failures >= more.folds_failures && more != less);
        }
    }

    #[test]
    fn cuts_between_lines_and_characters() {
        assert_eq!(clip_end("one\ntwo\nthree", 9), "one\ntwo…");
        assert_eq!(clip_end("éé", 3), "é…");
        assert_eq!(clip_end("short", 9), "short");
        assert_eq!(last_lines("one\ntwo\nthree", 7), "three");
        assert_eq!(last_lines("éé", 3), "é");
    }
}
