//! Tests that started and have not finished, in the order in which they started.

use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, HashMap};

/// Most running tests that are kept. No runner really runs more at the same time.
const RUNNING_MAX: usize = 65_536;

/// The running tests.
#[derive(Debug, Default)]
pub(crate) struct RunningTests {
    /// Sequence number at which each test started, and the reverse map.
    sequence_of: HashMap<TestId, u64>,
    tests: BTreeMap<u64, TestId>,
    sequence: u64,
}

impl RunningTests {
    /// Records that a test started; `false` if it already runs or there is no room for it.
    pub(crate) fn start(&mut self, id: &TestId) -> bool {
        if self.sequence_of.len() >= RUNNING_MAX || self.sequence_of.contains_key(id) {
            return false;
        }
        self.sequence += 1;
        self.sequence_of.insert(id.clone(), self.sequence);
        self.tests.insert(self.sequence, id.clone());
        true
    }

    /// Records that a test finished. It need not have started.
    pub(crate) fn finish(&mut self, id: &TestId) {
        if let Some(at) = self.sequence_of.remove(id) {
            self.tests.remove(&at);
        }
    }

    /// Whether nothing runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The tests, the longest running first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &TestId> {
        self.tests.values()
    }

    /// Removes and returns all tests, the longest running first.
    pub(crate) fn drain(&mut self) -> Vec<TestId> {
        self.sequence_of.clear();
        std::mem::take(&mut self.tests).into_values().collect()
    }
}
