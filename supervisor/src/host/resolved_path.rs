//! A host path as configured, together with its resolved form.

use std::path::{Path, PathBuf};

/// `path` with symlinks resolved, as far as it exists.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    let existing =
        path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    match existing {
        Some((above, rest)) if !rest.as_os_str().is_empty() => above.join(rest),
        Some((above, _)) => above,
        None => path.to_owned(),
    }
}

/// A path with its resolved form, resolved once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    named: PathBuf,
    real: PathBuf,
}

impl ResolvedPath {
    /// Resolves `named`.
    #[must_use]
    pub fn new(named: &Path) -> ResolvedPath {
        ResolvedPath { named: named.to_owned(), real: real(named) }
    }

    /// A path that is below `outer` by name. Only `outer` is resolved: other users may set links below it, so these are
    /// not followed.
    #[must_use]
    pub fn below(outer: &Path, named: &Path) -> ResolvedPath {
        let rest = named.strip_prefix(outer).unwrap_or(named);
        ResolvedPath { named: named.to_owned(), real: real(outer).join(rest) }
    }

    /// The resolved path.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// The path as given.
    #[must_use]
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Both forms.
    #[must_use]
    pub fn names(&self) -> [PathBuf; 2] {
        [self.named.clone(), self.real.clone()]
    }

    /// Whether this path is `dir` or below it, in either form. Both forms count because the owner of a directory
    /// decides where links in it lead.
    #[must_use]
    pub fn is_in(&self, dir: &ResolvedPath) -> bool {
        let below = |path: &Path| path.starts_with(&dir.named) || path.starts_with(&dir.real);
        below(&self.named) || below(&self.real)
    }

    /// Whether one of the two paths contains the other.
    #[must_use]
    pub fn overlaps(&self, other: &ResolvedPath) -> bool {
        self.is_in(other) || other.is_in(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir;
    use std::os::unix::fs::symlink;

    #[test]
    fn contains_paths_by_name_and_by_link_target() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().canonicalize().unwrap().join(path);
        create_dir(at("real")).unwrap();
        create_dir(at("other")).unwrap();
        symlink(at("real"), at("link")).unwrap();
        symlink(at("other"), at("real/out")).unwrap();
        assert_eq!(real(&at("link/not/there")), at("real/not/there"));
        for (inner, outer, expected) in [
            ("real/x", "real", true),
            ("link/x", "real", true),
            ("real/x", "link", true),
            ("real", "real/x", false),
            ("real/out", "link", true),
            ("real/out", "other", true),
            ("other", "real", false),
            ("realm", "real", false),
        ] {
            assert_eq!(
                ResolvedPath::new(&at(inner)).is_in(&ResolvedPath::new(&at(outer))),
                expected,
                "{inner} in {outer}"
            );
            assert!(
                !expected || ResolvedPath::new(&at(outer)).overlaps(&ResolvedPath::new(&at(inner))),
                "{outer} meets {inner}"
            );
        }
    }
}
