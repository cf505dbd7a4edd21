//! The state machine of one session: which run is going on, which wait, what the session remembers. `step` takes one
//! event and returns what has to be done; the actor at the edge does it. Must not know channels, tasks or clocks.

use crate::bound::{FINISHED_RUNS_MAX, QUEUED_RUNS_MAX};
use crate::coverage::{CoverageIndex, Measured};
use crate::failure::{Deferred, FailureSlot, Rerun};
use crate::id::RunId;
use crate::outcome::{KillReason, Outcome};
use crate::quota::QuotaExceeded;
use crate::report::Report;
use crate::request::{ALL_FRAMEWORKS, CUSTOM_FRAMEWORK, Fingerprint, IfBusy, RunKind, RunRequest, Selection};
use crate::timestamp::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a run that nobody watches goes on, in milliseconds. An agent's client gives up after its own timer and asks
/// again within seconds; a run that nobody comes back for must not hold the host.
pub const DETACHED_MS_MAX: u64 = 30_000;

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A caller wants a run, for which the edge has drawn a name.
    Requested {
        /// The name that the run gets if it becomes one.
        run: RunId,
        /// What is wanted.
        request: Box<RunRequest>,
        /// What for.
        kind: RunKind,
        /// The workspace as it is now; `None` when nobody has looked, or it is too large to look at, which is never equal to
        /// anything.
        fingerprint: Option<Fingerprint>,
        /// What to do while another run is going on.
        if_busy: IfBusy,
        /// Why it cannot wait behind another run, if its tenant has no room for one more that does.
        no_room: Option<QuotaExceeded>,
    },
    /// A run begins on this workspace.
    Began {
        /// The run.
        run: RunId,
        /// The workspace as it is now.
        fingerprint: Option<Fingerprint>,
    },
    /// How many callers watch a run now.
    Watched {
        /// The run.
        run: RunId,
        /// Callers that watch it.
        watchers: usize,
    },
    /// Somebody wants a run to end.
    CancelRequested {
        /// The run.
        run: RunId,
    },
    /// A run ended and everything of it is gone.
    Ended {
        /// The run.
        run: RunId,
        /// Its report.
        report: Arc<Report>,
        /// What it measured of coverage.
        measured: Vec<Measured>,
    },
    /// A run could not be started, so that nothing was learnt from it.
    NotStarted {
        /// The run.
        run: RunId,
    },
    /// What a run saw of the workspace refuses it, and its caller, who alone knows of it, has not been told that it is one.
    Rejected {
        /// The run.
        run: RunId,
    },
    /// The session's tenant keeps more than it may of runs that have ended.
    Crowded,
    /// Time has passed.
    Tick,
    /// The host takes on no new work. What was accepted goes on.
    DrainRequested,
    /// The session is to end.
    CloseRequested,
}

/// What has to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Tell the caller of `run` that it waits at `position` (0: it starts at once).
    Accept {
        /// The run.
        run: RunId,
        /// Runs that come before it, the running one included.
        position: u32,
    },
    /// Tell the caller of `run` to watch `to` instead.
    Attach {
        /// The name that was drawn and is not used.
        run: RunId,
        /// The run that is the same.
        to: RunId,
        /// Milliseconds since that one was accepted.
        age_ms: u64,
    },
    /// Tell the caller, or the watchers, of `run` why it does not start.
    Refuse {
        /// The run.
        run: RunId,
        /// Why.
        refusal: StartRejected,
    },
    /// Start this run now.
    Start {
        /// The run.
        run: RunId,
        /// What it runs, with the selection resolved.
        request: Box<RunRequest>,
        /// What its report says of what it leaves alone.
        notes: Vec<String>,
    },
    /// Tell the watchers of a waiting run its new place.
    Moved {
        /// The run.
        run: RunId,
        /// Runs that come before it.
        position: u32,
    },
    /// Kill this running run.
    Kill {
        /// The run.
        run: RunId,
        /// Why.
        reason: KillReason,
    },
    /// End this waiting run, which never started.
    Withdraw {
        /// The run.
        run: RunId,
        /// Why.
        reason: KillReason,
    },
    /// Nobody may read this run's events any more.
    Forget {
        /// The run.
        run: RunId,
    },
    /// Everything is over: the actor may end.
    Stop,
}

/// Why a request does not become a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartRejected {
    /// Another run is going on and the caller does not want to wait.
    #[error("another run is going on")]
    Busy,
    /// [`QUEUED_RUNS_MAX`] runs wait already.
    #[error("{QUEUED_RUNS_MAX} runs wait already in this session")]
    QueueFull,
    /// A quota of the tenant is used up.
    #[error(transparent)]
    Quota(QuotaExceeded),
    /// A rerun was asked for before any run.
    #[error("no run_tests call yet in this session")]
    NoRunYet,
    /// A rerun was asked for and the last run passed.
    #[error("last run_tests had no failures — nothing to rerun ({framework})")]
    NothingToRerun {
        /// The last run's framework.
        framework: String,
    },
    /// The host takes on no new work.
    #[error("the supervisor is going down and takes on no new work")]
    Draining,
    /// The session is being closed.
    #[error("the session is being closed")]
    Closing,
}

