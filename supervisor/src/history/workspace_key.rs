//! The identity of a workspace in the history: that of its repository, so that clones, worktrees and moved directories
//! share one history. Git itself is never executed.
//!
//! Tests can write everything that is read here. So it is read before a run, when the workspace is scanned: only files
//! below the tenant's root, only their first 256 KiB, and without following a symbolic link. The files are `.git` if it is
//! a file, the `commondir` of the directory that it names, and `config` and `logs/HEAD` of the repository.

use crate::hash_prefix::hash_prefix;
use crate::workspace::{Workspace, open_regular, open_without_links};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Most bytes read of a file of git: a configuration with hundreds of remotes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Directories above the workspace in which a repository is looked for: deeper than any project.
const ANCESTORS_MAX: usize = 64;

/// A hash of the workspace's identity. It is unique within one tenant only, as tests may write `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey(pub [u8; 16]);

/// A hash of the path of a workspace's directory, which tells clones of one repository apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryKey(pub [u8; 16]);

impl DirectoryKey {
    /// The key of the workspace's directory.
    #[must_use]
    pub fn for_workspace(workspace: &Workspace) -> DirectoryKey {
        DirectoryKey(hash_prefix(&blake3::hash(workspace.root().as_os_str().as_bytes())))
    }
}

impl WorkspaceKey {
    /// The key of a workspace: of the origin of its repository, else of the repository's first commit here, each with the
    /// directory in the repository; else of its path. Blocks.
    #[must_use]
    pub fn for_workspace(workspace: &Workspace) -> WorkspaceKey {
        let root = workspace.root();
        let repository = GitFiles::near(workspace).and_then(|files| {
            let above = root.ancestors().take_while(|above| above.starts_with(workspace.boundary()));
            above.take(ANCESTORS_MAX).find_map(|above| {
                let (kind, name) = files.repository_name(&files.git_dir(above)?)?;
                Some((kind, name, root.strip_prefix(above).ok()?.to_owned()))
            })
        });
        let (kind, name, below) =
            repository.unwrap_or_else(|| ("path", root.as_os_str().as_bytes().to_vec(), PathBuf::new()));
        let mut hasher = blake3::Hasher::new();
        for part in [kind.as_bytes(), &name, below.as_os_str().as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        WorkspaceKey(hash_prefix(&hasher.finalize()))
    }
}

/// Reads the files of git around a workspace, within its boundary.
struct GitFiles<'a> {
    boundary: OwnedFd,
    boundary_path: &'a Path,
    /// UID of the workspace's owner.
    owner: u32,
}

impl<'a> GitFiles<'a> {
    fn near(workspace: &'a Workspace) -> Option<GitFiles<'a>> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let boundary = openat2(CWD, workspace.boundary(), how, Mode::empty(), resolve).ok()?;
        Some(GitFiles { boundary, boundary_path: workspace.boundary(), owner: workspace.owner().ok()? })
    }

    /// The directory with the configuration of the repository at `dir`: `.git`, or the one that a worktree shares.
    fn git_dir(&self, dir: &Path) -> Option<PathBuf> {
        let git = dir.join(".git");
        if let Some(owner) = self.owner_of_dir(&git) {
            // Another user may have made it in a directory that all can write, as `/tmp`.
            return (owner == self.owner).then_some(git);
        }
        let link = self.read(&git)?;
        let own = self.linked_dir(dir, link.strip_prefix("gitdir:")?)?;
        match self.read(&own.join("commondir")) {
            Some(common) => self.linked_dir(&own, &common),
            None => Some(own),
        }
    }

    /// The directory that the text of a file in `dir` names. It must belong to the workspace's owner, as the text may name
    /// any directory.
    fn linked_dir(&self, dir: &Path, text: &str) -> Option<PathBuf> {
        let path = without_dots(&dir.join(text.trim()))?;
        (self.owner_of_dir(&path)? == self.owner).then_some(path)
    }

    fn repository_name(&self, git: &Path) -> Option<(&'static str, Vec<u8>)> {
        let origin = self.read(&git.join("config")).and_then(|config| origin_url(&config));
        if let Some(origin) = origin {
            return Some(("origin", normalized_url(&origin).into_bytes()));
        }
        // The first line of the log of a repository that was created here: from no commit to the first one.
        let log = self.read(&git.join("logs/HEAD"))?;
        let (before, first) = log.lines().next()?.split_once(' ')?;
        // Git removes old lines: then the first one begins at some commit.
        let is_first = before.len() >= 40 && before.bytes().all(|byte| byte == b'0');
        let commit = first.split(' ').next().filter(|commit| is_first && commit.len() >= 40)?;
        Some(("commit", commit.as_bytes().to_vec()))
    }

