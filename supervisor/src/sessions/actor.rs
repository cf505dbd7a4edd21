//! The actor of a session: passes messages to `step` and carries out its effects. It never waits for a run. The
//! decisions are in [`proctor_core::session`].

use super::pending_scans::{PendingScans, ScanFor, Scanned};
use super::shutdown::Shutdown;
use super::{LastResult, SessionError, SessionMemory, SessionMessage, SessionShared, SessionStatus};
use crate::ops::audit::{self, AuditRecord};
use crate::runs::prepare::ReadyRun;
use crate::runs::scheduler::RunSlot;
use crate::runs::{FinishedRun, KillOnDrop, LogWriter, NotStarted, RunEnd, RunHandle, Spools, without_running};
use crate::telemetry::traces::run::RunTrace;
use crate::tenants::allowance::Reservation;
use futures_util::FutureExt;
use proctor_core::coverage::RunCoverage;
use proctor_core::event::RunEvent;
use proctor_core::id::RunId;
use proctor_core::outcome::KillReason;
use proctor_core::queue::Priority;
use proctor_core::request::RunKind;
use proctor_core::session::{Effect, Session, SessionEvent};
use proctor_core::timestamp::Timestamp;
use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use tracing::Span;

/// How often a session with runs checks whether they are still watched.
const TICK: Duration = Duration::from_secs(1);

