//! Writes the command lines: configure, build, test or list. Must not know how output is read.

use super::NAME;
use crate::contract::{Plan, PlanError, PlanRequest, REPORT, Step};
use crate::contract::{Project, innermost_project};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Compilers at the same time. Each may need hundreds of MiB of the run's memory.
const BUILD_JOBS: u32 = 2;

/// Longest expression for one ctest. Its regular expressions end at 64 KiB, compiled.
const EXPRESSION_BYTES_MAX: usize = 16 * 1024;

/// Most commands that rerun tests of one project by name. For more of them the whole suite is cheaper.
const EXPRESSIONS_MAX: usize = 64;

/// What names the tests of the project in `dir`: the directory, or a dot for the workspace itself.
pub(super) fn package(dir: &str) -> &str {
    if dir.is_empty() { "." } else { dir }
}

/// The first round: every project that has selected tests is configured.
pub(super) fn plan(projects: &[Project], request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let chosen = chosen(projects, request.selection)?;
    let mut plan = Plan::default();
    plan.steps.extend(chosen.iter().map(|project| configure(project, request)));
    if let Selection::Matching { files, .. } = request.selection
        && !files.is_empty()
    {
        plan.notes
            .push("ctest does not know which tests belong to a file: all of its project's were selected".to_owned());
    }
    Ok(plan)
}

/// The projects in which something is selected.
fn chosen<'a>(projects: &'a [Project], selection: &Selection) -> Result<Vec<&'a Project>, PlanError> {
    let dirs: Option<BTreeSet<&str>> = match selection {
        Selection::Matching { files, .. } if !files.is_empty() => {
            Some(files.iter().map(|file| dir_of_file(projects, file)).collect::<Result<_, _>>()?)
        }
        // A target of no project (one that is gone) can only be found by running everything.
        Selection::Exactly(targets) => targets.iter().map(|target| dir_of_target(projects, target)).collect(),
        _ => None,
    };
    Ok(projects.iter().filter(|project| dirs.as_ref().is_none_or(|dirs| dirs.contains(project.dir.as_str()))).collect())
}

fn dir_of_file<'a>(projects: &'a [Project], file: &str) -> Result<&'a str, PlanError> {
    let outside = || PlanError::FileOutsideProject { file: file.to_owned(), framework: NAME };
    if file.starts_with('/') || file.split('/').any(|part| part == "..") {
        return Err(outside());
    }
    innermost_project(projects, &join("", file)).map(|project| project.dir.as_str()).ok_or_else(outside)
}

/// The project that something of the last run belongs to.
pub(super) fn dir_of_target<'a>(projects: &'a [Project], target: &RerunTarget) -> Option<&'a str> {
    innermost_project(projects, &join("", target.package())).map(|project| project.dir.as_str())
}

fn configure(project: &Project, request: &PlanRequest<'_>) -> Step {
    step("cmake", &["-S".to_owned(), ".".to_owned(), "-B".to_owned(), directory(&project.dir, request)], &project.dir)
}

/// Where a project is built: below the cache, so that the next run compiles only what changed. A build directory belongs
/// to one place on disk, so its name is made of that.
fn directory(dir: &str, request: &PlanRequest<'_>) -> String {
    let place = blake3::hash(join(request.workspace, dir).as_bytes()).to_hex();
    format!("{}/cmake/{}", request.cache, place.get(..16).unwrap_or_default())
}

/// The second round for the project in `dir`.
pub(super) fn build(dir: &str, request: &PlanRequest<'_>) -> Step {
    let jobs = request.parallel.unwrap_or(BUILD_JOBS).max(1);
    step("cmake", &["--build".to_owned(), directory(dir, request), "--parallel".to_owned(), jobs.to_string()], dir)
}

/// The third round: the selected tests.
pub(super) fn test(dir: &str, request: &PlanRequest<'_>) -> Vec<Step> {
    let mut common = vec!["--test-dir".to_owned(), directory(dir, request), "-V".to_owned()];
    if let Some(parallel) = request.parallel {
        common.extend(["--parallel".to_owned(), parallel.max(1).to_string()]);
    }
    steps(dir, request, &common)
}

/// The third round of a listing.
pub(super) fn list(dir: &str, request: &PlanRequest<'_>) -> Vec<Step> {
    steps(dir, request, &["--test-dir".to_owned(), directory(dir, request), "--show-only=json-v1".to_owned()])
}

/// What tells the report of all tests of the project in `dir` what ctest has to know of them. Whatever becomes of it, the
/// tests run: what is wrong is theirs to say.
pub(super) fn properties(dir: &str, request: &PlanRequest<'_>) -> Step {
    const LIST: &str = r#"ctest --test-dir "$1" --show-only=json-v1 > "$2" 2> /dev/null || :"#;
    let report = format!("{}/{REPORT}", request.scratch);
    step("sh", &["-c".to_owned(), LIST.to_owned(), "sh".to_owned(), directory(dir, request), report], dir)
}

fn steps(dir: &str, request: &PlanRequest<'_>, common: &[String]) -> Vec<Step> {
    let with = |expression: Option<&str>| {
        let mut args = common.to_vec();
        // An expression cannot become an option: the guard refuses filters that begin with a dash.
        args.extend(expression.into_iter().flat_map(|expression| ["-R".to_owned(), expression.to_owned()]));
        step("ctest", &args, dir)
    };
    match request.selection {
        Selection::Matching { filter, .. } => vec![with(filter.as_ref().map(|filter| filter.as_str()))],
        Selection::Exactly(targets) => match expressions(dir, targets) {
            Some(expressions) => expressions.iter().map(|expression| with(Some(expression))).collect(),
            None => vec![with(None)],
        },
        Selection::All | Selection::LastFailed { .. } => vec![with(None)],
    }
}

/// Expressions for exactly these tests of the project, or `None` for all of it: something of it could not be built, or
/// there are too many.
fn expressions(dir: &str, targets: &[RerunTarget]) -> Option<Vec<String>> {
    let package = package(dir);
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        match target {
            RerunTarget::Package(other) if other == package || is_within(other, dir) => return None,
            RerunTarget::Test(test) if test.package == package => {
                names.insert(&test.name);
                // The second test of a name has its number behind it, which ctest does not know.
                names.extend(test.name.rsplit_once('#').filter(|(_, number)| is_number(number)).map(|(name, _)| name));
            }
            RerunTarget::Package(_) | RerunTarget::Test(_) => {}
        }
    }
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

/// A name as an expression of CMake's that matches it alone.
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
    // Compilers and ctest speak the language of their user, and what is read here is English.
    let env = BTreeMap::from([("LC_ALL".to_owned(), "C.UTF-8".to_owned())]);
    Step { programs: vec![program.to_owned()], args: args.to_vec(), dir: dir.to_owned(), env }
}

#[cfg(test)]
mod tests;
