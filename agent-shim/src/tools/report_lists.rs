//! Short lists of `get_test_report`: the runs of the workspace, the slowest tests of the last run, and the flaky tests.

use super::Answer;
use crate::answer::ToolAnswer;
use crate::answer::budget::{Detail, Draw};
use crate::answer::next_call;
use crate::bounded_report;
use crate::call_context::CallContext;
use crate::call_error::CallError;
use proctor_proto::printable::line;
use proctor_proto::report_format::ReportFormat;
use proctor_proto::test_times::{Subtests, parts_in_brackets};
use proctor_proto::text;
use proctor_proto::v1::{HistoryRequest, HistoryResponse, PastRun};
use serde_json::{Value, json};

/// Runs, and tests of each list, that the supervisor is asked for.
const LIMIT: u32 = 50;

/// Budget for a whole plan of what to improve, in tokens.
const PLAN_TOKENS: usize = 10_000;

/// Names of the lists in requests.
pub(super) const NAMES: [&str; 3] = ["history", "slowest", "flaky"];

/// The list with one of [`NAMES`].
pub(super) async fn call(call: &CallContext<'_>, name: &str) -> Result<Answer, CallError> {
    match name {
        "slowest" => slowest(call).await,
        "flaky" => flaky(call).await,
        _ => history(call).await,
    }
}

/// A headline and lines, of which the first ones that fit are shown.
struct List {
    /// Name of the lines in the structured answer.
    name: &'static str,
    headline: String,
    /// Each line as text and as structured content.
    lines: Vec<(String, Value)>,
    /// The call that usually follows.
    next: Option<String>,
}

impl Draw for List {
    fn items(&self) -> usize {
        self.lines.len()
    }

    fn draw(&self, detail: &Detail) -> ToolAnswer {
        let shown = &self.lines[..self.lines.len().min(detail.items)];
        let mut text = format!("{}\n", self.headline);
        shown.iter().for_each(|(line, _)| text.extend([line, "\n"]));
        let left_out = self.lines.len() - shown.len();
        if left_out > 0 {
            text.push_str(&format!("({left_out} more left out; pass a larger max_tokens to see them)\n"));
        }
        let items: Value = shown.iter().map(|(_, value)| value.clone()).collect();
        let members = vec![(self.name, items), ("left_out", left_out.into())];
        ToolAnswer { next: self.next.clone(), ..ToolAnswer::fixed(self.headline.clone(), text, members) }
    }
}

async fn ask(call: &CallContext<'_>, with_flaky: bool) -> Result<HistoryResponse, CallError> {
    call.request_in_session(|mut clients, session_id| {
        let request = HistoryRequest { session_id, limit: LIMIT, flaky: with_flaky, ..HistoryRequest::default() };
        async move { Ok(clients.results.history(request).await?.into_inner()) }
    })
    .await
}

fn nothing_recorded() -> ToolAnswer {
    let text = "no run of this workspace is recorded yet";
    ToolAnswer::fixed(text, format!("{text}\n"), Vec::new()).with_next("run_tests")
}

async fn history(call: &CallContext<'_>) -> Result<Answer, CallError> {
    let answer = ask(call, false).await?;
    if answer.total_runs == 0 {
        return Ok(Box::new(nothing_recorded()));
    }
    let state = answer.frameworks.first().map(|state| match &state.last_green {
        Some(green) => format!("; all {} tests passed {}", line(&state.framework), text::ago(green.age_ms)),
        None => format!("; no run of all {} tests passed", line(&state.framework)),
    });
    let headline = format!("{} recorded run(s), newest first{}", answer.total_runs, state.unwrap_or_default());
    let lines = answer.runs.iter().map(past_run).collect();
    let next = Some(next_call::report_list("flaky"));
    Ok(Box::new(List { name: "runs", headline, lines, next }))
}

fn past_run(run: &PastRun) -> (String, Value) {
    let summary = run.summary.unwrap_or_default();
    let (outcome, failed) = (text::outcome_name(run.outcome()), summary.failed + summary.error);
    let shown = format!(
        "{outcome}: {} passed, {failed} failed ({}, {}), {}, {:.1}s, run {}",
        summary.passed,
        line(&run.framework),
        line(&run.selection),
        text::ago(run.age_ms),
        run.duration_s,
        line(&run.run_id)
    );
    let value = json!({
        "run_id": run.run_id, "outcome": outcome, "passed": summary.passed, "failed": failed,
        "framework": run.framework, "selection": run.selection, "age_ms": run.age_ms, "duration_s": run.duration_s,
    });
    (shown, value)
}

