//! The shim's one session: when it is replaced by another, and the notice about that.

use crate::client::{Client, block, structured};
use crate::fake_supervisor::{FakeState, FakeSupervisor, workspace_replaced};
use crate::runs::failed;
use proctor_proto::v1::Queued;
use proctor_proto::v1::run_event::Event;
use serde_json::json;
use tonic::Status;

#[tokio::test]
async fn reopens_a_closed_session_and_keeps_an_open_one() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    client.call("run_tests", json!({})).await;
    client.call("run_tests", json!({})).await;
    assert_eq!(fake.state().created.len(), 1);
    fake.state().sessions.clear();
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false));
    assert_eq!(fake.state().created.len(), 2);
    let ids: Vec<String> = fake.state().created.iter().map(|request| request.client_request_id.clone()).collect();
    assert_ne!(ids[0], ids[1]);
    assert!(block(&result, 0).contains("a new one was opened, which knows nothing of them."), "{result:?}");

    fake.state().refuse = Some(Status::permission_denied("network: host is not allowed"));
    let text = client.refused("run_tests", json!({})).await;
    assert!(text.starts_with("run_tests: network: host is not allowed"), "{text}");
    assert_eq!(fake.state().created.len(), 2, "the session was still open");
}

#[tokio::test]
async fn a_restart_of_the_supervisor_goes_unnoticed() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.crash_and_restart();
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert_eq!(fake.state().created.len(), 2);
}

#[tokio::test]
async fn opens_a_session_on_the_directory_that_replaced_the_workspace() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.state().replaced = vec!["session-1".into()];
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert!(
        block(&result, 0).contains(
            "\nnote: Another directory has taken the workspace's place: a new session was opened, \
                                         which knows nothing of earlier runs."
        ),
        "{result:?}"
    );
    assert_eq!(fake.state().run_tests[1].session_id, "session-2");
    assert_eq!(fake.state().closed, ["session-1"], "the old session must not count against the quota until it expires");
    let result = client.call("run_tests", json!({})).await;
    assert!(!block(&result, 0).contains("Another directory"), "the notice must appear once: {result:?}");
    assert_eq!(fake.state().created.len(), 2);
}

#[tokio::test]
async fn a_run_queued_while_the_workspace_was_replaced_starts_in_a_new_session() {
    let mut state = failed();
    state.events = vec![Event::Queued(Queued { position: 1, ..Queued::default() })];
    let fake = FakeSupervisor::start(FakeState { stream_error: Some((1, workspace_replaced())), ..state });
    let client = Client::connected_to(&fake).await;
    client.call("last_test_failures", json!({})).await;
    let result = client.call("run_tests", json!({})).await;
    assert_eq!(result.is_error, Some(false), "{result:?}");
    assert_eq!(fake.state().run_tests.len(), 2);
}

#[tokio::test]
async fn looks_for_a_file_in_the_directory_that_replaced_the_workspace() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    let not_found = || Some(Status::invalid_argument("files: \"a.go\" not found in the workspace"));
    let files = || json!({"files": ["a.go"]});
    client.call("run_tests", json!({})).await;
    fake.state().refuse = not_found();
    assert_eq!(client.refused("run_tests", files()).await, "files: \"a.go\" not found in the workspace");
    assert_eq!(fake.state().created.len(), 1, "the directory is the same");
    // Created beside the old directory, so that the inode differs.
    let other = tempfile::tempdir().unwrap();
    std::fs::rename(other.path(), client.root()).unwrap();
    fake.state().refuse = not_found();
    assert_eq!(client.call("run_tests", files()).await.is_error, Some(false));
    assert_eq!(fake.state().run_tests[1].session_id, "session-2");
}

#[tokio::test]
async fn a_missing_workspace_is_reported_and_results_are_kept() {
    let fake = FakeSupervisor::start(failed());
    let client = Client::connected_to(&fake).await;
    client.call("run_tests", json!({})).await;
    fake.state().replaced = vec!["session-1".into()];
    fake.state().workspace_gone = true;
    for _ in 0..2 {
        let text = client.refused("run_tests", json!({})).await;
        assert!(text.starts_with("run_tests: the workspace's directory was moved or removed, and "), "{text}");
    }
    let result = client.call("get_run", json!({})).await;
    assert_eq!(structured(&client, "get_run", &result).await["outcome"], "failed");
    assert!(fake.state().closed.is_empty());

    fake.state().workspace_gone = false;
    assert_eq!(client.call("run_tests", json!({})).await.is_error, Some(false), "the workspace was put back");
}
