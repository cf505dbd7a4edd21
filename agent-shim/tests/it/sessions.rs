//! The shim's one session: when another one takes its place, and what is said of it.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor, replaced};
use crate::runs::failed;
use proctor_proto::v1::Queued;
use proctor_proto::v1::run_event::Event;
use serde_json::json;
use tonic::Status;

#[tokio::test]
async fn a_vanished_session_is_opened_again_and_a_good_one_is_kept() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::of(&fake).await;
    client.call("run_tests", json!({})).await;
    client.call("run_tests", json!({})).await;
    assert_eq!(fake.state().created.len(), 1);
    fake.state().sessions.clear();
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false));
    assert_eq!(fake.state().created.len(), 2);
    let ids: Vec<String> = fake.state().created.iter().map(|made| made.client_request_id.clone()).collect();
    assert_ne!(ids[0], ids[1]);
    assert!(block(&result, 1).ends_with("a new one was opened, which knows nothing of earlier runs."), "{result:?}");

    fake.state().refuse = Some(Status::permission_denied("network: host is not allowed"));
    let text = client.refused("run_tests", json!({})).await;
    assert!(text.starts_with("run_tests: network: host is not allowed"), "{text}");
    assert_eq!(fake.state().created.len(), 2, "the session was well");
}

#[tokio::test]
async fn a_supervisor_that_was_restarted_goes_unnoticed() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::of(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.crash_and_restart();
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert_eq!(fake.state().created.len(), 2);
}

#[tokio::test]
async fn on_another_directory_in_the_workspaces_place_a_session_is_opened() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::of(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.state().replaced = vec!["session-1".into()];
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert!(
        block(&result, 1).ends_with(
            "\nAnother directory has taken the workspace's place: a new session was opened, \
                                         which knows nothing of earlier runs."
        ),
        "{result:?}"
    );
    assert_eq!(fake.state().run_tests[1].session_id, "session-2");
    assert_eq!(fake.state().closed, ["session-1"], "it does not count against the tenant's quota until it expires");
    let result = client.call("run_tests", json!({})).await;
    assert!(!block(&result, 1).contains("Another directory"), "it is said once: {result:?}");
    assert_eq!(fake.state().created.len(), 2);
}

#[tokio::test]
async fn a_run_that_had_to_wait_while_the_workspace_was_replaced_begins_in_a_new_session() {
    let mut state = failed();
    state.events = vec![Event::Queued(Queued { position: 1, ..Queued::default() })];
    let fake = FakeSupervisor::start(FakeState { breaks: Some((1, replaced())), ..state });
    let client = Client::of(&fake).await;
    client.call("last_test_failures", json!({})).await;
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert_eq!(fake.state().run_tests.len(), 2);
}

#[tokio::test]
async fn a_file_is_looked_for_in_the_directory_that_is_there_now() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::of(&fake).await;
    let not_found = || Some(Status::invalid_argument("files: \"a.go\" not found in the workspace"));
    let files = || json!({"files": ["a.go"]});
    client.call("run_tests", json!({})).await;
    fake.state().refuse = not_found();
    assert_eq!(client.refused("run_tests", files()).await, "files: \"a.go\" not found in the workspace");
    assert_eq!(fake.state().created.len(), 1, "the directory is the same");
    // Made beside it, so that it is not the same inode again.
    let other = tempfile::tempdir().unwrap();
    std::fs::rename(other.path(), client.root()).unwrap();
    fake.state().refuse = not_found();
    assert_eq!(client.call("run_tests", files()).await.is_error, Some(false));
    assert_eq!(fake.state().run_tests[1].session_id, "session-2");
}

#[tokio::test]
async fn while_the_workspace_is_gone_that_is_said_and_what_is_known_stays() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::of(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.state().replaced = vec!["session-1".into()];
    fake.state().gone = true;
    for _ in 0..2 {
        let text = client.refused("run_tests", json!({})).await;
        assert!(text.starts_with("run_tests: the workspace's directory was moved or removed, and "), "{text}");
    }
    let result = client.call("get_run", json!({})).await;
    assert_eq!(structured(&client, "get_run", &result).await["report"]["outcome"], "failed");
    assert!(fake.state().closed.is_empty());

    fake.state().gone = false;
    assert_eq!(client.call("run_tests", json!({})).await.is_error, Some(false), "it was put back");
}
