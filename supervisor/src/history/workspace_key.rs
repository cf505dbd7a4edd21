//! The identity of a workspace in the history: that of its repository, so that clones, worktrees and moved directories
//! share one history. Reads two small files of `.git`; git itself is never executed.

use super::run_record::first_half;
use crate::workspace::Workspace;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most bytes read of a file of git: a configuration with hundreds of remotes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A hash of the workspace's identity. It is unique within one tenant only, as tests may write `.git`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceKey(pub [u8; 16]);

impl WorkspaceKey {
    /// The key of a workspace: of the origin of its repository, else of the repository's first commit here, each with the
    /// directory in the repository; else of its path. Blocks.
    #[must_use]
    pub fn for_workspace(workspace: &Workspace) -> WorkspaceKey {
        WorkspaceKey::for_dir(workspace.root())
    }

    fn for_dir(root: &Path) -> WorkspaceKey {
        let repository = root.ancestors().find_map(|above| {
            let git = git_dir(above)?;
            let (kind, name) = repository_name(&git)?;
            Some((kind, name, root.strip_prefix(above).ok()?.to_owned()))
        });
        let (kind, name, below) =
            repository.unwrap_or_else(|| ("path", root.as_os_str().as_bytes().to_vec(), PathBuf::new()));
        let mut hasher = blake3::Hasher::new();
        for part in [kind.as_bytes(), &name, below.as_os_str().as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        WorkspaceKey(first_half(&hasher.finalize()))
    }
}

/// The directory with the configuration of the repository at `dir`: `.git`, or the one that a worktree shares.
fn git_dir(dir: &Path) -> Option<PathBuf> {
    let git = dir.join(".git");
    if git.symlink_metadata().ok()?.is_dir() {
        return Some(git);
    }
    let link = read_small(&git)?;
    let own = dir.join(link.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
    let common = read_small(&own.join("commondir"));
    common.map_or_else(|| Some(own.clone()), |common| own.join(common.trim()).canonicalize().ok())
}

fn repository_name(git: &Path) -> Option<(&'static str, Vec<u8>)> {
    let origin = read_small(&git.join("config")).and_then(|config| origin_url(&config));
    if let Some(origin) = origin {
        return Some(("origin", normalized_url(&origin).into_bytes()));
    }
    // The first line of the log of a repository that was created here: from no commit to the first one.
    let log = read_small(&git.join("logs/HEAD"))?;
    let (_, first) = log.lines().next()?.split_once(' ')?;
    let commit = first.split(' ').next().filter(|commit| commit.len() >= 40)?;
    Some(("commit", commit.as_bytes().to_vec()))
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

/// A regular file, its first bytes as text. Tests can write here: no link is followed, and no pipe is waited for.
fn read_small(path: &Path) -> Option<String> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(CWD, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(file).take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        let key = WorkspaceKey::for_dir;
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
        let no_commit = WorkspaceKey::for_dir(&root);
        let line = format!("{} {} A <a@example.com> 0 +0000\tcommit (initial): x\n", "0".repeat(40), "1".repeat(40));
        fs::write(root.join(".git/logs/HEAD"), line + "further lines\n").unwrap();
        let with_commit = WorkspaceKey::for_dir(&root);
        assert_ne!(no_commit, with_commit);
        let moved = root.with_file_name("moved");
        fs::rename(&root, &moved).unwrap();
        assert_eq!(WorkspaceKey::for_dir(&moved), with_commit);
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
        assert_eq!(WorkspaceKey::for_dir(&tree.canonicalize().unwrap()), WorkspaceKey::for_dir(&main));
    }

    #[test]
    fn follows_no_link_and_waits_for_no_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let root = repository(&dir.path().join("a"), "");
        let by_path = WorkspaceKey::for_dir(&root);
        let elsewhere = dir.path().join("config");
        fs::write(&elsewhere, origin("https://example.com/app")).unwrap();
        fs::remove_file(root.join(".git/config")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join(".git/config")).unwrap();
        assert_eq!(WorkspaceKey::for_dir(&root), by_path);
        fs::remove_file(root.join(".git/config")).unwrap();
        rustix::fs::mknodat(CWD, root.join(".git/config"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(WorkspaceKey::for_dir(&root), by_path);
    }
}
