//! The Runs service: starts, follows and cancels runs, and reads their output.

use super::authentication::AuthenticatedTenant;
use super::event_stream::{EventStream, FollowRequest, RunSubscription, follow};
use super::results_service::select_affected;
use super::{Api, call_record, encode_permit, run_request, status};
use crate::grpc::convert;
use crate::runs::{Phase, RunEnd, Snapshot};
use crate::sessions::{QueueOptions, SessionHandle, StartedRun};
use crate::telemetry::traces;
use proctor_core::artifact;
use proctor_core::bounds::{AFFECTED_TESTS_PAGE, CONTENT_PAGE, GET_RUN_WAIT_MS_MAX};
use proctor_core::event::Stream;
use proctor_core::request::{RunKind, RunRequest};
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::runs_server::Runs;
use proctor_proto::{reason, v1};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Runs for Api {
    type RunTestsStream = EventStream;
    type RunFailingTestsStream = EventStream;
    type RunAffectedTestsStream = EventStream;
    type RunChecksStream = EventStream;
    type WatchRunStream = EventStream;

    async fn run_tests(&self, request: Request<v1::RunTestsRequest>) -> Result<Response<Self::RunTestsStream>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        self.check_accepting()?;
        let message = request.into_inner();
        let session = self.session(&caller.tenant, &message.session_id).await?;
        let options = convert::queue_options(message.if_busy(), message.priority());
        let run_request =
            run_request::run_tests(message, session.workspace(), &caller.tenant.usage.scan_permits).await?;
        start(caller, &session, run_request, RunKind::Tests, options).await
    }

    async fn run_failing_tests(
        &self,
        request: Request<v1::RunFailingTestsRequest>,
    ) -> Result<Response<Self::RunFailingTestsStream>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        self.check_accepting()?;
        let message = request.into_inner();
        let session = self.session(&caller.tenant, &message.session_id).await?;
        let run_request = run_request::run_failing_tests(&message)?;
        let options = convert::queue_options(message.if_busy(), message.priority());
        start(caller, &session, run_request, RunKind::Tests, options).await
    }

    async fn run_affected_tests(
        &self,
        request: Request<v1::RunAffectedTestsRequest>,
    ) -> Result<Response<Self::RunAffectedTestsStream>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        self.check_accepting()?;
        let message = request.into_inner();
        let session = self.session(&caller.tenant, &message.session_id).await?;
        run_request::check_enum::<v1::IfBusy>("if_busy", message.if_busy)?;
        run_request::check_enum::<v1::Priority>("priority", message.priority)?;
        let run_request = run_request::affected_tests(&message.since, message.limits.as_ref())?;
        if message.dry_run {
            let limit = AFFECTED_TESTS_PAGE.clamp(0);
            let found = select_affected(&session, &caller.tenant, run_request, limit).await?;
            let event = v1::RunEvent { event: Some(Event::Affected(found)), ..v1::RunEvent::default() };
            return Ok(Response::new(Box::pin(tokio_stream::once(Ok(event)))));
        }
        let options = convert::queue_options(message.if_busy(), message.priority());
        start(caller, &session, run_request, RunKind::Tests, options).await
    }

    async fn run_checks(
        &self,
        request: Request<v1::RunChecksRequest>,
    ) -> Result<Response<Self::RunChecksStream>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        self.check_accepting()?;
        let message = request.into_inner();
        let session = self.session(&caller.tenant, &message.session_id).await?;
        run_request::check_enum::<v1::IfBusy>("if_busy", message.if_busy)?;
        run_request::check_enum::<v1::Priority>("priority", message.priority)?;
        let options = convert::queue_options(message.if_busy(), message.priority());
        let run_request =
            run_request::run_checks(message, session.workspace(), &caller.tenant.usage.scan_permits).await?;
        start(caller, &session, run_request, RunKind::Check, options).await
    }

    async fn watch_run(&self, request: Request<v1::WatchRunRequest>) -> Result<Response<Self::WatchRunStream>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        let message = request.into_inner();
        let (run, _, handle) = self.run(&caller.tenant, &message.run_id).await?;
        let subscription = status::subscribe(&caller.tenant)?;
        let in_flight = Arc::clone(caller.tenant.allowance.in_flight());
        let (subscription, revocation) = caller.hold_until_revoked(RunSubscription::new(handle, subscription));
        let request =
            FollowRequest { run, subscription, revocation, cursor: message.cursor, attached_age_ms: None, in_flight };
        Ok(Response::new(follow(request).await?))
    }

    async fn get_run(&self, request: Request<v1::GetRunRequest>) -> Result<Response<v1::GetRunResponse>, Status> {
        let mut caller = self.authenticated_tenant(&request)?;
        let message = request.into_inner();
        let (run, _, handle) = self.run(&caller.tenant, &message.run_id).await?;
        if message.wait_ms > 0 {
            let _subscription = status::subscribe(&caller.tenant)?;
            // A caller that waits for a run counts as its watcher, so that the run is not abandoned.
            let _watch = handle.watch();
            let wait = Duration::from_millis(message.wait_ms.min(GET_RUN_WAIT_MS_MAX));
            tokio::select! {
                status = caller.revoked() => return Err(status),
                ended = tokio::time::timeout(wait, handle.end()) => {
                    // A run that has not ended in time is a normal answer.
                    _ = ended.ok().transpose().map_err(|error| status::read(&error))?;
                }
            }
        }
        let Snapshot { phase, progress, end, next_sequence, files, limits: _ } =
            handle.snapshot().await.map_err(|error| status::read(&error))?;
        let output_len = |stream| files.output_len(stream);
        let (stdout_bytes, stderr_bytes) = (output_len(Stream::Stdout), output_len(Stream::Stderr));
        // Released so that the files can be deleted while the report waits for its permit.
        drop(files);
        let report = match end {
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(&why)),
            Some(RunEnd::Report(report)) => {
                Some(encode_permit::encode_report(caller.tenant.allowance.in_flight(), report).await?)
            }
            None => None,
        };
        let (state, queue_position) = match phase {
            Phase::Queued { position } => (v1::RunState::Queued, position),
            Phase::Running => (v1::RunState::Running, 0),
            Phase::Finished => (v1::RunState::Finished, 0),
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
            queue_position,
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let (run, session, _) = self.run(&tenant, &request.get_ref().run_id).await?;
        let is_known = session.cancel(run).await.map_err(|error| status::session(&error))?;
        if is_known { Ok(Response::new(v1::CancelRunResponse {})) } else { Err(status::denied("run")) }
    }

    async fn read_output(
        &self,
        request: Request<v1::ReadOutputRequest>,
    ) -> Result<Response<v1::ReadOutputResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        run_request::check_enum::<v1::Stream>("stream", message.stream)?;
        let stream = convert::stream_request(message.stream())
            .ok_or_else(|| status::invalid("stream", "stream: stdout or stderr is required"))?;
        let (_, _, handle) = self.run(&tenant, &message.run_id).await?;
        // The end of the run is read before the bytes, so that `end` is never reported too early.
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        let (ended, files) = (snapshot.end.is_some(), snapshot.files);
        let total_bytes = files.output_len(stream);
        let request = ReadRequest {
            what: "the run's output",
            run: &message.run_id,
            cursor: message.cursor,
            max_bytes: message.max_bytes,
        };
        let read = move |cursor, len| files.read_output(stream, cursor, len);
        let (bytes, next_cursor) = read_bytes(request, total_bytes, read).await?;
        let end = ended && next_cursor >= total_bytes;
        Ok(Response::new(v1::ReadOutputResponse { bytes, next_cursor, total_bytes, end }))
    }

    async fn read_artifact(
        &self,
        request: Request<v1::ReadArtifactRequest>,
    ) -> Result<Response<v1::ReadArtifactResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let (_, _, handle) = self.run(&tenant, &message.run_id).await?;
        let snapshot = handle.snapshot().await.map_err(|error| status::read(&error))?;
        let (report, files) = match snapshot.end {
            Some(RunEnd::Report(report)) => (report, snapshot.files),
            Some(RunEnd::NotStarted(why)) => return Err(status::not_started(&why)),
            None => return Err(status::failed(reason::NO_RUN_YET, "the run has not ended")),
        };
        let unknown = || status::invalid("name", "name: the run's report lists no such artefact");
        let (offset, total_bytes) = artifact::content_range(&report.artifacts, &message.name).ok_or_else(unknown)?;
        let request = ReadRequest {
            what: "the artefact",
            run: &message.run_id,
            cursor: message.cursor,
            max_bytes: message.max_bytes,
        };
        let read = move |cursor, len| files.read_artifacts(offset + cursor, len);
        let (bytes, next_cursor) = read_bytes(request, total_bytes, read).await?;
        let end = next_cursor >= total_bytes;
        Ok(Response::new(v1::ReadArtifactResponse { bytes, next_cursor, total_bytes, end }))
    }
}

