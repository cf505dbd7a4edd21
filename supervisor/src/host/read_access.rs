//! Decides which host directories the user of a run could list anyway, by owner and mode from the root down.

use proctor_sandbox::{PermissionClass, RunAs};
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most links followed in one path; the kernel's own bound.
const LINKS_MAX: usize = 40;

/// Permission bits of one class.
const READ: u32 = 0o4;
const SEARCH: u32 = 0o1;
const WRITE: u32 = 0o2;

/// The sticky bit: only the owner of an entry may replace it (`/tmp`).
const STICKY: u32 = 0o1000;

/// The user that reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAccess {
    /// The user of this process, whose access the kernel checks.
    Supervisor,
    /// Another user. It has no supplementary groups, as runs have none.
    User {
        /// UID on the host.
        uid: u32,
        /// GID on the host.
        gid: u32,
    },
}

impl From<RunAs> for ReadAccess {
    /// A run without host user of its own reads what the owner of its workspace may read.
    fn from(run_as: RunAs) -> ReadAccess {
        match run_as {
            RunAs::Supervisor => ReadAccess::Supervisor,
            RunAs::User { uid, gid } => ReadAccess::User { uid, gid },
            RunAs::Nobody { owner_uid, owner_gid } => ReadAccess::User { uid: owner_uid, gid: owner_gid },
        }
    }
}

impl ReadAccess {
    /// Whether this user could list the directory `dir`: it may search every directory of the path from the root,
    /// including the paths of links, and read the last one.
    ///
    /// For a user other than this process's own, only root and this process's user may be able to change the path,
    /// because the path is resolved again with this process's rights when the run starts.
    #[must_use]
    pub fn may_list(self, dir: &Path) -> bool {
        match self {
            ReadAccess::Supervisor => fs::read_dir(dir).is_ok(),
            ReadAccess::User { uid, gid } => {
                let grants_access = |found: &Metadata, required| uid == 0 || grants(found, uid, gid, required);
                resolve_dir(dir, &grants_access).is_some_and(|last| grants_access(&last, READ | SEARCH))
            }
        }
    }
}

/// Resolves an absolute path as the kernel would and returns the metadata of the directory at its end. Each directory
/// on the way must pass `grants_access` with SEARCH, and must not be replaceable by other users.
fn resolve_dir(path: &Path, grants_access: &dyn Fn(&Metadata, u32) -> bool) -> Option<Metadata> {
    if !path.is_absolute() {
        return None;
    }
    let own_uid = geteuid().as_raw();
    let mut pending = reversed_components(path);
    let mut current = PathBuf::from("/");
    let mut found = fs::symlink_metadata(&current).ok()?;
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if !grants_access(&found, SEARCH) || !only_trusted_users_can_replace_entries(&found, own_uid) {
            return None;
        }
        if name == ".." {
            current.pop();
            found = fs::symlink_metadata(&current).ok()?;
            continue;
        }
        let next = current.join(name);
        let metadata = fs::symlink_metadata(&next).ok()?;
        if metadata.is_symlink() && is_trusted(metadata.uid(), own_uid) && links < LINKS_MAX {
            links += 1;
            let target = fs::read_link(&next).ok()?;
            pending.extend(reversed_components(&target));
            if target.is_absolute() {
                current = PathBuf::from("/");
                found = fs::symlink_metadata(&current).ok()?;
            }
        } else if metadata.is_dir() {
            (current, found) = (next, metadata);
        } else {
            return None;
        }
    }
    only_trusted_users_can_replace_entries(&found, own_uid).then_some(found)
}

/// The components of a path, last one first.
fn reversed_components(path: &Path) -> Vec<OsString> {
    let name = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Whether the mode grants this user all of `required`.
fn grants(found: &Metadata, uid: u32, gid: u32, required: u32) -> bool {
    PermissionClass::for_user(found, uid, gid).bits(found.mode()) & required == required
}

/// Whether only root and user `own_uid` can replace an entry of this directory.
fn only_trusted_users_can_replace_entries(found: &Metadata, own_uid: u32) -> bool {
    let group = found.mode() >> 3 & WRITE != 0 && found.gid() != 0;
    let others = found.mode() & WRITE != 0;
    is_trusted(found.uid(), own_uid) && (found.mode() & STICKY != 0 || !(group || others))
}

fn is_trusted(uid: u32, own_uid: u32) -> bool {
    uid == 0 || uid == own_uid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    const TENANT: ReadAccess = ReadAccess::User { uid: 40_001, gid: 40_001 };

    /// Directories `a/b/c`, of which `changed` has mode `mode` and the others 0755. The path above them is not part of
    /// the test.
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
    fn every_directory_of_the_path_must_be_searchable() {
        for (changed, mode, expected) in [
            ("a", 0o755, true),
            ("a", 0o711, true),
            ("a", 0o700, false),
            ("a", 0o750, false),
            ("a/b", 0o744, false),
            ("a/b/c", 0o711, false),
            ("a/b/c", 0o705, true),
            // A user that can write there can replace the next component before the run starts.
            ("a", 0o777, false),
            ("a/b", 0o1777, true),
        ] {
            let (_dir, innermost) = nested(changed, mode);
            assert_eq!(TENANT.may_list(&innermost), expected, "{changed} {mode:o}");
        }
    }

    #[test]
    fn the_first_matching_permission_class_decides() {
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
    fn follows_links_as_the_kernel_does() {
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
            assert_eq!(ReadAccess::Supervisor.may_list(&at(path)), expected, "{path}");
        }
        assert!(!TENANT.may_list(Path::new("a/b")), "a relative path");
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("a"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink(at("open"), at("a/out")).unwrap();
        symlink("a/out", at("through")).unwrap();
        assert!(TENANT.may_list(&at("open")) && !TENANT.may_list(&at("through")), "the user cannot read the link");
        if geteuid().is_root() {
            fs::set_permissions(at("a"), fs::Permissions::from_mode(0o755)).unwrap();
            chown(&innermost, Some(40_001), None).unwrap();
            assert!(!TENANT.may_list(&innermost), "its owner can change it before the run starts");
        }
    }

    #[test]
    fn a_run_without_its_own_user_reads_with_the_rights_of_the_workspace_owner() {
        let nobody = RunAs::Nobody { owner_uid: 7, owner_gid: 8 };
        assert_eq!(ReadAccess::from(nobody), ReadAccess::User { uid: 7, gid: 8 });
        assert_eq!(ReadAccess::from(RunAs::Supervisor), ReadAccess::Supervisor);
        let (_dir, innermost) = nested("a", 0o700);
        let root = ReadAccess::User { uid: 0, gid: 0 };
        assert_eq!(
            root.may_list(&innermost),
            only_trusted_users_can_replace_entries(&fs::metadata(&innermost).unwrap(), geteuid().as_raw())
        );
    }
}
