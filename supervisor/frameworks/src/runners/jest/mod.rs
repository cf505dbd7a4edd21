//! Jest 24 or newer, with an injected reporter beside the project's.
//!
//! Proof of a pass: Jest completed its run without an interruption, and every test file that it had found has its result.
//!
//! `run.cjs` starts the project's own Jest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration stays in force. Jest's cache is in proctor's cache directory,
//! snapshots are not written (`--ci`), and watch mode is off.
//!
//! A name filter is Jest's `--testNamePattern`, a case-insensitive regular expression: of two tests whose names differ in case
//! only, both rerun when one failed. A test's output is captured unless its file has concurrent tests or a test runner other
//! than jest-circus (`runner.cjs`), the default since Jest 27. Before 29 Jest does not report test starts, and before 28 it
//! reports the tests of a file when the file is done: after a kill only the running files are known.
//! Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, Parser, Plan, PlanError, Step, Want};
use crate::ecosystems::js::{self, Flag, Group, Handed, Launch, Options, Runner, Start, Takes};
use crate::formats::reporter_protocol::{Dialect, Reported};

/// Adapter for Jest.
#[derive(Debug, Clone, Copy)]
pub struct Jest;

const NAME: &str = "jest";

/// Options of the test script that define the project's tests and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], takes: Takes::Value },
    Flag { names: &["--rootDir"], takes: Takes::Value },
    Flag { names: &["--env", "--testEnvironment"], takes: Takes::Value },
    Flag { names: &["--preset"], takes: Takes::Value },
    Flag { names: &["--testTimeout"], takes: Takes::Value },
    Flag { names: &["--maxWorkers", "-w"], takes: Takes::Value },
    Flag { names: &["--filter"], takes: Takes::Value },
    Flag { names: &["--globals"], takes: Takes::Value },
    Flag { names: &["--globalSetup"], takes: Takes::Value },
    Flag { names: &["--globalTeardown"], takes: Takes::Value },
    Flag { names: &["--haste"], takes: Takes::Value },
    Flag { names: &["--maxConcurrency"], takes: Takes::Value },
    Flag { names: &["--moduleNameMapper"], takes: Takes::Value },
    Flag { names: &["--openHandlesTimeout"], takes: Takes::Value },
    Flag { names: &["--resolver"], takes: Takes::Value },
    Flag { names: &["--runner"], takes: Takes::Value },
    Flag { names: &["--seed"], takes: Takes::Value },
    Flag { names: &["--testEnvironmentOptions"], takes: Takes::Value },
    Flag { names: &["--testRunner"], takes: Takes::Value },
    Flag { names: &["--testSequencer"], takes: Takes::Value },
    Flag { names: &["--transform"], takes: Takes::Value },
    Flag { names: &["--workerGracefulExitTimeout"], takes: Takes::Value },
    Flag { names: &["--ignoreProjects"], takes: Takes::AllWords },
    Flag { names: &["--moduleDirectories"], takes: Takes::AllWords },
    Flag { names: &["--moduleFileExtensions"], takes: Takes::AllWords },
    Flag { names: &["--modulePathIgnorePatterns"], takes: Takes::AllWords },
    Flag { names: &["--modulePaths"], takes: Takes::AllWords },
    Flag { names: &["--projects"], takes: Takes::AllWords },
    Flag { names: &["--roots"], takes: Takes::AllWords },
    Flag { names: &["--selectProjects"], takes: Takes::AllWords },
    Flag { names: &["--setupFiles"], takes: Takes::AllWords },
    Flag { names: &["--setupFilesAfterEnv"], takes: Takes::AllWords },
    Flag { names: &["--snapshotSerializers"], takes: Takes::AllWords },
    Flag { names: &["--testMatch"], takes: Takes::AllWords },
    Flag { names: &["--testPathIgnorePatterns"], takes: Takes::AllWords },
    Flag { names: &["--testRegex"], takes: Takes::AllWords },
    Flag { names: &["--transformIgnorePatterns"], takes: Takes::AllWords },
    Flag { names: &["--unmockedModulePathPatterns"], takes: Takes::AllWords },
    Flag { names: &["--testPathPatterns", "--testPathPattern"], takes: Takes::Patterns },
    Flag { names: &["--automock"], takes: Takes::Nothing },
    Flag { names: &["--errorOnDeprecated"], takes: Takes::Nothing },
    Flag { names: &["--runInBand", "-i"], takes: Takes::Nothing },
    Flag { names: &["--workerThreads"], takes: Takes::Nothing },
    Flag { names: &["--forceExit"], takes: Takes::Nothing },
    Flag { names: &["--injectGlobals"], takes: Takes::Nothing },
    Flag { names: &["--randomize"], takes: Takes::Nothing },
    Flag { names: &["--resetMocks"], takes: Takes::Nothing },
    Flag { names: &["--resetModules"], takes: Takes::Nothing },
    Flag { names: &["--restoreMocks"], takes: Takes::Nothing },
    Flag { names: &["--clearMocks"], takes: Takes::Nothing },
    Flag { names: &["--waitForUnhandledRejections"], takes: Takes::Nothing },
];

