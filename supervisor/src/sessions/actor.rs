//! The actor of a session: carries messages into `step` and its effects out. It never waits for a run. Must not decide
//! anything; what a session does is in [`proctor_core::session`].

use super::pending_scans::{Looking, Reply, Seen};
use super::{About, Asked, Memory, Message, SessionError, Started, Status};
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
use proctor_core::session::{Effect, Event, Session, StartRejected};
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

/// How often a session with runs looks whether somebody still watches them.
const TICK: Duration = Duration::from_secs(1);

/// A run that the session still knows: waiting, going on, or ended and readable.
pub(super) struct Known {
    pub(super) handle: RunHandle,
    pub(super) log: LogWriter,
    kind: RunKind,
    priority: Priority,
    pub(super) accepted_at: Timestamp,
    /// That it waits, as its tenant counts it; with its driver once it starts.
    pub(super) waits: Option<Reservation>,
    /// Where its output goes; with its driver once it starts.
    pub(super) spools: Option<Spools>,
    /// The way to end it while it goes on.
    pub(super) killer: Option<KillOnDrop>,
    /// Whether the audit log has how it ended.
    pub(super) told: bool,
    /// Whether its log has its end.
    pub(super) ended: bool,
}

/// Who asked for a run and has not been told that it is one.
pub(super) struct Caller {
    started: Started,
    pub(super) reply: Reply,
    /// Whoever waits for the answer watches the run, which has no other way to be watched yet; `None` once nobody does.
    watch: Option<WatchGuard>,
}

pub(super) struct Actor {
    pub(super) about: Arc<About>,
    pub(super) session: Session,
    /// Memory of the coverage index, as the tenant counts it.
    indexed: Option<Reservation>,
    pub(super) runs: HashMap<RunId, Known>,
    pub(super) drivers: JoinSet<FinishedRun>,
    /// What the running run saw of the workspace, until it has said so.
    began: Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>,
    /// Who asked for the running run, while what it sees can still refuse it.
    pub(super) caller: Option<Box<Caller>>,
    /// Who waits for a look at the workspace.
    pub(super) looking: Box<Looking>,
    /// While there are runs.
    tick: Option<Interval>,
    runs_named: u64,
    created_at: Timestamp,
    used_at: Timestamp,
    /// Who waits until no run is left, and how many there were when the first of them asked.
    pub(super) drainers: Vec<oneshot::Sender<()>>,
    drained_from: Option<usize>,
    /// Who waits for the end, and what became of the runs.
    pub(super) closers: Vec<oneshot::Sender<ClosedRuns>>,
    closed: ClosedRuns,
    stopped: bool,
}

/// What an actor waits for.
enum Heard {
    /// `None` when every handle is gone.
    Message(Option<Box<Message>>),
    /// Nobody has used the session for as long as it lives without.
    Idle,
    Ended(Result<FinishedRun, JoinError>),
    Began(Option<Option<Fingerprint>>),
    Seen(Vec<(Seen, Reply)>),
    Tick,
}

impl Actor {
    pub(super) fn new(about: Arc<About>, session: Session) -> Actor {
        let now = about.context.clock.now();
        Actor {
            about,
            session,
            indexed: None,
            runs: HashMap::new(),
            drivers: JoinSet::new(),
            began: None,
            caller: None,
            looking: Box::default(),
            tick: None,
            runs_named: 0,
            created_at: now,
            used_at: now,
            drainers: Vec::new(),
            drained_from: None,
            closers: Vec::new(),
            closed: ClosedRuns::default(),
            stopped: false,
        }
    }

    /// Most sessions are at rest, and what a task holds while it waits is there all the time: so what an actor does, and
    /// what it waits for while it has runs, is on the heap for as long as it takes.
    pub(super) async fn serve(mut self, mut messages: mpsc::Receiver<Box<Message>>) {
        // Of what a panic leaves unfinished, only what became of the runs is told.
        match AssertUnwindSafe(self.live(&mut messages)).catch_unwind().await {
            Ok(()) => Box::pin(self.end()).await,
            Err(_) => Box::pin(self.wreck(messages)).await,
        }
    }

