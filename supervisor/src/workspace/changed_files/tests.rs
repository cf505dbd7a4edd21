//! Tests against repositories as git writes them: `fixtures` of packs and loose objects made by git itself, and hostile ones.

use super::*;
use crate::workspace::GitError;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A repository that git 2.39 wrote: three commits, the second (and one before it) in a pack with deltas, the last in loose objects; a branch `main`, an
/// annotated tag `v1` of the second commit, and packed references. `make_repository.sh` made it.
fn repository(at: &Path) -> Workspace {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/workspace/changed_files/repository"), at);
    fs::rename(at.join("dot-git"), at.join(".git")).unwrap();
    Workspace::open(at).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            _ = fs::copy(entry.path(), target).unwrap()
        }
    }
}

fn changes(workspace: &Workspace, revision: &str) -> Vec<String> {
    let (_, mut changes) = workspace.files_changed_since_commit(revision).unwrap();
    changes.sort_by(|one, other| one.path.cmp(&other.path));
    changes.iter().map(|one| format!("{} {} {}", one.change.name(), one.path, one.is_tracked)).collect()
}

#[test]
fn names_what_differs_from_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    for head in ["HEAD", "@", "main", "refs/heads/main"] {
        assert_eq!(changes(&workspace, head), [""; 0], "{head}");
    }
    let first = ["added new.py true", "removed old.py true", "changed shop/prices.py true"];
    let hash = workspace.files_changed_since_commit("v1").unwrap().0;
    for revision in ["HEAD~1", "main^", "v1", "refs/tags/v1", "v1~", "HEAD~2", &hash, &hash[..7]] {
        assert_eq!(changes(&workspace, revision), first, "{revision}");
    }
    fs::write(dir.path().join("shop/cart.py"), "edited = 1\n").unwrap();
    fs::write(dir.path().join("untracked.py"), "").unwrap();
    fs::remove_file(dir.path().join("new.py")).unwrap();
    fs::remove_file(dir.path().join("shop/item_3.py")).unwrap();
    symlink("item_4.py", dir.path().join("shop/item_3.py")).unwrap();
    let worked =
        ["removed new.py true", "changed shop/cart.py true", "changed shop/item_3.py true", "added untracked.py false"];
    assert_eq!(changes(&workspace, "HEAD"), worked);
}

#[test]
fn a_selection_gets_the_texts_of_the_commit() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    fs::write(dir.path().join("notes.txt"), "seen by the last run").unwrap();
    let snapshot = || workspace.snapshot(&workspace.scan().unwrap(), None, None);
    let last_run = snapshot();
    let of = |revision: &str| {
        let (_, changes) = workspace.texts_changed_since_commit(revision, &snapshot(), &last_run).unwrap();
        let mut shown: Vec<String> = changes
            .iter()
            .map(|one| format!("{:?} {} {} {}", one.how, one.path, one.old.is_some(), one.new.is_some()))
            .collect();
        shown.sort();
        shown
    };
    assert_eq!(of("HEAD"), [""; 0], "the untracked file is that of the last run");
    assert_eq!(of("v1"), ["Added new.py false true", "Edited shop/prices.py true true", "Removed old.py true false"]);
    fs::write(dir.path().join("shop/cart.py"), "cart = 1\r\n").unwrap();
    fs::write(dir.path().join("notes.txt"), "written since").unwrap();
    fs::write(dir.path().join("untracked.py"), "").unwrap();
    fs::remove_file(dir.path().join("shop/item_3.py")).unwrap();
    symlink("item_4.py", dir.path().join("shop/item_3.py")).unwrap();
    let worked = of("HEAD");
    assert_eq!(
        worked,
        [
            "Added untracked.py false true",
            "Edited notes.txt true true",
            "Edited shop/cart.py true true",
            "Edited shop/item_3.py true true"
        ]
    );
}

#[test]
fn a_file_that_was_only_touched_has_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    let path = dir.path().join("shop/cart.py");
    let content = fs::read(&path).unwrap();
    fs::write(&path, content).unwrap();
    assert_eq!(changes(&workspace, "HEAD"), [""; 0]);
}

