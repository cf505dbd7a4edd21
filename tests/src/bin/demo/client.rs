//! The demo's gRPC calls, as any client of `proctor.v1` would make them.

use anyhow::{Context as _, Result, anyhow};
use proctor_proto::MESSAGE_BYTES_MAX;
use proctor_proto::v1::results_client::ResultsClient;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_client::RunsClient;
use proctor_proto::v1::sessions_client::SessionsClient;
use proctor_proto::v1::{
    CreateSessionRequest, LastTestFailuresRequest, LastTestFailuresResponse, Limits, Report, RunEvent,
    RunFailingTestsRequest, RunTestsRequest, TestsCoveringRequest, TestsCoveringResponse,
};
use std::path::Path;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// Service clients over one connection.
pub(crate) struct Client {
    sessions: SessionsClient<Channel>,
    runs: RunsClient<Channel>,
    results: ResultsClient<Channel>,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Client {
        Client {
            sessions: SessionsClient::new(channel.clone()),
            runs: RunsClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX),
            results: ResultsClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX),
        }
    }

    /// Opens a session on `workspace` and returns its id.
    pub(crate) async fn open_session(&mut self, workspace: &Path) -> Result<String> {
        let workspace = workspace.to_str().context("the workspace's path is not UTF-8")?.to_owned();
        let request = CreateSessionRequest { workspace, ..CreateSessionRequest::default() };
        let answer = self.sessions.create_session(request).await.map_err(to_error)?.into_inner();
        Ok(answer.session.context("an answer without a session")?.session_id)
    }

    /// Runs all tests of the session's workspace.
    pub(crate) async fn run_tests(&mut self, session_id: &str, limits: Limits) -> Result<Streaming<RunEvent>> {
        let session_id = session_id.to_owned();
        let request = RunTestsRequest { session_id, limits: Some(limits), ..RunTestsRequest::default() };
        Ok(self.runs.run_tests(request).await.map_err(to_error)?.into_inner())
    }

    /// Runs the failed tests again.
    pub(crate) async fn run_failing_tests(&mut self, session_id: &str) -> Result<Streaming<RunEvent>> {
        let session_id = session_id.to_owned();
        let request = RunFailingTestsRequest { session_id, ..RunFailingTestsRequest::default() };
        Ok(self.runs.run_failing_tests(request).await.map_err(to_error)?.into_inner())
    }

    /// The failures of the last run.
    pub(crate) async fn failures(&mut self, session_id: &str) -> Result<LastTestFailuresResponse> {
        let request = LastTestFailuresRequest { session_id: session_id.to_owned(), limit: 0, offset: 0 };
        Ok(self.results.last_test_failures(request).await.map_err(to_error)?.into_inner())
    }

    /// The tests that execute a line.
    pub(crate) async fn covering(&mut self, session_id: &str, file: &str, line: u32) -> Result<TestsCoveringResponse> {
        let (session_id, file) = (session_id.to_owned(), file.to_owned());
        let request = TestsCoveringRequest { session_id, file, line: Some(line), ..Default::default() };
        Ok(self.results.tests_covering(request).await.map_err(to_error)?.into_inner())
    }
}

/// Passes every event of a run to `each` as it arrives; returns the report.
pub(crate) async fn follow(mut stream: Streaming<RunEvent>, mut each: impl FnMut(&RunEvent)) -> Result<Report> {
    while let Some(event) = stream.message().await.map_err(to_error)? {
        each(&event);
        if let Some(Event::Finished(report)) = event.event {
            return Ok(report);
        }
    }
    Err(anyhow!("the stream of a run ended without its report"))
}

fn to_error(status: Status) -> anyhow::Error {
    anyhow!("the supervisor answered {:?}: {}", status.code(), status.message())
}
