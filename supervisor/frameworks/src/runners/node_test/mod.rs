//! Node's own test runner, `node --test`, Node 18.17 or 20.6 and newer. Before 22 Node selects tests by their own title only, so
//! filters and reruns of single tests are inexact there, which a note says; Node 18 does not report test starts either.
//!
//! Proof of a pass: the stream of `node --test` ended, every file that began ended, and the process of each said that no test was
//! to come.
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
//! output by file only. Coverage is not measured.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{Framework, Parser, Plan, PlanError, REPORT, Want};
use crate::ecosystems::js::{self, Group, Handed, Launch, Names, Options, Runner, Start};
use crate::formats::reporter_protocol::{Dialect, Reported};
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;

/// Adapter for Node's test runner.
#[derive(Debug, Clone, Copy)]
pub struct NodeTest;

const NAME: &str = "node";

/// Directory, below the scratch directory, in which a file's process leaves the output of its failing tests and how it ended: one
/// for each step, since the next step may run the same file.
const OUTPUT_DIR: &str = "work/node";

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

const HANDED: Handed = Handed::AllBut { left_out: OMITTED, valued: js::NODE_VALUED, bare: None };

const DIALECT: Dialect = Dialect {
    between: js::TITLES,
    blamed: js::blamed,
    reason: js::reason,
    missing: |output| {
        let is_old = output.contains("bad option: --test") || output.contains("Node 18.17, 20.6 or newer is needed");
        is_old.then(|| "this Node is too old: install Node 18.17, 20.6 or newer, better 22".to_owned())
    },
    nothing_selected: |output| output.contains("Could not find "),
    ..Dialect::plain(NAME)
};

impl Framework for NodeTest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn proof(&self) -> &'static str {
        "the stream of `node --test` ended, every file that began ended, and the process of each said that no test was to come"
    }

    fn markers(&self) -> &'static [&'static str] {
        js::MARKERS
    }

    fn extensions(&self) -> &'static [&'static str] {
        js::EXTENSIONS
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        js::projects(tree, Runner::Node)
    }

    fn signs_in(&self, tree: &FileTree) -> String {
        js::signs(tree, Runner::Node)
    }

    fn started_by(&self, tree: &FileTree, project: &Project) -> Option<String> {
        js::starts_it(tree, &project.dir, Runner::Node).then(|| js::manifest_of(&project.dir))
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
        plan(projects, tree, want, false)
    }

    fn plan_listing(&self, projects: &[Project], tree: &FileTree, want: &Want<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, want, true)
    }

    fn blocks(&self) -> bool {
        false
    }

    fn parser(&self, plan: &Plan, want: &Want<'_>) -> Box<dyn Parser> {
        Box::new(Reported::new(DIALECT, plan, want))
    }
}

fn plan(projects: &[Project], tree: &FileTree, want: &Want<'_>, lists: bool) -> Result<Plan, PlanError> {
    let files: [(&str, &[u8]); 4] = [
        ("node/listing.cjs", include_bytes!("listing.cjs")),
        ("node/named.cjs", include_bytes!("named.cjs")),
        ("node/output.cjs", include_bytes!("output.cjs")),
        ("node/reporter.cjs", include_bytes!("reporter.cjs")),
    ];
    let mut plan = Plan { files: js::injected(&files), report: true, ..Plan::default() };
    let selection = js::retold(want.selection, with_outer_tests);
    let groups = js::groups(projects, tree, &selection, NAME)?;
    for start in js::starts(tree, groups, (Runner::Node, NAME), HANDED, &[], &mut plan.notes) {
        let Start { group, script, options } = start;
        // borp adds the files of its own settings to those on its command line.
        let is_borp = script.program.is_some() && group.files.is_empty();
        let (script, options) =
            if script.program.is_some() && !is_borp { run_by_node(script, &options) } else { (script, options) };
        let mut launch = match script.program.filter(|_| is_borp) {
            Some(program) => Launch::of(tree, group.project, want, program, &with_options(script, &group, want, lists)),
            None => Launch::of_node(tree, group.project, want, &script),
        };
        launch = launch.with("PROCTOR_REPORT", format!("{}/{REPORT}", want.scratch));
        launch = if lists {
            launch.with("PROCTOR_LISTING", "1")
        } else {
            let printed = format!("{OUTPUT_DIR}/{}", plan.steps.len());
            plan.dirs.push(printed.clone());
            launch.with("PROCTOR_OUTPUT", format!("{}/{printed}", want.scratch))
        };
        if let Some(names) = group.names.expression().filter(|_| is_borp) {
            launch = launch.with("PROCTOR_NAMES", names);
        }
        let asked = matches!(want.selection, Selection::Matching { files, .. } if !files.is_empty());
        if asked || group.names.expression().is_some() || options.have(NAMES) {
            launch = launch.with("PROCTOR_ASKED", "1");
        }
        let args = match is_borp {
            true => arguments_of_borp(options, want),
            false => arguments(&group, options, want, lists),
        };
        plan.steps.push(launch.step(args));
    }
    Ok(plan)
}

