//! What becomes of a session whose workspace goes away, while a run goes on and after, and what a workspace's own links show.

use super::Scene;
use proctor_proto::{reason, v1};
use proctor_tests::supervisor_process::{SupervisorProcess, first_uid};
use proctor_tests::test_workspace::give;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tonic::Code;
use tonic_types::StatusExt;

#[tokio::test]
async fn a_workspace_that_vanishes_during_a_run_is_told_and_the_next_run_does_not_start() {
    let scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    run.wait_for_test("TestWaits").await;
    let elsewhere = scene.waiting.workspace.with_file_name("elsewhere");
    fs::rename(&scene.waiting.workspace, &elsewhere).unwrap();
    fs::write(elsewhere.join(".cache/gate"), "").unwrap();
    let followed = run.to_end().await;
    let notes = &followed.report().evidence.as_ref().unwrap().notes;
    let gone = "the workspace was moved, replaced or removed during the run";
    assert!(notes.iter().any(|note| note == gone), "{notes:?}");

    for replaced in [false, true] {
        if replaced {
            fs::create_dir(&scene.waiting.workspace).unwrap();
        }
        let status = match scene.client.start(scene.request()).await {
            Ok(_) => panic!("it began"),
            Err(status) => status,
        };
        let reason = status.get_details_error_info().unwrap().reason;
        assert_eq!((status.code(), reason.as_str()), (Code::FailedPrecondition, reason::WORKSPACE_REPLACED));
        assert_eq!(status.message(), "the workspace was moved, replaced or removed: open a new session");
    }
}

/// A Python installation below `dir/around`, which is open to those of this mode.
fn installation(dir: &Path, around: &str, mode: u32) -> std::path::PathBuf {
    let (around, conda) = (dir.join(around), dir.join(around).join("conda"));
    fs::create_dir_all(conda.join("bin")).unwrap();
    fs::create_dir_all(conda.join("lib/python3.13")).unwrap();
    fs::write(conda.join("bin/python3"), "").unwrap();
    for (path, mode) in [(conda.join("bin/python3"), 0o755), (around, mode)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    conda
}

#[tokio::test]
async fn a_link_in_a_workspace_shows_no_directory_that_its_user_could_not_read() {
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
    give(&workspace, first_uid("alpha"));
    let session_id = client.open(&workspace).await;
    // An ordinary user's runs are its own, and so is the directory that nobody else may look into.
    let is_its_own = !nix::unistd::geteuid().is_root();
    for (conda, is_seen) in [(open, true), (closed, is_its_own)] {
        let command = ["test", "-e", conda.to_str().unwrap()].map(str::to_owned).into();
        let request = v1::RunTestsRequest { session_id: session_id.clone(), command, ..Default::default() };
        let followed = client.start(request).await.unwrap().to_end().await;
        let expected = if is_seen { v1::Outcome::Passed } else { v1::Outcome::Failed };
        assert_eq!(followed.report().outcome(), expected, "{}", conda.display());
    }
}

#[tokio::test]
async fn a_run_that_may_have_missed_tests_is_not_green_and_says_where() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.empty_workspace("alpha", "deep");
    let deep = format!("deep/{}", "d/".repeat(63));
    fs::create_dir_all(workspace.join(&deep)).unwrap();
    fs::create_dir(workspace.join("near")).unwrap();
    let case = "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertTrue(";
    fs::write(workspace.join("near/test_near.py"), format!("{case}True)\n")).unwrap();
    fs::write(workspace.join(&deep).join("test_deep.py"), format!("{case}False)\n")).unwrap();
    give(&workspace, first_uid("alpha"));
    let session_id = client.open(&workspace).await;
    for (files, expected) in [(vec![], v1::Outcome::CollectionFailed), (vec!["near".to_owned()], v1::Outcome::Passed)] {
        let request = v1::RunTestsRequest { session_id: session_id.clone(), files, ..Default::default() };
        let followed = client.start(request).await.unwrap().to_end().await;
        let report = followed.report();
        assert_eq!(report.outcome(), expected, "{report:?}");
        let missed: Vec<&str> = report.collectors.iter().map(|collector| collector.nodeid.as_str()).collect();
        let named = [deep.trim_end_matches('/')];
        assert_eq!(missed, if expected == v1::Outcome::Passed { &[][..] } else { &named[..] });
    }
}