    /// `path` relative to the boundary; `None` if it is not below it.
    fn relative<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let relative = path.strip_prefix(self.boundary_path).ok()?;
        Some(if relative.as_os_str().is_empty() { Path::new(".") } else { relative })
    }

    /// UID of the owner of a directory; `None` if it is none.
    fn owner_of_dir(&self, path: &Path) -> Option<u32> {
        let dir = open_without_links(&self.boundary, self.relative(path)?, OFlags::PATH | OFlags::DIRECTORY).ok()?;
        fstat(&dir).ok().map(|found| found.st_uid)
    }

    /// A regular file, its first bytes as text.
    fn read(&self, path: &Path) -> Option<String> {
        let file = open_regular(&self.boundary, self.relative(path)?).ok()??;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The path without `.` and `..`, by its text alone: no link is followed that these could lead out of.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop().then_some(())?;
            }
            component => plain.push(component),
        }
    }
    Some(plain)
}

/// The URL of the remote `origin` in a git configuration.
fn origin_url(config: &str) -> Option<String> {
    let mut is_origin = false;
    for line in config.lines().map(str::trim) {
        if line.starts_with('[') {
            is_origin = line.to_ascii_lowercase().starts_with("[remote ") && line.contains("\"origin\"");
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_origin)
            && name.trim().eq_ignore_ascii_case("url")
        {
            return Some(value.trim().trim_matches('"').to_owned()).filter(|url| !url.is_empty());
        }
    }
    None
}

