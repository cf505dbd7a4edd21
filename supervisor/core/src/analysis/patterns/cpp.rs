//! Patterns of C and C++, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::Locale,
        "locale::facet::_S_create_c_locale name not valid",
        "the locale is not installed here: use one that is everywhere, as C.UTF-8",
    ),
    Pattern::new(PatternKind::OutOfMemory, "std::bad_alloc", "the process could not get the memory that it asked for"),
    Pattern::build(
        PatternKind::MissingDependency,
        ".h: No such file or directory",
        "the header is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "fatal error: {file}: No such file or directory",
        "{file} is on no include path: install its library, or add its directory to the target",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "Could not find a package configuration file provided by \"{module}\"",
        "install the development files of {module}",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "Could NOT find {module}",
        "install the development files of {module}",
    ),
    Pattern::build(
        PatternKind::LinkError,
        "undefined reference to `{name}'",
        "no linked file or library defines {name}: add its source or library to the target",
    ),
    Pattern::build(
        PatternKind::LinkError,
        "multiple definition of `{name}'",
        "{name} is defined in more than one linked file",
    ),
    Pattern::build(PatternKind::MissingSymbol, "{name} was not declared in this scope", "declare or include {name}"),
    Pattern::build(
        PatternKind::MissingSymbol,
        "{name} undeclared (first use in this function)",
        "declare or include {name}",
    ),
    Pattern::build(PatternKind::MissingSymbol, "has no member named {name}", "the type has no member {name}"),
    Pattern::build(PatternKind::TypeMismatch, "invalid conversion from {types}", "convert the value: from {types}"),
    Pattern::build(PatternKind::TypeMismatch, "cannot convert {types}", "convert the value: {types}"),
    Pattern::build(
        PatternKind::TypeMismatch,
        "no matching function for call to {call}",
        "no overload takes these arguments: {call}",
    ),
    Pattern::build(PatternKind::TypeMismatch, "too few arguments to function", ""),
    Pattern::build(
        PatternKind::SyntaxError,
        "expected {what} before {found}",
        "the file does not parse: {what} is missing before {found}",
    ),
    Pattern::build(
        PatternKind::SyntaxError,
        "expected {what} at end of input",
        "the file does not parse: {what} is missing at its end",
    ),
    Pattern::new(PatternKind::IndexOutOfRange, "_M_range_check", "a position is outside of the container"),
    Pattern::new(PatternKind::IndexOutOfRange, "std::out_of_range", "a position is outside of the container"),
    Pattern::new(PatternKind::NullDereference, "null pointer", ""),
    Pattern::new(
        PatternKind::LeakedResource,
        "LeakSanitizer: detected memory leaks",
        "the report in the output names where the memory was allocated",
    ),
    Pattern::new(PatternKind::DataRace, "ThreadSanitizer: data race", "the report in the output names both accesses"),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "AddressSanitizer: heap-buffer-overflow",
        "the report in the output names the access",
    ),
    Pattern::new(PatternKind::DivisionByZero, "division by zero", "the divisor is zero there"),
    Pattern::new(
        PatternKind::Crash,
        "the test crashed: {how}",
        "the process ended without a message; a run with a sanitizer or a debugger names the place",
    ),
    Pattern::new(
        PatternKind::DependencyFailed,
        "not run: Failed test dependencies: {test}",
        "the test {test} failed before: look at it first",
    ),
    Pattern::new(
        PatternKind::FileNotFound,
        "not run: Could not find executable {path}",
        "build {path}, or correct the command of add_test",
    ),
    Pattern::new(PatternKind::Assertion, "Expected equality of these values", ""),
    Pattern::new(PatternKind::Assertion, "Assertion `{condition}' failed", "the condition does not hold: {condition}"),
    Pattern::new(PatternKind::Assertion, "Value of: {value}", ""),
    Pattern::new(PatternKind::Assertion, "^Expected: {value}", ""),
];
