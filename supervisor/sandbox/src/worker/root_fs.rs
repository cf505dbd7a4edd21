//! The root that all runs of a zygote share: read-only system directories of the host, a few files of its `/etc`,
//! single devices, toolchains, the workspace and the caches, on a small file system of its own that is read-only in the
//! end. Nothing else of the host is visible.

use super::identity::{apply_id_map, become_user, exit_with, id_map, outcome_of};
use super::mount_attributes::MountAttributes;
use super::run_mounts::attach;

/// Host name and user name inside every run.
pub(super) const HOST_NAME: &str = "proctor";

use crate::permission_class::PermissionClass;
use crate::worker_protocol::{Identity, ZygotePlan};
use crate::workspace_fd::open_workspace;
use nix::unistd::{ForkResult, fork};
use rustix::fs::{CWD, Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, UnmountFlags, mount, open_tree, unmount};
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Programs and libraries. If the host has a symlink (`/bin` to `usr/bin`), so has the run. Of `/sys` only the
/// processors, which runtimes count.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sys/devices/system/cpu"];

/// What programs look up in `/etc`: no keys, no passwords, nothing about other users of this host.
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

/// Prefixes of toolchains' own directories in `/etc`: `java-17-openjdk`, `python3.11`.
const ETC_TOOLCHAINS: [&str; 9] = ["chromium", "gradle", "java", "jvm", "maven", "node", "perl", "php", "python"];

/// Name servers, for a run with the host's network.
const RESOLVER: &str = "resolv.conf";

/// Largest file of `/etc` that is copied instead of bound: a copy costs its pages once per zygote, a bind a mount per
/// run.
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

/// Empty directories: mount points for a run's own file systems, and directories that programs expect.
const EMPTY_DIRS: [&str; 8] = ["/proc", "/tmp", "/dev/pts", "/dev/shm", "/sys/fs/cgroup", "/run", "/etc", "/var"];

/// Options of the root's file system: room for copies of small files, and for mount points.
const ROOT_OPTIONS: &std::ffi::CStr = c"size=16m,nr_inodes=8192,mode=755";

/// Clones a mount and everything mounted in it, invisible to other processes.
const CLONE_TREE: OpenTreeFlags =
    OpenTreeFlags::OPEN_TREE_CLONE.union(OpenTreeFlags::OPEN_TREE_CLOEXEC).union(OpenTreeFlags::AT_RECURSIVE);

/// Clones of what the run will see of the host, made while the host's directories can still be reached.
pub(super) struct HostTrees {
    /// Sorted so that none hides another.
    trees: Vec<(PathBuf, OwnedFd)>,
    links: Vec<(PathBuf, PathBuf)>,
    copies: Vec<(PathBuf, Vec<u8>)>,
    /// Paths of the trees that the run may write.
    run_owned: Vec<PathBuf>,
}

impl HostTrees {
    pub(super) fn clone_from_host(plan: &ZygotePlan, identity: Identity) -> io::Result<HostTrees> {
        let run_owned = plan.writable.iter().chain([&plan.workspace]).cloned().collect();
        let mut host = HostTrees { trees: Vec::new(), links: Vec::new(), copies: Vec::new(), run_owned };
        host.clone_system_dirs()?;
        host.clone_etc(plan.has_network)?;
        // The kernel lets a user namespace mount a `/proc` only if one is visible. Each run's own `/proc` covers it.
        host.clone_tree(Path::new("/proc"), MountAttributes::RUN_TREE, true)?;
        host.write_user_database(identity);
        for device in DEVICES {
            host.clone_tree(Path::new(device), MountAttributes::DEVICE, false)?;
        }
        for path in &plan.read_only {
            host.clone_tree(path, MountAttributes::READ_ONLY_TREE, false)?;
        }
        for path in &plan.writable {
            host.clone_tree(path, MountAttributes::RUN_TREE, false)?;
        }
        host.clone_workspace(plan)?;
        // Ancestors sort before their descendants; of two for the same path the later one is visible, so it comes last.
        host.trees.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(host)
    }

    fn clone_tree(&mut self, path: &Path, attributes: MountAttributes, is_required: bool) -> io::Result<()> {
        match open_tree(CWD, path, CLONE_TREE) {
            Ok(tree) => {
                attributes.set(&tree)?;
                self.trees.push((path.to_owned(), tree));
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) if !is_required => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Clones the workspace by its checked descriptor: the owner of its parent directory may have replaced the path.
    fn clone_workspace(&mut self, plan: &ZygotePlan) -> io::Result<()> {
        let (dir, _) = open_workspace(&plan.workspace, Some(plan.workspace_id))?;
        let tree = open_tree(&dir, "", CLONE_TREE | OpenTreeFlags::AT_EMPTY_PATH)?;
        MountAttributes::RUN_TREE.set(&tree)?;
        self.trees.push((plan.workspace.clone(), tree));
        Ok(())
    }

    fn clone_system_dirs(&mut self) -> io::Result<()> {
        for path in SYSTEM.map(Path::new) {
            match fs::read_link(path) {
                Ok(target) => self.links.push((path.to_owned(), target)),
                Err(_) => self.clone_tree(path, MountAttributes::READ_ONLY_TREE, false)?,
            }
        }
        Ok(())
    }

    fn clone_etc(&mut self, has_network: bool) -> io::Result<()> {
        let etc = Path::new("/etc");
        let named_files = ETC.iter().map(|name| etc.join(name)).chain(has_network.then(|| etc.join(RESOLVER)));
        let toolchains = fs::read_dir(etc)?.flatten().map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ETC_TOOLCHAINS.iter().any(|beginning| name.starts_with(beginning))
        });
        for path in named_files.chain(toolchains) {
            // A file that is missing, or not readable for everyone, is not shown.
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let is_public = metadata.mode() & 0o004 != 0;
            if metadata.is_dir() && is_public {
                self.clone_tree(&path, MountAttributes::READ_ONLY_TREE, false)?;
            } else if metadata.is_file() && is_public && metadata.len() <= COPY_BYTES_MAX {
                let mut bytes = Vec::new();
                fs::File::open(&path)?.take(COPY_BYTES_MAX).read_to_end(&mut bytes)?;
                self.copies.push((path, bytes));
            } else if metadata.is_file() && is_public {
                self.clone_tree(&path, MountAttributes::READ_ONLY_TREE, false)?;
            }
        }
        Ok(())
    }

