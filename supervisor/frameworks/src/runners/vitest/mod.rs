//! Vitest 1 or newer, with an injected reporter beside the project's.
//!
//! Proof of a pass: Vitest ended its run without an interruption, and no file and no test that it had collected is without a
//! result.
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
//! A name filter is Vitest's `--testNamePattern`, a regular expression. Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, InjectedFile, Parser, Plan, PlanError, Want};
use crate::ecosystems::js::{self, Flag, Group, Handed, Runner, Start, Takes};
use crate::formats::reporter_protocol::{Dialect, Reported};
use serde::Serialize;

/// Adapter for Vitest.
#[derive(Debug, Clone, Copy)]
pub struct Vitest;

const NAME: &str = "vitest";

/// Options of the test script that define the project's tests and how they run.
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

/// Options of the test script that are passed on. Vitest 3 and 4 have all of these options.
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

/// RunSettings of `run.mjs`, passed through the environment: its arguments are the project's.
#[derive(Debug, Serialize)]
struct RunSettings<'a> {
    files: &'a [String],
    /// Whether the files may be sources, which select the tests that import them.
    related: bool,
    expression: Option<&'a str>,
    cache: String,
    workers: Option<u32>,
}

const DIALECT: Dialect = Dialect {
    missing: |output| js::missing(output, NAME),
    nothing_selected: |output| output.contains("No test files found"),
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    ..Dialect::plain(NAME)
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

    fn signs_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Vitest)
    }

    fn started_by(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Vitest).then(|| js::manifest_of(&project.dir))
    }

    fn includes(&self, tree: &FileTree, outer: &Project, _inner: &Project) -> bool {
        js::is_linked(tree, &outer.dir)
    }

    fn claims(&self, tree: &FileTree, project: &Project) -> bool {
        !js::is_left_to_script(tree, &project.dir)
    }

    fn unbuilt(&self, tree: &FileTree, projects: &[Project]) -> Vec<String> {
        projects.iter().filter_map(|project| js::unbuilt(tree, &project.dir)).collect()
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want)
    }

    /// A listing loads every file and runs no test.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        let mut plan = plan(projects, tree, want)?;
        plan.steps.iter_mut().for_each(|step| drop(step.env.insert(js::LISTING.to_owned(), String::new())));
        Ok(plan)
    }

    fn blocks(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, ..Plan::default() };
    let groups = js::groups(projects, tree, want.selection, NAME)?;
    for start in js::starts(tree, groups, (Runner::Vitest, NAME), HANDED, &[], &mut plan.notes) {
        let Start { group, script, mut options } = start;
        let in_parallel = |option: &String| option.starts_with("--maxWorkers=");
        let positional = std::mem::take(&mut options.positional);
        let kept = options.into_words().filter(|option| want.parallel.is_none() || !in_parallel(option));
        let launch = js::launch(tree, &group, want, "vitest/run.mjs", &script);
        plan.steps.push(launch.with("PROCTOR_VITEST", settings(&group, want)).step(positional.into_iter().chain(kept)));
    }
    Ok(plan)
}

fn settings(group: &Group<'_>, want: &Want<'_>) -> String {
    let settings = RunSettings {
        files: &group.files,
        related: !group.files.is_empty() && !group.exactly,
        expression: group.names.expression(),
        cache: format!("{}/vitest", want.cache),
        workers: want.parallel.map(|parallel| parallel.max(1)),
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
