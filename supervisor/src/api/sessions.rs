//! The Sessions service. Must not know runs beyond their names.

use super::request::{Bounds, clamp};
use super::{Api, record, status};
use crate::convert;
use crate::prepare::check_owner;
use crate::registry::Wanted;
use crate::session::{self, SessionHandle};
use crate::tenant::Tenant;
use crate::workspace::{Workspace, WorkspaceError};
use proctor_proto::v1;
use proctor_proto::v1::sessions_server::Sessions;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// Sessions on a page.
const PAGE: Bounds = Bounds { default: 100, max: 1_000 };

/// Longest client_request_id, in bytes.
const REQUEST_ID_MAX: usize = 128;

#[tonic::async_trait]
impl Sessions for Api {
    async fn create_session(
        &self,
        request: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        let known = self.known(&request)?;
        let tenant = Arc::clone(&known.tenant);
        self.accepting()?;
        let asked = request.into_inner();
        if asked.client_request_id.len() > REQUEST_ID_MAX {
            let why = format!("client_request_id: at most {REQUEST_ID_MAX} bytes");
            return Err(status::invalid("client_request_id", why));
        }
        if asked.idle_ms_max > 0 && !asked.separate {
            let why = "idle_ms_max: others share the session; ask for a separate one";
            return Err(status::invalid("idle_ms_max", why.to_owned()));
        }
        let workspace = open_below(asked.workspace, &tenant).await?;
        let (client_request_id, separate) = (asked.client_request_id, asked.separate);
        let idle_max = Some(asked.idle_ms_max).filter(|ms| *ms > 0).map(Duration::from_millis);
        let wanted = Wanted { tenant, workspace, client_request_id, separate, idle_max };
        let opened = self.registry.create(wanted).await.map_err(|error| status::create(&error))?;
        record::session(opened.session.id().as_str());
        if opened.existing {
            record::found();
        }
        // The host file may have been read anew since the tenant was looked up, and its other sessions closed.
        if !self.access.borrow().admits(&known.tenant.id, opened.session.workspace()) {
            opened.session.close().await;
            return Err(known.unknown());
        }
        // A new one has done nothing yet, and need not be asked.
        let session = match opened.existing {
            true => self.describe(&opened.session).await?,
            false => self.described(&opened.session, session::Status::new_at(self.context.clock.now())),
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
        let asked = request.into_inner();
        let size = clamp(asked.page_size, PAGE);
        // One more than the page, to know whether there is another.
        let mut found = self.registry.list(tenant.id.clone(), asked.page_token, size + 1).await;
        let more = found.len() > size;
        found.truncate(size);
        let next_page_token =
            found.last().filter(|_| more).map_or_else(String::new, |session| session.id().to_string());
        let mut sessions = Vec::with_capacity(found.len());
        for session in found {
            // One that ended in the meantime is not listed.
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
    /// A session as it is now.
    pub(super) async fn describe(&self, session: &SessionHandle) -> Result<v1::Session, Status> {
        let status = session.status().await.map_err(|error| status::session(&error))?;
        Ok(self.described(session, status))
    }

    fn described(&self, session: &SessionHandle, status: session::Status) -> v1::Session {
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

// What is not below a root is not said to exist or not, nor looked at, whichever way a link leads. What is at hand is taken at
// once, which takes microseconds: the two changes of threads of a look would cost more.
async fn open_below(path: String, tenant: &Arc<Tenant>) -> Result<Workspace, Status> {
    if let Some(found) = Workspace::at_hand(&tenant.roots, Path::new(&path)) {
        return admitted(found, tenant);
    }
    let whose = Arc::clone(tenant);
    let opened = tenant.policy.looks.look(move || {
        let found = Workspace::open_below(&whose.roots, Path::new(&path)).map_err(refused)?;
        admitted(found, &whose)
    });
    opened.await.map_err(|_| Status::internal("the workspace could not be looked at"))?
}

fn admitted((found, owner): (Workspace, u32), tenant: &Tenant) -> Result<Workspace, Status> {
    let own = |place: &PathBuf| place.starts_with(found.root()) || found.root().starts_with(place);
    if tenant.reserved.iter().any(own) {
        return Err(refused(WorkspaceError::Reserved));
    }
    check_owner(&tenant.policy, owner).map_err(|error| status::prepare(&error))?;
    Ok(found)
}

fn refused(error: WorkspaceError) -> Status {
    status::workspace(&error, "workspace")
}
