//! Patterns of Rust, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::pattern_kind::PatternKind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(
        PatternKind::SnapshotMismatch,
        "snapshot assertion for '{name}' failed",
        "compare the snapshot with the value; if the new value is right, accept it with `cargo insta review`",
    ),
    Pattern::new(
        PatternKind::OutOfMemory,
        "memory allocation of {bytes} bytes failed",
        "the process could not get {bytes} bytes of memory",
    ),
    Pattern::new(PatternKind::MissingException, "test did not panic as expected", "the code under test did not panic"),
    Pattern::new(
        PatternKind::PoisonedLock,
        "PoisonError",
        "another thread panicked while it held this lock: look at its failure first",
    ),
    Pattern::new(
        PatternKind::AlreadyBorrowed,
        "already borrowed",
        "a RefCell is borrowed mutably while another borrow lives",
    ),
    Pattern::new(
        PatternKind::AlreadyBorrowed,
        "already mutably borrowed",
        "a RefCell is borrowed while a mutable borrow lives",
    ),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "{name}: NotPresent",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        PatternKind::MissingEnvironmentVariable,
        "an `Err` value: NotPresent",
        "set the environment variable that is read there: `env` in the request or `--env NAME=...`",
    ),
    Pattern::new(PatternKind::FileNotFound, "NotFound, message: {message}", "the run does not find the file"),
    Pattern::new(PatternKind::PermissionDenied, "PermissionDenied", ""),
    Pattern::new(PatternKind::NetworkRefused, "failed to lookup address information", ""),
    Pattern::new(
        PatternKind::NullDereference,
        "called `Option::unwrap()` on a `None` value",
        "the Option is None there",
    ),
    Pattern::new(
        PatternKind::Exception,
        "called `Result::unwrap()` on an `Err` value: {error}",
        "the call failed: {error}",
    ),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "index out of bounds: the len is {length} but the index is {index}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(
        PatternKind::IndexOutOfRange,
        "range end index {index} out of range",
        "the range ends at {index}, outside of the slice",
    ),
    Pattern::new(
        PatternKind::ArithmeticOverflow,
        "with overflow",
        "the result does not fit into the type: use checked_, saturating_ or wrapping_ arithmetic",
    ),
    Pattern::new(PatternKind::DivisionByZero, "attempt to divide by zero", "the divisor is zero there"),
    Pattern::new(
        PatternKind::StackOverflow,
        "overflowed its stack",
        "the function calls itself without an end, or holds a very large value",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "unresolved import `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "use of unresolved module or unlinked crate `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::build(
        PatternKind::MissingDependency,
        "use of undeclared crate or module `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::build(PatternKind::MissingSymbol, "cannot find {what} in this scope", "define or import it: {what}"),
    Pattern::build(
        PatternKind::MissingSymbol,
        "no method named `{name}` found",
        "the type has no method {name}, or its trait is not imported",
    ),
    Pattern::build(PatternKind::MissingSymbol, "no field `{name}` on type", "the type has no field {name}"),
    Pattern::build(
        PatternKind::BorrowError,
        "borrow of moved value: `{name}`",
        "{name} was moved before: borrow or clone it",
    ),
    Pattern::build(
        PatternKind::BorrowError,
        "use of moved value: `{name}`",
        "{name} was moved before: borrow or clone it",
    ),
    Pattern::build(PatternKind::BorrowError, "cannot borrow {what}", ""),
    Pattern::build(PatternKind::BorrowError, "does not live long enough", ""),
    Pattern::build(PatternKind::TypeMismatch, "mismatched types", ""),
    Pattern::build(PatternKind::TypeMismatch, "the trait bound `{bound}` is not satisfied", "{bound} does not hold"),
    Pattern::build(PatternKind::TypeMismatch, "this function takes {count} but", "the function takes {count}"),
    Pattern::build(
        PatternKind::SyntaxError,
        "expected {what}, found {found}",
        "the file does not parse: {what} is needed before {found}",
    ),
    Pattern::build(
        PatternKind::LinkError,
        "linking with {linker} failed",
        "the linker's message names the missing symbol or library",
    ),
    Pattern::new(PatternKind::Assertion, "assertion failed: {condition}", "the condition does not hold: {condition}"),
    Pattern::new(PatternKind::Assertion, "assertion `{condition}` failed", ""),
];
