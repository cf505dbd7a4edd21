//! Turns a request's selection into groups of packages with one `-run` expression each.

use super::detect::{go_directories, is_go_file, module_of_package};
use super::run_expression::quote;
use crate::contract::{FileTree, PlanError, Project, TestSelection, outside, owner_of};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};

/// Most commands of one run. Each build_errors and links at least one test binary; for more packages the whole suite is
/// cheaper.
pub(super) const STEPS_MAX: usize = 256;

/// Longest `-run` expression, in bytes. The kernel refuses an argument of 128 KiB, and the go tool passes this one on.
const EXPRESSION_BYTES_MAX: usize = 64 * 1024;

/// Longest list of packages in one command, in bytes; an argument list is limited to a few MB in all.
const PACKAGES_BYTES_MAX: usize = 512 * 1024;

/// Packages of one module that one command tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageGroup<'a> {
    pub(super) module: &'a Project,
    /// Patterns such as `./...` or `./dir`.
    pub(super) packages: Vec<String>,
    /// The `-run` expression; `None` runs all tests.
    pub(super) run: Option<String>,
}

/// The groups of a selection, in the order of modules and packages.
pub(super) fn groups<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<PackageGroup<'a>>, PlanError> {
    let run = |filter: Option<&Filter>| filter.map(|filter| filter.as_str().to_owned());
    let groups = match TestSelection::new(selection) {
        TestSelection::Everything { filter } => whole_modules(projects, run(filter)),
        TestSelection::Files { files, filter } => groups_of_files(projects, tree, files, run(filter))?,
        TestSelection::Targets(targets) => groups_of_targets(projects, tree, targets),
    };
    if groups.len() > STEPS_MAX {
        return Err(PlanError::TooManySteps { steps: groups.len(), max: STEPS_MAX });
    }
    Ok(groups)
}

/// The targets with these names. A node id is an import path, `/` and a test, or the import path of a package that did not build;
/// blanks of a subtest are `_` in Go's own names.
pub(super) fn resolve_names(projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
    let go_dirs = go_directories(tree);
    let is_package = |path: &str| {
        module_of_package(projects, &go_dirs, path)
            .is_some_and(|(module, dir)| go_dirs.contains(join(&module.dir, &dir).as_str()) || tree.is_truncated())
    };
    let resolve = |name: &TestName| {
        let node_id = name.as_str();
        if is_package(node_id) {
            return RerunTarget::Package(node_id.to_owned());
        }
        let splits = node_id.match_indices('/').map(|(at, _)| (&node_id[..at], &node_id[at + 1..]));
        let package = splits.filter(|(_, test)| is_test_name(test)).find(|(package, _)| is_package(package));
        let (package, test) = package.map_or((None, node_id), |(package, test)| (Some(package), test));
        let test = if is_test_name(test) { test.replace(' ', "_") } else { test.to_owned() };
        RerunTarget::from_test(TestId { package: package.unwrap_or_default().to_owned(), name: test })
    };
    names.iter().map(resolve).collect()
}

/// Whether the go tool runs functions of this name as tests.
fn is_test_name(name: &str) -> bool {
    ["Test", "Example", "Fuzz", "Benchmark"].iter().any(|prefix| name.starts_with(prefix))
}

fn whole_modules(projects: &[Project], run: Option<String>) -> Vec<PackageGroup<'_>> {
    projects
        .iter()
        .map(|module| PackageGroup { module, packages: vec!["./...".to_owned()], run: run.clone() })
        .collect()
}

fn groups_of_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    run: Option<String>,
) -> Result<Vec<PackageGroup<'a>>, PlanError> {
    let go_dirs = go_directories(tree);
    let mut packages: BTreeMap<&Project, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let (path, module) = owner_of("go", projects, file)?;
        let pattern = package_of_file(tree, &go_dirs, module, &path).ok_or_else(|| outside("go", file))?;
        packages.entry(module).or_default().insert(pattern);
    }
    Ok(packages
        .into_iter()
        .map(|(module, patterns)| PackageGroup { module, packages: patterns.into_iter().collect(), run: run.clone() })
        .collect())
}

