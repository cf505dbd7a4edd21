//! The Host service, for operators.

use super::{Api, call_record, status};
use crate::grpc::convert;
use crate::host::check_cache::HostCheckCache;
use crate::host::checks::checks_until;
use crate::runs::{Phase, Snapshot};
use crate::sessions::registry::TenantSessions;
use crate::tenants::Tenant;
use proctor_core::bounds::{DRAIN_GRACE_MAX, HOST_PAGE};
use proctor_core::id::{SessionId, TenantId};
use proctor_core::quota::Quota;
use proctor_proto::v1;
use proctor_proto::v1::host_server::Host;
use proctor_sandbox::KillSwitch;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// The Host service, with a cache of the host checks that all callers share.
pub(super) struct HostService {
    api: Api,
    check_cache: HostCheckCache,
}

impl HostService {
    pub(super) fn new(api: Api) -> HostService {
        let context = Arc::clone(&api.context);
        let check = move |kill: Option<&KillSwitch>| checks_until(&context, kill);
        HostService { check_cache: HostCheckCache::start(api.drain.clone(), check), api }
    }
}

impl Api {
    fn operator<T>(&self, request: &Request<T>) -> Result<(), Status> {
        if self.caller(request)?.operator { Ok(()) } else { Err(status::operators_only()) }
    }

    /// The running and waiting runs of busy sessions. A session that has ended in the meantime has none.
    async fn unfinished_runs(&self, tenants: &[TenantSessions]) -> Vec<v1::HostRun> {
        let now = self.context.clock.now();
        let mut runs = Vec::new();
        for TenantSessions { tenant, busy, .. } in tenants {
            for session in busy {
                for (run, handle) in session.unfinished().await.unwrap_or_default() {
                    // A run without a snapshot has ended since its session was asked.
                    let Ok(Snapshot { phase, progress, .. }) = handle.snapshot().await else { continue };
                    let state = match phase {
                        Phase::Queued { .. } => v1::RunState::Queued,
                        Phase::Running => v1::RunState::Running,
                        Phase::Finished => continue,
                    };
                    runs.push(v1::HostRun {
                        run_id: run.to_string(),
                        tenant_id: tenant.to_string(),
                        session_id: session.id().to_string(),
                        outcome: v1::Outcome::Unspecified.into(),
                        age_ms: now.ms_since(handle.accepted_at),
                        state: state.into(),
                        progress: Some(convert::progress(&progress)),
                    });
                }
            }
        }
        runs
    }
}

/// What the tenant may use, and what it uses beside its sessions and runs, whose memory the caller counts.
pub(crate) fn usage(tenant: &Tenant) -> v1::TenantUsage {
    let Quota { running_runs_max, queued_runs_max, in_use_max, retained_bytes_max, .. } = tenant.policy.quota;
    let runs = |max: u32| (max != u32::MAX).then_some(max.into());
    let amount = |max: u64| (max != u64::MAX).then_some(max);
    v1::TenantUsage {
        sessions_max: tenant.sessions_max as u64,
        runs_running_max: runs(running_runs_max),
        runs_queued_max: runs(queued_runs_max),
        memory_bytes: 0,
        memory_bytes_max: amount(in_use_max.memory_bytes),
        cpu_millis_max: amount(in_use_max.cpu_millis),
        retained_bytes: tenant.usage.retained.bytes.now(),
        retained_bytes_max: amount(retained_bytes_max),
        streams: tenant.allowance.subscribers(),
        streams_max: tenant.allowance.subscribers_max.into(),
    }
}

// Numbers of running and of queued runs.
fn count_by_state<'a>(runs: impl Iterator<Item = &'a v1::HostRun>) -> (u64, u64) {
    runs.fold((0, 0), |(running, queued), run| match run.state() {
        v1::RunState::Running => (running + 1, queued),
        _ => (running, queued + 1),
    })
}

