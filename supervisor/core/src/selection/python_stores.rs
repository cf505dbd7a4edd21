//! Whether an edited statement of a Python function may store a value outside of the function, where a test may find it that does not
//! execute the function. What functions stored before the edit was measured (`proctor_keeping.py`). Told by words, so that it is rather
//! too many.

use super::python_bodies::{Statement, statements};
use crate::coverage::LineSpan;
use std::collections::BTreeSet;

/// Statements with which a function assigns to names outside of itself.
const DECLARATIONS: [&str; 2] = ["global ", "nonlocal "];

/// Most signs of equality of a statement that are read.
const TARGETS_MAX: usize = 16;

/// Calls that change what they are of.
const CHANGING: [&str; 15] = [
    ".setdefault(",
    ".append(",
    ".appendleft(",
    ".add(",
    ".update(",
    ".insert(",
    ".extend(",
    ".clear(",
    ".pop(",
    ".popitem(",
    ".popleft(",
    ".remove(",
    ".discard(",
    ".sort(",
    ".reverse(",
];

/// Calls that change what they are given first.
const SETTING: [&str; 4] = ["setattr(", "delattr(", "__setattr__(", "__setitem__("];

/// Beginnings of expressions for the class of an object, or the module.
const OF_CLASS: [&str; 5] = ["cls.", "cls[", "type(self).", "self.__class__.", "globals()"];

/// Whether one of the statements with these lines of a text stores a value outside of its function, or another one of this function does
/// that `is_executed` by no test, and which may run now.
pub(super) fn stores_outside(text: &str, changed: &[LineSpan], is_executed: impl Fn(LineSpan) -> bool) -> bool {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(statements) = statements(text) else { return true };
    let span = |statement: &Statement| {
        let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
        LineSpan { first: number(statement.first), last: number(statement.last) }
    };
    let is_changed = |statement: &Statement| {
        let own = span(statement);
        changed.iter().any(|lines| lines.first <= own.last && own.first <= lines.last)
    };
    let text_of = |statement: &Statement| lines[statement.first..=statement.last].concat();
    let class_has = |name: &str| {
        let has = |line: &&str| {
            line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', ':']))
        };
        lines.iter().any(has)
    };
    let mut known: BTreeSet<usize> = BTreeSet::new();
    (0..statements.len()).filter(|at| is_changed(&statements[*at])).any(|at| {
        let around = function_around(&statements, at);
        let texts = around.iter().map(text_of).collect::<Vec<_>>();
        let function = Function::new(&texts);
        let stores = |text: &str| text.split(';').any(|part| function.stores(part.trim(), class_has));
        let is_first = around.first().is_some_and(|head| known.insert(head.first));
        let may_run = |(statement, text): (&Statement, &String)| stores(text) && !is_executed(span(statement));
        stores(&text_of(&statements[at])) || is_first && around.iter().zip(&texts).skip(1).any(may_run)
    })
}

/// The head and the statements of the innermost function around a statement; none if it is in none.
fn function_around(statements: &[Statement], at: usize) -> &[Statement] {
    let mut least = statements[at].indent;
    let begin = (0..at).rev().find(|before| {
        let statement = &statements[*before];
        let is_outer = statement.indent < least;
        least = if is_outer { statement.indent } else { least };
        is_outer && statement.is_function
    });
    let Some(begin) = begin else { return &[] };
    let body = statements[begin + 1..].iter().take_while(|statement| statement.indent > statements[begin].indent);
    &statements[begin..=begin + body.count()]
}

/// The names of a function.
struct Function<'t> {
    texts: &'t [String],
    /// Its parameters and variables.
    local: BTreeSet<&'t str>,
    /// Those that it declares to be outside of it.
    declared: BTreeSet<&'t str>,
}

