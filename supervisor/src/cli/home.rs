//! The user's own directories, by the XDG base directory specification: state that commands remember, caches that builds
//! fill. Must not know what is in them.

use proctor_sandbox::SCRATCH;
use std::path::{Path, PathBuf};

/// A directory of the user's own; `None` when neither `variable` nor HOME is set to an absolute path.
pub(super) fn user_dir(variable: &str, fallback: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = std::env::var_os(variable).map(PathBuf::from).filter(absolute);
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(absolute).map(|home| home.join(fallback));
    set.or_else(home).map(|base| base.join("proctor"))
}

/// The build cache of this user, made if it is not there. Where none can be made, builds start from nothing each time:
/// their cache goes with the run.
pub(super) fn cache() -> PathBuf {
    let cache = user_dir("XDG_CACHE_HOME", ".cache").filter(|dir| match std::fs::create_dir_all(dir) {
        Ok(()) => true,
        Err(error) => {
            anstream::eprintln!("proctor: no build cache at {}: {error}", dir.display());
            false
        }
    });
    cache.unwrap_or_else(|| Path::new(SCRATCH).join("cache"))
}
