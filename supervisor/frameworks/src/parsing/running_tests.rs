//! Tests that have begun and not ended, in the order in which they began. Must not know who runs them, or what becomes of
//! them.

use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, HashMap};

/// Most tests that are held. Runners that tell of more at a time do not run them at a time.
const RUNNING_MAX: usize = 65_536;

/// The tests that run.
#[derive(Debug, Default)]
pub(crate) struct RunningTests {
    /// When each began, and the same the other way round.
    at: HashMap<TestId, u64>,
    tests: BTreeMap<u64, TestId>,
    sequence: u64,
}

impl RunningTests {
    /// Takes in that a test began. Whether it is another one, and there was room for it.
    pub(crate) fn start(&mut self, id: &TestId) -> bool {
        if self.at.len() >= RUNNING_MAX || self.at.contains_key(id) {
            return false;
        }
        self.sequence += 1;
        self.at.insert(id.clone(), self.sequence);
        self.tests.insert(self.sequence, id.clone());
        true
    }

    /// Takes in that a test ended, which need not have begun.
    pub(crate) fn finish(&mut self, id: &TestId) {
        if let Some(at) = self.at.remove(id) {
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

    /// The same, and forgets them.
    pub(crate) fn drain(&mut self) -> Vec<TestId> {
        self.at.clear();
        std::mem::take(&mut self.tests).into_values().collect()
    }
}
