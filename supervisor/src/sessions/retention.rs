//! What stays of a session's runs: their logs get their end, what they keep is counted and in time forgotten, and the audit log
//! has how each ended. Must not know how a run goes on.

use super::actor::Actor;
use crate::ops::audit::{self, AuditRecord};
use crate::runs::{LogWriter, RunEnd};
use crate::tenants::allowance::Reservation;
use proctor_core::id::RunId;
use proctor_core::session::Event;

impl Actor {
    /// Ends the log of a run that ended without its driver, unless it has its end.
    pub(super) async fn end_log(&mut self, run: &RunId, end: RunEnd) {
        let Some(known) = self.runs.get_mut(run).filter(|known| !known.ended) else { return };
        known.ended = true;
        let log = known.log.clone();
        let kept = self.keep(&log, &end).await;
        log.end(end, Some(kept)).await;
    }

    /// Counts what a run keeps, in memory and on the disk, until its log is gone.
    pub(super) async fn keep(&self, log: &LogWriter, end: &RunEnd) -> Reservation {
        let report = match end {
            RunEnd::Report(report) => report.memory_bytes() as u64,
            RunEnd::NotStarted(_) => 0,
        };
        let bytes = log.reserve_report(report).await;
        self.about.policy.now().retained.bytes.add(bytes)
    }

    /// Forgets earlier runs of the session while its tenant keeps too much.
    pub(super) async fn make_room(&mut self) {
        let policy = self.about.policy.now();
        while policy.retained.full().is_some() {
            let forgotten = self.session.step(self.about.context.clock.now(), Event::Crowded);
            if forgotten.is_empty() {
                break;
            }
            self.carry_out(forgotten).await;
        }
    }

    /// A line of the audit log about this session.
    pub(super) fn line(&self, event: audit::AuditEvent) -> AuditRecord {
        let (tenant, session) = (Some(self.about.policy.now().owner.clone()), Some(self.about.id.as_str().into()));
        AuditRecord { tenant, session, ..AuditRecord::new(event) }
    }

    /// Tells the audit log how an accepted run ended, once.
    pub(super) fn tell_end(&mut self, run: &RunId, end: &RunEnd) {
        let now = self.about.context.clock.now();
        let known = self.runs.get_mut(run);
        if known.as_ref().is_some_and(|known| known.told) {
            return;
        }
        let since = known.map(|known| {
            known.told = true;
            now.ms_since(known.accepted_at)
        });
        let (outcome, limits, reason) = match end {
            RunEnd::Report(report) => {
                let killed = report.evidence.killed.map(|killed| killed.name().into());
                (report.outcome.name(), Some(report.limits), killed)
            }
            RunEnd::NotStarted(why) => ("not_started", None, Some(why.to_string().into())),
        };
        self.about.context.audit.record(AuditRecord {
            run: Some(run.as_str().into()),
            outcome: Some(outcome.to_owned()),
            limits,
            reason,
            duration_ms: since,
            ..self.line(audit::AuditEvent::RunFinished)
        });
    }
}
