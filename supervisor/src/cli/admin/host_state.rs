//! The state of a running supervisor as its operator reads it: a connection over the unix socket, and all pages of each list.

use crate::cli::CommandError;
use crate::cli::arguments::SupervisorSocket;
use proctor_proto::client::connect_unix;
use proctor_proto::v1::host_client::HostClient;
use proctor_proto::v1::{
    DrainRequest, DrainResponse, HostRun, HostSession, ListAllSessionsRequest, ListRunsRequest, ListTenantsRequest,
    StopRunRequest, TenantStatus,
};
use std::error::Error;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// An operator's connection to a supervisor.
pub(in crate::cli) struct Host(HostClient<Channel>);

impl Host {
    /// Connects to the supervisor's socket.
    pub(in crate::cli) async fn connect(socket: &SupervisorSocket) -> Result<Host, CommandError> {
        let channel = connect_unix(socket.socket.clone()).await;
        let unreachable = |error: tonic::transport::Error| {
            // The innermost cause is the kernel's error: "No such file or directory".
            let causes = std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| (*error).source());
            let cause = causes.last().map(ToString::to_string).unwrap_or_default();
            CommandError::host(format!(
                "{}: no supervisor answers on this socket: {cause}\n\
                 Start one with `proctor serve --config FILE`, or name the socket of another with --socket: `unix` below \
                 [listen] in its host file. Its directory and its mode (`unix_mode`) must let this user in.",
                socket.socket.display()
            ))
        };
        Ok(Host(HostClient::new(channel.map_err(unreachable)?)))
    }

    /// All tenants, sorted by id.
    pub(in crate::cli) async fn tenants(&mut self) -> Result<Vec<TenantStatus>, CommandError> {
        let answer = self.0.list_tenants(ListTenantsRequest {}).await.map_err(failure)?;
        Ok(answer.into_inner().tenants)
    }

    /// The sessions of all tenants, sorted by tenant and id.
    pub(in crate::cli) async fn sessions(&mut self) -> Result<Vec<HostSession>, CommandError> {
        let (mut sessions, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = ListAllSessionsRequest { page_size: 0, page_token };
            let page = self.0.list_all_sessions(request).await.map_err(failure)?.into_inner();
            sessions.extend(page.sessions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(sessions);
            }
        }
    }

    /// The running and waiting runs of all tenants, sorted by id.
    pub(in crate::cli) async fn runs(&mut self) -> Result<Vec<HostRun>, CommandError> {
        let (mut runs, mut page_token) = (Vec::new(), String::new());
        loop {
            let page =
                self.0.list_runs(ListRunsRequest { page_size: 0, page_token }).await.map_err(failure)?.into_inner();
            runs.extend(page.runs);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(runs);
            }
        }
    }

    /// Cancels a run of any tenant.
    pub(in crate::cli) async fn stop(&mut self, run: &str) -> Result<(), CommandError> {
        self.0.stop_run(StopRunRequest { run_id: run.to_owned() }).await.map_err(failure)?;
        Ok(())
    }

    /// Drains the supervisor, which exits then.
    pub(in crate::cli) async fn drain(&mut self, deadline_ms: Option<u64>) -> Result<DrainResponse, CommandError> {
        Ok(self.0.drain(DrainRequest { deadline_ms }).await.map_err(failure)?.into_inner())
    }
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
