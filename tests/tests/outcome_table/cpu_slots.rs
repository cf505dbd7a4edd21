//! Whose turn it is. Rows keep a processor busy from beginning to end, so as many go on at a time as there are processors; but one
//! that is to meet its deadline waits for it with nothing to do, in nobody's way. Must not know how a row is driven.

use proctor_tests::expected::row;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

/// Turns that nobody has.
static FREE_SLOTS: LazyLock<Mutex<usize>> =
    LazyLock::new(|| Mutex::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// Told when one is given back.
static SLOT_RELEASED: Condvar = Condvar::new();

/// Given back when it is dropped.
pub(crate) struct CpuSlot(());

/// Waits for the turn of the row of this name, if it needs one.
pub(crate) fn acquire_for(name: &str) -> Option<CpuSlot> {
    row(name).options.timeout_s.is_none().then(CpuSlot::acquire)
}

impl CpuSlot {
    fn acquire() -> CpuSlot {
        let free = FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = SLOT_RELEASED.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        CpuSlot(())
    }
}

impl Drop for CpuSlot {
    fn drop(&mut self) {
        *FREE_SLOTS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        SLOT_RELEASED.notify_one();
    }
}
