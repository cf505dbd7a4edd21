//! The packages, made by `.ci/package` from the programs of this build: what the deb contains, and its life in a guest with
//! systemd as init: installed, used, upgraded with a run in flight, removed, purged. And the scripts of the rpm.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy treats as ordinary code")]

mod contents;
mod deb;
mod guest;
mod lifecycle;
mod rpm_scripts;
