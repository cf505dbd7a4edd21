//! Directories of the supervisor: its state directory, which it locks, and below it directories that belong to the user
//! of a run (build caches). Runs can create links wherever they can write, so no step of a path follows one.

use crate::host::trash::trash_in_background;
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Other users may pass through and list nothing.
const PASSAGE: u32 = 0o711;

/// Only the owner has access.
const PRIVATE: u32 = 0o700;

/// Lock file in the state directory. It stays when the supervisor has ended; its existence means nothing.
const LOCK: &str = "lock";

/// Locks the directory `base`, which is created if missing, against other supervisors while the returned file is open.
/// The kernel releases the lock of a killed supervisor.
pub fn lock_dir(base: &Path) -> io::Result<File> {
    fs::create_dir_all(base).map_err(|error| with_path(base, &error))?;
    let path = base.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path);
    let lock = file.map_err(|error| with_path(&path, &error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::Error(error)) => Err(with_path(&path, &error)),
        Err(TryLockError::WouldBlock) => {
            let why = "another supervisor uses this directory; stop it, or give this one a state_dir of its own";
            Err(with_path(base, &io::Error::new(io::ErrorKind::WouldBlock, why)))
        }
    }
}

/// Creates `base/below[0]/below[1]/…` and gives the last directory to the user and group `owner`, or to this process's
/// user if `None`. The directories above stay this process's and can only be passed through.
///
/// An existing directory of another user is thrown away and created anew, because its contents are useless to `owner`.
/// The error names the path at which creation failed.
pub fn own_dir(base: &Path, below: &[&str], owner: Option<(u32, u32)>) -> io::Result<PathBuf> {
    let mut path = base.to_owned();
    create_chain(&mut path, below, owner).map_err(|error| with_path(&path, &error))?;
    Ok(path)
}

/// Adds the path to an error.
#[must_use]
pub fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

// `path` grows with each step.
fn create_chain(path: &mut PathBuf, below: &[&str], owner: Option<(u32, u32)>) -> io::Result<()> {
    fs::create_dir_all(&path)?;
    let Some((last, parents)) = below.split_last() else { return Ok(()) };
    let mut parent = open_dir(path)?;
    for name in parents {
        path.push(name);
        parent = open_or_create(&parent, name)?;
        parent.set_permissions(Permissions::from_mode(PASSAGE))?;
    }
    path.push(last);
    let mut dir = open_or_create(&parent, last)?;
    let own = fs::metadata("/proc/self")?;
    let (uid, gid) = owner.unwrap_or((own.uid(), own.gid()));
    if dir.metadata()?.uid() != uid {
        trash_in_background(&parent, last)?;
        dir = open_or_create(&parent, last)?;
    }
    fchown(&dir, Some(uid), Some(gid))?;
    dir.set_permissions(Permissions::from_mode(PRIVATE))
}

// A path relative to an open directory, which stays valid when the directory is moved.
fn entry_path(parent: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name)
}

fn open_or_create(parent: &File, name: &str) -> io::Result<File> {
    let path = entry_path(parent, name);
    match DirBuilder::new().mode(PRIVATE).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => OpenOptions::new()
            .read(true)
            .custom_flags((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed())
            .open(path),
    }
}

fn open_dir(dir: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECTORY.bits().cast_signed()).open(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn gives_away_only_the_last_directory() {
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
        assert!(cache.join("kept").exists(), "existing contents stay");
        if us == 0 {
            own_dir(dir.path(), &["tenants", "a", "cache"], Some((5_000, 5_000))).unwrap();
            assert!(!cache.join("kept").exists(), "another user's cache is discarded");
            assert_eq!(fs::metadata(&cache).unwrap().uid(), 5_000);
            own_dir(dir.path(), &["tenants", "a", "cache"], None).unwrap();
            assert_eq!(fs::metadata(&cache).unwrap().uid(), us);
        }
    }

    #[test]
    fn only_one_supervisor_locks_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("state");
        let lock = lock_dir(&base).unwrap();
        let error = lock_dir(&base).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: another supervisor uses this directory; ", base.display())), "{error}");
        drop(lock);
        let again = lock_dir(&base);
        assert!(again.is_ok(), "{again:?}");
        drop(again);
        fs::remove_file(base.join("lock")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), base.join("lock")).unwrap();
        assert!(lock_dir(&base).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::set_permissions(&elsewhere, Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("tenants")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join("tenants/a")).unwrap();
        for (below, why) in
            [(&["tenants", "a"][..], "as the last component"), (&["tenants", "a", "cache"], "in the middle")]
        {
            let error = own_dir(dir.path(), below, None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{}/tenants/a: ", dir.path().display())), "{why}: {error}");
        }
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = own_dir(&file, &["tenants"], None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", file.display())), "{error}");
        assert_eq!(mode(&elsewhere), 0o755);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
