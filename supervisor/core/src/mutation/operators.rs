//! The changes: which tokens of a language become which others. A change that a compiler or a formatter's habits forbid is
//! left out where the tokens show it; the rest is left to the compiler.

use super::tokens::{Kind, Token, ends_operand};
use super::{Language, Mutant};

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `<` becomes `<=`, `==` becomes `!=`, `in` becomes `not in`.
    Comparison,
    /// `+` becomes `-`.
    Arithmetic,
    /// `and` becomes `or`; a negation is removed.
    Boolean,
    /// `true` becomes `false`.
    Literal,
    /// An integer grows by one.
    Integer,
    /// A returned value is replaced by the language's nothing.
    ReturnValue,
    /// A statement that is a call is removed.
    Call,
    /// `break` becomes `continue`.
    LoopControl,
    /// A condition is negated.
    Condition,
}

impl Operator {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operator::Comparison => "comparison",
            Operator::Arithmetic => "arithmetic",
            Operator::Boolean => "boolean",
            Operator::Literal => "literal",
            Operator::Integer => "integer",
            Operator::ReturnValue => "return_value",
            Operator::Call => "call",
            Operator::LoopControl => "loop_control",
            Operator::Condition => "condition",
        }
    }
}

/// Binary operators and what they become. Words are of Python; the rest is an operator of the language or never a token in it.
const BINARY: [(&str, &str, Operator); 27] = [
    ("<", "<=", Operator::Comparison),
    ("<=", "<", Operator::Comparison),
    (">", ">=", Operator::Comparison),
    (">=", ">", Operator::Comparison),
    ("==", "!=", Operator::Comparison),
    ("!=", "==", Operator::Comparison),
    ("===", "!==", Operator::Comparison),
    ("!==", "===", Operator::Comparison),
    ("+", "-", Operator::Arithmetic),
    ("-", "+", Operator::Arithmetic),
    ("*", "/", Operator::Arithmetic),
    ("/", "*", Operator::Arithmetic),
    ("%", "*", Operator::Arithmetic),
    ("//", "*", Operator::Arithmetic),
    ("**", "*", Operator::Arithmetic),
    ("+=", "-=", Operator::Arithmetic),
    ("-=", "+=", Operator::Arithmetic),
    ("*=", "/=", Operator::Arithmetic),
    ("/=", "*=", Operator::Arithmetic),
    ("++", "--", Operator::Arithmetic),
    ("--", "++", Operator::Arithmetic),
    ("&&", "||", Operator::Boolean),
    ("||", "&&", Operator::Boolean),
    ("??", "&&", Operator::Boolean),
    ("and", "or", Operator::Boolean),
    ("or", "and", Operator::Boolean),
    ("is", "is not", Operator::Comparison),
];

const LITERALS: [(&str, &str); 4] = [("true", "false"), ("false", "true"), ("True", "False"), ("False", "True")];

/// Words that begin a line whose tokens are declarations: of types, or of what is imported.
const DECLARATIONS: [&str; 5] = ["import", "interface", "declare", "package", "from"];

/// Beginnings of calls that only inform a person: no test should have to notice that they are gone.
const INFORMING_CALLS: [&str; 9] =
    ["print", "log", "logger", "logging", "console", "warnings", "debug", "fmt", "_logger"];

/// Words that begin a statement which is no call.
const STATEMENT_WORDS: [&str; 32] = [
    "if", "for", "while", "switch", "return", "catch", "func", "function", "def", "class", "elif", "else", "with",
    "assert", "del", "raise", "throw", "yield", "await", "not", "lambda", "go", "defer", "select", "case", "super",
    "except", "do", "try", "async", "import", "typeof",
];

/// Every change of these tokens.
pub(super) fn mutants(language: Language, text: &str, tokens: &[Token<'_>]) -> Vec<Mutant> {
    let source = Source { language, text, tokens, fors: loops_in(tokens), blocks: blocks(tokens) };
    (0..tokens.len()).filter(|index| !source.is_in_declaration(*index)).flat_map(|index| source.at(index)).collect()
}

struct Source<'a> {
    language: Language,
    text: &'a str,
    tokens: &'a [Token<'a>],
    /// Indices of each `in` that belongs to a `for`.
    fors: Vec<usize>,
    /// For each `break`, whether it leaves a `switch` and no loop.
    blocks: Vec<usize>,
}

impl<'a> Source<'a> {
    fn at(&self, index: usize) -> Vec<Mutant> {
        let found = [
            self.binary(index),
            self.python_words(index),
            self.negation(index),
            self.literal(index),
            self.integer(index),
            self.return_value(index),
            self.call(index),
            self.loop_control(index),
            self.condition(index),
        ];
        found.into_iter().flatten().collect()
    }

