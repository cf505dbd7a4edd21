//! Patterns of Java and Kotlin, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        FailureKind::TimeZone,
        "Unknown time-zone ID: {zone}",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(FailureKind::PermissionDenied, "AccessDeniedException: {path}", ""),
    Pattern::new(
        FailureKind::DependencyFailed,
        "Could not initialize class {class}",
        "the initialisation of {class} failed before: look at the first failure",
    ),
    Pattern::new(
        FailureKind::NullDereference,
        "Cannot invoke \"{call}\" because {value} is null",
        "{value} is null where {call} is called",
    ),
    Pattern::new(FailureKind::NullDereference, "NullPointerException", "a reference is null there"),
    Pattern::new(
        FailureKind::IndexOutOfRange,
        "Index {index} out of bounds for length {length}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(FailureKind::IndexOutOfRange, "IndexOutOfBoundsException", ""),
    Pattern::new(
        FailureKind::TypeMismatch,
        "ClassCastException",
        "the object has another class than the cast asks for",
    ),
    Pattern::new(FailureKind::TypeMismatch, "cannot be cast to class {class}", "the object is no {class}"),
    Pattern::build(FailureKind::TypeMismatch, "incompatible types: {what}", "{what}"),
    Pattern::new(
        FailureKind::StackOverflow,
        "StackOverflowError",
        "the method calls itself without an end, or too often",
    ),
    Pattern::new(FailureKind::DivisionByZero, "/ by zero", "the divisor is zero there"),
    Pattern::new(FailureKind::OutOfMemory, "OutOfMemoryError", ""),
    Pattern::new(FailureKind::NetworkRefused, "UnknownHostException", ""),
    Pattern::new(FailureKind::FileNotFound, "NoSuchFileException: {path}", "the run finds no file {path}"),
    Pattern::new(FailureKind::FileNotFound, "FileNotFoundException: {path}", "the run finds no file {path}"),
    Pattern::build(
        FailureKind::MissingDependency,
        "package {module} does not exist",
        "add the dependency that has the package {module} to the build file, if it is not the project's own",
    ),
    Pattern::build(
        FailureKind::MissingSymbol,
        "cannot find symbol",
        "nothing of this name is in scope: declare or import it",
    ),
    Pattern::build(
        FailureKind::MissingSymbol,
        "Unresolved reference",
        "nothing of this name is in scope: declare or import it",
    ),
    Pattern::new(
        FailureKind::MissingDependency,
        "NoClassDefFoundError: {class}",
        "the class path of the tests lacks {class}",
    ),
    Pattern::new(
        FailureKind::MissingDependency,
        "ClassNotFoundException: {class}",
        "the class path of the tests lacks {class}",
    ),
    Pattern::build(FailureKind::SyntaxError, "';' expected", "the file does not parse"),
    Pattern::build(
        FailureKind::SyntaxError,
        "reached end of file while parsing",
        "the file does not parse: a closing brace is missing",
    ),
    Pattern::build(FailureKind::SyntaxError, "illegal start of expression", "the file does not parse"),
    Pattern::new(
        FailureKind::MissingException,
        "Expected {exception} to be thrown",
        "the code under test did not throw {exception}",
    ),
    Pattern::new(FailureKind::MockExpectation, "Wanted but not invoked", "the mock was not called"),
    Pattern::new(FailureKind::MockExpectation, "WantedButNotInvoked", "the mock was not called"),
    Pattern::new(FailureKind::Timeout, "TimeoutException", ""),
    Pattern::new(FailureKind::Timeout, "timed out after {time}", ""),
    Pattern::new(FailureKind::Assertion, "AssertionFailedError", ""),
    Pattern::new(FailureKind::Assertion, "expected: <{expected}> but was: <{actual}>", ""),
];
