//! `proctor history`: the earlier runs of a workspace, how a test fared, flaky and slow tests. Runs no tests.

use super::arguments::{HistoryArgs, Output};
use super::{CommandError, in_process, print, xdg_dirs};
use crate::clock::Clock;
use crate::history::query::{
    FrameworkState, HistoryAnswer, HistoryQuery, PastResult, PastRun, TestTrend, has_runs, look_up,
};
use crate::history::{HistoryError, HistoryLocation, WorkspaceKey};
use crate::workspace::Workspace;
use proctor_core::test_case::TestId;
use proctor_core::timestamp::Timestamp;
use proctor_proto::printable::{cut, line};
use proctor_proto::text::ago;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Columns shown of a name, which is last in its line: all of any that a person would type.
const NAME_COLUMNS: usize = 400;

/// Columns shown of an outcome; only `collection_failed` is longer.
const OUTCOME_COLUMNS_MAX: usize = 14;

const DAY_MS: u64 = 24 * 3_600_000;

/// Prints the history. Exit status 0 even if it is empty.
pub(super) fn history(arguments: &HistoryArgs) -> Result<u8, CommandError> {
    let location = xdg_dirs::history()
        .ok_or_else(|| CommandError::host("neither XDG_STATE_HOME nor HOME is set to an absolute path"))?;
    let unavailable = |error: HistoryError| CommandError::host(format!("the history is unavailable: {error}"));
    let workspace = workspace_with_runs(arguments.path.as_deref(), &location).map_err(|error| match error {
        Ok(failure) => failure,
        Err(error) => unavailable(error),
    })?;
    let query = HistoryQuery {
        limit: usize::try_from(arguments.limit).unwrap_or(usize::MAX),
        test: arguments.test.clone().unwrap_or_default(),
        flaky: arguments.flaky,
        slow: arguments.slow,
        never_failing: false,
    };
    let answer = look_up(&location, workspace, &query).map_err(unavailable)?;
    match arguments.output {
        Output::Human => print::text(&human(&answer, &query, Clock::wall_time())).map(|()| 0),
        Output::Json => print::document(&document(&answer)).map(|()| 0),
    }
}

// The named workspace; otherwise the nearest directory from here upwards with recorded runs; otherwise this directory.
fn workspace_with_runs(
    path: Option<&Path>,
    location: &HistoryLocation,
) -> Result<WorkspaceKey, Result<CommandError, HistoryError>> {
    let here = in_process::workspace(path.unwrap_or(Path::new("."))).map_err(Ok)?;
    if path.is_none() {
        for workspace in here.root().ancestors().filter_map(|above| Workspace::open(above).ok()) {
            let key = WorkspaceKey::for_workspace(&workspace);
            if has_runs(location, key).map_err(Err)? {
                return Ok(key);
            }
        }
    }
    Ok(WorkspaceKey::for_workspace(&here))
}

fn human(answer: &HistoryAnswer, query: &HistoryQuery, now: Timestamp) -> String {
    let mut text = String::new();
    if answer.total_runs == 0 {
        return "no recorded run of this workspace: `proctor run` records each\n".to_owned();
    }
    if !query.test.is_empty() {
        trends(&mut text, answer, query, now);
    }
    if query.flaky {
        flaky(&mut text, answer);
    }
    if query.slow {
        slow(&mut text, answer);
    }
    if query.test.is_empty() && !query.flaky && !query.slow {
        runs(&mut text, answer, now);
    }
    text
}

