//! A file system that belongs to one test, so that nobody else takes or frees space there. Must not know what is tested.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A tmpfs that goes with this value, with an empty directory `workspace`.
pub(crate) struct OwnDisk {
    dir: TempDir,
}

impl OwnDisk {
    /// One of this size, for 200,000 files.
    pub(crate) fn of(bytes: u64) -> OwnDisk {
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
        // A test that has failed is not to fail twice.
        _ = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}
