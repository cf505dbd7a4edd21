//! JSON-RPC errors of requests that are no tool calls: reading resources, and following tasks. Code and `data.reason` say
//! which of the causes it is, so that a client need not read the text.

use crate::call_error::{CallError, whole_seconds};
use proctor_proto::reason;
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value};
use tonic::Code;

/// Code of the error when the supervisor cannot be reached.
pub(crate) const SUPERVISOR_LOST: ErrorCode = ErrorCode(-32_003);

/// Code of the error when the supervisor takes no such request now, but may later: a quota is used up, or it is shutting
/// down. `data.retry_after_s` says when, in seconds, if the supervisor knows.
pub(crate) const TRY_LATER: ErrorCode = ErrorCode(-32_004);

/// The cause when the supervisor cannot be reached; it has no reason of its own for that.
const LOST: &str = "SUPERVISOR_LOST";

/// What a request named and the supervisor does not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Resource,
    Task,
}

/// The error of a request about `named`. `is_private`: whether this process started the supervisor.
pub(crate) fn request_error(named: Named, method: &str, error: &CallError, is_private: bool) -> ErrorData {
    tracing::info!(method, ?error, "the request failed");
    let text = error.text(method, is_private);
    let reason = error.reason().map(|reason| reason.name);
    let is_forgotten = reason.as_deref() == Some(reason::RUN_FORGOTTEN);
    let (code, text, reason) = match error {
        CallError::Argument(_) => (ErrorCode::INVALID_PARAMS, text, Some(reason::INVALID_ARGUMENT.to_owned())),
        CallError::Connect(_) | CallError::StreamLost { .. } => (SUPERVISOR_LOST, text, Some(LOST.to_owned())),
        _ if error.is_lost_connection() => (SUPERVISOR_LOST, text, Some(LOST.to_owned())),
        CallError::Call(_) if is_forgotten => {
            (named.not_found(), format!("{} has expired: the session keeps the last runs only", named.noun()), reason)
        }
        // The supervisor says the same of what is another tenant's and of what does not exist.
        CallError::Call(status) if status.code() == Code::PermissionDenied => {
            let text = format!("{} is not known: it is another caller's, or does not exist any more", named.noun());
            (named.not_found(), text, Some(reason::NOT_YOURS.to_owned()))
        }
        // A name that the run's report does not list.
        CallError::Call(status) if status.code() == Code::InvalidArgument => (named.not_found(), text, reason),
        CallError::Call(status) | CallError::Open(status) if is_temporary(status.code()) => (TRY_LATER, text, reason),
        _ => (ErrorCode::INTERNAL_ERROR, text, reason),
    };
    let retry_after = error.retry_delay().map(|delay| ("retry_after_s", Value::from(whole_seconds(delay))));
    let data = reason.map(|reason| ("reason", Value::from(reason))).into_iter().chain(retry_after);
    let data: Map<String, Value> = data.map(|(name, value)| (name.to_owned(), value)).collect();
    ErrorData::new(code, text, (!data.is_empty()).then_some(Value::Object(data)))
}

fn is_temporary(code: Code) -> bool {
    matches!(code, Code::ResourceExhausted | Code::Unavailable)
}

impl Named {
    // MCP has a code for resources, and none for tasks.
    fn not_found(self) -> ErrorCode {
        match self {
            Named::Resource => ErrorCode::RESOURCE_NOT_FOUND,
            Named::Task => ErrorCode::INVALID_PARAMS,
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Named::Resource => "the run of this resource",
            Named::Task => "the run of this task",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::HashMap;
    use std::time::Duration;
    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt as _};

    fn refusal(code: Code, reason: &str) -> CallError {
        let details = ErrorDetails::with_error_info(reason, reason::DOMAIN, HashMap::new());
        Status::with_error_details(code, "no", details).into()
    }

    #[test]
    fn tells_the_causes_apart() {
        let lost = CallError::from(Status::from_error(Box::new(std::io::Error::other("gone"))));
        for (error, code, reason) in [
            (refusal(Code::PermissionDenied, reason::NOT_YOURS), ErrorCode::RESOURCE_NOT_FOUND, reason::NOT_YOURS),
            (refusal(Code::NotFound, reason::RUN_FORGOTTEN), ErrorCode::RESOURCE_NOT_FOUND, reason::RUN_FORGOTTEN),
            (
                refusal(Code::InvalidArgument, reason::INVALID_ARGUMENT),
                ErrorCode::RESOURCE_NOT_FOUND,
                reason::INVALID_ARGUMENT,
            ),
            (refusal(Code::Unavailable, reason::HOST_FAILED), TRY_LATER, reason::HOST_FAILED),
            (refusal(Code::Internal, reason::HOST_FAILED), ErrorCode::INTERNAL_ERROR, reason::HOST_FAILED),
            (lost, SUPERVISOR_LOST, LOST),
            (CallError::StreamLost { run_id: "r".into() }, SUPERVISOR_LOST, LOST),
        ] {
            let data = request_error(Named::Resource, "resources/read", &error, false);
            assert_eq!((data.code, data.data), (code, Some(json!({"reason": reason}))), "{error:?}");
        }
        let task = request_error(Named::Task, "tasks/get", &refusal(Code::PermissionDenied, reason::NOT_YOURS), false);
        assert_eq!(task.code, ErrorCode::INVALID_PARAMS);
    }

    #[test]
    fn names_the_time_after_which_a_retry_helps() {
        let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(2_500)));
        details.set_error_info("QUOTA", reason::DOMAIN, HashMap::new());
        let full = CallError::from(Status::with_error_details(Code::ResourceExhausted, "8 runs wait already", details));
        let data = request_error(Named::Task, "tasks/get", &full, false);
        assert_eq!((data.code, data.data), (TRY_LATER, Some(json!({"reason": "QUOTA", "retry_after_s": 3}))));
    }
}
