//! The user's own directories, by the XDG base directory specification: state that commands remember, caches that builds
//! fill. Must not know what is in them.

use super::Failure;
use std::path::PathBuf;

/// A directory of the user's own, by the XDG base directory specification.
pub(super) fn user_dir(variable: &str, fallback: &str) -> Result<PathBuf, Failure> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = std::env::var_os(variable).map(PathBuf::from).filter(absolute);
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(absolute).map(|home| home.join(fallback));
    let base = set.or_else(home);
    base.map(|base| base.join("proctor"))
        .ok_or_else(|| Failure::host(format!("neither {variable} nor HOME is set to an absolute path")))
}

/// The build cache of this user, made if it is not there.
pub(super) fn cache() -> Result<PathBuf, Failure> {
    let cache = user_dir("XDG_CACHE_HOME", ".cache")?;
    std::fs::create_dir_all(&cache).map_err(|error| Failure::host(format!("{}: {error}", cache.display())))?;
    Ok(cache)
}
