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
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use proctor_core::test_name::TestName;
use proctor_proto::printable::line;
use serde_json::json;
use std::fmt::Write as _;

/// The second stage. A project file may leave out tests of it.
const AMONG_ALL: &str = "among all tests";

/// Results of the test in the executions of one run.
#[derive(Debug, Clone)]
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
    /// Exit status of the outcome.
    exit_code: u8,
}

impl Stage {
    fn from_report(name: String, report: &Report, wanted: &str) -> Result<Stage, CommandError> {
        let mut named = report.tests.iter().filter(|test| test.spellings().any(|name| name == wanted));
        let (test, other) = (named.next(), named.next());
        if let (Some(one), Some(other)) = (test, other) {
            let (one, other) = (line(&one.nodeid), line(&other.nodeid));
            return Err(CommandError::usage(format!(
                "several tests have this name: {one}, {other}; give the whole name"
            )));
        }
        let wanted_id = test.map(|test| test.nodeid.clone());
        let (executions, failures) = test.map_or((0, 0), |test| counts_of(report, test));
        let failed_after = test.and_then(|test| failed_after(report, test));
        let related = |test: &&TestCase| {
            let (a, b) =
                (format!("{}/", test.nodeid), wanted_id.as_ref().map(|id| format!("{id}/")).unwrap_or_default());
            !(a.starts_with(&b) || b.starts_with(&a))
        };
        let others = report.tests.iter().filter(related).count();
        let exit_code = report.outcome.exit_code(report.evidence.signal);
        Ok(Stage { name, others, executions, failures, failed_after, outcome: report.outcome, exit_code })
    }

    fn shown(&self) -> String {
        if self.executions == 0 {
            return format!("{}: the test gave no result ({})", self.name, self.outcome.name());
        }
        let rate = Rate::new(self.failures, self.executions);
        let cut = if self.is_conclusive() { String::new() } else { format!(", then {}", self.outcome.name()) };
        format!("{}: failed {} of {} executions ({rate}){cut}", self.name, self.failures, self.executions)
    }

    fn is_mixed(&self) -> bool {
        self.failures > 0 && self.failures < self.executions
    }

    /// Whether the tests ran to their end, passed or failed: only then does a lack of failures show something.
    fn is_conclusive(&self) -> bool {
        matches!(self.outcome, Outcome::Passed | Outcome::Failed)
    }
}

/// Executions that passed or failed the test, and the failures among them. Those of its subtests count.
fn counts_of(report: &Report, test: &TestCase) -> (u64, u64) {
    match &report.repetitions {
        Some(repetitions) => {
            let counts = repetitions.counts.get(&test.id()).copied().unwrap_or_default();
            (counts.executions(), counts.failures())
        }
        None if report.partial && report.outcome != Outcome::Crashed => (0, 0),
        None => match test.outcome {
            TestOutcome::Passed => (1, 0),
            TestOutcome::Failed | TestOutcome::Error => (1, 1),
            TestOutcome::Skipped | TestOutcome::Xfailed | TestOutcome::Xpassed => (0, 0),
        },
    }
}

/// The name of the test that finished before the first failure of `test`, or of its subtest that fails most often; no
/// other subtest of it.
fn failed_after(report: &Report, test: &TestCase) -> Option<String> {
    let below = format!("{}/", test.name);
    let is_part = |id: &TestId| id.package == test.package && (id.name == test.name || id.name.starts_with(&below));
    let flaky = report.repetitions.iter().flat_map(|repetitions| &repetitions.flaky);
    let mut before = flaky.filter(|flaky| is_part(&flaky.test)).filter_map(|flaky| flaky.failed_after.as_ref());
    before.find(|before| !is_part(before)).map(|before| whole_name(report, before))
}

/// The exit status: 1 if the test failed, else that of the first stage whose tests did not run to their end.
fn exit_status(stages: &[Stage]) -> u8 {
    if stages.iter().any(|stage| stage.outcome == Outcome::Cancelled) {
        return super::CANCELLED;
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

/// Executes the test in stages and says what follows. Exit status 1 if it failed at least once, 0 if it had results and
/// never failed, else that of the outcome which kept the tests from running to their end.
pub(super) fn flaky(arguments: &FlakyArgs) -> Result<u8, CommandError> {
    let workspace = in_process::workspace(&arguments.path)?;
    in_process::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let (session, _) = in_process::session(workspace)?;
        let executed = execute_stages(arguments, &session, &mut signals).await;
        run::flush_history(&session).await;
        session.close().await;
        let stages = executed?;
        match arguments.output {
            Output::Human => print::text(&human(&stages))?,
            Output::Json => print::document(&document(&stages))?,
        }
        Ok(exit_status(&stages))
    })
}

