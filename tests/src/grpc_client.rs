//! A real gRPC client of a real supervisor, and runs as streams of events. Must not know the table.

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

/// Says who is calling, if the transport does not.
#[derive(Clone)]
pub struct Identity(Option<AsciiMetadataValue>);

impl Interceptor for Identity {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A channel on which every error has to give its reason.
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

type Wire = InterceptedService<ReasonCheckedChannel, Identity>;

/// All services, for one caller.
#[derive(Clone)]
pub struct Client {
    /// Sessions.
    pub sessions: SessionsClient<Wire>,
    /// Runs.
    pub runs: RunsClient<Wire>,
    /// Results.
    pub results: ResultsClient<Wire>,
    /// Host.
    pub host: HostClient<Wire>,
    /// What is below them, for services that are not ours.
    pub channel: Channel,
}

impl Client {
    fn over(channel: &Channel, token: Option<&str>) -> Client {
        let identity = Identity(token.map(|token| format!("Bearer {token}").parse().unwrap()));
        let wire = || InterceptedService::new(ReasonCheckedChannel(channel.clone()), identity.clone());
        Client {
            sessions: SessionsClient::new(wire()),
            runs: RunsClient::new(wire()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            results: ResultsClient::new(wire()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            host: HostClient::new(wire()),
            channel: channel.clone(),
        }
    }

    /// A client over a connection of the caller's, with the token of `name`.
    #[must_use]
    pub fn on(channel: &Channel, name: &str) -> Client {
        Client::over(channel, Some(&crate::supervisor_process::token(name)))
    }

    /// A client over TCP.
    pub async fn tcp(address: SocketAddr, token: Option<&str>) -> Client {
        let channel = proctor_proto::client::connect_tcp(format!("http://{address}")).await.unwrap();
        Client::over(&channel, token)
    }

    /// A client over TLS.
    pub async fn tls(
        address: SocketAddr,
        tls: TlsConfig,
        token: Option<&str>,
    ) -> Result<Client, tonic::transport::Error> {
        let uri = format!("https://localhost:{}", address.port());
        Ok(Client::over(&proctor_proto::client::connect_tls(uri, tls).await?, token))
    }

    /// A client over a unix socket.
    pub async fn unix(socket: PathBuf) -> Client {
        Client::over(&proctor_proto::client::connect_unix(socket).await.unwrap(), None)
    }

    /// The session on `workspace` that all callers of the tenant share: its id.
    pub async fn open(&self, workspace: &Path) -> String {
        self.try_open_session(workspace, false).await.unwrap()
    }

    /// A session on `workspace` that nobody else gets: its id.
    pub async fn open_separate_session(&self, workspace: &Path) -> String {
        self.try_open_session(workspace, true).await.unwrap()
    }

    /// A session on `workspace`, shared or not: its id.
    pub async fn try_open_session(&self, workspace: &Path, separate: bool) -> Result<String, Status> {
        let workspace = workspace.to_str().unwrap().to_owned();
        let request = CreateSessionRequest { workspace, separate, ..CreateSessionRequest::default() };
        let answer = self.sessions.clone().create_session(request).await?;
        Ok(answer.into_inner().session.unwrap().session_id)
    }

    /// Starts a run.
    pub async fn start(&self, request: RunTestsRequest) -> Result<Stream, Status> {
        Ok(Stream::of(self.runs.clone().run_tests(request).await?.into_inner()))
    }

    /// Starts a run of all tests of a session and follows it to its end.
    pub async fn run(&self, session_id: &str) -> CompletedRun {
        let request = RunTestsRequest { session_id: session_id.to_owned(), ..RunTestsRequest::default() };
        self.start(request).await.unwrap().to_end().await
    }

    /// Watches a run from `cursor` on.
    pub async fn watch(&self, run_id: &str, cursor: u64) -> Stream {
        let request = v1::WatchRunRequest { run_id: run_id.to_owned(), cursor };
        Stream::of(self.runs.clone().watch_run(request).await.unwrap().into_inner())
    }

    /// A run as it is, after at most `wait_ms`.
    pub async fn get_run(&self, run_id: &str, wait_ms: u64) -> v1::GetRunResponse {
        let request = v1::GetRunRequest { run_id: run_id.to_owned(), wait_ms };
        timeout(WAIT_MAX, self.runs.clone().get_run(request)).await.unwrap().unwrap().into_inner()
    }

    /// The failures of the last run of a session, with room for all.
    pub async fn failures(&self, session_id: &str) -> v1::LastTestFailuresResponse {
        let request = v1::LastTestFailuresRequest { session_id: session_id.to_owned(), limit: 500 };
        self.results.clone().last_test_failures(request).await.unwrap().into_inner()
    }

    /// Waits until a session says that what `holds` wants is so.
    pub async fn until_session(
        &self,
        session_id: &str,
        what: &str,
        holds: impl Fn(&v1::Session) -> bool,
    ) -> v1::Session {
        let asking = async {
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
        timeout(WAIT_MAX, asking).await.unwrap_or_else(|_| panic!("not within {WAIT_MAX:?}: {what}"))
    }
}

/// The events of a run as they come.
pub struct Stream {
    events: Streaming<RunEvent>,
    /// Those that have come.
    pub seen: Vec<RunEvent>,
}

/// A run whose events are all there.
#[derive(Debug, Clone)]
pub struct CompletedRun {
    /// The run.
    pub run_id: String,
    /// Its events.
    pub events: Vec<RunEvent>,
}

impl Stream {
    fn of(events: Streaming<RunEvent>) -> Stream {
        Stream { events, seen: Vec::new() }
    }

    /// The next event, the end, or why there is none.
    pub async fn next(&mut self) -> Result<Option<&RunEvent>, Status> {
        let next = timeout(WAIT_MAX, self.events.message()).await;
        let next = next.unwrap_or_else(|_| panic!("no event within {WAIT_MAX:?} after {:?}", self.seen.last()));
        Ok(match next? {
            Some(event) => {
                self.seen.push(event);
                self.seen.last()
            }
            None => None,
        })
    }

    /// Reads until an event for which `wanted` holds, and returns it.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> RunEvent {
        loop {
            match self.next().await.unwrap() {
                Some(event) if event.event.as_ref().is_some_and(&wanted) => return event.clone(),
                Some(_) => {}
                None => panic!("the run ended without {what}: {:?}", self.seen),
            }
        }
    }

    /// Reads until the test has begun and is named `name`.
    pub async fn wait_for_test(&mut self, name: &str) -> String {
        let began = |event: &Event| matches!(event, Event::TestStarted(started) if started.test.as_ref().is_some_and(|test| test.name == name));
        self.until(name, began).await.run_id
    }

    /// Reads to the end.
    pub async fn to_end(self) -> CompletedRun {
        self.try_to_end().await.unwrap()
    }

    /// Reads to the end, which may be a refusal.
    pub async fn try_to_end(mut self) -> Result<CompletedRun, Status> {
        while self.next().await?.is_some() {}
        Ok(CompletedRun { run_id: self.seen[0].run_id.clone(), events: self.seen })
    }
}

impl CompletedRun {
    /// The report that ended it.
    #[must_use]
    pub fn report(&self) -> &Report {
        match self.events.last().and_then(|event| event.event.as_ref()) {
            Some(Event::Finished(report)) => report,
            other => panic!("the last event is {other:?}"),
        }
    }

    /// What came on one stream, and that its cursors have no gap.
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

    /// Fails when the events are not numbered from `first` on without gap or duplicate.
    pub fn assert_numbered_from(&self, first: u64) {
        for (wanted, event) in (first..).zip(&self.events) {
            assert_eq!((event.sequence, &event.run_id), (wanted, &self.run_id), "{event:?}");
        }
    }
}
