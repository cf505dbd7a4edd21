//! The slice of processor time that a thread asks the kernel for. Who asks for a short one and wakes up goes before whoever
//! has had some time already, and gets no more time for it. That is what a thread wants that does little and is waited for:
//! all of proctor's own in the way of a run. Must not know which threads those are.
//!
//! Linux has it since 6.12; an older kernel changes nothing. A help only, so no failure is told.

use libc::{c_uint, sched_attr};

/// The shortest that the kernel takes. Beside others who have it too it is worth nothing, so no run may have it
/// (`worker/seccomp.rs`).
const SHORT_NS: u64 = 100_000;

/// `SCHED_FLAG_RESET_ON_FORK`.
const RESET_ON_FORK: u64 = 1;

/// Who has the slice beside the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heirs {
    /// All that it starts.
    All,
    /// Nobody: what it starts has the slice that everybody has. Only who is privileged can take that back.
    None,
}

/// Gives the calling thread a short slice, if it is scheduled like everybody.
pub(crate) fn shorten(heirs: Heirs) {
    // SAFETY: all its fields are plain numbers, for which 0 is a value.
    let mut attr: sched_attr = unsafe { std::mem::zeroed() };
    let Ok(size) = c_uint::try_from(size_of::<sched_attr>()) else { return };
    // SAFETY: the kernel writes no more than the size that it is told, into a value that is as large.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    let flags = match heirs {
        Heirs::All => attr.sched_flags,
        Heirs::None => attr.sched_flags | RESET_ON_FORK,
    };
    let is_so = attr.sched_runtime == SHORT_NS && attr.sched_flags == flags;
    if got != 0 || attr.sched_policy != libc::SCHED_OTHER.unsigned_abs() || is_so {
        return;
    }
    (attr.sched_runtime, attr.sched_flags) = (SHORT_NS, flags);
    // SAFETY: the kernel reads a value that says its own size.
    let _set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slice and flags of the calling thread.
    fn slice() -> (u64, u64) {
        // SAFETY: as above.
        let mut attr: sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of::<sched_attr>(), 0) };
        assert_eq!((got, attr.sched_policy), (0, 0));
        (attr.sched_runtime, attr.sched_flags)
    }

    fn in_a_thread<T: Send>(does: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(does).join().unwrap())
    }

    /// A kernel that knows no slices says 0.
    #[test]
    fn the_short_slice_goes_to_heirs_or_ends_with_its_thread() {
        let usual = in_a_thread(slice);
        let short = (if usual.0 == 0 { 0 } else { SHORT_NS }, 0);
        let own_and_heirs = |heirs| {
            in_a_thread(move || {
                shorten(heirs);
                (slice(), in_a_thread(slice))
            })
        };
        assert_eq!(own_and_heirs(Heirs::All), (short, short));
        assert_eq!(own_and_heirs(Heirs::None), ((short.0, RESET_ON_FORK), usual));
        assert_eq!(in_a_thread(slice), usual, "nobody else has it");
    }
}
