//! Applies the project file's globs: names as `-run` and `-skip` expressions, files as a list of packages.
//!
//! A name is that of a top-level test. The go tool runs whole packages, so a package is in with all of its test files or out.

use super::detect::is_go_file;
use super::selection::{self, PackageGroup, STEPS_MAX, split_long};
use crate::contract::{FileTree, PlanError, Project, ScopeGlobs, TestScope, innermost_project};
use crate::parsing::workspace_paths::within_dir;
use regex::Regex;
use std::collections::BTreeMap;

/// The groups of a run of everything, without what the scope leaves out.
pub(super) fn apply<'a>(
    groups: Vec<PackageGroup<'a>>,
    tree: &FileTree,
    projects: &[Project],
    scope: &TestScope,
) -> Result<Vec<PackageGroup<'a>>, PlanError> {
    // The parser of a listing needs it, too.
    skip_expression(scope).as_deref().map(compile).transpose()?;
    let run = scope.patterns.name_expression().map(|names| format!("^({names})$"));
    let (wanted, excluded) = (files_of(&scope.patterns)?, files_of(&scope.exclude)?);
    let selects_files = wanted.is_some() || excluded.is_some();
    let directories = if selects_files { go_files(tree) } else { GoFiles::new() };
    let mut applied = Vec::new();
    for mut group in groups {
        group.run = run.clone().or(group.run);
        if !selects_files {
            applied.push(group);
            continue;
        }
        let packages = packages(tree, &directories, projects, group.module, wanted.as_ref(), excluded.as_ref())?;
        if !packages.is_empty() {
            applied.extend(split_long(group.module, group.run, packages));
        }
    }
    match applied.len() {
        0 if !scope.is_everything() => Err(PlanError::ScopeLeavesNothing { framework: "go" }),
        steps if steps > STEPS_MAX => Err(PlanError::TooManySteps { steps, max: STEPS_MAX }),
        _ => Ok(applied),
    }
}

/// The `-skip` expression of a scope. `go test -list` has no such option: there the parser drops the names.
pub(super) fn skip_expression(scope: &TestScope) -> Option<String> {
    scope.exclude.name_expression().map(|names| format!("^({names})$"))
}

fn files_of(globs: &ScopeGlobs) -> Result<Option<Regex>, PlanError> {
    globs.file_expression().map(|files| compile(&format!("^(?:{files})$"))).transpose()
}

fn compile(expression: &str) -> Result<Regex, PlanError> {
    Regex::new(expression).map_err(|_| PlanError::ScopeTooLarge)
}

/// By directory, the Go files in it.
type GoFiles<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Collected once for all modules.
fn go_files(tree: &FileTree) -> GoFiles<'_> {
    let mut found = GoFiles::new();
    for file in tree.files().filter(|file| is_go_file(file)) {
        found.entry(file.rsplit_once('/').map_or("", |(dir, _)| dir)).or_default().push(file);
    }
    found
}

/// Patterns for the packages of a module that are in the scope. A package without test files counts by its sources, and is in
/// unless they are excluded: it has to build.
fn packages(
    tree: &FileTree,
    directories: &GoFiles<'_>,
    projects: &[Project],
    module: &Project,
    wanted: Option<&Regex>,
    excluded: Option<&Regex>,
) -> Result<Vec<String>, PlanError> {
    // Directories relative to the module, and whether they have tests.
    let (mut included, mut others) = (Vec::new(), Vec::new());
    for (dir, own) in directories {
        if innermost_project(projects, dir) != Some(module) || is_ignored(dir) {
            continue;
        }
        let (tests, sources): (Vec<&str>, Vec<&str>) = own.iter().partition(|file| file.ends_with("_test.go"));
        let files = if tests.is_empty() { &sources } else { &tests };
        let is_in = |file: &&&str| {
            wanted.is_none_or(|wanted| wanted.is_match(file)) && !excluded.is_some_and(|out| out.is_match(file))
        };
        let count = files.iter().filter(is_in).count();
        if count > 0 && count < files.len() && !tests.is_empty() {
            let package = if dir.is_empty() { "." } else { *dir }.to_owned();
            return Err(PlanError::ScopeSplitsPackage { package, framework: "go" });
        }
        let within = within_dir(dir, &module.dir);
        if count > 0 { included.push((within, !tests.is_empty())) } else { others.push(within) }
    }
    if others.is_empty() && !included.is_empty() {
        return Ok(vec!["./...".to_owned()]);
    }
    let of = |(dir, has_tests): (&str, bool)| match pattern(dir, &others).filter(|_| !tree.is_truncated()) {
        Some(pattern) => Some(pattern),
        // Without tests a directory may well be one that does not build here, such as that of a `tools.go`.
        None if !has_tests => None,
        None => Some(selection::pattern(dir)),
    };
    Ok(included.into_iter().filter_map(of).collect())
}

