//! `proctor admin`: queries and drains a running supervisor over its unix socket.

use super::arguments::{AdminArgs, AdminCommand, DrainArgs, SupervisorSocket};
use super::{CommandError, in_process, print, token};
use proctor_proto::client::connect_unix;
use proctor_proto::printable::line;
use proctor_proto::v1::host_client::HostClient;
use proctor_proto::v1::{DrainRequest, ListAllSessionsRequest, ListRunsRequest, ListTenantsRequest, RunState};
use std::error::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Runs the subcommand and prints its result.
pub(super) fn admin(arguments: &AdminArgs) -> Result<u8, CommandError> {
    match &arguments.command {
        AdminCommand::Token => token::token(),
        AdminCommand::Tenants(socket) => in_process::runtime()?.block_on(tenants(socket)),
        AdminCommand::Sessions(socket) => in_process::runtime()?.block_on(sessions(socket)),
        AdminCommand::Runs(socket) => in_process::runtime()?.block_on(runs(socket)),
        AdminCommand::Drain(socket) => in_process::runtime()?.block_on(drain(socket)),
    }
}

async fn connect(socket: &SupervisorSocket) -> Result<HostClient<Channel>, CommandError> {
    let channel = connect_unix(socket.socket.clone()).await;
    let unreachable = |error: tonic::transport::Error| {
        // The innermost cause is the kernel's error: "No such file or directory".
        let causes = std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| (*error).source());
        let cause = causes.last().map(ToString::to_string).unwrap_or_default();
        CommandError::host(format!(
            "{}: no supervisor answers on this socket: {cause}\n\
             Start one with `proctor serve --config FILE`, or name the socket of another with --socket: `unix` below [listen] in \
             its host file. Its directory and its mode (`unix_mode`) must let this user in.",
            socket.socket.display()
        ))
    };
    Ok(HostClient::new(channel.map_err(unreachable)?))
}

fn failure(status: Status) -> CommandError {
    let message = status.message();
    match status.code() {
        Code::PermissionDenied | Code::Unauthenticated => CommandError::host(format!(
            "permission denied: {message}\n\
             Its host file lists the user ids of its operators as `uids` below [operators], and this user's id is not one of them."
        )),
        _ => CommandError::host(message),
    }
}

async fn tenants(socket: &SupervisorSocket) -> Result<u8, CommandError> {
    let answer = connect(socket).await?.list_tenants(ListTenantsRequest {}).await.map_err(failure)?;
    print::text(&format!("{:>9}{:>9}{:>9}  tenant", "sessions", "running", "queued"))?;
    for tenant in answer.into_inner().tenants {
        let (sessions, running, queued) = (tenant.sessions, tenant.runs_running, tenant.runs_queued);
        print::text(&format!("{sessions:>9}{running:>9}{queued:>9}  {}", line(&tenant.tenant_id)))?;
    }
    Ok(0)
}

async fn sessions(socket: &SupervisorSocket) -> Result<u8, CommandError> {
    let (mut host, mut page_token, mut print_header) = (connect(socket).await?, String::new(), true);
    loop {
        let request = ListAllSessionsRequest { page_size: 0, page_token };
        let page = host.list_all_sessions(request).await.map_err(failure)?.into_inner();
        if std::mem::take(&mut print_header) {
            print::text(&format!("{:>9}{:>9}{:>9}{:>9}  {:<34}tenant", "age", "idle", "running", "queued", "session"))?;
        }
        for entry in page.sessions {
            let (tenant, session) = (entry.tenant_id, entry.session.unwrap_or_default());
            let [age, idle] = [session.age_ms, session.idle_ms].map(|ms| format!("{}s", ms / 1_000));
            let (running, queued) = (u32::from(!session.running_run_id.is_empty()), session.queued_runs);
            print::text(&format!(
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

async fn runs(socket: &SupervisorSocket) -> Result<u8, CommandError> {
    let (mut host, mut page_token, mut print_header) = (connect(socket).await?, String::new(), true);
    loop {
        let request = ListRunsRequest { page_size: 0, page_token };
        let page = host.list_runs(request).await.map_err(failure)?.into_inner();
        if std::mem::take(&mut print_header) {
            print::text(&format!("{:>9}  {:<8}{:<36}tenant", "age", "state", "run"))?;
        }
        for run in page.runs {
            let state = if run.state() == RunState::Running { "running" } else { "queued" };
            let age = format!("{}s", run.age_ms / 1_000);
            print::text(&format!("{age:>9}  {state:<8}{:<36}{}", line(&run.run_id), line(&run.tenant_id)))?;
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(0);
        }
    }
}

async fn drain(DrainArgs { socket, deadline_ms }: &DrainArgs) -> Result<u8, CommandError> {
    let request = DrainRequest { deadline_ms: *deadline_ms };
    let answer = connect(socket).await?.drain(request).await.map_err(failure)?.into_inner();
    print::text(&format!("drained: {} runs finished, {} cancelled", answer.runs_finished, answer.runs_cancelled))?;
    Ok(0)
}
