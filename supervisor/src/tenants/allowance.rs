//! What one tenant may ask of the supervisor itself: requests in a second, streams of events and waiting runs at the same
//! time, what is kept of its runs, and what is on the wire between it and the supervisor. Numbers that calls on any thread
//! change without waiting for each other, and that go on when an operator changes their bounds. Must not know requests.

use proctor_core::quota::QuotaExceeded;
use proctor_core::rate_limit::RateLimit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of one tenant's requests that have come and are not answered yet: eight of the largest.
pub const ARRIVING_BYTES_MAX: u64 = 64 << 20;

/// Bytes of answers that were made for one tenant and that it has not taken: four of the largest, and eight reports of 100,000
/// tests.
pub const UNTAKEN_BYTES_MAX: u64 = 256 << 20;

/// Answers of many megabytes that are being made for one tenant at the same time: more than a host has processors for, and
/// what they hold meanwhile is no more than what one tenant may leave untaken.
pub const MAKING_MAX: usize = 4;

/// How much of something one tenant has now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// Some of it, until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    count: Arc<Gauge>,
    amount: AtomicU64,
}

impl Reservation {
    /// Counts `by` more of it together with this, whatever there may be.
    pub fn add(&self, by: u64) {
        self.count.0.fetch_add(by, Ordering::Relaxed);
        self.amount.fetch_add(by, Ordering::Relaxed);
    }

    /// Counts `by` more of it together with this, unless there would be more than `max` in all.
    #[must_use]
    pub fn grow(&self, by: u64, max: u64) -> bool {
        let grown = self.count.take(by, max);
        if grown {
            self.amount.fetch_add(by, Ordering::Relaxed);
        }
        grown
    }
}

impl Gauge {
    /// Counts `amount` more.
    #[must_use]
    pub fn add(self: &Arc<Gauge>, amount: u64) -> Reservation {
        self.0.fetch_add(amount, Ordering::Relaxed);
        Reservation { count: Arc::clone(self), amount: amount.into() }
    }

    /// Counts `amount` more, unless there would be more than `max`.
    #[must_use]
    pub fn add_within(self: &Arc<Gauge>, amount: u64, max: u64) -> Option<Reservation> {
        self.take(amount, max).then(|| Reservation { count: Arc::clone(self), amount: amount.into() })
    }

    fn take(&self, amount: u64, max: u64) -> bool {
        let more = |now: u64| now.checked_add(amount).filter(|now| *now <= max);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts one more, unless there are `max` already. What is beyond a bound that was lowered stays.
    #[must_use]
    pub fn one_more(self: &Arc<Gauge>, max: u32) -> Option<Reservation> {
        self.add_within(1, max.into())
    }

    /// One more run that waits, where `max` may.
    ///
    /// # Errors
    /// [`QuotaExceeded::QueuedRuns`].
    pub fn one_more_run(self: &Arc<Gauge>, max: u32) -> Result<Reservation, QuotaExceeded> {
        self.one_more(max).ok_or(QuotaExceeded::QueuedRuns { max })
    }

    /// All that is counted.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.count.0.fetch_sub(*self.amount.get_mut(), Ordering::Relaxed);
    }
}

/// What is kept of one tenant's runs, and how much of it may be.
#[derive(Debug, Clone)]
pub struct RetainedQuota {
    /// Bytes of runs that have ended: events, reports, output and artefacts.
    pub bytes: Arc<Gauge>,
    /// How many that may be.
    pub bytes_max: u64,
    /// Bytes of the supervisor's memory among these, coverage indexes, and what runs that go on have told until now.
    pub memory: Arc<Gauge>,
    /// How many that may be.
    pub memory_max: u64,
}

impl RetainedQuota {
    /// Of a supervisor that serves one user alone.
    #[must_use]
    pub fn unbounded() -> RetainedQuota {
        RetainedQuota { bytes: Arc::default(), bytes_max: u64::MAX, memory: Arc::default(), memory_max: u64::MAX }
    }

