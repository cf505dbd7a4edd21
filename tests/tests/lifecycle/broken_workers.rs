//! A host on which workers fail to start: runs are refused, health and `GetHost` say so, and a working worker ends it.

use proctor_proto::{reason, v1};
use proctor_tests::grpc_client::Client;
use proctor_tests::process::{WAIT_MAX, program};
use proctor_tests::supervisor_process::{SupervisorProcess, SupervisorSettings};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

async fn wait_for_health(client: &Client, service: &str, wanted: ServingStatus) {
    let until = Instant::now() + WAIT_MAX;
    let request = || HealthCheckRequest { service: service.to_owned() };
    while HealthClient::new(client.channel.clone()).check(request()).await.unwrap().into_inner().status() != wanted {
        assert!(Instant::now() < until, "{service:?} is never {wanted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Polls `GetHost` until its check of workers has this status. The supervisor caches the answer for some seconds.
async fn wait_for_workers_check(operator: &Client, wanted: v1::CheckStatus) -> v1::Check {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let host = operator.host.clone().get_host(v1::GetHostRequest {}).await.unwrap().into_inner();
        let row = host.checks.into_iter().find(|check| check.name == "workers").unwrap();
        if row.status() == wanted {
            return row;
        }
        assert!(Instant::now() < until, "{row:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn refuses_runs_until_a_worker_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let (worker, broken) = (dir.path().join("worker"), dir.path().join("broken"));
    let script = format!(
        "#!/bin/sh\n[ -e {broken} ] && exit 9\nexec {real} \"$@\"\n",
        broken = broken.display(),
        real = program("proctor-worker").display()
    );
    fs::write(&worker, script).unwrap();
    fs::set_permissions(&worker, Permissions::from_mode(0o755)).unwrap();
    let supervisor = SupervisorProcess::with_settings(&SupervisorSettings {
        env: vec![("PROCTOR_WORKER".to_owned(), worker.into())],
        ..SupervisorSettings::default()
    });
    let (client, operator) = (supervisor.client("alpha").await, supervisor.client("operator").await);
    let session = client.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let start = || client.start(v1::RunTestsRequest { session_id: session.clone(), ..Default::default() });

    fs::write(&broken, "").unwrap();
    let until = Instant::now() + WAIT_MAX;
    let refused: Status = loop {
        // The first runs fail by themselves: they end without a report, or get an error.
        let status = match start().await {
            Ok(run) => run.try_read_to_end().await.err().unwrap(),
            Err(status) => status,
        };
        if status.code() == Code::Unavailable {
            break status;
        }
        assert!(status.code() == Code::Internal && Instant::now() < until, "{status:?}");
    };
    assert_eq!(refused.get_details_error_info().unwrap().reason, reason::HOST_FAILED);
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());
    assert!(refused.message().contains("this host runs nothing until a worker starts"), "{refused:?}");
    for service in ["", "proctor.v1.Runs", "proctor.v1.Sessions"] {
        wait_for_health(&client, service, ServingStatus::NotServing).await;
    }
    let row = wait_for_workers_check(&operator, v1::CheckStatus::Missing).await;
    assert!(row.detail.contains("runs are refused") && !row.remedy.is_empty(), "{row:?}");

    fs::remove_file(&broken).unwrap();
    for service in ["", "proctor.v1.Runs", "proctor.v1.Sessions"] {
        wait_for_health(&client, service, ServingStatus::Serving).await;
    }
    assert_eq!(start().await.unwrap().read_to_end().await.report().outcome(), v1::Outcome::Passed);
    wait_for_workers_check(&operator, v1::CheckStatus::Usable).await;
}
