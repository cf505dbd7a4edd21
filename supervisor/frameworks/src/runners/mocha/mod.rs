//! Mocha 6 or newer, with an injected reporter in front of the project's own, or `spec`, which writes the output for people.
//!
//! The project's Mocha runs in the project's directory with its `.mocharc`, its `mocha` key of `package.json` and the options
//! of its test script. Files on the command line are added to those of the configuration, so for a request that names files,
//! `config.cjs` provides the configuration without them. `--exit` is never added: if open handles keep the process alive, that
//! is the project's behaviour. In a parallel run (`--parallel`, `--jobs`) Mocha reports the tests of a file when the file is
//! done, so no running test is known.
//!
//! A name filter is `--grep`, a regular expression over titles joined with blanks; it replaces the project's own. The project file's
//! patterns and exclude apply beside the project's own (`scope.cjs`). A failed hook that belongs to no single test
//! is reported as a test with its title, and its rerun reruns its file. Mocha reports no lines: a failure that was not thrown
//! in the project has no place.
//! A passed test is reported with the next event, so a test whose leftovers end the process at once counts as not finished.
//! Output of tests is captured, except in a parallel run.
//!
//! The lines of each test are measured (`ecosystems/js/probes.cjs`): `lines.cjs` gives Node's modules probes and says which test is
//! running.

pub(crate) mod hooks;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    DefaultConcurrency, Manifest, OptionSupport, ParallelSupport, Plan, PlanError, PlanRequest, REPORT, RerunNames,
    ReservedVariables,
};
use crate::ecosystems::js::{
    self, ForwardPolicy, ForwardedOptions, JsFramework, JsRunner, Launch, RunnerStart, TestGroup,
};
use crate::formats::reporter_protocol::RunnerProfile;
use hooks::is_hook;
use proctor_core::request::RerunTarget;

/// Adapter for Mocha.
#[derive(Debug, Clone, Copy)]
pub struct Mocha;

const NAME: &str = "mocha";

/// Options that take the next argument as their value.
const VALUED: &[&str] = &[
    "--config",
    "--env-file",
    "--exclude",
    "--experimental-loader",
    "--extension",
    "--fgrep",
    "--file",
    "--global",
    "--globals",
    "--grep",
    "--ignore",
    "--import",
    "--jobs",
    "--loader",
    "--node-option",
    "--package",
    "--reporter",
    "--reporter-option",
    "--reporter-options",
    "--require",
    "--retries",
    "--slow",
    "--spec",
    "--timeout",
    "--timeouts",
    "--ui",
    "--watch-files",
    "--watch-ignore",
    "-O",
    "-R",
    "-f",
    "-g",
    "-j",
    "-n",
    "-r",
    "-s",
    "-t",
    "-u",
];

/// Options without a value.
const BARE: &[&str] = &[
    "--allow-uncaught",
    "--async-only",
    "--bail",
    "--check-leaks",
    "--color",
    "--colors",
    "--delay",
    "--diff",
    "--dry-run",
    "--enable-source-maps",
    "--exit",
    "--expose-gc",
    "--fail-hook-affected-tests",
    "--fail-zero",
    "--forbid-only",
    "--forbid-pending",
    "--full-trace",
    "--inline-diffs",
    "--inspect",
    "--inspect-brk",
    "--invert",
    "--list-interfaces",
    "--list-reporters",
    "--parallel",
    "--pass-on-failing-test-suite",
    "--posix-exit-codes",
    "--preserve-symlinks",
    "--recursive",
    "--sort",
    "--throw-deprecation",
    "--trace-deprecation",
    "--trace-warnings",
    "--watch",
    "-A",
    "-C",
    "-S",
    "-b",
    "-c",
    "-i",
    "-p",
    "-w",
];

/// Options that change reporting, or that wait for changes.
const OMITTED: &[&str] =
    &["--reporter", "-R", "--watch", "-w", "--watch-files", "--watch-ignore", "--color", "--colors", "-c"];

const FORWARDED: ForwardPolicy = ForwardPolicy::AllExcept { left_out: OMITTED, valued: VALUED, bare: Some(BARE) };

/// Injected files, beside those of all JavaScript runners.
pub(crate) const FILES: &[(&str, &[u8])] = &[
    ("mocha/config.cjs", include_bytes!("config.cjs")),
    ("mocha/dependencies.cjs", include_bytes!("dependencies.cjs")),
    ("mocha/globals.cjs", include_bytes!("globals.cjs")),
    ("mocha/itself.cjs", include_bytes!("itself.cjs")),
    ("mocha/lines.cjs", include_bytes!("lines.cjs")),
    ("mocha/reporter.cjs", include_bytes!("reporter.cjs")),
    ("mocha/scope.cjs", include_bytes!("scope.cjs")),
    ("mocha/unseen_loading.cjs", include_bytes!("unseen_loading.cjs")),
];

