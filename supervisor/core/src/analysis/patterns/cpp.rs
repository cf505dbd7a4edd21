//! Patterns of C and C++, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        FailureKind::Locale,
        "locale::facet::_S_create_c_locale name not valid",
        "the locale is not installed here: use one that is everywhere, as C.UTF-8",
    ),
    Pattern::new(FailureKind::OutOfMemory, "std::bad_alloc", "the process could not get the memory that it asked for"),
    Pattern::build(
        FailureKind::MissingDependency,
        ".h: No such file or directory",
        "the header is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "fatal error: {file}: No such file or directory",
        "{file} is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "Could not find a package configuration file provided by \"{module}\"",
        "install the development files of {module}",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "Could NOT find {module}",
        "install the development files of {module}",
    ),
    Pattern::build(
        FailureKind::LinkError,
        "undefined reference to `{name}'",
        "no linked file or library defines {name}: add its source or library to the target",
    ),
    Pattern::build(
        FailureKind::LinkError,
        "multiple definition of `{name}'",
        "{name} is defined in more than one linked file",
    ),
    Pattern::build(FailureKind::MissingSymbol, "{name} was not declared in this scope", "declare or include {name}"),
    Pattern::build(
        FailureKind::MissingSymbol,
        "{name} undeclared (first use in this function)",
        "declare or include {name}",
    ),
    Pattern::build(FailureKind::MissingSymbol, "has no member named {name}", "the type has no member {name}"),
    Pattern::build(FailureKind::TypeMismatch, "invalid conversion from {types}", "convert the value: from {types}"),
    Pattern::build(FailureKind::TypeMismatch, "cannot convert {types}", "convert the value: {types}"),
    Pattern::build(
        FailureKind::TypeMismatch,
        "no matching function for call to {call}",
        "no overload takes these arguments: {call}",
    ),
    Pattern::build(FailureKind::TypeMismatch, "too few arguments to function", ""),
    Pattern::build(
        FailureKind::SyntaxError,
        "expected {what} before {found}",
        "the file does not parse: {what} is missing before {found}",
    ),
    Pattern::build(
        FailureKind::SyntaxError,
        "expected {what} at end of input",
        "the file does not parse: {what} is missing at its end",
    ),
    Pattern::new(FailureKind::IndexOutOfRange, "_M_range_check", "a position is outside of the container"),
    Pattern::new(FailureKind::IndexOutOfRange, "std::out_of_range", "a position is outside of the container"),
    Pattern::new(FailureKind::NullDereference, "null pointer", ""),
    Pattern::new(
        FailureKind::LeakedResource,
        "LeakSanitizer: detected memory leaks",
        "the report in the output names where the memory was allocated",
    ),
    Pattern::new(FailureKind::DataRace, "ThreadSanitizer: data race", "the report in the output names both accesses"),
    Pattern::new(
        FailureKind::IndexOutOfRange,
        "AddressSanitizer: heap-buffer-overflow",
        "the report in the output names the access",
    ),
    Pattern::new(FailureKind::DivisionByZero, "division by zero", "the divisor is zero there"),
    Pattern::new(
        FailureKind::Crash,
        "the test crashed: {how}",
        "the process ended without a message; a run with a sanitizer or a debugger names the place",
    ),
    Pattern::new(
        FailureKind::DependencyFailed,
        "not run: Failed test dependencies: {test}",
        "the test {test} failed before: look at it first",
    ),
    Pattern::new(
        FailureKind::FileNotFound,
        "not run: Could not find executable {path}",
        "build {path}, or correct the command of add_test",
    ),
    Pattern::new(FailureKind::Assertion, "Expected equality of these values", ""),
    Pattern::new(FailureKind::Assertion, "Assertion `{condition}' failed", "the condition does not hold: {condition}"),
    Pattern::new(FailureKind::Assertion, "Value of: {value}", ""),
    Pattern::new(FailureKind::Assertion, "^Expected: {value}", ""),
];
