//! Builds the attack programs and copies everything that an environment needs, readable for any user.

use crate::host_targets::{Programs, make_privileged_programs};
use proctor_tests::attack_programs::compile;
use proctor_tests::process::program;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tempfile::TempDir;

/// Directory for targets, as for tenants' files on a host. Every run has its own `/tmp`, so files there would prove nothing.
const BASE: &str = "/srv";

/// Directory with the programs and targets of one environment, removed on drop.
pub(crate) struct Layout {
    dir: TempDir,
    pub(crate) programs: Programs,
}

impl Layout {
    /// Builds the programs that are not given, and copies everything. Needs root, which can give programs privilege.
    pub(crate) fn new(attack: Option<PathBuf>, worker: Option<PathBuf>) -> Layout {
        assert!(nix::unistd::Uid::effective().is_root(), "the escape suite needs root: sudo make test");
        fs::create_dir_all(BASE).unwrap();
        let dir = tempfile::Builder::new().prefix("proctor-escape-").tempdir_in(BASE).unwrap();
        let (tools, privileged) = (dir.path().join("tools"), dir.path().join("gifts"));
        fs::create_dir(&tools).unwrap();
        let copy = |source: PathBuf, name: &str| _ = fs::copy(source, tools.join(name)).unwrap();
        match attack {
            Some(attack) => copy(attack, "attack"),
            None => compile(&tools.join("attack")),
        }
        copy(worker.unwrap_or_else(|| program("proctor-worker")), "worker");
        copy(std::env::current_exe().unwrap(), "escape");
        make_privileged_programs(&tools.join("attack"), &privileged);
        for public in [dir.path(), &tools, &privileged] {
            fs::set_permissions(public, Permissions::from_mode(0o755)).unwrap();
        }
        Layout { programs: Programs { attack: tools.join("attack"), worker: tools.join("worker"), privileged }, dir }
    }

    /// A directory for targets that belongs to `owner`.
    pub(crate) fn base(&self, owner: u32) -> PathBuf {
        let base = self.dir.path().join(format!("of-{owner}"));
        fs::create_dir_all(&base).unwrap();
        std::os::unix::fs::chown(&base, Some(owner), Some(owner)).unwrap();
        base
    }

    /// This suite's program, at a path where every user may execute it.
    pub(crate) fn suite_program(&self) -> PathBuf {
        self.programs.attack.with_file_name("escape")
    }
}
