//! Which lines of those are written that a caller can have as many of as it makes calls. Of each tenant so many a second have a
//! line, and the rest is counted: nobody can push what others did, or what it did itself, out of a log of bounded size. Must not
//! know files.

use super::{AuditEvent, AuditRecord};
use proctor_core::rate_limit::RateLimit;
use std::collections::BTreeMap;

/// Lines of one tenant in a second of those that are spared, and at once after a second of silence: who polls or guesses by hand
/// has each of them.
pub(super) const PER_SECOND: u32 = 10;

/// How long a count waits for a line of its tenant before it has one of its own, in nanoseconds.
pub(super) const SETTLE_NS: u64 = 1_000_000_000;

/// What has been spared, by tenant; callers who are none are one. Who has told all and is silent is not in it.
#[derive(Debug, Default)]
pub(super) struct Sparing {
    tenants: BTreeMap<Option<String>, Spared>,
    settled_ns: u64,
}

#[derive(Debug, Default)]
struct Spared {
    /// See [`RateLimit::admit`].
    due_ns: u64,
    suppressed: u64,
}

// What changes nothing, or nothing that another line does not tell. Whatever an operator does, or becomes a session or a run, or
// ends one, is told.
fn is_spared(line: &AuditRecord) -> bool {
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

impl Sparing {
    /// Adds what is written of a line at this time, if anything is.
    pub(super) fn take_in(&mut self, mut line: AuditRecord, now_ns: u64, lines: &mut Vec<AuditRecord>) {
        if line.event == AuditEvent::Stopped {
            self.settle(u64::MAX, lines);
        }
        if is_spared(&line) {
            let spared = self.tenants.entry(line.tenant.clone()).or_default();
            match RateLimit::per_second(PER_SECOND).admit(now_ns, spared.due_ns) {
                Ok(due_ns) => spared.due_ns = due_ns,
                Err(_) => {
                    spared.suppressed += 1;
                    return;
                }
            }
        }
        let spared = self.tenants.get_mut(&line.tenant);
        line.suppressed = spared.map(|spared| std::mem::take(&mut spared.suppressed)).filter(|many| *many > 0);
        lines.push(line);
    }

    /// Whether there is something to settle, once time has passed.
    pub(super) fn is_pending(&self) -> bool {
        !self.tenants.is_empty()
    }

    /// Adds a line for each tenant that has been silent since something of it was suppressed. Does nothing sooner than
    /// [`SETTLE_NS`] after the last time.
    pub(super) fn settle(&mut self, now_ns: u64, lines: &mut Vec<AuditRecord>) {
        if now_ns.saturating_sub(self.settled_ns) < SETTLE_NS {
            return;
        }
        self.settled_ns = now_ns;
        self.tenants.retain(|tenant, spared| {
            let is_silent = spared.due_ns <= now_ns;
            if is_silent && spared.suppressed > 0 {
                lines.push(AuditRecord {
                    tenant: tenant.clone(),
                    suppressed: Some(spared.suppressed),
                    ..AuditRecord::of(AuditEvent::Suppressed)
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
        AuditRecord { tenant: Some(tenant.to_owned()), ..AuditRecord::of(event) }
    }

    #[test]
    fn a_flood_of_one_tenant_is_counted_and_keeps_nothing_else_out() {
        let (mut sparing, mut lines) = (Sparing::default(), Vec::new());
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
            (0..100).for_each(|_| sparing.take_in(event.clone(), SECOND, &mut lines));
        }
        assert_eq!(lines.len(), PER_SECOND as usize);
        sparing.take_in(line(AuditEvent::Denied, "b"), SECOND, &mut lines);
        sparing.take_in(AuditRecord::of(AuditEvent::AuthenticationRefused), SECOND, &mut lines);
        assert_eq!(lines.len(), PER_SECOND as usize + 2, "others have their own");
        assert!(lines.iter().all(|line| line.suppressed.is_none()));
        // The next line of the tenant says how many.
        sparing.take_in(line(AuditEvent::RunFinished, "a"), SECOND, &mut lines);
        assert_eq!(lines.last().unwrap().suppressed, Some(990));
    }

    #[test]
    fn deeds_have_a_line_each() {
        let (mut sparing, mut lines) = (Sparing::default(), Vec::new());
        let deeds = [
            AuditEvent::SessionCreated,
            AuditEvent::SessionClosed,
            AuditEvent::SessionExpired,
            AuditEvent::RunAccepted,
            AuditEvent::RunFinished,
            AuditEvent::OperatorCall,
            AuditEvent::Reloaded,
        ];
        for event in deeds {
            let done = AuditRecord { outcome: Some("ok".to_owned()), ..line(event, "a") };
            (0..100).for_each(|_| sparing.take_in(done.clone(), SECOND, &mut lines));
        }
        assert_eq!(lines.len(), 100 * deeds.len());
    }

    #[test]
    fn what_was_suppressed_is_told_when_its_tenant_is_silent_and_before_the_end() {
        let (mut sparing, mut lines) = (Sparing::default(), Vec::new());
        let flood = |sparing: &mut Sparing, now| {
            let mut told = Vec::new();
            (0..30).for_each(|_| sparing.take_in(line(AuditEvent::Denied, "a"), now, &mut told));
            told
        };
        let told = flood(&mut sparing, SECOND).len();
        sparing.settle(SECOND + 1, &mut lines);
        assert!(lines.is_empty() && sparing.is_pending(), "it may go on");
        sparing.settle(3 * SECOND, &mut lines);
        assert_eq!((lines[0].event, lines[0].tenant.as_deref()), (AuditEvent::Suppressed, Some("a")));
        assert_eq!((lines[0].suppressed, lines.len()), (Some(30 - told as u64), 1));
        assert!(!sparing.is_pending(), "nobody is remembered for longer");
        let told = flood(&mut sparing, 4 * SECOND).len();
        sparing.take_in(AuditRecord::of(AuditEvent::Stopped), 4 * SECOND, &mut lines);
        assert_eq!(
            lines[1..].iter().map(|line| line.event).collect::<Vec<_>>(),
            [AuditEvent::Suppressed, AuditEvent::Stopped]
        );
        assert_eq!(lines[1].suppressed, Some(30 - told as u64));
    }
}