#[tonic::async_trait]
impl Host for HostService {
    async fn get_host(&self, request: Request<v1::GetHostRequest>) -> Result<Response<v1::GetHostResponse>, Status> {
        self.api.operator(&request)?;
        let found = self.check_cache.checks().await;
        let found = found.ok_or_else(|| match self.api.check_accepting() {
            Err(draining) => draining,
            Ok(()) => status::internal("the host could not be checked"),
        })?;
        let tenants = self.api.registry.sessions_by_tenant().await;
        let (runs_running, runs_queued) = count_by_state(self.api.unfinished_runs(&tenants).await.iter());
        Ok(Response::new(v1::GetHostResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: self.api.context.clock.elapsed_ms(),
            checks: found.iter().map(convert::check).collect(),
            sessions: tenants.iter().map(|tenant| tenant.sessions as u64).sum(),
            runs_running,
            runs_queued,
        }))
    }

    async fn list_tenants(
        &self,
        request: Request<v1::ListTenantsRequest>,
    ) -> Result<Response<v1::ListTenantsResponse>, Status> {
        self.api.operator(&request)?;
        let open = self.api.registry.sessions_by_tenant().await;
        let runs = self.api.unfinished_runs(&open).await;
        let configured: BTreeMap<TenantId, Arc<Tenant>> = self
            .api
            .access
            .borrow()
            .tenants
            .all()
            .iter()
            .map(|tenant| (tenant.id.clone(), Arc::clone(tenant)))
            .collect();
        let mut sessions: BTreeMap<&TenantId, u64> = configured.keys().map(|tenant| (tenant, 0)).collect();
        sessions.extend(open.iter().map(|entry| (&entry.tenant, entry.sessions as u64)));
        let tenants = sessions.into_iter().map(|(tenant, sessions)| {
            let runs = || runs.iter().filter(|run| run.tenant_id == tenant.as_str());
            let (runs_running, runs_queued) = count_by_state(runs());
            let memory_bytes = runs().filter_map(|run| run.progress.as_ref()?.memory_bytes).sum();
            let usage = configured.get(tenant).map(|tenant| v1::TenantUsage { memory_bytes, ..usage(tenant) });
            v1::TenantStatus { tenant_id: tenant.to_string(), sessions, runs_running, runs_queued, usage }
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
        let (size, after) = (HOST_PAGE.clamp(page_size), (TenantId::new(tenant), SessionId::new(session)));
        // One more than the page, to learn whether another page follows.
        let mut found = self.api.registry.list_all(after, size + 1).await;
        let more = found.len() > size;
        found.truncate(size);
        let last = found.last().filter(|_| more);
        let next_page_token = last.map_or_else(String::new, |(tenant, session)| format!("{tenant}/{}", session.id()));
        let mut sessions = Vec::with_capacity(found.len());
        for (tenant, session) in found {
            // A session that ended in the meantime is not listed.
            if let Ok(session) = self.api.describe(&session).await {
                sessions.push(v1::HostSession { tenant_id: tenant.to_string(), session: Some(session) });
            }
        }
        Ok(Response::new(v1::ListAllSessionsResponse { sessions, next_page_token }))
    }

    async fn list_runs(&self, request: Request<v1::ListRunsRequest>) -> Result<Response<v1::ListRunsResponse>, Status> {
        self.api.operator(&request)?;
        let v1::ListRunsRequest { page_size, page_token } = request.into_inner();
        let size = HOST_PAGE.clamp(page_size);
        let mut runs = self.api.unfinished_runs(&self.api.registry.sessions_by_tenant().await).await;
        runs.retain(|run| run.run_id > page_token);
        runs.sort_by(|one, other| one.run_id.cmp(&other.run_id));
        let more = runs.len() > size;
        runs.truncate(size);
        let next_page_token = runs.last().filter(|_| more).map_or_else(String::new, |run| run.run_id.clone());
        Ok(Response::new(v1::ListRunsResponse { runs, next_page_token }))
    }

    async fn stop_run(&self, request: Request<v1::StopRunRequest>) -> Result<Response<v1::StopRunResponse>, Status> {
        self.api.operator(&request)?;
        let id = &request.get_ref().run_id;
        call_record::set_run(id);
        let ended = status::run_ended;
        // A run's id begins with its session's.
        let session = id.rsplit_once('-').map_or("", |(session, _)| session);
        let tenants = self.api.registry.sessions_by_tenant().await;
        let busy = tenants.iter().flat_map(|tenant| &tenant.busy).find(|busy| busy.id().as_str() == session);
        let session = busy.ok_or_else(ended)?;
        let unfinished = session.unfinished().await.unwrap_or_default();
        let (run, _) = unfinished.into_iter().find(|(run, _)| run.as_str() == id).ok_or_else(ended)?;
        session.cancel(run).await.map_err(|error| status::session(&error))?;
        Ok(Response::new(v1::StopRunResponse {}))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        self.api.operator(&request)?;
        let within = request.get_ref().deadline_ms.map(Duration::from_millis);
        if within.is_some_and(|within| within > DRAIN_GRACE_MAX) {
            let why = format!("deadline_ms: at most {}", DRAIN_GRACE_MAX.as_millis());
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
