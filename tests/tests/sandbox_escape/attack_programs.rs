//! Builds the attacks and lays everything out that a place needs, readable for whoever the attacker will be. Must not
//! know rows.

use crate::host_targets::{Programs, wrap_gifts};
use proctor_tests::process::program;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where tenants' files are on a host. Every run has a `/tmp` of its own, so what is below that proves nothing.
const BASE: &str = "/srv";

/// Programs and stages of one place. Ends with this value.
pub(crate) struct Layout {
    dir: TempDir,
    pub(crate) programs: Programs,
}

impl Layout {
    /// Builds what is not given, and copies everything. Only root can, since it gives privilege away.
    pub(crate) fn new(attack: Option<PathBuf>, worker: Option<PathBuf>) -> Layout {
        assert!(nix::unistd::Uid::effective().is_root(), "the escape suite needs root: sudo make test");
        fs::create_dir_all(BASE).unwrap();
        let dir = tempfile::Builder::new().prefix("proctor-escape-").tempdir_in(BASE).unwrap();
        let (tools, gifts) = (dir.path().join("tools"), dir.path().join("gifts"));
        fs::create_dir(&tools).unwrap();
        for (name, built) in [
            ("attack", attack.unwrap_or_else(compile_attack)),
            ("worker", worker.unwrap_or_else(|| program("proctor-worker"))),
            ("escape", std::env::current_exe().unwrap()),
        ] {
            fs::copy(built, tools.join(name)).unwrap();
        }
        wrap_gifts(&tools.join("attack"), &gifts);
        for open in [dir.path(), &tools, &gifts] {
            fs::set_permissions(open, Permissions::from_mode(0o755)).unwrap();
        }
        Layout { programs: Programs { attack: tools.join("attack"), worker: tools.join("worker"), gifts }, dir }
    }

    /// A directory for stages that belongs to `owner`.
    pub(crate) fn base(&self, owner: u32) -> PathBuf {
        let base = self.dir.path().join(format!("of-{owner}"));
        fs::create_dir_all(&base).unwrap();
        std::os::unix::fs::chown(&base, Some(owner), Some(owner)).unwrap();
        base
    }

    /// This program, where everybody may execute it.
    pub(crate) fn escape(&self) -> PathBuf {
        self.programs.attack.with_file_name("escape")
    }
}

fn compile_attack() -> PathBuf {
    let attack = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attack");
    proctor_tests::attack_programs::compile(&attack);
    attack
}
