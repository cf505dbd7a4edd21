//! Reads the text of a Go function token by token, with what its names stand for at each of them.

use super::declarations::locally_declared_names;
use super::local_names::{LocalName, LocalNames};
use super::outer_names::OuterNames;
use super::tokens::{GoToken, GoTokenKind, go_tokens};
use std::collections::HashMap;

/// An open bracket.
#[derive(Debug)]
struct Bracket {
    at: usize,
    /// Where the statement begins that is being read in it.
    statement: usize,
}

/// What an operand such as `price.Table[i].Rows` begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Local(LocalName),
    /// A package variable that a call may change.
    Variable,
    /// Another name that the function does not declare.
    Outer,
}

/// A name with its selectors, indices and type assertions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operand {
    pub(super) head: Head,
    /// The token behind it.
    pub(super) end: usize,
    pub(super) has_parts: bool,
    pub(super) has_selector: bool,
}

impl Operand {
    /// What a name stands for that is given its value; `None` for one that has nothing to do with a package variable.
    pub(super) fn value(&self) -> Option<LocalName> {
        match self.head {
            Head::Local(LocalName::Own) | Head::Outer => None,
            Head::Variable | Head::Local(LocalName::OfVariable) if !self.has_parts => Some(LocalName::OfVariable),
            Head::Variable | Head::Local(_) => Some(LocalName::PartOfVariable),
        }
    }

    /// Whether it begins with something that is not the function's own.
    pub(super) fn is_outside(&self) -> bool {
        self.head != Head::Local(LocalName::Own)
    }
}

/// A function up to one of its tokens.
pub(super) struct FunctionReader<'t, 'n> {
    /// With a `;` for each end of a statement, and without comments.
    tokens: Vec<GoToken<'t>>,
    /// For each opening bracket its closing one.
    closing: HashMap<usize, usize>,
    outer: &'n OuterNames,
    local: LocalNames<'t>,
    open: Vec<Bracket>,
    /// Bodies of functions by their brackets, with their parameters.
    bodies: HashMap<usize, Vec<&'t str>>,
}

