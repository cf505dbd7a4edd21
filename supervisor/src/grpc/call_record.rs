//! The record of a call for the audit log: noted while it is answered, told when its answer begins or its caller leaves. Must
//! not decide anything about the call.

use crate::ops::audit::{Audit, AuditEvent, AuditRecord, AuthMethod, UntrustedText};
use crate::tenants::Caller;
use proctor_core::limits::LimitRequest;
use std::cell::RefCell;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What a call has come to so far.
#[derive(Debug, Default)]
struct Record {
    tenant: Option<String>,
    auth: Option<AuthMethod>,
    operator: bool,
    session: Option<UntrustedText>,
    run: Option<UntrustedText>,
    asked: Option<LimitRequest>,
    found: bool,
}

tokio::task_local! {
    static RECORD: RefCell<Record>;
}

// A call that is made outside of a recorded service, as tests do, leaves no record.
fn note(what: impl FnOnce(&mut Record)) {
    _ = RECORD.try_with(|record| what(&mut record.borrow_mut()));
}

/// Notes who calls.
pub(super) fn caller(caller: &Caller) {
    note(|record| {
        record.tenant = caller.tenant.as_ref().map(|tenant| tenant.id.to_string());
        record.auth = Some(caller.auth.clone());
        record.operator = caller.operator;
    });
}

/// Notes the session that the call is about, as it was named.
pub(super) fn session(id: &str) {
    note(|record| record.session = Some(id.into()));
}

/// Notes the run that the call is about, as it was named.
pub(super) fn run(id: &str) {
    note(|record| record.run = Some(id.into()));
}

/// Notes the limits that the call asks for.
pub(super) fn limits(asked: LimitRequest) {
    note(|record| record.asked = Some(asked).filter(|asked| *asked != LimitRequest::default()));
}

/// Notes that what the call asks for, a session or a run, was there already.
pub(super) fn found() {
    note(|record| record.found = true);
}

/// A service whose calls are told to the audit log.
#[derive(Clone)]
pub(super) struct Recorded<S> {
    pub(super) service: S,
    pub(super) audit: Audit,
}

impl<S: NamedService> NamedService for Recorded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for Recorded<S>
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
        let (audit, answer) = (self.audit.clone(), self.service.call(request));
        Box::pin(RECORD.scope(RefCell::default(), async move {
            let mut untold = Untold { audit, rpc: Some(rpc), began: Instant::now() };
            let answer = answer.await?;
            // An error is all in the headers; a stream that has begun has none yet.
            let error = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok);
            untold.tell(error.as_ref());
            Ok(answer)
        }))
    }
}

/// A call that has no line yet. Its caller may leave before the answer, and what was asked for is done all the same.
struct Untold {
    audit: Audit,
    /// `None` once it is told.
    rpc: Option<String>,
    began: Instant,
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.tell(Some(&Status::cancelled("the caller left")));
    }
}

impl Untold {
    fn tell(&mut self, error: Option<&Status>) {
        let Some(rpc) = self.rpc.take() else { return };
        let record = RECORD.try_with(RefCell::take).unwrap_or_default();
        // Whoever leaves, or waits no longer, takes nothing back: a run that it was to be told of is there.
        let is_done = record.run.is_some() || record.found;
        let left = |code: &Code| matches!(code, Code::Cancelled | Code::DeadlineExceeded);
        let refused = error.map(Status::code).filter(|code| !left(code) || !is_done);
        let Some(event) = event(&rpc, refused, &record) else { return };
        self.audit.record(AuditRecord {
            tenant: record.tenant,
            auth: record.auth,
            rpc: Some(rpc.into()),
            session: record.session,
            run: record.run,
            asked: record.asked,
            outcome: Some(if error.is_none() { "ok" } else { "error" }.to_owned()),
            duration_ms: Some(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)),
            code: error.map(|status| format!("{:?}", status.code())),
            reason: error.and_then(StatusExt::get_details_error_info).map(|info| info.reason.into()),
            ..AuditRecord::new(event)
        });
    }
}

