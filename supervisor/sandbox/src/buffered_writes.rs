//! Limits how fast a run makes buffered writes to disks on cgroup v1, where the kernel limits only writes that a run
//! waits for: the kernel's flusher writes back for all runs, and no controller knows whose pages those are.
//!
//! Checked in two steps, like growth on disk. The first step reads how much the whole host has dirtied: as long as that
//! is less than the run may still write, the run cannot have written more. Beyond that, the second step adds up what
//! the run's processes have dirtied, less what was deleted before it reached a disk. A run that has written more than
//! it may is frozen until the time for it has passed.
//!
//! A process includes the bytes of the children that it has waited for. The bytes of a child that nobody waits for are
//! lost with it (SIGCHLD ignored); the dirty bytes of the run's group show those that remain from one check to the
//! next.

use crate::disk::MonitoredRun;
use crate::token_bucket::TokenBucket;
use std::fs;
use std::time::{Duration, Instant};

/// Time for which a run can save up writes. A build or a test that writes its files is not slowed down.
const BURST: Duration = Duration::from_secs(2);

/// Fastest rate at which a run can dirty pages: what one processor copies.
const BYTES_PER_MS_MAX: u64 = 2 << 20;

/// Time of the first check: most runs have not used up their burst by then, and many are over.
pub(crate) const FIRST_CHECK: Duration = Duration::from_millis(100);

/// Shortest and longest interval between two checks.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Bytes written by the run's processes and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct WriteSample {
    /// Bytes that were dirtied, less those that were dropped before they reached a disk.
    dirtied: u64,
    /// Bytes of the group's pages that are not on a disk yet.
    dirty: u64,
}

/// Limiter of one run's buffered writes.
#[derive(Debug)]
pub(crate) struct BufferedWriteLimiter {
    bytes_per_s_max: u64,
    bucket: TokenBucket,
    /// Bytes that the host had dirtied at the last sample of the run.
    host_dirtied: u64,
    last: WriteSample,
    /// The sample before `last`.
    previous: WriteSample,
    frozen_since: Option<Instant>,
    /// Total time that the run was frozen, without the time since `frozen_since`.
    frozen_for: Duration,
    /// Whether the host cannot freeze a run or does not report dirtied pages.
    is_disabled: bool,
}

impl BufferedWriteLimiter {
    /// Limiter of a run that may write `bytes_per_s_max` to each of `disks`. The kernel does not report which of them a
    /// page belongs to.
    ///
    /// How much the host had dirtied when the run started is unknown, so the first check samples the run: all its bytes
    /// are its own.
    pub(crate) fn new(bytes_per_s_max: u64, disks: u64, now: Instant) -> BufferedWriteLimiter {
        Self::with_bucket(0, bytes_per_s_max, TokenBucket::new(bytes_per_s_max.saturating_mul(disks), BURST, now))
    }

    fn with_bucket(host_dirtied: u64, bytes_per_s_max: u64, bucket: TokenBucket) -> BufferedWriteLimiter {
        BufferedWriteLimiter {
            bytes_per_s_max,
            bucket,
            host_dirtied,
            last: WriteSample::default(),
            previous: WriteSample::default(),
            frozen_since: None,
            frozen_for: Duration::ZERO,
            is_disabled: false,
        }
    }

