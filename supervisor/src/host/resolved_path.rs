//! A place of this host, as it is named and where its links lead. Must not know what is there.

use std::path::{Path, PathBuf};

/// `path` without symlinks, as far as it is there.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, path.strip_prefix(above).ok()?)));
    match there {
        Some((above, rest)) if !rest.as_os_str().is_empty() => above.join(rest),
        Some((above, _)) => above,
        None => path.to_owned(),
    }
}

/// One place, looked at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    named: PathBuf,
    real: PathBuf,
}

impl ResolvedPath {
    /// The place that is called `named`.
    #[must_use]
    pub fn of(named: &Path) -> ResolvedPath {
        ResolvedPath { named: named.to_owned(), real: real(named) }
    }

    /// The place that is called `named`, which is below `outer` by that name. Links on the way from there are others' to set,
    /// and are not followed.
    #[must_use]
    pub fn below(outer: &Path, named: &Path) -> ResolvedPath {
        let rest = named.strip_prefix(outer).unwrap_or(named);
        ResolvedPath { named: named.to_owned(), real: real(outer).join(rest) }
    }

    /// Where it is.
    #[must_use]
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// As it is called.
    #[must_use]
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// As it is called, and where that leads.
    #[must_use]
    pub fn names(&self) -> [PathBuf; 2] {
        [self.named.clone(), self.real.clone()]
    }

    /// Whether it is `dir` or in it. A name in there counts too: whoever has the directory says where it leads.
    #[must_use]
    pub fn is_in(&self, dir: &ResolvedPath) -> bool {
        let below = |path: &Path| path.starts_with(&dir.named) || path.starts_with(&dir.real);
        below(&self.named) || below(&self.real)
    }

    /// Whether one of them is in the other.
    #[must_use]
    pub fn meets(&self, other: &ResolvedPath) -> bool {
        self.is_in(other) || other.is_in(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::create_dir;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_in_a_place_is_so_by_its_name_or_by_where_its_links_lead() {
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
                ResolvedPath::of(&at(inner)).is_in(&ResolvedPath::of(&at(outer))),
                expected,
                "{inner} in {outer}"
            );
            assert!(
                !expected || ResolvedPath::of(&at(outer)).meets(&ResolvedPath::of(&at(inner))),
                "{outer} meets {inner}"
            );
        }
    }
}