async fn slowest(call: &CallContext<'_>) -> Result<Answer, CallError> {
    let fetched = call.fetch_report("").await?;
    let document = bounded_report::parse_and_bound(&fetched.document)?;
    let tests = document.get("tests").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let framework = document["framework"].as_str().unwrap_or_default();
    let subtests = Subtests::new(framework, tests.iter().filter_map(|test| test["nodeid"].as_str()));
    let is_subtest = |test: &Value| test["nodeid"].as_str().is_some_and(|nodeid| subtests.contains(nodeid));
    let whole: Vec<&Value> = tests.iter().filter(|test| !is_subtest(test)).collect();
    let timed = whole.iter().filter_map(|test| Some((*test, test["duration_s"].as_f64()?)));
    let mut timed: Vec<(&Value, f64)> = timed.collect();
    timed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all_s: f64 = timed.iter().map(|(_, seconds)| seconds).sum();
    let with_subtests = if whole.len() < tests.len() { ", subtests with their parents" } else { "" };
    let (count, of) = (timed.len(), whole.len());
    let headline = format!("{count} of {of} listed tests have a time; they took {all_s:.2} s together{with_subtests}");
    let one = |(test, seconds): &(&Value, f64)| {
        let part = 100.0 * seconds / all_s.max(f64::MIN_POSITIVE);
        let name = test["nodeid"].as_str().unwrap_or_default();
        let [setup_s, cpu_s] = ["setup_s", "cpu_s"].map(|part| test[part].as_f64());
        let parts = parts_in_brackets(setup_s, cpu_s);
        let mut value = json!({"name": name, "duration_s": seconds});
        for (part, seconds) in [("setup_s", setup_s), ("cpu_s", cpu_s)] {
            seconds.into_iter().for_each(|seconds| value[part] = seconds.into());
        }
        (format!("{seconds:.2} s ({part:.0} %) {}{parts}", line(name)), value)
    };
    let lines = timed.iter().take(LIMIT as usize).map(one).collect();
    let next = next_call::report_document(ReportFormat::Optimization, PLAN_TOKENS);
    Ok(Box::new(List { name: "slowest", headline, lines, next }))
}

async fn flaky(call: &CallContext<'_>) -> Result<Answer, CallError> {
    let answer = ask(call, true).await?;
    if answer.total_runs == 0 {
        return Ok(Box::new(nothing_recorded()));
    }
    let headline = match answer.flaky.len() {
        0 => format!("no test passed and failed under equal conditions in {} recorded run(s)", answer.total_runs),
        count => format!("{count} flaky test(s), those that surely fail most often first"),
    };
    let lines = answer.flaky.iter().map(|flaky| {
        let name = flaky.test.as_ref().map(text::full_name).unwrap_or_default();
        let percent = |part: f64| format!("{:.0}", part * 100.0);
        let shown = format!(
            "{} failed {} of {} (95 % interval {} to {} %)",
            line(&name),
            flaky.failures,
            flaky.runs,
            percent(flaky.rate_low),
            percent(flaky.rate_high)
        );
        let value = json!({
            "name": name, "failures": flaky.failures, "runs": flaky.runs, "rate_low": flaky.rate_low,
            "rate_high": flaky.rate_high,
        });
        (shown, value)
    });
    let lines = lines.collect();
    let first = answer.flaky.first().and_then(|flaky| flaky.test.as_ref());
    let next = first.map(|test| format!("{} counts how often the first one fails alone", next_call::repeat_test(test)));
    Ok(Box::new(List { name: "flaky", headline, lines, next }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::budget::FULL;

    #[test]
    fn counts_the_lines_that_have_no_room() {
        let lines = ["one", "two", "three"].map(|line| (line.to_owned(), json!(line))).to_vec();
        let list = List { name: "runs", headline: "3 recorded run(s)".to_owned(), lines, next: None };
        let drawn = |items| {
            let answer = list.draw(&Detail { items, ..FULL });
            (answer.blocks().concat(), json!(answer.members))
        };
        let whole = (
            "3 recorded run(s)\none\ntwo\nthree\n".to_owned(),
            json!([["runs", ["one", "two", "three"]], ["left_out", 0]]),
        );
        assert_eq!(drawn(3), whole);
        let (text, members) = drawn(1);
        assert_eq!(text, "3 recorded run(s)\none\n(2 more left out; pass a larger max_tokens to see them)\n");
        assert_eq!(members, json!([["runs", ["one"]], ["left_out", 2]]));
    }
}
