//! Pure adapters, one per test framework: a snapshot of the file tree in, a command line out; bytes in, events out.
//!
//! Nothing here opens a file or starts a process. The supervisor scans the [`FileTree`], resolves programs, runs the
//! [`Plan`] and feeds the output to the [`Parser`]. A new framework is one module and one row in [`FRAMEWORKS`].

mod contract;
mod ecosystems;
mod formats;
mod parsing;
mod run;
pub mod runners;

pub use contract::*;
pub use run::detection;
pub use run::expected_tests::ExpectedTests;
pub use run::framework_choice::{DetectedFramework, FrameworkChoice};
use runners::{
    ctest, cypress, go, gradle, jest, maestro, maven, mocha, node_test, phpunit, playwright, pytest, rspec, rust,
    script, unittest, vitest,
};

/// Every adapter, in the order in which an error lists several detected frameworks.
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
    &rspec::Rspec,
    &phpunit::Phpunit,
];
