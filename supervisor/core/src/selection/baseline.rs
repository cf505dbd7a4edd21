//! What a selection builds on: the results of all tests, and the text of the files that these results are of.

use super::snapshot::Snapshot;
use super::text::{FileText, LineMap};
use crate::bounds::{BASELINE_TESTS_BYTES_MAX, EARLIER_TEXTS_MAX};
use crate::coverage::{CoverageIndex, CoveringTests, LineSpan, united};
use crate::id::RunId;
use crate::outcome::Outcome;
use crate::report::Report;
use crate::request::{CUSTOM_FRAMEWORK, EarlierState, RunRequest, Selection};
use crate::test_case::TestOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a run saw of its workspace and host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFiles {
    /// The files.
    #[serde(with = "shared")]
    pub snapshot: Arc<Snapshot>,
    /// Programs and installed libraries outside of the snapshot, each with a hash of its metadata.
    pub tools: BTreeMap<String, u64>,
}

/// A shared snapshot is stored as a snapshot.
mod shared {
    use super::{Arc, Snapshot};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(snapshot: &Arc<Snapshot>, serializer: S) -> Result<S::Ok, S::Error> {
        snapshot.as_ref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Snapshot>, D::Error> {
        Snapshot::deserialize(deserializer).map(Arc::new)
    }
}

/// The last known result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastResult {
    /// It passed, or failed as expected.
    Passed,
    /// It failed.
    Failed,
    /// It passed and failed in one run.
    Flaky,
    /// It did not run.
    Skipped,
}

/// The last results of the tests of one package or file, by name.
pub(super) type TestsOfUnit = BTreeMap<String, LastResult>;

/// The newest state of a session for which the result of every test is known, directly or because a selection left it out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The run that made it.
    pub run: RunId,
    /// Framework of that run.
    pub framework: String,
    /// Settings of that run.
    pub settings: RunRequest,
    /// What it saw.
    pub seen: SeenFiles,
    /// Files of the newest state at which every test passed.
    green: Green,
    /// By package or file.
    tests: BTreeMap<String, TestsOfUnit>,
    /// Further texts that line numbers of the coverage index may refer to.
    earlier: BTreeMap<String, EarlierTexts>,
    /// Whether the tests have more names than a session remembers.
    has_unknown_tests: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Green {
    Never,
    Baseline,
    Earlier(#[serde(with = "shared")] Arc<Snapshot>),
}

/// Texts of one file, besides that of the baseline, of which tests were measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct EarlierTexts {
    texts: Vec<FileText>,
    /// Whether tests were measured at a text that is not known.
    has_unknown: bool,
}

impl EarlierTexts {
    fn add(&mut self, text: Option<&FileText>) {
        match text {
            Some(text) if self.texts.contains(text) => {}
            Some(text) if self.texts.len() < EARLIER_TEXTS_MAX => self.texts.push(text.clone()),
            _ => self.has_unknown = true,
        }
    }
}

/// A run of tests that ended.
pub struct EndedRun<'a> {
    /// Its ID.
    pub run: &'a RunId,
    /// Its request, with the selection that was asked for.
    pub request: &'a RunRequest,
    /// Its report.
    pub report: &'a Report,
    /// Whether it measured coverage.
    pub has_measured: bool,
    /// Whether its coverage replaced that of all runs before.
    pub replaces_coverage: bool,
}

impl Baseline {
    /// The baseline after a run; `None` while there is none.
    #[must_use]
    pub fn after(before: Option<Baseline>, ended: &EndedRun<'_>, seen: Option<SeenFiles>) -> Option<Baseline> {
        let (request, report) = (ended.request, ended.report);
        let has_all = report.has_all_results() && request.command.is_empty();
        let is_whole = report.ran_all(&request.selection);
        match (before, seen) {
            (before, Some(seen)) if is_whole && has_all => Some(Baseline::of_all_tests(before, ended, seen)),
            (Some(before), Some(seen)) if has_all && follows(request, report) => Some(before.advanced(ended, seen)),
            (Some(before), _) if !before.may_have_tests_of(&report.framework) => Some(before),
            (Some(mut before), seen) => {
                before.record_some(report, before.differs_from(request, seen.as_ref()));
                if ended.has_measured {
                    before.keep_texts(seen.as_ref());
                }
                Some(before)
            }
            (None, _) => None,
        }
    }

