//! The one conversion from errors to gRPC statuses, with the details that programs read. Must not know what led to an
//! error. No text of a status carries a path of this host.

use crate::allowance::{Allowance, Subscription};
use crate::prepare::PrepareError;
use crate::registry::CreateError;
use crate::run::NotStarted;
use crate::session::SessionError;
use crate::tenant::Tenant;
use crate::workspace::WorkspaceError;
use proctor_core::quota::Refused;
use proctor_core::session::Refusal;
use proctor_frameworks::PlanError;
use proctor_frameworks::detect::DetectError;
use proctor_proto::reason;
use std::collections::HashMap;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// When to try again after a quota was used up: runs end and sessions close within seconds.
const RETRY: Duration = Duration::from_secs(2);

/// When to try again while a supervisor goes down: another one is in its place within seconds.
const RETRY_ELSEWHERE: Duration = Duration::from_secs(5);

pub(super) fn unauthenticated(text: &str) -> Status {
    Status::unauthenticated(text)
}

pub(super) fn not_a_tenant() -> Status {
    Status::permission_denied("this caller is an operator and no tenant")
}

pub(super) fn denied(what: &str) -> Status {
    Status::permission_denied(format!("no such {what} of this tenant"))
}

pub(super) fn operators_only() -> Status {
    Status::permission_denied("for operators only")
}

pub(super) fn draining() -> Status {
    let details = ErrorDetails::with_retry_info(Some(RETRY_ELSEWHERE));
    Status::with_error_details(Code::Unavailable, Refusal::Draining.to_string(), details)
}

pub(super) fn not_in_this_version(what: &str) -> Status {
    Status::unimplemented(format!("{what} is not in this version"))
}

/// INVALID_ARGUMENT that names the field.
pub(super) fn invalid(field: &str, why: impl Into<String>) -> Status {
    let why = why.into();
    // Most explanations begin with the field already, because agents and people see only the text.
    let text = if why.starts_with(field) { why.clone() } else { format!("{field}: {why}") };
    Status::with_error_details(Code::InvalidArgument, text, ErrorDetails::with_bad_request_violation(field, why))
}

/// FAILED_PRECONDITION with a reason.
pub(super) fn failed(reason: &str, text: impl Into<String>) -> Status {
    failed_with(reason, text, HashMap::new())
}

fn failed_with(reason: &str, text: impl Into<String>, metadata: HashMap<String, String>) -> Status {
    let details = ErrorDetails::with_error_info(reason, reason::DOMAIN, metadata);
    Status::with_error_details(Code::FailedPrecondition, text, details)
}

fn exhausted(quota: &str, text: impl Into<String>) -> Status {
    out_of(quota, text.into(), Some(RETRY))
}

fn out_of(quota: &str, text: String, retry: Option<Duration>) -> Status {
    let mut details = retry.map(|retry| ErrorDetails::with_retry_info(Some(retry))).unwrap_or_default();
    details.add_quota_failure_violation(quota, text.clone());
    details.set_error_info(reason::QUOTA, reason::DOMAIN, HashMap::from([("quota".to_owned(), quota.to_owned())]));
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

pub(super) fn too_many_requests(allowance: &Allowance, wait: Duration) -> Status {
    let max = allowance.requests_per_second;
    out_of("requests", format!("quota `requests` is used up: {max} in a second"), Some(wait))
}

/// Takes a stream out of what the tenant may have.
pub(super) fn subscribe(tenant: &Tenant) -> Result<Subscription, Status> {
    let max = tenant.allowance.subscribers_max;
    let used_up = || exhausted("subscribers", format!("quota `subscribers` is used up: {max} streams of events"));
    tenant.allowance.subscribe().ok_or_else(used_up)
}

pub(super) fn create(error: &CreateError) -> Status {
    match error {
        CreateError::TooMany { .. } => exhausted("sessions", error.to_string()),
        CreateError::HostFull => exhausted("host_sessions", error.to_string()),
        CreateError::Draining => draining(),
        CreateError::Unavailable => Status::unavailable(error.to_string()),
    }
}

pub(super) fn workspace(error: &WorkspaceError, field: &str) -> Status {
    match error {
        WorkspaceError::Elsewhere => Status::permission_denied(format!("{field}: {error}")),
        WorkspaceError::NotAbsolute => invalid(field, format!("{field} {error}")),
        error => invalid(field, error.to_string()),
    }
}

pub(super) fn session(error: &SessionError) -> Status {
    match error {
        SessionError::Gone => denied("session"),
        SessionError::Host => Status::internal(error.to_string()),
        SessionError::Refused(refusal) => refused(refusal),
        SessionError::Prepare(error) => prepare(error),
        SessionError::Quota(refused) => quota(refused),
    }
}

fn quota(refused: &Refused) -> Status {
    let text = format!("quota `{}` is used up: {refused}", refused.quota());
    // What stays refused until somebody configures otherwise is not worth another try.
    out_of(refused.quota(), text, refused.is_transient().then_some(RETRY))
}

fn refused(refusal: &Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        Refusal::Busy => failed(reason::BUSY, text),
        Refusal::QueueFull => exhausted("queued_runs", text),
        Refusal::NoRunYet => failed(reason::NO_RUN_YET, text),
        Refusal::NothingToRerun { framework } => {
            failed_with(reason::NOTHING_TO_RERUN, text, HashMap::from([("framework".to_owned(), framework.clone())]))
        }
        Refusal::Draining => draining(),
        Refusal::Closing => denied("session"),
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
        PrepareError::ProjectFile { .. } => failed(reason::PROJECT_FILE, text),
        PrepareError::NetworkDenied => Status::permission_denied(text),
        PrepareError::PathNotUtf8 => invalid("workspace", text),
        PrepareError::WorkspaceReplaced => failed(reason::WORKSPACE_REPLACED, text),
        PrepareError::WorkspaceOwner { uid } => {
            failed_with(reason::WORKSPACE_OWNER, text, HashMap::from([("uid".to_owned(), uid.to_string())]))
        }
    }
}

pub(super) fn not_started(error: &NotStarted) -> Status {
    match error {
        NotStarted::Prepare(error) => prepare(error),
        NotStarted::Refused(refusal) => refused(refusal),
        NotStarted::Quota(refused) => quota(refused),
        NotStarted::Invalid { text } => invalid("command", text),
        NotStarted::LayerMissing { text } => failed(reason::LAYER_MISSING, text),
        NotStarted::LimitMissing { text } => failed(reason::LIMIT_MISSING, text),
        NotStarted::Host { text } => Status::internal(text),
    }
}
