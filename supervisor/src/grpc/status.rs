//! The one conversion from errors to gRPC statuses, with the details that programs read. No status text contains a path
//! of this host.

use crate::history::HistoryError;
use crate::runs::prepare::PrepareError;
use crate::runs::{NotStarted, ReadError};
use crate::sessions::SessionError;
use crate::sessions::registry::CreateError;
use crate::tenants::Tenant;
use crate::tenants::allowance::{Allowance, Reservation};
use crate::workspace::WorkspaceError;
use proctor_core::bounds::{
    RETRY_DELAY, RETRY_ELSEWHERE_DELAY, STATUS_FIELD_BYTES_MAX, STATUS_TEXT_BYTES_MAX, UNREAD_BYTES_MAX, clip,
};
use proctor_core::quota::QuotaExceeded;
use proctor_core::session::StartRejected;
use proctor_frameworks::PlanError;
use proctor_frameworks::checks::NoChecker;
use proctor_frameworks::detection::DetectError;
use proctor_proto::{printable, reason};
use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;
use tonic::codegen::http::HeaderMap;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

// Every status of this crate is built here, so each has a reason.
fn status(code: Code, reason: &str, metadata: &[(&str, &str)], text: String, mut details: ErrorDetails) -> Status {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    details.set_error_info(reason, reason::DOMAIN, metadata.collect::<HashMap<_, _>>());
    // The text may quote the caller, and a person may read it.
    let text = printable::block(&text).into_owned();
    Status::with_error_details(code, clip(text, STATUS_TEXT_BYTES_MAX), details)
}

fn plain(code: Code, reason: &str, text: impl Into<String>) -> Status {
    status(code, reason, &[], text.into(), ErrorDetails::new())
}

/// Adds a reason to a status in `headers` or trailers that has none: those of the transport, health, reflection, and
/// INTERNAL.
pub(super) fn add_missing_reason(headers: &mut HeaderMap) {
    let Some(status) = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok) else { return };
    let mut details = status.get_error_details();
    if details.error_info().is_some() {
        return;
    }
    details.set_error_info(code_name(status.code()), reason::DOMAIN, HashMap::new());
    let status_with_reason = Status::with_error_details(status.code(), status.message(), details);
    if status_with_reason.add_header(headers).is_err() {
        tracing::error!(%status, "a status could not be encoded in headers");
    }
}

/// Name of a code in the gRPC documentation.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

pub(super) fn unauthenticated(text: &str) -> Status {
    plain(Code::Unauthenticated, reason::UNAUTHENTICATED, text)
}

pub(super) fn not_a_tenant() -> Status {
    plain(Code::PermissionDenied, reason::NOT_A_TENANT, "this caller is an operator, not a tenant")
}

pub(super) fn denied(what: &str) -> Status {
    plain(Code::PermissionDenied, reason::NOT_YOURS, format!("no such {what} of this tenant"))
}

/// For an operator: no such run is unfinished.
pub(super) fn run_ended() -> Status {
    failed(reason::RUN_ENDED, "no run with this id is queued or running")
}

pub(super) fn operators_only() -> Status {
    plain(Code::PermissionDenied, reason::OPERATORS_ONLY, "for operators only")
}

pub(super) fn draining() -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_ELSEWHERE_DELAY));
    status(Code::Unavailable, reason::DRAINING, &[], StartRejected::Draining.to_string(), details)
}

/// The service or method does not exist.
pub(super) fn no_such_method() -> Status {
    plain(Code::Unimplemented, code_name(Code::Unimplemented), "no such service or method")
}

/// An internal error.
pub(super) fn internal(text: impl Into<String>) -> Status {
    plain(Code::Internal, code_name(Code::Internal), text)
}

/// The cursor is beyond the run's next event.
pub(super) fn cursor_beyond(cursor: u64, next: u64) -> Status {
    plain(Code::OutOfRange, reason::CURSOR_BEYOND, format!("cursor {cursor} is beyond the run's next event {next}"))
}

/// The history cannot be read.
pub(super) fn history(error: &HistoryError) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    status(Code::Unavailable, reason::HISTORY_UNAVAILABLE, &[], format!("history unavailable: {error}"), details)
}

