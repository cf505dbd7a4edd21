//! Turns a request's selection into groups of targets with the names to run in them, for both runners.

use super::binary_names::{Binary, DOCTEST_LINE, NODE_ID_SEPARATOR};
use super::manifest::{CargoPackage, packages};
use crate::contract::{FileTree, PlanError, Project, TestSelection, owner_of, split_node_id};
use crate::parsing::workspace_paths::{is_within, join};
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};

/// Most commands of one run, as for other frameworks.
const STEPS_MAX: usize = 256;

/// Longest list of names in one command, in bytes. An argument list is limited to a few MB in all.
const NAMES_BYTES_MAX: usize = 256 * 1024;

/// Targets and tests of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetGroup<'a> {
    pub(super) project: &'a Project,
    /// The package; `None` for all packages of the project.
    pub(super) package: Option<String>,
    /// The binaries of the package; empty for all.
    pub(super) binaries: Vec<Binary>,
    /// Which of their tests.
    pub(super) names: NameSelection,
}

/// Selection of tests within binaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameSelection {
    /// All tests.
    All,
    /// Tests whose name contains one of these parts.
    Containing(Vec<String>),
    /// Tests with these names.
    Exactly(Vec<String>),
}

/// The groups of a selection, in the order of projects and packages.
pub(super) fn groups<'a>(
    framework: &'static str,
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<Vec<TargetGroup<'a>>, PlanError> {
    let names = |filter: Option<&Filter>| {
        filter.map_or(NameSelection::All, |filter| NameSelection::Containing(vec![filter.as_str().to_owned()]))
    };
    let groups = match TestSelection::new(selection) {
        TestSelection::Everything { filter } => whole_projects(projects, &names(filter)),
        TestSelection::Files { files, filter } => groups_of_files(framework, projects, tree, files, &names(filter))?,
        TestSelection::Targets(targets) => groups_of_targets(projects, tree, targets),
    };
    if groups.len() > STEPS_MAX {
        return Err(PlanError::TooManySteps { steps: groups.len(), max: STEPS_MAX });
    }
    Ok(groups)
}

/// Whether one of the projects has the package of this binary.
pub(super) fn owns_binary(projects: &[Project], tree: &FileTree, binary: &str) -> bool {
    known_packages(projects, tree).contains_key(Binary::parse(binary).map_or("", |(package, _)| package))
}

/// The tests with these names. A node id is a binary, [`NODE_ID_SEPARATOR`] and a path. A binary alone is no name: it could be a path.
pub(super) fn resolve_names(projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
    let known = known_packages(projects, tree);
    let is_binary = |id: &str| Binary::parse(id).is_some_and(|(package, _)| known.contains_key(package));
    let resolve = |name: &TestName| {
        split_node_id(name, NODE_ID_SEPARATOR, is_binary).unwrap_or_else(|| RerunTarget::Name(name.as_str().to_owned()))
    };
    names.iter().map(resolve).collect()
}

/// The projects by the names of their packages, with the programs of each that have no harness.
fn known_packages<'a>(projects: &'a [Project], tree: &FileTree) -> BTreeMap<String, (&'a Project, Vec<String>)> {
    let of = |project| {
        packages(projects, tree, project).into_iter().map(move |package| (package.name, (project, package.plain)))
    };
    projects.iter().flat_map(of).collect()
}

fn whole_projects<'a>(projects: &'a [Project], names: &NameSelection) -> Vec<TargetGroup<'a>> {
    let group = |project| TargetGroup { project, package: None, binaries: Vec::new(), names: names.clone() };
    projects.iter().map(group).collect()
}

