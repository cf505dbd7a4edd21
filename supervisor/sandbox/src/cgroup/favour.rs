//! Who goes first when tenants want the same processors: whoever has taken little of them lately. A tenant that comes with a
//! short run does not wait behind one that has kept them busy, whatever that one does. Must not know what a run is, or how
//! a group is told.
//!
//! Only the order changes: limits hold as before, processors that nobody else wants are anybody's, and tenants who all take
//! much share alike.

use super::{Counters, Leaf};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Seconds of processor that a tenant may owe and still be in favour: a small build, a few hundred small commands.
const CREDIT_S: f64 = 0.25;

/// What a tenant is forgiven with each second. So who takes less than half a processor is always in favour.
const FORGIVEN: f64 = 0.5;

/// A tenant owes no more, whatever it has taken: four seconds later it is in favour again.
const OWED_MAX_S: f64 = 2.0;

/// Accounts above which those that say nothing any more are looked for.
const ACCOUNTS: usize = 256;

/// How a tenant's group stands to those of other tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Favour {
    /// It has ten times the weight.
    In,
    /// As the kernel makes groups.
    Out,
}

impl Favour {
    /// `cpu.shares` of v1.
    pub(super) const fn shares(self) -> &'static str {
        match self {
            Favour::In => "10240",
            Favour::Out => "1024",
        }
    }

    /// `cpu.weight` of v2.
    pub(super) const fn weight(self) -> &'static str {
        match self {
            Favour::In => "1000",
            Favour::Out => "100",
        }
    }
}

/// What a tenant has taken of the processors and was not forgiven yet.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Debt {
    owed_s: f64,
    /// From beyond the credit until nothing is owed any more, so that nobody goes to and fro.
    is_out: bool,
}

impl Debt {
    const NONE: Debt = Debt { owed_s: 0.0, is_out: false };

    /// The debt `elapsed_s` later, with `used_s` of processor more.
    fn later(self, elapsed_s: f64, used_s: f64) -> Debt {
        let left_s = (self.owed_s - elapsed_s * FORGIVEN).max(0.0);
        let owed_s = (left_s + used_s).min(OWED_MAX_S);
        Debt { owed_s, is_out: owed_s > CREDIT_S || self.is_out && left_s > 0.0 }
    }

    fn favour(self) -> Favour {
        if self.is_out { Favour::Out } else { Favour::In }
    }
}

/// A tenant's debt, and what its group was told. To forget one without debt costs a write.
struct Account {
    debt: Debt,
    at: Instant,
    /// `None` when it may be a new group.
    told: Option<Favour>,
}

/// The debts of all tenants.
#[derive(Default)]
pub(crate) struct Ledger {
    accounts: Mutex<HashMap<String, Account>>,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").finish_non_exhaustive()
    }
}

impl Ledger {
    /// Charges `used_s` to `owner`, and tells the group of `leaf` when that, or the time, changes anything. The lock is held
    /// while it is told, some microseconds, so that what was noted is what the group was told last.
    fn charge(&self, owner: &str, used_s: f64, leaf: &dyn Leaf, is_new: bool) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !accounts.contains_key(owner) {
            if accounts.len() >= ACCOUNTS {
                accounts.retain(|_, account| account.debt.later((now - account.at).as_secs_f64(), 0.0) != Debt::NONE);
            }
            accounts.insert(owner.to_owned(), Account { debt: Debt::NONE, at: now, told: None });
        }
        let Some(account) = accounts.get_mut(owner) else { return };
        account.debt = account.debt.later((now - account.at).as_secs_f64(), used_s);
        account.at = now;
        let favour = account.debt.favour();
        if is_new || account.told != Some(favour) {
            leaf.favour(favour);
            account.told = Some(favour);
        }
    }
}

/// What one leaf of a tenant puts on its account.
pub(crate) struct Tab {
    ledger: Arc<Ledger>,
    owner: String,
    charged_s: Cell<f64>,
}

impl Tab {
    /// Opens it for a new `leaf`, whose tenant's group may be new too.
    pub(crate) fn open(ledger: &Arc<Ledger>, owner: &str, leaf: &dyn Leaf) -> Tab {
        ledger.charge(owner, 0.0, leaf, leaf.is_first());
        Tab { ledger: Arc::clone(ledger), owner: owner.to_owned(), charged_s: Cell::new(0.0) }
    }

    /// Tells the group what time has changed.
    pub(crate) fn look(&self, leaf: &dyn Leaf) {
        self.ledger.charge(&self.owner, 0.0, leaf, false);
    }

    /// Charges what the leaf has counted since the last time.
    pub(crate) fn charge(&self, leaf: &dyn Leaf, counters: &Counters) {
        let counted_s = counters.cpu_user_s.unwrap_or(0.0) + counters.cpu_system_s.unwrap_or(0.0);
        // The two are not counted at one moment, so their sum may seem to shrink.
        let charged_s = self.charged_s.replace(counted_s.max(self.charged_s.get()));
        self.ledger.charge(&self.owner, self.charged_s.get() - charged_s, leaf, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn out_of_favour_beyond_the_credit_and_back_when_nothing_is_owed() {
        let busy = Debt::NONE.later(0.0, CREDIT_S);
        assert_eq!(busy.favour(), Favour::In);
        let out = busy.later(0.0, 0.01);
        assert_eq!(out.favour(), Favour::Out);
        let almost = out.later((out.owed_s - 0.01) / FORGIVEN, 0.0);
        assert!(almost.owed_s < CREDIT_S);
        assert_eq!(almost.favour(), Favour::Out);
        assert_eq!(almost.later(0.03, 0.0), Debt::NONE);
        let most = Debt::NONE.later(0.0, 3_600.0);
        assert_eq!(most.later(OWED_MAX_S / FORGIVEN, 0.0), Debt::NONE);
    }

    proptest! {
        /// Whatever it did before: after the longest debt it is in favour, and with less than what is forgiven it stays so.
        #[test]
        fn who_takes_little_comes_into_favour_and_stays(
            before in prop::collection::vec((0.0..10.0_f64, 0.0..10.0_f64), 0..20),
            after in prop::collection::vec(0.0..1.0_f64, 1..200),
        ) {
            let debt = before.iter().fold(Debt::NONE, |debt, (elapsed_s, used_s)| debt.later(*elapsed_s, *used_s));
            prop_assert!((0.0..=OWED_MAX_S).contains(&debt.owed_s));
            let mut debt = debt.later(OWED_MAX_S / FORGIVEN, 0.0);
            for share in after {
                debt = debt.later(0.2, 0.2 * FORGIVEN * share);
                prop_assert_eq!(debt.favour(), Favour::In);
            }
        }

        /// One that spins is out within a tick or two, however often it is looked at.
        #[test]
        fn who_takes_a_whole_processor_goes_out_of_favour(looks in prop::collection::vec(0.001..0.3_f64, 1..500)) {
            let mut debt = Debt::NONE;
            for elapsed_s in &looks {
                debt = debt.later(*elapsed_s, *elapsed_s);
            }
            let spun_s: f64 = looks.iter().sum();
            let earliest_s = CREDIT_S / (1.0 - FORGIVEN);
            prop_assert!(spun_s < earliest_s + 0.3 || debt.favour() == Favour::Out);
            prop_assert!(spun_s > CREDIT_S || debt.favour() == Favour::In);
        }
    }
}
