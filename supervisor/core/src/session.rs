//! The state machine of one session: its running run, its waiting runs, its failure slot and coverage index. `step`
//! takes one event and returns the effects that the actor at the edge carries out.

mod messages;

pub use messages::{Effect, SessionEvent, StartRejected};

use crate::bounds::{DETACHED_MS_MAX, FINISHED_RUNS_MAX, QUEUED_RUNS_MAX};
use crate::check::CheckMemory;
use crate::coverage::{CoverageCost, CoverageIndex, LoadedFiles, RunCoverage};
use crate::failure::{DeferredFailures, FailureSlot, RerunPlan};
use crate::id::RunId;
use crate::outcome::{KillReason, Outcome};
use crate::quota::QuotaExceeded;
use crate::report::Report;
use crate::request::{
    ALL_FRAMEWORKS, CUSTOM_FRAMEWORK, CoverageMode, Fingerprint, IfBusy, RunKind, RunRequest, Selection,
};
use crate::selection::{Baseline, EndedRun, LastResult, SeenFiles};
use crate::test_case::{TestCase, TestOutcome};
use crate::timestamp::Timestamp;
use crate::untested::RunExtent;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// What became of a run: its report, its coverage, and what it saw.
type EndOfRun<'a> = (&'a Report, RunCoverage, Option<SeenFiles>);

#[derive(Debug, Clone)]
struct SessionRun {
    run: RunId,
    request: Box<RunRequest>,
    kind: RunKind,
    fingerprint: Option<Fingerprint>,
    accepted_at: Timestamp,
    /// When the run is abandoned; `None` while it has watchers.
    abandon_at: Option<Timestamp>,
    /// Whether the run has had a watcher. Between its acceptance and its caller's first look it has none yet.
    was_watched: bool,
    /// Whether the run was killed. Its end may take a while, and a later identical request must not attach to it.
    ending: bool,
    /// Earlier failures that the run leaves out, once it runs.
    deferred: DeferredFailures,
}

impl SessionRun {
    // False while the run has not scanned the workspace: its view of the workspace is unknown.
    fn can_be_joined(&self) -> bool {
        self.fingerprint.is_some() && !self.ending
    }
}

/// A request as it would run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedRequest {
    /// The request, with its selection resolved.
    pub request: Box<RunRequest>,
    /// Earlier failures that it leaves out.
    deferred: DeferredFailures,
    /// Why it measures no coverage although it may.
    skipped_coverage: Option<String>,
}

impl ResolvedRequest {
    /// A request that runs as it was asked for.
    fn unchanged(request: RunRequest) -> ResolvedRequest {
        ResolvedRequest { request: Box::new(request), deferred: DeferredFailures::default(), skipped_coverage: None }
    }

    /// Notes for the report of its run.
    fn notes(&self, kind: RunKind) -> Vec<String> {
        let skipped = self.skipped_coverage.clone().filter(|_| kind == RunKind::Tests);
        self.deferred.notes().into_iter().chain(skipped).collect()
    }
}

/// What a session knows for a selection of affected tests.
#[derive(Debug, Clone)]
pub struct SessionKnowledge {
    /// Results of all tests, and the files that they are of.
    pub baseline: Option<Arc<Baseline>>,
    /// Executed lines.
    pub index: Arc<CoverageIndex>,
    /// What it costs to measure these.
    pub coverage_cost: CoverageCost,
    /// What failed in the last run.
    pub failures: RerunPlan,
    /// Framework of the last run.
    pub framework: Option<String>,
    /// Number of runs that had ended.
    pub ended_runs: u64,
}

