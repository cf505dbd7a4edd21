//! The results of a project's tests, in a form common to all runners.

use std::collections::{BTreeMap, BTreeSet};

/// A file, relative to the workspace, and a line, from 1.
pub(crate) type SourceLocation = (String, u64);

/// The results of a run.
#[derive(Debug, Default)]
pub(crate) struct TestResults {
    /// Number of results per test name and outcome. Names are the runner's own; several tests can share one.
    pub(crate) outcomes: BTreeMap<(String, String), usize>,
    /// Locations of each failed test: one or more if the runner names any, else empty.
    pub(crate) failures: BTreeMap<String, BTreeSet<SourceLocation>>,
    /// Locations of build and load errors.
    pub(crate) build_errors: BTreeSet<SourceLocation>,
}

impl TestResults {
    /// Counts one result.
    pub(crate) fn add(&mut self, test: &str, outcome: &str) {
        *self.outcomes.entry((test.to_owned(), outcome.to_owned())).or_default() += 1;
        if is_failure(outcome) {
            self.failures.entry(test.to_owned()).or_default();
        }
    }

    /// Number of tests.
    pub(crate) fn tests(&self) -> usize {
        self.outcomes.values().sum()
    }

    /// Results that the other run lacks or has in another number.
    pub(crate) fn differences(&self, other: &TestResults) -> Vec<String> {
        let different = self.outcomes.iter().filter(|(test, times)| other.outcomes.get(test) != Some(times));
        different.map(|entry| format!("{entry:?}")).collect()
    }
}

/// Whether proctor reports a location for tests with this outcome.
pub(crate) fn is_failure(outcome: &str) -> bool {
    matches!(outcome, "failed" | "error")
}
