//! The one crate that touches the kernel: namespaces, cgroups, workers, deadlines.
//!
//! A caller hands [`RunSpec`] to a [`Sandbox`] on a thread of its own and gets [`SandboxEvent`]s while the run goes on
//! and one [`Ending`] when everything is reaped. The crate knows commands, bytes and limits; it must not know test
//! frameworks, sessions, tenants or any runtime.
//!
//! # A run, from top to bottom
//!
//! 1. [`LinuxSandbox::run`](Sandbox::run) refuses what is invalid (`check`), makes a cgroup leaf, writes the limits and
//!    reads them back (`cgroup`). A required limit that is not in force ends it here.
//! 2. It spawns the worker (`launch`), puts it in the leaf and sends it a plan (`plan`, `message`): which layers to put
//!    on, in order, and which commands to run.
//! 3. The worker (`worker`) puts on the layers row by row, becomes init of the run's pid namespace and says what is in
//!    force. A required layer that is not in force ends it here.
//! 4. The run loop (`watch`) reads both streams, the worker's messages, the kill switch, the out-of-memory bell and
//!    the clocks until everything is dead, then `figures` reads the counters, `artifacts` the files, and the leaf goes.
//!
//! **Invariant: no threads, no globals, no async.** `run` uses the caller's thread, and the only processes are the
//! worker and its children.

mod artifacts;
mod cgroup;
mod channel;
mod check;
mod disk;
mod error;
mod figures;
mod in_force;
mod kill;
mod message;
mod plan;
mod pool;
mod probe;
mod room;
mod sandbox;
mod spec;
mod spool;
mod streams;
mod watch;
pub mod worker;

pub use error::SandboxError;
pub use kill::KillSwitch;
pub use plan::LAYERS;
pub use pool::PoolBounds;
pub use probe::{HostReport, HostRow, RowGroup, Status};
pub use sandbox::LinuxSandbox;
pub use spec::*;
pub use spool::{Spool, SpoolReader};
