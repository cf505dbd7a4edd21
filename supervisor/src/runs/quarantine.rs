//! Marks the failed tests of a report that the project has in quarantine. It changes no outcome: a known failure is a
//! failure.

use proctor_core::bounds::{NOTE_BYTES_MAX, NOTES_MAX, clip};
use proctor_core::history::TestGroup;
use proctor_core::human_units::first_names;
use proctor_core::report::Report;
use proctor_core::test_case::{TestCase, TestId};
use std::collections::BTreeSet;

/// Names in a note; the report has more.
const NAMES_SHOWN: usize = 10;

/// Names of tests, as the project file has them.
#[derive(Debug, Clone, Default)]
pub struct Quarantine {
    names: BTreeSet<String>,
}

impl Quarantine {
    /// A quarantine of the tests with these names: alone, behind their package, or the runner's own form.
    #[must_use]
    pub fn new(names: impl Iterator<Item = String>) -> Quarantine {
        Quarantine { names: names.collect() }
    }

    /// Marks the failed tests in quarantine, and notes names that no test has if the request was for all tests.
    pub(super) fn mark(&self, report: &mut Report, is_whole: bool) {
        if self.names.is_empty() {
            return;
        }
        let failed = report.tests.iter().filter(|test| test.outcome.is_failure());
        let failed: Vec<TestId> = failed.filter(|test| self.name_of(test).is_some()).map(TestCase::id).collect();
        let mut notes = Vec::new();
        if !failed.is_empty() {
            let names = first_names(failed.iter().map(TestId::full_name), NAMES_SHOWN);
            notes.push(format!(
                "{} failed test(s) are in quarantine, and the outcome counts them: {names}",
                failed.len()
            ));
            report.quarantined = Some(TestGroup::new(failed));
        }
        if is_whole && report.has_all_results() {
            let known: BTreeSet<&str> = report.tests.iter().filter_map(|test| self.name_of(test)).collect();
            let unknown: Vec<&str> =
                self.names.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
            if !unknown.is_empty() {
                let shown = &unknown[..unknown.len().min(NAMES_SHOWN)];
                notes.push(format!(
                    "the quarantine names {} test(s) that this run does not have: {}",
                    unknown.len(),
                    shown.join(", ")
                ));
            }
        }
        let room = NOTES_MAX.saturating_sub(report.evidence.notes.len());
        report.evidence.notes.extend(notes.into_iter().take(room).map(|note| clip(note, NOTE_BYTES_MAX)));
    }

    // The name by which a test is in quarantine.
    fn name_of(&self, test: &TestCase) -> Option<&str> {
        test.spellings().find_map(|name| self.names.get(&*name)).map(String::as_str)
    }
}
