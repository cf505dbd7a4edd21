//! Calls that go on after their answer: tasks of MCP, whose id is that of their run, and those that were answered with the state
//! of their run.

use crate::abandoned_runs::Caller;
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

/// Most tasks of one client that are known at a time: as many as it may have requests.
const TASKS_MAX: usize = crate::requests_in_flight::REQUESTS_MAX;

/// Most tasks of all clients: some for each of a hundred agents of one workspace. Agents over HTTP without a session cannot be
/// told apart and share them all.
const ALL_TASKS_MAX: usize = 1_024;

/// Most bytes of the results of one workspace's tasks. Beyond them the oldest results are dropped; the supervisor still has
/// their runs, from which a task is answered anew.
const RESULT_BYTES_MAX: usize = 32 << 20;

/// The answer of a call that has ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedCall {
    pub(crate) result: CallToolResult,
    ended_at: SystemTime,
    /// Size of the result as JSON, in bytes.
    bytes: usize,
}

impl EndedCall {
    /// A call that has just ended.
    pub(crate) fn new(result: CallToolResult) -> EndedCall {
        let mut counted = ByteCount(0);
        // Counting cannot fail.
        let _ = serde_json::to_writer(&mut counted, &result);
        EndedCall { result, ended_at: SystemTime::now(), bytes: counted.0 }
    }
}

/// Counts what is written to it.
struct ByteCount(usize);

impl std::io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The answer of a call, once it has one.
pub(crate) type CallOutcome = watch::Receiver<Option<EndedCall>>;

/// A call that goes on by itself. Dropped, it detaches from its run.
pub(crate) struct OngoingCall {
    pub(crate) outcome: CallOutcome,
    /// The one task that carries it out.
    pub(crate) carrier: JoinSet<()>,
}

/// The tasks of one workspace, for each of its clients. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RunTasks(Arc<Mutex<HashMap<TaskKey, RunTask>>>);

/// Client and run.
type TaskKey = (Caller, String);

struct RunTask {
    created_at: SystemTime,
    call: OngoingCall,
    is_cancelled: bool,
}

impl RunTasks {
    /// Makes a task of the call that follows this run. Gives the call back if too many tasks are going on.
    /// `created_at`: when the run was accepted.
    pub(crate) fn add(
        &self,
        caller: &Caller,
        run_id: &str,
        created_at: SystemTime,
        call: OngoingCall,
    ) -> Result<Task, OngoingCall> {
        let now = SystemTime::now();
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.retain(|_, task| !task.is_outdated(now));
        drop_results_beyond(RESULT_BYTES_MAX, &mut tasks);
        let own = tasks.keys().filter(|(owner, _)| owner == caller).count();
        let own_max = if *caller == Caller::Unknown { ALL_TASKS_MAX } else { TASKS_MAX };
        if own >= own_max || tasks.len() >= ALL_TASKS_MAX {
            // The results of another client make room only where there is none for all clients together.
            let ended = tasks.iter().filter(|((owner, _), _)| owner == caller || own < own_max);
            let ended = ended.filter_map(|(key, task)| Some((task.ended_at()?, key)));
            let oldest = ended.min_by_key(|(ended_at, _)| *ended_at).map(|(_, key)| key.clone());
            let Some(oldest) = oldest else { return Err(call) };
            tasks.remove(&oldest);
        }
        // A second call that attached to the same run is the same task, unless the first one has ended: it may have lost the
        // run.
        let key = (caller.clone(), run_id.to_owned());
        if tasks.get(&key).is_none_or(|known| known.ended_at().is_some()) {
            tasks.insert(key, RunTask { created_at, call, is_cancelled: false });
        }
        Ok(task(run_id, created_at, now))
    }

    /// The state of a task, if it is known.
    pub(crate) fn get(&self, caller: &Caller, run_id: &str) -> Option<DetailedTask> {
        let tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tasks.get(&(caller.clone(), run_id.to_owned()))?;
        let outcome = known.call.outcome.borrow().clone();
        let updated_at = outcome.as_ref().map_or(known.created_at, |ended| ended.ended_at);
        let payload = match outcome {
            _ if known.is_cancelled => TaskPayload::Cancelled,
            Some(ended) if is_of_cancelled_run(&ended.result) => TaskPayload::Cancelled,
            Some(ended) => completed(&ended.result),
            None => TaskPayload::Working,
        };
        Some(DetailedTask::new(task(run_id, known.created_at, updated_at), payload))
    }

    /// Records that the run of a task was cancelled, unless the result of its call is there.
    pub(crate) fn cancel(&self, caller: &Caller, run_id: &str) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.get_mut(&(caller.clone(), run_id.to_owned())).filter(|task| task.ended_at().is_none())
        {
            task.is_cancelled = true;
        }
    }
}

impl RunTask {
    fn ended_at(&self) -> Option<SystemTime> {
        self.call.outcome.borrow().as_ref().map(|ended| ended.ended_at)
    }

    fn result_bytes(&self) -> usize {
        self.call.outcome.borrow().as_ref().map_or(0, |ended| ended.bytes)
    }

    fn is_outdated(&self, now: SystemTime) -> bool {
        let age = self.ended_at().and_then(|ended_at| now.duration_since(ended_at).ok());
        age.is_some_and(|age| age > Duration::from_millis(RESULT_KEPT_MS))
    }
}

