//! What a run of a project's tests came to, in a form that all runners have. Must not know any runner, or who ran it.

use std::collections::{BTreeMap, BTreeSet};

/// A file, relative to the workspace, and a line of it, counted from 1.
pub(crate) type TestWorkspace = (String, u64);

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// How often a test, by a name that its runner has for it, came to what: several can have one name.
    pub(crate) outcomes: BTreeMap<(String, String), usize>,
    /// Where the failed tests failed. Several places, if the runner names several for one test; none, if it names none.
    pub(crate) failures: BTreeMap<String, BTreeSet<TestWorkspace>>,
    /// Where what could not be built or loaded is wrong.
    pub(crate) unbuilt: BTreeSet<TestWorkspace>,
}

impl Account {
    /// One more test.
    pub(crate) fn add(&mut self, test: &str, outcome: &str) {
        *self.outcomes.entry((test.to_owned(), outcome.to_owned())).or_default() += 1;
        if is_failure(outcome) {
            self.failures.entry(test.to_owned()).or_default();
        }
    }

    /// How many tests there were.
    pub(crate) fn tests(&self) -> usize {
        self.outcomes.values().sum()
    }

    /// The tests that this run has and the other has not, or not as often, for people to read.
    pub(crate) fn beside(&self, other: &Account) -> Vec<String> {
        let alone = self.outcomes.iter().filter(|(test, times)| other.outcomes.get(test) != Some(times));
        alone.map(|entry| format!("{entry:?}")).collect()
    }
}

/// Whether a test with this outcome is one that proctor says something about.
pub(crate) fn is_failure(outcome: &str) -> bool {
    matches!(outcome, "failed" | "error")
}
