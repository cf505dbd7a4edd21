//! Holds a run's workspace by a descriptor, so that what was checked is what is used: between a look and a use its owner,
//! hostile code, may put a link in the place of any directory that it can write. Must not know what it is held for.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Device and inode.
pub(crate) type Id = (u64, u64);

/// Opens the directory `path`, through no link, and refuses another one than `wanted`.
pub(crate) fn hold(path: &Path, wanted: Option<Id>) -> io::Result<(OwnedFd, Id)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let dir = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let found = fstat(&dir)?;
    let id = (found.st_dev, found.st_ino);
    match wanted {
        Some(wanted) if wanted != id => Err(io::Error::other("another directory has taken its place")),
        _ => Ok((dir, id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn neither_a_link_nor_another_directory_is_held() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(at("real/below")).unwrap();
        symlink("real", at("link")).unwrap();
        let (_, id) = hold(&at("real/below"), None).unwrap();
        assert!(hold(&at("real/below"), Some(id)).is_ok());
        assert!(hold(&at("link"), None).is_err());
        assert!(hold(&at("link/below"), None).is_err());
        fs::rename(at("real/below"), at("real/old")).unwrap();
        fs::create_dir(at("real/below")).unwrap();
        assert!(hold(&at("real/below"), Some(id)).is_err());
    }
}
