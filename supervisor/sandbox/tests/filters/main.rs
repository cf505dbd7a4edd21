//! What init puts on itself before the first command: capabilities, Landlock, seccomp. Each refusal is shown beside what
//! happens without it, and real programs are shown to live with all three. Needs root, Git, Go, Python and Rust.

#[path = "../../src/worker/capabilities.rs"]
mod capabilities;
#[path = "../../src/worker/landlock.rs"]
mod landlock;
#[path = "../../src/worker/seccomp.rs"]
mod seccomp;

#[cfg(test)]
mod calls;
#[cfg(test)]
mod child;
#[cfg(test)]
mod privilege;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod reach;
#[cfg(test)]
mod table;