    async fn live(&mut self, messages: &mut mpsc::Receiver<Box<Message>>) {
        let mut asked = true;
        while !self.stopped {
            let heard = if self.is_busy() || self.looking.is_on() {
                Box::pin(self.hear(messages, asked)).await
            } else {
                let idle = self.about.context.clock.now().ms_since(self.used_at);
                let left = self.about.idle_max.saturating_sub(Duration::from_millis(idle));
                tokio::select! {
                    message = messages.recv(), if asked => Heard::Message(message),
                    () = sleep(left) => Heard::Idle,
                }
            };
            asked = asked && !matches!(heard, Heard::Message(None));
            Box::pin(self.take_in(heard)).await;
        }
    }

    async fn hear(&mut self, messages: &mut mpsc::Receiver<Box<Message>>, asked: bool) -> Heard {
        tokio::select! {
            message = messages.recv(), if asked => Heard::Message(message),
            Some(ended) = self.drivers.join_next() => Heard::Ended(ended),
            fingerprint = began(&mut self.began) => Heard::Began(fingerprint),
            seen = self.looking.seen(&self.about) => Heard::Seen(seen),
            () = ticked(&mut self.tick) => Heard::Tick,
        }
    }

    async fn take_in(&mut self, heard: Heard) {
        match heard {
            Heard::Message(Some(message)) => self.message(*message).await,
            // Every handle is gone: nobody can ask for anything any more.
            Heard::Message(None) => self.close().await,
            Heard::Idle => {
                let line =
                    AuditRecord { outcome: Some("ok".to_owned()), ..self.line(audit::AuditEvent::SessionExpired) };
                self.about.context.audit.record(line);
                self.close().await;
            }
            Heard::Ended(ended) => self.ended(ended).await,
            Heard::Began(fingerprint) => self.run_began(fingerprint).await,
            Heard::Seen(seen) => self.seen(seen).await,
            Heard::Tick => self.tick().await,
        }
        let busy = self.is_busy();
        if busy != self.tick.is_some() {
            self.tick = busy.then(|| {
                let mut tick = interval(TICK);
                tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
                tick
            });
        }
        self.about.busy.store(busy, Ordering::Relaxed);
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
        self.retire().await;
        for closer in self.closers.drain(..) {
            _ = closer.send(self.closed);
        }
    }

    /// Lets go of the worker that waits for this session's next run.
    async fn retire(&mut self) {
        if self.runs_named > 0 {
            let (sandbox, session) = (Arc::clone(&self.about.context.sandbox), self.about.id.to_string());
            // Ending processes blocks. It can only fail by a panic, and then nothing is left to do.
            _ = tokio::task::spawn_blocking(move || sandbox.retire(&session)).await;
        }
    }

