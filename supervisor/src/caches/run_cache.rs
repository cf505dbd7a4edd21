//! The build cache directory of one run. Each workspace has its own, so that no run reads what a run in another
//! workspace wrote; a run with empty caches has one that is removed when it ends.

use super::{lock_for_run, mark_used};
use crate::host::state_dir::own_dir;
use crate::host::trash::move_to_trash;
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

/// The cache directory of a run: `cache_dir`, or a directory below its own scratch directory if `None`.
#[must_use]
pub fn cache_dir_of_run(cache_dir: Option<&Path>) -> PathBuf {
    cache_dir.map_or_else(|| Path::new(SCRATCH).join("cache"), Path::to_path_buf)
}

/// Whether `name` is the name of a workspace's directory.
pub(super) fn is_workspace_name(name: &CStr) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.to_bytes().len() == KEY_DIGITS && name.to_bytes().iter().all(is_digit)
}

/// The user and group that own the caches of runs; `None` for the supervisor's own.
#[must_use]
pub(super) fn owner(run_as: RunAs) -> Option<(u32, u32)> {
    match run_as {
        RunAs::User { uid, gid } => Some((uid, gid)),
        RunAs::Supervisor | RunAs::Nobody { .. } => None,
    }
}

/// The cache directory of one run, inside the cache directory of its tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunCache {
    tenant_dir: PathBuf,
    name: String,
    is_fresh: bool,
}

impl RunCache {
    /// The persistent cache of `workspace`, keyed by its path, device, inode and birth time, so that a new directory at
    /// the same path, even with the same inode, is another workspace.
    #[must_use]
    pub fn for_workspace(tenant_dir: &Path, workspace: &Workspace) -> RunCache {
        let found =
            statx(CWD, workspace.root(), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS | StatxFlags::BTIME);
        // File systems without birth times report zeros.
        let born = found.map_or((0, 0), |found| (found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
        let (device, inode) = workspace.identity();
        let mut hasher = blake3::Hasher::new();
        hasher.update(workspace.root().as_os_str().as_bytes()).update(b"\0");
        hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
        hasher.update(&born.0.to_le_bytes()).update(&born.1.to_le_bytes());
        let mut name = hasher.finalize().to_hex().to_string();
        name.truncate(KEY_DIGITS);
        RunCache { tenant_dir: tenant_dir.to_owned(), name, is_fresh: false }
    }

    /// An empty cache for one run, made unique by `id`.
    #[must_use]
    pub fn fresh(tenant_dir: &Path, id: &str) -> RunCache {
        RunCache { tenant_dir: tenant_dir.to_owned(), name: format!("fresh-{id}"), is_fresh: true }
    }

    /// Whether it is removed with its run.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// The cache directory of the tenant.
    #[must_use]
    pub fn tenant_dir(&self) -> &Path {
        &self.tenant_dir
    }

    /// Path of this cache.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.tenant_dir.join(&self.name)
    }

    /// Creates the directory if needed, owned by the user of the run.
    pub fn open(&self, run_as: RunAs) -> io::Result<OpenCache> {
        fs::create_dir_all(&self.tenant_dir)?;
        let lock = lock_for_run(&self.tenant_dir);
        let found = mark_used(&own_dir(&self.tenant_dir, &[&self.name], owner(run_as))?)?.metadata()?;
        Ok(OpenCache { id: (found.dev(), found.ino()), _lock: lock })
    }

    /// Moves it to the trash if it was for one run; [`tidy`](super::tidy) removes it.
    pub fn close(&self, opened: OpenCache) {
        if self.is_fresh
            && let Err(error) = move_to_trash(&self.tenant_dir, &self.name)
        {
            tracing::warn!(%error, "the throw-away caches of a run are removed later");
        }
        drop(opened);
    }
}

/// The cache directory of an active run.
#[derive(Debug)]
pub struct OpenCache {
    /// Device and inode of the directory.
    pub id: (u64, u64),
    /// Keeps caches from being removed; `None` if the lock was not available for a second.
    _lock: Option<File>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::toolchain::{CacheDirs, Toolchain};
    use proctor_core::isolation::Network;
    use proctor_core::request::{BrowserOptions, RunKind, Selection};
    use proctor_core::test_order::TestOrder;
    use proctor_frameworks::{FRAMEWORKS, PlanRequest, detection};