fn runs(text: &mut String, answer: &HistoryAnswer, now: Timestamp) {
    let outcome_columns =
        answer.runs.iter().map(|run| run.outcome.name().len()).max().unwrap_or(0).clamp(7, OUTCOME_COLUMNS_MAX);
    let _ = writeln!(
        text,
        "{:<7} {:<outcome_columns$} {:>6} {:>6} {:>5} {:>5} {:>5} {:>7} {:<7} FRAMEWORK",
        "AGE", "OUTCOME", "PASSED", "FAILED", "NEW", "FIXED", "STILL", "TIME", "TESTS"
    );
    // The name of the framework is last and takes what is left of eighty columns.
    let framework_columns = 23 - outcome_columns;
    for run in &answer.runs {
        let [new, fixed, still] = match run.changes {
            Some(changes) => changes.map(|count| count.to_string()),
            None => ["-", "-", "-"].map(str::to_owned),
        };
        let _ = writeln!(
            text,
            "{:<7} {:<outcome_columns$} {:>6} {:>6} {new:>5} {fixed:>5} {still:>5} {:>7} {:<7} {}",
            age(now, run.ended_at).trim_end_matches(" ago").trim_start_matches("just "),
            cut(run.outcome.name(), outcome_columns),
            run.summary.passed,
            run.summary.failures(),
            run_time(run.duration_us),
            run.selection,
            cut(&line(&run.framework), framework_columns),
        );
    }
    let shown = answer.runs.len() as u64;
    if answer.total_runs > shown {
        let _ = writeln!(text, "… and {} earlier: `--limit N`", answer.total_runs - shown);
    }
    for state in &answer.frameworks {
        framework_state(text, state, answer.frameworks.len() > 1, now);
    }
}

fn framework_state(text: &mut String, state: &FrameworkState, is_named: bool, now: Timestamp) {
    let name = if is_named { format!("{}: ", line(&state.framework)) } else { String::new() };
    let _ = match &state.last_green {
        Some(green) if green.runs_after == 0 => writeln!(text, "{name}all tests passed in the latest run"),
        Some(green) => {
            let (age, runs) = (age(now, green.ended_at), counted(green.runs_after, "run"));
            writeln!(text, "{name}all tests passed last {age}, {runs} before the latest")
        }
        None => writeln!(text, "{name}no run of all tests has passed yet"),
    };
    if state.red_streak > 1 {
        let _ = writeln!(text, "{name}the last {} of all tests did not pass", counted(state.red_streak, "run"));
    }
}

/// Seven columns for all but the longest runs.
fn run_time(us: u64) -> String {
    if us < 100_000_000 { duration(Some(us)) } else { format!("{}.{}s", us / 1_000_000, us / 100_000 % 10) }
}

fn trends(text: &mut String, answer: &HistoryAnswer, query: &HistoryQuery, now: Timestamp) {
    if answer.trends.is_empty() {
        let _ = writeln!(text, "no recorded test is named {:?} or contains it", line(&query.test));
    }
    for TestTrend { test, results, failure_streak } in &answer.trends {
        let _ = writeln!(text, "{}", name(test));
        for PastResult { run_id, ended_at, result } in results {
            let (age, time) = (age(now, *ended_at), duration(result.duration_us));
            let _ = writeln!(text, "  {age:<11} {:<8} {time:>9}  {}", result.outcome.name(), line(run_id));
        }
        if *failure_streak > 0 {
            let _ = writeln!(text, "  failed {} in a row", counted(*failure_streak, "time"));
        }
    }
    let more = answer.matches - answer.trends.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "… and {more} more tests with such a name");
    }
}

fn flaky(text: &mut String, answer: &HistoryAnswer) {
    if answer.flaky.is_empty() {
        text.push_str("no flaky test: no result changed and came back on the same files, command and environment\n");
        return;
    }
    text.push_str("FAILED / RUNS   RATE  95% INTERVAL  TEST\n");
    for flaky in &answer.flaky {
        let (rate, runs) = (flaky.rate, format!("{} / {}", flaky.failures, flaky.runs));
        let interval = format!("{} to {}", percent(rate.low), percent(rate.high));
        let _ = writeln!(text, "{runs:>13} {:>6} {interval:>13}  {}", percent(rate.rate), name(&flaky.test));
    }
}

fn slow(text: &mut String, answer: &HistoryAnswer) {
    if answer.slow.is_empty() {
        text.push_str(
            "no test became slow: none takes 30 % and 50 ms longer than its median before, beyond its noise\n",
        );
        return;
    }
    text.push_str("   BEFORE       NOW  FACTOR  TEST\n");
    for (test, slowdown) in &answer.slow {
        let time = |us: f64| format!("{:.3}s", us / 1e6);
        let (before, now) = (time(slowdown.before_us), time(slowdown.now_us));
        let _ = writeln!(text, "{before:>9} {now:>9} {:>7.1}  {}", slowdown.factor(), name(test));
    }
}

fn name(test: &TestId) -> String {
    cut(&line(&test.full_name()), NAME_COLUMNS).to_string()
}

