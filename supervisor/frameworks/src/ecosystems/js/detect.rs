//! Finds the projects of each runner: the test script decides if it names a runner, then configuration files, then dependencies.
//!
//! Jest and Vitest find tests below their root by pattern, so a directory with a script or configuration of its own covers every
//! directory below it. Mocha and `node --test` do not: for them each package is a project.

use super::package_json::PackageJson;
use super::runner::JsRunner;
use super::shell_command::{Purpose, ShellCommand};
use super::test_script::{Invocation, delegates, find_runners, is_unset, shell_commands};
use crate::contract::FileTree;
use crate::contract::Project;
use crate::parsing::workspace_paths::{ancestors, join};
use proctor_core::human_units::first_names;
use std::collections::BTreeSet;

/// Name of a package's manifest.
const MANIFEST: &str = "package.json";

/// Files whose content detection reads.
pub(crate) const MARKERS: &[&str] = &["package.json"];

/// The script that `npm test` runs.
const TEST_SCRIPT: &str = "test";

/// Most commands of a script that one note names.
const COMMANDS_NAMED_MAX: usize = 8;

/// Longest script that an error quotes, in bytes.
const SCRIPT_QUOTED_BYTES_MAX: usize = 200;

/// Extensions of configuration files in JavaScript and TypeScript.
const CONFIG_EXTENSIONS: [&str; 6] = ["js", "cjs", "mjs", "ts", "cts", "mts"];

/// Packages with runners that are not a [`JsRunner`]. A project that depends on one is no project of `node --test`.
const OTHER_RUNNER_PACKAGES: [&str; 16] = [
    "@japa/runner",
    "@open-wc/testing",
    "@playwright/test",
    "@web/test-runner",
    "ava",
    "cypress",
    "jasmine",
    "karma",
    "lab",
    "qunit",
    "react-scripts",
    "tap",
    "tape",
    "testcafe",
    "uvu",
    "zora",
];

/// Why a directory is a project of a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// Its script or configuration.
    Own,
    /// Its dependencies only.
    Inherited,
}

/// The projects of `runner`, sorted by directory.
pub(crate) fn projects(tree: &FileTree, runner: JsRunner) -> Vec<Project> {
    projects_among(&claims(tree, runner), runner)
}

/// A directory that may be a project of a runner, with its manifest and the reason.
type Claimed<'a> = (&'a str, PackageJson, Claim);

fn projects_among(claims: &[Claimed<'_>], runner: JsRunner) -> Vec<Project> {
    let markers = runner.markers();
    let all: BTreeSet<&str> = claims.iter().map(|(dir, ..)| *dir).collect();
    let own: BTreeSet<&str> = claims.iter().filter(|(.., claim)| *claim == Claim::Own).map(|(dir, ..)| *dir).collect();
    let is_covered = |dir: &str| ancestors(dir).skip(1).any(|above| own.contains(above));
    let is_overridden = |dir: &str| has_below(&all, dir);
    let mut projects: Vec<Project> = claims
        .iter()
        .filter(|(dir, _, claim)| match claim {
            Claim::Own => !markers.covers_below || !is_covered(dir),
            Claim::Inherited => !(is_overridden(dir) || markers.covers_below && is_covered(dir)),
        })
        .map(|(dir, manifest, _)| Project { dir: (*dir).to_owned(), name: name(manifest, dir) })
        .collect();
    projects.sort();
    projects
}

/// Whether one of `paths` is below the directory `dir`.
fn has_below(paths: &BTreeSet<&str>, dir: &str) -> bool {
    if dir.is_empty() {
        return paths.last().is_some_and(|last| !last.is_empty());
    }
    let below = format!("{dir}/");
    paths.range(below.as_str()..).next().is_some_and(|first| first.starts_with(&below))
}

/// The name of a package, or of its directory.
fn name(manifest: &PackageJson, dir: &str) -> String {
    manifest.name.clone().unwrap_or_else(|| dir.rsplit('/').next().unwrap_or_default().to_owned())
}

fn claims(tree: &FileTree, runner: JsRunner) -> Vec<Claimed<'_>> {
    let of = |(dir, manifest)| claim(tree, dir, &manifest, runner).map(|claim| (dir, manifest, claim));
    manifests(tree).filter_map(of).collect()
}

