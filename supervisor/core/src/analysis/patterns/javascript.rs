//! Patterns of JavaScript and TypeScript, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

/// What follows from a module that is not found by its name: it is a package, or a path that the configuration does not resolve.
const INSTALL: &str = "{install} if {module} is a package; otherwise check the path of the import";

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(PatternKind::Locale, "Incorrect locale information provided", "the name of the locale is not valid"),
    Pattern::new(
        PatternKind::TimeZone,
        "Invalid time zone specified: {zone}",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(
        PatternKind::OutOfMemory,
        "JavaScript heap out of memory",
        "Node's own heap limit is reached: hold less, or raise --max-old-space-size",
    ),
    Pattern::new(
        PatternKind::LeakedResource,
        "A worker process has failed to exit gracefully",
        "a timer, server or connection is still open after the tests",
    ),
    Pattern::new(
        PatternKind::SnapshotMismatch,
        "toMatchSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        PatternKind::SnapshotMismatch,
        "Snapshot `{name}` mismatched",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        PatternKind::SnapshotMismatch,
        "toMatchInlineSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(PatternKind::SnapshotMismatch, "A snapshot doesn't exist", ""),
    Pattern::new(
        PatternKind::ModuleFormat,
        "require is not defined in ES module scope",
        "the file is an ES module: `import` instead of `require`, or name it .cjs",
    ),
    Pattern::new(
        PatternKind::ModuleFormat,
        "Cannot use import statement outside a module",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        PatternKind::ModuleFormat,
        "module is not defined in ES module scope",
        "the file is an ES module: `export` instead of `module.exports`, or name it .cjs",
    ),
    Pattern::new(
        PatternKind::ModuleFormat,
        "exports is not defined in ES module scope",
        "the file is an ES module: `export` instead of `exports`, or name it .cjs",
    ),
    Pattern::new(
        PatternKind::ModuleFormat,
        "Must use import to load ES Module",
        "the module is an ES module: `import` it instead of `require`",
    ),
    Pattern::new(
        PatternKind::ModuleFormat,
        "Unexpected token 'export'",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        PatternKind::MissingModule,
        "Cannot find module '.{module}'",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(PatternKind::MissingModule, "Cannot find module '/{module}'", "no file is at the imported path"),
    Pattern::new(PatternKind::MissingDependency, "Cannot find module '{module}'", INSTALL),
    Pattern::new(PatternKind::MissingDependency, "Cannot find package '{module}'", INSTALL),
    Pattern::new(
        PatternKind::MissingModule,
        "Failed to resolve import \".{module}\"",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(PatternKind::MissingDependency, "Failed to resolve import \"{module}\"", INSTALL),
    Pattern::new(
        PatternKind::MissingModule,
        "Could not resolve \".{module}\"",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(PatternKind::MissingDependency, "Could not resolve \"{module}\"", INSTALL),
    Pattern::new(
        PatternKind::MissingModule,
        "Failed to load url .{module} (",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(PatternKind::MissingDependency, "Failed to load url {module} (", INSTALL),
    Pattern::new(
        PatternKind::NullDereference,
        "Cannot read properties of {value} (reading '{name}')",
        "the object is {value} where {name} is read",
    ),
    Pattern::new(PatternKind::NullDereference, "Cannot set properties of {value}", "the object is {value} there"),
    Pattern::new(
        PatternKind::NullDereference,
        "Cannot destructure property '{name}'",
        "the object with {name} is missing there",
    ),
    Pattern::new(
        PatternKind::MissingSymbol,
        "TypeError: {name} is not a function",
        "{name} is no function there: check the name and the import",
    ),
    Pattern::new(PatternKind::MissingSymbol, "is not a function", ""),
    Pattern::new(
        PatternKind::MissingSymbol,
        "does not provide an export named '{name}'",
        "the module exports no {name}",
    ),
    Pattern::new(PatternKind::MissingSymbol, "ReferenceError: {name} is not defined", "define or import {name}"),
    Pattern::new(PatternKind::MissingSymbol, "{name} is not defined", "define or import {name}"),
    Pattern::new(
        PatternKind::StackOverflow,
        "Maximum call stack size exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::build(PatternKind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    // `JSON.parse` of a test throws it as well: then no file is at fault.
    Pattern::new(PatternKind::SyntaxError, "^SyntaxError: {what}", ""),
    Pattern::build(PatternKind::SyntaxError, "Transform failed with {what}", "the file does not parse"),
    Pattern::build(PatternKind::SyntaxError, "Unexpected token{what}", "the file does not parse"),
    Pattern::build(
        PatternKind::SyntaxError,
        "Expected {wanted} but found {found}",
        "the file does not parse: {wanted} is missing before {found}",
    ),
    Pattern::build(PatternKind::SyntaxError, "Missing initializer", "the file does not parse"),
    Pattern::build(
        PatternKind::TypeMismatch,
        "is not assignable to type '{type}'",
        "the value has another type than {type}",
    ),
    Pattern::build(PatternKind::MissingSymbol, "Cannot find name '{name}'", "define or import {name}"),
    Pattern::new(
        PatternKind::MockExpectation,
        "toHaveBeenCalled",
        "the mock was not called like this: compare its calls",
    ),
    Pattern::new(
        PatternKind::Timeout,
        "Exceeded timeout of {time} for a",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        PatternKind::Timeout,
        "Test timed out in {time}.",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        PatternKind::Timeout,
        "Timeout of {time} exceeded",
        "it did not end within {time}: a callback or promise never ends, or the work takes longer",
    ),
    Pattern::new(PatternKind::NetworkRefused, "ENOTFOUND {host}", ""),
    Pattern::new(PatternKind::NetworkRefused, "EAI_AGAIN {host}", ""),
    Pattern::new(PatternKind::NetworkRefused, "ENETUNREACH", ""),
    Pattern::new(
        PatternKind::ConnectionRefused,
        "ECONNREFUSED {address}",
        "nothing listens at {address} in the network of the run",
    ),
    Pattern::new(
        PatternKind::AddressInUse,
        "EADDRINUSE",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        PatternKind::FileNotFound,
        "ENOENT: no such file or directory, {what}",
        "the run does not find the file: {what}",
    ),
    Pattern::new(PatternKind::PermissionDenied, "EACCES: permission denied, {what}", ""),
    Pattern::new(PatternKind::PermissionDenied, "EROFS: read-only file system, {what}", ""),
    Pattern::new(PatternKind::UnhandledRejection, "Unhandled Rejection", "a promise was rejected with no handler"),
    Pattern::new(PatternKind::UnhandledRejection, "unhandledRejection", "a promise was rejected with no handler"),
    Pattern::new(
        PatternKind::LeakedResource,
        "did not exit one second after",
        "a timer, server or connection is still open after the tests",
    ),
    Pattern::new(PatternKind::Assertion, "AssertionError", ""),
    Pattern::new(PatternKind::Assertion, "Expected values to be strictly equal", ""),
    Pattern::new(PatternKind::Assertion, "expect(", ""),
];