/// UNAVAILABLE caused by the host.
fn host_failed(text: impl Into<String>) -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_DELAY));
    status(Code::Unavailable, reason::HOST_FAILED, &[], text.into(), details)
}

/// The host could not read a run's output: the stream can be resumed at that event.
pub(super) fn output_unreadable(sequence: u64) -> Status {
    host_failed(format!("the output of event {sequence} could not be read back: watch the run from there again"))
}

/// INVALID_ARGUMENT that names the field.
pub(super) fn invalid(field: &str, why: impl Into<String>) -> Status {
    let (field, why) = (clip(field.to_owned(), STATUS_FIELD_BYTES_MAX), clip(why.into(), STATUS_TEXT_BYTES_MAX));
    // Most explanations start with the field already, because agents and people see only the text.
    let text = if why.starts_with(&field) { why.clone() } else { format!("{field}: {why}") };
    let details = ErrorDetails::with_bad_request_violation(field.clone(), why);
    status(Code::InvalidArgument, reason::INVALID_ARGUMENT, &[("field", &field)], text, details)
}

/// FAILED_PRECONDITION with a reason.
pub(super) fn failed(reason: &str, text: impl Into<String>) -> Status {
    failed_with(reason, text, &[])
}

fn failed_with(reason: &str, text: impl Into<String>, metadata: &[(&str, &str)]) -> Status {
    status(Code::FailedPrecondition, reason, metadata, text.into(), ErrorDetails::new())
}

fn used_up(quota: &str, how: impl Display) -> String {
    format!("quota `{quota}` is used up: {how}")
}

fn exhausted(quota: &str, text: impl Into<String>) -> Status {
    out_of(quota, text.into(), Some(RETRY_DELAY))
}

fn out_of(quota: &str, text: String, retry: Option<Duration>) -> Status {
    let mut details = retry.map(|retry| ErrorDetails::with_retry_info(Some(retry))).unwrap_or_default();
    details.add_quota_failure_violation(quota, clip(text.clone(), STATUS_TEXT_BYTES_MAX));
    status(Code::ResourceExhausted, reason::QUOTA, &[("quota", quota)], text, details)
}

pub(super) fn too_many_requests(allowance: &Allowance, wait: Duration) -> Status {
    let max = allowance.requests_per_second;
    out_of("requests_per_second", used_up("requests_per_second", format!("{max} in a second")), Some(wait))
}

/// The caller has too many bytes of unanswered requests.
pub(super) fn too_much_unanswered(bytes_max: u64) -> Status {
    exhausted("request_bytes", used_up("request_bytes", format!("{bytes_max} bytes of requests that are not answered")))
}

/// A request without authentication is larger than `bytes_max`; a retry cannot succeed.
pub(super) fn too_large(bytes_max: u64) -> Status {
    let text = format!("a request without authentication may have at most {bytes_max} bytes");
    plain(Code::OutOfRange, reason::REQUEST_TOO_LARGE, text)
}

/// The request did not arrive completely in time.
pub(super) fn request_late(within: Duration) -> Status {
    let text = format!("the request did not arrive within {} s", within.as_secs());
    plain(Code::DeadlineExceeded, reason::REQUEST_LATE, text)
}

/// The caller's own deadline has passed.
pub(super) fn deadline_exceeded() -> Status {
    let text = "there was no answer within the caller's own deadline (`grpc-timeout`)";
    plain(Code::DeadlineExceeded, reason::DEADLINE_EXCEEDED, text)
}

/// The caller reads its answers too slowly.
pub(super) fn too_much_unread() -> Status {
    let text = "read the pending answers, or request less at a time";
    let text = format!("quota `answer_bytes` is used up: {UNREAD_BYTES_MAX} bytes of answers are unread: {text}");
    exhausted("answer_bytes", text)
}

/// The caller did not read an answer to its end in time.
pub(super) fn response_unread(within: Duration) -> Status {
    let text = format!(
        "quota `answer_time` is used up: an answer must be read within {} s: send the request again",
        within.as_secs()
    );
    exhausted("answer_time", text)
}

