//! The server-sent events of one viewer: a view whenever it changes, until the viewer leaves, its credential is revoked, or
//! it does not read.

use super::PageService;
use super::observer::Observation;
use super::view::{View, ViewQuery};
use super::viewer::{Identification, Viewer};
use crate::telemetry::listener::{ConnectionLife, text};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;

/// Longest life of a stream. The browser then opens another one, as after every loss of connection.
const STREAM_MAX: Duration = Duration::from_secs(60 * 60);

/// How long a viewer may leave an event unread. The kernel holds many events, so this one has slept for minutes.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Longest silence on a stream, so that proxies keep it and the page knows that it is alive.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Places of a viewer: one among all, and one among its own.
pub(super) type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl PageService {
    /// Places for a connection of `viewer` that lives longer than a scrape, or the refusal.
    pub(super) async fn take_places(&self, viewer: &Viewer) -> Result<Places, Response> {
        let too_many = || text(StatusCode::TOO_MANY_REQUESTS, "too many viewers: close another page and try again\n");
        let own = self.logins.take_place(viewer.place_key()).await.ok_or_else(too_many)?;
        let among_all = Arc::clone(&self.places).try_acquire_owned().map_err(|_| too_many())?;
        Ok((among_all, own))
    }
}

/// Starts the stream of `viewer`.
pub(super) fn stream(
    service: PageService,
    viewer: Viewer,
    query: ViewQuery,
    life: &ConnectionLife,
    places: Places,
) -> Response {
    life.extend(STREAM_MAX + STALL_MAX, places);
    // One event waits while the connection takes the one before.
    let (events, receiver) = mpsc::channel(1);
    let life = life.clone();
    tokio::spawn(async move {
        let sender = ViewSender { service, query, events, last: None };
        if sender.run(viewer.identification).await == End::Stalled {
            life.end();
        }
    });
    Sse::new(ReceiverStream::new(receiver)).into_response()
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The viewer has left, or everything for it has been sent.
    Done,
    Stalled,
}

struct ViewSender {
    service: PageService,
    query: ViewQuery,
    events: mpsc::Sender<Result<Event, Infallible>>,
    /// The last view that was sent, and when anything was sent.
    last: Option<(String, Instant)>,
}

impl ViewSender {
    async fn run(mut self, identification: Identification) -> End {
        let ends = Instant::now() + STREAM_MAX;
        let mut observations = self.service.observer.subscribe();
        loop {
            tokio::select! {
                changed = observations.changed() => if changed.is_err() {
                    return End::Done;
                },
                () = self.events.closed() => return End::Done,
                () = sleep_until(ends) => return End::Done,
            }
            let Some(observation) = observations.borrow_and_update().clone() else { continue };
            let viewer = Viewer::identify(&self.service, identification.clone()).await;
            let event = match &viewer {
                Some(viewer) => self.next_event(&observation, viewer),
                None => Some(Event::default().event("logged_out").data("the login has ended")),
            };
            let Some(event) = event else { continue };
            match timeout(STALL_MAX, self.events.send(Ok(event))).await {
                Ok(Ok(())) if viewer.is_some() => {}
                Ok(_) => return End::Done,
                Err(_) => return End::Stalled,
            }
        }
    }

    // The view, unless it is the one that the viewer has; then a sign of life at times.
    fn next_event(&mut self, observation: &Observation, viewer: &Viewer) -> Option<Event> {
        let view = serde_json::to_string(&View::new(observation, &viewer.scope, &self.query)).ok()?;
        let now = Instant::now();
        match &mut self.last {
            Some((last, at)) if *last == view => (now - *at >= SILENCE_MAX).then(|| {
                *at = now;
                Event::default().comment("alive")
            }),
            _ => {
                let event = Event::default().data(format!("{{\"now_ms\":{},\"view\":{view}}}", observation.at.0));
                self.last = Some((view, now));
                Some(event)
            }
        }
    }
}