/// The packages that a path belongs to. A Go file belongs to its directory's package; any other file to the nearest
/// directory above with Go files, as a golden file under `testdata` belongs to the package that reads it; a directory to
/// its own package, or to all packages below it; the module's own files to all packages.
///
/// A Go file in a directory that the tree does not contain (ignored by the scan, or deleted with its package) belongs to no
/// package: otherwise the package above would run in its find_module, and pass.
fn package_of_file(tree: &FileTree, go_dirs: &BTreeSet<&str>, module: &Project, path: &str) -> Option<String> {
    let within = |dir: &str| dir.strip_prefix(module.dir.as_str()).map(pattern);
    if go_dirs.contains(path) {
        return within(path);
    }
    if !tree.contains(path) && go_dirs.iter().any(|dir| is_within(dir, path)) {
        return within(path).map(|pattern| format!("{pattern}/..."));
    }
    let (mut dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    if dir == module.dir && matches!(name, "go.mod" | "go.sum") {
        return Some("./...".to_owned());
    }
    if is_go_file(name) && !go_dirs.contains(dir) && !tree.is_truncated() {
        return None;
    }
    // A truncated tree does not contain every directory; then the file's own directory is used.
    while !go_dirs.contains(dir) && !tree.is_truncated() {
        if dir == module.dir || !is_within(dir, &module.dir) {
            return None;
        }
        dir = dir.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    within(dir)
}

pub(super) fn pattern(dir_in_module: &str) -> String {
    match dir_in_module.trim_matches('/') {
        "" => ".".to_owned(),
        dir => format!("./{dir}"),
    }
}

/// Groups for exactly these packages and tests.
///
/// A package that runs as a whole needs no expression for its tests. A target outside all modules of the workspace (a
/// dependency that does not compile) can show anywhere, so every module runs as a whole then.
fn groups_of_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<PackageGroup<'a>> {
    let go_dirs = go_directories(tree);
    let mut tests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut packages: BTreeSet<&str> = BTreeSet::new();
    let mut in_any_package: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        match target {
            RerunTarget::Package(package) => drop(packages.insert(package)),
            RerunTarget::Test(test) => drop(tests.entry(&test.package).or_default().insert(&test.name)),
            RerunTarget::Name(name) => drop(in_any_package.insert(name)),
        }
    }
    let find_module = |package: &str| module_of_package(projects, &go_dirs, package);
    if packages.iter().chain(tests.keys()).any(|package| find_module(package).is_none()) {
        return whole_modules(projects, None);
    }
    // One entry per command: packages with the same expression share it, so names never cross between packages.
    let mut groups: BTreeMap<(&Project, Option<String>), Vec<String>> = BTreeMap::new();
    let mut add = |package: &str, run: Option<String>| {
        if let Some((module, dir)) = find_module(package) {
            groups.entry((module, run)).or_default().push(pattern(&dir));
        }
    };
    for package in &packages {
        add(package, None);
    }
    for (package, names) in tests.iter().filter(|(package, _)| !packages.contains(*package)) {
        for expression in expressions(names) {
            add(package, Some(expression));
        }
    }
    let named = groups.into_iter().flat_map(|((module, run), patterns)| split_long(module, run, patterns));
    let anywhere = expressions(&in_any_package).into_iter().flat_map(|run| whole_modules(projects, Some(run)));
    named.chain(anywhere).collect()
}

/// Splits a list of patterns into as many groups as the length of an argument list requires.
pub(super) fn split_long(module: &Project, run: Option<String>, patterns: Vec<String>) -> Vec<PackageGroup<'_>> {
    let mut groups = vec![PackageGroup { module, packages: Vec::new(), run }];
    let mut bytes = 0;
    for pattern in patterns {
        bytes += pattern.len() + 1;
        if bytes > PACKAGES_BYTES_MAX
            && let Some(run) = groups.last().map(|group| group.run.clone())
        {
            bytes = pattern.len() + 1;
            groups.push(PackageGroup { module, packages: Vec::new(), run });
        }
        if let Some(group) = groups.last_mut() {
            group.packages.push(pattern);
        }
    }
    groups
}

/// `-run` expressions that match exactly these tests of one package: `^TestA$/^x$|^TestB$/^y$`. Since Go 1.18 a top-level `|`
/// separates whole paths, so names of different tests do not cross.
///
/// A parent is dropped when one of its subtests is in the list too: running the subtest runs the parent's own code, and
/// naming the parent would run all its other subtests. Subtests of a subtest cannot be excluded: `^TestA$/^x$` runs
/// `TestA/x/y` as well.
fn expressions(names: &BTreeSet<&str>) -> Vec<String> {
    let mut expressions: Vec<String> = Vec::new();
    for name in names {
        let is_parent = names
            .range::<str, _>((std::ops::Bound::Excluded(*name), std::ops::Bound::Unbounded))
            .take_while(|other| other.starts_with(name))
            .any(|other| other[name.len()..].starts_with('/'));
        if is_parent {
            continue;
        }
        let path: Vec<String> = name.split('/').map(|level| format!("^{}$", quote(level))).collect();
        let path = path.join("/");
        match expressions.last_mut() {
            Some(last) if last.len() + path.len() < EXPRESSION_BYTES_MAX => {
                last.push('|');
                last.push_str(&path);
            }
            _ => expressions.push(path),
        }
    }
    expressions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_name_the_leaves_and_quote_every_level() {
        let expressions_of = |names: &[&str]| expressions(&names.iter().copied().collect());
        assert_eq!(expressions_of(&["TestA"]), ["^TestA$"]);
        assert_eq!(expressions_of(&["TestA", "TestA/x", "TestB/y", "TestAb"]), ["^TestA$/^x$|^TestAb$|^TestB$/^y$"]);
        assert_eq!(expressions_of(&["T/a", "T/a b", "T/a/b"]), ["^T$/^a b$|^T$/^a$/^b$"]);
        assert_eq!(expressions_of(&["T/a(1)|b+\\x1b[m"]), [r"^T$/^a\(1\)\|b\+\\x1b\[m$"]);
    }

    #[test]
    fn splits_a_long_list_into_several_expressions() {
        let names: Vec<String> = (0..10_000).map(|number| format!("TestTable/case_{number}")).collect();
        let all = expressions(&names.iter().map(String::as_str).collect());
        assert!(all.len() > 1);
        assert!(all.iter().all(|expression| expression.len() <= EXPRESSION_BYTES_MAX));
        assert_eq!(all.iter().map(|expression| expression.matches('|').count() + 1).sum::<usize>(), 10_000);
    }
}
