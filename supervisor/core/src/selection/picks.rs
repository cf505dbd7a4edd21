//! Selected tests by package or file, and the answer that they make.

use super::baseline::{Baseline, LastResult, TestsOfUnit};
use super::{AffectedTests, FullReason, Reason, SelectedTest};
use crate::coverage::{Attribution, CoveringTests};
use crate::failure::RerunPlan;
use crate::request::RerunTarget;
use crate::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Selected tests by package or file.
#[derive(Default)]
pub(super) struct Picks {
    units: BTreeMap<String, Unit>,
    /// Known packages and files that are gone.
    pub(super) gone: BTreeSet<String>,
    /// Failures that the last run names without their package.
    named: BTreeSet<String>,
    /// Tests that ran alone, too, where what tests executed decides.
    pub(super) ran_alone: u64,
}

#[derive(Default)]
struct Unit {
    whole: Option<Reason>,
    tests: BTreeMap<String, Reason>,
    /// Those that run with all their subtests, which are no targets themselves.
    whole_tests: BTreeSet<String>,
}

impl Unit {
    fn is_target(&self, test: &str) -> bool {
        test.match_indices('/').all(|(end, _)| !self.whole_tests.contains(&test[..end]))
    }
}

impl Picks {
    pub(super) fn add_failures(&mut self, failures: &RerunPlan) -> Result<(), FullReason> {
        match failures {
            RerunPlan::Everything => return Err(FullReason::UnknownFailures),
            RerunPlan::NoRunYet | RerunPlan::NothingFailed { .. } => {}
            RerunPlan::Targets { now, deferred } => {
                if deferred.more > 0 || deferred.unreached {
                    return Err(FullReason::UnknownFailures);
                }
                for target in now.iter().chain(&deferred.targets) {
                    match target {
                        RerunTarget::Package(unit) => self.whole(unit, Reason::FailedLast),
                        RerunTarget::Test(test) => self.test(test, Reason::FailedLast),
                        RerunTarget::Name(name) => _ = self.named.insert(name.clone()),
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn add_results(&mut self, baseline: &Baseline) {
        for (unit, tests) in baseline.tests().iter().filter(|(unit, _)| !self.gone.contains(*unit)).collect::<Vec<_>>()
        {
            for (name, result) in tests {
                let reason = match result {
                    LastResult::Passed => continue,
                    LastResult::Failed => Reason::FailedLast,
                    LastResult::Flaky => Reason::Flaky,
                    LastResult::Skipped => Reason::SkippedLast,
                };
                self.test(&TestId { package: unit.clone(), name: name.clone() }, reason);
            }
        }
    }

    // Known packages and files that are not there: removed ones have no tests any more, of others nothing is known.
    pub(super) fn sort_out_gone(
        &mut self,
        baseline: &Baseline,
        is_there: impl Fn(&str) -> bool,
        is_removed: impl Fn(&str) -> bool,
    ) {
        for unit in baseline.tests().keys().filter(|unit| !is_there(unit)) {
            if is_removed(unit) {
                self.gone.insert(unit.clone());
            } else {
                self.whole(unit, Reason::Unmapped);
            }
        }
    }

    pub(super) fn whole(&mut self, unit: &str, reason: Reason) {
        let whole = &mut self.units.entry(unit.to_owned()).or_default().whole;
        *whole = Some(whole.take().map_or(reason.clone(), |known| known.min(reason)));
    }

    /// The packages and files that are selected as a whole.
    pub(super) fn whole_units(&self) -> Vec<(String, Reason)> {
        self.units.iter().filter_map(|(name, unit)| Some((name.clone(), unit.whole.clone()?))).collect()
    }

    pub(super) fn test(&mut self, test: &TestId, reason: Reason) {
        let tests = &mut self.units.entry(test.package.clone()).or_default().tests;
        let known = tests.entry(test.name.clone()).or_insert_with(|| reason.clone());
        if reason < *known {
            *known = reason;
        }
    }

    pub(super) fn covering(&mut self, covering: &CoveringTests, reason: &Reason) {
        for test in &covering.tests {
            if covering.attribution == Some(Attribution::Test) {
                self.test(test, reason.clone());
            } else {
                self.whole(&test.package, reason.clone());
            }
        }
    }

    /// Selects a test with all its subtests, also those that it did not have before.
    pub(super) fn whole_test(&mut self, baseline: &Baseline, test: &TestId, reason: &Reason) {
        self.test(test, reason.clone());
        let start = format!("{}/", test.name);
        let tests = baseline.tests().get(&test.package).into_iter().flat_map(|tests| tests.range(start.clone()..));
        for (name, _) in tests.take_while(|(name, _)| name.starts_with(&start)) {
            self.test(&TestId { package: test.package.clone(), name: name.clone() }, reason.clone());
        }
        if let Some(unit) = self.units.get_mut(&test.package) {
            unit.whole_tests.insert(test.name.clone());
        }
    }

    pub(super) fn into_answer(
        self,
        baseline: &Baseline,
        since: String,
        known: u64,
        changed_files: u64,
    ) -> AffectedTests {
        let Picks { units, gone, named, ran_alone } = self;
        let mut ranked: Vec<(Reason, TestId)> = Vec::new();
        let mut targets: Vec<RerunTarget> = Vec::new();
        let units = units.into_iter().filter(|(name, _)| !gone.contains(name));
        for (name, unit) in units {
            let known_tests = baseline.tests().get(&name);
            let is_all = |tests: &TestsOfUnit| tests.keys().all(|test| unit.tests.contains_key(test));
            let is_whole = unit.whole.is_some() || known_tests.is_some_and(is_all);
            let all = known_tests.into_iter().flat_map(|tests| tests.keys()).filter(|_| is_whole);
            let names: BTreeSet<&String> = unit.tests.keys().chain(all).collect();
            for test in names {
                let reason = unit.tests.get(test).into_iter().chain(&unit.whole).min();
                ranked.extend(
                    reason.map(|reason| (reason.clone(), TestId { package: name.clone(), name: test.clone() })),
                );
            }
            if is_whole {
                targets.push(RerunTarget::Package(name));
            } else {
                let tests = unit.tests.keys().filter(|test| unit.is_target(test));
                let tests = tests.map(|test| TestId { package: name.clone(), name: test.clone() });
                targets.extend(tests.map(RerunTarget::Test));
            }
        }
        targets.extend(named.into_iter().map(RerunTarget::Name));
        ranked.sort();
        // A skipped test alone tells nothing, and a run without one executed test is no pass.
        if ranked.iter().all(|(reason, _)| *reason == Reason::SkippedLast) && targets_are_known(&targets, baseline) {
            (ranked, targets) = (Vec::new(), Vec::new());
        }
        let selected: Vec<SelectedTest> =
            ranked.into_iter().map(|(reason, test)| SelectedTest { test, reason }).collect();
        let known = known
            - gone.iter().filter_map(|unit| baseline.tests().get(unit)).map(|tests| tests.len() as u64).sum::<u64>();
        // Failures of the last run may have names that no run of all tests had.
        let known = known.max(selected.len() as u64);
        AffectedTests {
            since,
            full_reason: None,
            selected,
            targets,
            known,
            changed_files,
            ran_alone,
            notes: Vec::new(),
        }
    }
}

fn targets_are_known(targets: &[RerunTarget], baseline: &Baseline) -> bool {
    targets.iter().all(|target| target.package().is_some_and(|unit| baseline.tests().contains_key(unit)))
}
