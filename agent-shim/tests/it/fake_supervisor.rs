//! A fake supervisor: answers with the state that a test sets, and records the requests.

use proctor_proto::reason;
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::results_server::{Results, ResultsServer};
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_server::{Runs, RunsServer};
use proctor_proto::v1::sessions_server::{Sessions, SessionsServer};
use proctor_proto::v1::*;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The content of every artifact; recognised as a PNG by its first bytes.
pub(crate) const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

pub(crate) const RUN_ID: &str = "00000000000000000000000000000001";

/// The answers of the fake, and the requests that it received.
#[derive(Default)]
pub(crate) struct FakeState {
    pub(crate) report: Report,
    pub(crate) document: serde_json::Value,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// The run does not end until this is false.
    pub(crate) endless: bool,
    /// An endless run waits at this position, if it is not 0.
    pub(crate) queue_position: u32,
    pub(crate) refuse: Option<Status>,
    /// The next stream ends with this error before the event of this number.
    pub(crate) stream_error: Option<(u64, Status)>,
    pub(crate) failures: LastTestFailuresResponse,
    pub(crate) covering: TestsCoveringResponse,
    pub(crate) analysis: AnalyzeFailuresResponse,
    /// Requests for analyses so far.
    pub(crate) analysis_requests: Vec<AnalyzeFailuresRequest>,
    pub(crate) test_list: ListTestsResponse,
    /// Open sessions; the last one is the newest.
    pub(crate) sessions: Vec<String>,
    /// Sessions whose workspace was replaced by another directory.
    pub(crate) replaced: Vec<String>,
    /// The workspace does not exist, so no session can be opened.
    pub(crate) workspace_gone: bool,
    /// Shutting down: closes all sessions with the end of the next followed run, and opens no other.
    pub(crate) draining: bool,
    pub(crate) created: Vec<CreateSessionRequest>,
    pub(crate) closed: Vec<String>,
    pub(crate) cancelled: Vec<String>,
    /// Runs whose events were asked for by WatchRun.
    pub(crate) watched: Vec<String>,
    /// The answer to a cancellation.
    pub(crate) refuse_cancel: Option<Status>,
    pub(crate) run_tests: Vec<RunTestsRequest>,
    pub(crate) run_checks: Vec<RunChecksRequest>,
    pub(crate) covering_requests: Vec<TestsCoveringRequest>,
    pub(crate) failures_requests: Vec<LastTestFailuresRequest>,
    pub(crate) authorization: Option<String>,
}

// A runtime that aborts all its tasks and connections when dropped.
#[derive(Default)]
struct ServerRuntime(Option<Runtime>);

impl Drop for ServerRuntime {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// The fake, served on a unix socket.
#[derive(Clone)]
pub(crate) struct FakeSupervisor {
    state: Arc<Mutex<FakeState>>,
    dropped: watch::Sender<u32>,
    server: Arc<Mutex<ServerRuntime>>,
    socket: Arc<(PathBuf, tempfile::TempDir)>,
}

impl FakeSupervisor {
    pub(crate) fn start(state: FakeState) -> FakeSupervisor {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let fake = FakeSupervisor {
            state: Arc::new(Mutex::new(state)),
            dropped: watch::Sender::new(0),
            server: Arc::default(),
            socket: Arc::new((path, dir)),
        };
        fake.serve();
        fake
    }

    fn serve(&self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let _inside = runtime.enter();
        let incoming = UnixListenerStream::new(UnixListener::bind(self.socket()).unwrap());
        runtime.spawn(self.router().serve_with_incoming(incoming));
        *self.server.lock().unwrap() = ServerRuntime(Some(runtime));
    }

    fn router(&self) -> Router {
        Server::builder()
            .add_service(SessionsServer::new(self.clone()))
            .add_service(RunsServer::new(self.clone()))
            .add_service(ResultsServer::new(self.clone()))
    }

