//! The context of one tool call: requests to the supervisor, in the session or without one, and progress for the client.

use crate::abandoned_runs::Caller;
use crate::call_error::CallError;
use crate::progress::{ProgressClient, ProgressReporter, ProgressState};
use crate::reconnect;
use crate::session::Session;
use crate::supervisor_connection::{Clients, SupervisorConnection};
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::{self, GetReportRequest, GetReportResponse, GetSessionRequest, ReadArtifactRequest};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// How answers look unless a call says otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerDefaults {
    /// Whether the text of a run is the runner's own output.
    pub(crate) raw: bool,
    /// Budget of an answer, in tokens.
    pub(crate) max_tokens: u32,
}

/// Signals between a running call and the code that answers it.
pub(crate) struct CallSignals {
    /// Receives the id of the run that the call follows.
    pub(crate) run_id: watch::Sender<Option<String>>,
    /// Cancelled when the call is answered although it goes on.
    pub(crate) answered: CancellationToken,
}

impl CallSignals {
    pub(crate) fn new() -> CallSignals {
        CallSignals { run_id: watch::Sender::new(None), answered: CancellationToken::new() }
    }
}

/// The context of one tool call.
pub(crate) struct CallContext<'a> {
    pub(crate) supervisor: &'a SupervisorConnection,
    pub(crate) session: &'a Session,
    pub(crate) defaults: AnswerDefaults,
    /// Budget of this answer, in bytes.
    pub(crate) bytes_max: usize,
    /// The client, if it asked for progress.
    pub(crate) client: Option<ProgressClient>,
    /// Receives the id of the run that the call follows.
    pub(crate) run_id: watch::Sender<Option<String>>,
    /// The agent that makes the call.
    pub(crate) caller: Caller,
}

impl CallContext<'_> {
    /// The session of the workspace.
    pub(crate) fn session(&self) -> &Session {
        self.session
    }

    /// Records the run that the call follows: it is the session's last one.
    pub(crate) fn record_run(&self, run_id: &str) {
        self.session.set_last_run(run_id);
        self.run_id.send_replace(Some(run_id.to_owned()));
    }

    /// Sends a request that needs no session; tries once more if the connection was lost.
    pub(crate) async fn request<T, F>(&self, send: impl Fn(Clients) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        match self.attempt(&send).await {
            Err(error) if reconnect::prepare_retry(self.supervisor, &error).await => {
                reconnect::explain_lost_connection(self.supervisor, self.attempt(&send).await).await
            }
            answer => answer,
        }
    }

    async fn attempt<T, F>(&self, send: &impl Fn(Clients) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        Ok(send(self.clients().await?).await?)
    }

    /// The clients of the supervisor's services.
    pub(crate) async fn clients(&self) -> Result<Clients, CallError> {
        Ok(self.supervisor.clients().await?)
    }

    /// Sends a request in the session, which is opened if necessary.
    pub(crate) async fn request_in_session<T, F>(&self, send: impl Fn(Clients, String) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        self.session.call(self.supervisor, send).await
    }

    /// The state of the session, which is opened if necessary.
    pub(crate) async fn session_status(&self) -> Result<v1::Session, CallError> {
        self.request_in_session(|mut clients, session_id| async move {
            let answer = clients.sessions.get_session(GetSessionRequest { session_id }).await?;
            Ok(answer.into_inner().session.unwrap_or_default())
        })
        .await
    }

    /// The JSON report of a run of the session; of the last one for an empty `run_id`.
    pub(crate) async fn fetch_report(&self, run_id: &str) -> Result<GetReportResponse, CallError> {
        self.fetch_document(run_id, ReportFormat::Json, 0).await
    }

    /// The report of a run of the session in any format, in at most `max_bytes` if it is not JSON.
    pub(crate) async fn fetch_document(
        &self,
        run_id: &str,
        format: ReportFormat,
        max_bytes: u32,
    ) -> Result<GetReportResponse, CallError> {
        self.request_in_session(|mut clients, session_id| {
            let format = format.to_wire().into();
            let request = GetReportRequest { session_id, format, run_id: run_id.to_owned(), max_bytes };
            async move { Ok(clients.results.get_report(request).await?.into_inner()) }
        })
        .await
    }

    /// The bytes of an artifact of a run, from the first on, and their total number. Stops once there are `bytes_max` or more.
    pub(crate) async fn fetch_artifact(
        &self,
        run_id: &str,
        name: &str,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, u64), CallError> {
        let mut bytes = Vec::new();
        loop {
            let cursor = bytes.len() as u64;
            let request =
                ReadArtifactRequest { run_id: run_id.to_owned(), name: name.to_owned(), cursor, max_bytes: 0 };
            let part = self
                .request(|mut clients| {
                    let request = request.clone();
                    async move { Ok(clients.runs.read_artifact(request).await?.into_inner()) }
                })
                .await?;
            bytes.extend(&part.bytes);
            if part.end || part.bytes.is_empty() || bytes.len() >= bytes_max {
                return Ok((bytes, part.total_bytes));
            }
        }
    }

    /// Runs `work` and reports its progress to the client, beginning with `initial`.
    pub(crate) async fn with_progress<T>(
        &self,
        initial: ProgressState,
        work: impl AsyncFnOnce(&ProgressReporter) -> T,
    ) -> T {
        let progress = ProgressReporter::start(self.client.clone(), initial);
        let result = work(&progress).await;
        progress.finish().await;
        result
    }
}