/// Every invocation of `runner` in the first script that starts it: the project's test script, or the first of `names`. Empty if
/// none does.
pub(super) fn runner_invocations(tree: &FileTree, dir: &str, runner: JsRunner, names: &[&str]) -> Vec<Invocation> {
    let Some(manifest) = manifest(tree, dir) else { return Vec::new() };
    let mut all = [TEST_SCRIPT].iter().chain(names);
    all.find_map(|name| find_runners(&manifest.scripts, name).remove(&runner)).unwrap_or_default()
}

/// Notes about commands of the test script that are no tests and were not run.
pub(crate) fn skipped_command_notes(tree: &FileTree, dir: &str) -> Vec<String> {
    let Some(PackageJson { scripts, .. }) = manifest(tree, dir) else { return Vec::new() };
    let commands = if delegates(&scripts, TEST_SCRIPT) { Vec::new() } else { shell_commands(&scripts, TEST_SCRIPT) };
    let list = |purpose| {
        let all = commands.iter().filter(|command| command.purpose == purpose);
        let named = first_names(all.map(|command| format!("`{}`", command.text)), COMMANDS_NAMED_MAX);
        (!named.is_empty()).then_some(named)
    };
    let checks = list(Purpose::Check).map(|commands| format!("checks of the test script were not run: {commands}"));
    let builds = list(Purpose::Build).map(|commands| {
        format!("builds of the test script were not run: {commands} (run them first where tests need what they make)")
    });
    checks.into_iter().chain(builds).collect()
}

/// The commands of the test script in `dir` that may run tests and start no runner with an adapter.
pub(crate) fn shell_test_commands(tree: &FileTree, dir: &str) -> Vec<ShellCommand> {
    let Some(PackageJson { scripts, .. }) = manifest(tree, dir) else { return Vec::new() };
    if is_unset(&scripts, TEST_SCRIPT) || delegates(&scripts, TEST_SCRIPT) {
        return Vec::new();
    }
    shell_commands(&scripts, TEST_SCRIPT).into_iter().filter(|command| command.purpose == Purpose::Tests).collect()
}

/// The directories whose test scripts have such commands, as projects.
pub(crate) fn shell_projects(tree: &FileTree) -> Vec<Project> {
    let of = |(dir, manifest): (&str, PackageJson)| {
        (!shell_test_commands(tree, dir).is_empty())
            .then(|| Project { dir: dir.to_owned(), name: name(&manifest, dir) })
    };
    let mut projects: Vec<Project> = manifests(tree).filter_map(of).collect();
    projects.sort();
    projects
}

/// Packages that run Jest through a program of their own.
const JEST_WRAPPER_PACKAGES: &[&str] = &["@craco/craco", "@wordpress/scripts", "react-app-rewired", "react-scripts"];

/// Whether a command of the test script in `dir` may start a runner that can load proctor's reporter through `NODE_OPTIONS`: the
/// package or one around it depends on such a runner.
pub(crate) fn may_start_reported_runner(tree: &FileTree, dir: &str) -> bool {
    let packages = [JsRunner::Mocha.markers().packages, JsRunner::Jest.markers().packages, JEST_WRAPPER_PACKAGES];
    let mut around = ancestors(dir).filter_map(|of| manifest(tree, of));
    around.any(|manifest| packages.iter().any(|packages| manifest.depends_on(packages)))
}

/// Path of the manifest in `dir`.
pub(crate) fn package_json_path(dir: &str) -> String {
    join(dir, MANIFEST)
}

/// Whether only the test script in `dir` knows how to run its tests: it starts no runner with an adapter. A runner found by settings
/// or dependencies would lack the script's arguments.
pub(crate) fn is_left_to_test_script(tree: &FileTree, dir: &str) -> bool {
    let starts_none = |manifest: PackageJson| find_runners(&manifest.scripts, TEST_SCRIPT).is_empty();
    manifest(tree, dir).is_some_and(starts_none) && !shell_test_commands(tree, dir).is_empty()
}

