//! Jest 29 or newer, with a reporter of ours beside the project's.
//!
//! `run.cjs` starts the project's own Jest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration is in force. Jest's cache is proctor's to place, snapshots are not
//! written (`--ci`), and nothing is watched.
//!
//! A name filter is Jest's `--testNamePattern`, a regular expression without regard to case: of two tests whose names differ
//! in case alone, both run again when one failed. What a test prints is known unless its file has concurrent tests, or another
//! runner of files than Jest's own (`runner.cjs`). Coverage is not measured.

use crate::framework::{Framework, InjectedFile, Parser, Plan, PlanError, Project, Step, Want};
use crate::js::{self, Flag, Group, Launch, Runner, Script};
use crate::reported::{Dialect, Reported};
use crate::tree::FileTree;

/// The adapter for Jest.
#[derive(Debug, Clone, Copy)]
pub struct Jest;

const NAME: &str = "jest";

/// Options of the test script that say what the project's tests are and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], has_value: true },
    Flag { names: &["--rootDir"], has_value: true },
    Flag { names: &["--env", "--testEnvironment"], has_value: true },
    Flag { names: &["--preset"], has_value: true },
    Flag { names: &["--testTimeout"], has_value: true },
    Flag { names: &["--testRegex"], has_value: true },
    Flag { names: &["--maxWorkers", "-w"], has_value: true },
    Flag { names: &["--runInBand", "-i"], has_value: false },
    Flag { names: &["--workerThreads"], has_value: false },
    Flag { names: &["--forceExit"], has_value: false },
    Flag { names: &["--injectGlobals"], has_value: false },
    Flag { names: &["--resetMocks"], has_value: false },
    Flag { names: &["--resetModules"], has_value: false },
    Flag { names: &["--restoreMocks"], has_value: false },
    Flag { names: &["--clearMocks"], has_value: false },
];

/// Options that take a value and are left out.
const VALUED: &[&str] = &[
    "--coverageDirectory",
    "--coverageReporters",
    "--json",
    "--outputFile",
    "--reporters",
    "--selectProjects",
    "--projects",
    "--shard",
    "--testNamePattern",
    "-t",
];

/// An expression that no name matches, for a listing.
const NOTHING: &str = "(?!)";

const DIALECT: Dialect = Dialect {
    missing: |said| js::missing(said, NAME),
    nothing_selected: |said| said.contains("No tests found"),
    between: js::TITLES,
    ..Dialect::plain(NAME)
};

impl Framework for Jest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn markers(&self) -> &'static [&'static str] {
        js::MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        js::EXTENSIONS
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        js::projects(tree, Runner::Jest)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, |launch, group, mut args| {
            args.extend(group.names.expression().map(|names| format!("--testNamePattern={names}")));
            launch.step(args)
        })
    }

    /// Jest names the tests of a file only when it loads it: every file is loaded and no test is run.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, |launch, group, mut args| {
            args.push(format!("--testNamePattern={NOTHING}"));
            launch.with(js::LISTING, group.names.expression().unwrap_or_default()).step(args)
        })
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }

    fn listing(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(
    projects: &[Project],
    tree: &FileTree,
    want: &Want<'_>,
    step: impl Fn(Launch, &Group<'_>, Vec<String>) -> Step,
) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, ..Plan::default() };
    for group in js::groups(projects, tree, want.selection, NAME)? {
        let script = Script::of(tree, &group.project.dir, Runner::Jest);
        let options = script.options(FLAGS, VALUED);
        plan.notes.extend(options.note(NAME));
        let launch = js::launch(tree, &group, want, "jest/run.cjs", &script);
        let args = arguments(&group, options, want);
        plan.steps.push(step(launch, &group, args));
    }
    plan.notes.dedup();
    Ok(plan)
}

/// Files come first: several of Jest's options take all words that follow them.
fn arguments(group: &Group<'_>, options: js::Options, want: &Want<'_>) -> Vec<String> {
    let mut args: Vec<String> = group.files.iter().map(|file| format!("./{file}")).collect();
    if args.is_empty() {
        args = options.positional;
    } else {
        args.push(if group.exactly { "--runTestsByPath" } else { "--findRelatedTests" }.to_owned());
    }
    let cache = format!("--cacheDirectory={}/jest", want.cache);
    let ours = ["--ci", "--watchman=false", "--testLocationInResults", "--passWithNoTests=false", &cache];
    args.extend(ours.map(str::to_owned));
    let in_parallel = |option: &String| option == "--runInBand" || option.starts_with("--maxWorkers=");
    args.extend(options.kept.into_iter().filter(|option| want.parallel.is_none() || !in_parallel(option)));
    args.extend(want.parallel.map(|parallel| format!("--maxWorkers={}", parallel.max(1))));
    args
}

fn files() -> Vec<InjectedFile> {
    vec![
        js::file("js/report.cjs", include_bytes!("../js/report.cjs")),
        js::file("jest/run.cjs", include_bytes!("run.cjs")),
        js::file("jest/reporter.cjs", include_bytes!("reporter.cjs")),
        js::file("jest/runner.cjs", include_bytes!("runner.cjs")),
    ]
}
