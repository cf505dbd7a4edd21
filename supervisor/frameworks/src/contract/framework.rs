//! The trait that every framework adapter implements: detect projects, plan commands, parse output, ingest coverage.

use crate::contract::{
    CoverageHarvest, FileTree, Manifest, Parser, Plan, PlanError, PlanRequest, Project, owns_source,
};
use crate::parsing::workspace_paths::join;
use proctor_core::request::{BrowserOptions, RerunTarget};
use proctor_core::test_case::TestId;
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};

/// A test framework: its manifest says what it is, the methods do the work.
pub trait Framework: Send + Sync {
    /// What it declares about itself.
    fn manifest(&self) -> &'static Manifest;

    /// Its name in requests and reports: `go`.
    fn name(&self) -> &'static str {
        self.manifest().name
    }

    /// Whether detection also reads the content of the file at this path, where the file name alone does not decide.
    fn is_marker_path(&self, _path: &str) -> bool {
        false
    }

    /// What projects are recognised by, for the error of a request that names this framework where no project is found.
    fn describe_markers(&self) -> String {
        self.manifest().markers.join(", ")
    }

    /// Like [`Framework::describe_markers`], with what this workspace has instead.
    fn describe_markers_in(&self, _tree: &FileTree) -> String {
        self.describe_markers()
    }

    /// The projects of this framework in the tree, sorted by directory.
    fn detect(&self, tree: &FileTree) -> Vec<Project>;

    /// The projects when the request names this framework, which counts as a marker of its own.
    fn detect_explicit(&self, tree: &FileTree) -> Vec<Project> {
        self.detect(tree)
    }

    /// Whether this framework runs the project when the request names no framework: several can run the same tests.
    fn is_default_for(&self, _tree: &FileTree, _project: &Project) -> bool {
        true
    }

    /// Whether a run of the project `outer` also runs the project `inner` below it: a workspace and its member.
    fn includes(&self, _tree: &FileTree, _outer: &Project, _inner: &Project) -> bool {
        false
    }

    /// Whether a run of the project `outer` collects the tests of `inner` below it as its own, with the settings of `outer`.
    fn collects_tests_of(&self, _tree: &FileTree, _outer: &Project, _inner: &Project) -> bool {
        false
    }

    /// The file whose test script starts this framework in the project. Frameworks that share this file run together.
    fn test_script(&self, _tree: &FileTree, _project: &Project) -> Option<String> {
        None
    }

    /// Build outputs that these projects lack, as sentences for a run in which a module could not be loaded.
    fn missing_build_outputs(&self, _tree: &FileTree, _projects: &[Project]) -> Vec<String> {
        Vec::new()
    }

    /// The commands that run the selected tests.
    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError>;

    /// Changes the commands of a run so that they drive the requested browser. Only called if the manifest's options have browsers.
    fn apply_browser_options(
        &self,
        _tree: &FileTree,
        _plan: &mut Plan,
        option: &'static str,
        _requested: BrowserOptions,
    ) -> Result<(), PlanError> {
        Err(PlanError::NotApplicable { option, framework: self.name() })
    }

    /// The commands that list tests without running them. [`Framework::listing_parser`] reads their output.
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>)
    -> Result<Plan, PlanError>;

    /// Whether one of the projects has this package. Packages are files, unless an adapter overrides this.
    fn owns_package(&self, projects: &[Project], tree: &FileTree, package: &str) -> bool {
        owns_source(self.manifest().extensions, projects, tree, package)
    }

    /// The targets with these names, in their order. A node id is a package and a test in it, or a whole package that could not be built
    /// or loaded; a test of any other name may be in every package.
    fn resolve_names(&self, projects: &[Project], tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        let is_package = |path: &str| tree.contains(path) && self.owns_package(projects, tree, path);
        let resolve = |name: &TestName| {
            let package = Some(join("", name.as_str())).filter(|path| is_package(path)).map(RerunTarget::Package);
            // Texts join package and name by `/`, which is behind no file's path.
            let separators = self.manifest().node_id_separator.into_iter().chain(["/"]);
            let test = || separators.into_iter().find_map(|separator| split_node_id(name, separator, is_package));
            package.or_else(test).unwrap_or_else(|| RerunTarget::Name(name.as_str().to_owned()))
        };
        names.iter().map(resolve).collect()
    }

    /// A parser for one run of `plan`.
    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser>;

    /// A parser for one listing: its `TestStarted` events are the tests, its collectors the errors.
    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        self.parser(plan, request)
    }

    /// Coverage from the files that the run left in its artifact directory; empty if this framework measures none.
    ///
    /// `finished` has the names of the finished tests by package. A package without an entry finished none.
    fn ingest_coverage(
        &self,
        _projects: &[Project],
        _workspace: &str,
        _artifacts: &[(String, Vec<u8>)],
        _finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        CoverageHarvest::default()
    }
}

/// The test of a node id: the shortest beginning that is a package, and the name behind the separator.
pub(crate) fn split_node_id(
    name: &TestName,
    separator: &str,
    is_package: impl Fn(&str) -> bool,
) -> Option<RerunTarget> {
    let node_id = name.as_str();
    let mut splits =
        node_id.match_indices(separator).map(|(at, _)| (join("", &node_id[..at]), &node_id[at + separator.len()..]));
    let (package, name) = splits.find(|(package, name)| !name.is_empty() && is_package(package))?;
    Some(RerunTarget::Test(TestId { package, name: name.to_owned() }))
}