// Drops the oldest tasks that have ended while the results of all have more than `bytes_max`.
fn drop_results_beyond(bytes_max: usize, tasks: &mut HashMap<TaskKey, RunTask>) {
    let mut bytes: usize = tasks.values().map(RunTask::result_bytes).sum();
    while bytes > bytes_max {
        let ended = tasks.iter().filter_map(|(key, task)| Some((task.ended_at()?, key)));
        let Some(oldest) = ended.min_by_key(|(ended_at, _)| *ended_at).map(|(_, key)| key.clone()) else { return };
        bytes -= tasks.remove(&oldest).map_or(0, |task| task.result_bytes());
    }
}

/// A task of a run of which only the supervisor knows: an earlier process made it.
pub(crate) fn foreign_task(run_id: &str, created_at: SystemTime, payload: TaskPayload) -> DetailedTask {
    DetailedTask::new(task(run_id, created_at, SystemTime::now()), payload)
}

fn is_of_cancelled_run(result: &CallToolResult) -> bool {
    result.structured_content.as_ref().is_some_and(|content| content["outcome"] == "cancelled")
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

    type Outcome = watch::Sender<Option<EndedCall>>;

    fn call() -> (Outcome, OngoingCall) {
        let (sender, outcome) = watch::channel(None);
        (sender, OngoingCall { outcome, carrier: JoinSet::new() })
    }

    fn end(outcome: &Outcome, ended_at: SystemTime) {
        end_with("done", outcome, ended_at);
    }

    fn end_with(text: &str, outcome: &Outcome, ended_at: SystemTime) {
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        outcome.send_replace(Some(EndedCall { ended_at, ..EndedCall::new(result) }));
    }

    #[test]
    fn a_task_has_the_result_of_its_call() {
        let tasks = RunTasks::default();
        let (outcome, ongoing) = call();
        assert_eq!(tasks.add(&Caller::Only, "r1", SystemTime::UNIX_EPOCH, ongoing).ok().unwrap().task_id, "r1");
        let known = tasks.get(&Caller::Only, "r1").unwrap();
        assert_eq!((known.payload, known.task.created_at.as_str()), (TaskPayload::Working, "1970-01-01T00:00:00Z"));
        end(&outcome, SystemTime::now());
        tasks.cancel(&Caller::Only, "r1");
        let TaskPayload::Completed { result } = tasks.get(&Caller::Only, "r1").unwrap().payload else {
            panic!("not cancelled any more")
        };
        assert_eq!(result["content"][0]["text"], "done");
        assert!(tasks.get(&Caller::Only, "r2").is_none());
        let (_outcome, ongoing) = call();
        tasks.add(&Caller::Only, "r2", SystemTime::UNIX_EPOCH, ongoing).ok().unwrap();
        tasks.cancel(&Caller::Only, "r2");
        assert_eq!(tasks.get(&Caller::Only, "r2").unwrap().payload, TaskPayload::Cancelled);
    }

    #[test]
    fn the_oldest_results_make_room_for_the_bytes_of_others() {
        let tasks = RunTasks::default();
        let large = "x".repeat(RESULT_BYTES_MAX / 3);
        for number in 0..4 {
            let (outcome, ongoing) = call();
            end_with(&large, &outcome, SystemTime::now() - Duration::from_secs(60 - number));
            tasks.add(&Caller::Only, &number.to_string(), SystemTime::now(), ongoing).ok().unwrap();
        }
        tasks.add(&Caller::Only, "going on", SystemTime::now(), call().1).ok().unwrap();
        let known = |run_id: &str| tasks.get(&Caller::Only, run_id).is_some();
        assert_eq!(["0", "1", "2", "3", "going on"].map(known), [false, false, true, true, true]);
    }

    #[test]
    fn the_task_that_ended_first_makes_room() {
        let tasks = RunTasks::default();
        let calls: Vec<Outcome> = (0..TASKS_MAX)
            .map(|number| {
                let (outcome, ongoing) = call();
                tasks.add(&Caller::Only, &number.to_string(), SystemTime::now(), ongoing).ok().unwrap();
                outcome
            })
            .collect();
        assert!(tasks.add(&Caller::Only, "more", SystemTime::now(), call().1).is_err(), "all of them go on");
        let other = Caller::Session("another".to_owned());
        tasks.add(&other, "more", SystemTime::now(), call().1).ok().expect("another client has room of its own");
        assert!(tasks.get(&other, "more").is_some() && tasks.get(&Caller::Only, "more").is_none());
        let now = SystemTime::now();
        end(&calls[3], now - Duration::from_secs(1));
        end(&calls[5], now - Duration::from_secs(2));
        tasks.add(&Caller::Only, "more", SystemTime::now(), call().1).ok().unwrap();
        assert!(tasks.get(&Caller::Only, "5").is_none() && tasks.get(&Caller::Only, "3").is_some());
        end(&calls[7], now - Duration::from_secs(3_600));
        tasks.add(&Caller::Only, "another", SystemTime::now(), call().1).ok().unwrap();
        assert!(
            tasks.get(&Caller::Only, "7").is_none() && tasks.get(&Caller::Only, "3").is_some(),
            "results are not kept for ever"
        );
    }
}
