//! Vitest 1 or newer, with an injected reporter beside the project's.
//!
//! `run.mjs` starts the project's own Vitest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration stays in force. Vite's cache is in proctor's cache directory,
//! snapshots are not written, and watch mode is off. Vitest's option for test locations is not used, since it inspects a stack
//! for every test; a failure has its own place.
//!
//! Vitest's workers report at most ten times a second, and the last event within such an interval sometimes only with the next
//! event (`throttle` of @vitest/runner 3.2: its timer can fire a millisecond early and is not set again). So the start of the
//! last test before a kill may be unknown.
//!
//! A name filter is Vitest's `--testNamePattern`, a regular expression.
//!
//! The lines of each test are measured (`ecosystems/js/probes.cjs`): `lines.mjs` is a plugin of Vite, and `setup.js`, the first
//! set-up file of every test file, says which test is running.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Manifest, OptionSupport, OrderSupport, Plan, PlanError, PlanRequest};
use crate::ecosystems::js::{self, Arity, Flag, ForwardPolicy, JsFramework, JsRunner, RunnerStart, TestGroup};
use crate::formats::reporter_protocol::RunnerProfile;
use proctor_core::test_order::TestOrder;
use serde::Serialize;

/// Adapter for Vitest.
#[derive(Debug, Clone, Copy)]
pub struct Vitest;

const NAME: &str = "vitest";

/// Options of the test script that define the project's tests and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], arity: Arity::Value },
    Flag { names: &["--root", "-r"], arity: Arity::Value },
    Flag { names: &["--dir"], arity: Arity::Value },
    Flag { names: &["--mode"], arity: Arity::Value },
    Flag { names: &["--project"], arity: Arity::Value },
    Flag { names: &["--workspace"], arity: Arity::Value },
    Flag { names: &["--environment"], arity: Arity::Value },
    Flag { names: &["--exclude"], arity: Arity::Value },
    Flag { names: &["--pool"], arity: Arity::Value },
    Flag { names: &["--testTimeout"], arity: Arity::Value },
    Flag { names: &["--hookTimeout"], arity: Arity::Value },
    Flag { names: &["--teardownTimeout"], arity: Arity::Value },
    Flag { names: &["--retry"], arity: Arity::Value },
    Flag { names: &["--maxConcurrency"], arity: Arity::Value },
    Flag { names: &["--maxWorkers"], arity: Arity::Value },
    Flag { names: &["--configLoader"], arity: Arity::Value },
    Flag { names: &["--allowOnly"], arity: Arity::Nothing },
    Flag { names: &["--globals"], arity: Arity::Nothing },
    Flag { names: &["--dom"], arity: Arity::Nothing },
    Flag { names: &["--typecheck"], arity: Arity::Nothing },
    Flag { names: &["--no-isolate"], arity: Arity::Nothing },
    Flag { names: &["--no-file-parallelism"], arity: Arity::Nothing },
];

/// Options of the test script that are passed on. Vitest 3 and 4 have all of these options.
const FORWARDED: ForwardPolicy = ForwardPolicy::Only {
    flags: FLAGS,
    valued: &[
        "--api",
        "--attachmentsDir",
        "--bail",
        "--browser",
        "--changed",
        "--diff",
        "--inspect",
        "--inspectBrk",
        "--mergeReports",
        "--minWorkers",
        "--outputFile",
        "--poolOptions",
        "--reporter",
        "--sequence",
        "--shard",
        "--silent",
        "--slowTestThreshold",
        "--tags-filter",
        "--testNamePattern",
        "-t",
    ],
    bare: &[
        "--cache",
        "--clearScreen",
        "--color",
        "--coverage",
        "--dangerouslyIgnoreUnhandledErrors",
        "--disableConsoleIntercept",
        "--expandSnapshotDiff",
        "--expect",
        "--fileParallelism",
        "--help",
        "--hideSkippedTests",
        "--includeTaskLocation",
        "--isolate",
        "--logHeapUsage",
        "--open",
        "--passWithNoTests",
        "--printConsoleTrace",
        "--run",
        "--standalone",
        "--ui",
        "--update",
        "--version",
        "--watch",
        "-h",
        "-u",
        "-v",
        "-w",
    ],
    subcommands: &["dev", "related", "run", "watch"],
};

