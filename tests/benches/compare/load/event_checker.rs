//! What a watcher of one run has seen, and what it may see next: numbers without gap or double, output without a hole, one
//! end. Must not know how events come to it.

use super::tenant_client::Refused;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, RunEvent, Stream};
use std::time::Duration;

/// How a run ended for one of its watchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Finished(Outcome),
    /// Accepted, and then not started, or no longer this caller's to see.
    Told(Refused),
}

/// Follows one run, over as many streams as it takes.
#[derive(Debug, Default)]
pub(super) struct Follower {
    pub(super) run: String,
    /// The number of the next event: the cursor of the next stream.
    pub(super) next: u64,
    /// Bytes of stdout and stderr.
    pub(super) bytes: [u64; 2],
    pub(super) finished: Option<Outcome>,
    pub(super) attached: bool,
    last_at_ms: u64,
    started_at_ms: Option<u64>,
}

impl Follower {
    /// Of a run that is known by its name already.
    pub(super) fn of(run: &str) -> Follower {
        Follower { run: run.to_owned(), ..Follower::default() }
    }

    /// Takes in the next event, or says which promise it breaks.
    pub(super) fn take(&mut self, event: &RunEvent) -> Result<(), String> {
        if self.run.is_empty() {
            self.run.clone_from(&event.run_id);
        }
        if event.run_id != self.run {
            return Err(format!("an event of {} on a stream of {}", event.run_id, self.run));
        }
        if event.sequence != self.next {
            return Err(format!("event {} where {} is next", event.sequence, self.next));
        }
        if let Some(outcome) = self.finished {
            return Err(format!("event {} after `finished` ({outcome:?})", event.sequence));
        }
        if event.at_ms < self.last_at_ms {
            return Err(format!("event {} is older than the one before", event.sequence));
        }
        (self.next, self.last_at_ms) = (event.sequence + 1, event.at_ms);
        match &event.event {
            Some(Event::Queued(queued)) => self.attached |= queued.attached,
            Some(Event::Started(_)) if self.started_at_ms.replace(event.at_ms).is_some() => {
                return Err("it started twice".to_owned());
            }
            Some(Event::Output(output)) => {
                let seen = &mut self.bytes[usize::from(output.stream() == Stream::Stderr)];
                if output.cursor != *seen {
                    return Err(format!("output from byte {} where {seen} is next", output.cursor));
                }
                *seen += output.bytes.len() as u64;
            }
            Some(Event::Missed(missed)) => return Err(format!("{} events are said to be missing", missed.events)),
            Some(Event::Finished(report)) => {
                let failed = report.evidence.as_ref().filter(|evidence| evidence.killed == "host_failed");
                if failed.is_some_and(|evidence| evidence.notes.is_empty()) {
                    return Err("the host failed it without a word".to_owned());
                }
                self.finished = Some(report.outcome());
            }
            Some(_) => {}
            None => return Err(format!("event {} has nothing in it", event.sequence)),
        }
        Ok(())
    }

    /// From its start to its last event, as the supervisor's clock has it; `None` of a run that was never seen to start.
    pub(super) fn ran(&self) -> Option<Duration> {
        self.started_at_ms.map(|started| Duration::from_millis(self.last_at_ms - started))
    }
}
