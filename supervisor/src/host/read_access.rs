//! The user of a run as a reader of this host: which directories it could list anyway, by owner and mode from the root down.
//! Must not know what is shown to a run, nor why.

use proctor_sandbox::{Class, RunAs};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most links followed on one way; the kernel's own bound.
const LINKS_MAX: usize = 40;

/// Permission bits of one class: read and search.
const READ: u32 = 0o4;
const SEARCH: u32 = 0o1;
const WRITE: u32 = 0o2;

/// The set bit that lets only the owner of an entry replace it (`/tmp`).
const STICKY: u32 = 0o1000;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// The user of this process: what it cannot read it does not find.
    Supervisor,
    /// Another user, without supplementary groups, as a run has none.
    User {
        /// User id on the host.
        uid: u32,
        /// Group id on the host.
        gid: u32,
    },
}

impl From<RunAs> for Reader {
    /// A run that owns nothing on the host reads what the owner of its workspace may.
    fn from(run_as: RunAs) -> Reader {
        match run_as {
            RunAs::Supervisor => Reader::Supervisor,
            RunAs::User { uid, gid } => Reader::User { uid, gid },
            RunAs::Nobody { owner_uid, owner_gid } => Reader::User { uid: owner_uid, gid: owner_gid },
        }
    }
}

impl Reader {
    /// Whether the directory `dir` is one that this user could list: it may search every directory on the way from the root, also
    /// on that of each link, and read the last.
    ///
    /// For another user than this process's own the way also has to be one that nobody but root and this process's user can
    /// change: it is followed once more when the run starts, with the rights of this process.
    #[must_use]
    pub fn may_list(self, dir: &Path) -> bool {
        match self {
            Reader::Supervisor => fs::read_dir(dir).is_ok(),
            Reader::User { uid, gid } => {
                let passes = |found: &Metadata, wanted| uid == 0 || grants(found, uid, gid, wanted);
                walk(dir, &passes).is_some_and(|last| passes(&last, READ | SEARCH))
            }
        }
    }
}

