//! `proctor admin`: what an operator asks of a running supervisor, over its unix socket. Must not know how it is answered.

use super::arguments::{Admin, AdminCommand, Asked, Drain};
use super::{Failure, local, token};
use crate::units::Duration;
use proctor_proto::client::connect_unix;
use proctor_proto::v1::host_client::HostClient;
use proctor_proto::v1::{DrainRequest, ListRunsRequest, ListTenantsRequest, RunState};
use tonic::Status;
use tonic::transport::Channel;

/// Asks, and prints the answer.
pub(super) fn admin(arguments: &Admin) -> Result<u8, Failure> {
    match &arguments.command {
        AdminCommand::Token => token::token(),
        AdminCommand::Tenants(asked) => local::runtime()?.block_on(tenants(asked)),
        AdminCommand::Runs(asked) => local::runtime()?.block_on(runs(asked)),
        AdminCommand::Drain(asked) => local::runtime()?.block_on(drain(asked)),
    }
}

async fn host(asked: &Asked) -> Result<HostClient<Channel>, Failure> {
    let channel = connect_unix(asked.socket.clone()).await;
    let nobody = |_| Failure::host(format!("{}: no supervisor answers there", asked.socket.display()));
    Ok(HostClient::new(channel.map_err(nobody)?))
}

fn refused(status: Status) -> Failure {
    Failure::host(status.message().to_owned())
}

async fn tenants(asked: &Asked) -> Result<u8, Failure> {
    let answer = host(asked).await?.list_tenants(ListTenantsRequest {}).await.map_err(refused)?;
    anstream::println!("{:>9}{:>9}{:>9}  tenant", "sessions", "running", "queued");
    for tenant in answer.into_inner().tenants {
        let (sessions, running, queued) = (tenant.sessions, tenant.runs_running, tenant.runs_queued);
        anstream::println!("{sessions:>9}{running:>9}{queued:>9}  {}", tenant.tenant_id);
    }
    Ok(0)
}

async fn runs(asked: &Asked) -> Result<u8, Failure> {
    let (mut host, mut page_token) = (host(asked).await?, String::new());
    anstream::println!("{:>9}  {:<8}{:<36}tenant", "age", "state", "run");
    loop {
        let request = ListRunsRequest { page_size: 0, page_token };
        let page = host.list_runs(request).await.map_err(refused)?.into_inner();
        for run in page.runs {
            let state = if run.state() == RunState::Running { "running" } else { "queued" };
            let age = format!("{}s", run.age_ms / 1_000);
            anstream::println!("{age:>9}  {state:<8}{:<36}{}", run.run_id, run.tenant_id);
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(0);
        }
    }
}

async fn drain(Drain { asked, deadline }: &Drain) -> Result<u8, Failure> {
    let request = DrainRequest { deadline_ms: deadline.map(|Duration { ms }| ms) };
    let answer = host(asked).await?.drain(request).await.map_err(refused)?.into_inner();
    anstream::println!("drained: {} runs finished, {} cancelled", answer.runs_finished, answer.runs_cancelled);
    Ok(0)
}
