//! The gRPC edge: who calls (`identity`), what they want (`request`), what went wrong (`status`), and one file per
//! service; `record` tells the audit log of every call. Must not decide anything about runs.

mod follow;
mod host;
mod identity;
mod record;
mod request;
mod results;
mod runs;
mod sessions;
mod status;

use crate::access::Current;
use crate::context::Context;
use crate::registry::Registry;
use crate::run::RunHandle;
use crate::serve::Drain;
use crate::session::SessionHandle;
use crate::tenant::{Caller, Tenant};
use identity::Known;
use proctor_core::id::{RunId, SessionId};
use proctor_proto::v1::host_server::HostServer;
use proctor_proto::v1::results_server::ResultsServer;
use proctor_proto::v1::runs_server::RunsServer;
use proctor_proto::v1::sessions_server::SessionsServer;
use proctor_proto::{FILE_DESCRIPTOR_SET, MESSAGE_BYTES_MAX};
use record::Recorded;
use std::sync::Arc;
use tonic::service::Routes;
use tonic::{Request, Status};
use tonic_health::ServingStatus;

/// Largest request, in bytes. The largest honest one is 1,000 file names of 4 KiB.
const REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What every service needs.
#[derive(Clone)]
pub struct Api {
    /// Shared by all runs.
    pub context: Arc<Context>,
    /// The sessions.
    pub registry: Registry,
    /// Who may call.
    pub access: Current,
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
        health_reporter.set_serving::<HostServer<Api>>().await;
        let drain = self.drain.clone();
        tokio::spawn(async move {
            drain.begun().await;
            // The empty name stands for the supervisor as a whole.
            health_reporter.set_service_status("", ServingStatus::NotServing).await;
            health_reporter.set_not_serving::<RunsServer<Api>>().await;
            health_reporter.set_not_serving::<SessionsServer<Api>>().await;
        });
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        Ok(Routes::new(health)
            .add_service(reflection)
            .add_service(self.recorded(SessionsServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX)))
            .add_service(
                self.recorded(
                    RunsServer::new(self.clone())
                        .max_decoding_message_size(REQUEST_BYTES_MAX)
                        .max_encoding_message_size(MESSAGE_BYTES_MAX),
                ),
            )
            .add_service(
                self.recorded(
                    ResultsServer::new(self.clone())
                        .max_decoding_message_size(REQUEST_BYTES_MAX)
                        .max_encoding_message_size(MESSAGE_BYTES_MAX),
                ),
            )
            .add_service(self.recorded(HostServer::new(self.clone()).max_decoding_message_size(REQUEST_BYTES_MAX))))
    }

    fn recorded<S>(&self, service: S) -> Recorded<S> {
        Recorded { service, audit: self.context.audit.clone() }
    }

    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = identity::caller(&self.access.borrow(), request)?;
        record::caller(&caller);
        Ok(caller)
    }

    // For what takes longer than an answer.
    fn known<T>(&self, request: &Request<T>) -> Result<Known, Status> {
        let known = Known::of(&self.access, request)?;
        within(&known.tenant)?;
        Ok(known)
    }

    fn tenant<T>(&self, request: &Request<T>) -> Result<Arc<Tenant>, Status> {
        let tenant = self.caller(request)?.tenant.ok_or_else(status::not_a_tenant)?;
        within(&tenant)?;
        Ok(tenant)
    }

    fn accepting(&self) -> Result<(), Status> {
        if self.drain.has_begun() { Err(status::draining()) } else { Ok(()) }
    }

    // The same answer for "not yours" and "does not exist", from the same look-up.
    async fn session(&self, tenant: &Tenant, id: &str) -> Result<SessionHandle, Status> {
        record::session(id);
        let id = SessionId::new(id);
        self.registry.find(tenant.id.clone(), id).await.ok_or_else(|| status::denied("session"))
    }

    async fn run(&self, tenant: &Tenant, id: &str) -> Result<(RunId, SessionHandle, RunHandle), Status> {
        record::run(id);
        let run = RunId::new(id);
        let denied = || status::denied("run");
        let session = self.registry.find_by_run(tenant.id.clone(), &run).await.ok_or_else(denied)?;
        let handle = session.run(run.clone()).await.map_err(|_| denied())?.ok_or_else(denied)?;
        Ok((run, session, handle))
    }
}

// Takes a request out of what the tenant may have.
fn within(tenant: &Tenant) -> Result<(), Status> {
    tenant.allowance.request().map_err(|wait| status::too_many_requests(&tenant.allowance, wait))
}
