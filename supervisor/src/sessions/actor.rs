//! The actor of a session: passes messages to `step` and carries out its effects. It never waits for a run. The
//! decisions are in [`proctor_core::session`].

use super::pending_scans::{PendingScans, Reply, ScanOutcome};
use super::{SessionError, SessionMemory, SessionMessage, SessionShared, SessionStatus, StartRequest, StartedRun};
use crate::ops::audit::{self, AuditRecord};
use crate::ops::drain::ClosedRuns;
use crate::runs::prepare::PrepareError;
use crate::runs::{
    self, FinishedRun, KillOnDrop, LogWriter, NotStarted, RunEnd, RunHandle, RunKiller, RunTask, Spools, WatchGuard,
    without_running,
};
use crate::tenants::allowance::Reservation;
use futures_util::FutureExt;
use proctor_core::event::RunEvent;
use proctor_core::id::RunId;
use proctor_core::outcome::KillReason;
use proctor_core::queue::Priority;
use proctor_core::quota::QuotaExceeded;
use proctor_core::request::{Fingerprint, IfBusy, RunKind, RunRequest};
use proctor_core::session::{Effect, Session, SessionEvent, StartRejected};
use proctor_core::timestamp::Timestamp;
use proctor_sandbox::exhausted_resource;
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
    /// Its reservation among the tenant's waiting runs; moves to its driver at the start.
    pub(super) queued: Option<Reservation>,
    /// Its output files; move to its driver at the start.
    pub(super) spools: Option<Spools>,
    /// Kills the run while it is in progress.
    pub(super) killer: Option<KillOnDrop>,
    /// Whether its end is in the audit log.
    pub(super) audited: bool,
    /// Whether its event log has ended.
    pub(super) ended: bool,
}

/// A caller whose request started a run that its workspace scan may still reject.
pub(super) struct PendingStart {
    started: StartedRun,
    pub(super) reply: Reply,
    /// Watches the run in the caller's place until the caller has its handle; `None` once the caller has left.
    watch: Option<WatchGuard>,
}

pub(super) struct Actor {
    pub(super) shared: Arc<SessionShared>,
    pub(super) session: Session,
    /// Reservation of the coverage index's memory in the tenant's quota.
    index_memory: Option<Reservation>,
    pub(super) runs: HashMap<RunId, RunEntry>,
    pub(super) drivers: JoinSet<FinishedRun>,
    /// The starting run, which sends the fingerprint of its workspace scan.
    starting: Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>,
    /// The caller of the starting run, while the scan can still reject it.
    pub(super) pending_start: Option<Box<PendingStart>>,
    /// Requests that wait for a workspace scan.
    pub(super) scans: Box<PendingScans>,
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
    RunStarted(Option<Option<Fingerprint>>),
    ScansDone(Vec<(ScanOutcome, Reply)>),
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
            starting: None,
            pending_start: None,
            scans: Box::default(),
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
            fingerprint = run_started(&mut self.starting) => ActorEvent::RunStarted(fingerprint),
            outcomes = self.scans.finished(&self.shared) => ActorEvent::ScansDone(outcomes),
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
            ActorEvent::RunStarted(fingerprint) => self.handle_run_start(fingerprint).await,
            ActorEvent::ScansDone(outcomes) => self.handle_scans(outcomes).await,
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

    async fn handle_scans(&mut self, outcomes: Vec<(ScanOutcome, Reply)>) {
        for ((mut request, result), reply) in outcomes {
            match result {
                // The caller has left, and its request is no run yet.
                _ if reply.is_closed() => {}
                Ok(fingerprint) => {
                    request.scanned = Some(fingerprint);
                    self.start(Box::new(request), reply).await;
                }
                Err(why) => _ = reply.send(Err(why)),
            }
        }
    }

