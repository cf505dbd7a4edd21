//! Turns a selection into files and test names for each project.

use super::detect::is_test_file;
use crate::contract::{FileTree, PlanError, Project, TestSelection, innermost_project, owner_of};
use crate::parsing::workspace_paths::{is_within, join, outermost, within_dir};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use std::collections::{BTreeMap, BTreeSet};

/// Directories of tests and their helpers.
const TEST_DIRS: [&str; 3] = ["tests", "test", "testing"];

/// Stands for the file of a name that may be in any.
const ANY_FILE: &str = "*";

/// What one project runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectSelection<'a> {
    pub(crate) project: &'a Project,
    /// The runner's own filter expression.
    pub(crate) filter: Option<String>,
    /// Files and directories relative to the project, none within another; empty for the whole project.
    pub(crate) paths: Vec<String>,
    /// Names of the selected tests by file, or under [`ANY_FILE`]. Without entries all tests of the paths run.
    pub(crate) tests: BTreeMap<String, Vec<String>>,
    /// Sentences for the report.
    pub(crate) notes: Vec<String>,
}

impl<'a> ProjectSelection<'a> {
    fn whole(project: &'a Project, filter: Option<String>) -> ProjectSelection<'a> {
        ProjectSelection { project, filter, paths: Vec::new(), tests: BTreeMap::new(), notes: Vec::new() }
    }
}

/// What each project runs of a selection.
pub(crate) fn project_selections<'a>(
    framework: &'static str,
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<ProjectSelection<'a>>, PlanError> {
    let whole = |filter: Option<String>| {
        projects.iter().map(|project| ProjectSelection::whole(project, filter.clone())).collect()
    };
    let text = |filter: Option<&Filter>| filter.map(|filter| filter.as_str().to_owned());
    match TestSelection::new(selection) {
        TestSelection::Everything { filter } => Ok(whole(text(filter))),
        TestSelection::Files { files, filter } => select_files(framework, projects, tree, files, text(filter).as_ref()),
        TestSelection::Targets(targets) => Ok(select_targets(projects, tree, targets).unwrap_or_else(|| whole(None))),
    }
}

fn select_files<'a>(
    framework: &'static str,
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    filter: Option<&String>,
) -> Result<Vec<ProjectSelection<'a>>, PlanError> {
    let mut selections: BTreeMap<&Project, (BTreeSet<String>, Vec<String>)> = BTreeMap::new();
    for file in files {
        let (path, project) = owner_of(framework, projects, file)?;
        let (paths, notes) = selections.entry(project).or_default();
        let found = tests_of(tree, project, &path);
        if found.contains(&project.dir) && path != project.dir {
            notes.push(format!("no test file is named after {path}: all tests of its project run"));
        }
        paths.extend(found);
    }
    let select = |(project, (paths, notes)): (&'a Project, _)| {
        let paths = outermost_in(project, &paths);
        ProjectSelection { paths, notes, ..ProjectSelection::whole(project, filter.cloned()) }
    };
    Ok(selections.into_iter().map(select).collect())
}

/// The files or directories with the tests of `path`. A test file and a directory have their own; a file beside tests stands for all
/// of them. A source file has the tests named after it, else all of its project.
fn tests_of(tree: &FileTree, project: &Project, path: &str) -> Vec<String> {
    if !tree.contains(path) && tree.has_below(path) {
        return vec![path.to_owned()];
    }
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    if is_test_file(name) || (name == "tests.py") {
        return vec![path.to_owned()];
    }
    if name == "conftest.py" {
        return vec![dir.to_owned()];
    }
    if let Some(test_dir) = dir.split('/').position(|part| TEST_DIRS.contains(&part)) {
        let parts: Vec<&str> = dir.split('/').take(test_dir + 1).collect();
        let test_dir = parts.join("/");
        return vec![if is_within(&test_dir, &project.dir) { test_dir } else { project.dir.clone() }];
    }
    let stem = name.strip_suffix(".py").unwrap_or_default().trim_matches('_');
    let names = [format!("test_{stem}.py"), format!("{stem}_test.py"), format!("test{stem}.py")];
    let is_named = |file: &&str| names.iter().any(|name| file.rsplit('/').next() == Some(name.as_str()));
    let own = tree.files().filter(|file| !stem.is_empty() && is_within(file, &project.dir));
    let named: Vec<String> = own.filter(is_named).map(str::to_owned).collect();
    if named.is_empty() { vec![project.dir.clone()] } else { named }
}

/// Paths relative to the project, without those within another; empty if one is the whole project.
fn outermost_in(project: &Project, paths: &BTreeSet<String>) -> Vec<String> {
    let within: BTreeSet<String> = paths.iter().map(|path| within_dir(path, &project.dir).to_owned()).collect();
    if within.contains("") { Vec::new() } else { outermost(&within).into_iter().collect() }
}

