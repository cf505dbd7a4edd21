//! What every adapter offers: detect, plan, parse, ingest. Must not know any framework.

use crate::contract::FileTree;
use crate::contract::{Project, owns_source};
use proctor_core::artifact::ArtifactKind;
use proctor_core::coverage::CoverageMeasurement;
use proctor_core::event::RunnerEvent;
use proctor_core::isolation::Network;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::{BrowserOptions, CoverageMode, RerunTarget, Selection};
use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A test framework.
pub trait Framework: Send + Sync {
    /// Its name in requests and reports: `go`.
    fn name(&self) -> &'static str;

    /// The proof without which no run of it is green, as one sentence: what the runner has to have said, with which counts. Its
    /// parser sees to it ([`StreamSummary::proof`]).
    fn proof(&self) -> &'static str;

    /// Names of files whose content detection reads (`go.mod`). The edge puts them into the tree.
    fn markers(&self) -> &'static [&'static str];

    /// Whether detection reads the content of the file at this path too, where a name alone does not tell.
    fn is_marker_path(&self, _path: &str) -> bool {
        false
    }

    /// Names of directories that its tool fills beside a marker (`target`): nobody edits what is there.
    fn output_dirs(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its projects are recognised by, for whoever asks for it where there is none.
    fn describe_markers(&self) -> String {
        self.markers().join(", ")
    }

    /// The same, with what this workspace has in its place.
    fn describe_markers_in(&self, _tree: &FileTree) -> String {
        self.describe_markers()
    }

    /// Extensions of its source files, without the dot.
    fn extensions(&self) -> &'static [&'static str];

    /// The projects of this framework in the tree, sorted by directory.
    fn detect(&self, tree: &FileTree) -> Vec<Project>;

    /// The same where it is asked for by name, which is a sign of its own.
    fn detect_explicit(&self, tree: &FileTree) -> Vec<Project> {
        self.detect(tree)
    }

    /// Milliseconds of wall time for a run that asks for none, unless [`Limits::DEFAULT`] will do.
    ///
    /// [`Limits::DEFAULT`]: proctor_core::limits::Limits::DEFAULT
    fn default_wall_ms(&self) -> Option<u64> {
        None
    }

    /// Whether it is the one for this project when no framework is asked for by name: several can run the same tests.
    fn is_default_for(&self, _tree: &FileTree, _project: &Project) -> bool {
        true
    }

    /// Whether a run of the `outer` project is one of the `inner` project below it as well: a workspace and its member.
    fn includes(&self, _tree: &FileTree, _outer: &Project, _inner: &Project) -> bool {
        false
    }

    /// Whether a run of the `outer` project has the tests of the `inner` one below it among its own, with its own settings.
    fn collects_tests_of(&self, _tree: &FileTree, _outer: &Project, _inner: &Project) -> bool {
        false
    }

    /// The file whose test script starts it in this project. Frameworks that one file starts are run together.
    fn test_script(&self, _tree: &FileTree, _project: &Project) -> Option<String> {
        None
    }

    /// Whether it runs what other frameworks leave: it never stands against one, only beside those that the same file starts.
    fn is_fallback(&self) -> bool {
        false
    }

    /// Whether it can run the tests of some files, or those that a filter picks.
    fn supports_selection(&self) -> bool {
        true
    }

    /// What these projects lack that a build makes, in sentences for a run in which something could not be loaded.
    fn missing_build_outputs(&self, _tree: &FileTree, _projects: &[Project]) -> Vec<String> {
        Vec::new()
    }

    /// The commands that run the selected tests.
    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError>;

    /// Changes the commands of a run so that they drive the browser that is asked for. What drives none has nothing to change.
    fn apply_browser_options(
        &self,
        _tree: &FileTree,
        _plan: &mut Plan,
        option: &'static str,
        _asked: BrowserOptions,
    ) -> Result<(), PlanError> {
        Err(PlanError::NotApplicable { option, framework: self.name() })
    }

    /// The commands that list tests without running them; their output goes to [`Framework::listing_parser`].
    fn plan_listing(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>)
    -> Result<Plan, PlanError>;

    /// Whether one of its projects has the package of `target`. Packages are files, unless an adapter says otherwise.
    fn owns_target(&self, projects: &[Project], tree: &FileTree, target: &RerunTarget) -> bool {
        owns_source(self.extensions(), projects, tree, target.package())
    }

    /// Whether what does not build or load keeps other tests from running, of which the runner then tells nothing.
    fn build_error_hides_tests(&self) -> bool {
        true
    }

    /// A parser for one run of `plan`.
    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser>;

    /// A parser for one listing: its `TestStarted` events are the tests, its collectors the errors.
    fn listing_parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        self.parser(plan, request)
    }

    /// What the files that the run left in its artefact directory say about coverage.
    ///
    /// `finished` names the tests that finished, by package; a package that is not in it completed none. Nothing, for a
    /// framework whose coverage is not measured.
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

/// What an adapter has to know to plan a run.
#[derive(Debug, Clone)]
pub struct PlanRequest<'a> {
    /// Which tests. Never [`Selection::LastFailed`]: the session has resolved it.
    pub selection: &'a Selection,
    /// Whether to measure coverage.
    pub coverage: CoverageMode,
    /// Tests at the same time within one package, if asked for.
    pub parallel: Option<u32>,
    /// Whether the run will have a network.
    pub network: Network,
    /// Absolute path of the workspace inside the sandbox, without a trailing slash.
    pub workspace: &'a str,
    /// Absolute path of the scratch directory inside the sandbox, without a trailing slash.
    pub scratch: &'a str,
    /// Absolute path of a directory that outlives the run, for build caches.
    pub cache: &'a str,
    /// Word that no earlier run can have known, for files of ours that a tool keeps a compiled form of by their content.
    pub nonce: &'a str,
}

