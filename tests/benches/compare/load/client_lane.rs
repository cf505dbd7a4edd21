//! A client lane of a tenant: opens a session, runs a random sequence of run kinds in it, closes it and starts over.

use super::LoadContext;
use super::event_checker::{End, EventChecker};
use super::load_setup::chown_to_tenant;
use super::run_kinds::{RunKind, Scenario};
use super::tenant_client::{CallError, TenantClient, WAIT_MAX};
use super::watched_run::WatchedRun;
use crate::seeded_random::SeededRandom;
use proctor_proto::v1::{CancelRunRequest, CloseSessionRequest, CreateSessionRequest, RunTestsRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::Status;

/// Most requests per session; some start several runs. A session remembers 16 finished runs.
const RUNS_MAX: usize = 5;

/// Requests of a flood: more than a session may queue.
const FLOOD_REQUESTS: usize = 12;

/// Percentage of runs with a second watcher.
const WATCHED_TWICE_PERCENT: usize = 25;

/// Longest pause after a refusal or before an action during a run.
const PAUSE_MS: usize = 200;

/// Delay before an identical request is sent.
const SECOND_REQUEST_DELAY: Duration = Duration::from_millis(20);

pub(super) struct ClientLane {
    context: Arc<LoadContext>,
    tenant: usize,
    lane: usize,
    random: SeededRandom,
    /// Number of requests, which makes each request unique.
    number: usize,
}

impl ClientLane {
    pub(super) fn new(context: &Arc<LoadContext>, tenant: usize, lane: usize) -> ClientLane {
        let random = SeededRandom::with_seed(1 + tenant * 1_000 + lane);
        ClientLane { context: Arc::clone(context), tenant, lane, random, number: 0 }
    }

    /// Runs until the load is over.
    pub(super) async fn run(mut self) {
        while !self.context.is_over() {
            let Some(client) = self.context.connect(self.tenant).await else { return };
            match self.open(client.clone()).await {
                Some(session) => self.work(client, &session).await,
                None => self.pause().await,
            }
        }
    }

    fn random_pause(&mut self) -> Duration {
        Duration::from_millis(u64::try_from(self.random.below(PAUSE_MS)).unwrap_or(0))
    }

    async fn pause(&mut self) {
        sleep(self.random_pause()).await;
    }

    async fn open(&self, mut client: TenantClient) -> Option<String> {
        let workspace = self.context.supervisor.workspace(self.tenant, self.lane).to_string_lossy().into_owned();
        let request = CreateSessionRequest { workspace, separate: true, ..CreateSessionRequest::default() };
        let answer = self.answer("CreateSession", client.sessions.create_session(request)).await?;
        self.context.tally.lock().sessions += 1;
        answer.into_inner().session.map(|session| session.session_id)
    }

    async fn work(&mut self, client: TenantClient, session: &str) {
        for _ in 0..=self.random.below(RUNS_MAX) {
            let kind = RunKind::draw(&mut self.random);
            self.run_kind(kind, &client, session).await;
            if self.context.is_over() || kind.scenario == Scenario::SessionClosed {
                break;
            }
        }
        self.close(client, session).await;
    }

    // A session that is closed already returns an error, which is ignored.
    async fn close(&self, mut client: TenantClient, session_id: &str) {
        loop {
            let request = CloseSessionRequest { session_id: session_id.to_owned() };
            match timeout(WAIT_MAX, client.sessions.close_session(request)).await {
                Err(_) => {
                    return self.context.tally.record_violation(format!("no answer of CloseSession for {WAIT_MAX:?}"));
                }
                Ok(Err(status)) if CallError::from_status(&status) == CallError::ConnectionLost => {
                    let Some(again) = self.context.connect(self.tenant).await else { return };
                    client = again;
                }
                Ok(_) => return,
            }
        }
    }

    // The answer of a call; `None` after an error, which is checked here.
    async fn answer<T>(&self, call: &str, answer: impl Future<Output = Result<T, Status>>) -> Option<T> {
        let since = Instant::now();
        match timeout(WAIT_MAX, answer).await {
            Err(_) => {
                self.context.tally.record_violation(format!("no answer of {call} for {WAIT_MAX:?}"));
                None
            }
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(status)) => {
                self.context.check_refusal(self.tenant, &CallError::from_status(&status), since);
                None
            }
        }
    }

    fn request(&mut self, kind: &RunKind, session: &str) -> RunTestsRequest {
        self.number += 1;
        kind.request(session, self.number)
    }

    async fn run_kind(&mut self, kind: &'static RunKind, client: &TenantClient, session: &str) {
        let request = self.request(kind, session);
        match kind.scenario {
            Scenario::Plain => self.run_plain(kind, client, request).await,
            Scenario::Cancelled => self.cancel_during_run(kind, client, request).await,
            Scenario::SentTwice => {
                let (first, second) = (self.begin(kind, client, request.clone()), async {
                    sleep(SECOND_REQUEST_DELAY).await;
                    self.begin(kind, client, request.clone()).await
                });
                let (first, second) = tokio::join!(first, second);
                tokio::join!(finish(first), finish(second));
            }
            Scenario::Flood => {
                let requests: Vec<_> = (0..FLOOD_REQUESTS).map(|_| self.request(kind, session)).collect();
                let runs: Vec<_> = requests
                    .into_iter()
                    .map(|request| {
                        let starting = begin(Arc::clone(&self.context), self.tenant, kind, client.clone(), request);
                        tokio::spawn(async move { finish(starting.await).await })
                    })
                    .collect();
                join_all(runs, &self.context).await;
            }
            Scenario::Resumed => self.resume_on_new_connection(kind, request).await,
            Scenario::Abandoned => {
                let Some(mut own_client) = self.context.connect(self.tenant).await else { return };
                let limit = Duration::from_millis(u64::try_from(self.random.below(6)).unwrap_or(0));
                _ = timeout(limit, own_client.runs.run_tests(request)).await;
                self.context.tally.count_fault("client gone before the answer");
            }
            Scenario::WorkspaceReplaced => self.replace_during_run(kind, client, request).await,
            Scenario::SessionClosed => {
                let Some(mut watched) = self.begin(kind, client, request).await else { return };
                let end = match watched.first().await {
                    Ok(()) => {
                        self.pause().await;
                        let (closer, session) = (client.clone(), session.to_owned());
                        tokio::join!(watched.follow(), self.close(closer, &session)).0
                    }
                    Err(end) => end,
                };
                watched.conclude(&end).await;
            }
        }
    }

    async fn begin(
        &self,
        kind: &'static RunKind,
        client: &TenantClient,
        request: RunTestsRequest,
    ) -> Option<WatchedRun> {
        begin(Arc::clone(&self.context), self.tenant, kind, client.clone(), request).await
    }

    async fn run_plain(&mut self, kind: &'static RunKind, client: &TenantClient, request: RunTestsRequest) {
        let Some(mut watched) = self.begin(kind, client, request).await else { return self.pause().await };
        let end = match watched.first().await {
            Ok(()) => {
                let other = self.random.percent(WATCHED_TWICE_PERCENT).then(|| self.add_watcher(&watched));
                let end = watched.follow().await;
                join_all(other, &self.context).await;
                end
            }
            Err(end) => end,
        };
        watched.conclude(&end).await;
    }

    // Adds a watcher from the first event on, after a pause; the run may have ended by then.
    fn add_watcher(&mut self, watched: &WatchedRun) -> JoinHandle<()> {
        let (pause, context, run) = (self.random_pause(), Arc::clone(&self.context), watched.checker.run.clone());
        let (tenant, kind, client) = (self.tenant, watched.kind, watched.client.clone());
        tokio::spawn(async move {
            sleep(pause).await;
            let (checker, requested) = (EventChecker::for_run(&run), Instant::now());
            let mut watching = WatchedRun { context, tenant, kind, client, stream: None, checker, requested };
            let end = watching.follow().await;
            let mut tally = watching.context.tally.lock();
            tally.watchers += 1;
            drop(tally);
            if matches!(end, End::Finished(_)) {
                watching.context.tally.record_end(&run, &end, watching.checker.next);
            }
        })
    }

    async fn cancel_during_run(&mut self, kind: &'static RunKind, client: &TenantClient, request: RunTestsRequest) {
        let Some(mut watched) = self.begin(kind, client, request).await else { return self.pause().await };
        let end = match watched.first().await {
            Ok(()) => {
                self.pause().await;
                let (mut canceller, run_id) = (client.clone(), watched.checker.run.clone());
                loop {
                    let request = CancelRunRequest { run_id: run_id.clone() };
                    match timeout(WAIT_MAX, canceller.runs.cancel_run(request)).await {
                        Ok(Err(status)) if CallError::from_status(&status) == CallError::ConnectionLost => {
                            let Some(again) = self.context.connect(self.tenant).await else { break };
                            canceller = again;
                        }
                        _ => break,
                    }
                }
                watched.follow().await
            }
            Err(end) => end,
        };
        watched.conclude(&end).await;
    }

    // The client loses its connection and resumes the stream on a new one.
    async fn resume_on_new_connection(&mut self, kind: &'static RunKind, request: RunTestsRequest) {
        let Some(own_client) = self.context.connect(self.tenant).await else { return };
        let Some(mut watched) = self.begin(kind, &own_client, request).await else { return self.pause().await };
        drop(own_client);
        let mut end = watched.first().await;
        for _ in 0..self.random.below(3) {
            if end.is_ok() {
                end = watched.first().await;
            }
        }
        let end = match end {
            Ok(()) => {
                self.context.tally.count_fault("client gone");
                watched.stream = None;
                self.pause().await;
                match watched.resume().await {
                    Ok(()) => watched.follow().await,
                    Err(end) => end,
                }
            }
            Err(end) => end,
        };
        watched.conclude(&end).await;
    }

    async fn replace_during_run(&mut self, kind: &'static RunKind, client: &TenantClient, request: RunTestsRequest) {
        let before = self.random.percent(50);
        if before {
            self.replace_workspace();
        }
        if let Some(mut watched) = self.begin(kind, client, request).await {
            let end = match watched.first().await {
                Ok(()) => {
                    if !before {
                        self.pause().await;
                        self.replace_workspace();
                    }
                    watched.follow().await
                }
                Err(end) => end,
            };
            if before && matches!(end, End::Finished(_)) {
                self.context.tally.record_violation(format!("a run in a directory that was replaced ended as {end:?}"));
            }
            watched.conclude(&end).await;
        }
        self.restore_workspace();
    }

    fn replace_workspace(&self) {
        let workspace = self.context.supervisor.workspace(self.tenant, self.lane);
        let moved = std::fs::rename(&workspace, workspace.with_extension("moved"))
            .and_then(|()| std::fs::create_dir(&workspace))
            .and_then(|()| chown_to_tenant(&workspace, self.tenant));
        self.context.tally.count_fault("workspace replaced");
        if let Err(error) = moved {
            self.context.tally.record_violation(format!("a workspace could not be replaced: {error}"));
        }
    }

    fn restore_workspace(&self) {
        let workspace = self.context.supervisor.workspace(self.tenant, self.lane);
        let original = workspace.with_extension("moved");
        if original.is_dir() {
            let back = std::fs::remove_dir(&workspace).and_then(|()| std::fs::rename(original, &workspace));
            if let Err(error) = back {
                self.context.tally.record_violation(format!("files were written to a replaced workspace: {error}"));
            }
        }
    }
}

