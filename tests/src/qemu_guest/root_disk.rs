//! The guest's root disk: files of this host at their own paths, with symlinks and modes preserved and with the shared
//! libraries that the programs need.

use super::guest_tool;
use crate::process::{command, wait_for_exit};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// Free space for files that the guest writes.
const FREE_BYTES: u64 = 512 << 20;

/// Longest chain of symlinks in a path: the kernel's limit.
const LINKS_MAX: u32 = 40;

/// Directories of any Debian system, left empty where nothing is copied into them.
const DIRECTORIES: &[&str] = &[
    "boot",
    "dev",
    "etc",
    "home",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "srv",
    "sys",
    "tmp",
    "usr/local",
    "var/lib",
    "var/tmp",
];

/// The root disk under construction: a directory with the future content.
pub(super) struct RootDisk {
    dir: TempDir,
    programs: BTreeSet<PathBuf>,
    bytes: u64,
}

impl RootDisk {
    pub(super) fn new() -> RootDisk {
        // Beside the executables of this build: that disk has room for one of them, and `cargo clean` removes what a
        // killed test left.
        let build_dir = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let dir = tempfile::Builder::new().prefix("guest-").tempdir_in(build_dir).unwrap();
        let disk = RootDisk { dir, programs: BTreeSet::new(), bytes: 0 };
        for name in DIRECTORIES {
            fs::create_dir_all(disk.root().join(name)).unwrap();
        }
        for (name, mode) in [("root", 0o700), ("var/tmp", 0o1777)] {
            fs::set_permissions(disk.root().join(name), Permissions::from_mode(mode)).unwrap();
        }
        disk
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Path of a file that the boot needs outside of the disk.
    pub(super) fn sibling(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn disk_path(&self, path: &Path) -> PathBuf {
        self.root().join(path.strip_prefix("/").unwrap_or_else(|_| panic!("{} is not absolute", path.display())))
    }

    /// Writes a file with given content.
    pub(super) fn write(&self, path: &str, content: &[u8], mode: u32) {
        let file = self.disk_path(Path::new(path));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    }

    /// Copies a file of the host, with all directories and symlinks on its path. Of a directory, only itself.
    pub(super) fn add_file(&mut self, path: &Path) {
        let path = self.resolve_path(path, LINKS_MAX);
        let (target, metadata) = (self.disk_path(&path), path.metadata().unwrap());
        if !metadata.is_file() || target.exists() {
            return;
        }
        fs::copy(&path, &target).unwrap();
        // Keeps the time: Python recompiles sources that are newer than their bytecode.
        File::open(&target).unwrap().set_modified(metadata.modified().unwrap()).unwrap();
        self.bytes += metadata.len();
        let mut magic = [0; 4];
        if File::open(&path).unwrap().read_exact(&mut magic).is_ok() && magic == *b"\x7fELF" {
            self.programs.insert(path);
        }
    }

    /// Copies a directory of the host recursively, except entries with these names.
    pub(super) fn add_tree(&mut self, dir: &Path, excluded: &[&str]) {
        let dir = self.resolve_path(dir, LINKS_MAX);
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if excluded.iter().any(|name| *name == entry.file_name()) {
            } else if kind.is_dir() {
                self.add_tree(&entry.path(), excluded);
            } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
                self.add_file(&entry.path());
            }
        }
    }

    /// Makes the directories and symlinks of a path and returns its target without symlinks.
    fn resolve_path(&self, path: &Path, links_max: u32) -> PathBuf {
        let mut here = PathBuf::from("/");
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            match part {
                Component::ParentDir => _ = here.pop(),
                Component::Normal(name) => here.push(name),
                _ => continue,
            }
            let metadata = here.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", here.display()));
            let copy = self.disk_path(&here);
            if metadata.is_symlink() {
                assert!(links_max > 0, "{} goes in circles", path.display());
                let target = fs::read_link(&here).unwrap();
                if copy.symlink_metadata().is_err() {
                    symlink(&target, &copy).unwrap();
                }
                let rest = here.parent().unwrap().join(target).join(parts.as_path());
                return self.resolve_path(&rest, links_max - 1);
            }
            if metadata.is_dir() && !copy.exists() {
                fs::create_dir(&copy).unwrap();
                let mode = metadata.permissions().mode();
                fs::set_permissions(&copy, Permissions::from_mode(mode)).unwrap();
            }
        }
        here
    }

    /// Adds the shared libraries of all programs, as this host's dynamic loader resolves them.
    fn add_libraries(&mut self) {
        let mut ldd = command(Path::new("/usr/bin/ldd"));
        ldd.args(&self.programs).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for line in wait_for_exit(ldd.spawn().unwrap()).stdout.lines() {
            // `libm.so.6 => /lib/libm.so.6 (0x…)`, or just the path of the loader.
            let found = line.split_whitespace().find(|word| word.starts_with('/') && !word.ends_with(':'));
            if let Some(library) = found {
                self.add_file(Path::new(library));
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Builds the ext4 image and returns its path.
    pub(super) fn image(&mut self) -> PathBuf {
        self.add_libraries();
        let image = self.sibling("disk");
        File::create(&image).unwrap().set_len(self.bytes + self.bytes / 4 + FREE_BYTES).unwrap();
        let mut mke2fs = command(&guest_tool("mke2fs"));
        mke2fs.args(["-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", "-O", "^has_journal", "-d"]);
        mke2fs.arg(self.root()).arg(&image).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = wait_for_exit(mke2fs.spawn().unwrap());
        assert_eq!(output.status, 0, "mke2fs: {output:?}");
        image
    }
}
