//! The Sessions service.

use super::{Api, call_record, status};
use crate::grpc::convert;
use crate::runs::prepare::check_owner;
use crate::sessions::registry::{CreateRequest, OpenedSession};
use crate::sessions::{self, SessionHandle};
use crate::tenants::Tenant;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_core::bounds::{CLIENT_REQUEST_ID_BYTES_MAX, SESSIONS_PAGE};
use proctor_proto::v1;
use proctor_proto::v1::sessions_server::Sessions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

#[tonic::async_trait]
impl Sessions for Api {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let caller = self.authenticated_tenant(&request)?;
        let tenant = Arc::clone(&caller.tenant);
        self.check_accepting()?;
        let message = request.into_inner();
        if message.client_request_id.len() > CLIENT_REQUEST_ID_BYTES_MAX {
            let why = format!("client_request_id: at most {CLIENT_REQUEST_ID_BYTES_MAX} bytes");
            return Err(status::invalid("client_request_id", why));
        }
        if message.idle_ms_max > 0 && !message.separate {
            let why = "idle_ms_max: other callers share the session; request a separate one";
            return Err(status::invalid("idle_ms_max", why.to_owned()));
        }
        let workspace = open_workspace(message.workspace, &tenant).await?;
        let (client_request_id, separate) = (message.client_request_id, message.separate);
        let idle_max = Some(message.idle_ms_max).filter(|ms| *ms > 0).map(Duration::from_millis);
        let request = CreateRequest { tenant, workspace, client_request_id, separate, idle_max };
        let (opened, is_admitted) = self.open(request).await?;
        call_record::set_session(opened.session.id().as_str());
        if opened.existing {
            call_record::set_existing();
        }
        if !is_admitted {
            return Err(caller.revoked_status());
        }
        // A new session has no runs yet, so its status is known without asking its actor.
        let session = match opened.existing {
            true => self.describe(&opened.session).await?,
            false => self.session_message(&opened.session, sessions::SessionStatus::new_at(self.context.clock.now())),
        };
        Ok(Response::new(v1::CreateSessionResponse { session: Some(session), existing: opened.existing }))
    }

    async fn get_session(
        &self,
        request: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let session = self.session(&tenant, &request.get_ref().session_id).await?;
        let session = Some(self.describe(&session).await?);
        Ok(Response::new(v1::GetSessionResponse { session }))
    }

    async fn list_sessions(
        &self,
        request: Request<v1::ListSessionsRequest>,
    ) -> Result<Response<v1::ListSessionsResponse>, Status> {
        let tenant: Arc<Tenant> = self.tenant(&request)?;
        let message = request.into_inner();
        let size = SESSIONS_PAGE.clamp(message.page_size);
        // One more than the page, to learn whether another page follows.
        let mut found = self.registry.list(tenant.id.clone(), message.page_token, size + 1).await;
        let more = found.len() > size;
        found.truncate(size);
        let next_page_token =
            found.last().filter(|_| more).map_or_else(String::new, |session| session.id().to_string());
        let mut sessions = Vec::with_capacity(found.len());
        for session in found {
            // A session that ended in the meantime is not listed.
            sessions.extend(self.describe(&session).await.ok());
        }
        Ok(Response::new(v1::ListSessionsResponse { sessions, next_page_token }))
    }

    async fn close_session(
        &self,
        request: Request<v1::CloseSessionRequest>,
    ) -> Result<Response<v1::CloseSessionResponse>, Status> {
        let tenant = self.tenant(&request)?;
        self.session(&tenant, &request.get_ref().session_id).await?.close().await;
        Ok(Response::new(v1::CloseSessionResponse {}))
    }
}

impl Api {
    // Opens a session, and returns whether it may stay: the host file may have been reloaded since the tenant was
    // looked up, which closes sessions that are no longer allowed. The check runs even if the caller leaves, and closes
    // a session that may not stay.
    async fn open(&self, request: CreateRequest) -> Result<(OpenedSession, bool), Status> {
        let (registry, access, tenant) = (self.registry.clone(), self.access.clone(), request.tenant.id.clone());
        let opening = tokio::spawn(async move {
            let opened = registry.create(request).await.map_err(|error| status::create(&error))?;
            let is_admitted = access.borrow().admits(&tenant, opened.session.workspace());
            if !is_admitted {
                opened.session.close().await;
            }
            Ok((opened, is_admitted))
        });
        opening.await.map_err(|_| status::internal("the session could not be opened"))?
    }

    /// The current state of a session.
    pub(super) async fn describe(&self, session: &SessionHandle) -> Result<v1::Session, Status> {
        let status = session.status().await.map_err(|error| status::session(&error))?;
        Ok(self.session_message(session, status))
    }

