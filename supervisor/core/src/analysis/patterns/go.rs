//! Patterns of Go, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::DataRace,
        "race detected during execution of test",
        "two goroutines use the same memory without a lock; the stacks of both accesses are in the test's output",
    ),
    Pattern::new(
        PatternKind::LeakedResource,
        "found unexpected goroutines",
        "goroutines still run after the test: stop them, or wait for them",
    ),
    Pattern::new(
        PatternKind::TimeZone,
        "unknown time zone {zone}",
        "this host has no time zone {zone}: correct the name, or install the time zone database",
    ),
    Pattern::new(
        PatternKind::Timeout,
        "context deadline exceeded",
        "the work did not end before the deadline of its context",
    ),
    Pattern::new(
        PatternKind::DataRace,
        "WARNING: DATA RACE",
        "two goroutines use the same memory without a lock; the stacks of both accesses are in the test's output",
    ),
    Pattern::new(PatternKind::NullDereference, "assignment to entry in nil map", "`make` the map before it is written"),
    Pattern::new(
        PatternKind::NullDereference,
        "invalid memory address or nil pointer dereference",
        "the pointer is nil there: check it, or set it before",
    ),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "index out of range [{index}] with length {length}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "slice bounds out of range {bounds}",
        "the slice bounds {bounds} are outside of the slice",
    ),
    Pattern::new(
        PatternKind::TypeMismatch,
        "interface conversion: {conversion}",
        "the value has another type than the conversion asks for: {conversion}",
    ),
    Pattern::build(
        PatternKind::TypeMismatch,
        "cannot use {value} as {type} value",
        "a value of type {type} is needed: {value}",
    ),
    Pattern::build(
        PatternKind::TypeMismatch,
        "not enough arguments in call to {function}",
        "{function} takes more arguments",
    ),
    Pattern::build(
        PatternKind::TypeMismatch,
        "too many arguments in call to {function}",
        "{function} takes fewer arguments",
    ),
    Pattern::build(PatternKind::TypeMismatch, "mismatched types {types}", "both operands need the same type: {types}"),
    Pattern::build(
        PatternKind::TypeMismatch,
        "does not implement {interface}",
        "the type lacks a method of {interface}",
    ),
    Pattern::new(PatternKind::DivisionByZero, "integer divide by zero", "the divisor is zero there"),
    Pattern::build(
        PatternKind::CircularImport,
        "import cycle not allowed",
        "the packages import each other: move what both need into a third package",
    ),
    Pattern::build(
        PatternKind::MissingModule,
        "package {module} is not in std",
        "no package {module} is in this module: check the import path, or create it",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "no required module provides package {module}; to add it",
        "{install}",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "missing go.sum entry for module providing package {module}",
        "`go mod tidy`",
    ),
    Pattern::build(PatternKind::MissingDependency, "cannot find module providing package {module}", "{install}"),
    Pattern::build(PatternKind::MissingSymbol, "undefined: {name}", "nothing named {name} is declared there"),
    Pattern::build(
        PatternKind::MissingSymbol,
        "{value}.{name} undefined",
        "there is no {name}: check the spelling, and whether it is exported",
    ),
    Pattern::build(PatternKind::BuildError, "declared and not used: {name}", "use {name} or remove it"),
    Pattern::build(PatternKind::BuildError, "{module} imported and not used", "remove the import of {module}"),
    Pattern::build(PatternKind::SyntaxError, "syntax error: {what}", "the file does not parse: {what}"),
    Pattern::new(
        PatternKind::Deadlock,
        "all goroutines are asleep - deadlock",
        "every goroutine waits for another: the stacks show for what",
    ),
    Pattern::new(PatternKind::ArithmeticOverflow, "makeslice: len out of range", ""),
    Pattern::new(
        PatternKind::StackOverflow,
        "goroutine stack exceeds",
        "the function calls itself without an end, or too often",
    ),
    Pattern::new(
        PatternKind::Exception,
        "send on closed channel",
        "a goroutine sends on a channel after it was closed",
    ),
    Pattern::new(PatternKind::Exception, "close of closed channel", "the channel is closed twice"),
    Pattern::build(
        PatternKind::FileNotFound,
        "pattern {pattern}: no matching files found",
        "go:embed finds no file for {pattern}",
    ),
    Pattern::new(PatternKind::DataRace, "concurrent map writes", "two goroutines write the same map without a lock"),
    Pattern::new(
        PatternKind::DataRace,
        "concurrent map read and map write",
        "two goroutines use the same map without a lock",
    ),
];