/// Request for a range of a run's output or of an artefact.
struct ReadRequest<'a> {
    what: &'a str,
    run: &'a str,
    cursor: u64,
    max_bytes: u32,
}

/// The bytes, and the cursor after them.
async fn read_bytes(
    ReadRequest { what, run, cursor, max_bytes }: ReadRequest<'_>,
    total_bytes: u64,
    read: impl FnOnce(u64, usize) -> io::Result<Vec<u8>> + Send + 'static,
) -> Result<(Vec<u8>, u64), Status> {
    let cursor = cursor.min(total_bytes);
    let rest = usize::try_from(total_bytes - cursor).unwrap_or(usize::MAX);
    let len = CONTENT_PAGE.clamp(max_bytes).min(rest);
    match tokio::task::spawn_blocking(move || read(cursor, len)).await {
        Ok(Ok(bytes)) => {
            let next_cursor = cursor + bytes.len() as u64;
            Ok((bytes, next_cursor))
        }
        failed => {
            tracing::error!(?failed, run, "{what} could not be read back");
            Err(status::internal(format!("{what} could not be read back")))
        }
    }
}

async fn start(
    caller: AuthenticatedTenant,
    session: &SessionHandle,
    request: RunRequest,
    kind: RunKind,
    options: QueueOptions,
) -> Result<Response<EventStream>, Status> {
    call_record::set_limits(request.limits);
    let subscription = status::subscribe(&caller.tenant)?;
    let StartedRun { run, handle, attached_age_ms } =
        session.start(request, kind, options).await.map_err(|error| status::session(&error))?;
    call_record::set_run(run.as_str());
    traces::request::record_run(run.as_str(), attached_age_ms.is_some());
    if attached_age_ms.is_some() {
        call_record::set_existing();
    }
    let in_flight = Arc::clone(caller.tenant.allowance.in_flight());
    let (subscription, revocation) = caller.hold_until_revoked(RunSubscription::new(handle, subscription));
    let request = FollowRequest { run, subscription, revocation, cursor: 0, attached_age_ms, in_flight };
    Ok(Response::new(follow(request).await?))
}
