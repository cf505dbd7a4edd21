//! Vitest 3 or newer, with a reporter of ours beside the project's.
//!
//! `run.mjs` starts the project's own Vitest in the project's directory and adds `reporter.cjs` to the reporters that its
//! configuration names; everything else of the configuration is in force. Vite's cache is proctor's to place, snapshots are not
//! written, and nothing is watched. Vitest is not asked where each test stands, since it would look at the stack for each of
//! them; what fails tells its own place.
//!
//! A name filter is Vitest's `--testNamePattern`, a regular expression. Coverage is not measured.

use crate::framework::{Framework, InjectedFile, Parser, Plan, PlanError, Project, Want};
use crate::js::{self, Flag, Group, Runner, Script};
use crate::reported::{Dialect, Reported};
use crate::tree::FileTree;
use serde::Serialize;

/// The adapter for Vitest.
#[derive(Debug, Clone, Copy)]
pub struct Vitest;

const NAME: &str = "vitest";

/// Options of the test script that say what the project's tests are and how they run.
const FLAGS: &[Flag] = &[
    Flag { names: &["--config", "-c"], has_value: true },
    Flag { names: &["--root", "-r"], has_value: true },
    Flag { names: &["--dir"], has_value: true },
    Flag { names: &["--mode"], has_value: true },
    Flag { names: &["--project"], has_value: true },
    Flag { names: &["--workspace"], has_value: true },
    Flag { names: &["--environment"], has_value: true },
    Flag { names: &["--pool"], has_value: true },
    Flag { names: &["--testTimeout", "--test-timeout"], has_value: true },
    Flag { names: &["--hookTimeout", "--hook-timeout"], has_value: true },
    Flag { names: &["--retry"], has_value: true },
    Flag { names: &["--maxWorkers", "--max-workers"], has_value: true },
    Flag { names: &["--configLoader", "--config-loader"], has_value: true },
    Flag { names: &["--globals"], has_value: false },
    Flag { names: &["--dom"], has_value: false },
    Flag { names: &["--typecheck"], has_value: false },
    Flag { names: &["--no-isolate"], has_value: false },
    Flag { names: &["--no-file-parallelism"], has_value: false },
];

/// Options that take a value and are left out.
const VALUED: &[&str] = &["--reporter", "--outputFile", "--testNamePattern", "-t", "--shard", "--bail"];

/// Words with which the script says what Vitest shall do.
const SUBCOMMANDS: [&str; 4] = ["run", "watch", "dev", "related"];

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

const DIALECT: Dialect = Dialect {
    missing: |said| js::missing(said, NAME),
    nothing_selected: |said| said.contains("No test files found"),
    between: js::TITLES,
    ..Dialect::plain(NAME)
};

impl Framework for Vitest {
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
        js::projects(tree, Runner::Vitest)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want)
    }

    /// Vitest loads every file and runs no test.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        let mut plan = plan(projects, tree, want)?;
        plan.steps.iter_mut().for_each(|step| drop(step.env.insert(js::LISTING.to_owned(), String::new())));
        Ok(plan)
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }

    fn listing(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { files: files(), report: true, ..Plan::default() };
    for group in js::groups(projects, tree, want.selection, NAME)? {
        let script = Script::of(tree, &group.project.dir, Runner::Vitest);
        let options = script.options(FLAGS, VALUED);
        plan.notes.extend(options.note(NAME));
        let in_parallel = |option: &String| option.starts_with("--maxWorkers=");
        let kept = options.kept.into_iter().filter(|option| want.parallel.is_none() || !in_parallel(option));
        let subcommand = options.positional.first().is_some_and(|word| SUBCOMMANDS.contains(&word.as_str()));
        let patterns = options.positional.into_iter().skip(usize::from(subcommand));
        let patterns = patterns.filter(|_| group.files.is_empty());
        let launch = js::launch(tree, &group, want, "vitest/run.mjs", &script);
        plan.steps.push(launch.with("PROCTOR_VITEST", settings(&group, want)).step(patterns.chain(kept)));
    }
    plan.notes.dedup();
    Ok(plan)
}

fn settings(group: &Group<'_>, want: &Want<'_>) -> String {
    let settings = Settings {
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
        js::file("js/report.cjs", include_bytes!("../js/report.cjs")),
        js::file("vitest/run.mjs", include_bytes!("run.mjs")),
        js::file("vitest/reporter.cjs", include_bytes!("reporter.cjs")),
    ]
}
