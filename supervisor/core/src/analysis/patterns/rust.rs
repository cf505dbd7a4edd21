//! Patterns of Rust, the most specific first: what the runner or the language prints, and what follows from it.

use super::Pattern;
use crate::analysis::kind::Kind;

pub(super) const TABLE: &[Pattern] = &[
    Pattern::new(Kind::MissingException, "test did not panic as expected", "the code under test did not panic"),
    Pattern::new(
        Kind::PoisonedLock,
        "PoisonError",
        "another thread panicked while it held this lock: look at its failure first",
    ),
    Pattern::new(Kind::AlreadyBorrowed, "already borrowed", "a RefCell is borrowed mutably while another borrow lives"),
    Pattern::new(
        Kind::AlreadyBorrowed,
        "already mutably borrowed",
        "a RefCell is borrowed while a mutable borrow lives",
    ),
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "{name}: NotPresent",
        "set {name} for the run: `env` in the request, `--env {name}=...`, or `environment` in .proctor.yaml",
    ),
    Pattern::new(
        Kind::MissingEnvironmentVariable,
        "an `Err` value: NotPresent",
        "set the environment variable that is read there: `env` in the request or `--env NAME=...`",
    ),
    Pattern::new(Kind::FileNotFound, "NotFound, message: {message}", "the file does not exist in the sandbox"),
    Pattern::new(Kind::PermissionDenied, "Read-only file system", ""),
    Pattern::new(Kind::PermissionDenied, "PermissionDenied", ""),
    Pattern::new(
        Kind::AddressInUse,
        "Address already in use",
        "the port is taken: bind port 0 and ask which one it is, or close the first listener",
    ),
    Pattern::new(
        Kind::ConnectionRefused,
        "Connection refused",
        "nothing listens at that address in the network of the run",
    ),
    Pattern::new(Kind::NetworkRefused, "failed to lookup address information", ""),
    Pattern::new(Kind::NullDereference, "called `Option::unwrap()` on a `None` value", "the Option is None there"),
    Pattern::new(Kind::Exception, "called `Result::unwrap()` on an `Err` value: {error}", "the call failed: {error}"),
    Pattern::new(
        Kind::IndexOutOfRange,
        "index out of bounds: the len is {length} but the index is {index}",
        "the index {index} is not below the length {length}",
    ),
    Pattern::new(
        Kind::IndexOutOfRange,
        "range end index {index} out of range",
        "the range ends at {index}, outside of the slice",
    ),
    Pattern::new(
        Kind::ArithmeticOverflow,
        "with overflow",
        "the result does not fit into the type: use checked_, saturating_ or wrapping_ arithmetic",
    ),
    Pattern::new(Kind::DivisionByZero, "attempt to divide by zero", "the divisor is zero there"),
    Pattern::new(
        Kind::StackOverflow,
        "overflowed its stack",
        "the function calls itself without an end, or holds a very large value",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "unresolved import `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "use of unresolved module or unlinked crate `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::new(
        Kind::MissingDependency,
        "use of undeclared crate or module `{module}`",
        "{install} if {module} is a crate; otherwise declare the module with `mod`",
    ),
    Pattern::new(Kind::MissingSymbol, "cannot find {what} in this scope", "define or import it: {what}"),
    Pattern::new(
        Kind::MissingSymbol,
        "no method named `{name}` found",
        "the type has no method {name}, or its trait is not imported",
    ),
    Pattern::new(Kind::MissingSymbol, "no field `{name}` on type", "the type has no field {name}"),
    Pattern::new(Kind::BorrowError, "borrow of moved value: `{name}`", "{name} was moved before: borrow or clone it"),
    Pattern::new(Kind::BorrowError, "use of moved value: `{name}`", "{name} was moved before: borrow or clone it"),
    Pattern::new(Kind::BorrowError, "cannot borrow {what}", ""),
    Pattern::new(Kind::BorrowError, "does not live long enough", ""),
    Pattern::new(Kind::TypeMismatch, "mismatched types", ""),
    Pattern::new(Kind::TypeMismatch, "the trait bound `{bound}` is not satisfied", "{bound} does not hold"),
    Pattern::new(Kind::TypeMismatch, "this function takes {count} but", "the function takes {count}"),
    Pattern::new(
        Kind::SyntaxError,
        "expected {what}, found {found}",
        "the file does not parse: {what} is needed before {found}",
    ),
    Pattern::new(
        Kind::LinkError,
        "linking with {linker} failed",
        "the linker's message names the missing symbol or library",
    ),
    Pattern::new(Kind::FloatRounding, "assertion failed: ({what}).abs() {comparison}", ""),
    Pattern::new(Kind::Assertion, "assertion failed: {condition}", "the condition does not hold: {condition}"),
    Pattern::new(Kind::Assertion, "assertion `{condition}` failed", ""),
];
