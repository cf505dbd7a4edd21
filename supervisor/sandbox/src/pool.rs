//! Workers that are prepared before there is a run, so that a run pays for neither mounts nor namespaces. A worker
//! serves one run; a zygote serves one jail, and so one tenant and one session.
//!
//! **One lock, one thread.** The lock guards the map of zygotes and prepared workers. It is held only to take or insert
//! an entry, never while a process is started, ended or waited for. The pool's thread prepares the next workers and
//! evicts idle entries.

use crate::cgroup::{CpuLedger, Hierarchies};
use crate::error::SandboxError;
use crate::sched_slice;
use crate::spec::Jail;
use crate::unkillable::UnkillableProcesses;
use crate::workspace_fd::DirId;
use crate::zygote::{Worker, Zygote};
use proctor_core::limits::Limits;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bounds of the pool: how many zygotes it keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBounds {
    /// Most zygotes. One more evicts the zygote idle longest of the owner with most. 0 keeps none.
    pub workers_max: usize,
    /// A zygote without a run for this long is evicted.
    pub idle: Duration,
}

impl PoolBounds {
    /// No pool: every run starts its own zygote, which ends with it.
    pub const NONE: PoolBounds = PoolBounds { workers_max: 0, idle: Duration::ZERO };
    /// 64 zygotes of about a MiB each, for a minute: an agent that edits files comes back within that.
    pub const DEFAULT: PoolBounds = PoolBounds { workers_max: 64, idle: Duration::from_secs(60) };
}

/// A zygote is replaced after this time, however much it is used: it shows the host's files as they were when it was
/// started, and an operator may have replaced them.
const ZYGOTE_AGE_MAX: Duration = Duration::from_secs(600);

/// Most requests waiting for the pool's thread. A request that does not fit is dropped, and the next run prepares its
/// own worker.
const REQUESTS_MAX: usize = 256;

/// How long a run waits for a worker that is being prepared before it starts a zygote of its own.
const TAKE_WAIT: Duration = Duration::from_millis(250);

/// Pause of the pool's thread before it prepares the next worker: a caller waits for the run that has just ended, and
/// the host may have one processor for both.
const REFILL_DELAY: Duration = Duration::from_millis(1);

/// Starts zygotes and prepares workers in them.
#[derive(Debug, Clone)]
pub(crate) struct WorkerFactory {
    pub(crate) worker_binary: PathBuf,
    pub(crate) hierarchies: Hierarchies,
    pub(crate) ledger: Arc<CpuLedger>,
    pub(crate) unkillable: Arc<UnkillableProcesses>,
    /// Whether the supervisor can make namespaces without a user namespace.
    pub(crate) privileged: bool,
}

impl WorkerFactory {
    pub(crate) fn start_zygote(&self, jail: &Jail, workspace_id: DirId) -> Result<Zygote, SandboxError> {
        Zygote::start(&self.worker_binary, jail, workspace_id, self.privileged, &self.unkillable)
    }

    pub(crate) fn prepare(&self, zygote: &Zygote, jail: &Jail, limits: &Limits) -> Result<Worker, SandboxError> {
        zygote.prepare(&self.hierarchies, &self.ledger, jail, limits)
    }
}

/// Key of an entry. Another directory at the path of the workspace is another workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    jail: Jail,
    workspace_id: DirId,
}

/// A zygote and its prepared worker.
struct PoolEntry {
    /// `None` while a worker is being prepared in it.
    zygote: Option<Zygote>,
    /// The prepared worker and the limits that it was prepared with.
    worker: Option<(Limits, Worker)>,
    created_at: Instant,
    used_at: Instant,
}

#[derive(Default)]
struct PoolEntries {
    by_key: HashMap<Key, PoolEntry>,
    closed: bool,
}

struct PoolState {
    entries: Mutex<PoolEntries>,
    changed: Condvar,
    bounds: PoolBounds,
}

impl PoolState {
    /// Locks the entries. A thread that panicked while it held the lock has left them consistent: every change is one
    /// step.
    fn entries(&self) -> MutexGuard<'_, PoolEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Request {
    /// Kill the worker of the finished run and prepare a worker for the next run of this key.
    Replenish(Box<(Key, Limits, Worker)>),
    /// Report when all earlier requests are done.
    Flush(SyncSender<()>),
    /// Stop the thread.
    Close,
}

/// What a run finds in the pool.
enum PoolItem {
    Worker(Worker),
    Zygote(Zygote),
}