    /// The quota that is used up, if one is.
    #[must_use]
    pub fn full(&self) -> Option<QuotaExceeded> {
        let RetainedQuota { bytes, bytes_max, memory, memory_max } = self;
        if bytes.now() >= *bytes_max {
            return Some(QuotaExceeded::RetainedBytes { max: *bytes_max });
        }
        (memory.now() >= *memory_max).then_some(QuotaExceeded::RetainedMemory { max: *memory_max })
    }

    /// The memory of one more run.
    #[must_use]
    pub fn room(&self) -> MemoryReservation {
        MemoryReservation { taken: self.memory.add(0), max: self.memory_max }
    }
}

/// The memory that one run takes of its tenant's, for as long as this lives.
#[derive(Debug)]
pub struct MemoryReservation {
    taken: Reservation,
    max: u64,
}

impl MemoryReservation {
    /// Takes `bytes` more, unless its tenant's runs would have more than they may.
    #[must_use]
    pub fn take(&self, bytes: u64) -> bool {
        self.taken.grow(bytes, self.max)
    }

    /// Takes `bytes` that are there already, whatever its tenant may have.
    pub fn hold(&self, bytes: u64) {
        self.taken.add(bytes);
    }
}

/// What is on the wire between the supervisor and one tenant, or all those together who are no tenant.
#[derive(Debug)]
pub struct InFlightBytes {
    /// Bytes of requests that have come and are not answered yet, up to [`ARRIVING_BYTES_MAX`].
    pub arriving: Arc<Gauge>,
    /// Bytes of answers that were made and are not taken yet, up to [`UNTAKEN_BYTES_MAX`].
    pub untaken: Arc<Gauge>,
    making: Arc<Semaphore>,
}

impl Default for InFlightBytes {
    fn default() -> InFlightBytes {
        let making = Arc::new(Semaphore::new(MAKING_MAX));
        InFlightBytes { arriving: Arc::default(), untaken: Arc::default(), making }
    }
}

impl InFlightBytes {
    /// Waits for a turn to make an answer of many megabytes, which lasts until the returned value is dropped.
    pub async fn making(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.making).acquire_owned().await.ok()
    }
}

/// One tenant's allowance: its bounds as they are configured, and what is used of it.
#[derive(Debug)]
pub struct Allowance {
    /// Requests in a second.
    pub requests_per_second: u32,
    /// Streams at the same time.
    pub subscribers_max: u32,
    rate: RateLimit,
    used: Arc<Used>,
}

/// What is used of an allowance, whatever its bounds are.
#[derive(Debug)]
struct Used {
    since: Instant,
    /// See [`RateLimit::admit`]: how far ahead of the clock it is, is the part of a second's requests that is spent.
    due_ns: AtomicU64,
    subscribers: Arc<Gauge>,
    wire: Arc<InFlightBytes>,
}

impl Allowance {
    /// Nothing of it is used yet.
    #[must_use]
    pub fn new(requests_per_second: u32, subscribers_max: u32) -> Allowance {
        let (due_ns, subscribers, wire) = (AtomicU64::new(0), Arc::default(), Arc::default());
        let used = Used { since: Instant::now(), due_ns, subscribers, wire };
        Allowance {
            requests_per_second,
            subscribers_max,
            rate: RateLimit::per_second(requests_per_second),
            used: Arc::new(used),
        }
    }

    /// The same bounds, with what is used of the tenant's allowance `before`, which goes on to be counted in both.
    #[must_use]
    pub fn in_place_of(self, before: &Allowance) -> Allowance {
        Allowance { used: Arc::clone(&before.used), ..self }
    }

