//! A directory beside another into which whole trees go in one step, to be removed later. Trees are a tenant's: nothing here
//! follows a link, holds more than two directories open or calls itself.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

pub(crate) const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Takes all caches, the directory `name` of `parent`, out of use in one step. Removing them takes long, and nobody waits for
/// it: a thread of its own does it, or whoever tidies next.
pub(crate) fn throw_away(parent: &File, name: &str) -> io::Result<()> {
    let trash = put_aside(parent, name)?;
    let emptying = std::thread::Builder::new().name("trash".to_owned()).spawn(move || empty_in_turn(&trash));
    if let Err(error) = emptying {
        tracing::warn!(%error, "build caches that are of no use any more are removed later");
    }
    Ok(())
}

/// Takes the directory `name` out of the cache directory `cache` in one step; it is removed with the rest of the trash.
pub(crate) fn throw_out(cache: &Path, name: &str) -> io::Result<()> {
    let trash = open_trash(CWD, &sibling(cache, ".trash"))?;
    let dir = openat(CWD, cache, OPEN_DIR, Mode::empty())?;
    move_up(&dir, &CString::new(name)?, &trash, &mut 0)
}

pub(crate) fn put_aside(parent: &File, name: &str) -> io::Result<File> {
    let trash = open_trash(parent, &sibling(Path::new(name), ".trash"))?;
    throw(parent, &CString::new(name)?, &trash, &mut 0)?;
    Ok(trash)
}

pub(crate) fn empty_in_turn(trash: &File) {
    if let Err(error) = trash.lock().and_then(|()| empty(trash)) {
        tracing::warn!(%error, "build caches that are of no use any more could not be removed");
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

/// Removes everything in `trash`. A directory in a directory is moved up first, so that no depth is too deep.
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

/// Whether `name` is gone; a directory stays.
fn remove_file(dir: &impl AsFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A directory whose entries can be removed: Go keeps its modules in directories that cannot be written.
fn open_to_empty(trash: &File, name: &CStr) -> io::Result<OwnedFd> {
    make_writable(trash, name)?;
    Ok(openat(trash, name, OPEN_DIR, Mode::empty())?)
}

/// Moves `name` into `trash`, under the next number that is not taken: a name of its own choice would meet others.
pub(crate) fn throw(dir: &impl AsFd, name: &CStr, trash: &File, number: &mut u64) -> rustix::io::Result<()> {
    loop {
        *number += 1;
        match renameat(dir, name, trash, format!("up-{number}")) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
            other => return other,
        }
    }
}

pub(crate) fn move_up(dir: &OwnedFd, name: &CStr, trash: &File, number: &mut u64) -> io::Result<()> {
    match throw(dir, name, trash, number) {
        // Its own `..` changes, so it has to be writable itself.
        Err(Errno::ACCESS) => {
            make_writable(dir, name)?;
            throw(dir, name, trash, number)
        }
        other => other,
    }?;
    Ok(())
}

/// For a supervisor without privilege; the trash is out of every run's reach, so nothing is replaced by a link here.
fn make_writable(dir: &impl AsFd, name: &CStr) -> io::Result<()> {
    Ok(rustix::fs::chmodat(dir, name, Mode::RWXU, AtFlags::empty())?)
}