/// One session.
#[derive(Debug, Default)]
pub struct Session {
    running: Option<SessionRun>,
    waiting: VecDeque<SessionRun>,
    finished: VecDeque<RunId>,
    slot: FailureSlot,
    /// Shared with scans that select tests by it; only the session changes it.
    index: Arc<CoverageIndex>,
    coverage_cost: CoverageCost,
    /// What a selection of affected tests builds on. Shared in the same way.
    baseline: Option<Arc<Baseline>>,
    /// The findings of earlier checks. Shared with the run of a check; only the session changes it.
    checks: Arc<CheckMemory>,
    /// Number of runs of tests that have ended.
    ended_runs: u64,
    /// The last request that ran tests, which a rerun repeats with another selection.
    last_request: Option<Box<RunRequest>>,
    last: Option<(RunId, Outcome)>,
    draining: bool,
    closing: bool,
}

impl Session {
    /// A session with the failures, coverage and last request of an earlier process on this workspace.
    #[must_use]
    pub fn restore(
        slot: FailureSlot,
        index: CoverageIndex,
        last_request: Option<RunRequest>,
        baseline: Option<Baseline>,
    ) -> Self {
        let (index, baseline) = (Arc::new(index), baseline.map(Arc::new));
        Session { slot, index, baseline, last_request: last_request.map(Box::new), ..Session::default() }
    }

    /// The session with the findings that earlier checks of the workspace had.
    #[must_use]
    pub fn with_checks(self, checks: CheckMemory) -> Session {
        Session { checks: Arc::new(checks), ..self }
    }

    /// The session with what measuring coverage costs in its workspace.
    #[must_use]
    pub fn with_coverage_cost(self, coverage_cost: CoverageCost) -> Session {
        Session { coverage_cost, ..self }
    }

    /// What measuring coverage costs.
    #[must_use]
    pub fn coverage_cost(&self) -> &CoverageCost {
        &self.coverage_cost
    }

    /// The findings of earlier checks.
    #[must_use]
    pub fn checks(&self) -> &Arc<CheckMemory> {
        &self.checks
    }

    /// The failure slot.
    #[must_use]
    pub fn slot(&self) -> &FailureSlot {
        &self.slot
    }

    /// The coverage index.
    #[must_use]
    pub fn index(&self) -> &CoverageIndex {
        &self.index
    }

    /// The coverage index as it is now, for a run that compares with it.
    #[must_use]
    pub fn shared_index(&self) -> Arc<CoverageIndex> {
        Arc::clone(&self.index)
    }

    /// What a selection of affected tests builds on; `None` before a run of all tests has ended with all results.
    #[must_use]
    pub fn baseline(&self) -> Option<&Arc<Baseline>> {
        self.baseline.as_ref()
    }

    /// What the session knows for a selection of affected tests, as of now.
    #[must_use]
    pub fn knowledge(&self) -> SessionKnowledge {
        let is_of_others = |baseline: &Arc<Baseline>| {
            self.slot.last().is_some_and(|last| !baseline.may_have_tests_of(&last.framework))
        };
        let failures = match self.baseline.as_ref().is_some_and(is_of_others) {
            true => RerunPlan::NoRunYet,
            false => self.slot.rerun(None),
        };
        SessionKnowledge {
            baseline: self.baseline.clone(),
            index: Arc::clone(&self.index),
            coverage_cost: self.coverage_cost.clone(),
            failures,
            framework: self.slot.last().map(|last| last.framework.clone()),
            ended_runs: self.ended_runs,
        }
    }

    /// Number of runs of tests that have ended. A selection is outdated once it has changed.
    #[must_use]
    pub fn ended_runs(&self) -> u64 {
        self.ended_runs
    }

    /// The last request that ran tests.
    #[must_use]
    pub fn last_request(&self) -> Option<&RunRequest> {
        self.last_request.as_deref()
    }

    /// The run in progress.
    #[must_use]
    pub fn running(&self) -> Option<&RunId> {
        self.running.as_ref().map(|run| &run.run)
    }

    /// Number of waiting runs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The running run and the waiting ones, in order.
    pub fn unfinished(&self) -> impl Iterator<Item = &RunId> {
        self.running.iter().chain(&self.waiting).map(|run| &run.run)
    }

