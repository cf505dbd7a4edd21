//! Limits on what one tenant may use of the supervisor itself: requests per second, event streams and waiting runs at a
//! time, retained bytes of its runs, and bytes in flight. The counters are atomics, shared by all threads, and keep
//! their values when an operator changes the bounds.

use proctor_core::bounds::ENCODE_PERMITS_MAX;
use proctor_core::quota::{Quota, QuotaExceeded};
use proctor_core::rate_limit::RateLimit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The current amount of a resource that one tenant uses.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// An amount counted in a gauge until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    gauge: Arc<Gauge>,
    amount: AtomicU64,
}

impl Reservation {
    /// Adds `by` to this reservation, without a bound.
    pub fn add(&self, by: u64) {
        self.gauge.0.fetch_add(by, Ordering::Relaxed);
        self.amount.fetch_add(by, Ordering::Relaxed);
    }

    /// Adds `by` to this reservation, unless the gauge would exceed `max`.
    #[must_use]
    pub fn try_grow(&self, by: u64, max: u64) -> bool {
        let grown = self.gauge.try_increase(by, max);
        if grown {
            self.amount.fetch_add(by, Ordering::Relaxed);
        }
        grown
    }
}

impl Gauge {
    /// Reserves `amount`, without a bound.
    #[must_use]
    pub fn add(self: &Arc<Gauge>, amount: u64) -> Reservation {
        self.0.fetch_add(amount, Ordering::Relaxed);
        Reservation { gauge: Arc::clone(self), amount: amount.into() }
    }

    /// Reserves `amount`, unless the gauge would exceed `max`.
    #[must_use]
    pub fn try_add(self: &Arc<Gauge>, amount: u64, max: u64) -> Option<Reservation> {
        self.try_increase(amount, max).then(|| Reservation { gauge: Arc::clone(self), amount: amount.into() })
    }

    fn try_increase(&self, amount: u64, max: u64) -> bool {
        let more = |now: u64| now.checked_add(amount).filter(|now| *now <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Reserves one, unless `max` are reserved already. Reservations beyond a lowered bound stay.
    #[must_use]
    pub fn try_add_one(self: &Arc<Gauge>, max: u32) -> Option<Reservation> {
        self.try_add(1, max.into())
    }

    /// Reserves one waiting run of at most `max`.
    ///
    /// # Errors
    /// [`QuotaExceeded::QueuedRuns`].
    pub fn reserve_queued_run(self: &Arc<Gauge>, max: u32) -> Result<Reservation, QuotaExceeded> {
        self.try_add_one(max).ok_or(QuotaExceeded::QueuedRuns { max })
    }

    /// The current amount.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.gauge.0.fetch_sub(*self.amount.get_mut(), Ordering::Relaxed);
    }
}

/// What is retained of one tenant's runs.
#[derive(Debug, Default)]
pub struct RetainedUsage {
    /// See [`Quota::retained_bytes_max`].
    pub bytes: Arc<Gauge>,
    /// See [`Quota::retained_memory_bytes_max`].
    pub memory: Arc<Gauge>,
}

impl RetainedUsage {
    /// The bound of `quota` that is used up, if one is.
    #[must_use]
    pub fn exceeded(&self, quota: &Quota) -> Option<QuotaExceeded> {
        let (bytes_max, memory_max) = (quota.retained_bytes_max, quota.retained_memory_bytes_max);
        if self.bytes.now() >= bytes_max {
            return Some(QuotaExceeded::RetainedBytes { max: bytes_max });
        }
        (self.memory.now() >= memory_max).then_some(QuotaExceeded::RetainedMemory { max: memory_max })
    }

    /// A memory reservation for a new run.
    #[must_use]
    pub fn run_memory(&self, quota: &Quota) -> MemoryReservation {
        MemoryReservation { reserved: self.memory.add(0), max: quota.retained_memory_bytes_max }
    }
}

/// The memory of one run, counted in its tenant's quota until this is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    reserved: Reservation,
    max: u64,
}

impl MemoryReservation {
    /// For a run whose tenant has no bound.
    #[cfg(test)]
    pub(crate) fn unbounded() -> MemoryReservation {
        RetainedUsage::default().run_memory(&Quota::UNBOUNDED)
    }