/// The URL without scheme, user and `.git`: one repository has several of them.
fn normalized_url(url: &str) -> String {
    let (rest, has_scheme) = match url.split_once("://") {
        Some((_, rest)) => (rest, true),
        None => (url, false),
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let rest = rest[..host_end].rfind('@').map_or(rest, |at| &rest[at + 1..]);
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix(".git").unwrap_or(rest);
    match rest.split_once(':') {
        // `host:path`, as ssh has it.
        Some((host, path)) if !has_scheme && !host.contains('/') => {
            format!("{}/{}", host.to_ascii_lowercase(), path.trim_start_matches('/'))
        }
        _ => match rest.split_once('/') {
            Some((host, path)) if has_scheme => format!("{}/{path}", host.to_ascii_lowercase()),
            _ => rest.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Root;
    use rustix::fs::FileType;
    use std::fs;

    fn key(dir: &Path) -> WorkspaceKey {
        WorkspaceKey::for_workspace(&Workspace::open(dir).unwrap())
    }

    fn repository(at: &Path, config: &str) -> PathBuf {
        fs::create_dir_all(at.join(".git/logs")).unwrap();
        fs::write(at.join(".git/config"), config).unwrap();
        fs::create_dir_all(at.join("api")).unwrap();
        at.canonicalize().unwrap()
    }

    fn origin(url: &str) -> String {
        format!(
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = {url}\n\tfetch = +refs\n[branch \"main\"]\n\turl = no\n"
        )
    }

    #[test]
    fn urls_of_one_repository_are_equal() {
        for url in [
            "https://example.com/team/app",
            "https://user:token@Example.com/team/app.git",
            "git@example.com:team/app.git",
            "ssh://git@example.com/team/app/",
        ] {
            assert_eq!(normalized_url(url), "example.com/team/app", "{url}");
        }
        assert_eq!(normalized_url("/srv/git/app.git"), "/srv/git/app");
        assert_ne!(normalized_url("https://example.com/team/App"), "example.com/team/app", "paths have cases");
    }

    #[test]
    fn clones_and_moved_directories_are_one_workspace_and_their_directories_others() {
        let dir = tempfile::tempdir().unwrap();
        let a = repository(&dir.path().join("a"), &origin("https://example.com/team/app.git"));
        let b = repository(&dir.path().join("b"), &origin("git@example.com:team/app"));
        let other = repository(&dir.path().join("c"), &origin("https://example.com/team/other"));
        assert_eq!((key(&a), key(&a.join("api"))), (key(&b), key(&b.join("api"))));
        assert!(key(&a) != key(&a.join("api")) && key(&a) != key(&other));
        let moved = a.with_file_name("moved");
        fs::rename(&a, &moved).unwrap();
        assert_eq!(key(&moved), key(&b));
    }

    #[test]
    fn a_repository_without_origin_is_known_by_its_first_commit() {
        let dir = tempfile::tempdir().unwrap();
        let root = repository(&dir.path().join("a"), "[core]\n");
        let no_commit = key(&root);
        let line = format!("{} {} A <a@example.com> 0 +0000\tcommit (initial): x\n", "0".repeat(40), "1".repeat(40));
        fs::write(root.join(".git/logs/HEAD"), line + "further lines\n").unwrap();
        let with_commit = key(&root);
        assert_ne!(no_commit, with_commit);
        let moved = root.with_file_name("moved");
        fs::rename(&root, &moved).unwrap();
        assert_eq!(key(&moved), with_commit);
        // Git has removed the line of the first commit.
        let line = format!("{} {} A <a@example.com> 0 +0000\tcommit: y\n", "1".repeat(40), "2".repeat(40));
        fs::write(moved.join(".git/logs/HEAD"), line).unwrap();
        let by_path = key(&moved);
        fs::remove_file(moved.join(".git/logs/HEAD")).unwrap();
        assert_eq!(key(&moved), by_path);
    }

    #[test]
    fn a_worktree_shares_the_history_of_its_repository() {
        let dir = tempfile::tempdir().unwrap();
        let main = repository(&dir.path().join("main"), &origin("https://example.com/app"));
        let own = main.join(".git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(key(&tree.canonicalize().unwrap()), key(&main));
    }

    #[test]
    fn follows_no_link_and_waits_for_no_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let root = repository(&dir.path().join("a"), "");
        let by_path = key(&root);
        let elsewhere = dir.path().join("config");
        fs::write(&elsewhere, origin("https://example.com/app")).unwrap();
        fs::remove_file(root.join(".git/config")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join(".git/config")).unwrap();
        assert_eq!(key(&root), by_path);
        fs::remove_file(root.join(".git/config")).unwrap();
        rustix::fs::mknodat(CWD, root.join(".git/config"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(key(&root), by_path);
    }

    /// A worktree below `root` whose files name the repository at `main`.
    fn worktree(root: &Path, main: &Path) -> PathBuf {
        let own = main.join(".git/worktrees/w");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let tree = root.join("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        tree
    }

    #[test]
    fn reads_nothing_above_the_root_of_the_tenant() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (alpha, beta) = (dir.join("alpha"), dir.join("beta"));
        let url = origin("https://example.com/app");
        for tenant in [&alpha, &beta] {
            repository(&tenant.join("main"), &url);
        }
        let below_alpha = |path: &Path| {
            let (workspace, _) = Workspace::open_below(&[Root::new(&alpha)], path).unwrap();
            WorkspaceKey::for_workspace(&workspace)
        };
        let shared = below_alpha(&alpha.join("main"));
        let tree = worktree(&alpha, &alpha.join("main"));
        assert_eq!(below_alpha(&tree), shared, "a repository of the same tenant");
        let tree = worktree(&alpha, &beta.join("main"));
        assert_ne!(below_alpha(&tree), shared, "a repository of another tenant");
        fs::write(tree.join(".git"), "gitdir: ../../beta/main/.git\n").unwrap();
        assert_ne!(below_alpha(&tree), shared);
        let own = alpha.join("main/.git/worktrees/w");
        fs::write(own.join("commondir"), "../../../../../beta/main/.git\n").unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_ne!(below_alpha(&tree), shared, "a common directory of another tenant");
        repository(&dir, &url);
        let plain = alpha.join("plain");
        fs::create_dir(&plain).unwrap();
        let by_path = below_alpha(&plain);
        fs::remove_dir_all(dir.join(".git")).unwrap();
        assert_eq!(below_alpha(&plain), by_path, "a repository around the root is not read");
    }

    #[test]
    fn follows_no_directory_that_belongs_to_another_user() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let main = repository(&dir.join("main"), &origin("https://example.com/app"));
        let tree = worktree(&dir, &main);
        let git_dir = |at: &Path, is_own: bool| {
            let workspace = Workspace::open(at).unwrap();
            let files = GitFiles::near(&workspace).unwrap();
            let owner = if is_own { files.owner } else { files.owner + 1 };
            GitFiles { owner, ..files }.git_dir(at)
        };
        for at in [&main, &tree] {
            assert_eq!(git_dir(at, true), Some(main.join(".git")));
            assert_eq!(git_dir(at, false), None, "the directory belongs to another user");
        }
    }

    #[test]
    fn follows_no_symbolic_link_on_the_way_to_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let main = repository(&dir.join("main"), &origin("https://example.com/app"));
        let tree = worktree(&dir, &main);
        std::os::unix::fs::symlink(&main, dir.join("link")).unwrap();
        fs::write(tree.join(".git"), "gitdir: ../link/.git/worktrees/w\n").unwrap();
        assert_ne!(key(&tree), key(&main));
    }
}
