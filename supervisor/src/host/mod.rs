//! The build host: its toolchains and the parts that runs see, its health, its checks for `proctor doctor`, and the
//! supervisor's own directories.

pub mod check_cache;
pub mod checks;
pub mod environment;
pub mod monitor;
pub mod read_access;
pub mod resolved_path;
pub mod state_dir;
pub mod toolchain;
pub mod toolchain_mounts;
pub mod toolchain_sources;
pub mod trash;