/// Whether the test script in `dir` starts this runner.
pub(crate) fn script_starts(tree: &FileTree, dir: &str, runner: JsRunner) -> bool {
    manifest(tree, dir).is_some_and(|manifest| find_runners(&manifest.scripts, TEST_SCRIPT).contains_key(&runner))
}

/// A sentence about the package's main file if it is missing, with the script that builds it (`npm run build`).
pub(crate) fn missing_build_output(tree: &FileTree, dir: &str) -> Option<String> {
    let manifest = manifest(tree, dir)?;
    let script =
        ["build", "compile", "prepare", "prepack"].into_iter().find(|name| manifest.scripts.contains_key(*name))?;
    let main = manifest.main.as_deref()?.trim_start_matches("./");
    let path = join(dir, main);
    let is_there = |end: &&str| tree.contains(&format!("{path}{end}"));
    (!["", ".js", ".cjs", ".mjs", "/index.js"].iter().any(is_there)).then(|| {
        format!("the package's main file {main} is not there: run `npm run {script}` first if tests need what it makes")
    })
}

/// What projects of a runner are recognised by, and what the root's test script is instead.
pub(crate) fn describe_markers(tree: &FileTree, runner: JsRunner) -> String {
    let markers = runner.markers();
    let packages = markers.packages.iter().map(|name| format!("the dependency {name}"));
    let configs = markers.configs.iter().map(|config| format!("{config}*"));
    let program = runner.program();
    let own = if runner == JsRunner::Node { "node --test".to_owned() } else { program.to_owned() };
    let mut describe_markers = vec![format!("a test script of package.json that starts {own}")];
    describe_markers.extend(configs.chain(packages));
    let describe_markers = describe_markers.join(", ");
    let script = manifest(tree, "").and_then(|manifest| manifest.scripts.get(TEST_SCRIPT).cloned());
    match script.filter(|script| script.len() <= SCRIPT_QUOTED_BYTES_MAX) {
        Some(script) => format!("{describe_markers}; that of package.json is `{script}`"),
        None => describe_markers,
    }
}

/// Notes about directories that look like projects of `runner` and are none: one whose own settings are not read because the runner
/// finds its tests from above, and one whose tests do not run because only projects below it do.
pub(super) fn skipped_directory_notes(tree: &FileTree, runner: JsRunner) -> Vec<String> {
    let claims = claims(tree, runner);
    let projects = projects_among(&claims, runner);
    if projects.len() == claims.len() {
        return Vec::new();
    }
    let dirs: BTreeSet<&str> = projects.iter().map(|project| project.dir.as_str()).collect();
    let project_above = |path| ancestors(path).find(|dir| dirs.contains(dir));
    let others = || claims.iter().filter(|(dir, ..)| !dirs.contains(dir));
    let covered = others().filter(|(dir, _, claim)| {
        *claim == Claim::Own && project_above(dir).is_some_and(|above| !is_monorepo(tree, above))
    });
    let left: BTreeSet<&str> =
        tree.files().filter(|file| has_test_name(file) && project_above(file).is_none()).collect();
    let overridden = others().filter(|(dir, ..)| has_below(&left, dir));
    let covered: Vec<&str> = covered.map(|(dir, ..)| *dir).collect();
    let overridden: Vec<&str> = overridden.map(|(dir, ..)| if dir.is_empty() { "." } else { dir }).collect();
    let name = runner.program();
    let note = |dirs: Vec<&str>, what: &str| (!dirs.is_empty()).then(|| format!("{name} {what}: {}", dirs.join(", ")));
    let covered =
        note(covered, "ran from above these directories, which have a script or settings of their own for it");
    let overridden = note(
        overridden,
        "did not run the tests of these directories, which only depend on it and have projects of it below",
    );
    covered.into_iter().chain(overridden).collect()
}