    /// The last run of tests that ended, and its outcome.
    #[must_use]
    pub fn last(&self) -> Option<&(RunId, Outcome)> {
        self.last.as_ref()
    }

    /// Whether the answer to a request depends on the workspace. `may_wait` is whether the tenant's quota allows one
    /// more waiting run.
    #[must_use]
    pub fn needs_scan(&self, request: &RunRequest, kind: RunKind, if_busy: IfBusy, may_wait: bool) -> bool {
        if self.closing || self.draining {
            return false;
        }
        let Some(running) = &self.running else { return self.check_rerun(&request.selection).is_none() };
        let equal = |run: &SessionRun| run.kind == kind && *run.request == *request;
        // It attaches to the running one if nothing was edited since, whether it would wait or not.
        if equal(running) && running.can_be_joined() {
            return true;
        }
        // A scan decides whether a request can be carried out at all; needed only for one that would wait and attaches
        // to no other.
        let would_wait = if_busy == IfBusy::Queue && may_wait && self.waiting.len() < QUEUED_RUNS_MAX;
        would_wait && !self.waiting.iter().any(equal)
    }

    /// Applies one event and returns the effects in order. The first effect of a request answers it.
    #[must_use]
    pub fn step(&mut self, now: Timestamp, event: SessionEvent) -> Vec<Effect> {
        match event {
            SessionEvent::Requested { run, request, kind, fingerprint, if_busy, quota_exceeded } => {
                let requested = SessionRun {
                    run,
                    request,
                    kind,
                    fingerprint,
                    accepted_at: now,
                    abandon_at: Some(now.plus_ms(DETACHED_MS_MAX)),
                    was_watched: false,
                    ending: false,
                    deferred: DeferredFailures::default(),
                };
                self.handle_request(now, requested, if_busy, quota_exceeded)
            }
            SessionEvent::Rescanned { run, fingerprint } => {
                if let Some(running) = self.running.as_mut().filter(|running| running.run == run) {
                    running.fingerprint = fingerprint;
                }
                Vec::new()
            }
            SessionEvent::Watched { run, watchers } => {
                self.update_watchers(now, &run, watchers);
                Vec::new()
            }
            SessionEvent::CancelRequested { run } => self.end_run(&run, KillReason::Cancelled),
            SessionEvent::Ended { run, report, measured, seen } => {
                self.handle_end(&run, Some((&report, measured, seen)))
            }
            SessionEvent::NotStarted { run } => self.handle_end(&run, None),
            SessionEvent::RetentionExceeded => self.forget_oldest(),
            SessionEvent::Tick => self.end_abandoned(|run| run.abandon_at.is_some_and(|at| at <= now)),
            SessionEvent::DrainRequested => {
                self.draining = true;
                Vec::new()
            }
            SessionEvent::CloseRequested => self.close(),
        }
    }

    fn handle_request(
        &mut self,
        now: Timestamp,
        requested: SessionRun,
        if_busy: IfBusy,
        quota_exceeded: Option<QuotaExceeded>,
    ) -> Vec<Effect> {
        if self.closing || self.draining {
            let refusal = if self.closing { StartRejected::Closing } else { StartRejected::Draining };
            return vec![Effect::Refuse { run: requested.run, refusal }];
        }
        if let Some(same) = self.find_identical_run(&requested, if_busy) {
            same.abandon_at = Some(now.plus_ms(DETACHED_MS_MAX));
            // Its new caller has not looked yet.
            same.was_watched = false;
            let (to, age_ms) = (same.run.clone(), now.ms_since(same.accepted_at));
            return vec![Effect::Attach { run: requested.run, to, age_ms }];
        }
        let refusal = match (self.running.is_some(), if_busy) {
            (true, IfBusy::Refuse) => Some(StartRejected::Busy),
            (true, IfBusy::Queue) if self.waiting.len() >= QUEUED_RUNS_MAX => Some(StartRejected::QueueFull),
            (true, IfBusy::Queue) => quota_exceeded.map(StartRejected::Quota),
            (false, _) => self.check_rerun(&requested.request.selection).or(quota_exceeded.map(StartRejected::Quota)),
        };
        if let Some(refusal) = refusal {
            return vec![Effect::Refuse { run: requested.run, refusal }];
        }
        // A run whose callers are all gone must not delay the next.
        let ended = self.end_abandoned(|run| run.was_watched && run.abandon_at.is_some() && !run.ending);
        let position = u32::from(self.running.is_some()) + u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let mut effects = vec![Effect::Accept { run: requested.run.clone(), position }];
        effects.extend(ended);
        // A run that waits is to see the workspace as it will be at its start.
        let fingerprint = requested.fingerprint.filter(|_| position == 0);
        self.waiting.push_back(SessionRun { fingerprint, ..requested });
        effects.extend(self.start_next());
        effects
    }

