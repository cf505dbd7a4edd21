//! What becomes of a session whose workspace goes away, while a run goes on and after.

use super::Scene;
use proctor_proto::reason;
use std::fs;
use tonic::Code;
use tonic_types::StatusExt;

#[tokio::test]
async fn a_workspace_that_vanishes_during_a_run_is_told_and_the_next_run_does_not_start() {
    let scene = Scene::new().await;
    let mut run = scene.client.start(scene.request()).await.unwrap();
    run.until_running("TestWaits").await;
    let elsewhere = scene.waiting.workspace.with_file_name("elsewhere");
    fs::rename(&scene.waiting.workspace, &elsewhere).unwrap();
    fs::write(elsewhere.join("marks/gate"), "").unwrap();
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
