//! Calls that go on after their answer: tasks of MCP, whose id is that of their run, and those that were answered with the state
//! of their run.

use rmcp::model::{CallToolResult, DetailedTask, Task, TaskPayload, TaskStatus};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a call is awaited before it becomes a task. Most runs end earlier, and save their client a poll.
pub(crate) const ANSWER_DELAY_MAX: Duration = Duration::from_secs(5);

/// Suggested pause between two polls, in milliseconds.
const POLL_INTERVAL_MS: u64 = 2_000;

/// How long the result of a task is kept after its end, in milliseconds. The supervisor keeps the run itself for longer.
const RESULT_KEPT_MS: u64 = 30 * 60 * 1_000;

/// Most tasks that are known at a time: as many as one client may have requests.
const TASKS_MAX: usize = crate::requests_in_flight::REQUESTS_MAX;

/// The answer of a call, once it has one, and when that was.
pub(crate) type CallOutcome = watch::Receiver<Option<(CallToolResult, SystemTime)>>;

/// A call that goes on by itself. Dropped, it detaches from its run.
pub(crate) struct OngoingCall {
    pub(crate) outcome: CallOutcome,
    /// The one task that carries it out.
    pub(crate) carrier: JoinSet<()>,
}

/// The tasks of one workspace. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RunTasks(Arc<Mutex<HashMap<String, RunTask>>>);

struct RunTask {
    created_at: SystemTime,
    call: OngoingCall,
    is_cancelled: bool,
}

impl RunTasks {
    /// Makes a task of the call that follows this run. Gives the call back if too many tasks are going on.
    pub(crate) fn add(&self, run_id: &str, call: OngoingCall) -> Result<Task, OngoingCall> {
        let now = SystemTime::now();
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|_, task| !task.is_outdated(now));
        if tasks.len() >= TASKS_MAX {
            let ended = tasks.iter().filter_map(|(id, task)| Some((task.ended_at()?, id)));
            let Some(oldest) = ended.min().map(|(_, id)| id.clone()) else { return Err(call) };
            tasks.remove(&oldest);
        }
        // A second call that attached to the same run is the same task.
        tasks.entry(run_id.to_owned()).or_insert(RunTask { created_at: now, call, is_cancelled: false });
        Ok(task(run_id, now, now))
    }

    /// The state of a task, if it is known.
    pub(crate) fn get(&self, run_id: &str) -> Option<DetailedTask> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tasks.get(run_id)?;
        let outcome = known.call.outcome.borrow().clone();
        let updated_at = outcome.as_ref().map_or(known.created_at, |(_, ended_at)| *ended_at);
        let payload = match outcome {
            _ if known.is_cancelled => TaskPayload::Cancelled,
            Some((result, _)) => completed(&result),
            None => TaskPayload::Working,
        };
        Some(DetailedTask::new(task(run_id, known.created_at, updated_at), payload))
    }

    /// Records that the run of a task was cancelled.
    pub(crate) fn cancel(&self, run_id: &str) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.get_mut(run_id).filter(|task| task.ended_at().is_none()) {
            task.is_cancelled = true;
        }
    }
}

impl RunTask {
    fn ended_at(&self) -> Option<SystemTime> {
        self.call.outcome.borrow().as_ref().map(|(_, ended_at)| *ended_at)
    }

    fn is_outdated(&self, now: SystemTime) -> bool {
        let age = self.ended_at().and_then(|ended_at| now.duration_since(ended_at).ok());
        age.is_some_and(|age| age > Duration::from_millis(RESULT_KEPT_MS))
    }
}

/// A task of a run of which only the supervisor knows: an earlier process made it.
pub(crate) fn foreign_task(run_id: &str, payload: TaskPayload) -> DetailedTask {
    let now = SystemTime::now();
    DetailedTask::new(task(run_id, now, now), payload)
}

/// The payload of a task whose call has this result.
pub(crate) fn completed(result: &CallToolResult) -> TaskPayload {
    let result = serde_json::to_value(result).ok().and_then(|value| value.as_object().cloned());
    TaskPayload::Completed { result: result.unwrap_or_default() }
}

fn task(run_id: &str, created_at: SystemTime, updated_at: SystemTime) -> Task {
    Task::new(run_id, TaskStatus::Working, timestamp(created_at), timestamp(updated_at))
        .with_ttl_ms(RESULT_KEPT_MS)
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

fn timestamp(at: SystemTime) -> String {
    OffsetDateTime::from(at).format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ContentBlock;

    type Outcome = watch::Sender<Option<(CallToolResult, SystemTime)>>;

    fn call() -> (Outcome, OngoingCall) {
        let (sender, outcome) = watch::channel(None);
        (sender, OngoingCall { outcome, carrier: JoinSet::new() })
    }

    fn end(outcome: &Outcome, at: SystemTime) {
        outcome.send_replace(Some((CallToolResult::success(vec![ContentBlock::text("done")]), at)));
    }

    #[test]
    fn a_task_has_the_result_of_its_call() {
        let tasks = RunTasks::default();
        let (outcome, ongoing) = call();
        assert_eq!(tasks.add("r1", ongoing).ok().unwrap().task_id, "r1");
        assert_eq!(tasks.get("r1").unwrap().payload, TaskPayload::Working);
        end(&outcome, SystemTime::now());
        tasks.cancel("r1");
        let TaskPayload::Completed { result } = tasks.get("r1").unwrap().payload else {
            panic!("not cancelled any more")
        };
        assert_eq!(result["content"][0]["text"], "done");
        assert!(tasks.get("r2").is_none());
        let (_outcome, ongoing) = call();
        tasks.add("r2", ongoing).ok().unwrap();
        tasks.cancel("r2");
        assert_eq!(tasks.get("r2").unwrap().payload, TaskPayload::Cancelled);
    }

    #[test]
    fn the_task_that_ended_first_makes_room() {
        let tasks = RunTasks::default();
        let calls: Vec<Outcome> = (0..TASKS_MAX)
            .map(|number| {
                let (outcome, ongoing) = call();
                tasks.add(&number.to_string(), ongoing).ok().unwrap();
                outcome
            })
            .collect();
        assert!(tasks.add("more", call().1).is_err(), "all of them go on");
        let now = SystemTime::now();
        end(&calls[3], now - Duration::from_secs(1));
        end(&calls[5], now - Duration::from_secs(2));
        tasks.add("more", call().1).ok().unwrap();
        assert!(tasks.get("5").is_none() && tasks.get("3").is_some());
        end(&calls[7], now - Duration::from_secs(3_600));
        tasks.add("another", call().1).ok().unwrap();
        assert!(tasks.get("7").is_none() && tasks.get("3").is_some(), "results are not kept for ever");
    }
}
