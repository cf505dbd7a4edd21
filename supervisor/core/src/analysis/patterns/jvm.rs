//! Patterns of Java and Kotlin, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::TimeZone,
        "Unknown time-zone ID: {zone}",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(PatternKind::PermissionDenied, "AccessDeniedException: {path}", ""),
    Pattern::new(
        PatternKind::DependencyFailed,
        "Could not initialize class {class}",
        "the initialisation of {class} failed before: look at the first failure",
    ),
    Pattern::new(
        PatternKind::NullDereference,
        "Cannot invoke \"{call}\" because {value} is null",
        "{value} is null where {call} is called",
    ),
    Pattern::new(PatternKind::NullDereference, "NullPointerException", "a reference is null there"),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "Index {index} out of bounds for length {length}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(PatternKind::IndexOutOfRange, "IndexOutOfBoundsException", ""),
    Pattern::new(
        PatternKind::TypeMismatch,
        "ClassCastException",
        "the object has another class than the cast asks for",
    ),
    Pattern::new(PatternKind::TypeMismatch, "cannot be cast to class {class}", "the object is no {class}"),
    Pattern::build(PatternKind::TypeMismatch, "incompatible types: {what}", "{what}"),
    Pattern::new(
        PatternKind::StackOverflow,
        "StackOverflowError",
        "the method calls itself without an end, or too often",
    ),
    Pattern::new(PatternKind::DivisionByZero, "/ by zero", "the divisor is zero there"),
    Pattern::new(PatternKind::OutOfMemory, "OutOfMemoryError", ""),
    Pattern::new(PatternKind::NetworkRefused, "UnknownHostException", ""),
    Pattern::new(PatternKind::FileNotFound, "NoSuchFileException: {path}", "the run finds no file {path}"),
    Pattern::new(PatternKind::FileNotFound, "FileNotFoundException: {path}", "the run finds no file {path}"),
    Pattern::build(
        PatternKind::MissingDependency,
        "package {module} does not exist",
        "add the dependency that has the package {module} to the build file, if it is not the project's own",
    ),
    Pattern::build(
        PatternKind::MissingSymbol,
        "cannot find symbol",
        "nothing of this name is in scope: declare or import it",
    ),
    Pattern::build(
        PatternKind::MissingSymbol,
        "Unresolved reference",
        "nothing of this name is in scope: declare or import it",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "NoClassDefFoundError: {class}",
        "the class path of the tests lacks {class}",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "ClassNotFoundException: {class}",
        "the class path of the tests lacks {class}",
    ),
    Pattern::build(PatternKind::SyntaxError, "';' expected", "the file does not parse"),
    Pattern::build(
        PatternKind::SyntaxError,
        "reached end of file while parsing",
        "the file does not parse: a closing brace is missing",
    ),
    Pattern::build(PatternKind::SyntaxError, "illegal start of expression", "the file does not parse"),
    Pattern::new(
        PatternKind::MissingException,
        "Expected {exception} to be thrown",
        "the code under test did not throw {exception}",
    ),
    Pattern::new(PatternKind::MockExpectation, "Wanted but not invoked", "the mock was not called"),
    Pattern::new(PatternKind::MockExpectation, "WantedButNotInvoked", "the mock was not called"),
    Pattern::new(PatternKind::Timeout, "TimeoutException", ""),
    Pattern::new(PatternKind::Timeout, "timed out after {time}", ""),
    Pattern::new(PatternKind::Assertion, "AssertionFailedError", ""),
    Pattern::new(PatternKind::Assertion, "expected: <{expected}> but was: <{actual}>", ""),
];
