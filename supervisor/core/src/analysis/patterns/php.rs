//! Patterns of PHP, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::TimeZone,
        "Unknown or bad timezone ({zone})",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(
        PatternKind::MissingException,
        "exception of type \"{exception}\" is thrown",
        "the code under test did not throw {exception}",
    ),
    Pattern::new(PatternKind::MockExpectation, "was expected to be", "the mock was called another number of times"),
    Pattern::new(
        PatternKind::MockExpectation,
        "Expectation failed for method",
        "the mock was called another number of times or with other arguments",
    ),
    Pattern::new(
        PatternKind::NullDereference,
        "Call to a member function {method} on null",
        "the object is null where {method} is called",
    ),
    Pattern::new(
        PatternKind::NullDereference,
        "Attempt to read property {name} on null",
        "the object is null where {name} is read",
    ),
    Pattern::new(PatternKind::MissingSymbol, "Call to undefined function {name}", "define {name}, or include its file"),
    Pattern::new(PatternKind::MissingSymbol, "Call to undefined method {name}", "the class has no method {name}"),
    Pattern::new(
        PatternKind::MissingSymbol,
        "Class \"{name}\" not found",
        "load {name}: check the namespace, the autoloader and `composer dump-autoload`",
    ),
    Pattern::new(PatternKind::MissingSymbol, "Undefined variable {name}", "set {name} before it is read"),
    Pattern::new(PatternKind::MissingKey, "Undefined array key {key}", "the array has no key {key}"),
    Pattern::new(
        PatternKind::TypeMismatch,
        "must be of type {type}, {given} given",
        "a value of type {type} is needed, {given} is passed",
    ),
    Pattern::new(
        PatternKind::TypeMismatch,
        "Too few arguments to function {function}",
        "{function} takes more arguments",
    ),
    Pattern::new(PatternKind::TypeMismatch, "Unsupported operand types: {types}", ""),
    Pattern::new(PatternKind::DivisionByZero, "Division by zero", "the divisor is zero there"),
    Pattern::build(PatternKind::SyntaxError, "syntax error, {what}", "the file does not parse: {what}"),
    Pattern::new(PatternKind::MissingModule, "Failed opening required '{path}'", "no file is at {path}"),
    Pattern::new(
        PatternKind::FileNotFound,
        "({path}): Failed to open stream: No such file or directory",
        "the run finds no file {path}",
    ),
    Pattern::new(PatternKind::NetworkRefused, "getaddrinfo", ""),
    Pattern::new(
        PatternKind::StackOverflow,
        "Maximum call stack size",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(
        PatternKind::OutOfMemory,
        "Allowed memory size of {bytes} bytes exhausted",
        "PHP's own memory_limit of {bytes} bytes is reached",
    ),
    Pattern::new(PatternKind::Assertion, "Failed asserting that", ""),
];
