//! The actor of a session: passes messages to `step` and carries out its effects. It never waits for a run. The
//! decisions are in [`proctor_core::session`].

use super::pending_scans::{PendingScans, Reply, ScanFor, ScanRequest, Scanned};
use super::{SessionError, SessionMemory, SessionMessage, SessionShared, SessionStatus, StartRequest, StartedRun};
use crate::ops::audit::{self, AuditRecord};
use crate::ops::drain::ClosedRuns;
use crate::runs::prepare::{PrepareError, ReadyRun};
use crate::runs::scheduler::{EnterError, RunSlot, SlotRequest};
use crate::runs::{
    self, FinishedRun, KillOnDrop, LogWriter, NotStarted, RunEnd, RunHandle, RunKiller, RunTask, Spools,
    without_running,
};
use crate::tenants::allowance::Reservation;
use futures_util::FutureExt;
use proctor_core::event::RunEvent;
use proctor_core::id::{RunId, TenantId};
use proctor_core::outcome::KillReason;
use proctor_core::queue::{Priority, QueueEntry};
use proctor_core::quota::{Amount, QuotaExceeded};
use proctor_core::request::{Fingerprint, IfBusy, RunKind, RunRequest, Selection};
use proctor_core::session::{Effect, Session, SessionEvent, StartRejected};
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::lack;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

/// How often a session with runs checks whether they are still watched.
const TICK: Duration = Duration::from_secs(1);

/// A run of the session: waiting, in progress, or ended and readable.
pub(super) struct RunEntry {
    pub(super) handle: RunHandle,
    pub(super) log: LogWriter,
    kind: RunKind,
    priority: Priority,
    pub(super) accepted_at: Timestamp,
    /// Where it waits; `None` once its driver has it.
    pub(super) place: Option<Place>,
    /// Its output files; move to its driver at the start.
    pub(super) spools: Option<Spools>,
    /// Kills the run while it is in progress.
    pub(super) killer: Option<KillOnDrop>,
    /// Whether its end is in the audit log.
    pub(super) audited: bool,
    /// Whether its event log has ended.
    pub(super) ended: bool,
}

/// Where an accepted run waits for its driver.
pub(super) enum Place {
    /// In the session, with its reservation among the tenant's waiting runs. To be scanned for when it is the next.
    Session(Option<Reservation>),
    /// In the host's queue, or with its turn.
    Host(Box<ReadyRun>, RunSlot),
}

/// The run whose workspace is scanned anew, because it has waited.
struct StartingRun {
    run: RunId,
    notes: Vec<String>,
}

pub(super) struct Actor {
    pub(super) shared: Arc<SessionShared>,
    pub(super) session: Session,
    /// Reservation of the coverage index's memory in the tenant's quota.
    index_memory: Option<Reservation>,
    pub(super) runs: HashMap<RunId, RunEntry>,
    pub(super) drivers: JoinSet<FinishedRun>,
    /// Requests and runs that wait for a workspace scan.
    pub(super) scans: Box<PendingScans>,
    /// The session's next run, while it waits for its scan.
    starting: Option<StartingRun>,
    /// Set while there are runs.
    tick: Option<Interval>,
    runs_created: u64,
    created_at: Timestamp,
    used_at: Timestamp,
    /// Callers of `drain` that wait for the last run, and the number of runs at the first of these calls.
    pub(super) drainers: Vec<oneshot::Sender<()>>,
    runs_at_drain: Option<usize>,
    /// Callers of `close`, and what they get as the result.
    pub(super) closers: Vec<oneshot::Sender<ClosedRuns>>,
    closed: ClosedRuns,
    stopped: bool,
}

/// An event that the actor handles.
enum ActorEvent {
    /// `None` when every handle is dropped.
    Message(Option<Box<SessionMessage>>),
    /// The session has reached its idle time.
    Idle,
    RunEnded(Result<FinishedRun, JoinError>),
    ScansDone(Vec<(ScanFor, Result<Scanned, SessionError>)>),
    Tick,
}

