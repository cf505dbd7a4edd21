//! Everything that a selection depends on.

use super::baseline::Baseline;
use super::snapshot::{ChangedFile, Snapshot};
use crate::coverage::CoverageIndex;
use crate::failure::RerunPlan;
use crate::request::RunRequest;
use std::collections::BTreeMap;

/// Everything that a selection depends on.
pub struct SelectionInput<'a> {
    /// The state that the workspace is compared with, in words.
    pub since: String,
    /// What changed since then.
    pub changes: Vec<ChangedFile>,
    /// Results of the tests, and the text that they are of.
    pub baseline: &'a Baseline,
    /// Lines that the tests executed.
    pub index: &'a CoverageIndex,
    /// What failed last time.
    pub failures: RerunPlan,
    /// The settings that the tests would run with.
    pub settings: &'a RunRequest,
    /// The files now.
    pub now: &'a Snapshot,
    /// The text of the sources for which [`Ecosystem::is_read`] holds, by path.
    pub sources: &'a BTreeMap<String, String>,
}
