//! Reads `Cargo.toml` and `.cargo/config.toml` as far as planning needs them: workspace roots, packages, test binaries
//! without a harness, and the project's own runner.

use super::binary_names::Binary;
use crate::contract::FileTree;
use crate::contract::{Project, innermost_project};
use crate::parsing::workspace_paths::{ancestors, is_within, join};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Directories whose manifests are test material or third-party code.
const IGNORED_DIRS: [&str; 4] = ["fixtures", "target", "testdata", "vendor"];

/// The parts of a `Cargo.toml` that are read.
#[derive(Debug, Default, Deserialize)]
struct Manifest {
    package: Option<PackageTable>,
    workspace: Option<WorkspaceTable>,
    #[serde(default)]
    lib: TargetTable,
    #[serde(default)]
    bin: Vec<TargetTable>,
    #[serde(default)]
    test: Vec<TargetTable>,
    #[serde(default)]
    bench: Vec<TargetTable>,
    #[serde(default)]
    example: Vec<TargetTable>,
}

#[derive(Debug, Default, Deserialize)]
struct PackageTable {
    #[serde(default)]
    name: String,
    metadata: Option<toml::Table>,
    autobins: Option<bool>,
    autotests: Option<bool>,
    autobenches: Option<bool>,
    autoexamples: Option<bool>,
}

impl PackageTable {
    /// Kinds of targets for which the package turns automatic discovery off.
    fn named_only(&self) -> Vec<&'static str> {
        let kinds = [
            ("bin", self.autobins),
            ("test", self.autotests),
            ("bench", self.autobenches),
            ("example", self.autoexamples),
        ];
        kinds.into_iter().filter(|(_, auto)| *auto == Some(false)).map(|(kind, _)| kind).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct WorkspaceTable {
    #[serde(default)]
    exclude: Vec<String>,
    default_members: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
struct TargetTable {
    name: Option<String>,
    path: Option<String>,
    harness: Option<bool>,
    test: Option<bool>,
}

impl Manifest {
    fn parse(content: &str) -> Option<Manifest> {
        toml::from_str(content).ok()
    }

    /// Whether it is a `cargo fuzz` package: its targets never end and only run with that tool.
    fn is_for_fuzzing(&self) -> bool {
        let metadata = self.package.as_ref().and_then(|package| package.metadata.as_ref());
        metadata.is_some_and(|metadata| metadata.contains_key("cargo-fuzz"))
    }
}

/// The Cargo workspaces of a tree: manifests that no other one includes. A manifest below a workspace that is not excluded
/// counts as a member; otherwise Cargo itself would refuse it.
pub(crate) fn workspaces(tree: &FileTree) -> Vec<Project> {
    let mut manifests: Vec<(&str, Option<Manifest>)> =
        tree.directories_with("Cargo.toml").map(|(dir, content)| (dir, Manifest::parse(content))).collect();
    manifests.sort_by_key(|(dir, _)| *dir);
    let mut found: Vec<(&str, Option<&Manifest>)> = Vec::new();
    for (dir, manifest) in &manifests {
        let manifest = manifest.as_ref();
        let above = found.iter().rev().find(|(outer, _)| is_within(dir, outer));
        let begins = match above {
            _ if is_ignored(dir) || is_test_material(tree, dir) => false,
            None => true,
            Some(_) if manifest.is_some_and(Manifest::is_for_fuzzing) => false,
            Some((outer, includes)) => {
                let workspace = includes.and_then(|includes| includes.workspace.as_ref());
                let is_excluded = |workspace: &WorkspaceTable| {
                    workspace.exclude.iter().any(|excluded| is_within(dir, &join(outer, excluded)))
                };
                manifest.is_some_and(|manifest| manifest.workspace.is_some()) || workspace.is_none_or(is_excluded)
            }
        };
        if begins {
            found.push((dir, manifest));
        }
    }
    found
        .into_iter()
        .map(|(dir, manifest)| {
            let name = manifest.and_then(|manifest| manifest.package.as_ref()).map(|package| package.name.clone());
            let last = dir.rsplit('/').next().unwrap_or_default();
            let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| last.to_owned());
            Project { dir: dir.to_owned(), name }
        })
        .collect()
}

fn is_ignored(dir: &str) -> bool {
    dir.split('/').any(|part| part.starts_with('.') || IGNORED_DIRS.contains(&part))
}

/// Whether the directory lies in the `tests` directory of a package above.
fn is_test_material(tree: &FileTree, dir: &str) -> bool {
    let above = dir.match_indices("tests").filter(|(at, part)| dir[at + part.len()..].starts_with('/'));
    above.filter_map(|(at, _)| dir.get(..at)).any(|above| tree.content(&join(above, "Cargo.toml")).is_some())
}

/// A package of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CargoPackage {
    pub(super) name: String,
    /// Directory, relative to the workspace of the session.
    pub(super) dir: String,
    /// Names of the test binaries without libtest's harness, as Cargo writes them before the hash.
    pub(super) plain: Vec<String>,
    /// The binaries that the manifest names, other than the library, with their source if it is given.
    pub(super) named: Vec<(Binary, Option<String>)>,
    /// Kinds of binaries without automatic discovery.
    pub(super) named_only: Vec<&'static str>,
}