#[derive(Debug, Clone)]
struct Run {
    run: RunId,
    request: Box<RunRequest>,
    kind: RunKind,
    fingerprint: Option<Fingerprint>,
    accepted_at: Timestamp,
    /// When it is abandoned unless somebody watches it; `None` while somebody does.
    abandon_at: Option<Timestamp>,
    /// Whether it was told to end. Its end may take a while, and says nothing to whoever asks for the same from then on.
    ending: bool,
    /// What of all that failed before it leaves alone, once it runs.
    deferred: Deferred,
}

impl Run {
    // Once it runs. Until it has looked at the workspace, nobody knows what it sees.
    fn can_be_joined(&self) -> bool {
        self.fingerprint.is_some() && !self.ending
    }
}

/// One session.
#[derive(Debug, Default)]
pub struct Session {
    running: Option<Run>,
    waiting: VecDeque<Run>,
    finished: VecDeque<RunId>,
    slot: FailureSlot,
    index: CoverageIndex,
    /// The last request that ran tests, which a rerun repeats with another selection.
    last_request: Option<Box<RunRequest>>,
    last: Option<(RunId, Outcome)>,
    draining: bool,
    closing: bool,
}

impl Session {
    /// A session that remembers what an earlier process of this workspace knew.
    #[must_use]
    pub fn remembering(slot: FailureSlot, index: CoverageIndex, last_request: Option<RunRequest>) -> Self {
        Session { slot, index, last_request: last_request.map(Box::new), ..Session::default() }
    }

    /// The failures of the last run.
    #[must_use]
    pub fn slot(&self) -> &FailureSlot {
        &self.slot
    }

    /// The coverage of all runs.
    #[must_use]
    pub fn index(&self) -> &CoverageIndex {
        &self.index
    }

    /// The last request that ran tests.
    #[must_use]
    pub fn last_request(&self) -> Option<&RunRequest> {
        self.last_request.as_deref()
    }

    /// The run that is going on.
    #[must_use]
    pub fn running(&self) -> Option<&RunId> {
        self.running.as_ref().map(|run| &run.run)
    }

    /// How many runs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The run that is going on and those that wait behind it, in order.
    pub fn unfinished(&self) -> impl Iterator<Item = &RunId> {
        self.running.iter().chain(&self.waiting).map(|run| &run.run)
    }

    /// The last run that ended, and how.
    #[must_use]
    pub fn last(&self) -> Option<&(RunId, Outcome)> {
        self.last.as_ref()
    }

    /// Whether it depends on the workspace what becomes of a request. `may_wait` is whether its tenant has room for one more
    /// run that waits.
    #[must_use]
    pub fn needs_look(&self, request: &RunRequest, kind: RunKind, if_busy: IfBusy, may_wait: bool) -> bool {
        let Some(running) = self.running.as_ref().filter(|_| !self.closing && !self.draining) else { return false };
        let equal = |run: &Run| run.kind == kind && *run.request == *request;
        // It joins the running one if nothing was edited since, whether it would wait or not.
        if equal(running) && running.can_be_joined() {
            return true;
        }
        // A look decides whether it can be carried out at all; but only of what would wait, and for none that it joins.
        let waits = if_busy == IfBusy::Queue && may_wait && self.waiting.len() < QUEUED_RUNS_MAX;
        waits && !self.waiting.iter().any(equal)
    }

    /// Takes one event and says what has to be done, in order.
    #[must_use]
    pub fn step(&mut self, now: Timestamp, event: Event) -> Vec<Effect> {
        match event {
            Event::Requested { run, request, kind, fingerprint, if_busy, no_room } => {
                let asked = Run {
                    run,
                    request,
                    kind,
                    fingerprint,
                    accepted_at: now,
                    abandon_at: Some(now.plus_ms(DETACHED_MS_MAX)),
                    ending: false,
                    deferred: Deferred::default(),
                };
                self.requested(now, asked, if_busy, no_room)
            }
            Event::Began { run, fingerprint } => {
                if let Some(running) = self.running.as_mut().filter(|running| running.run == run) {
                    running.fingerprint = fingerprint;
                }
                Vec::new()
            }
            Event::Watched { run, watchers } => {
                self.watched(now, &run, watchers);
                Vec::new()
            }
            Event::CancelRequested { run } => self.end_run(&run, KillReason::Cancelled),
            Event::Ended { run, report, measured } => self.ended(&run, Some((&report, measured))),
            Event::NotStarted { run } => self.ended(&run, None),
            Event::Rejected { run } => self.refused(run),
            Event::Crowded => self.make_room(),
            Event::Tick => self.abandon(now),
            Event::DrainRequested => {
                self.draining = true;
                Vec::new()
            }
            Event::CloseRequested => self.close(),
        }
    }