    /// Whether tests of a framework may be among its own. There may be several, and a command may be one of theirs.
    #[must_use]
    pub fn may_have_tests_of(&self, framework: &str) -> bool {
        framework == CUSTOM_FRAMEWORK || self.framework.split(", ").any(|of_tests| of_tests == framework)
    }

    fn of_all_tests(before: Option<Baseline>, ended: &EndedRun<'_>, seen: SeenFiles) -> Baseline {
        let report = ended.report;
        let settings = RunRequest { selection: Selection::All, ..ended.request.clone() };
        let (green, earlier) = match before {
            // The index still has the lines of the runs before.
            Some(mut before) if !ended.replaces_coverage => {
                before.keep_own_texts(&seen.snapshot);
                (before.last_green(), before.earlier)
            }
            Some(before) => (before.last_green(), BTreeMap::new()),
            None => (None, BTreeMap::new()),
        };
        let mut baseline = Baseline {
            run: ended.run.clone(),
            framework: report.framework.clone(),
            settings,
            seen,
            green: green.map_or(Green::Never, Green::Earlier),
            tests: BTreeMap::new(),
            earlier,
            has_unknown_tests: false,
        };
        baseline.record(report);
        if report.outcome == Outcome::Passed && baseline.has_no_failure() {
            baseline.green = Green::Baseline;
        }
        baseline
    }

    fn advanced(mut self, ended: &EndedRun<'_>, seen: SeenFiles) -> Baseline {
        self.keep_own_texts(&seen.snapshot);
        let green = self.last_green();
        let (run, mut tests, report) = (ended.run.clone(), std::mem::take(&mut self.tests), ended.report);
        // A test file that is gone has no tests; a package is no file.
        let is_gone = |unit: &String| self.seen.snapshot.file(unit).is_some() && seen.snapshot.file(unit).is_none();
        tests.retain(|unit, _| !is_gone(unit));
        let mut next = Baseline { run, seen, green: green.map_or(Green::Never, Green::Earlier), tests, ..self };
        // What ran in a file or package that is gone is gone, too; a whole one that ran has the tests that it has now.
        for unit in report.affected.iter().flat_map(|affected| &affected.whole_units) {
            next.tests.remove(unit);
        }
        next.record(report);
        if report.outcome == Outcome::Passed && next.has_no_failure() {
            next.green = Green::Baseline;
        }
        next
    }

    /// Whether a run with these settings that saw these files measures what all lines of the coverage index are of.
    #[must_use]
    pub fn is_same_state(&self, settings: &RunRequest, seen: &SeenFiles) -> bool {
        self.earlier.is_empty() && self.settings == *settings && self.seen == *seen
    }

    /// Whether a run with these settings that saw these files, if they are known, may have other results and lines than one at the state of
    /// the baseline.
    #[must_use]
    pub fn differs_from(&self, settings: &RunRequest, seen: Option<&SeenFiles>) -> bool {
        let before = &self.settings;
        let has_its_tools =
            |seen: &SeenFiles| seen.tools.iter().all(|(tool, hash)| self.seen.tools.get(tool) == Some(hash));
        let has_its_files = |seen: &SeenFiles| {
            seen.snapshot.others == self.seen.snapshot.others && self.seen.snapshot.changes(&seen.snapshot).is_empty()
        };
        let is_same = |seen: &SeenFiles| has_its_tools(seen) && has_its_files(seen);
        (&before.env, before.network, &before.command) != (&settings.env, settings.network, &settings.command)
            || !seen.is_some_and(is_same)
    }

    // A run of some tests measured them at the files that it saw.
    fn keep_texts(&mut self, seen: Option<&SeenFiles>) {
        let paths: Vec<String> = self.seen.snapshot.paths().map(str::to_owned).collect();
        for path in paths {
            let Some(own) = self.seen.snapshot.file(&path) else { continue };
            let newer = seen.and_then(|seen| seen.snapshot.file(&path));
            match newer {
                Some(newer) if newer.is_settled && newer.text == own.text => {}
                Some(newer) if newer.is_settled => self.earlier.entry(path).or_default().add(Some(&newer.text)),
                // It was gone, or what the run saw is not known.
                _ => self.earlier.entry(path).or_default().add(None),
            }
        }
        for path in seen.into_iter().flat_map(|seen| seen.snapshot.paths()) {
            if self.seen.snapshot.file(path).is_none() {
                let text = seen.and_then(|seen| seen.snapshot.file(path)).filter(|file| file.is_settled);
                self.earlier.entry(path.to_owned()).or_default().add(text.map(|file| &file.text));
            }
        }
    }

