//! Jest 24 or newer, with an injected reporter beside the project's.
//!
//! `run.cjs` starts the project's own Jest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration stays in force. Jest's cache is in proctor's cache directory,
//! snapshots are not written (`--ci`), and watch mode is off.
//!
//! A name filter is Jest's `--testNamePattern`, a case-insensitive regular expression: of two tests whose names differ in case
//! only, both rerun when one failed. A test's output is captured unless its file has concurrent tests or a test runner other
//! than jest-circus (`runner.cjs`), the default since Jest 27. Before 29 Jest does not report test starts, and before 28 it
//! reports the tests of a file when the file is done: after a kill only the running files are known.
//!
//! The lines of each test are measured (`ecosystems/js/probes.cjs`): `transform.cjs` wraps the project's transformers, and Jest caches
//! its result. `runner.cjs` says which test is running.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    Manifest, NameScope, OptionSupport, OrderSupport, Plan, PlanError, PlanRequest, ScopeSupport, Step, TestScope,
};
use crate::ecosystems::js::{
    self, Arity, Flag, ForwardPolicy, ForwardedOptions, JsFramework, JsRunner, Launch, RunnerStart, TestGroup,
};
use crate::formats::reporter_protocol::RunnerProfile;
use proctor_core::test_order::TestOrder;

/// Adapter for Jest.
#[derive(Debug, Clone, Copy)]
pub struct Jest;

const NAME: &str = "jest";

/// Options of the test script that define the project's tests and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], arity: Arity::Value },
    Flag { names: &["--rootDir"], arity: Arity::Value },
    Flag { names: &["--env", "--testEnvironment"], arity: Arity::Value },
    Flag { names: &["--preset"], arity: Arity::Value },
    Flag { names: &["--testTimeout"], arity: Arity::Value },
    Flag { names: &["--maxWorkers", "-w"], arity: Arity::Value },
    Flag { names: &["--filter"], arity: Arity::Value },
    Flag { names: &["--globals"], arity: Arity::Value },
    Flag { names: &["--globalSetup"], arity: Arity::Value },
    Flag { names: &["--globalTeardown"], arity: Arity::Value },
    Flag { names: &["--haste"], arity: Arity::Value },
    Flag { names: &["--maxConcurrency"], arity: Arity::Value },
    Flag { names: &["--moduleNameMapper"], arity: Arity::Value },
    Flag { names: &["--openHandlesTimeout"], arity: Arity::Value },
    Flag { names: &["--resolver"], arity: Arity::Value },
    Flag { names: &["--runner"], arity: Arity::Value },
    Flag { names: &["--seed"], arity: Arity::Value },
    Flag { names: &["--testEnvironmentOptions"], arity: Arity::Value },
    Flag { names: &["--testRunner"], arity: Arity::Value },
    Flag { names: &["--testSequencer"], arity: Arity::Value },
    Flag { names: &["--transform"], arity: Arity::Value },
    Flag { names: &["--workerGracefulExitTimeout"], arity: Arity::Value },
    Flag { names: &["--ignoreProjects"], arity: Arity::AllWords },
    Flag { names: &["--moduleDirectories"], arity: Arity::AllWords },
    Flag { names: &["--moduleFileExtensions"], arity: Arity::AllWords },
    Flag { names: &["--modulePathIgnorePatterns"], arity: Arity::AllWords },
    Flag { names: &["--modulePaths"], arity: Arity::AllWords },
    Flag { names: &["--projects"], arity: Arity::AllWords },
    Flag { names: &["--roots"], arity: Arity::AllWords },
    Flag { names: &["--selectProjects"], arity: Arity::AllWords },
    Flag { names: &["--setupFiles"], arity: Arity::AllWords },
    Flag { names: &["--setupFilesAfterEnv"], arity: Arity::AllWords },
    Flag { names: &["--snapshotSerializers"], arity: Arity::AllWords },
    Flag { names: &["--testMatch"], arity: Arity::AllWords },
    Flag { names: &["--testPathIgnorePatterns"], arity: Arity::AllWords },
    Flag { names: &["--testRegex"], arity: Arity::AllWords },
    Flag { names: &["--transformIgnorePatterns"], arity: Arity::AllWords },
    Flag { names: &["--unmockedModulePathPatterns"], arity: Arity::AllWords },
    Flag { names: &["--testPathPatterns", "--testPathPattern"], arity: Arity::Patterns },
    Flag { names: &["--automock"], arity: Arity::Nothing },
    Flag { names: &["--errorOnDeprecated"], arity: Arity::Nothing },
    Flag { names: &["--runInBand", "-i"], arity: Arity::Nothing },
    Flag { names: &["--workerThreads"], arity: Arity::Nothing },
    Flag { names: &["--forceExit"], arity: Arity::Nothing },
    Flag { names: &["--injectGlobals"], arity: Arity::Nothing },
    Flag { names: &["--randomize"], arity: Arity::Nothing },
    Flag { names: &["--resetMocks"], arity: Arity::Nothing },
    Flag { names: &["--resetModules"], arity: Arity::Nothing },
    Flag { names: &["--restoreMocks"], arity: Arity::Nothing },
    Flag { names: &["--clearMocks"], arity: Arity::Nothing },
    Flag { names: &["--waitForUnhandledRejections"], arity: Arity::Nothing },
];

