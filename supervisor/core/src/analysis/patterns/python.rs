//! Patterns of Python, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        FailureKind::TimeZone,
        "No time zone found with key {zone}",
        "this host has no time zone {zone}: correct the name, or install tzdata",
    ),
    Pattern::new(
        FailureKind::Locale,
        "'ascii' codec can't encode",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        FailureKind::Locale,
        "'ascii' codec can't decode",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        FailureKind::SnapshotMismatch,
        "[+ received] == [- snapshot]",
        "compare the snapshot with the value; if the new value is right, update it with --snapshot-update",
    ),
    Pattern::new(
        FailureKind::Timeout,
        "from pytest-timeout",
        "the test did not end within the timeout of pytest-timeout",
    ),
    Pattern::new(FailureKind::PidsExhausted, "can't start new thread", ""),
    Pattern::new(
        FailureKind::MissingException,
        "DID NOT RAISE",
        "the code under test did not raise the expected exception",
    ),
    Pattern::new(
        FailureKind::MissingModule,
        "No module named '{package}.{module}'",
        "the package {package} has no module {module}",
    ),
    Pattern::new(
        FailureKind::MissingDependency,
        "No module named '{module}'",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "No module named {module}",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::new(
        FailureKind::CircularImport,
        "partially initialized module '{module}'",
        "{module} is imported again while it is being imported: move one of the imports into the function that needs it",
    ),
    Pattern::new(
        FailureKind::MissingSymbol,
        "cannot import name '{name}' from '{module}'",
        "{module} defines no {name}",
    ),
    Pattern::new(
        FailureKind::UndefinedFixture,
        "fixture '{name}' not found",
        "no conftest.py or plugin defines the fixture {name}",
    ),
    Pattern::new(
        FailureKind::ClosedEventLoop,
        "Event loop is closed",
        "a loop is used after it was closed: give each test a loop of its own",
    ),
    Pattern::new(
        FailureKind::ClosedEventLoop,
        "attached to a different loop",
        "an object of one event loop is used in another",
    ),
    Pattern::new(FailureKind::NullDereference, "'NoneType' object {what}", "a value is None there, which {what}"),
    Pattern::new(FailureKind::MissingSymbol, "has no attribute '{name}'", "nothing named {name} is there"),
    Pattern::new(FailureKind::MissingSymbol, "name '{name}' is not defined", "define or import {name}"),
    Pattern::new(FailureKind::MissingSymbol, "NameError: {what}", ""),
    Pattern::new(FailureKind::IndexOutOfRange, "index out of range", "the sequence is shorter than the index"),
    Pattern::new(FailureKind::IndexOutOfRange, "IndexError: {what}", ""),
    Pattern::new(
        FailureKind::StackOverflow,
        "maximum recursion depth exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::build(FailureKind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    Pattern::build(FailureKind::SyntaxError, "IndentationError: {what}", "the file does not parse: {what}"),
    // A test that parses or evaluates a text may raise it as well: then no file is at fault.
    Pattern::new(FailureKind::SyntaxError, "^SyntaxError: {what}", ""),
    Pattern::new(FailureKind::SyntaxError, "^IndentationError: {what}", ""),
    Pattern::new(
        FailureKind::TypeMismatch,
        "required positional argument: {name}",
        "the call lacks the argument {name}",
    ),
    Pattern::new(
        FailureKind::TypeMismatch,
        "required positional arguments: {names}",
        "the call lacks the arguments {names}",
    ),
    Pattern::new(
        FailureKind::TypeMismatch,
        "unsupported operand type(s) for {types}",
        "the operands have other types than the operator takes: {types}",
    ),
    Pattern::new(FailureKind::Exception, "TypeError: Can't instantiate abstract class {class}", ""),
    Pattern::new(FailureKind::TypeMismatch, "TypeError: {what}", ""),
    Pattern::new(FailureKind::DivisionByZero, "ZeroDivisionError", "the divisor is zero there"),
    Pattern::new(FailureKind::MockExpectation, "to be called once", "the mock was called another number of times"),
    Pattern::new(FailureKind::MockExpectation, "expected call not found", "the mock was called with other arguments"),
    Pattern::new(FailureKind::MockExpectation, "Expected '{mock}' to {what}", "the mock {mock} was to {what}"),
    Pattern::new(FailureKind::PermissionDenied, "PermissionError: {what}", ""),
    Pattern::new(FailureKind::PermissionDenied, "Read-only file system: {path}", ""),
    Pattern::new(FailureKind::FileNotFound, "No such file or directory: {path}", "the run finds no file {path}"),
    Pattern::new(
        FailureKind::ConnectionRefused,
        "ConnectionRefusedError",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(FailureKind::LeakedResource, "ResourceWarning: unclosed {what}", "close it: {what}"),
    Pattern::new(
        FailureKind::Locale,
        "unsupported locale setting",
        "the locale is not installed here: use one that is everywhere, as C.UTF-8",
    ),
    Pattern::new(FailureKind::MissingKey, "KeyError: {key}", "the mapping has no key {key}"),
    Pattern::new(FailureKind::OutOfMemory, "MemoryError", ""),
    Pattern::new(FailureKind::Timeout, "TimeoutError", ""),
    Pattern::new(
        FailureKind::OrderDependence,
        "Different tests were collected between",
        "the workers collected different tests: a parameter set depends on order, time or hashing",
    ),
    Pattern::new(FailureKind::Exception, "UnicodeDecodeError: {what}", ""),
];
