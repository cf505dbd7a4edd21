//! A run as one of its watchers has it: its stream, which is taken up again wherever it breaks, and the judgement of its end
//! against what its kind promises and what was taken from it meanwhile. Must not know why anybody watches it.

use super::World;
use super::event_checker::{End, Follower};
use super::run_kinds::{Course, Kind};
use super::tally::Harm;
use super::tenant_client::{Caller, PATIENCE, Refused};
use proctor_proto::reason;
use proctor_proto::v1::{GetRunRequest, GetRunResponse, Outcome, RunEvent, RunState, WatchRunRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tonic::{Code, Streaming};

/// How much later than it was an end may be heard of: clients are as busy as the supervisor, which may stand still for a second
/// before it says anything.
const SLACK: Duration = Duration::from_secs(3);

/// A watcher's hold on a run.
pub(super) struct Running {
    pub(super) world: Arc<World>,
    pub(super) tenant: usize,
    pub(super) kind: &'static Kind,
    pub(super) caller: Caller,
    /// `None` while the connection is lost.
    pub(super) stream: Option<Streaming<RunEvent>>,
    pub(super) follower: Follower,
    pub(super) asked: Instant,
}

/// What a stream gives.
enum Next {
    Event,
    Lost,
    End(End),
}

/// What is no end: it was told already that something is wrong, and there is nothing to compare.
const NO_END: End = End::Told(Refused::Lost);

impl Running {
    /// Its end, over as many streams as it takes.
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

    /// Whether it said anything before it ended.
    pub(super) async fn first(&mut self) -> Result<(), End> {
        match self.next().await {
            Next::Event => Ok(()),
            Next::Lost => self.resume().await,
            Next::End(end) => Err(end),
        }
    }

    async fn next(&mut self) -> Next {
        let Some(stream) = &mut self.stream else { return Next::Lost };
        let ledger = &self.world.ledger;
        match timeout(PATIENCE, stream.message()).await {
            Err(_) => {
                ledger.broken(format!("{}: nothing for {PATIENCE:?} from {}", self.kind.name, self.follower.run));
                Next::End(NO_END)
            }
            Ok(Ok(Some(event))) => match self.follower.take(&event) {
                Ok(()) => Next::Event,
                Err(what) => {
                    ledger.broken(format!("{}: {what}, in {}", self.kind.name, self.follower.run));
                    Next::End(NO_END)
                }
            },
            Ok(Ok(None)) => match self.follower.finished {
                Some(outcome) => Next::End(End::Finished(outcome)),
                None => {
                    ledger.broken(format!("{}: the stream of {} has no end", self.kind.name, self.follower.run));
                    Next::End(NO_END)
                }
            },
            Ok(Err(status)) => match Refused::by(&status) {
                Refused::Lost => {
                    self.stream = None;
                    Next::Lost
                }
                told => Next::End(End::Told(told)),
            },
        }
    }

    /// Goes on from the next event, on a new connection.
    pub(super) async fn resume(&mut self) -> Result<(), End> {
        if self.follower.run.is_empty() {
            // Nobody knows its name.
            self.world.refused(self.tenant, &Refused::Lost, self.asked);
            return Err(NO_END);
        }
        self.stream = None;
        self.caller = self.world.connected(self.tenant).await.ok_or(NO_END)?;
        self.world.ledger.tally().resumed += 1;
        let request = WatchRunRequest { run_id: self.follower.run.clone(), cursor: self.follower.next };
        match timeout(PATIENCE, self.caller.runs.watch_run(request)).await {
            Err(_) => {
                self.world.ledger.broken(format!("no answer of WatchRun for {PATIENCE:?}"));
                Err(NO_END)
            }
            Ok(Ok(stream)) => {
                self.stream = Some(stream.into_inner());
                Ok(())
            }
            Ok(Err(status)) => match Refused::by(&status) {
                // The next look finds no stream, and tries again.
                Refused::Lost => Ok(()),
                told => Err(End::Told(told)),
            },
        }
    }

    /// Counts how it ended and says what is wrong with that.
    pub(super) async fn conclude(&mut self, end: &End) {
        if *end == NO_END {
            return;
        }
        let (world, run) = (Arc::clone(&self.world), self.follower.run.clone());
        let ran = self.follower.ran();
        world.ledger.counted(self.kind.name, self.tenant, end, ran);
        if self.follower.attached {
            world.ledger.tally().attached += 1;
        }
        let since = ran.and_then(|ran| Instant::now().checked_sub(ran + SLACK)).unwrap_or(self.asked);
        match end {
            End::Finished(outcome) => self.judge(*outcome, since),
            End::Told(refused) if self.kind.course == Course::Moved && is_replaced(refused) => {
                world.ledger.refused(reason::WORKSPACE_REPLACED);
            }
            End::Told(refused) => world.refused(self.tenant, refused, self.asked),
        }
        let is_alone = run.is_empty() || self.is_guests() && matches!(end, End::Told(_));
        if !is_alone {
            world.ledger.ended(&run, end, self.follower.next);
            if self.kind.course != Course::Closed {
                self.look(end).await;
            }
        }
    }

    fn is_guests(&self) -> bool {
        self.tenant == self.world.house.guest()
    }

    fn judge(&self, outcome: Outcome, since: Instant) {
        let ledger = &self.world.ledger;
        let killed = ledger.harmed(Harm::Kill, since);
        let lacking = ledger.harmed(Harm::Host, since) || ledger.harmed(Harm::Descriptors, since);
        let is_due = outcome == self.kind.outcome
            || killed && matches!(outcome, Outcome::WorkerLost | Outcome::Crashed | Outcome::Failed)
            || lacking && matches!(outcome, Outcome::WorkerLost | Outcome::DiskFull)
            || self.is_guests() && outcome == Outcome::Cancelled;
        if outcome == Outcome::WorkerLost && !lacking {
            ledger.tally().lost += 1;
        }
        if !is_due {
            ledger.broken(format!("{}: {} ended as {outcome:?}", self.kind.name, self.follower.run));
        }
        let said = self.kind.stdout_bytes().filter(|_| outcome == Outcome::Passed && !killed && !lacking);
        if said.is_some_and(|said| said != self.follower.bytes[0]) {
            ledger.broken(format!(
                "{}: {} bytes of {} were seen",
                self.kind.name,
                self.follower.bytes[0],
                said.unwrap_or(0)
            ));
        }
    }

    // What GetRun says of a run that has ended is what its stream said.
    async fn look(&mut self, end: &End) {
        let found = match (self.ask().await, end) {
            (None, _) => return,
            (Some(Ok(found)), End::Finished(outcome)) => {
                let report = found.report.as_ref().map(|report| report.outcome());
                found.state() == RunState::Finished
                    && report == Some(*outcome)
                    && found.next_sequence == self.follower.next
            }
            (Some(Ok(_)), End::Told(_)) => false,
            (Some(Err(refused)), End::Told(told)) => refused == *told,
            // A tenant that has gone meanwhile.
            (Some(Err(_)), End::Finished(_)) => self.is_guests(),
        };
        if !found {
            self.world.ledger.broken(format!("GetRun says another end of {} than {end:?}", self.follower.run));
        }
    }

    async fn ask(&mut self) -> Option<Result<GetRunResponse, Refused>> {
        loop {
            let request = GetRunRequest { run_id: self.follower.run.clone(), wait_ms: 0 };
            match timeout(PATIENCE, self.caller.runs.get_run(request)).await {
                Err(_) => {
                    self.world.ledger.broken(format!("no answer of GetRun for {PATIENCE:?}"));
                    return None;
                }
                Ok(Ok(found)) => return Some(Ok(found.into_inner())),
                Ok(Err(status)) => match Refused::by(&status) {
                    Refused::Lost => self.caller = self.world.connected(self.tenant).await?,
                    told => return Some(Err(told)),
                },
            }
        }
    }
}

pub(super) fn is_replaced(refused: &Refused) -> bool {
    matches!(refused, Refused::Typed { code: Code::FailedPrecondition, reason, .. } if reason == reason::WORKSPACE_REPLACED)
}