fn groups_of_files<'a>(
    framework: &'static str,
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
    names: &NameSelection,
) -> Result<Vec<TargetGroup<'a>>, PlanError> {
    // `None` for all packages of the project, `None` for all binaries of the package.
    let mut chosen: BTreeMap<(&Project, Option<String>), Option<BTreeSet<Binary>>> = BTreeMap::new();
    for file in files {
        let (path, project) = owner_of(framework, projects, file)?;
        let packages = packages(projects, tree, project);
        let owner =
            packages.iter().filter(|package| is_within(&path, &package.dir)).max_by_key(|package| package.dir.len());
        // A directory selects the packages below it; a file in no package (the lock file, a shared fixture) selects all.
        let is_directory_of_several =
            packages.iter().filter(|package| is_within(&package.dir, &path) && package.dir != path).count() > 0;
        let all = (project, None);
        match owner.filter(|_| !is_directory_of_several) {
            None => _ = chosen.insert(all, None),
            Some(package) => {
                let binaries =
                    chosen.entry((project, Some(package.name.clone()))).or_insert_with(|| Some(BTreeSet::new()));
                match (binary_of_source(package, &path, tree), binaries.as_mut()) {
                    (Some(binary), Some(binaries)) => _ = binaries.insert(binary),
                    (None, _) => *binaries = None,
                    (Some(_), None) => {}
                }
            }
        }
    }
    let everything: BTreeSet<&Project> =
        chosen.keys().filter(|(_, package)| package.is_none()).map(|(project, _)| *project).collect();
    Ok(chosen
        .iter()
        .filter(|((project, package), _)| package.is_none() || !everything.contains(project))
        .map(|((project, package), binaries)| TargetGroup {
            project,
            package: package.clone(),
            binaries: binaries.iter().flatten().cloned().collect(),
            names: names.clone(),
        })
        .collect())
}

/// The one binary that a source file belongs to; `None` when others use it too: a library's tests are its package's, and so
/// are those of `src/main.rs`, which may be the package's only program.
fn binary_of_source(package: &CargoPackage, path: &str, tree: &FileTree) -> Option<Binary> {
    if path == join(&package.dir, "src/main.rs") {
        return None;
    }
    named_binary(package, path).or_else(|| inferred_binary(package, path, tree))
}

/// The binary that the manifest builds from this source.
fn named_binary(package: &CargoPackage, path: &str) -> Option<Binary> {
    let found = package.named.iter().find(|(_, source)| source.as_deref() == Some(path));
    found.map(|(binary, _)| binary.clone())
}

/// The binary that Cargo infers from the path of a source.
fn inferred_binary(package: &CargoPackage, path: &str, tree: &FileTree) -> Option<Binary> {
    let within = if package.dir.is_empty() { path } else { path.strip_prefix(&package.dir)?.trim_start_matches('/') };
    let (kind, rest) = [("tests/", "test"), ("src/bin/", "bin"), ("examples/", "example"), ("benches/", "bench")]
        .into_iter()
        .find_map(|(dir, kind)| Some((kind, within.strip_prefix(dir)?)))?;
    let name = match rest.split_once('/') {
        None => rest.strip_suffix(".rs")?,
        // A directory is a binary if it has a `main.rs`, else a module that several binaries share.
        Some((name, _)) => {
            let main = format!("{}/main.rs", &path[..path.len() - rest.len() + name.len()]);
            if let Some(binary) = named_binary(package, &main) {
                return Some(binary);
            }
            tree.contains(&main).then_some(name)?
        }
    };
    let binary = Binary::from_target(kind, name);
    let is_one = !package.named_only.contains(&kind) || package.named.contains(&(binary.clone(), None));
    is_one.then_some(binary)
}

