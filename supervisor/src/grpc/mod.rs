//! The gRPC edge: the way in and out (`admission`), who calls (`authentication`) and what they have for as long as they are known
//! (`revocation`), what they want (`run_request`), what went wrong (`status`), what takes long to answer (`encode_permit`), and one file per
//! service; `record` tells the audit log of every call. Must not decide anything about runs.

mod admission;
mod authentication;
mod call_record;
pub mod convert;
mod encode_permit;
mod event_stream;
mod host_service;
mod request_body;
mod response_body;
mod results_service;
mod revocation;
mod run_request;
mod runs_service;
mod sessions_service;
mod status;

use crate::ops::audit::Audit;
use crate::ops::drain::Drain;
use crate::runs::RunHandle;
use crate::runs::context::Context;
use crate::sessions::SessionHandle;
use crate::sessions::registry::Registry;
use crate::tenants::access::CurrentAccess;
use crate::tenants::allowance::InFlightBytes;
use crate::tenants::{Caller, Tenant};
use admission::Entry;
use authentication::{AuthenticatedTenant, Identified};
use call_record::Recorded;
use host_service::Hosting;
use proctor_core::id::{RunId, SessionId};
use proctor_proto::v1::host_server::HostServer;
use proctor_proto::v1::results_server::ResultsServer;
use proctor_proto::v1::runs_server::RunsServer;
use proctor_proto::v1::sessions_server::SessionsServer;
use proctor_proto::{FILE_DESCRIPTOR_SET, MESSAGE_BYTES_MAX};
use std::sync::Arc;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Request, Status};
use tonic_health::ServingStatus;

/// Largest request, in bytes. The largest honest one names 1,000 files by absolute paths of 4 KiB.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Largest request to a service that anybody may ask, in bytes, with all messages of it: the name of a service, or some dozens.
const OPEN_REQUEST_BYTES_MAX: usize = 4 * 1024;

/// What every service needs.
#[derive(Clone)]
pub struct Api {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// The sessions.
    pub registry: Registry,
    /// Who may call.
    pub access: CurrentAccess,
    /// Once it has begun, no new work is taken on.
    pub drain: Drain,
}

impl Api {
    /// All services, with health and reflection.
    pub async fn routes(self) -> Result<Routes, tonic_reflection::server::Error> {
        let (health_reporter, health) = tonic_health::server::health_reporter();
        health_reporter.set_serving::<SessionsServer<Api>>().await;
        health_reporter.set_serving::<RunsServer<Api>>().await;
        health_reporter.set_serving::<ResultsServer<Api>>().await;
        health_reporter.set_serving::<HostServer<Hosting>>().await;
        let (drain, host) = (self.drain.clone(), self.context.host.clone());
        tokio::spawn(host.clone().run(Arc::clone(&self.context.sandbox), drain.clone()));
        tokio::spawn(async move {
            let mut serves = host.accepts_runs();
            loop {
                let (status, is_last) = tokio::select! {
                    () = drain.begun() => (ServingStatus::NotServing, true),
                    Ok(()) = serves.changed() => match *serves.borrow_and_update() {
                        true => (ServingStatus::Serving, false),
                        false => (ServingStatus::NotServing, false),
                    },
                };
                // The empty name stands for the supervisor as a whole.
                for service in ["", RunsServer::<Api>::NAME, SessionsServer::<Api>::NAME] {
                    health_reporter.set_service_status(service, status).await;
                }
                if is_last {
                    return;
                }
            }
        });
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        // Many clients ask for the older one alone.
        let (reflection, older) = (reflection().build_v1()?, reflection().build_v1alpha()?);
        let (access, operators, audit) =
            (self.access.clone(), Arc::<InFlightBytes>::default(), self.context.audit.clone());
        let sessions = SessionsServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
        let runs = RunsServer::new(self.clone())
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let results = ResultsServer::new(self.clone())
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let host = HostServer::new(Hosting::new(self)).max_decoding_message_size(REQUEST_BYTES_MAX);
        let way = Way { access, operators, audit };
        let routes = Routes::new(Entry::anybody(health.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(Entry::anybody(reflection.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(Entry::anybody(older.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(way.to(sessions))
            .add_service(way.to(runs))
            .add_service(way.to(results))
            .add_service(way.to(host));
        let nobody = || async { status::no_such_method().into_http::<Body>() };
        Ok(Routes::from(routes.into_axum_router().fallback(nobody)))
    }

    fn caller<'a, T>(&self, request: &'a Request<T>) -> Result<&'a Caller, Status> {
        Ok(&Identified::of(request)?.caller)
    }

    // For what takes longer than an answer.
    fn known<T>(&self, request: &Request<T>) -> Result<AuthenticatedTenant, Status> {
        AuthenticatedTenant::of(request)
    }

    fn tenant<T>(&self, request: &Request<T>) -> Result<Arc<Tenant>, Status> {
        self.caller(request)?.tenant.clone().ok_or_else(status::not_a_tenant)
    }

    fn accepting(&self) -> Result<(), Status> {
        if self.drain.has_begun() { Err(status::draining()) } else { Ok(()) }
    }

    // The same answer for "not yours" and "does not exist", from the same look-up.
    async fn session(&self, tenant: &Tenant, id: &str) -> Result<SessionHandle, Status> {
        call_record::session(id);
        let id = SessionId::new(id);
        self.registry.find(tenant.id.clone(), id).await.ok_or_else(|| status::denied("session"))
    }

    async fn run(&self, tenant: &Tenant, id: &str) -> Result<(RunId, SessionHandle, RunHandle), Status> {
        call_record::run(id);
        let run = RunId::new(id);
        let denied = || status::denied("run");
        let session = self.registry.find_by_run(tenant.id.clone(), &run).await.ok_or_else(denied)?;
        let handle = session.run(run.clone()).await.map_err(|_| denied())?.ok_or_else(denied)?;
        Ok((run, session, handle))
    }
}

/// The way to every service of ours.
struct Way {
    access: CurrentAccess,
    operators: Arc<InFlightBytes>,
    audit: Audit,
}

impl Way {
    fn to<S>(&self, service: S) -> Recorded<Entry<S>> {
        let service = Entry::known(service, self.access.clone(), Arc::clone(&self.operators));
        Recorded { service, audit: self.audit.clone() }
    }
}