    // A waiting run has not scanned the workspace yet, so it matches any equal request; a caller that refuses to wait
    // does not attach to it.
    fn find_identical_run(&mut self, requested: &SessionRun, if_busy: IfBusy) -> Option<&mut SessionRun> {
        let equal = |run: &SessionRun| run.kind == requested.kind && run.request == requested.request;
        let running = self
            .running
            .as_mut()
            .filter(|run| equal(run) && run.can_be_joined() && run.fingerprint == requested.fingerprint);
        running.or_else(|| self.waiting.iter_mut().find(|run| if_busy == IfBusy::Queue && equal(run)))
    }

    fn check_rerun(&self, selection: &Selection) -> Option<StartRejected> {
        let Selection::LastFailed { limit } = selection else { return None };
        match self.slot.rerun(*limit) {
            RerunPlan::NoRunYet => Some(StartRejected::NoRunYet),
            RerunPlan::NothingFailed { framework } => Some(StartRejected::NothingToRerun { framework }),
            RerunPlan::Targets { .. } | RerunPlan::Everything => None,
        }
    }

    fn start_next(&mut self) -> Vec<Effect> {
        if self.running.is_some() || self.closing {
            return Vec::new();
        }
        let mut effects = Vec::new();
        while let Some(mut next) = self.waiting.pop_front() {
            match self.resolve(&next.request) {
                Ok(resolved) => {
                    let notes = resolved.notes(next.kind);
                    effects.push(Effect::Start { run: next.run.clone(), request: resolved.request, notes });
                    next.deferred = resolved.deferred;
                    self.running = Some(next);
                    break;
                }
                // A waiting rerun may have nothing left to run, because the run before it passed.
                Err(refusal) => {
                    effects.push(Effect::Refuse { run: next.run.clone(), refusal });
                    effects.extend(self.retain_finished(next.run));
                }
            }
        }
        effects.extend(self.position_updates());
        effects
    }

