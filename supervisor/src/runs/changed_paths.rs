//! The files that a check with `since` looks at: those that changed since an earlier state of the workspace.

use super::affected::rejected;
use super::prepare::PrepareError;
use crate::workspace::{Workspace, WorkspaceScan, commit_name};
use proctor_core::bounds::{REQUEST_FILES_BYTES_MAX, REQUEST_FILES_MAX};
use proctor_core::check::CheckRequest;
use proctor_core::request::EarlierState;
use proctor_core::selection::{Baseline, FullReason};
use proctor_frameworks::checks::{self, CheckChoice};

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
    let choice = checks::choose(&scan.tree, asked)?;
    match changed.and_then(|changed| narrowed(scan, changed, &choice, asked)) {
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
    choice: &CheckChoice,
    asked: &CheckRequest,
) -> Result<Vec<String>, String> {
    // Settings decide about files that did not change.
    if let Some(path) = changed.iter().find(|path| checks::is_settings_path(path)) {
        return Err(format!("{path} changed, which may have settings of a checker"));
    }
    // Files that use it did not change, and may have findings now.
    let is_gone = |path: &&String| !scan.tree.contains(path) && choice.checks_extension_of(path);
    if let Some(path) = changed.iter().find(is_gone) {
        return Err(format!("{path} was deleted, which other files may use"));
    }
    // What no checker looks at cannot have findings.
    let is_wanted = |path: &String| asked.covers(path) && choice.checks(&scan.tree, path);
    let mut files: Vec<String> = changed.into_iter().filter(is_wanted).collect();
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
            Ok((commit_name(&commit), Ok(changes.into_iter().map(|change| change.path).collect())))
        }
        Err(error) => Ok((revision.to_owned(), Err(rejected(error)?.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What of `changed` a check of `asked` looks at, in a workspace of Python and Go with these checkers.
    fn narrow(checkers: &[&str], changed: &[&str], asked: &[&str]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a.py", "src/b.py", "ruff.toml", "src/ruff.toml", "go.mod", "a.go", ".golangci.yml", "notes.md"] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, if file == "go.mod" { "module m\n" } else { "" }).unwrap();
        }
        let scan = Workspace::open(dir.path()).unwrap().scan().unwrap();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let asked = CheckRequest { files: owned(asked), checkers: owned(checkers), ..CheckRequest::default() };
        narrowed(&scan, owned(changed), &checks::choose(&scan.tree, &asked).unwrap(), &asked)
    }

    #[test]
    fn looks_at_changed_files_that_are_asked_for() {
        assert_eq!(narrow(&["ruff"], &["src/b.py", "a.py"], &[]).unwrap(), ["a.py", "src/b.py"]);
        assert_eq!(narrow(&["ruff"], &["src/b.py", "a.py"], &["src"]).unwrap(), ["src/b.py"]);
        assert_eq!(narrow(&["ruff"], &["src/b.py"], &["a.py"]).unwrap(), [""; 0]);
    }

    #[test]
    fn looks_at_all_files_if_settings_of_a_checker_changed_anywhere_or_are_gone() {
        for settings in [
            ".golangci.yml",
            "src/ruff.toml",
            "gone/ruff.toml",
            "pyproject.toml",
            "web/tsconfig.base.json",
            "go.sum",
            "Cargo.lock",
            ".cargo/config.toml",
        ] {
            for asked in [&[][..], &["a.py"]] {
                let why = narrow(&["ruff"], &["a.py", settings], asked).unwrap_err();
                assert_eq!(why, format!("{settings} changed, which may have settings of a checker"));
            }
        }
        let why = narrow(&["golangci-lint"], &[".golangci.yml"], &[]).unwrap_err();
        assert!(why.starts_with(".golangci.yml changed"), "{why}");
    }

    #[test]
    fn looks_at_all_files_if_one_that_others_may_use_was_deleted() {
        for asked in [&[][..], &["a.py"]] {
            let why = narrow(&["ruff"], &["src/b.py", "util.py"], asked).unwrap_err();
            assert_eq!(why, "util.py was deleted, which other files may use");
        }
        // No checker that runs looks at such files.
        assert_eq!(narrow(&["ruff"], &["gone.md", "gone.go", "a.py"], &[]).unwrap(), ["a.py"]);
        assert!(narrow(&["ruff", "go-vet"], &["gone.go", "a.py"], &[]).is_err());
    }
}
