//! Whether an edited statement of a Python function may store a value outside of the function, where a test may find it that does not
//! execute the function. What functions stored before the edit was measured (`proctor_keeping.py`). Told by words, so that it is rather
//! too many.

use super::python_bodies::{Statement, statements, without_literals};
use crate::coverage::LineSpan;
use std::collections::BTreeSet;

/// Statements with which a function assigns to names outside of itself.
const DECLARATIONS: [&str; 2] = ["global ", NONLOCAL];
const NONLOCAL: &str = "nonlocal ";

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

/// Calls that run a text, which may store anything.
const RUNNING: [&str; 2] = ["exec(", "eval("];

/// Whether one of the statements with these lines of a text stores a value outside of its function, or another one of this function does
/// that `is_executed` by no test, and which may run now.
pub(super) fn stores_outside(text: &str, changed: &[LineSpan], is_executed: impl Fn(LineSpan) -> bool) -> bool {
    let Some((statements, code)) = statements(text).zip(without_literals(text)) else { return true };
    let lines: Vec<&str> = code.split_inclusive('\n').collect();
    let span = |statement: &Statement| {
        let number = |index: usize| u32::try_from(index + 1).unwrap_or(u32::MAX);
        LineSpan { first: number(statement.first), last: number(statement.last) }
    };
    let is_changed = |statement: &Statement| {
        let own = span(statement);
        changed.iter().any(|lines| lines.first <= own.last && own.first <= lines.last)
    };
    let text_of = |statement: &Statement| lines[statement.first..=statement.last].concat();
    let of_classes = names_of_classes(&statements, text_of);
    let mut known: BTreeSet<usize> = BTreeSet::new();
    (0..statements.len()).filter(|at| is_changed(&statements[*at])).any(|at| {
        let around = function_around(&statements, at);
        let texts = around.iter().map(text_of).collect::<Vec<_>>();
        let function = Function::new(around, &texts);
        let stores = |text: &str| parts(text).any(|part| function.stores(part, &of_classes));
        let is_first = around.first().is_some_and(|head| known.insert(head.first));
        let may_run = |(statement, text): (&Statement, &String)| stores(text) && !is_executed(span(statement));
        let own = text_of(&statements[at]);
        // Python executes nothing for a declaration: with an unchanged one, the statements that assign to its names count.
        let is_declaration = parts(&own).any(|part| declaration(part).is_some());
        is_declaration || stores(&own) || is_first && around.iter().zip(&texts).skip(1).any(may_run)
    })
}

/// The names that the classes of a text have, as far as their own statements tell.
fn names_of_classes(statements: &[Statement], text_of: impl Fn(&Statement) -> String) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // The indents of the functions and classes around a statement, and whether each is a class.
    let mut around: Vec<(usize, bool)> = Vec::new();
    for statement in statements {
        while around.pop_if(|(indent, _)| *indent >= statement.indent).is_some() {}
        let is_of_class = around.last().is_some_and(|(_, is_class)| *is_class);
        let text = text_of(statement);
        if is_of_class {
            // Of a method, its name and not its parameters.
            let text = if statement.is_function { text.split('(').next().unwrap_or_default() } else { &text };
            names.extend(parts(text).flat_map(bound_names).map(str::to_owned));
        }
        if is_class(&text) || statement.is_function {
            around.push((statement.indent, is_class(&text)));
        }
    }
    names
}

/// The simple statements of a logical line.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim)
}

/// The declaration in a statement that names are outside of its function: its word, and the names.
fn declaration(text: &str) -> Option<(&'static str, impl Iterator<Item = &str>)> {
    // It may be behind the head of a block.
    let last = text.rsplit(':').next().unwrap_or_default().trim_start();
    DECLARATIONS.into_iter().find_map(|word| Some((word, words_of(last.strip_prefix(word)?))))
}

