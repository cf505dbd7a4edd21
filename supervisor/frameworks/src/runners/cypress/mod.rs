//! Cypress 10 or newer, with an injected reporter in front of the project's own, or `spec`, which writes the output for people.
//!
//! `cypress run` loads a Mocha reporter for each spec; the reporter's path is the only addition to the command line. The
//! project's configuration stays in force, except for the directories of screenshots and videos. The project's reporter is read
//! from its script and from the text of its `cypress.config`; one that is computed there is not found, and `spec` writes.
//! Cypress prints the number of specs before the first one (`specs`), so a script's `--quiet` is not passed on.
//! The formats are those of Cypress's sources (`packages/server/lib/reporter`) and documentation; its binary was not available.
//!
//! Cypress cannot select tests by name: a filter is a pattern for specs, an exact rerun reruns whole specs, and a listing lists
//! specs. Attempts (`retries`) are the project's own: a test that passes at a later attempt is passed, and counted as flaky. An
//! exception while a spec is loaded is a collection error. Tests that Cypress omits after a failed hook are skipped. Output of
//! tests stays in the browser. Coverage is not measured.

mod spec_count;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    ARTIFACTS, LONG_WALL_MS, Manifest, OptionSupport, ParallelSupport, Parser, Plan, PlanError, PlanRequest, REPORT,
    RerunNames, ReservedVariables, Step, Toolchain,
};
use crate::ecosystems::js::{
    self, ForwardPolicy, ForwardedOptions, Invocation, JsFramework, JsRunner, Launch, NameFilter, RunnerStart,
    TestGroup,
};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use crate::parsing::workspace_paths::{is_within, join};
use crate::runners::mocha::hooks::is_hook;
use proctor_core::request::{BrowserOptions, RerunTarget, Selection};
use regex::Regex;
use spec_count::SpecCountParser;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Adapter for Cypress.
#[derive(Debug, Clone, Copy)]
pub struct Cypress;

const NAME: &str = "cypress";

/// Files whose content detection reads; the configuration names the project's reporter.
const MARKERS: &[&str] = &[
    "package.json",
    "cypress.config.js",
    "cypress.config.cjs",
    "cypress.config.mjs",
    "cypress.config.ts",
    "cypress.json",
];

/// Usual names of a script that starts Cypress, for projects whose `npm test` does not.
const SCRIPTS: &[&str] = &["test:e2e", "e2e", "cy:run", "cypress:run", "test:cypress"];

/// Options of `cypress run` that take the next argument as their value.
const VALUED: &[&str] = &[
    "--auto-cancel-after-failures",
    "--browser",
    "--ci-build-id",
    "--config",
    "--config-file",
    "--env",
    "--group",
    "--key",
    "--port",
    "--project",
    "--reporter",
    "--reporter-options",
    "--spec",
    "--tag",
    "-C",
    "-P",
    "-b",
    "-c",
    "-e",
    "-k",
    "-o",
    "-p",
    "-r",
    "-s",
    "-t",
];

/// Options that change reporting, wait for a person, or use Cypress's cloud service.
const OMITTED: &[&str] = &[
    "--auto-cancel-after-failures",
    "--ci-build-id",
    "--group",
    "--key",
    "--no-exit",
    "--parallel",
    "--project",
    "--quiet",
    "--record",
    "--reporter",
    "--tag",
    "-P",
    "-k",
    "-q",
    "-r",
    "-t",
];

const FORWARDED: ForwardPolicy = ForwardPolicy::AllExcept { left_out: OMITTED, valued: VALUED, bare: None };

/// Marks of spec files in a path: Cypress's own endings, and directories that contain only specs.
const SPEC_MARKS: [&str; 4] = [".cy.", "cypress/e2e/", "cypress/integration/", "cypress/component/"];

/// File with the lines that a listing prints.
const LIST: &str = "cypress/specs.jsonl";

const PROFILE: RunnerProfile = RunnerProfile {
    separator: js::TITLE_SEPARATOR,
    missing_remedy: |output| {
        let remedy = "cypress: its binary is not where runs look for it: `npx cypress install`";
        js::missing_runner(output, NAME)
            .or_else(|| output.contains("Cypress binary is missing").then(|| remedy.to_owned()))
    },
    nothing_selected: |output| output.contains("no spec files were found"),
    error_location: js::error_location,
    error_reason: js::error_reason,
    ..RunnerProfile::new(NAME)
};

