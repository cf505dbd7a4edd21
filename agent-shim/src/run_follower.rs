//! Following a run's events to its end. Must not know who started it or what is made of its report.

use crate::call_error::CallError;
use crate::progress::ProgressReporter;
use crate::supervisor_connection::Clients;
use proctor_proto::v1::run_event::Event;
use proctor_proto::v1::{Queued, Report, RunEvent, WatchRunRequest};
use std::error::Error as _;
use std::time::Duration;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

/// How often a broken stream is taken up again before the run is given up.
const RESUME_MAX: u32 = 3;
/// Pause before a broken stream is taken up again.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// Its id.
    pub(crate) run_id: String,
    /// How it ended.
    pub(crate) report: Report,
    /// With a run that was going on already: milliseconds since it had been accepted.
    pub(crate) attached_age_ms: Option<u64>,
}

/// A run that is going on.
pub(crate) struct RunFollower<'a> {
    clients: Clients,
    progress: &'a ProgressReporter,
    saw_run: &'a (dyn Fn(&str) + Send + Sync),
    run_id: String,
    next: u64,
    attached_age_ms: Option<u64>,
}

impl<'a> RunFollower<'a> {
    /// Follows a run whose events say its id; `saw_run` is told when they do.
    pub(crate) fn new(
        clients: Clients,
        progress: &'a ProgressReporter,
        saw_run: &'a (dyn Fn(&str) + Send + Sync),
    ) -> RunFollower<'a> {
        RunFollower { clients, progress, saw_run, run_id: String::new(), next: 0, attached_age_ms: None }
    }

    /// Follows the run `run_id`, whose next event has the number `next`.
    #[must_use]
    pub(crate) fn of_run(self, run_id: String, next: u64) -> RunFollower<'a> {
        RunFollower { run_id, next, ..self }
    }

    /// Reads `events` to the end of the run, taking them up again where they broke off if the supervisor is still there.
    pub(crate) async fn until_end(mut self, mut events: Streaming<RunEvent>) -> Result<EndedRun, CallError> {
        let mut resumed = 0;
        loop {
            let broken = match events.message().await {
                Ok(Some(event)) => {
                    if let Some(report) = self.take(event) {
                        let RunFollower { run_id, attached_age_ms, .. } = self;
                        return Ok(EndedRun { run_id, report, attached_age_ms });
                    }
                    continue;
                }
                Ok(None) => None,
                // Before the first event nothing has begun, and the refusal is the answer.
                Err(status) if self.run_id.is_empty() || is_refusal(&status) => return Err(status.into()),
                Err(status) => Some(status),
            };
            tracing::warn!(run = self.run_id, ?broken, "the events of the run broke off");
            events = loop {
                if self.run_id.is_empty() || resumed == RESUME_MAX {
                    // The supervisor's own words say more than that the stream broke off.
                    let told = broken.filter(|status| status.source().is_none());
                    return Err(told.map_or(CallError::BrokenOff { run_id: self.run_id }, CallError::from));
                }
                resumed += 1;
                tokio::time::sleep(RESUME_PAUSE).await;
                match self.watch().await {
                    Ok(events) => break events,
                    Err(status) => tracing::warn!(%status, "the run cannot be watched"),
                }
            };
        }
    }

    async fn watch(&mut self) -> Result<Streaming<RunEvent>, Status> {
        let request = WatchRunRequest { run_id: self.run_id.clone(), cursor: self.next };
        Ok(self.clients.runs.watch_run(request).await?.into_inner())
    }

    // The report, when this was the last event.
    fn take(&mut self, event: RunEvent) -> Option<Report> {
        if self.run_id.is_empty() {
            (self.saw_run)(&event.run_id);
            self.run_id = event.run_id;
        }
        self.next = event.sequence + 1;
        match event.event? {
            Event::Queued(queued) => self.queued(&queued),
            Event::Started(_) => self.progress.update(|standing| standing.waiting = None),
            Event::TestFinished(test) => self.progress.update(|standing| standing.test_finished(test.outcome())),
            Event::Progress(event) => self.progress.update(|standing| standing.counted(&event)),
            Event::Missed(missed) => self.progress.update(|standing| standing.missed = missed.events),
            // Output is read by offset afterwards, where it can be bounded.
            Event::TestStarted(_) | Event::Output(_) | Event::Collector(_) => {}
            Event::Finished(report) => return Some(report),
        }
        None
    }

    fn queued(&mut self, queued: &Queued) {
        if queued.attached {
            self.attached_age_ms = Some(queued.attached_age_ms);
        }
        let waiting = match queued.position {
            0 => "starting".to_owned(),
            position => format!("queued, position {position}"),
        };
        self.progress.update(|standing| standing.waiting = Some(waiting));
    }
}

// Said by the supervisor about this very call, so that asking again gives the same; unlike a broken connection, which is
// noticed here and so has a source, and unlike what the supervisor says to ask for again.
fn is_refusal(status: &Status) -> bool {
    let stays = status.code() != Code::Unavailable || status.get_details_error_info().is_some();
    status.source().is_none() && stays && status.get_details_retry_info().is_none()
}
