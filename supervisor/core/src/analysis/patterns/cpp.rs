//! Patterns of C and C++, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        Kind::MissingDependency,
        ".h: No such file or directory",
        "the header is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "fatal error: {file}: No such file or directory",
        "{file} is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "Could not find a package configuration file provided by \"{module}\"",
        "install the development files of {module}",
    ),
    Pattern::new(Kind::MissingDependency, "Could NOT find {module}", "install the development files of {module}"),
    Pattern::new(
        Kind::LinkError,
        "undefined reference to `{name}'",
        "no linked file or library defines {name}: add its source or library to the target",
    ),
    Pattern::new(Kind::LinkError, "multiple definition of `{name}'", "{name} is defined in more than one linked file"),
    Pattern::new(Kind::MissingSymbol, "{name} was not declared in this scope", "declare or include {name}"),
    Pattern::new(Kind::MissingSymbol, "{name} undeclared (first use in this function)", "declare or include {name}"),
    Pattern::new(Kind::MissingSymbol, "has no member named {name}", "the type has no member {name}"),
    Pattern::new(Kind::TypeMismatch, "invalid conversion from {types}", "convert the value: from {types}"),
    Pattern::new(Kind::TypeMismatch, "cannot convert {types}", "convert the value: {types}"),
    Pattern::new(
        Kind::TypeMismatch,
        "no matching function for call to {call}",
        "no overload takes these arguments: {call}",
    ),
    Pattern::new(Kind::TypeMismatch, "too few arguments to function", ""),
    Pattern::new(
        Kind::SyntaxError,
        "expected {what} before {found}",
        "the file does not parse: {what} is missing before {found}",
    ),
    Pattern::new(
        Kind::SyntaxError,
        "expected {what} at end of input",
        "the file does not parse: {what} is missing at its end",
    ),
    Pattern::new(Kind::IndexOutOfRange, "_M_range_check", "a position is outside of the container"),
    Pattern::new(Kind::IndexOutOfRange, "std::out_of_range", "a position is outside of the container"),
    Pattern::new(Kind::NullDereference, "null pointer", ""),
    Pattern::new(
        Kind::LeakedResource,
        "LeakSanitizer: detected memory leaks",
        "the report in the output names where the memory was allocated",
    ),
    Pattern::new(Kind::DataRace, "ThreadSanitizer: data race", "the report in the output names both accesses"),
    Pattern::new(
        Kind::IndexOutOfRange,
        "AddressSanitizer: heap-buffer-overflow",
        "the report in the output names the access",
    ),
    Pattern::new(Kind::DivisionByZero, "division by zero", "the divisor is zero there"),
    Pattern::new(
        Kind::Crash,
        "the test crashed: {how}",
        "the process ended without a message; a run with a sanitizer or a debugger names the place",
    ),
    Pattern::new(
        Kind::DependencyFailed,
        "not run: Failed test dependencies: {test}",
        "the test {test} failed before: look at it first",
    ),
    Pattern::new(
        Kind::FileNotFound,
        "not run: Could not find executable {path}",
        "build {path}, or correct the command of add_test",
    ),
    Pattern::new(Kind::Assertion, "Expected equality of these values", ""),
    Pattern::new(Kind::Assertion, "Assertion `{condition}' failed", "the condition does not hold: {condition}"),
    Pattern::new(Kind::Assertion, "Value of: {value}", ""),
    Pattern::new(Kind::Assertion, "^Expected: {value}", ""),
];
