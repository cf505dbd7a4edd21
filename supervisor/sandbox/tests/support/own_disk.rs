//! A file system that belongs to one test, so that no other process takes or frees space on it.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A tmpfs with an empty directory `workspace`, unmounted on drop.
pub(crate) struct OwnDisk {
    dir: TempDir,
}

impl OwnDisk {
    /// A file system of this size, for 200,000 files.
    pub(crate) fn with_bytes(bytes: u64) -> OwnDisk {
        let dir = tempfile::tempdir().unwrap();
        let options = CString::new(format!("size={bytes},nr_inodes=200000")).unwrap();
        mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
        let disk = OwnDisk { dir };
        std::fs::create_dir(disk.workspace()).unwrap();
        disk
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        // A failed test must not fail twice.
        _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}