    /// Reserves `bytes` more, unless the tenant's runs would exceed their quota.
    #[must_use]
    pub fn try_grow(&self, bytes: u64) -> bool {
        self.reserved.try_grow(bytes, self.max)
    }

    /// Counts `bytes` that are in use already, without a bound.
    pub fn grow(&self, bytes: u64) {
        self.reserved.add(bytes);
    }
}

/// Bytes in flight between the supervisor and one tenant, or all callers that are no tenant.
#[derive(Debug)]
pub struct InFlightBytes {
    /// Bytes of requests that have arrived and are not answered yet, up to [`UNANSWERED_BYTES_MAX`](proctor_core::bounds::UNANSWERED_BYTES_MAX).
    pub unanswered: Arc<Gauge>,
    /// Bytes of encoded answers that are not read yet, up to [`UNREAD_BYTES_MAX`](proctor_core::bounds::UNREAD_BYTES_MAX).
    pub unread: Arc<Gauge>,
    encode_permits: Arc<Semaphore>,
}

impl Default for InFlightBytes {
    fn default() -> InFlightBytes {
        let encode_permits = Arc::new(Semaphore::new(ENCODE_PERMITS_MAX));
        InFlightBytes { unanswered: Arc::default(), unread: Arc::default(), encode_permits }
    }
}

impl InFlightBytes {
    /// Waits for a permit to encode a large answer; it is returned on drop.
    pub async fn encode_permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.encode_permits).acquire_owned().await.ok()
    }
}

/// The allowance of one tenant: its configured bounds and its usage.
#[derive(Debug)]
pub struct Allowance {
    /// Requests per second.
    pub requests_per_second: u32,
    /// Event streams at a time.
    pub subscribers_max: u32,
    rate: RateLimit,
    usage: Arc<Usage>,
}

/// Usage of an allowance, kept when its bounds change.
#[derive(Debug)]
struct Usage {
    since: Instant,
    /// See [`RateLimit::admit`]: its lead over the clock is the spent part of a second's requests.
    due_ns: AtomicU64,
    subscribers: Arc<Gauge>,
    in_flight: Arc<InFlightBytes>,
}

impl Allowance {
    /// An unused allowance.
    #[must_use]
    pub fn new(requests_per_second: u32, subscribers_max: u32) -> Allowance {
        let (due_ns, subscribers, in_flight) = (AtomicU64::new(0), Arc::default(), Arc::default());
        let usage = Usage { since: Instant::now(), due_ns, subscribers, in_flight };
        Allowance {
            requests_per_second,
            subscribers_max,
            rate: RateLimit::per_second(requests_per_second),
            usage: Arc::new(usage),
        }
    }

    /// These bounds with the usage of the tenant's allowance `before`, which both count from now on.
    #[must_use]
    pub fn with_usage_of(self, before: &Allowance) -> Allowance {
        Allowance { usage: Arc::clone(&before.usage), ..self }
    }