// What a call is to the log; `None` for looks at what goes on, which agents take every second.
fn event(rpc: &str, error: Option<Code>, record: &Record) -> Option<AuditEvent> {
    let found = record.found;
    Some(match (rpc, error) {
        (_, Some(Code::Unauthenticated)) => AuditEvent::AuthenticationRefused,
        (_, Some(Code::PermissionDenied)) => AuditEvent::Denied,
        ("Sessions/CreateSession", None) if found => AuditEvent::SessionFound,
        ("Sessions/CreateSession", _) => AuditEvent::SessionCreated,
        ("Sessions/CloseSession", _) => AuditEvent::SessionClosed,
        ("Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Results/ListTests", None) => {
            if found {
                AuditEvent::RunJoined
            } else {
                AuditEvent::RunAccepted
            }
        }
        ("Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Results/ListTests", Some(_)) => {
            AuditEvent::RunRefused
        }
        ("Runs/CancelRun", _) => AuditEvent::RunCancelled,
        ("Runs/WatchRun" | "Runs/GetRun", _) => AuditEvent::ReportRead,
        ("Results/GetReport" | "Results/LastTestFailures" | "Results/AnalyzeFailures", _) => AuditEvent::ReportRead,
        ("Runs/ReadOutput", _) => AuditEvent::OutputRead,
        ("Runs/ReadArtifact", _) => AuditEvent::ArtifactRead,
        // Each of an operator's has a line, which nobody else is to have by calling what there is not.
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
    use std::convert::Infallible;
    use std::path::Path;
    use std::task::Waker;
    use tower::service_fn;

    fn lines(path: &Path) -> Vec<AuditRecord> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_call_whose_caller_leaves_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let place = AuditLogConfig { path: path.clone(), bytes_max: AuditLogConfig::BYTES_MAX, keep: 0 };
        let audit = Audit::open(place, Clock::new()).unwrap();
        for (rpc, run) in [
            ("Sessions/CreateSession", None),
            ("Runs/RunTests", None),
            ("Runs/RunTests", Some("s-1")),
            ("Host/Drain", None),
        ] {
            // Notes a session, and a run if it has one, and never answers.
            let slow = service_fn(move |_: Request<Body>| async move {
                session("s");
                _ = run.map(super::run);
                note(|record| record.operator = true);
                std::future::pending::<Result<Response<Body>, Infallible>>().await
            });
            let mut service = Recorded { service: slow, audit: audit.clone() };
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
    fn every_refusal_and_every_deed_is_an_event() {
        let told = |rpc, error, found| event(rpc, error, &Record { found, operator: true, ..Record::default() });
        for rpc in ["Sessions/GetSession", "Sessions/ListSessions", "Runs/RunTests", "Host/GetHost"] {
            assert_eq!(told(rpc, Some(Code::Unauthenticated), false), Some(AuditEvent::AuthenticationRefused));
            assert_eq!(told(rpc, Some(Code::PermissionDenied), false), Some(AuditEvent::Denied));
        }
        assert_eq!(told("Runs/RunTests", None, false), Some(AuditEvent::RunAccepted));
        assert_eq!(told("Runs/RunTests", Some(Code::FailedPrecondition), false), Some(AuditEvent::RunRefused));
        assert_eq!(told("Runs/RunTests", None, true), Some(AuditEvent::RunJoined));
        assert_eq!(told("Sessions/CreateSession", None, false), Some(AuditEvent::SessionCreated));
        assert_eq!(told("Sessions/CreateSession", None, true), Some(AuditEvent::SessionFound));
        assert_eq!(
            told("Sessions/CreateSession", Some(Code::ResourceExhausted), false),
            Some(AuditEvent::SessionCreated)
        );
        assert_eq!(told("Host/Drain", None, false), Some(AuditEvent::OperatorCall));
        assert_eq!(told("Sessions/GetSession", None, false), None);
    }

    #[test]
    fn what_is_no_operators_is_not_told_as_an_operators_deed() {
        for code in [Code::Unimplemented, Code::ResourceExhausted, Code::Cancelled] {
            assert_eq!(event("Host/X", Some(code), &Record::default()), Some(AuditEvent::Denied), "which is spared");
        }
    }
}