    /// Writes `/etc/passwd` and related files. The run's user has a name and a home, which many programs need; the
    /// host's users are left out.
    fn write_user_database(&mut self, Identity { uid, gid, .. }: Identity) {
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

    /// Maps files of `owner` in the run's own directories to the run's user.
    pub(super) fn map_owner_to_run(&self, owner: (u32, u32), identity: Identity) -> io::Result<()> {
        let map = id_map(owner, identity)?;
        let mut trees = self.trees.iter().filter(|(path, _)| self.run_owned.contains(path));
        trees.try_for_each(|(_, tree)| apply_id_map(tree, &map))
    }
}

/// Builds the root and makes it the root of this mount namespace. A child does it as the run's user, to whom the new
/// file system belongs; the launcher keeps its own user.
pub(super) fn build(host: HostTrees, identity: Identity) -> io::Result<()> {
    // SAFETY: this process has one thread, so the child may do anything that the parent could.
    match unsafe { fork() }? {
        ForkResult::Child => {
            let user = if identity.is_other { become_user(identity) } else { Ok(()) };
            exit_with(user.and_then(|()| build_and_pivot(host)))
        }
        ForkResult::Parent { child } => {
            let built = outcome_of(child).map_err(|error| match error.raw_os_error() {
                Some(libc::EACCES) => ["/", NEW_ROOT]
                    .into_iter()
                    .find_map(|dir| explain_denied_search(Path::new(dir), identity))
                    .unwrap_or(error),
                _ => error,
            });
            built.and_then(|()| Ok(rustix::process::chdir("/")?))
        }
    }
}

/// Mount point of the new root until the pivot: any directory of the host that every user may enter.
const NEW_ROOT: &str = "/tmp";

/// Search bit of one permission class.
const SEARCH: u32 = 0o1;

/// Explains why `dir` cannot be entered by the run's user; `None` if it can.
fn explain_denied_search(dir: &Path, Identity { uid, gid, .. }: Identity) -> Option<io::Error> {
    let metadata = fs::metadata(dir).ok()?;
    let class = PermissionClass::for_user(&metadata, uid, gid);
    let (dir, mode, letter) = (dir.display(), metadata.mode() & 0o7777, class.letter());
    let reason =
        || format!("{dir} on the host keeps the run's user {uid} out (mode {mode:04o}): chmod {letter}+x {dir}");
    (class.bits(mode) & SEARCH == 0).then(|| io::Error::other(reason()))
}

fn build_and_pivot(host: HostTrees) -> io::Result<()> {
    // The host's directories are cloned, so any of them may be hidden.
    let new_root = Path::new(NEW_ROOT);
    let inside = |path: &Path| new_root.join(path.strip_prefix("/").unwrap_or(path));
    mount("root", new_root, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, ROOT_OPTIONS)?;
    for empty_dir in EMPTY_DIRS {
        fs::create_dir_all(inside(Path::new(empty_dir)))?;
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
    // Last, since until the pivot an absolute symlink would lead to the host's file.
    for (path, target) in LINKS.map(|(path, target)| (inside(Path::new(path)), target)) {
        if !path.exists() {
            symlink(target, path)?;
        }
    }
    rustix::process::chdir(new_root)?;
    // Stacks the old root over the new one, from where it can be unmounted without a mount point of its own.
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    MountAttributes::READ_ONLY_MOUNT.set(open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_the_directory_that_keeps_the_runs_user_out_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let metadata = fs::metadata(dir.path()).unwrap();
        let explain = |mode: u32, uid: u32, gid: u32| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            let identity = Identity { uid, gid, is_other: true, owner_shown_as_run: None };
            explain_denied_search(dir.path(), identity).map(|error| error.to_string())
        };
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let message = explain(0o750, uid + 1, gid + 1).unwrap();
        let path = dir.path().display();
        assert_eq!(
            message,
            format!("{path} on the host keeps the run's user {} out (mode 0750): chmod o+x {path}", uid + 1)
        );
        assert!(explain(0o705, uid + 1, gid).is_some_and(|message| message.contains("chmod g+x")));
        assert_eq!(
            [explain(0o711, uid + 1, gid + 1), explain(0o710, uid + 1, gid), explain(0o700, uid, gid)],
            [None, None, None]
        );
    }
}
