//! The Results service: failures, coverage and reports of sessions, and test listings.

use super::encode_permit::EncodePermit;
use super::{Api, call_record, history_answer, run_request, status};
use crate::clock::Clock;
use crate::grpc::{convert, convert_analysis};
use crate::reports::{self, ReportContext, ReportInput};
use crate::runs::{
    FailingTests, RunEnd, StartedTests, add_suspects, affected_tests, analyze_run, changes_since, covering_in,
    failing_sources,
};
use crate::sessions::SessionHandle;
use crate::tenants::Tenant;
use proctor_core::analysis::WorkspaceChanges;
use proctor_core::bounds::{
    AFFECTED_TESTS_PAGE, ANALYSIS_COVERED_FILES_MAX, ANALYSIS_PAGE, COVERING_TESTS_PAGE, FAILURES_PAGE,
    LISTED_TESTS_PAGE,
};
use proctor_core::id::RunId;
use proctor_core::report::Report;
use proctor_core::request::{EarlierState, RunKind, RunRequest, Selection};
use proctor_proto::report_format::ReportFormat;
use proctor_proto::v1::results_server::Results;
use proctor_proto::{reason, v1};
use std::collections::HashSet;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Longest name of an earlier state of the workspace, in bytes.
const SINCE_BYTES_MAX: usize = 200;

#[tonic::async_trait]
impl Results for Api {
    async fn list_tests(
        &self,
        request: Request<v1::ListTestsRequest>,
    ) -> Result<Response<v1::ListTestsResponse>, Status> {
        let mut caller = self.authenticated_tenant(&request)?;
        self.check_accepting()?;
        let message = request.into_inner();
        let session = self.session(&caller.tenant, &message.session_id).await?;
        let run_request = run_request::list_tests(&message, session.workspace())?;
        let options = convert::queue_options(v1::IfBusy::Queue, message.priority());
        let _subscription = status::subscribe(&caller.tenant)?;
        let started =
            session.start(run_request, RunKind::Listing, options).await.map_err(|error| status::session(&error))?;
        call_record::set_run(started.run.as_str());
        if started.attached_age_ms.is_some() {
            call_record::set_existing();
        }
        let _watch = started.handle.watch();
        let read_error = |error| status::read(&error);
        let end = tokio::select! {
            status = caller.revoked() => return Err(status),
            end = started.handle.end() => end.map_err(read_error)?,
        };
        let report = match end {
            RunEnd::Report(report) => report,
            RunEnd::NotStarted(why) => return Err(status::not_started(&why)),
        };
        let permit = EncodePermit::acquire(caller.tenant.allowance.in_flight()).await;
        let StartedTests { tests, missed } = started.handle.tests_started().await.map_err(read_error)?;
        let limit = LISTED_TESTS_PAGE.clamp(message.limit);
        let mut listing = permit.encode(move || convert::listing(&report, &tests, limit)).await?;
        listing.partial |= missed > 0;
        Ok(Response::new(listing))
    }