#[cfg(test)]
impl<'a> PlanRequest<'a> {
    /// A run of `selection` at places with short names, as plain as can be.
    pub(crate) const fn plain(selection: &'a Selection) -> PlanRequest<'a> {
        PlanRequest {
            selection,
            coverage: CoverageMode::Off,
            parallel: None,
            network: Network::None,
            workspace: "/w",
            scratch: "/s",
            cache: "/c",
            nonce: "n",
        }
    }
}

/// The commands of a run and what they bring along.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Run one after the other.
    pub steps: Vec<Step>,
    /// Files that the run finds below its scratch directory.
    pub files: Vec<InjectedFile>,
    /// Directories that the run finds below its scratch directory, empty.
    pub dirs: Vec<String>,
    /// Whether the files below [`ARTIFACTS`] go to [`Parser::files`] and [`Framework::ingest_coverage`].
    pub artifacts: bool,
    /// Whether the runner speaks through the report, the FIFO that [`REPORT`] names, to [`Parser::report`].
    pub report: bool,
    /// Sentences for the report, such as why coverage is not measured.
    pub notes: Vec<String>,
}

/// Directory below scratch in which runners leave files for us, each framework in a directory of its own, and for the caller
/// ([`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY)), which are not handed to [`Parser::files`] and [`Framework::ingest_coverage`].
pub const ARTIFACTS: &str = "artifacts";

/// The wall time of a run that builds a whole project before the first test, or drives a browser or a device: 15 minutes.
pub const LONG_WALL_MS: u64 = 900_000;

/// Where a run with [`Plan::report`] finds its FIFO: below the scratch directory.
pub const REPORT: &str = "report";

/// One command of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The first of these that is there is executed: names, looked up on PATH by the edge, paths relative to `dir`
    /// (`.venv/bin/python`), or absolute paths. The last is the one that is told when none is there.
    pub programs: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Working directory relative to the workspace, empty for the root.
    pub dir: String,
    /// Variables on top of the allow-listed environment. Requests cannot override these.
    pub env: BTreeMap<String, String>,
}

/// A file of ours that a plan brings along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFile {
    /// Path below the scratch directory.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// Reads a runner's output as it comes. Memory stays bounded whatever the runner writes, and nothing panics.
pub trait Parser: Send {
    /// A step begins.
    fn step_started(&mut self, step: usize);

    /// Bytes of stdout, cut anywhere.
    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>);

    /// Bytes of stderr, cut anywhere.
    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>);

    /// Bytes of the report, cut anywhere. They may come before or after what was written to the streams at the same time.
    fn report(&mut self, _bytes: &[u8], _events: &mut Vec<RunnerEvent>) {}

    /// A step ended, or was cut off by proctor (`killed`). Tests that began and did not end are finished as errors
    /// here, unless the run was killed: then they stay in [`Parser::running`].
    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>);

    /// The files that the run left in its artefact directory, by path, after its last step, also when it was killed.
    fn files(&mut self, _files: &[(String, Vec<u8>)], _events: &mut Vec<RunnerEvent>) {}

    /// Commands to run after the step that just ended, because of what it showed: after [`Parser::step_ended`], before
    /// the plan's next step, and not after a kill. They are reported through [`Parser::step_started`] with numbers that
    /// go on after the plan's own, in the order in which they were given out. Bounded by the number of plan steps.
    fn follow_up(&mut self) -> Vec<Step> {
        Vec::new()
    }

    /// Whether the runner said in the step that ended last that no test was selected: several exit with another status
    /// than 0 then.
    fn nothing_selected(&self) -> bool {
        false
    }

    /// What the file at `path` below [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY) is and which test left it, if the runner told.
    fn artifact_source(&self, _path: &str) -> Option<(ArtifactKind, TestId)> {
        None
    }

    /// How many tests both failed and passed in this run, each named in a note of [`Parser::summary`].
    fn flaky(&self) -> u64 {
        0
    }

    /// Tests that have begun and not ended, the longest running first.
    fn running(&self) -> Vec<TestId>;

    /// What the stream as a whole says, after the last step.
    fn summary(&self) -> StreamSummary;
}

/// What a parser knows about the stream as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamSummary {
    /// Whether the runner gives results test by test.
    pub structured: bool,
    /// What shows that the runner came to its end and told everything: missing unless a parser has seen it.
    pub proof: Proof,
    /// Whether the runner came to less than it was to run, for another reason, and did not say to what not.
    pub unreached: bool,
    /// Packages whose tests did not run because what they need was not built.
    pub not_built: Vec<String>,
    /// Whether the runner itself is not installed where its project looks for it (a module, a package).
    pub runner_missing: bool,
    /// Sentences for the report's evidence.
    pub notes: Vec<String>,
}

/// What was measured of coverage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CoverageHarvest {
    /// Sets of tests and what they executed.
    pub measured: Vec<CoverageMeasurement>,
    /// Why nothing or not everything was measured.
    pub notes: Vec<String>,
}

/// Why no command can be planned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A file of the request is in no project of this framework.
    #[error("{file} is in no {framework} project of this workspace")]
    FileOutsideProject {
        /// The file, relative to the workspace.
        file: String,
        /// The framework.
        framework: &'static str,
    },
    /// An option has no meaning for this framework.
    #[error("{option} has no meaning for {framework}")]
    NotApplicable {
        /// The option.
        option: &'static str,
        /// The framework.
        framework: &'static str,
    },
    /// More commands than a run may have.
    #[error(
        "{steps} commands are needed (one per module or package), at most {max} in one run: \
         run fewer at a time, by file or directory"
    )]
    TooManySteps {
        /// How many were needed.
        steps: usize,
        /// How many there may be.
        max: usize,
    },
}