/// Whether `dir` is the root of a workspace, or of Jest's `projects`, which decides how the packages below are tested.
pub(crate) fn is_monorepo(tree: &FileTree, dir: &str) -> bool {
    let has = |name: &str| tree.contains(&join(dir, name));
    let is_workspace =
        |manifest: PackageJson| manifest.names_projects || manifest.keys.iter().any(|key| key == "workspaces");
    has("pnpm-workspace.yaml") || has("lerna.json") || manifest(tree, dir).is_some_and(is_workspace)
}

/// Whether a file is named as most runners expect of tests.
fn has_test_name(file: &str) -> bool {
    let (dirs, name) = file.rsplit_once('/').unwrap_or(("", file));
    let is_source = name.rsplit_once('.').is_some_and(|(_, ending)| super::EXTENSIONS.contains(&ending));
    is_source
        && is_project_dir(dirs)
        && ([".test.", ".spec."].iter().any(|mark| name.contains(mark))
            || dirs.split('/').any(|dir| dir == "__tests__"))
}

/// Whether `npm test` in `dir` starts this runner, or no runner at all.
pub(crate) fn is_tested_by(tree: &FileTree, dir: &str, runner: JsRunner) -> bool {
    let Some(manifest) = manifest(tree, dir) else { return false };
    let is_named = find_runners(&manifest.scripts, TEST_SCRIPT).contains_key(&runner);
    is_named || JsRunner::UNIT_RUNNERS.into_iter().all(|other| claim(tree, dir, &manifest, other).is_none())
}

fn manifests(tree: &FileTree) -> impl Iterator<Item = (&str, PackageJson)> {
    tree.directories_with(MANIFEST)
        .filter(|(dir, _)| is_project_dir(dir))
        .map(|(dir, content)| (dir, PackageJson::parse(content)))
}

fn manifest(tree: &FileTree, dir: &str) -> Option<PackageJson> {
    tree.content(&join(dir, MANIFEST)).filter(|_| is_project_dir(dir)).map(PackageJson::parse)
}

/// Whether a directory belongs to the project itself, not to an installed package.
fn is_project_dir(dir: &str) -> bool {
    !dir.split('/').any(|part| part == "node_modules")
}

/// Whether and why the directory `dir` is a project of `runner`.
fn claim(tree: &FileTree, dir: &str, manifest: &PackageJson, runner: JsRunner) -> Option<Claim> {
    let named = find_runners(&manifest.scripts, TEST_SCRIPT);
    if named.contains_key(&runner) {
        return Some(Claim::Own);
    }
    if JsRunner::END_TO_END.contains(&runner) {
        return claim_end_to_end(tree, dir, manifest, runner);
    }
    if !named.is_empty() {
        return None;
    }
    let all = || JsRunner::UNIT_RUNNERS.into_iter();
    let hands_on = delegates(&manifest.scripts, TEST_SCRIPT);
    if !hands_on && all().any(|runner| is_configured(tree, dir, manifest, runner)) {
        return is_configured(tree, dir, manifest, runner).then_some(Claim::Own);
    }
    let known =
        |runner: JsRunner| is_configured(tree, dir, manifest, runner) || manifest.depends_on(runner.markers().packages);
    if all().any(known) {
        return known(runner).then_some(Claim::Inherited);
    }
    let is_node_project = runner == JsRunner::Node
        && !manifest.depends_on(&OTHER_RUNNER_PACKAGES)
        && is_unset(&manifest.scripts, TEST_SCRIPT)
        && tree.files_below(dir).any(|file| is_node_test(file, dir) && is_in_package(tree, file, dir));
    is_node_project.then_some(Claim::Own)
}