impl<'t, 'n> FunctionReader<'t, 'n> {
    /// A reader before the first token of a text that begins with `func`; `None` if it cannot be read.
    pub(super) fn new(text: &'t str, outer: &'n OuterNames) -> Option<FunctionReader<'t, 'n>> {
        let mut tokens: Vec<GoToken<'t>> = Vec::new();
        for token in go_tokens(text) {
            match token.kind {
                GoTokenKind::Unreadable => return None,
                _ if token.ends_line() && tokens.last().is_some_and(GoToken::ends_statement) => {
                    tokens.push(GoToken { kind: GoTokenKind::Sign, text: ";", ..token });
                }
                GoTokenKind::Comment | GoTokenKind::LineEnd => {}
                _ => tokens.push(token),
            }
        }
        let (mut closing, mut open) = (HashMap::new(), Vec::new());
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == GoTokenKind::Sign) {
            match token.text {
                "(" | "[" | "{" => open.push(at),
                ")" | "]" | "}" => _ = closing.insert(open.pop()?, at),
                _ => {}
            }
        }
        let is_read = open.is_empty() && tokens.first().is_some_and(|first| first.text == "func");
        let (local, bodies) = (LocalNames::default(), HashMap::new());
        is_read.then(|| FunctionReader { tokens, closing, outer, local, open: Vec::new(), bodies })
    }

    /// The token at `at`, which is read next.
    pub(super) fn next(&mut self, at: usize) -> Option<GoToken<'t>> {
        self.local.read_to(at);
        self.tokens.get(at).copied()
    }

    /// Reads the token at `at`; returns where the next one is that is of a statement.
    pub(super) fn read(&mut self, at: usize) -> usize {
        match self.tokens[at].kind {
            GoTokenKind::Word if self.text(at) == "func" => return self.read_signature(at),
            GoTokenKind::Word => self.read_keyword(at),
            GoTokenKind::Sign => self.read_sign(at),
            _ => {}
        }
        at + 1
    }

    /// The text of a token; empty behind the last.
    pub(super) fn text(&self, at: usize) -> &'t str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// The text of the token before; empty for the first.
    pub(super) fn before(&self, at: usize) -> &'t str {
        at.checked_sub(1).map_or("", |before| self.text(before))
    }

    pub(super) fn is_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(GoToken::is_name)
    }

    /// Whether an operand ends before a token, so that a sign here is an operator between two, and a bracket one of a call.
    pub(super) fn is_behind_operand(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.tokens[before]) else { return false };
        before.is_name() || before.kind == GoTokenKind::Literal || matches!(before.text, ")" | "]" | "}")
    }

    /// The innermost open bracket.
    pub(super) fn bracket(&self) -> Option<usize> {
        self.open.last().map(|bracket| bracket.at)
    }

    /// The first token of the statement.
    pub(super) fn statement(&self) -> usize {
        self.open.last().map_or(0, |bracket| bracket.statement)
    }

    fn begin_statement(&mut self, at: usize) {
        self.open.iter_mut().rev().take(1).for_each(|bracket| bracket.statement = at);
    }

    /// Whether this is in the head of an `if`, `for`, `switch` or `select`, where a bracket `{` behind a name begins a block.
    pub(super) fn is_in_head(&self) -> bool {
        self.local.is_in_head(self.open.len())
    }

    /// Reads `func` up to the body, or up to what is behind the type.
    fn read_signature(&mut self, func: usize) -> usize {
        let mut names = Vec::new();
        let mut at = func + 1;
        // The receiver, the name and its types, the parameters, the results. Before a body there is nothing else.
        loop {
            match self.text(at) {
                "(" => {
                    names.extend(self.parameters(at));
                    at = self.behind(at);
                }
                "[" => at = self.behind(at),
                "{" if matches!(self.before(at), "struct" | "interface") => at = self.behind(at),
                // As in `[]func(){first, second}`.
                "{" if self.before(func) != "]" => {
                    self.bodies.insert(at, names);
                    return at;
                }
                // The parameters of a type are no names of the function.
                "func" if self.text(at + 1) == "(" => at = self.behind(at + 1),
                "." | "*" | "<-" | "chan" | "map" | "struct" | "interface" | "func" => at += 1,
                _ if self.is_name(at) => at += 1,
                _ => return at,
            }
        }
    }

    /// The names between these brackets of a function: the first words, but no types of packages.
    fn parameters(&self, open: usize) -> Vec<&'t str> {
        let (mut names, mut at) = (Vec::new(), open + 1);
        let mut is_first = true;
        while at < self.closing[&open] {
            if is_first && self.is_name(at) && self.text(at + 1) != "." {
                names.push(self.text(at));
            }
            is_first = self.text(at) == ",";
            at = self.behind(at);
        }
        names
    }

    /// The token behind this one, or behind the bracket that closes it.
    fn behind(&self, at: usize) -> usize {
        self.closing.get(&at).copied().unwrap_or(at) + 1
    }

    fn read_keyword(&mut self, at: usize) {
        let depth = self.open.len();
        match self.text(at) {
            "if" | "for" | "switch" | "select" => {
                self.begin_statement(at);
                self.local.open_head(depth);
            }
            "case" | "default" => {
                self.begin_statement(at);
                self.local.end_heads(depth);
                self.local.begin_case();
            }
            "var" | "const" | "type" => {
                let end = self.end_of_value(at + 1);
                let declaration = &self.tokens[at + 1..end];
                let equals = declaration.iter().position(|token| token.is_sign("=")).map(|equals| at + 1 + equals);
                let value = match declaration.first() {
                    Some(first) if first.is_sign("(") => self.value_within(at + 2, end),
                    _ => equals.and_then(|equals| self.value_of(equals + 1, end)),
                };
                let local = value.unwrap_or(LocalName::Own);
                for name in locally_declared_names(declaration) {
                    self.local.declare(name, local, end);
                }
            }
            _ => {}
        }
    }

    fn read_sign(&mut self, at: usize) {
        match self.text(at) {
            bracket @ ("(" | "[" | "{") => {
                self.open.push(Bracket { at, statement: at + 1 });
                if bracket == "{" {
                    let parameters = self.bodies.remove(&at).unwrap_or_default();
                    self.local.open(self.open.len(), parameters);
                }
            }
            bracket @ (")" | "]" | "}") => {
                if bracket == "}" {
                    self.local.close(self.open.len());
                }
                self.open.pop();
            }
            ";" => {
                if self.before(at) == "}" {
                    self.local.end_heads(self.open.len());
                }
                self.begin_statement(at + 1);
            }
            ":" => self.begin_statement(at + 1),
            ":=" => self.declare(at),
            "=" => self.assign(at),
            _ => {}
        }
    }

    /// The token behind a value that begins here: the end of the statement, or of the part before a block.
    fn end_of_value(&self, from: usize) -> usize {
        let (is_head, is_case) = (self.is_in_head(), self.text(self.statement()) == "case");
        let mut at = from;
        while at < self.tokens.len() {
            match self.text(at) {
                ";" | ")" | "]" | "}" => break,
                ":" if is_case => break,
                "{" if is_head => break,
                _ => at = self.behind(at),
            }
        }
        at
    }

    /// What a name stands for that is given one of the values between these tokens.
    fn value_of(&self, from: usize, end: usize) -> Option<LocalName> {
        let is_range = self.text(from) == "range";
        let from = from + usize::from(is_range);
        let mut at = from;
        let mut found = None;
        while at < end {
            let is_first = at == from || self.before(at) == ",";
            // As in `(table)` and `*settings`.
            let mut name = at;
            while matches!(self.text(name), "(" | "*") {
                name += 1;
            }
            if is_first && self.is_name(name) {
                let operand = self.operand(name);
                let is_whole = name > at || operand.end == end || self.text(operand.end) == ",";
                found = found.or(operand.value().filter(|_| is_whole));
            }
            at = self.behind(at);
        }
        found.map(|value| if is_range { LocalName::PartOfVariable } else { value })
    }

    /// The same for any of several declarations between these tokens.
    fn value_within(&self, from: usize, end: usize) -> Option<LocalName> {
        let is_operand = |at: &usize| self.is_name(*at) && self.before(*at) != ".";
        (from..end).filter(is_operand).find_map(|at| self.operand(at).value())
    }

    /// Declares the names before `:=`.
    fn declare(&mut self, at: usize) {
        let end = self.end_of_value(at + 1);
        let local = self.value_of(at + 1, end).unwrap_or(LocalName::Own);
        let mut name = at;
        while let Some(before) = name.checked_sub(1).filter(|before| self.is_name(*before)) {
            self.local.declare(self.text(before), local, end);
            match before.checked_sub(1) {
                Some(comma) if self.text(comma) == "," => name = comma,
                _ => break,
            }
        }
    }

    /// Gives the names before `=` the value of a package variable, if it is one.
    fn assign(&mut self, at: usize) {
        let Some(value) = self.value_of(at + 1, self.end_of_value(at + 1)) else { return };
        for target in self.targets(at) {
            self.local.assign(self.text(target), value);
        }
    }

    /// Where the targets of an assignment with this sign begin; none for a declaration.
    pub(super) fn targets(&self, at: usize) -> Vec<usize> {
        let first = self.statement();
        let is_declaration = |keyword: &str| matches!(keyword, "var" | "const" | "type");
        if is_declaration(self.text(first)) || self.bracket().is_some_and(|open| is_declaration(self.before(open))) {
            return Vec::new();
        }
        let mut target = first + usize::from(matches!(self.text(first), "if" | "for" | "switch" | "case"));
        let mut targets = Vec::new();
        while target < at {
            targets.push(target);
            while target < at && self.text(target) != "," {
                target = self.behind(target);
            }
            target += 1;
        }
        targets
    }

    /// The operand whose first name is here.
    pub(super) fn operand(&self, at: usize) -> Operand {
        let name = self.text(at);
        let is_imported = |selected: &str| self.outer.variables.contains(&format!("{name}.{selected}"));
        let (head, begin) = match self.local.get(name) {
            Some(local) => (Head::Local(local), at + 1),
            None if self.outer.variables.contains(name) => (Head::Variable, at + 1),
            None if self.text(at + 1) == "." && is_imported(self.text(at + 2)) => (Head::Variable, at + 3),
            None => (Head::Outer, at + 1),
        };
        let (mut end, mut has_selector) = (begin, false);
        loop {
            match self.text(end) {
                "." if self.is_name(end + 1) => {
                    has_selector = true;
                    end += 2;
                }
                "." if self.text(end + 1) == "(" => end = self.behind(end + 1),
                "[" => end = self.behind(end),
                _ => break,
            }
        }
        Operand { head, end, has_parts: end > begin, has_selector }
    }
}
