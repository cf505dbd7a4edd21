//! Builds the command lines of `cargo test`.
//!
//! One command per Cargo workspace. Cargo builds, and runs each test binary through a wrapper (`runner.sh`) that is set in
//! Cargo's own runner variables, so order, directory and environment of the binaries stay Cargo's. A runner that the project
//! configures is called by the wrapper.

use super::manifest::{own_runner, packages, wants_all_members};
use super::selection::{NameSelection, TargetGroup, groups};
use super::test_lines;
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, Step};
use crate::parsing::workspace_paths::join;
use proctor_core::shell_word::quoted;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The framework's name.
pub(super) const NAME: &str = "cargo";

/// The first of the options that follow the subcommand in every command.
pub(super) const COLOUR: &str = "--color=never";

/// The variables that set the runner of each target that a host may have.
const RUNNER_VARIABLES: [&str; 4] = [
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
    "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUNNER",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER",
];

/// The wrapper script, with placeholders for the project's runner and its harness-free binaries.
const RUNNER: &str = include_str!("runner.sh");

/// Lines of the wrapper in a measured run: counters are those of a whole process, so its tests run one after the other. A number
/// that the request or the project sets stays in force.
const ONE_TEST_AT_A_TIME: &str = "[ \"$RUST_TEST_THREADS\" ] || threads=--test-threads=1\n";

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = plan_with(projects, tree, request, &[])?;
    test_lines::plan_measurement(&mut plan, NAME, tree, request);
    Ok(plan)
}

/// The plan of a listing. Listing builds everything, and runs each binary for its names.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    plan_with(projects, tree, request, &["--list"])
}

fn plan_with(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    harness: &[&str],
) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    for group in groups(NAME, projects, tree, request.selection)? {
        let number = projects.iter().position(|project| project == group.project).unwrap_or(0);
        let path = format!("cargo-runner-{number}");
        if !plan.files.iter().any(|file| file.path == path) {
            let is_measured = harness.is_empty() && test_lines::is_measured(tree, &group.project.dir, request);
            let bytes = runner_script(projects, tree, group.project, request, is_measured).into_bytes();
            plan.files.push(InjectedFile { path: path.clone(), bytes, executable: true });
        }
        if !tree.contains(&join(&group.project.dir, "Cargo.lock")) && !tree.is_truncated() {
            plan.notes.push("there is no Cargo.lock: cargo writes one, as it does without proctor".to_owned());
        }
        let mut env: BTreeMap<String, String> =
            RUNNER_VARIABLES.iter().map(|name| ((*name).to_owned(), format!("{}/{path}", request.scratch))).collect();
        // An option would also reach binaries with another harness.
        env.extend(request.parallel.map(|tests| ("RUST_TEST_THREADS".to_owned(), tests.max(1).to_string())));
        let mut args: Vec<String> = ["test", "--no-fail-fast", "--message-format=json"].map(str::to_owned).into();
        args.extend(common_options(&group, tree, request));
        args.push("--".to_owned());
        args.extend(harness.iter().map(|option| (*option).to_owned()));
        args.extend(names(&group.names));
        plan.steps.push(Step { programs: vec!["cargo".to_owned()], args, dir: group.project.dir.clone(), env });
    }
    Ok(plan)
}

/// Options of both runners: what is built, and where it goes.
///
/// The target directory is an option and not a variable, so tests do not see it. It lies in the cache, one for each Cargo
/// workspace, so that nothing is written to the workspace and a second run builds little.
pub(super) fn common_options(group: &TargetGroup<'_>, tree: &FileTree, request: &PlanRequest<'_>) -> Vec<String> {
    let mut hasher = DefaultHasher::new();
    (request.workspace, &group.project.dir).hash(&mut hasher);
    let name: String = group
        .project
        .name
        .chars()
        .filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter))
        .take(64)
        .collect();
    let target = format!("{}/cargo-target-{name}-{:016x}", request.cache, hasher.finish());
    let mut args = vec![COLOUR.to_owned(), format!("--target-dir={target}")];
    match &group.package {
        Some(package) => args.push(format!("--package={package}")),
        None if wants_all_members(tree, group.project) => args.push("--workspace".to_owned()),
        None => {}
    }
    args.extend(group.binaries.iter().map(super::binary_names::Binary::option));
    args
}

/// The arguments after `--`: libtest reads every word that does not begin with a dash as a part of a name.
pub(super) fn names(names: &NameSelection) -> Vec<String> {
    match names {
        NameSelection::All => Vec::new(),
        NameSelection::Containing(parts) => parts.clone(),
        NameSelection::Exactly(names) => [vec!["--exact".to_owned()], names.clone()].concat(),
    }
}

fn runner_script(
    projects: &[Project],
    tree: &FileTree,
    project: &Project,
    request: &PlanRequest<'_>,
    is_measured: bool,
) -> String {
    let own = own_runner(tree, project, request.workspace).map(|(_, words)| {
        format!("set -- {} \"$@\"", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
    });
    let mut plain = String::new();
    for package in packages(projects, tree, project) {
        let dir = format!("{}/{}", request.workspace, package.dir);
        for name in &package.plain {
            let pattern = quoted(&format!("{}:{name}", dir.trim_end_matches('/')));
            plain.push_str(&format!("{pattern})\n  echo \"proctor-plain $binary\"\n  \"$@\" 2>&1\n  ;;\n"));
        }
    }
    let threads = if is_measured { ONE_TEST_AT_A_TIME } else { "" };
    RUNNER
        .replace("#own-runner#", &own.unwrap_or_default())
        .replace("#one-at-a-time#\n", threads)
        .replace("#plain-binaries#\n", &plain)
}
