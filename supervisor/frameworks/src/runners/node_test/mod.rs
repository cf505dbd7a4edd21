//! Node's own test runner, `node --test`, Node 18.17 or 20.6 and newer. Before 22 Node selects tests by their own title only, so
//! filters and reruns of single tests are inexact there, which a note says; Node 18 does not report test starts either.
//!
//! The files are those that the project's test script names, else those that Node finds; the script's options stay, and an
//! injected reporter runs beside `spec`. A file that fails outside of its tests is a collection error, and one that has no tests
//! and succeeds is a test itself, as in Node. Results of tests whose file calls `process.exit` are lost, as Node receives them
//! too late: that becomes an error of the file, also where Node reports it as passed. So does an exception out of a test after
//! its end, with that test's name and place. A `todo` test that fails is expected to; one that passes may have no body and
//! counts as skipped.
//!
//! borp, which a test script may start in Node's place, looks for files itself and gets the same reporter; files that a
//! request names are run by Node itself, since borp adds those of its settings.
//!
//! A name filter is `--test-name-pattern`, a regular expression over a test's own title and over all titles joined with
//! blanks. So a rerun also runs a test elsewhere in the file whose own title is another's whole name. A subtest of a test
//! (`t.test`, here `parent/child`) exists only while its parent runs, so its rerun reruns its outermost test.
//!
//! A listing loads every file and runs hooks of suites, and no test. A failing test's output is known where its own file
//! imports `node:test` and runs its tests one after the other, in a process of the file (`output.cjs`); Node itself reports
//! output by file only.
//!
//! The lines of each test are measured in the process of its file (`ecosystems/js/probes.cjs`): `lines.cjs` gives Node's modules probes
//! and says which test is running, by Node's own objects for tests (`process_tests.cjs`). A subtest has the lines of its outermost test.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Manifest, OptionSupport, Plan, PlanError, PlanRequest, REPORT, ReservedVariables};
use crate::ecosystems::js::{
    self, ForwardPolicy, ForwardedOptions, JsFramework, JsRunner, Launch, NameFilter, RunnerStart, TestGroup,
};
use crate::formats::reporter_protocol::RunnerProfile;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;

/// Adapter for Node's test runner.
#[derive(Debug, Clone, Copy)]
pub struct NodeTest;

const NAME: &str = "node";

/// Directory, below the scratch directory, in which a file's process leaves the output of its failing tests and how it ended: one
/// for each step, since the next step may run the same file.
const OUTPUT_DIR: &str = "work/node";

/// Injected files, beside those of all JavaScript runners.
const FILES: &[(&str, &[u8])] = &[
    ("node/lines.cjs", include_bytes!("lines.cjs")),
    ("node/listing.cjs", include_bytes!("listing.cjs")),
    ("node/named.cjs", include_bytes!("named.cjs")),
    ("node/output.cjs", include_bytes!("output.cjs")),
    ("node/process_tests.cjs", include_bytes!("process_tests.cjs")),
    ("node/reporter.cjs", include_bytes!("reporter.cjs")),
];

/// Options that change reporting, or that wait for something.
const OMITTED: &[&str] = &[
    "--inspect",
    "--inspect-brk",
    "--inspect-wait",
    "--test-reporter",
    "--test-reporter-destination",
    "--test-rerun-failures",
    "--watch",
    "--watch-path",
];

/// Options that select tests within a file.
const NAMES: &[&str] = &["--test-name-pattern", "--test-skip-pattern", "--test-only"];

const FORWARDED: ForwardPolicy =
    ForwardPolicy::AllExcept { left_out: OMITTED, valued: js::NODE_VALUE_OPTIONS, bare: None };

