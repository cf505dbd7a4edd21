//! The registry of sessions by tenant. A task with a mailbox; it answers at once and never waits for a session.

use crate::ops::drain::ClosedRuns;
use crate::random_id::random_id;
use crate::runs::context::Context;
use crate::sessions::limits::SessionLimits;
use crate::sessions::{SessionHandle, SessionMemory, SessionOptions, prepare_actor};
use crate::telemetry::failure_streak::StreakSummary;
use crate::tenants::Tenant;
use crate::workspace::Workspace;
use futures_util::FutureExt;
use proctor_core::id::{RunId, SessionId, TenantId};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinSet};

/// Messages that may wait. Each is answered without waiting, so a thousand is a burst of milliseconds.
const MAILBOX: usize = 1_024;

/// Request for a session.
#[derive(Clone)]
pub struct CreateRequest {
    /// The tenant.
    pub tenant: Arc<Tenant>,
    /// The workspace.
    pub workspace: Workspace,
    /// Makes the request idempotent; empty for none.
    pub client_request_id: String,
    /// Whether the session must not be the one that the tenant's callers share in this workspace.
    pub separate: bool,
    /// Requested idle time after which it closes.
    pub idle_max: Option<Duration>,
}

/// The session for a request.
#[derive(Clone)]
pub struct OpenedSession {
    /// The session.
    pub session: SessionHandle,
    /// Whether it existed already.
    pub existing: bool,
}

/// The sessions of one tenant, for an operator.
#[derive(Clone)]
pub struct TenantSessions {
    /// The tenant.
    pub tenant: TenantId,
    /// Number of its sessions.
    pub sessions: usize,
    /// Its sessions with runs.
    pub busy: Vec<SessionHandle>,
}

/// Numbers of sessions, and how long their tests have failed.
#[derive(Debug, Clone, Default)]
pub struct SessionCounts {
    /// Sessions of each tenant that has any.
    pub by_tenant: HashMap<TenantId, u64>,
    /// Failed runs in a row, over all sessions.
    pub streaks: StreakSummary,
}

/// Sort key of a session among those of all tenants.
type SessionKey = (TenantId, SessionId);

enum RegistryMessage {
    Create { request: Box<CreateRequest>, reply: oneshot::Sender<Result<OpenedSession, CreateError>> },
    Find { tenant: TenantId, session: SessionId, reply: oneshot::Sender<Option<SessionHandle>> },
    List { tenant: TenantId, after: String, limit: usize, reply: oneshot::Sender<Vec<SessionHandle>> },
    ListAll { after: SessionKey, limit: usize, reply: oneshot::Sender<Vec<(TenantId, SessionHandle)>> },
    ByTenant { reply: oneshot::Sender<Vec<TenantSessions>> },
    Counts { reply: oneshot::Sender<SessionCounts> },
    Drain { reply: oneshot::Sender<Vec<SessionHandle>> },
    Ping { reply: oneshot::Sender<()> },
}

/// Why a session was not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The tenant's quota is used up.
    #[error("the tenant has {max} sessions")]
    TooMany {
        /// The quota.
        max: usize,
    },
    /// The host's bound is reached.
    #[error("the host has no room for another session")]
    HostFull,
    /// The supervisor shuts down.
    #[error("the supervisor is shutting down and accepts no new runs")]
    Draining,
    /// No random numbers, or the registry has ended.
    #[error("the supervisor cannot create sessions now")]
    Unavailable,
}

/// A handle to the registry.
#[derive(Debug, Clone)]
pub struct Registry {
    mailbox: mpsc::Sender<RegistryMessage>,
}

impl Registry {
    /// Starts the registry. It ends, together with its sessions, when every handle is dropped.
    #[must_use]
    pub fn start(context: Arc<Context>, bounds: SessionLimits) -> Registry {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let sessions =
            RegistryTask { context, bounds, tenants: HashMap::new(), open: 0, draining: false, actors: JoinSet::new() };
        tokio::spawn(sessions.serve(messages));
        Registry { mailbox }
    }

    /// Creates a session, or finds the requested one and uses it.
    pub async fn create(&self, request: CreateRequest) -> Result<OpenedSession, CreateError> {
        loop {
            let request = Box::new(request.clone());
            let answer = self.request(|reply| RegistryMessage::Create { request, reply }).await;
            let opened = answer.unwrap_or(Err(CreateError::Unavailable))?;
            // A session that expired in the meantime is not found again, so each round needs another one that expires.
            if !opened.existing || opened.session.touch().await.is_ok() {
                return Ok(opened);
            }
        }
    }