    fn session_message(&self, session: &SessionHandle, status: sessions::SessionStatus) -> v1::Session {
        let now = self.context.clock.now();
        let (last_run_id, last_outcome) = status
            .last
            .map_or((String::new(), v1::Outcome::Unspecified), |last| (last.0.to_string(), convert::outcome(last.1)));
        v1::Session {
            session_id: session.id().to_string(),
            running_run_id: status.running.map_or_else(String::new, |run| run.to_string()),
            queued_runs: u32::try_from(status.waiting).unwrap_or(u32::MAX),
            last_run_id,
            last_outcome: last_outcome.into(),
            age_ms: now.ms_since(status.created_at),
            idle_ms: now.ms_since(status.used_at),
            idle_ms_max: u64::try_from(session.idle_max().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

// Opens the workspace at `path` below one of the tenant's roots. A path that leads elsewhere, also by links, is neither
// reported as existing or missing nor scanned. A workspace that is already open is taken at once, which takes
// microseconds: the two changes of threads of a scan would cost more.
async fn open_workspace(path: String, tenant: &Arc<Tenant>) -> Result<Workspace, Status> {
    if let Some(found) = Workspace::open_cached(&tenant.roots, Path::new(&path)) {
        return check_workspace(found, tenant);
    }
    let owner = Arc::clone(tenant);
    let opened = tenant.usage.scan_permits.scan(move || {
        let found = Workspace::open_below(&owner.roots, Path::new(&path)).map_err(workspace_status)?;
        check_workspace(found, &owner)
    });
    opened.await.map_err(|_| status::internal("the workspace could not be opened"))?
}

fn check_workspace((found, owner): (Workspace, u32), tenant: &Tenant) -> Result<Workspace, Status> {
    let overlaps = |path: &PathBuf| path.starts_with(found.root()) || found.root().starts_with(path);
    if tenant.reserved.iter().any(overlaps) {
        return Err(workspace_status(WorkspaceError::Reserved));
    }
    check_owner(&tenant.policy, owner).map_err(|error| status::prepare(&error))?;
    Ok(found)
}

fn workspace_status(error: WorkspaceError) -> Status {
    status::workspace(&error, "workspace")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::config::ConfigReader;
    use crate::host::monitor::HostMonitor;
    use crate::host::toolchain::Toolchain;
    use crate::ops::audit::Audit;
    use crate::ops::drain::Drain;
    use crate::runs::RunThreads;
    use crate::runs::context::{Context, ScanPermits};
    use crate::runs::scheduler::Scheduler;
    use crate::sessions::limits::SessionLimits;
    use crate::sessions::registry::Registry;
    use crate::tenants::Tenants;
    use crate::tenants::access::Access;
    use futures_util::FutureExt;
    use proctor_core::quota::Amount;
    use proctor_sandbox::{Ending, KillSwitch, RunSpec, Sandbox, SandboxError, SandboxEvent};
    use std::time::Duration;
    use tokio::sync::watch;

    struct Unused;

    impl Sandbox for Unused {
        fn run(
            &self,
            _spec: &RunSpec,
            _kill: &KillSwitch,
            _sink: &mut dyn FnMut(SandboxEvent<'_>),
        ) -> Result<Ending, SandboxError> {
            unreachable!("this test starts no run")
        }
    }

    fn api(access: watch::Receiver<Arc<Access>>) -> Api {
        let clock = Clock::new();
        let context = Arc::new(Context {
            sandbox: Arc::new(Unused),
            toolchain: Toolchain::default(),
            clock,
            audit: Audit::off(),
            host: HostMonitor::new(clock),
            scheduler: Scheduler::start(clock, Amount { memory_bytes: 0, cpu_millis: 0 }),
            scan_permits: ScanPermits::for_host(),
            counters: Arc::default(),
            history: crate::history::History::off(),
            run_threads: RunThreads::default(),
        });
        let registry = Registry::start(Arc::clone(&context), SessionLimits::default());
        Api { context, registry, access, drain: Drain::new(Duration::ZERO) }
    }

    /// The host file is reloaded after the tenant was looked up.
    #[tokio::test]
    async fn closes_a_session_of_a_removed_tenant_whenever_its_caller_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[[tenant]]\nid = \"gone\"\nroots = [{:?}]\n", dir.path());
        let before = Tenants::from_config(ConfigReader::new(&text).config(), false, &Tenants::default());
        let tenant = &before.all()[0];
        let (access, current) = watch::channel(Arc::new(Access::from_tenants(Tenants::default())));
        let api = api(current);
        let (mut polls, mut is_answered) = (0, false);
        while !is_answered {
            let workspace = Workspace::open(dir.path()).unwrap();
            let client_request_id = String::new();
            let request = CreateRequest {
                tenant: Arc::clone(tenant),
                workspace,
                client_request_id,
                separate: true,
                idle_max: None,
            };
            let mut opening = Box::pin(api.open(request));
            // The caller leaves after this many polls, and in the next round after one more.
            for _ in 0..polls {
                if let Some(opened) = (&mut opening).now_or_never() {
                    assert!(!opened.unwrap().1, "the session may not stay");
                    is_answered = true;
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(opening);
            while access.receiver_count() > 1 {
                tokio::task::yield_now().await;
            }
            let left = api.registry.list(tenant.id.clone(), String::new(), 1).await;
            assert!(left.is_empty(), "after {polls} polls");
            polls += 1;
        }
    }
}
