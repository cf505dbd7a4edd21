//! The proof that a run is whole, as far as its runner can give one. Must not know any runner.

/// Proof that a runner came to its end and told every test that it had. Without it no run is
/// [`Passed`](crate::outcome::Outcome::Passed).
///
/// The default is that it is missing: a parser that does not look for it makes nothing green.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Proof {
    /// The runner's end was not seen, a test that it had was not told, or a part of what it told was lost.
    #[default]
    Missing,
    /// The runner came to its end.
    Shown {
        /// Tests that it told by its own count; 0 where it counts none. As many have to have arrived.
        tests: u64,
    },
}

impl Proof {
    /// The proof of two parts of a run, which is missing where that of one is.
    #[must_use]
    pub fn and(self, other: Proof) -> Proof {
        match (self, other) {
            (Proof::Shown { tests: ours }, Proof::Shown { tests: theirs }) => {
                Proof::Shown { tests: ours.saturating_add(theirs) }
            }
            _ => Proof::Missing,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_missing(self) -> bool {
        self == Proof::Missing
    }

    /// Whether it holds for a run of which `arrived` tests are known.
    #[must_use]
    pub fn holds(self, arrived: u64) -> bool {
        matches!(self, Proof::Shown { tests } if tests <= arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_missing_by_default_and_where_a_part_lacks_it_or_a_test_did_not_arrive() {
        let shown = |tests| Proof::Shown { tests };
        assert!(!Proof::default().holds(9));
        assert_eq!(shown(1).and(shown(2)), shown(3));
        assert_eq!((shown(1).and(Proof::Missing), Proof::Missing.and(shown(1))), (Proof::Missing, Proof::Missing));
        assert!(shown(3).holds(3) && shown(0).holds(3) && !shown(4).holds(3));
    }
}
