//! A gRPC client of a real supervisor with all services, and runs as streams of events.

use crate::Boxed;
use crate::process::WAIT_MAX;
use proctor_proto::client::TlsConfig;
use proctor_proto::v1::host_client::HostClient;
use proctor_proto::v1::results_client::ResultsClient;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{self, CreateSessionRequest, Report, RunEvent, RunTestsRequest};
use proctor_proto::{MESSAGE_BYTES_MAX, reason};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

/// Adds the caller's bearer token, if there is one.
#[derive(Clone)]
pub struct BearerToken(Option<AsciiMetadataValue>);

impl Interceptor for BearerToken {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A channel that fails the test when an error lacks its `ErrorInfo` reason.
#[derive(Clone)]
pub struct ReasonCheckedChannel(Channel);

impl Service<Request<Body>> for ReasonCheckedChannel {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let answer = answer.await?;
            if let Some(status) = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok) {
                let info = status.get_details_error_info();
                let has_reason = info.is_some_and(|info| info.domain == reason::DOMAIN && !info.reason.is_empty());
                assert!(has_reason, "{status:?}");
            }
            Ok(answer)
        })
    }
}

type CheckedChannel = InterceptedService<ReasonCheckedChannel, BearerToken>;

/// Clients of all services for one caller.
#[derive(Clone)]
pub struct Client {
    /// `proctor.v1.Sessions`.
    pub sessions: SessionsClient<CheckedChannel>,
    /// `proctor.v1.Runs`.
    pub runs: RunsClient<CheckedChannel>,
    /// `proctor.v1.Results`.
    pub results: ResultsClient<CheckedChannel>,
    /// `proctor.v1.Host`.
    pub host: HostClient<CheckedChannel>,
    /// The connection, for services that are not part of proctor (health, reflection).
    pub channel: Channel,
}

impl Client {
    fn new(channel: &Channel, token: Option<&str>) -> Client {
        let token = BearerToken(token.map(|token| format!("Bearer {token}").parse().unwrap()));
        let checked = || InterceptedService::new(ReasonCheckedChannel(channel.clone()), token.clone());
        Client {
            sessions: SessionsClient::new(checked()),
            runs: RunsClient::new(checked()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            results: ResultsClient::new(checked()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            host: HostClient::new(checked()),
            channel: channel.clone(),
        }
    }

    /// A client over an existing connection, with the token of `name`.
    #[must_use]
    pub fn over_channel(channel: &Channel, name: &str) -> Client {
        Client::new(channel, Some(&crate::supervisor_process::token(name)))
    }

    /// A client over TCP.
    pub fn tcp(address: SocketAddr, token: Option<&str>) -> Boxed<'_, Client> {
        Box::pin(async move {
            let channel = proctor_proto::client::connect_tcp(format!("http://{address}")).await.unwrap();
            Client::new(&channel, token)
        })
    }

    /// A client over TLS.
    pub async fn tls(
        address: SocketAddr,
        tls: TlsConfig,
        token: Option<&str>,
    ) -> Result<Client, tonic::transport::Error> {
        let uri = format!("https://localhost:{}", address.port());
        Ok(Client::new(&proctor_proto::client::connect_tls(uri, tls).await?, token))
    }

    /// A client over a unix socket.
    pub fn unix(socket: PathBuf) -> Boxed<'static, Client> {
        Box::pin(async move { Client::new(&proctor_proto::client::connect_unix(socket).await.unwrap(), None) })
    }

    /// Opens the session on `workspace` that the tenant's callers share and returns its id.
    pub async fn open_session(&self, workspace: &Path) -> String {
        self.try_open_session(workspace, false).await.unwrap()
    }

    /// Opens a separate session on `workspace` and returns its id.
    pub async fn open_separate_session(&self, workspace: &Path) -> String {
        self.try_open_session(workspace, true).await.unwrap()
    }

    /// Opens a session on `workspace`, separate or shared, and returns its id.
    pub fn try_open_session<'a>(&'a self, workspace: &'a Path, separate: bool) -> Boxed<'a, Result<String, Status>> {
        Box::pin(async move {
            let workspace = workspace.to_str().unwrap().to_owned();
            let request = CreateSessionRequest { workspace, separate, ..CreateSessionRequest::default() };
            let answer = self.sessions.clone().create_session(request).await?;
            Ok(answer.into_inner().session.unwrap().session_id)
        })
    }

