//! Directories of the supervisor's: the one that it has to itself, and those in it that belong to the user of a run, build
//! caches. A run may put links wherever it can write, so no step of the way there follows one. Must not know whose runs or
//! what is cached.

use crate::host::trash::throw_away;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Whoever is not the owner may pass through and see nothing.
const PASSAGE: u32 = 0o711;

/// Nobody but its owner may do anything.
const PRIVATE: u32 = 0o700;

/// What is locked in a directory that one supervisor has to itself. It stays when the supervisor is gone, and says nothing then.
const LOCK: &str = "lock";

/// Keeps every other supervisor out of the directory `base`, made where it is not there, for as long as the file is open.
/// The lock is the kernel's, so nobody has to clear up after a supervisor that was killed.
pub fn hold(base: &Path) -> io::Result<File> {
    fs::create_dir_all(base).map_err(|error| named(base, &error))?;
    let path = base.join(LOCK);
    let open = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path);
    let lock = open.map_err(|error| named(&path, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::Error(error)) => Err(named(&path, &error)),
        Err(TryLockError::WouldBlock) => {
            let why = "another supervisor has this directory; stop it, or give this one a state_dir of its own";
            Err(named(base, &io::Error::new(io::ErrorKind::WouldBlock, why)))
        }
    }
}

/// The directory `base/below[0]/below[1]/…`, made where it is not there, for the user and group `owner` alone; for this
/// process's own user without one. What is above it stays this process's own and can only be passed through.
///
/// A directory that belongs to another user is begun anew: what is cached in it was of no use to `owner`. An error names the
/// directory that could not be had.
pub fn own_dir(base: &Path, below: &[&str], owner: Option<(u32, u32)>) -> io::Result<PathBuf> {
    let mut path = base.to_owned();
    made(&mut path, below, owner).map_err(|error| named(&path, &error))?;
    Ok(path)
}

/// `error` with the path that it is about.
#[must_use]
pub fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

// `path` grows on the way down.
fn made(path: &mut PathBuf, below: &[&str], owner: Option<(u32, u32)>) -> io::Result<()> {
    fs::create_dir_all(&path)?;
    let Some((last, passages)) = below.split_last() else { return Ok(()) };
    let mut parent = open(path)?;
    for name in passages {
        path.push(name);
        parent = child(&parent, name)?;
        parent.set_permissions(Permissions::from_mode(PASSAGE))?;
    }
    path.push(last);
    let mut dir = child(&parent, last)?;
    let own = fs::metadata("/proc/self")?;
    let (uid, gid) = owner.unwrap_or((own.uid(), own.gid()));
    if dir.metadata()?.uid() != uid {
        throw_away(&parent, last)?;
        dir = child(&parent, last)?;
    }
    fchown(&dir, Some(uid), Some(gid))?;
    dir.set_permissions(Permissions::from_mode(PRIVATE))
}

// A path that begins at an open directory, wherever that has been moved to.
fn at(parent: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name)
}

fn child(parent: &File, name: &str) -> io::Result<File> {
    let path = at(parent, name);
    match DirBuilder::new().mode(PRIVATE).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path),
    }
}

fn open(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn only_the_last_directory_is_given_away() {
        let dir = tempfile::tempdir().unwrap();
        let us = fs::metadata(dir.path()).unwrap().uid();
        let owner = (us == 0).then_some((4_000, 4_001));
        let cache = own_dir(dir.path(), &["tenants", "a", "cache"], owner).unwrap();
        assert_eq!(cache, dir.path().join("tenants/a/cache"));
        assert_eq!(mode(&cache), 0o700);
        let owned = fs::metadata(&cache).unwrap();
        assert_eq!((owned.uid(), owned.gid()), owner.unwrap_or((us, owned.gid())));
        for passage in ["tenants", "tenants/a"] {
            let passage = dir.path().join(passage);
            assert_eq!((mode(&passage), fs::metadata(&passage).unwrap().uid()), (0o711, us));
        }
        fs::write(cache.join("kept"), "").unwrap();
        own_dir(dir.path(), &["tenants", "a", "cache"], owner).unwrap();
        assert!(cache.join("kept").exists(), "what is there stays");
        if us == 0 {
            own_dir(dir.path(), &["tenants", "a", "cache"], Some((5_000, 5_000))).unwrap();
            assert!(!cache.join("kept").exists(), "another user's cache is none");
            assert_eq!(fs::metadata(&cache).unwrap().uid(), 5_000);
            own_dir(dir.path(), &["tenants", "a", "cache"], None).unwrap();
            assert_eq!(fs::metadata(&cache).unwrap().uid(), us);
        }
    }

    #[test]
    fn a_directory_is_held_by_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("state");
        let held = hold(&base).unwrap();
        let told = hold(&base).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{}: another supervisor has this directory; ", base.display())), "{told}");
        drop(held);
        let again = hold(&base);
        assert!(again.is_ok(), "{again:?}");
        drop(again);
        fs::remove_file(base.join("lock")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), base.join("lock")).unwrap();
        assert!(hold(&base).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("tenants")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join("tenants/a")).unwrap();
        for (below, why) in [(&["tenants", "a"][..], "as the last"), (&["tenants", "a", "cache"], "on the way")] {
            let told = own_dir(dir.path(), below, None).unwrap_err().to_string();
            assert!(told.starts_with(&format!("{}/tenants/a: ", dir.path().display())), "{why}: {told}");
        }
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let told = own_dir(&file, &["tenants"], None).unwrap_err().to_string();
        assert!(told.starts_with(&format!("{}: ", file.display())), "{told}");
        assert_eq!(mode(&elsewhere), 0o755);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