#[test]
fn says_what_is_wrong_with_a_revision() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    let error = |revision: &str| workspace.files_changed_since_commit(revision).unwrap_err().to_string();
    assert_eq!(error("nowhere"), "no commit nowhere in this repository");
    assert_eq!(error("HEAD~9"), "no commit HEAD~9 in this repository");
    for bad in ["--upload-pack=x", "../../etc/passwd", "main^{tree}", "HEAD:shop", ""] {
        let wanted = format!("{bad} is not a hash, branch or tag, possibly with ~N or ^ behind it");
        assert_eq!(error(bad), wanted);
    }
}

#[test]
fn nothing_outside_of_the_workspace_is_read() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    repository(other.path());
    let plain = Workspace::open(dir.path()).unwrap();
    assert!(matches!(plain.files_changed_since_commit("HEAD"), Err(GitError::NoRepository)));
    symlink(other.path().join(".git"), dir.path().join(".git")).unwrap();
    assert!(matches!(plain.files_changed_since_commit("HEAD"), Err(GitError::Elsewhere)));
    fs::remove_file(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".git"), format!("gitdir: {}\n", other.path().join(".git").display())).unwrap();
    assert!(matches!(plain.files_changed_since_commit("HEAD"), Err(GitError::Elsewhere)));
    // A directory of its own whose objects are a link.
    let linked = tempfile::tempdir().unwrap();
    let workspace = repository(linked.path());
    fs::remove_dir_all(linked.path().join(".git/objects")).unwrap();
    symlink(other.path().join(".git/objects"), linked.path().join(".git/objects")).unwrap();
    assert!(workspace.files_changed_since_commit("HEAD").is_err());
}

#[test]
fn nothing_that_the_repository_names_is_executed() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    let program = format!("touch {}", dir.path().join("executed").display());
    let config = format!(
        "[core]\nfsmonitor = {program}\nhooksPath = hooks\n[filter \"x\"]\nclean = {program}\nsmudge = {program}\n[diff]\nexternal = {program}\n"
    );
    fs::write(dir.path().join(".git/config"), config).unwrap();
    fs::write(dir.path().join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(dir.path().join("shop/cart.py"), "edited = 2\n").unwrap();
    assert_eq!(changes(&workspace, "HEAD"), ["added .gitattributes false", "changed shop/cart.py true"]);
    assert!(!dir.path().join("executed").exists());
}

#[test]
fn damaged_repositories_are_errors() {
    let pack = |dir: &Path, end: &str| {
        let packs = fs::read_dir(dir.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        packs.into_iter().find(|path| path.to_string_lossy().ends_with(end)).unwrap()
    };
    for end in [".idx", ".pack"] {
        for length in [0, 8, 100, 1100] {
            let dir = tempfile::tempdir().unwrap();
            let workspace = repository(dir.path());
            let path = pack(dir.path(), end);
            fs::rename(&path, path.with_extension("whole")).unwrap();
            let content = fs::read(path.with_extension("whole")).unwrap();
            fs::write(&path, &content[..length.min(content.len() / 2)]).unwrap();
            assert!(workspace.files_changed_since_commit("v1").is_err(), "{end} {length}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let workspace = repository(dir.path());
    fs::write(dir.path().join(".git/index"), b"DIRC\0\0\0\x02\xff\xff\xff\xff").unwrap();
    assert_eq!(changes(&workspace, "HEAD").len(), 0, "without the index every file is read");
    fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/.invalid\n").unwrap();
    let error = workspace.files_changed_since_commit("HEAD").unwrap_err();
    assert_eq!(error.to_string(), "the repository cannot be read: a reference table");
}

#[test]
fn files_written_after_a_time_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.py"), "").unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    let paths = |since| -> Vec<String> {
        workspace.files_changed_since(since).unwrap().into_iter().map(|change| change.path).collect()
    };
    assert_eq!(paths(Timestamp(0)), ["a.py"]);
    assert_eq!(paths(Timestamp(u64::MAX)), [""; 0]);
}
