//! A lane of a tenant: one client who opens a session, has runs in it one after the other, each of a kind that the dice
//! choose, closes it and begins anew. Must not know what is taken from the supervisor meanwhile.

use super::World;
use super::event_checker::{End, Follower};
use super::load_setup::own;
use super::run_kinds::{Course, Kind};
use super::tenant_client::{Caller, PATIENCE, Refused};
use super::watched_run::Running;
use crate::seeded_random::Dice;
use proctor_proto::v1::{CancelRunRequest, CloseSessionRequest, CreateSessionRequest, RunTestsRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Status;

/// Runs of a session at most, each of which may be several: a session remembers 16 that have ended.
const RUNS_MAX: usize = 5;

/// Requests of a flood: more than may wait in a session.
const FLOOD: usize = 12;

/// Of a hundred runs, so many have a second watcher.
const WATCHED_TWICE: usize = 25;

/// Longest pause of whoever was refused, or does something in the middle of a run.
const PAUSE_MS: usize = 200;

/// How much later the same request is sent.
const SECOND: Duration = Duration::from_millis(20);

pub(super) struct Lane {
    world: Arc<World>,
    tenant: usize,
    lane: usize,
    dice: Dice,
    /// Makes no two requests the same.
    number: usize,
}

impl Lane {
    pub(super) fn new(world: &Arc<World>, tenant: usize, lane: usize) -> Lane {
        let dice = Dice::numbered(1 + tenant * 1_000 + lane);
        Lane { world: Arc::clone(world), tenant, lane, dice, number: 0 }
    }

    /// Until the world says that it is over.
    pub(super) async fn live(mut self) {
        while !self.world.is_over() {
            let Some(caller) = self.world.connected(self.tenant).await else { return };
            match self.open(caller.clone()).await {
                Some(session) => self.work(caller, &session).await,
                None => self.pause().await,
            }
        }
    }

    fn dawdle(&mut self) -> Duration {
        Duration::from_millis(u64::try_from(self.dice.below(PAUSE_MS)).unwrap_or(0))
    }

    async fn pause(&mut self) {
        sleep(self.dawdle()).await;
    }

    async fn open(&self, mut caller: Caller) -> Option<String> {
        let workspace = self.world.house.workspace(self.tenant, self.lane).to_string_lossy().into_owned();
        let request = CreateSessionRequest { workspace, separate: true, ..CreateSessionRequest::default() };
        let answer = self.answer("CreateSession", caller.sessions.create_session(request)).await?;
        self.world.ledger.tally().sessions += 1;
        answer.into_inner().session.map(|session| session.session_id)
    }

    async fn work(&mut self, caller: Caller, session: &str) {
        for _ in 0..=self.dice.below(RUNS_MAX) {
            let kind = Kind::drawn(&mut self.dice);
            self.run(kind, &caller, session).await;
            if self.world.is_over() || kind.course == Course::Closed {
                break;
            }
        }
        self.close(caller, session).await;
    }

    // A session that is closed already says so, or is not there any more.
    async fn close(&self, mut caller: Caller, session_id: &str) {
        loop {
            let request = CloseSessionRequest { session_id: session_id.to_owned() };
            match timeout(PATIENCE, caller.sessions.close_session(request)).await {
                Err(_) => return self.world.ledger.broken(format!("no answer of CloseSession for {PATIENCE:?}")),
                Ok(Err(status)) if Refused::by(&status) == Refused::Lost => {
                    let Some(again) = self.world.connected(self.tenant).await else { return };
                    caller = again;
                }
                Ok(_) => return,
            }
        }
    }

    // What a call says; `None` when it says no, which is judged here.
    async fn answer<T>(&self, call: &str, asked: impl Future<Output = Result<T, Status>>) -> Option<T> {
        let since = Instant::now();
        match timeout(PATIENCE, asked).await {
            Err(_) => {
                self.world.ledger.broken(format!("no answer of {call} for {PATIENCE:?}"));
                None
            }
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(status)) => {
                self.world.refused(self.tenant, &Refused::by(&status), since);
                None
            }
        }
    }

    fn request(&mut self, kind: &Kind, session: &str) -> RunTestsRequest {
        self.number += 1;
        kind.request(session, self.number)
    }

    async fn run(&mut self, kind: &'static Kind, caller: &Caller, session: &str) {
        let request = self.request(kind, session);
        match kind.course {
            Course::Plain => self.plain(kind, caller, request).await,
            Course::Cancelled => self.cancelled(kind, caller, request).await,
            Course::Twice => {
                let (first, second) = (self.begin(kind, caller, request.clone()), async {
                    sleep(SECOND).await;
                    self.begin(kind, caller, request.clone()).await
                });
                let (first, second) = tokio::join!(first, second);
                tokio::join!(finish(first), finish(second));
            }
            Course::Flood => {
                let requests: Vec<_> = (0..FLOOD).map(|_| self.request(kind, session)).collect();
                let runs: Vec<_> = requests
                    .into_iter()
                    .map(|request| {
                        let begun = begin(Arc::clone(&self.world), self.tenant, kind, caller.clone(), request);
                        tokio::spawn(async move { finish(begun.await).await })
                    })
                    .collect();
                all(runs, &self.world).await;
            }
            Course::Resumed => self.resumed(kind, request).await,
            Course::Abandoned => {
                let Some(mut theirs) = self.world.connected(self.tenant).await else { return };
                let patience = Duration::from_millis(u64::try_from(self.dice.below(6)).unwrap_or(0));
                _ = timeout(patience, theirs.runs.run_tests(request)).await;
                self.world.ledger.fault("client gone before the answer");
            }
            Course::Moved => self.moved(kind, caller, request).await,
            Course::Closed => {
                let Some(mut running) = self.begin(kind, caller, request).await else { return };
                let end = match running.first().await {
                    Ok(()) => {
                        self.pause().await;
                        let (closer, session) = (caller.clone(), session.to_owned());
                        tokio::join!(running.follow(), self.close(closer, &session)).0
                    }
                    Err(end) => end,
                };
                running.conclude(&end).await;
            }
        }
    }

    async fn begin(&self, kind: &'static Kind, caller: &Caller, request: RunTestsRequest) -> Option<Running> {
        begin(Arc::clone(&self.world), self.tenant, kind, caller.clone(), request).await
    }

    async fn plain(&mut self, kind: &'static Kind, caller: &Caller, request: RunTestsRequest) {
        let Some(mut running) = self.begin(kind, caller, request).await else { return self.pause().await };
        let end = match running.first().await {
            Ok(()) => {
                let other = self.dice.percent(WATCHED_TWICE).then(|| self.watch_too(&running));
                let end = running.follow().await;
                all(other, &self.world).await;
                end
            }
            Err(end) => end,
        };
        running.conclude(&end).await;
    }

    // Another watcher, from the first event on, some time later: it may find the run ended.
    fn watch_too(&mut self, running: &Running) -> JoinHandle<()> {
        let (pause, world, run) = (self.dawdle(), Arc::clone(&self.world), running.follower.run.clone());
        let (tenant, kind, caller) = (self.tenant, running.kind, running.caller.clone());
        tokio::spawn(async move {
            sleep(pause).await;
            let (follower, asked) = (Follower::of(&run), Instant::now());
            let mut watching = Running { world, tenant, kind, caller, stream: None, follower, asked };
            let end = watching.follow().await;
            let mut tally = watching.world.ledger.tally();
            tally.watchers += 1;
            drop(tally);
            if matches!(end, End::Finished(_)) {
                watching.world.ledger.ended(&run, &end, watching.follower.next);
            }
        })
    }

    async fn cancelled(&mut self, kind: &'static Kind, caller: &Caller, request: RunTestsRequest) {
        let Some(mut running) = self.begin(kind, caller, request).await else { return self.pause().await };
        let end = match running.first().await {
            Ok(()) => {
                self.pause().await;
                let (mut canceller, run_id) = (caller.clone(), running.follower.run.clone());
                loop {
                    let request = CancelRunRequest { run_id: run_id.clone() };
                    match timeout(PATIENCE, canceller.runs.cancel_run(request)).await {
                        Ok(Err(status)) if Refused::by(&status) == Refused::Lost => {
                            let Some(again) = self.world.connected(self.tenant).await else { break };
                            canceller = again;
                        }
                        _ => break,
                    }
                }
                running.follow().await
            }
            Err(end) => end,
        };
        running.conclude(&end).await;
    }

    // Its client is gone with its connection, and comes back with another.
    async fn resumed(&mut self, kind: &'static Kind, request: RunTestsRequest) {
        let Some(theirs) = self.world.connected(self.tenant).await else { return };
        let Some(mut running) = self.begin(kind, &theirs, request).await else { return self.pause().await };
        drop(theirs);
        let mut end = running.first().await;
        for _ in 0..self.dice.below(3) {
            if end.is_ok() {
                end = running.first().await;
            }
        }
        let end = match end {
            Ok(()) => {
                self.world.ledger.fault("client gone");
                running.stream = None;
                self.pause().await;
                match running.resume().await {
                    Ok(()) => running.follow().await,
                    Err(end) => end,
                }
            }
            Err(end) => end,
        };
        running.conclude(&end).await;
    }

    async fn moved(&mut self, kind: &'static Kind, caller: &Caller, request: RunTestsRequest) {
        let before = self.dice.percent(50);
        if before {
            self.replace();
        }
        if let Some(mut running) = self.begin(kind, caller, request).await {
            let end = match running.first().await {
                Ok(()) => {
                    if !before {
                        self.pause().await;
                        self.replace();
                    }
                    running.follow().await
                }
                Err(end) => end,
            };
            if before && matches!(end, End::Finished(_)) {
                self.world.ledger.broken(format!("a run in a directory that was replaced ended as {end:?}"));
            }
            running.conclude(&end).await;
        }
        self.put_back();
    }

    fn replace(&self) {
        let workspace = self.world.house.workspace(self.tenant, self.lane);
        let moved = std::fs::rename(&workspace, workspace.with_extension("moved"))
            .and_then(|()| std::fs::create_dir(&workspace))
            .and_then(|()| own(&workspace, self.tenant));
        self.world.ledger.fault("workspace replaced");
        if let Err(error) = moved {
            self.world.ledger.broken(format!("a workspace could not be replaced: {error}"));
        }
    }

    fn put_back(&self) {
        let workspace = self.world.house.workspace(self.tenant, self.lane);
        let elsewhere = workspace.with_extension("moved");
        if elsewhere.is_dir() {
            let back = std::fs::remove_dir(&workspace).and_then(|()| std::fs::rename(elsewhere, &workspace));
            if let Err(error) = back {
                self.world.ledger.broken(format!("something was written to what took a workspace's place: {error}"));
            }
        }
    }
}