    /// Serves one connected socket, and returns when both directions have ended.
    pub(crate) fn serve_on(socket: std::os::unix::net::UnixStream, state: FakeState) {
        let fake = FakeSupervisor::start(state);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            socket.set_nonblocking(true).unwrap();
            let mut socket = UnixStream::from_std(socket).unwrap();
            let (mut near, far) = tokio::io::duplex(64 * 1024);
            let incoming = tokio_stream::once(Ok::<_, std::io::Error>(far)).chain(tokio_stream::pending());
            tokio::spawn(fake.router().serve_with_incoming(incoming));
            _ = tokio::io::copy_bidirectional(&mut near, &mut socket).await;
        });
    }

    /// Drops all connections, as a killed process does.
    pub(crate) fn crash(&self) {
        *self.server.lock().unwrap() = ServerRuntime::default();
        std::fs::remove_file(self.socket()).unwrap();
    }

    /// Drops all connections and starts again without state.
    pub(crate) fn crash_and_restart(&self) {
        self.crash();
        self.state().sessions.clear();
        self.serve();
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket.0
    }

    /// How many callers have dropped the event stream of an endless run.
    pub(crate) fn dropped(&self) -> usize {
        usize::try_from(*self.dropped.borrow()).unwrap()
    }

    /// Waits until a caller has dropped the event stream of an endless run.
    pub(crate) async fn until_dropped(&self) {
        self.dropped.subscribe().wait_for(|count| *count > 0).await.unwrap();
    }

    fn in_session(&self, session_id: &str) -> Result<MutexGuard<'_, FakeState>, Status> {
        let mut state = self.state();
        if let Some(status) = state.refuse.take() {
            return Err(status);
        }
        match state.sessions.iter().any(|open| open == session_id) {
            true => Ok(state),
            false => Err(Status::permission_denied("no such session")),
        }
    }

    // Numbered from 0, `finished` last.
    fn events(&self, cursor: u64) -> Response<ReceiverStream<Result<RunEvent, Status>>> {
        let (sender, receiver) = mpsc::channel(16);
        let mut state = self.state();
        let mut stream_error = state.stream_error.take();
        let mut events = state.events.clone();
        if !state.endless {
            events.push(Event::Finished(state.report.clone()));
        }
        if state.draining {
            state.sessions.clear();
        }
        let (fake, endless, sequence_after) = (self.clone(), state.endless, events.len() as u64);
        tokio::spawn(async move {
            for (sequence, event) in (0..).zip(events).skip(usize::try_from(cursor).unwrap()) {
                if let Some((_, status)) = stream_error.take_if(|(at, _)| *at == sequence) {
                    _ = sender.send(Err(status)).await;
                    return;
                }
                let event = RunEvent { run_id: RUN_ID.into(), sequence, at_ms: sequence * 10, event: Some(event) };
                if sender.send(Ok(event)).await.is_err() {
                    return;
                }
            }
            if endless {
                fake.send_progress(&sender, sequence_after).await;
            }
            sender.closed().await;
            fake.dropped.send_modify(|count| *count += 1);
        });
        Response::new(ReceiverStream::new(receiver))
    }

    // Progress events at a high rate, as of a run in progress, and the report when the run ends.
    async fn send_progress(&self, sender: &mpsc::Sender<Result<RunEvent, Status>>, from: u64) {
        for sequence in from.. {
            let report = Some(self.state()).filter(|state| !state.endless).map(|state| state.report.clone());
            let is_last = report.is_some();
            let event = Some(report.map_or(Event::Progress(Progress::default()), Event::Finished));
            let event = RunEvent { run_id: RUN_ID.into(), sequence, event, ..RunEvent::default() };
            if sender.send(Ok(event)).await.is_err() || is_last {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The error after a replacement of the workspace.
pub(crate) fn workspace_replaced() -> Status {
    let details = ErrorDetails::with_error_info(reason::WORKSPACE_REPLACED, reason::DOMAIN, HashMap::new());
    Status::with_error_details(Code::FailedPrecondition, "the workspace was replaced: open a new session", details)
}

#[tonic::async_trait]
impl Sessions for FakeSupervisor {
    async fn create_session(
        &self,
        request: Request<CreateSessionRequest>,
    ) -> Result<Response<CreateSessionResponse>, Status> {
        let mut state = self.state();
        if state.workspace_gone {
            return Err(Status::invalid_argument("workspace: not found"));
        }
        if state.draining && !state.created.is_empty() {
            return Err(Status::unavailable("the supervisor is shutting down"));
        }
        state.authorization =
            request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let request = request.into_inner();
        let idle_ms_max = request.idle_ms_max;
        state.created.push(request);
        let session_id = format!("session-{}", state.created.len());
        state.sessions.push(session_id.clone());
        let session = Some(Session { session_id, idle_ms_max, ..Session::default() });
        Ok(Response::new(CreateSessionResponse { session, existing: false }))
    }

    async fn get_session(&self, request: Request<GetSessionRequest>) -> Result<Response<GetSessionResponse>, Status> {
        let session_id = request.into_inner().session_id;
        drop(self.in_session(&session_id)?);
        Ok(Response::new(GetSessionResponse { session: Some(Session { session_id, ..Session::default() }) }))
    }

    async fn list_sessions(&self, _: Request<ListSessionsRequest>) -> Result<Response<ListSessionsResponse>, Status> {
        Err(Status::unimplemented("list_sessions"))
    }

    async fn close_session(
        &self,
        request: Request<CloseSessionRequest>,
    ) -> Result<Response<CloseSessionResponse>, Status> {
        self.state().closed.push(request.into_inner().session_id);
        Ok(Response::new(CloseSessionResponse {}))
    }
}

type Events = ReceiverStream<Result<RunEvent, Status>>;

#[tonic::async_trait]
impl Runs for FakeSupervisor {
    type RunTestsStream = Events;
    type RunFailingTestsStream = Events;
    type RunAffectedTestsStream = Events;
    type RunChecksStream = Events;
    type WatchRunStream = Events;

    async fn run_tests(&self, request: Request<RunTestsRequest>) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        let mut state = self.in_session(&request.session_id)?;
        if state.replaced.contains(&request.session_id) {
            return Err(workspace_replaced());
        }
        state.run_tests.push(request);
        drop(state);
        Ok(self.events(0))
    }

    async fn run_failing_tests(&self, request: Request<RunFailingTestsRequest>) -> Result<Response<Events>, Status> {
        drop(self.in_session(&request.into_inner().session_id)?);
        Ok(self.events(0))
    }

    async fn run_affected_tests(&self, request: Request<RunAffectedTestsRequest>) -> Result<Response<Events>, Status> {
        drop(self.in_session(&request.into_inner().session_id)?);
        Ok(self.events(0))
    }

    async fn run_checks(&self, request: Request<RunChecksRequest>) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        let mut state = self.in_session(&request.session_id)?;
        state.run_checks.push(request);
        drop(state);
        Ok(self.events(0))
    }

    async fn watch_run(&self, request: Request<WatchRunRequest>) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        self.state().watched.push(request.run_id);
        Ok(self.events(request.cursor))
    }

    async fn get_run(&self, request: Request<GetRunRequest>) -> Result<Response<GetRunResponse>, Status> {
        let state = self.state();
        let run_id = request.into_inner().run_id;
        if run_id != RUN_ID || state.draining && state.sessions.is_empty() {
            return Err(Status::permission_denied("no such run"));
        }
        let running = state.draining || state.endless && state.cancelled.is_empty();
        let run_state = match (running, state.queue_position) {
            (false, _) => RunState::Finished,
            (true, 0) => RunState::Running,
            (true, _) => RunState::Queued,
        };
        let mut report = state.report.clone();
        if state.endless {
            report.outcome = Outcome::Cancelled.into();
        }
        Ok(Response::new(GetRunResponse {
            run_id,
            state: run_state.into(),
            progress: Some(Progress { tests_finished: 12, tests_failed: 1, ..Progress::default() }),
            report: (!running).then_some(report),
            next_sequence: state.events.len() as u64,
            stdout_bytes: state.stdout.len() as u64,
            stderr_bytes: state.stderr.len() as u64,
            age_ms: 3_200,
            queue_position: if running { state.queue_position } else { 0 },
        }))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        let mut state = self.state();
        if let Some(status) = state.refuse_cancel.take() {
            return Err(status);
        }
        state.cancelled.push(request.into_inner().run_id);
        Ok(Response::new(CancelRunResponse {}))
    }

    async fn read_artifact(
        &self,
        request: Request<ReadArtifactRequest>,
    ) -> Result<Response<ReadArtifactResponse>, Status> {
        let request = request.into_inner();
        let begin = usize::try_from(request.cursor).unwrap();
        let bytes: Vec<u8> = PICTURE[begin..].iter().copied().take(5).collect();
        let next_cursor = (begin + bytes.len()) as u64;
        let total_bytes = PICTURE.len() as u64;
        Ok(Response::new(ReadArtifactResponse { bytes, next_cursor, total_bytes, end: next_cursor == total_bytes }))
    }

    async fn read_output(&self, request: Request<ReadOutputRequest>) -> Result<Response<ReadOutputResponse>, Status> {
        let request = request.into_inner();
        let state = self.state();
        if state.draining && state.sessions.is_empty() {
            return Err(Status::permission_denied("no such run"));
        }
        let whole = if request.stream() == Stream::Stderr { &state.stderr } else { &state.stdout };
        // Small pages, so that callers need several calls.
        let most = usize::try_from(request.max_bytes).unwrap().min(100_000);
        let start = usize::try_from(request.cursor).unwrap().min(whole.len());
        let end = (start + most).min(whole.len());
        Ok(Response::new(ReadOutputResponse {
            bytes: whole[start..end].to_vec(),
            next_cursor: end as u64,
            total_bytes: whole.len() as u64,
            end: end == whole.len() && !state.endless,
        }))
    }
}