/// The binaries of one kind that the manifest in `dir` names.
fn named_binaries(dir: &str, kind: &str, targets: &[TargetTable]) -> Vec<(Binary, Option<String>)> {
    let path = |target: &TargetTable| target.path.as_ref().map(|path| join(dir, path));
    targets.iter().filter_map(|target| Some((Binary::from_target(kind, target.name.as_ref()?), path(target)))).collect()
}

/// Names of the binaries without libtest's harness, as Cargo writes them before the hash. With each target comes whether Cargo
/// tests it if its manifest does not say so. Any other one runs only where it is named, as a benchmark with the library's name
/// does, so it leaves the library's tests their harness.
fn plain_binaries(targets: impl Iterator<Item = (bool, TargetTable)>) -> Vec<String> {
    let named = targets.filter_map(|(is_tested, target)| {
        let name = target.name?.replace('-', "_");
        Some((name, target.test.unwrap_or(is_tested), target.harness == Some(false)))
    });
    let (plain, harnessed): (Vec<_>, Vec<_>) = named.partition(|(_, _, is_plain)| *is_plain);
    let is_harnessed = |name: &str| harnessed.iter().any(|(other, is_tested, _)| *is_tested && other == name);
    plain.into_iter().filter(|(name, is_tested, _)| *is_tested || !is_harnessed(name)).map(|(name, ..)| name).collect()
}

/// The packages of a Cargo workspace, by directory.
pub(super) fn packages(projects: &[Project], tree: &FileTree, project: &Project) -> Vec<CargoPackage> {
    let within = |dir: &str| innermost_project(projects, dir).is_some_and(|owner| owner.dir == project.dir);
    let mut packages: Vec<CargoPackage> = tree
        .directories_with("Cargo.toml")
        .filter(|(dir, _)| within(dir))
        .filter_map(|(dir, content)| {
            let Manifest { package, lib, bin, test, bench, example, .. } = Manifest::parse(content)?;
            let package = package.filter(|package| !package.name.is_empty())?;
            let kinds = [("bin", &bin), ("test", &test), ("bench", &bench), ("example", &example)];
            let named = kinds.into_iter().flat_map(|(kind, targets)| named_binaries(dir, kind, targets)).collect();
            let named_only = package.named_only();
            let lib = TargetTable { name: lib.name.or_else(|| Some(package.name.clone())), ..lib };
            let tested = [lib].into_iter().chain(bin).chain(test).map(|target| (true, target));
            let others = bench.into_iter().chain(example).map(|target| (false, target));
            let plain = plain_binaries(tested.chain(others));
            Some(CargoPackage { name: package.name, dir: dir.to_owned(), plain, named, named_only })
        })
        .collect();
    packages.sort_by(|a, b| a.dir.cmp(&b.dir));
    packages
}

