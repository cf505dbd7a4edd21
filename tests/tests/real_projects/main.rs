//! Projects that nobody here wrote: what `proctor run` reports is what their runner reports of its own, test by test, as they
//! are and with each of five bugs put in; what failed has the file and the line that the runner names; and `--failed` runs
//! again what failed and nothing else.
//!
//! `project.rs` says what a project and a breakage are and compares, `scene.rs` is a copy of a project that can be broken,
//! `account.rs` is what a run came to in a form that all runners have. There is a file for each language: its projects, and
//! how its runners are asked without proctor. The projects are pinned in lists that `.ci/tools` installs from.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

mod go;
mod javascript;
mod package_managers;
mod project;
mod project_copy;
mod python;
mod rust;
mod test_results;
