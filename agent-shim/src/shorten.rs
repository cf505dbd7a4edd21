//! A shorter first block for those who ask for one: failures first, then the end of the output, and the trailer last as
//! always. Must not know where failures and output come from.

use proctor_proto::text;
use proctor_proto::v1::Report;

/// Bytes of text that one token stands for, on average.
const TOKEN_BYTES: usize = 4;

/// The bytes that `max_tokens` stand for.
pub(crate) fn bytes_of(max_tokens: u32) -> usize {
    usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(TOKEN_BYTES)
}

/// The text of a run in about `bytes_max` bytes. The trailer is whole however few they are.
pub(crate) fn run(report: &Report, failures: Option<&str>, run_id: &str, bytes_max: usize) -> String {
    let trailer = text::run_trailer(report);
    let mut shortened = format!(
        "[TRUNCATED] shortened as max_tokens asks; the whole output: get_run {{run_id: \"{run_id}\", stream: \"stdout\", \
         cursor: 0}}\n"
    );
    let mut room = bytes_max.saturating_sub(shortened.len() + trailer.len());
    if let Some(failures) = failures {
        let part = whole_blocks(failures, room);
        room = room.saturating_sub(part.len());
        shortened.push_str(part);
    }
    room = room.saturating_sub(2 * heading("stdout").len());
    // stderr is short where it matters (a compiler, a panic), so it is served first.
    let stderr = last_lines(&report.stderr_tail, room / 2);
    let stdout = last_lines(&report.stdout_tail, room.saturating_sub(stderr.len()));
    for (title, tail) in [("stdout", stdout), ("stderr", stderr)] {
        if !tail.is_empty() {
            shortened.push_str(&heading(title));
            shortened.push_str(strip(tail).trim_end_matches('\n'));
            shortened.push('\n');
        }
    }
    shortened.push_str(&trailer);
    shortened
}

/// Some of `text` if all of it does not fit: its first `bytes_max` bytes, in whole lines where possible.
pub(crate) fn first_lines(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(bytes_max)];
    cut.rfind('\n').map_or(cut, |end| &cut[..=end])
}

// As many of the blocks, which end with an empty line, as fit.
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

fn strip(text: &str) -> String {
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
    fn failures_then_the_end_of_the_output_then_the_trailer() {
        let failures = "1 test failure(s) from last run_tests call (go, just now):\n\n1. a/TestA\n   wrong\n\n";
        let text = run(&report(), Some(failures), "r1", 400);
        assert!(text.len() <= 400, "{}", text.len());
        let (failure, tail) = (text.find("1. a/TestA").unwrap(), text.find("--- stdout (end) ---").unwrap());
        assert!(failure < tail, "{text}");
        assert!(text.ends_with("line 99\nexit: 1\n"), "{text}");
        assert!(!text.contains("line 0\n"), "{text}");
    }

    #[test]
    fn the_trailer_survives_any_shortening() {
        let text = run(&report(), Some("1 test failure(s):\n\n1. x\n\n"), "r1", 4);
        assert!(text.ends_with("\nexit: 1\n"), "{text}");
        assert!(!text.contains("1. x"), "{text}");
    }

    #[test]
    fn cuts_fall_between_lines_and_characters() {
        assert_eq!(first_lines("one\ntwo\nthree", 9), "one\ntwo\n");
        assert_eq!(first_lines("éé", 3), "é");
        assert_eq!(last_lines("one\ntwo\nthree", 7), "three");
        assert_eq!(last_lines("éé", 3), "é");
        assert_eq!(whole_blocks("a\n\nb\nc\n\n", 6), "a\n\n");
    }
}
