//! The directory in which one run has its build caches. It is one workspace's alone, so that nothing a run leaves there is read
//! by a run in another workspace; a run with empty caches has one that is removed when the run ends.

use super::{in_use, mark_used};
use crate::host::state_dir::own_dir;
use crate::host::trash::throw_out;
use crate::workspace::Workspace;
use proctor_sandbox::{RunAs, SCRATCH};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Hexadecimal digits of a workspace's directory name: 128 bits of a hash.
const KEY_DIGITS: usize = 32;

/// Where a run has its caches: in the directory `kept`, or without one below its own scratch directory. What the host has by
/// that name is anybody's.
#[must_use]
pub fn of_run(kept: Option<&Path>) -> PathBuf {
    kept.map_or_else(|| Path::new(SCRATCH).join("cache"), Path::to_path_buf)
}

/// Whether `name` is that of a workspace's directory.
pub(super) fn is_of_workspace(name: &CStr) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.to_bytes().len() == KEY_DIGITS && name.to_bytes().iter().all(is_digit)
}

/// The user and group to whom the caches of runs belong; `None` for the supervisor's own.
#[must_use]
pub(super) fn owner(run_as: RunAs) -> Option<(u32, u32)> {
    match run_as {
        RunAs::User { uid, gid } => Some((uid, gid)),
        RunAs::Supervisor | RunAs::Nobody { .. } => None,
    }
}

/// Directory of one run's caches below the cache directory of its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCache {
    tenants: PathBuf,
    name: String,
    is_fresh: bool,
}