    /// The request that would run if `request` started now. A rerun repeats the last request, environment, framework and
    /// limits included unless it sets its own, on the failures of the last run; failures beyond its limit are deferred. A run of
    /// all tests may do without coverage.
    ///
    /// # Errors
    /// [`StartRejected::NoRunYet`] and [`StartRejected::NothingToRerun`] for a rerun.
    pub fn resolve(&self, request: &RunRequest) -> Result<ResolvedRequest, StartRejected> {
        let limit = match &request.selection {
            Selection::LastFailed { limit } => limit,
            Selection::Affected { .. } => return Ok(ResolvedRequest::unchanged(self.with_last_settings(request))),
            _ => {
                let skipped_coverage = self.coverage_cost.skip(request);
                let coverage = if skipped_coverage.is_some() { CoverageMode::Off } else { request.coverage };
                let request = RunRequest { coverage, ..request.clone() };
                return Ok(ResolvedRequest { skipped_coverage, ..ResolvedRequest::unchanged(request) });
            }
        };
        let last = self.last_request.as_deref().cloned().unwrap_or_default();
        let (selection, deferred) = match self.slot.rerun(*limit) {
            RerunPlan::Targets { now, deferred } => (Selection::Exactly(now), deferred),
            RerunPlan::Everything => {
                // What earlier runs failed is not in the last selection.
                let has_earlier = self.slot.last().is_some_and(|last| !last.deferred.is_empty());
                let selection = if has_earlier { Selection::All } else { last.selection.clone() };
                (selection, DeferredFailures::default())
            }
            RerunPlan::NoRunYet => return Err(StartRejected::NoRunYet),
            RerunPlan::NothingFailed { framework } => return Err(StartRejected::NothingToRerun { framework }),
        };
        let framework = last.framework.clone().or_else(|| self.last_framework());
        let limits = request.limits.or(last.limits);
        // How often the last request executed its tests, and in which order, was for that run alone.
        let RunRequest { repetition, order, .. } = *request;
        let request = RunRequest { selection, framework, limits, repetition, order, ..last };
        Ok(ResolvedRequest { deferred, ..ResolvedRequest::unchanged(request) })
    }

    fn update_watchers(&mut self, now: Timestamp, run: &RunId, watchers: usize) {
        let runs = self.running.iter_mut().chain(&mut self.waiting);
        for watched in runs.filter(|candidate| candidate.run == *run) {
            watched.was_watched |= watchers > 0;
            watched.abandon_at = match (watchers, watched.abandon_at) {
                (0, None) => Some(now.plus_ms(DETACHED_MS_MAX)),
                (0, already) => already,
                _ => None,
            };
        }
    }

