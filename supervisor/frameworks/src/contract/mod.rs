//! The traits that every adapter implements, and the types that adapters exchange with the supervisor.

mod file_tree;
mod framework;
mod manifest;
mod parser;
mod plan;
mod project;
mod stack_dump;
mod test_scope;
mod test_selection;
mod toolchain;
mod unscanned;

pub use file_tree::FileTree;
pub use framework::Framework;
pub(crate) use framework::split_node_id;
pub use manifest::{
    DefaultConcurrency, FixedChance, Manifest, OptionSupport, OrderSupport, ParallelSupport, RerunNames,
};
pub use parser::{CoverageHarvest, Parser, StreamSummary};
pub use plan::{ARTIFACTS, InjectedFile, LONG_WALL_MS, Plan, PlanError, PlanRequest, REPORT, Step, ToolchainSources};
pub use project::Project;
pub(crate) use project::{innermost_project, owns_source};
pub use stack_dump::{StackDump, StackOutput, StackPrinter, StackRequest, StackSource};
pub use test_scope::{
    EVERYTHING, NameScope, SCOPE_CHARS_MAX, SCOPE_ENTRIES_MAX, ScopeError, ScopeGlobs, ScopeSupport, TestScope,
};
pub(crate) use test_selection::{TestSelection, outside, owner_of, path_of};
pub use toolchain::{
    DownloadAccess, Environments, HostDownloads, HostPath, IgnoredDirs, Probe, ReservedVariables, RunCondition,
    RunVariable, ToolHome, Toolchain,
};
pub(crate) use unscanned::UNSCANNED_MAX;
pub use unscanned::{FrameworkSet, UnscannedPath, UnscannedReason};
