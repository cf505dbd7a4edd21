//! The scheduler: the one task that owns the host's fair queue and hands out turns. A turn is held as a [`Place`], and given
//! back when that is dropped, however its run ended. Must not know what runs do; who comes next is decided in
//! [`proctor_core::queue`].

use crate::clock::Clock;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use proctor_core::id::TenantId;
use proctor_core::moment::Moment;
use proctor_core::queue::{Entry, FairQueue, Moved, Priority, Ticket};
use proctor_core::quota::{Amount, Quota, Refused};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, Instant, sleep_until};

/// Runs that may knock at the same time. Each is answered without waiting, so a thousand is a burst of milliseconds.
const MAILBOX: usize = 1_024;

/// Pause between two tellings of positions: as often as a person can see, and a small part of what they cost.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// As many runs start before it, if the queue has said so yet.
    Waiting(Option<u32>),
    /// It may run.
    Turn,
    /// It will never: its tenant may have less than it did.
    Evicted(Refused),
}

/// A run's place in the queue and then on the host. Dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    standing: watch::Receiver<Standing>,
    _held: oneshot::Sender<Infallible>,
}

impl Place {
    /// Whether it is the run's turn.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        *self.standing.borrow() == Standing::Turn
    }

    /// Waits until the standing is another.
    pub async fn changed(&mut self) -> Result<Standing, EnterError> {
        self.standing.changed().await.map_err(|_| EnterError::Gone)?;
        Ok(self.standing.borrow_and_update().clone())
    }
}

/// Why a run got no place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnterError {
    /// A quota is used up.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// There is no scheduler any more.
    #[error("the supervisor is going down")]
    Gone,
}

/// A run that wants a turn.
struct Enter {
    tenant: TenantId,
    quota: Quota,
    demand: Amount,
    reply: oneshot::Sender<Result<Place, Refused>>,
}

/// The scheduler, to whoever wants a turn.
#[derive(Debug, Clone)]
pub struct Scheduler {
    mailbox: mpsc::Sender<Enter>,
}

impl Scheduler {
    /// Starts the scheduler of a host that has `budget` for runs. It ends when every handle is gone.
    #[must_use]
    pub fn start(clock: Clock, budget: Amount) -> Scheduler {
        let (mailbox, entering) = mpsc::channel(MAILBOX);
        let queue = Queue {
            clock,
            budget,
            queue: FairQueue::new(budget),
            quotas: BTreeMap::new(),
            standings: HashMap::new(),
            given_back: FuturesUnordered::new(),
            tell_at: None,
            told: Instant::now(),
        };
        tokio::spawn(queue.serve(entering));
        Scheduler { mailbox }
    }

    /// Takes a place for a run of `tenant`, which may have the turn already. A run that demands more than the host has
    /// counts as the whole host.
    ///
    /// Blocks for the answer of a task that never waits: not for a tokio thread.
    pub fn enter(&self, tenant: TenantId, quota: Quota, demand: Amount) -> Result<Place, EnterError> {
        let (reply, answer) = oneshot::channel();
        let enter = Enter { tenant, quota, demand, reply };
        self.mailbox.blocking_send(enter).map_err(|_| EnterError::Gone)?;
        Ok(answer.blocking_recv().map_err(|_| EnterError::Gone)??)
    }
}

struct Queue {
    clock: Clock,
    budget: Amount,
    queue: FairQueue,
    /// As they were configured last.
    quotas: BTreeMap<TenantId, Quota>,
    /// Of every run that waits or goes on.
    standings: HashMap<Ticket, watch::Sender<Standing>>,
    /// One for each place, until it is dropped.
    given_back: FuturesUnordered<BoxFuture<'static, Ticket>>,
    /// When positions are told next; `None` while nothing has changed.
    tell_at: Option<Instant>,
    told: Instant,
}