    /// Takes one request, or returns the time until one is available.
    pub fn take_request(&self) -> Result<(), Duration> {
        self.take_request_at(u64::try_from(self.usage.since.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    // `now_ns` counts from the start of the usage.
    fn take_request_at(&self, now_ns: u64) -> Result<(), Duration> {
        let shared = &self.usage.due_ns;
        let mut due_ns = shared.load(Ordering::Relaxed);
        loop {
            let next = self.rate.admit(now_ns, due_ns).map_err(Duration::from_nanos)?;
            match shared.compare_exchange_weak(due_ns, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                // Another thread was faster.
                Err(now) => due_ns = now,
            }
        }
    }

    /// The tenant's bytes in flight.
    #[must_use]
    pub fn in_flight(&self) -> &Arc<InFlightBytes> {
        &self.usage.in_flight
    }

    /// Reserves one event stream, if one is available.
    #[must_use]
    pub fn subscribe(&self) -> Option<Reservation> {
        self.usage.subscribers.try_add_one(self.subscribers_max)
    }

    /// Open event streams.
    #[must_use]
    pub fn subscribers(&self) -> u64 {
        self.usage.subscribers.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_used_up_allowance_until_it_is_released() {
        let allowance = Allowance::new(4, 2);
        let take_all_at = |now_ns| std::iter::from_fn(|| allowance.take_request_at(now_ns).ok()).count();
        assert_eq!(take_all_at(0), 4);
        assert_eq!(allowance.take_request_at(50_000_000), Err(Duration::from_millis(200)));
        assert_eq!((take_all_at(250_000_000), take_all_at(9_000_000_000)), (1, 4));
        let two = [allowance.subscribe(), allowance.subscribe()];
        assert!(two.iter().all(Option::is_some) && allowance.subscribe().is_none());
        drop(two);
        assert!(allowance.subscribe().is_some());
    }

    #[test]
    fn dropping_a_reservation_releases_it() {
        let kept = Arc::new(Gauge::default());
        let (one, other) = (kept.add(3), kept.add(4));
        assert_eq!(kept.now(), 7);
        drop(one);
        assert_eq!(kept.now(), 4);
        drop(other);
        assert_eq!(kept.now(), 0);
    }

    #[test]
    fn counts_the_memory_of_runs_for_their_tenant_and_releases_it_with_each() {
        let quota = Quota { retained_bytes_max: 5, retained_memory_bytes_max: 10, ..Quota::UNBOUNDED };
        let kept = RetainedUsage::default();
        let (one, other) = (kept.run_memory(&quota), kept.run_memory(&quota));
        assert!(one.try_grow(6) && !other.try_grow(5) && other.try_grow(4));
        assert_eq!(kept.exceeded(&quota), Some(QuotaExceeded::RetainedMemory { max: 10 }));
        drop(one);
        assert_eq!((kept.exceeded(&quota), kept.memory.now()), (None, 4));
        other.grow(7);
        assert_eq!((kept.exceeded(&quota), kept.memory.now()), (Some(QuotaExceeded::RetainedMemory { max: 10 }), 11));
        drop(other);
        let bytes = kept.bytes.add(5);
        assert_eq!(kept.exceeded(&quota), Some(QuotaExceeded::RetainedBytes { max: 5 }));
        drop(bytes);
        assert_eq!((kept.exceeded(&quota), kept.memory.now()), (None, 0));
    }

    #[test]
    fn a_growing_reservation_stays_within_its_bound_and_is_released_whole() {
        let bytes = Arc::new(Gauge::default());
        let (one, other) = (bytes.add(0), bytes.try_add(4, 10).unwrap());
        assert!(
            one.try_grow(5, 10) && !one.try_grow(2, 10) && one.try_grow(1, 10) && !other.try_grow(u64::MAX, u64::MAX)
        );
        assert!(bytes.try_add(1, 10).is_none());
        drop(one);
        assert_eq!(bytes.now(), 4);
        drop(other);
        assert_eq!(bytes.now(), 0);
    }

    #[test]
    fn counts_waiting_runs_up_to_a_bound_that_may_change() {
        let queued = Arc::new(Gauge::default());
        let two = [queued.reserve_queued_run(2).unwrap(), queued.reserve_queued_run(2).unwrap()];
        for max in [2, 1, 0] {
            assert_eq!(queued.reserve_queued_run(max).unwrap_err(), QuotaExceeded::QueuedRuns { max });
        }
        assert_eq!(queued.now(), 2);
        drop(queued.reserve_queued_run(3).unwrap());
        drop(two);
        assert_eq!(queued.now(), 0);
    }

    #[test]
    fn keeps_the_usage_when_the_bounds_change() {
        let before = Allowance::new(10, 2);
        let streams = [before.subscribe().unwrap(), before.subscribe().unwrap()];
        let take_all_at =
            |allowance: &Allowance, now_ns| std::iter::from_fn(|| allowance.take_request_at(now_ns).ok()).count();
        assert_eq!(take_all_at(&before, 0), 10);
        let more = Allowance::new(1_000, 3).with_usage_of(&before);
        let third = more.subscribe().unwrap();
        assert!(more.subscribe().is_none() && before.subscribe().is_none());
        // A fresh allowance would admit a thousand at once.
        assert_eq!((take_all_at(&more, 0), take_all_at(&more, 100_000_000)), (0, 100));
        let less = Allowance::new(1, 1).with_usage_of(&more);
        drop(streams);
        assert!(less.subscribe().is_none(), "the third stream is open");
        drop(third);
        assert!(less.subscribe().is_some());
    }

    #[test]
    fn threads_together_take_no_more_than_the_allowance() {
        let allowance = Allowance::new(1_000, 1);
        let admitted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..1_000).filter(|_| allowance.take_request_at(0).is_ok()).count()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(admitted, 1_000);
    }
}