    #[test]
    fn each_workspace_has_its_own_directory_even_at_the_path_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name: &str| {
            let workspace = Workspace::open(&dir.path().join(name)).unwrap();
            RunCache::for_workspace(Path::new("/cache"), &workspace)
        };
        ["a", "b"].iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        let (a, b) = (of("a"), of("b"));
        assert_ne!(a.dir(), b.dir());
        assert_eq!(of("a"), a);
        assert!(is_workspace_name(&std::ffi::CString::new(a.name.clone()).unwrap()), "{a:?}");
        fs::remove_dir(dir.path().join("a")).unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        assert_ne!(of("a"), a);
        fs::rename(dir.path().join("b"), dir.path().join("c")).unwrap();
        assert_ne!(of("c"), b);
        assert!(!is_workspace_name(c"fresh-0") && !is_workspace_name(c"go-build"));
    }

    /// Everything that a run of framework `name` in `workspace` is given: arguments, variables, files and links.
    fn given(name: &str, workspace: &Workspace, cache: &Path) -> Vec<String> {
        let (selection, tree) = (Selection::All, workspace.scan().unwrap().tree);
        let chosen = detection::choose(&tree, Some(name), &selection).unwrap();
        let want = PlanRequest {
            selection: &selection,
            scope: &proctor_frameworks::EVERYTHING,
            is_measured: true,
            may_trace: false,
            parallel: None,
            order: TestOrder::Project,
            stop_at_first_failure: false,
            network: Network::None,
            workspace: workspace.root().to_str().unwrap(),
            scratch: SCRATCH,
            cache: cache.to_str().unwrap(),
            nonce: "n",
            toolchain_sources: None,
        };
        let (plan, _) = chosen.plan(RunKind::Tests, &tree, &want, BrowserOptions::default()).unwrap();
        let CacheDirs { env, links } = Toolchain::default().caches(Some(cache), Network::None);
        let steps = plan.steps.into_iter().flat_map(|step| step.args.into_iter().chain(step.env.into_values()));
        let files = plan.files.into_iter().map(|file| String::from_utf8_lossy(&file.bytes).into_owned());
        let links = links.into_iter().map(|(_, target)| target.to_str().unwrap().to_owned());
        steps.chain(files).chain(env.into_values()).chain(links).collect()
    }

    #[test]
    fn no_tool_gets_the_cache_of_another_workspace() {
        let (fixtures, tenant_dir) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures"), "/tenants-caches");
        for name in FRAMEWORKS.iter().map(|framework| framework.name()) {
            let workspace = Workspace::open(&fixtures.canonicalize().unwrap().join(name).join("pass")).unwrap();
            let own = RunCache::for_workspace(Path::new(tenant_dir), &workspace);
            let given = given(name, &workspace, &own.dir());
            let paths: Vec<&str> = given.iter().flat_map(|text| text.split(tenant_dir).skip(1)).collect();
            assert!(paths.len() > 5, "{name}: {paths:?}");
            assert!(paths.iter().all(|path| path[1..].starts_with(&own.name)), "{name}: {paths:?}");
        }
    }

    #[test]
    fn a_fresh_cache_is_removed_with_its_run() {
        let dir = tempfile::tempdir().unwrap();
        let tenant_dir = dir.path().join("cache");
        let fresh = RunCache::fresh(&tenant_dir, "1");
        let opened = fresh.open(RunAs::Supervisor).unwrap();
        fs::create_dir(fresh.dir().join("go-build")).unwrap();
        fresh.close(opened);
        assert_eq!(fs::read_dir(&tenant_dir).unwrap().count(), 0);
        crate::caches::tidy(&tenant_dir, 0);
        assert_eq!(fs::read_dir(dir.path().join("cache.trash")).unwrap().count(), 0);
    }
}