    /// Checks the run and returns the time until the next check. The run, whose first process is `init`, may stay
    /// frozen until a later check or [`Self::release`]. `read_dirty_bytes` returns the bytes of its group that are not
    /// on a disk yet.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        run: &dyn MonitoredRun,
        init: u32,
        read_dirty_bytes: impl FnOnce() -> Option<u64>,
    ) -> Duration {
        match host_dirtied_bytes() {
            Some(host) if !self.is_disabled => self.check_with(now, host, run, || WriteSample {
                dirtied: dirtied_bytes(init, run),
                dirty: read_dirty_bytes().unwrap_or(0),
            }),
            _ => CHECK_INTERVAL.1,
        }
    }

    fn check_with(
        &mut self,
        now: Instant,
        host: u64,
        run: &dyn MonitoredRun,
        read: impl FnOnce() -> WriteSample,
    ) -> Duration {
        self.bucket.refill(now);
        let host_growth = host.saturating_sub(self.host_dirtied);
        if host_growth > self.bucket.available() || self.frozen_since.is_some() {
            let sample = read();
            self.bucket.take(self.new_bytes(sample).min(host_growth));
            (self.host_dirtied, self.previous, self.last) = (host, self.last, sample);
        }
        match (self.bucket.debt(), self.frozen_since) {
            (Some(_), None) => match run.freeze(true) {
                true => self.frozen_since = Some(now),
                false => self.is_disabled = true,
            },
            (None, Some(_)) => self.thaw(now, run),
            _ => {}
        }
        let available = self.bucket.available().saturating_sub(host.saturating_sub(self.host_dirtied));
        let pause = self.bucket.debt().unwrap_or(Duration::from_millis(available / BYTES_PER_MS_MAX));
        pause.clamp(CHECK_INTERVAL.0, CHECK_INTERVAL.1)
    }

    /// Bytes that were written since the last sample.
    ///
    /// Processes are read one after the other. One that ends meanwhile may be missing from a sample and be counted with
    /// its parent in the next. So a sum counts as lower only if it stays lower.
    fn new_bytes(&self, sample: WriteSample) -> u64 {
        let counted_before = self.last.dirtied.max(self.previous.dirtied);
        let process_growth = sample.dirtied.saturating_sub(counted_before);
        process_growth.max(sample.dirty.saturating_sub(self.last.dirty))
    }

    /// Thaws a frozen run, whatever it has written, so that it can handle SIGTERM at its deadline.
    pub(crate) fn release(&mut self, now: Instant, run: &dyn MonitoredRun) {
        self.bucket.forgive();
        self.thaw(now, run);
    }

    fn thaw(&mut self, now: Instant, run: &dyn MonitoredRun) {
        if let Some(since) = self.frozen_since.take() {
            self.frozen_for += now.saturating_duration_since(since);
            run.freeze(false);
        }
    }

    /// Note for a run that was frozen.
    pub(crate) fn note(&self, now: Instant) -> Option<String> {
        let current = self.frozen_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let frozen_s = (self.frozen_for + current).as_secs_f64();
        (frozen_s > 0.0).then(|| {
            format!(
                "the run was held back for {frozen_s:.1} s in all: it wrote to disk faster than its limit `writes` ({} KiB a second)",
                self.bytes_per_s_max >> 10
            )
        })
    }
}

/// Bytes that the host has dirtied since it started. Pages of file systems in memory are not counted.
fn host_dirtied_bytes() -> Option<u64> {
    let vmstat = fs::read_to_string("/proc/vmstat").ok()?;
    let pages = vmstat.lines().find_map(|line| line.strip_prefix("nr_dirtied "))?.trim().parse::<u64>().ok()?;
    pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
}

/// Bytes that `init`, the processes of the run and their waited-for children have dirtied, less what was dropped.
fn dirtied_bytes(init: u32, run: &dyn MonitoredRun) -> u64 {
    // The process that drops a page need not be the one that has dirtied it.
    let bytes = [init].into_iter().chain(run.pids()).filter_map(|pid| {
        let io_text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        net_written_bytes(&io_text)
    });
    u64::try_from(bytes.fold(0, i64::saturating_add)).unwrap_or(0)
}

