//! The one crate that touches the kernel: namespaces, cgroups, workers, deadlines.
//!
//! A caller hands [`RunSpec`] to a [`Sandbox`] on a thread of its own and gets [`SandboxEvent`]s while the run goes on
//! and one [`Ending`] when everything is reaped. The crate knows commands, bytes and limits; it must not know test
//! frameworks, sessions, tenants or any runtime.
//!
//! # A run, from top to bottom
//!
//! 1. [`LinuxSandbox::run`](Sandbox::run) refuses what is invalid (`check`) and takes hold of the workspace (`hold`).
//! 2. The `pool` has a worker ready, or a `room` is made here: its launcher (`worker`) carries out its rows of the `plan`,
//!    what all runs of a jail share, and forks an init. A cgroup leaf is made, its limits are written and read back
//!    (`cgroup`), and init, inside it, carries out its own rows and says what is in force. A required layer or limit that
//!    is not in force ends it here.
//! 3. The run loop (`watch`) hands init its commands and reads both streams, init's messages, the kill switch, the
//!    out-of-memory bell, the `disk` and the clocks until everything is dead. Then `figures` reads the counters, the leaf
//!    goes, and `artifacts` reads the files.
//!
//! **Invariant: no globals, no async, and one thread**, the keeper of the pool. `run` uses its caller's thread, which
//! keeps the short slice (`slice`) that it gets there; [`shorten_slice`] gives it to whatever else a run waits for.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

mod arenas;
mod artifacts;
mod buffered_writes;
mod cgroup;
mod channel;
mod check;
mod class;
mod disk;
mod error;
mod figures;
mod hold;
mod in_force;
mod kill;
mod lack;
mod message;
mod open_files;

mod plan;
mod pool;
mod probe;
mod processes;
mod room;
mod sandbox;
mod set_up;
pub mod shared_resources;
mod slice;
mod spec;
mod spool;
mod streams;
mod token_bucket;
mod uncharged;
mod undead;
mod unstarted;
mod user_limits;
mod watch;
pub mod worker;

pub use arenas::{release_memory, share_arenas};
pub use class::Class;
pub use error::SandboxError;
pub use kill::KillSwitch;
pub use lack::{lack, unless_lacking};
pub use plan::LAYERS;
pub use pool::PoolBounds;
pub use probe::{HostReport, HostRow, RowGroup, Status};
pub use room::DEATH_WAIT;
pub use sandbox::LinuxSandbox;
pub use slice::shorten as shorten_slice;
pub use spec::*;
pub use spool::{Spool, SpoolReader};
