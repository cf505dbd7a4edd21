//! Turns a request and a workspace scan into the sandbox's specification. Every refusal happens here, before a process
//! starts.

use crate::caches::{GoLibrary, RunCache, cache_dir_of_run};
use crate::history::WorkspaceKey;
use crate::host::environment::{HOME, home};
use crate::host::toolchain::{invisible_interpreter, is_visible};
use crate::host::toolchain_sources::read_sources;
use crate::random_id::random_id;
use crate::runs::SinceError;
use crate::runs::context::Context;
use crate::runs::project_file::{ProjectFile, ProjectFileError};
use crate::runs::quarantine::Quarantine;
use crate::tenants::policy::Policy;
use crate::workspace::{Workspace, WorkspaceError, WorkspaceScan};
use proctor_core::check::{CheckRequest, CheckerResult};
use proctor_core::id::SessionId;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::quota::QuotaExceeded;
use proctor_core::repetition::Repetition;
use proctor_core::request::{CoverageMode, Fingerprint, RunKind, RunRequest, Selection};
use proctor_core::selection::AffectedSummary;
use proctor_core::test_case::Collector;
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::checks::{self, NoChecker};
use proctor_frameworks::detection::{self, DetectError};
use proctor_frameworks::{
    ARTIFACTS, ExpectedTests, FrameworkChoice, InjectedFile, LONG_WALL_MS, Parser, Plan, PlanError, PlanRequest, Step,
    ToolchainSources, runners::custom,
};
use proctor_sandbox::{COMMANDS_MAX, CommandSpec, Jail, RunAs, RunSpec, SCRATCH, ScratchFile, StackRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why a request cannot be carried out in this workspace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PrepareError {
    /// No framework was detected, or several.
    #[error(transparent)]
    Detect(#[from] DetectError),
    /// The framework cannot do what the request asks.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The project file is invalid.
    #[error(transparent)]
    ProjectFile(#[from] ProjectFileError),
    /// The runner's program is missing, outside what runs see, or not executable.
    #[error("{program}: {}", match (is_there, program.contains('/')) {
        (true, _) => "not executable: chmod +x lets it run",
        (false, true) => "not found where runs see it: in the workspace or on PATH",
        (false, false) => "not found on PATH",
    })]
    RunnerMissing {
        /// The program's name, or its path in the workspace.
        program: String,
        /// Whether runs see a file of that name.
        is_there: bool,
    },
    /// The request asks for the host's network, which the policy forbids.
    #[error("network: the host's network is not allowed for this tenant: ask for none, or have the operator allow it")]
    NetworkDenied,
    /// The workspace's directory was moved, replaced or removed since the session was created.
    #[error("the workspace was moved, replaced or removed: open a new session")]
    WorkspaceReplaced,
    /// The workspace belongs to a user whose files the tenant's runs cannot and must not touch.
    #[error("the workspace belongs to another user than this tenant's: give it to user {uid} (chown -R)")]
    WorkspaceOwner {
        /// UID of the tenant's runs.
        uid: u32,
    },
    /// No checker can be run.
    #[error(transparent)]
    NoChecker(#[from] NoChecker),
    /// No chosen checker is installed where runs see it.
    #[error("{text}")]
    CheckerMissing {
        /// Which checkers, and how to install them.
        text: String,
    },
    /// No file changed that a checker checks, so nothing was run.
    #[error("no file that is checked changed since {since}: nothing was run")]
    NothingToCheck {
        /// The state that the workspace was compared with, in words.
        since: String,
    },
    /// No test is affected by what changed, so nothing was run.
    #[error("no test is affected by what changed since {}: nothing was run, {} left out", .0.since, .0.left_out)]
    NothingAffected(Box<AffectedSummary>),
    /// The state with which the workspace was to be compared does not exist.
    #[error(transparent)]
    Since(#[from] SinceError),
    /// The host failed or was short of a resource. Nothing was run.
    #[error("{text}: nothing was run, and the same request may be sent again")]
    HostFailed {
        /// The cause, in words without a host path. The log has the details.
        text: String,
    },
    /// The workspace's path is not UTF-8, so that no runner's command line could carry it.
    #[error("the workspace's path is not UTF-8: rename the directory that is not")]
    PathNotUtf8,
}

/// Maps the error of a scan in an existing session.
impl From<WorkspaceError> for PrepareError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Host(cause) => {
                tracing::error!(error = %cause, "a workspace cannot be scanned");
                PrepareError::HostFailed { text: WorkspaceError::Host(cause).to_string() }
            }
            _ => PrepareError::WorkspaceReplaced,
        }
    }
}

