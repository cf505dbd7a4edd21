//! Checks the events that a watcher of one run receives: consecutive numbers, output without gaps, and one end.

use super::tenant_client::CallError;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Outcome, RunEvent, Stream};
use std::time::Duration;

/// How a run ended for one of its watchers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    Finished(Outcome),
    /// The request was refused, or the run was accepted but not started, or is no longer visible to the client.
    Refused(CallError),
}

/// Checks one run's events, over as many streams as needed.
#[derive(Debug, Default)]
pub(super) struct EventChecker {
    pub(super) run: String,
    /// Number of the next event, the cursor for the next stream.
    pub(super) next: u64,
    /// Received bytes of stdout and stderr.
    pub(super) bytes: [u64; 2],
    pub(super) finished: Option<Outcome>,
    pub(super) attached: bool,
    last_at_ms: u64,
    started_at_ms: Option<u64>,
}

impl EventChecker {
    /// For a run with a known id.
    pub(super) fn for_run(run: &str) -> EventChecker {
        EventChecker { run: run.to_owned(), ..EventChecker::default() }
    }

    /// Checks the next event; the error names the violated rule.
    pub(super) fn check(&mut self, event: &RunEvent) -> Result<(), String> {
        if self.run.is_empty() {
            self.run.clone_from(&event.run_id);
        }
        if event.run_id != self.run {
            return Err(format!("an event of {} on a stream of {}", event.run_id, self.run));
        }
        if event.sequence != self.next {
            return Err(format!("event {} instead of {}", event.sequence, self.next));
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
                return Err("the run started twice".to_owned());
            }
            Some(Event::Output(output)) => {
                let received = &mut self.bytes[usize::from(output.stream() == Stream::Stderr)];
                if output.cursor != *received {
                    return Err(format!("output from byte {} instead of {received}", output.cursor));
                }
                *received += output.bytes.len() as u64;
            }
            Some(Event::Missed(missed)) => return Err(format!("{} events are reported as missed", missed.events)),
            Some(Event::Finished(report)) => {
                let failed = report.evidence.as_ref().filter(|evidence| evidence.killed == "host_failed");
                if failed.is_some_and(|evidence| evidence.notes.is_empty()) {
                    return Err("a run failed by the host has no note".to_owned());
                }
                self.finished = Some(report.outcome());
            }
            Some(_) => {}
            None => return Err(format!("event {} is empty", event.sequence)),
        }
        Ok(())
    }

    /// Time from the run's start to its last event by the supervisor's clock; `None` if no start was received.
    pub(super) fn run_time(&self) -> Option<Duration> {
        self.started_at_ms.map(|started| Duration::from_millis(self.last_at_ms - started))
    }
}