    async fn last_test_failures(
        &self,
        request: Request<v1::LastTestFailuresRequest>,
    ) -> Result<Response<v1::LastTestFailuresResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        let offset = usize::try_from(message.offset).unwrap_or(usize::MAX);
        let limit = FAILURES_PAGE.clamp(message.limit);
        let last = session.last_run(offset, limit).await.map_err(|error| status::session(&error))?;
        Ok(Response::new(convert::last_run(last.as_ref(), self.context.clock.now())))
    }

    async fn tests_covering(
        &self,
        request: Request<v1::TestsCoveringRequest>,
    ) -> Result<Response<v1::TestsCoveringResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        let file = run_request::covered_file(&message, session.workspace(), &tenant.usage.scan_permits).await?;
        let knowledge = session.knowledge().await.map_err(|error| status::session(&error))?;
        let asked = run_request::asked_lines(&message)?;
        let (workspace, clock) = (session.workspace().clone(), self.context.clock);
        let look_up =
            move || covering_in(&workspace, (&file, &asked), knowledge.baseline.as_deref(), &knowledge.index, &clock);
        let found = tenant.usage.scan_permits.scan(look_up).await;
        let found = found.map_err(|_| status::internal("the file could not be read"))?;
        let found = found.map_err(|error| status::invalid("function", error.to_string()))?;
        Ok(Response::new(convert::covering(found.as_ref(), COVERING_TESTS_PAGE.clamp(message.limit))))
    }

    async fn affected_tests(
        &self,
        request: Request<v1::AffectedTestsRequest>,
    ) -> Result<Response<v1::AffectedTestsResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        let run_request = run_request::affected_tests(&message.since, None)?;
        let limit = AFFECTED_TESTS_PAGE.clamp(message.limit);
        Ok(Response::new(select_affected(&session, &tenant, run_request, limit).await?))
    }

    async fn analyze_failures(
        &self,
        request: Request<v1::AnalyzeFailuresRequest>,
    ) -> Result<Response<v1::AnalyzeFailuresResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        let (run, report) = ended_run(&session, message.run_id).await?;
        let earlier = earlier_state(&message.since)?;
        let permit = EncodePermit::acquire(tenant.allowance.in_flight()).await;
        let limit = ANALYSIS_PAGE.clamp(message.limit);
        let (workspace, clock) = (session.workspace().clone(), self.context.clock);
        let of_run = Arc::clone(&report);
        let index = session.knowledge().await.map_err(|error| status::session(&error))?.index;
        let found = move || {
            let changes = earlier.map(|earlier| {
                let changes = changes_since(&earlier, &of_run, &workspace, &clock);
                (changes, failing_sources(&of_run, &workspace))
            });
            let mut analyzed = analyze_run(&of_run, &workspace, &clock, limit);
            add_suspects(&mut analyzed, &of_run, &index, &workspace, &clock);
            (analyzed, changes)
        };
        let (mut analyzed, changes) = permit.encode(found).await?;
        if let Some((changes, sources)) = changes {
            let covered = covered_files(&session, &changes, &report).await?;
            analyzed.rank_changes(changes, |path| covered.contains(path), &sources);
        }
        Ok(Response::new(convert_analysis::analysis(run.to_string(), analyzed, &report)))
    }

    async fn history(&self, request: Request<v1::HistoryRequest>) -> Result<Response<v1::HistoryResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        let permit = EncodePermit::acquire(tenant.allowance.in_flight()).await;
        let location = tenant.policy.history.clone();
        let answer = history_answer::answer(message, location, session.workspace(), permit, Clock::wall_time());
        Ok(Response::new(answer.await?))
    }

    async fn get_report(
        &self,
        request: Request<v1::GetReportRequest>,
    ) -> Result<Response<v1::GetReportResponse>, Status> {
        let tenant = self.tenant(&request)?;
        let message = request.into_inner();
        let session = self.session(&tenant, &message.session_id).await?;
        run_request::check_enum::<v1::ReportFormat>("format", message.format)?;
        let format = ReportFormat::from_wire(message.format());
        let bytes_max = match message.max_bytes {
            0 => usize::MAX,
            wanted => usize::try_from(wanted).unwrap_or(usize::MAX),
        };
        let (run_id, document) = self.report_document(&tenant, &session, message.run_id, format, bytes_max).await?;
        Ok(Response::new(v1::GetReportResponse { run_id, content_type: format.media_type().to_owned(), document }))
    }
}

