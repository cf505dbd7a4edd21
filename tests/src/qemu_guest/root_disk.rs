//! The guest's root disk: files of this machine at the paths that they have here, links and modes as they are, with the
//! libraries that programs need. Must not know who boots from it.

use super::tool;
use crate::process::{command, wait_for_exit};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;

/// Room for what is written in the guest.
const FREE_BYTES: u64 = 512 << 20;

/// Links that a path may follow: as many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// Directories that are there on any Debian, empty where nothing is put into them.
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

/// What the disk is made from: a directory that looks like it.
pub(super) struct Disk {
    dir: TempDir,
    programs: BTreeSet<PathBuf>,
    bytes: u64,
}

impl Disk {
    pub(super) fn new() -> Disk {
        // Beside the executables of this build: there is room for one of them, and `cargo clean` takes along what is left
        // by a test that was killed.
        let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let dir = tempfile::Builder::new().prefix("guest-").tempdir_in(beside).unwrap();
        let disk = Disk { dir, programs: BTreeSet::new(), bytes: 0 };
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

    /// Files of the boot that are no part of the disk.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.root().join(path.strip_prefix("/").unwrap_or_else(|_| panic!("{} is not absolute", path.display())))
    }

    /// Writes a file that this machine does not have.
    pub(super) fn write(&self, path: &str, content: &[u8], mode: u32) {
        let file = self.inside(Path::new(path));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    }

    /// Puts a file there, and every link and directory that leads to it. Of a directory, no more than itself.
    pub(super) fn file(&mut self, path: &Path) {
        let path = self.way_to(path, LINKS_MAX);
        let (inside, metadata) = (self.inside(&path), path.metadata().unwrap());
        if !metadata.is_file() || inside.exists() {
            return;
        }
        fs::copy(&path, &inside).unwrap();
        // Python compiles anew what is younger than it was.
        File::open(&inside).unwrap().set_modified(metadata.modified().unwrap()).unwrap();
        self.bytes += metadata.len();
        let mut magic = [0; 4];
        if File::open(&path).unwrap().read_exact(&mut magic).is_ok() && magic == *b"\x7fELF" {
            self.programs.insert(path);
        }
    }

    /// Puts a directory there with all that is in it, but for what is named.
    pub(super) fn tree(&mut self, dir: &Path, without: &[&str]) {
        let dir = self.way_to(dir, LINKS_MAX);
        for entry in fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if without.iter().any(|name| *name == entry.file_name()) {
            } else if kind.is_dir() {
                self.tree(&entry.path(), without);
            } else if kind.is_file() || (kind.is_symlink() && entry.path().is_file()) {
                self.file(&entry.path());
            }
        }
    }

    /// Makes the directories and links of a path and returns where it ends, without a link in it.
    fn way_to(&self, path: &Path, links_max: u32) -> PathBuf {
        let mut here = PathBuf::from("/");
        let mut parts = path.components();
        while let Some(part) = parts.next() {
            match part {
                Component::ParentDir => _ = here.pop(),
                Component::Normal(name) => here.push(name),
                _ => continue,
            }
            let metadata = here.symlink_metadata().unwrap_or_else(|error| panic!("{}: {error}", here.display()));
            let inside = self.inside(&here);
            if metadata.is_symlink() {
                assert!(links_max > 0, "{} goes in circles", path.display());
                let target = fs::read_link(&here).unwrap();
                if inside.symlink_metadata().is_err() {
                    symlink(&target, &inside).unwrap();
                }
                let onward = here.parent().unwrap().join(target).join(parts.as_path());
                return self.way_to(&onward, links_max - 1);
            }
            if metadata.is_dir() && !inside.exists() {
                fs::create_dir(&inside).unwrap();
                let mode = metadata.permissions().mode();
                fs::set_permissions(&inside, Permissions::from_mode(mode)).unwrap();
            }
        }
        here
    }

    /// Puts the libraries of all programs there: what the dynamic loader of this machine finds for them.
    fn libraries(&mut self) {
        let mut ldd = command(Path::new("/usr/bin/ldd"));
        ldd.args(&self.programs).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for line in wait_for_exit(ldd.spawn().unwrap()).stdout.lines() {
            // `libm.so.6 => /lib/libm.so.6 (0x…)`, or the loader's own path alone.
            let found = line.split_whitespace().find(|word| word.starts_with('/') && !word.ends_with(':'));
            if let Some(library) = found {
                self.file(Path::new(library));
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file system.
    pub(super) fn image(&mut self) -> PathBuf {
        self.libraries();
        let image = self.beside("disk");
        File::create(&image).unwrap().set_len(self.bytes + self.bytes / 4 + FREE_BYTES).unwrap();
        let mut mke2fs = command(&tool("mke2fs"));
        mke2fs.args(["-q", "-F", "-t", "ext4", "-E", "root_owner=0:0", "-O", "^has_journal", "-d"]);
        mke2fs.arg(self.root()).arg(&image).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let said = wait_for_exit(mke2fs.spawn().unwrap());
        assert_eq!(said.status, 0, "mke2fs: {said:?}");
        image
    }
}