    /// A session of this tenant. `None` for another tenant's session as for an unknown one.
    pub async fn find(&self, tenant: TenantId, session: SessionId) -> Option<SessionHandle> {
        self.find_including_crashed(tenant, session).await.filter(|session| !session.is_crashed())
    }

    /// The session of this run, if it is this tenant's. A crashed one still answers how its runs ended.
    pub async fn find_by_run(&self, tenant: TenantId, run: &RunId) -> Option<SessionHandle> {
        let (session, _) = run.as_str().rsplit_once('-')?;
        self.find_including_crashed(tenant, SessionId::new(session)).await
    }

    // Also finds a crashed session.
    async fn find_including_crashed(&self, tenant: TenantId, session: SessionId) -> Option<SessionHandle> {
        self.request(|reply| RegistryMessage::Find { tenant, session, reply }).await.flatten()
    }

    /// At most `limit` sessions of this tenant with ids after `after`, sorted.
    pub async fn list(&self, tenant: TenantId, after: String, limit: usize) -> Vec<SessionHandle> {
        self.request(|reply| RegistryMessage::List { tenant, after, limit, reply }).await.unwrap_or_default()
    }

    /// At most `limit` sessions of all tenants after `after`, sorted by tenant and id.
    pub async fn list_all(&self, after: (TenantId, SessionId), limit: usize) -> Vec<(TenantId, SessionHandle)> {
        self.request(|reply| RegistryMessage::ListAll { after, limit, reply }).await.unwrap_or_default()
    }

    /// The number of sessions and the busy sessions of each tenant that has any.
    pub async fn sessions_by_tenant(&self) -> Vec<TenantSessions> {
        self.request(|reply| RegistryMessage::ByTenant { reply }).await.unwrap_or_default()
    }

    /// Numbers of sessions and of those whose tests keep failing. `None` if the registry has ended.
    pub async fn session_counts(&self) -> Option<SessionCounts> {
        self.request(|reply| RegistryMessage::Counts { reply }).await
    }

    /// Whether the registry answers.
    pub async fn ping(&self) -> bool {
        self.request(|reply| RegistryMessage::Ping { reply }).await.is_some()
    }

    /// Refuses new work and waits for the accepted runs until `deadline`, and after the last of them for
    /// `READ_GRACE`, so that their callers can read the results; then kills the rest, closes every session and
    /// returns when nothing of them is left.
    pub async fn drain(&self, deadline: impl Future<Output = ()>) -> ClosedRuns {
        let sessions = self.request(|reply| RegistryMessage::Drain { reply }).await.unwrap_or_default();
        let had_runs = sessions.iter().any(SessionHandle::is_busy);
        let mut draining = JoinSet::new();
        for session in sessions.clone() {
            draining.spawn(async move { session.drain().await });
        }
        let ended = async {
            while draining.join_next().await.is_some() {}
            if had_runs {
                tokio::time::sleep(READ_GRACE).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = deadline => {}
        }
        drop(draining);
        close_all(sessions).await
    }

    async fn request<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> RegistryMessage) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// Closes sessions concurrently and returns when nothing of them is left.
pub async fn close_all(sessions: Vec<SessionHandle>) -> ClosedRuns {
    let mut closing = JoinSet::new();
    for session in sessions {
        closing.spawn(async move { session.close().await });
    }
    let mut all = ClosedRuns::default();
    while let Some(closed) = closing.join_next().await {
        let ClosedRuns { finished, cancelled } = closed.unwrap_or_default();
        all.finished += finished;
        all.cancelled += cancelled;
    }
    all
}

struct RegistryTask {
    context: Arc<Context>,
    bounds: SessionLimits,
    /// Sessions by tenant; a tenant without sessions has no entry.
    tenants: HashMap<TenantId, TenantEntry>,
    /// Number of sessions of all tenants.
    open: usize,
    draining: bool,
    /// The sessions' actors. When one ends, closed or crashed, its entry is removed.
    actors: JoinSet<(TenantId, SessionId)>,
}

/// The sessions of one tenant, indexed so that one is found and removed without a search.
#[derive(Default)]
struct TenantEntry {
    sessions: BTreeMap<SessionId, SessionEntry>,
    /// Number of sessions per workspace. The key is the one open directory that they share.
    workspaces: HashMap<Workspace, usize>,
    /// The shared session of each workspace.
    shared: HashMap<Workspace, SessionId>,
    /// Sessions by the request that created them.
    requested: HashMap<(Workspace, String), SessionId>,
}

struct SessionEntry {
    handle: SessionHandle,
    /// The request that created it; empty for none.
    client_request_id: String,
}

impl TenantEntry {
    fn find(&self, session: &SessionId) -> Option<&SessionHandle> {
        self.find_including_crashed(session).filter(|handle| !handle.is_crashed() && !handle.is_closing())
    }

