//! The record of a call for the audit log: noted while it is answered, told when its answer begins. Must not decide anything
//! about the call.

use crate::audit::{Audit, Auth, Event, Line};
use crate::tenant::Caller;
use proctor_core::bound::clip;
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

/// Longest name of a session or a run that is repeated; ours are shorter.
const NAME_BYTES_MAX: usize = 64;

/// What a call has come to so far.
#[derive(Debug, Default)]
struct Record {
    tenant: Option<String>,
    auth: Option<Auth>,
    session: Option<String>,
    run: Option<String>,
    asked: Option<LimitRequest>,
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
    });
}

/// Notes the session that the call is about, as it was named.
pub(super) fn session(id: &str) {
    note(|record| record.session = Some(clip(id.to_owned(), NAME_BYTES_MAX)));
}

/// Notes the run that the call is about, as it was named.
pub(super) fn run(id: &str) {
    note(|record| record.run = Some(clip(id.to_owned(), NAME_BYTES_MAX)));
}

/// Notes the limits that the call asks for.
pub(super) fn limits(asked: LimitRequest) {
    note(|record| record.asked = Some(asked).filter(|asked| *asked != LimitRequest::default()));
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
        let (audit, began, answer) = (self.audit.clone(), Instant::now(), self.service.call(request));
        Box::pin(RECORD.scope(RefCell::default(), async move {
            let answer = answer.await?;
            // An error is all in the headers; a stream that has begun has none yet.
            let error = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok);
            if let Some(event) = event(&rpc, error.as_ref().map(Status::code)) {
                let record = RECORD.with(RefCell::take);
                let reason = error.as_ref().and_then(StatusExt::get_details_error_info).map(|info| info.reason);
                audit.tell(Line {
                    tenant: record.tenant,
                    auth: record.auth,
                    rpc: Some(rpc),
                    session: record.session,
                    run: record.run,
                    asked: record.asked,
                    outcome: Some(if error.is_none() { "ok" } else { "error" }.to_owned()),
                    duration_ms: Some(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)),
                    code: error.map(|status| format!("{:?}", status.code())),
                    reason,
                    ..Line::of(event)
                });
            }
            Ok(answer)
        }))
    }
}

// What a call is to the log; `None` for looks at what goes on, which agents take every second.
fn event(rpc: &str, error: Option<Code>) -> Option<Event> {
    let of_operators = rpc.starts_with("Host/");
    Some(match (rpc, error) {
        (_, Some(Code::Unauthenticated)) => Event::AuthenticationRefused,
        (_, Some(Code::PermissionDenied)) => Event::Denied,
        ("Sessions/CreateSession", _) => Event::SessionCreated,
        ("Sessions/CloseSession", _) => Event::SessionClosed,
        ("Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Results/ListTests", None) => {
            Event::RunAccepted
        }
        ("Runs/RunTests" | "Runs/RunFailingTests" | "Runs/RunAffectedTests" | "Results/ListTests", Some(_)) => {
            Event::RunRefused
        }
        ("Runs/CancelRun", _) => Event::RunCancelled,
        ("Runs/WatchRun" | "Runs/GetRun", _) => Event::ReportRead,
        ("Results/GetReport" | "Results/LastTestFailures" | "Results/AnalyzeFailures", _) => Event::ReportRead,
        ("Runs/ReadOutput", _) => Event::OutputRead,
        ("Runs/ReadArtifact", _) => Event::ArtifactRead,
        _ if of_operators => Event::OperatorCall,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_and_every_deed_is_an_event() {
        for rpc in ["Sessions/GetSession", "Sessions/ListSessions", "Runs/RunTests", "Host/GetHost"] {
            assert_eq!(event(rpc, Some(Code::Unauthenticated)), Some(Event::AuthenticationRefused));
            assert_eq!(event(rpc, Some(Code::PermissionDenied)), Some(Event::Denied));
        }
        assert_eq!(event("Runs/RunTests", None), Some(Event::RunAccepted));
        assert_eq!(event("Runs/RunTests", Some(Code::FailedPrecondition)), Some(Event::RunRefused));
        assert_eq!(event("Host/Drain", None), Some(Event::OperatorCall));
        assert_eq!(event("Sessions/GetSession", None), None);
    }
}
