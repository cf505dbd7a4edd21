//! THE table: every fixture, what is asked of it, and what has to come of it, whatever the entrance; a file for each
//! framework. Must not know any entrance.

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

/// The rows of each framework, which is also the directory of its fixtures.
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

/// A runner that is not there: no run begins, and this is said.
pub const MISSING_RUNNER: &str = "no-such-runner: not found on PATH";

/// The command that nobody has.
pub const MISSING_COMMAND: &[&str] = &["no-such-runner", "--all"];

/// The row of that framework and name: `go/pass`.
#[must_use]
pub fn row(path: &str) -> &'static Row {
    let (framework, name) = path.split_once('/').unwrap_or_default();
    let tables = TABLES.iter().filter(|(known, _)| *known == framework);
    let mut rows = tables.flat_map(|(_, rows)| rows.iter()).filter(|row| row.name == name);
    rows.next().unwrap_or_else(|| panic!("the table has no row {path}"))
}
