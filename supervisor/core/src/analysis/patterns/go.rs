//! Patterns of Go, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::failure_kind::FailureKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        FailureKind::DataRace,
        "race detected during execution of test",
        "two goroutines use the same memory without a lock; the stacks of both accesses are in the test's output",
    ),
    Pattern::new(
        FailureKind::LeakedResource,
        "found unexpected goroutines",
        "goroutines still run after the test: stop them, or wait for them",
    ),
    Pattern::new(
        FailureKind::TimeZone,
        "unknown time zone {zone}",
        "this host has no time zone {zone}: correct the name, or install the time zone database",
    ),
    Pattern::new(
        FailureKind::Timeout,
        "context deadline exceeded",
        "the work did not end before the deadline of its context",
    ),
    Pattern::new(
        FailureKind::DataRace,
        "WARNING: DATA RACE",
        "two goroutines use the same memory without a lock; the stacks of both accesses are in the test's output",
    ),
    Pattern::new(FailureKind::NullDereference, "assignment to entry in nil map", "`make` the map before it is written"),
    Pattern::new(
        FailureKind::NullDereference,
        "invalid memory address or nil pointer dereference",
        "the pointer is nil there: check it, or set it before",
    ),
    Pattern::new(
        FailureKind::IndexOutOfRange,
        "index out of range [{index}] with length {length}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(
        FailureKind::IndexOutOfRange,
        "slice bounds out of range {bounds}",
        "the slice bounds {bounds} are outside of the slice",
    ),
    Pattern::new(
        FailureKind::TypeMismatch,
        "interface conversion: {conversion}",
        "the value has another type than the conversion asks for: {conversion}",
    ),
    Pattern::build(
        FailureKind::TypeMismatch,
        "cannot use {value} as {type} value",
        "a value of type {type} is needed: {value}",
    ),
    Pattern::build(
        FailureKind::TypeMismatch,
        "not enough arguments in call to {function}",
        "{function} takes more arguments",
    ),
    Pattern::build(
        FailureKind::TypeMismatch,
        "too many arguments in call to {function}",
        "{function} takes fewer arguments",
    ),
    Pattern::build(FailureKind::TypeMismatch, "mismatched types {types}", "both operands need the same type: {types}"),
    Pattern::build(
        FailureKind::TypeMismatch,
        "does not implement {interface}",
        "the type lacks a method of {interface}",
    ),
    Pattern::new(FailureKind::DivisionByZero, "integer divide by zero", "the divisor is zero there"),
    Pattern::build(
        FailureKind::CircularImport,
        "import cycle not allowed",
        "the packages import each other: move what both need into a third package",
    ),
    Pattern::build(
        FailureKind::MissingModule,
        "package {module} is not in std",
        "no package {module} is in this module: check the import path, or create it",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "no required module provides package {module}; to add it",
        "{install}",
    ),
    Pattern::build(
        FailureKind::MissingDependency,
        "missing go.sum entry for module providing package {module}",
        "`go mod tidy`",
    ),
    Pattern::build(FailureKind::MissingDependency, "cannot find module providing package {module}", "{install}"),
    Pattern::build(FailureKind::MissingSymbol, "undefined: {name}", "nothing named {name} is declared there"),
    Pattern::build(
        FailureKind::MissingSymbol,
        "{value}.{name} undefined",
        "there is no {name}: check the spelling, and whether it is exported",
    ),
    Pattern::build(FailureKind::BuildError, "declared and not used: {name}", "use {name} or remove it"),
    Pattern::build(FailureKind::BuildError, "{module} imported and not used", "remove the import of {module}"),
    Pattern::build(FailureKind::SyntaxError, "syntax error: {what}", "the file does not parse: {what}"),
    Pattern::new(
        FailureKind::Deadlock,
        "all goroutines are asleep - deadlock",
        "every goroutine waits for another: the stacks show for what",
    ),
    Pattern::new(FailureKind::ArithmeticOverflow, "makeslice: len out of range", ""),
    Pattern::new(
        FailureKind::StackOverflow,
        "goroutine stack exceeds",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(
        FailureKind::Exception,
        "send on closed channel",
        "a goroutine sends on a channel after it was closed",
    ),
    Pattern::new(FailureKind::Exception, "close of closed channel", "the channel is closed twice"),
    Pattern::build(
        FailureKind::FileNotFound,
        "pattern {pattern}: no matching files found",
        "go:embed finds no file for {pattern}",
    ),
    Pattern::new(FailureKind::DataRace, "concurrent map writes", "two goroutines write the same map without a lock"),
    Pattern::new(
        FailureKind::DataRace,
        "concurrent map read and map write",
        "two goroutines use the same map without a lock",
    ),
];
