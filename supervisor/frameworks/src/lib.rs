//! Pure adapters, one per test framework: a snapshot of the file tree in, a command line out; bytes in, events out.
//!
//! Nothing here opens a file or starts a process. The edge takes the [`FileTree`], resolves programs, runs the
//! [`Plan`] and feeds the parser. Adding a framework is one file and one row in [`FRAMEWORKS`].

pub mod ctest;
pub mod custom;
pub mod detect;
pub mod framework;
pub mod go;
mod junit;
pub mod lines;
mod paths;
pub mod pytest;
mod python;
mod reported;
mod tap;
pub mod together;
pub mod tree;
pub mod unittest;
mod values;

pub use framework::*;
pub use together::{Chosen, Purpose};
pub use tree::FileTree;

/// Every adapter, in the order in which several detected ones are named.
pub static FRAMEWORKS: &[&dyn Framework] = &[&go::Go, &ctest::Ctest, &pytest::Pytest, &unittest::Unittest];