fn percent(part: f64) -> String {
    format!("{:.0}%", part * 100.0)
}

pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn age(now: Timestamp, then: Timestamp) -> String {
    match now.ms_since(then) {
        ms if ms >= 2 * DAY_MS => format!("{}d ago", ms / DAY_MS),
        ms => ago(ms),
    }
}

fn duration(us: Option<u64>) -> String {
    us.map_or_else(|| "-".to_owned(), |us| format!("{}.{:03}s", us / 1_000_000, us / 1_000 % 1_000))
}

/// Field names and units are those of a report.
fn document(answer: &HistoryAnswer) -> Value {
    let trend = |trend: &TestTrend| {
        let results = trend.results.iter().map(|past| {
            json!({
                "run_id": past.run_id, "ended_at": past.ended_at, "outcome": past.result.outcome,
                "duration_s": past.result.duration_us.map(seconds),
            })
        });
        json!({
            "package": trend.test.package, "name": trend.test.name, "failure_streak": trend.failure_streak,
            "results": results.collect::<Vec<_>>(),
        })
    };
    json!({
        "total_runs": answer.total_runs,
        "red_streak": answer.frameworks.first().map_or(0, |state| state.red_streak),
        "last_green": answer.frameworks.first().and_then(green_document),
        "frameworks": answer.frameworks.iter().map(|state| json!({
            "framework": state.framework, "last_green": green_document(state), "red_streak": state.red_streak,
        })).collect::<Vec<_>>(),
        "runs": answer.runs.iter().map(run_document).collect::<Vec<_>>(),
        "matches": answer.matches,
        "trends": answer.trends.iter().map(trend).collect::<Vec<_>>(),
        "flaky": answer.flaky.iter().map(|flaky| json!({
            "package": flaky.test.package, "name": flaky.test.name, "runs": flaky.runs, "failures": flaky.failures,
            "rate": flaky.rate.rate, "rate_low": flaky.rate.low, "rate_high": flaky.rate.high,
        })).collect::<Vec<_>>(),
        "slow": answer.slow.iter().map(|(test, slowdown)| json!({
            "package": test.package, "name": test.name, "before_s": slowdown.before_us / 1e6,
            "now_s": slowdown.now_us / 1e6, "factor": slowdown.factor(), "earlier_runs": slowdown.earlier_runs,
        })).collect::<Vec<_>>(),
    })
}

fn green_document(state: &FrameworkState) -> Option<Value> {
    let green = state.last_green.as_ref()?;
    Some(json!({"run_id": green.run_id, "ended_at": green.ended_at, "runs_after": green.runs_after}))
}

