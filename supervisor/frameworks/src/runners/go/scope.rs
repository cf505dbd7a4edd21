//! Applies the project file's globs: names as `-run` and `-skip` expressions, files as a list of packages.
//!
//! A name is that of a top-level test. The go tool runs whole packages, so a package is in with all of its test files or out.

use super::detect::{go_directories, is_go_file};
use super::selection::PackageGroup;
use crate::contract::{FileTree, PlanError, Project, ScopeGlobs, TestScope, innermost_project};
use regex::Regex;

/// The groups of a run of everything, without what the scope leaves out.
pub(super) fn apply<'a>(
    groups: Vec<PackageGroup<'a>>,
    tree: &FileTree,
    projects: &[Project],
    scope: &TestScope,
) -> Result<Vec<PackageGroup<'a>>, PlanError> {
    let run = scope.patterns.name_expression().map(|names| format!("^({names})$"));
    let (wanted, excluded) = (files_of(&scope.patterns), files_of(&scope.exclude));
    let mut applied = Vec::new();
    for mut group in groups {
        group.run = run.clone().or(group.run);
        if wanted.is_some() || excluded.is_some() {
            group.packages = packages(tree, projects, group.module, wanted.as_ref(), excluded.as_ref())?;
        }
        if !group.packages.is_empty() {
            applied.push(group);
        }
    }
    if applied.is_empty() && !scope.is_everything() {
        return Err(PlanError::ScopeLeavesNothing { framework: "go" });
    }
    Ok(applied)
}

/// The `-skip` expression of a scope. `go test -list` has no such option: there the parser drops the names.
pub(super) fn skip_expression(scope: &TestScope) -> Option<String> {
    scope.exclude.name_expression().map(|names| format!("^({names})$"))
}

fn files_of(globs: &ScopeGlobs) -> Option<Regex> {
    Regex::new(&format!("^(?:{})$", globs.file_expression()?)).ok()
}

/// The packages of a module that are in the scope. A package without test files counts by its sources, and is in unless they are
/// excluded: it has to build.
fn packages(
    tree: &FileTree,
    projects: &[Project],
    module: &Project,
    wanted: Option<&Regex>,
    excluded: Option<&Regex>,
) -> Result<Vec<String>, PlanError> {
    let mut packages = Vec::new();
    for dir in go_directories(tree) {
        if innermost_project(projects, dir) != Some(module) || is_ignored(dir) {
            continue;
        }
        let own = tree.files_below(dir).filter(|file| file.rsplit_once('/').map_or("", |(dir, _)| dir) == dir);
        let (tests, sources): (Vec<&str>, Vec<&str>) =
            own.filter(|file| is_go_file(file)).partition(|file| file.ends_with("_test.go"));
        let files = if tests.is_empty() { &sources } else { &tests };
        let is_in = |file: &&&str| {
            wanted.is_none_or(|wanted| wanted.is_match(file)) && !excluded.is_some_and(|out| out.is_match(file))
        };
        let count = files.iter().filter(is_in).count();
        if count > 0 && count < files.len() && !tests.is_empty() {
            let package = if dir.is_empty() { "." } else { dir }.to_owned();
            return Err(PlanError::ScopeSplitsPackage { package, framework: "go" });
        }
        if count > 0 {
            let within = dir.strip_prefix(module.dir.as_str()).unwrap_or(dir).trim_matches('/');
            packages.push(if within.is_empty() { ".".to_owned() } else { format!("./{within}") });
        }
    }
    Ok(packages)
}

/// Whether the go tool's `./...` leaves the directory out.
fn is_ignored(dir: &str) -> bool {
    dir.split('/').any(|part| part.starts_with(['_', '.']) || part == "testdata" || part == "vendor")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(patterns: &[&str], exclude: &[&str]) -> Result<Vec<String>, String> {
        let mut tree = FileTree::default();
        let files = [
            "go.mod",
            "a.go",
            "a_test.go",
            "it/b_test.go",
            "it/c_test.go",
            "lib/d.go",
            "testdata/e.go",
            "sub/f_test.go",
        ];
        files.iter().for_each(|file| tree.add(*file));
        let projects = ["", "sub"].map(|dir| Project { dir: dir.to_owned(), name: String::new() });
        let globs = |entries: &[&str]| {
            ScopeGlobs::parse(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let scope = TestScope { patterns: globs(patterns), exclude: globs(exclude) };
        let group = |module| PackageGroup { module, packages: vec!["./...".to_owned()], run: None };
        let groups = apply(projects.iter().map(group).collect(), &tree, &projects, &scope);
        let render = |group: PackageGroup<'_>| {
            format!("{}: {} {}", group.module.dir, group.packages.join(" "), group.run.unwrap_or_default())
        };
        groups.map(|groups| groups.into_iter().map(render).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_become_expressions_and_files_packages() {
        assert_eq!(
            applied(&["TestA*", "TestB"], &[]).unwrap(),
            [": ./... ^(TestA.*|TestB)$", "sub: ./... ^(TestA.*|TestB)$"]
        );
        assert_eq!(applied(&[], &["it/**"]).unwrap(), [": . ./lib ", "sub: . "]);
        assert_eq!(applied(&["sub/"], &[]).unwrap(), ["sub: . "]);
        assert_eq!(applied(&["it/*_test.go"], &[]).unwrap(), [": ./it "]);
    }

    #[test]
    fn refuses_to_split_a_package() {
        let error = applied(&[], &["b_test.go"]).unwrap_err();
        assert!(error.contains("some test files of it and not others"), "{error}");
    }
}
