//! Writes limits to a leaf through the typed controllers of cgroups-rs, and reads each back exactly.
//!
//! A controller is built directly on a leaf that we made. The library only writes: what is in force is decided by our own
//! reading of the file afterwards. The crate's README says what else it must not be used for.

use super::group::{self, GroupError, TransientFailure, is_removed_or_dying};
use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::error::{Error, ErrorKind};
use cgroups_rs::fs::freezer::FreezerController;
use cgroups_rs::fs::memory::{MemController, SetMemory};
use cgroups_rs::fs::pid::PidController;
use cgroups_rs::fs::{MaxValue, hierarchies};
use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

/// File of the limit for socket buffers. It covers UDP as well (measured on Linux 6.18: of 200 MiB sent to sockets that
/// nobody reads, the kernel kept as much as the limit allows). A kernel booted with `cgroup.memory=nokmem` has no such
/// file.
pub(crate) const SOCKET_BUFFERS_LIMIT: &str = "memory.kmem.tcp.limit_in_bytes";

/// Limits the number of processes. The file is the same in v1 and v2.
pub(super) fn set_pids(dir: &Path, pids_max: u64) -> Result<u64, GroupError> {
    let controller = PidController::new(dir.to_owned(), PathBuf::new(), true);
    written(dir, controller.set_pid_max(MaxValue::Value(signed(pids_max))))?;
    group::read_back_exactly(dir, "pids.max", pids_max)
}

/// Limits memory in v2.
pub(super) fn set_memory_v2(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    let limit = SetMemory { max: Some(MaxValue::Value(signed(bytes_max))), ..SetMemory::default() };
    written(dir, memory_v2(dir).set_mem(limit))?;
    group::read_back_pages(dir, "memory.max", bytes_max)
}

/// Turns swap off in v2.
pub(super) fn disable_swap_v2(dir: &Path) -> Result<(), GroupError> {
    written(dir, memory_v2(dir).set_memswap_limit(0))?;
    group::read_back_exactly(dir, "memory.swap.max", 0).map(drop)
}

/// Limits memory in v1. Not by `set_mem`, which writes v2's file in v1 too.
pub(super) fn set_memory_v1(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    written(dir, memory_v1(dir).set_limit(signed(bytes_max)))?;
    group::read_back_pages(dir, "memory.limit_in_bytes", bytes_max)
}

/// Limits memory plus swap in v1.
pub(super) fn set_memory_and_swap_v1(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    written(dir, memory_v1(dir).set_memswap_limit(signed(bytes_max)))?;
    group::read_back_pages(dir, "memory.memsw.limit_in_bytes", bytes_max)
}

/// Limits socket buffers in v1.
pub(super) fn set_socket_buffers_v1(dir: &Path, bytes_max: u64) -> Result<u64, GroupError> {
    written(dir, memory_v1(dir).set_tcp_limit(signed(bytes_max)))?;
    group::read_back_pages(dir, SOCKET_BUFFERS_LIMIT, bytes_max)
}

/// Limits processor time to `quota_us` in each `period_us` in v1.
pub(super) fn set_cpu_v1(dir: &Path, (quota_us, period_us): (u64, u64)) -> Result<(), GroupError> {
    let controller = CpuController::new(dir.to_owned(), PathBuf::new(), false);
    written(dir, controller.set_cfs_quota_and_period(Some(signed(quota_us)), Some(period_us)))?;
    group::read_back_exactly(dir, "cpu.cfs_period_us", period_us)?;
    group::read_back_exactly(dir, "cpu.cfs_quota_us", quota_us).map(drop)
}

/// Limits processor time to `quota_us` in each `period_us` in v2.
pub(super) fn set_cpu_v2(dir: &Path, (quota_us, period_us): (u64, u64)) -> Result<(), GroupError> {
    let controller = CpuController::new(dir.to_owned(), PathBuf::new(), true);
    written(dir, controller.set_cfs_quota_and_period(Some(signed(quota_us)), Some(period_us)))?;
    let expected = format!("{quota_us} {period_us}");
    match group::read_back(dir, "cpu.max")? {
        text if text == expected => Ok(()),
        text => Err(format!("cpu.max reads {text} after {expected} was written").into()),
    }
}

/// Freezes or thaws a group of the v2 hierarchy. The group is frozen only when `cgroup.events` says so.
pub(super) fn set_frozen(dir: &Path, frozen: bool) -> Result<(), Error> {
    let controller = FreezerController::new(dir.to_owned(), PathBuf::new(), true);
    if frozen { controller.freeze() } else { controller.thaw() }
}

/// Whether a v2 hierarchy is mounted at `/sys/fs/cgroup`, according to the library.
pub(crate) fn is_unified_mode() -> bool {
    hierarchies::is_cgroup2_unified_mode()
}

fn memory_v1(dir: &Path) -> MemController {
    MemController::new(dir.to_owned(), PathBuf::new(), false)
}

