//! How fast a run writes to disks behind the page cache, where the kernel bounds only what it waits for: on cgroup v1 the
//! kernel's flusher writes back for everybody, and no controller knows whose pages those are. Must not kill anything.
//!
//! Looked at in two steps, like growth on disk. The first reads how much the whole host has dirtied: as long as that is less than
//! the run may still write, the run cannot have written more. Beyond that the second step asks who did: it adds up what the
//! run's processes have dirtied, less what was deleted before it came to a disk. A run that has written more than it may is frozen
//! until the time for it is over.
//!
//! A process has the bytes of the children that it has waited for. Those of a child that nobody waits for are lost with it
//! (SIGCHLD ignored); what the run's group has that is not yet on a disk shows those that stay there from one look to the next.

use crate::disk::Subject;
use crate::token_bucket::TokenBucket;
use std::fs;
use std::time::{Duration, Instant};

/// How long a run can have saved up what it did not write. A build or a test that writes its files is not held back.
const BURST: Duration = Duration::from_secs(2);

/// As fast as a run may dirty pages: what one processor copies.
const FASTEST_BYTES_PER_MS: u64 = 2 << 20;

/// When a run is first looked at: most have not written by then what they may write at once, and many are over.
pub(crate) const FIRST_LOOK: Duration = Duration::from_millis(100);

/// The shortest and the longest pause between two looks.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// What the run's processes and its group have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Reading {
    /// Bytes that were dirtied, less those that were dropped before they came to a disk.
    dirtied: u64,
    /// Bytes of the group's pages that are not yet on a disk.
    unwritten: u64,
}

/// The eye on one run's writes.
#[derive(Debug)]
pub(crate) struct BufferedWrites {
    bytes_per_s_max: u64,
    bucket: TokenBucket,
    /// Bytes that the host had dirtied when the run was last asked.
    host_dirtied: u64,
    last: Reading,
    /// The reading before `last`.
    before: Reading,
    frozen_since: Option<Instant>,
    /// How long it was frozen, without the time since `frozen_since`.
    frozen_for: Duration,
    /// Whether the host cannot freeze a run, or tells nothing.
    is_off: bool,
}

impl BufferedWrites {
    /// Of a run that may write `bytes_per_s_max` to each of `disks`. Nobody tells which of them a page is for.
    ///
    /// What the host had dirtied when the run began is not known, so the first look asks the run: all that it has is its own.
    pub(crate) fn new(bytes_per_s_max: u64, disks: u64, now: Instant) -> BufferedWrites {
        Self::since(0, bytes_per_s_max, TokenBucket::new(bytes_per_s_max.saturating_mul(disks), BURST, now))
    }

    fn since(host_dirtied: u64, bytes_per_s_max: u64, bucket: TokenBucket) -> BufferedWrites {
        BufferedWrites {
            bytes_per_s_max,
            bucket,
            host_dirtied,
            last: Reading::default(),
            before: Reading::default(),
            frozen_since: None,
            frozen_for: Duration::ZERO,
            is_off: false,
        }
    }