pub(super) fn too_many_open_calls(max: u32) -> Status {
    exhausted(
        "open_calls",
        format!("quota `open_calls` is used up: {max} calls of health and reflection on a connection"),
    )
}

/// Reserves one of the tenant's event streams.
pub(super) fn subscribe(tenant: &Tenant) -> Result<Reservation, Status> {
    let max = tenant.allowance.subscribers_max;
    let full = || exhausted("subscribers", used_up("subscribers", format!("{max} streams of events")));
    tenant.allowance.subscribe().ok_or_else(full)
}

pub(super) fn create(error: &CreateError) -> Status {
    match error {
        CreateError::TooMany { .. } => exhausted("sessions_max", used_up("sessions_max", error)),
        CreateError::HostFull => exhausted("host.sessions_max", used_up("host.sessions_max", error)),
        CreateError::Draining => draining(),
        CreateError::Unavailable => plain(Code::Unavailable, code_name(Code::Unavailable), error.to_string()),
    }
}

pub(super) fn workspace(error: &WorkspaceError, field: &str) -> Status {
    match error {
        WorkspaceError::OutsideRoots => {
            plain(Code::PermissionDenied, reason::WORKSPACE_ELSEWHERE, format!("{field}: {error}"))
        }
        WorkspaceError::NotAbsolute => invalid(field, format!("{field} {error}")),
        WorkspaceError::Host(cause) => {
            tracing::error!(error = %cause, "a workspace cannot be read");
            host_failed(format!("{error}: the same request may be sent again"))
        }
        error => invalid(field, error.to_string()),
    }
}

pub(super) fn session(error: &SessionError) -> Status {
    match error {
        SessionError::Gone => denied("session"),
        SessionError::Host => internal(error.to_string()),
        SessionError::TooMany { .. } => exhausted("session_looks", used_up("session_looks", error)),
        SessionError::Rejected(refusal) => start_rejected(refusal),
        SessionError::Prepare(error) => prepare(error),
    }
}

fn quota(exceeded: &QuotaExceeded) -> Status {
    if *exceeded == QuotaExceeded::UnknownTenant {
        return denied("session");
    }
    let name = exceeded.quota();
    if exceeded.is_transient() {
        return exhausted(name, used_up(name, exceeded));
    }
    // A quota that only a configuration change can satisfy is not used up, and a retry has no chance.
    out_of(name, exceeded.to_string(), None)
}

fn start_rejected(refusal: &StartRejected) -> Status {
    let text = refusal.to_string();
    match refusal {
        StartRejected::Busy => failed(reason::BUSY, text),
        StartRejected::QueueFull => exhausted("session_queued_runs", used_up("session_queued_runs", text)),
        StartRejected::Quota(exceeded) => quota(exceeded),
        StartRejected::NoRunYet => failed(reason::NO_RUN_YET, text),
        StartRejected::NothingToRerun { framework } => {
            failed_with(reason::NOTHING_TO_RERUN, text, &[("framework", framework)])
        }
        StartRejected::Draining => draining(),
        StartRejected::Closing => denied("session"),
    }
}

