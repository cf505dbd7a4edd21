//! The scheduler: the one task that owns the host's fair queue and hands out turns. A run holds its turn as a
//! [`RunSlot`]; dropping the slot releases it, however the run ended. [`proctor_core::queue`] decides the order.

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

/// Capacity of the mailbox. Each message is handled without waiting, so a thousand is a burst of milliseconds.
const MAILBOX: usize = 1_024;

/// Interval between position updates: as often as a person can follow, at a small part of the cost of sending all
/// changes.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// The state of a run in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// Waiting, with the number of runs before it once that is known.
    Waiting(Option<u32>),
    /// The run may start.
    Turn,
    /// The run will never start: its tenant's quota was lowered, or the tenant was removed.
    Evicted(QuotaExceeded),
}

/// A run's place in the queue and then on the host. Dropping it releases the place.
#[derive(Debug)]
pub struct RunSlot {
    state: watch::Receiver<SlotState>,
    _drop_guard: oneshot::Sender<Infallible>,
}

impl RunSlot {
    /// Whether the run has its turn.
    #[must_use]
    pub fn has_turn(&self) -> bool {
        *self.state.borrow() == SlotState::Turn
    }

    /// Waits until the state changes.
    pub async fn changed(&mut self) -> Result<SlotState, EnterError> {
        self.state.changed().await.map_err(|_| EnterError::Gone)?;
        Ok(self.state.borrow_and_update().clone())
    }
}

/// Why a run got no slot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnterError {
    /// A quota is used up.
    #[error(transparent)]
    QuotaExceeded(#[from] QuotaExceeded),
    /// The scheduler has ended.
    #[error("the supervisor is going down")]
    Gone,
}

/// A run that asks for a slot.
#[derive(Debug)]
pub struct SlotRequest {
    /// Tenant, demand and priority.
    pub entry: QueueEntry,
    /// The tenant's quota.
    pub quota: Quota,
    /// Counts the tenant's waiting runs.
    pub queued: Arc<Gauge>,
    /// The run's own count in `queued`, if it has waited in its session already.
    pub queue_reservation: Option<Reservation>,
}

enum Message {
    Enter { request: Box<SlotRequest>, reply: oneshot::Sender<Result<RunSlot, QuotaExceeded>> },
    Admit { tenants: BTreeSet<TenantId>, reply: oneshot::Sender<()> },
    Usage { reply: oneshot::Sender<SchedulerUsage> },
}

/// Usage of the host's queue and of its budget for runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedulerUsage {
    /// Runs that wait for a turn.
    pub waiting: usize,
    /// Runs that have a turn.
    pub running: usize,
    /// Sum of the demands of the latter.
    pub in_use: Amount,
    /// What all runs together may use.
    pub budget: Amount,
}

/// Handle of the scheduler task.
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
            runs: HashMap::new(),
            released: FuturesUnordered::new(),
            update_at: None,
            updated_at: Instant::now(),
        };
        tokio::spawn(queue.serve(messages));
        Scheduler { mailbox }
    }

    /// Requests a slot for a run, which may have its turn at once. Only a run that has to wait can be refused because
    /// too many runs of its tenant wait. A run that demands more than the host has counts as the whole host.
    ///
    /// The answer comes at once: the scheduler never waits.
    pub async fn enter(&self, request: SlotRequest) -> Result<RunSlot, EnterError> {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(request);
        self.mailbox.send(Message::Enter { request, reply }).await.map_err(|_| EnterError::Gone)?;
        Ok(answer.await.map_err(|_| EnterError::Gone)??)
    }

    /// What waits and runs now. `None` if the scheduler has ended.
    pub async fn usage(&self) -> Option<SchedulerUsage> {
        let (reply, usage) = oneshot::channel();
        self.mailbox.send(Message::Usage { reply }).await.ok()?;
        usage.await.ok()
    }

    /// Restricts starts to these tenants from now on: waiting runs of others are refused, running ones continue. Before
    /// the first call, every tenant is admitted.
    pub async fn admit_only(&self, tenants: BTreeSet<TenantId>) {
        let (reply, done) = oneshot::channel();
        // A scheduler that has ended starts nothing.
        _ = self.mailbox.send(Message::Admit { tenants, reply }).await;
        _ = done.await;
    }
}

