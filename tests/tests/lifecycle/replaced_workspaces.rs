//! Sessions whose workspace is moved or replaced, symlinks that leave a workspace, and trees that are too deep.

use super::PausedSession;
use proctor_proto::{reason, v1};
use proctor_tests::supervisor_process::{SupervisorProcess, first_uid};
use proctor_tests::test_workspace::chown_tree;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tonic::Code;
use tonic_types::StatusExt;

#[tokio::test]
async fn notes_a_workspace_moved_during_a_run_and_refuses_the_next() {
    let setup = PausedSession::new().await;
    let mut run = setup.client.start(setup.request()).await.unwrap();
    run.wait_for_test("TestWaits").await;
    let elsewhere = setup.paused.workspace.with_file_name("elsewhere");
    fs::rename(&setup.paused.workspace, &elsewhere).unwrap();
    fs::write(elsewhere.join(".cache/gate"), "").unwrap();
    let followed = run.read_to_end().await;
    let notes = &followed.report().evidence.as_ref().unwrap().notes;
    let gone = "the workspace was moved, replaced or removed during the run";
    assert!(notes.iter().any(|note| note == gone), "{notes:?}");

    for replaced in [false, true] {
        if replaced {
            fs::create_dir(&setup.paused.workspace).unwrap();
        }
        let status = match setup.client.start(setup.request()).await {
            Ok(_) => panic!("the run started"),
            Err(status) => status,
        };
        let reason = status.get_details_error_info().unwrap().reason;
        assert_eq!((status.code(), reason.as_str()), (Code::FailedPrecondition, reason::WORKSPACE_REPLACED));
        assert_eq!(status.message(), "the workspace was moved, replaced or removed: open a new session");
    }
}

/// Makes a Python installation in `dir/parent/conda`, where `parent` has this mode.
fn installation(dir: &Path, parent: &str, mode: u32) -> std::path::PathBuf {
    let (parent, conda) = (dir.join(parent), dir.join(parent).join("conda"));
    fs::create_dir_all(conda.join("bin")).unwrap();
    fs::create_dir_all(conda.join("lib/python3.13")).unwrap();
    fs::write(conda.join("bin/python3"), "").unwrap();
    for (path, mode) in [(conda.join("bin/python3"), 0o755), (parent, mode)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    conda
}

#[tokio::test]
async fn symlink_exposes_only_directories_its_user_can_read() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "linked");
    let host = tempfile::tempdir().unwrap();
    fs::set_permissions(host.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (open, closed) = (installation(host.path(), "open", 0o755), installation(host.path(), "closed", 0o700));
    for (environment, conda) in [(".venv", &closed), ("venv", &open)] {
        fs::create_dir_all(workspace.join(environment).join("bin")).unwrap();
        symlink(conda.join("bin/python3"), workspace.join(environment).join("bin/python")).unwrap();
    }
    chown_tree(&workspace, first_uid("alpha"));
    let session_id = client.open_session(&workspace).await;
    // Runs of an ordinary user have that user's id, which owns the closed directory.
    let owns_closed = !nix::unistd::geteuid().is_root();
    for (conda, is_visible) in [(open, true), (closed, owns_closed)] {
        let command = ["test", "-e", conda.to_str().unwrap()].map(str::to_owned).into();
        let request = v1::RunTestsRequest { session_id: session_id.clone(), command, ..Default::default() };
        let followed = client.start(request).await.unwrap().read_to_end().await;
        let expected = if is_visible { v1::Outcome::Passed } else { v1::Outcome::Failed };
        assert_eq!(followed.report().outcome(), expected, "{}", conda.display());
    }
}

#[tokio::test]
async fn reports_collection_failed_below_the_depth_limit() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "deep");
    let deep = format!("deep/{}", "d/".repeat(63));
    fs::create_dir_all(workspace.join(&deep)).unwrap();
    fs::create_dir(workspace.join("near")).unwrap();
    let case = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(";
    fs::write(workspace.join("near/test_near.py"), format!("{case}True)\n")).unwrap();
    fs::write(workspace.join(&deep).join("test_deep.py"), format!("{case}False)\n")).unwrap();
    chown_tree(&workspace, first_uid("alpha"));
    let session_id = client.open_session(&workspace).await;
    for (files, expected) in [(vec![], v1::Outcome::CollectionFailed), (vec!["near".to_owned()], v1::Outcome::Passed)] {
        let request = v1::RunTestsRequest { session_id: session_id.clone(), files, ..Default::default() };
        let followed = client.start(request).await.unwrap().read_to_end().await;
        let report = followed.report();
        assert_eq!(report.outcome(), expected, "{report:?}");
        let missed: Vec<&str> = report.collectors.iter().map(|collector| collector.nodeid.as_str()).collect();
        let skipped = [deep.trim_end_matches('/')];
        assert_eq!(missed, if expected == v1::Outcome::Passed { &[][..] } else { &skipped[..] });
    }
}
