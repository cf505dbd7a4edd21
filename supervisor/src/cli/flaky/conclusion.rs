//! What follows from the stages of the hunt, in one sentence with its counts. Says that a condition makes the test fail only
//! if the 95 % intervals of the rates with and without it have nothing in common.

use super::stage::{Condition, LITTLE_CPU_MILLIS, Stage};
use proctor_core::history::flakiness::Rate;
use proctor_core::outcome::Outcome;
use proctor_proto::printable::line;

/// The exit status: 1 if the test failed, else that of the first stage whose tests did not run to their end.
pub(super) fn exit_status(stages: &[Stage]) -> u8 {
    if stages.iter().any(|stage| stage.outcome == Outcome::Cancelled) {
        return crate::cli::CANCELLED;
    }
    if stages.iter().any(|stage| stage.failures > 0) {
        return Outcome::Failed.exit_code(None);
    }
    if let Some(stage) = stages.iter().find(|stage| !stage.is_conclusive()) {
        return stage.exit_code;
    }
    // A test that was skipped each time gave no result.
    let has_results = stages.iter().any(|stage| stage.executions > 0);
    if has_results { 0 } else { Outcome::NoTests.exit_code(None) }
}

/// What follows from the stages.
pub(super) fn conclusion(stages: &[Stage]) -> String {
    let Some((alone, others)) = stages.split_first() else { return "nothing was executed".to_owned() };
    if alone.is_mixed() && alone.others > 0 {
        return format!(
            "it is flaky; the runner cannot select it alone and ran {} other test(s) with it",
            alone.others
        );
    }
    if alone.is_mixed() {
        let causes: Vec<String> = others.iter().filter_map(|stage| own_cause(alone, stage)).collect();
        let first = "it is flaky by itself: no other test is needed for a failure".to_owned();
        return [first].into_iter().chain(causes).collect::<Vec<_>>().join("; ");
    }
    if alone.failures > 0 {
        return "it failed each time, so this run shows a broken test and no flaky one".to_owned();
    }
    if let Some(stage) = stages.iter().find(|stage| !stage.is_conclusive())
        && stages.iter().all(|stage| stage.failures == 0)
    {
        let (name, outcome) = (stage.condition.name(), stage.outcome.name());
        return format!("nothing follows: the tests did not run to their end ({name}: {outcome})");
    }
    if let Some(pressed) = failing(others, |condition| *condition == Condition::AloneLittleCpu) {
        return under_pressure(alone, pressed);
    }
    if others.iter().any(|stage| stage.failures > 0) {
        return from_others(alone, others);
    }
    without_failure(stages)
}

/// The last stage of a kind in which the test failed.
fn failing(stages: &[Stage], is_wanted: impl Fn(&Condition) -> bool) -> Option<&Stage> {
    stages.iter().rev().find(|stage| stage.failures > 0 && is_wanted(&stage.condition))
}

/// What a further stage shows of a test that is flaky by itself; `None` if the rates do not surely differ.
fn own_cause(alone: &Stage, stage: &Stage) -> Option<String> {
    let (with, without) = (stage.counts(), alone.counts());
    match &stage.condition {
        Condition::AloneFixed(chance) if alone.fails_more_than(stage) || stage.fails_more_than(alone) => Some(format!(
            "{} decides: with {}={} it failed {with} executions, without {without}",
            chance.what, chance.variable, chance.value
        )),
        Condition::AloneSeeded(seed) if stage.fails_more_than(alone) => {
            Some(format!("random values decide: with seed {seed} it failed {with} executions, without {without}"))
        }
        Condition::AloneLittleCpu if stage.fails_more_than(alone) => Some(format!(
            "it fails more often under cpu pressure: {with} executions with {} processors, {without} without that limit",
            little_cpu()
        )),
        _ => None,
    }
}

fn little_cpu() -> f64 {
    f64::from(LITTLE_CPU_MILLIS) / 1_000.0
}

