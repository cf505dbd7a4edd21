//! The Runs service: start, follow, cancel. Must not know how a run goes on.

use super::authentication::AuthenticatedTenant;
use super::event_stream::{EventStream, Follow, Followed, follow};
use super::run_request::{Bounds, clamp};
use super::{Api, call_record, encode_permit, run_request, status};
use crate::grpc::convert;
use crate::runs::{Phase, RunEnd, Snapshot};
use crate::sessions::{SessionHandle, Started, Waiting};
use proctor_core::artifact;
use proctor_core::event::Stream;
use proctor_core::request::{RunKind, RunRequest};
use proctor_proto::v1::runs_server::Runs;
use proctor_proto::{reason, v1};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Longest wait of one GetRun call, in milliseconds.
const WAIT_MS_MAX: u64 = 600_000;

/// Bytes that ReadOutput and ReadArtifact answer with.
const READ: Bounds = Bounds { default: 65_536, max: 1_048_576 };

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
        let waiting = convert::waiting(asked.if_busy(), asked.priority());
        let wanted = run_request::run_tests(asked, session.workspace(), &known.tenant.policy.scan_permits).await?;
        start(known, &session, wanted, waiting).await
    }

    async fn run_failing_tests(
        &self,
        request: Request<v1::RunFailingTestsRequest>,
    ) -> Result<Response<Self::RunFailingTestsStream>, Status> {
        let known = self.known(&request)?;
        self.accepting()?;
        let asked = request.into_inner();
        let session = self.session(&known.tenant, &asked.session_id).await?;
        let wanted = run_request::run_failing_tests(&asked)?;
        start(known, &session, wanted, convert::waiting(asked.if_busy(), asked.priority())).await
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
        let subscription = status::subscribe(&known.tenant)?;
        let wire = Arc::clone(known.tenant.allowance.wire());
        let (followed, lease) = known.lend(Followed::new(handle, subscription));
        let from = Follow { run, followed, lease, cursor: asked.cursor, attached_age_ms: None, wire };
        Ok(Response::new(follow(from).await?))
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
                ended = tokio::time::timeout(wait, handle.end()) => {
                    // Not yet is an answer, too.
                    _ = ended.ok().transpose().map_err(|error| status::read(&error))?;
                }
            }
        }
        let Snapshot { phase, progress, end, next_sequence, files } =
            handle.snapshot().await.map_err(|error| status::read(&error))?;
        let written = |stream| files.output_len(stream);
        let (stdout_bytes, stderr_bytes) = (written(Stream::Stdout), written(Stream::Stderr));
        // They are not kept from being gone while the report waits for its turn.
        drop(files);
        let report = match end {
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(&why)),
            Some(RunEnd::Report(report)) => Some(encode_permit::report(known.tenant.allowance.wire(), report).await?),
            None => None,
        };
        let state = match phase {
            Phase::Queued => v1::RunState::Queued,
            Phase::Running => v1::RunState::Running,
            Phase::Finished => v1::RunState::Finished,
        };
        Ok(Response::new(v1::GetRunResponse {
            run_id: run.to_string(),
            state: state.into(),
            progress: Some(convert::progress(&progress)),
            report,
            next_sequence,
            stdout_bytes,
            stderr_bytes,
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
        run_request::check_enum::<v1::Stream>("stream", asked.stream)?;
        let stream = convert::stream_request(asked.stream())
            .ok_or_else(|| status::invalid("stream", "stream: stdout or stderr is required"))?;
        let (_, _, handle) = self.run(&tenant, &asked.run_id).await?;
        // Whether the run has ended is asked before the bytes are read, so that `end` is never said too early.
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        let (ended, files) = (snapshot.end.is_some(), snapshot.files);
        let total_bytes = files.output_len(stream);
        let wanted =
            Part { of: "the run's output", run: &asked.run_id, cursor: asked.cursor, max_bytes: asked.max_bytes };
        let read = move |cursor, len| files.read_output(stream, cursor, len);
        let (bytes, next_cursor) = read_part(wanted, total_bytes, read).await?;
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
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        let (report, files) = match snapshot.end {
            Some(RunEnd::Report(report)) => (report, snapshot.files),
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(&why)),
            None => return Err(status::failed(reason::NO_RUN_YET, "the run has not ended")),
        };
        let unknown = || status::invalid("name", "name: the run's report lists no such artefact");
        let (begin, total_bytes) = artifact::place(&report.artifacts, &asked.name).ok_or_else(unknown)?;
        let wanted = Part { of: "the artefact", run: &asked.run_id, cursor: asked.cursor, max_bytes: asked.max_bytes };
        let read = move |cursor, len| files.read_artifacts(begin + cursor, len);
        let (bytes, next_cursor) = read_part(wanted, total_bytes, read).await?;
        let end = next_cursor >= total_bytes;
        Ok(Response::new(v1::ReadArtifactResponse { bytes, next_cursor, total_bytes, end }))
    }
}

/// A part of what a run wrote or left, as it is asked for.
struct Part<'a> {
    of: &'a str,
    run: &'a str,
    cursor: u64,
    max_bytes: u32,
}

/// Its bytes, and where to go on.
async fn read_part(
    Part { of, run, cursor, max_bytes }: Part<'_>,
    total_bytes: u64,
    read: impl FnOnce(u64, usize) -> io::Result<Vec<u8>> + Send + 'static,
) -> Result<(Vec<u8>, u64), Status> {
    let cursor = cursor.min(total_bytes);
    let rest = usize::try_from(total_bytes - cursor).unwrap_or(usize::MAX);
    let len = clamp(max_bytes, READ).min(rest);
    match tokio::task::spawn_blocking(move || read(cursor, len)).await {
        Ok(Ok(bytes)) => {
            let next_cursor = cursor + bytes.len() as u64;
            Ok((bytes, next_cursor))
        }
        failed => {
            tracing::error!(?failed, run, "{of} could not be read back");
            Err(status::internal(format!("{of} could not be read back")))
        }
    }
}

async fn start(
    known: AuthenticatedTenant,
    session: &SessionHandle,
    wanted: RunRequest,
    waiting: Waiting,
) -> Result<Response<EventStream>, Status> {
    call_record::limits(wanted.limits);
    let subscription = status::subscribe(&known.tenant)?;
    let Started { run, handle, attached_age_ms } =
        session.start(wanted, RunKind::Tests, waiting).await.map_err(|error| status::session(&error))?;
    call_record::run(run.as_str());
    if attached_age_ms.is_some() {
        call_record::found();
    }
    let wire = Arc::clone(known.tenant.allowance.wire());
    let (followed, lease) = known.lend(Followed::new(handle, subscription));
    let from = Follow { run, followed, lease, cursor: 0, attached_age_ms, wire };
    Ok(Response::new(follow(from).await?))
}
