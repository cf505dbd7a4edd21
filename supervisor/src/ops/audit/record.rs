//! One line of the audit log: its events and fields, as `deploy/audit.example.jsonl` shows them.

use super::UntrustedText;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::timestamp::Timestamp;
use serde::{Deserialize, Serialize};
use time::format_description::BorrowedFormatItem;
use time::macros::{format_description, utc_datetime};
use time::{Duration, UtcDateTime};

/// RFC 3339 in UTC, always with three digits of the second's fraction: lines sort as text.
const RFC3339_MS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// The kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// The supervisor accepts calls.
    Started,
    /// The supervisor has ended in order; no line follows.
    Stopped,
    /// A reload of the host file was requested.
    Reloaded,
    /// A caller could not be authenticated.
    AuthenticationRefused,
    /// The caller asked for something that does not exist or is not its own.
    Denied,
    /// A session was created.
    SessionCreated,
    /// A session that exists already was requested again.
    SessionFound,
    /// A session was closed by its tenant.
    SessionClosed,
    /// A session was closed because it was idle.
    SessionExpired,
    /// A request was accepted as a run.
    RunAccepted,
    /// A request joined a run in progress.
    RunJoined,
    /// A request did not become a run. With code `Cancelled` the caller had left; if the request became a run
    /// nevertheless, the run's end is logged.
    RunRefused,
    /// A run ended, or did not start after all.
    RunFinished,
    /// A run was cancelled by a call.
    RunCancelled,
    /// A report, or failures of a report, were read or followed.
    ReportRead,
    /// The output of a run was read.
    OutputRead,
    /// An artifact of a run was read.
    ArtifactRead,
    /// An operator queried or changed the host.
    OperatorCall,
    /// Calls of this tenant, or of unauthenticated callers, that have no line; this line has their number.
    Suppressed,
}

impl AuditEvent {
    /// All events.
    pub const ALL: [AuditEvent; 19] = [
        AuditEvent::Started,
        AuditEvent::Stopped,
        AuditEvent::Reloaded,
        AuditEvent::AuthenticationRefused,
        AuditEvent::Denied,
        AuditEvent::SessionCreated,
        AuditEvent::SessionFound,
        AuditEvent::SessionClosed,
        AuditEvent::SessionExpired,
        AuditEvent::RunAccepted,
        AuditEvent::RunJoined,
        AuditEvent::RunRefused,
        AuditEvent::RunFinished,
        AuditEvent::RunCancelled,
        AuditEvent::ReportRead,
        AuditEvent::OutputRead,
        AuditEvent::ArtifactRead,
        AuditEvent::OperatorCall,
        AuditEvent::Suppressed,
    ];
}

/// How a caller was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthMethod {
    /// `unix` for a UID, `token` for a bearer token, `jwt` for a JSON web token, `certificate` for a TLS client.
    pub method: String,
    /// The UID, the first 16 digits of the token's hash in the host file, the JSON web token's subject, or the
    /// certificate's names. Never a credential.
    pub fingerprint: UntrustedText,
}

/// One line. Fields that are unknown or meaningless for the event are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Time of the event, RFC 3339 in UTC, in milliseconds.
    pub time: String,
    /// The kind of event.
    pub event: AuditEvent,
    /// The tenant of the caller, session or run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// How the caller was authenticated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub auth: Option<AuthMethod>,
    /// The call, such as `Runs/RunTests`, or what a browser asked of the page, such as `page/drain`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rpc: Option<UntrustedText>,
    /// The session, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<UntrustedText>,
    /// The run, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<UntrustedText>,
    /// Limits that the request asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<LimitRequest>,
    /// Limits in force.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limits: Option<Limits>,
    /// The outcome of a run, `not_started` if it did not start; for a call `ok` or `error`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<String>,
    /// Of a call until its response began, of a run since it was accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<u64>,
    /// The gRPC code of the error; `Cancelled` if the caller left before the response, which undoes nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The machine-readable reason, as in the error's details.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<UntrustedText>,
    /// Earlier lines that could not be written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<u64>,
    /// Earlier calls without a line because of the rate limit: of the same tenant, or of unauthenticated callers in a
    /// line without a tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suppressed: Option<u64>,
}

impl AuditRecord {
    /// A record with only its event set.
    #[must_use]
    pub fn new(event: AuditEvent) -> AuditRecord {
        AuditRecord {
            time: String::new(),
            event,
            tenant: None,
            auth: None,
            rpc: None,
            session: None,
            run: None,
            asked: None,
            limits: None,
            outcome: None,
            duration_ms: None,
            code: None,
            reason: None,
            lost: None,
            suppressed: None,
        }
    }

    pub(super) fn set_time(&mut self, now: Timestamp) {
        self.time = rfc3339(now);
    }
}

// A clock beyond the year 9999, the last of RFC 3339, is shown at the end of that year.
fn rfc3339(moment: Timestamp) -> String {
    let since_1970 = Duration::milliseconds(i64::try_from(moment.0).unwrap_or(i64::MAX));
    let time = UtcDateTime::UNIX_EPOCH.saturating_add(since_1970).min(utc_datetime!(9999-12-31 23:59:59.999));
    time.format(RFC3339_MS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_timestamps_as_rfc3339() {
        // Reference values from `date -u -d @SECONDS`.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_767_225_599, "2025-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
            (253_402_300_799, "9999-12-31T23:59:59.007Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(seconds * 1_000 + 7)), date);
        }
        for beyond in [253_402_300_800_000, u64::MAX] {
            assert_eq!(rfc3339(Timestamp(beyond)), "9999-12-31T23:59:59.999Z");
        }
    }
}
