//! Operating a supervisor: the audit log, the orderly end, the service manager, and output that never blocks a run.

pub mod audit;
pub mod drain;
pub mod nonblocking_writer;
pub mod systemd;