impl Actor {
    pub(super) fn new(shared: Arc<SessionShared>, session: Session) -> Actor {
        let now = shared.context.clock.now();
        Actor {
            shared,
            session,
            index_memory: None,
            runs: HashMap::new(),
            drivers: JoinSet::new(),
            scans: Box::default(),
            starting: None,
            tick: None,
            runs_created: 0,
            created_at: now,
            used_at: now,
            drainers: Vec::new(),
            runs_at_drain: None,
            closers: Vec::new(),
            closed: ClosedRuns::default(),
            stopped: false,
        }
    }

    /// Runs the actor. Most sessions are idle, and a task keeps the state of its future all the time: so the handling
    /// of events, and the wait while there are runs, are boxed.
    pub(super) async fn serve(mut self, mut messages: mpsc::Receiver<Box<SessionMessage>>) {
        // After a panic only the ends of the runs can still be told.
        match AssertUnwindSafe(self.run_loop(&mut messages)).catch_unwind().await {
            Ok(()) => Box::pin(self.end()).await,
            Err(_) => Box::pin(self.serve_crashed(messages)).await,
        }
    }

    async fn run_loop(&mut self, messages: &mut mpsc::Receiver<Box<SessionMessage>>) {
        let mut has_handles = true;
        while !self.stopped {
            let event = if self.is_busy() || self.scans.is_running() {
                Box::pin(self.next_event(messages, has_handles)).await
            } else {
                let idle = self.shared.context.clock.now().ms_since(self.used_at);
                let left = self.shared.idle_max.saturating_sub(Duration::from_millis(idle));
                tokio::select! {
                    message = messages.recv(), if has_handles => ActorEvent::Message(message),
                    () = sleep(left) => ActorEvent::Idle,
                }
            };
            has_handles = has_handles && !matches!(event, ActorEvent::Message(None));
            Box::pin(self.handle_event(event)).await;
        }
    }

    async fn next_event(
        &mut self,
        messages: &mut mpsc::Receiver<Box<SessionMessage>>,
        has_handles: bool,
    ) -> ActorEvent {
        tokio::select! {
            message = messages.recv(), if has_handles => ActorEvent::Message(message),
            Some(ended) = self.drivers.join_next() => ActorEvent::RunEnded(ended),
            results = self.scans.finished(&self.shared) => ActorEvent::ScansDone(results),
            () = next_tick(&mut self.tick) => ActorEvent::Tick,
        }
    }