/// The directory at the end of an absolute path, as the kernel would come to it, where `passes` says of each directory before it
/// that it may be searched and nobody can put another in its place.
fn walk(path: &Path, passes: &dyn Fn(&Metadata, u32) -> bool) -> Option<Metadata> {
    if !path.is_absolute() {
        return None;
    }
    let own = geteuid().as_raw();
    let mut left = names(path);
    let mut here = PathBuf::from("/");
    let mut found = fs::symlink_metadata(&here).ok()?;
    let mut links = 0;
    while let Some(name) = left.pop() {
        if !passes(&found, SEARCH) || !is_settled(&found, own) {
            return None;
        }
        if name == ".." {
            here.pop();
            found = fs::symlink_metadata(&here).ok()?;
            continue;
        }
        let next = here.join(name);
        let there = fs::symlink_metadata(&next).ok()?;
        if there.is_symlink() && is_trusted(there.uid(), own) && links < LINKS_MAX {
            links += 1;
            let target = fs::read_link(&next).ok()?;
            left.extend(names(&target));
            if target.is_absolute() {
                here = PathBuf::from("/");
                found = fs::symlink_metadata(&here).ok()?;
            }
        } else if there.is_dir() {
            (here, found) = (next, there);
        } else {
            return None;
        }
    }
    is_settled(&found, own).then_some(found)
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Whether the mode gives this user all of `wanted`.
fn grants(found: &Metadata, uid: u32, gid: u32, wanted: u32) -> bool {
    Class::of(found, uid, gid).bits(found.mode()) & wanted == wanted
}

/// Whether nobody but root and the user `own` can put something else in the place of what is in this directory.
fn is_settled(found: &Metadata, own: u32) -> bool {
    let group = found.mode() >> 3 & WRITE != 0 && found.gid() != 0;
    let others = found.mode() & WRITE != 0;
    is_trusted(found.uid(), own) && (found.mode() & STICKY != 0 || !(group || others))
}

fn is_trusted(uid: u32, own: u32) -> bool {
    uid == 0 || uid == own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    const TENANT: Reader = Reader::User { uid: 40_001, gid: 40_001 };

    /// Directories `a/b/c`, of which `changed` has this mode and the others 0755. The way there is not part of the test.
    fn nested(changed: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().canonicalize().unwrap().join(path);
        fs::create_dir_all(at("a/b/c")).unwrap();
        for (path, mode) in [("", 0o755), ("a", 0o755), ("a/b", 0o755), ("a/b/c", 0o755), (changed, mode)] {
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        let innermost = at("a/b/c");
        (dir, innermost)
    }

    #[test]
    fn every_directory_on_the_way_has_to_let_the_user_pass() {
        for (changed, mode, expected) in [
            ("a", 0o755, true),
            ("a", 0o711, true),
            ("a", 0o700, false),
            ("a", 0o750, false),
            ("a/b", 0o744, false),
            ("a/b/c", 0o711, false),
            ("a/b/c", 0o705, true),
            // Whoever may write there decides what is in the place of the next step when the run starts.
            ("a", 0o777, false),
            ("a/b", 0o1777, true),
        ] {
            let (_dir, innermost) = nested(changed, mode);
            assert_eq!(TENANT.may_list(&innermost), expected, "{changed} {mode:o}");
        }
    }

    #[test]
    fn the_first_class_that_the_user_is_in_decides() {
        let (_dir, innermost) = nested("a", 0o755);
        let found = fs::metadata(&innermost).unwrap();
        let (uid, gid) = (found.uid(), found.gid());
        let mode = |mode: u32| {
            fs::set_permissions(&innermost, fs::Permissions::from_mode(mode)).unwrap();
            fs::metadata(&innermost).unwrap()
        };
        let closed_to_owner = mode(0o075);
        assert!(!grants(&closed_to_owner, uid, gid, READ | SEARCH));
        assert!(grants(&closed_to_owner, uid + 1, gid, READ | SEARCH));
        let closed_to_group = mode(0o705);
        assert!(!grants(&closed_to_group, uid + 1, gid, READ | SEARCH));
        assert!(grants(&closed_to_group, uid + 1, gid + 1, READ | SEARCH));
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let (dir, innermost) = nested("a", 0o755);
        let at = |path: &str| dir.path().canonicalize().unwrap().join(path);
        symlink("a", at("link")).unwrap();
        symlink("../link/b", at("a/up")).unwrap();
        symlink(at("a/up"), at("absolute")).unwrap();
        symlink("circle", at("circle")).unwrap();
        for (path, expected) in [
            ("a/b/c", true),
            ("link/b", true),
            ("a/up/c", true),
            ("absolute/../b/c", true),
            ("circle", false),
            ("gone", false),
            ("a/b/c/gone", false),
        ] {
            assert_eq!(TENANT.may_list(&at(path)), expected, "{path}");
            assert_eq!(Reader::Supervisor.may_list(&at(path)), expected, "{path}");
        }
        assert!(!TENANT.may_list(Path::new("a/b")), "not absolute");
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink(at("open"), at("a/out")).unwrap();
        symlink("a/out", at("through")).unwrap();
        assert!(TENANT.may_list(&at("open")) && !TENANT.may_list(&at("through")), "the link is not for it to read");
        if geteuid().is_root() {
            fs::set_permissions(at("a"), fs::Permissions::from_mode(0o755)).unwrap();
            chown(&innermost, Some(40_001), None).unwrap();
            assert!(!TENANT.may_list(&innermost), "its owner may change it until the run starts");
        }
    }

    #[test]
    fn a_run_reads_what_the_owner_of_its_workspace_may() {
        let nobody = RunAs::Nobody { owner_uid: 7, owner_gid: 8 };
        assert_eq!(Reader::from(nobody), Reader::User { uid: 7, gid: 8 });
        assert_eq!(Reader::from(RunAs::Supervisor), Reader::Supervisor);
        let (_dir, innermost) = nested("a", 0o700);
        let root = Reader::User { uid: 0, gid: 0 };
        assert_eq!(root.may_list(&innermost), is_settled(&fs::metadata(&innermost).unwrap(), geteuid().as_raw()));
    }
}