/// The pool and its thread. Dropping it ends every zygote and worker in it.
pub(crate) struct Pool {
    core: PoolCore,
    requests: SyncSender<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Pool {
    pub(crate) fn new(factory: WorkerFactory, bounds: PoolBounds) -> std::io::Result<Pool> {
        let state = Arc::new(PoolState { entries: Mutex::default(), changed: Condvar::new(), bounds });
        let core = PoolCore { factory, state };
        let (requests, inbox) = sync_channel(REQUESTS_MAX);
        let refiller = core.clone();
        let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(move || refiller.run(&inbox))?;
        Ok(Pool { core, requests, thread: Mutex::new(Some(thread)) })
    }

    /// Returns a prepared worker for a run of `jail` with `limits`, or prepares one in a zygote of the pool; `None` if
    /// that gives no live worker.
    pub(crate) fn take(&self, jail: &Jail, workspace_id: DirId, limits: &Limits) -> Option<Worker> {
        let key = Key { jail: jail.clone(), workspace_id };
        let worker = match self.take_item(&key, limits)? {
            PoolItem::Worker(worker) => Some(worker),
            PoolItem::Zygote(zygote) => match self.core.factory.prepare(&zygote, jail, limits) {
                Ok(worker) => {
                    self.core.put_back(&key, zygote, None, false);
                    Some(worker)
                }
                Err(error) => {
                    self.core.drop_after_failure(&key, &error);
                    None
                }
            },
        };
        if worker.as_ref().is_some_and(|worker| !worker.is_alive()) {
            // Its zygote may be dead for the same reason.
            self.core.discard(&key);
            return None;
        }
        worker
    }

    fn take_item(&self, key: &Key, limits: &Limits) -> Option<PoolItem> {
        let until = Instant::now() + TAKE_WAIT;
        let mut entries = self.core.state.entries();
        loop {
            let entry = entries.by_key.get_mut(key)?;
            entry.used_at = Instant::now();
            if let Some((_, worker)) = entry.worker.take_if(|(prepared_with, _)| fits(prepared_with, limits)) {
                return Some(PoolItem::Worker(worker));
            }
            if let Some(zygote) = entry.zygote.take() {
                return Some(PoolItem::Zygote(zygote));
            }
            // Another thread is preparing a worker in it.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.core.state.changed.wait_timeout(entries, left);
            entries = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Adds a zygote that a run has started for itself.
    pub(crate) fn insert(&self, jail: &Jail, workspace_id: DirId, zygote: Zygote) {
        let key = Key { jail: jail.clone(), workspace_id };
        let now = Instant::now();
        let mut entries = self.core.state.entries();
        let is_new = !entries.closed && !entries.by_key.contains_key(&key);
        let surplus = if is_new {
            entries.by_key.insert(key, PoolEntry { zygote: Some(zygote), worker: None, created_at: now, used_at: now });
            None
        } else {
            Some(zygote)
        };
        let evicted = entries.evict(self.core.state.bounds.workers_max);
        drop(entries);
        // Ending them waits for processes, so it happens outside of the lock.
        drop((surplus, evicted));
    }

    /// Requests that the processes, leaf and mounts of the `finished` worker are removed and a worker for the next run
    /// of this key is prepared, both on the pool's thread. Called at the end of a run, which has the processors to
    /// itself until then.
    pub(crate) fn replenish(&self, jail: &Jail, workspace_id: DirId, limits: &Limits, finished: Worker) {
        let key = Key { jail: jail.clone(), workspace_id };
        // If the queue is full, the drop ends the finished worker here, and the next run prepares its own.
        let _sent = self.requests.try_send(Request::Replenish(Box::new((key, *limits, finished))));
    }

    /// Ends the zygotes and workers of `session` and waits until nothing of its runs is left.
    pub(crate) fn retire(&self, session: &str) {
        let mut entries = self.core.state.entries();
        let retired: Vec<PoolEntry> =
            entries.by_key.extract_if(|key, _| key.jail.session == session).map(|(_, entry)| entry).collect();
        drop(entries);
        drop(retired);
        let (done, flushed) = sync_channel(1);
        if self.requests.send(Request::Flush(done)).is_ok() {
            // Fails if the pool was closed meanwhile, which ends everything.
            let _flushed = flushed.recv();
        }
    }

    /// Ends all zygotes and workers and waits until they are dead. A closed pool keeps nothing.
    pub(crate) fn close(&self) {
        let mut entries = self.core.state.entries();
        entries.closed = true;
        let all = std::mem::take(&mut entries.by_key);
        drop(entries);
        drop(all);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        // Blocks at most until the thread has finished its current request.
        let _closed = self.requests.send(Request::Close);
        if thread.join().is_err() {
            tracing::error!("the thread of the worker pool panicked");
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a worker prepared with some limits can serve a run with others: the supervisor enforces the remaining
/// limits.
fn fits(prepared_with: &Limits, requested: &Limits) -> bool {
    let enforced_by_worker = |limits: &Limits| {
        let Limits { memory_bytes_max, cpu_millis_max, pids_max, tmp_bytes_max, write_bytes_per_s_max, .. } = *limits;
        (memory_bytes_max, cpu_millis_max, pids_max, tmp_bytes_max, write_bytes_per_s_max)
    };
    enforced_by_worker(prepared_with) == enforced_by_worker(requested)
}

impl PoolEntries {
    /// Removes what exceeds `workers_max`: of the owner with most zygotes the one idle longest.
    fn evict(&mut self, workers_max: usize) -> Vec<PoolEntry> {
        let mut evicted = Vec::new();
        while self.by_key.len() > workers_max {
            let mut per_owner: HashMap<&str, usize> = HashMap::new();
            for key in self.by_key.keys() {
                *per_owner.entry(&key.jail.owner).or_default() += 1;
            }
            let most = per_owner.values().copied().max().unwrap_or(0);
            let candidates =
                self.by_key.iter().filter(|(key, _)| per_owner.get(key.jail.owner.as_str()) == Some(&most));
            let oldest = candidates.min_by_key(|(_, entry)| entry.used_at).map(|(key, _)| key.clone());
            evicted.extend(oldest.and_then(|key| self.by_key.remove(&key)));
        }
        evicted
    }
}

/// The entries and the factory that fills them, shared by the callers and the pool's thread.
#[derive(Clone)]
struct PoolCore {
    factory: WorkerFactory,
    state: Arc<PoolState>,
}

impl PoolCore {
    fn run(&self, inbox: &Receiver<Request>) {
        // The next run may wait for this thread.
        sched_slice::shorten();
        // Checking four times per idle time is precise enough.
        let pause = (self.state.bounds.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        let mut next_round = Instant::now() + pause;
        loop {
            match inbox.recv_timeout(next_round.saturating_duration_since(Instant::now())) {
                Ok(Request::Replenish(next)) => {
                    let (key, limits, finished) = *next;
                    std::thread::sleep(REFILL_DELAY);
                    // It dies while the next worker is prepared.
                    finished.kill();
                    self.refill(&key, &limits);
                }
                // Fails if the caller has given up waiting.
                Ok(Request::Flush(done)) => _ = done.send(()),
                Ok(Request::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= next_round {
                next_round = Instant::now() + pause;
                self.evict_idle();
            }
        }
    }

    /// Prepares a worker for the key outside of the lock, unless it has one.
    fn refill(&self, key: &Key, limits: &Limits) {
        let mut entries = self.state.entries();
        let Some(entry) = entries.by_key.get_mut(key) else { return };
        if entry.worker.as_ref().is_some_and(|(prepared_with, _)| fits(prepared_with, limits)) {
            return;
        }
        // Another thread is preparing a worker in it and will send a request of its own.
        let Some(mut zygote) = entry.zygote.take() else { return };
        let outdated = entry.worker.take();
        let is_old = entry.created_at.elapsed() > ZYGOTE_AGE_MAX;
        drop(entries);
        drop(outdated);
        if is_old {
            match self.factory.start_zygote(&key.jail, key.workspace_id) {
                Ok(new) => zygote = new,
                Err(error) => return self.drop_after_failure(key, &error),
            }
        }
        match self.factory.prepare(&zygote, &key.jail, limits) {
            Ok(worker) => self.put_back(key, zygote, Some((*limits, worker)), is_old),
            Err(error) => self.drop_after_failure(key, &error),
        }
    }

    fn put_back(&self, key: &Key, zygote: Zygote, worker: Option<(Limits, Worker)>, is_new: bool) {
        let mut entries = self.state.entries();
        // The entry may have been retired or evicted meanwhile: then both end here, after the lock.
        let discarded = match entries.by_key.get_mut(key) {
            Some(entry) => {
                if is_new {
                    entry.created_at = Instant::now();
                }
                // A worker with other limits stays until the pool's thread replaces it.
                let old = if worker.is_some() { std::mem::replace(&mut entry.worker, worker) } else { None };
                (old, entry.zygote.replace(zygote))
            }
            None => (worker, Some(zygote)),
        };
        drop(entries);
        self.state.changed.notify_all();
        drop(discarded);
    }

    /// Drops the entry: the next run meets the same failure and reports it.
    fn drop_after_failure(&self, key: &Key, error: &SandboxError) {
        tracing::warn!(%error, "the pool could not prepare a worker");
        self.discard(key);
    }

    fn discard(&self, key: &Key) {
        let removed = self.state.entries().by_key.remove(key);
        self.state.changed.notify_all();
        drop(removed);
    }

    fn evict_idle(&self) {
        let idle = self.state.bounds.idle;
        let mut entries = self.state.entries();
        let idle: Vec<PoolEntry> =
            entries.by_key.extract_if(|_, entry| entry.used_at.elapsed() > idle).map(|(_, entry)| entry).collect();
        drop(entries);
        drop(idle);
    }
}