    /// Takes one request, or says when there is one to take.
    pub fn request(&self) -> Result<(), Duration> {
        let Used { since, due_ns: shared, .. } = &*self.used;
        let now_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
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

    /// What is on the wire.
    #[must_use]
    pub fn wire(&self) -> &Arc<InFlightBytes> {
        &self.used.wire
    }

    /// Takes one stream, if there is one to take.
    #[must_use]
    pub fn subscribe(&self) -> Option<Reservation> {
        self.used.subscribers.one_more(self.subscribers_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_refused_until_it_is_given_back() {
        let allowance = Allowance::new(3, 2);
        // Meanwhile there may be more.
        let mut admitted = 0;
        let wait = loop {
            match allowance.request() {
                Ok(()) => admitted += 1,
                Err(wait) => break wait,
            }
        };
        assert!(admitted >= 3 && wait <= Duration::from_millis(334), "{admitted}, {wait:?}");
        let two = [allowance.subscribe(), allowance.subscribe()];
        assert!(two.iter().all(Option::is_some) && allowance.subscribe().is_none());
        drop(two);
        assert!(allowance.subscribe().is_some());
    }

    #[test]
    fn what_is_kept_is_given_back_when_it_is_dropped() {
        let kept = Arc::new(Gauge::default());
        let (one, other) = (kept.add(3), kept.add(4));
        assert_eq!(kept.now(), 7);
        drop(one);
        assert_eq!(kept.now(), 4);
        drop(other);
        assert_eq!(kept.now(), 0);
    }

    #[test]
    fn the_memory_of_runs_is_their_tenants_and_given_back_with_each() {
        let kept = RetainedQuota { bytes_max: 5, memory_max: 10, ..RetainedQuota::unbounded() };
        let (one, other) = (kept.room(), kept.room());
        assert!(one.take(6) && !other.take(5) && other.take(4));
        assert_eq!(kept.full(), Some(QuotaExceeded::RetainedMemory { max: 10 }));
        drop(one);
        assert_eq!((kept.full(), kept.memory.now()), (None, 4));
        other.hold(7);
        assert_eq!((kept.full(), kept.memory.now()), (Some(QuotaExceeded::RetainedMemory { max: 10 }), 11));
        drop(other);
        let bytes = kept.bytes.add(5);
        assert_eq!(kept.full(), Some(QuotaExceeded::RetainedBytes { max: 5 }));
        drop(bytes);
        assert_eq!((kept.full(), kept.memory.now()), (None, 0));
    }

    #[test]
    fn what_grows_stays_within_its_bound_and_is_given_back_whole() {
        let bytes = Arc::new(Gauge::default());
        let (one, other) = (bytes.add(0), bytes.add_within(4, 10).unwrap());
        assert!(one.grow(5, 10) && !one.grow(2, 10) && one.grow(1, 10) && !other.grow(u64::MAX, u64::MAX));
        assert!(bytes.add_within(1, 10).is_none());
        drop(one);
        assert_eq!(bytes.now(), 4);
        drop(other);
        assert_eq!(bytes.now(), 0);
    }

    #[test]
    fn runs_that_wait_are_counted_up_to_a_bound_that_may_change() {
        let queued = Arc::new(Gauge::default());
        let two = [queued.one_more_run(2).unwrap(), queued.one_more_run(2).unwrap()];
        for max in [2, 1, 0] {
            assert_eq!(queued.one_more_run(max).unwrap_err(), QuotaExceeded::QueuedRuns { max });
        }
        assert_eq!(queued.now(), 2);
        drop(queued.one_more_run(3).unwrap());
        drop(two);
        assert_eq!(queued.now(), 0);
    }

    #[test]
    fn what_is_used_up_stays_so_when_the_bounds_change() {
        let before = Allowance::new(10, 2);
        let streams = [before.subscribe().unwrap(), before.subscribe().unwrap()];
        let began = Instant::now();
        let spent = std::iter::from_fn(|| before.request().ok()).count();
        let more = Allowance::new(1_000, 3).in_place_of(&before);
        let third = more.subscribe().unwrap();
        assert!(more.subscribe().is_none() && before.subscribe().is_none());
        let taken = std::iter::from_fn(|| more.request().ok()).count();
        let passed_ms = usize::try_from(began.elapsed().as_millis()).unwrap();
        // A fresh one would have a thousand at once.
        assert!(spent >= 10 && taken <= passed_ms + 101, "{taken} in {passed_ms} ms");
        let less = Allowance::new(1, 1).in_place_of(&more);
        drop(streams);
        assert!(less.subscribe().is_none(), "the third is open");
        drop(third);
        assert!(less.subscribe().is_some());
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let allowance = Allowance::new(1_000, 1);
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1_000).filter(|_| allowance.request().is_ok()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        let since_ms = allowance.used.since.elapsed().as_millis();
        assert!((1_000..=1_001 + usize::try_from(since_ms).unwrap()).contains(&taken), "{taken} in {since_ms} ms");
    }
}