/// A run that was asked for; `None` when it was refused, which is judged here.
async fn begin(
    world: Arc<World>,
    tenant: usize,
    kind: &'static Kind,
    mut caller: Caller,
    request: RunTestsRequest,
) -> Option<Running> {
    let asked = Instant::now();
    match timeout(PATIENCE, caller.runs.run_tests(request)).await {
        Err(_) => {
            world.ledger.broken(format!("no answer of RunTests for {PATIENCE:?}"));
            None
        }
        Ok(Ok(stream)) => {
            world.ledger.accepted(asked.elapsed());
            let (stream, follower) = (Some(stream.into_inner()), Follower::default());
            Some(Running { world, tenant, kind, caller, stream, follower, asked })
        }
        Ok(Err(status)) => {
            let refused = Refused::by(&status);
            if kind.course == Course::Moved && super::watched_run::is_replaced(&refused) {
                world.ledger.refused(proctor_proto::reason::WORKSPACE_REPLACED);
            } else {
                world.refused(tenant, &refused, asked);
            }
            None
        }
    }
}

async fn finish(running: Option<Running>) {
    if let Some(mut running) = running {
        let end = running.follow().await;
        running.conclude(&end).await;
    }
}

async fn all(tasks: impl IntoIterator<Item = JoinHandle<()>>, world: &World) {
    for task in tasks {
        if let Err(error) = task.await {
            world.ledger.broken(format!("a watcher broke: {error}"));
        }
    }
}
