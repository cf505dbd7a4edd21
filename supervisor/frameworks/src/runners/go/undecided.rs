//! Failed tests that count only when the outermost test that runs them fails too. Must not know how events are read.
//!
//! Go fails a test whose subtest failed. A test can also run others by itself (`testing.RunTests`), as those of a test library
//! do, and the go tool reports these like subtests. What fails below a test that passed was run so, and is no failure of the
//! package.

use proctor_core::test_case::TestCase;
use std::collections::BTreeMap;

/// Most bytes of failed tests that wait over all packages. Further ones are failures at once.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The failed tests, by the sequence number of the outermost test.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    failed: BTreeMap<u64, Vec<TestCase>>,
    bytes: usize,
}

impl Undecided {
    /// Takes in that an outermost test began.
    pub(super) fn outermost_began(&mut self, sequence: u64) {
        self.failed.insert(sequence, Vec::new());
    }

    /// Keeps a failed test until its outermost test ends. Gives it back when that one has ended, or there is no room.
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

    /// The failed tests of an outermost test, which has ended.
    pub(super) fn outermost_ended(&mut self, sequence: u64) -> Vec<TestCase> {
        let failed = self.failed.remove(&sequence).unwrap_or_default();
        self.bytes -= failed.iter().map(TestCase::memory_bytes).sum::<usize>();
        failed
    }

    /// All of them, sorted by package, because nothing follows.
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
    fn a_failed_test_waits_for_its_outermost_test_within_a_bound() {
        let mut undecided = Undecided::default();
        assert!(undecided.add(1, case("T/a")).is_some(), "nothing runs it");
        undecided.outermost_began(1);
        assert_eq!(undecided.add(1, case("T/a")), None);
        let long = case(&"n".repeat(BYTES_MAX));
        assert!(undecided.add(1, long.clone()).is_some(), "no room");
        assert_eq!(undecided.outermost_ended(1).len(), 1);
        assert_eq!((undecided.bytes, undecided.outermost_ended(1).len()), (0, 0));
    }
}
