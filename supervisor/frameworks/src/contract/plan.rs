//! A plan: the commands of a run, the files they need, and the request they are made from.

use super::{StackRequest, TestScope};
use proctor_core::isolation::Network;
use proctor_core::request::Selection;
use proctor_core::test_order::TestOrder;
use std::collections::BTreeMap;
use thiserror::Error;

/// Directory below scratch for the files that runners leave: for proctor, in one directory per framework, and for the caller, in
/// [`ARTIFACTS_DIRECTORY`](proctor_core::artifact::ARTIFACTS_DIRECTORY). The caller's do not go to
/// [`Parser::files`](crate::Parser::files) and [`Framework::ingest_coverage`](crate::Framework::ingest_coverage).
pub const ARTIFACTS: &str = "artifacts";

/// Wall time of a run that builds a whole project before the first test, or drives a browser or a device: 15 minutes.
pub const LONG_WALL_MS: u64 = 900_000;

/// Path of the report FIFO of a run with [`Plan::report`], below the scratch directory.
pub const REPORT: &str = "report";

/// What an adapter needs to plan a run.
#[derive(Debug, Clone)]
pub struct PlanRequest<'a> {
    /// The tests to run. Never [`Selection::LastFailed`] or [`Selection::Named`]: session and frameworks have resolved them.
    pub selection: &'a Selection,
    /// Which tests a run of all tests includes; everything for any other selection.
    pub scope: &'a TestScope,
    /// Whether to measure which tests execute which lines.
    pub is_measured: bool,
    /// Whether measuring may use a tracer, which tests may notice.
    pub may_trace: bool,
    /// Requested number of tests that run at the same time within one package.
    pub parallel: Option<u32>,
    /// The order of the tests: one that the manifest's [`OrderSupport`](crate::OrderSupport) has.
    pub order: TestOrder,
    /// Whether to stop at the first failure, for runners with such an option.
    pub stop_at_first_failure: bool,
    /// Whether the run will have a network.
    pub network: Network,
    /// Absolute path of the workspace inside the sandbox, without a trailing slash.
    pub workspace: &'a str,
    /// Absolute path of the scratch directory inside the sandbox, without a trailing slash.
    pub scratch: &'a str,
    /// Absolute path of a directory for build caches, which outlives the run.
    pub cache: &'a str,
    /// Random word that no earlier run knew. It goes into injected files of which a tool caches a compiled form by their content.
    pub nonce: &'a str,
    /// Sources of the toolchain that the run will find; `None` if they are not known.
    pub toolchain_sources: Option<&'a ToolchainSources>,
}

/// Sources of an installed toolchain, as [`Toolchain::sources`](crate::Toolchain::sources) names them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolchainSources {
    /// Absolute path of the installation.
    pub root: String,
    /// Text by path below `root`, without the files that cannot be read.
    pub files: BTreeMap<&'static str, String>,
}

#[cfg(test)]
impl<'a> PlanRequest<'a> {
    /// A request for `selection` with short paths and no options.
    pub(crate) const fn plain(selection: &'a Selection) -> PlanRequest<'a> {
        PlanRequest {
            selection,
            scope: &crate::contract::EVERYTHING,
            is_measured: false,
            may_trace: false,
            parallel: None,
            order: TestOrder::Project,
            stop_at_first_failure: false,
            network: Network::None,
            workspace: "/w",
            scratch: "/s",
            cache: "/c",
            nonce: "n",
            toolchain_sources: None,
        }
    }
}

/// The commands of a run and the files they need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Commands, run one after the other.
    pub steps: Vec<Step>,
    /// For each command how its processes are asked for their stacks, see [`StackDump`](crate::StackDump).
    pub stack_requests: Vec<Option<StackRequest>>,
    /// Files to write below the scratch directory before the run.
    pub files: Vec<InjectedFile>,
    /// Empty directories to create below the scratch directory before the run.
    pub dirs: Vec<String>,
    /// Whether the files below [`ARTIFACTS`] go to [`Parser::files`](crate::Parser::files) and
    /// [`Framework::ingest_coverage`](crate::Framework::ingest_coverage).
    pub artifacts: bool,
    /// Whether the runner writes to the FIFO [`REPORT`], which [`Parser::report`](crate::Parser::report) reads.
    pub report: bool,
    /// Whether test processes list tests that are to run alone when the run is over.
    pub alone: bool,
    /// Sentences for the report, such as why coverage is not measured.
    pub notes: Vec<String>,
}

/// One command of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Candidates; the first that exists is executed: a name, which the supervisor looks up on PATH, a path relative to `dir`
    /// (`.venv/bin/python`), or an absolute path. If none exists, the error names the last.
    pub programs: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Working directory relative to the workspace, empty for the root.
    pub dir: String,
    /// Variables on top of the allow-listed environment. Requests cannot override these.
    pub env: BTreeMap<String, String>,
}

/// A file of proctor's own that a plan brings into the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFile {
    /// Path below the scratch directory.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether the file gets the execute permission.
    pub executable: bool,
}

/// Why no command can be planned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A file of the request is in no project of this framework.
    #[error("{file} is in no {framework} project of this workspace")]
    FileOutsideProject {
        /// The file, relative to the workspace.
        file: String,
        /// The framework's name.
        framework: &'static str,
    },
    /// The framework does not support an option.
    #[error("{option} has no meaning for {framework}")]
    NotApplicable {
        /// The option.
        option: &'static str,
        /// The framework's name.
        framework: &'static str,
    },
    /// The framework cannot apply an entry of the project file's `patterns` or `exclude`.
    #[error(
        "the project file's {key} has `{entry}`, and {framework} cannot select {what}: leave the entry out, or select in the \
         runner's own configuration"
    )]
    ScopeNotApplicable {
        /// The list.
        key: &'static str,
        /// The entry.
        entry: String,
        /// What the entry matches.
        what: &'static str,
        /// The framework's name.
        framework: &'static str,
    },
    /// The project file's `patterns` or `exclude` part a package, which the framework runs whole.
    #[error(
        "the project file's patterns and exclude select some test files of {package} and not others, and {framework} runs \
         whole packages: select all of its files or none, or select by names of tests"
    )]
    ScopeSplitsPackage {
        /// The package's directory, relative to the workspace.
        package: String,
        /// The framework's name.
        framework: &'static str,
    },
    /// The project file's `patterns` or `exclude` make an expression beyond the bound of its compiled size.
    #[error(
        "the project file's patterns and exclude are too many or too long: select by fewer globs, or by directories"
    )]
    ScopeTooLarge,
    /// The project file's `patterns` and `exclude` leave none of the framework's packages.
    #[error("the project file's patterns and exclude leave no {framework} package of this workspace")]
    ScopeLeavesNothing {
        /// The framework's name.
        framework: &'static str,
    },
    /// More commands than a run may have.
    #[error(
        "{steps} commands are needed (one per module or package), at most {max} in one run: \
         run fewer at a time, by file or directory"
    )]
    TooManySteps {
        /// Number of commands needed.
        steps: usize,
        /// Most commands of one run.
        max: usize,
    },
}
