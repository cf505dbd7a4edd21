//! The root that all runs of a room share: read-only directories of the host's system, a few files of its `/etc`, single
//! devices, toolchains, the workspace and the caches, on a small file system of its own that is sealed afterwards. What is
//! not named here is not there. Must not know what one run has for itself (`mounts`).

use super::attributes::Attributes;
use super::identity::{become_user, exit_with, id_map, outcome_of, show_as_own};
use super::mounts::attach;
use super::shared::HOST_NAME;
use crate::class::Class;
use crate::hold::hold;
use crate::message::{Identity, RoomPlan};
use nix::unistd::{ForkResult, fork};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Programs and libraries. Where the host has a link (`/bin` to `usr/bin`), so has the run. Of `/sys` only what tells the
/// processors, which runtimes count.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys/devices/system/cpu"];

/// What programs look up in `/etc`: no keys, no passwords, nothing about who else is on this host.
const ETC: [&str; 40] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "openssl",
    "os-release",
    "pki/ca-trust",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Beginnings of the names of toolchains' own directories in `/etc`: `java-17-openjdk`, `python3.11`.
const ETC_TOOLCHAINS: [&str; 9] = ["chromium", "gradle", "java", "jvm", "maven", "node", "perl", "php", "python"];

/// Name servers, for a run that has the host's network.
const RESOLVER: &str = "resolv.conf";

/// Largest file of `/etc` that is copied instead of bound: a copy costs its pages once a room, a bind a mount each run.
const COPY_BYTES_MAX: u64 = 256 * 1024;

const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

const LINKS: [(&str, &str); 8] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
    ("/etc/mtab", "/proc/self/mounts"),
    ("/var/tmp", "/tmp"),
    ("/var/run", "/run"),
];

/// Directories that are there and empty, for what one run has for itself and for what programs expect.
const PLACES: [&str; 8] = ["/proc", "/tmp", "/dev/pts", "/dev/shm", "/sys/fs/cgroup", "/run", "/etc", "/var"];

/// Bytes and inodes of the root itself: copies of small files, and places for mounts.
const ROOT_OPTIONS: &std::ffi::CStr = c"size=16m,nr_inodes=8192,mode=755";

/// A copy of a mount and of what is mounted in it, which nobody else sees.
const TAKE: OpenTreeFlags =
    OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC).union(OpenTreeFlags::AT_RECURSIVE);

/// What the run will see of the host, held while it can still be reached.
pub(super) struct HostTrees {
    /// In an order in which none hides another.
    trees: Vec<(PathBuf, OwnedFd)>,
    links: Vec<(PathBuf, PathBuf)>,
    copies: Vec<(PathBuf, Vec<u8>)>,
    /// How many of the trees' paths are the run's own to write.
    own: Vec<PathBuf>,
}

impl HostTrees {
    pub(super) fn take(plan: &RoomPlan, identity: Identity) -> io::Result<HostTrees> {
        let own = plan.writable.iter().chain([&plan.workspace]).cloned().collect();
        let mut host = HostTrees { trees: Vec::new(), links: Vec::new(), copies: Vec::new(), own };
        host.take_system()?;
        host.take_etc(plan.has_network)?;
        // The kernel lets a user namespace mount a `/proc` only where one can be seen. Each run's own covers it.
        host.take_tree(Path::new("/proc"), Attributes::OWN, true)?;
        host.write_users(identity);
        for device in DEVICES {
            host.take_tree(Path::new(device), Attributes::DEVICE, false)?;
        }
        for path in &plan.read_only {
            host.take_tree(path, Attributes::LOOK, false)?;
        }
        for path in &plan.writable {
            host.take_tree(path, Attributes::OWN, false)?;
        }
        host.take_workspace(plan)?;
        // Ancestors sort before what lies below them; of two for the same path the later one is seen, so it comes last.
        host.trees.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(host)
    }

    fn take_tree(&mut self, path: &Path, attributes: Attributes, is_needed: bool) -> io::Result<()> {
        match open_tree(CWD, path, TAKE) {
            Ok(tree) => {
                attributes.set(&tree)?;
                self.trees.push((path.to_owned(), tree));
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) if !is_needed => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Not by its name alone: whoever owns the directory above it may have put something else there.
    fn take_workspace(&mut self, plan: &RoomPlan) -> io::Result<()> {
        let (dir, _) = hold(&plan.workspace, Some(plan.workspace_id))?;
        let tree = open_tree(&dir, "", TAKE | OpenTreeFlags::AT_EMPTY_PATH)?;
        Attributes::OWN.set(&tree)?;
        self.trees.push((plan.workspace.clone(), tree));
        Ok(())
    }

    fn take_system(&mut self) -> io::Result<()> {
        for path in SYSTEM.map(Path::new) {
            match fs::read_link(path) {
                Ok(target) => self.links.push((path.to_owned(), target)),
                Err(_) => self.take_tree(path, Attributes::LOOK, false)?,
            }
        }
        Ok(())
    }

    fn take_etc(&mut self, has_network: bool) -> io::Result<()> {
        let etc = Path::new("/etc");
        let named = ETC.iter().map(|name| etc.join(name)).chain(has_network.then(|| etc.join(RESOLVER)));
        let toolchains = fs::read_dir(etc)?.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ETC_TOOLCHAINS.iter().any(|beginning| name.starts_with(beginning))
        });
        for path in named.chain(toolchains) {
            // What is not there, or not for everybody's eyes, is not for the run's.
            let Ok(found) = fs::metadata(&path) else { continue };
            let is_public = found.mode() & 0o004 != 0;
            if found.is_dir() && is_public {
                self.take_tree(&path, Attributes::LOOK, false)?;
            } else if found.is_file() && is_public && found.len() <= COPY_BYTES_MAX {
                let mut bytes = Vec::new();
                fs::File::open(&path)?.take(COPY_BYTES_MAX).read_to_end(&mut bytes)?;
                self.copies.push((path, bytes));
            } else if found.is_file() && is_public {
                self.take_tree(&path, Attributes::LOOK, false)?;
            }
        }
        Ok(())
    }

