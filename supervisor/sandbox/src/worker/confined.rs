//! Confines a command that is executed alone, when the run is over: a second ruleset of Landlock, beside that of the run.

use super::landlock::{DEV, MAKING_DEVICES, abi, enforce, kernel_error, ruleset};
use crate::spec_validation::{SHM, TMP};
use crate::worker_protocol::Confinement;
use landlock::{ABI, AccessFs, PathBeneath, RulesetCreatedAttr};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Restricts the calling thread further: it may change files in one directory only, and read no temporary file (in [`TMP`] and [`SHM`])
/// but those that are readable. The modes and times of files are no right of Landlock's.
///
/// # Errors
///
/// As [`restrict`](super::landlock::restrict); `ENOSYS` also if the kernel's Landlock does not keep files from being truncated.
pub(super) fn confine(Confinement { writable, readable }: &Confinement) -> io::Result<()> {
    let abi = abi()?;
    if abi < ABI::V3 {
        return Err(Errno::NOSYS.into());
    }
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let handled = AccessFs::from_write(abi) | reads;
    let mut rules = ruleset(handled, abi)?;
    let shown = entries_of("/", TMP)?.into_iter().filter(|path| path != Path::new(DEV));
    let shown = shown.chain(entries_of(DEV, SHM)?).chain(readable.iter().cloned());
    let grants = shown.map(|path| (path, reads));
    let own = [(writable.clone(), handled & !MAKING_DEVICES), ("/dev/null".into(), AccessFs::WriteFile.into())];
    for (path, rights) in grants.chain(own) {
        let opened = match open(&path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let rights = match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::Directory => rights,
            // What it leads to has an entry of its own.
            FileType::Symlink => continue,
            _ => rights & AccessFs::from_file(abi),
        };
        rules = rules.add_rule(PathBeneath::new(opened, rights)).map_err(kernel_error)?;
    }
    enforce(rules)
}

/// The paths of a directory's entries, but for one.
fn entries_of(dir: &str, hidden: &str) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    entries.filter(|path| path.as_ref().map_or(true, |path| path != Path::new(hidden))).collect()
}
