//! Errors of tool calls, and their texts for the agent: what is wrong and what helps.

use crate::arguments::ArgumentError;
use crate::certificate_errors::{self, CertificateFault};
use crate::supervisor_connection::ConnectError;
use proctor_proto::reason;
use std::error::Error as _;
use std::time::Duration;
use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// A tool call that could not be carried out.
#[derive(Debug, Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Opening the session failed.
    #[error("the workspace's session could not be opened")]
    Open(#[source] Status),
    /// The call itself failed.
    #[error("the supervisor refused")]
    Call(#[source] Status),
    /// The event stream of the run ended early and could not be resumed.
    #[error("the events of run {run_id} broke off")]
    StreamLost { run_id: String },
    /// The report is not a JSON object.
    #[error("the report of the run is not a JSON object")]
    MalformedReport,
}

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        CallError::Call(status)
    }
}

impl CallError {
    /// The machine-readable reason, if the supervisor gave one.
    pub(crate) fn reason(&self) -> Option<Reason> {
        let (CallError::Call(status) | CallError::Open(status)) = self else { return None };
        let info = status.get_details_error_info().filter(|info| info.domain == reason::DOMAIN)?;
        let framework = info.metadata.get("framework").cloned().unwrap_or_default();
        Some(Reason { name: info.reason, framework })
    }

    /// The time after which the supervisor may take the request, if it gave one.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        let (CallError::Call(status) | CallError::Open(status)) = self else { return None };
        retry_delay(status)
    }

    /// Whether the connection failed, rather than the supervisor refused. A status made by the local client has a source;
    /// a status received from the supervisor has none.
    pub(crate) fn is_lost_connection(&self) -> bool {
        matches!(self, CallError::Call(status) | CallError::Open(status) if status.source().is_some())
    }

    /// The text for the agent. `is_private`: whether this process started the supervisor.
    pub(crate) fn text(&self, tool: &str, is_private: bool) -> String {
        match self {
            CallError::Argument(error) => error.to_string(),
            CallError::Connect(error) => connect_text(tool, error, is_private),
            CallError::Open(status) if status.code() == Code::PermissionDenied => format!(
                "{tool}: the supervisor does not let this tenant open the workspace ({}). It must lie below one of the \
                 tenant's workspace roots; check --workspace and --token-file, or ask the operator.",
                status.message()
            ),
            CallError::Open(status) | CallError::Call(status) => self.status_text(tool, status, is_private),
            CallError::StreamLost { .. } if is_private => lost_connection_text(tool, is_private),
            CallError::StreamLost { run_id } => format!(
                "{tool}: the connection to the supervisor broke off during the run. Ask get_run {{\"run_id\":\
                 \"{run_id}\"}} whether it has ended, or call {tool} again."
            ),
            CallError::MalformedReport => format!(
                "{tool}: {self}. proctor-mcp and its supervisor may be of different versions: install both from one package."
            ),
        }
    }

    fn status_text(&self, tool: &str, status: &Status, is_private: bool) -> String {
        // A server rejects a client certificate only after the connection is established (TLS 1.3).
        if let Some(CertificateFault { what, remedy }) = status.source().and_then(certificate_errors::find_fault) {
            return format!("{tool}: {what}. {remedy}");
        }
        // A local status, whatever its code: its message describes HTTP/2, which does not help an agent.
        if self.is_lost_connection() {
            return lost_connection_text(tool, is_private);
        }
        let message = status.message();
        match status.code() {
            // Agents parse these two messages.
            Code::InvalidArgument => message.to_owned(),
            Code::FailedPrecondition => match self.reason().as_ref().map(|reason| reason.name.as_str()) {
                Some(reason::RUNNER_MISSING) => format!("{tool}: {message}"),
                // The supervisor advises to open a new session. The shim has tried that, and an agent has no tool for it.
                Some(reason::WORKSPACE_REPLACED) => format!(
                    "{tool}: the workspace's directory was moved or removed, and there is none in its place that can be opened. \
                     Put it back, then call {tool} again."
                ),
                _ => message.to_owned(),
            },
            Code::PermissionDenied => format!(
                "{tool}: {message}. The session or run is not this tenant's, or does not exist any more; without run_id \
                 the last run is meant, and run_tests starts a new one."
            ),
            Code::Unauthenticated => format!(
                "{tool}: the supervisor does not recognise the caller ({message}). Pass --token-file with the tenant's \
                 token to proctor-mcp, or --cert and --key with its certificate, or ask the operator."
            ),
            Code::ResourceExhausted => format!("{tool}: {message}. {}", retry_advice(status)),
            Code::Unavailable if self.reason().is_some_and(|reason| reason.name == reason::HOST_FAILED) => {
                format!(
                    "{tool}: the build host is the cause, not the tests: {message}. Try again in {}s.",
                    retry_seconds(status)
                )
            }
            Code::Unavailable => {
                format!("{tool}: the supervisor takes no new work now ({message}). Try again in a minute.")
            }
            Code::Unimplemented => format!("{tool}: this supervisor cannot do that yet ({message})."),
            code => format!("{tool}: {message} ({code:?})"),
        }
    }
}

/// A machine-readable reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    /// One of `proctor_proto::reason`.
    pub(crate) name: String,
    /// The framework concerned; may be empty.
    pub(crate) framework: String,
}

fn lost_connection_text(tool: &str, is_private: bool) -> String {
    let remedy = match is_private {
        true => format!(
            "Call {tool} again: another private one is started, which knows nothing of earlier runs; why this one ended is on \
             proctor-mcp's stderr."
        ),
        false => format!("Call {tool} again when it runs; its operator can tell why it does not."),
    };
    format!("{tool}: the connection to the supervisor is lost. {remedy}")
}

