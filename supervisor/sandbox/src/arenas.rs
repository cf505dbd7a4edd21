//! How much freed memory the C library keeps for this process's threads, and when it gives it back. Must not know what they do.

/// Enough that threads rarely wait for each other, and few enough that one uses what another has freed.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: libc::c_int = 4;

/// Lets threads share the memory that they free, for a process that has many of them: each arena keeps what was freed in it,
/// and by default there are eight for each processor. To be called before the first thread is started. With another C library
/// than glibc it does nothing.
pub fn share_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator and touches no memory. A number that it does not take leaves its own in force.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}

/// Gives memory that was freed, wherever it lies, back to the host. Takes milliseconds: for the end of what has taken tens of
/// MiB. With another C library than glibc it does nothing.
pub fn release_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches no memory but what is free, under the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}
