//! The Runs service: start, follow, cancel. Must not know how a run goes on.

use super::follow::{EventStream, Follow, follow};
use super::identity::Known;
use super::{Api, record, request, status};
use crate::convert;
use crate::run::{Phase, RunEnd};
use crate::session::{SessionHandle, Started};
use proctor_core::artifact;
use proctor_core::request::{IfBusy, RunRequest};
use proctor_core::session::RunKind;
use proctor_proto::v1::runs_server::Runs;
use proctor_proto::{reason, v1};
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Longest wait of one GetRun call, in milliseconds.
const WAIT_MS_MAX: u64 = 600_000;

/// Bytes that ReadOutput answers with when the request does not say.
const READ_BYTES: u32 = 65_536;

/// Most bytes of one ReadOutput answer.
const READ_BYTES_MAX: u32 = 1_048_576;

#[tonic::async_trait]
impl Runs for Api {
    type RunTestsStream = EventStream;
    type RunFailingTestsStream = EventStream;
    type RunAffectedTestsStream = EventStream;
    type WatchRunStream = EventStream;

    async fn run_tests(&self, request: Request<v1::RunTestsRequest>) -> Result<Response<Self::RunTestsStream>, Status> {
        let known = self.known(&request)?;
        self.accepting()?;
        let asked = request.into_inner();
        let session = self.session(&known.tenant, &asked.session_id).await?;
        let wanted = request::run_tests(&asked, session.workspace())?;
        start(known, &session, wanted, convert::if_busy(asked.if_busy())).await
    }

    async fn run_failing_tests(
        &self,
        request: Request<v1::RunFailingTestsRequest>,
    ) -> Result<Response<Self::RunFailingTestsStream>, Status> {
        let known = self.known(&request)?;
        self.accepting()?;
        let asked = request.into_inner();
        let session = self.session(&known.tenant, &asked.session_id).await?;
        let wanted = request::run_failing_tests(&asked)?;
        start(known, &session, wanted, convert::if_busy(asked.if_busy())).await
    }

    async fn run_affected_tests(
        &self,
        request: Request<v1::RunAffectedTestsRequest>,
    ) -> Result<Response<Self::RunAffectedTestsStream>, Status> {
        let tenant = self.tenant(&request)?;
        self.session(&tenant, &request.get_ref().session_id).await?;
        Err(status::not_in_this_version("RunAffectedTests"))
    }

    async fn watch_run(&self, request: Request<v1::WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let known = self.known(&request)?;
        let asked = request.into_inner();
        let (run, _, handle) = self.run(&known.tenant, &asked.run_id).await?;
        let _subscription = status::subscribe(&known.tenant)?;
        let stream = follow(Follow { run, handle, cursor: asked.cursor, attached_age_ms: None, _subscription }).await?;
        Ok(Response::new(known.guard(stream)))
    }

