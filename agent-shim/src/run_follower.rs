//! Follows the event stream of a run to its end and resumes it when it breaks.

use crate::call_error::CallError;
use crate::progress::ProgressReporter;
use crate::supervisor_connection::Clients;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Queued, Report, RunEvent, WatchRunRequest};
use std::error::Error as _;
use std::time::Duration;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

/// How often a broken stream is resumed before the follower gives up.
const RESUME_MAX: u32 = 3;
/// Pause before a broken stream is resumed.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    pub(crate) run_id: String,
    pub(crate) report: Report,
    /// If the call attached to a run in flight: milliseconds since that run was accepted.
    pub(crate) attached_age_ms: Option<u64>,
}

/// Reads the events of one run.
pub(crate) struct RunFollower<'a> {
    clients: Clients,
    progress: &'a ProgressReporter,
    on_run_id: &'a (dyn Fn(&str) + Send + Sync),
    run_id: String,
    // Sequence number of the next event.
    next: u64,
    attached_age_ms: Option<u64>,
}

impl<'a> RunFollower<'a> {
    /// A follower of a new run; `on_run_id` is called with the id from its first event.
    pub(crate) fn new(
        clients: Clients,
        progress: &'a ProgressReporter,
        on_run_id: &'a (dyn Fn(&str) + Send + Sync),
    ) -> RunFollower<'a> {
        RunFollower { clients, progress, on_run_id, run_id: String::new(), next: 0, attached_age_ms: None }
    }

    /// Follows the run `run_id` from event number `next` on.
    #[must_use]
    pub(crate) fn resume_at(self, run_id: String, next: u64) -> RunFollower<'a> {
        RunFollower { run_id, next, ..self }
    }

    /// Reads `events` to the end of the run; resumes a broken stream where it stopped.
    pub(crate) async fn follow(mut self, mut events: Streaming<RunEvent>) -> Result<EndedRun, CallError> {
        let mut resumed = 0;
        loop {
            let broken = match events.message().await {
                Ok(Some(event)) => {
                    if let Some(report) = self.handle_event(event) {
                        let RunFollower { run_id, attached_age_ms, .. } = self;
                        return Ok(EndedRun { run_id, report, attached_age_ms });
                    }
                    continue;
                }
                Ok(None) => None,
                // Before the first event no run exists, and the refusal is the answer.
                Err(status) if self.run_id.is_empty() || is_refusal(&status) => return Err(status.into()),
                Err(status) => Some(status),
            };
            tracing::warn!(run = self.run_id, ?broken, "the events of the run broke off");
            events = loop {
                if self.run_id.is_empty() || resumed == RESUME_MAX {
                    // A status of the supervisor says more than that the stream broke off.
                    let refusal = broken.filter(|status| status.source().is_none());
                    return Err(refusal.map_or(CallError::StreamLost { run_id: self.run_id }, CallError::from));
                }
                resumed += 1;
                tokio::time::sleep(RESUME_PAUSE).await;
                match self.watch().await {
                    Ok(events) => break events,
                    Err(status) => tracing::warn!(%status, "the event stream cannot be resumed"),
                }
            };
        }
    }

    async fn watch(&mut self) -> Result<Streaming<RunEvent>, Status> {
        let request = WatchRunRequest { run_id: self.run_id.clone(), cursor: self.next };
        Ok(self.clients.runs.watch_run(request).await?.into_inner())
    }

    // Returns the report if this was the last event.
    fn handle_event(&mut self, event: RunEvent) -> Option<Report> {
        if self.run_id.is_empty() {
            (self.on_run_id)(&event.run_id);
            self.run_id = event.run_id;
        }
        self.next = event.sequence + 1;
        match event.event? {
            Event::Queued(queued) => self.handle_queued(&queued),
            Event::Started(_) => self.progress.update(|state| state.waiting = None),
            Event::TestStarted(started) => self.progress.update(|state| state.record_start(started.test)),
            Event::TestFinished(test) => self.progress.update(|state| state.record_test(&test)),
            Event::Progress(event) => self.progress.update(|state| state.record_counts(&event)),
            Event::Missed(missed) => self.progress.update(|state| state.missed = missed.events),
            // Output is read by offset after the run, with a bound. No run is followed that only selects.
            Event::Output(_) | Event::Collector(_) | Event::Affected(_) => {}
            Event::Finished(report) => return Some(report),
        }
        None
    }

    fn handle_queued(&mut self, queued: &Queued) {
        if queued.attached {
            self.attached_age_ms = Some(queued.attached_age_ms);
        }
        self.progress.update(|state| state.record_queue_position(queued.position));
    }
}

// Whether the supervisor refused this call for good. A broken connection is detected locally, so its status has a source; a
// status with RetryInfo invites a retry.
fn is_refusal(status: &Status) -> bool {
    let is_permanent = status.code() != Code::Unavailable || status.get_details_error_info().is_some();
    status.source().is_none() && is_permanent && status.get_details_retry_info().is_none()
}