    async fn handle_event(&mut self, event: ActorEvent) {
        match event {
            ActorEvent::Message(Some(message)) => self.handle_message(*message).await,
            // Every handle is dropped, so no further request can arrive.
            ActorEvent::Message(None) => self.close().await,
            ActorEvent::Idle => {
                let record = AuditRecord {
                    outcome: Some("ok".to_owned()),
                    ..self.audit_record(audit::AuditEvent::SessionExpired)
                };
                self.shared.context.audit.record(record);
                self.close().await;
            }
            ActorEvent::RunEnded(ended) => self.handle_run_end(ended).await,
            ActorEvent::ScansDone(results) => self.handle_scans(results).await,
            ActorEvent::Tick => self.tick().await,
        }
        let busy = self.is_busy();
        if busy != self.tick.is_some() {
            self.tick = busy.then(|| {
                let mut tick = interval(TICK);
                tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
                tick
            });
        }
        self.shared.busy.store(busy, Ordering::Relaxed);
        if !busy {
            for drainer in self.drainers.drain(..) {
                _ = drainer.send(());
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.session.unfinished().next().is_some()
    }

    pub(super) async fn end(&mut self) {
        self.release_worker().await;
        for closer in self.closers.drain(..) {
            _ = closer.send(self.closed);
        }
    }

    /// Releases the prepared worker of this session's next run.
    async fn release_worker(&mut self) {
        if self.runs_created > 0 {
            let (sandbox, session) = (Arc::clone(&self.shared.context.sandbox), self.shared.id.to_string());
            // Ending processes blocks. It can only fail by a panic, and then nothing is left to do.
            _ = tokio::task::spawn_blocking(move || sandbox.retire(&session)).await;
        }
    }

    async fn handle_message(&mut self, message: SessionMessage) {
        // A status query is no use of the session.
        if !matches!(
            message,
            SessionMessage::Status { .. } | SessionMessage::Unfinished { .. } | SessionMessage::Drain { .. }
        ) {
            self.used_at = self.shared.context.clock.now();
        }
        match message {
            SessionMessage::Start { request, reply } => self.start(request, reply).await,
            SessionMessage::Run { run, reply } => _ = reply.send(self.runs.get(&run).map(|entry| entry.handle.clone())),
            SessionMessage::Cancel { run, reply } => {
                let is_known = self.runs.contains_key(&run);
                self.step(SessionEvent::CancelRequested { run }).await;
                _ = reply.send(is_known);
            }
            SessionMessage::LastRun { limit, reply } => {
                let last = self.session.slot().last().cloned();
                _ = reply.send(last.map(|mut last| {
                    last.failures.truncate(limit);
                    last
                }));
            }
            SessionMessage::Covering { file, line, reply } => {
                let index = self.session.index();
                _ = reply.send(index.has_measured().then(|| index.covering(&file, line)));
            }
            SessionMessage::Status { reply } => _ = reply.send(self.status()),
            // The use has been recorded above. Without an answer the caller opens another session.
            SessionMessage::Touch { reply } if !self.shared.closing.load(Ordering::Relaxed) => _ = reply.send(()),
            SessionMessage::Touch { .. } => {}
            SessionMessage::Memory { reply } => {
                _ = reply.send(SessionMemory {
                    slot: self.session.slot().clone(),
                    index: self.session.index().clone(),
                    last_request: self.session.last_request().cloned(),
                });
            }
            SessionMessage::Unfinished { reply } => {
                let handle_of = |run: &RunId| Some((run.clone(), self.runs.get(run)?.handle.clone()));
                _ = reply.send(self.session.unfinished().filter_map(handle_of).collect());
            }
            SessionMessage::Drain { reply } => {
                self.runs_at_drain.get_or_insert(self.session.unfinished().count());
                self.drainers.push(reply);
                self.step(SessionEvent::DrainRequested).await;
            }
            SessionMessage::Close { reply } => {
                if self.closers.is_empty() {
                    let cancelled = self.session.unfinished().count();
                    let finished = self.runs_at_drain.unwrap_or(cancelled).saturating_sub(cancelled);
                    self.closed = ClosedRuns { finished, cancelled };
                }
                self.closers.push(reply);
                self.close().await;
            }
            #[cfg(test)]
            SessionMessage::Panic => panic!("a test asked for it"),
        }
    }

    fn status(&self) -> SessionStatus {
        SessionStatus {
            running: self.session.running().cloned(),
            waiting: self.session.waiting(),
            last: self.session.last().cloned(),
            created_at: self.created_at,
            used_at: self.used_at,
        }
    }

    async fn handle_scans(&mut self, results: Vec<(ScanFor, Result<Scanned, SessionError>)>) {
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
    async fn start(&mut self, start: Box<StartRequest>, reply: Reply) {
        let may_wait = self.reserve_queue_place(start.options.if_busy).is_ok();
        if !self.session.needs_scan(&start.request, start.kind, start.options.if_busy, may_wait) {
            let answer = self.decide(*start, Scanned::default()).await;
            _ = reply.send(answer);
            return;
        }
        // What a rerun runs depends on the run in progress, so it is known only once that has ended.
        let is_known =
            self.session.running().is_none() || !matches!(start.request.selection, Selection::LastFailed { .. });
        let resolved = is_known.then(|| self.session.resolve(&start.request).ok()).flatten();
        let request = ScanRequest { request: resolved.map(|(request, _)| request), kind: start.kind };
        self.scans.enqueue(&self.shared, request, ScanFor::Request { start, reply });
    }

    /// Decides a request once and for all.
    async fn decide(&mut self, start: StartRequest, scanned: Scanned) -> Result<StartedRun, SessionError> {
        let StartRequest { request, kind, options } = start;
        let is_current = |ready: &ReadyRun| self.session.resolve(&request).is_ok_and(|(now, _)| *now == ready.request);
        let place = match scanned.ready.filter(|ready| self.session.running().is_none() && is_current(ready)) {
            Some(ready) => match self.enter_host_queue(ready, options.priority, None).await {
                Ok((ready, slot)) => Ok(Place::Host(ready, slot)),
                Err(EnterError::QuotaExceeded(full)) => Err(full),
                Err(EnterError::Gone) => return Err(StartRejected::Draining.into()),
            },
            None => self.reserve_queue_place(options.if_busy).map(Place::Session),
        };
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
                Ok(self.accept(run, kind, options.priority, place.ok(), position).await)
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
        let policy = Arc::clone(&ready.policy);
        if let Some(full) = policy.retained.exceeded().or_else(|| ready.cache_exceeded.clone()) {
            return Err(full.into());
        }
        let demand = Amount::from_limits(&ready.prepared.spec.limits);
        let entry = QueueEntry { tenant: TenantId::new(policy.owner.clone()), demand, priority };
        let (quota, queued) = (policy.quota, Arc::clone(&policy.queued));
        let slot = self.shared.context.scheduler.enter(SlotRequest { entry, quota, queued, queue_reservation }).await?;
        Ok((ready, slot))
    }

    // Reserves a waiting run of the tenant, if the run may have to wait in this session. Otherwise the host's queue
    // counts it, if it waits there.
    fn reserve_queue_place(&self, if_busy: IfBusy) -> Result<Option<Reservation>, QuotaExceeded> {
        if self.session.running().is_none() || if_busy == IfBusy::Refuse {
            return Ok(None);
        }
        let policy = self.shared.policy.now();
        policy.queued.reserve_queued_run(policy.quota.queued_runs_max).map(Some)
    }

    async fn accept(
        &mut self,
        run: RunId,
        kind: RunKind,
        priority: Priority,
        place: Option<Place>,
        position: u32,
    ) -> StartedRun {
        let (clock, spools) = (self.shared.context.clock, Spools::default());
        let (log, handle) = runs::open(clock, &spools, self.shared.policy.now().retained.run_memory());
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

    async fn close(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.step(SessionEvent::CloseRequested).await;
    }

    async fn step(&mut self, event: SessionEvent) {
        let effects = self.session.step(self.shared.context.clock.now(), event);
        self.carry_out(effects).await;
    }

    pub(super) async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { run, request, notes } => self.begin(run, request, notes),
                Effect::ReportPosition { run, position } => {
                    if let Some(entry) = self.runs.get(&run) {
                        entry.log.append(vec![RunEvent::Queued { position }]).await;
                    }
                }
                Effect::Kill { run, reason } => self.kill(&run, reason),
                Effect::Withdraw { run, reason } => {
                    if let Some(entry) = self.runs.get_mut(&run) {
                        (entry.spools, entry.place) = (None, None);
                        let (now, note) = (self.shared.context.clock.now(), "ended while it waited behind another run");
                        let report = without_running(now, self.shared.policy.now().defaults, "", reason, note);
                        let end = RunEnd::Report(Arc::new(report));
                        self.audit_end(&run, &end);
                        self.end_log(&run, end).await;
                    }
                }
                Effect::Forget { run } => {
                    // A listing that has not ended yet is still read by its caller.
                    if let Some(entry) = self.runs.remove(&run).filter(|entry| entry.ended) {
                        entry.log.forget().await;
                    }
                }
                Effect::Stop => self.stopped = true,
                Effect::Refuse { run, refusal } => {
                    if let Some(entry) = self.runs.get_mut(&run) {
                        (entry.spools, entry.place) = (None, None);
                        let end = RunEnd::NotStarted(NotStarted::Rejected(refusal));
                        self.audit_end(&run, &end);
                        self.end_log(&run, end).await;
                    }
                }
                // These answer a request; `decide` has handled them.
                Effect::Accept { .. } | Effect::Attach { .. } => {}
            }
        }
    }

    fn kill(&mut self, run: &RunId, reason: KillReason) {
        if let Some(StartingRun { run, .. }) = self.starting.take_if(|starting| starting.run == *run) {
            let (now, note) = (self.shared.context.clock.now(), "ended before its workspace was scanned");
            let report = without_running(now, self.shared.policy.now().defaults, "", reason, note);
            self.end_undriven(run, RunEnd::Report(Arc::new(report)));
        } else if let Some(KillOnDrop(killer)) = self.runs.get(run).and_then(|entry| entry.killer.as_ref()) {
            killer.kill(reason);
        }
    }

    // Ends the session's running run, which has no driver, as if a driver had ended it.
    fn end_undriven(&mut self, run: RunId, end: RunEnd) {
        if let Some(entry) = self.runs.get_mut(&run) {
            entry.place = None;
        }
        self.drivers.spawn(std::future::ready(FinishedRun { run, end, measured: Vec::new() }));
    }

    /// Drives a run that is ready, and has the workspace scanned anew for one that has waited.
    fn begin(&mut self, run: RunId, request: Box<RunRequest>, notes: Vec<String>) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        match entry.place.take() {
            Some(Place::Host(ready, slot)) => self.drive(run, *ready, slot, notes),
            waited => {
                entry.place = waited;
                let request = ScanRequest { request: Some(request), kind: entry.kind };
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
                let text = lack(&error).unwrap_or("the host failed").to_owned();
                self.end_undriven(run, RunEnd::NotStarted(PrepareError::HostFailed { text }.into()));
                return;
            }
        };
        entry.killer = Some(KillOnDrop(killer.clone()));
        let ReadyRun { request, policy, prepared, .. } = ready;
        let task = RunTask {
            context: Arc::clone(&self.shared.context),
            policy,
            workspace: self.shared.workspace.clone(),
            run,
            request,
            notes,
            accepted_at: entry.accepted_at,
            log: entry.log.clone(),
            spools,
            killer,
        };
        self.drivers.spawn(runs::drive(task, prepared, slot));
    }