    /// Starts a run.
    pub fn start(&self, request: RunTestsRequest) -> Boxed<'_, Result<RunStream, Status>> {
        Box::pin(async move { Ok(RunStream::new(self.runs.clone().run_tests(request).await?.into_inner())) })
    }

    /// Starts a check by linters and type checkers.
    pub fn check(&self, request: v1::RunChecksRequest) -> Boxed<'_, Result<RunStream, Status>> {
        Box::pin(async move { Ok(RunStream::new(self.runs.clone().run_checks(request).await?.into_inner())) })
    }

    /// Runs all tests of a session and reads the events to the end.
    pub async fn run(&self, session_id: &str) -> CompletedRun {
        let request = RunTestsRequest { session_id: session_id.to_owned(), ..RunTestsRequest::default() };
        self.start(request).await.unwrap().read_to_end().await
    }

    /// Watches a run from `cursor` on.
    pub fn watch<'a>(&'a self, run_id: &'a str, cursor: u64) -> Boxed<'a, RunStream> {
        Box::pin(async move {
            let request = v1::WatchRunRequest { run_id: run_id.to_owned(), cursor };
            RunStream::new(self.runs.clone().watch_run(request).await.unwrap().into_inner())
        })
    }

    /// The state of a run, after waiting at most `wait_ms` for its end.
    pub fn get_run<'a>(&'a self, run_id: &'a str, wait_ms: u64) -> Boxed<'a, v1::GetRunResponse> {
        Box::pin(async move {
            let request = v1::GetRunRequest { run_id: run_id.to_owned(), wait_ms };
            timeout(WAIT_MAX, self.runs.clone().get_run(request)).await.unwrap().unwrap().into_inner()
        })
    }

    /// The failures of the session's last run, up to the largest limit.
    pub fn failures<'a>(&'a self, session_id: &'a str) -> Boxed<'a, v1::LastTestFailuresResponse> {
        Box::pin(async move {
            let request = v1::LastTestFailuresRequest { session_id: session_id.to_owned(), limit: 500, offset: 0 };
            self.results.clone().last_test_failures(request).await.unwrap().into_inner()
        })
    }

    /// Polls a session until `holds`; `what` names the condition in the failure message.
    pub async fn wait_for_session(
        &self,
        session_id: &str,
        what: &str,
        holds: impl Fn(&v1::Session) -> bool,
    ) -> v1::Session {
        let polling = async {
            loop {
                let request = v1::GetSessionRequest { session_id: session_id.to_owned() };
                let answer = self.sessions.clone().get_session(request).await.unwrap();
                let session = answer.into_inner().session.unwrap();
                if holds(&session) {
                    return session;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        timeout(WAIT_MAX, polling).await.unwrap_or_else(|_| panic!("not within {WAIT_MAX:?}: {what}"))
    }
}

/// The event stream of a run.
pub struct RunStream {
    events: Streaming<RunEvent>,
    /// Events received so far.
    pub received: Vec<RunEvent>,
}

/// A run with all of its events.
#[derive(Debug, Clone)]
pub struct CompletedRun {
    /// Id of the run.
    pub run_id: String,
    /// All events, in order.
    pub events: Vec<RunEvent>,
}

impl RunStream {
    fn new(events: Streaming<RunEvent>) -> RunStream {
        RunStream { events, received: Vec::new() }
    }

    /// The next event, `None` at the end, or the error that ended the stream.
    pub async fn next(&mut self) -> Result<Option<&RunEvent>, Status> {
        let is_more = self.receive().await?;
        Ok(self.received.last().filter(|_| is_more))
    }

    /// Receives an event; returns whether there was one.
    fn receive(&mut self) -> Boxed<'_, Result<bool, Status>> {
        Box::pin(async move {
            let next = timeout(WAIT_MAX, self.events.message()).await;
            let next =
                next.unwrap_or_else(|_| panic!("no event within {WAIT_MAX:?} after {:?}", self.received.last()))?;
            let is_more = next.is_some();
            self.received.extend(next);
            Ok(is_more)
        })
    }

    /// Reads up to the first event that matches `wanted` and returns it; `what` names it in the failure message.
    pub async fn wait_for_event(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> RunEvent {
        loop {
            match self.next().await.unwrap() {
                Some(event) if event.event.as_ref().is_some_and(&wanted) => return event.clone(),
                Some(_) => {}
                None => panic!("the run ended without {what}: {:?}", self.received),
            }
        }
    }

    /// Reads until the test named `name` has started and returns the run's id.
    pub async fn wait_for_test(&mut self, name: &str) -> String {
        let started = |event: &Event| matches!(event, Event::TestStarted(started) if started.test.as_ref().is_some_and(|test| test.name == name));
        self.wait_for_event(name, started).await.run_id
    }

    /// Reads all events; fails when the stream ends with an error.
    pub async fn read_to_end(self) -> CompletedRun {
        self.try_read_to_end().await.unwrap()
    }

    /// Reads all events, or returns the error that ended the stream.
    pub async fn try_read_to_end(mut self) -> Result<CompletedRun, Status> {
        while self.next().await?.is_some() {}
        Ok(CompletedRun { run_id: self.received[0].run_id.clone(), events: self.received })
    }
}

impl CompletedRun {
    /// The report in the last event.
    #[must_use]
    pub fn report(&self) -> &Report {
        match self.events.last().and_then(|event| event.event.as_ref()) {
            Some(Event::Finished(report)) => report,
            other => panic!("the last event is {other:?}"),
        }
    }

    /// The bytes of one stream. Fails when the cursors have a gap.
    #[must_use]
    pub fn output(&self, stream: v1::Stream) -> Vec<u8> {
        let mut bytes = Vec::new();
        for event in &self.events {
            if let Some(Event::Output(output)) = &event.event
                && output.stream() == stream
            {
                assert_eq!(output.cursor, bytes.len() as u64, "a gap in {stream:?}");
                bytes.extend_from_slice(&output.bytes);
            }
        }
        bytes
    }

    /// Fails unless the events are numbered from `first` without gap or duplicate.
    pub fn assert_numbered_from(&self, first: u64) {
        for (wanted, event) in (first..).zip(&self.events) {
            assert_eq!((event.sequence, &event.run_id), (wanted, &self.run_id), "{event:?}");
        }
    }
}
