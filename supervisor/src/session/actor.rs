//! The actor of a session: carries messages into `step` and its effects out. It never waits for a run. Must not decide
//! anything; what a session does is in [`proctor_core::session`].

use super::{Asked, Memory, Message, Started, Status};
use crate::context::{Context, Policy};
use crate::prepare::Ahead;
use crate::run::{
    self, Drive, Finished, KillOnDrop, Killer, LogWriter, NotStarted, RunEnd, RunHandle, without_running,
};
use crate::workspace::Workspace;
use proctor_core::event::RunEvent;
use proctor_core::id::{RunId, SessionId};
use proctor_core::moment::Moment;
use proctor_core::outcome::KillReason;
use proctor_core::request::{Fingerprint, RunRequest};
use proctor_core::session::{Effect, Event, Refusal, RunKind, Session};
use proctor_sandbox::Spool;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

/// How often a session with runs looks whether somebody still watches them.
const TICK: Duration = Duration::from_secs(1);

/// How long a session lives that nobody uses: longer than a person's night, so that its memory is there in the morning.
const IDLE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// A run that the session still knows: waiting, going on, or ended and readable.
struct Known {
    handle: RunHandle,
    log: LogWriter,
    kind: RunKind,
    accepted_at: Moment,
    /// What it needs to start; gone once it has.
    unstarted: Option<Unstarted>,
    /// The way to end it while it goes on.
    killer: Option<KillOnDrop>,
}

struct Unstarted {
    spools: (Spool, Spool),
    /// Gone once it has waited: then it is prepared anew.
    ahead: Option<Ahead>,
}

pub(super) struct Actor {
    id: SessionId,
    context: Arc<Context>,
    policy: Arc<Policy>,
    workspace: Workspace,
    session: Session,
    runs: HashMap<RunId, Known>,
    drivers: JoinSet<Finished>,
    /// The answer to the question "what did the run that waited see when it began?", for at most one run.
    began: Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>,
    runs_named: u64,
    created_at: Moment,
    used_at: Moment,
    closers: Vec<oneshot::Sender<()>>,
    stopped: bool,
}

impl Actor {
    pub(super) fn new(
        id: SessionId,
        context: Arc<Context>,
        policy: Arc<Policy>,
        workspace: Workspace,
        session: Session,
    ) -> Actor {
        let now = context.clock.now();
        Actor {
            id,
            context,
            policy,
            workspace,
            session,
            runs: HashMap::new(),
            drivers: JoinSet::new(),
            began: None,
            runs_named: 0,
            created_at: now,
            used_at: now,
            closers: Vec::new(),
            stopped: false,
        }
    }

