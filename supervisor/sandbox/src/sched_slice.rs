//! The scheduler slice and policy that a thread requests from the kernel.
//!
//! A thread with a short slice that wakes up runs before threads that have run for a while, and gets no more time in
//! total. That suits threads that do little and are waited for: all of proctor's own on the path of a run, and a
//! command until it starts other processes. Linux supports it since 6.12 and older kernels ignore it, so failures are
//! not reported. A thread whose work may take some milliseconds longer has the batch policy: when it wakes up,
//! it takes no processor from a thread that is running.

use libc::{c_int, c_uint, sched_attr};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFlags};

/// The shortest slice that the kernel accepts. It is worthless if others have it too, so a run may not request it
/// (`worker/seccomp.rs`).
const SHORT_SLICE_NS: u64 = 100_000;

/// POSIX_SPAWN_SETSCHEDULER: one bit in every C library of Linux, and missing in the libc crate.
const SETSCHEDULER: PosixSpawnFlags = PosixSpawnFlags::from_bits_retain(0x20);

/// Gives the calling thread, and all that it starts, a short slice, if it has the normal scheduling policy.
pub fn shorten() {
    // SAFETY: all fields are plain numbers, for which 0 is a value.
    let mut attr: sched_attr = unsafe { std::mem::zeroed() };
    let Ok(size) = c_uint::try_from(size_of::<sched_attr>()) else { return };
    // SAFETY: the kernel writes at most the given size, into a value of that size.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    if got != 0 || attr.sched_policy != libc::SCHED_OTHER.unsigned_abs() || attr.sched_runtime == SHORT_SLICE_NS {
        return;
    }
    attr.sched_runtime = SHORT_SLICE_NS;
    // SAFETY: the kernel reads a value that states its own size.
    let _set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

/// Gives the calling thread, and all that it starts, the batch policy, if it has the normal one.
pub fn use_batch_policy() {
    // SAFETY: only queries the calling thread.
    if unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER {
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel reads a value of the C library's own type.
        let _set = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) };
    }
}

/// Sets `attributes` so that the spawned process has the slice of the calling thread and its own children have the
/// normal one. Returns the flag to spawn with; empty if the calling thread has another policy, since a spawn must not
/// fail for this.
pub(crate) fn inherit_slice_once(attributes: &mut PosixSpawnAttr) -> PosixSpawnFlags {
    // SAFETY: only queries the calling thread.
    let is_normal = unsafe { libc::sched_getscheduler(0) } == libc::SCHED_OTHER;
    let policy: c_int = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the type is the C library's own (`repr(transparent)`) and was initialised by it.
    let set = unsafe { libc::posix_spawnattr_setschedpolicy((&raw mut *attributes).cast(), policy) };
    if is_normal && set == 0 { SETSCHEDULER } else { PosixSpawnFlags::empty() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slice and flags of the calling thread.
    fn current_slice() -> (u64, u64) {
        // SAFETY: as above.
        let mut attr: sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of::<sched_attr>(), 0) };
        assert_eq!((got, attr.sched_policy), (0, 0));
        (attr.sched_runtime, attr.sched_flags)
    }

    fn in_thread<T: Send>(action: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(action).join().unwrap())
    }

    /// A kernel without slices reports 0.
    #[test]
    fn only_the_thread_and_its_children_get_the_short_slice() {
        let normal = in_thread(current_slice);
        let short = (if normal.0 == 0 { 0 } else { SHORT_SLICE_NS }, 0);
        let own_and_childs = in_thread(|| {
            shorten();
            (current_slice(), in_thread(current_slice))
        });
        assert_eq!(own_and_childs, (short, short));
        assert_eq!(in_thread(current_slice), normal);
    }

    #[test]
    fn the_thread_and_its_children_get_the_batch_policy() {
        // SAFETY: as above.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let own_and_childs = in_thread(|| {
            use_batch_policy();
            (policy(), in_thread(policy))
        });
        assert_eq!(own_and_childs, (libc::SCHED_BATCH, libc::SCHED_BATCH));
        assert_eq!(in_thread(policy), libc::SCHED_OTHER);
    }
}