fn memory_v2(dir: &Path) -> MemController {
    MemController::new(dir.to_owned(), PathBuf::new(), true)
}

/// The library takes signed numbers. A larger one is clipped, and so does not read back.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Classifies an error of the library, whose text has host paths.
///
/// The library opens files as if to create them. So the kernel refuses a file that is missing, or goes away with its
/// group, by EACCES instead of ENOENT, and the group has to be looked at to tell these apart from a missing permission.
fn written(dir: &Path, result: Result<(), Error>) -> Result<(), GroupError> {
    let Err(error) = result else { return Ok(()) };
    let file = file_name(&error);
    let errno = error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).and_then(io::Error::raw_os_error);
    let cause = match errno {
        Some(libc::EACCES) if is_removed_or_dying(dir) => return Err(GroupError::Transient(TransientFailure::Removed)),
        Some(libc::EACCES) if !dir.join(&file).exists() => io::Error::from(io::ErrorKind::NotFound),
        Some(errno) => io::Error::from_raw_os_error(errno),
        None => io::Error::other("the library refuses the content of the file"),
    };
    Err(GroupError::from_io(dir, cause).context(&format!("writing {file}")))
}

/// The name of the file that an error is about.
fn file_name(error: &Error) -> String {
    let path = match error.kind() {
        ErrorKind::WriteFailed(path, _) | ErrorKind::ReadFailed(path) => Path::new(path),
        _ => Path::new(""),
    };
    path.file_name().map_or_else(|| "a limit".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn reason(result: Result<u64, GroupError>) -> String {
        match result {
            Err(GroupError::Denied(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// The files of a new group, as its kernel shows them; a host has the limits of one kind of hierarchy only.
    fn group_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        files.iter().for_each(|(file, content)| fs::write(dir.path().join(file), content).unwrap());
        dir
    }

    fn contents(dir: &tempfile::TempDir, files: &[&str]) -> Vec<String> {
        files.iter().map(|file| fs::read_to_string(dir.path().join(file)).unwrap()).collect()
    }

    #[test]
    fn writes_the_files_of_v2() {
        let files = ["memory.max", "memory.swap.max", "cpu.max", "pids.max", "cgroup.freeze"];
        let dir = group_with(&[("cpu.max", "max 100000\n")]);
        assert_eq!(set_memory_v2(dir.path(), 32 << 20).unwrap(), 32 << 20);
        disable_swap_v2(dir.path()).unwrap();
        set_cpu_v2(dir.path(), (50_000, 100_000)).unwrap();
        assert_eq!(set_pids(dir.path(), 16).unwrap(), 16);
        set_frozen(dir.path(), true).unwrap();
        assert_eq!(contents(&dir, &files), ["33554432", "0", "50000 100000", "16", "1"]);
        set_frozen(dir.path(), false).unwrap();
        assert_eq!(contents(&dir, &["cgroup.freeze"]), ["0"]);
    }

    #[test]
    fn writes_the_files_of_v1() {
        let files = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", SOCKET_BUFFERS_LIMIT];
        let dir = group_with(&[("cpu.cfs_period_us", "100000\n"), ("cpu.cfs_quota_us", "-1\n")]);
        assert_eq!(set_memory_v1(dir.path(), 32 << 20).unwrap(), 32 << 20);
        assert_eq!(set_memory_and_swap_v1(dir.path(), 32 << 20).unwrap(), 32 << 20);
        assert_eq!(set_socket_buffers_v1(dir.path(), 8 << 20).unwrap(), 8 << 20);
        set_cpu_v1(dir.path(), (50_000, 100_000)).unwrap();
        assert_eq!(contents(&dir, &files), ["33554432", "33554432", "8388608"]);
        assert_eq!(contents(&dir, &["cpu.cfs_quota_us", "cpu.cfs_period_us"]), ["50000", "100000"]);
    }

    #[test]
    fn a_limit_that_the_kernel_does_not_keep_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        // Takes every write and keeps none of it.
        std::os::unix::fs::symlink("/dev/null", dir.path().join("pids.max")).unwrap();
        assert_eq!(reason(set_pids(dir.path(), 16)), "pids.max reads  after 16 was written");
    }

    #[test]
    fn an_error_of_the_library_in_a_removed_group_is_transient() {
        let dir = tempfile::tempdir().unwrap();
        let result = set_pids(&dir.path().join("group"), 7);
        assert!(matches!(result, Err(GroupError::Transient(TransientFailure::Removed))), "{result:?}");
    }

    #[test]
    fn an_error_of_the_library_names_the_file_and_no_path() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.procs"), "").unwrap();
        fs::create_dir(dir.path().join("pids.max")).unwrap();
        assert_eq!(reason(set_pids(dir.path(), 7)), "writing pids.max: is a directory");
    }

    #[test]
    fn a_value_that_the_library_clips_does_not_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let reason = reason(set_pids(dir.path(), u64::MAX));
        assert_eq!(reason, format!("pids.max reads {} after {} was written", i64::MAX, u64::MAX));
    }
}
