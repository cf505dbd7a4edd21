//! Jest 24 or newer, with a reporter of ours beside the project's.
//!
//! Proof of a pass: Jest completed its run without an interruption, and every test file that it had found has its result.
//!
//! `run.cjs` starts the project's own Jest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration is in force. Jest's cache is proctor's to place, snapshots are not
//! written (`--ci`), and nothing is watched.
//!
//! A name filter is Jest's `--testNamePattern`, a regular expression without regard to case: of two tests whose names differ
//! in case alone, both run again when one failed. What a test prints is known unless its file has concurrent tests, or another
//! runner of files than Jest's own (`runner.cjs`), which it is from Jest 27 on. Before 29 Jest tells of no test that it begins,
//! and before 28 of the tests of a file when the file is done: of a kill no more is known than which files were under way.
//! Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, Parser, Plan, PlanError, PlanRequest, Step};
use crate::ecosystems::js::{self, Flag, Group, Handed, Launch, Options, Runner, Start, Takes};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};

/// The adapter for Jest.
#[derive(Debug, Clone, Copy)]
pub struct Jest;

const NAME: &str = "jest";

/// Options of the test script that say what the project's tests are and how they run.
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

/// What of the test script is handed on. Jest 30 has all of these options, and no others that take one word or none.
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

/// An expression that no name matches, for a listing.
const NOTHING: &str = "(?!)";

/// What a run loads beside what all runners of JavaScript do.
pub(crate) const FILES: &[(&str, &[u8])] = &[
    ("jest/hook.cjs", include_bytes!("hook.cjs")),
    ("jest/reporter.cjs", include_bytes!("reporter.cjs")),
    ("jest/run.cjs", include_bytes!("run.cjs")),
    ("jest/runner.cjs", include_bytes!("runner.cjs")),
];

pub(crate) const DIALECT: RunnerProfile = RunnerProfile {
    missing: |said| js::missing(said, NAME),
    nothing_selected: |said| said.contains("No tests found"),
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    ..RunnerProfile::plain(NAME)
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

    fn describe_markers_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Jest)
    }

    fn test_script(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Jest).then(|| js::manifest_of(&project.dir))
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
        plan(projects, tree, request, |launch, group, mut args| {
            args.extend(group.names.expression().map(|names| format!("--testNamePattern={names}")));
            launch.step(args)
        })
    }

    /// Jest names the tests of a file only when it loads it: every file is loaded and no test is run.
    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        plan(projects, tree, request, |launch, group, mut args| {
            args.push(format!("--testNamePattern={NOTHING}"));
            launch.with(js::LISTING, group.names.expression().unwrap_or_default()).step(args)
        })
    }

    fn build_error_hides_tests(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(DIALECT, plan, request))
    }
}

fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    step: impl Fn(Launch, &Group<'_>, Vec<String>) -> Step,
) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::injected(FILES), report: true, ..Plan::default() };
    let groups = js::groups(projects, tree, request.selection, NAME)?;
    for start in js::starts(tree, groups, (Runner::Jest, NAME), HANDED, &[], &mut plan.notes) {
        let Start { group, script, options } = start;
        let launch = js::launch(tree, &group, request, "jest/run.cjs", &script);
        let args = arguments(&group, options, request);
        plan.steps.push(step(launch, &group, args));
    }
    Ok(plan)
}

/// Files come first: several of Jest's options take all words that follow them.
fn arguments(group: &Group<'_>, mut options: Options, request: &PlanRequest<'_>) -> Vec<String> {
    let mut args: Vec<String> = group.files.iter().map(|file| format!("./{file}")).collect();
    if args.is_empty() {
        args = std::mem::take(&mut options.positional);
    } else {
        args.push(if group.exactly { "--runTestsByPath" } else { "--findRelatedTests" }.to_owned());
    }
    let cache = format!("--cacheDirectory={}/jest", request.cache);
    let ours = ["--ci", "--watchman=false", "--testLocationInResults", "--passWithNoTests=false", &cache];
    args.extend(ours.map(str::to_owned));
    let in_parallel = |option: &String| option == "--runInBand" || option.starts_with("--maxWorkers=");
    args.extend(options.into_words().filter(|option| request.parallel.is_none() || !in_parallel(option)));
    args.extend(request.parallel.map(|parallel| format!("--maxWorkers={}", parallel.max(1))));
    args
}
