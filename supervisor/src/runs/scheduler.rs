//! The scheduler: the one task that owns the host's fair queue and hands out turns. A turn is held as a [`RunSlot`], and given
//! back when that is dropped, however its run ended. Must not know what runs do; who comes next is decided in
//! [`proctor_core::queue`].

use crate::clock::Clock;
use crate::tenants::allowance::{Gauge, Reservation};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use proctor_core::id::TenantId;
use proctor_core::queue::{FairQueue, PositionChange, QueueEntry, Ticket};
use proctor_core::quota::{Amount, Quota, QuotaExceeded};
use proctor_core::timestamp::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
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
    /// It will never: its tenant may have less than it did, or is gone.
    Evicted(QuotaExceeded),
}

/// A run's place in the queue and then on the host. Dropping it gives it back.
#[derive(Debug)]
pub struct RunSlot {
    standing: watch::Receiver<Standing>,
    _held: oneshot::Sender<Infallible>,
}

impl RunSlot {
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
    QuotaExceeded(#[from] QuotaExceeded),
    /// There is no scheduler any more.
    #[error("the supervisor is going down")]
    Gone,
}

/// A run that wants a turn.
#[derive(Debug)]
pub struct SlotRequest {
    /// Whose it is, what it may use, and which of its tenant's runs it comes before.
    pub entry: QueueEntry,
    /// What its tenant may have.
    pub quota: Quota,
    /// How many of its tenant's runs wait.
    pub queued: Arc<Gauge>,
    /// That it is one of them already, because it has waited in its session.
    pub waits: Option<Reservation>,
}

enum Message {
    Enter { wanted: Box<SlotRequest>, reply: oneshot::Sender<Result<RunSlot, QuotaExceeded>> },
    Admit { tenants: BTreeSet<TenantId>, reply: oneshot::Sender<()> },
}

/// The scheduler, to whoever wants a turn.
#[derive(Debug, Clone)]
pub struct Scheduler {
    mailbox: mpsc::Sender<Message>,
}

impl Scheduler {
    /// Starts the scheduler of a host that has `budget` for runs. It ends when every handle is gone.
    #[must_use]
    pub fn start(clock: Clock, budget: Amount) -> Scheduler {
        let (mailbox, messages) = mpsc::channel(MAILBOX);
        let queue = Queue {
            clock,
            budget,
            queue: FairQueue::new(budget),
            admitted: None,
            standings: HashMap::new(),
            given_back: FuturesUnordered::new(),
            tell_at: None,
            told: Instant::now(),
        };
        tokio::spawn(queue.serve(messages));
        Scheduler { mailbox }
    }

    /// Takes a place for a run, which may have the turn already; only one that has to wait can be refused because too many of
    /// its tenant's runs do. A run that demands more than the host has counts as the whole host.
    ///
    /// Blocks for the answer of a task that never waits: not for a tokio thread.
    pub fn enter(&self, wanted: SlotRequest) -> Result<RunSlot, EnterError> {
        let (reply, answer) = oneshot::channel();
        let wanted = Box::new(wanted);
        self.mailbox.blocking_send(Message::Enter { wanted, reply }).map_err(|_| EnterError::Gone)?;
        Ok(answer.blocking_recv().map_err(|_| EnterError::Gone)??)
    }

