//! Patterns of Ruby, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(FailureKind::Timeout, "Timeout::Error: execution expired", "the block did not end within its timeout"),
    Pattern::new(
        FailureKind::Locale,
        "invalid byte sequence in US-ASCII",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        FailureKind::Locale,
        "on US-ASCII",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(FailureKind::OutOfMemory, "NoMemoryError", "the process could not get the memory that it asked for"),
    Pattern::new(
        FailureKind::MissingEnvironmentVariable,
        "key not found: \"{name}\"",
        "if it is read from ENV, set {name} for the run: `env` in the request or `--env {name}=...`",
    ),
    Pattern::new(FailureKind::MissingKey, "key not found: {key}", "the hash has no key {key}"),
    Pattern::new(
        FailureKind::NullDereference,
        "undefined method {name} for nil",
        "the receiver of {name} is nil there",
    ),
    Pattern::new(
        FailureKind::MissingSymbol,
        "undefined local variable or method {name} for",
        "define {name}, or check the spelling",
    ),
    Pattern::new(FailureKind::MissingSymbol, "undefined method {name} for", "the receiver has no method {name}"),
    Pattern::new(FailureKind::MissingSymbol, "uninitialized constant {name}", "define {name}, or require its file"),
    Pattern::new(
        FailureKind::MissingModule,
        "cannot load such file -- /{module}",
        "no file is at this path: require_relative is relative to the file that calls it",
    ),
    Pattern::new(
        FailureKind::MissingDependency,
        "cannot load such file -- {module}",
        "{install} if {module} is a gem; otherwise put its directory on the load path",
    ),
    Pattern::build(FailureKind::SyntaxError, "syntax error{what}", "the file does not parse"),
    Pattern::build(FailureKind::SyntaxError, "SyntaxError", "the file does not parse"),
    Pattern::new(
        FailureKind::TypeMismatch,
        "wrong number of arguments ({counts})",
        "the call has another number of arguments: {counts}",
    ),
    Pattern::new(FailureKind::TypeMismatch, "can't be coerced into {type}", "a value is no {type}"),
    Pattern::new(FailureKind::TypeMismatch, "no implicit conversion of {types}", "convert the value: {types}"),
    Pattern::new(FailureKind::DivisionByZero, "divided by 0", "the divisor is zero there"),
    Pattern::new(
        FailureKind::StackOverflow,
        "stack level too deep",
        "the method calls itself without an end, or too often",
    ),
    Pattern::new(FailureKind::NetworkRefused, "getaddrinfo", ""),
    Pattern::new(FailureKind::NetworkRefused, "Failed to open TCP connection to {address} (getaddrinfo", ""),
    Pattern::new(
        FailureKind::FileNotFound,
        "No such file or directory @ {call} - {path}",
        "the run finds no file {path}",
    ),
    Pattern::new(
        FailureKind::MissingException,
        "to raise {what} but nothing was raised",
        "the code under test raised nothing",
    ),
    Pattern::new(FailureKind::MissingException, "but nothing was raised", "the code under test raised nothing"),
    Pattern::new(
        FailureKind::MockExpectation,
        "received: {count} time",
        "the double was called another number of times",
    ),
    Pattern::new(FailureKind::Assertion, "expected: {value}", ""),
    Pattern::new(FailureKind::Assertion, "^expected {value}", ""),
];
