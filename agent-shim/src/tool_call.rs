//! One call of a tool: asks the supervisor, in the session or without one, and reports progress to the client. Must not know
//! which tool it is.

use crate::call_error::CallError;
use crate::progress::{ProgressReporter, ProgressState};
use crate::reconnect;
use crate::session::Session;
use crate::supervisor_connection::{Clients, SupervisorConnection};
use rmcp::model::ProgressToken;
use rmcp::{Peer, RoleServer};
use tonic::Status;

/// One call of a tool: what it may use.
pub(crate) struct ToolCall<'a> {
    pub(crate) supervisor: &'a SupervisorConnection,
    pub(crate) session: &'a Session,
    /// Whom the progress of the call is reported to.
    pub(crate) client: Option<(Peer<RoleServer>, ProgressToken)>,
}

impl ToolCall<'_> {
    /// The session of the workspace.
    pub(crate) fn session(&self) -> &Session {
        self.session
    }

    /// Asks something that needs no session.
    pub(crate) async fn ask<T, F>(&self, ask: impl Fn(Clients) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        match self.attempt(&ask).await {
            Err(error) if reconnect::is_worthwhile(self.supervisor, &error).await => {
                reconnect::explained(self.supervisor, self.attempt(&ask).await).await
            }
            answer => answer,
        }
    }

    async fn attempt<T, F>(&self, ask: &impl Fn(Clients) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        Ok(ask(self.clients().await?).await?)
    }

    /// The supervisor's services.
    pub(crate) async fn clients(&self) -> Result<Clients, CallError> {
        Ok(self.supervisor.clients().await?)
    }

    /// Asks something in the session.
    pub(crate) async fn in_session<T, F>(&self, ask: impl Fn(Clients, String) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.session.call(self.supervisor, ask).await
    }

    /// Does `work`, reporting to the client meanwhile, beginning with `standing`.
    pub(crate) async fn reporting<T>(
        &self,
        standing: ProgressState,
        work: impl AsyncFnOnce(&ProgressReporter) -> T,
    ) -> T {
        let progress = ProgressReporter::start(self.client.clone(), standing);
        let done = work(&progress).await;
        progress.finish().await;
        done
    }
}