    /// From now on only runs of these tenants start: those of others that wait are refused, and what goes on goes on. Until it is
    /// called the first time, those of all do.
    pub async fn admit_only(&self, tenants: BTreeSet<TenantId>) {
        let (reply, done) = oneshot::channel();
        // A scheduler that is gone starts nothing.
        _ = self.mailbox.send(Message::Admit { tenants, reply }).await;
        _ = done.await;
    }
}

/// What is known of a run that waits or goes on.
struct Known {
    standing: watch::Sender<Standing>,
    /// That it waits, as its tenant counts it.
    waits: Option<Reservation>,
}

struct Queue {
    clock: Clock,
    budget: Amount,
    queue: FairQueue,
    /// Whose runs start; `None` for everybody's.
    admitted: Option<BTreeSet<TenantId>>,
    /// Of every run that waits or goes on.
    standings: HashMap<Ticket, Known>,
    /// One for each place, until it is dropped.
    given_back: FuturesUnordered<BoxFuture<'static, Ticket>>,
    /// When positions are told next; `None` while nothing has changed.
    tell_at: Option<Instant>,
    told: Instant,
}

impl Queue {
    async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            let due = self.queue.next_charge_due().map(|due| self.at(due));
            tokio::select! {
                message = messages.recv() => match message {
                    Some(Message::Enter { wanted, reply }) => self.enter(*wanted, reply),
                    Some(Message::Admit { tenants, reply }) => {
                        self.admit_only(tenants);
                        _ = reply.send(());
                    }
                    None => return,
                },
                Some(ticket) = self.given_back.next() => self.give_back(ticket),
                () = at(due) => {}
                () = at(self.tell_at) => self.tell(),
            }
            self.advance();
        }
    }

    fn enter(&mut self, wanted: SlotRequest, reply: oneshot::Sender<Result<RunSlot, QuotaExceeded>>) {
        let place = self.place_of(wanted);
        self.tell_soon();
        _ = reply.send(place);
    }

    fn admit_only(&mut self, tenants: BTreeSet<TenantId>) {
        let none = Quota { running_runs_max: 0, ..Quota::UNBOUNDED };
        let gone: Vec<TenantId> = self.queue.tenants().filter(|tenant| !tenants.contains(tenant)).cloned().collect();
        for evicted in gone.iter().flat_map(|tenant| self.queue.configure(tenant, none)).flatten().collect::<Vec<_>>() {
            self.tell_one(evicted.ticket, Standing::Evicted(QuotaExceeded::UnknownTenant));
        }
        self.admitted = Some(tenants);
        self.tell_soon();
    }

    fn place_of(
        &mut self,
        SlotRequest { mut entry, quota, queued, waits }: SlotRequest,
    ) -> Result<RunSlot, QuotaExceeded> {
        if self.admitted.as_ref().is_some_and(|tenants| !tenants.contains(&entry.tenant)) {
            return Err(QuotaExceeded::UnknownTenant);
        }
        self.configure(&entry.tenant, quota)?;
        entry.demand = entry.demand.at_most(self.budget);
        let ticket = self.queue.enqueue(entry)?;
        let (standing, place) = self.place(ticket);
        self.standings.insert(ticket, Known { standing, waits });
        // Its turn may come before it hears that it has a place.
        self.advance();
        if let Some(known) = self.standings.get_mut(&ticket)
            && known.waits.is_none()
            && !place.has_turn()
        {
            match queued.reserve_queued_run(quota.queued_runs_max) {
                Ok(waits) => known.waits = Some(waits),
                Err(refused) => {
                    self.give_back(ticket);
                    return Err(refused);
                }
            }
        }
        Ok(place)
    }

    fn place(&mut self, ticket: Ticket) -> (watch::Sender<Standing>, RunSlot) {
        let (tell, standing) = watch::channel(Standing::Waiting(None));
        let (held, given_back) = oneshot::channel();
        self.given_back.push(Box::pin(async move {
            _ = given_back.await;
            ticket
        }));
        (tell, RunSlot { standing, _held: held })
    }

    // The tenant's quota comes with each of its runs, so that what an operator changes counts from the next run on.
    fn configure(&mut self, tenant: &TenantId, quota: Quota) -> Result<(), QuotaExceeded> {
        for evicted in self.queue.configure(tenant, quota)? {
            self.tell_one(evicted.ticket, Standing::Evicted(evicted.reason));
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
        for ticket in &started {
            self.tell_one(*ticket, Standing::Turn);
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
        for PositionChange { ticket, position } in self.queue.position_changes() {
            self.tell_one(ticket, Standing::Waiting(Some(position)));
        }
    }

    fn tell_one(&mut self, ticket: Ticket, standing: Standing) {
        if let Some(known) = self.standings.get_mut(&ticket) {
            if !matches!(standing, Standing::Waiting(_)) {
                known.waits = None;
            }
            known.standing.send_replace(standing);
        }
    }

    fn at(&self, moment: Timestamp) -> Instant {
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
    use proctor_core::queue::{EXPECTED_MS_FIRST, Priority};
    use tokio::time::timeout;

    const BUDGET: Amount = Amount { memory_bytes: 100, cpu_millis: 100 };
    const HALF: Amount = Amount { memory_bytes: 50, cpu_millis: 10 };
    const ALL: Amount = Amount::UNBOUNDED;

    struct World {
        scheduler: Scheduler,
        /// Runs of tenant "a" that wait, as the tenant counts them.
        queued: Arc<Gauge>,
    }

    fn entry(tenant: &str, demand: Amount, priority: Priority) -> QueueEntry {
        QueueEntry { tenant: TenantId::new(tenant), demand, priority }
    }

    impl World {
        fn new() -> World {
            World { scheduler: Scheduler::start(Clock::new(), BUDGET), queued: Arc::default() }
        }

        async fn want(&self, wanted: SlotRequest) -> Result<RunSlot, EnterError> {
            let scheduler = self.scheduler.clone();
            tokio::task::spawn_blocking(move || scheduler.enter(wanted)).await.unwrap()
        }

        async fn ask(&self, tenant: &str, quota: Quota, demand: Amount) -> Result<RunSlot, EnterError> {
            let queued = if tenant == "a" { Arc::clone(&self.queued) } else { Arc::default() };
            let entry = entry(tenant, demand, Priority::Normal);
            self.want(SlotRequest { entry, quota, queued, waits: None }).await
        }

        async fn enter(&self, tenant: &str, demand: Amount) -> RunSlot {
            self.ask(tenant, Quota::UNBOUNDED, demand).await.unwrap()
        }
    }

    async fn next(place: &mut RunSlot) -> Standing {
        timeout(Duration::from_secs(60), place.changed()).await.expect("nothing changes").unwrap()
    }

    async fn turn(place: &mut RunSlot) {
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
        assert_eq!(full, EnterError::QuotaExceeded(QuotaExceeded::QueuedRuns { max: 1 }));
        let none = Quota { in_use_max: Amount::default(), ..one };
        world.ask("a", none, HALF).await.unwrap_err();
        assert!(matches!(next(&mut waiting).await, Standing::Evicted(QuotaExceeded::AboveTenant { .. })));
        drop((running, waiting));
        assert!(world.ask("a", one, HALF).await.unwrap().has_turn());
    }

    #[tokio::test(start_paused = true)]
    async fn runs_of_a_tenant_that_is_gone_do_not_start() {
        let world = World::new();
        let tenants = |names: &[&str]| names.iter().map(|name| TenantId::new(*name)).collect();
        let running = world.enter("a", ALL).await;
        let (mut waits, mut other) = (world.enter("a", HALF).await, world.enter("b", HALF).await);
        world.scheduler.admit_only(tenants(&["b", "c"])).await;
        while let Standing::Waiting(_) = next(&mut waits).await {}
        assert_eq!(*waits.standing.borrow(), Standing::Evicted(QuotaExceeded::UnknownTenant));
        assert!(running.has_turn(), "what goes on goes on");
        let late = world.ask("a", Quota::UNBOUNDED, HALF).await.unwrap_err();
        assert_eq!(late, EnterError::QuotaExceeded(QuotaExceeded::UnknownTenant));
        drop((running, waits));
        turn(&mut other).await;
        assert!(world.enter("c", HALF).await.has_turn());
        world.scheduler.admit_only(tenants(&["a", "b"])).await;
        drop(other);
        turn(&mut world.enter("a", HALF).await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn runs_are_counted_while_they_wait_and_one_that_has_waited_is_not_refused() {
        let world = World::new();
        let two = Quota { queued_runs_max: 2, ..Quota::UNBOUNDED };
        let running = world.ask("a", two, ALL).await.unwrap();
        assert_eq!(world.queued.now(), 0, "it did not wait");
        // One in a session's own queue, as its actor counts it.
        let in_session = world.queued.reserve_queued_run(2).unwrap();
        let mut waiting = world.ask("a", two, ALL).await.unwrap();
        assert_eq!(world.queued.now(), 2);
        let full = world.ask("a", two, ALL).await.unwrap_err();
        assert_eq!(full, EnterError::QuotaExceeded(QuotaExceeded::QueuedRuns { max: 2 }));
        // What was accepted goes on waiting when the bound is lowered.
        let one = Quota { queued_runs_max: 1, ..two };
        let (queued, entry) = (Arc::clone(&world.queued), entry("a", ALL, Priority::Normal));
        let last = world.want(SlotRequest { entry, quota: one, queued, waits: Some(in_session) }).await.unwrap();
        assert_eq!((last.has_turn(), world.queued.now()), (false, 2));
        drop(running);
        turn(&mut waiting).await;
        assert_eq!(world.queued.now(), 1);
        drop((waiting, last));
        while world.queued.now() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(world.ask("a", Quota { queued_runs_max: 0, ..two }, ALL).await.unwrap().has_turn(), "nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn a_priority_passes_the_tenants_own_runs_and_no_others() {
        let world = World::new();
        let running = world.enter("a", ALL).await;
        let wanted = |tenant, priority| SlotRequest {
            entry: entry(tenant, ALL, priority),
            quota: Quota::UNBOUNDED,
            queued: Arc::default(),
            waits: None,
        };
        // The other tenant has had nothing of the host yet, so it is the next whatever its priority.
        let others = world.want(wanted("b", Priority::Low)).await.unwrap();
        let mut low = world.want(wanted("a", Priority::Low)).await.unwrap();
        let normal = world.want(wanted("a", Priority::Normal)).await.unwrap();
        let high = world.want(wanted("a", Priority::High)).await.unwrap();
        drop(running);
        for mut place in [others, high, normal] {
            turn(&mut place).await;
            assert!(!low.has_turn());
        }
        turn(&mut low).await;
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
