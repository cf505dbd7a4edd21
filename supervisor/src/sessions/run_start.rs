//! The start of a run: scans for its request, decides it once, and hands it to its driver when the session is free.

use super::actor::{Actor, Place, RunEntry, StartingRun};
use super::pending_scans::{Reply, ScanFor, ScanRequest, Scanned};
use super::{SessionError, StartRequest, StartedRun};
use crate::runs::prepare::{PrepareError, ReadyRun};
use crate::runs::scheduler::{EnterError, RunSlot, SlotRequest};
use crate::runs::{self, FinishedRun, KillOnDrop, NotStarted, RunEnd, RunKiller, RunTask, Spools};
use crate::telemetry::traces::run::{RunTrace, ScanTrace};
use crate::tenants::allowance::Reservation;
use proctor_core::coverage::RunCoverage;
use proctor_core::event::RunEvent;
use proctor_core::id::{RunId, TenantId};
use proctor_core::queue::{Priority, QueueEntry};
use proctor_core::quota::{Amount, QuotaExceeded};
use proctor_core::request::{Fingerprint, IfBusy, RunKind, RunRequest, Selection};
use proctor_core::session::{Effect, SessionEvent, StartRejected};
use proctor_sandbox::exhausted_resource;
use std::sync::Arc;
use tokio::runtime::Handle;
use tracing::Span;

impl Actor {
    pub(super) async fn handle_scans(&mut self, results: Vec<(ScanFor, Result<Scanned, SessionError>)>) {
        for (purpose, result) in results {
            match (purpose, result) {
                // The caller has left, and its request is no run yet.
                (ScanFor::Request { reply, .. }, _) if reply.is_closed() => {}
                (ScanFor::Request { start, reply }, Ok(scanned)) => {
                    let answer = self.decide(*start, scanned).await;
                    _ = reply.send(answer);
                }
                (ScanFor::Request { reply, .. }, Err(why)) => _ = reply.send(Err(why)),
                (ScanFor::Run(run), result) => self.handle_rescan(run, result).await,
            }
        }
    }

    /// Answers a request, after a scan of the workspace if the answer depends on it.
    pub(super) async fn start(&mut self, start: Box<StartRequest>, reply: Reply) {
        let may_wait = self.reserve_queue_place(start.options.if_busy).is_ok();
        if !self.session.needs_scan(&start.request, start.kind, start.options.if_busy, may_wait) {
            let answer = self.decide(*start, Scanned::default()).await;
            _ = reply.send(answer);
            return;
        }
        // What a rerun runs depends on the run in progress, so it is known only once that has ended.
        let depends =
            matches!(start.request.selection, Selection::LastFailed { .. }) || start.request.compared_with().is_some();
        let is_known = self.session.running().is_none() || !depends;
        let resolved = is_known.then(|| self.session.resolve(&start.request).ok()).flatten();
        let request = self.scan_request(resolved.map(|resolved| resolved.request), start.kind, &start.trace);
        self.scans.enqueue(&self.shared, request, ScanFor::Request { start, reply });
    }

    fn scan_request(&self, request: Option<Box<RunRequest>>, kind: RunKind, trace: &Span) -> ScanRequest {
        let is_compared = |request: &RunRequest| request.compared_with().is_some();
        let knowledge = request.as_deref().is_some_and(is_compared).then(|| self.session.knowledge());
        ScanRequest { request, kind, knowledge, trace: ScanTrace::new(trace) }
    }