    fn requested(
        &mut self,
        now: Timestamp,
        asked: Run,
        if_busy: IfBusy,
        no_room: Option<QuotaExceeded>,
    ) -> Vec<Effect> {
        if self.closing || self.draining {
            let refusal = if self.closing { StartRejected::Closing } else { StartRejected::Draining };
            return vec![Effect::Refuse { run: asked.run, refusal }];
        }
        if let Some(same) = self.same_run(&asked, if_busy) {
            same.abandon_at = Some(now.plus_ms(DETACHED_MS_MAX));
            let (to, age_ms) = (same.run.clone(), now.ms_since(same.accepted_at));
            return vec![Effect::Attach { run: asked.run, to, age_ms }];
        }
        let refusal = match (self.running.is_some(), if_busy) {
            (true, IfBusy::Refuse) => Some(StartRejected::Busy),
            (true, IfBusy::Queue) if self.waiting.len() >= QUEUED_RUNS_MAX => Some(StartRejected::QueueFull),
            (true, IfBusy::Queue) => no_room.map(StartRejected::Quota),
            (false, _) => self.nothing_to_rerun(&asked.request.selection),
        };
        if let Some(refusal) = refusal {
            return vec![Effect::Refuse { run: asked.run, refusal }];
        }
        let position = u32::from(self.running.is_some()) + u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let mut effects = vec![Effect::Accept { run: asked.run.clone(), position }];
        // Every run looks at the workspace when it begins. Until then it may be refused as if it had never been, and nobody can
        // have joined it.
        self.waiting.push_back(Run { fingerprint: None, ..asked });
        effects.extend(self.start_next());
        effects
    }

    // A waiting run has not looked at the workspace yet, so it is the same as any equal request; who refuses to wait
    // does not join it.
    fn same_run(&mut self, asked: &Run, if_busy: IfBusy) -> Option<&mut Run> {
        let equal = |run: &Run| run.kind == asked.kind && run.request == asked.request;
        let running = self
            .running
            .as_mut()
            .filter(|run| equal(run) && run.can_be_joined() && run.fingerprint == asked.fingerprint);
        running.or_else(|| self.waiting.iter_mut().find(|run| if_busy == IfBusy::Queue && equal(run)))
    }

    fn nothing_to_rerun(&self, selection: &Selection) -> Option<StartRejected> {
        let Selection::LastFailed { limit } = selection else { return None };
        match self.slot.rerun(*limit) {
            Rerun::NoRunYet => Some(StartRejected::NoRunYet),
            Rerun::NothingFailed { framework } => Some(StartRejected::NothingToRerun { framework }),
            Rerun::Targets { .. } | Rerun::Everything => None,
        }
    }

    fn start_next(&mut self) -> Vec<Effect> {
        if self.running.is_some() || self.closing {
            return Vec::new();
        }
        let mut effects = Vec::new();
        while let Some(mut next) = self.waiting.pop_front() {
            match self.resolved(&next.request) {
                Ok((request, deferred)) => {
                    effects.push(Effect::Start { run: next.run.clone(), request, notes: deferred.notes() });
                    next.deferred = deferred;
                    self.running = Some(next);
                    break;
                }
                // A rerun that waited may have nothing left to run, because the run before it passed.
                Err(refusal) => {
                    effects.push(Effect::Refuse { run: next.run.clone(), refusal });
                    effects.extend(self.retained(next.run));
                }
            }
        }
        effects.extend(self.moved());
        effects
    }

    // A rerun repeats the last request, environment and framework included, on what failed in the run before it. What it
    // leaves alone of that stands beside it.
    fn resolved(&self, request: &RunRequest) -> Result<(Box<RunRequest>, Deferred), StartRejected> {
        let Selection::LastFailed { limit } = &request.selection else {
            return Ok((Box::new(request.clone()), Deferred::default()));
        };
        let last = self.last_request.as_deref().cloned().unwrap_or_default();
        let (selection, deferred) = match self.slot.rerun(*limit) {
            Rerun::Targets { now, deferred } => (Selection::Exactly(now), deferred),
            Rerun::Everything => (last.selection.clone(), Deferred::default()),
            Rerun::NoRunYet => return Err(StartRejected::NoRunYet),
            Rerun::NothingFailed { framework } => return Err(StartRejected::NothingToRerun { framework }),
        };
        // Several frameworks share a rerun out among them. A command is named by whoever has named it before.
        let of_last = self.slot.last().map(|last| last.framework.as_str());
        let of_last = of_last.filter(|name| !["", CUSTOM_FRAMEWORK].contains(name));
        let of_last = of_last.map(|name| if name.contains(", ") { ALL_FRAMEWORKS } else { name }.to_owned());
        let framework = last.framework.clone().or(of_last);
        Ok((Box::new(RunRequest { selection, framework, limits: request.limits, ..last }), deferred))
    }

