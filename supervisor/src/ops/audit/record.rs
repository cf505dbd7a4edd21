//! One line of the audit log: its events and its fields, as `deploy/audit.example.jsonl` shows them. Must not know where it
//! is written.

use super::UntrustedText;
use crate::calendar::Date;
use proctor_core::limits::{LimitRequest, Limits};
use proctor_core::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// The supervisor takes calls.
    Started,
    /// The supervisor has ended in order: nothing follows.
    Stopped,
    /// The host file was asked to be read anew.
    Reloaded,
    /// Who called could not be told.
    AuthenticationRefused,
    /// What was asked for is not the caller's, or not there.
    Denied,
    /// A session was created.
    SessionCreated,
    /// A session was asked for that was there already.
    SessionFound,
    /// A session was closed by its tenant.
    SessionClosed,
    /// A session was closed because nobody used it.
    SessionExpired,
    /// A request became a run.
    RunAccepted,
    /// A request joined a run that goes on.
    RunJoined,
    /// A request did not become a run. With the code `Cancelled` its caller had left; if it became one all the same, that is told
    /// when it ends.
    RunRefused,
    /// A run ended, or turned out not to start.
    RunFinished,
    /// A run was asked to end.
    RunCancelled,
    /// A report, or failures out of one, were read or followed.
    ReportRead,
    /// A run's output was read.
    OutputRead,
    /// A file that a run left was read.
    ArtifactRead,
    /// An operator asked about the host, or changed it.
    OperatorCall,
    /// Nothing happened: calls of this tenant, or of nobody who is known, have no line, and this one says how many.
    Suppressed,
}

impl AuditEvent {
    /// All of them.
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

/// How a caller is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthMethod {
    /// `unix` for a user id, `token` for a bearer token, `jwt` for a JSON web token, `certificate` for a TLS client.
    pub method: String,
    /// The user id, the first 16 digits of what the host file has of the token, the JSON web token's subject, or the
    /// certificate's names. Never a credential.
    pub fingerprint: UntrustedText,
}

/// One line. What is not known or means nothing for the event is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// When it was told, RFC 3339 in UTC, to the millisecond.
    pub time: String,
    /// What happened.
    pub event: AuditEvent,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// How the caller was known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub auth: Option<AuthMethod>,
    /// The call, `Runs/RunTests`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rpc: Option<UntrustedText>,
    /// The session, as it was named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<UntrustedText>,
    /// The run, as it was named.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<UntrustedText>,
    /// Limits that were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked: Option<LimitRequest>,
    /// Limits that held.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limits: Option<Limits>,
    /// How a run ended; `not_started` for one that came to nothing. How a call ended: `ok`, or `error`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub outcome: Option<String>,
    /// Of a call until its answer began, of a run from when it was accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<u64>,
    /// gRPC's name of the error; `Cancelled` where the caller left before the answer, which undoes nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// The reason that programs read, as in the error's details.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<UntrustedText>,
    /// Lines before this one that could not be written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lost: Option<u64>,
    /// Calls before this line that have none, as there were too many: of its tenant; in a line without a tenant, of callers who
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suppressed: Option<u64>,
}

impl AuditRecord {
    /// A line of which nothing but the event is known.
    #[must_use]
    pub fn of(event: AuditEvent) -> AuditRecord {
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

    pub(super) fn at(&mut self, now: Timestamp) {
        self.time = rfc3339(now);
    }
}

fn rfc3339(moment: Timestamp) -> String {
    let (seconds, ms) = (moment.0 / 1_000, moment.0 % 1_000);
    let (Date { year, month, day }, second) = (Date::from_days(seconds / 86_400), seconds % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_as_a_date() {
        // Checked against `date -u -d @SECONDS`.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (951_868_800, "2000-03-01T00:00:00.007Z"),
            (1_767_225_599, "2025-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(rfc3339(Timestamp(seconds * 1_000 + 7)), date);
        }
    }
}
