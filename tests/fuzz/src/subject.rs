//! Parsers under test: one for every framework, selected by name, and one for custom commands.

use proctor_core::isolation::Network;
use proctor_core::request::{CoverageMode, Selection};
use proctor_frameworks::{FRAMEWORKS, FileTree, Framework, Parser, Plan, PlanRequest, runners::custom};

/// Environment variable that selects the framework: one process and one corpus per framework, since inputs of one are
/// useless for another.
pub const FRAMEWORK_VARIABLE: &str = "PROCTOR_FUZZ";

/// Workspace directory of the replayed runs.
pub const WORKSPACE: &str = "/workspace";

/// Names of all parsers.
pub fn names() -> impl Iterator<Item = &'static str> {
    FRAMEWORKS.iter().map(|framework| framework.name()).chain([custom::NAME])
}

/// A request for these tests.
pub fn want(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest {
        selection,
        coverage: CoverageMode::Auto,
        parallel: None,
        network: Network::None,
        workspace: WORKSPACE,
        scratch: "/scratch",
        cache: "/cache",
        nonce: "n",
    }
}

/// Returns the framework with this name.
pub fn framework(name: &str) -> Option<&'static dyn Framework> {
    FRAMEWORKS.iter().copied().find(|framework| framework.name() == name)
}

/// Files by which frameworks detect their projects. Frameworks that share test files need different trees.
const FILES: &[(&str, &str)] = &[
    ("go.mod", "module example.com/x\n"),
    ("Cargo.toml", "[package]\nname = \"x\"\n"),
    (".config/nextest.toml", ""),
    ("CMakeLists.txt", "project(x)\nenable_testing()\n"),
    ("pom.xml", "<project><artifactId>x</artifactId></project>"),
    ("build.gradle", "plugins { id 'java' }\n"),
    ("settings.gradle", "rootProject.name = 'x'\n"),
    ("tests/__init__.py", ""),
    ("tests/test_a.py", "import unittest\n\nclass A(unittest.TestCase):\n    pass\n"),
    // Flows named in the golden consoles and reports.
    (".maestro/greeting.yaml", "appId: x\nname: Greeting (in English)\n---\n- launchApp\n"),
    (".maestro/login.yaml", "appId: x\nname: Log in\n---\n- launchApp\n"),
    (".maestro/search.yaml", "appId: x\n---\n- launchApp\n"),
    ("playwright.config.ts", "export default {}\n"),
    ("cypress.config.js", "module.exports = {}\n"),
    ("cypress/e2e/a.cy.js", ""),
    ("a.test.js", ""),
    ("spec/a_spec.rb", ""),
    ("phpunit.xml", "<phpunit/>\n"),
    ("src/test/java/com/example/ATest.java", ""),
];

/// Variants of the workspace: scripts for `npm test`, and a Python project with or without pytest settings.
const SCRIPTS: &[&str] = &["jest", "mocha", "vitest run", "node --test", "playwright test", "cypress run"];
const SETTINGS: [(&str, &str); 2] = [("pyproject.toml", "[tool.pytest.ini_options]\n"), ("setup.py", "")];

/// Workspaces; every framework detects a project in at least one of them.
fn trees() -> impl Iterator<Item = FileTree> {
    SCRIPTS.iter().flat_map(|script| {
        SETTINGS.map(|settings| {
            let mut tree = FileTree::default();
            FILES.iter().copied().chain([settings]).for_each(|(path, content)| tree.add_with_content(path, content));
            tree.add_with_content("package.json", format!(r#"{{"scripts":{{"test":"{script}"}}}}"#));
            tree
        })
    })
}

/// Returns a plan of the framework and a parser for its output.
pub fn parser(name: &str, listing: bool) -> (Plan, Box<dyn Parser>) {
    let want = want(&Selection::All);
    let Some(framework) = framework(name) else {
        return (custom::plan(&["make".to_owned()], want.scratch, None), custom::parser(WORKSPACE));
    };
    let planned = trees().find_map(|tree| {
        let projects = framework.detect(&tree);
        let plan = if listing { Framework::plan_listing } else { Framework::plan };
        (!projects.is_empty()).then(|| plan(framework, &projects, &tree, &want).expect("a plan of one project"))
    });
    let plan = planned.unwrap_or_else(|| panic!("{name} detects no project in any tree of subject::trees"));
    let parser = if listing { framework.listing_parser(&plan, &want) } else { framework.parser(&plan, &want) };
    (plan, parser)
}