/// Options of the test script that are passed on. The lists cover all options of Jest 30 that take one argument or none.
const FORWARDED: ForwardPolicy = ForwardPolicy::Only {
    flags: FLAGS,
    valued: &[
        "--cacheDirectory",
        "--changedSince",
        "--coverageDirectory",
        "--coverageProvider",
        "--coverageThreshold",
        "--notifyMode",
        "--outputFile",
        "--prettierPath",
        "--shard",
        "--testFailureExitCode",
        "--testNamePattern",
        "--testResultsProcessor",
        "-t",
    ],
    bare: &[
        "--all",
        "--bail",
        "--cache",
        "--changedFilesWithAncestor",
        "--ci",
        "--clearCache",
        "--collectCoverage",
        "--collectTests",
        "--color",
        "--colors",
        "--coverage",
        "--debug",
        "--detectLeaks",
        "--detectOpenHandles",
        "--expand",
        "--findRelatedTests",
        "--help",
        "--json",
        "--lastCommit",
        "--listTests",
        "--logHeapUsage",
        "--noStackTrace",
        "--notify",
        "--onlyChanged",
        "--onlyFailures",
        "--passWithNoTests",
        "--runTestsByPath",
        "--showConfig",
        "--showSeed",
        "--silent",
        "--skipFilter",
        "--testLocationInResults",
        "--updateSnapshot",
        "--useStderr",
        "--verbose",
        "--version",
        "--watch",
        "--watchAll",
        "--watchman",
        "-b",
        "-e",
        "-f",
        "-h",
        "-o",
        "-u",
        "-v",
    ],
    subcommands: &[],
};

/// A pattern that no name matches, for a listing.
const NO_NAME_PATTERN: &str = "(?!)";

/// Injected files, beside those of all JavaScript runners.
pub(crate) const FILES: &[(&str, &[u8])] = &[
    ("jest/hook.cjs", include_bytes!("hook.cjs")),
    ("jest/reporter.cjs", include_bytes!("reporter.cjs")),
    ("jest/run.cjs", include_bytes!("run.cjs")),
    ("jest/runner.cjs", include_bytes!("runner.cjs")),
    ("jest/transform.cjs", include_bytes!("transform.cjs")),
];

