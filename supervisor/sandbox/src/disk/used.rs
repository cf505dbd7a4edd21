//! Bytes and inodes, reckoned side by side. Must not know where either is read.

use std::iter::Sum;

/// What is used of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Use {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl Use {
    /// What nothing can be beyond.
    pub(super) const ALL: Use = Use { bytes: u64::MAX, inodes: u64::MAX };

    /// Bytes with bytes, inodes with inodes.
    pub(super) fn each(self, other: Use, both: impl Fn(u64, u64) -> u64) -> Use {
        Use { bytes: both(self.bytes, other.bytes), inodes: both(self.inodes, other.inodes) }
    }

    pub(super) fn is_beyond(self, max: Use) -> bool {
        self.bytes > max.bytes || self.inodes > max.inodes
    }
}

impl Sum for Use {
    fn sum<I: Iterator<Item = Use>>(uses: I) -> Use {
        uses.fold(Use::default(), |sum, one| sum.each(one, u64::saturating_add))
    }
}

/// The growth of a run: on each file system what is missing, and no more than what was found to be the run's.
pub(super) fn growth(missing: &[Use], found: &[Use]) -> Use {
    missing.iter().zip(found).map(|(missing, found)| missing.each(*found, u64::min)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::of;

    #[test]
    fn growth_is_what_is_missing_and_the_runs_own() {
        let rows = [
            // missing, found, growth
            (vec![of(9, 2)], vec![of(5, 3)], of(5, 2)),
            (vec![of(0, 0)], vec![Use::ALL], of(0, 0)),
            (vec![of(9, 2)], vec![Use::ALL], of(9, 2)),
            (vec![of(9, 2), of(1, 1)], vec![of(4, 1), of(7, 7)], of(5, 2)),
        ];
        for (missing, found, grown) in rows {
            assert_eq!(growth(&missing, &found), grown, "{missing:?} {found:?}");
        }
        assert!(of(2, 0).is_beyond(of(1, 1)) && of(0, 2).is_beyond(of(1, 1)) && !of(1, 1).is_beyond(of(1, 1)));
    }
}
