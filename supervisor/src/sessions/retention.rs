//! Retention of a session's runs: ends their logs, counts what they keep and forgets it in time, and writes their audit
//! records.

use super::SessionShared;
use super::actor::Actor;
use crate::ops::audit::{self, AuditRecord};
use crate::runs::{LogWriter, RunEnd};
use crate::tenants::allowance::Reservation;
use proctor_core::id::RunId;
use proctor_core::request::RunKind;
use proctor_core::session::SessionEvent;

impl Actor {
    /// Ends the log of a run that ended without its driver, unless the log has ended.
    pub(super) async fn end_log(&mut self, run: &RunId, end: RunEnd) {
        let Some(entry) = self.runs.get_mut(run).filter(|entry| !entry.ended) else { return };
        entry.ended = true;
        std::mem::take(&mut entry.trace).finish(&end);
        let log = entry.log.clone();
        let retained = self.count_retained(&log, &end).await;
        log.end(end, Some(retained)).await;
    }

    /// Counts what a run keeps, in memory and on disk, until its log is gone.
    pub(super) async fn count_retained(&mut self, log: &LogWriter, end: &RunEnd) -> Reservation {
        let report = match end {
            RunEnd::Report(report) => report.memory_bytes() as u64,
            RunEnd::NotStarted(_) => 0,
        };
        let bytes = log.reserve_report(report).await;
        self.shared.policy.usage.retained.bytes.add(bytes)
    }

    /// Forgets earlier runs of the session while its tenant exceeds its retention quota.
    pub(super) async fn enforce_retention(&mut self) {
        let policy = self.shared.policy.now();
        while self.shared.policy.usage.retained.exceeded(&policy.quota).is_some() {
            let effects = self.session.step(self.shared.context.clock.now(), SessionEvent::RetentionExceeded);
            if effects.is_empty() {
                break;
            }
            self.carry_out(effects).await;
        }
    }

    /// An audit record about this session.
    pub(super) fn audit_record(&self, event: audit::AuditEvent) -> AuditRecord {
        let (tenant, session) = (Some(self.shared.policy.now().owner.clone()), Some(self.shared.id.as_str().into()));
        AuditRecord { tenant, session, ..AuditRecord::new(event) }
    }

    /// Writes the audit record of the end of an accepted run, once.
    pub(super) fn audit_end(&mut self, run: &RunId, end: &RunEnd) {
        let now = self.shared.context.clock.now();
        let entry = self.runs.get_mut(run);
        if entry.as_ref().is_some_and(|entry| entry.audited) {
            return;
        }
        let kind = entry.as_ref().map_or(RunKind::Tests, |entry| entry.kind);
        let SessionShared { context, policy, streak, .. } = &*self.shared;
        context.counters.record_run(end, kind, &policy.usage.runs);
        if let (RunEnd::Report(report), RunKind::Tests) = (end, kind) {
            streak.record(report.outcome, now);
        }
        let since = entry.map(|entry| {
            entry.audited = true;
            now.ms_since(entry.accepted_at)
        });
        let (outcome, limits, reason) = match end {
            RunEnd::Report(report) => {
                let killed = report.evidence.killed.map(|killed| killed.name().into());
                (report.outcome.name(), Some(report.limits), killed)
            }
            RunEnd::NotStarted(why) => ("not_started", None, Some(why.to_string().into())),
        };
        self.shared.context.audit.record(AuditRecord {
            run: Some(run.as_str().into()),
            outcome: Some(outcome.to_owned()),
            limits,
            reason,
            duration_ms: since,
            ..self.audit_record(audit::AuditEvent::RunFinished)
        });
    }
}