const PROFILE: RunnerProfile = RunnerProfile {
    separator: js::TITLE_SEPARATOR,
    error_location: js::error_location,
    error_reason: js::error_reason,
    missing_remedy: |output| {
        let is_old = output.contains("bad option: --test") || output.contains("Node 18.17, 20.6 or newer is needed");
        is_old.then(|| "this Node is too old: install Node 18.17, 20.6 or newer, better 22".to_owned())
    },
    nothing_selected: |output| output.contains("Could not find "),
    ..RunnerProfile::new(NAME)
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "the stream of `node --test` ended, every file that started ended, and the process of each reported that no test was to come",
    proof_markers: &[b"end"],
    markers: js::MARKERS,
    extensions: js::EXTENSIONS,
    options: OptionSupport { coverage: true, ..Manifest::DEFAULT.options },
    node_id_separator: Some(js::TITLE_SEPARATOR),
    build_error_hides_tests: false,
    rerun_names: js::RERUN_NAMES,
    reserved: ReservedVariables {
        // A runner that sees it acts as a child of another runner and runs nothing.
        names: &["NODE_TEST_CONTEXT"],
        ..ReservedVariables::NONE
    },
    stack_dump: Some(js::STACK_DUMP),
    toolchains: &[&js::NODE],
    sample: &[("package.json", r#"{"scripts":{"test":"node --test"}}"#)],
    ..Manifest::DEFAULT
};

impl JsFramework for NodeTest {
    const RUNNER: JsRunner = JsRunner::Node;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, false)
    }

    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, true)
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>, lists: bool) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: js::shared_files_with_lines(FILES), report: true, ..Plan::default() };
    let selection = js::map_targets(request.selection, with_outer_tests);
    let groups = js::group_selection_with(projects, tree, &selection, NAME, trimmed_expression)?;
    for start in js::runner_starts(tree, groups, (JsRunner::Node, NAME), FORWARDED, &[], &mut plan.notes) {
        let RunnerStart { group, script, options } = start;
        // borp adds the files of its own settings to those on its command line.
        let is_borp = script.program.is_some() && group.files.is_empty();
        let (script, options) =
            if script.program.is_some() && !is_borp { run_by_node(script, &options) } else { (script, options) };
        let mut launch = match script.program.filter(|_| is_borp) {
            Some(program) => Launch::for_program(
                tree,
                group.project,
                request,
                program,
                &with_options(script, &group, request, lists),
            ),
            None => Launch::for_node(tree, group.project, request, &script),
        };
        launch = launch.with_env("PROCTOR_REPORT", format!("{}/{REPORT}", request.scratch));
        launch = launch.with_lines_cache(request);
        launch = if lists {
            launch.with_env("PROCTOR_LISTING", "1")
        } else {
            let printed = format!("{OUTPUT_DIR}/{}", plan.steps.len());
            plan.dirs.push(printed.clone());
            launch.with_env("PROCTOR_OUTPUT", format!("{}/{printed}", request.scratch))
        };
        if let Some(names) = group.names.expression().filter(|_| is_borp) {
            launch = launch.with_env("PROCTOR_NAMES", names);
        }
        let asked = matches!(request.selection, Selection::Matching { files, .. } if !files.is_empty());
        if asked || group.names.expression().is_some() || options.contain(NAMES) {
            launch = launch.with_env("PROCTOR_ASKED", "1");
        }
        let args = match is_borp {
            true => arguments_of_borp(options, request),
            false => arguments(&group, options, request, lists),
        };
        plan.steps.push(launch.step(args));
    }
    Ok(plan)
}

