//! `proctor flaky TEST`: looks for what makes a test fail at times. Executes it alone, among all tests, and after the test
//! that finished before its failure there. Says what was counted, and only what follows from it.

use super::arguments::{FlakyArgs, Output};
use super::signals::Signals;
use super::{CommandError, in_process, print, run};
use crate::sessions::SessionHandle;
use proctor_core::history::flakiness::Rate;
use proctor_core::limits::LimitRequest;
use proctor_core::outcome::Outcome;
use proctor_core::repetition::Repetition;
use proctor_core::report::Report;
use proctor_core::request::{RunRequest, Selection};
use proctor_core::test_case::{TestCase, TestId};
use proctor_core::test_name::TestName;
use proctor_proto::printable::line;
use serde_json::json;
use std::fmt::Write as _;

/// Results of the test in the executions of one run.
#[derive(Debug, Clone, PartialEq)]
struct Stage {
    /// What was executed: `alone`, `among all tests`, `after NAME`.
    name: String,
    /// Other tests that had a result, without its parents and subtests: a runner may be unable to select one test.
    others: usize,
    executions: u64,
    failures: u64,
    /// The test that finished before its first failure.
    failed_after: Option<String>,
    outcome: Outcome,
}

impl Stage {
    fn from_report(name: String, report: &Report, wanted: &str) -> Result<Stage, CommandError> {
        let mut named = report.tests.iter().filter(|test| is_named(test, wanted));
        let (test, other) = (named.next(), named.next());
        if let (Some(one), Some(other)) = (test, other) {
            let (one, other) = (line(&one.nodeid), line(&other.nodeid));
            return Err(CommandError::usage(format!(
                "several tests have this name: {one}, {other}; give the whole name"
            )));
        }
        let wanted_id = test.map(|test| test.nodeid.clone());
        let repetitions = report.repetitions.as_ref();
        let flaky = test.and_then(|test| {
            repetitions?.flaky.iter().find(|flaky| flaky.test.package == test.package && flaky.test.name == test.name)
        });
        let all = repetitions.map_or(1, |repetitions| u64::from(repetitions.executions));
        // The last one did not end.
        let all = all.saturating_sub(u64::from(report.partial));
        let listed = repetitions.map_or(0, |repetitions| repetitions.flaky.len() as u64);
        let (executions, failures, failed_after) = match (flaky, test) {
            (Some(flaky), _) => {
                let before = flaky.failed_after.as_ref().map(|before| whole_name(report, before));
                (flaky.executions, flaky.failures, before)
            }
            // The list of flaky tests is cut: one failure is all that is known.
            (None, Some(test)) if test.outcome.is_failure() && report.flaky_in_run > listed => (1, 1, None),
            (None, Some(test)) if test.outcome.is_failure() => (all, all, None),
            (None, Some(_)) => (all, 0, None),
            (None, None) => (0, 0, None),
        };
        let related = |test: &&TestCase| {
            let (a, b) =
                (format!("{}/", test.nodeid), wanted_id.as_ref().map(|id| format!("{id}/")).unwrap_or_default());
            !(a.starts_with(&b) || b.starts_with(&a))
        };
        let others = report.tests.iter().filter(related).count();
        Ok(Stage { name, others, executions, failures, failed_after, outcome: report.outcome })
    }

    fn shown(&self) -> String {
        if self.executions == 0 {
            return format!("{}: the test gave no result ({})", self.name, self.outcome.name());
        }
        let Rate { rate, low, high } = Rate::new(self.failures, self.executions);
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let (rate, low, high) = (percent(rate), percent(low), percent(high));
        let cut = if matches!(self.outcome, Outcome::Passed | Outcome::Failed) {
            String::new()
        } else {
            format!(", then {}", self.outcome.name())
        };
        format!(
            "{}: failed {} of {} executions ({rate}, 95 % interval {low} to {high}){cut}",
            self.name, self.failures, self.executions
        )
    }

    fn is_mixed(&self) -> bool {
        self.failures > 0 && self.failures < self.executions
    }
}

/// Hunts a flaky test. Exit status 1 if it failed at least once, 0 if it never did.
pub(super) fn flaky(arguments: &FlakyArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.path)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = in_process::session(workspace)?;
        let hunted = hunt(arguments, &session, &mut signals).await;
        let history = session.history();
        session.close().await;
        _ = tokio::task::spawn_blocking(move || history.flush(run::HISTORY_FLUSH_TIMEOUT)).await;
        let stages = hunted?;
        match arguments.output {
            Output::Human => print::text(&human(&stages))?,
            Output::Json => print::document(&document(&stages))?,
        }
        if stages.iter().any(|stage| stage.outcome == Outcome::Cancelled) {
            return Ok(super::CANCELLED);
        }
        Ok(u8::from(stages.iter().any(|stage| stage.failures > 0)))
    })
}