/// Everything that a driver needs to run a request.
pub struct PreparedRun {
    /// The sandbox's specification.
    pub spec: RunSpec,
    /// Parses the runner's output.
    pub parser: Box<dyn Parser>,
    /// The framework's name, or the names of several.
    pub framework: String,
    /// The chosen frameworks, which parse coverage; `None` for a custom command or a listing.
    pub chosen: Option<FrameworkChoice>,
    /// The tests that are selected by name; none for a custom command, which runs whole, or a listing.
    pub expected: ExpectedTests,
    /// Whether the project file leaves out tests.
    pub is_scoped: bool,
    /// Notes for the report: clamped limits and notes of the plan.
    pub notes: Vec<String>,
    /// The environment of every command, before its step adds to it.
    pub env: BTreeMap<String, String>,
    /// The run's caches; `None` puts them below its scratch directory.
    pub run_cache: Option<RunCache>,
    /// Go's standard library, if the run may use one compiled for all workspaces.
    pub go_library: Option<GoLibrary>,
    /// Parts of the workspace that the scan omitted and that may hold tests: such a run is not green.
    pub missed: Vec<Collector>,
    /// The tests that the project has in quarantine.
    pub quarantine: Quarantine,
    /// How often the tests are executed, by the request or by the project file.
    pub repetition: Repetition,
    /// The state since which the files of a check changed, in words; `None` if it is of all of its files.
    pub checked_since: Option<String>,
}

/// A request that the workspace allows to run.
pub struct ReadyRun {
    /// The request, with its selection resolved.
    pub request: RunRequest,
    /// The policy that it was prepared under.
    pub policy: Arc<Policy>,
    /// Everything that its driver needs.
    pub prepared: PreparedRun,
    /// Fingerprint of the workspace when it was scanned for this run.
    pub fingerprint: Option<Fingerprint>,
    /// What selected its tests, if it runs those that are affected by changes.
    pub affected: Option<AffectedRun>,
    /// Number of runs of tests that had ended in the session, if what they left decides what this run does: after another
    /// one it is outdated.
    pub known_runs: Option<u64>,
    /// The hash of its programs when it was prepared.
    pub tools: BTreeMap<String, u64>,
    /// Identity of the workspace in the history at that time; `None` without a history.
    pub workspace_key: Option<WorkspaceKey>,
    /// Set while the tenant's caches far exceed their bound: the run must not start then.
    pub cache_exceeded: Option<QuotaExceeded>,
}

/// How the tests of a run of affected tests were selected.
#[derive(Debug, Clone)]
pub struct AffectedRun {
    /// The request before its tests were selected.
    pub asked: RunRequest,
    /// What was selected.
    pub summary: AffectedSummary,
    /// When the workspace was scanned.
    pub selected_at: Timestamp,
}

