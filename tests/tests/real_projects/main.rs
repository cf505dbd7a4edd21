//! Projects of other authors: for each one as published and with each of two bugs, `proctor run` reports what the runner itself
//! reports, test by test; each failure has the file and line that the runner names; and `--failed` reruns exactly the failed
//! tests.
//!
//! `project` defines projects and bugs and compares results, `project_copy` is a copy of a project that can be broken, and
//! `test_results` holds results in a form common to all runners. One file per language has its projects and calls its
//! runners without proctor. The versions are pinned in lists from which `.ci/tools` installs.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod go;
mod javascript;
mod package_managers;
mod project;
mod project_copy;
mod python;
mod rust;
mod test_results;