/// The same for an end-to-end runner that the test script does not start. A script that starts another runner does not rule it out.
fn claim_end_to_end(tree: &FileTree, dir: &str, manifest: &PackageJson, runner: JsRunner) -> Option<Claim> {
    if is_configured(tree, dir, manifest, runner) {
        return Some(Claim::Own);
    }
    let is_installed = manifest.depends_on(runner.markers().packages);
    let is_intended = || match runner {
        JsRunner::Cypress => tree.has_below(&join(dir, "cypress")),
        _ => JsRunner::UNIT_RUNNERS.into_iter().all(|unit| claim(tree, dir, manifest, unit).is_none()),
    };
    (is_installed && is_intended()).then_some(Claim::Inherited)
}

fn is_configured(tree: &FileTree, dir: &str, manifest: &PackageJson, runner: JsRunner) -> bool {
    let markers = runner.markers();
    let in_dir = |name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    let extensions = || CONFIG_EXTENSIONS.iter().chain(markers.extensions);
    let is_there = |config: &str| extensions().any(|extension| tree.contains(&in_dir(&format!("{config}{extension}"))));
    let bare = runner == JsRunner::Mocha && tree.contains(&in_dir(".mocharc"));
    bare || markers.key.is_some_and(|key| manifest.keys.iter().any(|other| other == key))
        || markers.configs.iter().any(|config| is_there(config))
}

/// Whether `dir` is the innermost directory with a manifest above the file.
fn is_in_package(tree: &FileTree, file: &str, dir: &str) -> bool {
    let mut above = file;
    while let Some((parent, _)) = above.rsplit_once('/') {
        if tree.contains(&format!("{parent}/package.json")) {
            return parent == dir;
        }
        above = parent;
    }
    dir.is_empty()
}