/// Prepares `request` of `session`. Reads only PATH and the origin of the workspace's Python, but not for a tokio
/// thread.
pub fn prepare(
    context: &Context,
    policy: &Policy,
    session: &SessionId,
    workspace: &Workspace,
    scan: &WorkspaceScan,
    request: &RunRequest,
    kind: RunKind,
) -> Result<PreparedRun, PrepareError> {
    let root = workspace.root().to_str().ok_or(PrepareError::PathNotUtf8)?;
    let run_cache = run_cache(policy, workspace, request)?;
    let cache_dir = run_cache.as_ref().map(RunCache::dir);
    let cache = cache_dir_of_run(cache_dir.as_deref());
    let cache = cache.to_str().ok_or(PrepareError::PathNotUtf8)?;
    check_owner(policy, scan.owner)?;
    let file = ProjectFile::from_tree(&scan.tree)?;
    let quarantine = Quarantine::new(file.quarantine());
    let report = file.report(request);
    let (mut request, mut notes) = file.complete(request, policy.may_use_network);
    let (scope, scope_note) = file.scope(&request.selection);
    let is_own_command = !request.command.is_empty();
    let has_scope = !is_own_command && request.check.is_none();
    if has_scope {
        notes.extend(scope_note);
        notes.extend(scope.doubts(&scan.tree));
    }
    let network = request.network.filter(|_| request.check.is_none()).unwrap_or_default();
    if network == Network::Host && !policy.may_use_network {
        return Err(PrepareError::NetworkDenied);
    }
    let nonce = unguessable_word()?;
    let selection = request.selection.clone();
    let want = PlanRequest {
        selection: &selection,
        scope: &scope,
        is_measured: kind == RunKind::Tests && request.coverage != CoverageMode::Off,
        may_trace: request.coverage == CoverageMode::On,
        parallel: request.parallel,
        order: request.order,
        stop_at_first_failure: request.stop_at_first_failure,
        network,
        workspace: root,
        scratch: SCRATCH,
        cache,
        nonce: nonce.as_str(),
        toolchain_sources: None,
    };
    let mut read_only = context.toolchain.read_only(workspace.root(), policy.run_as.into());
    let FrameworkPlan { plan, parser, framework, chosen, expected, missed, wall_ms_max, wall_ms } =
        if let Some(check) = &request.check {
            let is_installed = |step: &Step| command(context, workspace, &read_only, &BTreeMap::new(), step).is_ok();
            plan_check(policy, scan, &check.request, &want, &is_installed)?
        } else if !is_own_command {
            plan_detected(policy, scan, &file, &request, kind, &want, |chosen| {
                toolchain_sources(context, workspace, &read_only, chosen)
            })?
        } else {
            check_custom(&request, kind)?;
            notes.extend(file.unused_scope());
            let wall_ms_max = policy.timeouts.get(custom::NAME).copied().unwrap_or(policy.defaults.wall_ms_max);
            let plan = custom::plan(&request.command, want.scratch, report);
            let parser = custom::parser_for(&request.command, root, report);
            FrameworkPlan {
                plan,
                parser,
                framework: custom::NAME.to_owned(),
                chosen: None,
                expected: ExpectedTests::default(),
                missed: Vec::new(),
                wall_ms_max,
                wall_ms: file.wall_ms(None, wall_ms_max),
            }
        };
    if plan.steps.len() > COMMANDS_MAX {
        return Err(PlanError::TooManySteps { steps: plan.steps.len(), max: COMMANDS_MAX }.into());
    }
    request.limits.wall_ms = request.limits.wall_ms.or(wall_ms);
    let defaults = Limits { wall_ms_max, ..policy.defaults };
    let (limits, clamped) = Limits::resolve(&request.limits, defaults, file.narrow(policy.ceiling));
    notes.extend(clamped);
    notes.extend(plan.notes.iter().cloned());
    let mut env = context.toolchain.base_env(&home());
    let caches = context.toolchain.caches(cache_dir.as_deref(), network);
    env.extend(caches.env);
    env.extend(request.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    let runs_go = chosen.is_none() && kind == RunKind::Tests || may_run_go(&plan.steps);
    let go_library =
        run_cache.as_ref().filter(|_| runs_go).and_then(|cache| go_library(context, workspace, &read_only, cache));
    read_only.extend(go_library.iter().filter(|library| library.exists()).map(GoLibrary::dir));
    let commands = build_commands(context, workspace, &read_only, &env, &plan.steps)?;
    let printer_env = printer_env(&env, limits.memory_bytes_max);
    let stack_requests =
        stack_requests(plan.stack_requests, |step| command(context, workspace, &read_only, &printer_env, step));
    notes.extend(environment_note(workspace, &read_only, &plan.steps));
    let mut required_layers = policy.required_layers.clone();
    required_layers.retain(|layer| network == Network::None || *layer != Layer::NetNamespace);
    let is_single = request.fresh || request.replaced_file.is_some();
    let is_scoped = has_scope && !scope.is_everything();
    let file = |file: InjectedFile| ScratchFile { path: file.path, bytes: file.bytes, executable: file.executable };
    let spec = RunSpec {
        jail: Jail {
            owner: policy.owner.clone(),
            // No worker is prepared in advance for throw-away caches or for one content of a file.
            session: if is_single { String::new() } else { session.to_string() },
            workspace: workspace.root().to_owned(),
            workspace_id: Some(workspace.identity()),
            read_only,
            writable: cache_dir.into_iter().collect(),
            // Set when the run has its turn, after the directory is created.
            writable_id: None,
            links: caches.links,
            replaced_file: request.replaced_file.clone(),
            run_as: policy.run_as,
            network,
            required_layers,
            left_off: policy.left_off.clone(),
        },
        commands,
        stack_requests,
        scratch_files: plan.files.into_iter().map(file).collect(),
        scratch_dirs: plan.dirs.into_iter().chain([HOME.to_owned()]).collect(),
        artifacts: if plan.artifacts { ARTIFACTS.to_owned() } else { String::new() },
        report: plan.report,
        alone: plan.alone && request.replaced_file.is_none() && request.repetition.is_once(),
        limits,
        required_limits: if policy.require_limits { Limits::ENFORCED.to_vec() } else { request.limits.named() },
    };
    Ok(PreparedRun {
        spec,
        parser,
        framework,
        chosen,
        expected,
        is_scoped,
        notes,
        env,
        run_cache,
        go_library,
        missed,
        quarantine,
        repetition: request.repetition,
        checked_since: None,
    })
}

/// The caches for a run of `request`; `None` if the tenant has none.
fn run_cache(policy: &Policy, workspace: &Workspace, request: &RunRequest) -> Result<Option<RunCache>, PrepareError> {
    let Some(tenants) = policy.cache.as_deref() else { return Ok(None) };
    if !request.fresh {
        return Ok(Some(RunCache::for_workspace(tenants, workspace)));
    }
    Ok(Some(RunCache::fresh(tenants, unguessable_word()?.as_str())))
}

/// An unguessable word.
fn unguessable_word() -> Result<SessionId, PrepareError> {
    random_id().ok_or_else(|| PrepareError::HostFailed { text: "the kernel gives no random numbers".to_owned() })
}

/// Whether the steps of a framework start Go, or a shell, which may start Go (the commands of a test script).
fn may_run_go(steps: &[Step]) -> bool {
    steps.iter().flat_map(|step| &step.programs).any(|program| program == "go" || program == "sh")
}

/// Go's library for the toolchain that runs find on PATH. A toolchain inside the workspace uses its own library, and
/// throw-away caches use none.
fn go_library(context: &Context, workspace: &Workspace, read_only: &[PathBuf], cache: &RunCache) -> Option<GoLibrary> {
    let elsewhere = |path: &Path| !path.starts_with(workspace.root()) && is_visible(path, workspace.root(), read_only);
    let go = context.toolchain.find("go", elsewhere).filter(|_| !cache.is_fresh())?;
    GoLibrary::for_toolchain(cache.tenant_dir(), go)
}

/// The sources of the toolchain that the run will find on PATH, unless it is inside the workspace.
fn toolchain_sources(
    context: &Context,
    workspace: &Workspace,
    read_only: &[PathBuf],
    chosen: &FrameworkChoice,
) -> Option<ToolchainSources> {
    let toolchain = chosen.toolchain_with_sources()?;
    let is_seen = |path: &Path| is_visible(path, workspace.root(), read_only);
    let program = context.toolchain.find(toolchain.probe?.program, is_seen)?;
    read_sources(toolchain, &program, |path| !path.starts_with(workspace.root()) && is_seen(path))
}

/// Rejects options that a custom command cannot honour.
fn check_custom(request: &RunRequest, kind: RunKind) -> Result<(), PlanError> {
    let option = match (kind, &request.selection) {
        (RunKind::Listing, _) => "a listing of tests",
        (_, Selection::Matching { .. }) => "a filter or file",
        (_, Selection::Named(_)) => "a list of tests",
        _ if request.parallel.is_some() => "parallel",
        _ if !request.order.is_own() => "the order",
        _ => match request.browsing.requested_option() {
            Some(option) => option,
            None => return Ok(()),
        },
    };
    Err(PlanError::NotApplicable { option, framework: custom::NAME })
}

/// Checks that runs may work in a workspace owned by UID `owner`.
pub fn check_owner(policy: &Policy, owner: u32) -> Result<(), PrepareError> {
    match policy.run_as {
        RunAs::User { uid, .. } if !policy.admits(owner) => Err(PrepareError::WorkspaceOwner { uid }),
        _ => Ok(()),
    }
}

struct FrameworkPlan {
    plan: Plan,
    parser: Box<dyn Parser>,
    framework: String,
    chosen: Option<FrameworkChoice>,
    expected: ExpectedTests,
    missed: Vec<Collector>,
    /// For a run that asks for none.
    wall_ms_max: u64,
    /// What the project file sets instead.
    wall_ms: Option<u64>,
}

fn plan_detected(
    policy: &Policy,
    scan: &WorkspaceScan,
    file: &ProjectFile,
    request: &RunRequest,
    kind: RunKind,
    want: &PlanRequest<'_>,
    sources: impl Fn(&FrameworkChoice) -> Option<ToolchainSources>,
) -> Result<FrameworkPlan, PrepareError> {
    let chosen = detection::choose(&scan.tree, request.framework.as_deref(), &request.selection)?;
    let selection = chosen.resolve(&scan.tree, &request.selection);
    let sources = want.is_measured.then(|| sources(&chosen)).flatten();
    let want = PlanRequest { selection: &selection, toolchain_sources: sources.as_ref(), ..want.clone() };
    let (plan, parser) = chosen.plan(kind, &scan.tree, &want, request.browsing)?;
    let wall_ms_max = chosen.default_wall_ms(|name| policy.timeouts.get(name).copied(), policy.defaults.wall_ms_max);
    let wall_ms = file.wall_ms(Some(&chosen), wall_ms_max);
    let framework = chosen.name();
    let missed = chosen.unscanned_errors(&scan.tree, &selection);
    let (chosen, expected) = match kind {
        RunKind::Tests => (Some(chosen), ExpectedTests::from_selection(&selection)),
        RunKind::Listing | RunKind::Check => (None, ExpectedTests::default()),
    };
    Ok(FrameworkPlan { plan, parser, framework, chosen, expected, missed, wall_ms_max, wall_ms })
}

/// Plans the commands of a check. Checkers may compile the whole project, so its time is that of a build.
fn plan_check(
    policy: &Policy,
    scan: &WorkspaceScan,
    request: &CheckRequest,
    want: &PlanRequest<'_>,
    is_installed: &dyn Fn(&Step) -> bool,
) -> Result<FrameworkPlan, PrepareError> {
    let choice = checks::choose(&scan.tree, request)?;
    let (plan, parser) = choice.plan(&scan.tree, want, is_installed);
    if plan.steps.is_empty() {
        let not_run = |checker: &CheckerResult| format!("{}: {}", checker.checker, checker.status.text());
        let reasons: BTreeSet<String> = parser.report().checkers.iter().map(not_run).collect();
        let text = reasons.into_iter().collect::<Vec<_>>().join("; ");
        return Err(PrepareError::CheckerMissing { text });
    }
    let framework = choice.name();
    Ok(FrameworkPlan {
        plan,
        parser: Box::new(parser),
        framework,
        chosen: None,
        expected: ExpectedTests::default(),
        missed: Vec::new(),
        wall_ms_max: policy.defaults.wall_ms_max.max(LONG_WALL_MS),
        wall_ms: None,
    })
}

/// A note for a project whose virtual environment is not used, because its interpreter is not visible to the run.
fn environment_note(workspace: &Workspace, read_only: &[PathBuf], steps: &[Step]) -> Option<String> {
    let link = invisible_interpreter(workspace.root(), read_only)?;
    let would_use = |step: &Step| step.programs.iter().any(|program| program.ends_with(link));
    steps.iter().any(would_use).then(|| {
        format!(
            "{link} leads to a Python that this run does not see: make the environment from one on the PATH of proctor, or have \
             the operator name its directory under `toolchains`"
        )
    })
}

/// Builds the commands of `steps` for runs that read `read_only`.
pub fn build_commands(
    context: &Context,
    workspace: &Workspace,
    read_only: &[PathBuf],
    env: &BTreeMap<String, String>,
    steps: &[Step],
) -> Result<Vec<CommandSpec>, PrepareError> {
    steps.iter().map(|step| command(context, workspace, read_only, env, step)).collect()
}

/// Variables of a run that would change a program that prints stacks: Node would load the project's modules or write coverage,
/// and the JVM of `jcmd` would start with the arguments of the tests' JVMs.
const NOT_FOR_PRINTERS: [&str; 5] =
    ["NODE_OPTIONS", "NODE_V8_COVERAGE", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// The environment of a program that prints stacks, with the run's memory limit, which it shares with the tests.
fn printer_env(run: &BTreeMap<String, String>, memory_bytes_max: u64) -> BTreeMap<String, String> {
    let mut env = run.clone();
    env.retain(|name, _| !NOT_FOR_PRINTERS.contains(&name.as_str()));
    env.insert("PROCTOR_MEMORY_BYTES_MAX".to_owned(), memory_bytes_max.to_string());
    env
}

/// The requests for stacks. A run whose host lacks the program goes on without.
fn stack_requests(
    planned: Vec<Option<proctor_frameworks::StackRequest>>,
    command: impl Fn(&Step) -> Result<CommandSpec, PrepareError>,
) -> Vec<Option<StackRequest>> {
    let resolve = |request| match request {
        proctor_frameworks::StackRequest::Signal(signal) => Some(StackRequest::Signal(signal)),
        proctor_frameworks::StackRequest::Program(step) => command(&step).ok().map(StackRequest::Program),
    };
    planned.into_iter().map(|request| request.and_then(resolve)).collect()
}

fn command(
    context: &Context,
    workspace: &Workspace,
    read_only: &[PathBuf],
    base: &BTreeMap<String, String>,
    step: &Step,
) -> Result<CommandSpec, PrepareError> {
    let dir = workspace.root().join(&step.dir);
    let find = |program: &str| context.toolchain.find(program, |path| is_visible(path, workspace.root(), read_only));
    let locate = |program: &String| {
        if !program.contains('/') {
            // A bare name is looked up on PATH, as a shell would.
            return find(program);
        }
        // The link's target must be visible to runs, so that the answer reveals nothing about other files. The link
        // itself is executed: an interpreter finds its environment by the name it was called by.
        let script = without_parent_dirs(&dir.join(program))?;
        find(&script.canonicalize().ok()?.to_string_lossy()).map(|_| script)
    };
    let missing = || {
        let program = step.programs.last().cloned().unwrap_or_default();
        let file = Some(dir.join(&program)).filter(|_| program.contains('/')).and_then(|file| file.canonicalize().ok());
        let is_there = file.is_some_and(|file| is_visible(&file, workspace.root(), read_only) && file.is_file());
        PrepareError::RunnerMissing { program, is_there }
    };
    let program = step.programs.iter().find_map(locate).ok_or_else(missing)?;
    let mut env = base.clone();
    env.extend(step.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(CommandSpec { program, args: step.args.clone(), dir, env: env.into_iter().collect() })
}

/// The path without `..`: a package that was hoisted is above its project.
fn without_parent_dirs(script: &Path) -> Option<PathBuf> {
    if !script.components().any(|part| part == Component::ParentDir) {
        return Some(script.to_owned());
    }
    Some(script.parent()?.canonicalize().ok()?.join(script.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_prints_stacks_has_the_runs_environment_without_what_would_change_it() {
        let run = ["NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "HOME"].map(|name| (name.to_owned(), "x".to_owned())).into();
        let names: Vec<String> =
            printer_env(&run, 7).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(names, ["HOME=x", "PROCTOR_MEMORY_BYTES_MAX=7"]);
    }
}
