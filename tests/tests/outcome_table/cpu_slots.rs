//! Limits the rows that run at the same time. A row keeps a processor busy, so there are as many slots as processors. A row
//! that waits for its deadline is idle and takes no slot.

use proctor_tests::expected::row;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};

/// Number of free slots.
static FREE_SLOTS: LazyLock<Mutex<usize>> =
    LazyLock::new(|| Mutex::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// Signalled when a slot is released.
static SLOT_RELEASED: Condvar = Condvar::new();

/// A slot, released on drop.
pub(crate) struct CpuSlot(());

/// Waits for a slot for the row of this name; `None` for a row that needs none.
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
