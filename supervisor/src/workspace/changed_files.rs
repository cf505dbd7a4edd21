//! The files of a workspace that changed since a time or a commit.

use super::git::{CommitFiles, GitError, ObjectId, Repository, WorkBudget};
use super::lookup::{LookupMode, open_beneath, open_regular, open_without_links};
use super::snapshot::{link_hash, text_of_source};
use super::{Workspace, WorkspaceError};
use proctor_core::analysis::{Change, FileChange};
use proctor_core::selection::{ChangedFile, Ecosystem, FileText, HowChanged, Snapshot};
use proctor_core::timestamp::Timestamp;
use proctor_core::untested::ChangedSources;
use rustix::fs::OFlags;
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a file that are hashed at a time.
const CHUNK_BYTES: usize = 64 * 1024;

impl Workspace {
    /// Files that were written or replaced after `since`. What was removed leaves no trace. Takes microseconds per file, so not for a
    /// tokio thread.
    pub fn files_changed_since(&self, since: Timestamp) -> Result<Vec<FileChange>, WorkspaceError> {
        let scan = self.scan()?;
        let changed_at = |path: &str| {
            let file = open_beneath(self.dir(), Path::new(path), OFlags::PATH)?;
            LookupMode::Blocking.stat(&file).map(|found| found.changed_at)
        };
        let changed = scan.tree.files().filter(|path| changed_at(path).is_ok_and(|at| at > since));
        Ok(changed
            .map(|path| FileChange { path: path.to_owned(), change: Change::Changed, is_tracked: true })
            .collect())
    }

    /// Files that differ from those of the commit that `revision` names, and the hash of this commit. Reads at most 512 MiB, so not for
    /// a tokio thread.
    pub fn files_changed_since_commit(&self, revision: &str) -> Result<(String, Vec<FileChange>), GitError> {
        let mut repository = Repository::open(self)?;
        let before = repository.files_at(revision)?;
        let changes = self.differences(&mut repository, &before, |_| true)?;
        Ok((before.commit.to_string(), changes))
    }

    /// The same with the texts of the commit and those of `now`, for a selection of tests. Files that git does not track and
    /// that are no sources are compared with `last_run` instead, as the commit says nothing about them.
    pub fn texts_changed_since_commit(
        &self,
        revision: &str,
        now: &Snapshot,
        last_run: &Snapshot,
    ) -> Result<(String, Vec<ChangedFile>), GitError> {
        let mut repository = Repository::open(self)?;
        let before = repository.files_at(revision)?;
        let mut changes = Vec::new();
        let untracked: Vec<ChangedFile> = last_run.changes(now);
        for change in self.differences(&mut repository, &before, |_| true)? {
            let path = &change.path;
            if !change.is_tracked && Ecosystem::of_source(path).is_none() {
                changes.extend(untracked.iter().find(|untracked| untracked.path == *path).cloned());
                continue;
            }
            let old = match Ecosystem::of_source(path) {
                Some(_) => text_before(&mut repository, &before, path)?,
                None => None,
            };
            let new = now.file(path).map(|file| file.text.clone());
            let how = match change.change {
                Change::Added => HowChanged::Added,
                Change::Changed if new.is_some() => HowChanged::Edited,
                Change::Changed | Change::Removed => HowChanged::Removed,
            };
            changes.push(ChangedFile { path: path.clone(), how, old, new });
        }
        for (path, entry) in before.files.iter().filter(|(_, entry)| !entry.is_regular) {
            let old = repository.content(entry.id)?.map(|target| FileText::whole(link_hash(&target)));
            let new = now.file(path).map(|file| file.text.clone());
            if old.is_none() || old != new {
                let how = if new.is_some() { HowChanged::Edited } else { HowChanged::Removed };
                changes.push(ChangedFile { path: path.clone(), how, old, new });
            }
        }
        Ok((before.commit.to_string(), changes))
    }

    /// The sources for which `is_wanted` that differ from those of the commit that `revision` names, and the hash of this commit.
    pub fn sources_changed_since_commit(
        &self,
        revision: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<(String, ChangedSources), GitError> {
        let mut repository = Repository::open(self)?;
        let before = repository.files_at(revision)?;
        let mut sources = ChangedSources::default();
        for FileChange { path, change, .. } in self.differences(&mut repository, &before, is_wanted)? {
            let old = text_before(&mut repository, &before, &path)?;
            match (change, old) {
                (Change::Removed, Some(old)) => sources.add_removed(path, old),
                (Change::Removed, None) => {}
                (Change::Added | Change::Changed, old) => sources.add(path.clone(), old, || self.source_text(&path)),
            }
        }
        Ok((before.commit.to_string(), sources))
    }

    /// The files for which `is_wanted` that differ from those of a commit.
    fn differences(
        &self,
        repository: &mut Repository,
        before: &CommitFiles,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<FileChange>, GitError> {
        let index = repository.index()?;
        let scan = self.scan().map_err(|error| GitError::Host(std::io::Error::other(error)))?;
        let mut changes = Vec::new();
        let change = |path: &str, change, is_tracked| FileChange { path: path.to_owned(), change, is_tracked };
        let wanted = before.files.iter().filter(|(path, entry)| entry.is_regular && is_wanted(path));
        for (path, entry) in wanted {
            let Some(file) = open_regular(self.dir(), path)? else {
                // A link or a directory may have taken its place.
                let is_there = open_without_links(self.dir(), path, OFlags::PATH | OFlags::NOFOLLOW).is_ok();
                changes.push(change(path, if is_there { Change::Changed } else { Change::Removed }, true));
                continue;
            };
            let content = match index.content(path, &file.metadata()?) {
                Some(content) => content,
                None => hash_file(file, repository.budget())?,
            };
            if content != entry.id {
                changes.push(change(path, Change::Changed, true));
            }
        }
        let added = scan.tree.files().filter(|path| !before.files.contains_key(*path) && is_wanted(path));
        changes.extend(added.map(|path| change(path, Change::Added, index.has(path))));
        Ok(changes)
    }
}

/// The text of a file in a commit; `None` if the commit has no such file.
fn text_before(repository: &mut Repository, before: &CommitFiles, path: &str) -> Result<Option<FileText>, GitError> {
    let Some(entry) = before.files.get(path).filter(|entry| entry.is_regular) else { return Ok(None) };
    Ok(repository.content(entry.id)?.map(|content| text_of_source(path, &content)))
}

// The name that git gives to a file with this content.
fn hash_file(file: File, budget: &mut WorkBudget) -> Result<ObjectId, GitError> {
    let length = file.metadata()?.len();
    budget.take(length)?;
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {length}\0").as_bytes());
    let (mut chunk, mut file) = (vec![0; CHUNK_BYTES], file.take(length));
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => hasher.update(&chunk[..read]),
        }
    }
    Ok(ObjectId(hasher.finalize().into()))
}

#[cfg(test)]
mod tests;
