//! The actor and its runs, in a world of their own (`harness`).

mod draining;
mod ending;
mod harness;
mod host_out_of_descriptors;
mod idle;
mod pending_scans;
mod registry;
mod runs;
mod waiting_runs;
