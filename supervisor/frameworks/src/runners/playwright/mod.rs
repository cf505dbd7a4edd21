//! `@playwright/test` 1.50 or newer, with an injected reporter beside the project's.
//!
//! Proof of a pass: Playwright ended its run without an interruption, and every test of its suite was told.
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
use crate::contract::{ARTIFACTS, Framework, InjectedFile, LONG_MS, Parser, Plan, PlanError, REPORT, Want};
use crate::ecosystems::js::{self, Flag, Group, Handed, Launch, Names, Options, Runner, Script, Start, Takes};
use crate::formats::reporter_protocol::{Dialect, Reported};
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
    Flag { names: &["--config", "-c"], takes: Takes::Value },
    Flag { names: &["--project"], takes: Takes::Words },
    Flag { names: &["--browser"], takes: Takes::Value },
    Flag { names: &["--grep", "-g"], takes: Takes::Value },
    Flag { names: &["--grep-invert", "-G"], takes: Takes::Value },
    Flag { names: &["--global-timeout"], takes: Takes::Value },
    Flag { names: &["--max-failures"], takes: Takes::Value },
    Flag { names: &["--repeat-each"], takes: Takes::Value },
    Flag { names: &["--reporter"], takes: Takes::Value },
    Flag { names: &["--retries"], takes: Takes::Value },
    Flag { names: &["--timeout"], takes: Takes::Value },
    Flag { names: &["--trace"], takes: Takes::Value },
    Flag { names: &["--tsconfig"], takes: Takes::Value },
    Flag { names: &["--workers", "-j"], takes: Takes::Value },
    Flag { names: &["--fail-on-flaky-tests"], takes: Takes::Nothing },
    Flag { names: &["--forbid-only"], takes: Takes::Nothing },
    Flag { names: &["--fully-parallel"], takes: Takes::Nothing },
    Flag { names: &["--ignore-snapshots"], takes: Takes::Nothing },
    Flag { names: &["--no-deps"], takes: Takes::Nothing },
    Flag { names: &["-x"], takes: Takes::Nothing },
];

/// Options of the test script that are passed on. The lists cover all options of Playwright 1.65.
const HANDED: Handed = Handed::These {
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

const DIALECT: Dialect = Dialect {
    missing: |output| js::missing(output, NAME),
    nothing_selected: |output| output.contains("No tests found"),
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    ..Dialect::plain(NAME)
};

impl Framework for Playwright {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "Playwright ended its run without an interruption, and every test of its suite was told"
    }

    fn markers(&self) -> &'static [&'static str] {
        MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        js::EXTENSIONS
    }

    fn wall_ms(&self) -> Option<u64> {
        Some(LONG_MS)
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        js::projects(tree, Runner::Playwright)
    }

    fn signs_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Playwright)
    }

    fn started_by(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Playwright).then(|| js::manifest_of(&project.dir))
    }

    fn includes(&self, tree: &FileTree, outer: &Project, _inner: &Project) -> bool {
        js::is_linked(tree, &outer.dir)
    }

    /// Where the test script starts another runner only, that one is the project's: browser tests live beside others.
    fn claims(&self, tree: &FileTree, project: &Project) -> bool {
        js::is_tested_by(tree, &project.dir, Runner::Playwright)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, false)
    }

    /// Where the configuration has projects, the project selects the browser: by convention it is named after it.
    fn browse(
        &self,
        tree: &FileTree,
        plan: &mut Plan,
        _option: &'static str,
        asked: BrowserOptions,
    ) -> Result<(), PlanError> {
        for step in &mut plan.steps {
            let mut options: Vec<String> = asked.headed.then(|| "--headed".to_owned()).into_iter().collect();
            if let Some(browser) = asked.browser {
                let option = if has_projects(tree, &step.dir) { "--project" } else { "--browser" };
                step.args.retain(|arg| !["--project=", "--browser="].iter().any(|name| arg.starts_with(name)));
                options.push(format!("{option}={}", browser.name()));
            }
            step.args.splice(1..1, options);
        }
        Ok(())
    }

    /// `--list` loads every file and runs neither tests nor hooks.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, true)
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(projects: &[Project], tree: &FileTree, want: &Want<'_>, listing: bool) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, artifacts: !listing, ..Plan::default() };
    let groups = js::groups_spelt(projects, tree, want.selection, NAME, grep_expression)?;
    let starts = js::starts(tree, groups, (Runner::Playwright, NAME), HANDED, &[], &mut plan.notes);
    for (number, Start { group, script, options }) in starts.into_iter().enumerate() {
        // Playwright empties the directory when it starts, so each command has its own.
        let output = format!("{ARTIFACTS}/{ARTIFACTS_DIRECTORY}/{NAME}-{number}");
        let mut args = arguments(&group, options, want, &output);
        args.extend(listing.then(|| "--list".to_owned()));
        plan.steps.push(launch(tree, &group, want, &script, listing).step(args));
        plan.dirs.push(output);
    }
    Ok(plan)
}

