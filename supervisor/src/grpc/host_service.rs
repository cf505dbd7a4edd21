//! The Host service, for operators. Must not know tenants' data.

use super::run_request::{Bounds, clamp};
use super::{Api, status};
use crate::grpc::convert;
use crate::host::check_cache::HostCheckCache;
use crate::host::checks::checks_until;
use crate::ops::drain::GRACE_MAX;
use crate::runs::Phase;
use crate::sessions::registry::TenantSessions;
use proctor_core::id::{SessionId, TenantId};
use proctor_proto::v1;
use proctor_proto::v1::host_server::Host;
use proctor_sandbox::KillSwitch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Runs or sessions on a page.
const PAGE: Bounds = Bounds { default: 1_000, max: 10_000 };

/// The service: the Api, and the one look at the host for all who ask.
pub(super) struct Hosting {
    api: Api,
    lookout: HostCheckCache,
}

impl Hosting {
    pub(super) fn new(api: Api) -> Hosting {
        let context = Arc::clone(&api.context);
        let look = move |kill: Option<&KillSwitch>| checks_until(&context, kill);
        Hosting { lookout: HostCheckCache::start(api.drain.clone(), look), api }
    }
}

impl Api {
    fn operator<T>(&self, request: &Request<T>) -> Result<(), Status> {
        if self.caller(request)?.operator { Ok(()) } else { Err(status::operators_only()) }
    }

    /// The runs that go on or wait. Asks only the sessions that have some; one that has ended meanwhile has none.
    async fn unfinished(&self, holdings: &[TenantSessions]) -> Vec<v1::HostRun> {
        let now = self.context.clock.now();
        let mut runs = Vec::new();
        for TenantSessions { tenant, busy, .. } in holdings {
            for session in busy {
                for (run, handle) in session.unfinished().await.unwrap_or_default() {
                    let state = match handle.snapshot().await.map(|snapshot| snapshot.phase) {
                        Ok(Phase::Queued) => v1::RunState::Queued,
                        Ok(Phase::Running) => v1::RunState::Running,
                        // It has ended since its session was asked.
                        Ok(Phase::Finished) | Err(_) => continue,
                    };
                    runs.push(v1::HostRun {
                        run_id: run.to_string(),
                        tenant_id: tenant.to_string(),
                        session_id: session.id().to_string(),
                        outcome: v1::Outcome::Unspecified.into(),
                        age_ms: now.ms_since(handle.accepted_at),
                        state: state.into(),
                    });
                }
            }
        }
        runs
    }
}

// How many go on, and how many wait.
fn count<'a>(runs: impl Iterator<Item = &'a v1::HostRun>) -> (u64, u64) {
    runs.fold((0, 0), |(running, queued), run| match run.state() {
        v1::RunState::Running => (running + 1, queued),
        _ => (running, queued + 1),
    })
}

#[tonic::async_trait]
impl Host for Hosting {
    async fn get_host(&self, request: Request<v1::GetHostRequest>) -> Result<Response<v1::GetHostResponse>, Status> {
        self.api.operator(&request)?;
        let found = self.lookout.checks().await;
        let found = found.ok_or_else(|| match self.api.accepting() {
            Err(draining) => draining,
            Ok(()) => status::internal("the host could not be looked at"),
        })?;
        let holdings = self.api.registry.census().await;
        let (runs_running, runs_queued) = count(self.api.unfinished(&holdings).await.iter());
        Ok(Response::new(v1::GetHostResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.api.context.clock.elapsed_ms(),
            checks: found.iter().map(convert::check).collect(),
            sessions: holdings.iter().map(|holding| holding.sessions as u64).sum(),
            runs_running,
            runs_queued,
        }))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        self.api.operator(&request)?;
        let holdings = self.api.registry.census().await;
        let runs = self.api.unfinished(&holdings).await;
        let known = self.api.access.borrow().tenants.all().iter().map(|tenant| (tenant.id.clone(), 0)).collect();
        let mut sessions: BTreeMap<TenantId, u64> = known;
        sessions.extend(holdings.into_iter().map(|holding| (holding.tenant, holding.sessions as u64)));
        let tenants = sessions.into_iter().map(|(tenant, sessions)| {
            let (runs_running, runs_queued) = count(runs.iter().filter(|run| run.tenant_id == tenant.as_str()));
            v1::TenantStatus { tenant_id: tenant.to_string(), sessions, runs_running, runs_queued }
        });
        Ok(Response::new(v1::ListTenantsResponse { tenants: tenants.collect() }))
    }

    async fn list_all_sessions(
        &self,
        request: Request<v1::ListAllSessionsRequest>,
    ) -> Result<Response<v1::ListAllSessionsResponse>, Status> {
        self.api.operator(&request)?;
        let v1::ListAllSessionsRequest { page_size, page_token } = request.into_inner();
        // A tenant's name has no slash in it.
        let (tenant, session) = page_token.split_once('/').unwrap_or((&page_token, ""));
        let (size, after) = (clamp(page_size, PAGE), (TenantId::new(tenant), SessionId::new(session)));
        // One more than the page, to know whether there is another.
        let mut found = self.api.registry.list_all(after, size + 1).await;
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more);
        let next_page_token = last.map_or_else(String::new, |(tenant, session)| format!("{tenant}/{}", session.id()));
        let mut sessions = Vec::with_capacity(found.len());
        for (tenant, session) in found {
            // One that ended in the meantime is not listed.
            if let Ok(session) = self.api.describe(&session).await {
                sessions.push(v1::HostSession { tenant_id: tenant.to_string(), session: Some(session) });
            }
        }
        Ok(Response::new(v1::ListAllSessionsResponse { sessions, next_page_token }))
    }

    async fn list_runs(&self, request: Request<v1::ListRunsRequest>) -> Result<Response<v1::ListRunsResponse>, Status> {
        self.api.operator(&request)?;
        let v1::ListRunsRequest { page_size, page_token } = request.into_inner();
        let size = clamp(page_size, PAGE);
        let mut runs = self.api.unfinished(&self.api.registry.census().await).await;
        runs.retain(|run| run.run_id > page_token);
        runs.sort_by(|one, other| one.run_id.cmp(&other.run_id));
        let more = runs.len() > size;
        runs.truncate(size);
        let next_page_token = runs.last().filter(|_| more).map_or_else(String::new, |run| run.run_id.clone());
        Ok(Response::new(v1::ListRunsResponse { runs, next_page_token }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        self.api.operator(&request)?;
        let within = request.get_ref().deadline_ms.map(Duration::from_millis);
        if within.is_some_and(|within| within > GRACE_MAX) {
            let why = format!("deadline_ms: at most {}", GRACE_MAX.as_millis());
            return Err(status::invalid("deadline_ms", why));
        }
        self.api.drain.begin(within);
        let closed = self.api.drain.outcome().await;
        Ok(Response::new(v1::DrainResponse {
            runs_finished: closed.finished as u64,
            runs_cancelled: closed.cancelled as u64,
        }))
    }
}
