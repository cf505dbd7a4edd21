//! Runs suites of this workspace in a guest with a stock Debian kernel and cgroup v2 only. `make tools` installs what the
//! guest needs; without it these tests fail.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod guest_machine;
mod host_file_limit;
mod sandbox_suites;
