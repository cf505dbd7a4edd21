//! By which lines of a Go function `go vet` decides whether it prints what it is called with, as `fmt.Printf` does
//! (<https://pkg.go.dev/golang.org/x/tools/go/analysis/passes/printf>).

use super::tokens::{GoToken, GoTokenKind, go_tokens};
use std::collections::HashSet;

/// Types of arguments that are not any type, nor another name for it.
const CONCRETE: [&str; 12] =
    ["string", "int", "int32", "int64", "uint", "uint64", "byte", "rune", "bool", "float64", "error", "*"];

/// Whether a type that begins with this token may be the one of any value, or another name for it.
pub(super) fn may_be_any(token: GoToken<'_>) -> bool {
    token.kind == GoTokenKind::Word && !CONCRETE.contains(&token.text)
}

/// The lines of a function, from 0, in which parameters for any number of arguments of any type, or the text before these, are the last
/// arguments of a call, or are changed.
pub(super) fn lines_that_pass_on(text: &str) -> Vec<usize> {
    let is_blank = |token: &GoToken<'_>| matches!(token.kind, GoTokenKind::Comment | GoTokenKind::LineEnd);
    let tokens: Vec<GoToken<'_>> = go_tokens(text).filter(|token| !is_blank(token)).collect();
    let text_at = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut names: Vec<&str> = Vec::new();
    let takes_any = |at: &usize| text_at(*at) == "..." && tokens.get(at + 1).is_some_and(|token| may_be_any(*token));
    for at in (1..tokens.len()).filter(takes_any) {
        names.push(text_at(at - 1));
        // As in `format string, arguments ...any`.
        if at > 3 && text_at(at - 2) == "," && text_at(at - 3) == "string" {
            names.push(text_at(at - 4));
        }
    }
    let names: HashSet<&str> = names.into_iter().collect();
    // The open brackets, and the lines with one of the names, and with a sign that changes something.
    let (mut open, mut found): (Vec<usize>, Vec<usize>) = Default::default();
    let (mut named, mut changed): (HashSet<usize>, HashSet<usize>) = Default::default();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => open.push(at),
            ")" | "]" | "}" => _ = open.pop(),
            "==" | "!=" | "<=" | ">=" => {}
            sign if token.kind == GoTokenKind::Sign && (sign == "&" || sign.ends_with('=')) || sign == "var" => {
                changed.insert(token.line);
            }
            name if names.contains(name) => {
                named.insert(token.line);
                let call = open.last().copied().unwrap_or(0);
                let is_declared = !matches!(text_at(at + 2), ")" | ",");
                if text_at(at + 1) == "..." && !is_declared && text_at(call.saturating_sub(1)) != "append" {
                    // From the name of the function that is called.
                    found.extend(tokens[call].line.max(found.last().map_or(0, |last| last + 1))..=token.line);
                }
            }
            _ => {}
        }
    }
    found.extend(named.intersection(&changed));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_lines_that_pass_arguments_on_or_change_them() {
        for (inner, expected) in [
            ("if len(a) == 0 {\n1\n}", &[] as &[usize]),
            ("1\nfmt.Printf(format, a...)\n2", &[2]),
            ("log := func(b ...Any) {\nfmt.Print(b...)\n}", &[1, 2]),
            ("log := func(b ...string) {\nf(b...)\n}", &[]),
            ("log(\nformat,\na...)", &[1, 2, 3]),
            ("1\nlog(append(b, a...)...)\nlog(b...)", &[]),
            ("format = format + b\na := b\nc = d", &[1, 2]),
            ("b(&a)\nvar format string\nc(&d)", &[1, 2]),
            ("if a := 1; b {\nlog(a...)\n}", &[1, 2]),
            ("log = func(b ...any) {\nlog(b...)\n}", &[1, 2]),
        ] {
            let text = format!("func f(c int, format string, a ...interface{{}}) {{\n{inner}\n}}");
            let mut found = lines_that_pass_on(&text);
            found.sort_unstable();
            assert_eq!(found, expected, "{inner}");
        }
    }
}
