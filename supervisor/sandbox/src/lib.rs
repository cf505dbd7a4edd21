//! The one crate that touches the kernel: namespaces, cgroups, workers, deadlines.
//!
//! A caller hands a [`RunSpec`] to a [`Sandbox`] on a thread of its own. It gets [`SandboxEvent`]s while the run goes
//! on and one [`Ending`] when every process of the run is reaped. The crate knows commands, bytes and limits, and
//! nothing of test frameworks, sessions, tenants or an async runtime.
//!
//! # A run, from top to bottom
//!
//! 1. [`LinuxSandbox::run`](Sandbox::run) validates the specification (`spec_validation`) and opens the workspace
//!    (`workspace_fd`).
//! 2. The `pool` hands out a prepared worker. If it has none, a new `zygote` is started: its launcher process
//!    (`worker`) carries out the launcher rows of the `layer_plan`, which set up what all runs of a jail share, and
//!    forks an init. The run's cgroup leaf is made, its limits are written and read back (`cgroup`). Init enters the
//!    leaf, carries out its own rows and reports which layers are in force (`enforcement`). The run is refused if a
//!    required layer or limit is not.
//! 3. The `run_loop` sends init its commands and polls both streams, init's messages, the kill switch, the
//!    out-of-memory event, the `disk` monitor and the timers until every process is dead. Then the counters are read
//!    (`ending`), the leaf is removed, and the artefacts are collected (`artifacts`). Before that, commands that the run left
//!    for later are executed (`alone_commands`).
//!
//! **Invariant: no globals, no async, and one thread of its own**, the pool's. `run` uses its caller's thread, which
//! keeps the short scheduler slice (`sched_slice`) that it gets there; [`shorten_slice`] gives it to other threads that
//! a run waits for, and [`use_batch_policy`] keeps a thread from preempting them.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

mod alone_commands;
mod artifacts;
mod buffered_writes;
mod cgroup;
mod control_socket;
mod disk;
mod ending;
mod enforcement;
mod error;
mod exec_failure;
mod exhausted_resource;
mod host_report;
mod kernel_memory;
mod kill_switch;
mod layer_plan;
mod linux_sandbox;
mod malloc;
mod open_files;
mod output_pipes;
mod permission_class;
mod pool;
mod probe;
mod run_loop;
mod run_processes;
mod sched_slice;
mod setup_wait;
pub mod shared_resources;
mod spec;
mod spec_validation;
mod spool;
mod token_bucket;
mod unkillable;
mod user_limits;
pub mod worker;
mod worker_counts;
mod worker_protocol;
mod workspace_fd;
mod zygote;

pub use error::SandboxError;
pub use exhausted_resource::{exhausted_resource, ok_unless_exhausted};
pub use host_report::{HostReport, HostRow, RowGroup, Status};
pub use kill_switch::KillSwitch;
pub use layer_plan::LAYERS;
pub use linux_sandbox::LinuxSandbox;
pub use malloc::{limit_malloc_arenas, release_memory};
pub use permission_class::PermissionClass;
pub use pool::PoolBounds;
pub use sched_slice::{shorten as shorten_slice, use_batch_policy};
pub use spec::*;
pub use spool::{Spool, SpoolReader};
pub use worker_counts::WorkerCounts;
pub use zygote::DEATH_WAIT;