pub(super) fn prepare(error: &PrepareError) -> Status {
    let text = error.to_string();
    match error {
        PrepareError::Detect(DetectError::NoProject) => failed(reason::NO_PROJECT, text),
        PrepareError::Detect(DetectError::Polyglot { .. }) => failed(reason::POLYGLOT, text),
        PrepareError::Detect(DetectError::NotHere { .. }) => failed(reason::FRAMEWORK_NOT_HERE, text),
        PrepareError::Detect(DetectError::Unknown { .. }) => invalid("framework", text),
        PrepareError::Plan(PlanError::FileOutsideProject { .. }) => invalid("files", text),
        PrepareError::Plan(PlanError::TooManySteps { .. }) => failed(reason::TOO_MANY_COMMANDS, text),
        PrepareError::Plan(PlanError::NotApplicable { option, .. }) => invalid(option, text),
        PrepareError::RunnerMissing { .. } => failed(reason::RUNNER_MISSING, text),
        PrepareError::ProjectFile(_)
        | PrepareError::Plan(
            PlanError::ScopeNotApplicable { .. }
            | PlanError::ScopeSplitsPackage { .. }
            | PlanError::ScopeTooLarge
            | PlanError::ScopeLeavesNothing { .. },
        ) => failed(reason::PROJECT_FILE, text),
        PrepareError::NoChecker(NoChecker::NotHere { .. } | NoChecker::NoneSetUp { .. }) => {
            failed(reason::NO_CHECKER, text)
        }
        PrepareError::NoChecker(NoChecker::Unknown { .. } | NoChecker::OtherKind { .. }) => invalid("checkers", text),
        PrepareError::NoChecker(NoChecker::NotForFiles { .. } | NoChecker::Outside { .. }) => invalid("files", text),
        PrepareError::CheckerMissing { .. } => failed(reason::RUNNER_MISSING, text),
        PrepareError::NothingToCheck { since } => failed_with(reason::NOTHING_AFFECTED, text, &[("since", since)]),
        PrepareError::NothingAffected(summary) => {
            let (since, left_out) = (summary.since.as_str(), summary.left_out.to_string());
            failed_with(reason::NOTHING_AFFECTED, text, &[("since", since), ("left_out", &left_out)])
        }
        PrepareError::Since(_) => invalid("since", text),
        PrepareError::NetworkDenied => plain(Code::PermissionDenied, reason::NETWORK_DENIED, text),
        PrepareError::PathNotUtf8 => invalid("workspace", text),
        PrepareError::HostFailed { .. } => host_failed(text),
        PrepareError::WorkspaceReplaced => failed(reason::WORKSPACE_REPLACED, text),
        PrepareError::WorkspaceOwner { uid } => {
            failed_with(reason::WORKSPACE_OWNER, text, &[("uid", &uid.to_string())])
        }
    }
}

pub(super) fn read(error: &ReadError) -> Status {
    match error {
        // For a caller that had the run's handle before the run was forgotten; a later caller finds no such run.
        ReadError::Forgotten => failed(reason::RUN_FORGOTTEN, error.to_string()),
        ReadError::TooMany { .. } => exhausted("run_readers", used_up("run_readers", error)),
    }
}

