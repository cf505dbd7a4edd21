//! Vitest 1 or newer, with a reporter of ours beside the project's.
//!
//! Proof of a pass: Vitest ended its run without an interruption, and no file and no test that it had collected is without a
//! result.
//!
//! `run.mjs` starts the project's own Vitest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration is in force. Vite's cache is proctor's to place, snapshots are not
//! written, and nothing is watched. Vitest is not asked where each test stands, since it would look at the stack for each of
//! them; what fails tells its own place.
//!
//! Vitest's workers tell it of tests at most ten times a second, and what happened last within such a time sometimes only with
//! what happens next (`throttle` of @vitest/runner 3.2: its timer can fire a millisecond early and is not set again). So the
//! last test before a kill may not be known to have begun.
//!
//! A name filter is Vitest's `--testNamePattern`, a regular expression. Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, InjectedFile, Parser, Plan, PlanError, PlanRequest};
use crate::ecosystems::js::{self, Flag, Group, Handed, Runner, Start, Takes};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use serde::Serialize;

/// The adapter for Vitest.
#[derive(Debug, Clone, Copy)]
pub struct Vitest;

const NAME: &str = "vitest";

/// Options of the test script that say what the project's tests are and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], takes: Takes::Value },
    Flag { names: &["--root", "-r"], takes: Takes::Value },
    Flag { names: &["--dir"], takes: Takes::Value },
    Flag { names: &["--mode"], takes: Takes::Value },
    Flag { names: &["--project"], takes: Takes::Value },
    Flag { names: &["--workspace"], takes: Takes::Value },
    Flag { names: &["--environment"], takes: Takes::Value },
    Flag { names: &["--exclude"], takes: Takes::Value },
    Flag { names: &["--pool"], takes: Takes::Value },
    Flag { names: &["--testTimeout"], takes: Takes::Value },
    Flag { names: &["--hookTimeout"], takes: Takes::Value },
    Flag { names: &["--teardownTimeout"], takes: Takes::Value },
    Flag { names: &["--retry"], takes: Takes::Value },
    Flag { names: &["--maxConcurrency"], takes: Takes::Value },
    Flag { names: &["--maxWorkers"], takes: Takes::Value },
    Flag { names: &["--configLoader"], takes: Takes::Value },
    Flag { names: &["--allowOnly"], takes: Takes::Nothing },
    Flag { names: &["--globals"], takes: Takes::Nothing },
    Flag { names: &["--dom"], takes: Takes::Nothing },
    Flag { names: &["--typecheck"], takes: Takes::Nothing },
    Flag { names: &["--no-isolate"], takes: Takes::Nothing },
    Flag { names: &["--no-file-parallelism"], takes: Takes::Nothing },
];

/// What of the test script is handed on. Vitest 3 and 4 have all of these options.
const HANDED: Handed = Handed::These {
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

/// What `run.mjs` is told, through the environment: its arguments are the project's.
#[derive(Debug, Serialize)]
struct Settings<'a> {
    files: &'a [String],
    /// Whether the files may be sources, whose tests are meant.
    related: bool,
    expression: Option<&'a str>,
    cache: String,
    workers: Option<u32>,
}

const DIALECT: RunnerProfile = RunnerProfile {
    missing: |said| js::missing(said, NAME),
    nothing_selected: |said| said.contains("No test files found"),
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    ..RunnerProfile::plain(NAME)
};

impl Framework for Vitest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "Vitest ended its run without an interruption, and no file and no test that it had collected is without a result"
    }

    fn markers(&self) -> &'static [&'static str] {
        js::MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        js::EXTENSIONS
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        js::projects(tree, Runner::Vitest)
    }

    fn describe_markers_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Vitest)
    }

    fn test_script(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Vitest).then(|| js::manifest_of(&project.dir))
    }

    fn includes(&self, tree: &FileTree, outer: &Project, _inner: &Project) -> bool {
        js::is_linked(tree, &outer.dir)
    }

    fn is_default_for(&self, tree: &FileTree, project: &Project) -> bool {
        !js::is_left_to_script(tree, &project.dir)
    }

    fn missing_build_outputs(&self, tree: &FileTree, projects: &[Project]) -> Vec<String> {
        projects.iter().filter_map(|project| js::unbuilt(tree, &project.dir)).collect()
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request)
    }

    /// Vitest loads every file and runs no test.
    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        let mut plan = plan(projects, tree, request)?;
        plan.steps.iter_mut().for_each(|step| drop(step.env.insert(js::LISTING.to_owned(), String::new())));
        Ok(plan)
    }

    fn build_error_hides_tests(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(DIALECT, plan, request))
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, ..Plan::default() };
    let groups = js::groups(projects, tree, request.selection, NAME)?;
    for start in js::starts(tree, groups, (Runner::Vitest, NAME), HANDED, &[], &mut plan.notes) {
        let Start { group, script, mut options } = start;
        let in_parallel = |option: &String| option.starts_with("--maxWorkers=");
        let positional = std::mem::take(&mut options.positional);
        let kept = options.into_words().filter(|option| request.parallel.is_none() || !in_parallel(option));
        let launch = js::launch(tree, &group, request, "vitest/run.mjs", &script);
        plan.steps
            .push(launch.with("PROCTOR_VITEST", settings(&group, request)).step(positional.into_iter().chain(kept)));
    }
    Ok(plan)
}

fn settings(group: &Group<'_>, request: &PlanRequest<'_>) -> String {
    let settings = Settings {
        files: &group.files,
        related: !group.files.is_empty() && !group.exactly,
        expression: group.names.expression(),
        cache: format!("{}/vitest", request.cache),
        workers: request.parallel.map(|parallel| parallel.max(1)),
    };
    serde_json::to_string(&settings).unwrap_or_default()
}

fn files() -> Vec<InjectedFile> {
    vec![
        js::file("js/report.cjs", include_bytes!("../../ecosystems/js/report.cjs")),
        js::file("vitest/run.mjs", include_bytes!("run.mjs")),
        js::file("vitest/reporter.cjs", include_bytes!("reporter.cjs")),
        js::file("vitest/tasks.cjs", include_bytes!("tasks.cjs")),
    ]
}
