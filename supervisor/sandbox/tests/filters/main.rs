//! The filters that init installs before the first command: capabilities, Landlock, seccomp. Each refusal is compared
//! with the result without the filter, and real programs must work under all three. Needs root, Git, Go, Python and
//! Rust.

#[path = "../../src/worker/capabilities.rs"]
mod capabilities;
#[path = "../../src/worker/landlock.rs"]
mod landlock;
#[path = "../../src/worker/seccomp.rs"]
mod seccomp;

#[cfg(test)]
mod call_table;
#[cfg(test)]
mod child_process;
#[cfg(test)]
mod landlock_reach;
#[cfg(test)]
mod privilege;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod refused_calls;