/// A waiting or running run.
struct TrackedRun {
    state: watch::Sender<SlotState>,
    /// Counts the run in its tenant's waiting runs.
    queue_reservation: Option<Reservation>,
}

struct Queue {
    clock: Clock,
    budget: Amount,
    queue: FairQueue,
    /// Tenants whose runs may start; `None` admits all.
    admitted: Option<BTreeSet<TenantId>>,
    /// Every run that waits or has its turn.
    runs: HashMap<Ticket, TrackedRun>,
    /// One future for each slot; it completes when the slot is dropped.
    released: FuturesUnordered<BoxFuture<'static, Ticket>>,
    /// When positions are sent next; `None` while nothing has changed.
    update_at: Option<Instant>,
    updated_at: Instant,
}

impl Queue {
    async fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        loop {
            let due = self.queue.next_charge_due().map(|due| self.at(due));
            tokio::select! {
                message = messages.recv() => match message {
                    Some(Message::Enter { request, reply }) => self.enter(*request, reply),
                    Some(Message::Admit { tenants, reply }) => {
                        self.admit_only(tenants);
                        _ = reply.send(());
                    }
                    Some(Message::Usage { reply }) => _ = reply.send(self.usage()),
                    None => return,
                },
                Some(ticket) = self.released.next() => self.release(ticket),
                () = at(due) => {}
                () = at(self.update_at) => self.send_positions(),
            }
            self.advance();
        }
    }

    fn enter(&mut self, request: SlotRequest, reply: oneshot::Sender<Result<RunSlot, QuotaExceeded>>) {
        let slot = self.slot_for(request);
        self.schedule_update();
        _ = reply.send(slot);
    }

    fn usage(&self) -> SchedulerUsage {
        SchedulerUsage {
            waiting: self.queue.waiting(),
            running: self.queue.running(),
            in_use: self.queue.in_use(),
            budget: self.budget,
        }
    }

    fn admit_only(&mut self, tenants: BTreeSet<TenantId>) {
        let none = Quota { running_runs_max: 0, ..Quota::UNBOUNDED };
        let gone: Vec<TenantId> = self.queue.tenants().filter(|tenant| !tenants.contains(tenant)).cloned().collect();
        for evicted in gone.iter().flat_map(|tenant| self.queue.configure(tenant, none)).flatten().collect::<Vec<_>>() {
            self.set_state(evicted.ticket, SlotState::Evicted(QuotaExceeded::UnknownTenant));
        }
        self.admitted = Some(tenants);
        self.schedule_update();
    }

    fn slot_for(
        &mut self,
        SlotRequest { mut entry, quota, queued, queue_reservation }: SlotRequest,
    ) -> Result<RunSlot, QuotaExceeded> {
        if self.admitted.as_ref().is_some_and(|tenants| !tenants.contains(&entry.tenant)) {
            return Err(QuotaExceeded::UnknownTenant);
        }
        self.configure(&entry.tenant, quota)?;
        entry.demand = entry.demand.at_most(self.budget);
        let ticket = self.queue.enqueue(entry)?;
        let (state, slot) = self.open_slot(ticket);
        self.runs.insert(ticket, TrackedRun { state, queue_reservation });
        // The run may get its turn before the caller receives the slot.
        self.advance();
        if let Some(run) = self.runs.get_mut(&ticket)
            && run.queue_reservation.is_none()
            && !slot.has_turn()
        {
            match queued.reserve_queued_run(quota.queued_runs_max) {
                Ok(queue_reservation) => run.queue_reservation = Some(queue_reservation),
                Err(refused) => {
                    self.release(ticket);
                    return Err(refused);
                }
            }
        }
        Ok(slot)
    }

    fn open_slot(&mut self, ticket: Ticket) -> (watch::Sender<SlotState>, RunSlot) {
        let (sender, state) = watch::channel(SlotState::Waiting(None));
        let (drop_guard, released) = oneshot::channel();
        self.released.push(Box::pin(async move {
            _ = released.await;
            ticket
        }));
        (sender, RunSlot { state, _drop_guard: drop_guard })
    }

    // Each run carries its tenant's quota, so an operator's change takes effect with the next run.
    fn configure(&mut self, tenant: &TenantId, quota: Quota) -> Result<(), QuotaExceeded> {
        for evicted in self.queue.configure(tenant, quota)? {
            self.set_state(evicted.ticket, SlotState::Evicted(evicted.reason));
        }
        Ok(())
    }

    fn release(&mut self, ticket: Ticket) {
        self.runs.remove(&ticket);
        if !self.queue.withdraw(ticket) {
            // A run that was evicted neither waits nor runs.
            _ = self.queue.finish(self.clock.now(), ticket);
        }
        self.schedule_update();
    }

    fn advance(&mut self) {
        let started = self.queue.advance(self.clock.now());
        for ticket in &started {
            self.set_state(*ticket, SlotState::Turn);
        }
        if !started.is_empty() {
            self.schedule_update();
        }
    }

    // Schedules a position update, if any run waits.
    fn schedule_update(&mut self) {
        if self.queue.waiting() > 0 && self.update_at.is_none() {
            self.update_at = Some(self.updated_at + UPDATE_INTERVAL);
        }
    }

    fn send_positions(&mut self) {
        (self.update_at, self.updated_at) = (None, Instant::now());
        for PositionChange { ticket, position } in self.queue.position_changes() {
            self.set_state(ticket, SlotState::Waiting(Some(position)));
        }
    }

    fn set_state(&mut self, ticket: Ticket, state: SlotState) {
        if let Some(run) = self.runs.get_mut(&ticket) {
            if !matches!(state, SlotState::Waiting(_)) {
                run.queue_reservation = None;
            }
            run.state.send_replace(state);
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

    struct Harness {
        scheduler: Scheduler,
        /// Counts the waiting runs of tenant "a".
        queued: Arc<Gauge>,
    }

    fn entry(tenant: &str, demand: Amount, priority: Priority) -> QueueEntry {
        QueueEntry { tenant: TenantId::new(tenant), demand, priority }
    }

    impl Harness {
        fn new() -> Harness {
            Harness { scheduler: Scheduler::start(Clock::new(), BUDGET), queued: Arc::default() }
        }

        async fn enter_request(&self, request: SlotRequest) -> Result<RunSlot, EnterError> {
            self.scheduler.enter(request).await
        }

        async fn try_enter(&self, tenant: &str, quota: Quota, demand: Amount) -> Result<RunSlot, EnterError> {
            let queued = if tenant == "a" { Arc::clone(&self.queued) } else { Arc::default() };
            let entry = entry(tenant, demand, Priority::Normal);
            self.enter_request(SlotRequest { entry, quota, queued, queue_reservation: None }).await
        }

        async fn enter(&self, tenant: &str, demand: Amount) -> RunSlot {
            self.try_enter(tenant, Quota::UNBOUNDED, demand).await.unwrap()
        }
    }

    async fn next(slot: &mut RunSlot) -> SlotState {
        timeout(Duration::from_secs(60), slot.changed()).await.expect("nothing changes").unwrap()
    }

    async fn turn(slot: &mut RunSlot) {
        while !slot.has_turn() {
            next(slot).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_fit_start_at_once_and_the_rest_when_a_slot_is_dropped() {
        let harness = Harness::new();
        let (one, other) = (harness.enter("a", HALF).await, harness.enter("b", HALF).await);
        let mut third = harness.enter("a", HALF).await;
        assert_eq!([one.has_turn(), other.has_turn(), third.has_turn()], [true, true, false]);
        drop(one);
        assert_eq!(next(&mut third).await, SlotState::Turn);
    }

    #[tokio::test(start_paused = true)]
    async fn reports_what_waits_and_what_is_in_use() {
        let harness = Harness::new();
        let running = harness.enter("a", HALF).await;
        let _waiting = harness.enter("b", ALL).await;
        let usage = SchedulerUsage { waiting: 1, running: 1, in_use: HALF, budget: BUDGET };
        assert_eq!(harness.scheduler.usage().await, Some(usage));
        drop(running);
        while harness.scheduler.usage().await.unwrap().waiting > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(harness.scheduler.usage().await.unwrap().in_use, BUDGET);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_demands_more_than_the_host_takes_the_whole_host() {
        let harness = Harness::new();
        let large = harness.enter("a", ALL).await;
        let mut small = harness.enter("b", HALF).await;
        assert_eq!([large.has_turn(), small.has_turn()], [true, false]);
        drop(large);
        turn(&mut small).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_waiting_slot_makes_room_for_the_next() {
        let harness = Harness::new();
        let running = harness.enter("a", HALF).await;
        let (large, mut small) = (harness.enter("b", ALL).await, harness.enter("b", HALF).await);
        assert_eq!([large.has_turn(), small.has_turn()], [false, false]);
        drop(large);
        turn(&mut small).await;
        drop(running);
    }

    #[tokio::test(start_paused = true)]
    async fn sends_positions_as_they_fall() {
        let harness = Harness::new();
        let running = harness.enter("a", ALL).await;
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(harness.enter("b", ALL).await);
        }
        for (slot, position) in waiting.iter_mut().zip(0..) {
            assert_eq!(next(slot).await, SlotState::Waiting(Some(position)));
        }
        drop(running);
        let mut last = waiting.pop().unwrap();
        turn(&mut waiting[0]).await;
        assert_eq!(next(&mut last).await, SlotState::Waiting(Some(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_takes_effect_with_the_next_run_and_is_named_in_the_refusal() {
        let harness = Harness::new();
        let one = Quota { running_runs_max: 1, queued_runs_max: 1, ..Quota::UNBOUNDED };
        let running = harness.try_enter("a", one, HALF).await.unwrap();
        let mut waiting = harness.try_enter("a", one, HALF).await.unwrap();
        assert_eq!([running.has_turn(), waiting.has_turn()], [true, false]);
        let full = harness.try_enter("a", one, HALF).await.unwrap_err();
        assert_eq!(full, EnterError::QuotaExceeded(QuotaExceeded::QueuedRuns { max: 1 }));
        let none = Quota { in_use_max: Amount::default(), ..one };
        harness.try_enter("a", none, HALF).await.unwrap_err();
        assert!(matches!(next(&mut waiting).await, SlotState::Evicted(QuotaExceeded::AboveTenant { .. })));
        drop((running, waiting));
        assert!(harness.try_enter("a", one, HALF).await.unwrap().has_turn());
    }

    #[tokio::test(start_paused = true)]
    async fn runs_of_a_removed_tenant_do_not_start() {
        let harness = Harness::new();
        let tenants = |names: &[&str]| names.iter().map(|name| TenantId::new(*name)).collect();
        let running = harness.enter("a", ALL).await;
        let (mut queue_reservation, mut other) = (harness.enter("a", HALF).await, harness.enter("b", HALF).await);
        harness.scheduler.admit_only(tenants(&["b", "c"])).await;
        while let SlotState::Waiting(_) = next(&mut queue_reservation).await {}
        assert_eq!(*queue_reservation.state.borrow(), SlotState::Evicted(QuotaExceeded::UnknownTenant));
        assert!(running.has_turn(), "running runs continue");
        let late = harness.try_enter("a", Quota::UNBOUNDED, HALF).await.unwrap_err();
        assert_eq!(late, EnterError::QuotaExceeded(QuotaExceeded::UnknownTenant));
        drop((running, queue_reservation));
        turn(&mut other).await;
        assert!(harness.enter("c", HALF).await.has_turn());
        harness.scheduler.admit_only(tenants(&["a", "b"])).await;
        drop(other);
        turn(&mut harness.enter("a", HALF).await).await;
    }

    #[tokio::test(start_paused = true)]
    async fn counts_waiting_runs_and_accepts_one_that_has_waited_in_its_session() {
        let harness = Harness::new();
        let two = Quota { queued_runs_max: 2, ..Quota::UNBOUNDED };
        let running = harness.try_enter("a", two, ALL).await.unwrap();
        assert_eq!(harness.queued.now(), 0, "a run that starts at once is not counted");
        // A run in a session's own queue, counted by the session's actor.
        let in_session = harness.queued.reserve_queued_run(2).unwrap();
        let mut waiting = harness.try_enter("a", two, ALL).await.unwrap();
        assert_eq!(harness.queued.now(), 2);
        let full = harness.try_enter("a", two, ALL).await.unwrap_err();
        assert_eq!(full, EnterError::QuotaExceeded(QuotaExceeded::QueuedRuns { max: 2 }));
        // An accepted run keeps waiting when the bound is lowered.
        let one = Quota { queued_runs_max: 1, ..two };
        let (queued, entry) = (Arc::clone(&harness.queued), entry("a", ALL, Priority::Normal));
        let last = harness
            .enter_request(SlotRequest { entry, quota: one, queued, queue_reservation: Some(in_session) })
            .await
            .unwrap();
        assert_eq!((last.has_turn(), harness.queued.now()), (false, 2));
        drop(running);
        turn(&mut waiting).await;
        assert_eq!(harness.queued.now(), 1);
        drop((waiting, last));
        while harness.queued.now() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(
            harness.try_enter("a", Quota { queued_runs_max: 0, ..two }, ALL).await.unwrap().has_turn(),
            "no run waits"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn priority_ranks_only_the_runs_of_one_tenant() {
        let harness = Harness::new();
        let running = harness.enter("a", ALL).await;
        let request = |tenant, priority| SlotRequest {
            entry: entry(tenant, ALL, priority),
            quota: Quota::UNBOUNDED,
            queued: Arc::default(),
            queue_reservation: None,
        };
        // The other tenant has used nothing of the host yet, so it is next whatever its priority.
        let others = harness.enter_request(request("b", Priority::Low)).await.unwrap();
        let mut low = harness.enter_request(request("a", Priority::Low)).await.unwrap();
        let normal = harness.enter_request(request("a", Priority::Normal)).await.unwrap();
        let high = harness.enter_request(request("a", Priority::High)).await.unwrap();
        drop(running);
        for mut slot in [others, high, normal] {
            turn(&mut slot).await;
            assert!(!low.has_turn());
        }
        turn(&mut low).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_longer_than_expected_releases_its_slot() {
        let harness = Harness::new();
        for _ in 0..3 {
            let running = harness.enter("a", ALL).await;
            assert!(running.has_turn());
            let mut waiting = harness.enter("b", ALL).await;
            tokio::time::sleep(Duration::from_millis(25 * EXPECTED_MS_FIRST)).await;
            drop(running);
            turn(&mut waiting).await;
        }
    }

    #[tokio::test]
    async fn waiting_ends_when_the_scheduler_has_ended() {
        let harness = Harness::new();
        let running = harness.enter("a", ALL).await;
        let mut waiting = harness.enter("b", ALL).await;
        drop(harness);
        assert_eq!(waiting.changed().await, Err(EnterError::Gone));
        drop(running);
    }
}