    // Also finds a crashed session, but none that has ended and is not removed yet.
    fn find_including_crashed(&self, session: &SessionId) -> Option<&SessionHandle> {
        let handle = &self.sessions.get(session)?.handle;
        handle.is_answering().then_some(handle)
    }

    // Removes one crashed session, if any.
    fn remove_crashed(&mut self) -> bool {
        let crashed = self.sessions.iter().find(|(_, entry)| entry.handle.is_crashed()).map(|(id, _)| id.clone());
        crashed.is_some_and(|id| self.remove(&id))
    }

    /// Counts one more session in the workspace, and returns the directory that they share.
    fn add_to_workspace(&mut self, workspace: Workspace) -> Workspace {
        match self.workspaces.entry(workspace) {
            Entry::Occupied(mut count) => {
                *count.get_mut() += 1;
                count.key().clone()
            }
            Entry::Vacant(first) => {
                let workspace = first.key().clone();
                first.insert(1);
                workspace
            }
        }
    }

    fn remove(&mut self, session: &SessionId) -> bool {
        let Some(SessionEntry { handle, client_request_id }) = self.sessions.remove(session) else { return false };
        let workspace = handle.workspace();
        if let Entry::Occupied(mut count) = self.workspaces.entry(workspace.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        // Another session may have replaced it already.
        if self.shared.get(workspace) == Some(session) {
            self.shared.remove(workspace);
        }
        if !client_request_id.is_empty()
            && let Entry::Occupied(entry) = self.requested.entry((workspace.clone(), client_request_id))
            && entry.get() == session
        {
            entry.remove();
        }
        true
    }
}

impl RegistryTask {
    async fn serve(mut self, mut messages: mpsc::Receiver<RegistryMessage>) {
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.handle_message(message),
                    None => return,
                },
                Some(ended) = self.actors.join_next() => self.remove_ended(ended),
            }
        }
    }

    fn remove_ended(&mut self, ended: Result<(TenantId, SessionId), JoinError>) {
        // Panics are caught in the actor's task, and no code aborts it.
        let Ok((tenant, session)) = ended else { return };
        let Some(entry) = self.tenants.get_mut(&tenant) else { return };
        if entry.remove(&session) {
            self.open -= 1;
        }
        if entry.sessions.is_empty() {
            self.tenants.remove(&tenant);
        }
    }

    fn handle_message(&mut self, message: RegistryMessage) {
        match message {
            RegistryMessage::Create { request, reply } => _ = reply.send(self.create(*request)),
            RegistryMessage::Find { tenant, session, reply } => {
                let found = self.tenants.get(&tenant).and_then(|entry| entry.find_including_crashed(&session));
                _ = reply.send(found.cloned());
            }
            RegistryMessage::List { tenant, after, limit, reply } => {
                let after = Bound::Excluded(SessionId::new(after));
                let entry = self.tenants.get(&tenant).into_iter();
                let all = entry.flat_map(|entry| entry.sessions.range((after.clone(), Bound::Unbounded)));
                let open = all.map(|(_, session)| &session.handle).filter(|handle| !handle.is_gone());
                _ = reply.send(open.take(limit).cloned().collect());
            }
            RegistryMessage::ListAll { after, limit, reply } => {
                _ = reply.send(self.all_after(&after).take(limit).collect())
            }
            RegistryMessage::ByTenant { reply } => _ = reply.send(self.tenants.iter().map(tenant_sessions).collect()),
            RegistryMessage::Counts { reply } => _ = reply.send(self.counts()),
            RegistryMessage::Drain { reply } => {
                self.draining = true;
                let all = self.tenants.values().flat_map(|entry| entry.sessions.values());
                _ = reply.send(all.map(|session| session.handle.clone()).collect());
            }
            RegistryMessage::Ping { reply } => _ = reply.send(()),
        }
    }

    fn counts(&self) -> SessionCounts {
        let (now, mut counts) = (self.context.clock.now(), SessionCounts::default());
        for (tenant, entry) in &self.tenants {
            counts.by_tenant.insert(tenant.clone(), entry.sessions.len() as u64);
            entry.sessions.values().for_each(|session| counts.streaks.add(session.handle.streak(), now));
        }
        counts
    }

    // Sorted by tenant and id. There are few tenants, so sorting them for each page is cheap.
    fn all_after(&self, after: &SessionKey) -> impl Iterator<Item = (TenantId, SessionHandle)> {
        let mut tenants: Vec<_> = self.tenants.iter().filter(|(tenant, _)| **tenant >= after.0).collect();
        tenants.sort_unstable_by(|one, other| one.0.cmp(other.0));
        tenants.into_iter().flat_map(move |(tenant, entry)| {
            let from = if *tenant == after.0 { Bound::Excluded(&after.1) } else { Bound::Unbounded };
            let open = entry.sessions.range((from, Bound::Unbounded)).map(|(_, session)| &session.handle);
            open.filter(|handle| !handle.is_gone()).map(move |handle| (tenant.clone(), handle.clone()))
        })
    }

    fn create(&mut self, request: CreateRequest) -> Result<OpenedSession, CreateError> {
        let CreateRequest { tenant, workspace, client_request_id, separate, idle_max } = request;
        if self.draining {
            return Err(CreateError::Draining);
        }
        // Removes ended sessions first, so that a tenant that has just closed one can open another.
        while let Some(ended) = self.actors.try_join_next() {
            self.remove_ended(ended);
        }
        let request = (workspace, client_request_id);
        if let Some(entry) = self.tenants.get_mut(&tenant.id) {
            let found = |session: Option<&SessionId>| session.and_then(|session| entry.find(session));
            let requested = found(entry.requested.get(&request).filter(|_| !request.1.is_empty()));
            let shared = || found(entry.shared.get(&request.0).filter(|_| !separate));
            // The session of this request may have ended and another be the shared one.
            if let Some(session) = requested.or_else(shared) {
                return Ok(OpenedSession { session: session.clone(), existing: true });
            }
            if entry.sessions.len() >= tenant.sessions_max {
                // A crashed session is kept for its answers only while the quota allows.
                if !entry.remove_crashed() {
                    return Err(CreateError::TooMany { max: tenant.sessions_max });
                }
                self.open -= 1;
            }
        }
        if self.open >= self.bounds.sessions_max {
            return Err(CreateError::HostFull);
        }
        let id = random_id().ok_or(CreateError::Unavailable)?;
        let entry = self.tenants.entry(tenant.id.clone()).or_default();
        let request = (entry.add_to_workspace(request.0), request.1);
        let (handle, actor) = prepare_actor(SessionOptions {
            id: id.clone(),
            context: Arc::clone(&self.context),
            policy: tenant.current_policy(),
            workspace: request.0.clone(),
            idle_max: self.bounds.idle(idle_max),
            memory: SessionMemory::default(),
        });
        let key = (tenant.id.clone(), id.clone());
        self.actors.spawn(async move {
            // The actor's state is dropped with it, so no code sees what a panic left unfinished.
            if AssertUnwindSafe(actor).catch_unwind().await.is_err() {
                // One session is lost; dropping the actor killed its runs.
                tracing::error!(session = %key.1, "a session's actor panicked");
            }
            key
        });
        if !separate {
            entry.shared.insert(request.0.clone(), id.clone());
        }
        let session = SessionEntry { handle: handle.clone(), client_request_id: request.1.clone() };
        if !request.1.is_empty() {
            entry.requested.insert(request, id.clone());
        }
        entry.sessions.insert(id, session);
        self.open += 1;
        Ok(OpenedSession { session: handle, existing: false })
    }
}

fn tenant_sessions((tenant, entry): (&TenantId, &TenantEntry)) -> TenantSessions {
    let busy = entry.sessions.values().map(|session| &session.handle).filter(|handle| handle.is_busy());
    TenantSessions { tenant: tenant.clone(), sessions: entry.sessions.len(), busy: busy.cloned().collect() }
}

/// How long sessions stay readable after the last run of a drain: a client that sees the end of its run then requests
/// its output and its report.
const READ_GRACE: Duration = Duration::from_secs(2);
