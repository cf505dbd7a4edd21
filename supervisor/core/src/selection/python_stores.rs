//! Whether an edited line of a Python function may store a value outside of the function, where a test may find it that does not execute
//! the function. What functions stored before the edit was measured (`proctor_keeping.py`). Told by words, so that it is rather too many.

use crate::coverage::LineSpan;

/// Statements with which a function assigns to names outside of itself.
const DECLARATIONS: [&str; 2] = ["global ", "nonlocal "];

/// Most signs of equality of a line that are read.
const TARGETS_MAX: usize = 16;

/// Calls that change what they are of.
const CHANGING: [&str; 7] = [".setdefault(", ".append(", ".appendleft(", ".add(", ".update(", ".insert(", ".extend("];

/// Beginnings of expressions for the class of an object, or the module.
const OF_CLASS: [&str; 5] = ["cls.", "cls[", "type(self).", "self.__class__.", "globals()"];

/// Whether one of these lines of a text stores a value outside of its function.
pub(super) fn stores_outside(text: &str, changed: &[LineSpan]) -> bool {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let numbers = changed.iter().flat_map(|lines| lines.first..=lines.last);
    numbers.filter_map(|number| usize::try_from(number.checked_sub(1)?).ok()).any(|index| {
        let Some(line) = lines.get(index).map(|line| line.trim_start()) else { return false };
        DECLARATIONS.iter().any(|word| line.starts_with(word)) || changes_outside(line, function_around(&lines, index))
    })
}

/// The lines of the innermost function around a line, as far as can be told by their columns.
fn function_around<'l>(lines: &'l [&'l str], index: usize) -> &'l [&'l str] {
    let column = |line: &str| line.len() - line.trim_start().len();
    let is_blank = |line: &str| line.trim_start().is_empty();
    let mut least = column(lines[index]);
    let begin = (0..index).rev().find(|at| {
        let (line, is_outer) = (lines[*at].trim_start(), column(lines[*at]) < least && !is_blank(lines[*at]));
        least = if is_outer { column(lines[*at]) } else { least };
        is_outer && (line.starts_with("def ") || line.starts_with("async def "))
    });
    let Some(begin) = begin else { return &[] };
    let body = lines[begin + 1..]
        .iter()
        .take_while(|line| is_blank(line) || column(line) > least || line.trim_start().starts_with(')'));
    &lines[begin..=begin + body.count()]
}

/// Whether a line of a function changes a part of what is not its own.
fn changes_outside(line: &str, function: &[&str]) -> bool {
    let is_outside = |expression: &str| {
        let expression = expression.trim_start_matches(['(', ' ', '*']);
        let name = words_of(expression).next().unwrap_or_default();
        let is_name = expression.starts_with(|c: char| c.is_alphabetic() || c == '_');
        OF_CLASS.iter().any(|start| expression.starts_with(start))
            || is_name && name != "self" && !binds(function, name)
    };
    let count = |target: &str, signs: [char; 3]| target.matches(signs).count();
    let is_argument = |target: &str| count(target, ['(', '[', '{']) > count(target, [')', ']', '}']);
    let is_part = |target: &str| {
        target.contains(['.', '['])
            && !is_argument(target)
            && without_annotation(target).split([',', ':']).any(is_outside)
    };
    let is_receiver = |before: &str| is_outside(&before[before.rfind(ends_expression).map_or(0, |at| at + 1)..]);
    targets(line).any(is_part)
        || line.split_once("setattr(").is_some_and(|(_, of)| is_outside(of))
        || CHANGING.iter().any(|call| line.match_indices(call).any(|(at, _)| is_receiver(&line[..at])))
}

/// What is before the colon, if it is that of an annotation: behind that of another statement there may be a target.
fn without_annotation(target: &str) -> &str {
    let Some((before, _)) = target.split_once(':') else { return target };
    let is_expression = before.trim().chars().all(|c| is_word(c) || c == '.');
    if is_expression && !matches!(before.trim(), "else" | "try" | "finally") { before } else { target }
}

/// Whether a function has a parameter or a variable with this name.
fn binds(function: &[&str], name: &str) -> bool {
    let mut is_head = true;
    function.iter().enumerate().any(|(index, line)| {
        let parameters = if index == 0 { line.split_once('(').map_or("", |(_, rest)| rest) } else { line };
        let in_head = is_head && words_of(parameters).any(|word| word == name);
        is_head &= !line.trim_end().ends_with(':');
        let is_bound = |at: usize| {
            let (before, after) = (line[..at].trim_end(), line[at + name.len()..].trim_start());
            let is_whole = !line[..at].ends_with(is_word) && !line[at + name.len()..].starts_with(is_word);
            let is_target = before.is_empty() || before.ends_with(',') && !before.contains(['(', '[', '.']);
            let is_assigned = after.starts_with('=') && !after.starts_with("==") || after.starts_with([',', ':']);
            is_whole
                && (is_target && is_assigned || before.ends_with(" for") || before.ends_with(" as") || before == "for")
        };
        in_head || line.match_indices(name).any(|(at, _)| is_bound(at))
    })
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The names and other words of a line.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_word(c))
}

