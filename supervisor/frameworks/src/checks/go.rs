//! The checkers of Go modules: `go vet`, and the compiler.

mod module_command;
mod vet;

pub(super) use vet::GoVet;
