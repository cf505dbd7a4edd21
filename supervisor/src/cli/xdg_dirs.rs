//! The user's state and cache directories (XDG Base Directory Specification).

use super::print;
use crate::history::HistoryLocation;
use crate::host::state_dir::own_dir;
use proctor_core::bounds::TENANT_HISTORY_BYTES_MAX;
use proctor_sandbox::RunAs;
use std::path::{Path, PathBuf};

/// A directory of the user; `None` if neither `variable` nor HOME is an absolute path.
pub(super) fn user_dir(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = std::env::var_os(variable).map(PathBuf::from).filter(absolute);
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(absolute).map(|home| home.join(fallback));
    set.or_else(home).map(|base| base.join("proctor"))
}

/// The history of the runs of this user, who is one tenant; `None` without a home directory.
pub(super) fn history() -> Option<HistoryLocation> {
    let dir = user_dir("XDG_STATE_HOME", ".local/state")?.join("history");
    Some(HistoryLocation::new(dir, TENANT_HISTORY_BYTES_MAX))
}

/// The cache directory for runs with `run_as`, created if needed; one for this user's workspaces and one per other
/// user. It belongs to this process, its contents to the user of the runs. If it cannot be created, builds start
/// without caches.
pub(super) fn cache(run_as: RunAs) -> Option<PathBuf> {
    let base = user_dir("XDG_CACHE_HOME", ".cache")?;
    match create(&base, run_as) {
        Ok(cache) => Some(cache),
        Err(error) => {
            print::message(&format!("proctor: no build cache: {error}"));
            None
        }
    }
}

fn create(base: &Path, run_as: RunAs) -> std::io::Result<PathBuf> {
    match run_as {
        RunAs::User { uid, .. } => own_dir(base, &[&format!("uid-{uid}")], None),
        RunAs::Supervisor | RunAs::Nobody { .. } => own_dir(base, &["own"], None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn caches_of_users_are_separate() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("proctor");
        let mut all = vec![RunAs::Supervisor, RunAs::Nobody { owner_uid: 0, owner_gid: 0 }];
        if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
            all.push(RunAs::User { uid: 4_242, gid: 4_242 });
        }
        for run_as in all {
            assert_eq!(create(&base, run_as).unwrap().parent(), Some(base.as_path()), "{run_as:?}");
        }
    }
}
