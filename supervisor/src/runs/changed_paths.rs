//! The files that a check with `since` looks at: those that changed since an earlier state of the workspace.

use super::affected::rejected;
use super::prepare::PrepareError;
use crate::workspace::{Workspace, WorkspaceScan};
use proctor_core::bounds::{REQUEST_FILES_BYTES_MAX, REQUEST_FILES_MAX};
use proctor_core::check::CheckRequest;
use proctor_core::request::EarlierState;
use proctor_core::selection::{Baseline, FullReason};
use proctor_frameworks::checks;
use std::collections::BTreeSet;

/// Hexadecimal digits of a commit in an answer.
const COMMIT_DIGITS: usize = 12;

/// What a check with `since` looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckScope {
    /// The request, on the changed files, or unchanged where these do not tell all.
    pub request: CheckRequest,
    /// The state that the workspace was compared with, in words; `None` if all files are looked at.
    pub since: Option<String>,
    /// Why all files are looked at.
    pub note: Option<String>,
}

/// The scope of a check that asks for the files changed since `earlier`. Scans files, so not for a tokio thread.
///
/// # Errors
/// A revision that does not exist, or that no repository can have, and nothing that changed.
pub fn changed_since(
    workspace: &Workspace,
    scan: &WorkspaceScan,
    earlier: &EarlierState,
    baseline: Option<&Baseline>,
    asked: &CheckRequest,
) -> Result<CheckScope, PrepareError> {
    let (since, changed) = match earlier {
        EarlierState::Revision(revision) => since_commit(workspace, revision)?,
        EarlierState::LastRun => {
            ("the last run of all tests".to_owned(), since_run(workspace, scan, earlier, baseline))
        }
        EarlierState::LastGreen => {
            ("the last state at which every test passed".to_owned(), since_run(workspace, scan, earlier, baseline))
        }
    };
    let settings: BTreeSet<String> = checks::choose(&scan.tree, asked)?.settings().collect();
    match changed.and_then(|changed| narrowed(scan, changed, &settings, asked)) {
        Ok(files) if files.is_empty() => Err(PrepareError::NothingToCheck { since }),
        Ok(files) => {
            Ok(CheckScope { request: CheckRequest { files, ..asked.clone() }, since: Some(since), note: None })
        }
        Err(why) => {
            let note = Some(format!("all files are checked, not only those changed since {since}: {why}"));
            Ok(CheckScope { request: asked.clone(), since: None, note })
        }
    }
}

/// The changed files that are asked for and still exist; why all have to be looked at otherwise.
fn narrowed(
    scan: &WorkspaceScan,
    changed: Vec<String>,
    settings: &BTreeSet<String>,
    asked: &CheckRequest,
) -> Result<Vec<String>, String> {
    // Settings decide about files that did not change.
    if let Some(path) = changed.iter().find(|path| settings.contains(*path) || checks::is_marker_path(path)) {
        return Err(format!("{path} changed, which may have settings of a checker"));
    }
    let mut files: Vec<String> =
        changed.into_iter().filter(|path| scan.tree.contains(path) && asked.covers(path)).collect();
    files.sort_unstable();
    files.dedup();
    if files.len() > REQUEST_FILES_MAX || files.iter().map(String::len).sum::<usize>() > REQUEST_FILES_BYTES_MAX {
        return Err(format!("{} files changed, more than one check can name", files.len()));
    }
    Ok(files)
}

fn since_run(
    workspace: &Workspace,
    scan: &WorkspaceScan,
    earlier: &EarlierState,
    baseline: Option<&Baseline>,
) -> Result<Vec<String>, String> {
    let baseline = baseline.ok_or_else(|| FullReason::NoBaseline.to_string())?;
    let before = baseline.files_at(earlier).ok_or_else(|| FullReason::NeverGreen.to_string())?;
    let now = workspace.snapshot(scan, Some(&baseline.seen.snapshot), None);
    if let Some(why) = before.incomplete().or(now.incomplete()) {
        return Err(why.to_owned());
    }
    Ok(before.changes(&now).into_iter().map(|change| change.path).collect())
}

type Compared = (String, Result<Vec<String>, String>);

fn since_commit(workspace: &Workspace, revision: &str) -> Result<Compared, PrepareError> {
    match workspace.files_changed_since_commit(revision) {
        Ok((commit, changes)) => {
            let since = format!("commit {}", &commit[..COMMIT_DIGITS.min(commit.len())]);
            Ok((since, Ok(changes.into_iter().map(|change| change.path).collect())))
        }
        Err(error) => Ok((revision.to_owned(), Err(rejected(error)?.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_changed_files_that_are_there_unless_settings_changed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("src")).unwrap();
        for file in ["a.py", "src/b.py"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        let scan = Workspace::open(dir.path()).unwrap().scan().unwrap();
        let narrow = |changed: &[&str], asked: &[&str]| {
            let owned = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>();
            let settings = BTreeSet::from(["lint.toml".to_owned()]);
            narrowed(&scan, owned(changed), &settings, &CheckRequest { files: owned(asked), ..CheckRequest::default() })
        };
        assert_eq!(narrow(&["src/b.py", "gone.py", "a.py"], &[]).unwrap(), ["a.py", "src/b.py"]);
        assert_eq!(narrow(&["src/b.py", "a.py"], &["src"]).unwrap(), ["src/b.py"]);
        assert_eq!(narrow(&["gone.py"], &[]).unwrap(), [""; 0]);
        for settings in ["lint.toml", "pyproject.toml"] {
            assert!(narrow(&["a.py", settings], &[]).unwrap_err().starts_with(&format!("{settings} changed")));
        }
    }
}
