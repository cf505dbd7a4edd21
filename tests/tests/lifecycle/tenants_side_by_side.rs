//! Two tenants of one supervisor side by side. Must not know what they may not do to each other; that is `borders`.

use proctor_proto::v1;
use proctor_tests::supervisor_process::SupervisorProcess;

#[tokio::test]
async fn the_same_workspace_in_two_sessions_shares_nothing() {
    let supervisor = SupervisorProcess::start();
    let client = supervisor.client("alpha").await;
    let workspace = supervisor.workspace("alpha", "shop", "go/fail");
    let (one, two) = (client.open_separate_session(&workspace).await, client.open_separate_session(&workspace).await);
    client.run(&one).await;
    assert_eq!(client.failures(&one).await.total, 4);
    assert!(!client.failures(&two).await.has_run);
    let place = v1::TestsCoveringRequest { session_id: two, file: "greet.go".to_owned(), line: None, limit: 0 };
    assert!(!client.results.clone().tests_covering(place).await.unwrap().into_inner().has_coverage);
}

#[tokio::test]
async fn two_tenants_run_side_by_side() {
    let supervisor = SupervisorProcess::start();
    let (alpha, beta) = (supervisor.client("alpha").await, supervisor.client("beta").await);
    let first = alpha.open(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let second = beta.open(&supervisor.workspace("beta", "shop", "go/fail")).await;
    let (first, second) = tokio::join!(alpha.run(&first), beta.run(&second));
    assert_eq!(first.report().outcome(), v1::Outcome::Passed);
    assert_eq!(second.report().outcome(), v1::Outcome::Failed);
    assert_ne!(first.run_id, second.run_id);
}
