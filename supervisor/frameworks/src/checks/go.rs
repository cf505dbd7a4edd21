//! The checkers of Go modules: `go vet`, the compiler, and golangci-lint.

mod golangci;
mod module_command;
mod types;
mod vet;

pub(super) use golangci::GolangciLint;
pub(super) use types::GoTypes;
pub(super) use vet::GoVet;
