//! Templates: the fixed words of a message with named holes, matched against one line in time linear in its length.

/// Values of the holes of a template, in their order.
pub(super) type Captures<'a> = Vec<(&'static str, &'a str)>;

/// Matches `line` against `template`. A hole `{name}` is filled by at least one character, up to the first occurrence of the words
/// that follow it, or to the end of the line. A hole within quotes holds no such quote. A template that starts with `^` has to match from the first character.
pub(super) fn match_line<'a>(template: &'static str, line: &'a str) -> Option<Captures<'a>> {
    let (mut template, anchored) = template.strip_prefix('^').map_or((template, false), |rest| (rest, true));
    let mut rest = line.trim();
    let (mut captures, mut hole, mut is_first) = (Captures::new(), None, anchored);
    let mut quote = None;
    loop {
        let (words, after) = template.split_once('{').map_or((template, None), |(words, after)| (words, Some(after)));
        if !words.is_empty() {
            let at = if is_first { rest.starts_with(words).then_some(0) } else { rest.find(words) }?;
            if let Some(name) = hole.take() {
                captures.push((name, rest.get(..at).filter(|value| !value.is_empty() && !has_quote(value, quote))?));
            }
            quote = match quote.map(|quote| (quote, words.matches(quote).count())) {
                Some((quote, 0)) => Some(quote),
                Some((quote, 1)) if open_quote(words) == Some(quote) => None,
                _ => open_quote(words),
            };
            rest = &rest[at + words.len()..];
        }
        is_first = false;
        let Some((name, following)) = after.and_then(|after| after.split_once('}')) else { break };
        hole = Some(name);
        template = following;
    }
    if let Some(name) = hole {
        captures.push((name, Some(rest.trim()).filter(|value| !value.is_empty() && !has_quote(value, quote))?));
    }
    Some(captures)
}

// The quote that the words before a hole open. The beginning of a path may stand between them.
fn open_quote(words: &str) -> Option<char> {
    words.trim_end_matches(['.', '/']).chars().next_back().filter(|last| matches!(last, '\'' | '"' | '`'))
}

fn has_quote(value: &str, quote: Option<char>) -> bool {
    quote.is_some_and(|quote| value.contains(quote))
}

/// `template` with its holes filled; holes without a value keep their name.
pub(super) fn fill(template: &str, captures: &[(&str, &str)]) -> String {
    captures.iter().fold(template.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_take_what_stands_between_the_words() {
        let module = match_line("No module named '{module}'", "ModuleNotFoundError: No module named 'a.b'");
        assert_eq!(module.unwrap(), [("module", "a.b")]);
        let both =
            match_line("cannot use {from} as {to} value", "x.go: cannot use \"a\" (untyped) as int value in return");
        assert_eq!(both.unwrap(), [("from", "\"a\" (untyped)"), ("to", "int")]);
        assert_eq!(match_line("^KeyError: {key}", "KeyError: 'a'").unwrap(), [("key", "'a'")]);
        assert_eq!(match_line("plain", "so plain it is").unwrap(), []);
        for (template, line) in [
            ("^KeyError: {key}", "no KeyError: 'a'"),
            ("KeyError: {key}", "KeyError:  "),
            ("named '{m}'", "named ''"),
            ("named '{p}.{m}'", "named 'a' by 'x.y'"),
            ("at \".{m}\" is", "at \"./a\" and \"b\" is"),
        ] {
            assert_eq!(match_line(template, line), None, "{template}");
        }
    }

    #[test]
    fn fills_only_holes_with_a_value() {
        assert_eq!(fill("`pip install {module}`, {other}", &[("module", "x")]), "`pip install x`, {other}");
    }
}