fn arguments(group: &Group<'_>, mut options: Options, want: &Want<'_>, lists: bool) -> Vec<String> {
    let reporter = format!("--test-reporter={}/node/reporter.cjs", want.scratch);
    let destination = "--test-reporter-destination=stdout";
    let mut args: Vec<String> = ["--test", &reporter, destination].map(str::to_owned).into();
    if lists {
        args.push(format!("--require={}/node/listing.cjs", want.scratch));
    } else {
        args.extend(["--test-reporter=spec", destination].map(str::to_owned));
        args.push(format!("--require={}/node/output.cjs", want.scratch));
    }
    let mut files = std::mem::take(&mut options.positional);
    if !group.files.is_empty() {
        let asked =
            if matches!(group.names, Names::Exactly(_)) { group.files.clone() } else { js::tests_among(&group.files) };
        files = asked.iter().map(|file| format!("./{}", js::literal(file))).collect();
        options = options.without(&["--test-shard"]);
    }
    if let Some(parallel) = want.parallel {
        options = options.without(&["--test-concurrency"]);
        args.push(format!("--test-concurrency={}", parallel.max(1)));
    }
    if let Some(names) = group.names.expression() {
        options = options.without(NAMES);
        args.push(format!("--test-name-pattern={names}"));
    }
    args.extend(options.into_words());
    args.extend(files);
    args
}

/// Adds Node's options to the environment: borp starts Node's runner itself.
fn with_options(mut script: js::Script, group: &Group<'_>, want: &Want<'_>, lists: bool) -> js::Script {
    let file = if lists { "listing" } else { "output" };
    script.node.push(format!("--require={}/node/{file}.cjs", want.scratch));
    if group.names.expression().is_some() {
        script.node.push(format!("--require={}/node/named.cjs", want.scratch));
    }
    script
}

fn arguments_of_borp(mut options: Options, want: &Want<'_>) -> Vec<String> {
    let reporter = format!("--reporter={}/node/reporter.cjs", want.scratch);
    let files = std::mem::take(&mut options.positional);
    let mut args = vec!["--reporter=spec".to_owned(), reporter];
    if let Some(parallel) = want.parallel {
        options = options.without(&["--concurrency"]);
        args.push(format!("--concurrency={}", parallel.max(1)));
    }
    args.into_iter().chain(options.into_words()).chain(files).collect()
}

/// The script for running borp's files with Node itself, with those of borp's options that change what runs.
fn run_by_node(script: js::Script, options: &Options) -> (js::Script, Options) {
    let args = if options.have(&["--expose-gc"]) { vec!["--expose-gc".to_owned()] } else { Vec::new() };
    let script = js::Script { args, program: None, ..script };
    let options = Options::of(&script, HANDED);
    (script, options)
}

/// The test and all tests that it may be a subtest of: a title may contain a `/`, and a test that does not exist does not run.
fn with_outer_tests(target: &RerunTarget) -> Vec<RerunTarget> {
    let RerunTarget::Test(test) = target else { return vec![target.clone()] };
    let outer = test.name.match_indices('/').map(|(at, _)| test.name[..at].trim_end()).filter(|name| !name.is_empty());
    let outer = outer.map(|name| TestId { package: test.package.clone(), name: name.to_owned() });
    outer.map(RerunTarget::Test).chain([target.clone()]).collect()
}

#[cfg(test)]
mod tests;