#[tonic::async_trait]
impl Results for FakeSupervisor {
    async fn list_tests(&self, request: Request<ListTestsRequest>) -> Result<Response<ListTestsResponse>, Status> {
        Ok(Response::new(self.in_session(&request.into_inner().session_id)?.test_list.clone()))
    }

    async fn last_test_failures(
        &self,
        request: Request<LastTestFailuresRequest>,
    ) -> Result<Response<LastTestFailuresResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.in_session(&request.session_id)?;
        let begin = usize::try_from(request.offset).unwrap();
        let limit = if request.limit == 0 { 50 } else { usize::try_from(request.limit).unwrap() };
        state.failures_requests.push(request);
        let failures = state.failures.failures.iter().skip(begin).take(limit).cloned().collect();
        Ok(Response::new(LastTestFailuresResponse { failures, ..state.failures.clone() }))
    }

    async fn tests_covering(
        &self,
        request: Request<TestsCoveringRequest>,
    ) -> Result<Response<TestsCoveringResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.in_session(&request.session_id)?;
        state.covering_requests.push(request);
        Ok(Response::new(state.covering.clone()))
    }

    async fn affected_tests(
        &self,
        _: Request<AffectedTestsRequest>,
    ) -> Result<Response<AffectedTestsResponse>, Status> {
        Err(Status::unimplemented("affected_tests"))
    }

    async fn analyze_failures(
        &self,
        request: Request<AnalyzeFailuresRequest>,
    ) -> Result<Response<AnalyzeFailuresResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.in_session(&request.session_id)?;
        state.analysis_requests.push(request);
        Ok(Response::new(state.analysis.clone()))
    }

    async fn history(&self, _: Request<HistoryRequest>) -> Result<Response<HistoryResponse>, Status> {
        Err(Status::unimplemented("history"))
    }

    async fn get_report(&self, request: Request<GetReportRequest>) -> Result<Response<GetReportResponse>, Status> {
        let request = request.into_inner();
        let state = self.in_session(&request.session_id)?;
        let format = ReportFormat::from_wire(request.format());
        let document = match format {
            ReportFormat::Json => state.document.to_string(),
            format => format!("{} in at most {} bytes", format.name(), request.max_bytes),
        };
        let (content_type, document) = (format.media_type().to_owned(), document.into_bytes());
        Ok(Response::new(GetReportResponse { run_id: RUN_ID.into(), content_type, document }))
    }
}