    async fn get_run(&self, request: Request<v1::GetRunRequest>) -> Result<Response<v1::GetRunResponse>, Status> {
        let mut known = self.known(&request)?;
        let asked = request.into_inner();
        let (run, _, handle) = self.run(&known.tenant, &asked.run_id).await?;
        if asked.wait_ms > 0 {
            let _subscription = status::subscribe(&known.tenant)?;
            // Waiting is watching: whoever waits for a run wants it to go on.
            let _watch = handle.watch();
            let wait = Duration::from_millis(asked.wait_ms.min(WAIT_MS_MAX));
            tokio::select! {
                lost = known.lost() => return Err(lost),
                _ = tokio::time::timeout(wait, handle.end()) => {}
            }
        }
        let snapshot = handle.snapshot().await.map_err(|_| status::denied("run"))?;
        let report = match &snapshot.end {
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(why)),
            Some(RunEnd::Report(report)) => Some(convert::report(report)),
            None => None,
        };
        let state = match snapshot.phase {
            Phase::Queued => v1::RunState::Queued,
            Phase::Running => v1::RunState::Running,
            Phase::Finished => v1::RunState::Finished,
        };
        Ok(Response::new(v1::GetRunResponse {
            run_id: run.to_string(),
            state: state.into(),
            progress: Some(convert::progress(&snapshot.progress)),
            report,
            next_sequence: snapshot.next_sequence,
            stdout_bytes: handle.output_len(proctor_core::event::Stream::Stdout),
            stderr_bytes: handle.output_len(proctor_core::event::Stream::Stderr),
            age_ms: self.context.clock.now().ms_since(handle.accepted_at),
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let (run, session, _) = self.run(&tenant, &request.get_ref().run_id).await?;
        let known = session.cancel(run).await.map_err(|error| status::session(&error))?;
        if known { Ok(Response::new(v1::CancelRunResponse {})) } else { Err(status::denied("run")) }
    }

    async fn read_output(
        &self,
        request: Request<v1::ReadOutputRequest>,
    ) -> Result<Response<v1::ReadOutputResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let asked = request.into_inner();
        request::check_enum::<v1::Stream>("stream", asked.stream)?;
        let stream = convert::stream_request(asked.stream())
            .ok_or_else(|| status::invalid("stream", "stream: stdout or stderr is required"))?;
        let (_, _, handle) = self.run(&tenant, &asked.run_id).await?;
        // Whether the run has ended is asked before the bytes are read, so that `end` is never said too early.
        let ended = handle.snapshot().await.map_err(|_| status::denied("run"))?.end.is_some();
        let len = if asked.max_bytes == 0 { READ_BYTES } else { asked.max_bytes.min(READ_BYTES_MAX) };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let total_bytes = handle.output_len(stream);
        let cursor = asked.cursor.min(total_bytes);
        let read = tokio::task::spawn_blocking(move || handle.read_output(stream, cursor, len)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            failed => {
                tracing::error!(?failed, run = %asked.run_id, "a run's output could not be read back");
                return Err(Status::internal("the run's output could not be read back"));
            }
        };
        let next_cursor = cursor + bytes.len() as u64;
        let end = ended && next_cursor >= total_bytes;
        Ok(Response::new(v1::ReadOutputResponse { bytes, next_cursor, total_bytes, end }))
    }

    async fn read_artifact(
        &self,
        request: Request<v1::ReadArtifactRequest>,
    ) -> Result<Response<v1::ReadArtifactResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let asked = request.into_inner();
        let (_, _, handle) = self.run(&tenant, &asked.run_id).await?;
        let report = match handle.snapshot().await.map_err(|_| status::denied("run"))?.end {
            Some(RunEnd::Report(report)) => report,
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(&why)),
            None => return Err(status::failed(reason::NO_RUN_YET, "the run has not ended")),
        };
        let unknown = || status::invalid("name", "name: the run's report lists no such artefact");
        let (begin, total_bytes) = artifact::place(&report.artifacts, &asked.name).ok_or_else(unknown)?;
        let cursor = asked.cursor.min(total_bytes);
        let len = if asked.max_bytes == 0 { READ_BYTES } else { asked.max_bytes.min(READ_BYTES_MAX) };
        let len = usize::try_from(u64::from(len).min(total_bytes - cursor)).unwrap_or(usize::MAX);
        let read = tokio::task::spawn_blocking(move || handle.read_artifacts(begin + cursor, len)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            failed => {
                tracing::error!(?failed, run = %asked.run_id, "a run's artefact could not be read back");
                return Err(Status::internal("the artefact could not be read back"));
            }
        };
        let next_cursor = cursor + bytes.len() as u64;
        let end = next_cursor >= total_bytes;
        Ok(Response::new(v1::ReadArtifactResponse { bytes, next_cursor, total_bytes, end }))
    }
}

async fn start(
    known: Known,
    session: &SessionHandle,
    wanted: RunRequest,
    if_busy: IfBusy,
) -> Result<Response<EventStream>, Status> {
    record::limits(wanted.limits);
    let _subscription = status::subscribe(&known.tenant)?;
    let Started { run, handle, attached_age_ms } =
        session.start(wanted, RunKind::Tests, if_busy).await.map_err(|error| status::session(&error))?;
    record::run(run.as_str());
    let stream = follow(Follow { run, handle, cursor: 0, attached_age_ms, _subscription }).await?;
    Ok(Response::new(known.guard(stream)))
}