    // The texts that `newer` replaces.
    fn keep_own_texts(&mut self, newer: &Snapshot) {
        let snapshot = Arc::clone(&self.seen.snapshot);
        for path in snapshot.paths() {
            let Some(own) = snapshot.file(path) else { continue };
            if newer.file(path).is_none_or(|file| file.text != own.text || !own.is_settled) {
                let text = own.is_settled.then_some(&own.text);
                self.earlier.entry(path.to_owned()).or_default().add(text);
            }
        }
    }

    /// Records a run that is no new baseline. At another state than that of the baseline, a test that passes has not passed at this one; and
    /// a skip says nothing of a failure.
    fn record_some(&mut self, report: &Report, is_other_state: bool) {
        let failed = |result: LastResult| result != LastResult::Passed;
        let of_unit = |(unit, tests): (&String, &TestsOfUnit)| {
            let failed = tests.iter().filter(|(_, result)| failed(**result));
            failed.map(|(name, result)| (unit.clone(), name.clone(), *result)).collect::<Vec<_>>()
        };
        let before: Vec<(String, String, LastResult)> = self.tests.iter().flat_map(of_unit).collect();
        self.record(report);
        for (unit, name, result) in before {
            if let Some(now) = self.tests.get_mut(&unit).and_then(|tests| tests.get_mut(&name))
                && match *now {
                    LastResult::Passed => is_other_state,
                    LastResult::Skipped => true,
                    LastResult::Failed | LastResult::Flaky => false,
                }
            {
                *now = result;
            }
        }
    }

    fn record(&mut self, report: &Report) {
        let flaky = report.repetitions.iter().flat_map(|repetitions| &repetitions.flaky);
        let flaky: Vec<_> = flaky.map(|flaky| &flaky.test).collect();
        for test in &report.tests {
            let result = match test.outcome {
                _ if flaky.iter().any(|flaky| flaky.package == test.package && flaky.name == test.name) => {
                    LastResult::Flaky
                }
                TestOutcome::Failed | TestOutcome::Error => LastResult::Failed,
                TestOutcome::Skipped => LastResult::Skipped,
                TestOutcome::Passed | TestOutcome::Xfailed | TestOutcome::Xpassed => LastResult::Passed,
            };
            self.tests.entry(test.package.clone()).or_default().insert(test.name.clone(), result);
        }
        self.has_unknown_tests |= report.truncated.tests > 0 || self.tests_bytes() > BASELINE_TESTS_BYTES_MAX;
        if self.has_unknown_tests {
            self.tests.clear();
        }
    }

    fn has_no_failure(&self) -> bool {
        let mut results = self.tests.values().flat_map(TestsOfUnit::values);
        !results.any(|result| matches!(result, LastResult::Failed | LastResult::Flaky))
    }

    fn last_green(&self) -> Option<Arc<Snapshot>> {
        match &self.green {
            Green::Never => None,
            Green::Baseline => Some(Arc::clone(&self.seen.snapshot)),
            Green::Earlier(snapshot) => Some(Arc::clone(snapshot)),
        }
    }

    /// The files of the named state, if the session remembers them.
    #[must_use]
    pub fn files_at(&self, state: &EarlierState) -> Option<Arc<Snapshot>> {
        match state {
            EarlierState::LastRun => Some(Arc::clone(&self.seen.snapshot)),
            EarlierState::LastGreen => self.last_green(),
            EarlierState::Revision(_) => None,
        }
    }

    /// The known tests, by package or file.
    #[must_use]
    pub fn tests(&self) -> &BTreeMap<String, BTreeMap<String, LastResult>> {
        &self.tests
    }

    /// Number of the known tests.
    #[must_use]
    pub fn known_tests(&self) -> u64 {
        self.tests.values().map(|tests| tests.len() as u64).sum()
    }

