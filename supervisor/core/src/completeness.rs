//! Completeness of a runner's results, as far as the runner can prove it.

/// Whether a runner proved that it reached its end and reported all of its tests. Without the proof no run is
/// [`Passed`](crate::outcome::Outcome::Passed).
///
/// The default is `Unproven`, so that a parser that does not look for the proof makes nothing green.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completeness {
    /// The runner's end was not seen, or a test or a part of the output was lost.
    #[default]
    Unproven,
    /// The runner reached its end.
    Proven {
        /// Number of tests by the runner's own count, 0 where it counts none. At least as many results must have
        /// arrived.
        tests: u64,
    },
}

impl Completeness {
    /// Combines the proofs of two parts of a run: missing if either is missing.
    #[must_use]
    pub fn and(self, other: Completeness) -> Completeness {
        match (self, other) {
            (Completeness::Proven { tests: left }, Completeness::Proven { tests: right }) => {
                Completeness::Proven { tests: left.saturating_add(right) }
            }
            _ => Completeness::Unproven,
        }
    }

    /// Whether the runner gave no proof.
    #[must_use]
    pub fn is_unproven(self) -> bool {
        self == Completeness::Unproven
    }

    /// Whether the proof holds for a run with `arrived` test results.
    #[must_use]
    pub fn covers(self, arrived: u64) -> bool {
        matches!(self, Completeness::Proven { tests } if tests <= arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_incomplete_by_default_and_when_a_part_or_a_test_is_unproven() {
        let proven = |tests| Completeness::Proven { tests };
        assert!(!Completeness::default().covers(9));
        assert_eq!(proven(1).and(proven(2)), proven(3));
        assert_eq!(
            (proven(1).and(Completeness::Unproven), Completeness::Unproven.and(proven(1))),
            (Completeness::Unproven, Completeness::Unproven)
        );
        assert!(proven(3).covers(3) && proven(0).covers(3) && !proven(4).covers(3));
    }
}