    /// Decides a request once and for all.
    async fn decide(&mut self, start: StartRequest, scanned: Scanned) -> Result<StartedRun, SessionError> {
        let StartRequest { request, kind, options, trace } = start;
        let is_current = |ready: &ReadyRun| {
            let asked = ready.affected.as_ref().map_or(&ready.request, |affected| &affected.asked);
            ready.known_runs.is_none_or(|runs| runs == self.session.ended_runs())
                && self.session.resolve(&request).is_ok_and(|now| *now.request == *asked)
        };
        let place = match scanned.ready.filter(|ready| self.session.running().is_none() && is_current(ready)) {
            Some(ready) => match self.enter_host_queue(ready, options.priority, None).await {
                Ok((ready, slot)) => Ok(Place::Host(ready, slot)),
                Err(EnterError::QuotaExceeded(full)) => Err(full),
                Err(EnterError::Gone) => return Err(StartRejected::Draining.into()),
            },
            None => self.reserve_queue_place(options.if_busy).map(Place::Session),
        };
        // A run that lost its callers since the last tick makes way for this one.
        self.update_watchers().await;
        self.runs_created += 1;
        let run = RunId::new(format!("{}-{}", self.shared.id, self.runs_created));
        let event = SessionEvent::Requested {
            run: run.clone(),
            request: Box::new(request),
            kind,
            fingerprint: scanned.fingerprint,
            if_busy: options.if_busy,
            quota_exceeded: place.as_ref().err().cloned(),
        };
        let mut effects = self.session.step(self.shared.context.clock.now(), event).into_iter();
        // The first effect answers the request; the others are carried out as after any event.
        let answer = match effects.next() {
            Some(Effect::Accept { position, .. }) => {
                let trace =
                    RunTrace::new(&trace, &self.shared.policy.now().owner, self.shared.id.as_str(), run.as_str(), kind);
                Ok(self.accept(run, (kind, trace), options.priority, place.ok(), position).await)
            }
            Some(Effect::Attach { to, age_ms, .. }) => self.attach(to, age_ms),
            Some(Effect::Refuse { refusal, .. }) => Err(refusal),
            _ => Err(StartRejected::Closing),
        };
        self.carry_out(effects.collect()).await;
        Ok(answer?)
    }

    /// Enters a run into the host's queue, where it may have its turn at once.
    async fn enter_host_queue(
        &mut self,
        ready: Box<ReadyRun>,
        priority: Priority,
        queue_reservation: Option<Reservation>,
    ) -> Result<(Box<ReadyRun>, RunSlot), EnterError> {
        // Frees what this session can forget, so that the run is not rejected for it.
        self.enforce_retention().await;
        let (policy, usage) = (Arc::clone(&ready.policy), Arc::clone(&self.shared.policy.usage));
        if let Some(full) = usage.retained.exceeded(&policy.quota).or_else(|| ready.cache_exceeded.clone()) {
            return Err(full.into());
        }
        let demand = Amount::from_limits(&ready.prepared.spec.limits);
        let entry = QueueEntry { tenant: TenantId::new(policy.owner.clone()), demand, priority };
        let (quota, queued) = (policy.quota, Arc::clone(&usage.queued));
        let slot = self.shared.context.scheduler.enter(SlotRequest { entry, quota, queued, queue_reservation }).await?;
        Ok((ready, slot))
    }

    // Reserves a waiting run of the tenant, if the run may have to wait in this session. Otherwise the host's queue
    // counts it, if it waits there.
    fn reserve_queue_place(&self, if_busy: IfBusy) -> Result<Option<Reservation>, QuotaExceeded> {
        if self.session.running().is_none() || if_busy == IfBusy::Refuse {
            return Ok(None);
        }
        let policy = &self.shared.policy;
        policy.usage.queued.reserve_queued_run(policy.now().quota.queued_runs_max).map(Some)
    }

    async fn accept(
        &mut self,
        run: RunId,
        (kind, trace): (RunKind, RunTrace),
        priority: Priority,
        place: Option<Place>,
        position: u32,
    ) -> StartedRun {
        let (clock, policy, spools) = (self.shared.context.clock, &self.shared.policy, Spools::default());
        let memory = policy.usage.retained.run_memory(&policy.now().quota);
        let (log, handle) = runs::open(clock, &spools, memory);
        log.append(vec![RunEvent::Queued { position }]).await;
        let entry = RunEntry {
            handle: handle.clone(),
            log,
            kind,
            priority,
            accepted_at: clock.now(),
            place,
            spools: Some(spools),
            killer: None,
            trace,
            audited: false,
            ended: false,
        };
        self.runs.insert(run.clone(), entry);
        StartedRun { run, handle, attached_age_ms: None }
    }

    fn attach(&self, to: RunId, age_ms: u64) -> Result<StartedRun, StartRejected> {
        let entry = self.runs.get(&to).ok_or(StartRejected::Closing)?;
        Ok(StartedRun { handle: entry.handle.clone(), run: to, attached_age_ms: Some(age_ms) })
    }

