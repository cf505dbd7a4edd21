//! Patterns of JavaScript and TypeScript, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(FailureKind::Locale, "Incorrect locale information provided", "the name of the locale is not valid"),
    Pattern::new(
        FailureKind::TimeZone,
        "Invalid time zone specified: {zone}",
        "there is no time zone {zone}: correct the name",
    ),
    Pattern::new(
        FailureKind::OutOfMemory,
        "JavaScript heap out of memory",
        "Node's own heap limit is reached: hold less, or raise --max-old-space-size",
    ),
    Pattern::new(
        FailureKind::LeakedResource,
        "A worker process has failed to exit gracefully",
        "a timer, server or connection is still open after the tests",
    ),
    Pattern::new(
        FailureKind::SnapshotMismatch,
        "toMatchSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        FailureKind::SnapshotMismatch,
        "Snapshot `{name}` mismatched",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        FailureKind::SnapshotMismatch,
        "toMatchInlineSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(FailureKind::SnapshotMismatch, "A snapshot doesn't exist", ""),
    Pattern::new(
        FailureKind::ModuleFormat,
        "require is not defined in ES module scope",
        "the file is an ES module: `import` instead of `require`, or name it .cjs",
    ),
    Pattern::new(
        FailureKind::ModuleFormat,
        "Cannot use import statement outside a module",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        FailureKind::ModuleFormat,
        "module is not defined in ES module scope",
        "the file is an ES module: `export` instead of `module.exports`, or name it .cjs",
    ),
    Pattern::new(
        FailureKind::ModuleFormat,
        "exports is not defined in ES module scope",
        "the file is an ES module: `export` instead of `exports`, or name it .cjs",
    ),
    Pattern::new(
        FailureKind::ModuleFormat,
        "Must use import to load ES Module",
        "the module is an ES module: `import` it instead of `require`",
    ),
    Pattern::new(
        FailureKind::ModuleFormat,
        "Unexpected token 'export'",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        FailureKind::MissingModule,
        "Cannot find module '.{module}'",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(FailureKind::MissingModule, "Cannot find module '/{module}'", "no file is at the imported path"),
    Pattern::new(FailureKind::MissingDependency, "Cannot find module '{module}'", "{install}"),
    Pattern::new(FailureKind::MissingDependency, "Cannot find package '{module}'", "{install}"),
    Pattern::new(
        FailureKind::MissingModule,
        "Failed to resolve import \".{module}\"",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(FailureKind::MissingDependency, "Failed to resolve import \"{module}\"", "{install}"),
    Pattern::new(FailureKind::MissingDependency, "Could not resolve \"{module}\"", "{install}"),
    Pattern::new(
        FailureKind::MissingModule,
        "Failed to load url .{module} (",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(FailureKind::MissingDependency, "Failed to load url {module} (", "{install}"),
    Pattern::new(
        FailureKind::NullDereference,
        "Cannot read properties of {value} (reading '{name}')",
        "the object is {value} where {name} is read",
    ),
    Pattern::new(FailureKind::NullDereference, "Cannot set properties of {value}", "the object is {value} there"),
    Pattern::new(
        FailureKind::NullDereference,
        "Cannot destructure property '{name}'",
        "the object with {name} is missing there",
    ),
    Pattern::new(
        FailureKind::MissingSymbol,
        "TypeError: {name} is not a function",
        "{name} is no function there: check the name and the import",
    ),
    Pattern::new(FailureKind::MissingSymbol, "is not a function", ""),
    Pattern::new(
        FailureKind::MissingSymbol,
        "does not provide an export named '{name}'",
        "the module exports no {name}",
    ),
    Pattern::new(FailureKind::MissingSymbol, "ReferenceError: {name} is not defined", "define or import {name}"),
    Pattern::new(FailureKind::MissingSymbol, "{name} is not defined", "define or import {name}"),
    Pattern::new(
        FailureKind::StackOverflow,
        "Maximum call stack size exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::build(FailureKind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    // `JSON.parse` of a test throws it as well: then no file is at fault.
    Pattern::new(FailureKind::SyntaxError, "^SyntaxError: {what}", ""),
    Pattern::build(FailureKind::SyntaxError, "Transform failed with {what}", "the file does not parse"),
    Pattern::build(FailureKind::SyntaxError, "Unexpected token{what}", "the file does not parse"),
    Pattern::build(
        FailureKind::SyntaxError,
        "Expected {wanted} but found {found}",
        "the file does not parse: {wanted} is missing before {found}",
    ),
    Pattern::build(FailureKind::SyntaxError, "Missing initializer", "the file does not parse"),
    Pattern::build(
        FailureKind::TypeMismatch,
        "is not assignable to type '{type}'",
        "the value has another type than {type}",
    ),
    Pattern::build(FailureKind::MissingSymbol, "Cannot find name '{name}'", "define or import {name}"),
    Pattern::new(
        FailureKind::MockExpectation,
        "toHaveBeenCalled",
        "the mock was not called like this: compare its calls",
    ),
    Pattern::new(
        FailureKind::Timeout,
        "Exceeded timeout of {time} for a",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        FailureKind::Timeout,
        "Test timed out in {time}.",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        FailureKind::Timeout,
        "Timeout of {time} exceeded",
        "it did not end within {time}: a callback or promise never ends, or the work takes longer",
    ),
    Pattern::new(FailureKind::NetworkRefused, "ENOTFOUND {host}", ""),
    Pattern::new(FailureKind::NetworkRefused, "EAI_AGAIN {host}", ""),
    Pattern::new(FailureKind::NetworkRefused, "ENETUNREACH", ""),
    Pattern::new(
        FailureKind::ConnectionRefused,
        "ECONNREFUSED {address}",
        "nothing listens at {address} in the network of the run",
    ),
    Pattern::new(
        FailureKind::AddressInUse,
        "EADDRINUSE",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        FailureKind::FileNotFound,
        "ENOENT: no such file or directory, {what}",
        "the run does not find the file: {what}",
    ),
    Pattern::new(FailureKind::PermissionDenied, "EACCES: permission denied, {what}", ""),
    Pattern::new(FailureKind::PermissionDenied, "EROFS: read-only file system, {what}", ""),
    Pattern::new(FailureKind::UnhandledRejection, "Unhandled Rejection", "a promise was rejected with no handler"),
    Pattern::new(FailureKind::UnhandledRejection, "unhandledRejection", "a promise was rejected with no handler"),
    Pattern::new(
        FailureKind::LeakedResource,
        "did not exit one second after",
        "a timer, server or connection is still open after the tests",
    ),
    Pattern::new(FailureKind::Assertion, "AssertionError", ""),
    Pattern::new(FailureKind::Assertion, "Expected values to be strictly equal", ""),
    Pattern::new(FailureKind::Assertion, "expect(", ""),
];