/// Exactly these tests and files; `None` if one of them is in no project, since then it can be anywhere.
fn select_targets<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    targets: &[RerunTarget],
) -> Option<Vec<ProjectSelection<'a>>> {
    let mut paths: BTreeMap<&Project, BTreeSet<String>> = BTreeMap::new();
    let mut tests: BTreeMap<&Project, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut in_any_file: Vec<String> = Vec::new();
    for target in targets {
        let path = match target {
            RerunTarget::Package(path) => join("", path),
            RerunTarget::Test(test) => join("", &test.package),
            RerunTarget::Name(name) => {
                in_any_file.push(name.clone());
                continue;
            }
        };
        let is_there = tree.contains(&path) || tree.has_below(&path);
        let project = innermost_project(projects, &path).filter(|_| is_there)?;
        paths.entry(project).or_default().insert(path.clone());
        let names = tests.entry(project).or_default().entry(within_dir(&path, &project.dir).to_owned()).or_default();
        // The plugins read the empty name as the whole file.
        names.push(if let RerunTarget::Test(test) = target { test.name.clone() } else { String::new() });
    }
    let mut select = |project: &'a Project| {
        let own = paths.remove(project);
        let mut paths = own.as_ref().map(|own| outermost_in(project, own)).unwrap_or_default();
        let mut tests = tests.remove(project).unwrap_or_default();
        if own.is_some() && paths.is_empty() {
            tests.clear();
        } else if !in_any_file.is_empty() {
            tests.insert(ANY_FILE.to_owned(), in_any_file.clone());
            paths.clear();
        }
        (own.is_some() || !tests.is_empty()).then(|| ProjectSelection {
            paths,
            tests,
            ..ProjectSelection::whole(project, None)
        })
    };
    Some(projects.iter().filter_map(&mut select).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::TestId;

    fn project(dir: &str) -> Project {
        Project { dir: dir.to_owned(), name: String::new() }
    }

    fn tree() -> FileTree {
        let mut tree = FileTree::default();
        let files = ["src/calc.py", "src/other.py", "tests/test_calc.py", "tests/conftest.py", "tests/data/x.json"];
        files
            .iter()
            .chain(&["sub/tests/unit/test_b.py", "sub/_io.py", "sub/test_io.py"])
            .for_each(|file| tree.add(*file));
        tree
    }

    fn rendered(files: &[&str]) -> Vec<String> {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let projects = [project(""), project("sub")];
        let selections = select_files("pytest", &projects, &tree(), &files, None).unwrap();
        selections
            .iter()
            .map(|selection| {
                format!("{}: {} {}", selection.project.dir, selection.paths.join(" "), selection.notes.len())
            })
            .collect()
    }

    #[test]
    fn a_file_has_the_tests_named_after_it_or_beside_it() {
        assert_eq!(rendered(&["tests/test_calc.py"]), [": tests/test_calc.py 0"]);
        assert_eq!(rendered(&["src/calc.py", "tests/test_calc.py"]), [": tests/test_calc.py 0"]);
        assert_eq!(rendered(&["tests/conftest.py", "tests/test_calc.py"]), [": tests 0"]);
        assert_eq!(rendered(&["tests/data/x.json"]), [": tests 0"]);
        assert_eq!(rendered(&["src/other.py"]), [":  1"]);
        assert_eq!(rendered(&["sub/_io.py", "sub/tests/unit"]), ["sub: test_io.py tests/unit 0"]);
        assert_eq!(rendered(&["sub"]), ["sub:  0"]);
        let projects = [project("sub")];
        for outside in ["../x.py", "/etc/x.py", "src/calc.py"] {
            assert!(select_files("pytest", &projects, &tree(), &[outside.to_owned()], None).is_err(), "{outside}");
        }
    }

    #[test]
    fn reruns_failed_tests_by_name_and_unloaded_files_as_a_whole() {
        let projects = [project("sub")];
        let test =
            |name: &str| RerunTarget::Test(TestId { package: "sub/test_io.py".to_owned(), name: name.to_owned() });
        let targets = [test("test_a[x y]"), test("T::test_b"), RerunTarget::Package("sub/tests".to_owned())];
        let selections = select_targets(&projects, &tree(), &targets).unwrap();
        assert_eq!(selections[0].paths, ["test_io.py", "tests"]);
        assert_eq!(selections[0].tests["test_io.py"], ["test_a[x y]", "T::test_b"]);
        assert_eq!(selections[0].tests["tests"], [""]);
        for lost in ["src/calc.py", "sub/gone.py", "sub/../../lib/python3/doctest.py"] {
            assert_eq!(
                select_targets(&projects, &tree(), &[test("test_a"), RerunTarget::Package(lost.to_owned())]),
                None
            );
        }
        let whole =
            select_targets(&projects, &tree(), &[RerunTarget::Package("sub".to_owned()), test("test_a")]).unwrap();
        assert!(whole[0].paths.is_empty() && whole[0].tests.is_empty());
    }
}
