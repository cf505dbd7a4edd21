//! `@playwright/test` 1.50 or newer, with an injected reporter beside the project's.
//!
//! The project's Playwright runs in the project's directory with its configuration and the options of its test script. The
//! reporter is added through `PW_TEST_REPORTER`, which leaves those of the configuration and of `--reporter` in force. Files
//! that tests leave (screenshots, traces, videos) go to the run's artifact directory and not to the workspace; missing
//! snapshots are failures and are not written.
//!
//! A test's package is its file; its name begins with its project in brackets, if that has a name. A name filter is
//! `--grep`, a case-insensitive regular expression over project, file, titles and tags joined with blanks. Attempts of one
//! test are one test, and one that passed at a later attempt is noted as flaky. Tests of a serial group with retries are
//! reported at the end of the run. Both values of an assertion are parsed from its message. Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    ARTIFACTS, InjectedFile, LONG_WALL_MS, Manifest, OptionSupport, Plan, PlanError, PlanRequest, REPORT,
};
use crate::ecosystems::js::{
    self, Arity, Flag, ForwardPolicy, ForwardedOptions, Invocation, JsFramework, JsRunner, Launch, NameFilter,
    RunnerStart, TestGroup,
};
use crate::formats::reporter_protocol::RunnerProfile;
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::artifact::ARTIFACTS_DIRECTORY;
use proctor_core::request::BrowserOptions;

/// Adapter for Playwright's test runner.
#[derive(Debug, Clone, Copy)]
pub struct Playwright;

const NAME: &str = "playwright";

/// Files whose content shows whether a directory is a Playwright project, and whether its configuration has projects.
const MARKERS: &[&str] = &[
    "package.json",
    "playwright.config.ts",
    "playwright.config.js",
    "playwright.config.mts",
    "playwright.config.mjs",
    "playwright.config.cts",
    "playwright.config.cjs",
];

/// Options of the test script that define the project's tests and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], arity: Arity::Value },
    Flag { names: &["--project"], arity: Arity::Words },
    Flag { names: &["--browser"], arity: Arity::Value },
    Flag { names: &["--grep", "-g"], arity: Arity::Value },
    Flag { names: &["--grep-invert", "-G"], arity: Arity::Value },
    Flag { names: &["--global-timeout"], arity: Arity::Value },
    Flag { names: &["--max-failures"], arity: Arity::Value },
    Flag { names: &["--repeat-each"], arity: Arity::Value },
    Flag { names: &["--reporter"], arity: Arity::Value },
    Flag { names: &["--retries"], arity: Arity::Value },
    Flag { names: &["--timeout"], arity: Arity::Value },
    Flag { names: &["--trace"], arity: Arity::Value },
    Flag { names: &["--tsconfig"], arity: Arity::Value },
    Flag { names: &["--workers", "-j"], arity: Arity::Value },
    Flag { names: &["--fail-on-flaky-tests"], arity: Arity::Nothing },
    Flag { names: &["--forbid-only"], arity: Arity::Nothing },
    Flag { names: &["--fully-parallel"], arity: Arity::Nothing },
    Flag { names: &["--ignore-snapshots"], arity: Arity::Nothing },
    Flag { names: &["--no-deps"], arity: Arity::Nothing },
    Flag { names: &["-x"], arity: Arity::Nothing },
];

/// Options of the test script that are passed on. The lists cover all options of Playwright 1.65.
const FORWARDED: ForwardPolicy = ForwardPolicy::Only {
    flags: FLAGS,
    valued: &[
        "--add-reporter",
        "--debug",
        "--last-failed-file",
        "--only-changed",
        "--output",
        "--run-agents",
        "--shard",
        "--shuffle",
        "--test-list",
        "--test-list-invert",
        "--ui-host",
        "--ui-port",
        "--update-snapshots",
        "--update-source-method",
        "-u",
    ],
    bare: &["--headed", "--help", "--last-failed", "--list", "--pass-with-no-tests", "--quiet", "--ui", "-h"],
    subcommands: &["test"],
};

const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy: |output| js::missing_runner(output, NAME),
    nothing_selected: |output| output.contains("No tests found"),
    separator: js::TITLE_SEPARATOR,
    error_location: js::error_location,
    error_reason: js::error_reason,
    ..RunnerProfile::new(NAME)
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Playwright ended its run without an interruption, and every test of its suite was reported",
    proof_markers: &[b"end"],
    markers: MARKERS,
    extensions: js::EXTENSIONS,
    node_id_separator: Some(js::TITLE_SEPARATOR),
    default_wall_ms: Some(LONG_WALL_MS),
    options: OptionSupport { browsers: true, ..Manifest::DEFAULT.options },
    rerun_names: js::RERUN_NAMES,
    stack_dump: Some(js::STACK_DUMP),
    toolchains: &[&js::NODE],
    sample: &[
        ("package.json", r#"{"scripts":{"test":"playwright test"}}"#),
        ("playwright.config.ts", "export default {}\n"),
    ],
    ..Manifest::DEFAULT
};

