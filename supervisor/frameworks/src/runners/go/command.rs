//! BuildErrors the command lines of a run or a listing.

use super::coverage;
use super::detect::is_excluded_by_go_work;
use super::scope;
use super::selection::{PackageGroup, groups};
use super::testing_overlay::{PROGRAMS, testing_overlay};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanError, PlanRequest, Step};
use proctor_core::isolation::Network;
use proctor_core::test_order::TestOrder;
use std::collections::BTreeMap;

/// File in which the go tool looks for its telemetry mode, below `$HOME`, which is `home` in the scratch directory. Without
/// it every command keeps counters and may start a process of its own.
const TELEMETRY_MODE_FILE: &str = "home/.config/go/telemetry/mode";

/// Note of a run that measures coverage in several modules.
const MODULE_BOUNDARY_NOTE: &str =
    "coverage is measured within each Go module: what its tests execute of the others is not known";

/// The plan of a run.
///
/// `-timeout=0` because only proctor limits the time, `-count=1` because a result from Go's cache is no run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = base_plan();
    let measured = request.is_measured;
    let mut common: Vec<String> = ["test", "-json", "-count=1", "-fullpath", "-timeout=0"].map(str::to_owned).into();
    if measured {
        let overlay = testing_overlay(request.toolchain_sources, request.scratch);
        common.extend(coverage::flags(request.scratch));
        plan.files.push(coverage::wrapper(request.scratch, overlay.is_ok()));
        match overlay {
            Ok(overlay) => {
                common.push(overlay.flag);
                plan.files.extend(overlay.files);
                plan.dirs.push(PROGRAMS.to_owned());
                // A test that reaches another host must not do so twice.
                plan.alone = request.network == Network::None;
            }
            Err(why) => plan.notes.push(format!("coverage is known by package, not by test: {why}")),
        }
        plan.dirs.push(coverage::UNITS.to_owned());
        plan.artifacts = true;
    }
    if let Some(parallel) = request.parallel {
        common.push(format!("-parallel={}", parallel.max(1)));
    }
    common.extend(request.stop_at_first_failure.then(|| "-failfast".to_owned()));
    common.extend(shuffle(request.order));
    common.extend(scope::skip_expression(request.scope).map(|names| format!("-skip={names}")));
    for group in scope::apply(groups(projects, tree, request.selection)?, tree, projects, request.scope)? {
        let mut step = step(group, tree, request, &common);
        if measured {
            let variables = [(coverage::MEASURES, coverage::UNITS), (coverage::TEMPORARY, "work")];
            let variables = variables.map(|(name, dir)| (name.to_owned(), format!("{}/{dir}", request.scratch)));
            step.env.extend(variables);
        }
        plan.steps.push(step);
    }
    // The profile of a test binary covers the packages of its own module only.
    if measured && plan.steps.iter().any(|step| step.dir != plan.steps[0].dir) {
        plan.notes.push(MODULE_BOUNDARY_NOTE.to_owned());
    }
    Ok(plan)
}

/// The option for an order within each package: `go test` prints the seed that it picks.
fn shuffle(order: TestOrder) -> Option<String> {
    match order {
        TestOrder::Shuffled { seed: Some(seed) } => Some(format!("-shuffle={seed}")),
        TestOrder::Shuffled { seed: None } => Some("-shuffle=on".to_owned()),
        TestOrder::Project | TestOrder::Reversed | TestOrder::Selected => None,
    }
}

/// The plan of a listing. `-list` takes the filter's place; only its first level can be listed.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    let mut plan = base_plan();
    for mut group in scope::apply(groups(projects, tree, request.selection)?, tree, projects, request.scope)? {
        let run = group.run.take();
        let list = top_level(run.as_deref());
        let common = ["test", "-json", "-count=1", "-timeout=0", &format!("-list={list}")].map(str::to_owned);
        plan.steps.push(step(group, tree, request, &common));
    }
    Ok(plan)
}

/// The first level of a `-run` expression. An expression with several paths has no single first level: everything is listed.
fn top_level(run: Option<&str>) -> &str {
    let level = match run {
        Some(run) if run.contains('/') && run.contains('|') => "",
        Some(run) => run.split('/').next().unwrap_or_default(),
        None => "",
    };
    if level.is_empty() { "." } else { level }
}

fn base_plan() -> Plan {
    Plan { files: vec![telemetry_mode()], ..Plan::default() }
}

/// The file that turns the go tool's telemetry off.
pub(crate) fn telemetry_mode() -> InjectedFile {
    InjectedFile { path: TELEMETRY_MODE_FILE.to_owned(), bytes: b"off\n".to_vec(), executable: false }
}

fn step(group: PackageGroup<'_>, tree: &FileTree, request: &PlanRequest<'_>, common: &[String]) -> Step {
    let mut args = common.to_vec();
    if let Some(run) = group.run {
        args.push(format!("-run={run}"));
    }
    args.extend(group.packages);
    Step {
        programs: vec!["go".to_owned()],
        args,
        dir: group.module.dir.clone(),
        env: environment(group.module, tree, request),
    }
}

/// Closes off, variable by variable, what the go tool reads beside its arguments. The edge decides where caches and modules
/// come from. `-modcacherw` lets the owner of the module cache delete it.
pub(crate) fn environment(module: &Project, tree: &FileTree, request: &PlanRequest<'_>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([
        ("GOFLAGS".to_owned(), "-modcacherw".to_owned()),
        ("GOENV".to_owned(), "off".to_owned()),
        ("GOTOOLCHAIN".to_owned(), "local".to_owned()),
        ("GOCACHE".to_owned(), format!("{}/go-build", request.cache)),
    ]);
    if is_excluded_by_go_work(tree, module) {
        env.insert("GOWORK".to_owned(), "off".to_owned());
    }
    env
}
