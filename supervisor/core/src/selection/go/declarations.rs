//! The declarations of a Go source outside of functions, told by tokens.

use super::tokens::{GoToken, GoTokenKind, go_tokens};

/// Types of values that no function can change, without its address.
const BASIC_TYPES: [&str; 20] = [
    "bool",
    "string",
    "error",
    "byte",
    "rune",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uintptr",
    "float32",
    "float64",
    "complex64",
    "complex128",
];

/// Calls for values that no function changes.
const FIXED_VALUES: [&[&str]; 6] = [
    &["errors", ".", "New"],
    &["fmt", ".", "Errorf"],
    &["regexp", ".", "MustCompile"],
    &["regexp", ".", "MustCompilePOSIX"],
    &["reflect", ".", "TypeOf"],
    &["strings", ".", "NewReplacer"],
];

/// Whether a word is a predeclared type of plain values.
pub(super) fn is_basic_type(word: &str) -> bool {
    BASIC_TYPES.contains(&word)
}

/// A declaration outside of functions.
pub(super) struct Declaration<'t> {
    /// Its tokens without comments, the ends of its lines included.
    pub(super) tokens: Vec<GoToken<'t>>,
    /// From the first token to the last.
    pub(super) text: &'t str,
}

impl<'t> Declaration<'t> {
    /// `package`, `import`, `func`, `var`, `const` or `type`.
    pub(super) fn keyword(&self) -> &'t str {
        self.tokens.first().map_or("", |token| token.text)
    }

    /// The declared names; of a method also the words of its receiver.
    pub(super) fn names(&self) -> Vec<&'t str> {
        match self.keyword() {
            "func" => function_names(&self.tokens[1..]),
            "var" | "const" | "type" => declared_names(&self.tokens[1..]),
            _ => Vec::new(),
        }
    }

    /// The packages that it imports.
    pub(super) fn imports(&self) -> Vec<Import<'t>> {
        let is_import = self.keyword() == "import";
        let paths = (1..self.tokens.len()).filter(|at| is_import && self.tokens[*at].kind == GoTokenKind::Literal);
        let import = |at: usize| {
            let before = self.tokens[at - 1];
            let alias = match (before.kind, before.text) {
                (GoTokenKind::Word, "import") | (GoTokenKind::LineEnd, _) | (GoTokenKind::Sign, "(" | ";") => None,
                (_, alias) => Some(alias),
            };
            Import { alias, path: self.tokens[at].text.trim_matches(['"', '`']) }
        };
        paths.map(import).collect()
    }

    /// The variables that it declares and that a function may change which is given their value: none that hold an error, a basic value,
    /// or another one that stays as it is.
    pub(super) fn changeable_variables(&self) -> Vec<&'t str> {
        let specs = if self.keyword() == "var" { specs(&self.tokens[1..]) } else { Vec::new() };
        let changeable = specs.into_iter().filter(|spec| !is_fixed(spec) && !is_error(spec));
        changeable.flat_map(|spec| declared_names(declared_part(spec))).filter(|name| *name != "_").collect()
    }
}

/// An imported package.
pub(super) struct Import<'t> {
    /// Its name in the file, as `_` or `.`; `None` for the package's own.
    pub(super) alias: Option<&'t str>,
    pub(super) path: &'t str,
}

/// The declarations of a source; `None` if it cannot be read.
pub(super) fn declarations(text: &str) -> Option<Vec<Declaration<'_>>> {
    let mut declarations = Vec::new();
    let mut statement: Vec<GoToken<'_>> = Vec::new();
    let mut depth = 0_usize;
    for token in go_tokens(text) {
        match (token.kind, token.text) {
            (GoTokenKind::Unreadable, _) => return None,
            (GoTokenKind::Comment, _) => {}
            (_, "(" | "[" | "{") => depth += 1,
            (_, ")" | "]" | "}") => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if token.kind == GoTokenKind::LineEnd || token.is_sign(";") {
            if depth == 0 && statement.last().is_some_and(GoToken::ends_statement) {
                declarations.extend(declaration(text, &std::mem::take(&mut statement))?);
            } else {
                statement.push(token);
            }
        } else if token.kind != GoTokenKind::Comment {
            statement.push(token);
        }
        // A comment over several lines ends a statement, too; what follows is taken for a part of it, which is wider.
    }
    declarations.extend(declaration(text, &statement)?);
    (depth == 0).then_some(declarations)
}