    /// Looks; the next look should come after the time that it returns. The run, whose first process is `init`, may be left frozen
    /// until a later look, or [`Self::release`]. `unwritten` says what its group has that is not yet on a disk.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        run: &dyn Subject,
        init: u32,
        unwritten: impl FnOnce() -> Option<u64>,
    ) -> Duration {
        match host_dirtied_bytes() {
            Some(host) if !self.is_off => self.look_at(now, host, run, || Reading {
                dirtied: dirtied_bytes(init, run),
                unwritten: unwritten().unwrap_or(0),
            }),
            _ => PAUSE.1,
        }
    }

    fn look_at(&mut self, now: Instant, host: u64, run: &dyn Subject, read: impl FnOnce() -> Reading) -> Duration {
        self.bucket.refill(now);
        let by_host = host.saturating_sub(self.host_dirtied);
        if by_host > self.bucket.left() || self.frozen_since.is_some() {
            let reading = read();
            self.bucket.take(self.fresh(reading).min(by_host));
            (self.host_dirtied, self.before, self.last) = (host, self.last, reading);
        }
        match (self.bucket.debt(), self.frozen_since) {
            (Some(_), None) => match run.freeze(true) {
                true => self.frozen_since = Some(now),
                false => self.is_off = true,
            },
            (None, Some(_)) => self.thaw(now, run),
            _ => {}
        }
        let left = self.bucket.left().saturating_sub(host.saturating_sub(self.host_dirtied));
        let pause = self.bucket.debt().unwrap_or(Duration::from_millis(left / FASTEST_BYTES_PER_MS));
        pause.clamp(PAUSE.0, PAUSE.1)
    }

    /// Bytes that were written since the last reading.
    ///
    /// Processes are read one after the other, and one that ends meanwhile may be missing from a reading and be with its parent
    /// in the next. So a sum counts as less only when it stays so.
    fn fresh(&self, reading: Reading) -> u64 {
        let known = self.last.dirtied.max(self.before.dirtied);
        let by_processes = reading.dirtied.saturating_sub(known);
        by_processes.max(reading.unwritten.saturating_sub(self.last.unwritten))
    }

    /// Lets a run that was frozen go on, whatever it has written: it has to hear that its time is over.
    pub(crate) fn release(&mut self, now: Instant, run: &dyn Subject) {
        self.bucket.forgive();
        self.thaw(now, run);
    }

    fn thaw(&mut self, now: Instant, run: &dyn Subject) {
        if let Some(since) = self.frozen_since.take() {
            self.frozen_for += now.saturating_duration_since(since);
            run.freeze(false);
        }
    }

    /// What a run is told that was frozen.
    pub(crate) fn note(&self, now: Instant) -> Option<String> {
        let open = self.frozen_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let held_s = (self.frozen_for + open).as_secs_f64();
        (held_s > 0.0).then(|| {
            format!(
                "the run was held back for {held_s:.1} s in all: it wrote to disk faster than its limit `writes` ({} KiB a second)",
                self.bytes_per_s_max >> 10
            )
        })
    }
}

/// What the host has dirtied since it started, bytes. Pages of file systems in memory are not among them.
fn host_dirtied_bytes() -> Option<u64> {
    let vmstat = fs::read_to_string("/proc/vmstat").ok()?;
    let pages = vmstat.lines().find_map(|line| line.strip_prefix("nr_dirtied "))?.trim().parse::<u64>().ok()?;
    pages.checked_mul(u64::try_from(rustix::param::page_size()).ok()?)
}

/// What `init` and the processes of the run have dirtied, those that they have waited for included, less what was dropped.
fn dirtied_bytes(init: u32, run: &dyn Subject) -> u64 {
    // Who drops a page need not be who has dirtied it.
    let bytes = [init].into_iter().chain(run.pids()).filter_map(|pid| {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        written(&io)
    });
    u64::try_from(bytes.fold(0, i64::saturating_add)).unwrap_or(0)
}