impl<'t> Function<'t> {
    fn new(texts: &'t [String]) -> Function<'t> {
        let mut function = Function { texts, local: BTreeSet::new(), declared: BTreeSet::new() };
        if let Some((head, body)) = texts.split_first() {
            function.local.extend(parameters(head));
            // What is a string binds nothing.
            for text in body.iter().map(|text| text.trim()).filter(|text| !text.starts_with(['"', '\''])) {
                match DECLARATIONS.iter().find_map(|word| text.strip_prefix(word)) {
                    Some(names) => function.declared.extend(words_of(names)),
                    None => function.local.extend(bound_names(text)),
                }
            }
        }
        function.local.retain(|name| !function.declared.contains(name));
        function
    }

    /// Whether a statement changes what is not the function's own.
    fn stores(&self, text: &str, class_has: impl Fn(&str) -> bool) -> bool {
        let is_outside = |expression: &str| self.is_outside(expression, &class_has);
        let is_part = |target: &str| {
            let is_part = |one: &&str| one.contains(['.', '[']) || self.declared.contains(one.trim());
            without_annotation(target).split([',', ':']).filter(is_part).any(is_outside)
        };
        let receiver = |before: &str| before[before.rfind(ends_expression).map_or(0, |at| at + 1)..].to_owned();
        DECLARATIONS.iter().any(|word| text.starts_with(word))
            || targets(text).any(is_part)
            || loop_and_context_targets(text).any(is_part)
            || text.strip_prefix("del ").is_some_and(is_part)
            || SETTING.iter().any(|call| text.split_once(call).is_some_and(|(_, given)| is_outside(given)))
            || CHANGING.iter().any(|call| text.match_indices(call).any(|(at, _)| is_outside(&receiver(&text[..at]))))
            || self.names_what_is_changed(text)
    }

    fn is_outside(&self, expression: &str, class_has: impl Fn(&str) -> bool) -> bool {
        let expression = expression.trim_start_matches(|c: char| matches!(c, '(' | '*') || c.is_whitespace());
        let name = words_of(expression).next().unwrap_or_default();
        let is_name = expression.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let of_self = expression.strip_prefix("self.").map_or("", |rest| words_of(rest).next().unwrap_or_default());
        let is_shared = || {
            let rest = expression.trim_end().strip_prefix("self.").and_then(|rest| rest.strip_prefix(of_self));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])) && class_has(of_self)
        };
        OF_CLASS.iter().any(|start| expression.starts_with(start))
            || is_name && name != "self" && !self.local.contains(name)
            || !of_self.is_empty() && is_shared()
    }

    /// Whether a statement gives something outside a name, of which the function changes a part.
    fn names_what_is_changed(&self, text: &str) -> bool {
        let Some((name, value)) = text.split_once('=') else { return false };
        let (name, value) = (without_annotation(name).trim(), value.split('#').next().unwrap_or_default().trim());
        let is_chain = !value.is_empty() && value.chars().all(|c| is_word(c) || c == '.');
        let first = words_of(value).next().unwrap_or_default();
        let is_constant = matches!(first, "None" | "True" | "False") || first.starts_with(|c: char| c.is_ascii_digit());
        let is_given = is_chain && !is_constant && first != "self" && !self.local.contains(first);
        is_given && self.texts.iter().any(|text| ["[", "."].iter().any(|part| text.contains(&format!("{name}{part}"))))
    }
}

/// The names of the parameters in the head of a function.
fn parameters(head: &str) -> impl Iterator<Item = &str> {
    let given = head.split_once('(').map_or("", |(_, rest)| rest);
    let (mut depth, mut is_begin) = (0_i32, true);
    let mut begins = Vec::new();
    for (at, c) in given.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => is_begin = true,
            c if is_begin && is_word(c) => {
                begins.push(at);
                is_begin = false;
            }
            _ => {}
        }
    }
    begins.into_iter().filter_map(move |at| words_of(&given[at..]).next())
}

/// The names that a statement makes a function's own.
fn bound_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(is_word);
    for target in targets(text).chain(loop_and_context_targets(text)) {
        let parts = without_annotation(target).split(',');
        names.extend(
            parts.map(|part| part.trim_matches(|c: char| "()[]* ".contains(c) || c.is_whitespace())).filter(is_name),
        );
    }
    for start in ["def ", "async def ", "class ", "import ", "from "] {
        names.extend(text.strip_prefix(start).into_iter().flat_map(words_of).filter(is_name));
    }
    names.extend(text.match_indices(":=").filter_map(|(at, _)| words_of(text[..at].trim_end()).last()).filter(is_name));
    // An annotation without a value.
    names.extend(text.split_once(':').map(|(before, _)| before.trim()).filter(is_name));
    names
}

