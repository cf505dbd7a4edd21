//! Patterns of Python, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(Kind::MissingException, "DID NOT RAISE", "the code under test did not raise the expected exception"),
    Pattern::new(
        Kind::MissingModule,
        "No module named '{package}.{module}'",
        "the package {package} has no module {module}",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "No module named '{module}'",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "No module named {module}",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::new(
        Kind::CircularImport,
        "partially initialized module '{module}'",
        "{module} is imported again while it is being imported: move one of the imports into the function that needs it",
    ),
    Pattern::new(Kind::MissingSymbol, "cannot import name '{name}' from '{module}'", "{module} defines no {name}"),
    Pattern::new(
        Kind::UndefinedFixture,
        "fixture '{name}' not found",
        "no conftest.py or plugin defines the fixture {name}",
    ),
    Pattern::new(
        Kind::ClosedEventLoop,
        "Event loop is closed",
        "a loop is used after it was closed: give each test a loop of its own",
    ),
    Pattern::new(
        Kind::ClosedEventLoop,
        "attached to a different loop",
        "an object of one event loop is used in another",
    ),
    Pattern::new(Kind::NullDereference, "'NoneType' object {what}", "a value is None there, which {what}"),
    Pattern::new(Kind::MissingSymbol, "has no attribute '{name}'", "nothing named {name} is there"),
    Pattern::new(Kind::MissingSymbol, "name '{name}' is not defined", "define or import {name}"),
    Pattern::new(Kind::MissingSymbol, "NameError: {what}", ""),
    Pattern::new(Kind::IndexOutOfRange, "index out of range", "the sequence is shorter than the index"),
    Pattern::new(Kind::IndexOutOfRange, "IndexError: {what}", ""),
    Pattern::new(
        Kind::StackOverflow,
        "maximum recursion depth exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(Kind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    Pattern::new(Kind::SyntaxError, "IndentationError: {what}", "the file does not parse: {what}"),
    Pattern::new(Kind::TypeMismatch, "required positional argument: {name}", "the call lacks the argument {name}"),
    Pattern::new(Kind::TypeMismatch, "required positional arguments: {names}", "the call lacks the arguments {names}"),
    Pattern::new(
        Kind::TypeMismatch,
        "unsupported operand type(s) for {types}",
        "the operands have other types than the operator takes: {types}",
    ),
    Pattern::new(Kind::Exception, "TypeError: Can't instantiate abstract class {class}", ""),
    Pattern::new(Kind::TypeMismatch, "TypeError: {what}", ""),
    Pattern::new(Kind::DivisionByZero, "ZeroDivisionError", "the divisor is zero there"),
    Pattern::new(Kind::MockExpectation, "to be called once", "the mock was called another number of times"),
    Pattern::new(Kind::MockExpectation, "expected call not found", "the mock was called with other arguments"),
    Pattern::new(Kind::MockExpectation, "Expected '{mock}' to {what}", "the mock {mock} was to {what}"),
    Pattern::new(Kind::PermissionDenied, "PermissionError: {what}", ""),
    Pattern::new(Kind::PermissionDenied, "Read-only file system: {path}", ""),
    Pattern::new(Kind::FileNotFound, "No such file or directory: {path}", "{path} does not exist in the sandbox"),
    Pattern::new(Kind::NetworkRefused, "Name or service not known", ""),
    Pattern::new(
        Kind::ConnectionRefused,
        "ConnectionRefusedError",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(
        Kind::AddressInUse,
        "Address already in use",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(Kind::LeakedResource, "ResourceWarning: unclosed {what}", "close it: {what}"),
    Pattern::new(Kind::MissingKey, "KeyError: {key}", "the mapping has no key {key}"),
    Pattern::new(Kind::OutOfMemory, "MemoryError", ""),
    Pattern::new(Kind::Timeout, "TimeoutError", ""),
    Pattern::new(
        Kind::OrderDependence,
        "Different tests were collected between",
        "the workers collected different tests: a parameter set depends on order, time or hashing",
    ),
    Pattern::new(Kind::Exception, "UnicodeDecodeError: {what}", ""),
];
