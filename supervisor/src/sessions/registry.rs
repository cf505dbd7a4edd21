//! The registry: which sessions there are and whose they are. A task with a mailbox; it answers at once and never waits
//! for a session. Must not know what sessions do.

use crate::ops::drain::ClosedRuns;
use crate::random_id::random_id;
use crate::runs::context::Context;
use crate::sessions::limits::SessionLimits;
use crate::sessions::{Memory, Opening, SessionHandle, prepare_actor};
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

/// Questions that may wait. Each is answered without waiting, so a thousand is a burst of milliseconds.
const MAILBOX: usize = 1_024;

/// What a tenant wants a session for.
#[derive(Clone)]
pub struct CreateRequest {
    /// Who.
    pub tenant: Arc<Tenant>,
    /// Where.
    pub workspace: Workspace,
    /// Makes the request idempotent; empty when it need not be.
    pub client_request_id: String,
    /// Whether it shall not be the one that all callers of the tenant share there.
    pub separate: bool,
    /// How long it shall live when nobody uses it.
    pub idle_max: Option<Duration>,
}

/// The session that a tenant got.
#[derive(Clone)]
pub struct OpenedSession {
    /// The session.
    pub session: SessionHandle,
    /// Whether it was there before.
    pub existing: bool,
}

/// The sessions of one tenant, as an operator sees them.
#[derive(Clone)]
pub struct TenantSessions {
    /// The tenant.
    pub tenant: TenantId,
    /// How many sessions it has.
    pub sessions: usize,
    /// Those that have runs.
    pub busy: Vec<SessionHandle>,
}

/// Where a session is among those of all tenants.
type SessionKey = (TenantId, SessionId);

enum Message {
    Create { wanted: Box<CreateRequest>, reply: oneshot::Sender<Result<OpenedSession, CreateError>> },
    Find { tenant: TenantId, session: SessionId, reply: oneshot::Sender<Option<SessionHandle>> },
    List { tenant: TenantId, after: String, limit: usize, reply: oneshot::Sender<Vec<SessionHandle>> },
    ListAll { after: SessionKey, limit: usize, reply: oneshot::Sender<Vec<(TenantId, SessionHandle)>> },
    Census { reply: oneshot::Sender<Vec<TenantSessions>> },
    Drain { reply: oneshot::Sender<Vec<SessionHandle>> },
    Ping { reply: oneshot::Sender<()> },
}

/// Why a session was not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The tenant has as many as it may have.
    #[error("the tenant has {max} sessions")]
    TooMany {
        /// The quota.
        max: usize,
    },
    /// The host has as many as it may have.
    #[error("the host has no room for another session")]
    HostFull,
    /// No new work is taken on.
    #[error("the supervisor is going down and takes on no new work")]
    Draining,
    /// No random numbers, or the registry is gone.
    #[error("the supervisor cannot create sessions now")]
    Unavailable,
}

/// The registry, to whoever may ask it.
#[derive(Debug, Clone)]
pub struct Registry {
    mailbox: mpsc::Sender<Message>,
}

impl Registry {
    /// Starts the registry. It ends, and its sessions with it, when every handle is gone.
    #[must_use]
    pub fn start(context: Arc<Context>, bounds: SessionLimits) -> Registry {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let sessions =
            Sessions { context, bounds, tenants: HashMap::new(), open: 0, draining: false, actors: JoinSet::new() };
        tokio::spawn(sessions.serve(messages));
        Registry { mailbox }
    }

    /// Creates a session, or finds the one that is wanted, which is a use of it.
    pub async fn create(&self, wanted: CreateRequest) -> Result<OpenedSession, CreateError> {
        loop {
            let wanted = Box::new(wanted.clone());
            let answer = self.ask(|reply| Message::Create { wanted, reply }).await;
            let opened = answer.unwrap_or(Err(CreateError::Unavailable))?;
            // One whose time was over in the meantime is not found again, so that each turn needs another that ends.
            if !opened.existing || opened.session.touch().await.is_ok() {
                return Ok(opened);
            }
        }
    }

    /// A session of this tenant. The same `None` for another's and for none.
    pub async fn find(&self, tenant: TenantId, session: SessionId) -> Option<SessionHandle> {
        self.find_there(tenant, session).await.filter(|session| !session.is_broken())
    }

    /// The session whose run this is, if it is this tenant's. One that broke can still say what became of its runs.
    pub async fn find_by_run(&self, tenant: TenantId, run: &RunId) -> Option<SessionHandle> {
        let (session, _) = run.as_str().rsplit_once('-')?;
        self.find_there(tenant, SessionId::new(session)).await
    }

    // One that broke as well.
    async fn find_there(&self, tenant: TenantId, session: SessionId) -> Option<SessionHandle> {
        self.ask(|reply| Message::Find { tenant, session, reply }).await.flatten()
    }

    /// At most `limit` sessions of this tenant whose names come after `after`, sorted.
    pub async fn list(&self, tenant: TenantId, after: String, limit: usize) -> Vec<SessionHandle> {
        self.ask(|reply| Message::List { tenant, after, limit, reply }).await.unwrap_or_default()
    }

