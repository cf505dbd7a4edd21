//! Tuning of the C library's allocator: how much freed memory it keeps for this process's threads, and when it returns
//! it.

/// Enough that threads rarely wait for each other, and few enough that a thread uses memory that another has freed.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: libc::c_int = 4;

/// Limits the number of malloc arenas, so that the threads of a process with many of them reuse each other's freed
/// memory.
///
/// Each arena keeps the memory that was freed in it, and by default there are eight for each processor. Call it before
/// the first thread is started. Does nothing with a C library other than glibc.
pub fn limit_malloc_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator and touches no memory. An invalid number leaves the old one in force.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}

/// Returns freed memory to the host. Takes milliseconds, so call it after work that took tens of MiB. Does nothing with
/// a C library other than glibc.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only free memory, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
