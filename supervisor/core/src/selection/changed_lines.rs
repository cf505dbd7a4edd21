//! The tests that executed changed lines.

use super::Reason;
use super::body::Body;
use super::picks::Picks;
use super::selection_input::SelectionInput;
use super::snapshot::{ChangedFile, HowChanged};
use super::text::{LineMap, bodies_of};
use crate::bounds::SELECTION_LINES_MAX;
use crate::coverage::{LineSpan, united};
use crate::test_case::TestId;
use std::collections::BTreeSet;

/// Where lines of a changed file were when its tests were measured.
struct MeasuredLines(Vec<LineMap>);

impl MeasuredLines {
    /// `None` if a text that tests were measured with is not known, or differs in more lines than are compared.
    fn new(input: &SelectionInput<'_>, change: &ChangedFile) -> Option<MeasuredLines> {
        let texts = input.baseline.measured_texts(&change.path)?;
        let maps = texts.iter().map(|text| Some(LineMap::new(text, change.new.as_ref()?)));
        let maps: Vec<LineMap> = maps.collect::<Option<_>>()?;
        maps.iter().all(LineMap::knows_lines).then_some(MeasuredLines(maps))
    }

    fn around(&self, lines: &[LineSpan]) -> Vec<LineSpan> {
        let lines = lines.iter().flat_map(|lines| self.0.iter().flat_map(|map| map.old_lines_around(*lines)));
        united(lines.collect())
    }
}

/// Selects the tests that executed a changed line: these are the most likely to fail.
pub(super) fn add_tests_that_executed(input: &SelectionInput<'_>, picks: &mut Picks, change: &ChangedFile) {
    let executing = || {
        let map = LineMap::new(change.old.as_ref()?, change.new.as_ref()?);
        let changed = map.changed_lines();
        let measured = MeasuredLines::new(input, change)?;
        let is_compared = map.knows_lines() && changed.len() <= SELECTION_LINES_MAX;
        is_compared.then(|| input.index.tests_touching(&change.path, Some(&measured.around(&changed))).tests)
    };
    for test in executing().into_iter().flatten() {
        picks.test(&test, Reason::ExecutedLine(change.path.clone()));
    }
}

/// Selects the test files (JavaScript) or targets (Rust) with a test of [`add_tests_of_lines`]. False if these are not all that may be
/// affected.
pub(super) fn add_tests_of_functions(input: &SelectionInput<'_>, picks: &mut Picks, change: &ChangedFile) -> bool {
    let Some(tests) = add_tests_of_lines(input, picks, change, false) else { return false };
    let units: BTreeSet<String> = tests.into_iter().map(|test| test.package).collect();
    units.iter().for_each(|unit| picks.whole(unit, Reason::ExecutedFunction(change.path.clone())));
    true
}

/// Selects the tests that executed a changed line, and returns those that executed any line of a function in whose body lines changed, or
/// may need what another test executed there. None if these are not all that may be affected: a line outside of bodies changed, what was
/// measured is not known, or a function that no test executed, unless `is_all_measured` says that none can have.
///
/// The whole function counts: what is declared in it is known from its beginning.
pub(super) fn add_tests_of_lines(
    input: &SelectionInput<'_>,
    picks: &mut Picks,
    change: &ChangedFile,
    is_all_measured: bool,
) -> Option<BTreeSet<TestId>> {
    let map = LineMap::new(change.old.as_ref()?, change.new.as_ref()?);
    let text = input.sources.get(&change.path).filter(|_| change.how == HowChanged::Edited)?;
    let measured = MeasuredLines::new(input, change).filter(|_| map.knows_lines())?;
    let changed = map.changed_lines();
    if changed.len() > SELECTION_LINES_MAX {
        return None;
    }
    // These are the most likely to fail.
    let executing = || input.index.tests_touching(&change.path, Some(&measured.around(&changed))).tests;
    let executing = tests_coming_by(input, change).unwrap_or_else(|| executing().into_iter().collect());
    executing.iter().for_each(|test| picks.test(test, Reason::ExecutedLine(change.path.clone())));
    if map.changes_declarations() {
        return None;
    }
    let bodies = bodies_of(&change.path, text).unwrap_or_default();
    let mut around: BTreeSet<Body> = BTreeSet::new();
    for lines in &changed {
        let indices = (lines.first..=lines.last).filter_map(|line| usize::try_from(line - 1).ok());
        let found: BTreeSet<Body> = indices.filter_map(|index| bodies.get(index).copied().flatten()).collect();
        if found.is_empty() {
            return None;
        }
        around.extend(found);
    }
    let mut tests: BTreeSet<TestId> = BTreeSet::new();
    for (first, last) in around {
        // The lines between those of the brackets.
        let lines = LineSpan { first: u32::try_from(first + 2).ok()?, last: u32::try_from(last).ok()? };
        let lines = measured.around(&[lines]);
        let executing = input.index.tests_touching(&change.path, Some(&lines)).tests;
        if executing.is_empty() && !is_all_measured {
            return None;
        }
        tests.extend(executing);
        tests.extend(input.index.tests_of_kept_lines(&change.path, &lines).tests);
    }
    Some(tests)
}

/// The tests that came by lines that changed: any other runs as before, as far as lines tell. None if the kinds of the changed lines do
/// not tell that, if no test came by one of them, or if the change is one since another state than that of the baseline: tests may have
/// been measured behind it.
pub(super) fn tests_coming_by(input: &SelectionInput<'_>, change: &ChangedFile) -> Option<BTreeSet<TestId>> {
    let last = input.baseline.seen.snapshot.file(&change.path)?;
    if change.old.as_ref() != Some(&last.text) {
        return None;
    }
    let mut tests: BTreeSet<TestId> = BTreeSet::new();
    for text in input.baseline.measured_texts(&change.path)? {
        let map = LineMap::new(&text, change.new.as_ref()?);
        let lines = map.executing_lines()?;
        if lines.len() > SELECTION_LINES_MAX {
            return None;
        }
        for lines in lines {
            let executing = input.index.tests_touching(&change.path, Some(&[*lines])).tests;
            if executing.is_empty() {
                return None;
            }
            tests.extend(executing);
        }
    }
    Some(tests).filter(|tests| !tests.is_empty())
}

/// Whether an edit may give other numbers to lines that did not change.
pub(super) fn moves_lines(change: &ChangedFile) -> bool {
    change.old.as_ref().zip(change.new.as_ref()).is_none_or(|(old, new)| LineMap::new(old, new).moves_lines())
}