/// Options of a script that a request's own filter replaces.
const FILTERS: &[&str] = &["--grep", "-g", "--fgrep", "-f", "--invert", "-i"];

/// Mocha's messages for the reporter protocol.
pub(crate) const PROFILE: RunnerProfile = RunnerProfile {
    separator: js::TITLE_SEPARATOR,
    missing_remedy: |output| {
        let is_old = output.contains("unknown option `--no-color'");
        js::missing_runner(output, NAME)
            .or_else(|| is_old.then(|| "this mocha is too old: 6 or newer is needed".to_owned()))
    },
    nothing_selected: |output| output.contains("No test files found"),
    error_location: js::error_location,
    error_reason: js::error_reason,
    ..RunnerProfile::new(NAME)
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Mocha ended its run, and as many tests ended as it had at its start; of a parallel run, it ended",
    proof_markers: &[b"end"],
    markers: js::MARKERS,
    extensions: js::EXTENSIONS,
    options: OptionSupport {
        coverage: true,
        scope: js::TITLE_SCOPE,
        parallel: ParallelSupport::Applied(DefaultConcurrency::OneFile),
        ..Manifest::DEFAULT.options
    },
    node_id_separator: Some(js::TITLE_SEPARATOR),
    rerun_names: RerunNames { is_reported_only_on_failure: is_hook, ..js::RERUN_NAMES },
    reserved: ReservedVariables { names: &["MOCHA_OPTIONS"], ..ReservedVariables::NONE },
    stack_dump: Some(js::STACK_DUMP),
    toolchains: &[&js::NODE],
    sample: &[("package.json", r#"{"scripts":{"test":"mocha"}}"#)],
    ..Manifest::DEFAULT
};

impl JsFramework for Mocha {
    const RUNNER: JsRunner = JsRunner::Mocha;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, &[])
    }

    /// `--dry-run` loads every file and runs neither tests nor hooks.
    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, &["--dry-run", "--no-parallel"])
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>, more: &[&str]) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::shared_files_with_lines(FILES), report: true, ..Plan::default() };
    let selection = js::map_targets(request.selection, |target| vec![file_of_hook(target)]);
    let groups = js::group_selection(projects, tree, &selection, NAME)?;
    for start in js::runner_starts(tree, groups, (JsRunner::Mocha, NAME), FORWARDED, &[], &mut plan.notes) {
        let RunnerStart { group, script, options } = start;
        let config = options.value_of("--config").map(str::to_owned);
        let mut launch = Launch::for_program(tree, group.project, request, NAME, &script)
            .with_env("PROCTOR_REPORT", format!("{}/{REPORT}", request.scratch));
        if let Some(config) = config.filter(|_| !group.files.is_empty()) {
            launch = launch.with_env("PROCTOR_MOCHA_CONFIG", config);
        }
        let mut args = arguments(&group, options, request);
        if request.is_measured {
            launch = launch.with_lines_cache(request);
            args.insert(0, format!("--require={}/mocha/lines.cjs", request.scratch));
        }
        if let Some(titles) = request.scope.title_filter() {
            launch = launch.with_env("PROCTOR_TITLES", titles);
            args.insert(0, format!("--require={}/mocha/scope.cjs", request.scratch));
        }
        args.splice(0..0, more.iter().map(|&word| word.to_owned()));
        plan.steps.push(launch.step(args));
    }
    Ok(plan)
}

fn arguments(group: &TestGroup<'_>, mut options: ForwardedOptions, request: &PlanRequest<'_>) -> Vec<String> {
    let mut args = vec![format!("--reporter={}/mocha/reporter.cjs", request.scratch), "--no-color".to_owned()];
    let mut files = std::mem::take(&mut options.positional);
    if !group.files.is_empty() {
        files = js::likely_test_files(&group.files).into_iter().map(|file| format!("./{file}")).collect();
        options = options.without(&["--config", "--package", "--spec"]);
        args.extend([format!("--config={}/mocha/config.cjs", request.scratch), "--no-package".to_owned()]);
    }
    if let Some(parallel) = request.parallel {
        options = options.without(&["--parallel", "-p", "--no-parallel", "--jobs", "-j"]);
        args.extend(["--parallel".to_owned(), format!("--jobs={}", parallel.max(1))]);
    }
    if let Some(names) = group.names.expression() {
        options = options.without(FILTERS);
        args.push(format!("--grep={names}"));
    }
    args.extend(request.stop_at_first_failure.then(|| "--bail".to_owned()));
    args.extend(options.into_args());
    args.extend(files);
    args
}

/// Replaces a failed hook by its whole file: Mocha cannot select a hook.
fn file_of_hook(target: &RerunTarget) -> RerunTarget {
    match target {
        RerunTarget::Test(test) if is_hook(&test.name) => RerunTarget::Package(test.package.clone()),
        RerunTarget::Test(_) | RerunTarget::Package(_) | RerunTarget::Name(_) => target.clone(),
    }
}

#[cfg(test)]
mod tests;
