//! The server-sent events of one viewer: a view whenever it changes, until the viewer leaves, its credential is revoked, or
//! it does not read.

use super::PageService;
use super::observer::Observation;
use super::view::{View, ViewQuery};
use super::viewer::{Scope, Viewer};
use crate::telemetry::listener::{ConnectionLife, text};
use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use proctor_core::bounds::{VIEWERS_MAX, VIEWERS_PER_CALLER_MAX};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;

/// Longest life of a stream. The browser then opens another one, as after every loss of connection.
const STREAM_MAX: Duration = Duration::from_secs(60 * 60);

/// How long a viewer may leave an event unread. The kernel holds many events, so this one has slept for minutes.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Longest silence on a stream, so that proxies keep it and the page knows that it is alive.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Places of a viewer: one among those of all callers of its kind, and one among its own.
pub(super) type Places = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Places of event streams and reports, whose connections live for longer than those of scrapers. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct ViewerPlaces {
    operators: Arc<Semaphore>,
    tenants: Arc<Semaphore>,
}

impl ViewerPlaces {
    pub(super) fn new() -> ViewerPlaces {
        ViewerPlaces {
            operators: Arc::new(Semaphore::new(VIEWERS_PER_CALLER_MAX)),
            tenants: Arc::new(Semaphore::new(VIEWERS_MAX - VIEWERS_PER_CALLER_MAX)),
        }
    }

    fn take(&self, scope: &Scope) -> Option<OwnedSemaphorePermit> {
        let places = match scope {
            Scope::Operator => &self.operators,
            Scope::Tenant(_) => &self.tenants,
        };
        Arc::clone(places).try_acquire_owned().ok()
    }
}