/// What the loops and contexts of a statement assign to.
fn loop_and_context_targets(text: &str) -> impl Iterator<Item = &str> {
    let loops = text
        .match_indices("for ")
        .filter_map(|(at, word)| text[at + word.len()..].split_once(" in ").map(|(target, _)| target));
    let contexts = text.match_indices(" as ").map(|(at, word)| {
        let rest = &text[at + word.len()..];
        rest.split([':', ')', '\n']).next().unwrap_or_default().split(", ").next().unwrap_or_default()
    });
    loops.chain(contexts)
}

/// Whether what is before a sign of equality is an argument.
fn is_argument(target: &str) -> bool {
    target.matches(['(', '[', '{']).count() > target.matches([')', ']', '}']).count()
}

/// What is before the colon, if it is that of an annotation: behind that of another statement there may be a target.
fn without_annotation(target: &str) -> &str {
    let Some((before, _)) = target.split_once(':') else { return target };
    let is_expression = before.trim().chars().all(|c| is_word(c) || c == '.');
    if is_expression && !matches!(before.trim(), "else" | "try" | "finally") { before } else { target }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The names and other words of a text.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// What a statement may assign to: all that is before a sign of equality which is none of a comparison.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let is_assignment = |at: usize| {
        let (before, after) = (text[..at].chars().next_back(), text[at + 1..].chars().next());
        after != Some('=') && !matches!(before, Some('=' | '!' | '<' | '>' | ':')) && !is_argument(&text[..at])
    };
    let signs = text.match_indices('=').map(|(at, _)| at).filter(move |at| is_assignment(*at)).take(TARGETS_MAX);
    signs.scan(0, move |from, at| {
        let target = &text[*from..at];
        *from = at + 1;
        Some(target.trim_start().trim_end_matches(['+', '-', '*', '/', '|', '&', '%', '@', '^']))
    })
}

/// Whether an ASCII character cannot be in the expression that a call is of.
fn ends_expression(character: char) -> bool {
    character.is_ascii()
        && !character.is_ascii_alphanumeric()
        && !matches!(character, '_' | '.' | '[' | ']' | '"' | '\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_statements_that_store_outside_of_their_function() {
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
            ("else_ = KNOWN", false),
            ("one.level = item.level = two.level = 1", false),
            ("a.level = other.level = 1", false),
            ("MODE = 3", true),
            ("KNOWN[\n            'a'\n        ] = 9", true),
            ("x = 1; KNOWN['k'] = 9", true),
            ("given = KNOWN", true),
            ("for KNOWN['k'] in a: pass", true),
            ("with a as KNOWN.k: pass", true),
            ("dict.__setitem__(KNOWN, 1, 2)", true),
            ("self.shared['k'] = 9", true),
            ("self.rest['k'] = 9", false),
            ("D.append(1)", true),
            ("del KNOWN['k']", true),
            ("KNOWN.clear()", true),
            ("del own['k']", false),
        ] {
            let text = format!(
                "class C:\n    shared = {{}}\n    def around():\n        around = {{}}\n        def f(self, a,\n          other=D):\n            'D: the \
                 table'\n            global MODE\n            own = {{}}\n            for item in a:\n                pass\n            with a \
                 as one, b as two:\n                pass\n            given['k'] = call(\n                D=D, D,\n                E=E,\n            \
                 )\n            {line}\n        return f\n"
            );
            let first =
                u32::try_from(text[..text.find(&format!("            {line}")).unwrap()].matches('\n').count() + 1)
                    .unwrap();
            let lines = [LineSpan { first, last: first }];
            assert_eq!(stores_outside(&text, &lines, |_| true), stores, "{line}");
        }
        let text = "def f():\n    if a:\n        KNOWN[a] = 1\n    return 2\n";
        let last = [LineSpan { first: 4, last: 9 }];
        assert!(!stores_outside(text, &last, |_| true));
        assert!(stores_outside(text, &last, |_| false), "another store may run now");
        assert!(stores_outside("def f(:\n", &[LineSpan { first: 1, last: 1 }], |_| true), "a text that cannot be read");
    }
}