/// Whether a plain `cargo test` in the project's directory would leave out members although the manifest does not say so.
pub(super) fn wants_all_members(tree: &FileTree, project: &Project) -> bool {
    let manifest = tree.content(&join(&project.dir, "Cargo.toml")).and_then(Manifest::parse).unwrap_or_default();
    manifest.workspace.is_some_and(|workspace| workspace.default_members.is_none())
}

#[derive(Debug, Default, Deserialize)]
struct Config {
    #[serde(default)]
    target: BTreeMap<String, TargetConfig>,
    #[serde(default)]
    build: BuildConfig,
}

#[derive(Debug, Default, Deserialize)]
struct BuildConfig {
    #[serde(rename = "rustc-workspace-wrapper")]
    workspace_wrapper: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
struct TargetConfig {
    runner: Option<CommandWords>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum CommandWords {
    Text(String),
    List(Vec<String>),
}

/// The runner that the project's own configuration sets for this host's tests, as command-line words, and the target or
/// condition that it is set for. Cargo reads the files of all directories above; the nearest wins.
pub(super) fn own_runner(tree: &FileTree, project: &Project, workspace: &str) -> Option<(String, Vec<String>)> {
    let mut dir = project.dir.as_str();
    loop {
        for config in configs_of(tree, dir) {
            let mut runners = config.target.into_iter().filter(|(target, _)| matches_host(target));
            if let Some((target, runner)) = runners.find_map(|(target, config)| Some((target, config.runner?))) {
                let mut words = match runner {
                    CommandWords::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
                    CommandWords::List(list) => list,
                };
                // As in Cargo, a path is relative to the directory that contains `.cargo`.
                if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
                    let is_absolute = program.starts_with('/');
                    *program =
                        if is_absolute { program.clone() } else { format!("{workspace}/{}", join(dir, program)) };
                }
                return Some((target, words)).filter(|(_, words)| !words.is_empty());
            }
        }
        if dir.is_empty() {
            return None;
        }
        dir = dir.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// Cargo's settings in one directory. The name without an ending is the older one.
fn configs_of<'t>(tree: &'t FileTree, dir: &'t str) -> impl Iterator<Item = Config> + 't {
    let contents =
        [".cargo/config.toml", ".cargo/config"].into_iter().filter_map(move |name| tree.content(&join(dir, name)));
    contents.filter_map(|content| toml::from_str(content).ok())
}

/// Whether Cargo's own settings for `dir` name a program that stands before rustc for the packages of the workspace.
pub(super) fn own_wrapper(tree: &FileTree, dir: &str) -> bool {
    ancestors(dir).flat_map(|dir| configs_of(tree, dir)).any(|config| config.build.workspace_wrapper.is_some())
}

/// Whether a target, or a condition of the usual kinds, matches this host.
fn matches_host(target: &str) -> bool {
    let condition: String = target.chars().filter(|character| !character.is_whitespace()).collect();
    match condition.strip_prefix("cfg(").and_then(|rest| rest.strip_suffix(')')) {
        Some(condition) => matches!(condition, "all()" | "unix" | "target_os=\"linux\"" | "target_family=\"unix\""),
        None => target.starts_with(std::env::consts::ARCH) && target.contains("-linux-"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_wrapper_of_the_workspace_in_both_names_of_cargos_settings() {
        let settings = "[build]\nrustc-workspace-wrapper = 'wrap'\n";
        for (path, dir, expected) in [
            (".cargo/config.toml", "a", true),
            (".cargo/config", "a", true),
            ("a/.cargo/config", "a", true),
            ("b/.cargo/config", "a", false),
        ] {
            assert_eq!(own_wrapper(&FileTree::with_contents(&[(path, settings)]), dir), expected, "{path}");
        }
    }

    #[test]
    fn a_workspace_includes_the_packages_below_it_unless_excluded() {
        let tree = FileTree::with_contents(&[
            ("Cargo.toml", "[workspace]\nmembers = ['crates/*']\nexclude = ['tools']\n[package]\nname = 'root'\n"),
            ("crates/a/Cargo.toml", "[package]\nname = 'a'\n[[test]]\nname = 'ui-tests'\nharness = false\n"),
            ("crates/a/tests/ui/Cargo.toml", "[workspace]\n[package]\nname = 'ui'\n"),
            ("fuzz/Cargo.toml", "[workspace]\n[package]\nname = 'f'\n[package.metadata]\ncargo-fuzz = true\n"),
            ("own/Cargo.toml", "[workspace]\n[package]\nname = 'own'\n"),
            ("tools/gen/Cargo.toml", "[package]\nname = 'gen'\n[lib]\nharness = false\n"),
            ("vendor/x/Cargo.toml", "[package]\nname = 'x'\n"),
            (".hidden/Cargo.toml", "[package]\nname = 'y'\n"),
        ]);
        let projects = workspaces(&tree);
        let found: Vec<(&str, &str)> =
            projects.iter().map(|project| (project.dir.as_str(), project.name.as_str())).collect();
        assert_eq!(found, [("", "root"), ("own", "own"), ("tools/gen", "gen")]);
        assert!(wants_all_members(&tree, &projects[0]) && !wants_all_members(&tree, &projects[2]));
        let packages = |project: &Project| packages(&projects, &tree, project);
        let plain = |package: &CargoPackage| package.plain.join(",");
        let of_root: Vec<String> =
            packages(&projects[0]).iter().map(|package| format!("{}:{}", package.name, plain(package))).collect();
        assert!(of_root.contains(&"a:ui_tests".to_owned()), "{of_root:?}");
        assert_eq!(plain(&packages(&projects[2])[0]), "gen");
    }

    #[test]
    fn a_benchmark_with_the_name_of_a_library_leaves_its_tests_their_harness() {
        for (targets, expected) in [
            ("[[bench]]\nname = 'x'\nharness = false\n", ""),
            ("[[bench]]\nname = 'x'\nharness = false\ntest = true\n", "x"),
            // Runs where it is named, as by its file.
            ("[[bench]]\nname = 'speed'\nharness = false\n", "speed"),
            ("[lib]\nharness = false\n[[bench]]\nname = 'x'\nharness = false\n", "x,x"),
            ("[[example]]\nname = 'e-f'\nharness = false\n[[bin]]\nname = 'e_f'\n", ""),
            ("[[test]]\nname = 't'\nharness = false\n", "t"),
        ] {
            let tree = FileTree::with_contents(&[("Cargo.toml", &format!("[package]\nname = 'x'\n{targets}"))]);
            let projects = workspaces(&tree);
            assert_eq!(packages(&projects, &tree, &projects[0])[0].plain.join(","), expected, "{targets}");
        }
    }

    #[test]
    fn projects_without_a_common_root_are_separate() {
        let tree =
            FileTree::with_contents(&[("b/Cargo.toml", "broken ["), ("a/Cargo.toml", "[package]\nname = 'x'\n")]);
        let found: Vec<(String, String)> =
            workspaces(&tree).into_iter().map(|project| (project.dir, project.name)).collect();
        assert_eq!(found, [("a".to_owned(), "x".to_owned()), ("b".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn finds_the_projects_own_runner_above_it() {
        let here = format!("[target.{}-unknown-linux-gnu]\nrunner = ['tools/run', '--fast']\n", std::env::consts::ARCH);
        let tree = FileTree::with_contents(&[
            (".cargo/config.toml", &here),
            ("a/.cargo/config.toml", "[target.wasm32-wasip1]\nrunner = 'wasmtime'\n"),
            ("b/.cargo/config.toml", "[target.'cfg(unix)']\nrunner = 'nice -n 5'\n"),
        ]);
        let runner_of = |dir: &str| {
            let project = Project { dir: dir.to_owned(), name: String::new() };
            own_runner(&tree, &project, "/ws").map(|(_, words)| words.join(" "))
        };
        assert_eq!(runner_of("a").unwrap(), "/ws/tools/run --fast");
        assert_eq!(runner_of("b").unwrap(), "nice -n 5");
    }
}