    async fn message(&mut self, message: Message) {
        // Whoever only looks at a session does not use it.
        if !matches!(message, Message::Status { .. } | Message::Unfinished { .. } | Message::Drain { .. }) {
            self.used_at = self.about.context.clock.now();
        }
        match message {
            Message::Start { asked, reply } => self.start(asked, reply).await,
            Message::Run { run, reply } => _ = reply.send(self.runs.get(&run).map(|known| known.handle.clone())),
            Message::Cancel { run, reply } => {
                let known = self.runs.contains_key(&run);
                self.step(Event::CancelRequested { run }).await;
                _ = reply.send(known);
            }
            Message::LastRun { limit, reply } => {
                let last = self.session.slot().last().cloned();
                _ = reply.send(last.map(|mut last| {
                    last.failures.truncate(limit);
                    last
                }));
            }
            Message::Covering { file, line, reply } => {
                let index = self.session.index();
                _ = reply.send(index.has_measured().then(|| index.covering(&file, line)));
            }
            Message::Status { reply } => _ = reply.send(self.status()),
            // That it was used has been noted; whoever gets no answer finds another.
            Message::Touch { reply } if !self.about.ending.load(Ordering::Relaxed) => _ = reply.send(()),
            Message::Touch { .. } => {}
            Message::Memory { reply } => {
                _ = reply.send(Memory {
                    slot: self.session.slot().clone(),
                    index: self.session.index().clone(),
                    last_request: self.session.last_request().cloned(),
                });
            }
            Message::Unfinished { reply } => {
                let known = |run: &RunId| Some((run.clone(), self.runs.get(run)?.handle.clone()));
                _ = reply.send(self.session.unfinished().filter_map(known).collect());
            }
            Message::Drain { reply } => {
                self.drained_from.get_or_insert(self.session.unfinished().count());
                self.drainers.push(reply);
                self.step(Event::DrainRequested).await;
            }
            Message::Close { reply } => {
                if self.closers.is_empty() {
                    let cancelled = self.session.unfinished().count();
                    let finished = self.drained_from.unwrap_or(cancelled).saturating_sub(cancelled);
                    self.closed = ClosedRuns { finished, cancelled };
                }
                self.closers.push(reply);
                self.close().await;
            }
            #[cfg(test)]
            Message::Panic => panic!("a test asked for it"),
        }
    }

    fn status(&self) -> Status {
        Status {
            running: self.session.running().cloned(),
            waiting: self.session.waiting(),
            last: self.session.last().cloned(),
            created_at: self.created_at,
            used_at: self.used_at,
        }
    }

    async fn seen(&mut self, seen: Vec<(Seen, Reply)>) {
        for ((mut asked, came), reply) in seen {
            match came {
                // Nobody waits for it any more, and it is no run yet.
                _ if reply.is_closed() => {}
                Ok(fingerprint) => {
                    asked.looked = Some(fingerprint);
                    self.start(Box::new(asked), reply).await;
                }
                Err(why) => _ = reply.send(Err(why)),
            }
        }
    }