    fn watched(&mut self, now: Timestamp, run: &RunId, watchers: usize) {
        let runs = self.running.iter_mut().chain(&mut self.waiting);
        for seen in runs.filter(|seen| seen.run == *run) {
            seen.abandon_at = match (watchers, seen.abandon_at) {
                (0, None) => Some(now.plus_ms(DETACHED_MS_MAX)),
                (0, already) => already,
                _ => None,
            };
        }
    }

    fn end_run(&mut self, run: &RunId, reason: KillReason) -> Vec<Effect> {
        if let Some(running) = self.running.as_mut().filter(|running| running.run == *run) {
            running.ending = true;
            return vec![Effect::Kill { run: run.clone(), reason }];
        }
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.run != *run);
        if self.waiting.len() == before {
            return Vec::new();
        }
        let withdraw = Effect::Withdraw { run: run.clone(), reason };
        let mut effects = vec![withdraw];
        effects.extend(self.moved());
        effects.extend(self.retained(run.clone()));
        effects
    }

    fn moved(&self) -> impl Iterator<Item = Effect> {
        (1..).zip(&self.waiting).map(|(position, run)| Effect::Moved { run: run.run.clone(), position })
    }

    fn abandon(&mut self, now: Timestamp) -> Vec<Effect> {
        let abandoned: Vec<RunId> = self
            .running
            .iter()
            .chain(&self.waiting)
            .filter(|run| run.abandon_at.is_some_and(|at| at <= now))
            .map(|run| run.run.clone())
            .collect();
        abandoned.iter().flat_map(|run| self.end_run(run, KillReason::Abandoned)).collect()
    }

    fn ended(&mut self, run: &RunId, learnt: Option<(&Report, Vec<Measured>)>) -> Vec<Effect> {
        let Some(ended) = self.running.take_if(|running| running.run == *run) else { return Vec::new() };
        if let Some((report, measured)) = learnt.filter(|_| ended.kind == RunKind::Tests) {
            let whole = ended.request.selection.is_whole() && !report.partial && report.collectors.is_empty();
            self.index.ingest(measured, whole, report.started_at);
            self.slot.fill(run.clone(), report, ended.deferred);
            self.last = Some((run.clone(), report.outcome));
            if !matches!(ended.request.selection, Selection::LastFailed { .. }) {
                self.last_request = Some(ended.request);
            }
        }
        // What a listing listed has been read by whoever asked; what a run of tests did is asked for again.
        let mut effects = match ended.kind {
            RunKind::Tests => self.retained(run.clone()),
            RunKind::Listing => vec![Effect::Forget { run: run.clone() }],
        };
        effects.extend(self.go_on());
        effects
    }

    fn refused(&mut self, run: RunId) -> Vec<Effect> {
        if self.running.take_if(|running| running.run == run).is_none() {
            return Vec::new();
        }
        let mut effects = vec![Effect::Forget { run }];
        effects.extend(self.go_on());
        effects
    }

    fn go_on(&mut self) -> Vec<Effect> {
        if self.closing { vec![Effect::Stop] } else { self.start_next() }
    }

    fn retained(&mut self, run: RunId) -> Vec<Effect> {
        self.finished.push_back(run);
        if self.finished.len() > FINISHED_RUNS_MAX { self.make_room() } else { Vec::new() }
    }

    // The one that ended before all others, but for two: whoever has started the newest has a right to read it, and the
    // last that ran tests is what the session names. Those that were withdrawn since push neither out.
    fn make_room(&mut self) -> Vec<Effect> {
        let last = self.last.as_ref().map(|(run, _)| run);
        let earlier = self.finished.iter().take(self.finished.len().saturating_sub(1));
        let oldest = earlier.into_iter().position(|run| Some(run) != last);
        let forgotten = oldest.and_then(|place| self.finished.remove(place));
        forgotten.map(|run| Effect::Forget { run }).into_iter().collect()
    }

    fn close(&mut self) -> Vec<Effect> {
        if self.closing {
            return Vec::new();
        }
        self.closing = true;
        let reason = KillReason::Closed;
        let mut effects: Vec<Effect> =
            self.waiting.drain(..).map(|run| Effect::Withdraw { run: run.run, reason }).collect();
        match &self.running {
            Some(running) => effects.push(Effect::Kill { run: running.run.clone(), reason }),
            None => effects.push(Effect::Stop),
        }
        effects
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
