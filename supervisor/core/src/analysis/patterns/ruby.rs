//! Patterns of Ruby, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "key not found: \"{name}\"",
        "if it is read from ENV, set {name} for the run: `env` in the request or `--env {name}=...`",
    ),
    Pattern::new(Kind::MissingKey, "key not found: {key}", "the hash has no key {key}"),
    Pattern::new(Kind::NullDereference, "undefined method {name} for nil", "the receiver of {name} is nil there"),
    Pattern::new(
        Kind::MissingSymbol,
        "undefined local variable or method {name} for",
        "define {name}, or check the spelling",
    ),
    Pattern::new(Kind::MissingSymbol, "undefined method {name} for", "the receiver has no method {name}"),
    Pattern::new(Kind::MissingSymbol, "uninitialized constant {name}", "define {name}, or require its file"),
    Pattern::new(
        Kind::MissingModule,
        "cannot load such file -- /{module}",
        "no file is at this path: require_relative is relative to the file that calls it",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "cannot load such file -- {module}",
        "{install} if {module} is a gem; otherwise put its directory on the load path",
    ),
    Pattern::new(Kind::SyntaxError, "syntax error{what}", "the file does not parse"),
    Pattern::new(Kind::SyntaxError, "SyntaxError", "the file does not parse"),
    Pattern::new(
        Kind::TypeMismatch,
        "wrong number of arguments ({counts})",
        "the call has another number of arguments: {counts}",
    ),
    Pattern::new(Kind::TypeMismatch, "can't be coerced into {type}", "a value is no {type}"),
    Pattern::new(Kind::TypeMismatch, "no implicit conversion of {types}", "convert the value: {types}"),
    Pattern::new(Kind::DivisionByZero, "divided by 0", "the divisor is zero there"),
    Pattern::new(Kind::StackOverflow, "stack level too deep", "the method calls itself without an end, or too often"),
    Pattern::new(Kind::NetworkRefused, "getaddrinfo", ""),
    Pattern::new(Kind::NetworkRefused, "Failed to open TCP connection to {address} (getaddrinfo", ""),
    Pattern::new(
        Kind::ConnectionRefused,
        "Connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(
        Kind::AddressInUse,
        "Address already in use",
        "the port is taken: bind port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        Kind::FileNotFound,
        "No such file or directory @ {call} - {path}",
        "{path} does not exist in the sandbox",
    ),
    Pattern::new(Kind::PermissionDenied, "Permission denied", ""),
    Pattern::new(Kind::PermissionDenied, "Read-only file system", ""),
    Pattern::new(
        Kind::MissingException,
        "to raise {what} but nothing was raised",
        "the code under test raised nothing",
    ),
    Pattern::new(Kind::MissingException, "but nothing was raised", "the code under test raised nothing"),
    Pattern::new(Kind::MockExpectation, "received: {count} time", "the double was called another number of times"),
    Pattern::new(Kind::Assertion, "expected: {value}", ""),
    Pattern::new(Kind::Assertion, "^expected {value}", ""),
];
