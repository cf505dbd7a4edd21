//! Opens a run's workspace as a descriptor, so that the checked directory is the one that is used. Between a check by
//! path and a use its owner, hostile code, could replace any directory that it can write by a link.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Device and inode of a directory.
pub(crate) type DirId = (u64, u64);

/// Opens the directory `path` without following links; fails if its id is not `expected`.
pub(crate) fn open_workspace(path: &Path, expected: Option<DirId>) -> io::Result<(OwnedFd, DirId)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let dir = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let stat = fstat(&dir)?;
    let id = (stat.st_dev, stat.st_ino);
    match expected {
        Some(expected) if expected != id => Err(io::Error::other("another directory has taken its place")),
        _ => Ok((dir, id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn refuses_links_and_replaced_directories() {
        let parent = tempfile::tempdir().unwrap();
        let path_of = |name: &str| parent.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(path_of("real/below")).unwrap();
        symlink("real", path_of("link")).unwrap();
        let (_, id) = open_workspace(&path_of("real/below"), None).unwrap();
        assert!(open_workspace(&path_of("real/below"), Some(id)).is_ok());
        assert!(open_workspace(&path_of("link"), None).is_err());
        assert!(open_workspace(&path_of("link/below"), None).is_err());
        fs::rename(path_of("real/below"), path_of("real/old")).unwrap();
        fs::create_dir(path_of("real/below")).unwrap();
        assert!(open_workspace(&path_of("real/below"), Some(id)).is_err());
    }
}
