//! Rate-limits audit events that a caller can trigger at will. Each tenant has a number of lines per second, and the
//! rest is counted, so that no caller can push other events out of a log of bounded size.

use super::{AuditEvent, AuditRecord};
use proctor_core::bounds::AUDIT_LINES_PER_S_MAX;
use proctor_core::rate_limit::RateLimit;
use std::collections::BTreeMap;

/// How long a suppressed count waits for a line of its tenant before it gets its own, in nanoseconds.
pub(super) const FLUSH_INTERVAL_NS: u64 = 1_000_000_000;

/// State by tenant; unauthenticated callers share the key `None`. Tenants that are silent and have no suppressed lines
/// are removed.
#[derive(Debug, Default)]
pub(super) struct RateLimiter {
    tenants: BTreeMap<Option<String>, TenantState>,
    flushed_ns: u64,
}

#[derive(Debug, Default)]
struct TenantState {
    /// See [`RateLimit::admit`].
    due_ns: u64,
    suppressed: u64,
}

// Events that change nothing, or only what another line records. Operator calls and the beginning and end of sessions
// and runs are always logged.
fn is_rate_limited(line: &AuditRecord) -> bool {
    match line.event {
        AuditEvent::AuthenticationRefused
        | AuditEvent::Denied
        | AuditEvent::SessionFound
        | AuditEvent::RunJoined
        | AuditEvent::RunRefused
        | AuditEvent::RunCancelled
        | AuditEvent::ReportRead
        | AuditEvent::OutputRead
        | AuditEvent::ArtifactRead => true,
        AuditEvent::SessionCreated | AuditEvent::SessionClosed => line.outcome.as_deref() == Some("error"),
        _ => false,
    }
}

impl RateLimiter {
    /// Adds the lines that `line` leads to at this time, if any.
    pub(super) fn admit(&mut self, mut line: AuditRecord, now_ns: u64, lines: &mut Vec<AuditRecord>) {
        if line.event == AuditEvent::Stopped {
            self.flush_suppressed(u64::MAX, lines);
        }
        if is_rate_limited(&line) {
            let state = self.tenants.entry(line.tenant.clone()).or_default();
            match RateLimit::per_second(AUDIT_LINES_PER_S_MAX).admit(now_ns, state.due_ns) {
                Ok(due_ns) => state.due_ns = due_ns,
                Err(_) => {
                    state.suppressed += 1;
                    return;
                }
            }
        }
        let state = self.tenants.get_mut(&line.tenant);
        line.suppressed = state.map(|state| std::mem::take(&mut state.suppressed)).filter(|many| *many > 0);
        lines.push(line);
    }

    /// Whether suppressed counts may be due after some time.
    pub(super) fn is_pending(&self) -> bool {
        !self.tenants.is_empty()
    }

    /// Adds a line for each silent tenant with suppressed lines. Does nothing within [`FLUSH_INTERVAL_NS`] of the last
    /// time.
    pub(super) fn flush_suppressed(&mut self, now_ns: u64, lines: &mut Vec<AuditRecord>) {
        if now_ns.saturating_sub(self.flushed_ns) < FLUSH_INTERVAL_NS {
            return;
        }
        self.flushed_ns = now_ns;
        self.tenants.retain(|tenant, state| {
            let is_silent = state.due_ns <= now_ns;
            if is_silent && state.suppressed > 0 {
                lines.push(AuditRecord {
                    tenant: tenant.clone(),
                    suppressed: Some(state.suppressed),
                    ..AuditRecord::new(AuditEvent::Suppressed)
                });
            }
            !is_silent
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn line(event: AuditEvent, tenant: &str) -> AuditRecord {
        AuditRecord { tenant: Some(tenant.to_owned()), ..AuditRecord::new(event) }
    }

    #[test]
    fn a_flood_of_one_tenant_is_counted_and_does_not_affect_others() {
        let (mut limiter, mut lines) = (RateLimiter::default(), Vec::new());
        let failed = |event| AuditRecord { outcome: Some("error".to_owned()), ..line(event, "a") };
        for event in [
            line(AuditEvent::Denied, "a"),
            line(AuditEvent::SessionFound, "a"),
            line(AuditEvent::RunJoined, "a"),
            line(AuditEvent::RunRefused, "a"),
            line(AuditEvent::RunCancelled, "a"),
            line(AuditEvent::ReportRead, "a"),
            line(AuditEvent::OutputRead, "a"),
            line(AuditEvent::ArtifactRead, "a"),
            failed(AuditEvent::SessionCreated),
            failed(AuditEvent::SessionClosed),
        ] {
            (0..100).for_each(|_| limiter.admit(event.clone(), SECOND, &mut lines));
        }
        assert_eq!(lines.len(), AUDIT_LINES_PER_S_MAX as usize);
        limiter.admit(line(AuditEvent::Denied, "b"), SECOND, &mut lines);
        limiter.admit(AuditRecord::new(AuditEvent::AuthenticationRefused), SECOND, &mut lines);
        assert_eq!(lines.len(), AUDIT_LINES_PER_S_MAX as usize + 2, "each tenant has its own limit");
        assert!(lines.iter().all(|line| line.suppressed.is_none()));
        // The next line of the tenant has the count.
        limiter.admit(line(AuditEvent::RunFinished, "a"), SECOND, &mut lines);
        assert_eq!(lines.last().unwrap().suppressed, Some(990));
    }

    #[test]
    fn significant_events_are_never_suppressed() {
        let (mut limiter, mut lines) = (RateLimiter::default(), Vec::new());
        let events = [
            AuditEvent::SessionCreated,
            AuditEvent::SessionClosed,
            AuditEvent::SessionExpired,
            AuditEvent::RunAccepted,
            AuditEvent::RunFinished,
            AuditEvent::OperatorCall,
            AuditEvent::Reloaded,
        ];
        for event in events {
            let done = AuditRecord { outcome: Some("ok".to_owned()), ..line(event, "a") };
            (0..100).for_each(|_| limiter.admit(done.clone(), SECOND, &mut lines));
        }
        assert_eq!(lines.len(), 100 * events.len());
    }

    #[test]
    fn suppressed_counts_are_written_after_silence_and_before_the_end() {
        let (mut limiter, mut lines) = (RateLimiter::default(), Vec::new());
        let flood = |limiter: &mut RateLimiter, now| {
            let mut logged = Vec::new();
            (0..30).for_each(|_| limiter.admit(line(AuditEvent::Denied, "a"), now, &mut logged));
            logged
        };
        let logged = flood(&mut limiter, SECOND).len();
        limiter.flush_suppressed(SECOND + 1, &mut lines);
        assert!(lines.is_empty() && limiter.is_pending(), "the tenant may not be silent yet");
        limiter.flush_suppressed(3 * SECOND, &mut lines);
        assert_eq!((lines[0].event, lines[0].tenant.as_deref()), (AuditEvent::Suppressed, Some("a")));
        assert_eq!((lines[0].suppressed, lines.len()), (Some(30 - logged as u64), 1));
        assert!(!limiter.is_pending(), "silent tenants are removed");
        let logged = flood(&mut limiter, 4 * SECOND).len();
        limiter.admit(AuditRecord::new(AuditEvent::Stopped), 4 * SECOND, &mut lines);
        assert_eq!(
            lines[1..].iter().map(|line| line.event).collect::<Vec<_>>(),
            [AuditEvent::Suppressed, AuditEvent::Stopped]
        );
        assert_eq!(lines[1].suppressed, Some(30 - logged as u64));
    }
}