fn is_class(text: &str) -> bool {
    text.trim_start().starts_with("class ")
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
    /// A function with these statements, the first of which is its head, and their texts.
    fn new(statements: &[Statement], texts: &'t [String]) -> Function<'t> {
        let mut function = Function { texts, local: BTreeSet::new(), declared: BTreeSet::new() };
        function.local.extend(texts.first().into_iter().flat_map(|head| parameters(head)));
        // What it binds outside of inner functions and classes is what their declarations mean.
        let (mut own, mut of_inner) = (function.local.clone(), BTreeSet::new());
        let mut inner: Vec<usize> = Vec::new();
        for (statement, text) in statements.iter().zip(texts).skip(1) {
            while inner.pop_if(|indent| *indent >= statement.indent).is_some() {}
            for part in parts(text) {
                match declaration(part) {
                    Some((NONLOCAL, names)) if !inner.is_empty() => of_inner.extend(names),
                    Some((_, names)) => function.declared.extend(names),
                    None => function.local.extend(bound_names(part)),
                }
                own.extend(targets(part).map(without_annotation).map(str::trim).filter(|_| inner.is_empty()));
            }
            if statement.is_function || is_class(text) {
                inner.push(statement.indent);
            }
        }
        function.declared.extend(of_inner.difference(&own));
        function.local.retain(|name| !function.declared.contains(name));
        function
    }

    /// Whether a statement changes what is not the function's own.
    fn stores(&self, text: &str, of_classes: &BTreeSet<String>) -> bool {
        let is_outside = |expression: &str| self.is_outside(expression, of_classes);
        let is_part = |target: &str| {
            let is_part = |one: &&str| one.contains(['.', '[']) || self.declared.contains(one.trim());
            without_annotation(target).split([',', ':']).filter(is_part).any(is_outside)
        };
        let receiver = |before: &str| before[before.rfind(ends_expression).map_or(0, |at| at + 1)..].to_owned();
        self.assigns_declared(text)
            || targets(text).any(is_part)
            || loop_and_context_targets(text).any(is_part)
            || text.strip_prefix("del ").is_some_and(is_part)
            || SETTING.iter().any(|call| text.split_once(call).is_some_and(|(_, given)| is_outside(given)))
            || CHANGING.iter().any(|call| text.match_indices(call).any(|(at, _)| is_outside(&receiver(&text[..at]))))
            || RUNNING.iter().any(|call| text.match_indices(call).any(|(at, _)| is_bare(&text[..at])))
            || self.names_what_is_changed(text)
    }

    /// Whether a statement assigns to a name that the function declares to be outside of it, as a pattern may do, too.
    fn assigns_declared(&self, text: &str) -> bool {
        let is_declared = |name: &str| self.declared.contains(name);
        declaration(text).is_none() && bound_names(text).into_iter().any(is_declared)
            || text.starts_with("case ") && words_of(text).any(is_declared)
    }

    fn is_outside(&self, expression: &str, of_classes: &BTreeSet<String>) -> bool {
        let expression = expression.trim_start_matches(|c: char| matches!(c, '(' | '*') || c.is_whitespace());
        let name = words_of(expression).next().unwrap_or_default();
        let is_name = expression.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let of_self = expression.strip_prefix("self.").map_or("", |rest| words_of(rest).next().unwrap_or_default());
        let is_shared = || {
            let rest = expression.trim_end().strip_prefix("self.").and_then(|rest| rest.strip_prefix(of_self));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])) && of_classes.contains(of_self)
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

/// Whether a name behind this text is not a part of another one.
fn is_bare(before: &str) -> bool {
    !before.ends_with(|c: char| is_word(c) || c == '.')
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

    /// A function around a statement.
    const AROUND: &str = "
class C:
    shared = {}
    if shared:
        least = most = {}; values: dict
    def around(self, fewest=0):
        around = {}
        def f(self, a,
          other=D):
            r'D: the table'
            global MODE
            own = {}
            for item in a:
                pass
            with a as one, b as two:
                pass
            given['k'] = call(
                D=D, D,
                E=E,
            )
            LINE
        return f
";

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
            ("return f'a; {KNOWN.append(a)}'", true),
            ("return f'KNOWN.append({a})'", false),
            ("'for KNOWN.k in a as KNOWN.l'", false),
            ("own[0] = 1  # KNOWN['k'] = 2", false),
            ("KNOWN['an own'].append(1)", true),
            ("KNOWN['('] = a", true),
            ("exec('KNOWN.append(1)')", true),
            ("own.eval(literal_eval(a))", false),
            ("self.other = a", false),
            ("self.shared = a", true),
            ("self.least['k'] = 9", true),
            ("self.around.last = 9", true),
            ("self.fewest['k'] = 9", false),
            ("self.values['k'] = 9", true),
            ("if a: nonlocal around", true),
            ("(MODE := 3)", true),
            ("import MODE", true),
            ("case [MODE, *_]: pass", true),
        ] {
            let text = AROUND.replace("LINE", line);
            let before = AROUND[..AROUND.find("LINE").unwrap()].matches('\n').count();
            let first = u32::try_from(before + 1).unwrap();
            let lines = [LineSpan { first, last: first }];
            assert_eq!(stores_outside(&text, &lines, |_| true), stores, "{line}");
        }
        let text = "def f():\n    if a:\n        KNOWN[a] = 1\n    return 2\n";
        let last = [LineSpan { first: 4, last: 9 }];
        assert!(!stores_outside(text, &last, |_| true));
        assert!(stores_outside(text, &last, |_| false), "another store may run now");
        let declaring = "def f(a):\n    '''Fills KNOWN for a; as KNOWN[1] = a.'''\n    global MODE\n    return 2\n    ";
        assert!(!stores_outside(declaring, &last, |_| false), "neither a documentation string nor a declaration runs");
        let outer = |binding: &str| {
            let inner = "def inner():\n        nonlocal hits\n        hits += 1\n    return inner\n";
            stores_outside(&format!("def f():\n    {binding}\n    {inner}"), &[LineSpan { first: 2, last: 2 }], |_| {
                false
            })
        };
        assert!(!outer("hits = misses = 0") && !outer("hits: int = 0"), "a variable of the function itself");
        assert!(outer("misses = 0") && outer("class C: hits = 0") && outer("nonlocal hits; hits = 0"));
        for store in ["MODE = a", "KNOWN[1] = a", "for MODE in a: pass"] {
            let text = format!("{declaring}{store}\n");
            assert!(stores_outside(&text, &[LineSpan { first: 4, last: 4 }], |_| false), "{store}");
        }
        assert!(stores_outside("def f(:\n", &[LineSpan { first: 1, last: 1 }], |_| true), "a text that cannot be read");
    }
}
