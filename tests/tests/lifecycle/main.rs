//! How runs, sessions and supervisors behave over time, at the real programs: attaching, queueing, following, cancelling,
//! losing clients, telling tenants apart. Must not know what the fixtures come to; that is the table's.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

mod admin_commands;
mod broken_workers;
mod build_caches;
mod cancelling_runs;
mod grpc_services;
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

/// A supervisor, a tenant's client, and its session on a workspace whose test waits.
struct Scene {
    supervisor: SupervisorProcess,
    client: Client,
    session: String,
    waiting: PausedTest,
}

impl Scene {
    async fn new() -> Scene {
        Scene::with(&SupervisorSettings::default()).await
    }

    async fn with(settings: &SupervisorSettings) -> Scene {
        let supervisor = SupervisorProcess::with(settings);
        let waiting = supervisor.paused_test("alpha", "waiting");
        let client = supervisor.client("alpha").await;
        let session = client.open(&waiting.workspace).await;
        Scene { supervisor, client, session, waiting }
    }

    /// A request for all tests, with everything left to the defaults.
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