    async fn handle_run_end(&mut self, ended: Result<FinishedRun, JoinError>) {
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                // A driver that panicked ended its run; the session continues.
                tracing::error!(%error, session = %self.shared.id, "a run's driver panicked");
                let Some(run) = self.session.running().cloned() else { return };
                let text = "the supervisor failed while it read this run; its operator finds the reason in the log";
                let end = RunEnd::NotStarted(NotStarted::Host { text: text.to_owned() });
                FinishedRun { run, end, measured: Vec::new() }
            }
        };
        let run = finished.run;
        // A session is in use while it has runs, so that a caller that waited for this run finds it.
        self.used_at = self.shared.context.clock.now();
        self.audit_end(&run, &finished.end);
        let log = self.runs.get_mut(&run).map(|entry| {
            entry.killer = None;
            entry.log.clone()
        });
        let ended = run.clone();
        let has_measured = !finished.measured.is_empty();
        self.step(match &finished.end {
            RunEnd::Report(report) => {
                SessionEvent::Ended { run, report: Arc::clone(report), measured: finished.measured }
            }
            RunEnd::NotStarted(_) => SessionEvent::NotStarted { run },
        })
        .await;
        if has_measured {
            let bytes = self.session.index().memory_bytes() as u64;
            self.index_memory = Some(self.shared.policy.now().retained.memory.add(bytes));
        }
        let Some(log) = log else { return };
        let retained = self.count_retained(&log, &finished.end).await;
        self.enforce_retention().await;
        if let Some(entry) = self.runs.get_mut(&ended) {
            entry.ended = true;
        }
        // Last, so that a reader that sees the end finds the session up to date.
        log.end(finished.end, Some(retained)).await;
    }

    async fn tick(&mut self) {
        let watched: Vec<(RunId, usize)> =
            self.runs.iter().map(|(run, entry)| (run.clone(), entry.handle.watchers())).collect();
        for (run, watchers) in watched {
            self.step(SessionEvent::Watched { run, watchers }).await;
        }
        self.step(SessionEvent::Tick).await;
    }
}

async fn next_tick(tick: &mut Option<Interval>) {
    match tick {
        Some(tick) => _ = tick.tick().await,
        None => std::future::pending().await,
    }
}
