//! Operation of a supervisor: audit log, orderly end, service manager, and output that never blocks a run.

pub mod audit;
pub mod drain;
pub mod nonblocking_writer;
pub mod systemd;
