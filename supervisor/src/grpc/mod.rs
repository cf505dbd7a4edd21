//! The gRPC edge. `admission` admits calls, `authentication` identifies the caller and `revocation` takes resources
//! back when its credential is revoked, `run_request` validates requests, `status` converts errors, `encode_permit`
//! bounds the encoding of large answers, `call_record` writes the audit log, and each service has one file.

mod admission;
mod authentication;
mod call_record;
pub mod convert;
pub mod convert_analysis;
pub mod convert_check;
mod encode_permit;
mod event_stream;
mod history_answer;
pub(crate) mod host_service;
mod metered_request_body;
mod metered_response_body;
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
use crate::telemetry::counters::Counters;
use crate::tenants::access::CurrentAccess;
use crate::tenants::allowance::InFlightBytes;
use crate::tenants::{Caller, Tenant};
use admission::Admission;
use authentication::{AuthenticatedCaller, AuthenticatedTenant};
use call_record::AuditedService;
use host_service::HostService;
use proctor_core::bounds::{OPEN_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX};
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

/// Dependencies of all services.
#[derive(Clone)]
pub struct Api {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// The sessions.
    pub registry: Registry,
    /// Tenants and credentials.
    pub access: CurrentAccess,
    /// Once the drain has begun, new work is refused.
    pub drain: Drain,
}

impl Api {
    /// All services, with health and reflection.
    pub async fn routes(self) -> Result<Routes, tonic_reflection::server::Error> {
        let (health_reporter, health) = tonic_health::server::health_reporter();
        health_reporter.set_serving::<SessionsServer<Api>>().await;
        health_reporter.set_serving::<RunsServer<Api>>().await;
        health_reporter.set_serving::<ResultsServer<Api>>().await;
        health_reporter.set_serving::<HostServer<HostService>>().await;
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
        // Many clients ask for the older reflection version only.
        let (reflection, older) = (reflection().build_v1()?, reflection().build_v1alpha()?);
        let (access, operators, audit) =
            (self.access.clone(), Arc::<InFlightBytes>::default(), self.context.audit.clone());
        let counters = Arc::clone(&self.context.counters);
        let sessions = SessionsServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
        let runs = RunsServer::new(self.clone())
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let results = ResultsServer::new(self.clone())
            .max_decoding_message_size(REQUEST_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let host = HostServer::new(HostService::new(self)).max_decoding_message_size(REQUEST_BYTES_MAX);
        let guard = ServiceGuard { access, operators, audit, counters };
        let routes = Routes::new(Admission::open(health.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(Admission::open(reflection.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(Admission::open(older.max_decoding_message_size(OPEN_REQUEST_BYTES_MAX)))
            .add_service(guard.wrap(sessions))
            .add_service(guard.wrap(runs))
            .add_service(guard.wrap(results))
            .add_service(guard.wrap(host));
        let unknown_method = || async { status::no_such_method().into_http::<Body>() };
        Ok(Routes::from(routes.into_axum_router().fallback(unknown_method)))
    }

    fn caller<'a, T>(&self, request: &'a Request<T>) -> Result<&'a Caller, Status> {
        Ok(&AuthenticatedCaller::from_request(request)?.caller)
    }

    // For calls that outlast their first answer.
    fn authenticated_tenant<T>(&self, request: &Request<T>) -> Result<AuthenticatedTenant, Status> {
        AuthenticatedTenant::from_request(request)
    }

    fn tenant<T>(&self, request: &Request<T>) -> Result<Arc<Tenant>, Status> {
        self.caller(request)?.tenant.clone().ok_or_else(status::not_a_tenant)
    }

    fn check_accepting(&self) -> Result<(), Status> {
        if self.drain.has_begun() { Err(status::draining()) } else { Ok(()) }
    }

    // Answers "not yours" and "does not exist" alike, after the same look-up.
    async fn session(&self, tenant: &Tenant, id: &str) -> Result<SessionHandle, Status> {
        call_record::set_session(id);
        let id = SessionId::new(id);
        self.registry.find(tenant.id.clone(), id).await.ok_or_else(|| status::denied("session"))
    }

    async fn run(&self, tenant: &Tenant, id: &str) -> Result<(RunId, SessionHandle, RunHandle), Status> {
        call_record::set_run(id);
        let run = RunId::new(id);
        let denied = || status::denied("run");
        let session = self.registry.find_by_run(tenant.id.clone(), &run).await.ok_or_else(denied)?;
        let handle = session.run(run.clone()).await.map_err(|_| denied())?.ok_or_else(denied)?;
        Ok((run, session, handle))
    }
}

/// Wraps a service with admission and audit.
struct ServiceGuard {
    access: CurrentAccess,
    operators: Arc<InFlightBytes>,
    audit: Audit,
    counters: Arc<Counters>,
}

impl ServiceGuard {
    fn wrap<S>(&self, service: S) -> AuditedService<Admission<S>> {
        let service = Admission::authenticated(service, self.access.clone(), Arc::clone(&self.operators));
        AuditedService { service, audit: self.audit.clone(), counters: Arc::clone(&self.counters) }
    }
}
