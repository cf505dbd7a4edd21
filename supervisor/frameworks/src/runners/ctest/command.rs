//! Builds the command lines: configure, build, test and list.

use super::NAME;
use crate::contract::{
    Plan, PlanError, PlanRequest, Project, REPORT, Step, TestSelection, innermost_project, owner_of,
};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Compilers that run at the same time. Each may need hundreds of MiB of the run's memory.
const BUILD_JOBS: u32 = 2;

/// Longest expression for one ctest command, in bytes. CMake's compiled regular expressions are limited to 64 KiB.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;

/// Most ctest commands that rerun tests of one project by name. Beyond that, the whole suite runs: it is cheaper.
const EXPRESSIONS_MAX: usize = 64;

/// The package of the tests of the project in `dir`: the directory, or `.` for the workspace root.
pub(super) fn package(dir: &str) -> &str {
    if dir.is_empty() { "." } else { dir }
}

/// The first round: configures every project that has selected tests.
pub(super) fn plan(projects: &[Project], request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let chosen = chosen(projects, request.selection)?;
    let mut plan = Plan::default();
    plan.steps.extend(chosen.iter().map(|project| configure(project, request)));
    if matches!(TestSelection::new(request.selection), TestSelection::Files { .. }) {
        plan.notes
            .push("ctest does not know which tests belong to a file: all of its project's were selected".to_owned());
    }
    Ok(plan)
}

/// The projects that contain something selected.
fn chosen<'a>(projects: &'a [Project], selection: &Selection) -> Result<Vec<&'a Project>, PlanError> {
    let dirs: Option<BTreeSet<&str>> = match TestSelection::new(selection) {
        TestSelection::Files { files, .. } => {
            Some(files.iter().map(|file| dir_of_file(projects, file)).collect::<Result<_, _>>()?)
        }
        // A target that no project contains any more, or a name, can only be found by starting all of them.
        TestSelection::Targets(targets) => {
            targets.iter().map(|target| dir_of_package(projects, target.package()?)).collect()
        }
        TestSelection::Everything { .. } => None,
    };
    Ok(projects.iter().filter(|project| dirs.as_ref().is_none_or(|dirs| dirs.contains(project.dir.as_str()))).collect())
}

fn dir_of_file<'a>(projects: &'a [Project], file: &str) -> Result<&'a str, PlanError> {
    owner_of(NAME, projects, file).map(|(_, project)| project.dir.as_str())
}

/// The directory of the project that a package belongs to.
pub(super) fn dir_of_package<'a>(projects: &'a [Project], package: &str) -> Option<&'a str> {
    innermost_project(projects, &join("", package)).map(|project| project.dir.as_str())
}

fn configure(project: &Project, request: &PlanRequest<'_>) -> Step {
    step("cmake", &["-S".to_owned(), ".".to_owned(), "-B".to_owned(), directory(&project.dir, request)], &project.dir)
}

/// The build directory of a project, below the cache, so that the next run compiles only what changed. CMake binds a build
/// directory to one source path, so its name is a hash of that path.
fn directory(dir: &str, request: &PlanRequest<'_>) -> String {
    let place = blake3::hash(join(request.workspace, dir).as_bytes()).to_hex();
    format!("{}/cmake/{}", request.cache, place.get(..16).unwrap_or_default())
}

/// The second round: builds the project in `dir`.
pub(super) fn build(dir: &str, request: &PlanRequest<'_>) -> Step {
    let jobs = request.parallel.unwrap_or(BUILD_JOBS).max(1);
    step("cmake", &["--build".to_owned(), directory(dir, request), "--parallel".to_owned(), jobs.to_string()], dir)
}

/// The third round: runs the selected tests.
pub(super) fn test(dir: &str, request: &PlanRequest<'_>) -> Vec<Step> {
    let mut common = vec!["--test-dir".to_owned(), directory(dir, request), "-V".to_owned()];
    if let Some(parallel) = request.parallel {
        common.extend(["--parallel".to_owned(), parallel.max(1).to_string()]);
    }
    steps(dir, request, &common)
}

/// The third round of a listing: prints the selected tests as JSON.
pub(super) fn list(dir: &str, request: &PlanRequest<'_>) -> Vec<Step> {
    steps(dir, request, &["--test-dir".to_owned(), directory(dir, request), "--show-only=json-v1".to_owned()])
}

/// Writes the properties of all tests of the project in `dir` to the report. Always exits with 0, so that the tests run even
/// if this fails.
pub(super) fn properties(dir: &str, request: &PlanRequest<'_>) -> Step {
    const LIST: &str = r#"ctest --test-dir "$1" --show-only=json-v1 > "$2" 2> /dev/null || :"#;
    let report = format!("{}/{REPORT}", request.scratch);
    step("sh", &["-c".to_owned(), LIST.to_owned(), "sh".to_owned(), directory(dir, request), report], dir)
}

fn steps(dir: &str, request: &PlanRequest<'_>, common: &[String]) -> Vec<Step> {
    let with = |expression: Option<&str>| {
        let mut args = common.to_vec();
        // An expression cannot become an option: the filter guard refuses filters that begin with a dash.
        args.extend(expression.into_iter().flat_map(|expression| ["-R".to_owned(), expression.to_owned()]));
        step("ctest", &args, dir)
    };
    match TestSelection::new(request.selection) {
        TestSelection::Everything { filter } | TestSelection::Files { filter, .. } => {
            vec![with(filter.map(Filter::as_str))]
        }
        TestSelection::Targets(targets) => match expressions(dir, targets) {
            Some(expressions) => expressions.iter().map(|expression| with(Some(expression))).collect(),
            None => vec![with(None)],
        },
    }
}

/// Expressions that match exactly these tests of the project. `None` selects the whole project: a part of it did not
/// build, or the list is too long.
fn expressions(dir: &str, targets: &[RerunTarget]) -> Option<Vec<String>> {
    let package = package(dir);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        match target {
            RerunTarget::Package(other) if other == package || is_within(other, dir) => return None,
            RerunTarget::Test(test) if test.package == package => drop(names.insert(&test.name)),
            RerunTarget::Name(name) => drop(names.insert(name)),
            RerunTarget::Package(_) | RerunTarget::Test(_) => {}
        }
    }
    // `#N` marks the second test of a name (verbose_output); ctest does not know the marker.
    let marked = names.iter().filter_map(|name| name.rsplit_once('#')).filter(|(_, number)| is_number(number));
    let unmarked: Vec<&str> = marked.map(|(name, _)| name).collect();
    names.extend(unmarked);
    let mut expressions: Vec<String> = Vec::new();
    for name in names {
        let one = format!("^{}$", quote(name));
        match expressions.last_mut() {
            Some(last) if last.len() + one.len() < EXPRESSION_BYTES_MAX => {
                last.push('|');
                last.push_str(&one);
            }
            _ => expressions.push(one),
        }
    }
    (!expressions.is_empty() && expressions.len() <= EXPRESSIONS_MAX).then_some(expressions)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A CMake regular expression that matches this name only.
fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len());
    for character in name.chars() {
        if r"\^$.[]|()*+?".contains(character) {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

fn step(program: &str, args: &[String], dir: &str) -> Step {
    // The parsers read English; compilers and ctest translate their messages by locale.
    let env = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
    Step { programs: vec![program.to_owned()], args: args.to_vec(), dir: dir.to_owned(), env }
}

#[cfg(test)]
mod tests;
