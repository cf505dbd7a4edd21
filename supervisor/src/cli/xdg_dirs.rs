//! The user's own directories, by the XDG base directory specification: state that commands remember, caches that builds
//! fill. Must not know what is in them.

use super::print;
use crate::host::state_dir::own_dir;
use proctor_sandbox::RunAs;
use std::path::{Path, PathBuf};

/// A directory of the user's own; `None` when neither `variable` nor HOME is set to an absolute path.
pub(super) fn user_dir(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = std::env::var_os(variable).map(PathBuf::from).filter(absolute);
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(absolute).map(|home| home.join(fallback));
    set.or_else(home).map(|base| base.join("proctor"))
}

/// The cache directory of runs that are `run_as`, made if it is not there: for workspaces of this user or of another user, side
/// by side. It is this process's own; what is in it belongs to the user of the runs. Where none can be made, builds start from
/// nothing each time.
pub(super) fn cache(run_as: RunAs) -> Option<PathBuf> {
    let base = user_dir("XDG_CACHE_HOME", ".cache")?;
    match make(&base, run_as) {
        Ok(cache) => Some(cache),
        Err(error) => {
            print::beside(&format!("proctor: no build cache: {error}"));
            None
        }
    }
}

fn make(base: &Path, run_as: RunAs) -> std::io::Result<PathBuf> {
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
    fn no_cache_holds_another() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("proctor");
        let mut everybody = vec![RunAs::Supervisor, RunAs::Nobody { owner_uid: 0, owner_gid: 0 }];
        if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
            everybody.push(RunAs::User { uid: 4_242, gid: 4_242 });
        }
        for run_as in everybody {
            assert_eq!(make(&base, run_as).unwrap().parent(), Some(base.as_path()), "{run_as:?}");
        }
    }
}
