//! What the JavaScript and TypeScript runners share: which projects there are and whose they are (`detect`, from the
//! manifests that `manifest` reads), what a project's test script says (`script`), how a runner is started (`launch`), and
//! how a selection becomes files and names (`selection`). Must not know how any runner spells its options.
//!
//! A test's `package` is its file, its `name` the titles around it and its own, joined with [`TITLES`].

mod detect;
mod launch;
mod manifest;
mod script;
mod selection;

pub(crate) use detect::{MARKERS, Runner, projects};
pub(crate) use launch::Launch;
pub(crate) use script::{Flag, Options, Script};
pub(crate) use selection::{Group, Names, groups};

/// What stands between the titles of nested suites and of a test in the test's name.
pub(crate) const TITLES: &str = " > ";