/// Injected files, beside those of all JavaScript runners.
const FILES: &[(&str, &[u8])] = &[
    ("vitest/lines.mjs", include_bytes!("lines.mjs")),
    ("vitest/reporter.cjs", include_bytes!("reporter.cjs")),
    ("vitest/run.mjs", include_bytes!("run.mjs")),
    ("vitest/setup.js", include_bytes!("setup.js")),
    ("vitest/tasks.cjs", include_bytes!("tasks.cjs")),
];

/// RunSettings of `run.mjs`, passed through the environment: its arguments are the project's.
#[derive(Debug, Serialize)]
struct RunSettings<'a> {
    files: &'a [String],
    /// Whether the files may be sources, which select the tests that import them.
    related: bool,
    expression: Option<&'a str>,
    /// The project file's scope, as an expression over full titles: `run.mjs` adds it to a filter of the project's configuration.
    titles: Option<String>,
    cache: String,
    workers: Option<u32>,
}

const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: |output| js::missing_runner(output, NAME),
    nothing_selected: |output| output.contains("No test files found"),
    separator: js::TITLE_SEPARATOR,
    error_location: js::error_location,
    error_reason: js::error_reason,
    ..RunnerProfile::new(NAME)
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Vitest ended its run without an interruption, and every collected file and test has a result",
    proof_markers: &[b"end"],
    markers: js::MARKERS,
    extensions: js::EXTENSIONS,
    options: OptionSupport {
        coverage: true,
        scope: js::TITLE_SCOPE,
        orders: OrderSupport { shuffled: true, ..OrderSupport::NONE },
        ..Manifest::DEFAULT.options
    },
    node_id_separator: Some(js::TITLE_SEPARATOR),
    build_error_hides_tests: false,
    rerun_names: js::RERUN_NAMES,
    stack_dump: Some(js::STACK_DUMP),
    toolchains: &[&js::NODE],
    sample: &[("package.json", r#"{"scripts":{"test":"vitest run"}}"#)],
    ..Manifest::DEFAULT
};

impl JsFramework for Vitest {
    const RUNNER: JsRunner = JsRunner::Vitest;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request)
    }

    /// A listing loads every file and runs no test.
    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        let mut plan = plan(projects, tree, request)?;
        plan.steps.iter_mut().for_each(|step| drop(step.env.insert(js::LISTING_VARIABLE.to_owned(), String::new())));
        Ok(plan)
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::shared_files_with_lines(FILES), report: true, ..Plan::default() };
    let groups = js::group_selection(projects, tree, request.selection, NAME)?;
    for start in js::runner_starts(tree, groups, (JsRunner::Vitest, NAME), FORWARDED, &[], &mut plan.notes) {
        let RunnerStart { group, script, mut options } = start;
        let in_parallel = |option: &String| option.starts_with("--maxWorkers=");
        let positional = std::mem::take(&mut options.positional);
        let kept = options.into_args().filter(|option| request.parallel.is_none() || !in_parallel(option));
        let bail = request.stop_at_first_failure.then(|| "--bail=1".to_owned());
        let launch = js::launch_with_report(tree, &group, request, "vitest/run.mjs", &script);
        plan.steps.push(
            launch
                .with_env("PROCTOR_VITEST", settings(&group, request))
                .step(positional.into_iter().chain(kept).chain(order_options(request.order)).chain(bail)),
        );
    }
    Ok(plan)
}

/// Vitest prints the seed of a random order, which it picks if there is none.
fn order_options(order: TestOrder) -> Vec<String> {
    let TestOrder::Shuffled { seed } = order else { return Vec::new() };
    let seed = seed.map(|seed| format!("--sequence.seed={seed}"));
    ["--sequence.shuffle.files".to_owned(), "--sequence.shuffle.tests".to_owned()].into_iter().chain(seed).collect()
}

fn settings(group: &TestGroup<'_>, request: &PlanRequest<'_>) -> String {
    let settings = RunSettings {
        files: &group.files,
        related: !group.files.is_empty() && !group.are_test_files,
        expression: group.names.expression(),
        titles: request.scope.title_filter(),
        cache: format!("{}/vitest", request.cache),
        workers: request.parallel.map(|parallel| parallel.max(1)),
    };
    serde_json::to_string(&settings).unwrap_or_default()
}
