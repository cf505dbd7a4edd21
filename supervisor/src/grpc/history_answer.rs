//! The answer of the History call: reads the tenant's history on a blocking thread and converts it for the wire.

use super::convert;
use super::encode_permit::EncodePermit;
use super::status;
use crate::history::query::{FrameworkState, HistoryAnswer, HistoryQuery, PastRun, TestTrend, look_up};
use crate::history::{HistoryLocation, WorkspaceKey};
use crate::workspace::Workspace;
use proctor_core::bounds::{HISTORY_PAGE, REQUEST_TEST_BYTES_MAX};
use proctor_core::timestamp::Timestamp;
use proctor_proto::v1;
use tonic::Status;

/// Answers the request for `workspace`; a question about many tests takes up to 50 MiB of memory, so it has a permit.
/// Without a place for a history, the answer is empty.
pub(super) async fn answer(
    message: v1::HistoryRequest,
    location: Option<HistoryLocation>,
    workspace: &Workspace,
    permit: EncodePermit,
    now: Timestamp,
) -> Result<v1::HistoryResponse, Status> {
    if message.test.len() > REQUEST_TEST_BYTES_MAX {
        return Err(status::invalid("test", format!("test must have at most {REQUEST_TEST_BYTES_MAX} bytes")));
    }
    let Some(location) = location else { return Ok(v1::HistoryResponse::default()) };
    let query = HistoryQuery {
        limit: HISTORY_PAGE.clamp(message.limit),
        test: message.test,
        flaky: message.flaky,
        slow: message.slow,
        never_failing: false,
    };
    let workspace = workspace.clone();
    let answer = move || {
        location.wait_until_written();
        let found = look_up(&location, WorkspaceKey::for_workspace(&workspace), &query);
        found.map(|found| convert_answer(found, now)).map_err(|error| status::history(&error))
    };
    permit.encode(answer).await?
}

fn convert_answer(answer: HistoryAnswer, now: Timestamp) -> v1::HistoryResponse {
    let frameworks: Vec<v1::FrameworkState> =
        answer.frameworks.into_iter().map(|state| framework_state(state, now)).collect();
    let latest = frameworks.first().cloned().unwrap_or_default();
    v1::HistoryResponse {
        runs: answer.runs.into_iter().map(|run| past_run(run, now)).collect(),
        total_runs: answer.total_runs,
        last_green: latest.last_green,
        red_streak: latest.red_streak,
        frameworks,
        trends: answer.trends.into_iter().map(|trend| test_trend(trend, now)).collect(),
        matches: answer.matches,
        flaky: answer
            .flaky
            .into_iter()
            .map(|flaky| v1::FlakyTest {
                test: Some(convert::test_id(&flaky.test)),
                runs: flaky.runs,
                failures: flaky.failures,
                rate: flaky.rate.rate,
                rate_low: flaky.rate.low,
                rate_high: flaky.rate.high,
            })
            .collect(),
        slow: answer
            .slow
            .into_iter()
            .map(|(test, slowdown)| v1::SlowTest {
                test: Some(convert::test_id(&test)),
                before_s: slowdown.before_us / 1e6,
                now_s: slowdown.now_us / 1e6,
                factor: slowdown.factor(),
                earlier_runs: slowdown.earlier_runs as u64,
            })
            .collect(),
    }
}

fn framework_state(state: FrameworkState, now: Timestamp) -> v1::FrameworkState {
    v1::FrameworkState {
        framework: state.framework,
        last_green: state.last_green.map(|green| v1::GreenRun {
            run_id: green.run_id,
            age_ms: now.ms_since(green.ended_at),
            runs_after: green.runs_after,
        }),
        red_streak: state.red_streak,
    }
}

fn past_run(run: PastRun, now: Timestamp) -> v1::PastRun {
    v1::PastRun {
        run_id: run.run_id,
        outcome: convert::outcome(run.outcome).into(),
        summary: Some(convert::summary(&run.summary)),
        duration_s: seconds(run.duration_us),
        age_ms: now.ms_since(run.ended_at),
        framework: run.framework,
        selection: run.selection,
        partial: run.partial,
        cpu_s: seconds(run.cpu_us),
        memory_peak_bytes: run.memory_peak_bytes,
        new: run.changes.map(|[new, _, _]| new),
        fixed: run.changes.map(|[_, fixed, _]| fixed),
        still_failing: run.changes.map(|[_, _, still_failing]| still_failing),
    }
}

fn test_trend(trend: TestTrend, now: Timestamp) -> v1::TestTrend {
    let results = trend.results.into_iter().map(|past| v1::PastResult {
        run_id: past.run_id,
        age_ms: now.ms_since(past.ended_at),
        outcome: convert::test_outcome(past.result.outcome).into(),
        duration_s: past.result.duration_us.map(seconds),
    });
    v1::TestTrend {
        test: Some(convert::test_id(&trend.test)),
        results: results.collect(),
        failure_streak: trend.failure_streak,
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a run are far below 2^52")]
fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}