pub(super) fn not_started(error: &NotStarted) -> Status {
    match error {
        NotStarted::Prepare(error) => prepare(error),
        NotStarted::Rejected(refusal) => start_rejected(refusal),
        NotStarted::Quota(exceeded) => quota(exceeded),
        NotStarted::Invalid { text } => invalid("command", text),
        NotStarted::LayerMissing { text } => failed(reason::LAYER_MISSING, text),
        NotStarted::LimitMissing { text } => failed(reason::LIMIT_MISSING, text),
        NotStarted::Host { text } => internal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::ReadError;
    use std::io;

    #[test]
    fn a_host_failure_is_unavailable_with_a_reason_and_a_retry_delay_and_without_a_path() {
        let short = || io::Error::from_raw_os_error(24); // EMFILE
        let for_workspace = workspace(&WorkspaceError::Host(short()), "workspace");
        let for_run = prepare(&WorkspaceError::Host(short()).into());
        for status in [for_workspace, for_run] {
            let info = status.get_details_error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (Code::Unavailable, reason::HOST_FAILED));
            assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(RETRY_DELAY));
            assert!(status.message().starts_with("the supervisor has no file descriptor left: "), "{status}");
            assert!(status.message().ends_with("the same request may be sent again"), "{status}");
        }
        let gone = prepare(&WorkspaceError::Replaced.into());
        assert_eq!(gone.get_details_error_info().unwrap().reason, reason::WORKSPACE_REPLACED);
    }

    fn all() -> Vec<(Status, Code, &'static str)> {
        use Code::*;
        let (second, session) = (Duration::from_secs(1), SessionError::Gone);
        let no_program = PrepareError::RunnerMissing { program: "go".into(), is_there: false };
        let text = || "why".to_owned();
        let nothing = StartRejected::NothingToRerun { framework: "go".into() };
        let too_many = PlanError::TooManySteps { steps: 2, max: 1 };
        vec![
            (unauthenticated("why"), Unauthenticated, reason::UNAUTHENTICATED),
            (not_a_tenant(), PermissionDenied, reason::NOT_A_TENANT),
            (denied("run"), PermissionDenied, reason::NOT_YOURS),
            (run_ended(), FailedPrecondition, reason::RUN_ENDED),
            (operators_only(), PermissionDenied, reason::OPERATORS_ONLY),
            (draining(), Unavailable, reason::DRAINING),
            (prepare(&PrepareError::NothingAffected(Box::default())), FailedPrecondition, reason::NOTHING_AFFECTED),
            (history(&HistoryError::Newer), Unavailable, reason::HISTORY_UNAVAILABLE),
            (no_such_method(), Unimplemented, "UNIMPLEMENTED"),
            (internal("why"), Internal, "INTERNAL"),
            (cursor_beyond(2, 1), OutOfRange, reason::CURSOR_BEYOND),
            (output_unreadable(1), Unavailable, reason::HOST_FAILED),
            (invalid("limit", "why"), InvalidArgument, reason::INVALID_ARGUMENT),
            (failed(reason::BUSY, "why"), FailedPrecondition, reason::BUSY),
            (too_much_unanswered(1), ResourceExhausted, reason::QUOTA),
            (too_large(1), OutOfRange, reason::REQUEST_TOO_LARGE),
            (request_late(second), DeadlineExceeded, reason::REQUEST_LATE),
            (deadline_exceeded(), DeadlineExceeded, reason::DEADLINE_EXCEEDED),
            (too_much_unread(), ResourceExhausted, reason::QUOTA),
            (response_unread(second), ResourceExhausted, reason::QUOTA),
            (too_many_open_calls(1), ResourceExhausted, reason::QUOTA),
            (create(&CreateError::TooMany { max: 1 }), ResourceExhausted, reason::QUOTA),
            (create(&CreateError::HostFull), ResourceExhausted, reason::QUOTA),
            (create(&CreateError::Draining), Unavailable, reason::DRAINING),
            (create(&CreateError::Unavailable), Unavailable, "UNAVAILABLE"),
            (workspace(&WorkspaceError::OutsideRoots, "workspace"), PermissionDenied, reason::WORKSPACE_ELSEWHERE),
            (workspace(&WorkspaceError::NotADirectory, "workspace"), InvalidArgument, reason::INVALID_ARGUMENT),
            (super::session(&session), PermissionDenied, reason::NOT_YOURS),
            (super::session(&SessionError::Host), Internal, "INTERNAL"),
            (super::session(&SessionError::TooMany { max: 1 }), ResourceExhausted, reason::QUOTA),
            (quota(&QuotaExceeded::UnknownTenant), PermissionDenied, reason::NOT_YOURS),
            (quota(&QuotaExceeded::RunningRuns), ResourceExhausted, reason::QUOTA),
            (start_rejected(&StartRejected::QueueFull), ResourceExhausted, reason::QUOTA),
            (start_rejected(&StartRejected::NoRunYet), FailedPrecondition, reason::NO_RUN_YET),
            (start_rejected(&nothing), FailedPrecondition, reason::NOTHING_TO_RERUN),
            (start_rejected(&StartRejected::Closing), PermissionDenied, reason::NOT_YOURS),
            (prepare(&DetectError::NoProject.into()), FailedPrecondition, reason::NO_PROJECT),
            (prepare(&DetectError::Polyglot { names: vec![] }.into()), FailedPrecondition, reason::POLYGLOT),
            (failed(reason::FRAMEWORK_NOT_HERE, "why"), FailedPrecondition, reason::FRAMEWORK_NOT_HERE),
            (failed(reason::PROJECT_FILE, "why"), FailedPrecondition, reason::PROJECT_FILE),
            (prepare(&NoChecker::NoneSetUp { known: vec![] }.into()), FailedPrecondition, reason::NO_CHECKER),
            (prepare(&NoChecker::Outside { file: text() }.into()), InvalidArgument, reason::INVALID_ARGUMENT),
            (prepare(&PrepareError::CheckerMissing { text: text() }), FailedPrecondition, reason::RUNNER_MISSING),
            (prepare(&PrepareError::NothingToCheck { since: text() }), FailedPrecondition, reason::NOTHING_AFFECTED),
            (prepare(&too_many.into()), FailedPrecondition, reason::TOO_MANY_COMMANDS),
            (prepare(&no_program), FailedPrecondition, reason::RUNNER_MISSING),
            (prepare(&PrepareError::NetworkDenied), PermissionDenied, reason::NETWORK_DENIED),
            (prepare(&PrepareError::WorkspaceReplaced), FailedPrecondition, reason::WORKSPACE_REPLACED),
            (prepare(&PrepareError::WorkspaceOwner { uid: 1 }), FailedPrecondition, reason::WORKSPACE_OWNER),
            (read(&ReadError::Forgotten), FailedPrecondition, reason::RUN_FORGOTTEN),
            (not_started(&NotStarted::Invalid { text: text() }), InvalidArgument, reason::INVALID_ARGUMENT),
            (not_started(&NotStarted::LayerMissing { text: text() }), FailedPrecondition, reason::LAYER_MISSING),
            (not_started(&NotStarted::LimitMissing { text: text() }), FailedPrecondition, reason::LIMIT_MISSING),
            (not_started(&NotStarted::Host { text: text() }), Internal, "INTERNAL"),
        ]
    }

    #[test]
    fn every_error_has_its_reason_and_every_reason_an_error() {
        let all = all();
        for (status, code, reason) in &all {
            let info = status.get_details_error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str(), info.domain.as_str()), (*code, *reason, reason::DOMAIN));
        }
        let documented = include_str!("../../../proto/src/reason.rs").lines();
        for name in documented.filter_map(|line| line.strip_prefix("pub const ")?.split_once(':')).map(|(name, _)| name)
        {
            assert!(
                name == "DOMAIN" || all.iter().any(|(_, _, reason)| *reason == name),
                "no error has the reason {name}"
            );
        }
    }

    #[test]
    fn adds_a_reason_to_a_foreign_status_and_keeps_the_rest() {
        for (status, reason) in [(Status::not_found("no service x"), "NOT_FOUND"), (denied("run"), reason::NOT_YOURS)] {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            add_missing_reason(&mut headers);
            let changed = Status::from_header_map(&headers).unwrap();
            assert_eq!((changed.code(), changed.message()), (status.code(), status.message()));
            assert_eq!(changed.get_details_error_info().unwrap().reason, reason);
        }
        let mut fine = HeaderMap::new();
        Status::ok("").add_header(&mut fine).unwrap();
        let before = fine.clone();
        add_missing_reason(&mut fine);
        assert_eq!(fine, before);
    }

    #[test]
    fn a_used_up_quota_has_a_retry_delay_and_a_too_small_one_has_none() {
        let full = quota(&QuotaExceeded::QueuedRuns { max: 3 });
        assert_eq!(full.message(), "quota `queued_runs` is used up: 3 runs of this tenant wait already");
        assert!(full.get_details_retry_info().is_some_and(|info| info.retry_delay.is_some()));
        let none = quota(&QuotaExceeded::RunningRuns);
        assert_eq!(none.message(), "this tenant may have no runs");
        assert!(none.get_details_retry_info().is_none_or(|info| info.retry_delay.is_none()));
        for (status, name) in [(full, "queued_runs"), (none, "running_runs")] {
            assert_eq!(status.get_details_error_info().unwrap().metadata["quota"], name);
        }
    }

    #[test]
    fn reports_the_quota_to_one_reader_too_many() {
        let status = read(&ReadError::TooMany { max: 7 });
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.get_details_error_info().unwrap().metadata["quota"], "run_readers");
        assert!(status.get_details_retry_info().unwrap().retry_delay.is_some());
        assert_eq!(status.message(), "quota `run_readers` is used up: 7 readers wait for this run already");
        let forgotten = read(&ReadError::Forgotten);
        let info = forgotten.get_details_error_info().unwrap();
        assert_eq!((forgotten.code(), info.reason.as_str()), (Code::FailedPrecondition, reason::RUN_FORGOTTEN));
    }
}
