//! The audit record of a call: collected while the call is handled, emitted when its answer starts or its caller
//! leaves.

use crate::ops::audit::{Audit, AuditEvent, AuditRecord, AuthMethod, UntrustedText};
use crate::telemetry::counters::Counters;
use crate::tenants::Caller;
use proctor_core::limits::LimitRequest;
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What is known of a call so far.
#[derive(Debug, Default)]
struct CallRecord {
    tenant: Option<String>,
    auth: Option<AuthMethod>,
    operator: bool,
    session: Option<UntrustedText>,
    run: Option<UntrustedText>,
    asked: Option<LimitRequest>,
    existing: bool,
}

tokio::task_local! {
    static RECORD: RefCell<CallRecord>;
}

// A call outside of an audited service, as in tests, has no record.
fn update(change: impl FnOnce(&mut CallRecord)) {
    _ = RECORD.try_with(|record| change(&mut record.borrow_mut()));
}

/// Records the caller.
pub(super) fn set_caller(caller: &Caller) {
    update(|record| {
        record.tenant = caller.tenant.as_ref().map(|tenant| tenant.id.to_string());
        record.auth = Some(caller.auth.clone());
        record.operator = caller.operator;
    });
}

/// Records the session id as the request gave it.
pub(super) fn set_session(id: &str) {
    update(|record| record.session = Some(id.into()));
}

/// Records the run id as the request gave it.
pub(super) fn set_run(id: &str) {
    update(|record| record.run = Some(id.into()));
}

/// Records the requested limits.
pub(super) fn set_limits(requested: LimitRequest) {
    update(|record| record.asked = Some(requested).filter(|limits| *limits != LimitRequest::default()));
}

/// Records that the requested session or run existed already.
pub(super) fn set_existing() {
    update(|record| record.existing = true);
}

/// A service whose calls are written to the audit log.
#[derive(Clone)]
pub(super) struct AuditedService<S> {
    pub(super) service: S,
    pub(super) audit: Audit,
    pub(super) counters: Arc<Counters>,
}

impl<S: NamedService> NamedService for AuditedService<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for AuditedService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let rpc = path.strip_prefix("/proctor.v1.").unwrap_or(path).to_owned();
        let (audit, counters) = (self.audit.clone(), Arc::clone(&self.counters));
        let answer = self.service.call(request);
        Box::pin(RECORD.scope(RefCell::default(), async move {
            let mut pending = PendingRecord { audit, counters, rpc: Some(rpc), started_at: Instant::now() };
            let answer = answer.await?;
            // An error status is complete in the headers; a stream that has started has none yet.
            let error = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok);
            pending.emit(error.as_ref());
            Ok(answer)
        }))
    }
}

/// The record of a call that has not been emitted. It is emitted on drop, because a caller may leave before the answer
/// while its request is carried out.
struct PendingRecord {
    audit: Audit,
    counters: Arc<Counters>,
    /// `None` once emitted.
    rpc: Option<String>,
    started_at: Instant,
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.emit(Some(&Status::cancelled("the caller left")));
    }
}

impl PendingRecord {
    fn count(&self, rpc: &str, error: Option<&Status>) {
        let us = u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.record_call(rpc, error.map_or(Code::Ok, Status::code), us);
        let info = error.and_then(StatusExt::get_details_error_info);
        let quota = info.as_ref().and_then(|info| info.metadata.get("quota"));
        quota.into_iter().for_each(|quota| self.counters.record_refusal(quota));
    }

    fn emit(&mut self, error: Option<&Status>) {
        let Some(rpc) = self.rpc.take() else { return };
        self.count(&rpc, error);
        let record = RECORD.try_with(RefCell::take).unwrap_or_default();
        // A caller that leaves undoes nothing: a run that was accepted exists.
        let is_done = record.run.is_some() || record.existing;
        let caller_left = |code: &Code| matches!(code, Code::Cancelled | Code::DeadlineExceeded);
        let refused = error.map(Status::code).filter(|code| !caller_left(code) || !is_done);
        let Some(event) = audit_event(&rpc, refused, &record) else { return };
        self.audit.record(AuditRecord {
            tenant: record.tenant,
            auth: record.auth,
            rpc: Some(rpc.into()),
            session: record.session,
            run: record.run,
            asked: record.asked,
            outcome: Some(if error.is_none() { "ok" } else { "error" }.to_owned()),
            duration_ms: Some(u64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(u64::MAX)),
            code: error.map(|status| format!("{:?}", status.code())),
            reason: error.and_then(StatusExt::get_details_error_info).map(|info| info.reason.into()),
            ..AuditRecord::new(event)
        });
    }
}

