//! Reads the files of a commit from a workspace's git repository, to compare them with those of the workspace.
//!
//! A tenant's tests write the repository, so nothing in it is trusted. It is read here and not by git: git runs programs that the
//! repository's configuration names (hooks, filters, a file monitor, helpers of remotes), and a process in the sandbox would have
//! to wait for a turn on the host while a run is going on. No library that maps packs into memory is used either: a tenant who
//! truncates a mapped file ends the supervisor by SIGBUS. So files are opened below the workspace without following links, read
//! with `pread`, and only objects, references, packs and the index are understood, whose formats gitformat-pack(5),
//! gitformat-index(5) and gitrepository-layout(5) describe. The configuration is never read.
//!
//! Not supported, and said so: SHA-256 repositories, reference tables, and repositories whose objects are elsewhere (linked
//! worktrees, alternates, partial clones).

mod index;
mod objects;
mod pack;
mod revision;
mod tree;

pub(super) use index::Index;
pub(super) use objects::ObjectId;
pub(super) use tree::TreeEntry;

use super::Workspace;
use super::lookup::{open_regular, open_without_links};
use objects::Objects;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::AsFd;
use thiserror::Error;

/// Most bytes that one comparison reads from objects and files: some seconds of work.
const WORK_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Most bytes of one object but those of files: a directory of 500,000 names.
const OBJECT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Most bytes of a reference or of the list of packed references: 200,000 of them.
const REFERENCES_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Hexadecimal digits of a commit in an answer.
const COMMIT_DIGITS: usize = 12;

/// A commit in an answer, by the first digits of its hash.
pub fn commit_name(hash: &str) -> String {
    format!("commit {}", &hash[..COMMIT_DIGITS.min(hash.len())])
}

/// Why the files of a revision cannot be read. No variant has a path of the host.
#[derive(Debug, Error)]
pub enum GitError {
    /// No `.git` directory in the workspace.
    #[error("the workspace is not the root of a git repository")]
    NoRepository,
    /// `.git` is a file that points elsewhere.
    #[error("the repository of this worktree is outside of the workspace")]
    Elsewhere,
    /// No such commit.
    #[error("no commit {revision} in this repository")]
    NoSuchRevision {
        /// The revision as requested.
        revision: String,
    },
    /// Several objects begin like this.
    #[error("{revision} is the beginning of several objects")]
    Ambiguous {
        /// The revision as requested.
        revision: String,
    },
    /// The revision's form is not understood.
    #[error("{revision} is not a hash, branch or tag, possibly with ~N or ^ behind it")]
    BadRevision {
        /// The revision as requested.
        revision: String,
    },
    /// An object that the commit needs is not in the workspace.
    #[error("the repository lacks objects of this commit, as a partial or shallow clone does")]
    MissingObject,
    /// A format that is not understood, or damaged files.
    #[error("the repository cannot be read: {what}")]
    Unreadable {
        /// What is wrong.
        what: &'static str,
    },
    /// More than one comparison may read.
    #[error("the repository is too large to be compared")]
    TooLarge,
    /// The host could not read a file.
    #[error("the repository cannot be read")]
    Host(#[from] io::Error),
}

impl From<Errno> for GitError {
    fn from(error: Errno) -> GitError {
        GitError::Host(error.into())
    }
}

/// An open repository.
pub(super) struct Repository {
    objects: Objects,
}

/// The files of a commit.
pub(super) struct CommitFiles {
    /// The commit.
    pub(super) commit: ObjectId,
    /// By path.
    pub(super) files: BTreeMap<String, TreeEntry>,
}

impl Repository {
    /// Opens the repository at the root of `workspace`.
    pub(super) fn open(workspace: &Workspace) -> Result<Repository, GitError> {
        let dir = match open_without_links(workspace.dir(), ".git", OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(dir) => dir,
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(GitError::Elsewhere),
            Err(Errno::NOENT) => return Err(GitError::NoRepository),
            Err(error) => return Err(error.into()),
        };
        Ok(Repository { objects: Objects::open(dir, WorkBudget(WORK_BYTES_MAX))? })
    }

    /// The files of the commit that `revision` names.
    pub(super) fn files_at(&mut self, revision: &str) -> Result<CommitFiles, GitError> {
        let commit = revision::resolve(&mut self.objects, revision)?;
        Ok(CommitFiles { commit, files: tree::files_of_commit(&mut self.objects, commit)? })
    }

    /// The content of a file or link; `None` if it is too large, or not in the workspace.
    pub(super) fn content(&mut self, id: ObjectId) -> Result<Option<Vec<u8>>, GitError> {
        match self.objects.read(id) {
            Ok(object) => Ok(Some(object.content)),
            Err(GitError::TooLarge | GitError::MissingObject) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The index; empty if there is none.
    pub(super) fn index(&mut self) -> Result<Index, GitError> {
        Index::read(&mut self.objects)
    }

    /// The work that is still allowed.
    pub(super) fn budget(&mut self) -> &mut WorkBudget {
        &mut self.objects.budget
    }
}

/// Bytes that a comparison may still read.
#[derive(Debug)]
pub(super) struct WorkBudget(u64);

impl WorkBudget {
    /// Takes `bytes`.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), GitError> {
        self.0 = self.0.checked_sub(bytes).ok_or(GitError::TooLarge)?;
        Ok(())
    }
}

/// The content of the file at `path` below `dir`, at most `bytes_max`; `None` if there is none.
fn read_file(dir: impl AsFd, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, GitError> {
    let Some(file) = open_regular(dir, path)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    if content.len() as u64 > bytes_max { Err(GitError::TooLarge) } else { Ok(Some(content)) }
}
