//! Independent sessions and tenants on one supervisor at the same time. `tenant_isolation` tests hostile access.

use proctor_proto::v1;
use proctor_tests::supervisor_process::SupervisorProcess;

#[tokio::test]
async fn two_sessions_on_one_workspace_share_nothing() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let (one, two) = (client.open_separate_session(&workspace).await, client.open_separate_session(&workspace).await);
    client.run(&one).await;
    assert_eq!(client.failures(&one).await.total, 4);
    assert!(!client.failures(&two).await.has_run);
    let request = v1::TestsCoveringRequest { session_id: two, file: "greet.go".to_owned(), ..Default::default() };
    assert!(!client.results.clone().tests_covering(request).await.unwrap().into_inner().has_coverage);
}

#[tokio::test]
async fn two_tenants_run_side_by_side() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let first = alpha.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let second = beta.open_session(&supervisor.workspace("beta", "shop", "go/fail")).await;
    let (first, second) = tokio::join!(alpha.run(&first), beta.run(&second));
    assert_eq!(first.report().outcome(), v1::Outcome::Passed);
    assert_eq!(second.report().outcome(), v1::Outcome::Failed);
    assert_ne!(first.run_id, second.run_id);
}
