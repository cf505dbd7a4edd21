//! RateLimit limiting by the generic cell rate algorithm (ITU-T I.371), which needs one number per bucket.

/// An average rate and the size of the burst that may exceed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    every_ns: u64,
    burst_ns_max: u64,
}

impl RateLimit {
    /// Allows `per_second` on average and as many in one burst after an idle second. Zero counts as one a second.
    #[must_use]
    pub fn per_second(per_second: u32) -> RateLimit {
        let every_ns = 1_000_000_000 / u64::from(per_second.max(1));
        RateLimit { every_ns, burst_ns_max: 1_000_000_000 - every_ns }
    }

    /// Admits one more event at `now_ns`. `due_ns` is the value that the last admitted event returned, 0 at first; the
    /// new value is returned.
    ///
    /// # Errors
    /// The nanoseconds after which the event is admitted.
    pub fn admit(self, now_ns: u64, due_ns: u64) -> Result<u64, u64> {
        let due_ns = due_ns.max(now_ns);
        match (due_ns - now_ns).checked_sub(self.burst_ns_max) {
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
        fn a_second_has_at_most_twice_the_rate_and_a_caller_that_waits_as_returned_is_admitted(
            per_second in 1u32..1_000,
            pauses in proptest::collection::vec(0u64..20_000_000, 1..400),
        ) {
            let rate = RateLimit::per_second(per_second);
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
            let counts = admitted.iter().map(|begin| admitted.iter().filter(|at| (*begin..begin + 1_000_000_000).contains(*at)).count());
            prop_assert!(counts.max().unwrap_or(0) <= 2 * per_second as usize);
        }
    }

    #[test]
    fn admits_a_burst_of_one_second_and_no_more() {
        let rate = RateLimit::per_second(10);
        let mut due = 0;
        for _ in 0..10 {
            due = rate.admit(5, due).unwrap();
        }
        assert_eq!(rate.admit(5, due), Err(100_000_000));
        assert!(rate.admit(100_000_005, due).is_ok());
    }
}
