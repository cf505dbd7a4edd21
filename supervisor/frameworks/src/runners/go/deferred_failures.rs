//! Holds back failed tests that count only if their outermost test fails too.
//!
//! Go fails a test whose subtest failed. A test can also run others by itself (`testing.RunTests`), as tests of test libraries
//! do, and the go tool reports these like subtests. A failure below a test that passed came from such a nested run and is
//! no failure of the package.

use proctor_core::test_case::TestCase;
use std::collections::BTreeMap;

/// Most bytes of failed tests that are held back, over all packages. Further ones are reported as failures at once.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Failed tests by the sequence number of their outermost test.
#[derive(Debug, Default)]
pub(super) struct DeferredFailures {
    failed: BTreeMap<u64, Vec<TestCase>>,
    bytes: usize,
}

impl DeferredFailures {
    /// Records that an outermost test began.
    pub(super) fn start_outermost(&mut self, sequence: u64) {
        self.failed.insert(sequence, Vec::new());
    }

    /// Holds back a failed test until its outermost test ends. Returns it when that test has ended or the bound is reached.
    pub(super) fn add(&mut self, outermost: u64, case: TestCase) -> Option<TestCase> {
        let bytes = case.memory_bytes();
        match self.failed.get_mut(&outermost) {
            Some(failed) if self.bytes + bytes <= BYTES_MAX => {
                self.bytes += bytes;
                failed.push(case);
                None
            }
            _ => Some(case),
        }
    }

    /// Removes and returns the failed tests of an outermost test that has ended.
    pub(super) fn finish_outermost(&mut self, sequence: u64) -> Vec<TestCase> {
        let failed = self.failed.remove(&sequence).unwrap_or_default();
        self.bytes -= failed.iter().map(TestCase::memory_bytes).sum::<usize>();
        failed
    }

    /// Removes and returns all failed tests, sorted by package, at the end of the stream.
    pub(super) fn take_all(&mut self) -> Vec<TestCase> {
        self.bytes = 0;
        let mut failed: Vec<TestCase> = std::mem::take(&mut self.failed).into_values().flatten().collect();
        failed.sort_by(|one, other| one.package.cmp(&other.package));
        failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::{TestId, TestOutcome};

    fn case(name: &str) -> TestCase {
        let id = TestId { package: "p".to_owned(), name: name.to_owned() };
        TestCase::new(id, format!("p/{name}"), TestOutcome::Failed)
    }

    #[test]
    fn holds_back_a_failed_test_until_its_outermost_test_ends_within_a_bound() {
        let mut deferred = DeferredFailures::default();
        assert!(deferred.add(1, case("T/a")).is_some(), "nothing runs it");
        deferred.start_outermost(1);
        assert_eq!(deferred.add(1, case("T/a")), None);
        let long = case(&"n".repeat(BYTES_MAX));
        assert!(deferred.add(1, long.clone()).is_some(), "no room");
        assert_eq!(deferred.finish_outermost(1).len(), 1);
        assert_eq!((deferred.bytes, deferred.finish_outermost(1).len()), (0, 0));
    }
}
