//! Pure adapters, one per test framework: a snapshot of the file tree in, a command line out; bytes in, events out.
//!
//! Nothing here opens a file or starts a process. The supervisor scans the [`FileTree`], resolves programs, runs the
//! [`Plan`] and feeds the output to the [`Parser`]. A new framework is one module and one row in [`FRAMEWORKS`]: whatever else
//! proctor knows about frameworks it derives from their [`Manifest`]s.

pub mod checks;
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
use std::sync::LazyLock;

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

/// The toolchains of all frameworks, each once, in the order of [`FRAMEWORKS`].
pub static TOOLCHAINS: LazyLock<Vec<&'static Toolchain>> = LazyLock::new(|| {
    let mut toolchains: Vec<&'static Toolchain> = Vec::new();
    for toolchain in FRAMEWORKS.iter().flat_map(|framework| framework.manifest().toolchains) {
        if !toolchains.iter().any(|known| known.name == toolchain.name) {
            toolchains.push(toolchain);
        }
    }
    toolchains
});

/// Whether a request may not set the variable `name`, since it belongs to a framework or to its tools.
#[must_use]
pub fn reserves_variable(name: &str) -> bool {
    checks::reserves_variable(name)
        || FRAMEWORKS.iter().any(|framework| framework.manifest().reserved.contains(name))
        || TOOLCHAINS.iter().any(|toolchain| toolchain.reserves(name))
}

/// The directories that a scan ignores, of every framework and toolchain.
pub fn ignored_dirs() -> impl Iterator<Item = &'static IgnoredDirs> {
    let of_frameworks = FRAMEWORKS.iter().map(|framework| &framework.manifest().ignored_dirs);
    of_frameworks.chain(TOOLCHAINS.iter().map(|toolchain| &toolchain.ignored_dirs))
}
