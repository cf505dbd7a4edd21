//! The slice of processor time that a thread asks the kernel for. Who asks for a short one and wakes up goes before whoever
//! has had some time already, and gets no more time for it. That is what a thread wants that does little and is waited for:
//! all of proctor's own in the way of a run, and a command until it starts others. Must not know which threads those are.
//!
//! Linux has it since 6.12; an older kernel changes nothing. A help only, so no failure is told.

use libc::{c_int, c_uint, sched_attr};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFlags};

/// The shortest that the kernel takes. Beside others who have it too it is worth nothing, so no run may have it
/// (`worker/seccomp.rs`).
const SHORT_NS: u64 = 100_000;

/// POSIX_SPAWN_SETSCHEDULER, which is one bit in every C library of Linux and which the library leaves out.
const SETSCHEDULER: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(0x20);

/// Gives the calling thread, and all that it starts, a short slice, if it is scheduled like everybody.
pub fn shorten() {
    // SAFETY: all its fields are plain numbers, for which 0 is a value.
    let mut attr: sched_attr = unsafe { std::mem::zeroed() };
    let Ok(size) = c_uint::try_from(size_of::<sched_attr>()) else { return };
    // SAFETY: the kernel writes no more than the size that it is told, into a value that is as large.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got != 0 || attr.sched_policy != libc::SCHED_OTHER.unsigned_abs() || attr.sched_runtime == SHORT_NS {
        return;
    }
    attr.sched_runtime = SHORT_NS;
    // SAFETY: the kernel reads a value that says its own size.
    let _set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// The flag with which what is spawned with `attributes` has the slice of the calling thread, and what that starts in turn
/// has everybody's. None, if the calling thread is not scheduled like everybody: a spawn must not fail for this.
pub(crate) fn end_with_heir(attributes: &mut PosixSpawnAttr) -> PosixSpawnFlags {
    // SAFETY: asks about the calling thread.
    let is_usual = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    let policy: c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the type is that of the C library and nothing else (`repr(transparent)`), and was initialised by it.
    let set = unsafe { libc::posix_spawnattr_setschedpolicy((&raw mut *attributes).cast(), policy) };
    if is_usual && set == 0 { SETSCHEDULER } else { PosixSpawnFlags::empty() }
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
    fn the_short_slice_goes_to_heirs_and_to_nobody_else() {
        let usual = in_a_thread(slice);
        let short = (if usual.0 == 0 { 0 } else { SHORT_NS }, 0);
        let own_and_heirs = in_a_thread(|| {
            shorten();
            (slice(), in_a_thread(slice))
        });
        assert_eq!(own_and_heirs, (short, short));
        assert_eq!(in_a_thread(slice), usual);
    }
}