impl RunCache {
    /// The kept one of `workspace`, known by its path, device, inode and time of birth: a directory that took the place of
    /// another, even one with its inode, is another workspace.
    #[must_use]
    pub fn of_workspace(tenants: &Path, workspace: &Workspace) -> RunCache {
        let found =
            statx(CWD, workspace.root(), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::BTIME);
        // A file system without times of birth has zeros.
        let born = found.map_or((0, 0), |found| (found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        let (device, inode) = workspace.identity();
        let mut hasher = blake3::Hasher::new();
        hasher.update(workspace.root().as_os_str().as_bytes()).update(b"\0");
        hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
        hasher.update(&born.0.to_le_bytes()).update(&born.1.to_le_bytes());
        let mut name = hasher.finalize().to_hex().to_string();
        name.truncate(KEY_DIGITS);
        RunCache { tenants: tenants.to_owned(), name, is_fresh: false }
    }

    /// An empty one for one run, which `id` tells from all others.
    #[must_use]
    pub fn fresh(tenants: &Path, id: &str) -> RunCache {
        RunCache { tenants: tenants.to_owned(), name: format!("fresh-{id}"), is_fresh: true }
    }

    /// Whether it is gone with its run.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The cache directory of the tenant.
    #[must_use]
    pub fn of_tenant(&self) -> &Path {
        &self.tenants
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.tenants.join(&self.name)
    }

    /// Makes the directory where it is not there, for the user of the run.
    pub fn open(&self, run_as: RunAs) -> io::Result<OpenCache> {
        fs::create_dir_all(&self.tenants)?;
        let in_use = in_use(&self.tenants);
        let found = mark_used(&own_dir(&self.tenants, &[&self.name], owner(run_as))?)?.metadata()?;
        Ok(OpenCache { id: (found.dev(), found.ino()), _in_use: in_use })
    }

    /// Takes it out of use if it was for one run; [`tidy`](super::tidy) removes it.
    pub fn close(&self, opened: OpenCache) {
        if self.is_fresh
            && let Err(error) = throw_out(&self.tenants, &self.name)
        {
            tracing::warn!(%error, "the caches of a run with empty caches are removed later");
        }
        drop(opened);
    }
}

/// The directory of a run that goes on.
#[derive(Debug)]
pub struct OpenCache {
    /// Device and inode.
    pub id: (u64, u64),
    /// Keeps caches from being removed; `None` where the lock could not be had for a second.
    _in_use: Option<File>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::toolchain::{CacheDirs, Toolchain};
    use proctor_core::isolation::Network;
    use proctor_core::request::{BrowserOptions, CoverageMode, RunKind, Selection};
    use proctor_frameworks::{Want, detect};

    #[test]
    fn each_workspace_has_a_directory_of_its_own_also_when_it_takes_the_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let workspace = Workspace::open(&dir.path().join(name)).unwrap();
            RunCache::of_workspace(Path::new("/cache"), &workspace)
        };
        ["a", "b"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        let (a, b) = (of("a"), of("b"));
        assert_ne!(a.dir(), b.dir());
        assert_eq!(of("a"), a);
        assert!(is_of_workspace(&std::ffi::CString::new(a.name.clone()).unwrap()), "{a:?}");
        fs::remove_dir(dir.path().join("a")).unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        assert_ne!(of("a"), a);
        fs::rename(dir.path().join("b"), dir.path().join("c")).unwrap();
        assert_ne!(of("c"), b);
        assert!(!is_of_workspace(c"fresh-0") && !is_of_workspace(c"go-build"));
    }

    /// Frameworks that are told of caches, each with the fixture `pass`.
    const FRAMEWORKS: [&str; 11] =
        ["cargo", "ctest", "go", "gradle", "jest", "maven", "mocha", "nextest", "pytest", "unittest", "vitest"];

    /// All that a run of the framework `name` in `workspace` is told: arguments, variables, files and links.
    fn told(name: &str, workspace: &Workspace, cache: &Path) -> Vec<String> {
        let (selection, tree) = (Selection::All, workspace.look().unwrap().tree);
        let chosen = detect::choose(&tree, Some(name), &selection).unwrap();
        let want = Want {
            selection: &selection,
            coverage: CoverageMode::Auto,
            parallel: None,
            network: Network::None,
            workspace: workspace.root().to_str().unwrap(),
            scratch: SCRATCH,
            cache: cache.to_str().unwrap(),
            nonce: "n",
        };
        let (plan, _) = chosen.plan(RunKind::Tests, &tree, &want, BrowserOptions::default()).unwrap();
        let CacheDirs { env, links } = Toolchain::default().caches(Some(cache), Network::None);
        let steps = plan.steps.into_iter().flat_map(|step| step.args.into_iter().chain(step.env.into_values()));
        let files = plan.files.into_iter().map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
        let links = links.into_iter().map(|(_, target)| target.to_str().unwrap().to_owned());
        steps.chain(files).chain(env.into_values()).chain(links).collect()
    }

    #[test]
    fn no_tool_is_told_of_a_cache_that_another_workspace_has() {
        let (fixtures, tenants) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures"), "/tenants-caches");
        for name in FRAMEWORKS {
            let workspace = Workspace::open(&fixtures.canonicalize().unwrap().join(name).join("pass")).unwrap();
            let own = RunCache::of_workspace(Path::new(tenants), &workspace);
            let told = told(name, &workspace, &own.dir());
            let places: Vec<&str> = told.iter().flat_map(|text| text.split(tenants).skip(1)).collect();
            assert!(places.len() > 5, "{name}: {places:?}");
            assert!(places.iter().all(|place| place[1..].starts_with(&own.name)), "{name}: {places:?}");
        }
    }

    #[test]
    fn an_empty_one_is_gone_when_its_run_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let tenants = dir.path().join("cache");
        let fresh = RunCache::fresh(&tenants, "1");
        let opened = fresh.open(RunAs::Supervisor).unwrap();
        fs::create_dir(fresh.dir().join("go-build")).unwrap();
        fresh.close(opened);
        assert_eq!(fs::read_dir(&tenants).unwrap().count(), 0);
        crate::caches::tidy(&tenants, 0);
        assert_eq!(fs::read_dir(dir.path().join("cache.trash")).unwrap().count(), 0);
    }
}