    // Ends the session's running run, which has no driver, as if a driver had ended it.
    pub(super) fn end_undriven(&mut self, run: RunId, end: RunEnd) {
        if let Some(entry) = self.runs.get_mut(&run) {
            entry.place = None;
        }
        self.drivers.spawn(std::future::ready(FinishedRun {
            run,
            end,
            measured: RunCoverage::default(),
            seen: None,
            conclude: Span::none(),
        }));
    }

    /// Drives a run that is ready, and has the workspace scanned anew for one that has waited.
    pub(super) fn begin(&mut self, run: RunId, request: Box<RunRequest>, notes: Vec<String>) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        match entry.place.take() {
            Some(Place::Host(ready, slot)) => self.drive(run, *ready, slot, notes),
            waited => {
                entry.place = waited;
                let kind = entry.kind;
                let trace = entry.trace.span().clone();
                let request = self.scan_request(Some(request), kind, &trace);
                self.starting = Some(StartingRun { run: run.clone(), notes });
                self.scans.enqueue(&self.shared, request, ScanFor::Run(run));
            }
        }
    }

    // Drives a run that has waited in the session, unless it was killed meanwhile.
    async fn handle_rescan(&mut self, run: RunId, result: Result<Scanned, SessionError>) {
        let Some(starting) = self.starting.take_if(|starting| starting.run == run) else { return };
        match self.enter_after_rescan(&run, result).await {
            Ok((fingerprint, ready, slot)) => {
                self.step(SessionEvent::Rescanned { run: run.clone(), fingerprint }).await;
                if let Some(entry) = self.runs.get(&run) {
                    entry.log.record_turn().await;
                }
                self.drive(run, *ready, slot, starting.notes);
            }
            Err(why) => self.end_undriven(run, RunEnd::NotStarted(why)),
        }
    }

    async fn enter_after_rescan(
        &mut self,
        run: &RunId,
        result: Result<Scanned, SessionError>,
    ) -> Result<(Option<Fingerprint>, Box<ReadyRun>, RunSlot), NotStarted> {
        let Scanned { fingerprint, ready } = result.map_err(|error| match error {
            SessionError::Prepare(why) => why.into(),
            error => NotStarted::Host { text: error.to_string() },
        })?;
        let entry = self.runs.get_mut(run).zip(ready);
        let (entry, ready) = entry.ok_or_else(|| NotStarted::Host { text: SessionError::Host.to_string() })?;
        let queue_reservation = match entry.place.take() {
            Some(Place::Session(reservation)) => reservation,
            _ => None,
        };
        let priority = entry.priority;
        let (ready, slot) = self.enter_host_queue(ready, priority, queue_reservation).await?;
        Ok((fingerprint, ready, slot))
    }

    fn drive(&mut self, run: RunId, ready: ReadyRun, slot: RunSlot, notes: Vec<String>) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let Some(spools) = entry.spools.take() else { return };
        let killer = match RunKiller::new() {
            Ok(killer) => killer,
            Err(error) => {
                tracing::error!(%error, run = %run, "no descriptor for a run");
                let text = exhausted_resource(&error).unwrap_or("the host failed").to_owned();
                self.end_undriven(run, RunEnd::NotStarted(PrepareError::HostFailed { text }.into()));
                return;
            }
        };
        entry.killer = Some(KillOnDrop(killer.clone()));
        let ReadyRun { request, policy, prepared, fingerprint, workspace_key, affected, tools, .. } = ready;
        let task = RunTask {
            context: Arc::clone(&self.shared.context),
            policy,
            workspace: self.shared.workspace.clone(),
            workspace_key,
            session: self.shared.id.clone(),
            scan_permits: self.shared.policy.usage.scan_permits.clone(),
            runtime: Handle::current(),
            run,
            request,
            kind: entry.kind,
            fingerprint,
            affected,
            earlier: self.session.baseline().map(|baseline| Arc::clone(&baseline.seen.snapshot)),
            earlier_checks: Arc::clone(self.session.checks()),
            index: self.session.shared_index(),
            baseline: self.session.baseline().cloned(),
            tools,
            notes,
            accepted_at: entry.accepted_at,
            log: entry.log.clone(),
            spools,
            killer,
            trace: entry.trace.for_driver(),
        };
        self.drivers.spawn(runs::drive(task, prepared, slot));
    }
}