impl JsFramework for Playwright {
    const RUNNER: JsRunner = JsRunner::Playwright;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, false)
    }

    /// Where the configuration has projects, the project selects the browser: by convention it is named after it.
    fn plan_browser(&self, tree: &FileTree, plan: &mut Plan, requested: BrowserOptions) {
        for step in &mut plan.steps {
            let mut options: Vec<String> = requested.headed.then(|| "--headed".to_owned()).into_iter().collect();
            if let Some(browser) = requested.browser {
                let option = if has_projects(tree, &step.dir) { "--project" } else { "--browser" };
                step.args.retain(|arg| !["--project=", "--browser="].iter().any(|name| arg.starts_with(name)));
                options.push(format!("{option}={}", browser.name()));
            }
            step.args.splice(1..1, options);
        }
    }

    /// `--list` loads every file and runs neither tests nor hooks.
    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, true)
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>, listing: bool) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, artifacts: !listing, ..Plan::default() };
    let groups = js::group_selection_with(projects, tree, request.selection, NAME, grep_expression)?;
    let starts = js::runner_starts(tree, groups, (JsRunner::Playwright, NAME), FORWARDED, &[], &mut plan.notes);
    for (number, RunnerStart { group, script, options }) in starts.into_iter().enumerate() {
        // Playwright empties the directory when it starts, so each command has its own.
        let output = format!("{ARTIFACTS}/{ARTIFACTS_DIRECTORY}/{NAME}-{number}");
        let mut args = arguments(&group, options, request, &output);
        args.extend(listing.then(|| "--list".to_owned()));
        plan.steps.push(launch(tree, &group, request, &script, listing).step(args));
        plan.dirs.push(output);
    }
    Ok(plan)
}

fn launch(
    tree: &FileTree,
    group: &TestGroup<'_>,
    request: &PlanRequest<'_>,
    script: &Invocation,
    listing: bool,
) -> Launch {
    let launch = Launch::for_program(tree, group.project, request, NAME, script)
        .with_env("PROCTOR_REPORT", format!("{}/{REPORT}", request.scratch))
        .with_env("PROCTOR_ARTIFACTS", format!("{}/{ARTIFACTS}/{ARTIFACTS_DIRECTORY}", request.scratch))
        // A state file of no interest to people.
        .with_env("PLAYWRIGHT_LAST_RUN_OUTPUT_FILE", format!("{}/work/last-run.json", request.scratch))
        .with_env("PW_TEST_REPORTER", format!("{}/playwright/reporter.cjs", request.scratch))
        // The HTML report would be served, and the run would wait for a person.
        .with_env("PLAYWRIGHT_HTML_OPEN", "never");
    if listing { launch.with_env(js::LISTING_VARIABLE, "") } else { launch }
}

fn arguments(
    group: &TestGroup<'_>,
    mut options: ForwardedOptions,
    request: &PlanRequest<'_>,
    output: &str,
) -> Vec<String> {
    let mut args =
        vec!["test".to_owned(), format!("--output={}/{output}", request.scratch), "--update-snapshots=none".to_owned()];
    let replaced = |option: &String| {
        let replaces = [
            (request.parallel.is_some(), "--workers="),
            (group.names.expression().is_some(), "--grep="),
            (matches!(group.names, NameFilter::Exactly(_)), "--max-failures="),
            (matches!(group.names, NameFilter::Exactly(_)), "-x"),
        ];
        replaces.iter().any(|(replaces, name)| *replaces && option.starts_with(name))
    };
    let positional = std::mem::take(&mut options.positional);
    args.extend(options.into_args().filter(|option| !replaced(option)));
    args.extend(request.parallel.map(|parallel| format!("--workers={}", parallel.max(1))));
    args.extend(match &group.names {
        NameFilter::All => None,
        NameFilter::Filter(filter) => Some(format!("--grep={filter}")),
        // Between slashes the expression is case-sensitive.
        NameFilter::Exactly(expression) => Some(format!("--grep=/{expression}/")),
    });
    if group.files.is_empty() {
        args.extend(positional);
    } else {
        let path = |file: &String| format!("{}/{}", request.workspace, join(&group.project.dir, file));
        args.extend(
            js::likely_test_files(&group.files).iter().map(|file| format!("^{}$", js::quote_regex(&path(file)))),
        );
    }
    args
}

/// Whether a configuration in or below `dir` mentions projects.
fn has_projects(tree: &FileTree, dir: &str) -> bool {
    MARKERS[1..]
        .iter()
        .any(|name| tree.directories_with(name).any(|(of, content)| is_within(of, dir) && content.contains("projects")))
}

/// The `--grep` expression of one test: Playwright matches it against project, file, and titles with the tags of each, in one
/// line. The file is selected by its own argument.
fn grep_expression(titles: &[&str], is_clipped: bool) -> String {
    const TAGS: &str = "(?: @\\S+)*";
    let (project, titles) = match titles.split_first() {
        Some((first, rest)) if first.starts_with('[') && first.ends_with(']') && !rest.is_empty() => {
            (&first[1..first.len() - 1], rest)
        }
        _ => ("", titles),
    };
    let quoted: Vec<String> = titles.iter().map(|title| js::quote_regex(title)).collect();
    // A title may have the separator of names in it.
    let titles = quoted.join(&format!("{TAGS} (?:> )?"));
    let end = if is_clipped { "[\\s\\S]*" } else { TAGS };
    format!(" ?{} [^\\n]*\\.[cm]?[jt]sx? {titles}{end}", js::quote_regex(project))
}

fn files() -> Vec<InjectedFile> {
    vec![
        js::injected_file(js::PROGRAM_FILE, include_bytes!("../../ecosystems/js/program.cjs")),
        js::injected_file("js/report.cjs", include_bytes!("../../ecosystems/js/report.cjs")),
        js::injected_file("playwright/reporter.cjs", include_bytes!("reporter.cjs")),
    ]
}

#[cfg(test)]
mod tests;
