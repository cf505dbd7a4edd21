//! The tests that executed changed lines.

use super::Reason;
use super::body::Body;
use super::picks::Picks;
use super::selection_input::SelectionInput;
use super::snapshot::{ChangedFile, HowChanged};
use super::text::{LineMap, bodies_of};
use crate::bounds::SELECTION_LINES_MAX;
use crate::coverage::{CoveringTests, LineSpan, united};
use std::collections::BTreeSet;

// Selects the tests that executed a changed line of a function's body. False if these are not all that may be affected: a line
// outside of functions changed, a line that no test executed, or what was measured is not known.
pub(super) fn add_executing_tests(input: &SelectionInput<'_>, picks: &mut Picks, change: &ChangedFile) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let map = LineMap::new(old, new);
    if change.how != HowChanged::Edited || !map.knows_lines() || map.changes_declarations() {
        return false;
    }
    let Some(texts) = input.baseline.measured_texts(&change.path) else { return false };
    let mut lines: BTreeSet<u32> = BTreeSet::new();
    for text in &texts {
        let since_measured = LineMap::new(text, new);
        if !since_measured.knows_lines() {
            return false;
        }
        let spans = map.changed_lines().into_iter().flat_map(|span| since_measured.old_lines_around(span));
        lines.extend(spans.flat_map(|span| span.first..=span.last).take(SELECTION_LINES_MAX + 1));
    }
    let reason = Reason::ExecutedLine(change.path.clone());
    if lines.len() > SELECTION_LINES_MAX {
        let covering = input.index.covering(&change.path, None);
        picks.covering_packages(&covering, &Reason::TouchedFile(change.path.clone()));
        return !covering.tests.is_empty();
    }
    let mut is_executed = false;
    for line in lines {
        let covering = input.index.covering(&change.path, Some(line));
        is_executed |= !covering.tests.is_empty();
        picks.covering_packages(&covering, &reason);
    }
    is_executed
}

/// Selects the test files or targets that executed a line of a function of JavaScript or Rust in whose body lines changed. False if these are not all that
/// may be affected: a line outside of bodies changed, a function that no test executed, or what was measured is not known.
///
/// The whole function counts: what is declared in it is known from its beginning.
pub(super) fn add_tests_of_functions(input: &SelectionInput<'_>, picks: &mut Picks, change: &ChangedFile) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
    let map = LineMap::new(old, new);
    let Some(text) = input.sources.get(&change.path).filter(|_| change.how == HowChanged::Edited) else { return false };
    let Some(texts) = input.baseline.measured_texts(&change.path).filter(|_| map.knows_lines()) else { return false };
    let since_measured: Vec<LineMap> = texts.iter().map(|text| LineMap::new(text, new)).collect();
    if !since_measured.iter().all(LineMap::knows_lines) {
        return false;
    }
    let tests_of = |lines: LineSpan| {
        let measured = since_measured.iter().flat_map(|map| map.old_lines_around(lines)).collect();
        input.index.tests_of_lines(&change.path, &united(measured))
    };
    // These are the most likely to fail.
    for lines in map.changed_lines() {
        let executing = tests_of(lines).tests;
        executing.iter().for_each(|test| picks.test(test, Reason::ExecutedLine(change.path.clone())));
    }
    if map.changes_declarations() {
        return false;
    }
    let bodies = bodies_of(&change.path, text).unwrap_or_default();
    let mut found: Vec<CoveringTests> = Vec::new();
    for lines in map.changed_lines() {
        let indices = (lines.first..=lines.last).filter_map(|line| usize::try_from(line - 1).ok());
        let around: BTreeSet<Body> = indices.filter_map(|index| bodies.get(index).copied().flatten()).collect();
        // The lines between those of the brackets.
        let inner = around.iter().filter_map(|(first, last)| {
            Some(LineSpan { first: u32::try_from(first + 2).ok()?, last: u32::try_from(*last).ok()? })
        });
        let executing: Vec<CoveringTests> = inner.map(tests_of).collect();
        if executing.is_empty() || executing.iter().any(|covering| covering.tests.is_empty()) {
            return false;
        }
        found.extend(executing);
    }
    let reason = Reason::ExecutedFunction(change.path.clone());
    found.iter().for_each(|covering| picks.covering_packages(covering, &reason));
    !found.is_empty()
}
