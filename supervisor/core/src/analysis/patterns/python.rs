//! Patterns of Python, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::TimeZone,
        "No time zone found with key {zone}",
        "this host has no time zone {zone}: correct the name, or install tzdata",
    ),
    Pattern::new(
        PatternKind::Locale,
        "'ascii' codec can't encode",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        PatternKind::Locale,
        "'ascii' codec can't decode",
        "the text is not of the locale's encoding: set LANG=C.UTF-8 for the run, or name the encoding in the code",
    ),
    Pattern::new(
        PatternKind::SnapshotMismatch,
        "[+ received] == [- snapshot]",
        "compare the snapshot with the value; if the new value is right, update it with --snapshot-update",
    ),
    Pattern::new(
        PatternKind::Timeout,
        "from pytest-timeout",
        "the test did not end within the timeout of pytest-timeout",
    ),
    Pattern::new(PatternKind::PidsExhausted, "can't start new thread", ""),
    Pattern::new(
        PatternKind::MissingException,
        "DID NOT RAISE",
        "the code under test did not raise the expected exception",
    ),
    Pattern::new(
        PatternKind::MissingModule,
        "No module named '{package}.{module}'",
        "the package {package} has no module {module}",
    ),
    Pattern::new(
        PatternKind::MissingDependency,
        "No module named '{module}'",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "No module named {module}",
        "{install}, or put its directory on the path if {module} is a module of the project",
    ),
    Pattern::new(
        PatternKind::CircularImport,
        "partially initialized module '{module}'",
        "{module} is imported again while it is being imported: move one of the imports into the function that needs it",
    ),
    Pattern::new(
        PatternKind::MissingSymbol,
        "cannot import name '{name}' from '{module}'",
        "{module} defines no {name}",
    ),
    Pattern::new(
        PatternKind::UndefinedFixture,
        "fixture '{name}' not found",
        "no conftest.py or plugin defines the fixture {name}",
    ),
    Pattern::new(
        PatternKind::ClosedEventLoop,
        "Event loop is closed",
        "a loop is used after it was closed: give each test a loop of its own",
    ),
    Pattern::new(
        PatternKind::ClosedEventLoop,
        "attached to a different loop",
        "an object of one event loop is used in another",
    ),
    Pattern::new(PatternKind::NullDereference, "'NoneType' object {what}", "a value is None there, which {what}"),
    Pattern::new(PatternKind::MissingSymbol, "has no attribute '{name}'", "nothing named {name} is there"),
    Pattern::new(PatternKind::MissingSymbol, "name '{name}' is not defined", "define or import {name}"),
    Pattern::new(PatternKind::MissingSymbol, "NameError: {what}", ""),
    Pattern::new(PatternKind::IndexOutOfRange, "index out of range", "the sequence is shorter than the index"),
    Pattern::new(PatternKind::IndexOutOfRange, "IndexError: {what}", ""),
    Pattern::new(
        PatternKind::StackOverflow,
        "maximum recursion depth exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::build(PatternKind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    Pattern::build(PatternKind::SyntaxError, "IndentationError: {what}", "the file does not parse: {what}"),
    // A test that parses or evaluates a text may raise it as well: then no file is at fault.
    Pattern::new(PatternKind::SyntaxError, "^SyntaxError: {what}", ""),
    Pattern::new(PatternKind::SyntaxError, "^IndentationError: {what}", ""),
    Pattern::new(
        PatternKind::TypeMismatch,
        "required positional argument: {name}",
        "the call lacks the argument {name}",
    ),
    Pattern::new(
        PatternKind::TypeMismatch,
        "required positional arguments: {names}",
        "the call lacks the arguments {names}",
    ),
    Pattern::new(
        PatternKind::TypeMismatch,
        "unsupported operand type(s) for {types}",
        "the operands have other types than the operator takes: {types}",
    ),
    Pattern::new(PatternKind::Exception, "TypeError: Can't instantiate abstract class {class}", ""),
    Pattern::new(PatternKind::TypeMismatch, "TypeError: {what}", ""),
    Pattern::new(PatternKind::DivisionByZero, "ZeroDivisionError", "the divisor is zero there"),
    Pattern::new(PatternKind::MockExpectation, "to be called once", "the mock was called another number of times"),
    Pattern::new(PatternKind::MockExpectation, "expected call not found", "the mock was called with other arguments"),
    Pattern::new(PatternKind::MockExpectation, "Expected '{mock}' to {what}", "the mock {mock} was to {what}"),
    Pattern::new(PatternKind::PermissionDenied, "PermissionError: {what}", ""),
    Pattern::new(PatternKind::PermissionDenied, "Read-only file system: {path}", ""),
    Pattern::new(PatternKind::FileNotFound, "No such file or directory: {path}", "the run finds no file {path}"),
    Pattern::new(
        PatternKind::ConnectionRefused,
        "ConnectionRefusedError",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(PatternKind::LeakedResource, "ResourceWarning: unclosed {what}", "close it: {what}"),
    Pattern::new(
        PatternKind::Locale,
        "unsupported locale setting",
        "the locale is not installed here: use one that is everywhere, as C.UTF-8",
    ),
    Pattern::new(PatternKind::MissingKey, "KeyError: {key}", "the mapping has no key {key}"),
    Pattern::new(PatternKind::OutOfMemory, "MemoryError", ""),
    Pattern::new(PatternKind::Timeout, "TimeoutError", ""),
    Pattern::new(
        PatternKind::OrderDependence,
        "Different tests were collected between",
        "the workers collected different tests: a parameter set depends on order, time or hashing",
    ),
    Pattern::new(PatternKind::Exception, "UnicodeDecodeError: {what}", ""),
];
