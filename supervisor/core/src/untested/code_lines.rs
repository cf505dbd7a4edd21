//! The lines of a source that may hold code. No parser: what begins like a comment in a string of several lines is taken for one.

use super::{SourceLanguage, test_modules};
use crate::coverage::{LineSpan, contains_line};

/// What marks code that a Python project excludes from its coverage, with the block that the line begins.
const EXCLUDED: &str = "pragma: no cover";

/// Lines that are no blank line, no comment and no bracket alone, that the project does not exclude from its coverage, and that are
/// in no module of Rust for tests.
pub(super) fn code_lines(path: &str, source: &str) -> Vec<LineSpan> {
    let language = SourceLanguage::of_path(path);
    let is_python = language == Some(SourceLanguage::Python);
    let of_tests = if language == Some(SourceLanguage::Rust) { test_modules(source) } else { Vec::new() };
    let mut spans: Vec<LineSpan> = Vec::new();
    let mut is_comment = false;
    // Indentation of a Python block that is excluded with its first line.
    let mut excluded_below: Option<usize> = None;
    for (line, text) in (1..).zip(source.lines()) {
        let code = text.trim();
        if code.is_empty() || code.chars().all(|c| "{}()[];,".contains(c)) {
            continue;
        }
        let is_code = if is_python {
            let indentation = text.len() - text.trim_start().len();
            excluded_below = excluded_below.filter(|above| indentation > *above);
            let is_excluded = excluded_below.is_some() || code.contains(EXCLUDED);
            if is_excluded && excluded_below.is_none() && begins_block(code) {
                excluded_below = Some(indentation);
            }
            !is_excluded && !code.starts_with('#')
        } else {
            let (was_comment, rest) = (is_comment, code.strip_prefix("/*"));
            is_comment = match rest {
                Some(rest) if !is_comment => !rest.contains("*/"),
                _ => is_comment && !code.contains("*/"),
            };
            // Code may stand behind the end of a comment.
            let is_only_comment = was_comment || rest.is_some_and(|rest| is_comment || rest.ends_with("*/"));
            !is_only_comment && !code.starts_with("//")
        };
        if is_code && !contains_line(&of_tests, line) {
            match spans.last_mut() {
                Some(span) if span.last + 1 == line => span.last = line,
                _ => spans.push(LineSpan { first: line, last: line }),
            }
        }
    }
    spans
}

fn begins_block(code: &str) -> bool {
    code.split('#').next().is_some_and(|code| code.trim_end().ends_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::spans_to_text;

    fn code(path: &str, source: &str) -> String {
        spans_to_text(&code_lines(path, source))
    }

    #[test]
    fn leaves_out_modules_of_tests_of_rust() {
        let source = "// a\nfn a() {\n    1;\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {\n        2;\n    }\n}\n";
        assert_eq!(code("a.rs", source), "2-3,6");
    }

    #[test]
    fn leaves_out_blank_lines_comments_and_brackets() {
        assert_eq!(code("a.go", "func A() {\n\t// why\n\n\tb()\n}\n/* more\nof it */\n*p = 1\n"), "1,4,8");
        assert_eq!(code("a.ts", "/** doc\n * more\n */\nf(\n);\n/* one */ g();\n/* only */\n"), "4,6");
        assert_eq!(code("a.py", "# why\nx = [\n]\r\n\r\n  # more\r\ny = 1\r\n"), "2,6");
        assert_eq!(code("a.py", ""), "");
    }

    #[test]
    fn leaves_out_what_a_python_project_excludes() {
        let source =
            "a = 1\nif DEBUG:  # pragma: no cover\n    b = 1\n\n    c = 1\nd = 1\ne = 1  # pragma: no cover\nf = 1\n";
        assert_eq!(code("a.py", source), "1,6,8");
    }
}