/// A run of the session: waiting, in progress, or ended and readable.
pub(super) struct RunEntry {
    pub(super) handle: RunHandle,
    pub(super) log: LogWriter,
    pub(super) kind: RunKind,
    pub(super) priority: Priority,
    pub(super) accepted_at: Timestamp,
    /// Where it waits; `None` once its driver has it.
    pub(super) place: Option<Place>,
    /// Its output files; move to its driver at the start.
    pub(super) spools: Option<Spools>,
    /// Kills the run while it is in progress.
    pub(super) killer: Option<KillOnDrop>,
    /// Its spans, until its end.
    pub(super) trace: RunTrace,
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
pub(super) struct StartingRun {
    pub(super) run: RunId,
    pub(super) notes: Vec<String>,
}

pub(super) struct Actor {
    pub(super) shared: Arc<SessionShared>,
    pub(super) session: Session,
    /// Reservation of the memory of the coverage index, the baseline and the findings of checks in the tenant's quota.
    index_memory: Option<Reservation>,
    pub(super) runs: HashMap<RunId, RunEntry>,
    pub(super) drivers: JoinSet<FinishedRun>,
    /// Requests and runs that wait for a workspace scan.
    pub(super) scans: Box<PendingScans>,
    /// The session's next run, while it waits for its scan.
    pub(super) starting: Option<StartingRun>,
    /// Set while there are runs.
    tick: Option<Interval>,
    pub(super) runs_created: u64,
    created_at: Timestamp,
    used_at: Timestamp,
    /// Callers that wait for the end of the session.
    pub(super) shutdown: Box<Shutdown>,
    stopped: bool,
}

/// An event that the actor handles.
enum ActorEvent {
    /// `None` when every handle is dropped.
    Message(Option<Box<SessionMessage>>),
    /// The session has reached its idle time.
    Idle,
    RunEnded(Box<Result<FinishedRun, JoinError>>),
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
            shutdown: Box::default(),
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
            Some(ended) = self.drivers.join_next() => ActorEvent::RunEnded(Box::new(ended)),
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
            ActorEvent::RunEnded(ended) => self.handle_run_end(*ended).await,
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
            self.shutdown.answer_drainers();
        }
    }

    fn is_busy(&self) -> bool {
        self.session.unfinished().next().is_some()
    }

    pub(super) async fn end(&mut self) {
        self.release_worker().await;
        self.shutdown.answer_closers();
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
            SessionMessage::LastRun { offset, limit, reply } => {
                let last = self.session.slot().last().cloned();
                _ = reply.send(last.map(|mut last| {
                    last.failures = last.failures.into_iter().skip(offset).take(limit).collect();
                    last
                }));
            }
            SessionMessage::Covering { file, line, reply } => {
                let index = self.session.index();
                _ = reply.send(index.has_measured().then(|| index.covering(&file, line)));
            }
            SessionMessage::Knowledge { reply } => _ = reply.send(self.session.knowledge()),
            SessionMessage::Settings { request, reply } => {
                let settings = self.session.resolve(&request).map(|resolved| *resolved.request);
                _ = reply.send(settings.unwrap_or(*request));
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
                    baseline: self.session.baseline().map(|baseline| baseline.as_ref().clone()),
                    checks: self.session.checks().as_ref().clone(),
                    coverage_cost: self.session.coverage_cost().clone(),
                });
            }
            SessionMessage::Unfinished { reply } => {
                let handle_of = |run: &RunId| Some((run.clone(), self.runs.get(run)?.handle.clone()));
                _ = reply.send(self.session.unfinished().filter_map(handle_of).collect());
            }
            SessionMessage::Drain { reply } => {
                self.shutdown.add_drainer(reply, self.session.unfinished().count());
                self.step(SessionEvent::DrainRequested).await;
            }
            SessionMessage::Close { reply } => {
                self.shutdown.add_closer(reply, self.session.unfinished().count());
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
            last_result: self.last_result(),
            created_at: self.created_at,
            used_at: self.used_at,
        }
    }

    fn last_result(&self) -> Option<LastResult> {
        let (run, _) = self.session.last()?;
        let last = self.session.slot().last().filter(|last| last.run == *run)?;
        Some(LastResult {
            framework: last.framework.clone(),
            tests: last.structured.then_some(last.summary.total),
            failed: last.structured.then_some(last.summary.failed + last.summary.error),
            ended_at: last.ended_at,
        })
    }

    async fn close(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.step(SessionEvent::CloseRequested).await;
    }

    pub(super) async fn step(&mut self, event: SessionEvent) {
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

    async fn handle_run_end(&mut self, ended: Result<FinishedRun, JoinError>) {
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                // A driver that panicked ended its run; the session continues.
                tracing::error!(%error, session = %self.shared.id, "a run's driver panicked");
                let Some(run) = self.session.running().cloned() else { return };
                let text = "the supervisor failed while it read this run; its operator finds the reason in the log";
                let end = RunEnd::NotStarted(NotStarted::Host { text: text.to_owned() });
                FinishedRun { run, end, measured: RunCoverage::default(), seen: None, conclude: Span::none() }
            }
        };
        let run = finished.run;
        // A session is in use while it has runs, so that a caller that waited for this run finds it.
        self.used_at = self.shared.context.clock.now();
        self.audit_end(&run, &finished.end);
        let log = self.runs.get_mut(&run).map(|entry| {
            entry.killer = None;
            (entry.log.clone(), std::mem::take(&mut entry.trace))
        });
        let ended = run.clone();
        let has_checked = matches!(&finished.end, RunEnd::Report(report) if report.check.is_some());
        let has_learnt = !finished.measured.tests.is_empty() || finished.seen.is_some() || has_checked;
        self.step(match &finished.end {
            RunEnd::Report(report) => {
                let (measured, seen) = (finished.measured, finished.seen);
                SessionEvent::Ended { run, report: Arc::clone(report), measured, seen }
            }
            RunEnd::NotStarted(_) => SessionEvent::NotStarted { run },
        })
        .await;
        if has_learnt {
            let baseline = self.session.baseline().map_or(0, |baseline| baseline.memory_bytes());
            let bytes = (self.session.index().memory_bytes() + baseline + self.session.checks().memory_bytes()) as u64;
            self.index_memory = Some(self.shared.policy.usage.retained.memory.add(bytes));
        }
        let Some((log, trace)) = log else { return };
        let retained = self.count_retained(&log, &finished.end).await;
        self.enforce_retention().await;
        if let Some(entry) = self.runs.get_mut(&ended) {
            entry.ended = true;
        }
        // Last, so that a reader that sees the end finds the session up to date.
        log.end(finished.end.clone(), Some(retained)).await;
        drop(finished.conclude);
        trace.finish(&finished.end);
    }

    async fn tick(&mut self) {
        self.update_watchers().await;
        self.step(SessionEvent::Tick).await;
    }

    /// Tells the session how many callers watch each run now.
    pub(super) async fn update_watchers(&mut self) {
        let watched: Vec<(RunId, usize)> =
            self.runs.iter().map(|(run, entry)| (run.clone(), entry.handle.watchers())).collect();
        for (run, watchers) in watched {
            self.step(SessionEvent::Watched { run, watchers }).await;
        }
    }
}

async fn next_tick(tick: &mut Option<Interval>) {
    match tick {
        Some(tick) => _ = tick.tick().await,
        None => std::future::pending().await,
    }
}