impl PageService {
    /// Places for a connection of `viewer` that lives longer than a scrape, or the refusal.
    pub(super) async fn take_places(&self, viewer: &Viewer) -> Result<Places, Response> {
        let too_many = |sentence| text(StatusCode::TOO_MANY_REQUESTS, sentence);
        let own = self.logins.take_place(viewer.place_key()).await;
        let own = own.ok_or_else(|| too_many("too many viewers of this caller: close another page\n"))?;
        let among_all = self.places.take(&viewer.scope);
        let among_all = among_all.ok_or_else(|| too_many("too many viewers of all tenants: try again later\n"))?;
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
        let observations = service.observer.subscribe();
        let identify = || {
            let (service, identification) = (service.clone(), viewer.identification.clone());
            async move { Viewer::identify(&service, identification).await.ok().map(|viewer| viewer.scope) }
        };
        match ViewSender::new(query, events).run(observations, identify).await {
            // A peer that does not read what has been sent keeps its places no longer than one that stalls.
            End::Done => life.end_within(STALL_MAX),
            End::Stalled => life.end_within(Duration::ZERO),
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
    query: ViewQuery,
    events: mpsc::Sender<Result<Event, Infallible>>,
    /// The last view that was sent.
    last: Option<String>,
    /// When anything was sent.
    sent_at: Instant,
}

impl ViewSender {
    fn new(query: ViewQuery, events: mpsc::Sender<Result<Event, Infallible>>) -> ViewSender {
        ViewSender { query, events, last: None, sent_at: Instant::now() }
    }

    // `identify` finds what the caller may see now; `None` once its credential is no longer valid.
    async fn run<F: Future<Output = Option<Scope>>>(
        mut self,
        mut observations: watch::Receiver<Option<Arc<Observation>>>,
        mut identify: impl FnMut() -> F,
    ) -> End {
        let ends = Instant::now() + STREAM_MAX;
        loop {
            tokio::select! {
                changed = observations.changed() => if changed.is_err() {
                    return End::Done;
                },
                // Also a host that takes long for an observation shows that it is alive, and asks for the credential.
                () = sleep_until(self.sent_at + SILENCE_MAX) => {}
                () = self.events.closed() => return End::Done,
                () = sleep_until(ends) => return End::Done,
            }
            let observation = observations.borrow_and_update().clone();
            let scope = identify().await;
            let event = match &scope {
                Some(scope) => self.next_event(observation.as_deref(), scope),
                None => Some(Event::default().event("logged_out").data("the login has ended")),
            };
            let Some(event) = event else { continue };
            match timeout(STALL_MAX, self.events.send(Ok(event))).await {
                Ok(Ok(())) if scope.is_some() => self.sent_at = Instant::now(),
                Ok(_) => return End::Done,
                Err(_) => return End::Stalled,
            }
        }
    }

    // The view, unless it is the one that the viewer has; then a sign of life at times.
    fn next_event(&mut self, observation: Option<&Observation>, scope: &Scope) -> Option<Event> {
        let view = observation.and_then(|observation| {
            let view = serde_json::to_string(&View::new(observation, scope, &self.query)).ok()?;
            (self.last.as_ref() != Some(&view)).then_some((observation.at, view))
        });
        if let Some((at, view)) = view {
            let event = Event::default().data(format!("{{\"now_ms\":{},\"view\":{view}}}", at.0));
            self.last = Some(view);
            return Some(event);
        }
        (self.sent_at.elapsed() >= SILENCE_MAX).then(|| Event::default().comment("alive"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::id::TenantId;
    use std::sync::atomic::{AtomicBool, Ordering};

    type Events = mpsc::Receiver<Result<Event, Infallible>>;

    struct Stream {
        observations: watch::Sender<Option<Arc<Observation>>>,
        events: Events,
        is_valid: Arc<AtomicBool>,
        task: tokio::task::JoinHandle<End>,
    }

    fn start() -> Stream {
        let (events, receiver) = mpsc::channel(1);
        let (observations, subscription) = watch::channel(None);
        let is_valid = Arc::new(AtomicBool::new(true));
        let valid = Arc::clone(&is_valid);
        let identify = move || std::future::ready(valid.load(Ordering::Relaxed).then_some(Scope::Operator));
        let task = tokio::spawn(ViewSender::new(ViewQuery::default(), events).run(subscription, identify));
        Stream { observations, events: receiver, is_valid, task }
    }

    fn observation(trouble: &str) -> Option<Arc<Observation>> {
        Some(Arc::new(Observation { trouble: Some(trouble.to_owned()), ..Observation::default() }))
    }

    async fn next(events: &mut Events) -> String {
        format!("{:?}", events.recv().await.unwrap().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_does_not_read_is_stalled_after_a_time() {
        let Stream { observations, events, task, .. } = start();
        observations.send_replace(observation("first"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let began = Instant::now();
        observations.send_replace(observation("second"));
        assert_eq!(task.await.unwrap(), End::Stalled);
        assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
        drop(events);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_shows_that_it_is_alive_whatever_an_observation_takes() {
        let Stream { observations, mut events, task, .. } = start();
        let began = Instant::now();
        assert!(next(&mut events).await.contains("alive"));
        assert_eq!(began.elapsed().as_secs(), SILENCE_MAX.as_secs());
        observations.send_replace(observation("full"));
        assert!(next(&mut events).await.contains("full"));
        observations.send_replace(observation("full"));
        assert!(next(&mut events).await.contains("alive"), "the same view is not sent again");
        assert_eq!(began.elapsed().as_secs(), 2 * SILENCE_MAX.as_secs());
        drop(events);
        assert_eq!(task.await.unwrap(), End::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn a_revoked_credential_ends_the_stream_without_an_observation() {
        let Stream { observations, mut events, is_valid, task } = start();
        is_valid.store(false, Ordering::Relaxed);
        assert!(next(&mut events).await.contains("logged_out"));
        assert_eq!(task.await.unwrap(), End::Done);
        assert!(events.recv().await.is_none());
        drop(observations);
    }

    #[test]
    fn tenants_take_no_place_of_operators() {
        let places = ViewerPlaces::new();
        let tenant = Scope::Tenant(TenantId::new("alpha"));
        let taken: Vec<_> = std::iter::from_fn(|| places.take(&tenant)).collect();
        assert_eq!(taken.len(), VIEWERS_MAX - VIEWERS_PER_CALLER_MAX);
        let operators: Vec<_> = std::iter::from_fn(|| places.take(&Scope::Operator)).collect();
        assert_eq!(operators.len(), VIEWERS_PER_CALLER_MAX);
    }
}