/// Starts a run; `None` when it was refused, which is checked here.
async fn begin(
    context: Arc<LoadContext>,
    tenant: usize,
    kind: &'static RunKind,
    mut client: TenantClient,
    request: RunTestsRequest,
) -> Option<WatchedRun> {
    let requested = Instant::now();
    match timeout(WAIT_MAX, client.runs.run_tests(request)).await {
        Err(_) => {
            context.tally.record_violation(format!("no answer of RunTests for {WAIT_MAX:?}"));
            None
        }
        Ok(Ok(stream)) => {
            context.tally.record_acceptance(requested.elapsed());
            let (stream, checker) = (Some(stream.into_inner()), EventChecker::default());
            Some(WatchedRun { context, tenant, kind, client, stream, checker, requested })
        }
        Ok(Err(status)) => {
            let refused = CallError::from_status(&status);
            if kind.scenario == Scenario::WorkspaceReplaced && super::watched_run::is_replaced(&refused) {
                context.tally.count_refusal(proctor_proto::reason::WORKSPACE_REPLACED);
            } else {
                context.check_refusal(tenant, &refused, requested);
            }
            None
        }
    }
}

async fn finish(watched: Option<WatchedRun>) {
    if let Some(mut watched) = watched {
        let end = watched.follow().await;
        watched.conclude(&end).await;
    }
}

async fn join_all(tasks: impl IntoIterator<Item = JoinHandle<()>>, context: &LoadContext) {
    for task in tasks {
        if let Err(error) = task.await {
            context.tally.record_violation(format!("a watcher panicked: {error}"));
        }
    }
}
