//! What one tenant may ask of the supervisor itself: requests in a second, streams of events at the same time, and what is
//! kept of its runs. Numbers that calls on any thread change without waiting for each other. Must not know requests.

use proctor_core::rate::Rate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Who reads a run's events; counted until it is dropped.
pub type Subscription = OwnedSemaphorePermit;

/// What is kept of one tenant's runs that have ended, in bytes.
#[derive(Debug, Default)]
pub struct Kept(AtomicU64);

/// Bytes that are kept until this is dropped.
#[derive(Debug)]
pub struct Keeping {
    kept: Arc<Kept>,
    bytes: u64,
}

impl Kept {
    /// Keeps `bytes` more.
    #[must_use]
    pub fn keep(self: &Arc<Kept>, bytes: u64) -> Keeping {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Keeping { kept: Arc::clone(self), bytes }
    }

    /// All that is kept.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.kept.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One tenant's allowance.
#[derive(Debug)]
pub struct Allowance {
    /// Requests in a second.
    pub requests_per_second: u32,
    /// Streams at the same time.
    pub subscribers_max: u32,
    rate: Rate,
    since: Instant,
    due_ns: AtomicU64,
    subscribers: Arc<Semaphore>,
}

impl Allowance {
    /// Nothing of it is used yet.
    #[must_use]
    pub fn new(requests_per_second: u32, subscribers_max: u32) -> Allowance {
        let permits = usize::try_from(subscribers_max).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Allowance {
            requests_per_second,
            subscribers_max,
            rate: Rate::per_second(requests_per_second),
            since: Instant::now(),
            due_ns: AtomicU64::new(0),
            subscribers: Arc::new(Semaphore::new(permits)),
        }
    }

    /// Whether both are the same numbers.
    #[must_use]
    pub fn is_like(&self, other: &Allowance) -> bool {
        (self.requests_per_second, self.subscribers_max) == (other.requests_per_second, other.subscribers_max)
    }

    /// Takes one request, or says when there is one to take.
    pub fn request(&self) -> Result<(), Duration> {
        let now_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut due_ns = self.due_ns.load(Ordering::Relaxed);
        loop {
            let next = self.rate.admit(now_ns, due_ns).map_err(Duration::from_nanos)?;
            match self.due_ns.compare_exchange_weak(due_ns, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                // Another thread was faster.
                Err(now) => due_ns = now,
            }
        }
    }

    /// Takes one stream, if there is one to take.
    #[must_use]
    pub fn subscribe(&self) -> Option<Subscription> {
        Arc::clone(&self.subscribers).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_is_refused_until_it_is_given_back() {
        let allowance = Allowance::new(3, 2);
        assert!((0..3).all(|_| allowance.request().is_ok()));
        assert!(allowance.request().unwrap_err() <= Duration::from_millis(334));
        let two = [allowance.subscribe(), allowance.subscribe()];
        assert!(two.iter().all(Option::is_some) && allowance.subscribe().is_none());
        drop(two);
        assert!(allowance.subscribe().is_some());
    }

    #[test]
    fn what_is_kept_is_given_back_when_it_is_dropped() {
        let kept = Arc::new(Kept::default());
        let (one, other) = (kept.keep(3), kept.keep(4));
        assert_eq!(kept.bytes(), 7);
        drop(one);
        assert_eq!(kept.bytes(), 4);
        drop(other);
        assert_eq!(kept.bytes(), 0);
    }

    #[test]
    fn threads_together_take_no_more_than_there_is() {
        let allowance = Allowance::new(1_000, 1);
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..1_000).filter(|_| allowance.request().is_ok()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        let since_ms = allowance.since.elapsed().as_millis();
        assert!((1_000..=1_001 + usize::try_from(since_ms).unwrap()).contains(&taken), "{taken} in {since_ms} ms");
    }
}