impl Queue {
    async fn serve(mut self, mut entering: mpsc::Receiver<Enter>) {
        loop {
            let due = self.queue.due().map(|due| self.at(due));
            tokio::select! {
                enter = entering.recv() => match enter {
                    Some(enter) => self.enter(enter),
                    None => return,
                },
                Some(ticket) = self.given_back.next() => self.give_back(ticket),
                () = at(due) => {}
                () = at(self.tell_at) => self.tell(),
            }
            self.advance();
        }
    }

    fn enter(&mut self, Enter { tenant, quota, demand, reply }: Enter) {
        let place = self.configure(&tenant, quota).and_then(|()| {
            let demand = demand.at_most(self.budget);
            let entry = Entry { tenant, demand, priority: Priority::Normal };
            let ticket = self.queue.enqueue(self.clock.now(), entry)?;
            let (standing, place) = self.place(ticket);
            self.standings.insert(ticket, standing);
            Ok(place)
        });
        // Its turn may have come before it hears that it has a place.
        self.advance();
        self.tell_soon();
        _ = reply.send(place);
    }

    fn place(&mut self, ticket: Ticket) -> (watch::Sender<Standing>, Place) {
        let (tell, standing) = watch::channel(Standing::Waiting(None));
        let (held, given_back) = oneshot::channel();
        self.given_back.push(Box::pin(async move {
            _ = given_back.await;
            ticket
        }));
        (tell, Place { standing, _held: held })
    }

    // The tenant's quota comes with each of its runs, so that what an operator changes counts from the next run on.
    fn configure(&mut self, tenant: &TenantId, quota: Quota) -> Result<(), Refused> {
        if self.quotas.get(tenant) == Some(&quota) {
            return Ok(());
        }
        let evicted = self.queue.configure(tenant, quota).map_err(|_| Refused::UnknownTenant)?;
        self.quotas.insert(tenant.clone(), quota);
        for evicted in evicted {
            self.tell_one(evicted.ticket, Standing::Evicted(evicted.refused));
        }
        Ok(())
    }

    fn give_back(&mut self, ticket: Ticket) {
        self.standings.remove(&ticket);
        if !self.queue.withdraw(ticket) {
            // One that was evicted is in neither state.
            _ = self.queue.finish(self.clock.now(), ticket);
        }
        self.tell_soon();
    }

    fn advance(&mut self) {
        let started = self.queue.advance(self.clock.now());
        for run in &started {
            self.tell_one(run.ticket, Standing::Turn);
        }
        if !started.is_empty() {
            self.tell_soon();
        }
    }

    // Positions have changed, if any run waits.
    fn tell_soon(&mut self) {
        if self.queue.waiting() > 0 && self.tell_at.is_none() {
            self.tell_at = Some(self.told + TELL_EVERY);
        }
    }

    fn tell(&mut self) {
        (self.tell_at, self.told) = (None, Instant::now());
        for Moved { ticket, position } in self.queue.moved() {
            self.tell_one(ticket, Standing::Waiting(Some(position)));
        }
    }

    fn tell_one(&self, ticket: Ticket, standing: Standing) {
        if let Some(told) = self.standings.get(&ticket) {
            told.send_replace(standing);
        }
    }