impl Api {
    /// The report of a run of `session`, or of its last one if `run_id` is empty, in `format`, with the id of the run.
    pub(crate) async fn report_document(
        &self,
        tenant: &Tenant,
        session: &SessionHandle,
        run_id: String,
        format: ReportFormat,
        bytes_max: usize,
    ) -> Result<(String, Vec<u8>), Status> {
        let (run, report) = ended_run(session, run_id).await?;
        let run_id = run.to_string();
        let clock = self.context.clock;
        let memory = match ReportContext::has_coverage(format) {
            true => Some(session.memory().await.map_err(|error| status::session(&error))?),
            false => None,
        };
        let render = {
            let (run_id, workspace) = (run_id.clone(), session.workspace().clone());
            let history = tenant.policy.history.clone();
            move || {
                let index = memory.as_ref().map(|memory| &memory.index);
                let context = ReportContext::look_up(format, &report, &workspace, history.as_ref(), &clock, index);
                reports::render(format, ReportInput { run_id: &run_id, report: &report, context: &context }, bytes_max)
            }
        };
        let rendered = EncodePermit::acquire(tenant.allowance.in_flight()).await.encode(render).await?;
        let document = rendered.map_err(|error| {
            tracing::error!(run = run_id, %error, "a report could not be written");
            status::internal("the report could not be encoded")
        })?;
        Ok((run_id, document))
    }
}

/// Selects the tests that `request` would run, and runs none.
pub(super) async fn select_affected(
    session: &SessionHandle,
    tenant: &Tenant,
    request: RunRequest,
    limit: usize,
) -> Result<v1::AffectedTestsResponse, Status> {
    let Selection::Affected { since } = request.selection.clone() else {
        return Err(status::internal("a request of affected tests names another selection"));
    };
    let settings = session.settings_for(request).await.map_err(|error| status::session(&error))?;
    let knowledge = session.knowledge().await.map_err(|error| status::session(&error))?;
    let workspace = session.workspace().clone();
    let select = move || {
        let scan = workspace.scan().map_err(|error| status::prepare(&error.into()))?;
        let found = affected_tests(&workspace, &scan, &since, &settings, &knowledge);
        let found = found.map_err(|error| status::prepare(&error.into()))?;
        Ok(convert::affected_tests(&found, limit))
    };
    let found = tenant.usage.scan_permits.scan(select).await;
    found.unwrap_or_else(|_| Err(status::internal("the workspace could not be compared")))
}

/// What `since` of a request names.
pub(super) fn earlier_state(since: &str) -> Result<Option<EarlierState>, Status> {
    if since.len() > SINCE_BYTES_MAX || since.chars().any(char::is_control) {
        return Err(status::invalid(
            "since",
            "since must be last_run, last_green or a git revision of at most 200 bytes",
        ));
    }
    Ok(EarlierState::new(since))
}

/// The changed files of which failing tests executed lines, of the first [`ANALYSIS_COVERED_FILES_MAX`].
async fn covered_files(
    session: &SessionHandle,
    changes: &WorkspaceChanges,
    report: &Report,
) -> Result<HashSet<String>, Status> {
    let failing = FailingTests::of(report);
    let mut covered = HashSet::new();
    for change in changes.files.iter().take(ANALYSIS_COVERED_FILES_MAX) {
        let found = session.covering(change.path.clone(), None).await.map_err(|error| status::session(&error))?;
        // Without any coverage there is none of the others either.
        let Some(found) = found else { break };
        if failing.has_any(&found.tests) {
            covered.insert(change.path.clone());
        }
    }
    Ok(covered)
}

// The named run of the session, or its last one, with its report.
async fn ended_run(session: &SessionHandle, run_id: String) -> Result<(RunId, Arc<Report>), Status> {
    let run = if run_id.is_empty() {
        let last = session.status().await.map_err(|error| status::session(&error))?.last;
        last.ok_or_else(|| status::failed(reason::NO_RUN_YET, "no run has ended in this session"))?.0
    } else {
        call_record::set_run(&run_id);
        RunId::new(run_id)
    };
    let denied = || status::denied("run");
    let handle = session.run(run.clone()).await.map_err(|_| denied())?.ok_or_else(denied)?;
    match handle.snapshot().await.map_err(|_| denied())?.end {
        Some(RunEnd::Report(report)) => Ok((run, report)),
        Some(RunEnd::NotStarted(why)) => Err(status::not_started(&why)),
        None => Err(status::failed(reason::NO_RUN_YET, "the run has not ended")),
    }
}
