//! Builds pytest's command lines.

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{ARTIFACTS, Plan, PlanError, PlanRequest};
use crate::ecosystems::python::{PlanBuilder, START_MODULE, project_selections};
use crate::parsing::workspace_paths::is_within;
use proctor_core::artifact::ARTIFACTS_DIRECTORY;

/// The plan of a run, or with `more` arguments of a listing.
///
/// Files begin with `./`, so that none can be read as an option or as a file of options.
pub(super) fn plan(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
    more: &[&str],
) -> Result<Plan, PlanError> {
    let mut steps = PlanBuilder::new(super::NAME, request, &[("proctor_pytest", include_bytes!("proctor_pytest.py"))]);
    let shares = project_selections(super::NAME, projects, tree, request.selection)?;
    let run: Vec<&Project> = shares.iter().map(|share| share.project).collect();
    for share in shares {
        let dir = &share.project.dir;
        let mut args: Vec<String> =
            ["-m", START_MODULE, "pytest", "-p", "proctor_pytest", "-o"].map(str::to_owned).into();
        args.push(format!("cache_dir={}/pytest{}/{dir}", request.cache, request.workspace));
        args.extend(request.stop_at_first_failure.then(|| "--exitfirst".to_owned()));
        args.extend(more.iter().map(|argument| (*argument).to_owned()));
        args.extend(share.filter.iter().map(|filter| format!("-k={filter}")));
        if share.paths.is_empty() {
            args.extend(nested(&run, share.project).map(|within| format!("--ignore=./{within}")));
        }
        args.extend(share.paths.iter().map(|path| format!("./{path}")));
        steps.add(share.project, args, &share.tests);
        share.notes.into_iter().for_each(|note| steps.note(note));
    }
    let parallel = request.parallel.map(|parallel| ("PROCTOR_PARALLEL", parallel.max(1).to_string()));
    Ok(with_output_dirs(steps.build(parallel.as_slice()), request))
}

/// Gives each command a directory of its own for files of browser tests: pytest-playwright removes it when it begins.
fn with_output_dirs(mut plan: Plan, request: &PlanRequest<'_>) -> Plan {
    for (number, step) in plan.steps.iter_mut().enumerate() {
        let output = format!("{ARTIFACTS}/{ARTIFACTS_DIRECTORY}/{}-{number}", super::NAME);
        step.env.insert("PROCTOR_OUTPUT".to_owned(), format!("{}/{output}", request.scratch));
        plan.dirs.push(output);
    }
    plan.artifacts = true;
    plan
}

/// Directories of projects within `project` that have a command of their own, relative to it: pytest would run their tests twice.
fn nested<'a>(run: &'a [&Project], project: &'a Project) -> impl Iterator<Item = &'a str> {
    let within = run.iter().filter(|other| other.dir != project.dir && is_within(&other.dir, &project.dir));
    within.map(|other| other.dir[project.dir.len()..].trim_start_matches('/'))
}