    /// Whether the tests have more names than a session remembers.
    #[must_use]
    pub fn has_unknown_tests(&self) -> bool {
        self.has_unknown_tests
    }

    /// The texts of `file` that line numbers of the coverage index may refer to; `None` if one of them is not known.
    #[must_use]
    pub fn measured_texts(&self, file: &str) -> Option<Vec<FileText>> {
        let own = self.seen.snapshot.file(file);
        let earlier = self.earlier.get(file);
        if earlier.is_some_and(|earlier| earlier.has_unknown) || own.is_some_and(|own| !own.is_settled) {
            return None;
        }
        let mut texts: Vec<FileText> = own.into_iter().map(|own| own.text.clone()).collect();
        for text in earlier.into_iter().flat_map(|earlier| &earlier.texts) {
            if !texts.contains(text) {
                texts.push(text.clone());
            }
        }
        Some(texts).filter(|texts| !texts.is_empty())
    }

    /// The text of `file` with this number ([`FileText::content_number`]) that tests were measured with, if it is remembered.
    #[must_use]
    pub fn text_with(&self, file: &str, content: u64) -> Option<&FileText> {
        let own = self.seen.snapshot.file(file).map(|own| &own.text);
        let earlier = self.earlier.get(file).into_iter().flat_map(|earlier| &earlier.texts);
        own.into_iter().chain(earlier).find(|text| text.content_number() == content)
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let earlier = self
            .earlier
            .iter()
            .map(|(path, earlier)| path.len() + earlier.texts.iter().map(FileText::memory_bytes).sum::<usize>());
        let green = match &self.green {
            Green::Earlier(snapshot) => snapshot.memory_bytes(),
            Green::Never | Green::Baseline => 0,
        };
        size_of::<Baseline>()
            + self.seen.snapshot.memory_bytes()
            + green
            + self.tests_bytes()
            + earlier.sum::<usize>()
            + self.seen.tools.keys().map(|path| path.len() + 64).sum::<usize>()
    }

    fn tests_bytes(&self) -> usize {
        let of_unit = |(unit, tests): (&String, &TestsOfUnit)| {
            unit.len() + 64 + tests.keys().map(|name| name.len() + 32).sum::<usize>()
        };
        self.tests.iter().map(of_unit).sum()
    }
}

// Whether the run executed everything that had to be executed since the baseline.
fn follows(request: &RunRequest, report: &Report) -> bool {
    let is_affected = matches!(request.selection, Selection::Affected { since: EarlierState::LastRun });
    is_affected && report.affected.as_ref().is_some_and(|affected| affected.full_reason.is_none())
}

/// The tests that cover a file or line as it is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CoveringNow {
    /// The tests.
    pub covering: CoveringTests,
    /// Whether the file differs from a measured text; `None` if these texts are not known.
    pub is_edited: Option<bool>,
    /// Whether the line was looked up where it was when it was measured. False for a line that is new since then.
    pub is_moved: bool,
}

/// The tests that executed one of `lines` of `now`, the current text of `file`, or any line: lines are moved along the edits since
/// each measurement.
#[must_use]
pub fn covering_now(
    baseline: Option<&Baseline>,
    index: &CoverageIndex,
    file: &str,
    lines: Option<LineSpan>,
    now: Option<&FileText>,
) -> CoveringNow {
    let covering = |lines: Option<LineSpan>| match lines {
        Some(lines) => index.tests_of_lines(file, &[lines]),
        None => index.covering(file, None),
    };
    let unmoved = |is_edited| CoveringNow { covering: covering(lines), is_edited, is_moved: false };
    let texts = baseline.and_then(|baseline| baseline.measured_texts(file));
    let (Some(texts), Some(now)) = (texts, now) else { return unmoved(None) };
    let is_edited = texts.iter().any(|text| text.content != now.content);
    let Some(lines) = lines.filter(|_| is_edited) else { return unmoved(Some(is_edited)) };
    let mut old: Vec<LineSpan> = Vec::new();
    for text in &texts {
        let map = LineMap::new(text, now);
        if !map.knows_lines() {
            return unmoved(Some(true));
        }
        old.extend(map.old_lines(lines));
    }
    let is_moved = !old.is_empty();
    let found = index.tests_of_lines(file, &united(old));
    CoveringNow { covering: found, is_edited: Some(true), is_moved }
}