pub(crate) const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: |output| js::missing_runner(output, NAME),
    nothing_selected: |output| output.contains("No tests found"),
    separator: js::TITLE_SEPARATOR,
    error_location: js::error_location,
    error_reason: js::error_reason,
    ..RunnerProfile::new(NAME)
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Jest completed its run without an interruption, and every test file that it found has a result",
    proof_markers: &[b"end"],
    markers: js::MARKERS,
    extensions: js::EXTENSIONS,
    options: OptionSupport {
        coverage: true,
        orders: OrderSupport { shuffled: true, ..OrderSupport::NONE },
        scope: ScopeSupport { names: NameScope::Titles, files: true },
        ..Manifest::DEFAULT.options
    },
    node_id_separator: Some(js::TITLE_SEPARATOR),
    build_error_hides_tests: false,
    rerun_names: js::RERUN_NAMES,
    stack_dump: Some(js::STACK_DUMP),
    toolchains: &[&js::NODE],
    sample: &[("package.json", r#"{"scripts":{"test":"jest"}}"#)],
    ..Manifest::DEFAULT
};

impl JsFramework for Jest {
    const RUNNER: JsRunner = JsRunner::Jest;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, |launch, group, mut args| {
            args.extend(group.names.expression().map(|names| format!("--testNamePattern={names}")));
            launch.step(args)
        })
    }

    /// Jest knows the tests of a file only after loading it: a listing loads every file and runs no test.
    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, |launch, group, mut args| {
            args.push(format!("--testNamePattern={NO_NAME_PATTERN}"));
            launch.with_env(js::LISTING_VARIABLE, group.names.expression().unwrap_or_default()).step(args)
        })
    }
}

fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    step: impl Fn(Launch, &TestGroup<'_>, Vec<String>) -> Step,
) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::shared_files_with_lines(FILES), report: true, ..Plan::default() };
    let groups = js::group_selection(projects, tree, request.selection, NAME)?;
    for start in js::runner_starts(tree, groups, (JsRunner::Jest, NAME), FORWARDED, &[], &mut plan.notes) {
        let RunnerStart { group, script, options } = start;
        let launch = js::launch_with_report(tree, &group, request, "jest/run.cjs", &script);
        let args = arguments(&group, options, request);
        let ignored = ignored_paths(request.scope, request.workspace);
        let launch = if ignored.is_empty() { launch } else { launch.with_env("PROCTOR_IGNORED_PATHS", ignored) };
        plan.steps.push(step(launch, &group, args));
    }
    Ok(plan)
}

/// Expressions for absolute paths that the scope leaves out, one a line: what `hook.cjs` adds to `testPathIgnorePatterns`.
fn ignored_paths(scope: &TestScope, workspace: &str) -> String {
    let root = js::quote_regex(workspace);
    let excluded = scope.exclude.file_expression().map(|files| format!("^{root}/(?:{files})$"));
    let others = scope.patterns.file_expression().map(|files| format!("^(?!{root}/(?:{files})$)"));
    excluded.into_iter().chain(others).collect::<Vec<_>>().join("\n")
}

/// Files come first: several of Jest's options take all arguments that follow them.
fn arguments(group: &TestGroup<'_>, mut options: ForwardedOptions, request: &PlanRequest<'_>) -> Vec<String> {
    let mut args: Vec<String> = group.files.iter().map(|file| format!("./{file}")).collect();
    if args.is_empty() {
        args = std::mem::take(&mut options.positional);
    } else {
        args.push(if group.are_test_files { "--runTestsByPath" } else { "--findRelatedTests" }.to_owned());
    }
    let cache = format!("--cacheDirectory={}/jest", request.cache);
    let ours = ["--ci", "--watchman=false", "--testLocationInResults", "--passWithNoTests=false", &cache];
    args.extend(ours.map(str::to_owned));
    let in_parallel = |option: &String| option == "--runInBand" || option.starts_with("--maxWorkers=");
    args.extend(options.into_args().filter(|option| request.parallel.is_none() || !in_parallel(option)));
    args.extend(request.parallel.map(|parallel| format!("--maxWorkers={}", parallel.max(1))));
    args.extend(request.stop_at_first_failure.then(|| "--bail".to_owned()));
    if let TestOrder::Shuffled { seed } = request.order {
        // Within each file; Jest prints the seed that it picks.
        args.extend(["--randomize", "--showSeed"].map(str::to_owned));
        args.extend(seed.map(|seed| format!("--seed={seed}")));
    }
    args
}
