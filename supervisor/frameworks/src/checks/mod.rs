//! Linters and type checkers: which of them a workspace's settings select, their commands, and what their output says.
//!
//! As the adapters of test runners, everything here is data in, data out. [`choose`] finds the checkers of a tree,
//! [`CheckChoice::plan`] makes the commands of a run and its [`CheckParser`], and [`CheckParser::report`] has the
//! findings. A new checker is one module and one row in [`CHECKERS`].
//!
//! A checker that is missing, that crashed, that was cut off or whose output is not whole is never one without
//! findings: each parser knows the exit statuses of its tool, and what shows that the output has an end.

mod biome;
mod cargo;
mod checker;
mod choice;
mod command_output;
mod eslint;
mod go;
mod mypy;
mod parser;
mod projects;
mod pyright;
mod ruff;
mod settings;
mod settings_files;
mod tsc;
mod unscanned_settings;

pub use checker::{CheckProject, Checker, CheckerCommand, CheckerManifest, CheckerOutput, CheckerRun};
pub use choice::{CheckChoice, ChosenChecker, NoChecker, choose};
pub use parser::CheckParser;
pub use settings_files::is_settings_path;

/// Every checker, in the order in which they run and in which an error lists them.
pub static CHECKERS: &[&dyn Checker] = &[
    &go::GolangciLint,
    &go::GoVet,
    &go::GoTypes,
    &ruff::Ruff,
    &mypy::Mypy,
    &pyright::Pyright,
    &eslint::Eslint,
    &biome::Biome,
    &tsc::Tsc,
    &cargo::Clippy,
    &cargo::CargoCheck,
];

/// Whether selection reads the content of the file at this path, besides the markers of the frameworks.
#[must_use]
pub fn is_marker_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    CHECKERS.iter().any(|checker| checker.manifest().markers.contains(&name))
}

/// Whether a request may not set the variable `name`, since it belongs to a checker or to its tools.
#[must_use]
pub fn reserves_variable(name: &str) -> bool {
    CHECKERS.iter().map(|checker| checker.manifest()).any(|manifest| {
        manifest.reserved.contains(name) || manifest.toolchains.iter().any(|toolchain| toolchain.reserves(name))
    })
}
