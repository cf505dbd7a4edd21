//! Patterns of Java and Kotlin, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        Kind::DependencyFailed,
        "Could not initialize class {class}",
        "the initialisation of {class} failed before: look at the first failure",
    ),
    Pattern::new(
        Kind::NullDereference,
        "Cannot invoke \"{call}\" because {value} is null",
        "{value} is null where {call} is called",
    ),
    Pattern::new(Kind::NullDereference, "NullPointerException", "a reference is null there"),
    Pattern::new(
        Kind::IndexOutOfRange,
        "Index {index} out of bounds for length {length}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(Kind::IndexOutOfRange, "IndexOutOfBoundsException", ""),
    Pattern::new(Kind::TypeMismatch, "ClassCastException", "the object has another class than the cast asks for"),
    Pattern::new(Kind::TypeMismatch, "cannot be cast to class {class}", "the object is no {class}"),
    Pattern::new(Kind::TypeMismatch, "incompatible types: {what}", "{what}"),
    Pattern::new(Kind::StackOverflow, "StackOverflowError", "the method calls itself without an end, or too often"),
    Pattern::new(Kind::DivisionByZero, "/ by zero", "the divisor is zero there"),
    Pattern::new(Kind::OutOfMemory, "OutOfMemoryError", ""),
    Pattern::new(Kind::NetworkRefused, "UnknownHostException", ""),
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
    Pattern::new(Kind::FileNotFound, "NoSuchFileException: {path}", "{path} does not exist in the sandbox"),
    Pattern::new(Kind::FileNotFound, "FileNotFoundException: {path}", "{path} does not exist in the sandbox"),
    Pattern::new(
        Kind::MissingDependency,
        "package {module} does not exist",
        "add the dependency that has the package {module} to the build file",
    ),
    Pattern::new(Kind::MissingSymbol, "cannot find symbol", "nothing of this name is in scope: declare or import it"),
    Pattern::new(Kind::MissingSymbol, "Unresolved reference", "nothing of this name is in scope: declare or import it"),
    Pattern::new(Kind::MissingDependency, "NoClassDefFoundError: {class}", "the class path of the tests lacks {class}"),
    Pattern::new(
        Kind::MissingDependency,
        "ClassNotFoundException: {class}",
        "the class path of the tests lacks {class}",
    ),
    Pattern::new(Kind::SyntaxError, "';' expected", "the file does not parse"),
    Pattern::new(
        Kind::SyntaxError,
        "reached end of file while parsing",
        "the file does not parse: a closing brace is missing",
    ),
    Pattern::new(Kind::SyntaxError, "illegal start of expression", "the file does not parse"),
    Pattern::new(
        Kind::MissingException,
        "Expected {exception} to be thrown",
        "the code under test did not throw {exception}",
    ),
    Pattern::new(Kind::MockExpectation, "Wanted but not invoked", "the mock was not called"),
    Pattern::new(Kind::MockExpectation, "WantedButNotInvoked", "the mock was not called"),
    Pattern::new(Kind::Timeout, "TimeoutException", ""),
    Pattern::new(Kind::Timeout, "timed out after {time}", ""),
    Pattern::new(Kind::Assertion, "AssertionFailedError", ""),
    Pattern::new(Kind::Assertion, "expected: <{expected}> but was: <{actual}>", ""),
];
