//! Runs, sessions and supervisors over time, at the real programs: attaching, queueing, watching, cancelling, lost clients,
//! and separation of tenants.

#![expect(clippy::unwrap_used, reason = "helper functions of tests, which clippy treats as ordinary code")]

mod admin_commands;
mod broken_workers;
mod build_caches;
mod cancelling_runs;
mod exact_names;
mod grpc_services;
mod live_view;
mod project_extras;
mod queueing;
mod replaced_workspaces;
mod rerunning_failures;
mod sessions;
mod tenant_fairness;
mod tenants_side_by_side;
mod test_output;
mod watching_runs;

use proctor_proto::v1::{Outcome, RunTestsRequest, TestId};
use proctor_tests::grpc_client::{Client, CompletedRun};
use proctor_tests::paused_test::PausedTest;
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};

/// A supervisor, a tenant's client, and its session on a workspace with a pausing test.
struct PausedSession {
    supervisor: SupervisorProcess,
    client: Client,
    session: String,
    paused: PausedTest,
}

impl PausedSession {
    async fn new() -> PausedSession {
        PausedSession::with(&SupervisorSettings::default()).await
    }

    async fn with(settings: &SupervisorSettings) -> PausedSession {
        let supervisor = SupervisorProcess::with_settings(settings);
        let paused = supervisor.paused_test("alpha", "waiting");
        let client = supervisor.client("alpha").await;
        let session = client.open_session(&paused.workspace).await;
        PausedSession { supervisor, client, session, paused }
    }

    /// A request for all tests with defaults for everything else.
    fn request(&self) -> RunTestsRequest {
        RunTestsRequest { session_id: self.session.clone(), ..RunTestsRequest::default() }
    }
}

fn names(tests: &[TestId]) -> Vec<String> {
    tests.iter().map(|test| format!("{}/{}", test.package, test.name)).collect()
}

fn assert_passed(followed: &CompletedRun, tests: usize) {
    let report = followed.report();
    assert_eq!((report.outcome(), report.tests.len()), (Outcome::Passed, tests), "{report:?}");
}