    /// The run's own user has a name and a home, since many programs do not start without; the host's users have none.
    fn write_users(&mut self, Identity { uid, gid, .. }: Identity) {
        let mut users = String::new();
        let mut groups = String::new();
        for (name, id, home) in [("root", 0, "/root"), ("nobody", 65_534, "/nonexistent")] {
            if id != uid {
                users.push_str(&format!("{name}:x:{id}:{id}:{name}:{home}:/usr/sbin/nologin\n"));
            }
            if id != gid {
                groups.push_str(&format!("{name}:x:{id}:\n"));
            }
        }
        users.push_str(&format!("{HOST_NAME}:x:{uid}:{gid}:{HOST_NAME}:/tmp/proctor/home:/bin/sh\n"));
        groups.push_str(&format!("{HOST_NAME}:x:{gid}:\n"));
        let hosts = format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n");
        let texts = [("passwd", users), ("group", groups), ("hosts", hosts), ("hostname", format!("{HOST_NAME}\n"))];
        let copies = texts.into_iter().map(|(name, text)| (Path::new("/etc").join(name), text.into_bytes()));
        self.copies.extend(copies);
    }

    /// Shows the files of `owner` in the run's own directories as the run's.
    pub(super) fn show_files_of(&self, owner: (u32, u32), identity: Identity) -> io::Result<()> {
        let map = id_map(owner, identity)?;
        let own = self.trees.iter().filter(|(path, _)| self.own.contains(path));
        own.into_iter().try_for_each(|(_, tree)| show_as_own(tree, &map))
    }
}

/// Makes the root and makes it everybody's in this mount namespace. A child does it as the run's own user, to whom the new
/// file system belongs; the launcher stays who it is.
pub(super) fn build(host: HostTrees, identity: Identity) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let user = if identity.is_other { become_user(identity) } else { Ok(()) };
            exit_with(user.and_then(|()| build_and_pivot(host)))
        }
        ForkResult::Parent { child } => {
            let built = outcome_of(child).map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES) => {
                    ["/", NEW_ROOT].into_iter().find_map(|at| closed(Path::new(at), identity)).unwrap_or(error)
                }
                _ => error,
            });
            built.and_then(|()| Ok(rustix::process::chdir("/")?))
        }
    }
}

/// Where the new root is mounted until it is one: any directory of the host that everybody may enter.
const NEW_ROOT: &str = "/tmp";

/// Permission bit of one class.
const SEARCH: u32 = 0o1;

/// That the directory `at` keeps the run's user out, if it does.
fn closed(at: &Path, Identity { uid, gid, .. }: Identity) -> Option<io::Error> {
    let found = fs::metadata(at).ok()?;
    let class = Class::of(&found, uid, gid);
    let (at, mode, who) = (at.display(), found.mode() & 0o7777, class.letter());
    let reason = || format!("{at} on the host keeps the run's user {uid} out (mode {mode:04o}): chmod {who}+x {at}");
    (class.bits(mode) & SEARCH == 0).then(|| io::Error::other(reason()))
}

fn build_and_pivot(host: HostTrees) -> io::Result<()> {
    // The host's own directories are in hand, so any of them may be hidden.
    let new_root = Path::new(NEW_ROOT);
    let inside = |path: &Path| new_root.join(path.strip_prefix("/").unwrap_or(path));
    mount("root", new_root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, ROOT_OPTIONS)?;
    for place in PLACES {
        fs::create_dir_all(inside(Path::new(place)))?;
    }
    for (path, target) in &host.links {
        symlink(target, inside(path))?;
    }
    for (path, bytes) in &host.copies {
        let path = inside(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)?;
    }
    for (path, tree) in host.trees {
        attach(&inside(&path), tree)?;
    }
    // Last of all, since until the root is changed an absolute link would lead to the host's.
    for (path, target) in LINKS.map(|(path, target)| (inside(Path::new(path)), target)) {
        if !path.exists() {
            symlink(target, path)?;
        }
    }
    rustix::process::chdir(new_root)?;
    // Stacks the old root over the new one, from where it can be taken away without a place of its own.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Attributes::SEALED.set(open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_keeps_the_runs_user_out_is_named_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        let own = fs::metadata(dir.path()).unwrap();
        let said = |mode: u32, uid: u32, gid: u32| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let identity = Identity { uid, gid, is_other: true, files_of: None };
            closed(dir.path(), identity).map(|error| error.to_string())
        };
        let (uid, gid) = (own.uid(), own.gid());
        let told = said(0o750, uid + 1, gid + 1).unwrap();
        let path = dir.path().display();
        assert_eq!(
            told,
            format!("{path} on the host keeps the run's user {} out (mode 0750): chmod o+x {path}", uid + 1)
        );
        assert!(said(0o705, uid + 1, gid).is_some_and(|told| told.contains("chmod g+x")));
        assert_eq!(
            [said(0o711, uid + 1, gid + 1), said(0o710, uid + 1, gid), said(0o700, uid, gid)],
            [None, None, None]
        );
    }
}