fn connect_text(tool: &str, error: &ConnectError, is_private: bool) -> String {
    if let Some(CertificateFault { what, remedy }) = certificate_errors::find_fault(error) {
        return format!("{tool}: {what}. {remedy}");
    }
    let cause = error.source().map(|source| format!(": {}", root_cause(source))).unwrap_or_default();
    let remedy = match error {
        ConnectError::Private(_) => {
            "Install `proctor` beside proctor-mcp or on PATH, name it with --proctor-binary, or use a running \
             supervisor with --supervisor unix:PATH."
        }
        ConnectError::Token(_) => "Check --token-file.",
        ConnectError::Tls { .. } | ConnectError::NoAuthority => "Check --ca, --cert and --key.",
        ConnectError::TlsExpected => {
            "Write https:// in --supervisor, and name the certificates of its authorities with --ca."
        }
        _ if is_private => {
            "Call it again: another private one is started; why this one ended is on proctor-mcp's stderr."
        }
        // rustls reports an answer that is not TLS by this name.
        ConnectError::Connect(_) if cause.contains("InvalidContentType") => {
            "It does not speak TLS there: write http:// in --supervisor, or name the port where it does."
        }
        ConnectError::Connect(_) | ConnectError::Handshake(_) | ConnectError::Timeout => {
            "Check that it runs and that --supervisor names its address; without --supervisor a private one is started."
        }
    };
    format!("{tool}: {error}{cause}. {remedy}")
}

// The innermost cause is the specific one: "No such file or directory".
fn root_cause<'a>(mut error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

fn retry_delay(status: &Status) -> Option<Duration> {
    status.get_details_retry_info().and_then(|info| info.retry_delay)
}

fn retry_seconds(status: &Status) -> u64 {
    retry_delay(status).map_or(1, whole_seconds)
}

/// A delay in seconds, rounded up: a retry before its end is refused again.
pub(crate) fn whole_seconds(delay: Duration) -> u64 {
    delay.as_secs() + u64::from(delay.subsec_nanos() > 0)
}

fn retry_advice(status: &Status) -> String {
    match retry_delay(status) {
        Some(_) => {
            format!("Try again in {}s, or wait for a run that is going on with get_run.", retry_seconds(status))
        }
        None => "Wait for a run that is going on with get_run, or cancel it, and try again.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tonic_types::ErrorDetails;

    fn failed(reason: &str, message: &str) -> CallError {
        let metadata = HashMap::from([("framework".to_owned(), "go".to_owned())]);
        let details = ErrorDetails::with_error_info(reason, reason::DOMAIN, metadata);
        Status::with_error_details(Code::FailedPrecondition, message, details).into()
    }

    #[test]
    fn only_the_text_for_a_missing_runner_names_the_tool() {
        let text = failed(reason::RUNNER_MISSING, "go: not found on PATH").text("run_tests", false);
        assert_eq!(text, "run_tests: go: not found on PATH");
        let message = "no supported project detected in workspace root";
        assert_eq!(failed(reason::NO_PROJECT, message).text("run_tests", false), message);
        let filter = CallError::from(Status::invalid_argument("filter cannot contain '..'"));
        assert_eq!(filter.text("run_tests", false), "filter cannot contain '..'");
    }

    #[test]
    fn a_reason_carries_its_framework() {
        let reason = failed(reason::NOTHING_TO_RERUN, "").reason().unwrap();
        assert_eq!(reason, Reason { name: reason::NOTHING_TO_RERUN.into(), framework: "go".into() });
        assert_eq!(CallError::from(Status::internal("x")).reason(), None);
    }

    #[test]
    fn a_quota_error_says_when_to_try_again() {
        let details = ErrorDetails::with_retry_info(Some(Duration::from_secs(7)));
        let status = Status::with_error_details(Code::ResourceExhausted, "8 runs wait already", details);
        let text = CallError::from(status).text("run_tests", false);
        assert!(text.starts_with("run_tests: 8 runs wait already. Try again in 7s"), "{text}");
    }

    #[test]
    fn a_host_failure_is_named_as_the_cause() {
        let mut details = ErrorDetails::with_retry_info(Some(Duration::from_secs(2)));
        details.set_error_info(reason::HOST_FAILED, reason::DOMAIN, HashMap::new());
        let message = "the host has no memory left: nothing was run, and the same request may be sent again";
        let text =
            CallError::from(Status::with_error_details(Code::Unavailable, message, details)).text("run_tests", false);
        let cause =
            "run_tests: the build host is the cause, not the tests: the host has no memory left: nothing was run";
        assert!(text.starts_with(cause) && text.ends_with("Try again in 2s."), "{text}");
    }

    #[test]
    fn distinguishes_draining_from_a_lost_connection() {
        let draining = CallError::from(Status::unavailable("draining")).text("run_tests", false);
        assert!(draining.contains("takes no new work now"), "{draining}");
        let lost = Status::from_error(Box::new(std::io::Error::other("gone")));
        let lost = CallError::from(lost);
        for is_private in [false, true] {
            let text = lost.text("run_tests", is_private);
            assert!(
                text.starts_with("run_tests: the connection to the supervisor is lost. Call run_tests again"),
                "{text}"
            );
            assert_eq!(text.contains("private"), is_private, "{text}");
        }
        let mut lost = Status::from_error(Box::new(std::io::Error::other("gone")));
        lost = Status::with_details(Code::ResourceExhausted, "h2 protocol error", lost.details().to_vec().into());
        lost.set_source(std::sync::Arc::new(std::io::Error::other("gone")));
        let text = CallError::from(lost).text("run_tests", false);
        assert!(text.contains("is lost") && !text.contains("h2"), "{text}");
    }
}
