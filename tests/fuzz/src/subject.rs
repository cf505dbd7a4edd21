//! Parsers under test: one for every framework, selected by name, and one for custom commands.

use proctor_core::check::CheckRequest;
use proctor_core::isolation::Network;
use proctor_core::request::Selection;
use proctor_frameworks::checks::{CHECKERS, CheckParser, choose};
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
        scope: &proctor_frameworks::EVERYTHING,
        is_measured: true,
        may_trace: false,
        parallel: None,
        order: proctor_core::test_order::TestOrder::Project,
        stop_at_first_failure: false,
        network: Network::None,
        workspace: WORKSPACE,
        scratch: "/scratch",
        cache: "/cache",
        nonce: "n",
        toolchain_sources: None,
    }
}

/// Returns the framework with this name.
pub fn framework(name: &str) -> Option<&'static dyn Framework> {
    FRAMEWORKS.iter().copied().find(|framework| framework.name() == name)
}

/// The workspace with the framework's sample.
fn tree(framework: &dyn Framework) -> FileTree {
    let mut tree = FileTree::default();
    framework.manifest().sample.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    tree
}

/// Returns the parser of a check with one command of a checker, by its number in [`CHECKERS`].
pub fn check_parser(number: usize) -> CheckParser {
    let manifest = CHECKERS[number % CHECKERS.len()].manifest();
    let mut tree = FileTree::default();
    manifest.sample.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    let request = CheckRequest { checkers: vec![manifest.name.to_owned()], ..CheckRequest::default() };
    let choice = choose(&tree, &request).expect("the sample selects the checker");
    choice.plan(&tree, &want(&Selection::All), &|_| true).1
}

/// Returns a plan of the framework and a parser for its output.
pub fn parser(name: &str, listing: bool) -> (Plan, Box<dyn Parser>) {
    let want = want(&Selection::All);
    let Some(framework) = framework(name) else {
        return (custom::plan(&["make".to_owned()], want.scratch, None), custom::parser(WORKSPACE));
    };
    let tree = tree(framework);
    let projects = framework.detect(&tree);
    assert!(!projects.is_empty(), "{name} detects no project in its sample");
    let planned =
        if listing { framework.plan_listing(&projects, &tree, &want) } else { framework.plan(&projects, &tree, &want) };
    let plan = planned.expect("a plan of one project");
    let parser = if listing { framework.listing_parser(&plan, &want) } else { framework.parser(&plan, &want) };
    (plan, parser)
}