/// What a line may assign to: all that is before a sign of equality which is none of a comparison.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let is_assignment = |at: usize| {
        let (before, after) = (line[..at].chars().next_back(), line[at + 1..].chars().next());
        after != Some('=') && !matches!(before, Some('=' | '!' | '<' | '>' | ':'))
    };
    let signs = line.match_indices('=').map(|(at, _)| at).filter(move |at| is_assignment(*at)).take(TARGETS_MAX);
    signs.scan(0, move |from, at| {
        let target = &line[*from..at];
        *from = at + 1;
        Some(target.trim_start())
    })
}

/// Whether an ASCII character cannot be in the expression that a call is of.
fn ends_expression(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.' | '[' | ']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_lines_that_store_outside_of_their_function() {
        for (line, stores) in [
            ("KNOWN[a] = read(a)", true),
            ("return KNOWN.setdefault(a, read(a))", true),
            ("cls.level = read(a)", true),
            ("Shop.level = read(a)", true),
            ("known.values.append(a)", true),
            ("own[a] = read(a)", false),
            ("value = KNOWN[a] = read(a)", true),
            ("if a: KNOWN[a] = read(a)", true),
            ("(KNOWN[a], own[a]) = read(a), 1", true),
            ("IMPORTED[a]=read(a)", true),
            ("f.value = read(a)", true),
            ("globals()['V'] = read(a)", true),
            ("KNOWN[a] += read(a)", true),
            ("own[a] = KNOWN[a] <= a == 1", false),
            ("own.append(a)", false),
            ("own.append(Shop(a))", false),
            ("f(KNOWN[a].append(é))", true),
            ("setattr(Shop, a, 1)", true),
            ("setattr(self, a, KNOWN)", false),
            ("KNOWN = read(a)", false),
            ("self.level = Shop(a)", false),
            ("return KNOWN[a] == 1", false),
            ("global kept", true),
            ("around[a] = read(a)", true),
            ("print(KNOWN[a], own[a], end=1)", false),
            ("self.level: Level[int] | None = 1", false),
            ("KNOWN.level: int = 1", true),
            ("else: KNOWN[a] = 1", true),
            ("one.level = item.level = two.level = 1", false),
            ("a.level = other.level = 1", false),
        ] {
            let text = format!(
                "def around():\n    around = {{}}\n    def f(self, a,\n          other=1):\n        own = {{}}\n        for item in a:\n            \
                 pass\n        with a as one, b as two:\n            pass\n        {line}\n    return f\n"
            );
            let lines = [LineSpan { first: 10, last: 10 }];
            assert_eq!(stores_outside(&text, &lines), stores, "{line}");
        }
        assert!(!stores_outside("def f():\n    KNOWN[a] = 1\n    return 2\n", &[LineSpan { first: 3, last: 9 }]));
    }
}