    fn end_run(&mut self, run: &RunId, reason: KillReason) -> Vec<Effect> {
        if let Some(running) = self.running.as_mut().filter(|running| running.run == *run) {
            running.ending = true;
            return vec![Effect::Kill { run: run.clone(), reason }];
        }
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.run != *run);
        if self.waiting.len() == before {
            return Vec::new();
        }
        let withdraw = Effect::Withdraw { run: run.clone(), reason };
        let mut effects = vec![withdraw];
        effects.extend(self.position_updates());
        effects.extend(self.retain_finished(run.clone()));
        effects
    }

    fn position_updates(&self) -> impl Iterator<Item = Effect> {
        (1..).zip(&self.waiting).map(|(position, run)| Effect::ReportPosition { run: run.run.clone(), position })
    }

    fn end_abandoned(&mut self, is_abandoned: impl Fn(&SessionRun) -> bool) -> Vec<Effect> {
        let runs = self.running.iter().chain(&self.waiting);
        let abandoned: Vec<RunId> = runs.filter(|run| is_abandoned(run)).map(|run| run.run.clone()).collect();
        abandoned.iter().flat_map(|run| self.end_run(run, KillReason::Abandoned)).collect()
    }

    fn handle_end(&mut self, run: &RunId, result: Option<EndOfRun<'_>>) -> Vec<Effect> {
        let Some(ended) = self.running.take_if(|running| running.run == *run) else { return Vec::new() };
        let checked = result.as_ref().filter(|_| ended.kind == RunKind::Check);
        if let Some(check) = checked.and_then(|(report, ..)| report.check.as_ref()) {
            Arc::make_mut(&mut self.checks).record(check);
        }
        if let Some((report, measured, seen)) = result.filter(|_| ended.kind == RunKind::Tests) {
            self.ended_runs += 1;
            self.record_tests(&ended, report, measured, seen);
            let deferred = match &ended.request.selection {
                Selection::All | Selection::LastFailed { .. } => ended.deferred,
                _ => self.slot.not_run_again_by(report),
            };
            self.slot.fill(run.clone(), report, deferred);
            self.last = Some((run.clone(), report.outcome));
            if !matches!(ended.request.selection, Selection::LastFailed { .. } | Selection::Affected { .. }) {
                self.last_request = Some(ended.request);
            }
        }
        // The caller of a listing has read its events by now; those of other runs are read again later.
        let mut effects = match ended.kind {
            RunKind::Tests | RunKind::Check => self.retain_finished(run.clone()),
            RunKind::Listing => vec![Effect::Forget { run: run.clone() }],
        };
        effects.extend(self.start_next_or_stop());
        effects
    }

    /// Records the results of a run of tests, and the lines that they executed.
    fn record_tests(
        &mut self,
        ended: &SessionRun,
        report: &Report,
        mut measured: RunCoverage,
        seen: Option<SeenFiles>,
    ) {
        let extent = report.extent(ended.request.selection.is_whole());
        let whole = extent == RunExtent::AllTests;
        let is_complete = extent != RunExtent::SomeTests && measured.has_all_tests_of(report);
        let has_measured = !measured.tests.is_empty();
        let asked = match &ended.request.selection {
            Selection::Affected { .. } => &self.with_last_settings(&ended.request),
            _ => &*ended.request,
        };
        if whole || ended.request.selection.is_whole() {
            self.coverage_cost.record(asked, report, has_measured);
        }
        let is_same_state = |seen: &SeenFiles| {
            whole && self.baseline.as_ref().is_some_and(|before| before.is_same_state(&ended.request, seen))
        };
        if seen.as_ref().is_some_and(is_same_state) {
            self.index.keep_alone(&mut measured.tests);
        }
        let saw_others = self.baseline.as_ref().is_some_and(|before| before.differs_from(asked, seen.as_ref()));
        let replaces_coverage = has_measured && whole;
        let of_run = EndedRun { run: &ended.run, request: asked, report, has_measured, replaces_coverage };
        let before = self.baseline.take().map(Arc::unwrap_or_clone);
        self.baseline = Baseline::after(before, &of_run, seen).map(Arc::new);
        // Changes are compared with the baseline's files, so that the lines executed there stay beside those of another state.
        let is_baseline = self.baseline.as_ref().is_none_or(|baseline| baseline.run == ended.run);
        let is_aside = saw_others && !is_baseline;
        let keeps_unchanged = whole && is_baseline && !has_measured;
        let whole = whole && !is_aside;
        let unmeasured = measured.unmeasured(report);
        if self.index.has_measured() && (keeps_unchanged || !unmeasured.is_empty()) {
            let index = Arc::make_mut(&mut self.index);
            match keeps_unchanged {
                true => index.record_all_unmeasured(&measured.unchanged),
                false => index.record_unmeasured(&unmeasured),
            }
        }
        let mut loaded = measured.loaded_of(report);
        if !whole {
            self.forget_unknown(&mut loaded, &measured, is_aside);
        }
        if has_measured {
            let index = Arc::make_mut(&mut self.index);
            let left_out = match is_aside {
                true => index.ingest_aside(measured.tests, report.started_at),
                false => index.ingest(measured.tests, whole, report.started_at),
            };
            // What a test file executes of the files that it loads has to be known.
            loaded = if left_out.is_empty() { loaded } else { LoadedFiles::default() };
            index.add_sources(measured.sources, is_complete, report.started_at);
        }
        if !loaded.is_empty() || !self.index.loaded().is_empty() {
            let index = Arc::make_mut(&mut self.index);
            if keeps_unchanged {
                let is_unchanged = |test: &&TestCase| measured.unchanged.contains(&test.id());
                let (unchanged, changed): (Vec<&TestCase>, Vec<&TestCase>) =
                    report.tests.iter().filter(|test| test.outcome != TestOutcome::Skipped).partition(is_unchanged);
                let of = |tests: Vec<&'_ TestCase>| tests.into_iter().map(|test| test.package.clone()).collect();
                let (unchanged, changed): (HashSet<String>, HashSet<String>) = (of(unchanged), of(changed));
                index.forget_loaded(|file| unchanged.contains(file) && !changed.contains(file));
            } else {
                // One that is no baseline is a command that the request gave, or has not the results of all tests.
                let ran = report.tests.iter().map(|test| test.package.as_str());
                index.record_loaded(ran, loaded, whole && is_baseline);
            }
        }
    }

    /// Forgets what test files loaded of which it is not known what they load at the files of the baseline: a run measured some of their tests
    /// only, or `is_aside`.
    fn forget_unknown(&self, loaded: &mut LoadedFiles, measured: &RunCoverage, is_aside: bool) {
        let Some(baseline) = &self.baseline else { return };
        let measured = measured.tests_measured();
        let has_all_of = |file: &str| {
            let tests = baseline.tests().get(file);
            let mut run = tests.into_iter().flatten().filter(|(_, result)| **result != LastResult::Skipped);
            run.all(|(name, _)| measured.contains(&(file, name.as_str())))
        };
        let known = self.index.loaded();
        let is_unknown = |file: &&str| !known.knows(file) && (is_aside || !has_all_of(file));
        let unknown: Vec<String> = loaded.test_files().filter(is_unknown).map(str::to_owned).collect();
        unknown.iter().for_each(|file| loaded.forget(file));
    }

    // A run of affected tests has the settings of the last request, as a rerun has, but runs the tests of the baseline: the last request may
    // have been one of another framework, or of a command that is no test. An order is for its own run alone.
    fn with_last_settings(&self, request: &RunRequest) -> RunRequest {
        let last = self.last_request.as_deref().cloned().unwrap_or_default();
        let RunRequest { selection, limits, repetition, order, .. } = request.clone();
        let of_tests = self.baseline.as_ref().map_or(&last, |baseline| &baseline.settings);
        let (framework, command) = (of_tests.framework.clone(), of_tests.command.clone());
        RunRequest { selection, framework, command, limits: limits.or(last.limits), repetition, order, ..last }
    }

    // A run of several frameworks is divided among them. A custom command is already part of the last request.
    fn last_framework(&self) -> Option<String> {
        let last = self.slot.last().map(|last| last.framework.as_str());
        let last = last.filter(|name| !["", CUSTOM_FRAMEWORK].contains(name));
        last.map(|name| if name.contains(", ") { ALL_FRAMEWORKS } else { name }.to_owned())
    }

    fn start_next_or_stop(&mut self) -> Vec<Effect> {
        if self.closing { vec![Effect::Stop] } else { self.start_next() }
    }

    fn retain_finished(&mut self, run: RunId) -> Vec<Effect> {
        self.finished.push_back(run);
        if self.finished.len() > FINISHED_RUNS_MAX { self.forget_oldest() } else { Vec::new() }
    }

    // Forgets the oldest finished run except two: the newest, whose caller may still read it, and the last run of
    // tests, which the session reports. So runs withdrawn since then push neither out.
    fn forget_oldest(&mut self) -> Vec<Effect> {
        let last = self.last.as_ref().map(|(run, _)| run);
        let earlier = self.finished.iter().take(self.finished.len().saturating_sub(1));
        let oldest = earlier.into_iter().position(|run| Some(run) != last);
        let forgotten = oldest.and_then(|index| self.finished.remove(index));
        forgotten.map(|run| Effect::Forget { run }).into_iter().collect()
    }

    fn close(&mut self) -> Vec<Effect> {
        if self.closing {
            return Vec::new();
        }
        self.closing = true;
        let reason = KillReason::Closed;
        let mut effects: Vec<Effect> =
            self.waiting.drain(..).map(|run| Effect::Withdraw { run: run.run, reason }).collect();
        match &self.running {
            Some(running) => effects.push(Effect::Kill { run: running.run.clone(), reason }),
            None => effects.push(Effect::Stop),
        }
        effects
    }
}

#[cfg(test)]
mod tests;
