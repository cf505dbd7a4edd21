//! The test files of a path, and the bound on commands, of which each is for one path.

use super::NAME;
use super::detect::is_test;
use crate::contract::{FileTree, PlanError, Project};
use crate::ecosystems::path_selection::{PathRules, PathSelection, path_selections};
use crate::parsing::workspace_paths::{join, within_dir};
use proctor_core::request::Selection;

/// Most commands of one run.
const STEPS_MAX: usize = 256;

/// PHPUnit takes one path in a command, and selects tests of a rerun by a filter of their names.
const RULES: PathRules =
    PathRules { framework: NAME, noun: "test", extension: ".php", tests_of, files_of_name, reruns_by_path: false };

/// The selected tests of each project, in the order of the projects.
pub(super) fn selections<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<PathSelection<'a>>, PlanError> {
    let selections = path_selections(&RULES, projects, tree, selection)?;
    let steps = selections.iter().map(|selection| selection.paths.len().max(1)).sum();
    if steps > STEPS_MAX {
        return Err(PlanError::TooManySteps { steps, max: STEPS_MAX });
    }
    Ok(selections)
}

/// The files or directories of tests of a path, relative to the project: a test and a directory with tests are their own, a source
/// `Calc.php` has each `CalcTest.php`. Empty where any test may be affected.
fn tests_of(tree: &FileTree, project: &Project, path: &str) -> Vec<String> {
    let whole = join(&project.dir, path);
    if !tree.contains(&whole) || is_test(&whole) {
        let has_tests = is_test(&whole) || tree.files_below(&whole).any(is_test);
        return has_tests.then(|| path.to_owned()).into_iter().collect();
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let Some(stem) = name.strip_suffix(".php") else { return Vec::new() };
    files_called(tree, project, &format!("{stem}Test.php"))
}

/// The files that are named after the class of `Namespace\\CartTest::testAdds`.
fn files_of_name(tree: &FileTree, project: &Project, name: &str) -> Vec<String> {
    let class = name.split("::").next().unwrap_or(name);
    files_called(tree, project, &format!("{}.php", class.rsplit('\\').next().unwrap_or(class)))
}

/// The project's own files with this name, relative to it.
fn files_called(tree: &FileTree, project: &Project, name: &str) -> Vec<String> {
    let own = tree.files_below(&project.dir).filter(|file| !file.split('/').any(|part| part == "vendor"));
    let called = own.filter(|file| file.rsplit('/').next() == Some(name));
    called.map(|file| within_dir(file, &project.dir).to_owned()).collect()
}
