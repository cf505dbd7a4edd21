//! Patterns of Ruby, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(PatternKind::Timeout, "Timeout::Error: execution expired", "the block did not end within its timeout"),
    Pattern::new(
        PatternKind::Locale,
        "invalid byte sequence in US-ASCII",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        PatternKind::Locale,
        "on US-ASCII",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(PatternKind::OutOfMemory, "NoMemoryError", "the process could not get the memory that it asked for"),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "key not found: \"{name}\"",
        "if it is read from ENV, set {name} for the run: `env` in the request or `--env {name}=...`",
    ),
    Pattern::new(PatternKind::MissingKey, "key not found: {key}", "the hash has no key {key}"),
    Pattern::new(
        PatternKind::NullDereference,
        "undefined method {name} for nil",
        "the receiver of {name} is nil there",
    ),
    Pattern::new(
        PatternKind::MissingSymbol,
        "undefined local variable or method {name} for",
        "define {name}, or check the spelling",
    ),
    Pattern::new(PatternKind::MissingSymbol, "undefined method {name} for", "the receiver has no method {name}"),
    Pattern::new(PatternKind::MissingSymbol, "uninitialized constant {name}", "define {name}, or require its file"),
    Pattern::new(
        PatternKind::MissingModule,
        "cannot load such file -- /{module}",
        "no file is at this path: require_relative is relative to the file that calls it",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "cannot load such file -- {module}",
        "{install} if {module} is a gem; otherwise put its directory on the load path",
    ),
    Pattern::build(PatternKind::SyntaxError, "syntax error{what}", "the file does not parse"),
    Pattern::build(PatternKind::SyntaxError, "SyntaxError", "the file does not parse"),
    Pattern::new(
        PatternKind::TypeMismatch,
        "wrong number of arguments ({counts})",
        "the call has another number of arguments: {counts}",
    ),
    Pattern::new(PatternKind::TypeMismatch, "can't be coerced into {type}", "a value is no {type}"),
    Pattern::new(PatternKind::TypeMismatch, "no implicit conversion of {types}", "convert the value: {types}"),
    Pattern::new(PatternKind::DivisionByZero, "divided by 0", "the divisor is zero there"),
    Pattern::new(
        PatternKind::StackOverflow,
        "stack level too deep",
        "the method calls itself without an end, or too often",
    ),
    Pattern::new(PatternKind::NetworkRefused, "getaddrinfo", ""),
    Pattern::new(PatternKind::NetworkRefused, "Failed to open TCP connection to {address} (getaddrinfo", ""),
    Pattern::new(
        PatternKind::FileNotFound,
        "No such file or directory @ {call} - {path}",
        "the run finds no file {path}",
    ),
    Pattern::new(
        PatternKind::MissingException,
        "to raise {what} but nothing was raised",
        "the code under test raised nothing",
    ),
    Pattern::new(PatternKind::MissingException, "but nothing was raised", "the code under test raised nothing"),
    Pattern::new(
        PatternKind::MockExpectation,
        "received: {count} time",
        "the double was called another number of times",
    ),
    Pattern::new(PatternKind::Assertion, "expected: {value}", ""),
    Pattern::new(PatternKind::Assertion, "^expected {value}", ""),
];