/// The declaration of a statement outside of functions, if it has any token; `None` if it is none that is known.
fn declaration<'t>(text: &'t str, statement: &[GoToken<'t>]) -> Option<Option<Declaration<'t>>> {
    let is_line_end = |token: &&GoToken<'_>| token.kind == GoTokenKind::LineEnd;
    let tokens = &statement[statement.iter().take_while(is_line_end).count()..];
    let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { return Some(None) };
    let is_known = matches!(first.text, "package" | "import" | "func" | "var" | "const" | "type");
    let text = &text[first.at..last.at + last.text.len()];
    is_known.then(|| Some(Declaration { tokens: tokens.to_vec(), text }))
}

/// The name of a function, and of a method also the words of its receiver.
fn function_names<'t>(rest: &[GoToken<'t>]) -> Vec<&'t str> {
    let mut names = Vec::new();
    let mut is_receiver = false;
    for token in rest {
        match (token.kind, token.text) {
            (GoTokenKind::Sign, "(") if names.is_empty() && !is_receiver => is_receiver = true,
            (GoTokenKind::Sign, ")") if is_receiver => is_receiver = false,
            (GoTokenKind::Word, name) => {
                names.push(name);
                if !is_receiver {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The names that `var`, `const` or `type` declares: the first words of each of its lines, with those behind commas.
fn declared_names<'t>(rest: &[GoToken<'t>]) -> Vec<&'t str> {
    let is_group = rest.first().is_some_and(|token| token.is_sign("("));
    let level = usize::from(is_group);
    let mut names = Vec::new();
    let (mut depth, mut is_name) = (0_usize, true);
    for token in rest {
        match (token.kind, token.text) {
            (GoTokenKind::Sign, "(" | "[" | "{") => depth += 1,
            (GoTokenKind::Sign, ")" | "]" | "}") => depth = depth.saturating_sub(1),
            (GoTokenKind::Word, name) if depth == level && is_name => {
                names.push(name);
                is_name = false;
            }
            (GoTokenKind::Sign, "," | ";") | (GoTokenKind::LineEnd, _) if depth == level => is_name = true,
            _ if depth == level => is_name = false,
            _ => {}
        }
    }
    names
}

/// The names that a statement of a function declares, behind its `var`, `const` or `type`.
pub(super) fn locally_declared_names<'t>(rest: &[GoToken<'t>]) -> Vec<&'t str> {
    specs(rest).into_iter().flat_map(|spec| declared_names(declared_part(spec))).collect()
}

/// Of a line of a declaration what is before its values.
fn declared_part<'s, 't>(spec: &'s [GoToken<'t>]) -> &'s [GoToken<'t>] {
    spec.split(|token| token.is_sign("=")).next().unwrap_or_default()
}

/// The lines of a declaration, each with its names, type and values.
fn specs<'s, 't>(rest: &'s [GoToken<'t>]) -> Vec<&'s [GoToken<'t>]> {
    let Some((_, group)) = rest.split_first().filter(|(first, _)| first.is_sign("(")) else { return vec![rest] };
    let (mut specs, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, token) in group.iter().enumerate() {
        match (token.kind, token.text) {
            (GoTokenKind::Sign, "(" | "[" | "{") => depth += 1,
            (GoTokenKind::Sign, ")" | "]" | "}") => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_end = token.kind == GoTokenKind::LineEnd || token.is_sign(";");
        if depth == 0 && is_end && at > 0 && group[at - 1].ends_statement() {
            specs.push(&group[start..at]);
            start = at + 1;
        }
    }
    specs.push(&group[start..]);
    specs
}

/// Whether a line of a `var` declares a variable with the name of an error, as `ErrGone = newError()`, and no table of them.
fn is_error(spec: &[GoToken<'_>]) -> bool {
    let mut words = spec.iter().skip_while(|token| token.kind == GoTokenKind::LineEnd);
    let rest = words.next().and_then(|name| ["Err", "err"].iter().find_map(|start| name.text.strip_prefix(start)));
    let is_named = rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_uppercase()));
    let is_value = words.next().is_some_and(|sign| sign.is_sign("="));
    let is_table =
        |token: &GoToken<'_>| matches!(token.text, "[" | "atomic" | "chan" | "make" | "map" | "new" | "sync");
    // As in `newError()` and `&HTTPError{}`.
    let says_error = |token: &GoToken<'_>| token.text.to_ascii_lowercase().contains("err");
    is_named && is_value && !words.clone().any(is_table) && words.any(says_error)
}

/// Whether the variables of a line of a `var` hold values that no function can change.
fn is_fixed(spec: &[GoToken<'_>]) -> bool {
    let blank = spec.iter().take_while(|token| token.kind == GoTokenKind::LineEnd).count();
    let spec = &spec[blank..];
    let declared = declared_part(spec);
    // As in `a, b string`; not in `a []string`.
    let has_basic_type = matches!(declared, [.., name, of] if name.is_name() && is_basic_type(of.text));
    let value = spec.get(declared.len() + 1..).unwrap_or_default();
    let is_plain = |token: &GoToken<'_>| token.kind != GoTokenKind::Word || matches!(token.text, "true" | "false");
    let starts_with =
        |call: &&[&str]| value.len() > call.len() && value.iter().zip(*call).all(|(token, word)| token.text == *word);
    has_basic_type
        || !value.is_empty() && value.iter().all(is_plain)
        || declared.len() == 1 && FIXED_VALUES.iter().any(starts_with)
}