/// Groups for exactly these binaries and tests. A target outside the workspace's packages (a dependency that does not
/// compile, an invented name) can show anywhere, so everything runs then.
fn groups_of_targets<'a>(projects: &'a [Project], tree: &FileTree, targets: &[RerunTarget]) -> Vec<TargetGroup<'a>> {
    let known = known_packages(projects, tree);
    // Key `None` selects the whole package, the empty name all tests of the binary.
    type BinarySelection<'a> = BTreeMap<Option<Binary>, BTreeSet<&'a str>>;
    let mut chosen: BTreeMap<(&Project, String), BinarySelection<'_>> = BTreeMap::new();
    let mut in_any_binary: BTreeSet<&str> = BTreeSet::new();
    for target in targets {
        let (id, name) = match target {
            RerunTarget::Package(package) => (package.as_str(), None),
            RerunTarget::Test(test) => (test.package.as_str(), Some(test.name.as_str())),
            RerunTarget::Name(name) => {
                in_any_binary.insert(name);
                continue;
            }
        };
        let Some((package, binary)) = Binary::parse(id) else { return whole_projects(projects, &NameSelection::All) };
        let Some((project, plain)) = known.get(package) else { return whole_projects(projects, &NameSelection::All) };
        // libtest would read a leading dash as an option, and a program without a harness is one test as a whole.
        let is_name = |name: &&str| !name.starts_with('-') && !plain.contains(&name.replace('-', "_"));
        let tests = name.filter(is_name).unwrap_or_default();
        // A library that does not compile breaks every binary of its package.
        let binary = Some(binary).filter(|binary| name.is_some() || *binary != Binary::Lib);
        chosen.entry((project, package.to_owned())).or_default().entry(binary).or_default().insert(tests);
    }
    let mut groups = groups_of_names(projects, &in_any_binary);
    for ((project, package), binaries) in chosen {
        let all = binaries.contains_key(&None);
        for (binary, names) in binaries.into_iter().filter(|(binary, _)| !all || binary.is_none()) {
            let names: Vec<NameSelection> = if names.contains("") || binary.is_none() {
                vec![NameSelection::All]
            } else if binary == Some(Binary::Doctests) {
                doctest_items(&names)
            } else {
                split_long(&names, NameSelection::Exactly)
            };
            groups.extend(names.into_iter().map(|names| TargetGroup {
                project,
                package: Some(package.clone()),
                binaries: binary.iter().cloned().collect(),
                names,
            }));
        }
    }
    groups
}

/// Groups for the tests of these names in any binary. Only doctests have a blank in their names.
fn groups_of_names<'a>(projects: &'a [Project], names: &BTreeSet<&str>) -> Vec<TargetGroup<'a>> {
    // libtest would read a leading dash as an option, and no path begins with one.
    let names = names.iter().copied().filter(|name| !name.starts_with('-'));
    let (doctests, tests): (BTreeSet<&str>, BTreeSet<&str>) = names.partition(|name| name.contains(DOCTEST_LINE));
    let group = |names: NameSelection, binaries: Vec<Binary>| {
        let group =
            move |project| TargetGroup { project, package: None, binaries: binaries.clone(), names: names.clone() };
        projects.iter().map(group).collect::<Vec<_>>()
    };
    let of_tests = if tests.is_empty() { Vec::new() } else { split_long(&tests, NameSelection::Exactly) };
    let of_doctests = if doctests.is_empty() { Vec::new() } else { doctest_items(&doctests) };
    let of_tests = of_tests.into_iter().flat_map(|names| group(names, Vec::new()));
    of_tests.chain(of_doctests.into_iter().flat_map(|names| group(names, vec![Binary::Doctests]))).collect()
}

/// Selects doctests by item. A doctest's name contains its line, which edits above it change, and rustdoc reads each word of
/// a name as a name of its own: so all doctests of the item run, or all of the file for a doctest without an item.
fn doctest_items(names: &BTreeSet<&str>) -> Vec<NameSelection> {
    let item = |name: &&'_ str| -> String {
        let (file, rest) = name.split_once(" - ").unwrap_or((name, ""));
        let item = rest.split(DOCTEST_LINE).next().unwrap_or_default();
        if item.is_empty() || item.contains(' ') { file.to_owned() } else { item.to_owned() }
    };
    let items: BTreeSet<String> = names.iter().map(item).collect();
    split_long(&items.iter().map(String::as_str).collect(), NameSelection::Containing)
}

fn split_long(names: &BTreeSet<&str>, list: fn(Vec<String>) -> NameSelection) -> Vec<NameSelection> {
    let mut lists: Vec<Vec<String>> = vec![Vec::new()];
    let mut bytes = 0;
    for name in names {
        bytes += name.len() + 1;
        if bytes > NAMES_BYTES_MAX {
            bytes = name.len() + 1;
            lists.push(Vec::new());
        }
        if let Some(list) = lists.last_mut() {
            list.push((*name).to_owned());
        }
    }
    lists.into_iter().map(list).collect()
}