    fn token(&self, index: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(index)
    }

    fn previous(&self, index: usize) -> Option<&'a Token<'a>> {
        self.token(index.checked_sub(1)?)
    }

    fn is(&self, index: usize, text: &str) -> bool {
        self.token(index).is_some_and(|token| token.is(text))
    }

    fn mutant(&self, operator: Operator, first: usize, end: usize, replacement: impl Into<String>) -> Option<Mutant> {
        let token = self.token(first)?;
        Some(Mutant { line: token.line, operator, range: token.start..end, replacement: replacement.into() })
    }

    fn replaced(&self, operator: Operator, index: usize, replacement: &str) -> Option<Mutant> {
        self.mutant(operator, index, self.token(index)?.end(), replacement)
    }

    /// Whether an operand ends before the token. In TypeScript a `!` behind one belongs to it.
    fn follows_operand(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1) else { return false };
        let is_assertion = self.is(before, "!") && self.language == Language::TypeScript;
        ends_operand(&self.tokens[before]) || is_assertion && self.previous(before).is_some_and(ends_operand)
    }

    /// Index of the first token of the line of a token.
    fn line_start(&self, index: usize) -> usize {
        let line = self.tokens[index].line;
        (0..=index).rev().take_while(|other| self.tokens[*other].line == line).last().unwrap_or(index)
    }

    fn is_first_in_line(&self, index: usize) -> bool {
        self.line_start(index) == index
    }

    /// Index behind the last token of the line of a token.
    fn line_end(&self, index: usize) -> usize {
        let line = self.tokens[index].line;
        (index..self.tokens.len()).find(|other| self.tokens[*other].line != line).unwrap_or(self.tokens.len())
    }

    fn is_in_declaration(&self, index: usize) -> bool {
        let start = self.line_start(index);
        let first = &self.tokens[start];
        let second = self.token(start + 1);
        let is_type = |token: &Token<'_>| token.is("type") || token.is("interface");
        match self.language {
            _ if DECLARATIONS.contains(&first.text) && first.kind == Kind::Word => true,
            Language::TypeScript => is_type(first) || first.is("export") && second.is_some_and(is_type),
            Language::Go => first.is("type"),
            Language::Python => second.is_some_and(|second| second.is("TYPE_CHECKING") || second.is("__name__")),
            Language::JavaScript => false,
        }
    }

    fn has_space(&self, at: Option<usize>) -> bool {
        at.and_then(|at| self.text.as_bytes().get(at)).is_none_or(u8::is_ascii_whitespace)
    }

    /// An operator between two operands. Signs, pointers, type arguments and unpacked arguments have another shape.
    fn binary(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index)?;
        let (_, becomes, operator) = BINARY.iter().find(|(known, _, _)| token.is(known))?;
        if token.kind == Kind::Text || (token.kind == Kind::Word && self.language != Language::Python) {
            return None;
        }
        let previous = self.previous(index)?;
        if !self.follows_operand(index) {
            return None;
        }
        let next = self.token(index + 1);
        let (before, after) = (self.has_space(token.start.checked_sub(1)), self.has_space(Some(token.end())));
        let is_step = matches!(token.text, "++" | "--");
        if !is_step && (before != after || next.is_none()) {
            return None;
        }
        // A Python that is told to unpack has no operand before; a Go pointer type follows its brackets.
        let is_pointer = self.language == Language::Go && token.is("*") && previous.is("]");
        let is_type_argument = self.language.is_script() && matches!(token.text, "<" | ">") && !(before && after);
        // Of strings there is only a sum, and a format.
        let is_of_text = *operator == Operator::Arithmetic
            && (previous.kind == Kind::Text || next.is_some_and(|next| next.kind == Kind::Text));
        if is_pointer || is_type_argument || is_of_text || (token.is("is") && self.is(index + 1, "not")) {
            return None;
        }
        self.replaced(*operator, index, becomes)
    }

    /// `is not`, `not in`, `in` and `not` of Python.
    fn python_words(&self, index: usize) -> Option<Mutant> {
        if self.language != Language::Python {
            return None;
        }
        let (token, next) = (self.token(index)?, self.token(index + 1)?);
        let previous = self.previous(index);
        match token.text {
            "is" if next.is("not") => self.mutant(Operator::Comparison, index, next.end(), "is"),
            "not" if next.is("in") => self.mutant(Operator::Comparison, index, next.end(), "in"),
            "not" if previous.is_some_and(|previous| previous.is("is")) => None,
            "not" if next.line == token.line => self.mutant(Operator::Boolean, index, next.start, ""),
            "in" if previous.is_some_and(ends_operand) && !self.fors.contains(&index) => {
                self.replaced(Operator::Comparison, index, "not in")
            }
            _ => None,
        }
    }

    /// `!` before an operand.
    fn negation(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index)?;
        let is_negation = token.is("!") && self.language != Language::Python && !self.has_space(Some(token.end()));
        if is_negation && !self.follows_operand(index) { self.replaced(Operator::Boolean, index, "") } else { None }
    }

    /// Whether the token is a part of a union of types, or a key.
    fn is_type_or_key(&self, index: usize) -> bool {
        let is_union = |token: &Token<'_>| token.is("|") || token.is("as");
        let is_key = self.language.is_script() && self.is(index + 1, ":");
        is_key
            || self.language == Language::TypeScript
                && (self.previous(index).is_some_and(is_union) || self.token(index + 1).is_some_and(is_union))
    }

    fn literal(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index).filter(|token| token.kind == Kind::Word)?;
        let (_, becomes) = LITERALS.iter().find(|(known, _)| *known == token.text)?;
        let is_of_language = (self.language == Language::Python) == token.text.starts_with(char::is_uppercase);
        let is_member = self.previous(index).is_some_and(|previous| previous.is("."));
        if is_of_language && !is_member && !self.is_type_or_key(index) {
            self.replaced(Operator::Literal, index, becomes)
        } else {
            None
        }
    }

    fn integer(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index).filter(|token| token.kind == Kind::Integer)?;
        let value: u64 = token.text.replace('_', "").parse().ok()?;
        let in_literal_type =
            self.language == Language::Python && self.is(index.wrapping_sub(2), "Literal") && self.is(index - 1, "[");
        if in_literal_type || self.is_type_or_key(index) {
            return None;
        }
        self.replaced(Operator::Integer, index, &(value + 1).to_string())
    }

    /// Index of the bracket that closes the one at `open`, if it is in the same line.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_u32;
        for index in open..self.line_end(open) {
            match self.tokens[index].text {
                _ if self.tokens[index].kind != Kind::Op => {}
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(index);
            }
        }
        None
    }

    /// Whether the statement ends behind the token `last`, so that nothing of the next line belongs to it.
    fn ends_statement(&self, last: usize) -> bool {
        let end = self.tokens[last].end();
        let rest = self.text[end..].split('\n').next().unwrap_or_default();
        match self.token(last + 1) {
            None => true,
            Some(next) if next.line == self.tokens[last].line => next.is(";") || next.is("}"),
            Some(next) => {
                let continues = self.language.is_script()
                    && (next.kind == Kind::Text
                        || next.kind == Kind::Op && !matches!(next.text, "}" | "{" | "@" | "#" | ";"));
                !rest.trim_end().ends_with('\\') && !continues
            }
        }
    }

    /// The value of a `return` in one line.
    fn return_value(&self, index: usize) -> Option<Mutant> {
        if !self.is(index, "return") || self.token(index)?.kind != Kind::Word {
            return None;
        }
        let mut at = index + 1;
        let mut last_part = at;
        let line_end = self.line_end(index);
        while at < line_end && !self.is(at, ";") && !self.is(at, "}") {
            if self.tokens[at].kind == Kind::Op && matches!(self.tokens[at].text, "(" | "[" | "{") {
                at = self.closing(at)?;
            } else if self.is(at, ",") {
                last_part = at + 1;
            }
            at += 1;
        }
        let last = at.checked_sub(1).filter(|last| *last > index)?;
        let is_complete = ends_operand(&self.tokens[last]) || self.is(last, "}");
        if !is_complete || !self.ends_statement(last) {
            return None;
        }
        let end = self.tokens[last].end();
        let is_single = last == index + 1;
        let first = self.tokens[index + 1].text;
        match self.language {
            Language::Python if is_single && ["None", "True", "False"].contains(&first) => None,
            Language::Python => self.mutant(Operator::ReturnValue, index + 1, end, "None"),
            Language::Go => {
                let word = self.token(last_part).filter(|token| token.kind == Kind::Word)?;
                let is_error = last_part == last && word.text.to_ascii_lowercase().contains("err");
                let makes_error = matches!(word.text, "errors" | "fmt") && self.is(last_part + 1, ".");
                let makes_error = makes_error && (word.text == "errors" || self.is(last_part + 2, "Errorf"));
                if is_error || makes_error { self.mutant(Operator::ReturnValue, last_part, end, "nil") } else { None }
            }
            _ if is_single && ["undefined", "null", "true", "false"].contains(&first) => None,
            _ => self.mutant(Operator::ReturnValue, index + 1, end, "undefined"),
        }
    }

    /// A statement that is a call, in one line.
    fn call(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index).filter(|token| token.kind == Kind::Word && token.depth == 0)?;
        let is_statement_word =
            STATEMENT_WORDS.contains(&token.text) && !(token.is("super") && self.language == Language::Python);
        if !self.is_first_in_line(index) || is_statement_word || INFORMING_CALLS.contains(&token.text) {
            return None;
        }
        let begins_statement = self.previous(index).is_none_or(|previous| match self.language {
            Language::Python => !self.text[previous.end()..token.start].contains('\\'),
            _ => ends_operand(previous) || matches!(previous.text, "{" | "}" | ";" | ":" | "else"),
        });
        if !begins_statement {
            return None;
        }
        let (mut at, mut is_call) = (index + 1, false);
        loop {
            let same_line = self.token(at).is_some_and(|next| next.line == token.line);
            match self.token(at).filter(|_| same_line).map(|next| next.text) {
                Some("(") => {
                    at = self.closing(at)? + 1;
                    is_call = true;
                }
                Some("[") => {
                    at = self.closing(at)? + 1;
                    is_call = false;
                }
                Some("." | "?.") if self.token(at + 1)?.kind == Kind::Word => {
                    at += 2;
                    is_call = false;
                }
                _ => break,
            }
        }
        if !is_call || !self.ends_statement(at - 1) {
            return None;
        }
        let nothing = if self.language == Language::Python { "pass" } else { "{}" };
        self.mutant(Operator::Call, index, self.tokens[at - 1].end(), nothing)
    }

    fn loop_control(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index).filter(|token| token.kind == Kind::Word)?;
        let has_label = self.token(index + 1).is_some_and(|next| next.line == token.line && next.kind == Kind::Word);
        let is_member = self.previous(index).is_some_and(|previous| previous.is("."));
        match token.text {
            _ if has_label || is_member => None,
            "break" if !self.blocks.contains(&index) => self.replaced(Operator::LoopControl, index, "continue"),
            "continue" => self.replaced(Operator::LoopControl, index, "break"),
            _ => None,
        }
    }

    /// The condition of an `if` or a loop. One with a comparison or a boolean operator has mutants of its own.
    fn condition(&self, index: usize) -> Option<Mutant> {
        let token = self.token(index).filter(|token| token.kind == Kind::Word)?;
        if !matches!(token.text, "if" | "elif" | "while") {
            return None;
        }
        let last = self.line_end(index) - 1;
        let (first, end) = match self.language {
            Language::Python if self.is_first_in_line(index) && self.is(last, ":") => (index + 1, last),
            Language::Go if self.is(last, "{") => {
                let after = (index..last).rev().find(|at| self.is(*at, ";")).unwrap_or(index);
                (after + 1, last)
            }
            Language::JavaScript | Language::TypeScript if self.is(index + 1, "(") => {
                (index + 2, self.closing(index + 1)?)
            }
            _ => return None,
        };
        let condition = self.tokens.get(first..end).filter(|condition| !condition.is_empty())?;
        let has_mutants = |token: &Token<'_>| {
            let is_compared =
                BINARY.iter().any(|(known, _, operator)| token.is(known) && *operator != Operator::Arithmetic);
            is_compared
                || ["not", "in", "!", "True", "False", "true", "false", ":=", "="].iter().any(|word| token.is(word))
        };
        if condition.iter().any(has_mutants) {
            return None;
        }
        let end = condition.last()?.end();
        let text = &self.text[condition[0].start..end];
        let negated = if self.language == Language::Python { format!("not ({text})") } else { format!("!({text})") };
        self.mutant(Operator::Condition, first, end, negated)
    }
}

/// Each `in` that belongs to a `for`: the first one after it among the same brackets.
fn loops_in(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut open: Vec<u32> = Vec::new();
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if token.is("for") {
            open.push(token.depth);
        } else if token.is("in") && open.last() == Some(&token.depth) {
            open.pop();
            found.push(index);
        }
    }
    found
}

/// Each `break` that leaves a `switch` or a `select` of a language with braces.
fn blocks(tokens: &[Token<'_>]) -> Vec<usize> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    let mut keyword = "";
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind != Kind::Text) {
        match token.text {
            "for" | "while" | "do" | "switch" | "select" | "func" | "function" => keyword = token.text,
            "{" => open.push(std::mem::take(&mut keyword)),
            "}" => drop(open.pop()),
            "break" => {
                let breaks = open.iter().rev().find(|block| !block.is_empty());
                if breaks.is_some_and(|block| matches!(*block, "switch" | "select")) {
                    found.push(index);
                }
            }
            _ => {}
        }
    }
    found
}