/// Whether `node --test` in `dir` treats the file as a test (<https://nodejs.org/api/test.html>, "Running tests from the command
/// line").
fn is_node_test(file: &str, dir: &str) -> bool {
    let Some(path) = file.strip_prefix(dir).map(|path| path.trim_start_matches('/')) else { return false };
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let named = stem == "test"
        || stem.starts_with("test-")
        || [".test", "-test", "_test"].iter().any(|end| stem.ends_with(end));
    ["js", "cjs", "mjs"].contains(&ending) && (named || parents.split('/').any(|part| part == "test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs(files: &[(&str, &str)], runner: JsRunner) -> Vec<String> {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        projects(&tree, runner).into_iter().map(|project| project.dir).collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<JsRunner> {
        JsRunner::UNIT_RUNNERS.into_iter().filter(|runner| !dirs(files, *runner).is_empty()).collect()
    }

    #[test]
    fn a_missing_main_file_names_the_script_that_builds_it() {
        let notes = |manifest: &str, files: &[&str]| {
            let mut tree = FileTree::default();
            tree.add_with_content("package.json", manifest);
            files.iter().for_each(|file| tree.add(*file));
            missing_build_output(&tree, "")
        };
        let immer = r#"{"main":"./dist/cjs/index.js","scripts":{"build":"tsup","test":"vitest"}}"#;
        let note = "the package's main file dist/cjs/index.js is not there: run `npm run build` first if tests need what it makes";
        assert_eq!(notes(immer, &["src/immer.ts"]).unwrap(), note);
        assert_eq!(notes(immer, &["dist/cjs/index.js"]), None);
        assert_eq!(notes(r#"{"main":"lib","scripts":{"build":"x"}}"#, &["lib/index.js"]), None);
        assert_eq!(notes(r#"{"main":"lib","scripts":{"test":"x"}}"#, &[]), None, "nothing makes it");
    }

    #[test]
    fn cypress_is_detected_beside_a_unit_test_runner() {
        let e2e = |script: &str| format!(r#"{{"scripts":{{"test":"{script}"}},"devDependencies":{{"cypress":"14"}}}}"#);
        let tested = |files: &[(&str, &str)]| {
            let mut tree = FileTree::default();
            files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
            (!projects(&tree, JsRunner::Cypress).is_empty(), is_tested_by(&tree, "", JsRunner::Cypress))
        };
        let config = ("cypress.config.ts", "");
        assert_eq!(tested(&[("package.json", &e2e("cypress run"))]), (true, true));
        assert_eq!(found(&[("package.json", &e2e("cypress run")), ("jest.config.js", "")]), []);
        assert_eq!(tested(&[("package.json", &e2e("")), config]), (true, true));
        assert_eq!(tested(&[("package.json", &e2e("jest")), config]), (true, false));
        assert_eq!(found(&[("package.json", &e2e("jest")), config]), [JsRunner::Jest]);
        assert_eq!(tested(&[("package.json", &e2e("jest && cypress run"))]), (true, true));
        assert_eq!(tested(&[("package.json", &e2e("")), ("cypress/e2e/a.cy.js", "")]), (true, true));
        assert_eq!(tested(&[("package.json", &e2e(""))]), (false, true));
        assert_eq!(tested(&[("package.json", "{}"), ("cypress.json", "{}")]), (true, true));
    }

    const BOTH: &str = r#"{"devDependencies":{"jest":"^30","vitest":"^3"}}"#;

    #[test]
    fn the_script_decides_then_configuration_then_dependencies() {
        let script = |script: &str| format!("{{\"scripts\":{{\"test\":{script:?}}},{}", &BOTH[1..]);
        assert_eq!(found(&[("package.json", &script("mocha"))]), [JsRunner::Mocha]);
        assert_eq!(found(&[("package.json", &script("vitest run")), ("jest.config.ts", "")]), [JsRunner::Vitest]);
        assert_eq!(found(&[("package.json", BOTH), ("jest.config.json", "")]), [JsRunner::Jest]);
        assert_eq!(found(&[("package.json", BOTH), ("a/jest.config.js", "")]), [JsRunner::Jest, JsRunner::Vitest]);
        assert_eq!(found(&[("package.json", r#"{"jest":{}}"#), ("a.test.js", "")]), [JsRunner::Jest]);
        assert_eq!(found(&[("package.json", "{}"), (".mocharc.yml", "")]), [JsRunner::Mocha]);
        assert_eq!(found(&[("package.json", "{}"), ("vitest.config.mts", "")]), [JsRunner::Vitest]);
    }

    #[test]
    fn node_has_the_projects_that_no_other_runner_has() {
        for file in ["a.test.js", "test/a.mjs", "src/test/x/a.cjs", "test-a.js", "a_test.cjs", "test.js", "a-test.js"] {
            assert_eq!(found(&[("package.json", "{}"), (file, "")]), [JsRunner::Node], "{file}");
        }
        for file in ["a.js", "a.test.ts", "test/data.json", "latest.js", "b/test.js"] {
            let files = [("package.json", "{}"), ("b/package.json", "{\"scripts\":{\"test\":\"make\"}}"), (file, "")];
            assert!(found(&files).is_empty(), "{file}");
        }
        let other = [("package.json", r#"{"dependencies":{"ava":"1"}}"#), ("test.js", "")];
        assert!(found(&other).is_empty());
        assert!(found(&[("test/a.js", "")]).is_empty(), "without a manifest nothing says that it is a project");
        assert_eq!(found(&[("package.json", r#"{"scripts":{"test":"node --test src"}}"#)]), [JsRunner::Node]);
    }

    #[test]
    fn playwright_is_detected_beside_another_runner() {
        let manifest = r#"{"scripts":{"test":"vitest run"},"devDependencies":{"@playwright/test":"1"}}"#;
        let config = ("playwright.config.mts", "");
        let both = |files: &[(&str, &str)]| (found(files), !dirs(files, JsRunner::Playwright).is_empty());
        assert_eq!(both(&[("package.json", manifest), config]), (vec![JsRunner::Vitest], true));
        assert_eq!(both(&[("package.json", manifest)]), (vec![JsRunner::Vitest], false));
        let unset = r#"{"devDependencies":{"vitest":"3","@playwright/test":"1"}}"#;
        assert_eq!(both(&[("package.json", unset), config]), (vec![JsRunner::Vitest], true));
        assert_eq!(both(&[("package.json", r#"{"dependencies":{"@playwright/test":"1"}}"#)]), (vec![], true));
        for (script, its) in [("vitest run", false), ("vitest run && playwright test", true), ("make", true)] {
            let mut tree = FileTree::default();
            tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":{script:?}}}}}"));
            assert_eq!(is_tested_by(&tree, "", JsRunner::Playwright), its, "{script}");
        }
    }

    #[test]
    fn notes_directories_that_are_skipped() {
        let notes = |files: &[(&str, &str)]| {
            let mut tree = FileTree::default();
            files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
            skipped_directory_notes(&tree, JsRunner::Jest).join("; ")
        };
        let own = r#"{"scripts":{"test":"jest"}}"#;
        let covered = "jest ran from above these directories, which have a script or settings of their own for it: a";
        assert_eq!(notes(&[("package.json", own), ("a/package.json", own)]), covered);
        let linked = r#"{"scripts":{"test":"jest"},"workspaces":["*"]}"#;
        assert_eq!(notes(&[("package.json", linked), ("a/package.json", own)]), "");
        assert_eq!(notes(&[("package.json", own), ("pnpm-workspace.yaml", ""), ("a/package.json", own)]), "");
        let named = r#"{"scripts":{"test":"jest"},"jest":{"projects":["<rootDir>/a"]}}"#;
        assert_eq!(notes(&[("package.json", named), ("a/package.json", own)]), "");
        let overridden =
            "jest did not run the tests of these directories, which only depend on it and have projects of it below: .";
        let below = [("package.json", BOTH), ("a/package.json", own), ("a/x.test.js", "")];
        assert_eq!(notes(&below), "");
        assert_eq!(notes(&[&below[..], &[("src/y.test.ts", "")]].concat()), overridden);
        assert_eq!(notes(&[&below[..], &[("src/__tests__/y.js", ""), ("b.spec.css", "")]].concat()), overridden);
        assert_eq!(notes(&[("package.json", BOTH), ("src/y.test.ts", "")]), "");
    }

    #[test]
    fn finds_each_of_many_packages() {
        let mut tree = FileTree::default();
        for number in 0..300 {
            let (manifest, file) = match number % 3 {
                0 => ("{}", "x.js"),
                1 => (r#"{"dependencies":{"cypress":"1"}}"#, "cypress/x.cy.js"),
                _ => (r#"{"dependencies":{"jest":"1"}}"#, "x.test.js"),
            };
            tree.add_with_content(format!("p{number}/package.json"), manifest);
            tree.add(format!("p{number}/{file}"));
        }
        tree.add_with_content("p2/p/package.json", r#"{"scripts":{"test":"jest"}}"#);
        for (runner, found) in [(JsRunner::Jest, 100), (JsRunner::Cypress, 100), (JsRunner::Node, 0)] {
            assert_eq!(projects(&tree, runner).len(), found, "{runner:?}");
            assert_eq!(
                skipped_directory_notes(&tree, runner).len(),
                usize::from(runner == JsRunner::Jest),
                "{runner:?}"
            );
        }
    }

    #[test]
    fn a_root_covers_the_tests_that_its_runner_finds() {
        let own = r#"{"scripts":{"test":"jest"}}"#;
        assert_eq!(dirs(&[("package.json", own), ("a/package.json", own)], JsRunner::Jest), [""]);
        assert_eq!(
            dirs(&[("package.json", BOTH), ("a/package.json", own), ("b/package.json", own)], JsRunner::Jest),
            ["a", "b"]
        );
        let handing_on = r#"{"scripts":{"test":"npm test --workspaces"},"devDependencies":{"jest":"1"}}"#;
        let files = [("package.json", handing_on), ("jest.config.js", ""), ("a/package.json", own)];
        assert_eq!(dirs(&files, JsRunner::Jest), ["a"]);
        let mocha = r#"{"scripts":{"test":"mocha"}}"#;
        assert_eq!(dirs(&[("package.json", mocha), ("a/package.json", mocha)], JsRunner::Mocha), ["", "a"]);
        assert_eq!(dirs(&[("node_modules/a/package.json", own)], JsRunner::Jest), [""; 0]);
    }
}
