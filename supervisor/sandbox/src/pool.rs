//! Workers that are prepared before there is a run, so that a run pays neither mounts nor namespaces. A worker serves one run;
//! a room serves one jail, and so one tenant and one session. Must not know what a run is.
//!
//! **One lock, one thread.** The lock is around the shelf, on which rooms and workers stand; it is held to take something from
//! it or to put something on it, never while anything is made, ended or waited for but the shelf itself. The keeper is the
//! thread that fills the shelf behind the runs' backs and clears away what nobody came for.

use crate::cgroup::{Ledger, Places};
use crate::error::SandboxError;
use crate::hold::Id;
use crate::room::{Room, Worker};
use crate::slice;
use crate::spec::Jail;
use crate::undead::Undead;
use proctor_core::limits::Limits;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many rooms with a prepared worker there may be, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBounds {
    /// Rooms at the same time; one more takes the place of the one that was not used for longest. None are kept with 0.
    pub workers_max: usize,
    /// A room that no run came to for so long is cleared away.
    pub idle: Duration,
}

impl PoolBounds {
    /// Every run makes what it needs and takes it along.
    pub const NONE: PoolBounds = PoolBounds { workers_max: 0, idle: Duration::ZERO };
    /// 64 rooms of about a MiB each, for a minute: an agent that edits comes back within that.
    pub const DEFAULT: PoolBounds = PoolBounds { workers_max: 64, idle: Duration::from_secs(60) };
}

/// A room is made anew after this time, however much it is used: what it shows of the host's files was taken when it was
/// made, and an operator may have replaced them.
const ROOM_AGE_MAX: Duration = Duration::from_secs(600);

/// Requests to the keeper that may wait. What does not fit is not asked for, and the next run makes its own.
const REQUESTS: usize = 256;

/// How long a run waits for a worker that is being prepared before it makes a room of its own.
const TAKE_WAIT: Duration = Duration::from_millis(250);

/// How long the keeper lets the run go first that asked for the next worker: its end is on the way to somebody who waits for
/// it, and there may be one processor for both.
const END_FIRST: Duration = Duration::from_micros(500);

/// What makes rooms.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    pub(crate) worker_binary: PathBuf,
    pub(crate) places: Places,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) undead: Arc<Undead>,
    /// Whether namespaces can be made without a user namespace.
    pub(crate) privileged: bool,
}

impl Maker {
    pub(crate) fn open(&self, jail: &Jail, workspace_id: Id) -> Result<Room, SandboxError> {
        Room::open(&self.worker_binary, jail, workspace_id, self.privileged, &self.undead)
    }

    pub(crate) fn prepare(&self, room: &Room, jail: &Jail, limits: &Limits) -> Result<Worker, SandboxError> {
        room.prepare(&self.places, &self.ledger, jail, limits)
    }
}

/// Which room. Another directory under the same name is another workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    jail: Jail,
    workspace_id: Id,
}

/// What stands on the shelf for one key.
struct Kept {
    /// Absent while the keeper is in it.
    room: Option<Room>,
    /// For a run with these limits.
    worker: Option<(Limits, Worker)>,
    made: Instant,
    used: Instant,
}

#[derive(Default)]
struct Shelf {
    rooms: HashMap<Key, Kept>,
    closed: bool,
}

struct Shared {
    shelf: Mutex<Shelf>,
    changed: Condvar,
    bounds: PoolBounds,
}

impl Shared {
    /// A thread that panicked with the shelf in hand has left it whole: every change of it is one step.
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Request {
    /// Have a worker ready for the next run of this kind, and take apart what this one has left.
    Follow(Box<(Key, Limits, Worker)>),
    /// Say when everything that was asked before is done.
    Settle(SyncSender<()>),
    /// Clear everything away and end.
    Close,
}

/// What a run finds on the shelf.
enum Taken {
    Worker(Worker),
    Room(Room),
}

/// The shelf and its keeper. Dropping it clears everything away.
pub(crate) struct Pool {
    shelf: Shelved,
    requests: SyncSender<Request>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl Pool {
    pub(crate) fn new(maker: Maker, bounds: PoolBounds) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared { shelf: Mutex::default(), changed: Condvar::new(), bounds });
        let shelf = Shelved { maker, shared };
        let (requests, inbox) = sync_channel(REQUESTS);
        let keepers = shelf.clone();
        let keeper = std::thread::Builder::new().name("keeper".to_owned()).spawn(move || keepers.keep(&inbox))?;
        Ok(Pool { shelf, requests, keeper: Mutex::new(Some(keeper)) })
    }

