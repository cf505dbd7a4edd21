//! The registry: which sessions there are and whose they are. A task with a mailbox; it answers at once and never waits
//! for a session. Must not know what sessions do.

use crate::context::Context;
use crate::session::{self, Memory, SessionHandle};
use crate::tenant::Tenant;
use crate::workspace::Workspace;
use proctor_core::id::{RunId, SessionId, TenantId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Questions that may wait. Each is answered without waiting, so a thousand is a burst of milliseconds.
const MAILBOX: usize = 1_024;

enum Message {
    Create { asked: Box<Create>, reply: oneshot::Sender<Result<SessionHandle, CreateError>> },
    Find { tenant: TenantId, session: SessionId, reply: oneshot::Sender<Option<SessionHandle>> },
    List { tenant: TenantId, after: String, limit: usize, reply: oneshot::Sender<Vec<SessionHandle>> },
    All { reply: oneshot::Sender<Vec<SessionHandle>> },
}

struct Create {
    tenant: Arc<Tenant>,
    workspace: Workspace,
    client_request_id: String,
}

/// Why a session was not created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CreateError {
    /// The tenant has as many as it may have.
    #[error("quota `sessions` is used up: {max} at the same time")]
    TooMany {
        /// The quota.
        max: usize,
    },
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
    pub fn start(context: Arc<Context>) -> Registry {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let sessions =
            Sessions { context, sessions: BTreeMap::new(), requested: HashMap::new(), actors: JoinSet::new() };
        tokio::spawn(sessions.serve(messages));
        Registry { mailbox }
    }

    /// Creates a session, or finds the one that this `client_request_id` created before.
    pub async fn create(
        &self,
        tenant: Arc<Tenant>,
        workspace: Workspace,
        client_request_id: String,
    ) -> Result<SessionHandle, CreateError> {
        let asked = Box::new(Create { tenant, workspace, client_request_id });
        self.ask(|reply| Message::Create { asked, reply }).await.unwrap_or(Err(CreateError::Unavailable))
    }

    /// A session of this tenant. The same `None` for another's and for none.
    pub async fn find(&self, tenant: TenantId, session: SessionId) -> Option<SessionHandle> {
        self.ask(|reply| Message::Find { tenant, session, reply }).await.flatten()
    }

    /// The session whose run this is, if it is this tenant's.
    pub async fn find_by_run(&self, tenant: TenantId, run: &RunId) -> Option<SessionHandle> {
        let (session, _) = run.as_str().rsplit_once('-')?;
        self.find(tenant, SessionId::new(session)).await
    }

    /// At most `limit` sessions of this tenant whose names come after `after`, sorted.
    pub async fn list(&self, tenant: TenantId, after: String, limit: usize) -> Vec<SessionHandle> {
        self.ask(|reply| Message::List { tenant, after, limit, reply }).await.unwrap_or_default()
    }

    /// All sessions of all tenants.
    pub async fn all(&self) -> Vec<SessionHandle> {
        self.ask(|reply| Message::All { reply }).await.unwrap_or_default()
    }

    /// Closes every session and returns when nothing of them is left.
    pub async fn close_all(&self) {
        let mut closing = JoinSet::new();
        for session in self.all().await {
            closing.spawn(async move { session.close().await });
        }
        closing.join_all().await;
    }

    async fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.mailbox.send(message(reply)).await.ok()?;
        answer.await.ok()
    }
}

type RequestKey = (TenantId, Workspace, String);

struct Sessions {
    context: Arc<Context>,
    sessions: BTreeMap<SessionId, (TenantId, SessionHandle)>,
    /// Sessions by the request that created them.
    requested: HashMap<RequestKey, SessionId>,
    /// The sessions' actors. One that ends, closed or broken, takes its entry along.
    actors: JoinSet<SessionId>,
}

impl Sessions {
    async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.message(message),
                    None => return,
                },
                Some(ended) = self.actors.join_next() => {
                    if let Ok(session) = ended {
                        self.sessions.remove(&session);
                        self.requested.retain(|_, id| *id != session);
                    }
                }
            }
        }
    }

    fn message(&mut self, message: Message) {
        match message {
            Message::Create { asked, reply } => _ = reply.send(self.create(*asked)),
            Message::Find { tenant, session, reply } => _ = reply.send(self.find(&tenant, &session)),
            Message::List { tenant, after, limit, reply } => {
                let listed = self
                    .sessions
                    .range(SessionId::new(after.clone())..)
                    .filter(|(id, (owner, session))| id.as_str() != after && *owner == tenant && !session.is_gone())
                    .take(limit)
                    .map(|(_, (_, session))| session.clone())
                    .collect();
                _ = reply.send(listed);
            }
            Message::All { reply } => {
                _ = reply.send(self.sessions.values().map(|(_, session)| session.clone()).collect());
            }
        }
    }

    fn find(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionHandle> {
        let (owner, handle) = self.sessions.get(session)?;
        (owner == tenant && !handle.is_gone()).then(|| handle.clone())
    }

    fn create(&mut self, asked: Create) -> Result<SessionHandle, CreateError> {
        let Create { tenant, workspace, client_request_id } = asked;
        let key = (tenant.id.clone(), workspace.clone(), client_request_id);
        if let Some(known) = self.requested.get(&key).and_then(|id| self.find(&tenant.id, id)) {
            return Ok(known);
        }
        let owned = self.sessions.values().filter(|(owner, _)| *owner == tenant.id).count();
        if owned >= tenant.sessions_max {
            return Err(CreateError::TooMany { max: tenant.sessions_max });
        }
        let id = random_id().ok_or(CreateError::Unavailable)?;
        let policy = tenant.policies.subscribe();
        let context = Arc::clone(&self.context);
        let (handle, actor) = session::open(id.clone(), context, policy, workspace, Memory::default());
        let ended = id.clone();
        self.actors.spawn(async move {
            if let Err(error) = actor.await {
                // One session is lost; what it ran was killed when its actor went.
                tracing::error!(session = %ended, %error, "a session broke");
            }
            ended
        });
        self.sessions.insert(id.clone(), (tenant.id.clone(), handle.clone()));
        if !key.2.is_empty() {
            self.requested.insert(key, id);
        }
        Ok(handle)
    }
}

/// A fresh session name: 128 random bits.
#[must_use]
pub fn random_id() -> Option<SessionId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(SessionId::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}