    /// At most `limit` sessions of all tenants that come after `after`, sorted by tenant and name.
    pub async fn list_all(&self, after: (TenantId, SessionId), limit: usize) -> Vec<(TenantId, SessionHandle)> {
        self.ask(|reply| Message::ListAll { after, limit, reply }).await.unwrap_or_default()
    }

    /// Who has how many sessions, and which of them have runs; tenants without sessions are left out.
    pub async fn census(&self) -> Vec<TenantSessions> {
        self.ask(|reply| Message::Census { reply }).await.unwrap_or_default()
    }

    /// Returns when the registry has answered, and so does not hang.
    pub async fn ping(&self) -> bool {
        self.ask(|reply| Message::Ping { reply }).await.is_some()
    }

    /// Takes on no new work, gives the runs that there are until `over`, and whoever followed one [`READ_ON`] to read what it
    /// left, ends the rest, closes every session and returns when nothing of them is left.
    pub async fn drain(&self, over: impl Future<Output = ()>) -> ClosedRuns {
        let sessions = self.ask(|reply| Message::Drain { reply }).await.unwrap_or_default();
        let had_runs = sessions.iter().any(SessionHandle::is_busy);
        let mut draining = JoinSet::new();
        for session in sessions.clone() {
            draining.spawn(async move { session.drain().await });
        }
        let ended = async {
            while draining.join_next().await.is_some() {}
            if had_runs {
                tokio::time::sleep(READ_ON).await;
            }
        };
        tokio::select! {
            () = ended => {}
            () = over => {}
        }
        drop(draining);
        close_all(sessions).await
    }

    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// Closes sessions, none of which waits for another, and returns when nothing of them is left.
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

struct Sessions {
    context: Arc<Context>,
    bounds: SessionLimits,
    /// What each tenant has; who has nothing is not in it.
    tenants: HashMap<TenantId, Owned>,
    /// Sessions of all tenants.
    open: usize,
    draining: bool,
    /// The sessions' actors. One that ends, closed or broken, takes its entries along.
    actors: JoinSet<(TenantId, SessionId)>,
}

/// The sessions of one tenant. Every session is found, and leaves, without a look at the others.
#[derive(Default)]
struct Owned {
    sessions: BTreeMap<SessionId, Listed>,
    /// How many of them work in each directory, which is held open once for all of them.
    held: HashMap<Workspace, usize>,
    /// The one that all callers share, by workspace.
    shared: HashMap<Workspace, SessionId>,
    /// Sessions by the request that created them.
    requested: HashMap<(Workspace, String), SessionId>,
}

struct Listed {
    handle: SessionHandle,
    /// The request that created it; empty for one without a name.
    client_request_id: String,
}

impl Owned {
    fn find(&self, session: &SessionId) -> Option<&SessionHandle> {
        self.find_there(session).filter(|handle| !handle.is_broken() && !handle.is_ending())
    }

    // One that broke as well. One that has ended is not found, although it takes its entry along a moment later.
    fn find_there(&self, session: &SessionId) -> Option<&SessionHandle> {
        let handle = &self.sessions.get(session)?.handle;
        handle.is_there().then_some(handle)
    }

    // Lets go of a session that broke, if there is one.
    fn remove_broken(&mut self) -> bool {
        let broken = self.sessions.iter().find(|(_, listed)| listed.handle.is_broken()).map(|(name, _)| name.clone());
        broken.is_some_and(|name| self.remove(&name))
    }

    /// The directory as the tenant's other sessions in it hold it.
    fn hold(&mut self, workspace: Workspace) -> Workspace {
        match self.held.entry(workspace) {
            Entry::Occupied(mut sessions) => {
                *sessions.get_mut() += 1;
                sessions.key().clone()
            }
            Entry::Vacant(first) => {
                let workspace = first.key().clone();
                first.insert(1);
                workspace
            }
        }
    }