fn launch(tree: &FileTree, group: &Group<'_>, want: &Want<'_>, script: &Script, listing: bool) -> Launch {
    let launch = Launch::of(tree, group.project, want, NAME, script)
        .with("PROCTOR_REPORT", format!("{}/{REPORT}", want.scratch))
        .with("PROCTOR_ARTIFACTS", format!("{}/{ARTIFACTS}/{ARTIFACTS_DIRECTORY}", want.scratch))
        // A state file of no interest to people.
        .with("PLAYWRIGHT_LAST_RUN_OUTPUT_FILE", format!("{}/work/last-run.json", want.scratch))
        .with("PW_TEST_REPORTER", format!("{}/playwright/reporter.cjs", want.scratch))
        // The HTML report would be served, and the run would wait for a person.
        .with("PLAYWRIGHT_HTML_OPEN", "never");
    if listing { launch.with(js::LISTING, "") } else { launch }
}

fn arguments(group: &Group<'_>, mut options: Options, want: &Want<'_>, output: &str) -> Vec<String> {
    let mut args =
        vec!["test".to_owned(), format!("--output={}/{output}", want.scratch), "--update-snapshots=none".to_owned()];
    let replaced = |option: &String| {
        let replaces = [
            (want.parallel.is_some(), "--workers="),
            (group.names.expression().is_some(), "--grep="),
            (matches!(group.names, Names::Exactly(_)), "--max-failures="),
            (matches!(group.names, Names::Exactly(_)), "-x"),
        ];
        replaces.iter().any(|(replaces, name)| *replaces && option.starts_with(name))
    };
    let positional = std::mem::take(&mut options.positional);
    args.extend(options.into_words().filter(|option| !replaced(option)));
    args.extend(want.parallel.map(|parallel| format!("--workers={}", parallel.max(1))));
    args.extend(match &group.names {
        Names::All => None,
        Names::Filter(filter) => Some(format!("--grep={filter}")),
        // Between slashes the expression is case-sensitive.
        Names::Exactly(expression) => Some(format!("--grep=/{expression}/")),
    });
    if group.files.is_empty() {
        args.extend(positional);
    } else {
        let path = |file: &String| format!("{}/{}", want.workspace, join(&group.project.dir, file));
        args.extend(js::tests_among(&group.files).iter().map(|file| format!("^{}$", js::quote(&path(file)))));
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
    let quoted: Vec<String> = titles.iter().map(|title| js::quote(title)).collect();
    let titles = quoted.join(&format!("{TAGS} "));
    let end = if is_clipped { "[\\s\\S]*" } else { TAGS };
    format!(" ?{} [^\\n]*\\.[cm]?[jt]sx? {titles}{end}", js::quote(project))
}

fn files() -> Vec<InjectedFile> {
    vec![
        js::file(js::PROGRAM, include_bytes!("../../ecosystems/js/program.cjs")),
        js::file("js/report.cjs", include_bytes!("../../ecosystems/js/report.cjs")),
        js::file("playwright/reporter.cjs", include_bytes!("reporter.cjs")),
    ]
}

#[cfg(test)]
mod tests;