fn arguments(
    group: &TestGroup<'_>,
    mut options: ForwardedOptions,
    request: &PlanRequest<'_>,
    lists: bool,
) -> Vec<String> {
    let reporter = format!("--test-reporter={}/node/reporter.cjs", request.scratch);
    let destination = "--test-reporter-destination=stdout";
    let mut args: Vec<String> = ["--test", &reporter, destination].map(str::to_owned).into();
    if !lists {
        args.extend(["--test-reporter=spec", destination].map(str::to_owned));
    }
    args.extend(preloads(request, lists));
    let mut files = std::mem::take(&mut options.positional);
    if !group.files.is_empty() {
        let asked = if matches!(group.names, NameFilter::Exactly(_)) {
            group.files.clone()
        } else {
            js::likely_test_files(&group.files)
        };
        files = asked.iter().map(|file| format!("./{}", js::glob_literal(file))).collect();
        options = options.without(&["--test-shard"]);
    }
    if let Some(parallel) = request.parallel {
        options = options.without(&["--test-concurrency"]);
        args.push(format!("--test-concurrency={}", parallel.max(1)));
    }
    if let Some(names) = group.names.expression() {
        options = options.without(NAMES);
        args.push(format!("--test-name-pattern={names}"));
    }
    args.extend(options.into_args());
    args.extend(files);
    args
}

/// Options by which Node loads our files before each test file.
fn preloads(request: &PlanRequest<'_>, lists: bool) -> Vec<String> {
    let files: &[&str] = match (lists, request.is_measured) {
        (true, _) => &["listing"],
        // First, so that what the others load for the project has lines, too.
        (false, true) => &["lines", "output"],
        (false, false) => &["output"],
    };
    files.iter().map(|file| format!("--require={}/node/{file}.cjs", request.scratch)).collect()
}

/// Adds Node's options to the environment: borp starts Node's runner itself.
fn with_options(
    mut script: js::Invocation,
    group: &TestGroup<'_>,
    request: &PlanRequest<'_>,
    lists: bool,
) -> js::Invocation {
    script.node.extend(preloads(request, lists));
    if group.names.expression().is_some() {
        script.node.push(format!("--require={}/node/named.cjs", request.scratch));
    }
    script
}

fn arguments_of_borp(mut options: ForwardedOptions, request: &PlanRequest<'_>) -> Vec<String> {
    let reporter = format!("--reporter={}/node/reporter.cjs", request.scratch);
    let files = std::mem::take(&mut options.positional);
    let mut args = vec!["--reporter=spec".to_owned(), reporter];
    if let Some(parallel) = request.parallel {
        options = options.without(&["--concurrency"]);
        args.push(format!("--concurrency={}", parallel.max(1)));
    }
    args.into_iter().chain(options.into_args()).chain(files).collect()
}

/// The script for running borp's files with Node itself, with those of borp's options that change what runs.
fn run_by_node(script: js::Invocation, options: &ForwardedOptions) -> (js::Invocation, ForwardedOptions) {
    let args = if options.contain(&["--expose-gc"]) { vec!["--expose-gc".to_owned()] } else { Vec::new() };
    let script = js::Invocation { args, program: None, ..script };
    let options = ForwardedOptions::from_invocation(&script, FORWARDED);
    (script, options)
}

/// The expression of one test: Node trims the joined titles before it compares them.
fn trimmed_expression(titles: &[&str], is_clipped: bool) -> String {
    let mut titles = titles.to_vec();
    if let Some(first) = titles.first_mut() {
        *first = first.trim_start();
    }
    if let Some(last) = titles.last_mut().filter(|_| !is_clipped) {
        *last = last.trim_end();
    }
    js::default_title_expression(&titles, is_clipped)
}

/// The test and all tests that it may be a subtest of: a title may contain a `/`, and a test that does not exist does not run.
fn with_outer_tests(target: &RerunTarget) -> Vec<RerunTarget> {
    let name = match target {
        RerunTarget::Test(test) => &test.name,
        RerunTarget::Name(name) => name,
        RerunTarget::Package(_) => return vec![target.clone()],
    };
    let package = target.package().unwrap_or_default();
    let outer = name.match_indices('/').map(|(at, _)| name[..at].trim_end()).filter(|name| !name.is_empty());
    let outer = outer.map(|name| TestId { package: package.to_owned(), name: name.to_owned() });
    outer.map(RerunTarget::from_test).chain([target.clone()]).collect()
}

#[cfg(test)]
mod tests;