    pub(super) async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asked = true;
        while !self.stopped {
            let busy = self.session.running().is_some() || self.session.waiting() > 0;
            let idle = IDLE_MAX.saturating_sub(Duration::from_millis(self.context.clock.now().ms_since(self.used_at)));
            tokio::select! {
                message = messages.recv(), if asked => match message {
                    Some(message) => self.message(message).await,
                    // Every handle is gone: nobody can ask for anything any more.
                    None => {
                        asked = false;
                        self.step(Event::CloseRequested).await;
                    }
                },
                () = sleep(idle), if !busy => self.step(Event::CloseRequested).await,
                Some(ended) = self.drivers.join_next() => self.ended(ended).await,
                fingerprint = began(&mut self.began) => self.run_began(fingerprint).await,
                _ = tick.tick(), if busy => self.tick().await,
            }
        }
        self.retire().await;
        for closer in self.closers.drain(..) {
            _ = closer.send(());
        }
    }

    /// Lets go of the worker that waits for this session's next run.
    async fn retire(&mut self) {
        if self.runs_named > 0 {
            let (sandbox, policy) = (Arc::clone(&self.context.sandbox), Arc::clone(&self.policy));
            let root = self.workspace.root().to_owned();
            // Ending processes blocks. It can only fail by a panic, and then nothing is left to do.
            _ = tokio::task::spawn_blocking(move || sandbox.retire(&policy.owner, &root)).await;
        }
    }

    async fn message(&mut self, message: Message) {
        self.used_at = self.context.clock.now();
        match message {
            Message::Start { asked, reply } => {
                let answer = self.start(*asked).await;
                _ = reply.send(answer);
            }
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
            Message::Memory { reply } => {
                _ = reply.send(Memory {
                    slot: self.session.slot().clone(),
                    index: self.session.index().clone(),
                    last_request: self.session.last_request().cloned(),
                });
            }
            Message::Close { reply } => {
                self.closers.push(reply);
                self.step(Event::CloseRequested).await;
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

    async fn start(&mut self, asked: Asked) -> Result<Started, Refusal> {
        self.runs_named += 1;
        let run = RunId::new(format!("{}-{}", self.id, self.runs_named));
        let spools = (Spool::default(), Spool::default());
        let (log, handle) = run::open(self.context.clock, spools.0.reader(), spools.1.reader());
        let known = Known {
            handle,
            log,
            kind: asked.kind,
            accepted_at: self.context.clock.now(),
            unstarted: Some(Unstarted { spools, ahead: None }),
            killer: None,
        };
        self.runs.insert(run.clone(), known);
        let event = Event::Requested {
            run,
            request: Box::new(asked.request),
            kind: asked.kind,
            fingerprint: asked.fingerprint,
            if_busy: asked.if_busy,
        };
        let effects = self.session.step(self.context.clock.now(), event);
        self.answer(effects, asked.ahead).await
    }

    // The first effect answers the request; what follows is done as after any event.
    async fn answer(&mut self, effects: Vec<Effect>, ahead: Ahead) -> Result<Started, Refusal> {
        let mut effects = effects.into_iter();
        let answer = match effects.next() {
            Some(Effect::Accept { run, position }) => match self.runs.get_mut(&run) {
                Some(known) => {
                    known.log.append(vec![RunEvent::Queued { position }]).await;
                    if let Some(unstarted) = known.unstarted.as_mut().filter(|_| position == 0) {
                        unstarted.ahead = Some(ahead);
                    }
                    Ok(Started { run, handle: known.handle.clone(), attached_age_ms: None })
                }
                None => Err(Refusal::Closing),
            },
            Some(Effect::Attach { run, to, age_ms }) => {
                self.runs.remove(&run);
                let known = self.runs.get(&to).ok_or(Refusal::Closing);
                known.map(|known| Started { run: to, handle: known.handle.clone(), attached_age_ms: Some(age_ms) })
            }
            Some(Effect::Refuse { run, refusal }) => {
                self.runs.remove(&run);
                Err(refusal)
            }
            _ => Err(Refusal::Closing),
        };
        self.carry_out(effects.collect()).await;
        answer
    }

    async fn step(&mut self, event: Event) {
        let effects = self.session.step(self.context.clock.now(), event);
        self.carry_out(effects).await;
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { run, request } => self.drive(run, *request),
                Effect::Moved { run, position } => {
                    if let Some(known) = self.runs.get(&run) {
                        known.log.append(vec![RunEvent::Queued { position }]).await;
                    }
                }
                Effect::Kill { run, reason } => self.kill(&run, reason),
                Effect::Withdraw { run, reason } => {
                    if let Some(known) = self.runs.get_mut(&run) {
                        known.unstarted = None;
                        let (now, note) = (self.context.clock.now(), "ended while it waited behind another run");
                        let report = without_running(now, self.policy.defaults, "", reason, note);
                        known.log.end(RunEnd::Report(Arc::new(report))).await;
                    }
                }
                Effect::Forget { run } => _ = self.runs.remove(&run),
                Effect::Stop => self.stopped = true,
                Effect::Refuse { run, refusal } => {
                    if let Some(known) = self.runs.get_mut(&run) {
                        known.unstarted = None;
                        known.log.end(RunEnd::NotStarted(NotStarted::Refused(refusal))).await;
                    }
                }
                // These answer a request and were taken out by `answer`.
                Effect::Accept { .. } | Effect::Attach { .. } => {}
            }
        }
    }

    fn kill(&self, run: &RunId, reason: KillReason) {
        if let Some(KillOnDrop(killer)) = self.runs.get(run).and_then(|known| known.killer.as_ref()) {
            killer.kill(reason);
        }
    }

    fn drive(&mut self, run: RunId, request: RunRequest) {
        let Some(known) = self.runs.get_mut(&run) else { return };
        let Some(unstarted) = known.unstarted.take() else { return };
        let killer = match Killer::new() {
            Ok(killer) => killer,
            Err(error) => {
                tracing::error!(%error, run = %run, "no descriptor for a run");
                let text = "the host has no file descriptors left".to_owned();
                let end = RunEnd::NotStarted(NotStarted::Host { text });
                self.drivers.spawn(std::future::ready(Finished { run, end, measured: Vec::new() }));
                return;
            }
        };
        known.killer = Some(KillOnDrop(killer.clone()));
        let began = unstarted.ahead.is_none().then(|| {
            let (told, hear) = oneshot::channel();
            self.began = Some((run.clone(), hear));
            told
        });
        self.drivers.spawn(run::drive(Drive {
            context: Arc::clone(&self.context),
            policy: Arc::clone(&self.policy),
            workspace: self.workspace.clone(),
            run,
            request,
            kind: known.kind,
            ahead: unstarted.ahead,
            accepted_at: known.accepted_at,
            log: known.log.clone(),
            spools: unstarted.spools,
            killer,
            began,
        }));
    }

    async fn run_began(&mut self, fingerprint: Option<Fingerprint>) {
        if let Some((run, _)) = self.began.take() {
            self.step(Event::Began { run, fingerprint }).await;
        }
    }

    async fn ended(&mut self, ended: Result<Finished, JoinError>) {
        let finished = match ended {
            Ok(finished) => finished,
            Err(error) => {
                // A driver that panicked took its run along; the session goes on.
                tracing::error!(%error, session = %self.id, "a run's driver broke");
                let Some(run) = self.session.running().cloned() else { return };
                let text = "the supervisor failed while it read this run; its operator finds the reason in the log";
                let end = RunEnd::NotStarted(NotStarted::Host { text: text.to_owned() });
                Finished { run, end, measured: Vec::new() }
            }
        };
        let log = self.runs.get_mut(&finished.run).map(|known| {
            known.killer = None;
            known.log.clone()
        });
        let run = finished.run;
        self.step(match &finished.end {
            RunEnd::Report(report) => Event::Ended { run, report: Arc::clone(report), measured: finished.measured },
            RunEnd::NotStarted(_) => Event::NotStarted { run },
        })
        .await;
        // Whoever sees the end now finds in the session what it left there.
        if let Some(log) = log {
            log.end(finished.end).await;
        }
    }

    async fn tick(&mut self) {
        let watched: Vec<(RunId, usize)> =
            self.runs.iter().map(|(run, known)| (run.clone(), known.handle.watchers())).collect();
        for (run, watchers) in watched {
            self.step(Event::Watched { run, watchers }).await;
        }
        self.step(Event::Tick).await;
    }
}

// Waits for the answer of a run that began after waiting; for ever when there is no such run.
async fn began(waiting: &mut Option<(RunId, oneshot::Receiver<Option<Fingerprint>>)>) -> Option<Fingerprint> {
    match waiting {
        Some((_, told)) => told.await.ok().flatten(),
        None => std::future::pending().await,
    }
}
