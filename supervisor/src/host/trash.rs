//! Moves whole trees into a sibling directory in one step, to remove them later. Tenants create these trees, so this
//! code follows no links, holds at most two directories open and does not recurse.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(crate) const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Moves directory `name` of `parent` into the trash. A new thread removes it, or the next tidy-up if no thread can be
/// created, because removal takes long.
pub(crate) fn trash_in_background(parent: &File, name: &str) -> io::Result<()> {
    let trash = trash_dir(parent, name)?;
    let emptying = std::thread::Builder::new().name("trash".to_owned()).spawn(move || empty_when_unlocked(&trash));
    if let Err(error) = emptying {
        tracing::warn!(%error, "discarded build caches are removed later: no thread could be started");
    }
    Ok(())
}

/// Moves directory `name` of the cache directory `cache` into the trash, which the next tidy-up empties.
pub(crate) fn move_to_trash(cache: &Path, name: &str) -> io::Result<()> {
    let trash = open_trash(CWD, &sibling(cache, ".trash"))?;
    let dir = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
    move_up(&dir, &CString::new(name)?, &trash, &mut 0)
}

pub(crate) fn trash_dir(parent: &File, name: &str) -> io::Result<File> {
    let trash = open_trash(parent, &sibling(Path::new(name), ".trash"))?;
    rename_into(parent, &CString::new(name)?, &trash, &mut 0)?;
    Ok(trash)
}

pub(crate) fn empty_when_unlocked(trash: &File) {
    if let Err(error) = trash.lock().and_then(|()| empty(trash)) {
        tracing::warn!(%error, "discarded build caches could not be removed");
    }
}

pub(crate) fn sibling(cache: &Path, extension: &str) -> PathBuf {
    let mut name = cache.file_name().unwrap_or(OsStr::new("cache")).to_owned();
    name.push(extension);
    cache.with_file_name(name)
}

pub(crate) fn open_trash(dir: impl AsFd, path: &Path) -> io::Result<File> {
    match mkdirat(&dir, path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(openat(&dir, path, OPEN_DIR, Mode::empty())?.into()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn names(dir: &impl AsFd) -> io::Result<impl Iterator<Item = CString>> {
    let entries = Dir::read_from(dir)?.filter_map(Result::ok).map(|entry| entry.file_name().to_owned());
    Ok(entries.filter(|name| ![c".", c".."].contains(&name.as_c_str())))
}

/// Removes everything in `trash`. Subdirectories are moved up first, so that any depth can be removed.
pub(crate) fn empty(trash: &File) -> io::Result<()> {
    let mut number = 0;
    loop {
        let tops: Vec<CString> = names(trash)?.take(4_096).collect();
        if tops.is_empty() {
            return Ok(());
        }
        for top in tops {
            if remove_file(trash, &top)? {
                continue;
            }
            let dir = open_to_empty(trash, &top)?;
            for name in names(&dir)? {
                if !remove_file(&dir, &name)? {
                    move_up(&dir, &name, trash, &mut number)?;
                }
            }
            unlinkat(trash, &top, AtFlags::REMOVEDIR)?;
        }
    }
}

/// Removes a file; returns `false` for a directory, which stays.
fn remove_file(dir: &impl AsFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory and makes it writable: Go keeps modules in read-only directories.
fn open_to_empty(trash: &File, name: &CStr) -> io::Result<OwnedFd> {
    make_writable(trash, name)?;
    Ok(openat(trash, name, OPEN_DIR, Mode::empty())?)
}

/// Moves `name` into `trash` under the next free number, because names of tenants could collide.
pub(crate) fn rename_into(dir: &impl AsFd, name: &CStr, trash: &File, number: &mut u64) -> rustix::io::Result<()> {
    loop {
        *number += 1;
        match renameat(dir, name, trash, format!("up-{number}")) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
            other => return other,
        }
    }
}

pub(crate) fn move_up(dir: &OwnedFd, name: &CStr, trash: &File, number: &mut u64) -> io::Result<()> {
    match rename_into(dir, name, trash, number) {
        // The move changes the directory's `..`, so the directory itself must be writable.
        Err(Errno::ACCESS) => {
            make_writable(dir, name)?;
            rename_into(dir, name, trash, number)
        }
        other => other,
    }?;
    Ok(())
}

/// Needed by a supervisor without privilege. Runs cannot reach the trash, so nothing can be replaced by a link here.
fn make_writable(dir: &impl AsFd, name: &CStr) -> io::Result<()> {
    Ok(rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?)
}