async fn hunt(
    arguments: &FlakyArgs,
    session: &SessionHandle,
    signals: &mut Signals,
) -> Result<Vec<Stage>, CommandError> {
    let named = |names: &[String]| {
        TestName::parse_all(names).map(Selection::Named).map_err(|error| CommandError::usage(error.to_string()))
    };
    let mut stages = Vec::new();
    let alone = named(std::slice::from_ref(&arguments.test))?;
    stages.push(execute(arguments, session, signals, "alone".to_owned(), alone).await?);
    if stages.iter().all(|stage| stage.executions == 0 && stage.outcome == Outcome::NoTests) {
        let text = format!("no test is named {:?}: `proctor list` prints the names", line(&arguments.test));
        return Err(CommandError::usage(text));
    }
    // A test that fails alone needs no other one.
    if stages.iter().any(|stage| stage.failures > 0 || stage.outcome == Outcome::Cancelled) {
        return Ok(stages);
    }
    let among = execute(arguments, session, signals, "among all tests".to_owned(), Selection::All).await?;
    let before = among.failed_after.clone();
    let goes_on = among.is_mixed() && among.outcome != Outcome::Cancelled;
    stages.push(among);
    if let Some(name) = before.filter(|_| goes_on) {
        let stage = format!("with {}", line(&name));
        let pair = named(&[name, arguments.test.clone()])?;
        stages.push(execute(arguments, session, signals, stage, pair).await?);
    }
    Ok(stages)
}

async fn execute(
    arguments: &FlakyArgs,
    session: &SessionHandle,
    signals: &mut Signals,
    name: String,
    selection: Selection,
) -> Result<Stage, CommandError> {
    let request = RunRequest {
        framework: arguments.framework.clone(),
        selection,
        limits: LimitRequest { wall_ms: arguments.timeout.map(|timeout| timeout.ms), ..LimitRequest::default() },
        repetition: Repetition { repeat: arguments.repeat, ..Repetition::ONCE },
        ..RunRequest::default()
    };
    let report = run::execute(session, request, arguments.output == Output::Human, signals).await?;
    Stage::from_report(name, &report, &arguments.test)
}

/// The name by which a request can select a test of the report.
fn whole_name(report: &Report, id: &TestId) -> String {
    let found = report.tests.iter().find(|test| test.package == id.package && test.name == id.name);
    found.map_or_else(|| id.name.clone(), |test| test.nodeid.clone())
}

fn is_named(test: &TestCase, wanted: &str) -> bool {
    let TestCase { package, name, nodeid, .. } = test;
    name == wanted
        || nodeid == wanted
        || ["/", "::", "."].iter().any(|between| wanted == format!("{package}{between}{name}"))
}

/// What follows from the stages.
fn conclusion(stages: &[Stage]) -> String {
    let (alone, others) = match stages {
        [alone, others @ ..] => (alone, others),
        [] => return "nothing was executed".to_owned(),
    };
    if alone.is_mixed() && alone.others > 0 {
        return format!(
            "it is flaky; the runner cannot select it alone and ran {} other test(s) with it",
            alone.others
        );
    }
    if alone.is_mixed() {
        return "it is flaky by itself: no other test is needed for a failure".to_owned();
    }
    if alone.failures > 0 {
        return "it failed each time, so this run shows a broken test and no flaky one".to_owned();
    }
    let Some(among) = others.first().filter(|among| among.executions > 0) else {
        return "it did not fail alone, and there is no result among all tests".to_owned();
    };
    match others.get(1) {
        Some(pair) if pair.failures > 0 && pair.others <= 1 => {
            format!("it fails because of another test: {} is enough", pair.name.trim_start_matches("with "))
        }
        _ if among.failures > 0 => {
            "it fails only among other tests: by their order, by what they leave behind, or by the load".to_owned()
        }
        _ => {
            let all: u64 = stages.iter().map(|stage| stage.executions).sum();
            let most = Rate::new(0, all).high * 100.0;
            format!(
                "it did not fail: a test that passes {all} times fails in at most {most:.0} % of its executions (95 %)"
            )
        }
    }
}

fn human(stages: &[Stage]) -> String {
    let mut text = String::new();
    for stage in stages {
        let _ = writeln!(text, "{}", stage.shown());
    }
    let _ = writeln!(text, "{}", conclusion(stages));
    text
}

fn document(stages: &[Stage]) -> serde_json::Value {
    let stage = |stage: &Stage| {
        let Rate { rate, low, high } = Rate::new(stage.failures, stage.executions);
        json!({
            "name": stage.name, "other_tests": stage.others, "executions": stage.executions, "failures": stage.failures, "rate": rate, "rate_low": low,
            "rate_high": high, "failed_after": stage.failed_after, "outcome": stage.outcome,
        })
    };
    json!({"stages": stages.iter().map(stage).collect::<Vec<_>>(), "conclusion": conclusion(stages)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(name: &str, failures: u64) -> Stage {
        let others = usize::from(name != "alone");
        Stage { name: name.to_owned(), others, executions: 10, failures, failed_after: None, outcome: Outcome::Failed }
    }

    #[test]
    fn concludes_only_what_the_counts_show() {
        for (stages, expected) in [
            (vec![stage("alone", 3)], "it is flaky by itself"),
            (vec![stage("alone", 10)], "it failed each time"),
            (
                vec![stage("alone", 0), stage("among all tests", 0)],
                "it did not fail: a test that passes 20 times fails in at most 16 %",
            ),
            (vec![stage("alone", 0), stage("among all tests", 10)], "it fails only among other tests"),
            (
                vec![stage("alone", 0), stage("among all tests", 4), stage("with p/Polluter", 10)],
                "it fails because of another test: p/Polluter is enough",
            ),
            (
                vec![stage("alone", 0), stage("among all tests", 4), stage("with p/Other", 0)],
                "it fails only among other",
            ),
            (vec![stage("alone", 0)], "it did not fail alone, and there is no result"),
        ] {
            assert!(conclusion(&stages).starts_with(expected), "{stages:?}: {}", conclusion(&stages));
        }
    }
}
