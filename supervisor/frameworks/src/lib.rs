//! Pure adapters, one per test framework: a snapshot of the file tree in, a command line out; bytes in, events out.
//!
//! Nothing here opens a file or starts a process. The edge takes the [`FileTree`], resolves programs, runs the
//! [`Plan`] and feeds the parser. Adding a framework is one file and one row in [`FRAMEWORKS`].

mod awaited;
mod begun;
pub mod ctest;
pub mod custom;
pub mod cypress;
pub mod detect;
pub mod framework;
pub mod go;
pub mod gradle;
pub mod jest;
mod js;
mod junit;
mod jvm;
pub mod left_out;
pub mod lines;
pub mod maestro;
pub mod maven;
mod missed;
pub mod mocha;
pub mod node_test;
mod notes;
mod paths;
pub mod playwright;
mod project;
mod proof;
pub mod pytest;
mod python;
mod remedies;
mod reported;
pub mod rust;
mod said;
pub mod script;
mod tap;
pub mod together;
pub mod tree;
pub mod unittest;
mod values;
pub mod vitest;

pub use awaited::Awaited;
pub use framework::*;
pub use left_out::{Concerns, LeftOut, Why};
pub use project::Project;
pub use together::{Chosen, Detected};
pub use tree::FileTree;

/// Every adapter, in the order in which several detected ones are named.
pub static FRAMEWORKS: &[&dyn Framework] = &[
    &go::Go,
    &pytest::Pytest,
    &unittest::Unittest,
    &jest::Jest,
    &mocha::Mocha,
    &node_test::NodeTest,
    &vitest::Vitest,
    &playwright::Playwright,
    &script::Script,
    &rust::Cargo,
    &rust::Nextest,
    &ctest::Ctest,
    &maven::Maven,
    &gradle::Gradle,
    &maestro::Maestro,
    &cypress::Cypress,
];
