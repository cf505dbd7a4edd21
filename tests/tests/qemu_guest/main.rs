//! What holds on this machine holds on a stock Debian kernel with nothing but cgroup v2 too: suites of the workspace run
//! in a guest. `make tools` installs what a guest is made of; without it these tests fail.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

mod guest_machine;
mod open_files_watch;
mod sandbox_suites;