static REPORTER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?m)^\s*["']?reporter["']?\s*:\s*["'`]([^"'`\n$]+)["'`]"#).ok());

/// The binary that the package of Cypress downloads.
static CYPRESS_BINARY: Toolchain = Toolchain {
    name: "cypress",
    installations: &[("CYPRESS_CACHE_FOLDER", ".cache/Cypress")],
    reserved: ReservedVariables {
        names: &["ELECTRON_RUN_AS_NODE"],
        prefixes: &["CYPRESS_"],
        ..ReservedVariables::NONE
    },
    ..Toolchain::DEFAULT
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "Cypress exited by itself with no spec open, as many specs ended as it had announced, and as many tests arrived as proctor's reporter counted",
    proof_markers: &[b"end"],
    markers: MARKERS,
    extensions: js::EXTENSIONS,
    node_id_separator: Some(js::TITLE_SEPARATOR),
    default_wall_ms: Some(LONG_WALL_MS),
    build_error_hides_tests: false,
    options: OptionSupport {
        parallel: ParallelSupport::NoEffect("cypress run has no parallel setting without its service"),
        browsers: true,
        ..Manifest::DEFAULT.options
    },
    rerun_names: RerunNames { is_reported_only_on_failure: is_hook, ..js::RERUN_NAMES },
    toolchains: &[&js::NODE, &CYPRESS_BINARY],
    sample: &[
        ("package.json", r#"{"scripts":{"test":"cypress run"}}"#),
        ("cypress.config.js", "module.exports = {}\n"),
        ("cypress/e2e/a.cy.js", ""),
    ],
    ..Manifest::DEFAULT
};

impl JsFramework for Cypress {
    const RUNNER: JsRunner = JsRunner::Cypress;
    const MANIFEST: &'static Manifest = &MANIFEST;
    const PROFILE: RunnerProfile = PROFILE;

    fn plan_tests(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request)
    }

    /// Cypress knows the browsers by the same names. Options of the script are replaced.
    fn plan_browser(&self, _tree: &FileTree, plan: &mut Plan, requested: BrowserOptions) {
        for args in plan.steps.iter_mut().map(|step| &mut step.args) {
            if requested.headed {
                args.retain(|arg| !["--headless", "--headed"].contains(&arg.as_str()));
                args.push("--headed".to_owned());
            }
            if let Some(browser) = requested.browser {
                if let Some(at) = args.iter().position(|arg| arg == "-b") {
                    args.drain(at..args.len().min(at + 2));
                }
                args.retain(|arg| !arg.starts_with("--browser="));
                args.push(format!("--browser={}", browser.name()));
            }
        }
    }

    fn plan_names(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan_listing(projects, tree, request)
    }

    fn reporter_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(SpecCountParser::new(ReporterParser::new(PROFILE, plan, request)))
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let files: [(&str, &[u8]); 1] = [("cypress/reporter.cjs", include_bytes!("reporter.cjs"))];
    let mut plan = Plan {
        files: js::shared_files(&files),
        dirs: vec![format!("{ARTIFACTS}/{NAME}")],
        artifacts: true,
        report: true,
        ..Plan::default()
    };
    let selection = whole_specs(request.selection, &mut plan.notes);
    let groups = js::group_selection(projects, tree, &selection, NAME)?;
    for start in js::runner_starts(tree, groups, (JsRunner::Cypress, NAME), FORWARDED, SCRIPTS, &mut plan.notes) {
        let RunnerStart { group, script, options } = start;
        let mut launch = Launch::for_program(tree, group.project, request, NAME, &script);
        for (name, value) in environment(tree, &group, &script, request) {
            launch = launch.with_env(name, value);
        }
        plan.steps.push(launch.step(arguments(&group, options, request)));
    }
    Ok(plan)
}

/// Replaces tests by their specs, and a test whose spec is not known by all specs.
fn whole_specs(selection: &Selection, notes: &mut Vec<String>) -> Selection {
    let Selection::Exactly(targets) = selection else { return selection.clone() };
    let names_spec = |target: &RerunTarget| Some(RerunTarget::Package(target.package()?.to_owned()));
    let specs: Option<Vec<RerunTarget>> = targets.iter().map(names_spec).collect();
    if targets.iter().any(|target| !matches!(target, RerunTarget::Package(_))) {
        let ran =
            if specs.is_some() { "their whole specs were run" } else { "all specs were run (SPEC > NAME runs one)" };
        notes.push(format!("cypress cannot select single tests: {ran}"));
    }
    specs.map_or(Selection::All, Selection::Exactly)
}

/// Environment of a command. Variables rank between configuration and command line, so a script's `--config` stays in force.
fn environment(
    tree: &FileTree,
    group: &TestGroup<'_>,
    script: &Invocation,
    request: &PlanRequest<'_>,
) -> impl Iterator<Item = (&'static str, String)> {
    let artifact_dir = |name: &str| format!("{}/{ARTIFACTS}/{NAME}/{name}", request.scratch);
    let root = format!("{}/{}", request.workspace, group.project.dir);
    let reporter = reporter(tree, &group.project.dir, script).map(|name| ("PROCTOR_CYPRESS_REPORTER", name));
    let always = [
        ("CYPRESS_CRASH_REPORTS", "0".to_owned()),
        ("CYPRESS_SCREENSHOTS_FOLDER", artifact_dir("screenshots")),
        ("CYPRESS_VIDEOS_FOLDER", artifact_dir("videos")),
        ("PROCTOR_REPORT", format!("{}/{REPORT}", request.scratch)),
        ("PROCTOR_ROOT", root.trim_end_matches('/').to_owned()),
    ];
    always.into_iter().chain(reporter)
}

/// The project's own reporter: its script's, or its configuration's.
fn reporter(tree: &FileTree, dir: &str, script: &Invocation) -> Option<String> {
    let next =
        script.args.windows(2).find(|pair| ["--reporter", "-r"].contains(&pair[0].as_str())).map(|pair| &*pair[1]);
    let of_script = next.or_else(|| script.args.iter().find_map(|word| word.strip_prefix("--reporter=")));
    let configs = MARKERS.iter().skip(1).filter_map(|name| tree.content(&join(dir, name)));
    let of_config =
        configs.filter_map(|text| REPORTER.as_ref()?.captures(text)?.get(1).map(|found| found.as_str())).next();
    of_script.or(of_config).map(str::to_owned)
}

fn arguments(group: &TestGroup<'_>, mut options: ForwardedOptions, request: &PlanRequest<'_>) -> Vec<String> {
    let mut args = vec!["run".to_owned(), format!("--reporter={}/cypress/reporter.cjs", request.scratch)];
    if let Some(specs) = specs(group) {
        options = options.without(&["--spec", "-s"]);
        args.push(format!("--spec={specs}"));
    }
    args.extend(options.into_args());
    args
}

/// The specs of a group as a list of patterns; `None` for all specs.
fn specs(group: &TestGroup<'_>) -> Option<String> {
    let is_spec = |file: &&String| SPEC_MARKS.iter().any(|mark| file.contains(mark));
    let some: Vec<&String> = group.files.iter().filter(is_spec).collect();
    let mut files: Vec<&str> = if some.is_empty() {
        group.files.iter().map(String::as_str).collect()
    } else {
        some.iter().map(|file| file.as_str()).collect()
    };
    let NameFilter::Filter(filter) = &group.names else { return (!files.is_empty()).then(|| spec_list(&files)) };
    files.retain(|file| file.contains(filter.trim_matches('*')));
    if !files.is_empty() {
        return Some(spec_list(&files));
    }
    Some(if filter.contains(['*', '?', '[', '{', '/']) { filter.clone() } else { format!("**/*{filter}*") })
}

/// Files as Cypress's pattern list, separated by commas.
fn spec_list(files: &[&str]) -> String {
    files.iter().map(|file| js::glob_literal(file)).collect::<Vec<_>>().join(",")
}

/// Lists specs only: to list their tests, Cypress would have to run them.
fn plan_listing(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { report: true, notes: vec!["cypress lists specs, not tests".to_owned()], ..Plan::default() };
    for (number, group) in js::group_selection(projects, tree, request.selection, NAME)?.into_iter().enumerate() {
        let dir = &group.project.dir;
        let below = |file: &str| file[dir.len()..].trim_start_matches('/').to_owned();
        let own = tree
            .files()
            .filter(|file| is_within(file, dir))
            .map(below)
            .filter(|file| SPEC_MARKS.iter().any(|mark| file.contains(mark)));
        let mut files: Vec<String> = if group.files.is_empty() { own.collect() } else { group.files.clone() };
        if let NameFilter::Filter(filter) = &group.names {
            files.retain(|file| file.contains(filter.trim_matches('*')));
        }
        let listed = files.iter().map(|file| serde_json::json!({"event": "listed", "package": file, "name": file}));
        let lines = [serde_json::json!({"event": "begin"})].into_iter().chain(listed);
        let lines = lines
            .chain([serde_json::json!({"event": "end", "tests": files.len(), "left": 0})])
            .map(|line| format!("{line}\n"));
        let list = format!("{LIST}-{number}");
        plan.files.push(js::injected_file(&list, lines.collect::<String>().as_bytes()));
        let files =
            ["", &format!("{}/{list}", request.scratch), &format!("{}/{REPORT}", request.scratch)].map(str::to_owned);
        let args = ["-c", r#"cat "$1" > "$2""#].map(str::to_owned).into_iter().chain(files).collect();
        plan.steps.push(Step { programs: vec!["sh".to_owned()], args, dir: dir.clone(), env: BTreeMap::new() });
    }
    Ok(plan)
}

#[cfg(test)]
mod tests;