/// Of `io`, in the format of `/proc/PID/io` (proc_pid_io(5)): bytes written less those whose write was cancelled.
fn written(io: &str) -> Option<i64> {
    let field = |name| io.lines().find_map(|line: &str| line.strip_prefix(name))?.trim().parse::<i64>().ok();
    Some(field("write_bytes:")?.saturating_sub(field("cancelled_write_bytes:")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Freezable;

    const MIB: u64 = 1 << 20;

    /// Of a run that may write 100 MiB a second, on a host that has dirtied nothing.
    fn watched(now: Instant) -> BufferedWrites {
        BufferedWrites::since(0, 100 * MIB, TokenBucket::new(100 * MIB, BURST, now))
    }

    fn dirtied(mib: u64) -> Reading {
        Reading { dirtied: mib * MIB, unwritten: 0 }
    }

    fn unasked() -> Reading {
        panic!("there was no need to ask the run")
    }

    #[test]
    fn a_run_is_not_asked_while_the_whole_host_writes_less_than_it_may() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let mut writes = watched(begun);
        for second in 0..5 {
            writes.look_at(begun + Duration::from_secs(second), second * 40 * MIB, &run, unasked);
        }
        assert_eq!((run.frozen.get(), writes.note(begun)), (None, None));
    }

    #[test]
    fn a_run_that_writes_faster_stands_still_until_the_time_for_it_is_over() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let after = |ms| begun + Duration::from_millis(ms);
        let mut writes = watched(begun);
        // The burst is 200 MiB, so what is more takes a second.
        let pause = writes.look_at(begun, 300 * MIB, &run, || dirtied(300));
        assert_eq!((run.frozen.get(), pause), (Some(true), PAUSE.1));
        let pause = writes.look_at(after(900), 300 * MIB, &run, || dirtied(300));
        assert_eq!((run.frozen.get(), pause), (Some(true), Duration::from_millis(100)));
        // A system call that was under way has dirtied more.
        writes.look_at(after(1_000), 320 * MIB, &run, || dirtied(320));
        assert_eq!(run.frozen.get(), Some(true));
        writes.look_at(after(1_200), 320 * MIB, &run, || dirtied(320));
        assert_eq!(run.frozen.get(), Some(false));
        let note = writes.note(after(1_200)).unwrap();
        assert!(note.contains("held back for 1.2 s") && note.contains("102400 KiB"), "{note}");
    }

    #[test]
    fn what_others_write_is_not_the_runs() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let mut writes = watched(begun);
        for look in 1..100 {
            writes.look_at(begun, look * 500 * MIB, &run, || dirtied(look));
        }
        assert_eq!(run.frozen.get(), None);
        // Nor is what a run has written past the page cache, of which the host dirties nothing.
        writes.look_at(begun, 49_501 * MIB, &run, unasked);
    }

    #[test]
    fn a_process_that_is_missing_from_one_reading_is_not_counted_twice() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let mut writes = watched(begun);
        for (host, own) in [(250, 150), (500, 20), (750, 160), (1_000, 165)] {
            writes.look_at(begun, host * MIB, &run, || dirtied(own));
        }
        assert_eq!((writes.bucket.left(), run.frozen.get()), (35 * MIB, None));
        // What stays away is lost, and what comes then is fresh.
        for (host, own) in [(1_250, 20), (1_500, 20), (1_750, 60)] {
            writes.look_at(begun, host * MIB, &run, || dirtied(own));
        }
        assert_eq!(run.frozen.get(), Some(true));
    }

    #[test]
    fn what_the_group_has_that_is_not_on_a_disk_tells_of_children_that_nobody_waits_for() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let mut writes = watched(begun);
        writes.look_at(begun, 250 * MIB, &run, || Reading { dirtied: MIB, unwritten: 150 * MIB });
        assert_eq!(run.frozen.get(), None);
        writes.look_at(begun, 500 * MIB, &run, || Reading { dirtied: MIB, unwritten: 250 * MIB });
        assert_eq!(run.frozen.get(), Some(true));
    }

    #[test]
    fn a_run_whose_time_is_over_goes_on_at_once() {
        let (begun, run) = (Instant::now(), Freezable::empty(true));
        let mut writes = watched(begun);
        writes.look_at(begun, 9_000 * MIB, &run, || dirtied(9_000));
        let later = begun + Duration::from_millis(50);
        writes.release(later, &run);
        assert_eq!(run.frozen.get(), Some(false));
        writes.look_at(later, 9_000 * MIB, &run, unasked);
        assert_eq!(run.frozen.get(), Some(false), "its debt is gone");
    }

    /// A run on a host that cannot freeze.
    struct Unstoppable;

    impl Subject for Unstoppable {
        fn pids(&self) -> Vec<u32> {
            Vec::new()
        }

        fn freeze(&self, frozen: bool) -> bool {
            assert!(frozen, "it never stood still");
            false
        }

        fn is_frozen(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_run_that_cannot_be_frozen_is_looked_at_no_more() {
        let begun = Instant::now();
        let mut writes = watched(begun);
        writes.look_at(begun, 9_000 * MIB, &Unstoppable, || dirtied(9_000));
        assert_eq!((writes.is_off, writes.note(begun)), (true, None));
        assert_eq!(writes.look(begun, &Unstoppable, 0, || panic!("it is off")), PAUSE.1);
        writes.release(begun, &Unstoppable);
    }

    #[test]
    fn deleted_before_it_was_written_is_not_written() {
        let io =
            "rchar: 9\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 81920\ncancelled_write_bytes: 4096\n";
        assert_eq!(written(io), Some(77_824));
        assert_eq!(written("write_bytes: 1\n"), None);
    }

    #[test]
    fn what_is_written_is_read_of_the_host_and_of_a_process() {
        let own = std::process::id();
        let (host, before) = (host_dirtied_bytes().unwrap(), dirtied_bytes(own, &Freezable::empty(true)));
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 8 << 20]).unwrap();
        file.sync_all().unwrap();
        assert!(host_dirtied_bytes().unwrap() >= host + 4 * MIB);
        assert!(dirtied_bytes(own, &Freezable::empty(true)) >= before + 4 * MIB);
    }
}