/// Bytes written less cancelled ones, of a text in the format of `/proc/PID/io` (proc_pid_io(5)).
fn net_written_bytes(io_text: &str) -> Option<i64> {
    let field = |name| io_text.lines().find_map(|line: &str| line.strip_prefix(name))?.trim().parse::<i64>().ok();
    Some(field("write_bytes:")?.saturating_sub(field("cancelled_write_bytes:")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::FakeRun;

    const MIB: u64 = 1 << 20;

    /// A limiter for 100 MiB a second on a host that has dirtied nothing.
    fn limiter(now: Instant) -> BufferedWriteLimiter {
        BufferedWriteLimiter::with_bucket(0, 100 * MIB, TokenBucket::new(100 * MIB, BURST, now))
    }

    fn dirtied(mib: u64) -> WriteSample {
        WriteSample { dirtied: mib * MIB, dirty: 0 }
    }

    fn unexpected_sample() -> WriteSample {
        panic!("the run must not be sampled")
    }

    #[test]
    fn does_not_sample_a_run_while_the_whole_host_writes_less_than_the_limit() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let mut writes = limiter(begun);
        for second in 0..5 {
            writes.check_with(begun + Duration::from_secs(second), second * 40 * MIB, &run, unexpected_sample);
        }
        assert_eq!((run.frozen.get(), writes.note(begun)), (None, None));
    }

    #[test]
    fn freezes_a_run_that_writes_too_fast_until_its_debt_is_paid() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let after = |ms| begun + Duration::from_millis(ms);
        let mut writes = limiter(begun);
        // The burst is 200 MiB, so the rest takes a second.
        let pause = writes.check_with(begun, 300 * MIB, &run, || dirtied(300));
        assert_eq!((run.frozen.get(), pause), (Some(true), CHECK_INTERVAL.1));
        let pause = writes.check_with(after(900), 300 * MIB, &run, || dirtied(300));
        assert_eq!((run.frozen.get(), pause), (Some(true), Duration::from_millis(100)));
        // A system call in progress has dirtied more.
        writes.check_with(after(1_000), 320 * MIB, &run, || dirtied(320));
        assert_eq!(run.frozen.get(), Some(true));
        writes.check_with(after(1_200), 320 * MIB, &run, || dirtied(320));
        assert_eq!(run.frozen.get(), Some(false));
        let note = writes.note(after(1_200)).unwrap();
        assert!(note.contains("held back for 1.2 s") && note.contains("102400 KiB"), "{note}");
    }

    #[test]
    fn does_not_charge_a_run_for_writes_of_others() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let mut writes = limiter(begun);
        for round in 1..100 {
            writes.check_with(begun, round * 500 * MIB, &run, || dirtied(round));
        }
        assert_eq!(run.frozen.get(), None);
        // Nor are writes of the run past the page cache, for which the host dirties nothing.
        writes.check_with(begun, 49_501 * MIB, &run, unexpected_sample);
    }

    #[test]
    fn does_not_count_a_process_twice_that_is_missing_from_one_sample() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let mut writes = limiter(begun);
        for (host, own) in [(250, 150), (500, 20), (750, 160), (1_000, 165)] {
            writes.check_with(begun, host * MIB, &run, || dirtied(own));
        }
        assert_eq!((writes.bucket.available(), run.frozen.get()), (35 * MIB, None));
        // A decrease that lasts is accepted, and later bytes are new.
        for (host, own) in [(1_250, 20), (1_500, 20), (1_750, 60)] {
            writes.check_with(begun, host * MIB, &run, || dirtied(own));
        }
        assert_eq!(run.frozen.get(), Some(true));
    }

    #[test]
    fn counts_dirty_bytes_of_the_group_for_children_that_nobody_waits_for() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let mut writes = limiter(begun);
        writes.check_with(begun, 250 * MIB, &run, || WriteSample { dirtied: MIB, dirty: 150 * MIB });
        assert_eq!(run.frozen.get(), None);
        writes.check_with(begun, 500 * MIB, &run, || WriteSample { dirtied: MIB, dirty: 250 * MIB });
        assert_eq!(run.frozen.get(), Some(true));
    }

    #[test]
    fn release_thaws_a_frozen_run_at_once() {
        let (begun, run) = (Instant::now(), FakeRun::empty(true));
        let mut writes = limiter(begun);
        writes.check_with(begun, 9_000 * MIB, &run, || dirtied(9_000));
        let later = begun + Duration::from_millis(50);
        writes.release(later, &run);
        assert_eq!(run.frozen.get(), Some(false));
        writes.check_with(later, 9_000 * MIB, &run, unexpected_sample);
        assert_eq!(run.frozen.get(), Some(false), "its debt was forgiven");
    }

    /// A run on a host that cannot freeze.
    struct UnfreezableRun;

    impl MonitoredRun for UnfreezableRun {
        fn pids(&self) -> Vec<u32> {
            Vec::new()
        }

        fn freeze(&self, frozen: bool) -> bool {
            assert!(frozen, "it was never frozen");
            false
        }

        fn is_frozen(&self) -> bool {
            false
        }
    }

    #[test]
    fn stops_checking_a_run_that_cannot_be_frozen() {
        let begun = Instant::now();
        let mut writes = limiter(begun);
        writes.check_with(begun, 9_000 * MIB, &UnfreezableRun, || dirtied(9_000));
        assert_eq!((writes.is_disabled, writes.note(begun)), (true, None));
        assert_eq!(writes.check(begun, &UnfreezableRun, 0, || panic!("the limiter is disabled")), CHECK_INTERVAL.1);
        writes.release(begun, &UnfreezableRun);
    }

    #[test]
    fn does_not_count_writes_cancelled_by_deletion() {
        let io_text =
            "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 81920\ncancelled_write_bytes: 4096\n";
        assert_eq!(net_written_bytes(io_text), Some(77_824));
        assert_eq!(net_written_bytes("write_bytes: 1\n"), None);
    }

    #[test]
    fn reads_dirtied_bytes_of_the_host_and_of_a_process() {
        let own = std::process::id();
        let (host, previous) = (host_dirtied_bytes().unwrap(), dirtied_bytes(own, &FakeRun::empty(true)));
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 8 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(host_dirtied_bytes().unwrap() >= host + 4 * MIB);
        assert!(dirtied_bytes(own, &FakeRun::empty(true)) >= previous + 4 * MIB);
    }
}