/// Options of the test script that are passed on. The lists cover all options of Jest 30 that take one argument or none.
const HANDED: Handed = Handed::These {
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
];

pub(crate) const DIALECT: Dialect = Dialect {
    missing: |output| js::missing(output, NAME),
    nothing_selected: |output| output.contains("No tests found"),
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    ..Dialect::plain(NAME)
};

impl Framework for Jest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "Jest completed its run without an interruption, and every test file that it had found has its result"
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

    fn signs_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Jest)
    }

    fn started_by(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Jest).then(|| js::manifest_of(&project.dir))
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
        plan(projects, tree, want, |launch, group, mut args| {
            args.extend(group.names.expression().map(|names| format!("--testNamePattern={names}")));
            launch.step(args)
        })
    }

    /// Jest knows the tests of a file only after loading it: a listing loads every file and runs no test.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, |launch, group, mut args| {
            args.push(format!("--testNamePattern={NO_NAME_PATTERN}"));
            launch.with(js::LISTING, group.names.expression().unwrap_or_default()).step(args)
        })
    }

    fn blocks(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(
    projects: &[Project],
    tree: &FileTree,
    want: &Want<'_>,
    step: impl Fn(Launch, &Group<'_>, Vec<String>) -> Step,
) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::injected(FILES), report: true, ..Plan::default() };
    let groups = js::groups(projects, tree, want.selection, NAME)?;
    for start in js::starts(tree, groups, (Runner::Jest, NAME), HANDED, &[], &mut plan.notes) {
        let Start { group, script, options } = start;
        let launch = js::launch(tree, &group, want, "jest/run.cjs", &script);
        let args = arguments(&group, options, want);
        plan.steps.push(step(launch, &group, args));
    }
    Ok(plan)
}

/// Files come first: several of Jest's options take all arguments that follow them.
fn arguments(group: &Group<'_>, mut options: Options, want: &Want<'_>) -> Vec<String> {
    let mut args: Vec<String> = group.files.iter().map(|file| format!("./{file}")).collect();
    if args.is_empty() {
        args = std::mem::take(&mut options.positional);
    } else {
        args.push(if group.exactly { "--runTestsByPath" } else { "--findRelatedTests" }.to_owned());
    }
    let cache = format!("--cacheDirectory={}/jest", want.cache);
    let ours = ["--ci", "--watchman=false", "--testLocationInResults", "--passWithNoTests=false", &cache];
    args.extend(ours.map(str::to_owned));
    let in_parallel = |option: &String| option == "--runInBand" || option.starts_with("--maxWorkers=");
    args.extend(options.into_words().filter(|option| want.parallel.is_none() || !in_parallel(option)));
    args.extend(want.parallel.map(|parallel| format!("--maxWorkers={}", parallel.max(1))));
    args
}
