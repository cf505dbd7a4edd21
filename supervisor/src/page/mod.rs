//! The page for people, beside `/metrics`: what a supervisor does now, in a browser.
//!
//! [`request_check`] refuses what other origins send, [`logins`] knows which browser has presented which credential,
//! [`viewer`] identifies the caller of a request, [`observer`] asks the actors once for all viewers, [`view`] selects what
//! one viewer may see, [`event_stream`] sends it, [`routes`] answers requests, and [`assets`] has the files of the page.

mod assets;
mod event_stream;
mod logins;
mod observer;
mod request_check;
mod routes;
mod view;
mod viewer;

use crate::grpc::Api;
use axum::Router;
use event_stream::ViewerPlaces;
use logins::Logins;
use observer::Observer;
use proctor_core::bounds::PAGE_REQUESTS_MAX;
use request_check::HostNames;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What the page is answered from. Clones share it.
#[derive(Clone)]
pub struct PageService {
    api: Api,
    hosts: HostNames,
    logins: Logins,
    observer: Observer,
    places: ViewerPlaces,
    /// Places of all other requests, so that they take none of the scrapers'.
    requests: Arc<Semaphore>,
}

impl PageService {
    /// The page of the supervisor of `api`, which browsers find under these names beside those of loopback.
    #[must_use]
    pub fn start(api: Api, hosts: &[String]) -> PageService {
        PageService {
            hosts: HostNames::new(hosts),
            logins: Logins::start(),
            observer: Observer::start(api.clone()),
            places: ViewerPlaces::new(),
            requests: Arc::new(Semaphore::new(PAGE_REQUESTS_MAX)),
            api,
        }
    }

    /// The routes of the page.
    pub fn routes(self) -> Router {
        routes::routes(self)
    }
}