// The audit event of a call; `None` for status queries, which agents send every second.
fn audit_event(rpc: &str, error: Option<Code>, record: &CallRecord) -> Option<AuditEvent> {
    let existing = record.existing;
    Some(match (rpc, error) {
        (_, Some(Code::Unauthenticated)) => AuditEvent::AuthenticationRefused,
        (_, Some(Code::PermissionDenied)) => AuditEvent::Denied,
        ("Sessions/CreateSession", None) if existing => AuditEvent::SessionFound,
        ("Sessions/CreateSession", _) => AuditEvent::SessionCreated,
        ("Sessions/CloseSession", _) => AuditEvent::SessionClosed,
        (
            "Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Runs/RunChecks" | "Results/ListTests",
            None,
        ) => {
            if existing {
                AuditEvent::RunJoined
            } else {
                AuditEvent::RunAccepted
            }
        }
        (
            "Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Runs/RunChecks" | "Results/ListTests",
            Some(_),
        ) => AuditEvent::RunRefused,
        ("Runs/CancelRun", _) => AuditEvent::RunCancelled,
        ("Runs/WatchRun" | "Runs/GetRun", _) => AuditEvent::ReportRead,
        ("Results/GetReport" | "Results/LastTestFailures" | "Results/AnalyzeFailures", _) => AuditEvent::ReportRead,
        ("Runs/ReadOutput", _) => AuditEvent::OutputRead,
        ("Runs/ReadArtifact", _) => AuditEvent::ArtifactRead,
        // Each operator call is recorded, also one to an unknown method; other callers must not be able to fill the log
        // with those.
        _ if rpc.starts_with("Host/") && record.operator => AuditEvent::OperatorCall,
        _ if rpc.starts_with("Host/") => AuditEvent::Denied,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::ops::audit::AuditLogConfig;
    use proctor_core::bounds::AUDIT_FILE_BYTES;
    use std::convert::Infallible;
    use std::path::Path;
    use std::task::Waker;
    use tower::service_fn;

    fn lines(path: &Path) -> Vec<AuditRecord> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn records_a_call_whose_caller_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let config = AuditLogConfig { path: path.clone(), bytes_max: AUDIT_FILE_BYTES, keep: 0 };
        let audit = Audit::open(config, Clock::new()).unwrap();
        for (rpc, run) in [
            ("Sessions/CreateSession", None),
            ("Runs/RunTests", None),
            ("Runs/RunTests", Some("s-1")),
            ("Host/Drain", None),
        ] {
            // Records a session, and a run if it has one, and never answers.
            let slow = service_fn(move |_: Request<Body>| async move {
                set_session("s");
                _ = run.map(set_run);
                update(|record| record.operator = true);
                std::future::pending::<Result<Response<Body>, Infallible>>().await
            });
            let mut service = AuditedService { service: slow, audit: audit.clone(), counters: Arc::default() };
            let request = Request::builder().uri(format!("/proctor.v1.{rpc}")).body(Body::empty()).unwrap();
            let mut call = service.call(request);
            assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        audit.finish();
        let lines = lines(&path);
        for line in &lines {
            let ended = (line.session.as_deref(), line.outcome.as_deref(), line.code.as_deref());
            assert_eq!(ended, (Some("s"), Some("error"), Some("Cancelled")), "{line:?}");
        }
        let events: Vec<AuditEvent> = lines.iter().map(|line| line.event).collect();
        assert_eq!(
            events,
            [AuditEvent::SessionCreated, AuditEvent::RunRefused, AuditEvent::RunAccepted, AuditEvent::OperatorCall]
        );
        assert_eq!(lines[2].run.as_deref(), Some("s-1"));
    }

    #[test]
    fn every_refusal_and_every_change_is_an_event() {
        let event = |rpc, error, existing| {
            audit_event(rpc, error, &CallRecord { existing, operator: true, ..CallRecord::default() })
        };
        for rpc in ["Sessions/GetSession", "Sessions/ListSessions", "Runs/RunTests", "Host/GetHost"] {
            assert_eq!(event(rpc, Some(Code::Unauthenticated), false), Some(AuditEvent::AuthenticationRefused));
            assert_eq!(event(rpc, Some(Code::PermissionDenied), false), Some(AuditEvent::Denied));
        }
        assert_eq!(event("Runs/RunTests", None, false), Some(AuditEvent::RunAccepted));
        assert_eq!(event("Runs/RunTests", Some(Code::FailedPrecondition), false), Some(AuditEvent::RunRefused));
        assert_eq!(event("Runs/RunTests", None, true), Some(AuditEvent::RunJoined));
        assert_eq!(event("Sessions/CreateSession", None, false), Some(AuditEvent::SessionCreated));
        assert_eq!(event("Sessions/CreateSession", None, true), Some(AuditEvent::SessionFound));
        assert_eq!(
            event("Sessions/CreateSession", Some(Code::ResourceExhausted), false),
            Some(AuditEvent::SessionCreated)
        );
        assert_eq!(event("Host/Drain", None, false), Some(AuditEvent::OperatorCall));
        assert_eq!(event("Sessions/GetSession", None, false), None);
    }

    #[test]
    fn a_host_call_of_another_caller_is_denied_and_no_operator_call() {
        for code in [Code::Unimplemented, Code::ResourceExhausted, Code::Cancelled] {
            assert_eq!(
                audit_event("Host/X", Some(code), &CallRecord::default()),
                Some(AuditEvent::Denied),
                "a rate-limited event"
            );
        }
    }
}