/// A pattern with `...` that matches the directory and none of the others; `None` if there is none. Where build constraints exclude
/// all files of a package, the go tool passes over it for such a pattern, as for `./...`, and fails for the directory's name.
fn pattern(dir: &str, others: &[&str]) -> Option<String> {
    let splits = (0..=dir.len()).rev().filter(|at| dir.is_char_boundary(*at)).map(|at| dir.split_at(at));
    let matches = |other: &&str, (start, end): (&str, &str)| {
        other.len() >= dir.len() && other.starts_with(start) && other.ends_with(end)
    };
    // `a/...` would match `a`, and so would `.../a`.
    let mut usable = splits.filter(|(start, end)| !start.is_empty() && !start.ends_with('/') && !end.starts_with('/'));
    let (start, end) = usable.find(|split| !others.iter().any(|other| matches(other, *split)))?;
    Some(format!("./{start}...{end}"))
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
        assert_eq!(applied(&[], &["it/**"]).unwrap(), [": . ./lib... ", "sub: ./... "]);
        assert_eq!(applied(&["sub/"], &[]).unwrap(), ["sub: ./... "]);
        assert_eq!(applied(&["it/*_test.go"], &[]).unwrap(), [": ./it... "]);
    }

    #[test]
    fn refuses_to_split_a_package() {
        let error = applied(&[], &["b_test.go"]).unwrap_err();
        assert!(error.contains("some test files of it and not others"), "{error}");
    }

    #[test]
    fn a_pattern_matches_a_directory_and_none_that_is_left_out() {
        assert_eq!(pattern("a", &["b"]).unwrap(), "./a...");
        assert_eq!(pattern("shop/cart", &["shop/cart/e2e", "shop/carts"]).unwrap(), "./shop/car...t");
        assert_eq!(pattern("shop/cart", &["shop/cart/t"]).unwrap(), "./shop/ca...rt");
        assert_eq!(pattern("", &["a"]), None);
        assert_eq!(pattern("a", &["a/b"]), None);
        assert_eq!(pattern("\u{e9}t", &["\u{e9}t/x"]).unwrap(), "./\u{e9}...t");
    }

    #[test]
    fn a_root_without_tests_is_left_out_beside_what_the_scope_leaves() {
        let mut tree = FileTree::default();
        ["go.mod", "tools.go", "a/a_test.go", "e2e/b_test.go"].iter().for_each(|file| tree.add(*file));
        let module = Project { dir: String::new(), name: String::new() };
        let out = Regex::new("^e2e/").unwrap();
        assert_eq!(
            packages(&tree, &go_files(&tree), std::slice::from_ref(&module), &module, None, Some(&out)).unwrap(),
            ["./a..."]
        );
    }

    #[test]
    fn an_expression_beyond_the_compiled_size_is_refused() {
        assert_eq!(compile(&r"\w{100}".repeat(1_000)).unwrap_err(), PlanError::ScopeTooLarge);
    }
}
