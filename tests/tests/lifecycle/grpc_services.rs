//! What every gRPC client meets: health, reflection, host calls for operators, and calls of later versions.

use proctor_proto::v1;
use proctor_tests::process::{command, ensure_installed, source_root, tools, wait_for_exit};
use proctor_tests::supervisor_process::SupervisorProcess;
use std::process::Stdio;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_types::StatusExt;

const SERVICES: [&str; 4] = ["proctor.v1.Host", "proctor.v1.Results", "proctor.v1.Runs", "proctor.v1.Sessions"];

#[tokio::test]
async fn reports_health_of_the_server_and_each_service() {
    let supervisor = SupervisorProcess::start();
    for client in [supervisor.local_client().await, supervisor.client("nobody").await] {
        let mut health = HealthClient::new(client.channel.clone());
        for service in SERVICES.into_iter().chain([""]) {
            let request = HealthCheckRequest { service: service.to_owned() };
            let status = health.check(request).await.unwrap().into_inner().status();
            assert_eq!(status, ServingStatus::Serving, "{service:?}");
        }
        let unknown = HealthCheckRequest { service: "proctor.v1.Nothing".to_owned() };
        assert_eq!(health.check(unknown).await.unwrap_err().code(), Code::NotFound);
    }
}

#[tokio::test]
async fn reflection_lists_and_describes_every_service() {
    let supervisor = SupervisorProcess::start();
    let channel = supervisor.client("alpha").await.channel;
    let ask = |message| {
        let mut reflection = ServerReflectionClient::new(channel.clone());
        async move {
            let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
            let mut answers =
                reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
            answers.next().await.unwrap().unwrap().message_response.unwrap()
        }
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await else {
        panic!("no list")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in SERVICES.into_iter().chain(["grpc.health.v1.Health"]) {
        assert!(names.contains(&service), "{service} in {names:?}");
        let described = ask(MessageRequest::FileContainingSymbol(service.to_owned())).await;
        assert!(matches!(described, MessageResponse::FileDescriptorResponse(_)), "{service}: {described:?}");
    }
}

/// The older reflection API, the only one that many clients know.
#[tokio::test]
async fn v1alpha_reflection_lists_every_service() {
    use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1alpha::server_reflection_response::MessageResponse;
    use tonic_reflection::pb::v1alpha::{ServerReflectionRequest, ServerReflectionResponse};
    let supervisor = SupervisorProcess::start();
    let mut reflection = ServerReflectionClient::new(supervisor.client("alpha").await.channel);
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = ServerReflectionRequest { host: String::new(), message_request };
    let mut answers = reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    let ServerReflectionResponse { message_response: Some(MessageResponse::ListServicesResponse(list)), .. } =
        answers.next().await.unwrap().unwrap()
    else {
        panic!("no list")
    };
    for service in SERVICES {
        assert!(list.service.iter().any(|listed| listed.name == service), "{service} in {list:?}");
    }
}

/// The C core sends the socket's path as `:authority`.
#[tokio::test]
async fn accepts_the_grpc_c_core_over_the_unix_socket() {
    ensure_installed("grpc");
    let supervisor = SupervisorProcess::start();
    let mut python = command(&tools().join("grpc/bin/python"));
    python.arg(source_root().join("tests/tests/python_clients/grpc_client.py")).arg(supervisor.socket());
    python.args(["/grpc.health.v1.Health/Check", "/proctor.v1.Sessions/ListSessions", "/proctor.v1.Host/GetHost"]);
    python.args(["/proctor.v1.Sessions/Nothing", "/proctor.v1.Nothing/Nothing"]);
    let output = wait_for_exit(python.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let once = ["OK", "OK", "PERMISSION_DENIED", "UNIMPLEMENTED", "UNIMPLEMENTED"];
    assert_eq!(output.json(), serde_json::json!([once, once].concat()), "{output:?}");
}

/// Errors of the transport and of health and reflection carry `ErrorInfo` as well.
#[tokio::test]
async fn every_error_carries_error_info() {
    let supervisor = SupervisorProcess::start();
    let channel = supervisor.client("alpha").await.channel;
    for (method, code) in [
        ("/proctor.v1.Nothing/Nothing", Code::Unimplemented),
        ("/proctor.v1.Sessions/Nothing", Code::Unauthenticated),
        ("/grpc.health.v1.Health/Nothing", Code::Unimplemented),
    ] {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckRequest>::default();
        let request = tonic::Request::new(HealthCheckRequest::default());
        let status = client.unary(request, method.parse().unwrap(), codec).await.unwrap_err();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.domain.as_str()), (code, "proctor"), "{method}");
    }
    let unknown = HealthCheckRequest { service: "proctor.v1.Nothing".to_owned() };
    let status = HealthClient::new(channel).check(unknown).await.unwrap_err();
    assert_eq!(status.get_details_error_info().unwrap().reason, "NOT_FOUND");
}

#[tokio::test]
async fn host_calls_are_for_operators_only() {
    let supervisor = SupervisorProcess::start();
    let tenant = supervisor.client("alpha").await;
    let session = tenant.open_session(&supervisor.workspace("alpha", "shop", "go/pass")).await;
    let operator = supervisor.client("operator").await;
    let host = operator.host.clone().get_host(v1::GetHostRequest {}).await.unwrap().into_inner();
    assert_eq!((host.sessions, host.runs_running, host.runs_queued), (1, 0, 0));
    assert!(host.checks.iter().any(|check| check.name == "go" && check.status() == v1::CheckStatus::Usable));
    for denied in [
        tenant.host.clone().get_host(v1::GetHostRequest {}).await.map(drop),
        supervisor.local_client().await.host.get_host(v1::GetHostRequest {}).await.map(drop),
        tenant.host.clone().list_tenants(v1::ListTenantsRequest {}).await.map(drop),
        tenant.host.clone().list_runs(v1::ListRunsRequest::default()).await.map(drop),
        tenant.host.clone().drain(v1::DrainRequest { deadline_ms: Some(0) }).await.map(drop),
    ] {
        let denied = denied.unwrap_err();
        assert_eq!((denied.code(), denied.message()), (Code::PermissionDenied, "for operators only"));
    }
    let request = v1::GetSessionRequest { session_id: session };
    let no_tenant = operator.sessions.clone().get_session(request).await.unwrap_err();
    assert_eq!(no_tenant.code(), Code::PermissionDenied, "an operator is not a tenant");
}