/// Executes the test alone, then with others until a stage shows what makes it fail.
async fn execute_stages(
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
    let among = execute(arguments, session, signals, AMONG_ALL.to_owned(), Selection::All).await?;
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
    if let Some(stage) = stages.iter().find(|stage| !stage.is_conclusive())
        && stages.iter().all(|stage| stage.failures == 0)
    {
        let (name, outcome) = (&stage.name, stage.outcome.name());
        return format!("nothing follows: the tests did not run to their end ({name}: {outcome})");
    }
    let Some(among) = others.first() else {
        return format!("it did not fail alone, and there is no result {AMONG_ALL}");
    };
    if among.executions == 0 {
        return format!(
            "it did not fail alone, and has no result {AMONG_ALL}: the project file may leave it out of them"
        );
    }
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
    use proctor_core::repetition::{ExecutionTally, Repetitions};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn stage(name: &str, failures: u64) -> Stage {
        let others = usize::from(name != "alone");
        let (name, outcome) = (name.to_owned(), if failures > 0 { Outcome::Failed } else { Outcome::Passed });
        let exit_code = outcome.exit_code(None);
        Stage { name, others, executions: 10, failures, failed_after: None, outcome, exit_code }
    }

    fn cut_off(name: &str, failures: u64, outcome: Outcome) -> Stage {
        Stage { outcome, exit_code: outcome.exit_code(None), ..stage(name, failures) }
    }

    #[test]
    fn a_stage_that_did_not_run_to_its_end_is_no_success() {
        let (alone, among) = (stage("alone", 0), "among all tests");
        for (stages, status) in [
            (vec![alone.clone(), stage(among, 0)], 0),
            (vec![alone.clone(), stage(among, 1)], 1),
            (vec![alone.clone(), cut_off(among, 1, Outcome::Crashed)], 1),
            (vec![alone.clone(), cut_off(among, 0, Outcome::BuildFailed)], 3),
            (vec![alone.clone(), cut_off(among, 0, Outcome::TimedOut)], 124),
            (vec![alone.clone(), cut_off(among, 0, Outcome::OutOfMemory)], 137),
            (vec![alone.clone(), cut_off(among, 0, Outcome::WorkerLost)], 5),
            (vec![cut_off("alone", 0, Outcome::CollectionFailed)], 3),
            (vec![cut_off("alone", 1, Outcome::Cancelled)], 130),
            (vec![Stage { executions: 0, ..alone.clone() }], 4),
            // Other tests may fail.
            (vec![alone.clone(), cut_off(among, 0, Outcome::Failed)], 0),
        ] {
            assert_eq!(exit_status(&stages), status, "{stages:?}");
            let is_inconclusive = ![0, 1, 4, 130].contains(&status);
            assert_eq!(conclusion(&stages).starts_with("nothing follows"), is_inconclusive, "{stages:?}");
        }
    }

    /// A report of executions of a parent `T`, its subtest and another test.
    fn repeated_report(executions: &[[TestOutcome; 3]]) -> Report {
        let case = |name: &str, outcome| {
            let id = TestId { package: "p".to_owned(), name: name.to_owned() };
            TestCase::new(id, format!("p/{name}"), outcome)
        };
        let now = proctor_core::timestamp::Timestamp(0);
        let limits = proctor_core::limits::Limits::DEFAULT;
        let reason = proctor_core::outcome::KillReason::Cancelled;
        let mut report = crate::runs::without_running(now, limits, "go", reason, "");
        let mut tally = ExecutionTally::default();
        for (number, outcomes) in (1..).zip(executions) {
            let tests: Vec<TestCase> =
                ["T", "T/a", "U"].iter().zip(outcomes).map(|(name, outcome)| case(name, *outcome)).collect();
            tally.add(number, &tests, &BTreeMap::new(), "");
            report.tests = tests;
        }
        let counts = Arc::new(tally.counts());
        let (_, flaky) = tally.flaky();
        let executions = u32::try_from(executions.len()).unwrap();
        let (requested, failed, retries, files_changed) = (executions, 1, 0, false);
        report.repetitions = Some(Repetitions { requested, executions, failed, retries, flaky, counts, files_changed });
        report.outcome = Outcome::Failed;
        report
    }

    #[test]
    fn counts_the_results_of_a_parent_by_those_of_its_subtests() {
        use TestOutcome::{Failed, Passed, Skipped};
        let report = repeated_report(&[
            [Passed, Passed, Skipped],
            [Passed, Passed, Failed],
            [Failed, Failed, Skipped],
            [Failed, Failed, Skipped],
        ]);
        for (name, executions, failures) in [("T", 4, 2), ("p/T/a", 4, 2), ("U", 1, 1), ("V", 0, 0)] {
            let stage = Stage::from_report("alone".to_owned(), &report, name).unwrap();
            assert_eq!((stage.executions, stage.failures), (executions, failures), "{name}");
        }
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
            (
                vec![stage("alone", 0), Stage { executions: 0, ..stage(AMONG_ALL, 0) }],
                "it did not fail alone, and has no result among all tests",
            ),
        ] {
            assert!(conclusion(&stages).starts_with(expected), "{stages:?}: {}", conclusion(&stages));
        }
    }
}