    async fn start(&mut self, start: Box<StartRequest>, reply: Reply) {
        let if_busy = start.options.if_busy;
        let queued = self.reserve_queue_place(if_busy);
        if start.scanned.is_none() && self.session.needs_scan(&start.request, start.kind, if_busy, queued.is_ok()) {
            self.scans.enqueue(&self.shared, start, reply);
            return;
        }
        self.runs_created += 1;
        let run = RunId::new(format!("{}-{}", self.shared.id, self.runs_created));
        let spools = Spools::default();
        let (log, handle) =
            runs::open(self.shared.context.clock, &spools, self.shared.policy.now().retained.run_memory());
        let entry = RunEntry {
            handle,
            log,
            kind: start.kind,
            priority: start.options.priority,
            accepted_at: self.shared.context.clock.now(),
            queued: None,
            spools: Some(spools),
            killer: None,
            audited: false,
            ended: false,
        };
        self.runs.insert(run.clone(), entry);
        let event = SessionEvent::Requested {
            run,
            request: Box::new(start.request),
            kind: start.kind,
            fingerprint: start.scanned.flatten(),
            if_busy: start.options.if_busy,
            quota_exceeded: queued.as_ref().err().cloned(),
        };
        let mut effects = self.session.step(self.shared.context.clock.now(), event).into_iter();
        // The first effect answers the request; the others are carried out as after any event.
        let (answer, starts) = match effects.next() {
            Some(Effect::Accept { run, position }) => {
                if let (Some(entry), Ok(queued)) = (self.runs.get_mut(&run), queued) {
                    entry.queued = queued;
                }
                (self.accept(run, position).await, position == 0)
            }
            Some(Effect::Attach { run, to, age_ms }) => (self.attach(&run, to, age_ms), false),
            Some(Effect::Refuse { run, refusal }) => {
                self.runs.remove(&run);
                (Err(refusal), false)
            }
            _ => (Err(StartRejected::Closing), false),
        };
        self.carry_out(effects.collect()).await;
        match answer {
            // It scans the workspace first, which may reject it.
            Ok(started) if starts && self.starting.is_some() => {
                let watch = Some(started.handle.watch());
                self.pending_start = Some(Box::new(PendingStart { started, reply, watch }));
            }
            answer => _ = reply.send(answer.map_err(SessionError::from)),
        }
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

    async fn accept(&self, run: RunId, position: u32) -> Result<StartedRun, StartRejected> {
        let entry = self.runs.get(&run).ok_or(StartRejected::Closing)?;
        entry.log.append(vec![RunEvent::Queued { position }]).await;
        Ok(StartedRun { run, handle: entry.handle.clone(), attached_age_ms: None })
    }

    fn attach(&mut self, run: &RunId, to: RunId, age_ms: u64) -> Result<StartedRun, StartRejected> {
        self.runs.remove(run);
        let entry = self.runs.get(&to).ok_or(StartRejected::Closing)?;
        Ok(StartedRun { run: to, handle: entry.handle.clone(), attached_age_ms: Some(age_ms) })
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
                Effect::Start { run, request, notes } => self.drive(run, *request, notes),
                Effect::ReportPosition { run, position } => {
                    if let Some(entry) = self.runs.get(&run) {
                        entry.log.append(vec![RunEvent::Queued { position }]).await;
                    }
                }
                Effect::Kill { run, reason } => self.kill(&run, reason),
                Effect::Withdraw { run, reason } => {
                    if let Some(entry) = self.runs.get_mut(&run) {
                        (entry.spools, entry.queued) = (None, None);
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
                        (entry.spools, entry.queued) = (None, None);
                        let end = RunEnd::NotStarted(NotStarted::Rejected(refusal));
                        self.audit_end(&run, &end);
                        self.end_log(&run, end).await;
                    }
                }
                // These answer a request; `start` has handled them.
                Effect::Accept { .. } | Effect::Attach { .. } => {}
            }
        }
    }

    fn kill(&self, run: &RunId, reason: KillReason) {
        if let Some(KillOnDrop(killer)) = self.runs.get(run).and_then(|entry| entry.killer.as_ref()) {
            killer.kill(reason);
        }
    }

    fn drive(&mut self, run: RunId, request: RunRequest, notes: Vec<String>) {
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let Some(spools) = entry.spools.take() else { return };
        let killer = match RunKiller::new() {
            Ok(killer) => killer,
            Err(error) => {
                entry.queued = None;
                tracing::error!(%error, run = %run, "no descriptor for a run");
                let text = exhausted_resource(&error).unwrap_or("the host failed").to_owned();
                let end = RunEnd::NotStarted(PrepareError::HostFailed { text }.into());
                self.drivers.spawn(std::future::ready(FinishedRun { run, end, measured: Vec::new() }));
                return;
            }
        };
        entry.killer = Some(KillOnDrop(killer.clone()));
        let (started, receiver) = oneshot::channel();
        self.starting = Some((run.clone(), receiver));
        let drive = RunTask {
            context: Arc::clone(&self.shared.context),
            policy: self.shared.policy.now(),
            session: self.shared.id.clone(),
            workspace: self.shared.workspace.clone(),
            run,
            request,
            notes,
            kind: entry.kind,
            priority: entry.priority,
            accepted_at: entry.accepted_at,
            queue_reservation: entry.queued.take(),
            log: entry.log.clone(),
            spools,
            killer,
        };
        self.drivers.spawn(runs::drive(drive, started));
    }

    // `None` for a run that ended before its scan: its end says why.
    async fn handle_run_start(&mut self, scanned: Option<Option<Fingerprint>>) {
        if let (Some((run, _)), Some(fingerprint)) = (self.starting.take(), scanned) {
            self.step(SessionEvent::Began { run, fingerprint }).await;
            self.confirm_start();
        }
    }

    // Replies to the caller that its request became a run.
    fn confirm_start(&mut self) {
        if let Some(pending) = self.pending_start.take() {
            let PendingStart { started, reply, watch: _watch } = *pending;
            _ = reply.send(Ok(started));
        }
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
        self.starting = None;
        // A session is in use while it has runs, so that a caller that waited for this run finds it.
        self.used_at = self.shared.context.clock.now();
        let rejection: Option<SessionError> = match &finished.end {
            RunEnd::NotStarted(NotStarted::Prepare(why)) => Some(why.clone().into()),
            RunEnd::NotStarted(NotStarted::Quota(why)) => Some(why.clone().into()),
            _ => None,
        };
        if let Some(why) = rejection
            && let Some(pending) = self.pending_start.take()
        {
            self.step(SessionEvent::Rejected { run }).await;
            // Frees retention quota, so that a caller that tries again is not rejected for what this session can
            // forget.
            self.enforce_retention().await;
            _ = pending.reply.send(Err(why));
            return;
        }
        self.confirm_start();
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
        if let Some(abandoned) = self.pending_start.as_mut().filter(|pending| pending.reply.is_closed()) {
            abandoned.watch = None;
        }
        let watched: Vec<(RunId, usize)> =
            self.runs.iter().map(|(run, entry)| (run.clone(), entry.handle.watchers())).collect();
        for (run, watchers) in watched {
            self.step(SessionEvent::Watched { run, watchers }).await;
        }
        self.step(SessionEvent::Tick).await;
    }
}

// Waits until the starting run sends its fingerprint; for ever without a starting run.
async fn run_started(
    starting: &mut Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>,
) -> Option<Option<Fingerprint>> {
    match starting {
        Some((_, receiver)) => receiver.await.ok(),
        None => std::future::pending().await,
    }
}

async fn next_tick(tick: &mut Option<Interval>) {
    match tick {
        Some(tick) => _ = tick.tick().await,
        None => std::future::pending().await,
    }
}
