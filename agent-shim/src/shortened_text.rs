//! The first block within a requested size: failures first, then the end of the output, and the trailer last as always.

use proctor_proto::text;
use proctor_proto::v1::Report;
use std::borrow::Cow;

/// Average bytes of text per token.
const TOKEN_BYTES: usize = 4;

/// Most bytes of a failure's location where nothing else of the failure is shown.
const PLACE_BYTES_MAX: usize = 400;

/// The number of bytes that `max_tokens` stands for.
pub(crate) fn token_bytes(max_tokens: u32) -> usize {
    usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_BYTES)
}

/// Says why the text of a run is short, and where the rest is.
pub(crate) fn left_out_note(run_id: &str) -> String {
    format!(
        "shortened as max_tokens asks; the whole output: get_run {{run_id: \"{run_id}\", stream: \"stdout\", cursor: 0}}"
    )
}

/// The text of a run in about `bytes_max` bytes, beginning with `left_out_note`. Always has the whole trailer and the name of
/// the first failure.
pub(crate) fn shorten_run(report: &Report, failures: Option<&str>, left_out_note: &str, bytes_max: usize) -> String {
    let trailer = text::run_trailer(report);
    let mut shortened = format!("[TRUNCATED] {left_out_note}\n");
    let mut room = bytes_max.saturating_sub(shortened.len() + trailer.len());
    if let Some(failures) = failures {
        let part = fit_failures(failures, room);
        room = room.saturating_sub(part.len());
        shortened.push_str(&part);
    }
    room = room.saturating_sub(2 * heading("stdout").len());
    // stderr is short where it matters (a compiler error, a panic), so it gets its room first.
    let stderr = last_lines(&report.stderr_tail, room / 2);
    let stdout = last_lines(&report.stdout_tail, room.saturating_sub(stderr.len()));
    for (title, tail) in [("stdout", stdout), ("stderr", stderr)] {
        if !tail.is_empty() {
            shortened.push_str(&heading(title));
            shortened.push_str(strip_colours(tail).trim_end_matches('\n'));
            shortened.push('\n');
        }
    }
    shortened.push_str(&trailer);
    shortened
}

/// The first `bytes_max` bytes of `text`, in whole lines where possible.
pub(crate) fn first_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(bytes_max)];
    cut.rfind('\n').map_or(cut, |end| &cut[..=end])
}

/// As many of `lines` as fit, at least the first.
pub(crate) fn fit_lines(lines: &[String], bytes_max: usize) -> String {
    let mut text = String::new();
    for line in lines {
        if !text.is_empty() && text.len() + line.len() >= bytes_max {
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

// As many of the failures as fit, at least the name and the location of the first: a count alone does not help.
fn fit_failures(failures: &str, bytes_max: usize) -> Cow<'_, str> {
    let fitting = whole_blocks(failures, bytes_max);
    let Some((header, blocks)) = failures.split_once("\n\n") else { return fitting.into() };
    if fitting.len() > header.len() + 2 {
        return fitting.into();
    }
    let mut lines = blocks.lines();
    let name = lines.next().unwrap_or_default();
    // If the failure has no location, this is its message.
    let place = first_lines(lines.next().unwrap_or_default(), PLACE_BYTES_MAX);
    format!("{header}\n\n{name}\n{place}\n\n").into()
}

// As many blocks as fit; each ends with an empty line.
fn whole_blocks(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(bytes_max)];
    match cut.rfind("\n\n") {
        Some(end) => &text[..end + 2],
        None => "",
    }
}

fn last_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let cut = &text[text.ceil_char_boundary(text.len() - bytes_max)..];
    cut.find('\n').map_or(cut, |start| &cut[start + 1..])
}

fn heading(title: &str) -> String {
    format!("--- {title} (end) ---\n")
}

fn strip_colours(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_proto::v1::Outcome;

    fn report() -> Report {
        Report {
            outcome: Outcome::Failed.into(),
            exit_code: 1,
            stdout_tail: (0..100).map(|line| format!("line {line}\n")).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn orders_failures_then_the_end_of_the_output_then_the_trailer() {
        let failures = "1 test failure(s) from last run_tests call (go, just now):\n\n1. a/TestA\n   wrong\n\n";
        let text = shorten_run(&report(), Some(failures), &left_out_note("r1"), 400);
        assert!(text.len() <= 400, "{}", text.len());
        let (failure, tail) = (text.find("1. a/TestA").unwrap(), text.find("--- stdout (end) ---").unwrap());
        assert!(failure < tail, "{text}");
        assert!(text.ends_with("line 99\nexit: 1\n"), "{text}");
        assert!(!text.contains("line 0\n"), "{text}");
    }

    #[test]
    fn keeps_the_trailer_and_the_first_failure_at_any_size() {
        let failures = "2 test failure(s):\n\n1. x\n   x.go:3\n   wrong\n\n2. y\n\n";
        let begin = "[TRUNCATED] why\n2 test failure(s):\n\n1. x\n   x.go:3\n";
        assert_eq!(shorten_run(&report(), Some(failures), "why", 4), format!("{begin}\nexit: 1\n"));
        assert_eq!(shorten_run(&report(), Some(failures), "why", 72), format!("{begin}   wrong\n\nexit: 1\n"));
        assert_eq!(shorten_run(&report(), None, "why", 4), "[TRUNCATED] why\nexit: 1\n");
        let message = format!("1 test failure(s):\n\n1. x\n   {}\n\n", "y".repeat(5_000));
        assert!(shorten_run(&report(), Some(&message), "why", 4).len() < 500);
    }

    #[test]
    fn keeps_the_first_line_at_any_size() {
        let all = ["one", "two", "three"].map(str::to_owned);
        assert_eq!(fit_lines(&all, 1), "one\n");
        assert_eq!(fit_lines(&all, 8), "one\ntwo\n");
        assert_eq!(fit_lines(&all, usize::MAX), "one\ntwo\nthree\n");
    }

    #[test]
    fn cuts_between_lines_and_characters() {
        assert_eq!(first_lines("one\ntwo\nthree", 9), "one\ntwo\n");
        assert_eq!(first_lines("éé", 3), "é");
        assert_eq!(last_lines("one\ntwo\nthree", 7), "three");
        assert_eq!(last_lines("éé", 3), "é");
        assert_eq!(whole_blocks("a\n\nb\nc\n\n", 6), "a\n\n");
    }
}