fn under_pressure(alone: &Stage, pressed: &Stage) -> String {
    let counts = format!(
        "{} executions with {} processors, {} without that limit",
        pressed.counts(),
        little_cpu(),
        alone.counts()
    );
    if pressed.fails_more_than(alone) {
        format!("it fails only under cpu pressure: {counts}")
    } else {
        format!("it failed under cpu pressure ({counts}): too few executions to say that this is the cause")
    }
}

/// What follows if it did not fail alone, and failed with other tests.
fn from_others(alone: &Stage, others: &[Stage]) -> String {
    if let Some((stage, name)) = others.iter().rev().find_map(|stage| Some((stage, stage.condition.culprit()?))) {
        if stage.failures == 0 {
            let (name, executions) = (line(name), stage.executions);
            return format!("it failed when {name} ran before it, but in none of {executions} further executions");
        }
        if stage.others <= 1 {
            let is_before = stage.before.iter().any(|test| test.full_name() == name);
            let ran = if is_before { "ran before it" } else { "ran with it" };
            return after(&line(name), ran, alone, stage);
        }
    }
    if let Some(stage) =
        failing(others, |condition| matches!(condition, Condition::AfterSome(_) | Condition::AfterEarlier { .. }))
    {
        let (Some(first), Some(last)) = (stage.before.first(), stage.before.last()) else {
            return among_others(others);
        };
        let ends = format!(" (from {} to {})", line(&first.full_name()), line(&last.full_name()));
        let which = match stage.before.len() {
            1 => line(&first.full_name()).into_owned(),
            count => format!("the same {count} tests"),
        };
        let later = others.iter().rev().take_while(|later| !std::ptr::eq(*later, stage));
        let halves_that_pass = later.filter(|half| half.shows_passes()).count();
        let no_less = match stage.before.len() {
            1 => String::new(),
            _ if halves_that_pass > 1 => format!("{ends}, and no half of them was enough"),
            _ => format!("{ends}; not every half of them ran to its end"),
        };
        return after(&which, &format!("ran before it{no_less}"), alone, stage);
    }
    if let Some(stage) = failing(others, |condition| matches!(condition, Condition::ShuffledBy(_)))
        && stage.fails_more_than(alone)
    {
        let name = stage.condition.name();
        return format!(
            "it fails only in some orders: {} executions {name}, {} alone; no smaller group of tests was found",
            stage.counts(),
            alone.counts()
        );
    }
    among_others(others)
}

/// What follows from failures behind `which` tests.
fn after(which: &str, ran: &str, alone: &Stage, stage: &Stage) -> String {
    let counts = format!("{} executions then, {} alone", stage.counts(), alone.counts());
    if stage.fails_more_than(alone) {
        format!("it fails only when {which} {ran}: {counts}")
    } else {
        format!("it failed when {which} {ran} ({counts}): too few executions to say that this is the cause")
    }
}

fn among_others(others: &[Stage]) -> String {
    let failed = others.iter().find(|stage| stage.failures > 0);
    match failed.map(|stage| &stage.condition) {
        Some(condition @ (Condition::Reversed | Condition::Shuffled)) => {
            let counts = failed.map(Stage::counts).unwrap_or_default();
            let own = others.iter().find(|stage| stage.condition == Condition::AmongAll);
            let own = own
                .map_or_else(String::new, |own| format!(", and {} among all tests in their own order", own.counts()));
            format!("it failed {counts} executions {}{own}", condition.name())
        }
        _ => "it fails only among other tests: by their order, by what they leave behind, or by the load".to_owned(),
    }
}

fn without_failure(stages: &[Stage]) -> String {
    let Some(among) = stages.iter().find(|stage| stage.condition == Condition::AmongAll) else {
        return "it did not fail alone, and there is no result among all tests".to_owned();
    };
    if among.executions == 0 {
        return "it did not fail alone, and has no result among all tests: the project file may leave it out of them"
            .to_owned();
    }
    let all: u64 = stages.iter().map(|stage| stage.executions).sum();
    let most = Rate::new(0, all).high * 100.0;
    format!("it did not fail: a test that passes {all} times fails in at most {most:.0} % of its executions (95 %)")
}