    fn at(&self, moment: Moment) -> Instant {
        Instant::now() + Duration::from_millis(moment.ms_since(self.clock.now()))
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::queue::EXPECTED_MS_FIRST;
    use tokio::time::timeout;

    const BUDGET: Amount = Amount { memory_bytes: 100, cpu_millis: 100 };
    const HALF: Amount = Amount { memory_bytes: 50, cpu_millis: 10 };
    const ALL: Amount = Amount::UNBOUNDED;

    struct World(Scheduler);

    impl World {
        fn new() -> World {
            World(Scheduler::start(Clock::new(), BUDGET))
        }

        async fn ask(&self, tenant: &str, quota: Quota, demand: Amount) -> Result<Place, EnterError> {
            let (scheduler, tenant) = (self.0.clone(), TenantId::new(tenant));
            tokio::task::spawn_blocking(move || scheduler.enter(tenant, quota, demand)).await.unwrap()
        }

        async fn enter(&self, tenant: &str, demand: Amount) -> Place {
            self.ask(tenant, Quota::UNBOUNDED, demand).await.unwrap()
        }
    }

    async fn next(place: &mut Place) -> Standing {
        timeout(Duration::from_secs(60), place.changed()).await.expect("nothing changes").unwrap()
    }

    async fn turn(place: &mut Place) {
        while !place.has_turn() {
            next(place).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fits_has_its_turn_at_once_and_the_rest_when_a_place_is_dropped() {
        let world = World::new();
        let (one, other) = (world.enter("a", HALF).await, world.enter("b", HALF).await);
        let mut third = world.enter("a", HALF).await;
        assert_eq!([one.has_turn(), other.has_turn(), third.has_turn()], [true, true, false]);
        drop(one);
        assert_eq!(next(&mut third).await, Standing::Turn);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_demands_more_than_there_is_takes_the_whole_host() {
        let world = World::new();
        let large = world.enter("a", ALL).await;
        let mut small = world.enter("b", HALF).await;
        assert_eq!([large.has_turn(), small.has_turn()], [true, false]);
        drop(large);
        turn(&mut small).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_makes_room_for_the_next() {
        let world = World::new();
        let running = world.enter("a", HALF).await;
        let (large, mut small) = (world.enter("b", ALL).await, world.enter("b", HALF).await);
        assert_eq!([large.has_turn(), small.has_turn()], [false, false]);
        drop(large);
        turn(&mut small).await;
        drop(running);
    }

    #[tokio::test(start_paused = true)]
    async fn positions_are_told_and_fall() {
        let world = World::new();
        let running = world.enter("a", ALL).await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(world.enter("b", ALL).await);
        }
        for (place, position) in waiting.iter_mut().zip(0..) {
            assert_eq!(next(place).await, Standing::Waiting(Some(position)));
        }
        drop(running);
        let mut last = waiting.pop().unwrap();
        turn(&mut waiting[0]).await;
        assert_eq!(next(&mut last).await, Standing::Waiting(Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_counts_from_the_next_run_on_and_refuses_by_name() {
        let world = World::new();
        let one = Quota { running_runs_max: 1, queued_runs_max: 1, ..Quota::UNBOUNDED };
        let running = world.ask("a", one, HALF).await.unwrap();
        let mut waiting = world.ask("a", one, HALF).await.unwrap();
        assert_eq!([running.has_turn(), waiting.has_turn()], [true, false]);
        let full = world.ask("a", one, HALF).await.unwrap_err();
        assert_eq!(full, EnterError::Refused(Refused::QueuedRuns { max: 1 }));
        let none = Quota { in_use_max: Amount::default(), ..one };
        world.ask("a", none, HALF).await.unwrap_err();
        assert!(matches!(next(&mut waiting).await, Standing::Evicted(Refused::AboveTenant { .. })));
        drop((running, waiting));
        assert!(world.ask("a", one, HALF).await.unwrap().has_turn());
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_takes_longer_than_was_expected_gives_its_place_back_all_the_same() {
        let world = World::new();
        for _ in 0..3 {
            let running = world.enter("a", ALL).await;
            assert!(running.has_turn());
            let mut waiting = world.enter("b", ALL).await;
            tokio::time::sleep(Duration::from_millis(25 * EXPECTED_MS_FIRST)).await;
            drop(running);
            turn(&mut waiting).await;
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_scheduler_that_is_gone() {
        let world = World::new();
        let running = world.enter("a", ALL).await;
        let mut waiting = world.enter("b", ALL).await;
        drop(world);
        assert_eq!(waiting.changed().await, Err(EnterError::Gone));
        drop(running);
    }
}
