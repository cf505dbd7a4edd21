//! Bytes and inodes of disk usage.

use std::iter::Sum;

/// An amount of disk space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct DiskUsage {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl DiskUsage {
    /// More than any limit.
    pub(super) const ALL: DiskUsage = DiskUsage { bytes: u64::MAX, inodes: u64::MAX };

    /// Combines bytes with bytes and inodes with inodes.
    pub(super) fn zip_with(self, other: DiskUsage, both: impl Fn(u64, u64) -> u64) -> DiskUsage {
        DiskUsage { bytes: both(self.bytes, other.bytes), inodes: both(self.inodes, other.inodes) }
    }

    pub(super) fn exceeds(self, max: DiskUsage) -> bool {
        self.bytes > max.bytes || self.inodes > max.inodes
    }
}

impl Sum for DiskUsage {
    fn sum<I: Iterator<Item = DiskUsage>>(uses: I) -> DiskUsage {
        uses.fold(DiskUsage::default(), |sum, one| sum.zip_with(one, u64::saturating_add))
    }
}

/// Growth of a run: on each file system the missing space, but at most what was found to be the run's.
pub(super) fn growth(missing: &[DiskUsage], found: &[DiskUsage]) -> DiskUsage {
    missing.iter().zip(found).map(|(missing, found)| missing.zip_with(*found, u64::min)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::usage;

    #[test]
    fn growth_is_the_smaller_of_missing_and_found_usage() {
        let rows = [
            // missing, found, growth
            (vec![usage(9, 2)], vec![usage(5, 3)], usage(5, 2)),
            (vec![usage(0, 0)], vec![DiskUsage::ALL], usage(0, 0)),
            (vec![usage(9, 2)], vec![DiskUsage::ALL], usage(9, 2)),
            (vec![usage(9, 2), usage(1, 1)], vec![usage(4, 1), usage(7, 7)], usage(5, 2)),
        ];
        for (missing, found, growth_now) in rows {
            assert_eq!(growth(&missing, &found), growth_now, "{missing:?} {found:?}");
        }
        assert!(
            usage(2, 0).exceeds(usage(1, 1)) && usage(0, 2).exceeds(usage(1, 1)) && !usage(1, 1).exceeds(usage(1, 1))
        );
    }
}
