//! How often something may happen: the generic cell rate algorithm (ITU-T I.371), which needs one number per bucket. Must
//! not know clocks, nor what happens.

/// A rate and how far a burst may run ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    every_ns: u64,
    ahead_ns_max: u64,
}

impl Rate {
    /// `per_second` on average, and as many at once after a second of silence. Zero is one a second.
    #[must_use]
    pub fn per_second(per_second: u32) -> Rate {
        let every_ns = 1_000_000_000 / u64::from(per_second.max(1));
        Rate { every_ns, ahead_ns_max: 1_000_000_000 - every_ns }
    }

    /// Whether one more may happen at `now_ns`, where `due_ns` is what the last that might has left, 0 at first: what it
    /// leaves, or the nanoseconds after which it may.
    ///
    /// # Errors
    /// How long to wait.
    pub fn admit(self, now_ns: u64, due_ns: u64) -> Result<u64, u64> {
        let due_ns = due_ns.max(now_ns);
        match (due_ns - now_ns).checked_sub(self.ahead_ns_max) {
            None | Some(0) => Ok(due_ns.saturating_add(self.every_ns)),
            Some(too_early) => Err(too_early),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_second_has_more_than_twice_the_rate_and_who_waits_as_told_is_admitted(
            per_second in 1u32..1_000,
            pauses in proptest::collection::vec(0u64..20_000_000, 1..400),
        ) {
            let rate = Rate::per_second(per_second);
            let (mut now, mut due, mut admitted) = (1_u64, 0, Vec::new());
            for pause in pauses {
                now += pause;
                match rate.admit(now, due) {
                    Ok(next) => {
                        due = next;
                        admitted.push(now);
                    }
                    Err(wait) => prop_assert!(rate.admit(now + wait, due).is_ok() && rate.admit(now + wait - 1, due).is_err()),
                }
            }
            let most = admitted.iter().map(|begin| admitted.iter().filter(|at| (*begin..begin + 1_000_000_000).contains(*at)).count());
            prop_assert!(most.max().unwrap_or(0) <= 2 * per_second as usize);
        }
    }

    #[test]
    fn a_burst_of_one_second_passes_and_not_one_more() {
        let rate = Rate::per_second(10);
        let mut due = 0;
        for _ in 0..10 {
            due = rate.admit(5, due).unwrap();
        }
        assert_eq!(rate.admit(5, due), Err(100_000_000));
        assert!(rate.admit(100_000_005, due).is_ok());
    }
}
