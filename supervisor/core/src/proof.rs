//! Proof that the results of a runner are complete.

/// Whether a runner proved that it reached its end and reported all of its tests. Without the proof no run is
/// [`Passed`](crate::outcome::Outcome::Passed).
///
/// The default is `Missing`, so that a parser that does not look for the proof makes nothing green.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Proof {
    /// The runner's end was not seen, or a test or a part of the output was lost.
    #[default]
    Missing,
    /// The runner reached its end.
    Shown {
        /// Number of tests by the runner's own count, 0 where it counts none. At least as many results must have
        /// arrived.
        tests: u64,
    },
}

impl Proof {
    /// Combines the proofs of two parts of a run: missing if either is missing.
    #[must_use]
    pub fn and(self, other: Proof) -> Proof {
        match (self, other) {
            (Proof::Shown { tests: left }, Proof::Shown { tests: right }) => {
                Proof::Shown { tests: left.saturating_add(right) }
            }
            _ => Proof::Missing,
        }
    }

    /// Whether the runner gave no proof.
    #[must_use]
    pub fn is_missing(self) -> bool {
        self == Proof::Missing
    }

    /// Whether the proof holds for a run with `arrived` test results.
    #[must_use]
    pub fn covers(self, arrived: u64) -> bool {
        matches!(self, Proof::Shown { tests } if tests <= arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_incomplete_by_default_and_when_a_part_or_a_test_has_no_proof() {
        let shown = |tests| Proof::Shown { tests };
        assert!(!Proof::default().covers(9));
        assert_eq!(shown(1).and(shown(2)), shown(3));
        assert_eq!((shown(1).and(Proof::Missing), Proof::Missing.and(shown(1))), (Proof::Missing, Proof::Missing));
        assert!(shown(3).covers(3) && shown(0).covers(3) && !shown(4).covers(3));
    }
}
