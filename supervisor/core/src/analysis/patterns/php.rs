//! Patterns of PHP, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        FailureKind::TimeZone,
        "Unknown or bad timezone ({zone})",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(
        FailureKind::MissingException,
        "exception of type \"{exception}\" is thrown",
        "the code under test did not throw {exception}",
    ),
    Pattern::new(FailureKind::MockExpectation, "was expected to be", "the mock was called another number of times"),
    Pattern::new(
        FailureKind::MockExpectation,
        "Expectation failed for method",
        "the mock was called another number of times or with other arguments",
    ),
    Pattern::new(
        FailureKind::NullDereference,
        "Call to a member function {method} on null",
        "the object is null where {method} is called",
    ),
    Pattern::new(
        FailureKind::NullDereference,
        "Attempt to read property {name} on null",
        "the object is null where {name} is read",
    ),
    Pattern::new(FailureKind::MissingSymbol, "Call to undefined function {name}", "define {name}, or include its file"),
    Pattern::new(FailureKind::MissingSymbol, "Call to undefined method {name}", "the class has no method {name}"),
    Pattern::new(
        FailureKind::MissingSymbol,
        "Class \"{name}\" not found",
        "load {name}: check the namespace, the autoloader and `composer dump-autoload`",
    ),
    Pattern::new(FailureKind::MissingSymbol, "Undefined variable {name}", "set {name} before it is read"),
    Pattern::new(FailureKind::MissingKey, "Undefined array key {key}", "the array has no key {key}"),
    Pattern::new(
        FailureKind::TypeMismatch,
        "must be of type {type}, {given} given",
        "a value of type {type} is needed, {given} is passed",
    ),
    Pattern::new(
        FailureKind::TypeMismatch,
        "Too few arguments to function {function}",
        "{function} takes more arguments",
    ),
    Pattern::new(FailureKind::TypeMismatch, "Unsupported operand types: {types}", ""),
    Pattern::new(FailureKind::DivisionByZero, "Division by zero", "the divisor is zero there"),
    Pattern::build(FailureKind::SyntaxError, "syntax error, {what}", "the file does not parse: {what}"),
    Pattern::new(FailureKind::MissingModule, "Failed opening required '{path}'", "no file is at {path}"),
    Pattern::new(
        FailureKind::FileNotFound,
        "({path}): Failed to open stream: No such file or directory",
        "the run finds no file {path}",
    ),
    Pattern::new(FailureKind::NetworkRefused, "getaddrinfo", ""),
    Pattern::new(
        FailureKind::StackOverflow,
        "Maximum call stack size",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(
        FailureKind::OutOfMemory,
        "Allowed memory size of {bytes} bytes exhausted",
        "PHP's own memory_limit of {bytes} bytes is reached",
    ),
    Pattern::new(FailureKind::Assertion, "Failed asserting that", ""),
];
