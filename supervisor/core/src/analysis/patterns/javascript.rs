//! Patterns of JavaScript and TypeScript, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        Kind::SnapshotMismatch,
        "toMatchSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        Kind::SnapshotMismatch,
        "Snapshot `{name}` mismatched",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(
        Kind::SnapshotMismatch,
        "toMatchInlineSnapshot",
        "compare the snapshot with the value; if the new value is right, update it with the runner's -u",
    ),
    Pattern::new(Kind::SnapshotMismatch, "A snapshot doesn't exist", ""),
    Pattern::new(
        Kind::ModuleFormat,
        "require is not defined in ES module scope",
        "the file is an ES module: `import` instead of `require`, or name it .cjs",
    ),
    Pattern::new(
        Kind::ModuleFormat,
        "Cannot use import statement outside a module",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        Kind::ModuleFormat,
        "module is not defined in ES module scope",
        "the file is an ES module: `export` instead of `module.exports`, or name it .cjs",
    ),
    Pattern::new(
        Kind::ModuleFormat,
        "exports is not defined in ES module scope",
        "the file is an ES module: `export` instead of `exports`, or name it .cjs",
    ),
    Pattern::new(
        Kind::ModuleFormat,
        "Must use import to load ES Module",
        "the module is an ES module: `import` it instead of `require`",
    ),
    Pattern::new(
        Kind::ModuleFormat,
        "Unexpected token 'export'",
        "the file is read as CommonJS: set \"type\": \"module\" in package.json, name it .mjs, or transform it",
    ),
    Pattern::new(
        Kind::MissingModule,
        "Cannot find module '.{module}'",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(Kind::MissingModule, "Cannot find module '/{module}'", "no file is at the imported path"),
    Pattern::new(Kind::MissingDependency, "Cannot find module '{module}'", "{install}"),
    Pattern::new(Kind::MissingDependency, "Cannot find package '{module}'", "{install}"),
    Pattern::new(
        Kind::MissingModule,
        "Failed to resolve import \".{module}\"",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(Kind::MissingDependency, "Failed to resolve import \"{module}\"", "{install}"),
    Pattern::new(Kind::MissingDependency, "Could not resolve \"{module}\"", "{install}"),
    Pattern::new(
        Kind::MissingModule,
        "Failed to load url .{module} (",
        "no file of the project is at .{module}: the path is relative to the importing file",
    ),
    Pattern::new(Kind::MissingDependency, "Failed to load url {module} (", "{install}"),
    Pattern::new(
        Kind::NullDereference,
        "Cannot read properties of {value} (reading '{name}')",
        "the object is {value} where {name} is read",
    ),
    Pattern::new(Kind::NullDereference, "Cannot set properties of {value}", "the object is {value} there"),
    Pattern::new(
        Kind::NullDereference,
        "Cannot destructure property '{name}'",
        "the object with {name} is missing there",
    ),
    Pattern::new(
        Kind::MissingSymbol,
        "TypeError: {name} is not a function",
        "{name} is no function there: check the name and the import",
    ),
    Pattern::new(Kind::MissingSymbol, "is not a function", ""),
    Pattern::new(Kind::MissingSymbol, "does not provide an export named '{name}'", "the module exports no {name}"),
    Pattern::new(Kind::MissingSymbol, "ReferenceError: {name} is not defined", "define or import {name}"),
    Pattern::new(Kind::MissingSymbol, "{name} is not defined", "define or import {name}"),
    Pattern::new(
        Kind::StackOverflow,
        "Maximum call stack size exceeded",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(Kind::SyntaxError, "SyntaxError: {what}", "the file does not parse: {what}"),
    Pattern::new(Kind::SyntaxError, "Transform failed with {what}", "the file does not parse"),
    Pattern::new(Kind::SyntaxError, "Unexpected token{what}", "the file does not parse"),
    Pattern::new(
        Kind::SyntaxError,
        "Expected {wanted} but found {found}",
        "the file does not parse: {wanted} is missing before {found}",
    ),
    Pattern::new(Kind::SyntaxError, "Missing initializer", "the file does not parse"),
    Pattern::new(Kind::TypeMismatch, "is not assignable to type '{type}'", "the value has another type than {type}"),
    Pattern::new(Kind::MissingSymbol, "Cannot find name '{name}'", "define or import {name}"),
    Pattern::new(Kind::MockExpectation, "toHaveBeenCalled", "the mock was not called like this: compare its calls"),
    Pattern::new(
        Kind::Timeout,
        "Exceeded timeout of {time} for a",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        Kind::Timeout,
        "Test timed out in {time}.",
        "it did not end within {time}: an awaited promise never settles, or the work takes longer",
    ),
    Pattern::new(
        Kind::Timeout,
        "Timeout of {time} exceeded",
        "it did not end within {time}: a callback or promise never ends, or the work takes longer",
    ),
    Pattern::new(Kind::NetworkRefused, "ENOTFOUND {host}", ""),
    Pattern::new(Kind::NetworkRefused, "EAI_AGAIN {host}", ""),
    Pattern::new(Kind::NetworkRefused, "ENETUNREACH", ""),
    Pattern::new(
        Kind::ConnectionRefused,
        "ECONNREFUSED {address}",
        "nothing listens at {address} in the network of the run",
    ),
    Pattern::new(
        Kind::AddressInUse,
        "EADDRINUSE",
        "the port is taken: listen on port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        Kind::FileNotFound,
        "ENOENT: no such file or directory, {what}",
        "{what}: it does not exist in the sandbox",
    ),
    Pattern::new(Kind::PermissionDenied, "EACCES: permission denied, {what}", ""),
    Pattern::new(Kind::PermissionDenied, "EROFS: read-only file system, {what}", ""),
    Pattern::new(Kind::UnhandledRejection, "Unhandled Rejection", "a promise was rejected with no handler"),
    Pattern::new(Kind::UnhandledRejection, "unhandledRejection", "a promise was rejected with no handler"),
    Pattern::new(
        Kind::LeakedResource,
        "did not exit one second after",
        "a timer, server or connection is still open after the tests",
    ),
    Pattern::new(Kind::Assertion, "AssertionError", ""),
    Pattern::new(Kind::Assertion, "Expected values to be strictly equal", ""),
    Pattern::new(Kind::Assertion, "expect(", ""),
];
