//! The traits that every adapter implements, and the types that adapters exchange with the supervisor.

mod file_tree;
mod framework;
mod project;
mod unscanned;

pub use file_tree::FileTree;
pub use framework::*;
pub use project::Project;
pub(crate) use project::{innermost_project, owns_source};
pub(crate) use unscanned::UNSCANNED_MAX;
pub use unscanned::{FrameworkSet, UnscannedPath, UnscannedReason};