    async fn start(&mut self, asked: Box<Asked>, reply: Reply) {
        let if_busy = asked.waiting.if_busy;
        let waits = self.room_to_wait(if_busy);
        if asked.looked.is_none() && self.session.needs_look(&asked.request, asked.kind, if_busy, waits.is_ok()) {
            self.looking.wait(&self.about, asked, reply);
            return;
        }
        self.runs_named += 1;
        let run = RunId::new(format!("{}-{}", self.about.id, self.runs_named));
        let spools = Spools::default();
        let (log, handle) = runs::open(self.about.context.clock, &spools, self.about.policy.now().retained.room());
        let known = Known {
            handle,
            log,
            kind: asked.kind,
            priority: asked.waiting.priority,
            accepted_at: self.about.context.clock.now(),
            waits: None,
            spools: Some(spools),
            killer: None,
            told: false,
            ended: false,
        };
        self.runs.insert(run.clone(), known);
        let event = Event::Requested {
            run,
            request: Box::new(asked.request),
            kind: asked.kind,
            fingerprint: asked.looked.flatten(),
            if_busy: asked.waiting.if_busy,
            no_room: waits.as_ref().err().cloned(),
        };
        let mut effects = self.session.step(self.about.context.clock.now(), event).into_iter();
        // The first effect answers the request; what follows is done as after any event.
        let (answer, starts) = match effects.next() {
            Some(Effect::Accept { run, position }) => {
                if let (Some(known), Ok(waits)) = (self.runs.get_mut(&run), waits) {
                    known.waits = waits;
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
            // It looks at the workspace first, which may refuse it.
            Ok(started) if starts && self.began.is_some() => {
                let watch = Some(started.handle.watch());
                self.caller = Some(Box::new(Caller { started, reply, watch }));
            }
            answer => _ = reply.send(answer.map_err(SessionError::from)),
        }
    }

    // What counts the run that is asked for among those of its tenant that wait, if it may have to. Where none waits, a run
    // that starts is counted by the host, if it waits there.
    fn room_to_wait(&self, if_busy: IfBusy) -> Result<Option<Reservation>, QuotaExceeded> {
        if self.session.running().is_none() || if_busy == IfBusy::Refuse {
            return Ok(None);
        }
        let policy = self.about.policy.now();
        policy.queued.one_more_run(policy.quota.queued_runs_max).map(Some)
    }

    async fn accept(&self, run: RunId, position: u32) -> Result<Started, StartRejected> {
        let known = self.runs.get(&run).ok_or(StartRejected::Closing)?;
        known.log.append(vec![RunEvent::Queued { position }]).await;
        Ok(Started { run, handle: known.handle.clone(), attached_age_ms: None })
    }

    fn attach(&mut self, run: &RunId, to: RunId, age_ms: u64) -> Result<Started, StartRejected> {
        self.runs.remove(run);
        let known = self.runs.get(&to).ok_or(StartRejected::Closing)?;
        Ok(Started { run: to, handle: known.handle.clone(), attached_age_ms: Some(age_ms) })
    }

    async fn close(&mut self) {
        self.about.ending.store(true, Ordering::Relaxed);
        self.step(Event::CloseRequested).await;
    }

    async fn step(&mut self, event: Event) {
        let effects = self.session.step(self.about.context.clock.now(), event);
        self.carry_out(effects).await;
    }

    pub(super) async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { run, request, notes } => self.drive(run, *request, notes),
                Effect::Moved { run, position } => {
                    if let Some(known) = self.runs.get(&run) {
                        known.log.append(vec![RunEvent::Queued { position }]).await;
                    }
                }
                Effect::Kill { run, reason } => self.kill(&run, reason),
                Effect::Withdraw { run, reason } => {
                    if let Some(known) = self.runs.get_mut(&run) {
                        (known.spools, known.waits) = (None, None);
                        let (now, note) = (self.about.context.clock.now(), "ended while it waited behind another run");
                        let report = without_running(now, self.about.policy.now().defaults, "", reason, note);
                        let end = RunEnd::Report(Arc::new(report));
                        self.tell_end(&run, &end);
                        self.end_log(&run, end).await;
                    }
                }
                Effect::Forget { run } => {
                    // One that has not ended yet, a listing, is still read by whoever asked for it.
                    if let Some(known) = self.runs.remove(&run).filter(|known| known.ended) {
                        known.log.forget().await;
                    }
                }
                Effect::Stop => self.stopped = true,
                Effect::Refuse { run, refusal } => {
                    if let Some(known) = self.runs.get_mut(&run) {
                        (known.spools, known.waits) = (None, None);
                        let end = RunEnd::NotStarted(NotStarted::Rejected(refusal));
                        self.tell_end(&run, &end);
                        self.end_log(&run, end).await;
                    }
                }
                // These answer a request and were taken out by `start`.
                Effect::Accept { .. } | Effect::Attach { .. } => {}
            }
        }
    }

    fn kill(&self, run: &RunId, reason: KillReason) {
        if let Some(KillOnDrop(killer)) = self.runs.get(run).and_then(|known| known.killer.as_ref()) {
            killer.kill(reason);
        }
    }

    fn drive(&mut self, run: RunId, request: RunRequest, notes: Vec<String>) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        let Some(spools) = known.spools.take() else { return };
        let killer = match RunKiller::new() {
            Ok(killer) => killer,
            Err(error) => {
                known.waits = None;
                tracing::error!(%error, run = %run, "no descriptor for a run");
                let text = lack(&error).unwrap_or("the host failed").to_owned();
                let end = RunEnd::NotStarted(PrepareError::HostFailed { text }.into());
                self.drivers.spawn(std::future::ready(FinishedRun { run, end, measured: Vec::new() }));
                return;
            }
        };
        known.killer = Some(KillOnDrop(killer.clone()));
        let (began, hear) = oneshot::channel();
        self.began = Some((run.clone(), hear));
        let task = RunTask {
            context: Arc::clone(&self.about.context),
            policy: self.about.policy.now(),
            session: self.about.id.clone(),
            workspace: self.about.workspace.clone(),
            run,
            request,
            notes,
            kind: known.kind,
            priority: known.priority,
            accepted_at: known.accepted_at,
            queue_reservation: known.waits.take(),
            log: known.log.clone(),
            spools,
            killer,
        };
        self.drivers.spawn(runs::drive(task, began));
    }

    // `None` of a run that did not come so far: its end says why.
    async fn run_began(&mut self, saw: Option<Option<Fingerprint>>) {
        if let (Some((run, _)), Some(fingerprint)) = (self.began.take(), saw) {
            self.step(Event::Began { run, fingerprint }).await;
            self.admit();
        }
    }

    // Tells the caller that its request became a run.
    fn admit(&mut self) {
        if let Some(caller) = self.caller.take() {
            let Caller { started, reply, watch: _watch } = *caller;
            _ = reply.send(Ok(started));
        }
    }

    async fn ended(&mut self, ended: Result<FinishedRun, JoinError>) {
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                // A driver that panicked took its run along; the session goes on.
                tracing::error!(%error, session = %self.about.id, "a run's driver broke");
                let Some(run) = self.session.running().cloned() else { return };
                let text = "the supervisor failed while it read this run; its operator finds the reason in the log";
                let end = RunEnd::NotStarted(NotStarted::Host { text: text.to_owned() });
                FinishedRun { run, end, measured: Vec::new() }
            }
        };
        let run = finished.run;
        self.began = None;
        // A session is in use for as long as it has runs: whoever waited for this one finds it.
        self.used_at = self.about.context.clock.now();
        let refused: Option<SessionError> = match &finished.end {
            RunEnd::NotStarted(NotStarted::Prepare(why)) => Some(why.clone().into()),
            RunEnd::NotStarted(NotStarted::Quota(why)) => Some(why.clone().into()),
            _ => None,
        };
        if let Some(why) = refused
            && let Some(caller) = self.caller.take()
        {
            self.step(Event::Rejected { run }).await;
            // What this session could forget is not to be in the way of whoever asks again.
            self.make_room().await;
            _ = caller.reply.send(Err(why));
            return;
        }
        self.admit();
        self.tell_end(&run, &finished.end);
        let log = self.runs.get_mut(&run).map(|known| {
            known.killer = None;
            known.log.clone()
        });
        let ended = run.clone();
        let has_measured = !finished.measured.is_empty();
        self.step(match &finished.end {
            RunEnd::Report(report) => Event::Ended { run, report: Arc::clone(report), measured: finished.measured },
            RunEnd::NotStarted(_) => Event::NotStarted { run },
        })
        .await;
        if has_measured {
            let bytes = self.session.index().memory_bytes() as u64;
            self.indexed = Some(self.about.policy.now().retained.memory.add(bytes));
        }
        let Some(log) = log else { return };
        let kept = self.keep(&log, &finished.end).await;
        self.make_room().await;
        if let Some(known) = self.runs.get_mut(&ended) {
            known.ended = true;
        }
        // Whoever sees the end now finds in the session what it left there.
        log.end(finished.end, Some(kept)).await;
    }

    async fn tick(&mut self) {
        if let Some(gone) = self.caller.as_mut().filter(|caller| caller.reply.is_closed()) {
            gone.watch = None;
        }
        let watched: Vec<(RunId, usize)> =
            self.runs.iter().map(|(run, known)| (run.clone(), known.handle.watchers())).collect();
        for (run, watchers) in watched {
            self.step(Event::Watched { run, watchers }).await;
        }
        self.step(Event::Tick).await;
    }
}

// Waits until a run says what it saw; for ever when there is none to say so.
async fn began(waiting: &mut Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>) -> Option<Option<Fingerprint>> {
    match waiting {
        Some((_, told)) => told.await.ok(),
        None => std::future::pending().await,
    }
}

async fn ticked(tick: &mut Option<Interval>) {
    match tick {
        Some(tick) => _ = tick.tick().await,
        None => std::future::pending().await,
    }
}
