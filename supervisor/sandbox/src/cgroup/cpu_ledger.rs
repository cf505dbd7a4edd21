//! Boosts the processor weight of tenants that have used little processor time lately: a short run of one tenant does
//! not wait behind another tenant that keeps the processors busy.
//!
//! Only the order changes: limits hold as before, idle processors are free for all, and tenants that all use much share
//! alike.

use super::leaf::{Counters, CpuBoost, Leaf};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Processor time that a tenant may owe and keep its boost, seconds: a small build, a few hundred small commands.
const CREDIT_S: f64 = 0.25;

/// Debt that is forgiven per second. A tenant that uses less than half a processor always keeps its boost.
const FORGIVEN_PER_S: f64 = 0.5;

/// Largest debt, seconds, however much was used: four seconds later the tenant has its boost again.
const OWED_MAX_S: f64 = 2.0;

/// Number of accounts above which those without debt are removed.
const PRUNE_ABOVE: usize = 256;

/// Processor time that a tenant has used and that is not forgiven yet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CpuDebt {
    owed_s: f64,
    /// Set when the debt exceeds the credit and cleared when nothing is owed, so that the boost does not flap.
    is_over_credit: bool,
}

impl CpuDebt {
    const NONE: CpuDebt = CpuDebt { owed_s: 0.0, is_over_credit: false };

    /// The debt after `elapsed_s`, in which `used_s` of processor time were used.
    fn after(self, elapsed_s: f64, used_s: f64) -> CpuDebt {
        let left_s = (self.owed_s - elapsed_s * FORGIVEN_PER_S).max(0.0);
        let owed_s = (left_s + used_s).min(OWED_MAX_S);
        CpuDebt { owed_s, is_over_credit: owed_s > CREDIT_S || self.is_over_credit && left_s > 0.0 }
    }

    fn boost(self) -> CpuBoost {
        if self.is_over_credit { CpuBoost::Off } else { CpuBoost::On }
    }
}

/// Debt of a tenant and the boost that its group has. Losing an account without debt only costs a redundant write.
struct TenantAccount {
    debt: CpuDebt,
    updated_at: Instant,
    /// `None` if the group may be new.
    applied: Option<CpuBoost>,
}

/// The processor debts of all tenants.
#[derive(Default)]
pub(crate) struct CpuLedger {
    accounts: Mutex<HashMap<String, TenantAccount>>,
}

impl std::fmt::Debug for CpuLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuLedger").finish_non_exhaustive()
    }
}

impl CpuLedger {
    /// Charges `used_s` to `owner`, and sets the boost of its group through `leaf` if it has changed or the group
    /// `is_new`.
    ///
    /// The lock is held during the write, some microseconds, so that the recorded boost is the one that was written
    /// last.
    fn charge(&self, owner: &str, used_s: f64, leaf: &dyn Leaf, is_new: bool) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !accounts.contains_key(owner) {
            if accounts.len() >= PRUNE_ABOVE {
                accounts.retain(|_, account| {
                    account.debt.after((now - account.updated_at).as_secs_f64(), 0.0) != CpuDebt::NONE
                });
            }
            accounts.insert(owner.to_owned(), TenantAccount { debt: CpuDebt::NONE, updated_at: now, applied: None });
        }
        let Some(account) = accounts.get_mut(owner) else { return };
        account.debt = account.debt.after((now - account.updated_at).as_secs_f64(), used_s);
        account.updated_at = now;
        let boost = account.debt.boost();
        if is_new || account.applied != Some(boost) {
            leaf.set_cpu_boost(boost);
            account.applied = Some(boost);
        }
    }
}

/// Charges the processor time of one leaf to its tenant.
pub(crate) struct CpuMeter {
    ledger: Arc<CpuLedger>,
    owner: String,
    charged_s: Cell<f64>,
}

impl CpuMeter {
    /// A meter for a new `leaf`. Sets the boost if the tenant's group may be new too.
    pub(crate) fn new(ledger: &Arc<CpuLedger>, owner: &str, leaf: &dyn Leaf) -> CpuMeter {
        ledger.charge(owner, 0.0, leaf, leaf.is_tenant_group_new());
        CpuMeter { ledger: Arc::clone(ledger), owner: owner.to_owned(), charged_s: Cell::new(0.0) }
    }

    /// Updates the boost, which changes with time.
    pub(crate) fn refresh(&self, leaf: &dyn Leaf) {
        self.ledger.charge(&self.owner, 0.0, leaf, false);
    }

    /// Charges the processor time that the leaf has counted since the last call.
    pub(crate) fn charge(&self, leaf: &dyn Leaf, counters: &Counters) {
        let counted_s = counters.cpu_user_s.unwrap_or(0.0) + counters.cpu_system_s.unwrap_or(0.0);
        // User and system time are not read at the same moment, so their sum may seem to shrink.
        let charged_s = self.charged_s.replace(counted_s.max(self.charged_s.get()));
        self.ledger.charge(&self.owner, self.charged_s.get() - charged_s, leaf, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loses_the_boost_beyond_the_credit_and_regains_it_without_debt() {
        let at_credit = CpuDebt::NONE.after(0.0, CREDIT_S);
        assert_eq!(at_credit.boost(), CpuBoost::On);
        let over = at_credit.after(0.0, 0.01);
        assert_eq!(over.boost(), CpuBoost::Off);
        let nearly_paid = over.after((over.owed_s - 0.01) / FORGIVEN_PER_S, 0.0);
        assert!(nearly_paid.owed_s < CREDIT_S);
        assert_eq!(nearly_paid.boost(), CpuBoost::Off);
        assert_eq!(nearly_paid.after(0.03, 0.0), CpuDebt::NONE);
        let largest = CpuDebt::NONE.after(0.0, 3_600.0);
        assert_eq!(largest.after(OWED_MAX_S / FORGIVEN_PER_S, 0.0), CpuDebt::NONE);
    }

    proptest! {
        /// A tenant has its boost again after the longest debt, and keeps it while it uses less than is forgiven.
        #[test]
        fn a_tenant_that_uses_little_regains_and_keeps_its_boost(
            before in prop::collection::vec((0.0..10.0_f64, 0.0..10.0_f64), 0..20),
            after in prop::collection::vec(0.0..1.0_f64, 1..200),
        ) {
            let debt = before.iter().fold(CpuDebt::NONE, |debt, (elapsed_s, used_s)| debt.after(*elapsed_s, *used_s));
            prop_assert!((0.0..=OWED_MAX_S).contains(&debt.owed_s));
            let mut debt = debt.after(OWED_MAX_S / FORGIVEN_PER_S, 0.0);
            for share in after {
                debt = debt.after(0.2, 0.2 * FORGIVEN_PER_S * share);
                prop_assert_eq!(debt.boost(), CpuBoost::On);
            }
        }

        /// A spinning tenant loses its boost within a tick or two, however often it is charged.
        #[test]
        fn a_tenant_that_uses_a_whole_processor_loses_its_boost(intervals in prop::collection::vec(0.001..0.3_f64, 1..500)) {
            let mut debt = CpuDebt::NONE;
            for elapsed_s in &intervals {
                debt = debt.after(*elapsed_s, *elapsed_s);
            }
            let spun_s: f64 = intervals.iter().sum();
            let earliest_s = CREDIT_S / (1.0 - FORGIVEN_PER_S);
            prop_assert!(spun_s < earliest_s + 0.3 || debt.boost() == CpuBoost::Off);
            prop_assert!(spun_s > CREDIT_S || debt.boost() == CpuBoost::On);
        }
    }
}