fn run_document(run: &PastRun) -> Value {
    let [new, fixed, still_failing] = run.changes.map_or([None; 3], |changes| changes.map(Some));
    json!({
        "run_id": run.run_id, "started_at": run.started_at, "ended_at": run.ended_at, "outcome": run.outcome,
        "framework": run.framework, "selection": run.selection, "partial": run.partial, "summary": run.summary,
        "duration_s": seconds(run.duration_us), "cpu_s": seconds(run.cpu_us),
        "memory_peak_bytes": run.memory_peak_bytes, "new": new, "fixed": fixed, "still_failing": still_failing,
    })
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a run are far below 2^52")]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::query::LastGreen;
    use proctor_core::history::TestResult;
    use proctor_core::history::flakiness::{Flaky, Rate};
    use proctor_core::history::slowness::Slowdown;
    use proctor_core::outcome::Outcome;
    use proctor_core::report::Summary;
    use proctor_core::test_case::TestOutcome;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn answer() -> HistoryAnswer {
        let run = |minutes: u64, outcome, changes| PastRun {
            run_id: format!("s-{minutes}"),
            started_at: Timestamp(NOW.0 - minutes * 60_000 - 3_200),
            ended_at: Timestamp(NOW.0 - minutes * 60_000),
            outcome,
            framework: "go".to_owned(),
            selection: "all".to_owned(),
            partial: outcome == Outcome::TimedOut,
            summary: Summary { total: 500, passed: 498, failed: 2, ..Summary::default() },
            duration_us: 3_200_000,
            cpu_us: 4_000_000,
            memory_peak_bytes: Some(1 << 27),
            changes,
        };
        let test = TestId { package: "example.com/app/parse".to_owned(), name: "TestParse/empty_input".to_owned() };
        HistoryAnswer {
            runs: vec![
                run(3, Outcome::CollectionFailed, Some([12_345, 12_345, 12_345])),
                run(75, Outcome::TimedOut, Some([0, 0, 0])),
                run(5_000, Outcome::Passed, None),
            ],
            total_runs: 40,
            frameworks: vec![
                FrameworkState {
                    framework: "go".to_owned(),
                    last_green: Some(LastGreen {
                        run_id: "s-5000".to_owned(),
                        ended_at: Timestamp(NOW.0 - 300_000_000),
                        runs_after: 2,
                    }),
                    red_streak: 2,
                },
                FrameworkState { framework: "pytest".to_owned(), last_green: None, red_streak: 1 },
            ],
            trends: vec![TestTrend {
                test: test.clone(),
                results: vec![PastResult {
                    run_id: "s-3".to_owned(),
                    ended_at: Timestamp(NOW.0 - 180_000),
                    result: TestResult { outcome: TestOutcome::Failed, duration_us: Some(12_300) },
                }],
                failure_streak: 1,
            }],
            matches: 9,
            flaky: vec![Flaky { test: test.clone(), runs: 29, failures: 1, rate: Rate::new(1, 29) }],
            slow: vec![(test, Slowdown { before_us: 200_000.0, now_us: 400_000.0, earlier_runs: 6 })],
            ..HistoryAnswer::default()
        }
    }

    #[test]
    fn every_table_fits_into_eighty_columns_before_the_names_of_tests() {
        let queries = [
            HistoryQuery::default(),
            HistoryQuery { test: "Parse".to_owned(), ..HistoryQuery::default() },
            HistoryQuery { flaky: true, ..HistoryQuery::default() },
            HistoryQuery { slow: true, ..HistoryQuery::default() },
        ];
        for query in queries {
            for line in human(&answer(), &query, NOW).lines() {
                let before_name = line.split("example.com").next().unwrap();
                assert!(before_name.chars().count() <= 80, "{line}");
            }
        }
    }

    #[test]
    fn shows_runs_with_what_changed() {
        let text = human(&answer(), &HistoryQuery::default(), NOW);
        let expected = "\
AGE     OUTCOME        PASSED FAILED   NEW FIXED STILL    TIME TESTS   FRAMEWORK
3m0s    collection_fa…    498      2 12345 12345 12345  3.200s all     go
1h15m   timed_out         498      2     0     0     0  3.200s all     go
3d      passed            498      2     -     -     -  3.200s all     go
… and 37 earlier: `--limit N`
go: all tests passed last 3d ago, 2 runs before the latest
go: the last 2 runs of all tests did not pass
pytest: no run of all tests has passed yet
";
        assert_eq!(text, expected);
        let none = human(&HistoryAnswer::default(), &HistoryQuery::default(), NOW);
        assert_eq!(none, "no recorded run of this workspace: `proctor run` records each\n");
    }

    #[test]
    fn shows_a_trend_and_flaky_and_slow_tests() {
        let query = HistoryQuery { test: "Parse".to_owned(), flaky: true, slow: true, ..HistoryQuery::default() };
        let expected = "\
example.com/app/parse/TestParse/empty_input
  3m0s ago    failed      0.012s  s-3
  failed 1 time in a row
… and 8 more tests with such a name
FAILED / RUNS   RATE  95% INTERVAL  TEST
       1 / 29     3%     1% to 17%  example.com/app/parse/TestParse/empty_input
   BEFORE       NOW  FACTOR  TEST
   0.200s    0.400s     2.0  example.com/app/parse/TestParse/empty_input
";
        assert_eq!(human(&answer(), &query, NOW), expected);
    }

    #[test]
    fn the_document_has_the_units_of_a_report() {
        let document = document(&answer());
        assert_eq!(document["runs"][0]["duration_s"], 3.2);
        assert_eq!(document["runs"][2]["new"], Value::Null);
        assert_eq!(document["flaky"][0]["failures"], 1);
        assert_eq!(document["slow"][0]["factor"], 2.0);
        assert_eq!(document["trends"][0]["results"][0]["outcome"], "failed");
    }
}
