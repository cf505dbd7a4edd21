//! A run as seen by one watcher: its stream, resumed whenever it breaks, and the check of its end against the run's kind and the
//! faults injected meanwhile.

use super::LoadContext;
use super::event_checker::{End, EventChecker};
use super::run_kinds::{RunKind, Scenario};
use super::tally::FaultEffect;
use super::tenant_client::{CallError, TenantClient, WAIT_MAX};
use proctor_proto::reason;
use proctor_proto::v1::{GetRunRequest, GetRunResponse, Outcome, RunEvent, RunState, WatchRunRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::{Code, Streaming};

/// Longest delay between a run's end and its arrival at a client. Clients are as busy as the supervisor, which may be stopped
/// for a second.
const DELIVERY_DELAY: Duration = Duration::from_secs(3);

/// A watched run.
pub(super) struct WatchedRun {
    pub(super) context: Arc<LoadContext>,
    pub(super) tenant: usize,
    pub(super) kind: &'static RunKind,
    pub(super) client: TenantClient,
    /// `None` while the connection is lost.
    pub(super) stream: Option<Streaming<RunEvent>>,
    pub(super) checker: EventChecker,
    pub(super) requested: Instant,
}

/// Result of reading a stream.
enum Next {
    Event,
    Lost,
    End(End),
}

/// Placeholder for an end after a recorded violation, which is not compared with anything.
const NO_END: End = End::Refused(CallError::ConnectionLost);

impl WatchedRun {
    /// Reads events to the end, over as many streams as needed.
    pub(super) async fn follow(&mut self) -> End {
        loop {
            match self.next().await {
                Next::Event => {}
                Next::End(end) => return end,
                Next::Lost => {
                    if let Err(end) = self.resume().await {
                        return end;
                    }
                }
            }
        }
    }

    /// Reads one event; `Err` with the end if there is none.
    pub(super) async fn first(&mut self) -> Result<(), End> {
        match self.next().await {
            Next::Event => Ok(()),
            Next::Lost => self.resume().await,
            Next::End(end) => Err(end),
        }
    }

    async fn next(&mut self) -> Next {
        let Some(stream) = &mut self.stream else { return Next::Lost };
        let tally = &self.context.tally;
        match timeout(WAIT_MAX, stream.message()).await {
            Err(_) => {
                tally.record_violation(format!(
                    "{}: nothing for {WAIT_MAX:?} from {}",
                    self.kind.name, self.checker.run
                ));
                Next::End(NO_END)
            }
            Ok(Ok(Some(event))) => match self.checker.check(&event) {
                Ok(()) => Next::Event,
                Err(what) => {
                    tally.record_violation(format!("{}: {what}, in {}", self.kind.name, self.checker.run));
                    Next::End(NO_END)
                }
            },
            Ok(Ok(None)) => match self.checker.finished {
                Some(outcome) => Next::End(End::Finished(outcome)),
                None => {
                    tally
                        .record_violation(format!("{}: the stream of {} has no end", self.kind.name, self.checker.run));
                    Next::End(NO_END)
                }
            },
            Ok(Err(status)) => match CallError::from_status(&status) {
                CallError::ConnectionLost => {
                    self.stream = None;
                    Next::Lost
                }
                refused => Next::End(End::Refused(refused)),
            },
        }
    }

    /// Resumes from the next event on a new connection.
    pub(super) async fn resume(&mut self) -> Result<(), End> {
        if self.checker.run.is_empty() {
            // Without an event the run's id is unknown, so it cannot be watched.
            self.context.check_refusal(self.tenant, &CallError::ConnectionLost, self.requested);
            return Err(NO_END);
        }
        self.stream = None;
        self.client = self.context.connect(self.tenant).await.ok_or(NO_END)?;
        self.context.tally.lock().resumed += 1;
        let request = WatchRunRequest { run_id: self.checker.run.clone(), cursor: self.checker.next };
        match timeout(WAIT_MAX, self.client.runs.watch_run(request)).await {
            Err(_) => {
                self.context.tally.record_violation(format!("no answer of WatchRun for {WAIT_MAX:?}"));
                Err(NO_END)
            }
            Ok(Ok(stream)) => {
                self.stream = Some(stream.into_inner());
                Ok(())
            }
            Ok(Err(status)) => match CallError::from_status(&status) {
                // The next read finds no stream and resumes again.
                CallError::ConnectionLost => Ok(()),
                refused => Err(End::Refused(refused)),
            },
        }
    }

    /// Counts the end and checks it.
    pub(super) async fn conclude(&mut self, end: &End) {
        if *end == NO_END {
            return;
        }
        let (context, run) = (Arc::clone(&self.context), self.checker.run.clone());
        let run_time = self.checker.run_time();
        context.tally.count_run(self.kind.name, self.tenant, end, run_time);
        if self.checker.attached {
            context.tally.lock().attached += 1;
        }
        let since = run_time.and_then(|ran| Instant::now().checked_sub(ran + DELIVERY_DELAY)).unwrap_or(self.requested);
        match end {
            End::Finished(outcome) => self.check_outcome(*outcome, since),
            End::Refused(refused) if self.kind.scenario == Scenario::WorkspaceReplaced && is_replaced(refused) => {
                context.tally.count_refusal(reason::WORKSPACE_REPLACED);
            }
            End::Refused(refused) => context.check_refusal(self.tenant, refused, self.requested),
        }
        let has_no_record = run.is_empty() || self.is_guests() && matches!(end, End::Refused(_));
        if !has_no_record {
            context.tally.record_end(&run, end, self.checker.next);
            if self.kind.scenario != Scenario::SessionClosed {
                self.compare_with_get_run(end).await;
            }
        }
    }

    fn is_guests(&self) -> bool {
        self.tenant == self.context.supervisor.guest()
    }

    fn check_outcome(&self, outcome: Outcome, since: Instant) {
        let tally = &self.context.tally;
        let killed = tally.had_effect_since(FaultEffect::ProcessesKilled, since);
        let lacking = tally.had_effect_since(FaultEffect::HostLacksResources, since)
            || tally.had_effect_since(FaultEffect::NoDescriptors, since);
        let is_explained = outcome == self.kind.outcome
            || killed && matches!(outcome, Outcome::WorkerLost | Outcome::Crashed | Outcome::Failed)
            || lacking && matches!(outcome, Outcome::WorkerLost | Outcome::DiskFull)
            || self.is_guests() && outcome == Outcome::Cancelled;
        if outcome == Outcome::WorkerLost && !lacking {
            tally.lock().lost += 1;
        }
        if !is_explained {
            tally.record_violation(format!("{}: {} ended as {outcome:?}", self.kind.name, self.checker.run));
        }
        let expected = self.kind.stdout_bytes().filter(|_| outcome == Outcome::Passed && !killed && !lacking);
        if expected.is_some_and(|expected| expected != self.checker.bytes[0]) {
            tally.record_violation(format!(
                "{}: {} bytes of {} were received",
                self.kind.name,
                self.checker.bytes[0],
                expected.unwrap_or(0)
            ));
        }
    }

    // GetRun must report the same end as the stream.
    async fn compare_with_get_run(&mut self, end: &End) {
        let is_equal = match (self.get_run().await, end) {
            (None, _) => return,
            (Some(Ok(found)), End::Finished(outcome)) => {
                let report = found.report.as_ref().map(|report| report.outcome());
                found.state() == RunState::Finished
                    && report == Some(*outcome)
                    && found.next_sequence == self.checker.next
            }
            (Some(Ok(_)), End::Refused(_)) => false,
            (Some(Err(error)), End::Refused(refused)) => error == *refused,
            // The guest tenant may have been removed meanwhile.
            (Some(Err(_)), End::Finished(_)) => self.is_guests(),
        };
        if !is_equal {
            self.context
                .tally
                .record_violation(format!("GetRun reports another end of {} than {end:?}", self.checker.run));
        }
    }

    async fn get_run(&mut self) -> Option<Result<GetRunResponse, CallError>> {
        loop {
            let request = GetRunRequest { run_id: self.checker.run.clone(), wait_ms: 0 };
            match timeout(WAIT_MAX, self.client.runs.get_run(request)).await {
                Err(_) => {
                    self.context.tally.record_violation(format!("no answer of GetRun for {WAIT_MAX:?}"));
                    return None;
                }
                Ok(Ok(found)) => return Some(Ok(found.into_inner())),
                Ok(Err(status)) => match CallError::from_status(&status) {
                    CallError::ConnectionLost => self.client = self.context.connect(self.tenant).await?,
                    refused => return Some(Err(refused)),
                },
            }
        }
    }
}

pub(super) fn is_replaced(refused: &CallError) -> bool {
    matches!(refused, CallError::Status { code: Code::FailedPrecondition, reason, .. } if reason == reason::WORKSPACE_REPLACED)
}
