//! Tests of the actor and its runs, with a fake sandbox (`harness`).

mod draining;
mod ending;
mod harness;
mod host_out_of_descriptors;
mod idle;
mod pending_scans;
mod registry;
mod runs;
mod waiting_runs;