    fn remove(&mut self, session: &SessionId) -> bool {
        let Some(Listed { handle, client_request_id }) = self.sessions.remove(session) else { return false };
        let workspace = handle.workspace();
        if let Entry::Occupied(mut sessions) = self.held.entry(workspace.clone()) {
            *sessions.get_mut() -= 1;
            if *sessions.get() == 0 {
                sessions.remove();
            }
        }
        // Another may be in its place already.
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

impl Sessions {
    async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.message(message),
                    None => return,
                },
                Some(ended) = self.actors.join_next() => self.ended(ended),
            }
        }
    }

    fn ended(&mut self, ended: Result<(TenantId, SessionId), JoinError>) {
        // Its panics are caught, and nobody aborts an actor.
        let Ok((tenant, session)) = ended else { return };
        let Some(owned) = self.tenants.get_mut(&tenant) else { return };
        if owned.remove(&session) {
            self.open -= 1;
        }
        if owned.sessions.is_empty() {
            self.tenants.remove(&tenant);
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Create { wanted, reply } => _ = reply.send(self.create(*wanted)),
            Message::Find { tenant, session, reply } => {
                let found = self.tenants.get(&tenant).and_then(|owned| owned.find_there(&session));
                _ = reply.send(found.cloned());
            }
            Message::List { tenant, after, limit, reply } => {
                let after = Bound::Excluded(SessionId::new(after));
                let owned = self.tenants.get(&tenant).into_iter();
                let all = owned.flat_map(|owned| owned.sessions.range((after.clone(), Bound::Unbounded)));
                let open = all.map(|(_, listed)| &listed.handle).filter(|handle| !handle.is_gone());
                _ = reply.send(open.take(limit).cloned().collect());
            }
            Message::ListAll { after, limit, reply } => _ = reply.send(self.all_after(&after).take(limit).collect()),
            Message::Census { reply } => _ = reply.send(self.tenants.iter().map(holding).collect()),
            Message::Drain { reply } => {
                self.draining = true;
                let all = self.tenants.values().flat_map(|owned| owned.sessions.values());
                _ = reply.send(all.map(|listed| listed.handle.clone()).collect());
            }
            Message::Ping { reply } => _ = reply.send(()),
        }
    }

    // By tenant and name. Of tenants there are few, so sorting them is no work beside a page.
    fn all_after(&self, after: &SessionKey) -> impl Iterator<Item = (TenantId, SessionHandle)> {
        let mut tenants: Vec<_> = self.tenants.iter().filter(|(tenant, _)| **tenant >= after.0).collect();
        tenants.sort_unstable_by(|one, other| one.0.cmp(other.0));
        tenants.into_iter().flat_map(move |(tenant, owned)| {
            let from = if *tenant == after.0 { Bound::Excluded(&after.1) } else { Bound::Unbounded };
            let open = owned.sessions.range((from, Bound::Unbounded)).map(|(_, listed)| &listed.handle);
            open.filter(|handle| !handle.is_gone()).map(move |handle| (tenant.clone(), handle.clone()))
        })
    }

    fn create(&mut self, wanted: CreateRequest) -> Result<OpenedSession, CreateError> {
        let CreateRequest { tenant, workspace, client_request_id, separate, idle_max } = wanted;
        if self.draining {
            return Err(CreateError::Draining);
        }
        // Who has just closed a session has room for another.
        while let Some(ended) = self.actors.try_join_next() {
            self.ended(ended);
        }
        let request = (workspace, client_request_id);
        if let Some(owned) = self.tenants.get_mut(&tenant.id) {
            let found = |session: Option<&SessionId>| session.and_then(|session| owned.find(session));
            let requested = found(owned.requested.get(&request).filter(|_| !request.1.is_empty()));
            let shared = || found(owned.shared.get(&request.0).filter(|_| !separate));
            // The one that the request made may have ended, and the one that all share be another.
            if let Some(session) = requested.or_else(shared) {
                return Ok(OpenedSession { session: session.clone(), existing: true });
            }
            if owned.sessions.len() >= tenant.sessions_max {
                // One that broke is kept for what it says only while there is room.
                if !owned.remove_broken() {
                    return Err(CreateError::TooMany { max: tenant.sessions_max });
                }
                self.open -= 1;
            }
        }
        if self.open >= self.bounds.sessions_max {
            return Err(CreateError::HostFull);
        }
        let id = random_id().ok_or(CreateError::Unavailable)?;
        let owned = self.tenants.entry(tenant.id.clone()).or_default();
        let request = (owned.hold(request.0), request.1);
        let (handle, actor) = prepare_actor(Opening {
            id: id.clone(),
            context: Arc::clone(&self.context),
            policy: tenant.policies.subscribe().into(),
            workspace: request.0.clone(),
            idle_max: self.bounds.idle(idle_max),
            memory: Memory::default(),
        });
        let name = (tenant.id.clone(), id.clone());
        self.actors.spawn(async move {
            // What an actor owns is gone with it, so nobody sees what a panic left unfinished.
            if AssertUnwindSafe(actor).catch_unwind().await.is_err() {
                // One session is lost; what it ran was killed when its actor went.
                tracing::error!(session = %name.1, "a session broke");
            }
            name
        });
        if !separate {
            owned.shared.insert(request.0.clone(), id.clone());
        }
        let listed = Listed { handle: handle.clone(), client_request_id: request.1.clone() };
        if !request.1.is_empty() {
            owned.requested.insert(request, id.clone());
        }
        owned.sessions.insert(id, listed);
        self.open += 1;
        Ok(OpenedSession { session: handle, existing: false })
    }
}

fn holding((tenant, owned): (&TenantId, &Owned)) -> TenantSessions {
    let busy = owned.sessions.values().map(|listed| &listed.handle).filter(|handle| handle.is_busy());
    TenantSessions { tenant: tenant.clone(), sessions: owned.sessions.len(), busy: busy.cloned().collect() }
}

/// How long sessions stay readable when the last run of a drain has ended: who is told of a run's end asks for its output and
/// its report then.
const READ_ON: Duration = Duration::from_secs(2);
