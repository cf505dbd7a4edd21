//! The coverage index: which tests execute this line? Must not know how coverage is measured or where files are.
//!
//! The unit of the index is a set of tests that were measured together. A language that can measure test by test gives
//! sets of one; Go's own profile gives one set per package. A partial run replaces only the tests that it completed:
//! they leave the sets they were in and form new ones.

use serde::{Deserialize, Serialize};

/// What a covering entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The test itself executed the line.
    Test,
    /// Some test of the same file did.
    File,
    /// Some test of the same package did.
    Package,
}

/// Lines from `first` to `last`, both included, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LineSpan {
    /// First line.
    pub first: u32,
    /// Last line, not before `first`.
    pub last: u32,
}

/// What one set of tests executed, as an adapter reads it from a runner's coverage files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The package whose tests these are.
    pub package: String,
    /// Names of the tests that were measured together.
    pub tests: Vec<String>,
    /// What naming one of them means.
    pub attribution: Attribution,
    /// Executed lines by file, relative to the workspace.
    pub files: Vec<(String, Vec<LineSpan>)>,
}
