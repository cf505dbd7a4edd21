//! `proctor admin`: what an operator asks of a running supervisor, over its unix socket. Must not know how it is answered.

use super::arguments::{Admin, AdminCommand, Asked, Drain};
use super::{Failure, in_process, print, token};
use proctor_proto::client::connect_unix;
use proctor_proto::printable::line;
use proctor_proto::v1::host_client::HostClient;
use proctor_proto::v1::{DrainRequest, ListAllSessionsRequest, ListRunsRequest, ListTenantsRequest, RunState};
use std::error::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Asks, and prints the answer.
pub(super) fn admin(arguments: &Admin) -> Result<u8, Failure> {
    match &arguments.command {
        AdminCommand::Token => token::token(),
        AdminCommand::Tenants(asked) => in_process::runtime()?.block_on(tenants(asked)),
        AdminCommand::Sessions(asked) => in_process::runtime()?.block_on(sessions(asked)),
        AdminCommand::Runs(asked) => in_process::runtime()?.block_on(runs(asked)),
        AdminCommand::Drain(asked) => in_process::runtime()?.block_on(drain(asked)),
    }
}

async fn host(asked: &Asked) -> Result<HostClient<Channel>, Failure> {
    let channel = connect_unix(asked.socket.clone()).await;
    let nobody = |error: tonic::transport::Error| {
        // The innermost cause is the kernel's: "No such file or directory".
        let causes = std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| (*error).source());
        let cause = causes.last().map(ToString::to_string).unwrap_or_default();
        Failure::host(format!(
            "{}: no supervisor answers there: {cause}\n\
             Start one with `proctor serve --config FILE`, or name the socket of another with --socket: `unix` below [listen] in \
             its host file. Its directory and its mode (`unix_mode`) must let this user in.",
            asked.socket.display()
        ))
    };
    Ok(HostClient::new(channel.map_err(nobody)?))
}

fn refused(status: Status) -> Failure {
    let message = status.message();
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => Failure::host(format!(
            "the supervisor refuses: {message}\n\
             Its host file lists the user ids of its operators as `uids` below [operators], and this user's is not among them."
        )),
        _ => Failure::host(message),
    }
}

async fn tenants(asked: &Asked) -> Result<u8, Failure> {
    let answer = host(asked).await?.list_tenants(ListTenantsRequest {}).await.map_err(refused)?;
    print::answer(&format!("{:>9}{:>9}{:>9}  tenant", "sessions", "running", "queued"))?;
    for tenant in answer.into_inner().tenants {
        let (sessions, running, queued) = (tenant.sessions, tenant.runs_running, tenant.runs_queued);
        print::answer(&format!("{sessions:>9}{running:>9}{queued:>9}  {}", line(&tenant.tenant_id)))?;
    }
    Ok(0)
}

async fn sessions(asked: &Asked) -> Result<u8, Failure> {
    let (mut host, mut page_token, mut head) = (host(asked).await?, String::new(), true);
    loop {
        let request = ListAllSessionsRequest { page_size: 0, page_token };
        let page = host.list_all_sessions(request).await.map_err(refused)?.into_inner();
        if std::mem::take(&mut head) {
            print::answer(&format!(
                "{:>9}{:>9}{:>9}{:>9}  {:<34}tenant",
                "age", "idle", "running", "queued", "session"
            ))?;
        }
        for one in page.sessions {
            let (tenant, session) = (one.tenant_id, one.session.unwrap_or_default());
            let [age, idle] = [session.age_ms, session.idle_ms].map(|ms| format!("{}s", ms / 1_000));
            let (running, queued) = (u32::from(!session.running_run_id.is_empty()), session.queued_runs);
            print::answer(&format!(
                "{age:>9}{idle:>9}{running:>9}{queued:>9}  {:<34}{}",
                line(&session.session_id),
                line(&tenant)
            ))?;
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(0);
        }
    }
}

async fn runs(asked: &Asked) -> Result<u8, Failure> {
    let (mut host, mut page_token, mut head) = (host(asked).await?, String::new(), true);
    loop {
        let request = ListRunsRequest { page_size: 0, page_token };
        let page = host.list_runs(request).await.map_err(refused)?.into_inner();
        if std::mem::take(&mut head) {
            print::answer(&format!("{:>9}  {:<8}{:<36}tenant", "age", "state", "run"))?;
        }
        for run in page.runs {
            let state = if run.state() == RunState::Running { "running" } else { "queued" };
            let age = format!("{}s", run.age_ms / 1_000);
            print::answer(&format!("{age:>9}  {state:<8}{:<36}{}", line(&run.run_id), line(&run.tenant_id)))?;
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(0);
        }
    }
}

async fn drain(Drain { asked, deadline_ms }: &Drain) -> Result<u8, Failure> {
    let request = DrainRequest { deadline_ms: *deadline_ms };
    let answer = host(asked).await?.drain(request).await.map_err(refused)?.into_inner();
    print::answer(&format!("drained: {} runs finished, {} cancelled", answer.runs_finished, answer.runs_cancelled))?;
    Ok(0)
}
