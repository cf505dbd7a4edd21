//! The table of expected outcomes: fixture, request and expected result of every row, the same for all interfaces. One file per
//! framework.

mod cargo;
mod ctest;
mod custom;
mod cypress;
mod go;
mod gradle;
mod jest;
mod maestro;
mod maven;
mod mocha;
mod nextest;
mod node;
mod phpunit;
mod playwright;
mod pytest;
pub mod required_rows;
mod rspec;
mod script;
mod unittest;
mod vitest;

use crate::expectation::Row;

/// The rows of each framework. Its name is also the directory of its fixtures.
pub const TABLES: &[(&str, &[Row])] = &[
    ("go", go::TABLE),
    ("pytest", pytest::TABLE),
    ("unittest", unittest::TABLE),
    ("jest", jest::TABLE),
    ("mocha", mocha::TABLE),
    ("node", node::TABLE),
    ("vitest", vitest::TABLE),
    ("playwright", playwright::TABLE),
    ("script", script::TABLE),
    ("cargo", cargo::TABLE),
    ("nextest", nextest::TABLE),
    ("ctest", ctest::TABLE),
    ("custom", custom::TABLE),
    ("maven", maven::TABLE),
    ("gradle", gradle::TABLE),
    ("maestro", maestro::TABLE),
    ("cypress", cypress::TABLE),
    ("rspec", rspec::TABLE),
    ("phpunit", phpunit::TABLE),
];

/// Error for [`MISSING_COMMAND`]; no run starts.
pub const MISSING_RUNNER: &str = "no-such-runner: not found on PATH";

/// A command that no host has.
pub const MISSING_COMMAND: &[&str] = &["no-such-runner", "--all"];

/// The row with this path, framework and name: `go/pass`.
#[must_use]
pub fn row(path: &str) -> &'static Row {
    let (framework, name) = path.split_once('/').unwrap_or_default();
    let tables = TABLES.iter().filter(|(known, _)| *known == framework);
    let mut rows = tables.flat_map(|(_, rows)| rows.iter()).filter(|row| row.name == name);
    rows.next().unwrap_or_else(|| panic!("the table has no row {path}"))
}
