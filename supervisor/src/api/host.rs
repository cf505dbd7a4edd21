//! The Host service, for operators. Must not know tenants' data.

use super::{Api, status};
use crate::convert;
use crate::host::checks;
use proctor_proto::v1;
use proctor_proto::v1::host_server::Host;
use std::sync::Arc;
use tonic::{Request, Response, Status};

impl Api {
    fn operator<T>(&self, request: &Request<T>) -> Result<(), Status> {
        if self.caller(request)?.operator { Ok(()) } else { Err(status::operators_only()) }
    }
}

#[tonic::async_trait]
impl Host for Api {
    async fn get_host(&self, request: Request<v1::GetHostRequest>) -> Result<Response<v1::GetHostResponse>, Status> {
        self.operator(&request)?;
        let context = Arc::clone(&self.context);
        let found = tokio::task::spawn_blocking(move || checks(&context)).await;
        let found = found.map_err(|_| Status::internal("the host could not be looked at"))?;
        let sessions = self.registry.all().await;
        let (mut running, mut queued) = (0, 0);
        for session in &sessions {
            if let Ok(status) = session.status().await {
                running += u64::from(status.running.is_some());
                queued += status.waiting as u64;
            }
        }
        Ok(Response::new(v1::GetHostResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.context.clock.elapsed_ms(),
            checks: found.iter().map(convert::check).collect(),
            sessions: sessions.len() as u64,
            runs_running: running,
            runs_queued: queued,
        }))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        self.operator(&request)?;
        Err(status::not_in_this_version("ListTenants"))
    }

    async fn list_runs(&self, request: Request<v1::ListRunsRequest>) -> Result<Response<v1::ListRunsResponse>, Status> {
        self.operator(&request)?;
        Err(status::not_in_this_version("ListRuns"))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        self.operator(&request)?;
        Err(status::not_in_this_version("Drain"))
    }
}