    /// A worker for a run of `jail` with `limits` that was prepared, or is made in a room that was.
    pub(crate) fn take(&self, jail: &Jail, workspace_id: Id, limits: &Limits) -> Option<Worker> {
        let key = Key { jail: jail.clone(), workspace_id };
        let worker = match self.take_ready(&key, limits)? {
            Taken::Worker(worker) => Some(worker),
            Taken::Room(room) => match self.shelf.maker.prepare(&room, jail, limits) {
                Ok(worker) => {
                    self.shelf.put_back(&key, room, None, false);
                    Some(worker)
                }
                Err(error) => {
                    self.shelf.give_up(&key, &error);
                    None
                }
            },
        };
        if worker.as_ref().is_some_and(|worker| !worker.is_alive()) {
            // Whatever it died of, its room may have died of it too.
            self.shelf.discard(&key);
            return None;
        }
        worker
    }

    fn take_ready(&self, key: &Key, limits: &Limits) -> Option<Taken> {
        let until = Instant::now() + TAKE_WAIT;
        let mut shelf = self.shelf.shared.shelf();
        loop {
            let kept = shelf.rooms.get_mut(key)?;
            kept.used = Instant::now();
            if let Some((_, worker)) = kept.worker.take_if(|(of, _)| is_enough(of, limits)) {
                return Some(Taken::Worker(worker));
            }
            if let Some(room) = kept.room.take() {
                return Some(Taken::Room(room));
            }
            // Somebody is preparing a worker in it.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shelf.shared.changed.wait_timeout(shelf, left);
            shelf = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes over a room that a run has made for itself.
    pub(crate) fn keep(&self, jail: &Jail, workspace_id: Id, room: Room) {
        let key = Key { jail: jail.clone(), workspace_id };
        let now = Instant::now();
        let mut shelf = self.shelf.shared.shelf();
        let is_new = !shelf.closed && !shelf.rooms.contains_key(&key);
        let surplus = if is_new {
            shelf.rooms.insert(key, Kept { room: Some(room), worker: None, made: now, used: now });
            None
        } else {
            Some(room)
        };
        let evicted = shelf.evict(self.shelf.shared.bounds.workers_max);
        drop(shelf);
        // Ending them waits for processes.
        drop((surplus, evicted));
    }

    /// Has a worker prepared for the next run of this kind, and the last one's processes, leaf and mounts taken apart behind the
    /// next one's back. At the end of a run, which has the processors to itself until then.
    pub(crate) fn follow(&self, jail: &Jail, workspace_id: Id, limits: &Limits, last: Worker) {
        let key = Key { jail: jail.clone(), workspace_id };
        // Full: then the last one ends here, by the drop, and the next run makes its own.
        let _asked = self.requests.try_send(Request::Follow(Box::new((key, *limits, last))));
    }

    /// Clears away what was prepared for `session`, and waits until nothing of its runs is left.
    pub(crate) fn retire(&self, session: &str) {
        let mut shelf = self.shelf.shared.shelf();
        let retired: Vec<Kept> =
            shelf.rooms.extract_if(|key, _| key.jail.session == session).map(|(_, kept)| kept).collect();
        drop(shelf);
        drop(retired);
        let (done, settled) = sync_channel(1);
        if self.requests.send(Request::Settle(done)).is_ok() {
            // Fails when the pool was closed meanwhile, which clears away everything.
            let _settled = settled.recv();
        }
    }

    /// Clears everything away, waits until that is done, and from then on keeps nothing.
    pub(crate) fn close(&self) {
        let mut shelf = self.shelf.shared.shelf();
        shelf.closed = true;
        let all = std::mem::take(&mut shelf.rooms);
        drop(shelf);
        drop(all);
        let keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(keeper) = keeper else { return };
        // Blocks at most until the keeper has done what it is doing.
        let _closed = self.requests.send(Request::Close);
        if keeper.join().is_err() {
            tracing::error!("the keeper of prepared workers panicked");
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a worker that was prepared with some limits can serve a run with others: the supervisor enforces the rest.
fn is_enough(of: &Limits, wanted: &Limits) -> bool {
    let prepared = |limits: &Limits| {
        let Limits { memory_bytes_max, cpu_millis_max, pids_max, tmp_bytes_max, write_bytes_per_s_max, .. } = *limits;
        (memory_bytes_max, cpu_millis_max, pids_max, tmp_bytes_max, write_bytes_per_s_max)
    };
    prepared(of) == prepared(wanted)
}

impl Shelf {
    /// Takes out what is too much: of the owner who has most rooms the one that was not used for longest.
    fn evict(&mut self, workers_max: usize) -> Vec<Kept> {
        let mut evicted = Vec::new();
        while self.rooms.len() > workers_max {
            let mut of_owner: HashMap<&str, usize> = HashMap::new();
            for key in self.rooms.keys() {
                *of_owner.entry(&key.jail.owner).or_default() += 1;
            }
            let most = of_owner.values().copied().max().unwrap_or(0);
            let greedy = self.rooms.iter().filter(|(key, _)| of_owner.get(key.jail.owner.as_str()) == Some(&most));
            let oldest = greedy.min_by_key(|(_, kept)| kept.used).map(|(key, _)| key.clone());
            evicted.extend(oldest.and_then(|key| self.rooms.remove(&key)));
        }
        evicted
    }
}

/// The shelf, and what fills it.
#[derive(Clone)]
struct Shelved {
    maker: Maker,
    shared: Arc<Shared>,
}

impl Shelved {
    fn keep(&self, inbox: &Receiver<Request>) {
        // The next run may wait for it.
        slice::shorten();
        // A quarter of the time that a room may be idle is near enough.
        let pause = (self.shared.bounds.idle / 4).clamp(Duration::from_millis(50), Duration::from_secs(5));
        let mut next_round = Instant::now() + pause;
        loop {
            match inbox.recv_timeout(next_round.saturating_duration_since(Instant::now())) {
                Ok(Request::Follow(next)) => {
                    let (key, limits, last) = *next;
                    std::thread::sleep(END_FIRST);
                    // It dies while the next one is prepared.
                    last.kill();
                    self.refill(&key, &limits);
                }
                // Nobody waits for it any more: then nobody needs to know.
                Ok(Request::Settle(done)) => _ = done.send(()),
                Ok(Request::Close) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= next_round {
                next_round = Instant::now() + pause;
                self.clear_away();
            }
        }
    }

    /// Prepares a worker, unless there is one, outside of the lock.
    fn refill(&self, key: &Key, limits: &Limits) {
        let mut shelf = self.shared.shelf();
        let Some(kept) = shelf.rooms.get_mut(key) else { return };
        if kept.worker.as_ref().is_some_and(|(of, _)| is_enough(of, limits)) {
            return;
        }
        // Somebody else is in it, and will ask again.
        let Some(mut room) = kept.room.take() else { return };
        let unfit = kept.worker.take();
        let is_old = kept.made.elapsed() > ROOM_AGE_MAX;
        drop(shelf);
        drop(unfit);
        if is_old {
            match self.maker.open(&key.jail, key.workspace_id) {
                Ok(new) => room = new,
                Err(error) => return self.give_up(key, &error),
            }
        }
        match self.maker.prepare(&room, &key.jail, limits) {
            Ok(worker) => self.put_back(key, room, Some((*limits, worker)), is_old),
            Err(error) => self.give_up(key, &error),
        }
    }

    fn put_back(&self, key: &Key, room: Room, worker: Option<(Limits, Worker)>, is_new: bool) {
        let mut shelf = self.shared.shelf();
        // Retired or evicted meanwhile: then both end here, after the lock.
        let unwanted = match shelf.rooms.get_mut(key) {
            Some(kept) => {
                if is_new {
                    kept.made = Instant::now();
                }
                // One that waits for other limits stays until the keeper brings its like.
                let old = if worker.is_some() { std::mem::replace(&mut kept.worker, worker) } else { None };
                (old, kept.room.replace(room))
            }
            None => (worker, Some(room)),
        };
        drop(shelf);
        self.shared.changed.notify_all();
        drop(unwanted);
    }

    /// The next run meets the same failure and tells it to somebody.
    fn give_up(&self, key: &Key, error: &SandboxError) {
        tracing::warn!(%error, "a worker could not be prepared");
        self.discard(key);
    }

    fn discard(&self, key: &Key) {
        let removed = self.shared.shelf().rooms.remove(key);
        self.shared.changed.notify_all();
        drop(removed);
    }

    fn clear_away(&self) {
        let idle = self.shared.bounds.idle;
        let mut shelf = self.shared.shelf();
        let idle: Vec<Kept> =
            shelf.rooms.extract_if(|_, kept| kept.used.elapsed() > idle).map(|(_, kept)| kept).collect();
        drop(shelf);
        drop(idle);
    }
}
